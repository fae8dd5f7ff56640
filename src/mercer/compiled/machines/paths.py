"""One quadratic program with growing boxes, each solved from the previous solution."""

from __future__ import annotations

import numpy as np

from mercer.compiled.jit import jit
from mercer.compiled.machines.certificates import certificate, is_settled, values_at
from mercer.compiled.machines.smo import REACHED, Store, ascend

#: Rounds that may end too early because of a coefficient that was left out.
_ROUNDS = 4
#: A solution serves as a start if less than this part of its coefficients are at ends of their boxes.
_BOUND = 0.5
#: Coefficients at the ends of their boxes serve as a start if the relative gap is at most this.
_USEFUL = 0.5


@jit()
def climb_path(
    K, columns, diagonal, p, lower, upper, epsilon, tol, aim, steps, polish, exact, store, b, values,
    found,
):  # fmt: skip
    """Solve a program for each row of ``lower`` and ``upper``, each from the solution before.

    Coefficients have the sum zero.

    Parameters
    ----------
    K, columns, diagonal, p, epsilon, exact, store : as for :func:`mercer.compiled.machines.smo.ascend`
    lower, upper : arrays of shape (settings, m)
    tol, aim : relative duality gap to reach, and what the steps aim at
    steps : largest number of steps for each setting
    polish : largest number of steps towards a gap of rounding, after the gap is reached
    b, values : arrays of shape (settings, m), zeros; the solutions and ``Kb``
    found : array of shape (settings, 7): bias, objective, gap, its rounding and the objective's,
        number of rounding errors in the values, steps

    Returns
    -------
    number of settings that were solved; the one after them has as much as was reached in its steps
    """
    roundings = p.size  # of values at a start, which are sums of at most this many terms
    for s in range(len(lower)):
        roundings += 2  # of coefficients that are stretched, and of their values
        objective = _begin(K, columns, diagonal, p, lower, upper, epsilon, s, b, values)
        taken, reached = 0, False
        for _ in range(_ROUNDS):
            reason, more, roundings, end = ascend(
                K, columns, diagonal, p, lower[s], upper[s], epsilon, 0.0, b[s], values[s], roundings,
                objective, aim, steps - taken, True, exact, store,
            )  # fmt: skip
            taken += more
            objective = end[1]
            reached = is_settled(end[2], end[3], objective, tol)
            if reached or reason != REACHED:
                break
        if reached and polish > 0:
            more, roundings, end = _polished(
                K, columns, diagonal, p, lower[s], upper[s], epsilon, b[s], values[s], roundings, end,
                polish, store,
            )  # fmt: skip
            taken += more
        for k in range(5):
            found[s, k] = end[k]
        found[s, 5], found[s, 6] = roundings, taken
        if not reached:
            return s
    return len(lower)


@jit()
def _polished(
    K, columns, diagonal, p, lower, upper, epsilon, b, values, roundings, reached, steps, store
):  # fmt: skip
    """Steps towards a gap of rounding, undone if it does not fall.

    Returns
    -------
    steps, number of rounding errors in the values, and certificate
    """
    before, values_before = b.copy(), values.copy()
    _, taken, fresh, found = ascend(
        K, columns, diagonal, p, lower, upper, epsilon, 0.0, b, values, roundings, reached[1], 0.0,
        steps, False, True, store,
    )  # fmt: skip
    if found[2] < reached[2]:
        return taken, fresh, found
    b[:], values[:] = before, values_before
    return taken, roundings, reached


@jit()
def climb_all(
    K, columns, diagonal, bounds, p, lower, upper, epsilon, tol, aim, steps, polish, exact, room, b,
    values, found,
):  # fmt: skip
    """Solve programs on the same matrix, one after the other, each along a path of settings.

    Arrays of all programs follow each other.  ``bounds`` says where each of those to solve begins, and
    where the last one ends, in ``columns``, ``diagonal`` and ``p``; in the others there are that many
    entries for each setting.  ``steps`` is the most that each program may take, and ``polish`` the most
    per coefficient after it has reached its gap.  The rows of one program after the other are gathered
    in ``room``.
    """
    settings = found.shape[1]
    for q in range(bounds.size - 1):
        start, stop = bounds[q], bounds[q + 1]
        size, first, last = stop - start, settings * start, settings * stop
        shape = (settings, size)
        store = Store(
            room, np.full(size, -1), np.full(size, -1), np.full(size, -1), np.zeros(3, dtype=np.int64)
        )
        climb_path(
            K, columns[start:stop], diagonal[start:stop], p[start:stop],
            lower[first:last].reshape(shape), upper[first:last].reshape(shape), epsilon, tol, aim,
            steps[q], polish * size, exact, store, b[first:last].reshape(shape),
            values[first:last].reshape(shape), found[q],
        )  # fmt: skip


@jit()
def _begin(K, columns, diagonal, p, lower, upper, epsilon, s, b, values):
    """Write starting coefficients for setting s, and ``Kb``; returns their objective.

    They are those of the previous setting, or at the ends of boxes, or zero if these do not help.  The
    ends are tried at the beginning of a path, where boxes are small; for a single setting they do not
    pay.
    """
    few = False
    if len(lower) == 1:
        return 0.0
    if s == 0:
        _go_to_bounds(K, columns, p, lower[0], upper[0], b[0], values[0])
    else:
        few = _few_at_bounds(b[s - 1], lower[s - 1], upper[s - 1])
        factor = _stretched(p, b[s - 1], values[s - 1], lower[s], upper[s], epsilon, few)
        for k in range(p.size):
            b[s, k] = min(max(factor * b[s - 1, k], lower[s, k]), upper[s, k])
            values[s, k] = factor * values[s - 1, k]
    _, objective, gap, _, _ = certificate(
        p, b[s], values[s], lower[s], upper[s], epsilon, 0.0, diagonal, 0
    )
    if few or gap <= _USEFUL * (objective + gap):
        return objective
    b[s], values[s] = 0.0, 0.0
    return 0.0


@jit()
def _few_at_bounds(b, lower, upper):
    """Whether most coefficients that are not zero are inside their boxes."""
    used, bound = 0, 0
    for k in range(b.size):
        used += b[k] != 0.0
        bound += (b[k] != 0.0) & ((b[k] <= lower[k]) | (b[k] >= upper[k]))
    return bound < _BOUND * used


@jit()
def _stretched(p, b, values, lower, upper, epsilon, best):
    """The best factor of b, ``(p'b - epsilon |b|_1) / b'Kb``, as far as the boxes have grown, else 0.

    If the best is not asked for, it is as large as the boxes allow.
    """
    gain, curvature, room = 0.0, 0.0, np.inf
    for k in range(b.size):
        gain += p[k] * b[k] - epsilon * abs(b[k])
        curvature += b[k] * values[k]
        if b[k] != 0.0:
            room = min(room, (upper[k] if b[k] > 0.0 else lower[k]) / b[k])
    if not 1.0 <= room < np.inf:
        return 0.0
    return max(1.0, min(gain / max(curvature, 1e-300), room)) if best else room


@jit()
def _go_to_bounds(K, columns, p, lower, upper, b, values):
    """Write coefficients at the ends of their boxes, where p draws them, and ``Kb``.

    Their sum is zero: on the side with more room, those most similar to the others are chosen.
    """
    rises, falls = 0.0, 0.0
    for k in range(p.size):
        b[k] = upper[k] if p[k] > 0.0 else lower[k]
        rises, falls = rises + max(b[k], 0.0), falls - min(b[k], 0.0)
    if rises != falls:
        most, sign = min(rises, falls), 1.0 if rises > falls else -1.0
        large = np.flatnonzero(sign * b > 0.0)
        ends = b[large]
        b[large] = 0.0
        values_at(K, columns, b, values)
        for k in np.argsort(sign * values[large]):
            b[large[k]] = sign * max(min(sign * ends[k], most), 0.0)
            most -= abs(b[large[k]])
    values_at(K, columns, b, values)
