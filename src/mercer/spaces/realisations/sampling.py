"""Samples of pairs of distinct points, from which the range of a kernel is learnt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._arrays import Array

Index = NDArray[np.intp]

#: Pairs whose similarities stand for those of all.
MOST_PAIRS = 20_000
NO_PAIRS = (
    "all points are equal, or there is only one: no scale can be learnt from them; give points that "
    "differ, or set the parameter by hand"
)


class NoPairs(ValueError):
    """There is no pair of distinct points from which to learn a range."""


def distinct_sample(
    count: int, keys: Callable[[Index], NDArray[Any]], most: int, rng: np.random.Generator
) -> tuple[Index, NDArray[Any]]:
    """Sample of points that are not all equal.

    Parameters
    ----------
    count : int
        Points in all.
    keys : callable
        From numbers of points to keys that are equal for equal points.
    most : int
        Points in the sample.

    Returns
    -------
    rows, keys : arrays
        Numbers of the points, and their keys.
    """
    rows = np.arange(count) if count <= most else np.sort(rng.choice(count, most, replace=False))
    found = keys(rows)
    if len(np.unique(found)) < 2 and count > most:  # almost all are equal: one of each kind
        found = keys(np.arange(count))
        rows = np.sort(np.unique(found, return_index=True)[1])[:most]
        found = found[rows]
    if len(np.unique(found)) < 2:
        raise NoPairs(NO_PAIRS)
    return rows, found


def different_pairs(keys: NDArray[Any]) -> tuple[Index, Index]:
    """Pairs i < j of points with different keys."""
    i, j = np.triu_indices(len(keys), 1)
    keep = keys[i] != keys[j]
    return i[keep], j[keep]


def distinct_pairs(
    count: int, keys: Callable[[Index], NDArray[Any]], most: int, rng: np.random.Generator
) -> tuple[Index, Index, Index]:
    """Points of :func:`distinct_sample`, and at most ``MOST_PAIRS`` pairs of places among them."""
    rows, found = distinct_sample(count, keys, most, rng)
    i, j = different_pairs(found)
    if len(i) > MOST_PAIRS:
        chosen = np.sort(rng.choice(len(i), MOST_PAIRS, replace=False))
        i, j = i[chosen], j[chosen]
    return rows, i, j


def thinned(values: Array) -> Array:
    """At most ``MOST_PAIRS`` values, evenly spaced by rank, with the middle of them all."""
    if len(values) <= MOST_PAIRS:
        return values
    ranks = np.linspace(0, len(values) - 1, MOST_PAIRS + 1).round().astype(np.intp)
    return np.sort(values)[ranks]
