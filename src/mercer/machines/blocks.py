"""Programs whose Gram matrix does not fit into memory: blocks of coefficients, one after the other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer.machines.newton import LargeNewton
from mercer.machines.program import Array, Index, Program, Solution, certify
from mercer.machines.rows import ComputedBlocks, MatrixRows
from mercer.machines.solver import Watch, improved, solve

#: A block is solved until its gap has shrunk by this factor, or for this many steps per coefficient.
_INNER, _STEPS = 0.1, 50
#: Fraction of its predicted gain that a block must reach for its matrix to be precise enough.
_TRUSTED = 0.5
#: Parts of a block that are kept from the last one, and drawn from coefficients inside their boxes.
_KEPT, _DRAWN = 0.3, 0.3
#: One in this many values is in the sample that estimates how large the largest are.
_SAMPLED = 32


def solve_with(
    program: Program, rows: MatrixRows | ComputedBlocks, tol: float, **options: Any
) -> Solution:
    """Solve a program on a matrix, or in blocks if the matrix does not fit."""
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
    """Solve a program in blocks, as large as fit, of the coefficients that violate optimality most.

    A block is a program in which all other coefficients are fixed; occasional Newton steps move the
    coefficients of many blocks together.  Gram matrices of blocks are in single precision.  Later
    blocks correct for that, because values at all points are in double precision.  Once a block gains
    much less than its matrix predicted, or uses up its steps (rounding may give a matrix of low rank
    negative eigenvalues), matrices are in double precision too.

    Parameters are those of :func:`mercer.machines.solver.solve`.  A step on a fraction of the
    coefficients counts as that fraction of a step.
    """
    diagonal, steps = rows.diagonal(), 0.0
    b = np.zeros_like(program.p) if start is None else start.copy()
    solution = certify(program, b, rows.values(b), diagonal)
    most, random = math.inf if max_steps is None else max_steps, np.random.default_rng(0)
    block, newton = np.empty(0, dtype=np.intp), LargeNewton(program, rows)
    while not solution.is_settled(tol) and steps < most:
        if watch is not None and watch(solution.relative_gap):
            break
        block = _next_block(program, solution, block, rows.most, random)
        part = len(block) / len(program.p)
        try:
            found, promised = _solve_block(program, rows, solution, block, (most - steps) / part, watch)
        except RuntimeError as error:
            if rows.shrink(error):
                continue
            raise
        moved = found.b - solution.b[block]
        used, steps = moved != 0, steps + part * found.steps
        b, last = solution.b.copy(), solution
        b[block] = found.b
        values = solution.values + rows.product(block[used], moved[used])
        # A product with this many columns has at most as many rounding errors.
        solution = certify(program, b, values, diagonal, last.roundings + int(used.sum()))
        gained = solution.objective - last.objective
        if rows.single and (gained <= _TRUSTED * promised or found.steps >= _STEPS * len(block)):
            rows.turn_double()
            solution = solution if gained > 0 else last
        elif not used.any():
            break
        elif not solution.is_settled(tol):
            solution = newton.after(int(used.sum()), solution)
    solution.steps, solution.reached = math.ceil(steps), solution.relative_gap <= tol
    return solution


def _next_block(
    program: Program, solution: Solution, last: Index, size: int, random: np.random.Generator
) -> Index:
    """Coefficients that gain most by moving, some that are inside their boxes, some of the last block.

    Those inside their boxes are drawn at random, because the ones that gain most would be the same
    every time.
    """
    from mercer.compiled.machines.blocks import gains

    rows, b = len(program.p), solution.b
    if rows <= size:
        return np.arange(rows)
    inside = np.flatnonzero(
        (program.lower < b) & (b < program.upper) & ((b != 0) | (program.epsilon == 0))
    )
    drawn = random.choice(inside, min(int(_DRAWN * size), len(inside)), replace=False, shuffle=False)
    kept = random.choice(last, min(int(_KEPT * size), len(last)), replace=False, shuffle=False)
    chosen = np.zeros(rows, dtype=bool)
    chosen[drawn] = chosen[kept] = True
    room = (size - int(np.count_nonzero(chosen))) // 2
    for gain in gains(
        program.p, solution.values, b, program.lower, program.upper, program.epsilon, chosen
    ):
        most = _largest(gain, room)
        chosen[most[np.isfinite(gain[most])]] = True
    return np.flatnonzero(chosen)


def _largest(values: Array, number: int) -> Index:
    """Positions of the largest values; most are discarded by a threshold estimated from a sample."""
    places = np.arange(len(values))
    sample = values[::_SAMPLED]
    rank = len(sample) - 2 * (number // _SAMPLED + _SAMPLED)
    if rank > 0:
        above = np.flatnonzero(values > np.partition(sample, rank)[rank])
        places = above if len(above) >= number else places
    if number >= len(places):
        return places
    return places[np.argpartition(-values[places], number)[:number]]


def _solve_block(
    program: Program,
    rows: ComputedBlocks,
    solution: Solution,
    block: Index,
    most: float,
    watch: Watch | None,
) -> tuple[Solution, float]:
    """Coefficients of the block after at most ``most`` steps, and their gain."""
    matrix, b = rows.block(block), solution.b[block]
    values = matrix.values(b)
    part = program._replace(
        p=program.p[block] - solution.values[block] + values,
        lower=program.lower[block],
        upper=program.upper[block],
        total=math.fsum(b),
    )
    before = certify(part, b, values, matrix.diagonal())
    most = int(min(most, _STEPS * len(block)))
    found = improved(part, matrix, before, _INNER * before.relative_gap, most, watch)
    return found, found.objective - before.objective
