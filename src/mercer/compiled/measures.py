"""Loops of kernels between clouds."""

from __future__ import annotations

import math

import numpy as np

from mercer.compiled.blas import factorize, subtract_squares
from mercer.compiled.jit import jit

#: 1.5 * 2**52: adding it rounds to a whole number, left in the low bits.
_ROUNDER = 6755399441055744.0


@jit(fastmath={"contract"})
def gaussian_block(X, columns, rate, out):
    """Write ``exp(-rate |x - y|^2)`` for rows x of X and columns y, from differences.

    The exponential is ``2^n exp(r)`` with ``|r| <= log(2) / 2``, by a Taylor polynomial of degree 13
    (relative truncation error 4e-18), all in operations that compilers turn into vectors.  Values
    below 1e-306 come out as zero.
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
            p = r * (1 / 6227020800.0) + 1 / 479001600.0
            p = p * r + 1 / 39916800.0
            p = p * r + 1 / 3628800.0
            p = p * r + 1 / 362880.0
            p = p * r + 1 / 40320.0
            p = p * r + 1 / 5040.0
            p = p * r + 1 / 720.0
            p = p * r + 1 / 120.0
            p = p * r + 1 / 24.0
            p = p * r + 1 / 6.0
            p = p * r + 0.5
            p = np.float64(p * r * r + r + 1.0)
            value = np.int64(p.view(np.int64) + (shifted.view(np.int64) << 52)).view(np.float64)
            line[j] = value if x > -706.0 else 0.0


@jit(fastmath={"contract", "reassoc"}, error_model="numpy")
def mixture_log_determinants(
    K, weights, scales, z, vectors, with_mean, squares, blocks, y_with_mean, y_squares, out
):
    """Write the logarithms of the determinants of Schur complements, see ``engine.mixtures``.

    One pair of clouds after the other, in buffers that stay in a core's own cache.  ``K`` has shape
    (m k, g l): base kernel between m clouds y of k points and g clouds x of l; NaN where a matrix is not
    positive definite.
    """
    (g, m), k = out.shape, weights.shape[1]
    size, rank = vectors.shape[1], vectors.shape[2] - 1
    n = k + 1
    centred, W, S = np.empty((n, size)), np.empty((n, rank + 1)), np.empty((n, n))
    letters = np.array([ord("U"), ord("T")], dtype=np.uint8)
    numbers = np.array([n, rank, rank + 1, 0], dtype=np.int32)
    factors = np.array([-1.0, 1.0])
    for x in range(g):
        for y in range(m):
            _centre(K, y * k, x * size, weights[y], scales[y], -z, centred)
            np.dot(centred, vectors[x], W)
            for i in range(rank):
                W[k, i] += with_mean[x, i] * z
            S[:] = blocks[y]
            for i in range(k):
                S[k, i] += W[i, rank] * z - y_with_mean[y, i]
            S[k, k] += (squares[x] + y_squares[y]) * z * z + 2 * W[k, rank] * z
            subtract_squares(W, S, letters, numbers, factors)
            out[x, y] = np.nan
            if factorize(S, letters, numbers):
                total = 0.0
                for i in range(n):
                    total += math.log(S[i, i])
                out[x, y] = 2 * total


@jit(fastmath={"contract", "reassoc"})
def _centre(K, top, left, weights, scales, last, out):
    """Centre and scale the rows of a block of K, and put their mean, scaled, in one more row."""
    mean = out[len(weights)]
    mean[:] = 0.0
    for j in range(len(weights)):
        line = K[top + j, left : left + mean.size]
        for i in range(mean.size):
            mean[i] += weights[j] * line[i]
    for j in range(len(weights)):
        line, target = K[top + j, left : left + mean.size], out[j]
        for i in range(mean.size):
            target[i] = (line[i] - mean[i]) * scales[j]
    for i in range(mean.size):
        mean[i] *= last
