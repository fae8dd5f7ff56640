"""Loops of the orthant's kernels: sums over modes of products over common coordinates."""

from __future__ import annotations

import numpy as np

from mercer.compiled.jit import jit

#: Products below this are replaced by their logarithm.
_SMALL = 1e-200
#: Arguments z a below this are small: eight terms of a power series are exact to rounding.
SERIES, TERMS = 0.25, 8
#: Terms below the exponential of minus the first are negligible beside one, and so are smaller
#: differences of a factor from one than the second.
_NOTHING, _FAINT = 60.0, 1e-18
_EPS = np.finfo(np.float64).eps


@jit()
def scaled_factor(x, falling, absorbing):
    """``cosh(x)``, or ``sinh(x) / x``, divided by ``exp(x)``; ``falling`` is ``exp(-2 x) - 1``."""
    return -falling / (2 * x) if absorbing else 1.0 + 0.5 * falling


@jit(fastmath={"contract"})
def multiply(a, gain, step, absorbing, damping, real, imag):
    """Multiply the products of all modes by the factor of one coordinate, in units of that at b = 0.

    With ``q = exp(-2 s a)`` and ``z = s + i b``, ``(1 + exp(-2 z a)) / (1 + q)`` is
    ``1 + 2 g sin(b a) [sin(b a) + i cos(b a)]``, where ``g = -q / (1 + q)``.  With minus signs for plus
    ``g = q / (1 - q)``, and ``damping`` holds the factor ``s / z``.  ``gain`` is 2 g.
    """
    turn, rise = np.cos(step * a), np.sin(step * a)
    cosine, sine = 1.0, 0.0
    for k in range(1, real.size):
        cosine, sine = cosine * turn - sine * rise, sine * turn + cosine * rise
        first, second = 1.0 + gain * sine * sine, gain * sine * cosine
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


@jit(fastmath={"contract"})
def turn_back(angle, real, imag):
    """Multiply mode m by ``exp(-i m angle)``."""
    turn, rise = np.cos(angle), -np.sin(angle)
    cosine, sine = 1.0, 0.0
    for m in range(1, real.size):
        cosine, sine = cosine * turn - sine * rise, sine * turn + cosine * rise
        real[m], imag[m] = cosine * real[m] - sine * imag[m], cosine * imag[m] + sine * real[m]


@jit()
def common(i, j, P, Q, products):
    """Products of the common coordinates of two rows, their number, and half the squared distance."""
    (starts, columns, roots), (their_starts, their_columns, their_roots) = P, Q
    here, there = starts[i], their_starts[j]
    end, their_end = starts[i + 1], their_starts[j + 1]
    count, squares = 0, 0.0
    while here < end or there < their_end:
        mine = here < end and (there == their_end or columns[here] <= their_columns[there])
        theirs = there < their_end and (here == end or their_columns[there] <= columns[here])
        x = roots[here] if mine else 0.0
        y = their_roots[there] if theirs else 0.0
        squares += (x - y) ** 2
        if mine and theirs:
            products[count] = x * y
            count += 1
        here += mine
        there += theirs
    return count, squares / 2


@jit()
def component_product(products, separation, k, modes, real, imag, powers):
    """Products over common coordinates; returns logarithms of the unit and of the error.

    Coordinates are multiplied one by one, unless ``z a`` is small for all z: then logarithms of the
    factors are power series, and sums of powers of a serve all of them and all modes.  The exponential
    of the others' sum, 1 less the separation and the small ones, is kept apart: at short times it
    dominates, and only the separation is known to enough digits.
    """
    absorbing, _, tilts, steps, damping, _, _, error_tilts, reaches, series, units = modes[:11]
    tilt, error_tilt, reach = tilts[k], error_tilts[k], reaches[k]
    real[:], imag[:], powers[:] = 1.0, 0.0, 0.0
    log_product, log_error, product, error = 0.0, 0.0, 1.0, 1.0
    for a in products:
        if reach * a < SERIES:
            separation += a
            square, power = (reach * a) ** 2, 1.0
            for r in range(powers.size):
                power *= square
                powers[r] += power
            continue
        x = tilt * a
        falling = np.expm1(-2 * x)
        left = 1.0 + falling
        product *= scaled_factor(x, falling, absorbing)
        if absorbing or left > _FAINT:
            gain = 2 * left / (-falling if absorbing else -1.0 - left)
            multiply(a, gain, steps[k], absorbing, damping[k], real, imag)
        if product < _SMALL:
            log_product += np.log(product)
            product = 1.0
        x = error_tilt * a
        if error_tilt < tilt and x > 0.0:
            error *= scaled_factor(x, np.expm1(-2 * x), absorbing)
            if error < _SMALL:
                log_error += np.log(error)
                error = 1.0
    turn_back(steps[k] * separation, real, imag)
    log_product += np.log(product)
    log_error = log_product if error_tilt == tilt else log_error + np.log(error)
    log_product -= tilt * separation
    log_error -= error_tilt * separation
    if powers[0] > 0.0:
        multiply_series(powers, series[k], real, imag)
        for r in range(powers.size):
            log_product += units[k, 0, r] * powers[r]
            log_error += units[k, 1, r] * powers[r]
    return log_product, log_error


@jit()
def pair_sums(i, j, P, Q, modes, work, sums):
    """Sums over all modes for two rows: values, derivatives, and last the error.

    They are in units of the exponential of the number that is returned.  Components are visited from
    the widest on; those that decay too fast to matter at this separation are skipped.
    """
    logs, tilts, coefficients, error_logs, error_tilts = modes[1], modes[2], modes[5], modes[6], modes[7]
    sizes, weights = modes[11], modes[12]
    real, imag, powers, products = work
    count, separation = common(i, j, P, Q, products)
    # Error of an exponent by the rounding of unit vectors, per unit of z.
    loose = 4 * _EPS * (separation + np.sqrt(2 * separation))
    unit = -np.inf
    sums[:] = 0.0
    for k in range(logs.size - 1, -1, -1):
        most = max(
            logs[k] + weights[k] - tilts[k] * separation, error_logs[k] - error_tilts[k] * separation
        )
        if most < unit - _NOTHING:
            continue
        size = sizes[k]
        log_product, log_error = component_product(
            products[:count], separation, k, modes, real[:size], imag[:size], powers
        )
        log_product += logs[k]
        log_error += error_logs[k]
        top = max(log_product, log_error)
        if top > unit:
            sums *= np.exp(unit - top)
            unit = top
        share = np.exp(log_product - unit)
        for r in range(sums.size - 1):
            total = 0.0
            for m in range(size):
                total += coefficients[r, k, 0, m] * real[m] + coefficients[r, k, 1, m] * imag[m]
            sums[r] += share * total
        sums[-1] += np.exp(log_error - unit)
        sums[-1] += share * np.exp(weights[k]) * (8 * _EPS + tilts[k] * loose)
    return unit


@jit()
def work_arrays(P, modes):
    """Room for the modes, the powers of small coordinates and the products of two rows."""
    size, longest = modes[5].shape[3], 0
    for i in range(P[0].size - 1):
        longest = max(longest, P[0][i + 1] - P[0][i])
    return np.empty(size), np.empty(size), np.empty(TERMS), np.empty(longest)


@jit()
def orthant_diagonal(begin, end, P, modes, units, out):
    """Sums of rows with themselves; ``out`` has one line for each sum."""
    work = work_arrays(P, modes)
    sums = np.empty(out.shape[0])
    for i in range(begin, end):
        units[i] = pair_sums(i, i, P, P, modes, work, sums)
        out[:, i] = sums


@jit()
def orthant_rows(begin, end, P, Q, modes, lengths, their_lengths, symmetric, logarithm, out, worst):
    """Values for rows ``begin:end`` of P and all of Q, divided by lengths that are given as logarithms.

    ``out[0]`` is the kernel or its logarithm, the rest are derivatives.  Only half of a symmetric
    result is computed.  ``worst`` holds the largest error relative to the value in each row, and its
    column.
    """
    work = work_arrays(P, modes)
    sums = np.empty(out.shape[0] + 1)
    for i in range(begin, end):
        for j in range(i if symmetric else 0, out.shape[2]):
            unit = pair_sums(i, j, P, Q, modes, work, sums)
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
