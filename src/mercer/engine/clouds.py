"""The pairwise road: tiles of pairs of clouds, and the inner products of their mean embeddings."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer._threads import run
from mercer.spaces.clouds import Clouds, Index

Array = NDArray[np.float64]
#: Points in the rows and in the columns of a tile of the base kernel's Gram matrix.
ROWS, COLUMNS = 256, 1024
#: Points whose Gram matrix is computed together for the blocks of single clouds.
_OWN = 256


class Base(Protocol):
    """Gram matrix of a base kernel between two sets of points."""

    def __call__(self, X: Any, Y: Any, out: Array | None = None) -> Array:
        """Values, written to ``out`` or not."""


def inner_products(X: Array, Y: Array, out: Array | None = None) -> Array:
    """The base kernel of points that are features."""
    return np.matmul(X, Y.T, out=out)


class Scratch(threading.local):
    """Arrays that a thread uses again and again.  Fresh ones cost more than the work in them."""

    def __init__(self) -> None:
        self._flat: dict[str, Array] = {}

    def empty(self, name: str, *shape: int) -> Array:
        """An array without values; the last one of this name is overwritten."""
        size = math.prod(shape)
        if name not in self._flat or self._flat[name].size < size:
            self._flat[name] = np.empty(size)
        return self._flat[name][:size].reshape(shape)


def matrix(
    P: Clouds,
    Q: Clouds | None,
    job: Callable[[Index, Index], Array],
    what: str,
    channels: int | None = None,
    most: int | None = None,
) -> Array:
    """Matrix with one element per pair of clouds; symmetric, between P and P, if Q is None.

    Parameters
    ----------
    P, Q : Clouds
    job : callable
        Computes a tile from the numbers of its clouds of P and of Q.
    what : str
        What is being computed, for a progress bar.
    channels : int, optional
        Numbers per pair, along a last axis, if the job computes several.
    most : int, optional
        Largest number of clouds in the rows and in the columns of a tile.
    """
    other = P if Q is None else Q
    out = np.empty((len(P), len(other), *([] if channels is None else [channels])))
    rows, columns = P.groups(ROWS, most), other.groups(COLUMNS, most)
    rank = np.empty(len(other), dtype=np.int64)
    rank[np.concatenate(columns)] = np.arange(len(other))

    def fill(left: Index, right: Index) -> None:
        tile = job(left, right)
        if Q is not None:
            out[np.ix_(left, right)] = tile
            return
        i, j = np.nonzero(rank[left][:, None] <= rank[right])
        out[left[i], right[j]] = out[right[j], left[i]] = tile[i, j]

    tasks = [(a, b) for b in columns for a in rows if Q is not None or rank[b[-1]] >= rank[a[0]]]
    run(fill, tasks, what=what)
    return out


def own_grams(P: Clouds, base: Base, job: Callable[[int, Array], None], what: str) -> None:
    """Hand the base kernel's Gram matrix of each cloud to a job."""

    def blocks(group: Index) -> None:
        index, places = P.joined(group)
        points = P.take(index)
        K = base(points, points)
        for i, place in zip(group.tolist(), places, strict=True):
            job(i, K[place, place])

    run(blocks, [(group,) for group in P.groups(_OWN)], what=what)


def mean_products(P: Clouds, Q: Clouds | None, base: Base) -> Array:
    """Inner products ``a' K b`` of the mean embeddings of clouds."""
    # A large cloud is the sum of its pieces: no tile need hold all of it.
    left, owners = P.pieces(COLUMNS)
    right, others = (left, owners) if Q is None else Q.pieces(COLUMNS)
    scratch = Scratch()

    def tile(rows: Index, columns: Index) -> Array:
        index, places = left.joined(rows)
        theirs, there = right.joined(columns)
        K = scratch.empty("K", len(index), len(theirs))
        K = base(left.take(index), right.take(theirs), K)
        K *= left.weights[index, None]
        sums = np.add.reduceat(K, [place.start for place in places], axis=0)
        sums *= right.weights[theirs]
        return np.add.reduceat(sums, [place.start for place in there], axis=1)

    K = matrix(left, None if Q is None else right, tile, "mean embeddings")
    if len(left) > len(P):
        K = np.add.reduceat(K, owners, axis=0)
    return np.add.reduceat(K, others, axis=1) if len(right) > len(others) else K


def mean_squares(P: Clouds, base: Base) -> Array:
    """Squared lengths ``a' K a`` of the mean embeddings of clouds."""
    out = np.empty(len(P))
    small = np.flatnonzero(P.sizes <= ROWS)
    for i in np.flatnonzero(P.sizes > ROWS):
        out[i] = mean_products(P.select(np.array([i])), None, base)[0, 0]
    if small.size:
        part = P.select(small)

        def square(i: int, K: Array) -> None:
            a = part.weights[part.starts[i] : part.starts[i + 1]]
            out[small[i]] = a @ K @ a

        own_grams(part, base, square, "clouds")
    return out
