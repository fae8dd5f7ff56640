"""Sequential minimal optimisation of the quadratic program of support vector machines.

The program is ``max p'b - b'Kb/2 - epsilon |b|_1`` with ``lower <= b <= upper`` and a fixed sum of b.  A
step moves weight from one coefficient to another.  Rows of K are gathered for the active coefficients
when they are first needed and kept, the least recently used giving way where there is no room.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer.compiled.columns import find_ranges, gather, room_for_ranges
from mercer.compiled.jit import jit

#: Why :func:`climb` returned.
REACHED, STALLED, PAUSED = 0, 1, 2
#: Extremes are kept for each of so many lanes, which vectorises where one running extreme would not.
#: Arrays are padded to a whole number of lanes by coefficients that cannot move.
LANES = 64
#: Steps between two looks at the gap: a part of the number of rows, within limits.
_LEAST_PERIOD, _LARGEST_PERIOD, _LOOKS = 8, 250, 16
#: Most steps between two looks at rows that can be left out; by default as many as there are rows.
_SHRINKING = 1000
#: Rows with the box [0, 0] are carried along if they are no more than this part of all.
_CARRIED = 0.3
#: Rows are left out when so large a part of the active ones remains, or less.
_WORTHWHILE = 0.9
#: Curvature along a pair of (nearly) equal rows, relative to the largest k(x, x).
_FLAT = 1e-12
#: Relative rounding of a number, and the part of the goal by which running values may be off.
_ROUNDING, _DRIFT = 2e-16, 0.01


class Active(NamedTuple):
    """Coefficients that may still move, and what is known of each; the first n entries count."""

    #: Row of the program, and of K; ascending.  The latter is unsigned: no number is negative.
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
    diagonal: np.ndarray
    #: Coefficients of all rows of the program; written when a coefficient is left out.
    solution: np.ndarray
    #: Number of ranges of the columns, and where each ends; see :func:`find_ranges`.
    ranges: np.ndarray


class Store(NamedTuple):
    """Rows of K that were gathered, one after the other, each padded to a whole number of lanes."""

    values: np.ndarray
    #: Place of the row of each active coefficient, or -1.
    place: np.ndarray
    #: Active coefficient whose row is at a place, and the step when it was last used.
    owner: np.ndarray
    used: np.ndarray
    #: Number of places that are taken, the clock, and the number of coefficients that rows are cut to.
    count: np.ndarray


@jit(inline="always")
def _set_kinks(active, k, epsilon):
    """How the slope of coefficient k differs to both sides."""
    b = active.b[k]
    active.rise[k] = -np.inf if b >= active.upper[k] else (-epsilon if b >= 0.0 else epsilon)
    active.fall[k] = np.inf if b <= active.lower[k] else (-epsilon if b > 0.0 else epsilon)


@jit()
def padded(n):
    """The number of entries of n coefficients with those that pad them."""
    return (n + LANES - 1) // LANES * LANES


@jit()
def set_all_kinks(active, n, epsilon):
    """How the slopes differ to both sides of all coefficients; those that pad them cannot move."""
    for k in range(n):
        _set_kinks(active, k, epsilon)
    for k in range(n, padded(n)):
        active.slope[k] = active.diagonal[k] = 0.0
        active.rise[k], active.fall[k] = -np.inf, np.inf


@jit()
def _largest(lanes, scratch):
    """The largest of the lanes, by halves, which vectorises."""
    half = LANES // 2
    for k in range(half):
        scratch[k] = lanes[k] if lanes[k] > lanes[k + half] else lanes[k + half]
    while half > 1:
        half //= 2
        for k in range(half):
            scratch[k] = scratch[k] if scratch[k] > scratch[k + half] else scratch[k + half]
    return scratch[0]


@jit()
def _lane_of(lanes, value):
    """The first lane with a value."""
    for k in range(LANES):
        if lanes[k] == value:
            return k
    return 0


@jit()
def _move(active, n, step, row_i, row_j, high, low, scratch):
    """Slopes after a step; returns the coefficient that gains most by rising, and both extremes."""
    high[:] = -np.inf
    low[:] = -np.inf
    for start in range(0, n, LANES):
        stop = start + LANES
        slope, rise, fall = active.slope[start:stop], active.rise[start:stop], active.fall[start:stop]
        part_i, part_j = row_i[start:stop], row_j[start:stop]
        for k in range(LANES):
            slope[k] -= step * (np.float64(part_i[k]) - np.float64(part_j[k]))
        for k in range(LANES):
            up = slope[k] + rise[k]
            high[k] = up if up > high[k] else high[k]
        for k in range(LANES):
            down = -(slope[k] + fall[k])
            low[k] = down if down > low[k] else low[k]
    highest = _largest(high, scratch)
    lane = _lane_of(high, highest)
    best = lane
    for k in range(lane, n, LANES):
        if active.slope[k] + active.rise[k] == highest:
            best = k
            break
    return best, highest, -_largest(low, scratch)


@jit(error_model="numpy")
def _partner(active, n, highest, own, row, flat, gains, scratch):
    """The coefficient that falls while the first rises: the one with the largest gain of the pair."""
    gains[:] = 0.0
    for start in range(0, n, LANES):
        stop = start + LANES
        slope, fall = active.slope[start:stop], active.fall[start:stop]
        diagonal, part = active.diagonal[start:stop], row[start:stop]
        for k in range(LANES):
            drop = max(highest - (slope[k] + fall[k]), 0.0)
            gain = drop * drop / max(own + diagonal[k] - 2.0 * np.float64(part[k]), flat)
            gains[k] = gain if gain > gains[k] else gains[k]
    lane = _lane_of(gains, _largest(gains, scratch))
    best, most = lane, -1.0
    for k in range(lane, n, LANES):
        drop = max(highest - (active.slope[k] + active.fall[k]), 0.0)
        gain = drop * drop / max(own + active.diagonal[k] - 2.0 * np.float64(row[k]), flat)
        if gain > most:
            best, most = k, gain
    return best


@jit()
def _end_up(active, k, epsilon):
    """Where the straight piece that a coefficient is on ends above it."""
    return 0.0 if epsilon > 0.0 and active.b[k] < 0.0 else active.upper[k]


@jit()
def _end_down(active, k, epsilon):
    """Where the straight piece that a coefficient is on ends below it."""
    return 0.0 if epsilon > 0.0 and active.b[k] > 0.0 else active.lower[k]


@jit()
def bias_of(b, slope, lower, upper, rise, fall):
    """Bias as in libsvm: the mean slope of the coefficients inside their box, else a midpoint."""
    total, free, highest, lowest = 0.0, 0, -np.inf, np.inf
    for k in range(b.size):
        if lower[k] == upper[k]:
            continue
        up, down = slope[k] + rise[k], slope[k] + fall[k]
        if up == down:
            total += up
            free += 1
        highest, lowest = max(highest, up), min(lowest, down)
    if free > 0:
        return total / free
    if highest == -np.inf and lowest == np.inf:
        return 0.0
    if highest == -np.inf or lowest == np.inf:
        return lowest if highest == -np.inf else highest
    return 0.5 * (highest + lowest)


@jit()
def gap_of(b, slope, lower, upper, epsilon, bias):
    """Duality gap: what the coefficients would gain if each moved to its best value on its own.

    With ``r = slope - bias`` the primal loss of a row is ``max over its box of r x - epsilon |x|``, and
    the dual has that term at ``x = b``.  No term is negative.
    """
    gap = 0.0
    for k in range(b.size):
        r = slope[k] - bias
        here = r * b[k] - epsilon * abs(b[k])
        best = max(r * upper[k] - epsilon * abs(upper[k]), r * lower[k] - epsilon * abs(lower[k]))
        if lower[k] < 0.0 < upper[k]:
            best = max(best, 0.0)
        gap += max(best - here, 0.0)
    return gap


@jit()
def rounding_of(b, lower, upper, diagonal):
    """How far a gap may be off: its terms are box widths times slopes, which are sums of products."""
    heights, widths = 0.0, 0.0
    for k in range(b.size):
        length = np.sqrt(max(diagonal[k], 0.0))
        heights += abs(b[k]) * length
        widths += (upper[k] - lower[k]) * length
    return _ROUNDING * heights * widths


@jit()
def _place_of(K, active, n, k, store):
    """Where the row of a coefficient is, after it was gathered if need be."""
    count = store.count
    count[1] += 1
    if store.place[k] >= 0:
        store.used[store.place[k]] = count[1]
        return store.place[k]
    place = _claim(n, k, store)
    width = padded(n)
    out = store.values[place * width : (place + 1) * width]
    gather(K[active.column[k]], active.column[:n], active.ranges, out)
    out[n:] = 0.0
    return place


@jit()
def _claim(n, k, store):
    """A place for the row of a coefficient: a free one, or that of the least recently used."""
    count = store.count
    most = min(store.values.size // padded(n), store.owner.size)
    if count[0] < most:
        place = count[0]
        count[0] += 1
    else:
        place = np.argmin(store.used[:most])
        store.place[store.owner[place]] = -1
    store.owner[place] = k
    store.place[k] = place
    store.used[place] = count[1]
    return place


@jit()
def _leave_out(active, n, store, highest, lowest, epsilon):
    """Leave out coefficients that rest where they are at the extremes' values; returns how many stay."""
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
            for values in (active.b, active.slope, active.lower, active.upper, active.diagonal):
                values[to] = values[k]
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
    """Cut the gathered rows down to the coefficients that stay, and forget the rows of the others."""
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
    flat = _FLAT * max(active.diagonal[:n].max(), 1e-150)
    period = max(_LEAST_PERIOD, min(n // _LOOKS, _LARGEST_PERIOD))
    shrinking = max(1, min(n, _SHRINKING) // period) * period
    high, low, scratch = np.empty(LANES), np.empty(LANES), np.empty(LANES // 2)
    width = padded(n)
    nothing = np.zeros(width, dtype=store.values.dtype)
    i, highest, lowest = _move(active, n, 0.0, nothing, nothing, high, low, scratch)
    taken = 0
    while True:
        if taken % period == 0 or taken >= steps or highest <= lowest:
            b, slope = active.b[:n], active.slope[:n]
            lower, upper = active.lower[:n], active.upper[:n]
            bias = bias_of(b, slope, lower, upper, active.rise[:n], active.fall[:n])
            gap = gap_of(b, slope, lower, upper, epsilon, bias)
            noise = rounding_of(b, lower, upper, active.diagonal[:n])
            if gap <= max(tol * max(abs(objective), abs(objective + gap)), noise) or highest <= lowest:
                return REACHED, n, taken
            if taken >= steps:
                return PAUSED, n, taken
            left = n
            if shrink and taken > 0 and taken % shrinking == 0:
                left = _leave_out(active, n, store, highest, lowest, epsilon)
            if left < n:
                n, width = left, padded(left)
                i, highest, lowest = _move(active, n, 0.0, nothing, nothing, high, low, scratch)
        place_i = _place_of(K, active, n, i, store)
        row_i = store.values[place_i * width : (place_i + 1) * width]
        j = _partner(active, n, highest, active.diagonal[i], row_i, flat, high, scratch)
        place_j = _place_of(K, active, n, j, store)
        row_j = store.values[place_j * width : (place_j + 1) * width]
        drop = highest - (active.slope[j] + active.fall[j])
        curvature = max(active.diagonal[i] + active.diagonal[j] - 2.0 * np.float64(row_i[j]), flat)
        old_i, old_j = active.b[i], active.b[j]
        up, down = _end_up(active, i, epsilon) - old_i, old_j - _end_down(active, j, epsilon)
        step = min(drop / curvature, up, down)
        # At the end of a piece the value is the end itself, without rounding.
        active.b[i] = (
            (0.0 if epsilon > 0.0 and old_i < 0.0 else active.upper[i]) if step == up else old_i + step
        )
        active.b[j] = (
            (0.0 if epsilon > 0.0 and old_j > 0.0 else active.lower[j]) if step == down else old_j - step
        )
        if active.b[i] == old_i and active.b[j] == old_j:
            return STALLED, n, taken
        objective += step * (drop - 0.5 * step * curvature)
        _set_kinks(active, i, epsilon)
        _set_kinks(active, j, epsilon)
        i, highest, lowest = _move(active, n, step, row_i, row_j, high, low, scratch)
        taken += 1


@jit()
def ascend(
    K,
    columns,
    diagonal,
    p,
    lower,
    upper,
    epsilon,
    b,
    values,
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
    columns : row of K of each coefficient, ascending
    diagonal : entry of K on the diagonal for each coefficient
    p, lower, upper, epsilon : the program
    b, values : coefficients and ``Kb``; changed in place
    objective : value of the dual objective
    tol : relative duality gap
    steps : most steps to take
    shrink : whether to leave out coefficients that rest at the ends of their boxes
    exact : whether to compute ``Kb`` anew at the end even if the running values would do
    store : rows of K, with room for two at least; those of all coefficients stay for the next call

    Returns
    -------
    why it ended, steps taken, and what :func:`certificate` returns
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
        _padded(diagonal, moving, width), b, np.zeros(room_for_ranges(n), dtype=np.int64),
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
    noise = rounding_of(b, lower, upper, diagonal)
    if running and taken * noise <= _DRIFT * tol * abs(objective_of(p, b, active.slope, epsilon)):
        for k in range(m):
            values[k] = p[k] - active.slope[k]
    else:
        values_at(K, columns, b, values)
    return reason, taken, certificate(p, b, values, lower, upper, epsilon, diagonal)


@jit()
def _padded(values, rows, width):
    """Some of the values, and zeros."""
    out = np.zeros(width)
    for k in range(rows.size):
        out[k] = values[rows[k]]
    return out


@jit()
def values_at(K, columns, b, out):
    """Write ``sum_j K[columns[i], columns[j]] b[j]``, in double precision."""
    n = b.size
    out[:] = 0.0
    ranges = np.zeros(room_for_ranges(n), dtype=np.int64)
    find_ranges(columns, ranges)
    for j in range(n):
        if b[j] == 0.0:
            continue
        row, weight, start = K[columns[j]], b[j], 0
        for r in range(1, ranges[0] + 1):
            size = ranges[r] - start
            part, to = row[columns[start] : columns[start] + size], out[start : start + size]
            for i in range(size):
                to[i] += weight * np.float64(part[i])
            start = ranges[r]
        for i in range(start, n):
            out[i] += weight * np.float64(row[columns[i]])


@jit()
def objective_of(p, b, slope, epsilon):
    """The dual objective at b, with ``slope = p - Kb``."""
    total, heights = 0.0, 0.0
    for k in range(b.size):
        total += b[k] * (p[k] + slope[k])
        heights += abs(b[k])
    return 0.5 * total - epsilon * heights


@jit()
def certificate(p, b, values, lower, upper, epsilon, diagonal):
    """Bias, dual objective, gap and its rounding, at a point b with ``values = Kb``."""
    m = b.size
    slope, rise, fall = np.empty(m), np.empty(m), np.empty(m)
    for k in range(m):
        slope[k] = p[k] - values[k]
        rise[k] = -np.inf if b[k] >= upper[k] else (-epsilon if b[k] >= 0.0 else epsilon)
        fall[k] = np.inf if b[k] <= lower[k] else (-epsilon if b[k] > 0.0 else epsilon)
    bias = bias_of(b, slope, lower, upper, rise, fall)
    gap = gap_of(b, slope, lower, upper, epsilon, bias)
    noise = rounding_of(b, lower, upper, diagonal)
    return bias, objective_of(p, b, slope, epsilon), gap, noise
