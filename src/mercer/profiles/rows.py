"""Tables for the engine: piecewise polynomials in rows that are found by shifting bits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

if TYPE_CHECKING:
    from mercer.profiles.chebyshev import Pieces

Array = NDArray[np.float64]

#: Degree of a row in double and in single precision (see ``compiled.radial``), and errors allowed.
CORE_DEGREE, SINGLE_DEGREE = 6, 3
ROW_ERROR, SINGLE_ERROR = 3e-15, 2e-8
#: Errors below this that have stopped to fall are rounding errors of the law.
ROUNDING = 1e-13
#: Rows per octave are at most 2 ** MAX_BITS.
MAX_BITS = 13

TINY = float(np.finfo(float).tiny)
#: Points of a row at which its error is looked at.
_CHECKS = np.array([-0.97, -0.63, 0.25, 0.9])


@dataclass(frozen=True, eq=False)
class Rows:
    """The table that the engine reads: per side, the core and ``2**bits`` rows an octave."""

    low: int
    bits: int
    count: int  # rows per side
    table: NDArray[np.floating]  # (sides * count, degree + 2): midpoint and coefficients
    edges: Array  # lower ends of one side's rows
    error: float


def cut(pieces: Pieces, degree: int = CORE_DEGREE, allowed: float = ROW_ERROR) -> Rows:
    """Cut pieces into rows, as few as the error allows."""
    previous = np.inf
    for bits in range(max(3, int(pieces.depth.max(initial=0))), MAX_BITS + 1):
        rows = _cut_evenly(pieces, bits, degree)
        if rows.error <= allowed or (rows.error < ROUNDING and rows.error > previous / 8):
            break
        previous = rows.error
    return rows


def cut_for_single(pieces: Pieces) -> Rows:
    """Cut pieces into fewer and shorter rows, in single precision."""
    while np.abs(pieces.core[:, SINGLE_DEGREE + 1 :]).max() > SINGLE_ERROR * np.abs(pieces.core).max():
        pieces = pieces.with_half_the_core()
    rows = cut(pieces, SINGLE_DEGREE, SINGLE_ERROR)
    # Slopes at separations that single precision does not know may leave its range.
    edge = np.finfo(np.float32)
    finite = np.where(np.isfinite(rows.table), np.clip(rows.table, edge.min, edge.max), rows.table)
    return replace(rows, table=finite.astype(np.float32))


def nodes(degree: int) -> Array:
    """Chebyshev points of the second kind in [-1, 1], ends included."""
    return -np.cos(np.pi * np.arange(degree + 1) / degree)


def fit(values: Array) -> Array:
    """Chebyshev coefficients of the interpolant through values at :func:`nodes`, along axis -1."""
    degree = values.shape[-1] - 1
    k = np.arange(degree + 1)
    matrix = np.cos(np.pi * np.outer(k, degree - k) / degree) * (2.0 / degree)
    matrix[[0, -1]] /= 2
    matrix[:, [0, -1]] /= 2
    return values @ matrix.T


def _cut_evenly(pieces: Pieces, bits: int, degree: int) -> Rows:
    """Cut every octave into ``2**bits`` rows."""
    sides = pieces.core.shape[0]
    inner = (pieces.top - pieces.low) << bits
    count = 1 + inner + (pieces.beyond is not None)
    powers = np.arange(degree + 1)
    table = np.zeros((sides, count, degree + 2))
    table[:, 0, 1:] = np.ldexp(pieces.core[:, : degree + 1], -pieces.low * powers)
    error = 0.0
    for depth in np.unique(pieces.depth):
        chosen = pieces.depth == depth
        cells = 1 << (bits - int(depth))
        polynomials, misfit = _recut(pieces.coefficients[chosen], cells, degree)
        error = max(error, float(np.max(misfit / np.maximum(pieces.scale[chosen], TINY))))
        octave, part = pieces.octave[chosen], pieces.part[chosen]
        row = 1 + ((octave - pieces.low) * 2**bits + part * cells)[:, None] + np.arange(cells)
        half = pieces.widths[chosen][:, None] / (2 * cells)
        start = np.ldexp(1 + part / 2.0**depth, octave.astype(int))[:, None]
        side = pieces.side[chosen][:, None]
        table[side, row, 0] = start + (2 * np.arange(cells) + 1) * half
        table[side, row, 1:] = polynomials / half[:, :, None] ** powers
    if pieces.beyond is not None:
        table[:, -1, 1] = pieces.beyond
    step = np.arange(inner)
    edges = np.ldexp(1 + (step % 2**bits) / 2.0**bits, pieces.low + (step >> bits))
    tail = [] if pieces.beyond is None else [np.ldexp(1.0, pieces.top)]
    edges = np.concatenate([[0.0], edges, tail])
    return Rows(pieces.low, bits, count, table.reshape(-1, degree + 2), edges, error)


def _recut(coefficients: Array, cells: int, degree: int) -> tuple[Array, Array]:
    """Interpolate expansions on equal cells: monomials about the midpoints, and the misfits."""
    inside = np.concatenate([[0.0], nodes(degree), _CHECKS])
    centre = (2 * np.arange(cells) + 1) / cells - 1
    points = np.clip(centre[:, None] + inside / cells, -1, 1)
    values = coefficients @ chebyshev.chebvander(points.ravel(), coefficients.shape[1] - 1).T
    values = values.reshape(len(coefficients), cells, inside.size)
    # Take the midpoint off first: what is left is small, and so is the rounding of what follows.
    middle = values[..., :1]
    deviations = values - middle
    to_monomials = [
        np.pad(chebyshev.cheb2poly([0] * k + [1]), (0, degree - k)) for k in range(degree + 1)
    ]
    polynomials = fit(deviations[..., 1 : degree + 2]) @ np.array(to_monomials)
    check = polynomials @ np.vander(_CHECKS, degree + 1, increasing=True).T
    misfit = np.abs(check - deviations[..., degree + 2 :]).max(axis=(1, 2))
    polynomials[..., 0] += middle[..., 0]
    return polynomials, misfit
