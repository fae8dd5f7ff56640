"""Solve the quadratic program of support vector machines to a relative duality gap."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum

import numpy as np

from mercer.machines.newton import newton_step
from mercer.machines.program import Array, Program, Solution, certify
from mercer.machines.rows import MatrixRows

#: Told the relative gap now and then; what it returns says whether to stop.
Watch = Callable[[float], bool]
#: Numbers that are read between two reports, in about a quarter of a second.
_PAUSE = 400_000_000
#: The solver aims a little lower, because the certificate counts what it has left out.
_MARGIN = 0.9
#: Rounds that may end too early because of a coefficient that was left out, before none is left out.
_MISLED = 4
#: Programs of so few rows are solved to rounding, if that takes no more steps for each coefficient.
_SMALL, _POLISH = 64, 100
#: Steps for each coefficient before a Newton step is tried.
_PATIENCE = 5
#: Relative gaps for which rows are gathered in single precision; slopes are always in double.
SINGLE = 1e-5


def solve(
    program: Program,
    rows: MatrixRows,
    tol: float,
    *,
    max_steps: int | None = None,
    start: Array | None = None,
    watch: Watch | None = None,
) -> Solution:
    """Solve the program to a relative duality gap.

    Parameters
    ----------
    program : Program
    rows : MatrixRows
    tol : float
        Largest relative duality gap.
    max_steps : int, optional
        Most steps to take.
    start : array, optional
        Coefficients to start from, in their boxes; by default zeros.
    watch : callable, optional
        Called with the relative gap now and then; if it returns True the solver stops where it is.
    """
    diagonal = rows.diagonal()
    b = np.zeros_like(program.p) if start is None else start
    solution = certify(program, b, rows.values(b), diagonal)
    most = math.inf if max_steps is None else max_steps
    solution = _improved(program, rows, solution, tol, most, watch)
    solution.reached = solution.relative_gap <= tol
    if solution.reached and len(b) <= _SMALL and solution.steps < most:
        solution = _improved(program, rows, solution, 0.0, min(_POLISH * len(b), most), watch)
        solution.reached = True
    return solution


def _improved(
    program: Program, rows: MatrixRows, solution: Solution, tol: float, most: float, watch: Watch | None
) -> Solution:
    """Rounds of steps, each with a certificate and, if it ended early, with a Newton step."""
    diagonal, misled = rows.diagonal(), 0
    while solution.relative_gap > tol and solution.steps < most:
        ascent = _Ascent(program, rows, solution, tol, misled < _MISLED)
        end = ascent.run(_MARGIN * tol, min(most - solution.steps, _PATIENCE * len(program.p)), watch)
        b, steps = ascent.b(), solution.steps + ascent.steps
        previous, solution = solution, certify(program, b, rows.values(b), diagonal)
        misled += end is End.REACHED
        if end is not End.REACHED and end is not End.STOPPED and solution.relative_gap > tol:
            solution = newton_step(program, rows, solution)
        solution.steps = steps
        if end is End.STOPPED or not _progressed(previous, solution):
            break
    return solution


def _progressed(previous: Solution, solution: Solution) -> bool:
    """Whether a round gained anything above rounding."""
    gained = solution.objective - previous.objective
    return gained > 1e-15 * abs(solution.objective) or solution.gap < 0.5 * previous.gap


class End(Enum):
    """Why a run of steps ended."""

    REACHED = "the gap of the active coefficients is small"
    STALLED = "no step changes anything"
    PAUSED = "so many steps were allowed"
    STOPPED = "someone said so"


class _Ascent:
    """Steps from a point until the gap of what is active is small, and the state between them."""

    def __init__(
        self, program: Program, rows: MatrixRows, start: Solution, tol: float, shrink: bool
    ) -> None:
        from mercer.compiled import smo

        self._smo, self._rows, self._shrink = smo, rows, shrink
        self._epsilon, self._objective, self.steps = program.epsilon, start.objective, 0
        moving = np.flatnonzero(program.lower < program.upper)
        self.n = len(moving)
        width = smo.padded(self.n)
        slope = program.p - start.values

        def padded(values: Array) -> Array:
            out = np.zeros(width)
            out[: self.n] = values[moving]
            return out

        self.active = smo.Active(
            moving, rows.columns[moving], padded(start.b), padded(slope), padded(program.lower),
            padded(program.upper), np.zeros(width), np.zeros(width), padded(rows.diagonal()),
            start.b.copy(),
        )  # fmt: skip
        smo.set_all_kinks(self.active, self.n, self._epsilon)
        dtype = np.dtype(np.float32) if tol >= SINGLE else rows.matrix.dtype
        size = int(min(max(self.n, 2), max(2, rows.room // (max(width, 1) * dtype.itemsize)))) * width
        self.store = smo.Store(
            np.zeros(size, dtype), np.full(self.n, -1), np.zeros(self.n, int), np.zeros(self.n, int),
            np.zeros(2, int),
        )  # fmt: skip

    def run(self, tol: float, most: float, watch: Watch | None) -> End:
        """Take at most so many steps."""
        smo = self._smo
        while True:
            pause = max(1000, _PAUSE // max(self.n, 1))
            reason, self.n, self._objective, gap, taken = smo.climb(
                self._rows.matrix, self.active, self.store, self.n, self._epsilon, self._objective,
                tol, int(min(pause, most - self.steps)), self._shrink,
            )  # fmt: skip
            self.steps += taken
            if reason == smo.REACHED:
                return End.REACHED
            if reason == smo.STALLED:
                return End.STALLED
            if watch is not None and watch(gap / max(abs(self._objective + gap), 1e-300)):
                return End.STOPPED
            if self.steps >= most:
                return End.PAUSED

    def b(self) -> Array:
        """All coefficients."""
        self.active.solution[self.active.row[: self.n]] = self.active.b[: self.n]
        return self.active.solution
