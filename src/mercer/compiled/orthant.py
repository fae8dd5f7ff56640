"""Loops of the orthant's kernels: sums over modes of products over common coordinates."""

from __future__ import annotations

import numpy as np

from mercer.compiled.jit import jit

#: Products below this are put into their logarithm.
_SMALL = 1e-200
#: Arguments z a below this are small: eight terms of a power series leave a rounding.
SERIES, TERMS = 0.25, 8


@jit()
def scaled_factor(x, falling, absorbing):
    """``cosh(x)``, or ``sinh(x) / x``, divided by ``exp(x)``; ``falling`` is ``exp(-2 x) - 1``."""
    return -falling / (2 * x) if absorbing else 1.0 + 0.5 * falling


@jit(fastmath={"contract"})
def multiply(a, slant, step, absorbing, damping, real, imag):
    """Multiply the products of all modes by the factor of one coordinate, in units of that at b = 0.

    ``cosh(z a) / cosh(s a) = cos(b a) + i tanh(s a) sin(b a)`` for ``z = s + i b``, or
    ``s / z (cos(b a) + i sin(b a) / tanh(s a))``; ``slant`` is the hyperbolic tangent or its inverse,
    and ``damping`` holds ``s / z``.
    """
    turn, rise = np.cos(step * a), np.sin(step * a)
    cosine, sine = 1.0, 0.0
    for k in range(1, real.size):
        cosine, sine = cosine * turn - sine * rise, sine * turn + cosine * rise
        first, second = cosine, slant * sine
        if absorbing:
            first, second = (
                first * damping[0, k] - second * damping[1, k],
                first * damping[1, k] + second * damping[0, k],
            )
        real[k], imag[k] = first * real[k] - second * imag[k], first * imag[k] + second * real[k]


@jit(fastmath={"contract"})
def multiply_series(powers, series, real, imag):
    """Multiply the products of all modes by ``exp(sum_k series_k powers_k)``."""
    for m in range(1, real.size):
        rise, turn = 0.0, 0.0
        for k in range(powers.size):
            rise += series[k, 0, m] * powers[k]
            turn += series[k, 1, m] * powers[k]
        scale = np.exp(rise)
        first, second = scale * np.cos(turn), scale * np.sin(turn)
        real[m], imag[m] = first * real[m] - second * imag[m], first * imag[m] + second * real[m]


@jit()
def component_product(i, j, P, Q, k, modes, real, imag, powers):
    """Products over common coordinates of two rows; returns logarithms of the unit and of the error.

    Coordinates are multiplied one by one, but where ``z a`` is small for all z: there logarithms of the
    factors are power series, so that sums of powers of a do for all of them and all modes.
    """
    absorbing, _, tilts, steps, damping, _, _, error_tilts, reaches, series, units = modes
    tilt, error_tilt, reach = tilts[k], error_tilts[k], reaches[k]
    (starts, columns, roots), (their_starts, their_columns, their_roots) = P, Q
    real[:], imag[:], powers[:] = 1.0, 0.0, 0.0
    here, there = starts[i], their_starts[j]
    log_product, log_error, product, error = 0.0, 0.0, 1.0, 1.0
    while here < starts[i + 1] and there < their_starts[j + 1]:
        column, other = columns[here], their_columns[there]
        if column == other:
            a = roots[here] * their_roots[there]
            if reach * a < SERIES:
                square, power = (reach * a) ** 2, 1.0
                for r in range(powers.size):
                    power *= square
                    powers[r] += power
            else:
                x = tilt * a
                falling = np.expm1(-2 * x)
                log_product += x
                product *= scaled_factor(x, falling, absorbing)
                slant = (2 + falling) / -falling if absorbing else -falling / (2 + falling)
                multiply(a, slant, steps[k], absorbing, damping[k], real, imag)
                if product < _SMALL:
                    log_product += np.log(product)
                    product = 1.0
                x = error_tilt * a
                if error_tilt < tilt and x > 0.0:
                    log_error += x
                    error *= scaled_factor(x, np.expm1(-2 * x), absorbing)
                    if error < _SMALL:
                        log_error += np.log(error)
                        error = 1.0
        here += column <= other
        there += other <= column
    log_product += np.log(product)
    log_error = log_product if error_tilt == tilt else log_error + np.log(error)
    if powers[0] > 0.0:
        multiply_series(powers, series[k], real, imag)
        for r in range(powers.size):
            log_product += units[k, 0, r] * powers[r]
            log_error += units[k, 1, r] * powers[r]
    return log_product, log_error


@jit()
def pair_sums(i, j, P, Q, modes, real, imag, powers, sums):
    """Sums over all modes for two rows: values, derivatives, and last the error.

    They are in units of the exponential of the number that is returned.
    """
    logs, coefficients, error_logs = modes[1], modes[5], modes[6]
    unit = -np.inf
    sums[:] = 0.0
    for k in range(logs.size):
        log_product, log_error = component_product(i, j, P, Q, k, modes, real, imag, powers)
        log_product += logs[k]
        log_error += error_logs[k]
        top = max(log_product, log_error)
        if top > unit:
            sums *= np.exp(unit - top)
            unit = top
        share = np.exp(log_product - unit)
        for r in range(sums.size - 1):
            total = 0.0
            for m in range(real.size):
                total += coefficients[r, k, 0, m] * real[m] + coefficients[r, k, 1, m] * imag[m]
            sums[r] += share * total
        sums[-1] += np.exp(log_error - unit)
    return unit


@jit()
def orthant_diagonal(begin, end, P, modes, units, out):
    """Sums of rows with themselves; ``out`` has one line for each sum."""
    size = modes[5].shape[3]
    real, imag, powers = np.empty(size), np.empty(size), np.empty(TERMS)
    sums = np.empty(out.shape[0])
    for i in range(begin, end):
        units[i] = pair_sums(i, i, P, P, modes, real, imag, powers, sums)
        out[:, i] = sums


@jit()
def orthant_rows(begin, end, P, Q, modes, lengths, their_lengths, symmetric, logarithm, out, worst):
    """Values for rows ``begin:end`` of P and all of Q, divided by lengths that are given as logarithms.

    ``out[0]`` is the kernel or its logarithm, the rest are derivatives.  Of a symmetric result half is
    computed.  ``worst`` holds the largest error relative to the value in each row, and its column.
    """
    size = modes[5].shape[3]
    real, imag, powers = np.empty(size), np.empty(size), np.empty(TERMS)
    sums = np.empty(out.shape[0] + 1)
    for i in range(begin, end):
        for j in range(i if symmetric else 0, out.shape[2]):
            unit = pair_sums(i, j, P, Q, modes, real, imag, powers, sums)
            unit -= lengths[i] + their_lengths[j]
            error = sums[-1] / abs(sums[0]) if sums[0] != 0.0 else np.inf
            if error > worst[0, i]:
                worst[0, i], worst[1, i] = error, j
            for r in range(out.shape[0]):
                if logarithm:
                    value = unit + np.log(sums[r]) if sums[r] > 0.0 else -np.inf
                else:
                    value = np.exp(unit) * sums[r]
                out[r, i, j] = value
                if symmetric:
                    out[r, j, i] = value
