"""Rows that come in blocks: arrays, memory maps, Parquet files, iterators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_array

Array = NDArray[np.float64]
#: Points, targets of shape (m, q), and weights or None.
Block = tuple[Any, Array, Array | None]

#: Rows of one block of an array.
ROWS = 16_384
#: Rows of a sample.
SAMPLE = 20_000


@dataclass(frozen=True, eq=False)
class ArrayBlocks:
    """Slices of arrays that were checked before; nothing but the slice at hand is converted."""

    X: Any
    y: NDArray[Any]
    weight: Array | None = None
    repeatable = True

    def __iter__(self) -> Iterator[Block]:
        for start in range(0, self.X.shape[0], ROWS):
            part = slice(start, start + ROWS)
            weight = None if self.weight is None else self.weight[part]
            yield as_floats(self.X[part]), columns(self.y[part]), weight


@dataclass(frozen=True, eq=False)
class StreamBlocks:
    """Blocks ``(X, y)`` or ``(X, y, weight)`` of somebody else's, checked as they come."""

    source: Iterable[Any]

    @property
    def repeatable(self) -> bool:
        """Whether there can be a second pass: an iterator is spent after one."""
        return iter(self.source) is not self.source

    def __iter__(self) -> Iterator[Block]:
        for number, block in enumerate(self.source):
            if not isinstance(block, tuple | list) or len(block) not in (2, 3):
                raise TypeError(
                    f"block {number} is {type(block).__name__}; give pairs (X, y) or triples "
                    "(X, y, weight)"
                )
            X = check_array(
                block[0], accept_sparse="csr", dtype="numeric", input_name=f"X of block {number}"
            )
            y = columns(block[1])
            weight = None if len(block) == 2 or block[2] is None else np.asarray(block[2], dtype=float)
            for part, name in ((y, "y"), (weight, "weight")):
                if part is not None and len(part) != X.shape[0]:
                    raise ValueError(
                        f"block {number} has {X.shape[0]} rows of X but {len(part)} of {name}"
                    )
                if part is not None and not np.isfinite(part).all():
                    raise ValueError(f"{name} of block {number} contains NaN or infinity")
            if weight is not None and weight.min() < 0:
                raise ValueError(f"weight of block {number} has negative entries")
            yield as_floats(X), y, weight


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
        Rows of a batch.

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
    repeatable = True

    def files(self) -> list[Path]:
        """The files, in order."""
        if not isinstance(self.path, str | Path):
            return [Path(p) for p in self.path]
        path = Path(self.path)
        found = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not found or not all(p.exists() for p in found):
            raise FileNotFoundError(f"no Parquet file at {self.path}")
        return found

    def __iter__(self) -> Iterator[Block]:
        from pyarrow.parquet import ParquetFile

        targets = [self.target] if isinstance(self.target, str) else list(self.target)
        extra = [] if self.weight is None else [self.weight]
        names = None if self.columns is None else list(self.columns)
        for path in self.files():
            with ParquetFile(path) as file:
                present = file.schema_arrow.names
                names = names or [c for c in present if c not in (*targets, *extra)]
                missing = [c for c in (*names, *targets, *extra) if c not in present]
                if missing:
                    raise ValueError(f"{path} has no column {missing[0]!r}")
                for batch in file.iter_batches(self.rows, columns=[*names, *targets, *extra]):
                    yield from StreamBlocks([_batch(batch, names, targets, extra)])


def _batch(batch: Any, names: list[str], targets: list[str], extra: list[str]) -> tuple[Any, ...]:
    """Columns of a record batch as arrays."""

    def stack(wanted: list[str]) -> Array:
        parts = [batch.column(c).to_numpy(zero_copy_only=False) for c in wanted]
        return np.column_stack(parts).astype(float)

    weight = stack(extra).ravel() if extra else None
    return stack(names), stack(targets), weight


def as_blocks(source: Any) -> Any:
    """Blocks of something that is given without targets."""
    if isinstance(source, ArrayBlocks | StreamBlocks | ParquetBlocks):
        return source
    if hasattr(source, "shape") or isinstance(source, str | bytes) or not isinstance(source, Iterable):
        raise ValueError(
            "This estimator requires y to be passed, but the target y is None: give X and y, an "
            "iterable of blocks (X, y), or ParquetBlocks"
        )
    return StreamBlocks(source)


def sample(blocks: Any, seed: int) -> tuple[Array, Array, Any]:
    """Some rows, at random of an array and the first of a stream, and blocks that still have all."""
    if isinstance(blocks, ArrayBlocks):
        rng = np.random.default_rng(seed)
        m = blocks.X.shape[0]
        chosen = np.sort(rng.choice(m, min(m, SAMPLE), replace=False))
        X, y = as_floats(blocks.X[chosen]), columns(blocks.y[chosen])
        return (X.toarray() if sparse.issparse(X) else X), y, blocks
    source = iter(blocks)
    taken: list[Block] = []
    while sum(len(y) for _, y, _ in taken) < SAMPLE:
        block = next(source, None)
        if block is None:
            break
        taken.append(block)
    X = np.concatenate([X.toarray() if sparse.issparse(X) else X for X, _, _ in taken])
    y = np.concatenate([y for _, y, _ in taken])
    return X[:SAMPLE], y[:SAMPLE], chain(taken, source)


def as_floats(X: Any) -> Any:
    """Rows in double precision."""
    return X.astype(float) if sparse.issparse(X) else np.asarray(X, dtype=float)


def columns(y: Any) -> Array:
    """Targets as a matrix of doubles."""
    y = np.asarray(y, dtype=float)
    if y.ndim not in (1, 2):
        raise ValueError(f"y has shape {y.shape}; one or two dimensions are needed")
    return y[:, None] if y.ndim == 1 else y
