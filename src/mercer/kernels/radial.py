"""Kernels that are a function of one invariant of a pair of points."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from mercer.kernels.identity import hashable, law_parameters
from mercer.kernels.realised import RealisedKernel
from mercer.profiles import Profile
from mercer.spaces import RadialSpace
from mercer.spaces.base import Embedding
from mercer.spaces.realisations.base import Radial, Slope


class RadialKernel(RealisedKernel, Embedding):
    """Base class of kernels ``k(x, y) = s(x) s(y) f(invariant of x and y)``.

    A subclass compiles the function to a profile (:meth:`_compile`); Gram matrices, diagonals, gradients
    and products with vectors follow, for dense, sparse, torch and other arrays.
    """

    space: RadialSpace
    #: Parameters that change the embedding of points, but not the profile.
    _embedding_parameters: tuple[str, ...] = ()

    @abstractmethod
    def _compile(self, n: int) -> Profile:
        """Compile the function for rows with n columns."""

    def _compile_gradient(self, n: int, name: str) -> Profile:
        """Compile the derivative with respect to the logarithm of a continuous hyperparameter."""
        raise ValueError(f"{type(self).__name__} has no continuous hyperparameter {name!r}")

    def embed(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        return self.space.embed(X, Y)

    @property
    def embedding(self) -> Embedding:
        """See :class:`Kernel`; the kernel itself, unless a subclass names another."""
        return self

    @property
    def embedding_key(self) -> Hashable:
        """See :class:`Kernel`; the space, unless the subclass overrides :meth:`embed`."""
        if self.embedding is not self:
            return self.embedding
        if type(self).embed is RadialKernel.embed:
            return self.space
        values = (hashable(getattr(self, name)) for name in self._embedding_parameters)
        return type(self).embed, self.space, *values

    @property
    def embeds_alike(self) -> bool:  # type: ignore[override]
        """See :class:`~mercer.spaces.base.Embedding`."""
        return self.space.embeds_alike

    @property
    def has_opposites(self) -> bool:  # type: ignore[override]
        """See :class:`~mercer.spaces.base.Embedding`."""
        return self.space.has_opposites

    @property
    def common_invariant(self) -> float | None:  # type: ignore[override]
        """See :class:`~mercer.spaces.base.Embedding`; unknown if the subclass has another invariant."""
        own = type(self).self_invariant is RadialKernel.self_invariant
        return self.space.common_invariant if own else None

    def self_invariant(self, X: Any) -> Any:
        known = self.common_invariant is not None
        return super().self_invariant(X) if known else self.space.self_invariant(X)

    def column_sums(self, X: Any, Y: Any, weights: Any) -> Any:
        """See :class:`~mercer.spaces.base.Embedding`; unknown if the subclass has another invariant."""
        own = type(self).embed is RadialKernel.embed
        return self.space.column_sums(X, Y, weights) if own else None

    def realise(self, n: int) -> Radial:
        return _OwnProfile(self, n)

    def slope(self, n: int, name: str) -> Slope:
        return Slope(name)


@dataclass(frozen=True)
class _Recipe:
    """A profile to be compiled, of a derivative if named; clones of a kernel have equal recipes."""

    identity: tuple[Any, ...]
    kernel: RadialKernel = field(compare=False)  # keeps alive what can be told by its address alone
    n: int
    name: str | None = None

    @classmethod
    def of(cls, kernel: RadialKernel, n: int, name: str | None = None) -> _Recipe:
        names = law_parameters(type(kernel), kernel._embedding_parameters)
        values = (hashable(getattr(kernel, each)) for each in names)
        return cls((type(kernel), *values), kernel, n, name)


@lru_cache(maxsize=256)
def _compiled(recipe: _Recipe) -> Profile:
    kernel, n, name = recipe.kernel, recipe.n, recipe.name
    kernel.validate()
    return kernel._compile(n) if name is None else kernel._compile_gradient(n, name)


class _OwnProfile(Radial):
    """The realisation of a :class:`RadialKernel`."""

    def __init__(self, kernel: RadialKernel, n: int) -> None:
        self.embedding = kernel.embedding
        self._kernel, self._n = kernel, n

    def profile(self) -> Profile:
        return _compiled(_Recipe.of(self._kernel, self._n))

    def slope_profile(self, slope: Slope) -> Profile:
        return _compiled(_Recipe.of(self._kernel, self._n, slope.name))
