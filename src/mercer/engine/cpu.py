"""Gram matrices and their products with vectors on the CPU, tile by tile.

Each thread computes a tile of the matrix product, applies the profile to it while it is in cache, and
writes it where it belongs.  BLAS is held to one thread meanwhile: the tiles are the parallelism.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

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

    Returns
    -------
    array of shape (m, p)
        Nothing larger than it and a tile per thread is allocated.
    """
    tiles = _Tiles(product(L, R, symmetric), profile, symmetric, scales, diagonal)
    out = np.empty(tiles.shape, dtype=tiles.dtype)

    def fill(rows: slice, columns: slice) -> None:
        tile = out[rows, columns]
        tiles.write(rows, columns, tile)
        if symmetric:
            out[columns, rows] = tile.T

    _run(fill, tiles.places())
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
) -> NDArray[Any]:
    """Product ``profile(L @ R.T) @ v`` without the Gram matrix; see :func:`gram`.

    Each thread adds up tiles of its own, in a fixed order: with the same number of threads the result
    is the same to the last bit.
    """
    tiles = _Tiles(product(L, R, symmetric), profile, symmetric, scales, diagonal)
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

    _run(accumulate, [(lane,) for lane in range(lanes)], stop)
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


def _run(job: Callable[..., None], tasks: list[Any], stop: threading.Event | None = None) -> None:
    """Run the job over all tasks, in threads if there are several.

    An error or an interruption cancels what has not begun, and sets ``stop`` for what has.
    """
    if len(tasks) == 1:
        return job(*tasks[0])
    with _blas_in_one_thread() as threads:
        pool = ThreadPoolExecutor(min(threads, len(tasks)))
        try:
            for future in [pool.submit(job, *task) for task in tasks]:
                future.result()
        except BaseException:
            if stop is not None:
                stop.set()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


class _BlasLimit:
    """BLAS limited to one thread while anyone needs it so; the first sets it, the last lifts it."""

    lock = threading.Lock()
    users = 0
    limiter: Any = None


@contextmanager
def _blas_in_one_thread() -> Iterator[int]:
    """Hold BLAS to one thread; yields the number of threads it would have used."""
    with _BlasLimit.lock:
        _BlasLimit.users += 1
        threads = threads_in_use()
        if _BlasLimit.users == 1:
            _BlasLimit.limiter = _controller().limit(limits=1, user_api="blas")
    try:
        yield threads
    finally:
        with _BlasLimit.lock:
            _BlasLimit.users -= 1
            if _BlasLimit.users == 0:
                _BlasLimit.limiter.restore_original_limits()


def threads_in_use() -> int:
    """Threads that BLAS may use now: the number that environment and joblib have agreed on."""
    blas = [lib.num_threads for lib in _controller().select(user_api="blas").lib_controllers]
    return max(blas, default=1)
