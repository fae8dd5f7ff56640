"""Triton kernels that prepare every row before a product.

The number of rows is not specialised: one kernel serves all.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _block(X, rows, start, m, N: tl.constexpr, BLOCK: tl.constexpr):
    """Some columns of rows, with their places in memory and which of them there are."""
    k = start + tl.arange(0, BLOCK)
    place = rows[:, None].to(tl.int64) * N + k[None, :]
    inside = (rows[:, None] < m) & (k[None, :] < N)
    return tl.load(X + place, mask=inside, other=0.0), place, inside


@triton.jit(do_not_specialize=["m"])
def extent_kernel(
    X, OUT, m, N: tl.constexpr, MASK: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """Maxima of what :class:`Extent` is made of, as whole numbers: floats are ordered as their bits."""
    whole: tl.constexpr = OUT.dtype.element_ty
    largest = tl.zeros((ROWS,), dtype=whole)
    flattest = tl.zeros((ROWS,), dtype=whole)
    negative = tl.zeros((ROWS,), dtype=whole)
    first = tl.program_id(0) * ROWS
    while first < m:
        rows = first + tl.arange(0, ROWS)
        top = tl.zeros((ROWS,), dtype=whole)
        for start in range(0, N, BLOCK):
            x, _, _ = _block(X, rows, start, m, N, BLOCK)
            top = tl.maximum(top, tl.max(x.to(whole, bitcast=True) & MASK, axis=1))
            negative = tl.maximum(negative, tl.max((x < 0.0).to(whole), axis=1))
        largest = tl.maximum(largest, top)
        flattest = tl.maximum(flattest, tl.where(rows < m, MASK - top, 0))
        first += tl.num_programs(0) * ROWS
    tl.atomic_max(OUT, tl.max(largest, axis=0), sem="relaxed")
    tl.atomic_max(OUT + 1, tl.max(flattest, axis=0), sem="relaxed")
    tl.atomic_max(OUT + 2, tl.max(negative, axis=0), sem="relaxed")


@triton.jit
def _exponents(x):
    """The bits of the largest power of two that is in a number of each row."""
    return tl.max(x.to(tl.int64, bitcast=True) & 0x7FF0000000000000, axis=1)


@triton.jit
def _inverse_power(top):
    """One by such a power, within the range of normal numbers."""
    top = tl.minimum(tl.maximum(top, 0x0010000000000000), 0x7FD0000000000000)
    return (0x7FE0000000000000 - top).to(tl.float64, bitcast=True)


@triton.jit
def _summed(x, inverse, SHARES: tl.constexpr):
    x = x.to(tl.float64) * inverse[:, None]
    return tl.sum(x if SHARES else x * x, axis=1)


@triton.jit
def _divided(x, inverse, total, SHARES: tl.constexpr):
    total = tl.where(total > 0.0, total if SHARES else tl.sqrt(total), 1.0)
    x = x.to(tl.float64) * inverse[:, None] / total[:, None]
    return tl.sqrt(x) if SHARES else x


@triton.jit(do_not_specialize=["m"])
def unit_kernel(
    X, OUT, m, N: tl.constexpr, SHARES: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """Rows divided by their lengths, or square roots of rows divided by their sums.

    Sums are in double precision.  There a power of two near the largest entry is divided out first, so
    that no square leaves the floating-point range.
    """
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inverse = tl.full((ROWS,), 1.0, dtype=tl.float64)
    if N <= BLOCK:  # rows are read once
        x, place, inside = _block(X, rows, 0, m, N, BLOCK)
        if x.dtype == tl.float64:
            inverse = _inverse_power(_exponents(x))
        unit = _divided(x, inverse, _summed(x, inverse, SHARES), SHARES)
        tl.store(OUT + place, unit.to(x.dtype), mask=inside)
    else:
        if X.dtype.element_ty == tl.float64:
            top = tl.zeros((ROWS,), dtype=tl.int64)
            for start in range(0, N, BLOCK):
                x, _, _ = _block(X, rows, start, m, N, BLOCK)
                top = tl.maximum(top, _exponents(x))
            inverse = _inverse_power(top)
        total = tl.zeros((ROWS,), dtype=tl.float64)
        for start in range(0, N, BLOCK):
            x, _, _ = _block(X, rows, start, m, N, BLOCK)
            total += _summed(x, inverse, SHARES)
        for start in range(0, N, BLOCK):
            x, place, inside = _block(X, rows, start, m, N, BLOCK)
            unit = _divided(x, inverse, total, SHARES)
            tl.store(OUT + place, unit.to(x.dtype), mask=inside)


@triton.jit(do_not_specialize=["m"])
def planes_kernel(
    X, OUT, m, row_step, column_step, plane, N: tl.constexpr, K: tl.constexpr, SPLIT: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Rows with zeros added up to K columns, as two planes if ``SPLIT``; see :func:`planes`."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (rows[:, None] < m) & (k[None, :] < N)
    at = rows[:, None].to(tl.int64)
    x = tl.load(X + at * row_step + k[None, :].to(tl.int64) * column_step, mask=inside, other=0.0)
    place, within = OUT + at * K + k[None, :], (k[None, :] < K) & (at * K < plane)
    if SPLIT:
        if OUT.dtype.element_ty == tl.float16:
            head = x.to(tl.float16)
            rest = ((x - head.to(tl.float32)) * 2048.0).to(tl.float16)
        else:
            head = (x.to(tl.int32, bitcast=True) & ~0x1FFF).to(tl.float32, bitcast=True)
            rest = x - head
        tl.store(place, head, mask=within)
        tl.store(place + plane, rest, mask=within)
    else:
        tl.store(place, x, mask=within)


@triton.jit(do_not_specialize=["m"])
def keys_kernel(
    X, WEIGHTS, NUMBERS, TABLE, m, size, N: tl.constexpr, INSERT: tl.constexpr, NOTE: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Keys of rows, put into a table of ``size`` places, a power of two, or looked up there.

    The number of a row is the place of its key, -1 where it was not found.  ``NOTE`` writes a one behind
    the table if a key was there before.  Zero stands for an empty place.
    """
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    whole: tl.constexpr = tl.int32 if X.dtype.element_ty == tl.float32 else tl.int64
    key = tl.zeros((ROWS,), dtype=tl.int64)
    for start in range(0, N, BLOCK):
        k = start + tl.arange(0, BLOCK)
        x, _, _ = _block(X, rows, start, m, N, BLOCK)
        x = tl.where(x == 0.0, 0.0, x)  # no minus zero
        bits = x.to(whole, bitcast=True).to(tl.int64)
        bits = (bits ^ (bits >> 32)) * 0x3F58476D1CE4E5B9
        bits = bits ^ (bits >> 32)
        weights = tl.load(WEIGHTS + k, mask=k < N, other=0)
        key += tl.sum(bits * weights[None, :], axis=1)
    key = tl.where(key == 0, 1, key)
    place = (key ^ (key >> 29)) & (size - 1)
    pending = rows < m
    found = rows < 0
    number = tl.full((ROWS,), -1, dtype=tl.int32)
    while tl.max(pending.to(tl.int32)) > 0:
        if INSERT:
            # Lanes that are done write zero over zero, each at a place of its own: one for all of them
            # would be written one after the other.
            there = tl.atomic_cas(
                TABLE + place, tl.zeros_like(key), tl.where(pending, key, 0), sem="relaxed"
            )
        else:
            there = tl.load(TABLE + place, mask=pending, other=0)
        found = found | (pending & (there == key))
        there = tl.where(there == 0, key, there) if INSERT else there
        number = tl.where(pending & (there == key), place.to(tl.int32), number)
        pending = pending & (there != key) & (there != 0)
        place = (place + 1) & (size - 1)
    tl.store(NUMBERS + rows, number, mask=rows < m)
    if NOTE:
        tl.atomic_max(TABLE + size, tl.max(found.to(tl.int64), axis=0), sem="relaxed")
