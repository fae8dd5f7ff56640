"""Solve the quadratic program of support vector machines to a relative duality gap."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.machines.newton import newton_step
from mercer.machines.program import Array, Index, Program, Solution, certify, restarted
from mercer.machines.rows import MatrixRows, room_for_rows

#: Called with the relative gap from time to time; returns whether to stop.
Watch = Callable[[float], bool]
#: Numbers that are read between two reports, in about a quarter of a second.
_PAUSE = 400_000_000
#: The solver aims slightly lower, because the certificate includes coefficients that it ignores.
_MARGIN = 0.9
#: Rounds that may end too early because of an ignored coefficient, before none is ignored.
_MISLED = 4
#: Programs with at most this many rows are solved to rounding error, if that takes at most this many
#: steps per coefficient.
_SMALL, _POLISH = 64, 100
#: Cubes of coefficients that are factorised in the time of a step, for each row.
_WORTH = 60
#: Steps for each coefficient before a Newton step is tried.
_PATIENCE = 20
#: Rounds in which the gap may fail to fall by a tenth: rounding may give a matrix negative
#: eigenvalues, along which the objective rises for a long time.
_FRUITLESS = 100
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
        Largest number of steps.
    start : array, optional
        Coefficients to start from, in their boxes; by default zeros.
    watch : callable, optional
        Called with the relative gap from time to time; if it returns True, the solver stops.
    """
    most = math.inf if max_steps is None else max_steps
    zeros = np.zeros_like(program.p)
    if start is None and tol < 1 and most > 0:  # the first round certifies its end
        solution = Solution(zeros, zeros, 0.0, 0.0, math.inf)
    else:
        b = zeros if start is None else start
        solution = certify(program, b, rows.values(b), rows.diagonal())
    solution = improved(program, rows, solution, tol, most, watch)
    solution.reached = solution.relative_gap <= tol
    if solution.reached and len(program.p) <= _SMALL and solution.steps < most:
        most = min(most, solution.steps + _POLISH * len(program.p))
        polished = improved(program, rows, solution, 0.0, most, watch)
        solution = min(solution, polished, key=lambda found: found.relative_gap)
        solution.reached = True
    return solution


class Batch:
    """Programs on the same matrix, solved in few calls, without overhead for many small ones.

    Parameters
    ----------
    programs : list of lists of Program
        For each program its settings, which differ in their boxes; these must not shrink.  None has a
        tube epsilon.  If all are small, they are solved to rounding.
    K : array of shape (m, m)
    indices : list of arrays of int
        Rows of each program.
    tol : float
        Largest relative duality gap.
    room : float
        Bytes for gathered rows, of one program at a time in each call.
    """

    def __init__(
        self, programs: list[list[Program]], K: Any, indices: list[Index], tol: float, room: float
    ) -> None:
        self._matrix, self._tol, self._room = K, tol, room
        self._bounds = np.cumsum([0, *map(len, indices)])
        columns = np.concatenate(indices)
        self._columns = columns.astype(np.uint64)
        self._diagonal = np.diagonal(K)[columns].astype(float)
        small = max(map(len, indices)) <= _SMALL
        self._polish = _POLISH if small else 0
        self._single = tol >= SINGLE and not small and _representable(self._diagonal)
        self._settings = len(programs[0])
        self._p = np.concatenate([path[0].p for path in programs])
        self._lower = np.concatenate([program.lower for path in programs for program in path])
        self._upper = np.concatenate([program.upper for path in programs for program in path])
        self._b, self._values = np.zeros_like(self._lower), np.zeros_like(self._lower)

    def solve(self, first: int, last: int) -> list[list[Solution]]:
        """Solve programs from the first to before the last; returns solutions for all settings.

        The number of steps is bounded, so gaps may be above tol; settings after such a gap are not
        tried and have an infinite gap.
        """
        from mercer.compiled.machines.paths import climb_all

        bounds, found = self._bounds[first : last + 1], np.zeros((last - first, self._settings, 7))
        found[:, :, 2] = math.inf  # gaps of those that are not begun
        sizes = np.diff(bounds).tolist()
        dtype = np.dtype(np.float32) if self._single else self._matrix.dtype
        climb_all(
            self._matrix, self._columns, self._diagonal, bounds, self._p, self._lower, self._upper, 0.0,
            self._tol, _MARGIN * self._tol, np.array([_steps_of(size) for size in sizes]),
            self._polish, not self._single, room_for_rows(max(sizes), dtype, self._room), self._b,
            self._values, found,
        )  # fmt: skip
        return [
            self._path(start, size, numbers)
            for start, size, numbers in zip(bounds.tolist(), sizes, found.tolist(), strict=False)
        ]

    def _path(self, start: int, size: int, found: list[list[float]]) -> list[Solution]:
        """Solutions of a program, from what compiled loops wrote."""
        solutions, begin = [], self._settings * start
        for bias, objective, gap, rounding, off, roundings, steps in found:
            part = slice(begin, begin + size)
            b, values = self._b[part], self._values[part]
            solutions.append(
                Solution(b, values, bias, objective, gap, rounding, off, int(roundings), int(steps))
            )
            begin += size
        return solutions


def in_batches(
    programs: list[list[Program]], K: Any, indices: list[Index], tol: float, room: float
) -> list[tuple[Batch, list[int]]]:
    """A batch of the small programs and one of the others, each with the indices of its programs.

    Parameters are those of :class:`Batch`.
    """
    small = [len(index) <= _SMALL for index in indices]
    groups = [[k for k, one in enumerate(small) if one is which] for which in (True, False)]
    return [
        (Batch([programs[k] for k in group], K, [indices[k] for k in group], tol, room), group)
        for group in groups
        if group
    ]


def solve_paths(
    programs: list[list[Program]],
    K: Any,
    indices: list[Index],
    tol: float,
    *,
    max_steps: int | None,
    watch: Watch,
) -> list[list[Solution]]:
    """Solve programs that differ in their boxes, which must not shrink, each from the previous one.

    There is a path of programs for each index of rows of K; other parameters are those of
    :func:`solve`.
    """
    found: list[list[Solution]] = [[] for _ in programs]
    if max_steps is None:
        for batch, group in in_batches(programs, K, indices, tol, math.inf):
            for k, own in zip(group, batch.solve(0, len(group)), strict=True):
                found[k] = own
    for path, index, own in zip(programs, indices, found, strict=True):
        done = sum(solution.is_settled(tol) for solution in own)
        if done < len(path) and not (own and watch(own[done].relative_gap)):
            rows = MatrixRows(K, index)
            last = own[done] if own else None
            own[done:] = _one_by_one(path[done:], rows, tol, last, max_steps, watch)
    return found


def _one_by_one(
    programs: list[Program],
    rows: MatrixRows,
    tol: float,
    last: Solution | None,
    max_steps: int | None,
    watch: Watch,
) -> list[Solution]:
    """Solve programs with growing boxes, the first from an insufficient solution."""
    solutions = []
    for program in programs:
        start = None if last is None else restarted(program, last)
        last = solve(program, rows, tol, max_steps=max_steps, start=start, watch=watch)
        solutions.append(last)
    return solutions


def _representable(diagonal: Array) -> bool:
    """Whether entries of a matrix with this diagonal fit into single precision."""
    return bool(1e-24 < diagonal.max() < 1e30)


def _steps_of(rows: int) -> int:
    """Steps between two reports, and before a Newton step is tried."""
    return min(_PATIENCE * rows, max(1000, _PAUSE // rows))


def improved(
    program: Program,
    rows: MatrixRows,
    solution: Solution,
    tol: float,
    most: float,
    watch: Watch | None = None,
) -> Solution:
    """Rounds of steps, each with a certificate and, if it ended early, with a Newton step."""
    from mercer.compiled.machines import smo

    single = tol >= SINGLE and _representable(rows.diagonal())
    misled, since, store = 0, 0, rows.store(single)
    least, fruitless = math.inf, 0
    steps = _steps_of(len(program.p))
    while not solution.is_settled(tol) and solution.steps < most:
        previous, b, values = solution, solution.b.copy(), solution.values.copy()
        reason, taken, roundings, (bias, objective, gap, rounding, off) = smo.ascend(
            rows.matrix, rows.columns, rows.diagonal(), program.p, program.lower, program.upper,
            program.epsilon, program.total, b, values, previous.roundings, previous.objective,
            _MARGIN * tol, int(min(most - previous.steps, steps)), misled < _MISLED, not single, store,
        )  # fmt: skip
        solution = Solution(b, values, bias, objective, gap, rounding, off, roundings)
        misled += reason == smo.REACHED
        since += taken
        if reason != smo.REACHED and not solution.is_settled(tol):
            # A factorisation must not take longer than the steps since the last one.
            most_free = int((_WORTH * since * len(program.p)) ** (1 / 3))
            newton = newton_step(program, rows, solution, most_free)
            since = since if newton is solution else 0
            solution = newton
        solution.steps = previous.steps + taken
        stopped = watch is not None and watch(solution.relative_gap)
        fruitless = fruitless + 1 if solution.gap > 0.9 * least else 0
        least = min(least, solution.gap)
        if stopped or fruitless == _FRUITLESS:
            break
        if not _progressed(previous, solution):
            if not single:
                break
            # Rows may differ in double precision only.
            single, store = False, rows.store(single=False)
    return solution


def _progressed(previous: Solution, solution: Solution) -> bool:
    """Whether a round gained anything above rounding."""
    gained = solution.objective - previous.objective
    return gained > 1e-15 * abs(solution.objective) or solution.gap < 0.9 * previous.gap
