"""Gram matrices and their products with vectors on the CPU, tile by tile.

Each thread computes a tile of the matrix product, applies the profile to it while it is in cache, and
writes it where it belongs.  BLAS is held to one thread meanwhile: the tiles are the parallelism.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._memory import check_gram
from mercer._threads import run, threads_in_use
from mercer.engine.equal import Equal
from mercer.engine.products import Product, product
from mercer.profiles import Profile

Scales = tuple[NDArray[Any], NDArray[Any]]


def gram(
    L: Any,
    R: Any,
    profile: Profile,
    *,
    symmetric: bool = False,
    scales: Scales | None = None,
    diagonal: NDArray[Any] | None = None,
    equal: Equal | None = None,
) -> NDArray[Any]:
    """Gram matrix ``profile(L @ R.T)``.

    Parameters
    ----------
    L, R : array or CSR matrix of shape (m, k) and (p, k)
    profile : Profile
    symmetric : bool
        The result is symmetric: half of it is computed.
    scales : pair of arrays, optional
        Factors for rows and columns of the result.
    diagonal : array of shape (m,), optional
        Exact values for the diagonal of a symmetric result.
    equal : Equal, optional
        Rows that are equal, whose invariant is known.

    Returns
    -------
    array of shape (m, p)
        Nothing larger than it and a tile per thread is allocated.
    """
    tiles = _Tiles(product(L, R, symmetric, equal), profile, symmetric, scales, diagonal)
    check_gram(*tiles.shape, tiles.dtype.itemsize)
    out = np.empty(tiles.shape, dtype=tiles.dtype)

    def fill(rows: slice, columns: slice) -> None:
        tile = out[rows, columns]
        tiles.write(rows, columns, tile)
        if symmetric:
            out[columns, rows] = tile.T

    run(fill, tiles.places())
    return out


def matvec(
    L: Any,
    R: Any,
    profile: Profile,
    v: NDArray[Any],
    *,
    symmetric: bool = False,
    scales: Scales | None = None,
    diagonal: NDArray[Any] | None = None,
    equal: Equal | None = None,
) -> NDArray[Any]:
    """Product ``profile(L @ R.T) @ v`` without the Gram matrix; see :func:`gram`.

    Each thread adds up tiles of its own, in a fixed order: with the same number of threads the result
    is the same to the last bit.
    """
    tiles = _Tiles(product(L, R, symmetric, equal), profile, symmetric, scales, diagonal)
    places = tiles.places()
    lanes = min(threads_in_use(), len(places))
    sums = np.zeros((lanes, tiles.shape[0], *v.shape[1:]), dtype=np.result_type(tiles.dtype, v))
    stop = threading.Event()

    def accumulate(lane: int) -> None:
        buffer = np.empty(tiles.largest, dtype=tiles.dtype)
        for rows, columns in places[lane::lanes]:
            if stop.is_set():
                return
            tile = buffer[: rows.stop - rows.start, : columns.stop - columns.start]
            tiles.write(rows, columns, tile)
            sums[lane, rows] += tile @ v[columns]
            if symmetric:
                # What lies right of the diagonal block stands below it too.
                beyond = slice(max(rows.stop, columns.start), columns.stop)
                right = tile[:, beyond.start - columns.start :]
                sums[lane, beyond] += right.T @ v[rows]

    run(accumulate, [(lane,) for lane in range(lanes)], stop)
    return sums.sum(axis=0)


@dataclass(frozen=True)
class _Tiles:
    """Tiles of ``profile(L @ R.T)``, finished with scales and diagonal."""

    source: Product
    profile: Profile
    symmetric: bool
    scales: Scales | None
    diagonal: NDArray[Any] | None

    @property
    def shape(self) -> tuple[int, int]:
        return self.source.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.source.dtype

    @property
    def largest(self) -> tuple[int, int]:
        """Shape that holds every tile."""
        height, width = self.source.tile
        return min(height, self.shape[0]), min(width, self.shape[1])

    def places(self) -> list[tuple[slice, slice]]:
        """Rows and columns of the tiles; of a symmetric result, on and above the diagonal."""
        rows, columns = self.shape
        height, width = self.source.tile
        return [
            (slice(i, min(i + height, rows)), slice(j, min(j + width, columns)))
            for i in range(0, rows, height)
            for j in range(i if self.symmetric else 0, columns, width)
        ]

    def write(self, rows: slice, columns: slice, tile: NDArray[Any]) -> None:
        """Compute one tile in place."""
        self.source.write(rows, columns, tile)
        self.profile.apply(tile)
        if self.scales is not None:
            tile *= self.scales[0][rows, None]
            tile *= self.scales[1][columns]
        if self.symmetric and rows.start == columns.start:
            square = tile[:, : len(tile)]
            np.copyto(square, square.T.copy(), where=_below(len(square)))
            if self.diagonal is not None:
                np.fill_diagonal(square, self.diagonal[rows])


@cache
def _below(size: int) -> NDArray[np.bool_]:
    """Mask of the elements below the diagonal."""
    return np.tri(size, k=-1, dtype=bool)
