"""Functions of large sparse symmetric matrices, applied to blocks of vectors.

``f(M) B`` is a Chebyshev series in M: each term costs one pass over the edges, and the error of the
scalar series on an interval that holds the eigenvalues bounds the error of every entry.  Matrices are
SciPy's, multiplied in threads, or sparse tensors, multiplied on their device.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray
from scipy import sparse
from scipy.fft import dct

from mercer._arrays import is_foreign, is_watched, on_cpu
from mercer._progress import progress
from mercer._threads import run, threads_in_use

Array = NDArray[np.float64]

#: Error allowed, relative to the largest value of the function.
TOLERANCE = 1e-13
#: Rounding error of a coefficient.
_ROUNDING = 2e-17
#: Longest series.
MOST_TERMS = 2**17
#: Bytes of one block of vectors; three are held at a time.
_BLOCK_BYTES = 2**29
#: Fraction of non-zero entries above which powers of a matrix are products of dense ones.
_CROWDED = 0.05
#: Widest block: each edge should fetch many consecutive cache lines.
WIDTH = 64


def from_tensor(matrix: Any) -> tuple[Any, str | None]:
    """A matrix as a NumPy or SciPy array, and its device if it is a tensor."""
    if not is_foreign(matrix):
        return matrix, None
    if is_watched(matrix):
        raise TypeError("the matrix of a graph has no derivatives: detach it")
    return on_cpu(matrix), str(device(matrix))


def at(home: str | None, values: Any) -> Any:
    """An array or a sparse matrix on the device of a graph, as a tensor, or in main memory."""
    if home is None:
        return on_cpu(values)
    from mercer.engine.tensors import graphs

    return graphs.brought(home, values)


def beside(points: Any, block: Any) -> Any:
    """A block of vectors on the device of the points that it is multiplied with."""
    return at(str(device(points)) if is_foreign(points) else None, block)


def scattered(matrix: Any, nodes: NDArray[np.intp], values: Any) -> Any:
    """A block of vectors on all nodes, with rows of values added at some; where the matrix is."""
    if is_foreign(matrix):
        from mercer.engine.tensors import graphs

        return graphs.scattered(matrix, nodes, values)
    values = on_cpu(values)
    block = np.zeros((matrix.shape[0], *values.shape[1:]))
    np.add.at(block, nodes, values)
    return block


class Series(Protocol):
    """A function f of a matrix as a sum of terms, each of which costs one pass over the edges."""

    @property
    def passes(self) -> int:
        """Number of passes."""

    def apply(self, matrix: Any, block: Any, advance: Callable[[], None]) -> Any:
        """The product of f(M) with a block of vectors, which is used as working space."""


@dataclass(frozen=True, eq=False)
class Expansion:
    """A Chebyshev series on an interval, and its largest error there."""

    low: float
    high: float
    coefficients: Array
    error: float

    @property
    def passes(self) -> int:
        """See :class:`Series`."""
        return len(self.coefficients) - 1

    @property
    def steps(self) -> tuple[float, float]:
        """Factors of the matrix M and of one in ``2 x``, with x on [-1, 1]."""
        width = self.high - self.low
        return 4 / width, -2 * (self.high + self.low) / width

    def apply(self, matrix: Any, block: Any, advance: Callable[[], None]) -> Any:
        """See :class:`Series`."""
        if is_foreign(block):
            from mercer.engine.tensors import graphs

            return graphs.chebyshev(self, matrix, block, advance)
        from mercer.compiled.graphs import chebyshev_step

        total: Array = self.coefficients[0] * block
        if self.passes == 0:
            return total
        slope, shift = self.steps
        parts = _row_parts(matrix)
        current, previous = block, np.zeros_like(block)
        for k, weight in enumerate(self.coefficients[1:]):
            half = 0.5 if k == 0 else 1.0
            edges = (matrix.indptr, matrix.indices, matrix.data, half * slope, half * shift)
            run(chebyshev_step, [(*part, *edges, current, previous, total, weight) for part in parts])
            current, previous = previous, current
            advance()
        return total


def expand(f: Callable[[Array], Array], low: float, high: float) -> Expansion:
    """Expand a function, with as many terms as :data:`TOLERANCE` needs.

    The stated error is the sum of the terms left out plus the error observed between the nodes.
    """
    if high <= low:
        return Expansion(low, low, f(np.array([low])), 0.0)
    terms = 16
    while True:
        coefficients = _interpolate(f(_at_angles(low, high, _nodes(terms))))
        between = np.linspace(0, np.pi, 2 * terms + 1)
        values = f(_at_angles(low, high, between))
        allowed = (TOLERANCE + _ROUNDING * terms) * float(np.abs(values).max())
        # Twice as many as needed, so that the terms left out can be summed.
        if np.abs(coefficients[terms // 2 :]).sum() <= allowed:
            seen = float(np.abs(values - _on_grid(coefficients, len(between))).max())
            if seen <= 10 * allowed:
                break
        terms *= 2
        if terms > 2 * MOST_TERMS:
            raise ValueError(
                f"the function of the graph's matrix is not resolved by {MOST_TERMS} terms: it is too "
                f"steep on [{low:.6g}, {high:.6g}]; take a smaller time, length scale or beta, or "
                "SpectralFeatures"
            )
    tails = np.cumsum(np.abs(coefficients[::-1]))[::-1]
    keep = max(int(np.searchsorted(-tails, -allowed)), 1)
    return Expansion(low, high, coefficients[:keep], float(tails[keep]) + seen)


def _nodes(terms: int) -> Array:
    """Angles of the Chebyshev nodes, from the low end of the interval to the high one."""
    return np.pi * (np.arange(terms) + 0.5) / terms


def _at_angles(low: float, high: float, angles: Array) -> Array:
    """Points of the interval; their distance to the nearer end is exact, where functions are steep."""
    near_low = low + (high - low) * np.sin(angles / 2) ** 2
    near_high = high - (high - low) * np.cos(angles / 2) ** 2
    return np.where(angles < np.pi / 2, near_low, near_high)


def _interpolate(values: Array) -> Array:
    """Chebyshev coefficients of the polynomial through values at the nodes."""
    coefficients: Array = dct(values, type=2) / len(values)
    coefficients[0] /= 2
    coefficients[1::2] *= -1  # the nodes ascend
    return coefficients


def _on_grid(coefficients: Array, points: int) -> Array:
    """Values of the series at equally spaced angles, without the conditioning of high powers."""
    padded = np.zeros(points)
    padded[: len(coefficients)] = coefficients / 2
    padded[0] *= 2
    padded[1::2] *= -1
    return dct(padded, type=1)


@dataclass(frozen=True, eq=False)
class WalkSeries:
    """``exp(beta M)`` of a non-negative matrix, summed over walks; or ``beta M exp(beta M)``, its slope.

    No term is negative: every entry is as accurate as the largest.
    """

    beta: float
    terms: int
    slope: bool = False

    @classmethod
    def reaching(cls, beta: float, radius: float, slope: bool = False) -> WalkSeries:
        """The series with enough terms to leave less than 1e-17, where no diagonal entry is below 1."""
        x = beta * radius
        terms, log_term = 1, math.log(max(x, 1e-300))
        while terms <= x or log_term > -40 - math.log1p(terms):
            terms += 1
            log_term += math.log(max(x, 1e-300)) - math.log(terms)
        return cls(beta, terms, slope)

    @property
    def passes(self) -> int:
        """See :class:`Series`."""
        return self.terms

    def apply(self, matrix: Any, block: Any, advance: Callable[[], None]) -> Any:
        """See :class:`Series`."""
        if is_foreign(block):
            from mercer.engine.tensors import graphs

            return graphs.walks(self, matrix, block, advance)
        from mercer.compiled.graphs import walk_step

        total = np.zeros_like(block) if self.slope else block.copy()
        parts = _row_parts(matrix)
        current, following = block, np.empty_like(block)
        for k in range(1, self.terms + 1):
            edges = (matrix.indptr, matrix.indices, matrix.data, self.beta / k)
            state = (current, following, total, float(k) if self.slope else 1.0)
            run(walk_step, [(*part, *edges, *state) for part in parts])
            current, following = following, current
            advance()
        return total


def columns(matrix: Any, series: Series, chosen: NDArray[np.intp], keep: NDArray[np.intp]) -> Any:
    """The entries of f(M) in the rows ``keep`` and the columns ``chosen``, where the matrix is.

    Nothing larger than the result and three blocks of :data:`_BLOCK_BYTES` bytes is held.
    """
    nodes = matrix.shape[0]
    widest = int(np.clip(_BLOCK_BYTES // (8 * nodes), 1, WIDTH))
    width = -(-len(chosen) // -(-len(chosen) // widest))  # equal parts
    shape = len(keep), len(chosen)
    out: Any = matrix.values().new_empty(shape) if is_foreign(matrix) else np.empty(shape)
    starts = range(0, len(chosen), width)
    with progress(series.passes * len(starts), "diffusing on the graph") as advance:
        for start in starts:
            part = chosen[start : start + width]
            block = scattered(matrix, part, np.eye(len(part)))
            out[:, start : start + width] = series.apply(matrix, block, advance)[keep]
    return out


def half_powers(matrix: Any, nodes: NDArray[np.intp], exponent: int) -> tuple[Any, Any]:
    """Rows of some nodes in two powers of a matrix, whose exponents add up to the one given."""
    if is_foreign(matrix):
        from mercer.engine.tensors import graphs

        return graphs.half_powers(matrix, nodes, exponent)
    size = matrix.shape[0]
    step = matrix.toarray() if matrix.nnz > _CROWDED * size**2 else matrix
    rows = step[nodes] if exponent > 1 else sparse.eye_array(size, format="csr")[nodes]
    for _ in range(exponent // 2 - 1):
        rows = rows @ step
    return rows, rows @ step if exponent % 2 else rows


def product(matrix: Any, series: Series, block: Any) -> Any:
    """The product of f(M) with a block of vectors, which is used as working space."""
    with progress(series.passes, "diffusing on the graph") as advance:
        return series.apply(matrix, block, advance)


def _row_parts(matrix: sparse.csr_array) -> list[tuple[int, int]]:
    """Ranges of rows with about equal numbers of edges, one per thread."""
    threads = threads_in_use() if matrix.nnz > 100_000 else 1
    load = matrix.indptr + np.arange(len(matrix.indptr))
    cuts = np.searchsorted(load, np.linspace(0, load[-1], threads + 1))
    cuts[0], cuts[-1] = 0, matrix.shape[0]
    return [(int(a), int(b)) for a, b in pairwise(cuts) if b > a]
