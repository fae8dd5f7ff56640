"""The logarithm of the heat kernel where the kernel is far below its rounding error.

Zonal series cancel in the tails: the sum of terms of order one may be 10^-200.  There they are summed
in fixed-point arithmetic, with as many digits as necessary.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np

from mercer._arrays import Array
from mercer.special.zonal import Function

#: Values above this have a relative error near 1e-13 when summed in doubles.
_RELIABLE = 1e-2
#: Correct bits required of a value.
_BITS = 60
#: Elementary operations on 64-bit words before giving up.
_BUDGET = 4e10


def log_heat(function: Function, n: int, t: float, sides: int) -> Function:
    """Logarithm of the normalised heat kernel, from its values in doubles where they are reliable."""

    def logarithm(u: Array) -> Array:
        values = function(u)[:sides]
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(values)
        for side, sign in enumerate((1, -1)[:sides]):
            faint = ~(values[side] > _RELIABLE)
            if faint.any():
                logs[side, faint] = _log_heat(n, t, u[faint], sign)
        return logs

    return logarithm


def _log_heat(n: int, t: float, u: Array, sign: int) -> Array:
    """Logarithm of the normalised heat kernel at ``w = sign (1 - u)``."""
    logs = np.full(u.size, np.nan)
    left = np.arange(u.size)
    bits = 256
    while left.size:
        weights = _weights(n, t, bits)
        # Work: a handful of products of `bits` bits per level and point.
        if 4 * left.size * len(weights) * (bits / 64) ** 1.6 > _BUDGET:
            raise ValueError(
                f"the logarithm of the heat kernel in dimension {n} at t = {t:.3g} cannot be computed "
                f"at this separation: the kernel is below 2^-{bits // 2} there"
            )
        sums = _fixed_point_series(n, weights, u[left], sign, bits)
        total = sum(weights)
        # Rounding errors of the stable recurrence stay below l^2 units of the last place.
        error = 4 * len(weights) ** 2 + 2**8
        good = np.array([s > (error << _BITS) for s in sums], dtype=bool)
        logs[left[good]] = [_log_ratio(s, total) for s, g in zip(sums, good, strict=True) if g]
        left = left[~good]
        bits *= 2
    return logs


def _weights(n: int, t: float, bits: int) -> list[int]:
    """``exp(-lam_l t) N_l`` in units of 2^-bits of the largest, until they vanish."""
    with localcontext() as context:
        context.prec = int(bits * 0.302) + 20
        first, ratio = (-(n - 1) * Decimal(t)).exp(), (-2 * Decimal(t)).exp()
        step, weight = first, Decimal(1)
        weights = [weight]
        largest = weight
        level = 0
        while weight > largest.scaleb(-int(bits * 0.302) - 10):
            growth = Decimal(2) if n == 2 else Decimal((2 * level + n) * (level + n - 2)) / (
                (2 * level + n - 2) * (level + 1)
            )  # fmt: skip
            weight *= step * (Decimal(1) if n == 2 and level > 0 else growth)
            step *= ratio
            weights.append(weight)
            largest = max(largest, weight)
            level += 1
        unit = Decimal(2) ** bits / largest
        return [int(w * unit) for w in weights]


def _fixed_point_series(n: int, weights: list[int], u: Array, sign: int, bits: int) -> list[int]:
    """Sum ``weights[l] P_l(sign (1 - u))``; numbers are integers in units of 2^-bits."""
    separation = np.array([int(Decimal(x) * 2**bits) for x in u.tolist()], dtype=object)
    one = 1 << bits
    p = np.full(u.size, one, dtype=object)
    d = -separation
    total = weights[0] * p
    for level in range(1, len(weights)):
        if level > 1:
            k = level - 1
            d = (k * d - ((2 * k + n - 2) * ((separation * p) >> bits))) // (k + n - 2)
        p = p + d
        total = total + (weights[level] if sign > 0 or level % 2 == 0 else -weights[level]) * p
    return [int(s) >> bits for s in total]


def _log_ratio(numerator: int, denominator: int) -> float:
    shift = denominator.bit_length() - numerator.bit_length()
    return math.log((numerator << shift) / denominator) - shift * math.log(2)
