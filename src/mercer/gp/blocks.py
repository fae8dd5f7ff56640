"""Rows that come in blocks: arrays, memory maps, iterators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import joblib
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_array

from mercer._validation import refuse_complex
from mercer.gp.headers import Labels, check_labels, column_labels, column_without_numbers
from mercer.gp.marks import END, check_count, check_mark

Array = NDArray[np.float64]

#: Rows of one block of an array.
ROWS = 16_384
#: Rows of a sample, unless they are so wide that it would have more numbers than this.
SAMPLE, _NUMBERS = 20_000, 40_000_000


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
        except (ValueError, TypeError) as error:
            raise ValueError(f"{self.called('y')}: {error}") from None
        _refuse_nan(~np.isfinite(y).all(axis=1), self.called("y"))
        return y

    @property
    def target_weight(self) -> float:
        """Sum of the weights of all targets."""
        return self.y.size if self.weight is None else self.y[:1].size * float(self.weight.sum())

    def take(self, chosen: NDArray[np.int64]) -> Block:
        """Some of the rows."""
        weight = None if self.weight is None else self.weight[chosen]
        return Block(self.X[chosen], self.y[chosen], weight, self.name)

    def labels(self) -> NDArray[Any]:
        """Labels as a checked vector, of whatever kind."""
        one_column(self.y)
        labels = self.y.reshape(len(self.y))
        _refuse_nan(pd.isna(labels), self.called("y"))
        return labels


def checked(X: Any, y: Any, weight: Any, name: str) -> Block | None:
    """A block of somebody else's; None if it has no rows."""
    rows = _length(X, f"X of {name}")
    y = _dense(y, f"y of {name}")
    weight = None if weight is None else _dense(weight, f"weight of {name}", float)
    for part, what in ((y, "y"), (weight, "weight")):
        if part is not None and len(part) != rows:
            raise ValueError(f"{name} has {rows} rows of X but {len(part)} of {what}")
    if rows == 0:
        return None
    block = Block(X, y, weight, name)
    try:
        refuse_complex(X, "X")
        X = check_array(X, accept_sparse="csr", dtype="numeric", ensure_all_finite=False)
        X = as_floats(X)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{block.called('X')}: {column_without_numbers(X)}{error}") from None
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


def joined(blocks: Sequence[Block], most: int | None = None) -> Block:
    """Rows of some blocks as one, dense, with targets in columns; the first of them, if too many."""
    X = np.concatenate([b.X.toarray() if sparse.issparse(b.X) else b.X for b in blocks])
    weight = None
    if any(b.weight is not None for b in blocks):
        weight = np.concatenate([np.ones(len(b.y)) if b.weight is None else b.weight for b in blocks])
    part = slice(most)
    return Block(
        X[part],
        np.concatenate([b.targets() for b in blocks])[part],
        None if weight is None else weight[part],
    )


def _length(X: Any, name: str) -> int:
    """Number of rows of whatever was given as points."""
    shape = X.shape if hasattr(X, "shape") else (len(X),) if hasattr(X, "__len__") else ()
    if not shape:
        raise ValueError(f"{name} is a single {type(X).__name__}; give rows and columns")
    return int(shape[0])


def _dense(part: Any, name: str, dtype: Any = None) -> NDArray[Any]:
    """Targets or weights as an array with rows."""
    if sparse.issparse(part):
        raise ValueError(f"{name} is sparse; give an array: toarray()")
    try:
        found = np.asarray(part, dtype=dtype)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name}: {error}") from None
    if found.ndim == 0:
        raise ValueError(f"{name} is a single {type(part).__name__}; give one number a row")
    return found


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
    names = None

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

    def first(self) -> Block:
        """The first block."""
        return next(self.read())

    def sample(self, seed: int) -> Block:
        """Some rows that count, at random."""
        counting = np.arange(self.length) if self.weight is None else np.flatnonzero(self.weight)
        chosen = counting[choice(len(counting), self.columns, seed)]
        rows = Block(self.X, self.y, self.weight).take(chosen)
        return joined([Block(as_floats(rows.X), rows.y, rows.weight)])


class StreamBlocks:
    """Blocks ``(X, y)`` or ``(X, y, weight)`` of somebody else's, checked as they come.

    ``marks`` is None, or a list of hashes of the blocks seen before and of their end: blocks must agree
    with it, and are added to it.
    """

    length = None
    flat = None

    def __init__(self, source: Iterable[Any]) -> None:
        self.source = source
        self.marks: list[str] | None = None
        self._labels: tuple[Labels, Labels] | None = None
        self._begun: Iterator[Any] | None = None
        self._confirmed = False

    @property
    def repeatable(self) -> bool:
        """Whether there can be a second pass: an iterator is spent after one."""
        return iter(self.source) is not self.source

    @property
    def columns(self) -> int:
        """Number of columns of the first block."""
        return int(self.first().X.shape[1])

    @property
    def names(self) -> list[str] | None:
        """Names of the columns if the blocks are data frames."""
        if self._labels is None:
            self.first()
        assert self._labels is not None
        found = self._labels[0]
        return found if found is not None and all(isinstance(name, str) for name in found) else None

    def identity(self) -> str:
        """Nothing: what the blocks are is seen as they come."""
        return ""

    def read(self, start: int = 0) -> Iterator[Block]:
        """Blocks, from a certain row on; those before are taken from the source and left alone."""
        done = count = 0
        for raw in self._raws():
            block = self._block(count, raw)
            if done >= start:
                yield block
            done += len(block.y)
            count += 1
        if done < start:
            raise ValueError(
                f"there are {done} rows, but the checkpoint was made after {start}; give the same "
                "blocks again, or delete the checkpoint"
            )
        self._end(count)

    def confirm(self) -> Iterator[int]:
        """Compare all blocks with their marks, once: where sums are there, but rows might be others."""
        if self.marks is None or self._confirmed:
            return
        count = 0
        for _ in self._raws():
            count += 1
            yield count
        self._end(count)

    def _raws(self) -> Iterator[Any]:
        """What the source holds, compared with the marks."""
        if self.marks is not None and isinstance(self.source, list | tuple):
            check_count(self.marks, len(self.source))
        source, self._begun = self._begun or iter(self.source), None
        for number, raw in enumerate(source):
            if self.marks is not None:
                check_mark(self.marks, number, str(joblib.hash(raw)))
            yield raw

    def _end(self, count: int) -> None:
        if self.marks is not None:
            check_mark(self.marks, count, END)
            self._confirmed = True

    def _block(self, number: int, raw: Any) -> Block:
        if not isinstance(raw, tuple | list) or len(raw) not in (2, 3):
            raise TypeError(
                f"block {number} is {type(raw).__name__}; give pairs (X, y) or triples (X, y, weight)"
            )
        X, y = f"X of block {number}", f"y of block {number}"
        here = column_labels(raw[0], X), column_labels(raw[1], y)
        first = self._labels = here if self._labels is None else self._labels
        check_labels(first[0], here[0], X)
        check_labels(first[1], here[1], y)
        block = checked(raw[0], raw[1], raw[2] if len(raw) == 3 else None, f"block {number}")
        if block is None:
            raise ValueError(f"block {number} has no rows; leave it out")
        return block

    def first(self) -> Block:
        """The first block, which is not used up."""
        return self._head(1)[0]

    def sample(self, seed: int) -> Block:
        """Some rows that count, at random; of an iterator the first rows, which are not used up."""
        size = sample_size(self.columns)
        return drawn(self.read(), size, seed) if self.repeatable else joined(self._head(size), size)

    def _head(self, rows: int) -> list[Block]:
        """Blocks with so many rows; the next pass begins with them."""
        source = self._begun or iter(self.source)
        raws: list[Any] = []
        blocks: list[Block] = []
        for raw in source:
            raws.append(raw)
            blocks.append(self._block(len(blocks), raw))
            if sum(len(b.y) for b in blocks) >= rows:
                break
        self._begun = chain(raws, source)
        if not blocks:
            raise ValueError("there are no rows")
        return blocks


def drawn(blocks: Iterable[Block], size: int, seed: int) -> Block:
    """So many rows that count, at random, from blocks that are read once; all, if there are fewer."""
    rng = np.random.default_rng(seed)
    kept: list[tuple[Array, Block]] = []
    for block in blocks:
        counting = np.arange(len(block.y)) if block.weight is None else np.flatnonzero(block.weight)
        kept.append((rng.random(len(counting)), block.take(counting)))
        if sum(len(keys) for keys, _ in kept) > 2 * size:
            kept = _smallest(kept, size)
    return joined([block for _, block in _smallest(kept, size)])


def _smallest(kept: list[tuple[Array, Block]], size: int) -> list[tuple[Array, Block]]:
    """Rows with the smallest keys."""
    keys = np.concatenate([keys for keys, _ in kept])
    if len(keys) <= size:
        return kept
    last = np.partition(keys, size - 1)[size - 1]
    return [(keys[keys <= last], block.take(np.flatnonzero(keys <= last))) for keys, block in kept]


def sample_size(columns: int) -> int:
    """Most rows of a sample, which is dense."""
    return min(SAMPLE, max(_NUMBERS // columns, 1000))


def choice(rows: int, columns: int, seed: int) -> NDArray[np.int64]:
    """Numbers of the rows of a sample, in order: those that :func:`drawn` takes of blocks of them."""
    keys, size = np.random.default_rng(seed).random(rows), sample_size(columns)
    return np.arange(rows) if rows <= size else np.sort(np.argpartition(keys, size - 1)[:size])


def as_floats(X: Any) -> Any:
    """Rows in double precision."""
    _refuse_dates(X.dtype)
    return X.astype(float) if sparse.issparse(X) else np.asarray(X, dtype=float)


def columns(y: Any) -> Array:
    """Targets as a matrix of doubles."""
    y = np.asarray(y)
    refuse_complex(y, "y")
    _refuse_dates(y.dtype)
    y = y.astype(float, copy=False)
    if y.ndim not in (1, 2):
        raise ValueError(f"y has shape {y.shape}; one or two dimensions are needed")
    return y[:, None] if y.ndim == 1 else y


def _refuse_dates(dtype: Any) -> None:
    """NumPy would take dates for numbers of nanoseconds, or of days."""
    if dtype.kind in "mM":
        raise ValueError(f"{dtype} is no number; encode dates and times")


def one_column(y: NDArray[Any]) -> None:
    """Refuse several targets."""
    if y.ndim > 1 and y.shape[1] != 1:
        raise ValueError(f"y has {y.shape[1]} columns; one is needed")
