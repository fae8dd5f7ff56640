"""Loops of radial kernels: zonal series, sparse products, differences."""

from __future__ import annotations

import numpy as np

from mercer.compiled.jit import jit
from mercer.compiled.profiles import coordinates

#: Nodes that advance together through a zonal series: enough to fill the vector units.
_LANES = 32

#: Squared distances below this share of ``|p|^2 + |q|^2`` are those of close points, and the share of
#: close pairs above which it is faster to take all sums over coordinates.
_CLOSE, _MANY = 0.125, 0.05

#: A zonal polynomial and its increment below this have died out: the envelope of P_l falls with l.
_EXTINCT = 1e-30


@jit(fastmath={"contract"})
def zonal_sweep(u, n, first, coefficients, even, odd):
    """Add up a zonal series at the points ``w = 1 - u``, even and odd levels apart.

    ``P_(l+1) - P_l = (l (P_l - P_(l-1)) - (2l + n - 2) u P_l) / (l + n - 2)`` keeps full relative
    accuracy of ``1 - P_l`` as u -> 0, where the textbook recurrence accumulates l^2 rounding errors.
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


@jit()
def scatter_rows(begin, end, skip, indptr, indices, data, entry, cptr, crows, cdata, out):
    """Rows ``begin:end`` of the sparse product ``L @ R.T``, dense, without its first ``skip`` columns.

    L is given by rows, R by columns; ``entry[p]`` says where in its column of R the p-th element of
    L starts to count (for a symmetric product: at the diagonal, so that half the work is left).
    """
    # Terms are added one by one: in single precision thousands of equal ones are all rounded alike.
    sums = np.empty(out.shape[1])
    for i in range(begin, end):
        sums[:] = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            value = np.float64(data[p])
            for q in range(entry[p], cptr[indices[p] + 1]):
                sums[crows[q] - skip] += value * cdata[q]
        line = out[i - begin]
        for j in range(line.size):
            line[j] = sums[j]


@jit(fastmath={"contract"})
def scaled_differences(tile, step, rows, columns, points, scales, others, start, factors):
    """``|p - q|^2 s(p) s(q)`` between points in rows and others in columns, from ``start`` on.

    Coordinates are a multiple of four.  Four rows advance by four of them at a time, which stay in
    registers as in a matrix product.  The tile is one line of memory, see
    :mod:`mercer.compiled.profiles`.
    """
    for i in range(rows):
        tile[i * step : i * step + columns] = 0.0
    whole = rows - rows % 4
    for i in range(0, whole, 4):
        a, b = tile[i * step :][:columns], tile[(i + 1) * step :][:columns]
        c, d = tile[(i + 2) * step :][:columns], tile[(i + 3) * step :][:columns]
        for k in range(0, points.shape[1], 4):
            p, q = coordinates(points[i], k), coordinates(points[i + 1], k)
            r, s = coordinates(points[i + 2], k), coordinates(points[i + 3], k)
            first, second = others[k][start:], others[k + 1][start:]
            third, fourth = others[k + 2][start:], others[k + 3][start:]
            for j in range(columns):
                x = first[j], second[j], third[j], fourth[j]
                a[j] = _with_squares(a[j], p, x)
                b[j] = _with_squares(b[j], q, x)
                c[j] = _with_squares(c[j], r, x)
                d[j] = _with_squares(d[j], s, x)
    for i in range(rows):
        line = tile[i * step : i * step + columns]
        if i >= whole:
            for k in range(points.shape[1]):
                for j in range(columns):
                    difference = points[i, k] - others[k, start + j]
                    line[j] += difference * difference
        for j in range(columns):
            line[j] *= scales[i] * factors[j]


@jit()
def differences_from_products(tile, step, rows, columns, p, squares, scales, q, others, factors):
    """Replace products of points p and q by ``|p - q|^2 s(p) s(q)``; False if too many pairs are close.

    ``|p|^2 + |q|^2 - 2 p.q`` loses digits where points are close, and squares may overflow: there the
    sum is taken over coordinates.  The tile is one line of memory, see :mod:`mercer.compiled.profiles`.
    """
    most = rows * columns * _MANY
    for i in range(rows):
        line = tile[i * step : i * step + columns]
        close = 0
        for j in range(columns):
            total = squares[i] + others[j]
            line[j] = total - 2.0 * line[j]
            close += not _CLOSE * total <= line[j] < np.inf
        most -= close
        if most < 0:
            return False
        if close:
            for j in range(columns):
                if not _CLOSE * (squares[i] + others[j]) <= line[j] < np.inf:
                    line[j] = 0.0
                    for k in range(p.shape[1]):
                        line[j] += (p[i, k] - q[j, k]) ** 2
        for j in range(columns):
            line[j] *= scales[i] * factors[j]
    return True


@jit()
def sparse_differences(tile, begin, skip, P, squares, Q, others, symmetric):
    """The same for products of sparse rows from ``begin`` and ``skip`` on, without factors.

    Rows are starts, sorted columns and values.  Only the part of a symmetric tile from the diagonal on
    is defined.
    """
    (starts, columns, values), (their_starts, their_columns, their_values) = P, Q
    for i in range(tile.shape[0]):
        for j in range(max(begin + i - skip, 0) if symmetric else 0, tile.shape[1]):
            total = squares[begin + i] + others[skip + j]
            square = total - 2.0 * tile[i, j]
            if not _CLOSE * total <= square < np.inf:
                square = 0.0
                here, end = starts[begin + i], starts[begin + i + 1]
                there, their_end = their_starts[skip + j], their_starts[skip + j + 1]
                while here < end or there < their_end:
                    mine = here < end and (there == their_end or columns[here] <= their_columns[there])
                    theirs = there < their_end and (here == end or their_columns[there] <= columns[here])
                    x = values[here] if mine else 0.0
                    y = their_values[there] if theirs else 0.0
                    square += (x - y) ** 2
                    here += mine
                    there += theirs
            tile[i, j] = square


@jit(fastmath={"contract"})
def _with_squares(total, p, x):
    a, b, c, d = p[0] - x[0], p[1] - x[1], p[2] - x[2], p[3] - x[3]
    return (((total + a * a) + b * b) + c * c) + d * d
