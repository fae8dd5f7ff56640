"""Clouds of tensors: those of similar size as rectangles, whose pairs are compared tile by tile.

Points of a device are compared by its engine.  Nothing larger than the result and a few tiles is
allocated; if derivatives are recorded, tiles are recomputed when these are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch

from mercer._arrays import placed
from mercer._progress import progress
from mercer.engine.autograd import computed_again
from mercer.engine.base import engine_for
from mercer.engine.clouds import ROWS, Base, Clouds, Index

#: A device compares about 2^26 / WIDTH points with as many others at a time, for sums over them; and
#: 2^26 / TILE where several matrices are made of each tile.
WIDTH, TILE = 2**13, 2**15
#: Largest ratio of the sizes of clouds in one rectangle.
_SPREAD = 1.25


def side(P: Clouds, width: int = WIDTH) -> int:
    """Number of points that are compared with as many others at a time."""
    return engine_for(P.points).rows_at_once(P.points, ROWS, width)


def groups(P: Clouds, points: int, most: int | None = None) -> list[Index]:
    """Groups of clouds of similar size, with a limited number of points or clouds."""
    return P.groups(points, most, _SPREAD)


def rectangle(P: Clouds, group: Index) -> tuple[torch.Tensor, torch.Tensor]:
    """Points of g clouds of at most k points, one after the other, and weights of shape (g, k).

    Shorter clouds repeat their first point, with weight zero.
    """
    index, weights = P.padded(group)
    return P.take(index.ravel()), placed(weights, P.points)


def matrix(
    P: Clouds,
    Q: Clouds | None,
    job: Callable[[Index, Index], torch.Tensor],
    what: str,
    points: int,
    most: int | None = None,
) -> torch.Tensor:
    """Matrix with one element per pair of clouds; symmetric, between P and P, if Q is None.

    Parameters
    ----------
    P, Q : Clouds
    job : callable
        Computes a tile from the indices of its clouds in P and in Q.
    what : str
        Label of a progress bar.
    points : int
        Largest number of points in the rows and in the columns of a tile, unless they belong to a single
        cloud.
    most : int, optional
        Largest number of clouds there.
    """
    rows = groups(P, points, most)
    columns = rows if Q is None else groups(Q, points, most)
    out = P.points.new_empty((len(P), len(P if Q is None else Q)))
    tasks = [(a, b) for i, a in enumerate(rows) for b in columns[i if Q is None else 0 :]]
    with progress(len(tasks), what) as advance:
        for left, right in tasks:
            tile = computed_again(job, left, right)
            if Q is None and left is right:
                tile = (tile + tile.T) / 2
            elif Q is None:
                out[right[:, None], left] = tile.T
            out[left[:, None], right] = tile
            advance()
    return out


def sums(P: Clouds, values: torch.Tensor) -> torch.Tensor:
    """Weighted sum of the values of its points, for each cloud."""
    out = values.new_empty((len(P), *values.shape[1:]))
    for group in groups(P, side(P, values[0].numel())):
        index, weights = P.padded(group)
        factors = placed(weights, values).reshape(*weights.shape, *[1] * (values.ndim - 1))
        out[group] = (values[index] * factors).sum(dim=1)
    return out


def mean_products(P: Clouds, Q: Clouds | None, base: Base) -> torch.Tensor:
    """Inner products ``a' K b`` of the mean embeddings of clouds."""
    points = side(P)
    left, owners = P.pieces(points)
    right, others = (left, owners) if Q is None else Q.pieces(points)

    def tile(rows: Index, columns: Index) -> torch.Tensor:
        (X, a), (Y, b) = rectangle(left, rows), rectangle(right, columns)
        means = (base(X, Y) * b.reshape(-1)).reshape(len(X), *b.shape).sum(dim=2)
        return (means.reshape(*a.shape, -1) * a[..., None]).sum(dim=1)

    K = matrix(left, None if Q is None else right, tile, "mean embeddings", points)
    K = _joined(K, owners) if len(left) > len(P) else K
    return _joined(K.T, others).T if len(right) > len(others) else K


def _joined(K: torch.Tensor, owners: Index) -> torch.Tensor:
    """Sums over the rows of the pieces of each cloud."""
    starts = np.append(owners, len(K))
    return sums(Clouds(K, np.ones(len(K)), starts), K)


def own_grams(
    P: Clouds, base: Base, points: int
) -> Iterator[tuple[Index, torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Indices of g clouds of at most k points, and their points, weights and (g, k, k) Gram matrices."""

    def blocks(X: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        g, k = a.shape
        return base(X, X).reshape(g, k, g, k).diagonal(dim1=0, dim2=2).permute(2, 0, 1)

    for group in groups(P, points):
        X, a = rectangle(P, group)
        yield group, X, a, computed_again(blocks, X, a)


def mean_squares(P: Clouds, base: Base) -> torch.Tensor:
    """Squared lengths ``a' K a`` of the mean embeddings of clouds."""
    out = P.points.new_empty(len(P))
    small = np.flatnonzero(P.sizes <= side(P))
    for i in np.flatnonzero(P.sizes > side(P)):
        out[i] = mean_products(P.select(np.array([i])), None, base)[0, 0]
    if small.size:
        for group, _, a, K in own_grams(P.select(small), base, side(P, TILE)):
            out[small[group]] = torch.einsum("gk,gkl,gl->g", a, K, a)
    return out
