"""Rows that come in blocks: arrays, memory maps, Parquet files, iterators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_array

from mercer.kernels.base import is_whole

Array = NDArray[np.float64]

#: Rows of one block of an array.
ROWS = 16_384
#: Rows of a sample.
SAMPLE = 20_000


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows: points, targets as they were given, weights or None, and how to call the block."""

    X: Any
    y: NDArray[Any]
    weight: Array | None
    name: str = ""

    def called(self, what: str) -> str:
        """What to call a part of the block in messages."""
        return f"{what} of {self.name}" if self.name else what

    def targets(self) -> Array:
        """Targets as a checked matrix of doubles."""
        try:
            y = columns(self.y)
        except ValueError as error:
            raise ValueError(f"{self.called('y')}: {error}") from None
        _refuse_nan(~np.isfinite(y).all(axis=1), self.called("y"))
        return y

    def labels(self) -> NDArray[Any]:
        """Labels as a checked vector, of whatever kind."""
        one_column(self.y)
        labels = self.y.reshape(len(self.y))
        _refuse_nan(pd.isna(labels), self.called("y"))
        return labels


def checked(X: Any, y: Any, weight: Any, name: str) -> Block | None:
    """A block of somebody else's; None if it has no rows."""
    rows = int(X.shape[0]) if hasattr(X, "shape") else len(X)
    y = np.asarray(y)
    weight = None if weight is None else np.asarray(weight, dtype=float)
    for part, what in ((y, "y"), (weight, "weight")):
        if part is not None and len(part) != rows:
            raise ValueError(f"{name} has {rows} rows of X but {len(part)} of {what}")
    if rows == 0:
        return None
    block = Block(X, y, weight, name)
    X = check_array(
        X, accept_sparse="csr", dtype="numeric", ensure_all_finite=False, input_name=block.called("X")
    )
    X = as_floats(X)
    values = X.data if sparse.issparse(X) else X
    if not np.isfinite(values).all():
        dense = X.toarray() if sparse.issparse(X) else X
        _refuse_nan(~np.isfinite(dense).all(axis=1), block.called("X"))
    if weight is not None:
        if weight.ndim != 1:
            raise ValueError(f"{block.called('weight')} has shape {weight.shape}; give one number a row")
        _refuse_nan(~np.isfinite(weight), block.called("weight"))
        if weight.min() < 0:
            raise ValueError(f"{block.called('weight')} has negative entries, in row {weight.argmin()}")
    return Block(X, y, weight, name)


def _refuse_nan(bad: Any, name: str) -> None:
    if bad.any():
        raise ValueError(
            f"{name} contains NaN or infinity, first in row {bad.argmax()}; drop or impute such rows"
        )


@dataclass(frozen=True, eq=False)
class ArrayBlocks:
    """Slices of arrays that were checked before; nothing but the slice at hand is converted."""

    X: Any
    y: NDArray[Any]
    weight: Array | None = None
    repeatable = True

    @property
    def length(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def columns(self) -> int:
        """Number of columns."""
        return int(self.X.shape[1])

    @property
    def flat(self) -> bool:
        """Whether targets are a vector rather than a matrix of one column."""
        return self.y.ndim == 1

    def identity(self) -> str:
        """The same for the same rows."""
        return str(joblib.hash((self.X, self.y, self.weight)))

    def read(self, start: int = 0) -> Iterator[Block]:
        """Blocks, from a certain row on."""
        for first in range(start, self.length, ROWS):
            part = slice(first, min(first + ROWS, self.length))
            weight = None if self.weight is None else self.weight[part]
            name = f"the rows from {part.start} on" if part.start else ""
            yield Block(as_floats(self.X[part]), self.y[part], weight, name)

    def sample(self, seed: int) -> tuple[Array, Array]:
        """Some rows at random, with their targets."""
        chosen = choice(self.length, seed)
        X = as_floats(self.X[chosen])
        return (X.toarray() if sparse.issparse(X) else X), columns(self.y[chosen])


class StreamBlocks:
    """Blocks ``(X, y)`` or ``(X, y, weight)`` of somebody else's, checked as they come.

    ``marks`` is None, or a list of hashes of the blocks seen before: blocks must agree with it, and
    are added to it.
    """

    length = None
    flat = None

    def __init__(self, source: Iterable[Any]) -> None:
        self.source = source
        self.marks: list[str] | None = None

    @property
    def repeatable(self) -> bool:
        """Whether there can be a second pass: an iterator is spent after one."""
        return iter(self.source) is not self.source

    @property
    def columns(self) -> int:
        """Number of columns of the first block."""
        return int(self.first().X.shape[1])

    def identity(self) -> str:
        """Nothing: what the blocks are is seen as they come."""
        return ""

    def read(self, start: int = 0) -> Iterator[Block]:
        """Blocks, from a certain row on; those before are taken from the source and left alone."""
        done = 0
        for number, raw in enumerate(self.source):
            if self.marks is not None:
                self._mark(number, raw)
            block = self._block(number, raw)
            if done >= start:
                yield block
            done += len(block.y)
        if done < start:
            raise ValueError(
                f"there are {done} rows, but the checkpoint was made after {start}; give the same "
                "blocks again, or delete the checkpoint"
            )

    def _mark(self, number: int, raw: Any) -> None:
        assert self.marks is not None
        mark = str(joblib.hash(raw))
        if number == len(self.marks):
            self.marks.append(mark)
        elif self.marks[number] != mark:
            raise ValueError(
                f"block {number} is not the one that the checkpoint was made with; give the same blocks "
                "again, or delete the checkpoint"
            )

    def _block(self, number: int, raw: Any) -> Block:
        if not isinstance(raw, tuple | list) or len(raw) not in (2, 3):
            raise TypeError(
                f"block {number} is {type(raw).__name__}; give pairs (X, y) or triples (X, y, weight)"
            )
        block = checked(raw[0], raw[1], raw[2] if len(raw) == 3 else None, f"block {number}")
        if block is None:
            raise ValueError(f"block {number} has no rows; leave it out")
        return block

    def first(self) -> Block:
        """The first block, which is not used up."""
        return self._head(1)[0]

    def sample(self, seed: int) -> tuple[Array, Array]:
        """The first rows, with their targets; they are not used up."""
        taken = self._head(SAMPLE)
        X = np.concatenate([b.X.toarray() if sparse.issparse(b.X) else b.X for b in taken])
        return X[:SAMPLE], np.concatenate([b.targets() for b in taken])[:SAMPLE]

    def _head(self, rows: int) -> list[Block]:
        """Blocks with so many rows, put back afterwards."""
        once, source = not self.repeatable, iter(self.source)
        raws: list[Any] = []
        blocks: list[Block] = []
        while sum(len(b.y) for b in blocks) < rows:
            raw = next(source, None)
            if raw is None:
                break
            raws.append(raw)
            blocks.append(self._block(len(blocks), raw))
        if once:
            self.source = chain(raws, source)
        if not blocks:
            raise ValueError("there are no rows")
        return blocks


@dataclass(frozen=True)
class ParquetBlocks:
    """Rows of Parquet files, a batch at a time.

    Files are read in the order of their names, and never as a whole.

    Parameters
    ----------
    path : path of a file or of a folder of ``*.parquet`` files, or a sequence of files
    target : str or list of str
        Column or columns to predict.
    columns : sequence of str, optional
        Columns to predict from; by default all that are left.
    weight : str, optional
        Column of sample weights.
    rows : int
        Rows of a batch, at most; a batch ends where a row group of a file ends.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from mercer.gp import ParquetBlocks
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     frame = pd.DataFrame({"a": [1.0, 2.0], "b": [0.0, 1.0], "y": [3.0, 5.0]})
    ...     frame.to_parquet(f"{folder}/0.parquet")
    ...     [(X.shape, y.ravel()) for X, y, weight in ParquetBlocks(folder, target="y")]
    [((2, 2), array([3., 5.]))]
    """

    path: Any
    target: str | Sequence[str]
    columns: Sequence[str] | None = None
    weight: str | None = None
    rows: int = 65_536

    def __iter__(self) -> Iterator[tuple[Array, NDArray[Any], Array | None]]:
        for block in ParquetSource(self).read():
            yield block.X, block.y, block.weight

    def files(self) -> list[Path]:
        """The files, in order."""
        if not isinstance(self.path, str | Path):
            return [Path(p) for p in self.path]
        path = Path(self.path)
        found = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not found or not all(p.exists() for p in found):
            raise FileNotFoundError(f"no Parquet file at {self.path}")
        return found


@dataclass(frozen=True, eq=False)
class ParquetSource:
    """Blocks of Parquet files, with what their footers tell."""

    given: ParquetBlocks
    repeatable = True
    flat = None

    @cached_property
    def _groups(self) -> list[tuple[Path, int, int]]:
        """File, number in the file and rows of each row group that has any."""
        from pyarrow.parquet import ParquetFile

        if not is_whole(self.given.rows) or self.given.rows < 1:
            raise ValueError(f"rows must be a whole number from 1, got {self.given.rows!r}")
        found = []
        for path in self.given.files():
            with ParquetFile(path) as file:
                missing = [c for c in self._wanted if c not in file.schema_arrow.names]
                if missing:
                    raise ValueError(f"{path} has no column {missing[0]!r}")
                counts = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
            found += [(path, g, count) for g, count in enumerate(counts) if count]
        return found

    @cached_property
    def _names(self) -> tuple[list[str], list[str], list[str]]:
        """Columns of X, of y and of weights."""
        from pyarrow.parquet import read_schema

        given = self.given
        targets = [given.target] if isinstance(given.target, str) else list(given.target)
        extra = [] if given.weight is None else [given.weight]
        if given.columns is not None:
            return list(given.columns), targets, extra
        # pandas writes the index of rows as a column, and takes it for no column when it reads.
        present = [c for c in read_schema(given.files()[0]).names if not c.startswith("__index_level_")]
        return [c for c in present if c not in (*targets, *extra)], targets, extra

    @property
    def _wanted(self) -> list[str]:
        return [name for names in self._names for name in names]

    @property
    def length(self) -> int:
        """Number of rows."""
        return sum(count for _, _, count in self._groups)

    @property
    def columns(self) -> int:
        """Number of columns of X."""
        return len(self._names[0])

    def identity(self) -> str:
        """The same for the same columns of files that have not changed."""
        stats = [(str(p.resolve()), p.stat().st_size, p.stat().st_mtime_ns) for p in self.given.files()]
        return str(joblib.hash((stats, self._names, self.given.rows)))

    def read(self, start: int = 0) -> Iterator[Block]:
        """Blocks, from a certain row on; row groups that end before it are not touched."""
        from pyarrow.parquet import ParquetFile

        for path, group, count in self._groups:
            if start >= count:
                start -= count
                continue
            first = 0
            with ParquetFile(path) as file:
                for batch in file.iter_batches(
                    self.given.rows, row_groups=[group], columns=self._wanted
                ):
                    if first >= start:
                        name = f"{path}, row group {group}, rows from {first} on"
                        block = checked(*_batch(batch, *self._names), name)
                        assert block is not None
                        yield block
                    first += batch.num_rows
            start = 0

    def sample(self, seed: int) -> tuple[Array, Array]:
        """Some rows at random, with their targets."""
        chosen, first = choice(self.length, seed), 0
        rows, targets = [], []
        for block in self.read():
            here = chosen[(chosen >= first) & (chosen < first + len(block.y))] - first
            first += len(block.y)
            rows.append(block.X[here])
            targets.append(block.targets()[here])
        return np.concatenate(rows), np.concatenate(targets)


def _batch(
    batch: Any, names: list[str], targets: list[str], extra: list[str]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
    """Columns of a record batch as arrays."""

    def stack(wanted: list[str]) -> NDArray[Any]:
        return np.column_stack([batch.column(c).to_numpy(zero_copy_only=False) for c in wanted])

    return stack(names), stack(targets), stack(extra).ravel() if extra else None


def as_blocks(source: Any) -> Any:
    """Blocks of something that is given without targets."""
    if isinstance(source, ParquetBlocks):
        return ParquetSource(source)
    if hasattr(source, "shape") or isinstance(source, str | bytes) or not isinstance(source, Iterable):
        raise ValueError(
            "This estimator requires y to be passed, but the target y is None: give X and y, an "
            "iterable of blocks (X, y), or ParquetBlocks"
        )
    return StreamBlocks(source)


def choice(rows: int, seed: int) -> NDArray[np.int64]:
    """Numbers of the rows of a sample, in order."""
    return np.sort(np.random.default_rng(seed).choice(rows, min(rows, SAMPLE), replace=False))


def as_floats(X: Any) -> Any:
    """Rows in double precision."""
    return X.astype(float) if sparse.issparse(X) else np.asarray(X, dtype=float)


def columns(y: Any) -> Array:
    """Targets as a matrix of doubles."""
    y = np.asarray(y, dtype=float)
    if y.ndim not in (1, 2):
        raise ValueError(f"y has shape {y.shape}; one or two dimensions are needed")
    return y[:, None] if y.ndim == 1 else y


def one_column(y: NDArray[Any]) -> None:
    """Refuse several targets."""
    if y.ndim > 1 and y.shape[1] != 1:
        raise ValueError(f"y has {y.shape[1]} columns; one is needed")
