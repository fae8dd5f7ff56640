"""Loops from tiles of invariants to values of a profile, and over tiles of values.

A tile is given as one line of memory and the distance between its rows: the compiler then knows that
rows are contiguous, and elements are computed side by side.  The values may replace the invariants.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from mercer.compiled.jit import jit

#: Rows and columns of a square that is transposed at once.
_SQUARE = 8
#: Steps of Horner's scheme in one loop: more would not be unrolled.
_STEPS = 8
#: ``exp(r)`` as a polynomial where ``|r| <= log(2) / 2``, highest degree first, to 2e-17 and to 1e-8.
_EXP = (
    2.5100424157005067e-08, 2.7620138719733994e-07, 2.7557268378684192e-06, 2.480152119021773e-05,
    0.00019841269863105968, 0.0013888888917281794, 0.008333333333330051, 0.04166666666662399,
    0.16666666666666669, 0.5000000000000001, 1.0, 1.0,
)  # fmt: skip
_SINGLE_EXP = (
    0.0013926213466332444, 0.008363202971575855, 0.04166655443768594, 0.16666576845993977, 0.5, 1.0, 1.0,
)  # fmt: skip


@cache
def table_loop(separation, logarithmic, single):
    """Compile the loop for a table.

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
    def loop(tile, step, out, stride, rows, columns, table, shift, origin, pieces, floor):
        for i in range(rows):
            line = tile[i * step : i * step + columns]
            values = out[i * stride : i * stride + columns]
            for j in range(columns):
                w = line[j]
                u = one - abs(w) if folded else one - w if inverted else w
                u = real(max(u, zero))
                piece = (u.view(whole) >> shift) - origin
                piece = min(max(piece, whole(0)), pieces - whole(1))
                if folded:
                    piece += (real(w).view(whole) >> sign_bit) & pieces
                c = table[np.uint32(piece)]
                x = u - c[0]
                if single:
                    y = ((c[4] * x + c[3]) * x + c[2]) * x + c[1]
                else:
                    y = (((((c[7] * x + c[6]) * x + c[5]) * x + c[4]) * x + c[3]) * x + c[2]) * x
                    y += c[1]
                values[j] = max(real(math.exp(y)) if logarithmic else y, floor)

    return loop


def _exponential(single):
    """Compile the exponential function, without calls: elements are computed side by side.

    ``exp(y) = 2^k exp(r)`` where ``y = k log(2) + r``.  Adding a large number rounds ``y / log(2)`` to
    the whole number k, whose bits are then the last ones.  What would underflow is zero.
    """
    real, whole = (np.float32, np.int32) if single else (np.float64, np.int64)
    mantissa = 23 if single else 52
    large = real(1.5 * 2.0**mantissa)
    inverse = real(1.0 / math.log(2.0))
    upper = real(0.693359375 if single else 6.93147180369123816490e-01)
    lower = real(math.log(2.0) - 0.693359375 if single else 1.90821492927058770002e-10)
    least, most = (real(-87.0), real(88.0)) if single else (real(-708.0), real(709.0))
    infinity, zero = real(np.inf), real(0.0)
    coefficients = tuple(map(real, _SINGLE_EXP if single else _EXP))
    degree = len(coefficients) - 1
    first = min(degree, _STEPS)

    @jit(fastmath={"contract"})
    def exp(y):
        rounded = real(y * inverse + large)
        k = rounded - large
        r = (y - k * upper) - k * lower
        p = coefficients[0]
        for i in range(first):
            p = p * r + coefficients[1 + i]
        for i in range(first, degree):
            p = p * r + coefficients[1 + i]
        mantissas = real(p)
        raised = whole(mantissas.view(whole) + (rounded.view(whole) << mantissa))
        value = raised.view(real)
        return zero if y < least else infinity if y > most else value

    return exp


_double_exp, _single_exp = _exponential(single=False), _exponential(single=True)


@cache
def polynomial_loop(degree, root, exponential, separation, single, products=False):
    """Compile the loop for a polynomial, of a degree that is a constant to the compiler.

    Equal points get their exact value.  ``line`` takes the argument to that of the polynomial, ``least``
    is the least of those, and no value is below ``floor``: None for what does nothing.

    With ``products`` the invariants are those of rows ``left`` and columns ``right`` from ``begin`` on,
    a few at a time, which the tile has room for and which never leave the nearest cache.  Else they are
    those of the tile.

    Other compiled functions are names of this module: a loop that held one in a variable of its own
    would never be found on disk again.
    """
    real = np.float32 if single else np.float64
    inverted = separation != "invariant"
    one, zero = real(1.0), real(0.0)
    # Even and odd powers apart: half as many steps have to wait for one another.
    half = degree // 2
    first = min(half, _STEPS)

    @jit(fastmath={"contract"})
    def loop(
        tile, step, out, stride, rows, columns, coefficients, line, least, own, floor,
        left=None, right=None, begin=0,
    ):  # fmt: skip
        height, width = (4, step) if products else (max(rows, 1), max(columns, 1))
        for start in range(0, columns, width):
            wide = min(width, columns - start)
            for top in range(0, rows, height):
                many = min(height, rows - top)
                if products:
                    multiply(tile, step, left[top : top + many], right, begin + start, wide)
                for i in range(many):
                    invariants = tile[i * step : i * step + wide]
                    values = out[(top + i) * stride + start :][:wide]
                    for j in range(wide):
                        w = invariants[j]
                        u = one - w if inverted else w
                        x = real(math.sqrt(max(u, zero))) if root else w
                        if line is not None:
                            x = x * line[0] + line[1]
                        if least is not None:
                            # NaN stays what it is.
                            x = least if x < least else x
                            x = one if x > one else x
                        z = x * x
                        y = coefficients[degree]
                        if degree:
                            odd = coefficients[degree - 1]
                            for k in range(1, first):
                                y = y * z + coefficients[degree - 2 * k]
                                odd = odd * z + coefficients[degree - 2 * k - 1]
                            for k in range(first, half):
                                y = y * z + coefficients[degree - 2 * k]
                                odd = odd * z + coefficients[degree - 2 * k - 1]
                            y = odd * x + (y * z + coefficients[0])
                        if exponential:
                            y = _single_exp(y) if single else _double_exp(y)
                        if floor is not None:
                            y = floor if y < floor else y
                        values[j] = own if u <= zero else y

    return loop


@jit(fastmath={"contract"})
def multiply(tile, step, rows, columns, start, width):
    """Products of at most four rows with some columns, from ``start`` on.

    Coordinates are a multiple of four.  Four rows, of fewer the last one again, advance by four
    coordinates at a time, which stay in registers.  The tile is one line of memory.
    """
    a, b, c, d = tile[:width], tile[step:][:width], tile[2 * step :][:width], tile[3 * step :][:width]
    last = len(rows) - 1
    for k in range(0, rows.shape[1], 4):
        p, q = coordinates(rows[0], k), coordinates(rows[min(1, last)], k)
        r, s = coordinates(rows[min(2, last)], k), coordinates(rows[last], k)
        first, second = columns[k][start:], columns[k + 1][start:]
        third, fourth = columns[k + 2][start:], columns[k + 3][start:]
        if k == 0:
            for j in range(width):
                x = first[j], second[j], third[j], fourth[j]
                a[j], b[j], c[j], d[j] = _dot(p, x), _dot(q, x), _dot(r, x), _dot(s, x)
        else:
            for j in range(width):
                x = first[j], second[j], third[j], fourth[j]
                a[j] = _with_products(a[j], p, x)
                b[j] = _with_products(b[j], q, x)
                c[j] = _with_products(c[j], r, x)
                d[j] = _with_products(d[j], s, x)


@jit()
def coordinates(point, k):
    """Four coordinates of a point, from k on."""
    return point[k], point[k + 1], point[k + 2], point[k + 3]


@jit(fastmath={"contract"})
def _dot(p, x):
    return ((p[0] * x[0] + p[1] * x[1]) + p[2] * x[2]) + p[3] * x[3]


@jit(fastmath={"contract"})
def _with_products(total, p, x):
    return (((total + p[0] * x[0]) + p[1] * x[1]) + p[2] * x[2]) + p[3] * x[3]


@jit()
def mirror(matrix, top, bottom, left, right):
    """Copy what lies above the diagonal in a block of a symmetric matrix to below it.

    It copies small squares, both images of which fit into the nearest cache.
    """
    for i in range(top, bottom, _SQUARE):
        for j in range(left, right, _SQUARE):
            if i + _SQUARE <= min(bottom, j) and j + _SQUARE <= right:
                for b in range(_SQUARE):
                    for a in range(_SQUARE):
                        matrix[j + b, i + a] = matrix[i + a, j + b]
            else:
                for b in range(j, min(j + _SQUARE, right)):
                    for a in range(i, min(i + _SQUARE, bottom, b)):
                        matrix[b, a] = matrix[a, b]


@jit()
def scale(tile, step, rows, columns, left, right):
    """Multiply rows and columns of a tile by factors, in one pass.

    The tile is one line of memory.
    """
    for i in range(rows):
        line = tile[i * step : i * step + columns]
        for j in range(columns):
            line[j] = line[j] * left[i] * right[j]
