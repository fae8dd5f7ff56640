"""Partial Cholesky factors with random pivots, and preconditioners made of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.linalg.lapack import dtrtri

from mercer._arrays import on_cpu, placed, taken
from mercer.machines.points import Points
from mercer.machines.program import Array, Index

#: Pivots that are proposed at a time.
_BLOCK = 128
#: Residual diagonal, relative to the diagonal, that counts as rounding.
_ROUNDING = 1e-12
#: Points among which pivots are found, for each of them.
_SAMPLED = 20


def pivoted_cholesky(
    points: Points,
    diagonal: Array,
    rank: int,
    rng: np.random.Generator,
    weights: Array | float = 1.0,
) -> tuple[Array, Index]:
    """A factor F with ``F F' ~ K``, from rank rows of K at random pivots, and the pivots.

    A row is chosen with probability proportional to its weight times its residual diagonal.  The rows
    of F at the pivots are a lower triangle.  Pivots are proposed in blocks, and those made less likely
    by others of their block are rejected (Epperly, Tropp and Webber, "Embrace rejection", 2024), so
    that the pivots are distributed as if drawn one by one.

    Returns
    -------
    array of shape (m, at most rank), array of int
    """
    m = len(points)
    F = np.zeros((m, min(rank, m)), order="F")
    left, size, chosen = np.maximum(diagonal, 0.0), 0, np.empty(F.shape[1], dtype=np.intp)
    while size < F.shape[1] and left.sum() > _ROUNDING * np.abs(diagonal).sum():
        block = min(_BLOCK, F.shape[1] - size)
        odds = weights * left
        proposed = rng.choice(m, size=block, p=odds / odds.sum())
        pivots, L = _accepted(points, F[:, :size], left, proposed, rng)
        if not len(pivots):  # nothing but rounding is left
            break
        columns = points.between(np.arange(m), pivots) - F[:, :size] @ F[pivots, :size].T
        new = solve_triangular(L, columns.T, lower=True, check_finite=False).T
        F[:, size : size + len(pivots)] = new
        chosen[size : size + len(pivots)] = pivots
        left = np.maximum(left - (new**2).sum(axis=1), 0.0)
        left[pivots] = 0.0
        size += len(pivots)
    return F[:, :size], chosen[:size]


def _accepted(
    points: Points, F: Array, left: Array, proposed: Index, rng: np.random.Generator
) -> tuple[Index, Array]:
    """Accepted pivots of a block, and the Cholesky factor of the residual of K between them."""
    H = points.between(proposed, proposed).astype(float) - F[proposed] @ F[proposed].T
    chosen: list[int] = []
    L = np.zeros_like(H)
    for k in range(len(proposed)):
        column = H[:, k] - L[:, : len(chosen)] @ L[k, : len(chosen)]
        if column[k] > max(rng.random(), _ROUNDING) * left[proposed[k]]:
            L[:, len(chosen)] = column / np.sqrt(column[k])
            chosen.append(k)
    return proposed[chosen], L[np.ix_(chosen, range(len(chosen)))]


def sampled_pivots(points: Points, rank: int, rng: np.random.Generator) -> tuple[Index, Array]:
    """Pivots among a sample of the points, and the Cholesky factor of K between them.

    The sample, 20 points for each pivot, is factorised in main memory.
    """
    sample = np.sort(rng.choice(len(points), size=min(len(points), _SAMPLED * rank), replace=False))
    some = Points(points.kernel, on_cpu(taken(points.X, sample)))
    F, pivots = pivoted_cholesky(some, some.diagonal(), rank, rng)
    return sample[pivots], F[pivots]


class NystroemFactor:
    """A factor F with ``F F' ~ K``, from pivots among some of the points, computed on their device.

    Parameters
    ----------
    points : Points
    rank : int
        Largest number of pivots, and of columns of F.
    rng : Generator
    """

    def __init__(self, points: Points, rank: int, rng: np.random.Generator) -> None:
        pivots, L = sampled_pivots(points, rank, rng)
        self._kernel, self._pivots = points.kernel, taken(points.X, pivots)
        self._inverse = dtrtri(L, lower=1)[0].T

    def __call__(self, X: Any) -> Any:
        """F at points, an array of their library, of shape (m, at most rank)."""
        columns = self._kernel(X, self._pivots)
        return columns @ placed(self._inverse.astype(on_cpu(columns[:0, :0]).dtype), columns)


class Preconditioner:
    """The inverse of ``F F' + alpha``, by a factorisation of the size of F, on its device."""

    def __init__(self, F: Any, alpha: float) -> None:
        self._F, self._alpha = F, alpha
        inner = on_cpu(F.T @ F).astype(float)
        inner[np.diag_indices_from(inner)] += alpha
        self._factor = cho_factor(inner, check_finite=False)

    def __call__(self, V: Any) -> Any:
        """Apply the inverse to columns."""
        xp, F = array_namespace(V), self._F
        inside = cho_solve(self._factor, on_cpu(F.T @ xp.astype(V, F.dtype)), check_finite=False)
        return (V - F @ xp.astype(placed(inside, V), F.dtype)) / self._alpha
