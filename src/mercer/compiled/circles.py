"""Loops of the torus: mixtures of products of theta functions."""

from __future__ import annotations

import math

import numpy as np

from mercer.compiled.jit import jit

#: Terms with larger exponents are negligible.
_FAR = 40.0
#: Number of cosines that matter at times of at least 1.
_MOST_COSINES = 6


@jit()
def mix_thetas(left, right, times, tops, weights, out):
    """Write ``sum_k w_k prod_j theta(x_j - y_j, t_k) / theta(0, t_k)``.

    Times ascend.  From 1 on theta is ``1 + 2 sum_i exp(-i^2 t) cos(i a)``, before that the sum of
    wrapped Gaussians without ``sqrt(pi / t)``, whose first factor ``exp(-|x - y|^2 / 4t)`` ends the
    sum where it is negligible.  ``tops`` are these sums at zero.  ``left`` has rows of angles,
    ``right`` columns.
    """
    m, p = left.shape
    q = right.shape[1]
    gaps = np.empty(p)
    cosines = np.empty(p)
    far = _FAR + p
    fallen = np.empty((times.size, _MOST_COSINES))  # exp(-i^2 t), for the times that use cosines
    for k in range(times.size):
        for i in range(_MOST_COSINES):
            fallen[k, i] = 2 * math.exp(-((i + 1) ** 2) * max(times[k], 1.0))
    for i in range(m):
        for j in range(q):
            square = 0.0
            for c in range(p):
                a = abs(left[i, c] - right[c, j])
                a = min(a, 2 * math.pi - a)
                gaps[c] = a
                square += a * a
            total = 0.0
            ready = False
            for k in range(times.size - 1, -1, -1):
                t = times[k]
                if t >= 1.0:
                    if not ready:
                        for c in range(p):
                            cosines[c] = math.cos(gaps[c])
                        ready = True
                    last = min(int(math.sqrt(_FAR / t)) + 1, _MOST_COSINES)
                    total += weights[k] * _cosine_product(cosines, fallen[k, :last], tops[k])
                    continue
                exponent = square / (4 * t)
                if exponent > far:
                    break
                value = weights[k] * math.exp(-exponent)
                for c in range(p):
                    value *= _images(gaps[c], t) / tops[k]
                total += value
            out[i, j] = total


@jit()
def _cosine_product(cosines, fallen, top):
    """Product of theta functions, relative to their top, at angles with these cosines."""
    value = 1.0
    for c in range(cosines.size):
        before, now = 1.0, cosines[c]
        total = 1.0
        for weight in fallen:
            total += weight * now
            before, now = now, 2 * cosines[c] * now - before
        value *= total / top
    return value


@jit()
def _images(a, t):
    """The wrapped Gaussians at an angle in [0, pi], relative to the first."""
    value = 1.0
    for turns in (1, -1, 2, -2):
        exponent = math.pi * turns / t * (math.pi * turns - a)
        if exponent < _FAR:
            value += math.exp(-exponent)
    return value
