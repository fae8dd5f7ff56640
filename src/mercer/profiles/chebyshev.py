"""Adaptive Chebyshev interpolation on octaves of the separation.

Octaves resolve power and logarithmic singularities at separation zero as easily as smooth functions.
The pieces are cut into a table of one low degree, whose rows the engine finds by shifting bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.polynomial import chebyshev, polynomial
from numpy.typing import NDArray

from mercer._arrays import Array

#: Values at separations u of shape (k,), as an array of shape (sides, k).
Law = Callable[[Array], Array]

#: Degree of the interpolation on one piece.
DEGREE = 24
#: Relative size of the last Chebyshev coefficients at which a piece counts as resolved.
RESOLVED = 1e-15
#: Halvings of an octave.
MAX_DEPTH = 10
#: Octaves below the largest separation.  1 - w of unit vectors is 0 or at least 2^-53 in doubles.
OCTAVES = 54

#: Degree of a row in double and in single precision (see ``compiled.profiles``), and errors allowed.
CORE_DEGREE, SINGLE_DEGREE = 6, 3
ROW_ERROR, SINGLE_ERROR = 3e-15, 2e-8
#: Errors of rows in single precision from which on those in double precision serve instead, and the
#: octave of zero and of the numbers there that are not normal.
_TOO_MUCH, _SINGLE_ZERO = 5e-7, -127
#: Errors below this that have stopped to fall are rounding errors of the law.
ROUNDING = 1e-13
#: Rows per octave are at most 2 ** MAX_BITS.
MAX_BITS = 13

TINY = float(np.finfo(float).tiny)
#: Points of a row at which its error is looked at.
_CHECKS = np.array([-0.97, -0.63, 0.25, 0.9])
#: Row k: monomial coefficients of T_k(2 x - 1).
_TO_CORE = np.array(
    [np.pad(chebyshev.cheb2poly([0] * k + [1]), (0, CORE_DEGREE - k)) for k in range(CORE_DEGREE + 1)]
) @ np.array(
    [np.pad(polynomial.polypow([-1, 2], k), (0, CORE_DEGREE - k)) for k in range(CORE_DEGREE + 1)]
)


@dataclass(frozen=True, eq=False)
class Rows:
    """The table that the engine reads: per side, the core and ``2**bits`` rows an octave."""

    low: int
    bits: int
    count: int  # rows per side
    table: NDArray[np.floating]  # (sides * count, degree + 2): midpoint and coefficients
    edges: Array  # lower ends of one side's rows
    error: float


@dataclass(frozen=True, eq=False)
class Pieces:
    """Chebyshev expansions on parts of octaves, and a polynomial on the core ``[0, 2**low]``.

    The core is a polynomial in ``u / 2**low`` about 0, so that equal points get the exact value.
    Piece i covers part ``part[i]`` of the ``2**depth[i]`` equal parts of ``[2**octave, 2**(octave+1)]``
    on hemisphere ``side[i]``.
    """

    low: int
    top: int
    core: Array  # (sides, CORE_DEGREE + 1): monomial coefficients
    octave: NDArray[np.int64]
    depth: NDArray[np.int64]
    part: NDArray[np.int64]
    side: NDArray[np.int64]
    coefficients: Array  # (pieces, DEGREE + 1)
    scale: Array  # (pieces,): the size that errors on a piece are relative to
    beyond: float | None = None  # constant value for u >= 2**top, if u goes on

    @cached_property
    def rows(self) -> Rows:
        """The pieces cut into rows for the engine."""
        return cut(self)

    @cached_property
    def single_rows(self) -> Rows:
        """The pieces cut into fewer and shorter rows, for single precision."""
        return in_single(self._short_rows)

    @cached_property
    def _short_rows(self) -> Rows:
        """Those rows before their numbers are rounded."""
        return cut_for_single(self)

    def fits_single(self, first: int) -> bool:
        """Whether rows in single precision are as good as that from an octave on, and at zero.

        Their coefficients may leave its range.
        """
        least = float(self.scale.min() if self.scale.size else np.abs(self.core).max())
        return _lost(self._short_rows, self.single_rows, first, max(least, TINY)) <= _TOO_MUCH

    @property
    def error(self) -> float:
        """Bound of the interpolation error, from the last coefficients; relative to the scale."""
        end = np.abs(self.coefficients[:, -6:]).max(axis=1) / np.maximum(self.scale, TINY)
        # Rounding errors stand in all coefficients alike; a falling tail adds less.
        return float(DEGREE * end.max(initial=0.0) + 4 * RESOLVED)

    @property
    def widths(self) -> Array:
        """Length of each piece."""
        return np.ldexp(1.0, (self.octave - self.depth).astype(int))

    def steep_until(self, steepest: float, logarithmic: bool) -> Array:
        """The largest separations, one for each side, where slopes may exceed a limit; 0 for none.

        Slopes are those of the function, or of its exponential, relative to the largest value.
        """
        certain = np.abs(self.coefficients) > ROUNDING * self.scale[:, None]
        known = replace(self, coefficients=self.coefficients * certain)
        rise = known.derivative(np.ones(len(self.core)))
        slopes = np.append(np.abs(rise.coefficients).sum(axis=1), np.abs(rise.core).sum(axis=1))
        other_ends = self.coefficients @ (-1.0) ** np.arange(DEGREE + 1)
        sizes = np.append(np.maximum(self.coefficients.sum(axis=1), other_ends), self.core[:, 0])
        finite = sizes[np.isfinite(sizes)]
        if logarithmic:
            with np.errstate(over="ignore", invalid="ignore"):  # of laws that diverge
                slopes, finite = slopes * np.exp(sizes - finite.max(initial=-np.inf)), np.ones(1)
        starts = np.ldexp(1 + self.part / np.exp2(self.depth), self.octave.astype(int))
        ends = np.append(starts + self.widths, np.full(len(self.core), 2.0**self.low))
        sides = np.append(self.side, np.arange(len(self.core)))
        steep = slopes > steepest * np.abs(finite).max(initial=TINY)
        return np.array([ends.max(initial=0.0, where=steep & (sides == s)) for s in np.unique(sides)])

    def of_side(self, side: int) -> Pieces:
        """The pieces of one hemisphere."""
        chosen = self.side == side
        return replace(
            self,
            core=self.core[[side]],
            octave=self.octave[chosen],
            depth=self.depth[chosen],
            part=self.part[chosen],
            side=np.zeros(np.count_nonzero(chosen), dtype=np.int64),
            coefficients=self.coefficients[chosen],
            scale=self.scale[chosen],
        )

    def with_half_the_core(self) -> Pieces:
        """The same function with the upper half of the core made a piece."""
        sides = len(self.core)
        upper: Array = np.asarray(polynomial.polyval((nodes(DEGREE) + 3) / 4, self.core.T), dtype=float)
        size = np.maximum(np.abs(upper).max(axis=1), self.scale.max(initial=0.0))
        zeros = np.zeros(sides, dtype=np.int64)
        return replace(
            self,
            low=self.low - 1,
            core=np.ldexp(self.core, -np.arange(CORE_DEGREE + 1)),
            octave=np.concatenate([self.octave, zeros + self.low - 1]),
            depth=np.concatenate([self.depth, zeros]),
            part=np.concatenate([self.part, zeros]),
            side=np.concatenate([self.side, np.arange(sides)]),
            coefficients=np.concatenate([self.coefficients, fit(upper)]),
            scale=np.concatenate([self.scale, size]),
        )

    def derivative(self, sign: Array) -> Pieces:
        """Differentiate every piece; ``sign[side]`` is du/dw there."""
        chain = (2.0 * sign[self.side] / self.widths)[:, None]
        slopes = chebyshev.chebder(self.coefficients, axis=1) * chain
        slopes = np.pad(slopes, ((0, 0), (0, 1)))
        core = polynomial.polyder(self.core, axis=1) * np.ldexp(1.0, -self.low) * sign[:, None]
        beyond = None if self.beyond is None else 0.0
        return replace(
            self,
            core=np.pad(core, ((0, 0), (0, 1))),
            coefficients=slopes,
            scale=self.scale * np.abs(chain[:, 0]),
            beyond=beyond,
        )


def resolve(
    law: Law,
    top: int,
    least: float | None,
    unit: float = 0.0,
    beyond: float | None = None,
    octaves: int = OCTAVES,
) -> Pieces:
    """Interpolate a law on [0, 2**top], down to 2**(top - octaves) where it is singular at 0.

    ``least`` says what errors on a piece are measured against: its own size but no less than this,
    or, if None, the largest value on all pieces but no less than ``unit``.
    """
    low, core = _resolve_core(law, top, least, unit, octaves)
    pieces = _resolve_octaves(law, low, core, top, least, unit)
    return replace(pieces, beyond=beyond)


def _measure(coefficients: Array, least: float | None, largest: float = 0.0) -> Array:
    """Size of each expansion (last axis), no less than ``least``; None: the same for all."""
    size = np.abs(coefficients).max(axis=-1, initial=0.0)
    if least is None:
        return np.full_like(size, max(largest, size.max(initial=0.0)))
    return np.maximum(size, least)


def _resolved(coefficients: Array, size: Array, kept: int) -> NDArray[np.bool_]:
    """Tell which expansions (last axis) may be cut after ``kept`` terms.

    They may if the rest is negligible, or is rounding errors of the law: small and no longer falling.
    """
    rest = np.abs(coefficients[..., kept:])
    third = rest.shape[-1] // 3
    start, end = rest[..., :third].max(axis=-1), rest[..., -third:].max(axis=-1)
    largest = rest.max(axis=-1)
    return (largest <= RESOLVED * size) | ((largest <= ROUNDING * size) & (end > start / 8))


def _resolve_core(law: Law, top: int, least: float | None, unit: float, reach: int) -> tuple[int, Array]:
    """Find an interval [0, 2**low] on which the law is a polynomial of a row's degree."""
    grid = (nodes(DEGREE) + 1) / 2
    octaves = np.arange(top - reach, top)
    # Samples of a wide interval may all miss a narrow law: every octave is asked once.
    probes = np.ldexp(0.7, octaves + 1)
    origin, probed = law(np.zeros(1)), law(probes)
    # A law that diverges at 0 may have no sign there; its nearest value has.
    origin = np.where(np.isnan(origin), np.copysign(np.inf, probed[:, :1]), origin)
    low = top
    while low >= top - reach:
        with np.errstate(invalid="ignore"):
            coefficients = fit(law(np.ldexp(grid, low)))
        size = _measure(coefficients, least, unit)
        if np.isfinite(size).all() and _resolved(coefficients, size, CORE_DEGREE + 1).all():
            # Rounding errors out first: monomials would magnify them.
            noise = np.abs(coefficients) <= RESOLVED * size[:, None]
            core = np.where(noise, 0.0, coefficients)[:, : CORE_DEGREE + 1] @ _TO_CORE
            core[:, 0] = origin[:, 0]
            inside = octaves < low
            there = polynomial.polyval(np.ldexp(probes[inside], -low), core.T)
            # Where sizes are local, that of the interval would hide errors at small separations.
            local = size[:, None] if least is None else least
            bound = ROUNDING * (local + np.abs(probed[:, inside]))
            if np.all(np.abs(there - probed[:, inside]) <= bound):
                return low, core
        low -= 3
    # Singular at 0: below the smallest separation only u = 0 itself is left.
    core = np.zeros((origin.shape[0], CORE_DEGREE + 1))
    core[:, 0] = origin[:, 0]
    return top - reach, core


def _resolve_octaves(
    law: Law, low: int, core: Array, top: int, least: float | None, unit: float
) -> Pieces:
    """Interpolate on every octave, halving pieces until all are resolved."""
    sides = core.shape[0]
    finite = core[np.isfinite(core)]
    largest = max(unit, float(np.abs(finite).max(initial=0.0)))
    open_ = np.array([(octave, 0, 0) for octave in range(low, top)], dtype=np.int64).reshape(-1, 3)
    done: list[tuple[NDArray[np.int64], Array]] = []
    grid = (nodes(DEGREE) + 1) / 2
    while open_.size:
        octave, depth, part = open_.T
        start = np.ldexp(1 + part / np.exp2(depth), octave.astype(int))
        width = np.ldexp(1.0, (octave - depth).astype(int))
        u = np.minimum(start[:, None] + width[:, None] * grid, 2.0**top)
        values = law(u.ravel()).reshape(sides, *u.shape)
        coefficients = fit(values)
        largest = max(largest, float(np.abs(coefficients).max()))
        size = _measure(coefficients, least, largest)
        unresolved = ~_resolved(coefficients, size, DEGREE - 5).all(axis=0) & (depth < MAX_DEPTH)
        done.append((open_[~unresolved], coefficients[:, ~unresolved]))
        halved = open_[unresolved]
        open_ = np.concatenate([halved * [1, 1, 2] + [0, 1, half] for half in (0, 1)])
    where = np.concatenate([place for place, _ in done] or [open_])
    parts = [c for _, c in done] or [np.zeros((sides, 0, DEGREE + 1))]
    coefficients = np.concatenate(parts, axis=1).reshape(-1, DEGREE + 1)
    octave, depth, part = np.tile(where, (sides, 1)).T
    side = np.repeat(np.arange(sides), len(where))
    scale = _measure(coefficients, least, largest)
    return Pieces(low, top, core, octave, depth, part, side, coefficients, scale)


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
    """Cut pieces into fewer and shorter rows, as single precision needs them."""
    while np.abs(pieces.core[:, SINGLE_DEGREE + 1 :]).max() > SINGLE_ERROR * np.abs(pieces.core).max():
        pieces = pieces.with_half_the_core()
    return cut(pieces, SINGLE_DEGREE, SINGLE_ERROR)


def in_single(rows: Rows) -> Rows:
    """Rows in single precision."""
    # Slopes at separations that single precision does not know may leave its range.
    edge = np.finfo(np.float32)
    finite = np.where(np.isfinite(rows.table), np.clip(rows.table, edge.min, edge.max), rows.table)
    return replace(rows, table=finite.astype(np.float32), edges=np.minimum(rows.edges, edge.max))


def _lost(rows: Rows, single: Rows, first: int, least: float) -> float:
    """Largest change of a value where coefficients leave the range of single precision.

    It is that from an octave on and at zero, relative to the size of each row, but no less than to
    ``least``.
    """
    edges = np.tile(rows.edges, len(rows.table) // rows.count)
    exact, kept = rows.table[:, 1:], single.table[:, 1:].astype(float)
    half = np.where(edges > 0, rows.table[:, 0] - edges, np.ldexp(1.0, rows.low))[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        change = np.abs(kept - exact)
        change[~(change > np.finfo(np.float32).eps * np.abs(exact))] = 0.0  # of what is only rounded
        powers = half ** np.arange(exact.shape[1])
        parts, sizes = (np.where(c == 0, 0.0, c * powers) for c in (change, np.abs(exact)))
        lost = parts.sum(axis=1) / np.maximum(sizes.max(axis=1), least)
        # Zero is found in this row, which may not be the core, that has its value.
        zero = max(0, 1 + ((_SINGLE_ZERO - rows.low) << rows.bits))
        jump = np.abs(exact[zero :: rows.count, 0] - exact[:: rows.count, 0]) / least
    jump = jump[np.isfinite(jump)]
    return float(max(lost.max(where=edges >= 2.0**first, initial=0.0), jump.max(initial=0.0)))


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
