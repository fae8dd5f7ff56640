"""Results of a fit as JSON and arrays, and back: only known kinds are made, and nothing is run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel

from mercer._npz import Npz

#: What fields of data classes may hold, by their annotation.
_TYPES: dict[Any, Any] = {
    "Array": np.ndarray,
    "NDArray": np.ndarray,
    "float": (float, int),
    "int": (int, np.integer),
    "bool": (bool, np.bool_),
    "str": str,
}
_PLAIN: dict[str, Any] = {"tuple": tuple, "list": list}


class Codec:
    """Writes and reads trees of numbers, text, arrays and data classes.

    Parameters
    ----------
    kinds : sequence of data classes
        Those that may occur; they are made from their fields.
    kernel : Kernel, optional
        A kernel in the tree is written as what tells it from this one, and a space as whether it is this
        one's.
    """

    def __init__(self, kinds: Sequence[type] = (), kernel: Any = None) -> None:
        self._kinds = {kind.__name__: kind for kind in kinds}
        self._kernel = kernel

    def write(self, file: BinaryIO, **parts: Any) -> None:
        """Write trees by name, as an NPZ file: the arrays in them by number, the rest as JSON."""
        arrays: list[NDArray[Any]] = []
        tree = json.dumps({name: self._frozen(part, arrays) for name, part in parts.items()})
        numbered = {str(number): array for number, array in enumerate(arrays)}
        np.savez(file, tree=np.frombuffer(tree.encode(), dtype=np.uint8), **numbered)  # type: ignore[arg-type]

    def open(self, file: BinaryIO) -> Frozen:
        """What :meth:`write` has written."""
        archive = Npz(file)
        return Frozen(self, json.loads(archive["tree"].tobytes()), archive)

    def _frozen(self, value: Any, arrays: list[NDArray[Any]]) -> Any:
        """A tree as JSON; what JSON has not is an object of one entry, which names its kind."""
        if isinstance(value, np.ndarray | np.generic) and value.dtype.kind != "O":
            arrays.append(np.asarray(value))
            return {"array" if isinstance(value, np.ndarray) else "scalar": len(arrays) - 1}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.ndarray) and value.ndim == 1:
            return {"objects": [self._frozen(one, arrays) for one in value]}
        if isinstance(value, tuple | list):
            return {type(value).__name__: [self._frozen(one, arrays) for one in value]}
        if isinstance(value, dict):
            return {"dict": {name: self._frozen(one, arrays) for name, one in value.items()}}
        kind: Any = type(value)
        name = kind.__name__
        if isinstance(value, Kernel) and kind is type(self._kernel):
            own = value.get_params(deep=False).items()
            plain = {key: one for key, one in own if not (callable(one) or key == "space")}
            return {"kernel": self._frozen(plain, arrays)}
        if self._kernel is not None and value == self._kernel.space:
            return {"space": name}
        known: Any = self._kinds.get(name)
        if known is kind:
            parts = {f.name: getattr(value, f.name) for f in fields(known)}
            return {name: self._frozen(parts, arrays)}
        raise ValueError(f"{name} is neither number nor text, and cannot be kept in a checkpoint")

    def thawed(self, tree: Any, arrays: Npz) -> Any:
        """The tree that was written."""
        if tree is None or isinstance(tree, bool | int | float | str):
            return tree
        ((kind, content),) = tree.items()
        if kind in ("array", "scalar"):
            found = arrays[str(int(content))]
            return found if kind == "array" else found[()]
        if kind in ("tuple", "list", "objects"):
            values = [self.thawed(one, arrays) for one in content]
            # One more: NumPy would make a matrix of sequences of one length.
            return _PLAIN[kind](values) if kind in _PLAIN else np.array([*values, None], object)[:-1]
        if kind == "space":
            return self._kernel.space
        parts = content if kind == "dict" else content["dict"]
        named = {str(name): self.thawed(one, arrays) for name, one in parts.items()}
        if kind == "dict":
            return named
        if kind == "kernel":
            return clone(self._kernel).set_params(**named)
        made: Any = self._kinds[kind]
        for field in fields(made):
            expected = _TYPES.get(field.type, self._kinds.get(str(field.type), object))
            if not isinstance(named[field.name], expected):
                raise ValueError(f"{field.name} of {kind} is of another type")
        return made(**named)


class Frozen:
    """Trees that were written, each to be made when it is asked for."""

    def __init__(self, codec: Codec, tree: Any, arrays: Npz) -> None:
        self._codec, self._tree, self._arrays = codec, tree, arrays

    def __getitem__(self, name: str) -> Any:
        return self._codec.thawed(self._tree[name], self._arrays)
