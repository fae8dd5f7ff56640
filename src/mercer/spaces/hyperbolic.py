"""Hyperbolic space, as itself and as the home of normal distributions."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace, is_numpy_array
from scipy import sparse

from mercer._arrays import constant_rows, squared_lengths
from mercer._validation import refuse_rows
from mercer.engine.operands import Differences
from mercer.profiles import Separation
from mercer.spaces.base import RadialSpace

Coordinates = Literal["halfspace", "ball", "hyperboloid"]
COORDINATES = ("halfspace", "ball", "hyperboloid")
#: ``cosh(rho)`` of two points is below 2 to this power.
FARTHEST = 158


class HyperbolicSpace(RadialSpace):
    """A space of curvature -1: the invariant is ``cosh(rho) - 1``, rho the distance.

    In every chart it is ``|p - q|^2 s(p) s(q)`` with a factor s of each point.  Differences are taken
    coordinate by coordinate, so that close points keep their digits wherever they are.
    """

    least_dimension = 1

    @abstractmethod
    def chart(self, X: Any) -> tuple[Any, Any]:
        """Points p and factors s of checked rows."""

    def manifold_dimension(self, columns: int) -> int:
        """Dimension d of the space whose rows have so many columns."""
        return columns

    @property
    def separation(self) -> Separation:
        """See :class:`RadialSpace`."""
        return "invariant"

    def self_invariant(self, X: Any) -> Any:
        """Zero: see :meth:`RadialSpace.self_invariant`."""
        return constant_rows(X, 0.0)

    def embed(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        """Points with their factors; for other arrays than NumPy's, rows of an inner product."""
        first = self.chart(X)
        second = first if Y is None or Y is X else self.chart(Y)
        _refuse_far(first, first, "X")
        if second is not first:
            _refuse_far(first, second, "Y")
        if is_numpy_array(X):
            left = Differences(*first)
            return left, left if second is first else Differences(*second)
        return _product_rows(*first, left=True), _product_rows(*second, left=False)

    def distances(self, X: Any, Y: Any = None) -> np.ndarray:
        """Distances ``rho`` between rows, at curvature -1.

        Examples
        --------
        >>> from mercer.spaces import Hyperbolic
        >>> Hyperbolic().distances([[0.0, 1.0]], [[0.0, 2.718281828459045]]).round(12)
        array([[1.]])
        """
        p, s = self.chart(self.check(X, "X"))
        q, r = (p, s) if Y is None else self.chart(self.check(Y, "Y"))
        out = np.empty((len(p), len(q)))
        for i in range(len(p)):
            out[i] = np.sqrt(((q - p[i]) ** 2).sum(axis=1) * (s[i] * r) / 2)
        return 2 * np.arcsinh(out)

    def check(self, X: Any, name: str = "X") -> Any:
        """Validate dense rows, in double precision: tables reach beyond the range of the single one."""
        if sparse.issparse(X):
            raise TypeError(f"{name} is sparse; points of {self!r} are dense rows: give X.toarray()")
        X = super().check(X, name)
        xp = array_namespace(X)
        return X if X.dtype == xp.float64 else xp.astype(X, xp.float64)


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
        if self.coordinates not in COORDINATES:
            raise ValueError(f"coordinates must be one of {COORDINATES}, got {self.coordinates!r}")

    def manifold_dimension(self, columns: int) -> int:
        """One less than the columns of the hyperboloid; else their number."""
        return columns - 1 if self.coordinates == "hyperboloid" else columns

    def _check_rows(self, X: Any, name: str) -> None:
        if self.coordinates == "halfspace":
            check_scales(X[:, -1], name, "sigma, the last column,")
        elif self.coordinates == "ball":
            refuse_rows(
                ~(squared_lengths(X) < 1.0), name,
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

    def chart(self, X: Any) -> tuple[Any, Any]:
        """See :class:`HyperbolicSpace`."""
        root = math.sqrt(2.0)
        if self.coordinates == "halfspace":
            return X, 1.0 / (root * X[:, -1])
        if self.coordinates == "ball":
            length = squared_lengths(X) ** 0.5
            return X, root / ((1.0 - length) * (1.0 + length))
        # The ball's point x / (1 + x_0), whose 1 - |p|^2 is 2 / (1 + x_0).
        return X[:, 1:] / (1.0 + X[:, :1]), (1.0 + X[:, 0]) / root


@dataclass(frozen=True, repr=False)
class NormalFamily(HyperbolicSpace):
    """Normal distributions N(mu, sigma^2 I_k), as rows ``(mu_1, ..., mu_k, sigma)``; Fisher metric.

    The metric ``(|d mu|^2 + 2 k d sigma^2) / sigma^2`` is 2 k times that of hyperbolic space at the
    points ``(mu / sqrt(2 k), sigma)``.  Times and length scales are at curvature -1: a Fisher time is
    2 k times as long.  Invariant under shifts, rotations and scalings of the sample space.

    Parameters
    ----------
    n : int, optional
        Number of columns, k + 1; by default that of the data.

    Examples
    --------
    >>> from mercer.spaces import NormalFamily
    >>> family = NormalFamily()
    >>> family.fisher_distances([[0.0, 1.0]], [[1.0, 1.0]]).round(4)    # N(0, 1) and N(1, 1)
    array([[0.9803]])
    """

    n: int | None = None
    least_dimension = 2

    def _check_rows(self, X: Any, name: str) -> None:
        check_scales(X[:, -1], name, "the standard deviation, in the last column,")

    def chart(self, X: Any) -> tuple[Any, Any]:
        """See :class:`HyperbolicSpace`."""
        k = int(X.shape[1]) - 1
        points = array_namespace(X).concat([X[:, :-1] / math.sqrt(2 * k), X[:, -1:]], axis=1)
        return points, 1.0 / (math.sqrt(2.0) * X[:, -1])

    def fisher_distances(self, X: Any, Y: Any = None) -> np.ndarray:
        """Distances in the Fisher metric, ``sqrt(2 k) rho``."""
        distances = self.distances(X, Y)
        k = int(np.shape(X)[1]) - 1
        return math.sqrt(2 * k) * distances


def check_scales(sigma: Any, name: str, what: str) -> None:
    """Refuse rows whose scale is not positive, or so extreme that ratios overflow."""
    xp = array_namespace(sigma)
    sigma = xp.astype(sigma, xp.float64)
    refuse_rows(~(sigma > 0.0), name, f"has no positive scale: {what} must be above zero")
    refuse_rows(
        (sigma < 1e-100) | (sigma > 1e100),
        name,
        f"has an extreme scale; {what} must be in 1e-100..1e100",
    )


def _refuse_far(first: Any, other: Any, name: str) -> None:
    """Refuse points so far from the first one that kernels of a pair would not be tabulated."""
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
