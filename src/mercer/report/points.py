"""The points that pictures show: few enough to draw, of every class, and what to call them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from mercer.selection import Comparison
from mercer.spaces.clouds import check_clouds

Index = NDArray[np.intp]
#: Points of the maps and of the histograms.
MAP_POINTS = 600
#: Points of the heat maps: the first of those.
HEAT_POINTS = 200
#: Characters of a string that are shown.
_SHOWN = 60


def choose(comparison: Comparison, size: int = MAP_POINTS) -> Index:
    """Numbers of points, drawn by the seed; every beginning of them holds all classes in proportion."""
    rng = np.random.default_rng(comparison.random_state)
    shuffled = rng.permutation(comparison.rows)
    if comparison.target.task == "regression":
        return shuffled[:size]
    # The k-th of a class's m points has its turn at (k + 1/2) / m.
    _, code, counts = np.unique(comparison.target.y, return_inverse=True, return_counts=True)
    members = code[shuffled]
    by_class = np.argsort(members, kind="stable")
    turn = np.empty(len(members))
    turn[by_class] = np.arange(len(members)) - np.repeat(np.cumsum(counts) - counts, counts) + 0.5
    return shuffled[np.argsort(turn / counts[members], kind="stable")[:size]]


def take(comparison: Comparison, rows: Index) -> Any:
    """The points of these numbers."""
    return _safe_indexing(comparison.data.X, rows)


def names(comparison: Comparison, rows: Index) -> list[str]:
    """What to call the points: by their place in what was given, and a glimpse where there is one."""
    places = comparison.target.known[rows].tolist()
    kind = comparison.kind
    if kind == "strings":
        return [
            f"row {place}: {_glimpse(point)}"
            for place, point in zip(places, take(comparison, rows), strict=True)
        ]
    if kind == "nodes of a graph":
        return [f"node {node}" for node in np.ravel(take(comparison, rows)).tolist()]
    if kind == "clouds":
        sizes = check_clouds(take(comparison, rows), "X", vectors=True, rescale=False).sizes
        return [f"cloud {place}, {size} points" for place, size in zip(places, sizes, strict=True)]
    return [f"row {place}" for place in places]


def _glimpse(point: Any) -> str:
    if isinstance(point, np.ndarray) and point.size == 1:
        point = point.item()
    if isinstance(point, bytes):
        text = point.decode("utf-8", errors="replace")
    else:
        text = point if isinstance(point, str) else " ".join(map(str, list(point)[:_SHOWN]))
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
