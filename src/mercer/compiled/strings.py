"""Loops of string kernels: suffix automata, subsequences with gaps, aligned substrings."""

from __future__ import annotations

import numpy as np

from mercer.compiled.jit import jit

#: Multiplier of Fibonacci hashing, 2^64 divided by the golden ratio.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@jit(inline="always")
def _place(keys, state, symbol, symbols):
    """Position of the transition from a state by a symbol, or where it would be inserted.

    Without keys every state has a row of transitions; with keys they are in a hash table with open
    addressing, whose size is a power of two.
    """
    key = np.int64(state) * symbols + symbol
    if keys.size == 0:
        return key
    mask = keys.size - 1
    slot = np.int64((np.uint64(key) * _GOLDEN) >> np.uint64(24)) & mask
    while keys[slot] != key and keys[slot] != -1:
        slot = (slot + 1) & mask
    return slot


@jit()
def _automaton(text, symbols, hashed):
    """Suffix automaton of a text, in linear time and space.

    Returns for each state the longest string that leads to it, its suffix link, the number of
    places where its strings end, and the table of transitions.
    """
    n = text.size
    states = 2 * n
    length = np.empty(states, np.int32)
    link = np.empty(states, np.int32)
    ends = np.zeros(states)
    slots = states * symbols
    edges = 0
    if hashed:
        edges = 3 * n
        slots = 8
        while slots < 2 * edges:
            slots *= 2
    targets = np.full(slots, -1, np.int32)
    keys = np.full(slots if hashed else 0, -1, np.int64)
    # Transitions of a state as a linked list, for clones to copy from the hash table.
    first = np.full(states if hashed else 0, -1, np.int32)
    following = np.empty(edges, np.int32)
    by = np.empty(edges, np.int32)
    used = 0
    length[0] = 0
    link[0] = -1
    size = 1
    last = 0
    for i in range(n):
        c = text[i]
        current = size
        size += 1
        length[current] = length[last] + 1
        ends[current] = 1.0
        p = last
        while p != -1:
            place = _place(keys, p, c, symbols)
            if targets[place] != -1:
                break
            targets[place] = current
            if hashed:
                keys[place] = np.int64(p) * symbols + c
                by[used] = c
                following[used] = first[p]
                first[p] = used
                used += 1
            p = link[p]
        if p == -1:
            link[current] = 0
        else:
            q = targets[_place(keys, p, c, symbols)]
            if length[p] + 1 == length[q]:
                link[current] = q
            else:
                clone = size
                size += 1
                length[clone] = length[p] + 1
                link[clone] = link[q]
                if hashed:
                    edge = first[q]
                    while edge != -1:
                        d = by[edge]
                        place = _place(keys, clone, d, symbols)
                        keys[place] = np.int64(clone) * symbols + d
                        targets[place] = targets[_place(keys, q, d, symbols)]
                        by[used] = d
                        following[used] = first[clone]
                        first[clone] = used
                        used += 1
                        edge = following[edge]
                else:
                    for d in range(symbols):
                        targets[clone * symbols + d] = targets[q * symbols + d]
                while p != -1:
                    place = _place(keys, p, c, symbols)
                    if targets[place] != q:
                        break
                    targets[place] = clone
                    p = link[p]
                link[q] = clone
                link[current] = clone
        last = current
    return length[:size], link[:size], ends[:size], keys, targets


@jit()
def _by_length(length, n):
    """States in the order of their lengths, by counting."""
    start = np.zeros(n + 2, np.int64)
    for v in range(length.size):
        start[length[v] + 1] += 1
    for k in range(n + 1):
        start[k + 1] += start[k]
    order = np.empty(length.size, np.int32)
    for v in range(length.size):
        order[start[length[v]]] = v
        start[length[v]] += 1
    return order


@jit()
def common_substrings(text, symbols, hashed, weights, codes, offsets, others, out):
    """Weighted numbers of common substrings of a text with other strings, and with itself.

    ``weights[k]`` is the sum of the weights of the lengths 1 to k.  The others are indices of strings in
    ``codes`` and ``offsets``; ``out`` takes one value for each of them.  Returns the value of the text
    with itself.
    """
    length, link, ends, keys, targets = _automaton(text, symbols, hashed)
    order = _by_length(length, text.size)
    for k in range(order.size - 1, 0, -1):
        ends[link[order[k]]] += ends[order[k]]
    # A match of length l that ends in state v has the suffixes of v with more than link[v] symbols,
    # each found ends[v] times, and those of all links of v: base[v] + ends[v] * weights[l] in all.
    base = np.zeros(length.size)
    total = np.zeros(length.size)
    own = 0.0
    for k in range(1, order.size):
        v = order[k]
        up = link[v]
        share = ends[v] * (weights[length[v]] - weights[length[up]])
        base[v] = total[up] - ends[v] * weights[length[up]]
        total[v] = total[up] + share
        own += ends[v] * share
    for k in range(others.size):
        value = 0.0
        v = 0
        matched = 0
        for i in range(offsets[others[k]], offsets[others[k] + 1]):
            c = codes[i]
            w = targets[_place(keys, v, c, symbols)]
            while w == -1 and v != 0:
                v = link[v]
                matched = length[v]
                w = targets[_place(keys, v, c, symbols)]
            if w != -1:
                v = w
                matched += 1
                value += base[v] + ends[v] * weights[matched]
        out[k] = value
    return own


@jit(fastmath={"contract"})
def gappy_sums(codes, offsets, texts, others, length, decay, values):
    """Common subsequences of texts with a pack of other strings, each weighted by decay ** gaps.

    ``texts`` are indices of strings in ``codes`` and ``offsets``; ``others`` has a column for each of
    the other strings, padded with -1; ``values`` takes a row of sums for each text.  The strings of a
    pack are processed together, by vector operations.
    """
    width, lanes = others.shape
    # tails[k, j]: subsequences of k symbols in the text so far and in the first j symbols of the
    # other string, with the gaps that follow each of their symbols up to both ends.
    tails = np.empty((length, width + 1, lanes))
    run = np.empty(lanes)
    for number in range(texts.size):
        tails[0] = 1.0
        tails[1:] = 0.0
        sums = values[number]
        sums[:] = 0.0
        for i in range(offsets[texts[number]], offsets[texts[number] + 1]):
            x = codes[i]
            for j in range(width):
                for lane in range(lanes):
                    sums[lane] += tails[length - 1, j, lane] if others[j, lane] == x else 0.0
            for k in range(length - 1, 0, -1):
                run[:] = 0.0
                for j in range(width):
                    for lane in range(lanes):
                        hit = tails[k - 1, j, lane] if others[j, lane] == x else 0.0
                        run[lane] = decay * run[lane] + hit
                        tails[k, j + 1, lane] = decay * tails[k, j + 1, lane] + run[lane]


@jit(fastmath={"contract"})
def gappy_slopes(codes, offsets, texts, others, length, decay, values, slopes):
    """Like :func:`gappy_sums`, with derivatives of the sums in the logarithm of the decay."""
    width, lanes = others.shape
    tails = np.empty((length, width + 1, lanes))
    tilts = np.empty((length, width + 1, lanes))
    run = np.empty(lanes)
    tilt = np.empty(lanes)
    for number in range(texts.size):
        tails[0] = 1.0
        tails[1:] = 0.0
        tilts[:] = 0.0
        sums, rises = values[number], slopes[number]
        sums[:] = 0.0
        rises[:] = 0.0
        for i in range(offsets[texts[number]], offsets[texts[number] + 1]):
            x = codes[i]
            for j in range(width):
                for lane in range(lanes):
                    same = others[j, lane] == x
                    sums[lane] += tails[length - 1, j, lane] if same else 0.0
                    rises[lane] += tilts[length - 1, j, lane] if same else 0.0
            for k in range(length - 1, 0, -1):
                run[:] = 0.0
                tilt[:] = 0.0
                for j in range(width):
                    for lane in range(lanes):
                        same = others[j, lane] == x
                        hit = tails[k - 1, j, lane] if same else 0.0
                        rise = tilts[k - 1, j, lane] if same else 0.0
                        tilt[lane] = decay * (tilt[lane] + run[lane]) + rise
                        run[lane] = decay * run[lane] + hit
                        before = tilts[k, j + 1, lane] + tails[k, j + 1, lane]
                        tilts[k, j + 1, lane] = decay * before + tilt[lane]
                        tails[k, j + 1, lane] = decay * tails[k, j + 1, lane] + run[lane]


@jit()
def aligned_substrings(texts, others, degree, symmetric, first, run, tile):
    """Twice the weighted numbers of substrings that two strings share in place, for a tile of rows.

    Length d weighs ``degree - d + 1``; degree has the type of the tile.  The tile begins at row
    ``first`` of the texts; ``others`` has a column for each of the other strings.  Only the part of a
    symmetric result on or right of the diagonal is written.
    """
    full = 2 * degree + 1
    for i in range(tile.shape[0]):
        # Slices begin where the loop does: it has the indices 0, 1, ... and can be vectorised.
        skip = first + i if symmetric else 0
        line, matches = tile[i, skip:], run[skip:]
        line[:] = 0
        matches[:] = 0
        for position in range(others.shape[0]):
            x = texts[first + i, position]
            column = others[position, skip:]
            for j in range(column.size):
                # As many substrings end here as the run of matches is long, up to the degree.
                matches[j] = matches[j] + 1 if column[j] == x else 0
                r = min(matches[j], degree)
                line[j] += r * (full - r)
