"""Clouds: finite sets of weighted points, each of its own size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[np.float64]
Index = NDArray[np.int64]
#: Weights must sum to 1 up to this.
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Clouds:
    """Checked clouds, one after the other.

    Attributes
    ----------
    points : array of shape (N, d), or list of N points of another kind
    weights : array of shape (N,)
    starts : array of shape (m + 1,)
        Cloud i holds the points ``starts[i]`` to ``starts[i + 1]``.
    single : bool
        All points came in single precision; so should results go.
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

    def take(self, index: Index) -> Any:
        """Points by their numbers."""
        if isinstance(self.points, np.ndarray):
            return self.points[index]
        return [self.points[i] for i in index.tolist()]

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

    def groups(self, limit: int, most: int | None = None) -> list[Index]:
        """Numbers of clouds that go together: of similar size, ``limit`` points at most, or one.

        There are no more than ``most`` in a group.
        """
        order = np.argsort(self.sizes, kind="stable")
        ends = np.cumsum(self.sizes[order])
        found, first, done = [], 0, 0
        while first < len(order):
            last = max(int(np.searchsorted(ends, done + limit, side="right")), first + 1)
            last = last if most is None else min(last, first + most)
            found.append(order[first:last])
            first, done = last, int(ends[last - 1])
        return found

    def joined(self, group: Index) -> tuple[Index, list[slice]]:
        """Numbers of the points of some clouds, one after the other, and the place of each cloud."""
        sizes = self.sizes[group]
        ends = np.cumsum(sizes)
        index = np.arange(ends[-1]) + np.repeat(self.starts[group] - ends + sizes, sizes)
        return index, [slice(int(e - n), int(e)) for e, n in zip(ends, sizes, strict=True)]

    def padded(self, group: Index) -> tuple[Index, Array]:
        """Numbers of the points of some clouds as a rectangle, and their weights.

        Shorter clouds repeat their first point, with weight zero.
        """
        sizes = self.sizes[group, None]
        place = np.arange(sizes.max())
        index = self.starts[group, None] + np.where(place < sizes, place, 0)
        return index, np.where(place < sizes, self.weights[index], 0.0)

    def sums(self, values: Array) -> Array:
        """Weighted sum of the values of its points, for each cloud."""
        weighted = values * self.weights.reshape(-1, *[1] * (values.ndim - 1))
        return np.add.reduceat(weighted, self.starts[:-1], axis=0)


def check_clouds(X: Any, name: str, *, vectors: bool, rescale: bool) -> Clouds:
    """Check a set of clouds.

    Parameters
    ----------
    X : list of clouds, or array of shape (m, k, d)
        A cloud is its points, or a tuple ``(points, weights)``.
    name : str
        What to call it in messages.
    vectors : bool
        Points are rows of numbers; otherwise a cloud is a list of points of any kind.
    rescale : bool
        Divide weights by their sum, instead of refusing those that do not sum to 1.
    """
    clouds = _sequence(X, name)
    read: Callable[[Any, str], Any] = _rows if vectors else _items
    points: list[Any] = []
    weights: list[Array] = []
    for i, cloud in enumerate(clouds):
        where = f"row {i} of {name}"
        inside, given = cloud if isinstance(cloud, tuple) and len(cloud) == 2 else (cloud, None)
        inside = read(inside, where)
        if len(inside) == 0:
            raise ValueError(f"{where} is an empty cloud; drop it")
        points.append(inside)
        weights.append(_weights(given, len(inside), where, rescale))
    starts = np.concatenate([[0], np.cumsum([len(w) for w in weights])])
    if not vectors:
        return Clouds([p for inside in points for p in inside], np.concatenate(weights), starts)
    _check_columns(points, name)
    single = all(p.dtype == np.float32 for p in points)
    together = np.concatenate(points).astype(np.float64, copy=False)
    _check_finite(together, starts, name)
    return Clouds(together, np.concatenate(weights), starts, single)


def _sequence(X: Any, name: str) -> Any:
    """The clouds in X, with advice for what is no set of clouds."""
    if isinstance(X, np.ndarray) and X.dtype != object and X.ndim != 3:
        raise ValueError(
            f"{name} is an array of shape {X.shape}; give a list of clouds, one array each "
            "([cloud] if it is one cloud), or an array of shape (m, k, d)"
        )
    if isinstance(X, str | bytes | dict) or not (hasattr(X, "__len__") and hasattr(X, "__getitem__")):
        raise TypeError(f"{name} must be a list of clouds, got {type(X).__name__}")
    if hasattr(X, "columns") or sparse.issparse(X):
        raise TypeError(f"{name} is one table; give a list of clouds, one array each")
    if len(X) == 0:
        raise ValueError(f"{name} holds no clouds")
    return X


def _rows(inside: Any, where: str) -> NDArray[Any]:
    """Points as rows of floating numbers."""
    if sparse.issparse(inside):
        raise TypeError(f"{where} is a sparse matrix; give a dense array, as by toarray()")
    try:
        rows = np.asarray(inside)
        if rows.dtype != np.float32:
            if rows.dtype.kind not in "fiub":
                raise TypeError
            rows = rows.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise ValueError(f"{where} is no array of real numbers of shape (k, d)") from None
    if rows.ndim != 2:
        raise ValueError(
            f"{where} has points of shape {rows.shape}; k points are an array of shape (k, d); "
            "a tuple of two is a cloud and its weights"
        )
    if rows.shape[1] == 0:
        raise ValueError(f"{where} has points without coordinates")
    return rows


def _items(inside: Any, where: str) -> list[Any]:
    """Points of any kind as a list."""
    if isinstance(inside, str | bytes | dict) or not hasattr(inside, "__iter__"):
        raise TypeError(
            f"{where} is a {type(inside).__name__}; a cloud is a list of points, "
            "or a tuple of such a list and its weights"
        )
    return list(inside)


def _weights(given: Any, size: int, where: str, rescale: bool) -> Array:
    if given is None:
        return np.full(size, 1 / size)
    try:
        weights = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{where} has weights that are no numbers") from None
    if weights.shape != (size,):
        raise ValueError(
            f"{where} has {size} points and weights of shape {weights.shape}; one weight per point"
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(f"{where} has weights that are negative, infinite or NaN")
    total = weights.sum()
    if total == 0 or not np.isfinite(total):
        raise ValueError(f"{where} has weights that sum to {total:g}")
    if not rescale and abs(total - 1) > _TOLERANCE:
        raise ValueError(
            f"{where} has weights that sum to {total:.12g}, not to 1; "
            "divide them by their sum, or use rescale_weights=True"
        )
    return weights / total


def _check_columns(points: list[NDArray[Any]], name: str) -> None:
    columns = points[0].shape[1]
    for i, rows in enumerate(points):
        if rows.shape[1] != columns:
            raise ValueError(
                f"row {i} of {name} has points of dimension {rows.shape[1]}, row 0 of {columns}; "
                "all clouds must have the same"
            )


def _check_finite(points: Array, starts: Index, name: str) -> None:
    bad = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if bad.size:
        i, place = locate(int(bad[0]), starts)
        raise ValueError(f"row {i} of {name} contains NaN or infinity, in its point {place}; drop it")


def locate(number: int, starts: Index) -> tuple[int, int]:
    """Cloud of a point, and the point's place in it."""
    i = int(np.searchsorted(starts, number, side="right")) - 1
    return i, number - int(starts[i])


def first_refused(clouds: Clouds, accept: Callable[[Any], Any]) -> tuple[int, Exception] | None:
    """The first cloud whose points are not accepted, and why."""
    for i in range(len(clouds)):
        try:
            accept(clouds.points[clouds.starts[i] : clouds.starts[i + 1]])
        except (TypeError, ValueError) as error:
            return i, error
    return None
