"""Expectations over pairs of Dirichlet posteriors: from moments, or from samples.

Both take rows of counts x and average a function of the Bhattacharyya coefficient
``w = sum_i sqrt(theta_i theta'_i)`` over independent posteriors ``Dirichlet(x + alpha)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special

from mercer._threads import run
from mercer.profiles import Profile

Array = NDArray[np.float64]

#: Rows of a result that one task computes from moments.
_ROWS = 8
#: Numbers in the sampled points of one panel of rows.
_PANEL = 4_000_000
#: Samples in the rows and in the columns of one tile.
_TILE = 512
#: Quantiles that one task computes.
_QUANTILES = 20_000
#: Steps of the grid on which sample points lie in their strata: never on the edge.
_GRID = 2**20


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
        # Near the totals, and never small: coefficients up to the order stay in the floating range.
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

    run(fill, list(_parts(len(P), _ROWS)), what="posterior moments")
    return out


def moment_diagonal(P: Moments, polynomial: Array) -> Array:
    """Diagonal of :func:`moment_gram`."""
    from mercer.compiled.multinomial import posterior_diagonal

    out = np.empty(len(P))

    def fill(begin: int, end: int) -> None:
        posterior_diagonal(
            begin, end, P.rows, P.n, P.usual, _steps(polynomial), P.norms, polynomial, out
        )

    run(fill, list(_parts(len(P), 8 * _ROWS)), what="posterior moments")
    return out


def _steps(polynomial: Array) -> Array:
    """Ratios ``m! / (m + 2)!``."""
    m = np.arange(len(polynomial))
    return 1 / ((m + 1.0) * (m + 2.0))


def _parts(total: int, size: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + size, total)) for start in range(0, total, size))


def latin_hypercube(size: int, n: int, seed: tuple[int, ...]) -> Array:
    """Points of the unit cube, shape (size, n), one in each of ``size`` strata of every coordinate."""
    rng = np.random.default_rng(seed)
    strata = np.repeat(np.arange(size)[:, None], n, axis=1)
    inside = (rng.integers(_GRID, size=(size, n)) + 0.5) / _GRID
    return (rng.permuted(strata, axis=0) + inside) / size


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
        logs[:, part] = _log_gamma_quantile(values[rank[part]], uniform[:, column[part]])

    run(fill, list(_parts(len(keys), max(1, _QUANTILES // len(uniform)))), what="posterior samples")
    points = logs[:, places.reshape(shapes.shape)].transpose(1, 0, 2)
    points = np.exp((points - points.max(axis=2, keepdims=True)) / 2)
    return points / np.sqrt(np.vecdot(points, points))[:, :, None]


def _log_gamma_quantile(b: Array, u: Array) -> Array:
    """Logarithm of the u-quantile of a gamma variable of shape b, also where the quantile underflows."""
    quantile = special.gammaincinv(b, u)
    tiny = quantile < 1e-290
    # There the distribution function is x^b / Gamma(b + 1).
    power = (np.log(u) + special.gammaln(b + 1)) / b
    return np.where(tiny, power, np.log(np.where(tiny, 1.0, quantile)))


def sampled_gram(P: Any, Q: Any, alpha: float, uniform: Array, profile: Profile) -> tuple[Array, Array]:
    """Means of a profile of w over all pairs of samples of two rows, and over pairs of equal number.

    The first is the Gram matrix of mean embeddings, hence positive semidefinite.

    Parameters
    ----------
    P, Q : counts (array or CSR) of shape (m, n) and (p, n); ``Q=None`` stands for P
    alpha : float
    uniform : array of shape (q, n)
        Points of the unit cube that samples of all rows are made from.
    profile : Profile
    """
    q, n = uniform.shape
    other = P if Q is None else Q
    means, equals = np.empty((2, P.shape[0], other.shape[0]))
    panel = max(1, _PANEL // (q * n))
    for begin, end in _parts(P.shape[0], panel):
        left = posterior_points(_dense(P[begin:end]) + alpha, uniform)
        for first, last in _parts(other.shape[0], panel):
            if Q is None and first < begin:
                continue
            same = Q is None and first == begin
            right = left if same else posterior_points(_dense(other[first:last]) + alpha, uniform)
            for out, values in zip(
                (means, equals), _panel_means(left, right, profile, same), strict=True
            ):
                out[begin:end, first:last] = values
                if Q is None:
                    out[first:last, begin:end] = values.T
    return means, equals


def _panel_means(left: Array, right: Array, profile: Profile, same: bool) -> tuple[Array, Array]:
    """Both means of :func:`sampled_gram` for sampled points; ``same`` if right is left."""
    q, n = left.shape[1:]
    means, equals = np.empty((2, len(left), len(right)))

    def fill(rows: slice, columns: slice) -> None:
        products = left[rows].reshape(-1, n) @ right[columns].reshape(-1, n).T
        profile.apply(products)
        pairs = products.reshape(-1, q, columns.stop - columns.start, q)
        means[rows, columns] = pairs.mean(axis=(1, 3))
        equals[rows, columns] = np.einsum("aibi->ab", pairs) / q

    tile = max(1, _TILE // q)
    places = [
        (slice(*rows), slice(*columns))
        for rows in _parts(len(left), tile)
        for columns in _parts(len(right), tile)
        if not same or columns >= rows
    ]
    run(fill, places, what="posterior samples")
    if same:
        upper = np.triu_indices(len(left), 1)
        for out in (means, equals):
            out.T[upper] = out[upper]
    return means, equals


def sampled_diagonal(P: Any, alpha: float, uniform: Array, profile: Profile) -> Array:
    """Diagonal of the first matrix of :func:`sampled_gram`."""
    q, n = uniform.shape
    out = np.empty(P.shape[0])
    for begin, end in _parts(P.shape[0], max(1, _PANEL // (q * max(n, q)))):
        points = posterior_points(_dense(P[begin:end]) + alpha, uniform)
        pairs = (points @ points.transpose(0, 2, 1)).reshape(-1, q)
        profile.apply(pairs)
        out[begin:end] = pairs.reshape(end - begin, -1).mean(axis=1)
    return out


def _dense(X: Any) -> Array:
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
