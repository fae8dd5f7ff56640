"""Programs whose Gram matrix does not fit into memory: blocks of coefficients, one after the other."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from mercer.machines.program import Array, Index, Program, Solution, certify, kinks
from mercer.machines.rows import ComputedBlocks, MatrixRows
from mercer.machines.solver import Watch, solve

#: A block is solved until its gap is this part of what it was, or after so many steps per coefficient.
_INNER, _STEPS = 0.1, 50
#: Part of a block for those that gain most by rising, and by falling.
_EACH = 0.25


def solve_with(
    program: Program, rows: MatrixRows | ComputedBlocks, tol: float, **options: Any
) -> Solution:
    """Solve a program on a matrix, or by blocks of one that does not fit."""
    if isinstance(rows, MatrixRows):
        return solve(program, rows, tol, **options)
    return solve_by_blocks(program, rows, tol, **options)


def solve_by_blocks(
    program: Program,
    rows: ComputedBlocks,
    tol: float,
    *,
    max_steps: int | None = None,
    start: Array | None = None,
    watch: Watch | None = None,
) -> Solution:
    """Solve a program by blocks, as large as fit, of the coefficients that violate optimality most.

    A block is a program of its own, with the others held.  Its Gram matrix is in single precision, which
    later blocks make up for: values at all points are in double precision.

    Parameters are those of :func:`mercer.machines.solver.solve`.
    """
    diagonal, steps = rows.diagonal(), 0
    b = np.zeros_like(program.p) if start is None else start.copy()
    solution = certify(program, b, rows.values(b), diagonal)
    most, random = math.inf if max_steps is None else max_steps, np.random.default_rng(0)
    while solution.relative_gap > tol and steps < most:
        if watch is not None and watch(solution.relative_gap):
            break
        block = _next_block(program, solution, rows.most, random)
        found = _solve_block(program, rows, solution, block, watch)
        moved = found.b - solution.b[block]
        if not moved.any():
            break
        b, steps = solution.b.copy(), steps + found.steps
        b[block] = found.b
        used = moved != 0
        values = solution.values + rows.product(block[used], moved[used])
        solution = certify(program, b, values, diagonal)
    solution.steps, solution.reached = steps, solution.relative_gap <= tol
    return solution


def _next_block(program: Program, solution: Solution, size: int, random: np.random.Generator) -> Index:
    """Coefficients that gain most by rising and by falling, and some of those inside their boxes.

    The latter are drawn at random if there are too many: those that gain most would be the same ones
    again and again.  If there is room, others follow, those that gain most first.
    """
    if len(program.p) <= size:
        return np.arange(len(program.p))
    slope = program.p - solution.values
    rise, fall = kinks(program, solution.b)
    up, down = slope + rise - solution.bias, solution.bias - (slope + fall)
    gains = np.maximum(up, down)
    inside = (rise == fall) & (program.lower < program.upper)
    order = np.lexsort((np.where(inside, random.random(len(gains)), -gains), ~inside))
    each = max(1, int(_EACH * size))
    first = np.unique(np.concatenate([np.argsort(-up)[:each], np.argsort(-down)[:each]]))
    others = order[~np.isin(order, first)][: size - len(first)]
    return np.sort(np.concatenate([first, others]))


def _solve_block(
    program: Program, rows: ComputedBlocks, solution: Solution, block: Index, watch: Watch | None
) -> Solution:
    """Where the coefficients of the block end."""
    matrix, b = rows.block(block), solution.b[block]
    values = matrix.values(b)
    part = replace(
        program,
        p=program.p[block] - solution.values[block] + values,
        lower=program.lower[block],
        upper=program.upper[block],
    )
    before = certify(part, b, values, matrix.diagonal())
    return solve(
        part, matrix, _INNER * before.relative_gap, max_steps=_STEPS * len(block), start=b, watch=watch
    )
