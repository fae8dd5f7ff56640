"""Kernels given by a function of the angle: Cosine, ArcCosine, Parametrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from mercer.kernels.base import check_choice, check_spherical, is_whole
from mercer.kernels.radial import RadialKernel
from mercer.kernels.shorttime import Array, Law
from mercer.kernels.time import DiffusionTime
from mercer.profiles import PowerProfile, ProductProfile, Profile, TableProfile, compile_profile
from mercer.spaces import Euclidean, Sphere, SphericalSpace, parametrix
from mercer.spaces.base import refuse_rows
from mercer.spaces.spherical import row_lengths, row_maxima, unit_rows


class Cosine(RadialKernel):
    """The cosine of the angle between two points.

    ``k(x, y) = cos(theta) = x.y`` for unit vectors.  On the simplex it is the Bhattacharyya kernel
    ``sum_i sqrt(p_i q_i)``.  Positive semidefinite, of rank at most n.

    Parameters
    ----------
    space : Sphere or Simplex

    Examples
    --------
    >>> from mercer.kernels import Cosine
    >>> from mercer.spaces import Simplex
    >>> Cosine(Simplex())([[1, 0], [9, 16]])
    array([[1. , 0.6],
           [0.6, 1. ]])
    """

    space: SphericalSpace

    def __init__(self, space: SphericalSpace = Sphere()) -> None:  # noqa: B008 (spaces are frozen)
        self.space = space

    def explicit_features(self, X: Any) -> Any:
        """The points as unit vectors."""
        self._validate()
        return self.space.embed(self.space.check(X))[0]

    def _validate(self) -> None:
        check_spherical(self)

    def _compile(self, n: int) -> Profile:
        return PowerProfile()


class ArcCosine(RadialKernel):
    """Arc-cosine kernels: infinitely wide layers of step, ReLU and squared ReLU units.

    ``k(x, y) = |x|^p |y|^p s(theta)`` with, for order 0, 1, 2, ``s = 1 - theta / pi``,
    ``(sin theta + (pi - theta) cos theta) / pi`` and
    ``(3 sin theta cos theta + (pi - theta)(1 + 2 cos^2 theta)) / (3 pi)``, and p = order.  Depth L
    composes the layer L times: the angle of one layer has the cosine s of the layer before, and
    p = order^L.  Positive semidefinite on all of R^n.

    Parameters
    ----------
    order : {0, 1, 2}
        Degree of the units.
    depth : int
        Number of layers.
    normalized : bool
        The shape s alone, without the norms; rows of zeros then have no value.

    References
    ----------
    .. [1] Y. Cho, L. Saul, "Kernel methods for deep learning", NeurIPS 2009.

    Examples
    --------
    >>> from mercer.kernels import ArcCosine
    >>> ArcCosine(order=1)([[1.0, 0.0], [0.0, 2.0]]).round(4)
    array([[1.    , 0.6366],
           [0.6366, 4.    ]])
    """

    space = Euclidean()

    def __init__(self, order: int = 1, depth: int = 1, normalized: bool = False) -> None:
        self.order = order
        self.depth = depth
        self.normalized = normalized

    def _validate(self) -> None:
        check_choice(self, "order", (0, 1, 2))
        check_choice(self, "normalized", (True, False))
        if not is_whole(self.depth) or self.depth not in range(1, 1001):
            raise ValueError(f"depth of ArcCosine must be a whole number from 1, got {self.depth!r}")

    @property
    def _exponent(self) -> int:
        return 0 if self.normalized else self.order**self.depth

    def _embed(self, X: Any, Y: Any) -> tuple[Any, Any]:
        left = self._directions(X, "X")
        return left, left if Y is None else self._directions(Y, "Y")

    def _directions(self, X: Any, name: str) -> Any:
        if self._exponent == 0:
            refuse_rows(row_maxima(X) == 0, name, "is all zeros and has no direction; drop it")
        # A row of zeros keeps its zeros: its factor |x|^p removes it from every product.
        return unit_rows(X)

    def _self_invariant(self, X: Any) -> Any:
        return Sphere().self_invariant(X)

    def _row_scale(self, X: Any) -> Any:
        if self._exponent == 0:
            return None
        with np.errstate(over="ignore"):
            factors = row_lengths(X) ** self._exponent
        if not bool(array_namespace(factors).all(array_namespace(factors).isfinite(factors))):
            raise ValueError(
                f"lengths of rows to the power {self._exponent} overflow; use normalized=True"
            )
        return factors

    def _compile(self, n: int) -> Profile:
        shape = (_step_shape, _relu_shape, _square_shape)[self.order]

        def law(u: Array) -> Array:
            theta = parametrix.angles(u)
            for layer in range(self.depth):
                gap = shape(theta)
                if layer < self.depth - 1:
                    theta = parametrix.angles(np.minimum(gap, 2 - gap))
                    theta = np.where(gap <= 1, theta[0], theta[1])
            return 1 - gap

        return compile_profile(law, "folded")


def _step_shape(theta: Array) -> Array:
    """``1 - s`` for order 0."""
    return theta / np.pi


def _relu_shape(theta: Array) -> Array:
    """``1 - s`` for order 1."""
    versine = 2 * np.sin(theta / 2) ** 2
    return versine + (_excess(theta) - theta * versine) / np.pi


def _square_shape(theta: Array) -> Array:
    """``1 - s`` for order 2."""
    square = np.sin(theta) ** 2
    return (_excess(2 * theta) / 2 + 2 / 3 * square * (np.pi - theta)) / np.pi


def _excess(x: Array) -> Array:
    """``x - sin x``, without cancellation at small angles: deep kernels would magnify it."""
    z = x * x
    series = x * z / 6 * (1 - z / 20 * (1 - z / 42 * (1 - z / 72 * (1 - z / 110 * (1 - z / 156)))))
    return np.where(x < 0.4, series, x - np.sin(x))


class Parametrix(RadialKernel, DiffusionTime):
    """The parametrix: the heat kernel's short-time expansion.

    Order 0 is ``exp(-theta^2 / 4t)``, the kernel of the literature; order k >= 1 is
    ``exp(-theta^2 / 4t) (u_0 + u_1 t + ... + u_k t^k)`` with the coefficients of the sphere.  The
    factor ``(4 pi t)^(-d/2)`` is left out.

    **Not positive semidefinite** in general: the least eigenvalue of a Gram matrix was seen at -6.7
    on the 2-sphere (t = 2, 800 points) and below zero on the simplex too.  SVMs may stop at a saddle
    point, Gaussian processes fail.  Use :class:`Heat`, which costs the same, unless you want to
    compare.  Orders from 1 diverge at the antipode.

    Parameters
    ----------
    space : Sphere or Simplex
    t, t_star : float
        Diffusion time, as in :class:`Heat`.
    order : {0, 1, 2}
        Last coefficient of the expansion.
    normalized : bool
        Divide by the value at theta = 0 (which is 1 already for order 0).
    t_bounds, t_star_bounds : pair of floats or "fixed"
        Ranges for optimisers.

    Notes
    -----
    u_2 is not the published one, which does not satisfy its own recursion.

    Examples
    --------
    >>> from mercer.kernels import Parametrix
    >>> from mercer.spaces import Sphere
    >>> k = Parametrix(Sphere(), t=0.1)
    >>> k([[1, 0, 0]], [[0, 1, 0]]).round(6), k.positive_semidefinite
    (array([[0.002094]]), False)
    """

    positive_semidefinite = False
    space: SphericalSpace

    def __init__(
        self,
        space: SphericalSpace,
        t: Any = None,
        t_star: Any = 1.0,
        order: int = 0,
        normalized: bool = False,
        t_bounds: Any = (1e-4, 1e2),
        t_star_bounds: Any = (1e-2, 1e2),
    ) -> None:
        self.space = space
        self.t = t
        self.t_star = t_star
        self.order = order
        self.normalized = normalized
        self.t_bounds = t_bounds
        self.t_star_bounds = t_star_bounds

    def _validate(self) -> None:
        check_spherical(self)
        self._check_time()
        check_choice(self, "order", (0, 1, 2))
        check_choice(self, "normalized", (True, False))

    def _compile(self, n: int) -> Profile:
        if self.order == 0:
            return self._exponential(n)
        t = self.time(n)
        scale = self._bracket(n, t, np.zeros(1))[0, 0] if self.normalized else 1.0
        return self._times(n, lambda u: self._bracket(n, t, u) / scale, least=0.0)

    def _compile_gradient(self, n: int, name: str) -> Profile:
        # d/dlog(t) of exp(-r^2/4t) b(t) is exp(-r^2/4t) (b r^2/4t + db/dlog(t)).
        t = self.time(n)
        zero = np.zeros(1)
        scale, change = 1.0, 0.0
        if self.normalized:
            scale = self._bracket(n, t, zero)[0, 0]
            change = self._slope(n, t, zero)[0, 0] / scale

        def law(u: Array) -> Array:
            bracket = self._bracket(n, t, u)
            rise = parametrix.angles(u) ** 2 / (4 * t) - change
            return (bracket * rise + self._slope(n, t, u)) / scale

        return self._times(n, law, least=1.0)

    def _bracket(self, n: int, t: float, u: Array) -> Array:
        """``(u_0 + u_1 t + ...) / u_0``."""
        return 1 + self._weighted(n, t, u, (1, 1))

    def _slope(self, n: int, t: float, u: Array) -> Array:
        """Derivative of the bracket by log t."""
        return self._weighted(n, t, u, (1, 2))

    def _weighted(self, n: int, t: float, u: Array, factors: tuple[int, int]) -> Array:
        ratios = parametrix.corrections(n - 1, self.order, u)
        terms = (
            f * ratio * t ** (k + 1) for k, (f, ratio) in enumerate(zip(factors, ratios, strict=False))
        )
        return sum(terms, start=np.zeros((2, u.size)))

    def _exponential(self, n: int) -> TableProfile:
        """``exp(-theta^2 / 4t)``, with u_0 for order 1 and more."""
        t = self.time(n)

        def law(u: Array) -> Array:
            exponent = -(parametrix.angles(u) ** 2) / (4 * t)
            return (exponent + parametrix.log_u0(n - 1, u) if self.order else exponent)[: self._sides]

        return compile_profile(law, self.space.separation, logarithmic=True)

    def _times(self, n: int, law: Law, least: float) -> Profile:
        factor = compile_profile(lambda u: law(u)[: self._sides], self.space.separation, least=least)
        return ProductProfile(self._exponential(n), factor)
