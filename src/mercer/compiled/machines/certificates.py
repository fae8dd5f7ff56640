"""Values, objective, bias and duality gap of a point of a quadratic program."""

from __future__ import annotations

import numpy as np

from mercer.compiled.columns import find_ranges, room_for_ranges
from mercer.compiled.jit import chosen, jit, larger

#: Relative rounding of a number.
_ROUNDING = 2e-16
#: Coefficients this near to the end of a box, relative to the largest of them, are at the end.
_AT_END = 1e-12
#: Sums may be taken in any order, which vectorises them.
_SUMS = {"reassoc", "nsz"}


@jit(fastmath=_SUMS)
def bias_of(b, slope, lower, upper, rise, fall):
    """Bias as in libsvm: the mean slope of the coefficients inside their box, else a midpoint."""
    total, free, highest, lowest = 0.0, 0.0, -np.inf, -np.inf
    for k in range(b.size):
        # Where a box is a point, b can neither rise nor fall.
        held = chosen(lower[k] < upper[k], 0.0, np.inf)
        up, down = slope[k] + rise[k] - held, slope[k] + fall[k] + held
        total += chosen(up == down, up, 0.0)
        free += chosen(up == down, 1.0, 0.0)
        highest, lowest = larger(up, highest), larger(-down, lowest)
    lowest = -lowest
    if free > 0:
        return total / free
    if highest == -np.inf and lowest == np.inf:
        return 0.0
    if highest == -np.inf or lowest == np.inf:
        return lowest if highest == -np.inf else highest
    return 0.5 * (highest + lowest)


@jit(fastmath=_SUMS)
def gap_of(b, slope, lower, upper, epsilon, bias):
    """Duality gap: what the coefficients would gain if each moved to its best value alone.

    With ``r = slope - bias`` the primal loss of a row is ``max over its box of r x - epsilon |x|``, and
    the dual has that term at ``x = b``.  No term is negative.
    """
    gap = 0.0
    for k in range(b.size):
        r = slope[k] - bias
        here = r * b[k] - epsilon * abs(b[k])
        best = larger(r * upper[k] - epsilon * abs(upper[k]), r * lower[k] - epsilon * abs(lower[k]))
        best = larger(best, chosen((lower[k] < 0.0) & (upper[k] > 0.0), 0.0, -np.inf))
        gap += larger(best - here, 0.0)
    return gap


@jit(fastmath=_SUMS)
def rounding_of(b, lower, upper, diagonal):
    """Rounding error of a gap: its terms are box widths times slopes, which are sums of products."""
    heights, widths = 0.0, 0.0
    for k in range(b.size):
        length = np.sqrt(larger(np.float64(diagonal[k]), 0.0))
        heights += abs(b[k]) * length
        widths += (upper[k] - lower[k]) * length
    return _ROUNDING * heights * widths


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


@jit(fastmath=_SUMS)
def objective_of(p, b, slope, epsilon):
    """The dual objective at b, with ``slope = p - Kb``."""
    total, heights = 0.0, 0.0
    for k in range(b.size):
        total += b[k] * (p[k] + slope[k])
        heights += abs(b[k])
    return 0.5 * total - epsilon * heights


@jit()
def certificate(p, b, values, lower, upper, epsilon, diagonal):
    """Bias, dual objective, gap and its rounding, at a point b with ``values = Kb``.

    If all coefficients are at the ends of their boxes, an interval of biases is optimal, and the
    choice must not depend on rounding: a coefficient that is nearly at an end counts as being there.
    """
    m = b.size
    slope, rise, fall = np.empty(m), np.empty(m), np.empty(m)
    near = _AT_END * np.abs(b).max()
    for k in range(m):
        slope[k] = p[k] - values[k]
        rise[k] = -np.inf if b[k] >= upper[k] - near else (-epsilon if b[k] >= -near else epsilon)
        fall[k] = np.inf if b[k] <= lower[k] + near else (-epsilon if b[k] > near else epsilon)
    bias = bias_of(b, slope, lower, upper, rise, fall)
    gap = gap_of(b, slope, lower, upper, epsilon, bias)
    noise = rounding_of(b, lower, upper, diagonal)
    return bias, objective_of(p, b, slope, epsilon), gap, noise
