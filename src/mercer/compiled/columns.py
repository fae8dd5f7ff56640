"""Columns of matrices: renumbered without sorting, and copied range by range."""

from __future__ import annotations

import numpy as np

from mercer.compiled.jit import jit

_ODD = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_LEAST = 4096


@jit()
def number_columns(indices, places):
    """Number the indices in use in order of appearance; return how many there are.

    A hash table with linear probing, which doubles before it is half full.  Its size follows the
    number of columns in use, so it stays in cache if they are few.
    """
    keys = np.full(_LEAST, -1, dtype=np.int64)
    numbers = np.empty(_LEAST, dtype=np.int64)
    used = 0
    for p in range(indices.size):
        slot = _slot(keys, indices[p])
        if keys[slot] < 0:
            keys[slot], numbers[slot] = indices[p], used
            used += 1
        places[p] = numbers[slot]
        if 2 * used > keys.size:
            keys, numbers = _doubled(keys, numbers)
    return used


@jit()
def _slot(keys, index):
    """Where an index is, or can be put."""
    mixed = np.uint64(index) * _ODD
    last = keys.size - 1
    slot = np.int64(mixed >> _HALF) & last
    while keys[slot] >= 0 and keys[slot] != index:
        slot = (slot + 1) & last
    return slot


@jit()
def _doubled(keys, numbers):
    """The same table with twice the room."""
    more = np.full(2 * keys.size, -1, dtype=np.int64)
    moved = np.empty(2 * keys.size, dtype=np.int64)
    for old in range(keys.size):
        if keys[old] >= 0:
            slot = _slot(more, keys[old])
            more[slot], moved[slot] = keys[old], numbers[old]
    return more, moved


#: Columns are copied range by range if ranges have at least this many, otherwise one by one.
_RANGE = 8


@jit()
def find_ranges(columns, ranges):
    """Write where ranges of successive columns end, after their number; 0 if they are too short."""
    n = columns.size
    ranges[0] = 0
    for j in range(1, n + 1):
        if j == n or columns[j] != columns[j - 1] + 1:
            if (ranges[0] + 1) * _RANGE > n + _RANGE:
                ranges[0] = 0
                return
            ranges[0] += 1
            ranges[ranges[0]] = j


@jit()
def room_for_ranges(n):
    """Size of the array that :func:`find_ranges` writes to."""
    return n // _RANGE + 3


@jit()
def gather(row, columns, ranges, out):
    """Copy some columns of a row, each range at once."""
    start = 0
    for r in range(1, ranges[0] + 1):
        size = ranges[r] - start
        part, to = row[columns[start] : columns[start] + size], out[start : start + size]
        for j in range(size):
            to[j] = part[j]
        start = ranges[r]
    for j in range(start, columns.size):
        out[j] = row[columns[j]]


@jit()
def take_columns(K, columns, out):
    """Write some columns of each row of K, in the precision of the result."""
    for i in range(len(K)):
        row, to = K[i], out[i]
        for j in range(columns.size):
            to[j] = row[columns[j]]
