"""Loops of radial kernels: zonal series, tables, sparse products."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from mercer.compiled.jit import jit

#: Nodes that advance together through a zonal series: enough to fill the vector units.
_LANES = 32

#: A zonal polynomial and its increment below this have died out: the envelope of P_l falls with l.
_EXTINCT = 1e-30


@jit(fastmath={"contract"})
def zonal_sweep(u, n, first, coefficients, even, odd):
    """Add up a zonal series at the points ``w = 1 - u``, even and odd levels apart.

    ``P_(l+1) - P_l = (l (P_l - P_(l-1)) - (2l + n - 2) u P_l) / (l + n - 2)`` keeps full relative
    accuracy of ``1 - P_l`` as u -> 0, where the textbook recurrence loses l^2 roundings.
    ``coefficients[k]`` belongs to level ``first + k``; levels before are stepped over, not added.
    """
    last = first + coefficients.size - 1
    p = np.empty(_LANES)
    d = np.empty(_LANES)
    lost = np.empty(_LANES)
    x = np.empty(_LANES)
    sums = np.empty((2, _LANES))
    for start in range(0, u.size, _LANES):
        width = min(_LANES, u.size - start)
        for k in range(_LANES):
            x[k] = u[start + min(k, width - 1)]
            p[k] = 1.0
            d[k] = 0.0
            lost[k] = 0.0
        sums[:] = 0.0
        for level in range(last + 1):
            if level == 1:
                for k in range(_LANES):
                    d[k] = -x[k]
                    p[k] = 1.0 - x[k]
            elif level > 1:
                down = 1.0 / (level - 1 + n - 2)
                keep = (level - 1) * down
                pull = (2 * (level - 1) + n - 2) * down
                for k in range(_LANES):
                    d[k] = keep * d[k] - pull * x[k] * p[k]
                    # Compensated: p takes 10^5 steps on its way down in high dimension.
                    step = d[k] - lost[k]
                    after = p[k] + step
                    lost[k] = (after - p[k]) - step
                    p[k] = after
            if level >= first:
                c = coefficients[level - first]
                total = sums[level & 1]
                for k in range(_LANES):
                    total[k] += c * p[k]
            if level & 15 == 15:
                alive = 0.0
                for k in range(_LANES):
                    alive = max(alive, abs(p[k]), abs(d[k]))
                if alive < _EXTINCT:
                    break
        for k in range(width):
            even[start + k] = sums[0, k]
            odd[start + k] = sums[1, k]


@cache
def table_loop(separation, logarithmic, single):
    """Compile the loop that replaces each invariant in a tile by a profile's value, in place.

    The upper bits of u (exponent and leading mantissa bits) are the number of its row: pieces are
    equal parts of octaves, and finding one costs a shift.  A row holds the midpoint of its piece and
    the coefficients of a polynomial, of degree 6 in double precision (64 bytes, one line of the
    cache) and 3 in single.

    Flags are constants to the compiler: each combination is a loop without branches.
    """
    folded, inverted = separation == "folded", separation == "one-sided"
    real = np.float32 if single else np.float64
    whole = np.int32 if single else np.int64
    sign_bit = 31 if single else 63
    one, zero = real(1.0), real(0.0)

    @jit(fastmath={"contract"})
    def loop(tile, table, shift, origin, rows, floor):
        for i in range(tile.shape[0]):
            line = tile[i]
            for j in range(tile.shape[1]):
                w = line[j]
                u = one - abs(w) if folded else one - w if inverted else w
                u = real(max(u, zero))
                row = (u.view(whole) >> shift) - origin
                row = min(max(row, whole(0)), rows - whole(1))
                if folded:
                    row += (real(w).view(whole) >> sign_bit) & rows
                c = table[np.uint32(row)]
                x = u - c[0]
                if single:
                    y = ((c[4] * x + c[3]) * x + c[2]) * x + c[1]
                else:
                    y = (((((c[7] * x + c[6]) * x + c[5]) * x + c[4]) * x + c[3]) * x + c[2]) * x
                    y += c[1]
                line[j] = max(real(math.exp(y)) if logarithmic else y, floor)

    return loop


@cache
def polynomial_loop(degree, root, exponential, separation, single):
    """Compile the loop that replaces each invariant in a tile by a polynomial's value, in place.

    The degree is a constant to the compiler: Horner's scheme is unrolled, and elements are computed
    side by side.  Equal points, which are at the end of the range, get their exact value.
    """
    real = np.float32 if single else np.float64
    inverted = separation != "invariant"
    one, zero = real(1.0), real(0.0)

    @jit(fastmath={"contract"})
    def loop(tile, coefficients, scale, shift, least, end, own, floor):
        for i in range(tile.shape[0]):
            line = tile[i]
            for j in range(tile.shape[1]):
                x = line[j]
                if root:
                    x = real(math.sqrt(max(one - x if inverted else x, zero)))
                x = min(max(x * scale + shift, least), one)
                y = coefficients[degree]
                for k in range(degree):
                    y = y * x + coefficients[degree - 1 - k]
                if exponential:
                    y = real(math.exp(y))
                line[j] = own if x == end else max(y, floor)

    return loop


@jit()
def scatter_rows(begin, end, skip, indptr, indices, data, entry, cptr, crows, cdata, out):
    """Rows ``begin:end`` of the sparse product ``L @ R.T``, dense, without its first ``skip`` columns.

    L is given by rows, R by columns; ``entry[p]`` says where in its column of R the p-th element of
    L starts to count (for a symmetric product: at the diagonal, so that half the work is left).
    """
    for i in range(begin, end):
        line = out[i - begin]
        line[:] = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            value = data[p]
            for q in range(entry[p], cptr[indices[p] + 1]):
                line[crows[q] - skip] += value * cdata[q]


@jit(fastmath={"contract"})
def scaled_differences(points, scales, columns, factors, out):
    """``|p - q|^2 s(p) s(q)`` between points in rows and points in columns."""
    for i in range(points.shape[0]):
        line = out[i]
        line[:] = 0.0
        for k in range(points.shape[1]):
            p = points[i, k]
            for j in range(line.size):
                difference = p - columns[k, j]
                line[j] += difference * difference
        for j in range(line.size):
            line[j] *= scales[i] * factors[j]
