"""Engines of arrays that keep to the array API, wherever they live."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from array_api_compat import array_namespace, device

from mercer._arrays import detached, in_main_memory, is_foreign
from mercer._memory import check_gram
from mercer.engine.base import PLAIN, Engine, GramOptions, Parameter
from mercer.profiles import Profile


class ArrayEngine(Engine):
    """Gram matrices by operations on whole arrays; a subclass evaluates the profile."""

    @abstractmethod
    def _values(self, w: Any, profile: Profile, parameters: Sequence[Parameter]) -> Any:
        """Values of the profile at an array of invariants."""

    def gram(self, L: Any, R: Any, profile: Profile, options: GramOptions = PLAIN) -> Any:
        """See :class:`Engine`."""
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
        """See :class:`Engine`."""
        values = self._values(w, profile, options.parameters)
        xp = array_namespace(values)
        if options.scales is not None:
            values = values * options.scales[0][:, None] * options.scales[1][None, :]
        if options.diagonal is not None:
            same = xp.eye(values.shape[0], dtype=xp.int8, device=device(values)) > 0
            values = xp.where(same, options.diagonal[:, None], values)
        return values if options.dtype is None else xp.astype(values, options.dtype, copy=False)


class ArrayApiEngine(ArrayEngine):
    """The engine of every library that keeps to the array API and has no engine of its own."""

    def accepts(self, array: Any) -> bool:
        """See :class:`Engine`."""
        return is_foreign(array)

    def _values(self, w: Any, profile: Profile, parameters: Sequence[Parameter]) -> Any:
        return profile.evaluate(w)
