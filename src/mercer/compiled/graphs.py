"""Loops over the edges of a graph."""

from __future__ import annotations

import numpy as np

from mercer.compiled.jit import jit


@jit(fastmath={"contract"})
def chebyshev_step(begin, end, indptr, indices, data, slope, shift, current, previous, total, weight):
    """One step of ``T_(k+1) = 2 x T_k - T_(k-1)`` for rows ``begin:end`` of a block of vectors.

    ``2 x = slope M + shift``.  The new block replaces ``previous``, which is read at its own row only,
    and is added to ``total`` with its coefficient.
    """
    width = current.shape[1]
    row = np.empty(width)
    for i in range(begin, end):
        row[:] = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            value = data[p]
            other = current[indices[p]]
            for k in range(width):
                row[k] += value * other[k]
        here, before, out = current[i], previous[i], total[i]
        for k in range(width):
            new = slope * row[k] + shift * here[k] - before[k]
            before[k] = new
            out[k] += weight * new


@jit(fastmath={"contract"})
def walk_step(begin, end, indptr, indices, data, factor, current, following, total, weight):
    """``following = factor M current`` for rows ``begin:end``, added to ``total`` with a weight."""
    width = current.shape[1]
    for i in range(begin, end):
        row, out = following[i], total[i]
        row[:] = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            value = factor * data[p]
            other = current[indices[p]]
            for k in range(width):
                row[k] += value * other[k]
        for k in range(width):
            out[k] += weight * row[k]
