"""Programs whose Gram matrix does not fit into memory: blocks of coefficients, one after the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mercer.machines.program import Array, Index, Program, Solution, certify
from mercer.machines.rows import ComputedRows, DeviceRows, MatrixRows
from mercer.machines.solver import Watch, improved, solve

#: A block is solved until its gap is this part of what it was, or after so many steps per coefficient.
_INNER, _STEPS = 0.1, 20
#: Values are computed anew for the certificate once the gap is this part of the goal.
_MARGIN = 0.8


def solve_with(
    program: Program, rows: MatrixRows | ComputedRows | DeviceRows, tol: float, **options: Any
) -> Solution:
    """Solve a program on a matrix, or by blocks where rows have to be computed."""
    if isinstance(rows, MatrixRows):
        return solve(program, rows, tol, **options)
    return solve_by_blocks(program, rows, tol, **options)


def solve_by_blocks(
    program: Program,
    rows: ComputedRows | DeviceRows,
    tol: float,
    *,
    max_steps: int | None = None,
    start: Array | None = None,
    watch: Watch | None = None,
) -> Solution:
    """Solve a program by blocks of the coefficients that violate optimality most.

    A block is a program of its own, with the others held: its rows of K are computed together, or are
    still there from an earlier block.  Half of each block is taken over from the last one.

    Parameters are those of :func:`mercer.machines.solver.solve`.
    """
    diagonal, steps = rows.diagonal(), 0
    b = np.zeros_like(program.p) if start is None else start.copy()
    solution = certify(program, b, rows.values(b), diagonal)
    exact, block = True, np.empty(0, dtype=np.intp)
    while True:
        gap = solution.relative_gap
        stopped = (watch is not None and watch(gap)) or (max_steps is not None and steps >= max_steps)
        if gap <= (tol if exact else _MARGIN * tol) or stopped:
            if exact:
                break
            solution, exact = certify(program, solution.b, rows.values(solution.b), diagonal), True
            if stopped:
                break
            continue
        block = _next_block(program, solution, block, rows.block)
        taken, ends = _solve_block(program, rows, solution, block)
        steps, moved = steps + taken, ends - solution.b[block]
        if not moved.any():
            if exact:
                break
            solution, exact = certify(program, solution.b, rows.values(solution.b), diagonal), True
            continue
        b = solution.b.copy()
        b[block] = ends
        solution = certify(program, b, solution.values + rows.change(block, moved), diagonal)
        exact = False
    solution.steps, solution.reached = steps, solution.relative_gap <= tol
    return solution


def _next_block(program: Program, solution: Solution, last: Index, size: int) -> Index:
    """Half of the last block, and the coefficients that gain most by rising and by falling."""
    from mercer.compiled.machines.blocks import gains

    kept = last[: size // 2]
    each = (size - len(kept)) // 2
    chosen = [kept]
    for gain in gains(
        program.p, solution.values, solution.b, program.lower, program.upper, program.epsilon, kept
    ):
        most = _largest(gain, each)
        chosen.insert(-1, most[np.isfinite(gain[most])])
    order = np.concatenate(chosen)
    # Those that are new come first, and stay for the next block.
    return order[np.sort(np.unique(order, return_index=True)[1])]


def _largest(values: Array, number: int) -> Index:
    """Places of the largest values, largest first."""
    found = np.argpartition(-values, number)[:number] if number < len(values) else np.arange(len(values))
    return found[np.argsort(-values[found], kind="stable")]


def _solve_block(
    program: Program, rows: ComputedRows | DeviceRows, solution: Solution, block: Index
) -> tuple[int, Array]:
    """Steps taken, and where the coefficients of the block end."""
    order = np.sort(block)
    K = rows.between(order)
    b = solution.b[order]
    matrix = MatrixRows(K)
    values = matrix.values(b)
    part = replace(
        program,
        p=program.p[order] - solution.values[order] + values,
        lower=program.lower[order],
        upper=program.upper[order],
    )
    before = certify(part, b, values, matrix.diagonal())
    found = improved(part, matrix, before, _INNER * before.relative_gap, _STEPS * len(b))
    return found.steps, found.b[np.searchsorted(order, block)]
