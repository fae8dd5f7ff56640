"""Loops of kernels between clouds."""

from __future__ import annotations

import math

import numpy as np

from mercer.compiled.blas import factorize, multiply_triangle, subtract_squares
from mercer.compiled.jit import jit

#: 1.5 * 2**52: adding it rounds to a whole number, left in the low bits.
_ROUNDER = 6755399441055744.0


@jit(fastmath={"contract"})
def gaussian_block(X, columns, rate, out):
    """Write ``exp(-rate |x - y|^2)`` for rows x of X and columns y, from differences.

    The exponential is ``2^n exp(r)`` with ``|r| <= log(2) / 2``, by a Taylor polynomial of degree 13
    (relative truncation error 4e-18) in parts that do not wait for each other, all in operations that
    compilers turn into vectors.  Values below 1e-306 come out as zero.
    """
    for i in range(X.shape[0]):
        line = out[i]
        line[:] = 0.0
        for d in range(X.shape[1]):
            x = X[i, d]
            ys = columns[d]
            for j in range(line.size):
                gap = x - ys[j]
                line[j] += gap * gap
        for j in range(line.size):
            x = max(-rate * line[j], -706.0)
            shifted = np.float64(x * 1.4426950408889634 + _ROUNDER)
            n = shifted - _ROUNDER
            r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10
            r2 = r * r
            r4 = r2 * r2
            p = (1 + r) + r2 * (0.5 + r * (1 / 6.0))
            q = (1 / 24.0 + r * (1 / 120.0)) + r2 * (1 / 720.0 + r * (1 / 5040.0))
            s = (1 / 40320.0 + r * (1 / 362880.0)) + r2 * (1 / 3628800.0 + r * (1 / 39916800.0))
            t = 1 / 479001600.0 + r * (1 / 6227020800.0)
            p = np.float64((p + r4 * q) + (r4 * r4) * (s + r4 * t))
            value = np.int64(p.view(np.int64) + (shifted.view(np.int64) << 52)).view(np.float64)
            line[j] = value if x > -706.0 else 0.0


@jit(fastmath={"contract", "reassoc"}, error_model="numpy")
def mixture_log_determinants(
    K, z, xs, x_starts, a, x_roots, x_with_mean, x_squares, x_places, inverses,
    ys, y_starts, b, y_roots, y_with_mean, y_squares, y_places, grams, out,
):  # fmt: skip
    """Write the logarithms of the determinants of Schur complements, see ``engine.mixtures``.

    One pair of clouds after the other, in buffers that stay in a core's own cache.  ``K`` holds the base
    kernel between the points of clouds xs, one after the other, and those of clouds ys; the result is
    NaN where a matrix is not positive definite.
    """
    letters, factors = np.array([ord("U"), ord("N")], dtype=np.uint8), np.array([-1.0, 1.0, 0.0])
    numbers = np.zeros(4, dtype=np.int32)
    rows, columns = np.diff(x_starts)[xs].max(), np.diff(y_starts)[ys].max() + 1
    room_C, room_W, room_S = np.empty(rows * columns), np.empty(rows * columns), np.empty(columns**2)
    top = 0
    for p in range(xs.size):
        x = xs[p]
        own = slice(x_starts[x], x_starts[x + 1])
        k = own.stop - own.start
        inverse = inverses[x_places[x] : x_places[x + 1]].reshape(k, k)
        left = 0
        for q in range(ys.size):
            y = ys[q]
            theirs = slice(y_starts[y], y_starts[y + 1])
            n = theirs.stop - theirs.start
            C = room_C[: k * (n + 1)].reshape(k, n + 1)
            W = room_W[: k * (n + 1)].reshape(k, n + 1)
            S = room_S[: (n + 1) ** 2].reshape(n + 1, n + 1)
            S[:n, :n] = grams[y_places[y] : y_places[y + 1]].reshape(n, n)
            both = _centre(K, top, left, a[own], b[theirs], x_roots[own], y_roots[theirs], C, S)
            for i in range(k):
                C[i, n] = z * (x_with_mean[own.start + i] - C[i, n])
            for j in range(n):
                S[n, j] = z * (S[n, j] - y_with_mean[theirs.start + j])
            S[n, n] = z * z * (x_squares[x] + y_squares[y] - 2 * both)
            for j in range(n + 1):
                S[j, j] += 1
            multiply_triangle(inverse, C, W, letters, numbers, factors)
            subtract_squares(W, S, letters, numbers, factors)
            out[p, q] = np.nan
            if factorize(S, letters, numbers):
                total = 0.0
                for j in range(n + 1):
                    total += math.log(S[j, j])
                out[p, q] = 2 * total
            left += n
        top += k


@jit(fastmath={"contract", "reassoc"})
def _centre(K, top, left, a, b, x_roots, y_roots, C, S):
    """Centre and scale a block of K to C, and return the product of the means of both clouds.

    Products of centred points of x with the mean of y go to the last column of C, those of centred
    points of y with the mean of x to the last row of S.
    """
    k, n, with_x = a.size, b.size, S[-1]
    with_x[:] = 0.0
    both = 0.0
    for i in range(k):
        line = K[top + i, left : left + n]
        total = 0.0
        for j in range(n):
            total += b[j] * line[j]
            with_x[j] += a[i] * line[j]
        C[i, n] = total
        both += a[i] * total
    for i in range(k):
        line, target, root, with_y = K[top + i, left : left + n], C[i], x_roots[i], C[i, n]
        for j in range(n):
            target[j] = (line[j] - with_y - (with_x[j] - both)) * (root * y_roots[j])
        target[n] = root * (with_y - both)
    for j in range(n):
        with_x[j] = y_roots[j] * (with_x[j] - both)
    return both
