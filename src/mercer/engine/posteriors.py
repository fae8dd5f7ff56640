"""Expectations over pairs of independent posteriors, from samples of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from mercer._threads import run

Array = NDArray[np.float64]

#: Numbers in the sampled points of one panel of rows.
_PANEL = 4_000_000
#: Samples in the rows and in the columns of one tile.
_TILE = 512
#: Steps of the grid on which sample points lie in their strata: never on the edge.
_GRID = 2**20


def parts(total: int, size: int) -> Iterator[tuple[int, int]]:
    """Start and end of consecutive parts."""
    return ((start, min(start + size, total)) for start in range(0, total, size))


def latin_hypercube(size: int, n: int, seed: tuple[int, ...]) -> Array:
    """Points of the unit cube, shape (size, n), one in each of ``size`` strata of every coordinate."""
    rng = np.random.default_rng(seed)
    strata = np.repeat(np.arange(size)[:, None], n, axis=1)
    inside = (rng.integers(_GRID, size=(size, n)) + 0.5) / _GRID
    return (rng.permuted(strata, axis=0) + inside) / size


def log_gamma_quantile(b: Array, u: Array) -> Array:
    """Logarithm of the u-quantile of a gamma variable of shape b, also where the quantile underflows."""
    quantile = special.gammaincinv(b, u)
    tiny = quantile < 1e-290
    # In this case the distribution function is x^b / Gamma(b + 1).
    power = (np.log(u) + special.gammaln(b + 1)) / b
    return np.where(tiny, power, np.log(np.where(tiny, 1.0, quantile)))


@dataclass(frozen=True)
class Sampler:
    """Samples of the posteriors of rows, from common points of a unit cube, and a kernel between them.

    Attributes
    ----------
    draw : callable
        From m rows to samples of their posteriors, shape (m, q, n).
    compare : callable
        From samples of shapes (..., a, n) and (..., b, n) to kernel values of shape (..., a, b).
    size : int
        Number q of samples of a row.
    numbers : int
        Numbers in the samples of a row.
    """

    draw: Callable[[Any], Array]
    compare: Callable[[Array, Array], Array]
    size: int
    numbers: int

    def gram(self, P: Any, Q: Any) -> tuple[Array, Array]:
        """Means of the kernel over all pairs of samples of two rows, and over those of equal number.

        The first is the Gram matrix of mean embeddings, hence positive semidefinite if the kernel is.

        Parameters
        ----------
        P, Q : rows that can be sliced; ``Q=None`` stands for P
        """
        other = P if Q is None else Q
        means, equals = np.empty((2, P.shape[0], other.shape[0]))
        panel = max(1, _PANEL // self.numbers)
        for begin, end in parts(P.shape[0], panel):
            left = self.draw(P[begin:end])
            for first, last in parts(other.shape[0], panel):
                if Q is None and first < begin:
                    continue
                same = Q is None and first == begin
                right = left if same else self.draw(other[first:last])
                for out, values in zip((means, equals), self._panel(left, right, same), strict=True):
                    out[begin:end, first:last] = values
                    if Q is None:
                        out[first:last, begin:end] = values.T
        return means, equals

    def _panel(self, left: Array, right: Array, same: bool) -> tuple[Array, Array]:
        """Both means of :meth:`gram` for sampled points; ``same`` if right is left."""
        q, n = left.shape[1:]
        means, equals = np.empty((2, len(left), len(right)))

        def fill(rows: slice, columns: slice) -> None:
            values = self.compare(left[rows].reshape(-1, n), right[columns].reshape(-1, n))
            pairs = values.reshape(-1, q, columns.stop - columns.start, q)
            means[rows, columns] = pairs.mean(axis=(1, 3))
            equals[rows, columns] = np.einsum("aibi->ab", pairs) / q

        tile = max(1, _TILE // q)
        places = [
            (slice(*rows), slice(*columns))
            for rows in parts(len(left), tile)
            for columns in parts(len(right), tile)
            if not same or columns >= rows
        ]
        run(fill, places, what="posterior samples")
        if same:
            upper = np.triu_indices(len(left), 1)
            for out in (means, equals):
                out.T[upper] = out[upper]
        return means, equals

    def diagonal(self, P: Any) -> Array:
        """Diagonal of the first matrix of :meth:`gram`."""
        out = np.empty(P.shape[0])
        for begin, end in parts(P.shape[0], max(1, _PANEL // max(self.numbers, self.size**2))):
            points = self.draw(P[begin:end])
            out[begin:end] = self.compare(points, points).mean(axis=(1, 2))
        return out
