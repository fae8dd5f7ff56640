"""Values, objective, bias and duality gap of a point of a quadratic program."""

from __future__ import annotations

import numpy as np

from mercer.compiled.columns import find_ranges, room_for_ranges
from mercer.compiled.jit import chosen, jit, larger

#: Largest relative rounding error of a number.
_ROUNDING = 1.2e-16
#: Rounding errors in a compensated sum of products: one for the products, and two for the sum.
COMPENSATED = 3
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


@jit(inline="always")
def _gain(r, b, lower, upper, epsilon):
    """What a coefficient gains by moving to its best value alone, and the rounding of that."""
    here = abs(b) * (chosen(b < 0.0, -r, r) - epsilon)
    top = abs(upper) * (chosen(upper < 0.0, -r, r) - epsilon)
    bottom = abs(lower) * (chosen(lower < 0.0, -r, r) - epsilon)
    best = larger(top, bottom)
    best = larger(best, chosen((lower < 0.0) & (upper > 0.0), 0.0, -np.inf))
    return larger(best - here, 0.0), 3.0 * _ROUNDING * (abs(best) + abs(here))


@jit(fastmath=_SUMS)
def gap_of(b, slope, lower, upper, epsilon, bias):
    """Duality gap: what the coefficients would gain if each moved to its best value alone.

    With ``r = slope - bias`` the primal loss of a row is ``max over its box of r x - epsilon |x|``, and
    the dual has that term at ``x = b``.  No term is negative.
    """
    gap = 0.0
    for k in range(b.size):
        gap += _gain(slope[k] - bias, b[k], lower[k], upper[k], epsilon)[0]
    return gap


@jit(fastmath=_SUMS)
def roundings_of(b, slope, lower, upper, epsilon, bias, diagonal, roundings):
    """By how much rounding may have lowered the gap, and changed the dual objective.

    The terms of the gap are convex in r, hence largest at an end of the interval in which rounding
    leaves r.  Slopes are off by ``roundings`` rounding errors of their largest possible value.
    """
    gap, heights = 0.0, 0.0  # values are at most these times the square root of the diagonal
    for k in range(b.size):
        heights += abs(b[k]) * np.sqrt(larger(np.float64(diagonal[k]), 0.0))
        gap += _gain(slope[k] - bias, b[k], lower[k], upper[k], epsilon)[0]
    highest, off = 0.0, 0.0
    for k in range(b.size):
        r, height = slope[k] - bias, heights * np.sqrt(larger(np.float64(diagonal[k]), 0.0))
        most = chosen(heights > 0.0, abs(slope[k]) + height + epsilon, 0.0)
        error = _ROUNDING * ((roundings + 2.0) * most + abs(r))
        low, low_error = _gain(r - error, b[k], lower[k], upper[k], epsilon)
        high, high_error = _gain(r + error, b[k], lower[k], upper[k], epsilon)
        highest += larger(low + low_error, high + high_error)
        off += abs(b[k]) * (error + _ROUNDING * b.size * most)
    return (1.0 + _ROUNDING * b.size) * highest - gap, off


@jit()
def is_settled(gap, rounding, objective, tol):
    """Whether a relative gap is at most tol, or rounding hides what is left."""
    return gap <= rounding or gap + rounding <= tol * max(abs(objective), abs(objective + gap))


@jit()
def values_at(K, columns, b, out, compensated=False):
    """Write ``sum_j K[columns[i], columns[j]] b[j]``, in double precision.

    Returns the number of rounding errors in each sum.  Compensated sums take longer, and round as if
    there were only two terms.
    """
    n, used = b.size, 0
    out[:] = 0.0
    lost = np.zeros(n if compensated else 0)
    ranges = np.zeros(room_for_ranges(n), dtype=np.int64)
    find_ranges(columns, ranges)
    for j in range(n):
        if b[j] == 0.0:
            continue
        used += 1
        row, weight, start = K[columns[j]], b[j], 0
        for r in range(1, ranges[0] + 1):
            stop = ranges[r]
            part = row[columns[start] : columns[start] + stop - start]
            if compensated:
                _add_compensated(out[start:stop], lost[start:stop], weight, part)
            else:
                _add(out[start:stop], weight, part)
            start = stop
        for i in range(start, n):
            if compensated:
                out[i], lost[i] = _added(out[i], lost[i], weight * np.float64(row[columns[i]]))
            else:
                out[i] += weight * np.float64(row[columns[i]])
    return min(used, COMPENSATED) if compensated else used


@jit()
def _add(to, weight, part):
    for i in range(to.size):
        to[i] += weight * np.float64(part[i])


@jit()
def _add_compensated(to, lost, weight, part):
    for i in range(to.size):
        to[i], lost[i] = _added(to[i], lost[i], weight * np.float64(part[i]))


@jit(inline="always")
def _added(total, lost, term):
    """A sum with one more term, and what rounding added to it (Kahan 1965)."""
    term -= lost
    moved = total + term
    return moved, (moved - total) - term


@jit(fastmath=_SUMS)
def objective_of(p, b, slope, epsilon):
    """The dual objective at b, with ``slope = p - Kb``."""
    total, heights = 0.0, 0.0
    for k in range(b.size):
        total += b[k] * (p[k] + slope[k])
        heights += abs(b[k])
    return 0.5 * total - epsilon * heights


@jit()
def certificate(p, b, values, lower, upper, epsilon, total, diagonal, roundings):
    """Bias, dual objective, gap, and by how much rounding lowers the gap and changes the objective.

    Values ``Kb`` are off by at most ``roundings`` rounding errors of their largest possible value.  The
    sum of b is off its total by rounding, which changes both objectives by that times the bias.

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
    rounding, off = roundings_of(b, slope, lower, upper, epsilon, bias, diagonal, roundings)
    excess = abs(bias) * abs(_excess(b, total))
    return bias, objective_of(p, b, slope, epsilon), gap, rounding + excess, off + excess


@jit()
def _excess(b, total):
    """The sum of b minus its total, without rounding of large terms (Neumaier 1974)."""
    running, lost = -total, 0.0
    for k in range(b.size):
        moved = running + b[k]
        large, small = (running, b[k]) if abs(running) >= abs(b[k]) else (b[k], running)
        lost += (large - moved) + small
        running = moved
    return running + lost
