"""Kernels that a space realises, and their diffusion time."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, TypeVar, cast

import numpy as np
from array_api_compat import array_namespace

from mercer._arrays import count, is_watched, number, on_cpu
from mercer._memory import check_room
from mercer._validation import check_vector, check_weights, refuse_foreign
from mercer.contributions import Contributions
from mercer.engine import engine_for, joins
from mercer.engine.base import Products
from mercer.engine.matrix_functions import Expansion
from mercer.kernels import scale
from mercer.kernels.base import Kernel
from mercer.kernels.identity import hashable, law_parameters
from mercer.profiles import Profile
from mercer.spaces.base import Space
from mercer.spaces.realisations.base import FeatureMap, Moving, Realisation, Slope

T = TypeVar("T")


@dataclass(frozen=True)
class _Recipe:
    """A computation that can be cached: equal recipes give equal results."""

    identity: tuple[Any, ...]  # objects that cannot be hashed by address; ``compute`` keeps them alive
    compute: Callable[[], Any] = field(compare=False)


@lru_cache(maxsize=256)
def _result(recipe: _Recipe) -> Any:
    return recipe.compute()


class RealisedKernel(Kernel):
    """A kernel between points of a space, computed by a realisation (:meth:`realise`)."""

    space: Space
    #: Parameters that change the embedding of points, but not the profile.
    _embedding_parameters: tuple[str, ...] = ()

    @abstractmethod
    def realise(self, n: int) -> Realisation:
        """The kernel between checked points with n columns."""

    @abstractmethod
    def slope(self, n: int, name: str) -> Slope:
        """The derivative with respect to the logarithm of a continuous hyperparameter."""

    @property
    def point_space(self) -> Space:
        return self.space

    @property
    def requires_vector_input(self) -> bool:
        """Whether points are rows of numbers."""
        return self.space.requires_vector_input

    def isometry(self, rng: np.random.Generator) -> Callable[[Any], Any] | None:
        return self.space.isometry(rng)

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        if not eval_gradient:
            return self.multiple(1.0, X, Y)
        if Y is not None:
            raise ValueError("eval_gradient is for k(X) alone: Y must be None")
        self.validate()
        P = self.space.check(X)
        values = self._with_gradient(P, self.space.columns(P))
        return engine_for(X).like_rows(self.space.in_precision_of(X, values), X)

    def multiple(self, factor: float, X: Any, Y: Any = None) -> Any:
        self.validate()
        P, Q = self.space.check_pair(X, Y)
        n = self.space.columns(P)
        check_room(P, Q)
        values = self.realise(n).multiple(factor, P, Q, self.moving(P, n))
        return engine_for(X).like_rows(self.space.in_precision_of(X, values), X)

    def _with_gradient(self, P: Any, n: int) -> tuple[Any, Any]:
        refuse_foreign(P, "eval_gradient is for NumPy and SciPy rows; tensors have autograd")
        self.moving(P, n)  # raises for hyperparameters that require autograd
        free = len(self.free())
        check_room(P, None, matrices=1 + (free if free < 2 else 2 * free))
        K, slopes = self.realise(n).slopes(P, [self.slope(n, name) for name in self.free()])
        if len(slopes) == 1:  # avoids a copy of the largest array
            return K, slopes[0][:, :, None]
        xp = array_namespace(K)
        return K, xp.stack(slopes, axis=2) if slopes else xp.empty((*K.shape, 0), dtype=K.dtype)

    def diag(self, X: Any) -> Any:
        self.validate()
        P = self.space.check(X)
        n = self.space.columns(P)
        values = self.realise(n).diagonal(P, self.moving(P, n))
        return engine_for(X).like_rows(self.space.in_precision_of(X, values), X)

    def matvec(self, X: Any, Y: Any, v: Any) -> Any:
        self.validate()
        P, Q = self.space.check_pair(X, Y)
        v = check_vector(engine_for(v).borrow(v), count(P if Q is None else Q))
        n = self.space.columns(P)
        product = self.realise(n).matvec(P, Q, v, self.moving(P, n))
        if product is None:
            return super().matvec(X, Y, v)
        return engine_for(X).like_rows(product, X)

    def weighted_sum(self, X: Any, Y: Any, weights: Any) -> Any:
        if not joins(X):
            return super().weighted_sum(X, Y, weights)
        self.validate()
        P, Q = self.space.check_pair(X, Y)
        weights = check_weights(weights, X, count(P if Q is None else Q))
        n = self.space.columns(P)
        total = self.realise(n).weighted_sum(P, Q, weights, self.moving(P, n))
        return super().weighted_sum(X, Y, weights) if total is None else total

    def products(self, X: Any, Y: Any = None) -> Products | None:
        self.validate()
        P, Q = self.space.check_pair(X, Y)
        n = self.space.columns(P)
        return None if self.moving(P, n) else self.realise(n).products(P, Q)

    def contributions(self, X: Any, Y: Any, weights: Any) -> tuple[Contributions, ...]:
        """See :class:`Kernel`; of columns, labels or nodes, as the space has them."""
        self.validate()
        P, Q = self.space.check_pair(X, Y)
        Q = P if Q is None else Q
        found = self.realise(self.space.columns(P)).contributions(P, Q, np.asarray(weights, dtype=float))
        return self.space.named_contributions(X, found)

    def profile(self, n: int) -> Profile:
        """The kernel as a function of the invariant of two points with n columns.

        Examples
        --------
        >>> from mercer.kernels import Heat
        >>> from mercer.spaces import Sphere
        >>> Heat(Sphere(), t=0.1).profile(3).error < 1e-13
        True
        """
        self.validate()
        return self.realise(n).profile()

    def gradient_profile(self, n: int, name: str) -> Profile:
        """Derivative of the profile with respect to the logarithm of the named hyperparameter."""
        self.validate()
        return self.realise(n).slope_profile(self.slope(n, name))

    def feature_map(self, n: int, size: int, seed: int) -> FeatureMap:
        self.validate()
        return self.realise(n).features(size, seed)

    def expansion(self) -> Expansion:
        """Chebyshev series of a function f of a matrix on the nodes of a graph, relative to its maximum.

        Its ``error`` bounds the error of every entry of K / max f.

        Examples
        --------
        >>> import networkx as nx
        >>> from mercer.kernels import Heat
        >>> from mercer.spaces import Graph
        >>> ring = Graph(nx.cycle_graph(10**5), laplacian="normalized")
        >>> series = Heat(ring, t=1.0).expansion()
        >>> len(series.coefficients) < 20, series.error < 1e-12
        (True, True)
        """
        self.validate()
        return self.realise(0).expansion()

    def pair_similarities(
        self, X: Any, max_rows: int, rng: np.random.Generator
    ) -> tuple[scale.Similarities, int]:
        P = self.space.check(on_cpu(X))
        n = self.space.columns(P)
        some, name = copy.copy(self), self.range_parameter()
        if name is not None and getattr(self, name) is None:  # points can be compared at any range
            setattr(some, name, self.range_start())
        found, points = some.realise(n).pair_similarities(P, max_rows, rng)

        def similarities(kernel: Any) -> scale.Array:
            kernel.validate()
            return found(kernel.realise(n))

        return similarities, points

    def moving(self, P: Any, n: int) -> list[Moving]:
        """Hyperparameters given as tensors, for autograd."""
        watched = [name for name in self.continuous() if is_watched(getattr(self, name))]
        if watched and not self.space.engine(P).differentiable:
            raise TypeError(
                f"{watched[0]} is a tensor that requires a gradient, but the rows are not tensors; "
                "give tensors for both, or detach it"
            )

        def moved(name: str, shift: float) -> tuple[Realisation, Slope]:
            other = self.with_floats()
            setattr(other, name, getattr(other, name) * math.exp(shift))
            return other.realise(n), other.slope(n, name)

        return [(getattr(self, name).log(), partial(moved, name)) for name in watched]

    def _remember(self, what: tuple[Any, ...], compute: Callable[[], T]) -> T:
        """Compute once per kernel class, parameters and ``what``; clones share the result."""
        names = law_parameters(type(self), self._embedding_parameters)  # type: ignore[arg-type]
        values = (hashable(getattr(self, name)) for name in names)
        return cast(T, _result(_Recipe((type(self), *values, *what), compute)))


class DiffusionTime(Kernel):
    """Base class of kernels with a time: ``t``, or ``t_star`` in the natural unit of the space."""

    space: Any
    t: Any
    t_star: Any

    def continuous(self) -> tuple[str, ...]:
        """See :class:`Kernel`; the one of ``t`` and ``t_star`` that is in use."""
        return ("t",) if self.t is not None else ("t_star",)

    def range_parameter(self) -> str:
        return "t" if self._unit(2) is None else self.continuous()[0]

    def time(self, n: int) -> float:
        """Diffusion time for n columns."""
        return number(self._time(n))

    def _unit(self, n: int) -> float | None:
        """The unit of ``t_star``; None if there is none."""
        return self.space.natural_time(n)

    def _time(self, n: int) -> Any:
        return self.t if self.t is not None else self.t_star * self._unit(n)

    def validate(self) -> None:
        if self.t is None and self._unit(2) is None:
            owner = type(self).__name__
            raise ValueError(
                f"give {owner} the time itself: {owner}({self.space!r}, t=1.0), or take it from the "
                "data: scaled_to(X)"
            )
        super().validate()
        if self.t is not None and self.t_star != 1.0:
            raise ValueError(
                f"give t or t_star, not both: t={self.t!r}, t_star={self.t_star!r} (set t=None to use "
                "t_star; t_star=1.0 counts as not given)"
            )
