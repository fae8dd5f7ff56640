"""Loops over whole rows: their extent and length, keys of rows, and values of equal pairs."""

from __future__ import annotations

import math

import numpy as np

from mercer.compiled.jit import jit

_HALF = np.uint64(32)
_SHIFT = np.uint64(29)
_ODD = np.uint64(0x9E3779B97F4A7C15)
_OTHER = np.uint64(0xBF58476D1CE4E5B9)


@jit()
def extent(bits, mask):
    """Whether a number has a sign, the least of the rows' largest magnitudes, and the largest of all.

    Numbers come as whole ones: floats without sign are ordered as their bits, and NaN comes last.
    ``mask`` leaves out the sign.
    """
    zero = mask ^ mask
    signs, flattest, largest = zero, mask, zero
    for i in range(bits.shape[0]):
        top = zero
        for j in range(bits.shape[1]):
            top = max(top, bits[i, j] & mask)
            signs |= bits[i, j]
        flattest, largest = min(flattest, top), max(largest, top)
    return signs < zero, flattest, largest


@jit(fastmath={"reassoc", "contract"})
def divide_by_lengths(X, least, most, out, usual):
    """Write rows divided by their lengths, and whether the squares of these are inside the limits."""
    for i in range(X.shape[0]):
        square = 0.0
        for j in range(X.shape[1]):
            x = np.float64(X[i, j])
            square += x * x
        usual[i] = least < square < most
        length = X.dtype.type(math.sqrt(square)) if usual[i] else X.dtype.type(1.0)
        for j in range(X.shape[1]):
            out[i, j] = X[i, j] / length


@jit()
def places_above(tile, least, sign):
    """Rows and columns of the numbers that, times a sign, are at least as large as a limit."""
    counts = np.empty(tile.shape[0], dtype=np.int64)
    for i in range(tile.shape[0]):
        count = 0
        for j in range(tile.shape[1]):
            count += sign * tile[i, j] >= least
        counts[i] = count
    rows, columns = np.empty(counts.sum(), dtype=np.int64), np.empty(counts.sum(), dtype=np.int64)
    k = 0
    for i in range(tile.shape[0]):
        if counts[i]:
            for j in range(tile.shape[1]):
                if sign * tile[i, j] >= least:
                    rows[k], columns[k] = i, j
                    k += 1
    return rows, columns


@jit(fastmath={"reassoc", "contract"})
def halved_squares(X, Y, i, j, sign, out):
    """Write ``|X[i] - sign * Y[j]|^2 / 2`` for pairs of rows."""
    for k in range(out.size):
        x, y = X[i[k]], Y[j[k]]
        total = 0.0
        for c in range(x.size):
            difference = np.float64(x[c]) - sign * np.float64(y[c])
            total += difference * difference
        out[k] = 0.5 * total


@jit()
def _weight(column):
    """Odd number that looks random, one for each column."""
    z = np.uint64(column + 1) * _ODD
    z = (z ^ (z >> _HALF)) * _OTHER
    return (z ^ (z >> _SHIFT)) | np.uint64(1)


@jit()
def _bits(x):
    """Bits of a number, all of them mixed; zero for zeros of both signs."""
    z = np.float64(np.float64(x) + 0.0).view(np.uint64)
    # Round numbers have their bits at the upper end: they are brought down before and after.
    z = (z ^ (z >> _HALF)) * _OTHER
    return z ^ (z >> _HALF)


@jit()
def dense_keys(X, keys):
    """Write a key for each row, the sum of its numbers' bits times weights of the columns."""
    weights = np.empty(X.shape[1], dtype=np.uint64)
    for j in range(weights.size):
        weights[j] = _weight(j)
    for i in range(X.shape[0]):
        key = np.uint64(0)
        for j in range(weights.size):
            key += _bits(X[i, j]) * weights[j]
        keys[i] = key


@jit()
def magnitude_keys(X, step, keys):
    """The same keys of the magnitudes in every ``step``-th column, numbered anew."""
    weights = np.empty((X.shape[1] + step - 1) // step, dtype=np.uint64)
    for j in range(weights.size):
        weights[j] = _weight(j)
    for i in range(X.shape[0]):
        key = np.uint64(0)
        for j in range(weights.size):
            key += _bits(abs(X[i, j * step])) * weights[j]
        keys[i] = key


@jit()
def sparse_keys(indptr, indices, data, keys):
    """The same keys for the rows of a CSR matrix; zeros add nothing, stored or not."""
    for i in range(keys.size):
        key = np.uint64(0)
        for p in range(indptr[i], indptr[i + 1]):
            key += _bits(data[p]) * _weight(indices[p])
        keys[i] = key


@jit()
def write_equal(begin, skip, starts, stops, columns, value, out):
    """Write a value where row ``begin + i`` and column ``skip + j`` are equal.

    Columns equal to row i are ``columns[starts[i]:stops[i]]``, ascending.
    """
    for i in range(out.shape[0]):
        start, stop = starts[begin + i], stops[begin + i]
        if start == stop:
            continue
        start += np.searchsorted(columns[start:stop], skip)
        for k in range(start, stop):
            j = columns[k] - skip
            if j >= out.shape[1]:
                break
            out[i, j] = value
