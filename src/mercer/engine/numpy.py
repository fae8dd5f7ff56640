"""The engine of NumPy arrays and SciPy matrices: compiled loops, tile by tile, in threads."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._arrays import is_foreign
from mercer._memory import check_gram
from mercer._threads import run, threads_in_use
from mercer.engine.base import Engine, Parameter, Scales
from mercer.engine.equal import Equal
from mercer.engine.operands import Stored, invariants
from mercer.engine.tiles import Tiles
from mercer.profiles import Profile


class NumpyEngine(Engine):
    """Gram matrices in main memory; nothing larger than the result and a tile per thread is made.

    With the same number of threads results are the same to the last bit.
    """

    def accepts(self, array: Any) -> bool:
        """See :class:`Engine`; whatever is not an array of another library."""
        return not is_foreign(array)

    def gram(
        self,
        L: Any,
        R: Any,
        profile: Profile,
        *,
        symmetric: bool = False,
        scales: Scales | None = None,
        diagonal: Any = None,
        equal: Equal | None = None,
        parameters: Sequence[Parameter] = (),
        dtype: Any = None,
    ) -> NDArray[Any]:
        """See :class:`Engine`."""
        source = invariants(L, R, symmetric, equal)
        return _filled(Tiles(source, profile, symmetric, scales, diagonal), dtype)

    def apply(
        self,
        w: Any,
        profile: Profile,
        *,
        symmetric: bool = False,
        scales: Scales | None = None,
        diagonal: Any = None,
        parameters: Sequence[Parameter] = (),
        dtype: Any = None,
    ) -> NDArray[Any]:
        """See :class:`Engine`."""
        source = Stored(np.atleast_2d(w))
        return _filled(Tiles(source, profile, symmetric, scales, diagonal), dtype).reshape(w.shape)

    def matvec(
        self,
        L: Any,
        R: Any,
        profile: Profile,
        v: Any,
        *,
        symmetric: bool = False,
        scales: Scales | None = None,
        diagonal: Any = None,
        equal: Equal | None = None,
        parameters: Sequence[Parameter] = (),
    ) -> NDArray[Any]:
        """See :class:`Engine`; each thread adds up tiles of its own, in a fixed order."""
        source = invariants(L, R, symmetric, equal)
        tiles = Tiles(source, profile, symmetric, scales, diagonal)
        places = tiles.places
        lanes = min(threads_in_use(), len(places))
        sums = np.zeros((lanes, source.shape[0], *v.shape[1:]), dtype=np.result_type(source.dtype, v))
        stop = threading.Event()

        def accumulate(lane: int) -> None:
            buffer = np.empty(tiles.largest, dtype=source.dtype)
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


def _filled(tiles: Tiles, dtype: Any) -> NDArray[Any]:
    dtype = np.dtype(tiles.source.dtype if dtype is None else dtype)
    check_gram(*tiles.source.shape, dtype.itemsize)
    out = np.empty(tiles.source.shape, dtype=dtype)
    tiles.fill(out)
    return out
