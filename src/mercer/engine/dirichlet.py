"""Dirichlet posteriors of rows of counts: exact expectations over pairs of them, and samples.

For rows of counts x the posteriors are ``Dirichlet(x + alpha)``; expectations are those of functions of
the Bhattacharyya coefficient ``w = sum_i sqrt(theta_i theta'_i)`` of two independent ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special

from mercer._threads import run
from mercer.engine.posteriors import log_gamma_quantile, parts

Array = NDArray[np.float64]

#: Rows of a result that one task computes from moments.
_ROWS = 8
#: Quantiles that one task computes.
_QUANTILES = 20_000


def mean_root(b: Array) -> Array:
    """Mean ``Gamma(b + 1/2) / Gamma(b)`` of the square root of a gamma variable of shape b.

    For large b by the asymptotic series: a difference of log-gammas would lose digits.
    """
    small = np.minimum(b, 64.0)
    x = 1 / np.maximum(b, 64.0)
    series = 869 / 4194304 * x - 399 / 262144
    for coefficient in (-21 / 32768, 5 / 1024, 1 / 128, -1 / 8, 1.0):
        series = series * x + coefficient
    # Gamma(b) = Gamma(b + 1) / b does not overflow at small b.
    ratio = small * special.gamma(small + 0.5) / special.gamma(small + 1)
    return np.where(b < 64, ratio, np.sqrt(b) * series)


@dataclass(frozen=True)
class Moments:
    """Rows prepared for moments up to an order; zero counts are not stored."""

    rows: tuple[Any, ...]
    norms: Array
    n: int
    usual: tuple[float, float, float, float]

    @classmethod
    def of(cls, counts: Any, alpha: float, order: int) -> Moments:
        """Prepare rows of counts (array or CSR) for moments below ``order``."""
        matrix = sparse.csr_matrix(counts, dtype=np.float64)
        n = matrix.shape[1]
        shapes = matrix.data + alpha
        totals = np.asarray(matrix.sum(axis=1)).ravel() + n * alpha
        # Near the totals, and never small: coefficients up to the order neither over- nor underflow.
        scales = totals + order / 2
        norms = np.empty((len(totals), order))
        norms[:, 0] = 1
        norms[:, 1] = np.sqrt(scales) / mean_root(totals)
        for m in range(order - 2):
            norms[:, m + 2] = norms[:, m] * (scales / (totals + m / 2))
        index = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
        values, times = np.unique(matrix.data, return_counts=True)
        frequent = values[np.argmax(times)] if len(values) else 0.0
        pair = np.array([alpha, frequent + alpha])
        usual = tuple(np.stack([pair, mean_root(pair)], axis=1).ravel().tolist())
        reaches = np.sqrt(scales / totals)
        return cls((*index, shapes, mean_root(shapes), 1 / scales, reaches), norms, n, usual)

    def __len__(self) -> int:
        return len(self.norms)


def moment_gram(P: Moments, Q: Moments | None, polynomial: Array) -> Array:
    """Matrix of ``E f(w)``, f a polynomial given by its coefficients times ``k!``."""
    from mercer.compiled.multinomial import posterior_rows

    other = P if Q is None else Q
    out = np.empty((len(P), len(other)))

    def fill(begin: int, end: int) -> None:
        posterior_rows(
            begin, end, P.rows, other.rows, P.n, P.usual, _steps(polynomial), P.norms, other.norms,
            polynomial, Q is None, out,
        )  # fmt: skip

    run(fill, list(parts(len(P), _ROWS)), what="posterior moments")
    return out


def moment_diagonal(P: Moments, polynomial: Array) -> Array:
    """Diagonal of :func:`moment_gram`."""
    from mercer.compiled.multinomial import posterior_diagonal

    out = np.empty(len(P))

    def fill(begin: int, end: int) -> None:
        posterior_diagonal(
            begin, end, P.rows, P.n, P.usual, _steps(polynomial), P.norms, polynomial, out
        )

    run(fill, list(parts(len(P), 8 * _ROWS)), what="posterior moments")
    return out


def _steps(polynomial: Array) -> Array:
    """Ratios ``m! / (m + 2)!``."""
    m = np.arange(len(polynomial))
    return 1 / ((m + 1.0) * (m + 2.0))


def posterior_points(shapes: Array, uniform: Array) -> Array:
    """Square roots of Dirichlet variables, shape (m, q, n), from shapes (m, n) and points (q, n).

    Gamma quantiles, divided by their sum.  Equal shapes in a column share them.
    """
    values, places = np.unique(shapes, return_inverse=True)
    keys = places.reshape(shapes.shape) * shapes.shape[1] + np.arange(shapes.shape[1])
    keys, places = np.unique(keys, return_inverse=True)
    rank, column = np.divmod(keys, shapes.shape[1])
    logs = np.empty((len(uniform), len(keys)))

    def fill(begin: int, end: int) -> None:
        part = slice(begin, end)
        logs[:, part] = log_gamma_quantile(values[rank[part]], uniform[:, column[part]])

    run(fill, list(parts(len(keys), max(1, _QUANTILES // len(uniform)))), what="posterior samples")
    points = logs[:, places.reshape(shapes.shape)].transpose(1, 0, 2)
    points = np.exp((points - points.max(axis=2, keepdims=True)) / 2)
    return points / np.sqrt(np.vecdot(points, points))[:, :, None]
