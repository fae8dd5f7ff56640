"""Sequential minimal optimisation of the quadratic program of support vector machines.

The program is ``max p'b - b'Kb/2 - epsilon |b|_1`` with ``lower <= b <= upper`` and a fixed sum of b.  A
step moves weight from one coefficient to another.  Rows of K are gathered for the active coefficients
when they are first needed and kept, the least recently used giving way where there is no room.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer.compiled.columns import find_ranges, gather, room_for_ranges
from mercer.compiled.jit import jit, larger
from mercer.compiled.machines.certificates import (
    bias_of,
    certificate,
    gap_of,
    is_settled,
    roundings_of,
    values_at,
)

#: Why :func:`climb` returned.
REACHED, STALLED, PAUSED = 0, 1, 2
#: Arrays are padded to a multiple of this by coefficients that cannot move, so that vectorised loops
#: have no remainder.  Extremes are sought strip by strip, and their place in the best strip alone.
_MULTIPLE, _STRIP = 64, 128
#: Steps between two tests of the gap: a fraction of the number of rows, within limits.
_LEAST_PERIOD, _LARGEST_PERIOD, _LOOKS = 8, 250, 16
#: One test in this many also asks whether rounding hides the gap.
_RARELY = 8
#: Largest number of steps between two searches for rows that can be dropped; usually the number of rows.
_SHRINKING = 1000
#: Rows with the box [0, 0] are kept if they are at most this fraction of all.
_CARRIED = 0.3
#: Rows are dropped if at most this fraction of the active ones remains.
_WORTHWHILE = 0.9
#: Curvature along a pair of (nearly) equal rows, relative to the largest k(x, x).
_FLAT = 1e-12
#: The part of the goal by which running values may be off.
_DRIFT = 0.01
#: Rounding errors of a value in a step: of the difference, of its product and sum, and of the
#: coefficients.
_PER_STEP = 4


class Active(NamedTuple):
    """Coefficients that may still move, and what is known of each; the first n entries count."""

    #: Row of the program, ascending, and of K.  The latter is unsigned: no number is negative.
    row: np.ndarray
    column: np.ndarray
    b: np.ndarray
    #: Slope of the smooth part of the objective, ``p - Kb``.
    slope: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    #: Added to the slope: the kink of epsilon |b|, or minus (plus) infinity where b cannot rise (fall).
    rise: np.ndarray
    fall: np.ndarray
    #: Diagonal of K, in the precision of the gathered rows.
    diagonal: np.ndarray
    #: Coefficients of all rows of the program; written when a coefficient is left out.
    solution: np.ndarray
    #: Number of ranges of the columns, and where each ends; see :func:`find_ranges`.
    ranges: np.ndarray


class Store(NamedTuple):
    """Rows of K that were gathered, one after the other, each padded."""

    values: np.ndarray
    #: Place of the row of each active coefficient, or -1.
    place: np.ndarray
    #: Active coefficient whose row is at a place, and the step when it was last used.
    owner: np.ndarray
    used: np.ndarray
    #: Number of places that are taken, the clock, and the number of coefficients that rows are cut to.
    count: np.ndarray


@jit(inline="always")
def _rise(b, upper, epsilon):
    """How the slope of a coefficient differs where it rises."""
    return -np.inf if b >= upper else (-epsilon if b >= 0.0 else epsilon)


@jit(inline="always")
def _fall(b, lower, epsilon):
    """How the slope of a coefficient differs where it falls."""
    return np.inf if b <= lower else (-epsilon if b > 0.0 else epsilon)


@jit()
def padded(n):
    """The number of entries of n coefficients with those that pad them."""
    return (n + _MULTIPLE - 1) // _MULTIPLE * _MULTIPLE


@jit()
def set_all_kinks(active, n, epsilon):
    """How the slopes differ to both sides of all coefficients; those that pad them cannot move."""
    for k in range(n):
        active.rise[k] = _rise(active.b[k], active.upper[k], epsilon)
        active.fall[k] = _fall(active.b[k], active.lower[k], epsilon)
    for k in range(n, padded(n)):
        active.slope[k] = active.diagonal[k] = 0.0
        active.rise[k], active.fall[k] = -np.inf, np.inf


@jit()
def _first_equal(values, shifts, sought):
    """The first place where value and shift have the sum that is sought."""
    first = values.size
    for k in range(values.size):
        first = min(first, k if values[k] + shifts[k] == sought else values.size)
    return first


@jit()
def _move(slopes, rises, falls, width, step, row_i, row_j):
    """Slopes after a step; returns the coefficient that gains most by rising, and both extremes."""
    highest, lowest, best = -np.inf, -np.inf, 0
    for start in range(0, width, _STRIP):
        stop = min(start + _STRIP, width)
        slope, rise, fall = slopes[start:stop], rises[start:stop], falls[start:stop]
        part_i, part_j = row_i[start:stop], row_j[start:stop]
        high, low = -np.inf, -np.inf
        for k in range(slope.size):
            moved = slope[k] - step * (np.float64(part_i[k]) - np.float64(part_j[k]))
            slope[k] = moved
            high = larger(moved + rise[k], high)
            low = larger(-(moved + fall[k]), low)
        if high > highest:
            highest, best = high, start
        lowest = max(lowest, low)
    stop = min(best + _STRIP, width)
    best += _first_equal(slopes[best:stop], rises[best:stop], highest)
    return min(best, width - 1), highest, -lowest


@jit(error_model="numpy")
def _partner(slopes, falls, diagonals, width, i, highest, lowest, row, flat):
    """The coefficient that falls while the first rises: the one with the largest gain of the pair."""
    number = row.dtype.type
    own, flat, unit = diagonals[i], number(flat), 1.0 / (highest - lowest)
    most, best = number(-1.0), 0
    for start in range(0, width, _STRIP):
        stop = min(start + _STRIP, width)
        slope, fall = slopes[start:stop], falls[start:stop]
        diagonal, part, here = diagonals[start:stop], row[start:stop], number(0.0)
        for k in range(slope.size):
            drop = larger(number((highest - (slope[k] + fall[k])) * unit), number(0.0))
            here = larger(drop * drop / larger(own + diagonal[k] - number(2.0) * part[k], flat), here)
        if here > most:
            most, best = here, start
    stop = min(best + _STRIP, width)
    slope, fall = slopes[best:stop], falls[best:stop]
    diagonal, part, first, last = diagonals[best:stop], row[best:stop], stop, stop - 1
    for k in range(slope.size):
        drop = larger(number((highest - (slope[k] + fall[k])) * unit), number(0.0))
        gain = drop * drop / larger(own + diagonal[k] - number(2.0) * part[k], flat)
        first = min(first, best + k if gain == most else last)
    return first


@jit()
def _take_steps(
    K, column, ranges, n, b, lower, upper, slope, rise, fall, diagonal, width, values, place, owner,
    used, count, epsilon, flat, i, highest, lowest, steps,
):  # fmt: skip
    """Take steps; rows that they need are gathered.

    Arrays come one by one and not as tuples, whose parts would be counted as used in each step.

    Returns
    -------
    whether a step moved nothing; the next coefficient to rise and both extremes; what was gained, and
    the number of steps
    """
    gained, taken = 0.0, 0
    while taken < steps and highest > lowest:
        at_i = place[i]
        if at_i < 0:
            at_i = _fetch(K, column, ranges, n, i, width, values, place, owner, used, count)
        used[at_i] = count[1] + taken
        row_i = values[at_i * width : (at_i + 1) * width]
        j = _partner(slope, fall, diagonal, width, i, highest, lowest, row_i, flat)
        at_j = place[j]
        if at_j < 0:
            at_j = _fetch(K, column, ranges, n, j, width, values, place, owner, used, count)
        used[at_j] = count[1] + taken
        row_j = values[at_j * width : (at_j + 1) * width]
        drop = highest - (slope[j] + fall[j])
        own, other = np.float64(diagonal[i]), np.float64(diagonal[j])
        curvature = max(own + other - 2.0 * np.float64(row_i[j]), flat)
        old_i, old_j = b[i], b[j]
        # Ends of the straight pieces that both are on.
        top = 0.0 if epsilon > 0.0 and old_i < 0.0 else upper[i]
        bottom = 0.0 if epsilon > 0.0 and old_j > 0.0 else lower[j]
        step = min(drop / curvature, top - old_i, old_j - bottom)
        # At the end of a piece the value is the end itself, without rounding.
        b[i] = top if step == top - old_i else old_i + step
        b[j] = bottom if step == old_j - bottom else old_j - step
        if b[i] == old_i and b[j] == old_j:
            return True, i, highest, lowest, gained, taken
        gained += step * (drop - 0.5 * step * curvature)
        rise[i], fall[i] = _rise(b[i], upper[i], epsilon), _fall(b[i], lower[i], epsilon)
        rise[j], fall[j] = _rise(b[j], upper[j], epsilon), _fall(b[j], lower[j], epsilon)
        i, highest, lowest = _move(slope, rise, fall, width, step, row_i, row_j)
        taken += 1
    return False, i, highest, lowest, gained, taken


@jit()
def _fetch(K, column, ranges, n, k, width, values, place, owner, used, count):
    """Gather the row of a coefficient; returns its place, a free one or the least recently used."""
    most = min(values.size // width, owner.size)
    if count[0] < most:
        at = count[0]
        count[0] += 1
    else:
        at = np.argmin(used[:most])
        place[owner[at]] = -1
    owner[at], place[k] = k, at
    out = values[at * width : (at + 1) * width]
    gather(K[column[k]], column[:n], ranges, out)
    out[n:] = 0.0
    return at


@jit()
def _leave_out(active, n, store, highest, lowest, epsilon):
    """Drop coefficients that would not move at the present extremes; returns how many remain."""
    stay = np.empty(n, dtype=np.bool_)
    left = 0
    for k in range(n):
        up, down = active.slope[k] + active.rise[k], active.slope[k] + active.fall[k]
        stay[k] = not (up < lowest and down > highest)
        left += stay[k]
    if left > _WORTHWHILE * n or left < 2:
        return n
    to = 0
    for k in range(n):
        if stay[k]:
            for values in (active.b, active.slope, active.lower, active.upper):
                values[to] = values[k]
            active.diagonal[to] = active.diagonal[k]
            active.row[to], active.column[to] = active.row[k], active.column[k]
            to += 1
        else:
            active.solution[active.row[k]] = active.b[k]
    set_all_kinks(active, left, epsilon)
    find_ranges(active.column[:left], active.ranges)
    _compact(stay, n, left, store)
    return left


@jit()
def _compact(stay, n, left, store):
    """Reduce the gathered rows to the remaining coefficients, and discard the rows of the others."""
    renumbered = np.cumsum(stay) - 1
    kept, values = 0, store.values
    for place in range(store.count[0]):
        owner = store.owner[place]
        if not stay[owner]:
            continue
        to, source = kept * padded(left), place * padded(n)
        for k in range(n):
            if stay[k]:
                values[to] = values[source + k]
                to += 1
        values[to : (kept + 1) * padded(left)] = 0.0
        store.owner[kept] = renumbered[owner]
        store.used[kept] = store.used[place]
        kept += 1
    store.count[0], store.count[2] = kept, left
    store.place[:left] = -1
    for place in range(kept):
        store.place[store.owner[place]] = place


@jit()
def _climb(K, active, store, n, epsilon, objective, tol, steps, shrink):
    """Steps on what is active; returns why they ended, how many are active still, and steps taken."""
    if n < 2:
        return REACHED, n, 0
    flat = _FLAT * max(np.float64(active.diagonal[:n].max()), 1e-150)
    period = max(_LEAST_PERIOD, min(n // _LOOKS, _LARGEST_PERIOD))
    shrinking = max(1, min(n, _SHRINKING) // period) * period
    width = padded(n)
    nothing = np.zeros(width, dtype=store.values.dtype)
    slope, rise, fall = active.slope, active.rise, active.fall
    i, highest, lowest = _move(slope, rise, fall, width, 0.0, nothing, nothing)
    taken, looked = 0, -1
    while True:
        if (taken % period == 0 and taken != looked) or taken >= steps or highest <= lowest:
            looked = taken
            rare = taken // period % _RARELY == 0 or taken >= steps
            if highest <= lowest or _settled_now(active, n, epsilon, objective, tol, rare):
                return REACHED, n, taken
            if taken >= steps:
                return PAUSED, n, taken
            left = n
            if shrink and taken > 0 and taken % shrinking == 0:
                left = _leave_out(active, n, store, highest, lowest, epsilon)
            if left < n:
                n, width = left, padded(left)
                i, highest, lowest = _move(slope, rise, fall, width, 0.0, nothing, nothing)
        stalled, i, highest, lowest, gained, more = _take_steps(
            K, active.column, active.ranges, n, active.b, active.lower, active.upper, slope, rise, fall,
            active.diagonal, width, store.values, store.place, store.owner, store.used, store.count,
            epsilon, flat, i, highest, lowest, min(period - taken % period, steps - taken),
        )  # fmt: skip
        taken += more
        objective += gained
        store.count[1] += more + 1
        if stalled:
            return STALLED, n, taken


@jit()
def _settled_now(active, n, epsilon, objective, tol, rare):
    """Whether the relative gap of what is active is at most tol; rarely, whether rounding hides it."""
    b, slope, lower, upper = active.b[:n], active.slope[:n], active.lower[:n], active.upper[:n]
    bias = bias_of(b, slope, lower, upper, active.rise[:n], active.fall[:n])
    gap = gap_of(b, slope, lower, upper, epsilon, bias)
    if not rare and not is_settled(gap, 0.0, objective, tol):
        return False
    rounding, _ = roundings_of(b, slope, lower, upper, epsilon, bias, active.diagonal[:n], 1)
    return is_settled(gap, rounding, objective, tol)


@jit()
def ascend(
    K,
    columns,
    diagonal,
    p,
    lower,
    upper,
    epsilon,
    total,
    b,
    values,
    roundings,
    objective,
    tol,
    steps,
    shrink,
    exact,
    store,
):
    """Take steps until the relative gap of the active coefficients is at most tol, and certify the end.

    Parameters
    ----------
    K : array of shape (m, m)
    columns : row of K of each coefficient
    diagonal : entry of K on the diagonal for each coefficient
    p, lower, upper, epsilon, total : the program
    b, values : coefficients and ``Kb``; changed in place
    roundings : number of rounding errors by which the values are off
    objective : value of the dual objective
    tol : relative duality gap
    steps : largest number of steps
    shrink : whether to leave out coefficients that rest at the ends of their boxes
    exact : whether to compute ``Kb`` anew at the end even if the running values would do
    store : rows of K, with room for two at least; those of all coefficients stay for the next call

    Returns
    -------
    why it ended, steps taken, rounding errors in the values, and what :func:`certificate` returns
    """
    m = b.size
    moving = np.flatnonzero(lower < upper)
    if m - moving.size <= _CARRIED * m:
        moving = np.arange(m)
    n = moving.size
    width = padded(n)
    active = Active(
        moving, columns[moving], _padded(b, moving, width), _padded(p - values, moving, width),
        _padded(lower, moving, width), _padded(upper, moving, width), np.zeros(width), np.zeros(width),
        _padded(diagonal, moving, width).astype(store.values.dtype), b,
        np.zeros(room_for_ranges(n), dtype=np.int64),
    )  # fmt: skip
    set_all_kinks(active, n, epsilon)
    find_ranges(active.column, active.ranges)
    if n < m or store.count[2] != m:
        store.place[:] = -1
        store.count[0], store.count[2] = 0, n
    reason, left, taken = _climb(K, active, store, n, epsilon, objective, tol, steps, shrink)
    for k in range(left):
        b[active.row[k]] = active.b[k]
    running = left == m and not exact and K.itemsize == store.values.itemsize
    for way in range(0 if running else 1, 3):  # the quickest whose rounding does not matter
        if way == 0:
            roundings += _PER_STEP * taken
            for k in range(m):
                values[k] = p[k] - active.slope[k]
        else:
            roundings = values_at(K, columns, b, values, way == 2)
        found = certificate(p, b, values, lower, upper, epsilon, total, diagonal, roundings)
        if found[3] <= _DRIFT * tol * abs(found[1]):
            break
    return reason, taken, roundings, found


@jit()
def _padded(values, rows, width):
    """Some of the values, and zeros."""
    out = np.zeros(width)
    for k in range(rows.size):
        out[k] = values[rows[k]]
    return out
