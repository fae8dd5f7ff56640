"""Kernels that a space realises, those of a law among them, and their diffusion time."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from mercer._arrays import Array, count, is_single, is_watched, number, on_cpu, to_single
from mercer._validation import (
    check_choice,
    check_positive,
    check_room,
    check_vector,
    refuse_foreign,
)
from mercer.contributions import Contributions
from mercer.engine import engine_for
from mercer.engine.base import Products
from mercer.engine.matrix_functions import Expansion
from mercer.kernels import scale
from mercer.kernels.base import Kernel, log_derivative
from mercer.laws import Law
from mercer.profiles import Profile
from mercer.spaces.base import Embedding, Space
from mercer.spaces.realisations.base import FeatureMap, Moving, Realisation, Slope
from mercer.spaces.realisations.eigenfunctions import Eigenfunctions
from mercer.special.zonal import Spectrum


class RealisedKernel(Kernel):
    """A kernel between points of a space, computed by a realisation (:meth:`realise`)."""

    space: Space

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
        P, _, realisation, _ = self._realised(X, None)
        return self.space.like_points(self._with_gradient(P, realisation), X)

    def multiple(self, factor: float, X: Any, Y: Any = None, plus: Any = None) -> Any:
        if plus is not None and self.space.rounds(X):
            return super().multiple(factor, X, Y, plus)
        P, Q, realisation, moving = self._realised(X, Y)
        check_room(P, Q)
        plus = None if plus is None else engine_for(plus).borrow(plus)
        return self.space.like_points(realisation.multiple(factor, P, Q, moving, plus), X)

    def _realised(self, X: Any, Y: Any) -> tuple[Any, Any, Realisation, list[Moving]]:
        """Checked points, the kernel between them, and those of its hyperparameters that are tensors."""
        self.validate()
        P, Q = self.space.check_pair(X, Y)
        n = self.space.columns(P)
        return P, Q, self.realise(n), self.moving(P, n)

    def _with_gradient(self, P: Any, realisation: Realisation) -> tuple[Any, Any]:
        refuse_foreign(P, "eval_gradient is for NumPy and SciPy rows; tensors have autograd")
        n, free = self.space.columns(P), self.free()
        check_room(P, None, matrices=1 + (len(free) if len(free) < 2 else 2 * len(free)))
        K, slopes = realisation.slopes(P, [self.slope(n, name) for name in free])
        if len(slopes) == 1:  # avoids a copy of the largest array
            return K, slopes[0][:, :, None]
        xp = array_namespace(K)
        return K, xp.stack(slopes, axis=2) if slopes else xp.empty((*K.shape, 0), dtype=K.dtype)

    def diag(self, X: Any) -> Any:
        P, _, realisation, moving = self._realised(X, None)
        return self.space.like_points(realisation.diagonal(P, moving), X)

    def matvec(self, X: Any, Y: Any, v: Any) -> Any:
        P, Q, realisation, moving = self._realised(X, Y)
        v = check_vector(engine_for(v).borrow(v), count(P if Q is None else Q))
        product = realisation.matvec(P, Q, v, moving)
        if product is None:
            return super().matvec(X, Y, v)
        single = self.space.rounds(X) and is_single(v)
        return engine_for(X).like_rows(to_single(product) if single else product, X)

    def product_sizes(self) -> tuple[int, int] | None:
        return 1, 1

    def products(self, X: Any, Y: Any = None) -> Products | None:
        P, Q, realisation, moving = self._realised(X, Y)
        return realisation.products(P, Q, moving)

    def contributions(self, X: Any, Y: Any, weights: Any) -> tuple[Contributions, ...]:
        """See :class:`Kernel`; of columns, labels or nodes, as the space has them."""
        P, Q, realisation, _ = self._realised(X, Y)
        Q = P if Q is None else Q
        found = realisation.contributions(P, Q, np.asarray(weights, dtype=float))
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

        def similarities(kernel: Any) -> Array:
            kernel.validate()
            return found(kernel.realise(n))

        return similarities, points

    def moving(self, P: Any, n: int) -> list[Moving]:
        """Hyperparameters given as tensors, for autograd."""
        watched = [name for name in self.continuous() if is_watched(getattr(self, name))]
        if watched and not self.space.engine(P).differentiable:
            raise TypeError(
                f"{watched[0]} is a tensor that requires a gradient, but the rows are not dense "
                "tensors; give such tensors for both, or detach it"
            )

        # As it is now: derivatives may be taken when it has other hyperparameters.
        fixed = self.with_floats() if watched else self

        def moved(name: str, shift: float) -> tuple[Realisation, Slope]:
            other = copy.copy(fixed)
            setattr(other, name, getattr(other, name) * math.exp(shift))
            return other.realise(n), other.slope(n, name)

        return [(getattr(self, name).log(), partial(moved, name)) for name in watched]


class LawKernel(RealisedKernel):
    """A kernel given by a :class:`~mercer.laws.Law`, which its space realises.

    ``K(x, y) = sum_l a_l sum_k phi_lk(x) phi_lk(y)`` over the Laplacian's eigenfunctions.  On the sphere
    and the simplex the inner sum is ``N_l P_l(x.y)``; on a graph it runs over the eigenvectors of the
    Laplacian L, and K is ``a(L)``.
    """

    normalized: bool

    @abstractmethod
    def law(self, n: int) -> Law:
        """The law for points with n columns: plain numbers, though hyperparameters may be tensors."""

    def _chain(self, name: str) -> float:
        """Derivative of the logarithm of the law's time with respect to that of a hyperparameter."""
        return 1.0

    def validate(self) -> None:
        if not isinstance(self.space, Space):
            hint = "; wrap it: Graph(graph)" if hasattr(self.space, "nodes") else ""
            if isinstance(self.space, type):
                hint = f"; give an instance: {self.space.__name__}()"
            raise TypeError(f"space must be a space of mercer.spaces, got {self.space!r}{hint}")
        check_choice(self, "normalized", (True, False))
        check_positive(self, *self.continuous())

    def realise(self, n: int) -> Realisation:
        return self.laplacian_space.realise(self.law(n), n, bool(self.normalized))

    @property
    def laplacian_space(self) -> Space:
        """See :class:`Kernel`; in natural units if the range is given in these."""
        return self.space.in_natural_units() if "t_star" in self.continuous() else self.space

    def is_zonal(self) -> bool:
        return self.space.widest_angle is not None and self.space.embedding is not None

    def is_stationary(self) -> bool:
        return self.space.is_flat

    def is_isotropic(self) -> bool:
        return self.space.is_flat

    def heat_time(self, n: int) -> float | None:
        """Time of the heat kernel on S^(n-1) that this kernel is; None for other kernels."""
        return None

    @property
    def embedding(self) -> Embedding | None:
        return self.laplacian_space.embedding

    def slope(self, n: int, name: str) -> Slope:
        dimension = self.laplacian_space.dimension(n)

        def scores(eigenvalues: NDArray[Any]) -> NDArray[Any]:
            return log_derivative(self, name, lambda k: k.law(n).log_weights(eigenvalues, dimension))

        return Slope(name, self._chain(name), scores)

    def spectrum(self, n: int) -> Spectrum:
        """Weights on the levels of S^(n-1) that contribute, and their sum."""
        self.validate()
        found: Spectrum = self.realise(n).series.spectrum
        return found

    def log_self_similarity(self, n: int) -> float:
        """Logarithm of the absolute form of K(x, x) for n columns; finite where K overflows."""
        return self.realise(n).log_self_similarity

    def log_weights_at(self, eigenvalues: NDArray[Any], n: int) -> NDArray[np.float64]:
        """Logarithms of the weights on some eigenvalues of the Laplacian, for n columns."""
        self.validate()
        dimension = self.laplacian_space.dimension(n)
        return np.asarray(self.law(n).log_weights(eigenvalues, dimension), dtype=float)

    def eigenfunctions(self, columns: int, count: int | None) -> Eigenfunctions | None:
        self.validate()
        n = self.laplacian_space.fixed_columns(columns)
        weights = partial(self.log_weights_at, n=n)
        return self.laplacian_space.eigenfunctions(n, count, weights)

    def require_levels(self) -> None:
        self.validate()
        self.laplacian_space.require_unit_vectors()

    def level_weights(self, n: int, levels: Sequence[int]) -> Any:
        self.validate()
        slopes = [self.slope(n, name) for name in self.free()]
        return self.realise(n).level_weights(np.asarray(levels, dtype=int), slopes)


class DiffusionTime:
    """A kernel's time: ``t``, or ``t_star`` in the natural unit of the space."""

    space: Any
    t: Any
    t_star: Any

    def continuous(self) -> tuple[str, ...]:
        """See :class:`Kernel`; the one of ``t`` and ``t_star`` that is in use."""
        return ("t",) if self.t is not None else ("t_star",)

    def range_parameter(self) -> str:
        """See :class:`Kernel`; ``t`` where there is no natural unit."""
        return "t" if self._unit(2) is None else self.continuous()[0]

    def time(self, n: int) -> float:
        """Diffusion time for n columns."""
        return number(self.t if self.t is not None else self.t_star * self._unit(n))

    def _unit(self, n: int) -> float | None:
        """The unit of ``t_star``; None if there is none."""
        return self.space.natural_time(n)

    def validate(self) -> None:
        """See :class:`Kernel`."""
        super().validate()  # type: ignore[misc]
        if self.t is None and self._unit(2) is None:
            owner = type(self).__name__
            raise ValueError(
                f"{owner} has no default time on {self.space!r}: give one, as in {owner}(..., t=1.0), "
                "or take it from the data: scaled_to(X)"
            )
        if self.t is not None and self.t_star != 1.0:
            raise ValueError(
                f"give t or t_star, not both: t={self.t!r}, t_star={self.t_star!r} (set t=None to use "
                "t_star; t_star=1.0 counts as not given)"
            )
