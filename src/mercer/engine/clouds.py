"""Clouds as operands: tiles of pairs of clouds, and inner products of their mean embeddings."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from array_api_compat import array_namespace, device, is_torch_array
from numpy.typing import NDArray

from mercer._arrays import is_foreign, on_cpu, to_double
from mercer._threads import run
from mercer.engine.base import engine_for

Array = NDArray[np.float64]
Index = NDArray[np.int64]
#: Points in the rows and in the columns of a tile of the base kernel's Gram matrix.
ROWS, COLUMNS = 256, 1024
#: Points whose Gram matrix is computed together for the blocks of single clouds.
_OWN = 256


@dataclass(frozen=True)
class Clouds:
    """Checked clouds, whose points are in one array or list.

    Attributes
    ----------
    points : array or tensor of shape (N, d), or list of N points of another kind
    weights : array of shape (N,)
    starts : array of shape (m + 1,)
        Cloud i holds the points ``starts[i]`` to ``starts[i + 1]``.
    single : bool
        Whether all points are in single precision; results are then returned in it.
    """

    points: Any
    weights: Array
    starts: Index
    single: bool = False

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def sizes(self) -> Index:
        """Number of points in each cloud."""
        return np.diff(self.starts)

    @property
    def owners(self) -> Index:
        """Index of the cloud of each point."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def take(self, index: Index) -> Any:
        """Points by their indices."""
        if isinstance(self.points, list):
            return [self.points[i] for i in index.tolist()]
        return self.points[index]

    def select(self, group: Index) -> Clouds:
        """Some of the clouds."""
        index, places = self.joined(group)
        starts = np.array([0, *(place.stop for place in places)])
        return Clouds(self.take(index), self.weights[index], starts, self.single)

    def pieces(self, limit: int) -> tuple[Clouds, Index]:
        """The clouds cut into pieces of at most ``limit`` points, and the first piece of each."""
        counts = -(-self.sizes // limit)
        owners = np.cumsum(counts) - counts
        steps = np.arange(counts.sum()) - np.repeat(owners, counts)
        starts = np.append(np.repeat(self.starts[:-1], counts) + limit * steps, self.starts[-1])
        return replace(self, starts=starts), owners

    def groups(self, limit: int, most: int | None = None, spread: float | None = None) -> list[Index]:
        """Groups of clouds of similar size, by their indices.

        A group has at most ``limit`` points, unless it is a single cloud, and at most ``most`` clouds.
        The largest cloud is at most ``spread`` times as large as the smallest, if that is given.
        """
        order = np.argsort(self.sizes, kind="stable")
        sizes = self.sizes[order]
        ends = np.cumsum(sizes)
        found, first, done = [], 0, 0
        while first < len(order):
            last = max(int(np.searchsorted(ends, done + limit, side="right")), first + 1)
            last = last if most is None else min(last, first + most)
            if spread is not None:
                last = min(last, int(np.searchsorted(sizes, spread * sizes[first], side="right")))
            found.append(order[first:last])
            first, done = last, int(ends[last - 1])
        return found

    def joined(self, group: Index) -> tuple[Index, list[slice]]:
        """Indices of the points of some clouds, one after the other, and the slice of each cloud."""
        sizes = self.sizes[group]
        ends = np.cumsum(sizes)
        index = np.arange(ends[-1]) + np.repeat(self.starts[group] - ends + sizes, sizes)
        return index, [slice(int(e - n), int(e)) for e, n in zip(ends, sizes, strict=True)]

    def padded(self, group: Index) -> tuple[Index, Array]:
        """Indices of the points of some clouds as a rectangle, and their weights.

        Shorter clouds repeat their first point, with weight zero.
        """
        sizes = self.sizes[group, None]
        place = np.arange(sizes.max())
        index = self.starts[group, None] + np.where(place < sizes, place, 0)
        return index, np.where(place < sizes, self.weights[index], 0.0)

    def in_main_memory(self) -> Clouds:
        """The clouds as NumPy arrays."""
        return replace(self, points=on_cpu(self.points))

    def sums(self, values: Any) -> Any:
        """Weighted sum of the values of its points, for each cloud."""
        if is_foreign(values):
            from mercer.engine.tensors import clouds

            return clouds.sums(self, values)
        weighted = values * self.weights.reshape(-1, *[1] * (values.ndim - 1))
        return np.add.reduceat(weighted, self.starts[:-1], axis=0)


class Base(Protocol):
    """Gram matrix of a base kernel between two sets of points."""

    def __call__(self, X: Any, Y: Any, out: Array | None = None) -> Any:
        """Values, written to ``out`` or not."""


def inner_products(X: Any, Y: Any, out: Array | None = None) -> Any:
    """The base kernel of points that are features."""
    return X @ Y.T if out is None else np.matmul(X, Y.T, out=out)


def as_points(values: Any) -> Any:
    """Numbers in single or double precision, as a tensor if they are one, otherwise as a NumPy array.

    Raises a TypeError if they are not real numbers.
    """
    values = engine_for(values).borrow(values)
    values = values if is_torch_array(values) else np.asarray(values)
    xp = array_namespace(values)
    if values.dtype in (xp.float32, xp.float64):
        return values
    if not xp.isdtype(values.dtype, ("bool", "integral", "real floating")):
        raise TypeError(f"{values.dtype} is not a type of real numbers")
    return to_double(values)


def home(points: Any) -> str:
    """Description of where points are."""
    return f"a tensor on {device(points)}" if is_foreign(points) else "in main memory"


def at_least_zero(values: Any) -> Any:
    """Values clipped at zero; NumPy arrays in place."""
    return values.clamp(min=0) if is_foreign(values) else np.maximum(values, 0, out=values)


def exponentials(values: Any) -> Any:
    """Exponentials, which may overflow; NumPy arrays in place."""
    if is_foreign(values):
        return values.exp()
    with np.errstate(over="ignore", under="ignore"):
        return np.exp(values, out=values)


class Scratch(threading.local):
    """Arrays that a thread reuses, because allocating new ones costs more than the work in them."""

    def __init__(self) -> None:
        self._flat: dict[str, Array] = {}

    def empty(self, name: str, *shape: int) -> Array:
        """An uninitialised array, in the memory of the last one of this name."""
        size = math.prod(shape)
        if name not in self._flat or self._flat[name].size < size:
            self._flat[name] = np.empty(size)
        return self._flat[name][:size].reshape(shape)


def matrix(
    P: Clouds,
    Q: Clouds | None,
    job: Callable[[Index, Index], Any],
    what: str,
    channels: int | None = None,
    most: int | None = None,
) -> Any:
    """Matrix with one element per pair of clouds; symmetric, between P and P, if Q is None.

    Parameters
    ----------
    P, Q : Clouds
    job : callable
        Computes a tile from the indices of its clouds in P and in Q.
    what : str
        Label of a progress bar.
    channels : int, optional
        Numbers per pair, along a last axis, if the job computes several.
    most : int, optional
        Largest number of clouds in the rows and in the columns of a tile.
    """
    if is_foreign(P.points):
        from mercer.engine.tensors import clouds

        return clouds.matrix(P, Q, job, what, clouds.side(P, clouds.TILE), most)
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
    """Call a job with the base kernel's Gram matrix of each cloud."""

    def blocks(group: Index) -> None:
        index, places = P.joined(group)
        points = P.take(index)
        K = base(points, points)
        for i, place in zip(group.tolist(), places, strict=True):
            job(i, K[place, place])

    run(blocks, [(group,) for group in P.groups(_OWN)], what=what)


def mean_products(P: Clouds, Q: Clouds | None, base: Base) -> Any:
    """Inner products ``a' K b`` of the mean embeddings of clouds."""
    if is_foreign(P.points):
        from mercer.engine.tensors import clouds

        return clouds.mean_products(P, Q, base)
    # A large cloud is the sum of its pieces: no tile has to hold all of it.
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


def mean_squares(P: Clouds, base: Base) -> Any:
    """Squared lengths ``a' K a`` of the mean embeddings of clouds."""
    if is_foreign(P.points):
        from mercer.engine.tensors import clouds

        return clouds.mean_squares(P, base)
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
