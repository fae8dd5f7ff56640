"""Loops of spherical harmonics."""

from __future__ import annotations

import math

import numpy as np

from mercer.compiled.jit import jit

#: Points that advance together: one vector operation serves all of them.
_LANES = 64


@jit(fastmath={"contract"})
def product_harmonics(points, up, down, counts, starts, places, scales, out):
    """Harmonics of unit vectors, a row of ``out`` for each.

    Level l fills the rows from ``starts[l]`` on of a work array; where ``places[l] >= 0`` they become
    columns of ``out`` from that one on, times ``scales[l]``.  Coordinate k + 1 extends the harmonics of
    the first k coordinates: those stay, and each of a lower level m gives one new harmonic, times the
    polynomial of degree ``l - m`` in the new coordinate.
    """
    levels = starts.size - 1
    work = np.empty((starts[levels], _LANES))
    steps = np.empty((levels, levels, _LANES))
    square = np.empty(_LANES)
    x = np.empty(_LANES)
    for begin in range(0, points.shape[0], _LANES):
        width = min(_LANES, points.shape[0] - begin)
        _circle(points, begin, width, starts, work, square)
        for stage in range(up.shape[0]):
            for i in range(_LANES):
                x[i] = points[begin + min(i, width - 1), stage + 2]
                square[i] += x[i] * x[i]
            _polynomials(x, square, up[stage], down[stage], steps)
            for level in range(1, levels):
                new = starts[level] + counts[stage, level]
                for m in range(level - 1, -1, -1):
                    factor = steps[m, level - m]
                    for old in range(starts[m], starts[m] + counts[stage, m]):
                        source, target = work[old], work[new]
                        for i in range(_LANES):
                            target[i] = factor[i] * source[i]
                        new += 1
        for level in range(levels):
            if places[level] >= 0:
                _transpose(
                    work[starts[level] : starts[level + 1]], width, scales[level],
                    out[begin:, places[level] :],
                )  # fmt: skip


@jit(fastmath={"contract"})
def _transpose(rows, width, scale, out):
    """Write rows of the work array as columns, a few at a time so that both sides stay in cache."""
    size = rows.shape[0]
    for first in range(0, size, 16):
        for i in range(width):
            target = out[i]
            for j in range(first, min(first + 16, size)):
                target[j] = scale * rows[j, i]


@jit()
def _circle(points, begin, width, starts, work, square):
    """Real and imaginary part of ``(x + iy)^l``: the harmonics of the first two coordinates."""
    root = math.sqrt(2.0)
    for i in range(_LANES):
        row = begin + min(i, width - 1)
        x, y = points[row, 0], points[row, 1]
        square[i] = x * x + y * y
        work[0, i] = 1.0
        real, imaginary = root, 0.0
        for level in range(1, starts.size - 1):
            real, imaginary = x * real - y * imaginary, x * imaginary + y * real
            work[starts[level], i] = real
            work[starts[level] + 1, i] = imaginary


@jit(fastmath={"contract"})
def _polynomials(x, square, up, down, steps):
    """Gegenbauer polynomials of degree d in x, times ``r^d``, for each level m that they extend."""
    levels = steps.shape[0]
    for m in range(levels):
        for i in range(_LANES):
            steps[m, 0, i] = 1.0
        for d in range(levels - m - 1):
            ahead, back = up[m, d], down[m, d]
            here, after = steps[m, d], steps[m, d + 1]
            if d == 0:
                for i in range(_LANES):
                    after[i] = ahead * x[i] * here[i]
            else:
                before = steps[m, d - 1]
                for i in range(_LANES):
                    after[i] = ahead * x[i] * here[i] - back * square[i] * before[i]
