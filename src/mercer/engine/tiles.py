"""The tile loop: matrices in main memory are computed tile by tile, in threads.

Each thread computes a tile of the invariants, applies the profile to it while it is in cache, and
writes it where it belongs.  BLAS is held to one thread meanwhile: the tiles are the parallelism.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._threads import run
from mercer.engine.operands import Invariants
from mercer.profiles import Profile

Place = tuple[slice, slice]


def places(shape: tuple[int, int], tile: tuple[int, int], symmetric: bool = False) -> list[Place]:
    """Rows and columns of the tiles of a matrix; of a symmetric one, on and above the diagonal."""
    (rows, columns), (height, width) = shape, tile
    return [
        (slice(i, min(i + height, rows)), slice(j, min(j + width, columns)))
        for i in range(0, rows, height)
        for j in range(i if symmetric else 0, columns, width)
    ]


@dataclass(frozen=True, eq=False)
class Tiles:
    """Tiles of ``profile(invariants)``, finished with scales and diagonal.

    Parameters are those of :meth:`mercer.engine.base.Engine.gram`.
    """

    source: Invariants
    profile: Profile
    symmetric: bool = False
    scales: tuple[NDArray[Any], NDArray[Any]] | None = None
    diagonal: NDArray[Any] | None = None

    @property
    def places(self) -> list[Place]:
        """Rows and columns of the tiles."""
        return places(self.source.shape, self.source.tile, self.symmetric)

    @property
    def largest(self) -> tuple[int, int]:
        """Shape that holds every tile."""
        (rows, columns), (height, width) = self.source.shape, self.source.tile
        return min(height, rows), min(width, columns)

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

    def fill(
        self, out: NDArray[Any], *, add: bool = False, upper: bool = False, what: str | None = None
    ) -> None:
        """Compute all tiles and write them into a matrix, whatever its precision.

        Parameters
        ----------
        out : array
        add : bool
            Add to what is there instead.
        upper : bool
            Leave alone what is below the diagonal tiles of a symmetric matrix.
        what : str, optional
            What is being done, for a progress bar.
        """
        direct = not add and out.dtype == self.source.dtype

        def fill(rows: slice, columns: slice) -> None:
            place = out[rows, columns]
            tile = place if direct else np.empty(place.shape, dtype=self.source.dtype)
            self.write(rows, columns, tile)
            if add:
                place += tile
            elif not direct:
                place[:] = tile
            if self.symmetric and not upper:
                out[columns, rows] = place.T

        run(fill, self.places, what=what)


@cache
def _below(size: int) -> NDArray[np.bool_]:
    """Mask of the elements below the diagonal."""
    return np.tri(size, k=-1, dtype=bool)
