"""k-means in feature space, on a Gram matrix that all runs share."""

from __future__ import annotations

import numpy as np

from mercer.compiled.jit import jit

#: Squared distances below this, relative to the size of the points, are rounding errors.
_ROUNDING = 1e-12
#: Rows whose distances to a centre differ by less are tied.
_TIED = 1e-9


@jit()
def seed_centres(K, uniforms, rounding):
    """Initial centres (k-means++): each the best of some rows that are drawn by squared distance.

    A row is drawn with probability proportional to its squared distance to the nearest centre; the
    best leaves the smallest sum of distances.  ``uniforms`` holds numbers in [0, 1), a row of draws
    for each centre.  Fewer centres are returned if there are fewer different points, whose squared
    distances are above ``rounding``.
    """
    m, (k, draws) = K.shape[0], uniforms.shape
    centres = np.empty(k, dtype=np.int64)
    gaps, trial, least = np.full(m, np.inf), np.empty(m), np.empty(m)
    for c in range(k):
        total = 0.0 if c == 0 else gaps.sum()
        if c > 0 and total == 0.0:
            return centres[:c]
        smallest = np.inf
        for draw in range(draws if c > 0 else 1):
            pick = int(uniforms[c, draw] * m) if c == 0 else _draw(gaps, uniforms[c, draw] * total)
            potential = _gaps_after(K, gaps, pick, rounding, trial)
            if potential < smallest:
                smallest = potential
                centres[c] = pick
                least, trial = trial, least
        gaps, least = least, gaps
    return centres


@jit()
def _draw(gaps, target):
    """The row at which the running sum of gaps passes the target."""
    running, pick = 0.0, -1
    for i in range(gaps.size):
        if gaps[i] > 0.0:
            running += gaps[i]
            pick = i
            if running > target:
                break
    return pick


@jit()
def _gaps_after(K, gaps, pick, rounding, out):
    """Squared distances to the nearest centre if a row becomes one; returns their sum."""
    total = 0.0
    for i in range(gaps.size):
        size = K[i, i] + K[pick, pick]
        gap = size - 2.0 * K[pick, i]
        if gap <= max(_ROUNDING * size, rounding):
            gap = 0.0
        out[i] = min(gaps[i], gap)
        total += out[i]
    return total


@jit()
def cluster(K, centres, max_iter):
    """Lloyd's iteration; returns the cluster of each row, sums of K over clusters and their sizes.

    ``sums[c, i]`` is the sum of ``K[i, j]`` over the rows j of cluster c.  After the first pass only
    rows that move are added and taken away, at the cost of one row of K each.
    """
    m, k = K.shape[0], centres.size
    labels = np.empty(m, dtype=np.int64)
    sizes = np.zeros(k, dtype=np.int64)
    sums = np.zeros((k, m))
    best = np.full(m, np.inf)
    for c in range(k):
        row, own = K[centres[c]], K[centres[c], centres[c]]
        for i in range(m):
            value = own - 2.0 * row[i]
            if value < best[i]:
                best[i] = value
                labels[i] = c
    for c in range(k):  # equal points share a centre, but every centre keeps its own row
        labels[centres[c]] = c
    for i in range(m):
        sizes[labels[i]] += 1
        sums[labels[i]] += K[i]
    for _ in range(max_iter):
        if not _pass(K, labels, sizes, sums, best):
            break
    return labels, sums, sizes


@jit()
def _pass(K, labels, sizes, sums, best):
    """Move every row to its nearest centre; tell whether any moved."""
    m, k = K.shape[0], sizes.size
    squares = _squares(labels, sums, sizes)
    target = labels.copy()
    for i in range(m):
        c = labels[i]
        own = squares[c] - 2.0 * sums[c, i] / sizes[c]
        best[i] = own - _ROUNDING * (abs(K[i, i]) + abs(own))  # tied rows stay where they are
    for c in range(k):
        if sizes[c] == 0:
            continue
        factor = 2.0 / sizes[c]
        for i in range(m):
            value = squares[c] - factor * sums[c, i]
            if value < best[i]:
                best[i] = value
                target[i] = c
    moved = False
    for i in range(m):
        if target[i] != labels[i]:
            _move(K, labels, sizes, sums, i, target[i])
            moved = True
    for c in range(k):
        if sizes[c] == 0:
            # An empty cluster takes the row that is farthest from its centre.
            far, where = 0.0, -1
            for i in range(m):
                gap = best[i] + K[i, i]
                if sizes[labels[i]] > 1 and gap > far:
                    far, where = gap, i
            if where >= 0:
                _move(K, labels, sizes, sums, where, c)
                best[where] = -K[where, where]
                moved = True
    return moved


@jit()
def _move(K, labels, sizes, sums, i, c):
    old = labels[i]
    sums[old] -= K[i]
    sums[c] += K[i]
    sizes[old] -= 1
    sizes[c] += 1
    labels[i] = c


@jit()
def _squares(labels, sums, sizes):
    """Squared lengths of the centres."""
    squares = np.zeros(sizes.size)
    for i in range(labels.size):
        squares[labels[i]] += sums[labels[i], i]
    for c in range(sizes.size):
        if sizes[c] > 0:
            squares[c] /= float(sizes[c]) * sizes[c]
    return squares


@jit()
def nearest_rows(K, sums, sizes, order):
    """The row nearest to each centre, or -1 for an empty cluster.

    Of tied rows, such as both of a cluster of two, the first in the given order is taken.
    """
    nearest = np.full(sizes.size, -1, dtype=np.int64)
    for c in range(sizes.size):
        if sizes[c] > 0:
            factor, least = 2.0 / sizes[c], np.inf
            for i in order:
                gap = K[i, i] - factor * sums[c, i]
                if gap < least - _TIED * K[i, i]:
                    least = gap
                    nearest[c] = i
    return nearest
