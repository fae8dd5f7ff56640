"""Solve the quadratic program of support vector machines to a relative duality gap."""

from __future__ import annotations

import math
from collections.abc import Callable

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
    from mercer.compiled import smo

    diagonal, misled = rows.diagonal(), 0
    buffer = rows.buffer(single=tol >= SINGLE)
    patience, pause = _PATIENCE * len(program.p), max(1000, _PAUSE // len(program.p))
    while solution.relative_gap > tol and solution.steps < most:
        b = solution.b.copy()
        reason, taken = smo.ascend(
            rows.matrix, rows.columns, b, program.p - solution.values, program.lower, program.upper,
            program.epsilon, solution.objective, _MARGIN * tol,
            int(min(most - solution.steps, patience, pause)), misled < _MISLED, buffer,
        )  # fmt: skip
        previous, steps = solution, solution.steps + taken
        solution = certify(program, b, rows.values(b), diagonal)
        misled += reason == smo.REACHED
        if reason != smo.REACHED and solution.relative_gap > tol:
            solution = newton_step(program, rows, solution)
        solution.steps = steps
        stopped = watch is not None and watch(solution.relative_gap)
        if stopped or not _progressed(previous, solution):
            break
    return solution


def _progressed(previous: Solution, solution: Solution) -> bool:
    """Whether a round gained anything above rounding."""
    gained = solution.objective - previous.objective
    return gained > 1e-15 * abs(solution.objective) or solution.gap < 0.5 * previous.gap
