"""Engines of arrays that follow the array API, and of those that are borrowed as tensors."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from array_api_compat import array_namespace, device, is_array_api_obj, is_torch_array

from mercer._arrays import detached, in_main_memory, is_borrowed, is_foreign
from mercer._validation import check_gram
from mercer.engine.base import PLAIN, Engine, GramOptions, Parameter, engine_for
from mercer.profiles import Profile


class ArrayEngine(Engine):
    """Gram matrices by operations on whole arrays; a subclass evaluates the profile."""

    @abstractmethod
    def _values(self, w: Any, profile: Profile, parameters: Sequence[Parameter]) -> Any:
        """Values of the profile at an array of invariants."""

    def gram(self, L: Any, R: Any, profile: Profile, options: GramOptions = PLAIN) -> Any:
        xp = array_namespace(L, R)
        if in_main_memory(L):
            check_gram(L.shape[0], R.shape[0], 4 if L.dtype == xp.float32 else 8, 2)
        w, equal = L @ R.T, options.equal
        if equal is not None:
            # The value is exact, and derivatives are those of the product.
            known = detached(w)
            same = xp.asarray(equal.mask(w.shape), device=device(w)) > 0
            w = w + xp.where(same, equal.value - known, xp.zeros_like(known))
        return self.apply(w, profile, options)

    def apply(self, w: Any, profile: Profile, options: GramOptions = PLAIN) -> Any:
        values = self._values(w, profile, options.parameters)
        xp = array_namespace(values)
        if options.scales is not None:
            values = values * options.scales[0][:, None] * options.scales[1][None, :]
        if options.diagonal is not None:
            same = xp.eye(values.shape[0], dtype=xp.int8, device=device(values)) > 0
            values = xp.where(same, options.diagonal[:, None], values)
        return values if options.dtype is None else xp.astype(values, options.dtype, copy=False)


class ArrayApiEngine(ArrayEngine):
    """The engine of every library that follows the array API and has no engine of its own."""

    def accepts(self, array: Any) -> bool:
        return is_foreign(array)

    def _values(self, w: Any, profile: Profile, parameters: Sequence[Parameter]) -> Any:
        return profile.evaluate(w)


class BorrowingEngine(Engine):
    """The engine of arrays on CUDA devices that support DLPack, such as CuPy's and JAX's.

    They are used as tensors in the same memory, and results are returned as arrays of their library.
    """

    def accepts(self, array: Any) -> bool:
        return is_borrowed(array)

    def borrow(self, X: Any) -> Any:
        import torch

        return torch.from_dlpack(X)

    def resident(self, X: Any) -> Any:
        return self.borrow(X)

    def like_rows(self, values: Any, X: Any) -> Any:
        """See :class:`Engine`; a tensor if the library of the rows takes none back."""
        tensor = engine_for(self.borrow(X)).like_rows(values, self.borrow(X))
        take = _taker(X)
        return take(detached(tensor)) if is_torch_array(tensor) and take is not None else tensor

    def gram(self, L: Any, R: Any, profile: Profile, options: GramOptions = PLAIN) -> Any:
        tensor = self.borrow(L)
        return self.like_rows(engine_for(tensor).gram(tensor, self.borrow(R), profile, options), L)

    def apply(self, w: Any, profile: Profile, options: GramOptions = PLAIN) -> Any:
        tensor = self.borrow(w)
        return self.like_rows(engine_for(tensor).apply(tensor, profile, options), w)


def _taker(X: Any) -> Any:
    """The function of an array's library that takes arrays of others; None if it has none."""
    if is_array_api_obj(X):
        return array_namespace(X).from_dlpack
    parts = type(X).__module__.split(".")
    modules = (sys.modules.get(".".join(parts[:k])) for k in range(len(parts), 0, -1))
    takers = (getattr(module, "from_dlpack", None) for module in modules)
    return next((taker for taker in takers if taker is not None), None)
