"""Newton steps on the coefficients inside their boxes, where single pairs make slow progress."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lstsq

from mercer._threads import blas_in_one_thread
from mercer.machines.program import Array, Index, Program, Solution, certify, kinks
from mercer.machines.rows import MatrixRows

#: Most coefficients that are moved together, whatever it is worth: their matrix is held and factorised.
_MOST = 5000
#: Times that coefficients may reach the end of their piece on the way.
_REPEATS = 50
#: Ridge that makes the matrix of equal rows invertible, relative to its largest entry.
_RIDGE = 1e-13
_TINY = 1e-300


def newton_step(program: Program, rows: MatrixRows, solution: Solution, most: int = _MOST) -> Solution:
    """The best point on the pieces that the coefficients are on, or as far towards it as they reach.

    Returns the solution itself if that gains nothing, or if more than ``most`` coefficients would have
    to be moved together.
    """
    rise, fall = kinks(program, solution.b)
    free = np.flatnonzero((rise == fall) & (program.lower < program.upper))
    if not 2 <= len(free) <= min(most, _MOST):
        return solution
    H = rows.between(free)
    b, slope = solution.b[free], (program.p - solution.values + rise)[free]
    low, high = _pieces(program, b, free)
    with blas_in_one_thread():  # small factorisations, perhaps beside others
        moved = _ascend(H, b, slope, low, high)
    if np.array_equal(moved, b):
        return solution
    full = solution.b.copy()
    full[free] = moved
    better = certify(program, full, rows.values(full), rows.diagonal())
    return better if better.objective > solution.objective or better.gap < solution.gap else solution


def _ascend(H: Array, b: Array, slope: Array, low: Array, high: Array) -> Array:
    """Move to the maximum of a quadratic function with ``sum b`` fixed.

    Coefficients that reach the end of their piece on the way are held there: each is one more constraint
    on the step, and one more solution with the factor of H.
    """
    largest = max(float(np.diagonal(H).max()), _TINY)
    H += largest  # changes nothing where the sum is fixed, and makes matrices of low rank invertible
    H[np.diag_indices_from(H)] += _RIDGE * largest * len(H)
    try:
        factor = cho_factor(H, check_finite=False)
    except LinAlgError:
        return b
    b, total = b.copy(), math.fsum(b)
    held: list[int] = []
    constraints = np.ones((len(b), 1))
    solved = cho_solve(factor, constraints, check_finite=False)
    free_step = cho_solve(factor, slope, check_finite=False)
    for _ in range(min(_REPEATS, len(b) - 1)):
        multipliers = lstsq(constraints.T @ solved, constraints.T @ free_step, check_finite=False)[0]
        direction = free_step - solved @ multipliers
        direction[held] = 0.0
        direction -= np.where(direction == 0, 0.0, direction.sum() / max((direction != 0).sum(), 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(direction > 0, high - b, low - b) / direction
        reach[direction == 0] = np.inf
        step = min(1.0, max(float(reach.min()), 0.0))
        ends = np.flatnonzero(reach <= step)
        b += step * direction
        b[ends] = np.where(direction[ends] > 0, high[ends], low[ends])
        if step == 1.0:
            break
        # What is left of the step: the slopes are linear in it.
        free_step = (1 - step) * direction
        units = np.zeros((len(b), len(ends)))
        units[ends, np.arange(len(ends))] = 1.0
        constraints = np.hstack([constraints, units])
        solved = np.hstack([solved, cho_solve(factor, units, check_finite=False)])
        held.extend(ends.tolist())
    return _balanced(b, total, low, high)


def _balanced(b: Array, total: float, low: Array, high: Array) -> Array:
    """Undo the rounding of the sum, at the coefficient with most room."""
    widest = int(np.argmax(np.minimum(b - low, high - b)))
    b[widest] = np.clip(b[widest] + (total - math.fsum(b)), low[widest], high[widest])
    return b


def _pieces(program: Program, b: Array, free: Index) -> tuple[Array, Array]:
    """Ends of the straight pieces that coefficients are on."""
    low, high = program.lower[free], program.upper[free]
    if program.epsilon > 0:
        low, high = np.where(b > 0, np.maximum(low, 0), low), np.where(b < 0, np.minimum(high, 0), high)
    return low, high
