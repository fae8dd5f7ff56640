"""Hyperbolic space."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace

from mercer._arrays import squared_lengths
from mercer._validation import check_choice, refuse_rows
from mercer.engine import engine_for
from mercer.engine.operands import Differences
from mercer.laws import Law
from mercer.profiles import ProductProfile, Profile, TableProfile
from mercer.spaces.base import RadialSpace, random_rotation
from mercer.spaces.euclidean import Euclidean
from mercer.spaces.realisations.base import Radial, Slope, absolute_factor
from mercer.special.hyperbolic_tables import FARTHEST, LEAST_LENGTH, LEAST_TIME, HyperbolicTables

Coordinates = Literal["halfspace", "ball", "hyperboloid"]
COORDINATES = ("halfspace", "ball", "hyperboloid")

#: Smallest smoothness of Matern kernels; and the largest, at which compiling takes seconds.
_LEAST_NU, _MOST_NU = 0.25, 1e4


class HyperbolicSpace(RadialSpace):
    """A space of curvature -1: the invariant is ``cosh(rho) - 1``, rho the distance.

    In every chart it is ``|p - q|^2 s(p) s(q)`` with a factor s of each point.  Differences are
    computed coordinate by coordinate, which is accurate for close points everywhere.
    """

    common_invariant = 0.0
    separation = "invariant"
    computes_in_double = True
    takes_sparse = False
    #: Coordinates of the chart do not repeat themselves.
    period = None

    @abstractmethod
    def chart(self, X: Any) -> tuple[Any, Any]:
        """Points p and factors s of checked rows."""

    def realise(self, law: Law, n: int, normalized: bool = True) -> HyperbolicRealisation:
        """A function of the distance: see :meth:`Space.realise`."""
        return HyperbolicRealisation(self, law, self.dimension(n), normalized)

    def check_time(self, t: float) -> None:
        if t < LEAST_TIME:
            raise ValueError(f"t of Heat on {self!r} must be at least {LEAST_TIME}, got {t!r}")

    def check_matern(self, nu: float, length_scale: float) -> None:
        if nu < _LEAST_NU:
            raise ValueError(
                f"nu of Matern on hyperbolic space must be at least {_LEAST_NU}, got {nu!r}: a "
                "rougher kernel still falls at distances too small for its table"
            )
        if nu > _MOST_NU:
            raise ValueError(
                f"nu of Matern on hyperbolic space must be at most {_MOST_NU:g}, got {nu!r}; use "
                "its limit, Heat with t = length_scale**2 / 2"
            )
        if length_scale < LEAST_LENGTH:
            raise ValueError(
                f"length_scale of Matern on hyperbolic space must be at least {LEAST_LENGTH}, got "
                f"{length_scale!r}"
            )

    def embed(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        """Points with their factors; for arrays other than NumPy's, rows of an inner product."""
        first = self.chart(X)
        second = first if Y is None or Y is X else self.chart(Y)
        _refuse_far(first, first, "X")
        if second is not first:
            _refuse_far(first, second, "Y")
        if engine_for(X).takes_operands:
            left = Differences(*first)
            return left, left if second is first else Differences(*second)
        return _product_rows(*first, left=True), _product_rows(*second, left=False)

    def column_sums(self, X: Any, Y: Any, weights: Any) -> Any:
        """See :meth:`Embedding.column_sums`; squared differences in the chart.

        The first column of the hyperboloid, which the others determine, is zero.
        """
        (p, s), (q, r) = self.chart(X), self.chart(Y)
        sums = Euclidean().column_sums(p, q, weights * s[:, None] * r)
        return np.pad(sums, ((0, 0), (X.shape[1] - p.shape[1], 0)))

    def distances(self, X: Any, Y: Any = None) -> Any:
        """Distances ``rho`` between rows, at curvature -1.

        Examples
        --------
        >>> from mercer.spaces import Hyperbolic
        >>> Hyperbolic().distances([[0.0, 1.0]], [[0.0, 2.718281828459045]]).round(12)
        array([[1.]])
        """
        p, s = self.chart(self.check(X, "X"))
        q, r = (p, s) if Y is None else self.chart(self.check(Y, "Y"))
        xp = array_namespace(p)
        rows = range(p.shape[0])
        squares = xp.stack([xp.sum((q - p[i, :]) ** 2, axis=1) * (s[i] * r) for i in rows])
        return 2 * xp.asinh(xp.sqrt(squares / 2))


@dataclass(frozen=True, repr=False)
class Hyperbolic(HyperbolicSpace):
    """Hyperbolic space H^d of curvature -1.

    ``cosh(rho) = 1 + (|m - m'|^2 + (sigma - sigma')^2) / (2 sigma sigma')`` for rows
    ``(m_1, ..., m_(d-1), sigma)`` of the upper half-space.

    Parameters
    ----------
    coordinates : {"halfspace", "ball", "hyperboloid"}
        Rows of d numbers with the last positive; rows of length below one (Poincare's ball); or rows
        ``(x_0, x_1, ..., x_d)`` with ``x_0^2 = 1 + x_1^2 + ... + x_d^2``.
    n : int, optional
        Number of columns; by default that of the data.

    Examples
    --------
    >>> from mercer.kernels import Heat
    >>> from mercer.spaces import Hyperbolic
    >>> Heat(Hyperbolic(), t=0.5)([[0.0, 1.0], [0.0, 2.0], [3.0, 1.0]]).round(4)
    array([[1.    , 0.7569, 0.0386],
           [0.7569, 1.    , 0.1196],
           [0.0386, 0.1196, 1.    ]])
    >>> Hyperbolic("ball").distances([[0.0, 0.0]], [[0.5, 0.0]]).round(4)    # log(3)
    array([[1.0986]])
    """

    coordinates: Coordinates = "halfspace"
    n: int | None = None

    def __post_init__(self) -> None:
        check_choice(self, "coordinates", COORDINATES)

    def dimension(self, n: int) -> int:
        """One less than the columns of the hyperboloid; else their number."""
        return n - 1 if self.coordinates == "hyperboloid" else n

    def _check_rows(self, X: Any, name: str) -> None:
        if self.coordinates == "halfspace":
            check_scales(X[:, -1:], name, "sigma, the last column,")
        elif self.coordinates == "ball":
            with np.errstate(over="ignore"):
                outside = ~(squared_lengths(X) < 1.0)
            refuse_rows(
                outside, name,
                "is not inside the unit ball; points of Poincare's ball have length below one",
            )  # fmt: skip
        else:
            self._check_hyperboloid(X, name)

    @staticmethod
    def _check_hyperboloid(X: Any, name: str) -> None:
        if X.shape[1] < 2:
            raise ValueError(f"{name} has 1 column; points of the hyperboloid have at least 2")
        xp = array_namespace(X)
        first = X[:, 0]
        off = xp.abs(first * first - squared_lengths(X[:, 1:]) - 1.0)
        bound = xp.finfo(X.dtype).eps ** 0.5 * (first * first + 1.0)
        refuse_rows(
            ~((off <= bound) & (first >= 1.0)), name,
            "is not on the hyperboloid: its first number must be sqrt(1 + the squares of the others)",
        )  # fmt: skip

    def _onto(self, rows: np.ndarray) -> np.ndarray:
        if self.coordinates == "ball":
            return rows / (1.5 + np.linalg.norm(rows, axis=1, keepdims=True))
        if self.coordinates == "hyperboloid":
            first = np.sqrt(1 + (rows[:, 1:] ** 2).sum(axis=1, keepdims=True))
            return np.concatenate([first, rows[:, 1:]], axis=1)
        return onto_halfspace(rows)

    def isometry(self, rng: np.random.Generator) -> Callable[[Any], Any]:
        """See :meth:`Space.isometry`; a scaling and a shift, or a rotation."""
        if self.coordinates == "halfspace":
            return partial(scaled_and_shifted, rng)

        def turned(X: Any) -> Any:
            first = 1 if self.coordinates == "hyperboloid" else 0
            rest = X[:, first:] @ random_rotation(X.shape[1] - first, rng)
            return np.concatenate([X[:, :first], rest], axis=1)

        return turned

    def chart(self, X: Any) -> tuple[Any, Any]:
        root = math.sqrt(2.0)
        if self.coordinates == "halfspace":
            return X, 1.0 / (root * X[:, -1])
        if self.coordinates == "ball":
            length = squared_lengths(X) ** 0.5
            return X, root / ((1.0 - length) * (1.0 + length))
        # The ball's point x / (1 + x_0), whose 1 - |p|^2 is 2 / (1 + x_0).
        return X[:, 1:] / (1.0 + X[:, :1]), (1.0 + X[:, 0]) / root


def onto_halfspace(rows: np.ndarray) -> np.ndarray:
    """Rows of any numbers moved to the upper half-space."""
    return np.concatenate([rows[:, :-1], np.exp(rows[:, -1:])], axis=1)


def scaled_and_shifted(rng: np.random.Generator, X: Any) -> Any:
    """Points of the upper half-space after a scaling and a shift."""
    return 3.0 * X + np.append(rng.normal(size=X.shape[1] - 1), 0.0)


class HyperbolicRealisation(Radial):
    """A law on H^d, as a function of ``cosh(rho) - 1``; profile and gradients share its tables."""

    def __init__(self, space: HyperbolicSpace, law: Law, d: int, normalized: bool) -> None:
        self.embedding = space
        self._tables = _tables(law, d)
        self._law, self._d, self._normalized = law, d, normalized

    @property
    def log_self_similarity(self) -> float:
        return self._tables.log_at_zero

    def profile(self) -> Profile:
        absolute_factor(None if self._normalized else self.log_self_similarity, self._d)
        return _log_profile(self._law, self._d, self._normalized, False)

    def slope_profile(self, slope: Slope) -> Profile:
        return ProductProfile(self.profile(), self.log_slope_profile(slope))

    def log_profile(self) -> Profile:
        return _log_profile(self._law, self._d, self._normalized, True).without_exponential

    def log_slope(self, w: np.ndarray) -> np.ndarray:
        """Derivative of the logarithm with respect to the invariant."""
        return self.log_profile().slope(w)  # type: ignore[attr-defined]

    def log_table(self) -> Profile:
        """The same, which is a table."""
        return self.log_profile()

    def log_slope_profile(self, slope: Slope) -> Profile:
        """Derivative of the logarithm."""
        return _slope_profile(self._law, self._d, self._normalized, slope.chain)

    def log_slope_table(self, slope: Slope) -> Profile:
        """The same, which is a table."""
        return self.log_slope_profile(slope)

    def self_rise(self, slope: Slope) -> float:
        """Derivative of :attr:`log_self_similarity`."""
        return self._tables.rise_at_zero * slope.chain


@lru_cache(maxsize=64)
def _tables(law: Law, d: int) -> HyperbolicTables:
    return HyperbolicTables(law.line_function(d), d)


@lru_cache(maxsize=128)
def _log_profile(law: Law, d: int, normalized: bool, deep: bool) -> TableProfile:
    return _tables(law, d).log_profile(normalized, deep)


@lru_cache(maxsize=128)
def _slope_profile(law: Law, d: int, normalized: bool, chain: float) -> TableProfile:
    return _tables(law, d).slope_profile(normalized, chain)


def check_scales(sigma: Any, name: str, what: str) -> None:
    """Refuse rows with a scale that is not positive, or so extreme that ratios overflow."""
    xp = array_namespace(sigma)
    sigma = xp.astype(sigma, xp.float64)
    empty, extreme = ~(sigma > 0.0), (sigma < 1e-100) | (sigma > 1e100)
    refuse_rows(xp.any(empty, axis=1), name, f"has no positive scale: {what} must be above zero")
    refuse_rows(xp.any(extreme, axis=1), name, f"has an extreme scale; {what} must be in 1e-100..1e100")


def _refuse_far(first: Any, other: Any, name: str) -> None:
    """Refuse points so far from the first one that the tables do not reach."""
    (p, s), (q, r) = first, other
    with np.errstate(over="ignore"):  # infinity is refused too
        reach = squared_lengths(q - p[:1, :]) * (s[0] * r)
    refuse_rows(
        ~(reach < 2.0 ** (FARTHEST // 2 - 1)), name,
        f"is at a distance above {FARTHEST // 2 * math.log(2):.0f} from row 0 of X, too far for the "
        "tables; rescale the points or drop it",
    )  # fmt: skip


def _product_rows(points: Any, scales: Any, left: bool) -> Any:
    """Rows whose inner products are ``|p - q|^2 s(p) s(q)``."""
    xp = array_namespace(points)
    squares = squared_lengths(points)[:, None]
    ones = xp.ones_like(squares)
    parts = [points, squares, ones] if left else [-2.0 * points, ones, squares]
    return xp.concat(parts, axis=1) * scales[:, None]
