"""Intermediate results of a fit on disk, from which an interrupted fit resumes."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel

from mercer._files import DAMAGE, atomic_write, one_line, seal, unsealed
from mercer._npz import Npz

#: Seconds between two writes.
PERIOD = 30.0
#: Version of what is written.
FORMAT = 1
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


class Checkpoint:
    """Results of a fit by name, written to a file now and then.

    The file also holds a description of the fit.  Another fit does not use its results but raises an
    error.  Writes are atomic: the file is always complete.  It holds arrays and JSON, and ends with a
    checksum; a file that was changed, or is something else, is refused.

    Parameters
    ----------
    path : path, optional
        None keeps results in memory only.
    description : dict of str
        Says what is fitted, part by part.
    kinds, kernel
        See :class:`Codec`.
    """

    def __init__(
        self,
        path: Any = None,
        description: dict[str, str] | None = None,
        kinds: Sequence[type] = (),
        kernel: Any = None,
    ) -> None:
        self.path = None if path is None else Path(path)
        self._description = description or {}
        self._codec = Codec(kinds, kernel)
        self._told = False
        self.results: dict[str, Any] = {}
        if self.path is not None and self.path.exists():
            self.results = self._load(self.path)
        self._write()  # to fail before the work if the folder cannot be written

    def _load(self, path: Path) -> dict[str, Any]:
        try:
            with unsealed(path, "checkpoint", FORMAT) as file:
                part = self._codec.read(file)
                other = self._other_part(part("description"))
                results = {} if other else part("results")
            if not isinstance(results, dict):
                raise TypeError("it holds no results")
        except DAMAGE as error:
            raise ValueError(
                f"{path} is not a checkpoint of a fit: {one_line(error)}; give another path"
            ) from None
        if other:
            raise ValueError(
                f"the checkpoint {path} belongs to a fit with other {other}; delete it, or give another "
                "path"
            )
        return results

    def _other_part(self, description: dict[str, Any]) -> str | None:
        """The first part of the description that differs."""
        parts = self._description.items()
        return next((part for part, text in parts if description.get(part) != text), None)

    def _write(self) -> None:
        if self.path is not None:
            with atomic_write(self.path) as file:
                self._codec.write(file, description=self._description, results=self.results)  # type: ignore[arg-type]
                seal(file, "checkpoint", FORMAT)
        self._saved = time.monotonic()

    def save(self) -> None:
        """Write everything; if that fails, the file is unchanged and the fit continues."""
        try:
            self._write()
        except (OSError, ValueError) as error:  # a disk without room, a label of an odd kind
            self._saved = time.monotonic()
            self._tell(f"the checkpoint {self.path} cannot be written and stays as it was: {error}")

    def _tell(self, text: str) -> None:
        if not self._told:
            warnings.warn(text, stacklevel=4)
        self._told = True

    def keep(self, name: str, value: Any) -> None:
        """Store a result, and write if it is time."""
        self.results[name] = value
        if time.monotonic() - self._saved >= PERIOD:
            self.save()

    def remove(self) -> None:
        """Delete the file: the fit is done."""
        if self.path is not None:
            try:
                self.path.unlink(missing_ok=True)
            except OSError as error:
                self._told = False
                self._tell(f"the fit is done, and its checkpoint cannot be deleted: {error}")


class Codec:
    """Writes and reads trees of numbers, text, arrays and data classes.

    Parameters
    ----------
    kinds : sequence of data classes
        Those that may occur; they are made from their fields.
    kernel : Kernel, optional
        A kernel in the tree is written as its differences from this one, and a space as a reference to
        the space of this kernel, or to that of its tables.
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

    def read(self, file: BinaryIO) -> Callable[[str], Any]:
        """Read what :meth:`write` wrote: a function from names to trees."""
        archive = Npz(file)
        trees = json.loads(archive["tree"].tobytes())
        return lambda name: self._thawed(trees[name], archive)

    def _frozen(self, value: Any, arrays: list[NDArray[Any]]) -> Any:
        """A tree as JSON; types that JSON lacks are objects with one entry, which names the type."""
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
        if self._kernel is not None and value == self._kernel.space.of_table():
            return {"table": name}
        known: Any = self._kinds.get(name)
        if known is kind:
            parts = {f.name: getattr(value, f.name) for f in fields(known)}
            return {name: self._frozen(parts, arrays)}
        raise ValueError(f"{name} is neither number nor text, and cannot be kept in a checkpoint")

    def _thawed(self, tree: Any, arrays: Npz) -> Any:
        """The tree that was written."""
        if tree is None or isinstance(tree, bool | int | float | str):
            return tree
        ((kind, content),) = tree.items()
        if kind in ("array", "scalar"):
            found = arrays[str(int(content))]
            return found if kind == "array" else found[()]
        if kind in ("tuple", "list", "objects"):
            values = [self._thawed(one, arrays) for one in content]
            # The extra None keeps NumPy from making a matrix of sequences of equal length.
            return _PLAIN[kind](values) if kind in _PLAIN else np.array([*values, None], object)[:-1]
        if kind == "space":
            return self._kernel.space
        if kind == "table":
            return self._kernel.space.of_table()
        parts = content if kind == "dict" else content["dict"]
        named = {str(name): self._thawed(one, arrays) for name, one in parts.items()}
        if kind == "dict":
            return named
        if kind == "kernel":
            return clone(self._kernel).set_params(**named)
        made: Any = self._kinds[kind]
        for field in fields(made):
            expected = _TYPES.get(field.type, self._kinds.get(str(field.type), object))
            if not isinstance(named[field.name], expected):
                raise ValueError(f"{field.name} of {kind} has the wrong type")
        return made(**named)
