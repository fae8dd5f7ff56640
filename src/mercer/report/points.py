"""The points that figures show: few enough to draw, of every class, with their names."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer._arrays import taken
from mercer.selection import Comparison

Index = NDArray[np.intp]
#: Points of the maps and of the histograms.
MAP_POINTS = 600
#: Points of the heat maps: the first of those.
HEAT_POINTS = 200


def choose(comparison: Comparison, size: int = MAP_POINTS) -> Index:
    """Indices of points, drawn by the seed; every prefix has all classes in proportion."""
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


def names(comparison: Comparison, rows: Index) -> list[str]:
    """Names of the points: their position in the data and, for some kinds, an excerpt."""
    places = comparison.target.known[rows].tolist()
    return comparison.data.kind.labels(taken(comparison.data.X, rows), places)
