"""Gram matrices and their products with vectors on the CPU, tile by tile.

Each thread computes a tile of the matrix product, applies the profile to it while it is in cache, and
writes it where it belongs.  BLAS is held to one thread meanwhile: the tiles are the parallelism.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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
    source = product(L, R, symmetric)
    out = np.empty(source.shape, dtype=source.dtype)

    def fill(rows: slice, columns: slice) -> None:
        tile = out[rows, columns]
        _write(source, profile, scales, rows, columns, tile)
        if symmetric:
            if rows.start == columns.start:
                square = tile[:, : tile.shape[0]]
                np.copyto(square, square.T.copy(), where=_below(len(square)))
            out[columns, rows] = tile.T

    _run(fill, _tiles(source, symmetric))
    if diagonal is not None:
        np.fill_diagonal(out, diagonal)
    return out


def matvec(
    L: Any,
    R: Any,
    profile: Profile,
    v: NDArray[Any],
    *,
    scales: Scales | None = None,
    diagonal: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Product ``profile(L @ R.T) @ v`` without the Gram matrix; see :func:`gram`."""
    source = product(L, R, symmetric=False)
    out = np.zeros((source.shape[0], *v.shape[1:]), dtype=np.result_type(source.dtype, v))
    height, width = source.tile
    width = min(width, source.shape[1])

    def accumulate(rows: slice) -> None:
        buffer = np.empty((rows.stop - rows.start, width), dtype=source.dtype)
        for start in range(0, source.shape[1], width):
            columns = slice(start, min(start + width, source.shape[1]))
            tile = buffer[:, : columns.stop - start]
            _write(source, profile, scales, rows, columns, tile)
            if diagonal is not None:
                both = np.arange(max(rows.start, start), min(rows.stop, columns.stop))
                tile[both - rows.start, both - start] = diagonal[both]
            out[rows] += tile @ v[columns]

    _run(accumulate, [(slice(i, min(i + height, len(out))),) for i in range(0, len(out), height)])
    return out


def _write(
    source: Product,
    profile: Profile,
    scales: Scales | None,
    rows: slice,
    columns: slice,
    tile: NDArray[Any],
) -> None:
    source.write(rows, columns, tile)
    profile.apply(tile)
    if scales is not None:
        tile *= scales[0][rows, None]
        tile *= scales[1][columns]


def _tiles(source: Product, symmetric: bool) -> list[tuple[slice, slice]]:
    rows, columns = source.shape
    height, width = source.tile
    return [
        (slice(i, min(i + height, rows)), slice(j, min(j + width, columns)))
        for i in range(0, rows, height)
        for j in range(i if symmetric else 0, columns, width)
    ]


@cache
def _below(size: int) -> NDArray[np.bool_]:
    """Mask of the elements below the diagonal."""
    return np.tri(size, k=-1, dtype=bool)


def _run(job: Callable[..., None], tasks: list[Any]) -> None:
    """Run the job over all tasks, in threads if there are several; an interruption ends it soon."""
    if len(tasks) == 1:
        return job(*tasks[0])
    with _blas_in_one_thread() as threads:
        pool = ThreadPoolExecutor(min(threads, len(tasks)))
        try:
            for future in [pool.submit(job, *task) for task in tasks]:
                future.result()
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
