"""Newton steps on the coefficients inside their boxes, for when pairs and blocks make slow progress."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lstsq
from scipy.optimize import brentq

from mercer._arrays import on_cpu, placed
from mercer._threads import blas_in_one_thread
from mercer.machines.conjugate import conjugate_gradients
from mercer.machines.pivots import Preconditioner
from mercer.machines.program import Array, Index, Program, Solution, certify, kinks
from mercer.machines.rows import ComputedBlocks, MatrixRows

#: Largest number of coefficients moved together: their matrix is stored and factorised.
_MOST = 5000
#: Number of times that coefficients may reach the end of their piece during a step.
_REPEATS = 50
#: Ridge that makes the matrix of equal rows invertible, relative to its largest entry.
_RIDGE = 1e-13
_TINY = 1e-300
#: What a factor in single precision leaves out of the diagonal at least, relative to it.
_SINGLE = 1e-6
#: Conjugate gradients: residual relative to that at their start, largest number of iterations, and the
#: number expected the first time.
_RESIDUAL, _ITERATIONS, _EXPECTED = 0.3, 10, 5
#: Factor of the waiting time after a step that did not pay.
_RARER = 2.0


def newton_step(program: Program, rows: MatrixRows, solution: Solution, most: int = _MOST) -> Solution:
    """The optimum on the present pieces of the coefficients, or the nearest feasible point towards it.

    Returns the solution itself if that gains nothing, or if more than ``most`` coefficients would have
    to be moved together.
    """
    from mercer.compiled.machines.certificates import COMPENSATED

    free, slope, low, high = _inside(program, solution)
    if not 2 <= len(free) <= min(most, _MOST):
        return solution
    H, b = rows.between(free), solution.b[free]
    with blas_in_one_thread():  # small factorisations, perhaps beside others
        moved = _ascend(H, b, slope, low, high)
    if np.array_equal(moved, b):
        return solution
    full = solution.b.copy()
    full[free] = moved
    values = rows.values(full, compensated=True)
    better = certify(program, full, values, rows.diagonal(), COMPENSATED)
    return better if better.objective > solution.objective or better.gap < solution.gap else solution


class LargeNewton:
    """Newton steps between blocks, for a program whose matrix is not stored.

    A step solves ``K d = slope + c`` on the coefficients inside their boxes, with ``sum d = 0``, by
    conjugate gradients.  Coefficients that leave their boxes are projected, and a line search follows.
    No steps are taken while all these coefficients fit into a block, and none takes longer than the
    blocks since the last.  Steps that gain less per time than the last block become rarer.
    """

    def __init__(self, program: Program, rows: ComputedBlocks) -> None:
        self._program, self._rows = program, rows
        self._since, self._iterations = 0.0, _EXPECTED
        self._patience, self._objective = 1.0, -math.inf

    def after(self, moved: int, solution: Solution) -> Solution:
        """The solution after a block of this many coefficients, possibly improved by a step."""
        self._since += moved
        by_block = (solution.objective - self._objective) / max(moved, 1)
        self._objective = solution.objective
        free, slope, low, high = _inside(self._program, solution)
        columns = len(free) * (1 + (self._iterations + 1) * len(free) / len(self._program.p))
        worth = self._rows.worth
        if len(free) <= self._rows.most or self._patience * columns > worth * self._since:
            return solution
        found = self._step(free, slope, low, high, solution)
        pays = worth * (found.objective - solution.objective) > columns * by_block
        self._patience = 1.0 if pays else _RARER * self._patience
        self._since, self._objective = 0.0, found.objective
        return found

    def _step(self, free: Index, slope: Array, low: Array, high: Array, solution: Solution) -> Solution:
        """The solution after a step, if that is better."""
        b = solution.b[free]
        target = _projected(b + self._direction(free, slope), float(b.sum()), low, high)
        moves = target - b
        product = self._rows.product(free, moves)
        gain, curvature = float(moves @ slope), float(moves @ product[free])
        if not (gain > 0 and curvature > 0):
            return solution
        length = min(1.0, gain / curvature)
        full = solution.b.copy()
        full[free] = _balanced(b + length * moves, math.fsum(b), low, high)
        values = solution.values + length * product
        roundings = solution.roundings + len(free)
        found = certify(self._program, full, values, self._rows.diagonal(), roundings)
        return found if found.objective > solution.objective else solution

    def _direction(self, free: Index, slope: Array) -> Array:
        """The Newton step, or zero if the matrix is not positive definite."""
        points, factor = self._rows.part(free)
        size = float(np.mean(self._rows.diagonal()[free]))
        left = max(size - float(on_cpu((factor**2).sum())) / len(free), _SINGLE * size)
        right = np.column_stack([slope - slope.mean(), np.ones(len(free))])
        goals = _RESIDUAL * np.linalg.norm(right, axis=0)
        try:
            found, _, self._iterations = conjugate_gradients(
                points.times, placed(right, points.X), Preconditioner(factor, left), goals, _ITERATIONS
            )
        except LinAlgError:
            return np.zeros_like(slope)
        step, constant = on_cpu(found).T
        return np.asarray(step - constant * (step.sum() / constant.sum()))


def _inside(program: Program, solution: Solution) -> tuple[Index, Array, Array, Array]:
    """Coefficients inside their boxes, their slopes, and the ends of the pieces that they are on."""
    rise, fall = kinks(program, solution.b)
    free = np.flatnonzero((rise == fall) & (program.lower < program.upper))
    slope = (program.p - solution.values + rise)[free]
    return free, slope, *_pieces(program, solution.b[free], free)


def _projected(b: Array, total: float, low: Array, high: Array) -> Array:
    """The nearest point between both ends with this sum."""

    def excess(shift: float) -> float:
        return float(np.clip(b - shift, low, high).sum()) - total

    ends = float((b - high).min()), float((b - low).max())
    return np.clip(b - brentq(excess, *ends), low, high)


def _ascend(H: Array, b: Array, slope: Array, low: Array, high: Array) -> Array:
    """Move to the maximum of a quadratic function with ``sum b`` fixed.

    Coefficients that reach the end of their piece are fixed there: each adds a constraint to the step,
    and a solution with the factor of H.
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
    """Correct the rounding error of the sum at the coefficient with the most room."""
    widest = int(np.argmax(np.minimum(b - low, high - b)))
    b[widest] = np.clip(b[widest] + (total - math.fsum(b)), low[widest], high[widest])
    return b


def _pieces(program: Program, b: Array, free: Index) -> tuple[Array, Array]:
    """Ends of the straight pieces that coefficients are on."""
    low, high = program.lower[free], program.upper[free]
    if program.epsilon > 0:
        low, high = np.where(b > 0, np.maximum(low, 0), low), np.where(b < 0, np.minimum(high, 0), high)
    return low, high
