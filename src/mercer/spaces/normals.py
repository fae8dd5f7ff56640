"""Normal distributions with the Fisher metric: spherical ones, and products over features."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from mercer.engine.operands import Normals
from mercer.laws import Law
from mercer.spaces.hyperbolic import (
    HyperbolicSpace,
    check_scales,
    onto_halfspace,
    scaled_and_shifted,
)
from mercer.spaces.realisations.divergences import DistributionSpace, embed_normals
from mercer.spaces.realisations.factors import FactorRealisation
from mercer.special.hyperbolic_tables import LEAST_TIME


@dataclass(frozen=True, repr=False)
class NormalFamily(HyperbolicSpace, DistributionSpace):
    """Normal distributions N(mu, sigma^2 I_k), as rows ``(mu_1, ..., mu_k, sigma)``; Fisher metric.

    The metric ``(|d mu|^2 + 2 k d sigma^2) / sigma^2`` is 2 k times that of hyperbolic space at the
    points ``(mu / sqrt(2 k), sigma)``.  Times and length scales are at curvature -1: a Fisher time is 2
    k times as long.  Kernels are invariant under shifts, rotations and scalings of the sample space.

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
        check_scales(X[:, -1:], name, "the standard deviation, in the last column,")

    def _onto(self, rows: np.ndarray) -> np.ndarray:
        return onto_halfspace(rows)

    def isometry(self, rng: np.random.Generator) -> Callable[[Any], Any]:
        """See :meth:`Space.isometry`; another unit and origin of what is measured."""
        return partial(scaled_and_shifted, rng)

    def chart(self, X: Any) -> tuple[Any, Any]:
        k = int(X.shape[1]) - 1
        points = array_namespace(X).concat([X[:, :-1] / math.sqrt(2 * k), X[:, -1:]], axis=1)
        return points, 1.0 / (math.sqrt(2.0) * X[:, -1])

    def embed_divergence(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        left = _normals(X)
        return embed_normals(left, left if Y is None or Y is X else _normals(Y))

    def divergence_unit(self, n: int) -> float:
        """``8 k``: see :class:`DistributionSpace`."""
        return 8.0 * (n - 1)

    def fisher_distances(self, X: Any, Y: Any = None) -> Any:
        """Distances in the Fisher metric, ``sqrt(2 k) rho``."""
        distances = self.distances(X, Y)
        k = int(np.shape(X)[1]) - 1
        return math.sqrt(2 * k) * distances


def _normals(X: Any) -> Normals:
    means = X[:, :-1]
    return Normals(means, X[:, -1:] + 0.0 * means)


@dataclass(frozen=True, repr=False)
class NormalProduct(DistributionSpace):
    """Products of normal families, one per feature, as rows ``(mu_1, sigma_1, mu_2, sigma_2, ...)``.

    A row is a normal distribution with a diagonal covariance.  The Fisher metric ``sum_j (d mu_j^2 + 2
    d sigma_j^2) / sigma_j^2`` is twice that of a product of p hyperbolic planes of curvature -1 at the
    points ``(mu_j / sqrt(2), sigma_j)``.  As in :class:`NormalFamily`, times are at curvature -1: a
    Fisher time is twice as long.  Kernels are invariant under shifts and scalings of each feature, so
    features need no common unit.

    The transformers :class:`mercer.features.GroupNormals` and :class:`mercer.features.MeasuredNormals`
    make such rows from observations and from measurements with errors.

    Parameters
    ----------
    n : int, optional
        Number of columns, 2 p; by default that of the data.

    Examples
    --------
    >>> from mercer.kernels import Heat
    >>> from mercer.spaces import NormalProduct
    >>> rows = [[0.0, 1.0, 5.0, 0.1], [0.5, 1.0, 5.1, 0.1], [0.5, 1.0, 5.1, 0.4]]
    >>> Heat(NormalProduct(), t=0.5)(rows).round(4)
    array([[1.    , 0.7044, 0.2916],
           [0.7044, 1.    , 0.3302],
           [0.2916, 0.3302, 1.    ]])
    """

    n: int | None = None
    least_dimension = 2
    computes_in_double = True
    takes_sparse = False
    sampled_columns = 6
    #: The space of one feature, and its columns.
    factor = NormalFamily()
    width = 2

    def realise(self, law: Law, n: int, normalized: bool = True) -> FactorRealisation:
        """A product over the features: see :meth:`Space.realise`."""
        times = law.times(n).times
        if len(times) > 1:  # each takes seconds, in ball arithmetic
            raise TypeError(f"{law.name} is not known on products of normal families; use Heat")
        return FactorRealisation(self, float(times[0]), n, normalized)

    def _onto(self, rows: np.ndarray) -> np.ndarray:
        return np.where(np.arange(rows.shape[1]) % 2, np.exp(rows), rows)

    def isometry(self, rng: np.random.Generator) -> Callable[[Any], Any]:
        """See :meth:`Space.isometry`; another unit and origin of each feature."""
        scales = np.repeat(rng.gamma(2.0, size=100), 2)
        return lambda X: X * scales[: X.shape[1]] + 3.0 * (np.arange(X.shape[1]) % 2 == 0)

    def check_time(self, t: float) -> None:
        if t < LEAST_TIME:
            raise ValueError(f"t of Heat on {self!r} must be at least {LEAST_TIME}, got {t!r}")

    def dimension(self, n: int) -> int:
        """A plane for each feature: see :meth:`Space.dimension`."""
        return n

    def _check_dimension(self, columns: int, name: str) -> None:
        super()._check_dimension(columns, name)
        if columns % 2:
            raise ValueError(
                f"{name} has {columns} columns; {type(self).__name__} needs an even number: a mean and "
                "a standard deviation for each feature, side by side"
            )

    def _check_rows(self, X: Any, name: str) -> None:
        check_scales(X[:, 1::2], name, "standard deviations, in columns 1, 3, 5, ...,")

    def embed_divergence(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        left = Normals(X[:, 0::2], X[:, 1::2])
        same = Y is None or Y is X
        return embed_normals(left, left if same else Normals(Y[:, 0::2], Y[:, 1::2]))

    def divergence_unit(self, n: int) -> float:
        """8: see :class:`DistributionSpace`."""
        return 8.0

    def factors(self, X: Any) -> list[Any]:
        """Checked rows of each feature on its own, points of ``NormalFamily()``."""
        return [X[:, j : j + 2] for j in range(0, int(X.shape[1]), 2)]

    def distances(self, X: Any, Y: Any = None) -> Any:
        """Distances ``sqrt(sum_j rho_j^2)`` between rows, at curvature -1.

        Examples
        --------
        >>> from mercer.spaces import NormalProduct
        >>> NormalProduct().distances([[0.0, 1.0, 0.0, 1.0]], [[0.0, 2.0, 0.0, 4.0]]).round(4)
        array([[1.5499]])
        """
        left = self.factors(self.check(X, "X"))
        right = left if Y is None else self.factors(self.check(Y, "Y"))
        if len(left) != len(right):
            raise ValueError(f"X has {2 * len(left)} columns, Y has {2 * len(right)}; they must agree")
        pairs = zip(left, right, strict=True)
        squares = sum(NormalFamily().distances(first, second) ** 2 for first, second in pairs)
        return array_namespace(squares).sqrt(squares)

    def fisher_distances(self, X: Any, Y: Any = None) -> Any:
        """Distances in the Fisher metric, ``sqrt(2)`` times :meth:`distances`."""
        return math.sqrt(2) * self.distances(X, Y)
