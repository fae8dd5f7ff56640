"""Rows in partitions of Dask collections, summed where they are."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mercer._threads import blas_in_one_thread
from mercer.rows.base import RowSource
from mercer.rows.blocks import Block, checked, choice, joined, sample_size
from mercer.rows.columns import ColumnCheck

Array = NDArray[np.float64]

#: Sums that a worker adds up at a time, on the way to the sum of all.
SPLIT_EVERY = 8
#: Partitions between two looks at the clock, where a checkpoint is kept.
ROUND = 32


class DaskRows(RowSource):
    """Partitions of X, y and weights, not computed yet.

    Only sums are sent, and they are added in a tree.  Dask runs the tasks on the cluster whose client
    is in use, or in threads.  If a worker dies, another computes its part again.
    """

    def __init__(self, X: Any, y: Any, weight: Any = None) -> None:
        from dask.base import tokenize

        X = _table(X)
        y = _beside(X, y, "y", (1, 2))
        weight = None if weight is None else _beside(X, weight, "sample_weight", (1,))
        parts = _delayed(X)
        weights = [None] * len(parts) if weight is None else _delayed(weight)
        super().__init__(X, y, weight)
        self.flat = y.ndim == 1
        self.length = len(parts)  # partitions
        self._token = tokenize(X, y, weight)
        #: Number, rows, targets and weights of each partition.
        self._parts = list(zip(range(len(parts)), parts, _delayed(y), weights, strict=True))

    @classmethod
    def accepts(cls, X: Any, complete: bool) -> bool:
        return not complete and _is_dask(X)

    @classmethod
    def open(cls, X: Any, y: Any, weight: Any, check: ColumnCheck) -> Self:
        """See :class:`RowSource`; collections are checked as far as possible without computing them."""
        _check_columns(X, check)
        return super().open(X, y, weight, check)

    @property
    def columns(self) -> int:
        return int(self.X.shape[1])

    def fingerprint(self) -> str:
        """Dask's token for the computations; see :class:`RowSource`."""
        return str(self._token)

    def first(self) -> None:
        """None: reading the first partition would compute it; see :class:`RowSource`."""

    def blocks(self, start: int = 0) -> Iterator[Block]:
        """See :class:`RowSource`; from partition ``start`` on, each computed when it is needed."""
        import dask

        for part in self._parts[start:]:
            block = dask.compute(dask.delayed(_checked)(*part, self.opaque))[0]
            if block is not None:
                yield block

    def sums(
        self, job: Callable[[Block], Any], start: int, in_rounds: bool
    ) -> Iterator[tuple[int, Any]]:
        """See :class:`RowSource`; positions are indices of partitions."""
        import dask

        count = len(self._parts)
        step = ROUND if in_rounds else count
        for first in range(start, count, step):
            last = min(first + step, count)
            # A node of its own: it is sent once to each worker, not with every partition.
            shared = dask.delayed(job, pure=False, traverse=False)
            parts = [dask.delayed(_part)(shared, *part, self.opaque) for part in self._parts[first:last]]
            while len(parts) > 1:
                parts = [
                    dask.delayed(_sum)(parts[i : i + SPLIT_EVERY])
                    for i in range(0, len(parts), SPLIT_EVERY)
                ]
            with warnings.catch_warnings():
                # The state of a job is a few matrices of M x M, and must be sent.
                warnings.filterwarnings("ignore", message="Sending large graph")
                found = dask.compute(parts[0])[0]
            yield last, found

    def sample(self, seed: int, size: int | None = None) -> Block:
        """See :class:`RowSource`; only chosen rows are sent."""
        import dask

        counts = dask.compute(*[dask.delayed(_count)(X, weight) for _, X, _, weight in self._parts])
        ends = np.cumsum(counts)
        chosen = choice(int(ends[-1]), size or sample_size(self.columns), seed)
        parts = [
            dask.delayed(_take)(
                *part, self.opaque, chosen[(chosen >= end - count) & (chosen < end)] - end + count
            )
            for part, end, count in zip(self._parts, ends, counts, strict=True)
        ]
        found = [block for block in dask.compute(*parts) if block is not None]
        if not found:
            raise ValueError("there are no rows")
        return joined(found)

    @classmethod
    def apply(
        cls,
        check: ColumnCheck,
        method: str,
        X: Any,
        outputs: tuple[tuple[Any, ...], ...],
        **options: Any,
    ) -> Any:
        """See :class:`RowSource`; the result is lazy Dask arrays.

        A copy of the model is used: fitting the model again does not change the result.
        """
        import dask
        import dask.array as da

        if any(None in shape for _, *shape in outputs):
            raise ValueError("return_cov needs all rows at once; give an array that is in memory")
        _check_columns(X, check)
        X = _table(X)
        shared = dask.delayed(copy(check.estimator), pure=False, traverse=False)
        lengths = _sizes(X)
        found = [
            dask.delayed(_call)(shared, method, i, part, outputs, options)
            for i, part in enumerate(_delayed(X))
        ]
        single = len(outputs) == 1
        arrays = tuple(
            da.concatenate(
                [
                    da.from_delayed(part if single else part[i], (length, *shape), dtype=dtype)
                    for part, length in zip(found, lengths, strict=True)
                ],
                allow_unknown_chunksizes=True,
            )
            for i, (dtype, *shape) in enumerate(outputs)
        )
        return arrays[0] if single else arrays


def _is_dask(X: Any) -> bool:
    return hasattr(X, "__dask_graph__")


def _empty(X: Any) -> Any:
    """A table with the columns of a collection, and no rows."""
    from dask.dataframe.dispatch import make_meta

    return make_meta(X) if hasattr(X, "columns") else np.empty((0, *X.shape[1:]))


def _check_columns(X: Any, check: ColumnCheck) -> None:
    """Raise unless columns are those learnt and, where points are not opaque, hold numbers."""
    check.frame(_empty(X))
    for name, dtype in () if check.opaque or not hasattr(X, "columns") else X.dtypes.items():
        if getattr(dtype, "kind", "O") not in "biuf":
            raise ValueError(f"column {name!r} of X holds {dtype}, not numbers; encode or drop it")


def _table(X: Any) -> Any:
    """A collection of two dimensions, in partitions of rows."""
    if not hasattr(X, "ndim") or X.ndim != 2:
        shape = getattr(X, "shape", type(X).__name__)
        raise ValueError(f"X must be a Dask array or data frame with rows and columns, got {shape}")
    if hasattr(X, "columns") or len(X.chunks[1]) == 1:
        return X
    return X.rechunk({1: -1})


def _sizes(collection: Any) -> tuple[float, ...]:
    """Rows of each partition, NaN if unknown; always unknown for data frames."""
    if hasattr(collection, "divisions"):
        return (np.nan,) * collection.npartitions
    return tuple(collection.chunks[0])


def _beside(X: Any, y: Any, name: str, dimensions: tuple[int, ...]) -> Any:
    """Targets or weights in the partitions of X."""
    import dask.array as da

    if not _is_dask(y):
        y = np.asarray(y)
        if np.isnan(_sizes(X)).any():
            raise ValueError(
                f"{name} is not a Dask collection, and the numbers of rows in the partitions of X are "
                "unknown; take both from the same data frame"
            )
        y = da.from_array(y, chunks=-1)
    if y.ndim not in dimensions:
        raise ValueError(f"{name} has {y.ndim} dimensions; {' or '.join(map(str, dimensions))} needed")
    if not np.isnan([*_sizes(X), *_sizes(y)]).any():
        if y.shape[0] != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows, but {name} has {y.shape[0]}")
        return y.rechunk({0: X.chunks[0]} | ({1: -1} if y.ndim == 2 else {}))
    if y.npartitions != X.npartitions:
        raise ValueError(
            f"X has {X.npartitions} partitions, but {name} has {y.npartitions}; take both from the same "
            "collection, or repartition them alike"
        )
    divided = [c for c in (X, y) if getattr(c, "known_divisions", False)]
    if len(divided) == 2 and X.divisions != y.divisions:
        raise ValueError(f"X and {name} are divided at different indices; repartition them alike")
    return y


def _delayed(collection: Any) -> list[Any]:
    """The partitions."""
    # Dask might join small files of one column, but not of eight: y would no longer go with X.
    parts = collection.to_delayed(optimize_graph=False)
    return list(parts.ravel() if hasattr(parts, "ravel") else parts)


def _part(job: Callable[[Block], Any], number: int, X: Any, y: Any, weight: Any, opaque: bool) -> Any:
    """Contribution of one partition to a sum, with BLAS in one thread, since Dask uses several."""
    with blas_in_one_thread():
        block = _checked(number, X, y, weight, opaque)
        return None if block is None else job(block)


def _checked(number: int, X: Any, y: Any, weight: Any, opaque: bool) -> Block | None:
    return checked(X, y, weight, f"partition {number}", opaque)


def _sum(parts: list[Any]) -> Any:
    found = [part for part in parts if part is not None]
    return sum(found[1:], found[0]) if found else None


def _count(X: Any, weight: Any) -> int:
    """Number of rows of positive weight."""
    return int(X.shape[0] if weight is None else np.count_nonzero(weight))


def _take(
    number: int, X: Any, y: Any, weight: Any, opaque: bool, chosen: NDArray[np.int64]
) -> Block | None:
    block = _checked(number, X, y, weight, opaque)
    if block is None or block.weight is None:
        return block and block.take(chosen)
    return block.take(np.flatnonzero(block.weight)[chosen])


def _call(
    model: Any, method: str, number: int, X: Any, outputs: Sequence[Any], options: dict[str, Any]
) -> Any:
    """Part of a prediction."""
    if X.shape[0] == 0:
        empty = [np.empty((0, *shape), dtype=dtype) for dtype, *shape in outputs]
        return empty if len(empty) > 1 else empty[0]
    with blas_in_one_thread():
        try:
            return getattr(model, method)(X, **options)
        except ValueError as error:
            raise ValueError(f"partition {number}: {error}") from None
