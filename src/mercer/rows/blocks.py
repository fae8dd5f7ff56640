"""Blocks of rows: checking, joining and sampling."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_array

from mercer._arrays import finite_rows, on_cpu, taken, to_double
from mercer._validation import as_rows, refuse_complex
from mercer.engine import engine_for
from mercer.rows.columns import column_without_numbers

Array = NDArray[np.float64]

#: Rows of a sample, unless they are so wide that it would have more numbers than this.
SAMPLE, _NUMBERS = 20_000, 40_000_000


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows: points, targets as given, weights or None, and the name of the block in messages."""

    X: Any
    y: NDArray[Any]
    weight: Array | None
    name: str = ""

    def called(self, what: str) -> str:
        """Name of a part of the block in messages."""
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

    def take(self, chosen: slice | NDArray[np.int64]) -> Block:
        """Some of the rows."""
        weight = None if self.weight is None else self.weight[chosen]
        return Block(taken(self.X, chosen), self.y[chosen], weight, self.name)

    def dense(self) -> Block:
        """The block with points as a dense array in main memory, and targets as columns of numbers."""
        X = self.X.toarray() if sparse.issparse(self.X) else on_cpu(self.X)
        return Block(X, self.targets(), self.weight, self.name)

    def labels(self) -> NDArray[Any]:
        """Labels of any type as a checked vector."""
        one_column(self.y)
        labels = self.y.reshape(len(self.y))
        _refuse_nan(pd.isna(labels), self.called("y"))
        return labels


def checked(X: Any, y: Any, weight: Any, name: str, opaque: bool = False) -> Block | None:
    """A checked block; None if it has no rows.

    Points that are ``opaque`` are of any kind and are checked by the kernel.
    """
    rows = _length(X, f"X of {name}")
    y = _dense(y, f"y of {name}")
    weight = None if weight is None else _dense(weight, f"weight of {name}", float)
    for part, what in ((y, "y"), (weight, "weight")):
        if part is not None and len(part) != rows:
            raise ValueError(f"{name} has {rows} rows of X but {len(part)} of {what}")
    if rows == 0:
        return None
    block = Block(X, y, weight, name)
    if not opaque:
        X = _numbers(block)
    if weight is not None:
        if weight.ndim != 1:
            raise ValueError(
                f"{block.called('weight')} has shape {weight.shape}; give one number per row"
            )
        _refuse_nan(~np.isfinite(weight), block.called("weight"))
        if weight.min() < 0:
            raise ValueError(f"{block.called('weight')} has negative entries, in row {weight.argmin()}")
    return Block(X, y, weight, name)


def _numbers(block: Block) -> Any:
    """Rows of finite numbers, or raise."""
    X = block.X
    try:
        refuse_complex(X, "X")
        X = as_floats(_rows(X))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{block.called('X')}: {column_without_numbers(X)}{error}") from None
    _refuse_nan(on_cpu(~finite_rows(X)), block.called("X"))
    return X


def joined(blocks: Sequence[Block], most: int | None = None) -> Block:
    """Rows of several blocks as one block, with targets in columns; at most the first ``most``."""
    weight = None
    if any(b.weight is not None for b in blocks):
        weight = np.concatenate([np.ones(len(b.y)) if b.weight is None else b.weight for b in blocks])
    y = np.concatenate([b.y[:, None] if b.y.ndim == 1 else b.y for b in blocks])
    whole = Block(stacked([b.X for b in blocks]), y, weight)
    return whole if most is None else whole.take(slice(most))


def stacked(parts: Sequence[Any]) -> Any:
    """Points of several containers of the same kind in one container."""
    first = parts[0]
    if len(parts) == 1:
        return first
    if sparse.issparse(first):
        return sparse.vstack(parts, format="csr")
    if hasattr(first, "columns"):
        if all(hasattr(part, "vstack") for part in parts):  # polars
            return reduce(lambda whole, part: whole.vstack(part), parts)
        frames = [part if hasattr(part, "iloc") else part.to_pandas() for part in parts]
        return pd.concat(frames, ignore_index=True)
    if hasattr(first, "shape"):
        return array_namespace(first).concat(parts)
    return [one for part in parts for one in part]


def _rows(X: Any) -> Any:
    """Rows of numbers, which may be NaN or infinite; tensors stay on their device."""
    here = engine_for(X).resident(X)
    if here is not None:
        return as_rows(here, "X")
    return check_array(on_cpu(X), accept_sparse="csr", dtype="numeric", ensure_all_finite=False)


def _length(X: Any, name: str) -> int:
    """Number of points in a container of any kind."""
    shape = X.shape if hasattr(X, "shape") else (len(X),) if hasattr(X, "__len__") else ()
    if not shape:
        raise ValueError(f"{name} is a single {type(X).__name__}; give rows and columns")
    return int(shape[0])


def _dense(part: Any, name: str, dtype: Any = None) -> NDArray[Any]:
    """Targets or weights as an array with rows."""
    if sparse.issparse(part):
        raise ValueError(f"{name} is sparse; give an array: toarray()")
    try:
        found = np.asarray(on_cpu(part), dtype=dtype)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name}: {error}") from None
    if found.ndim == 0:
        raise ValueError(f"{name} is a single {type(part).__name__}; give one number per row")
    return found


def _refuse_nan(bad: Any, name: str) -> None:
    if bad.any():
        raise ValueError(
            f"{name} contains NaN or infinity, first in row {bad.argmax()}; drop or impute such rows"
        )


def drawn(blocks: Iterable[Block], size: int, seed: int) -> Block:
    """Random rows of positive weight from blocks that are read once; all rows, if there are fewer."""
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
    """Usual number of rows of a sample, which is made dense."""
    return min(SAMPLE, max(_NUMBERS // columns, 1000))


def choice(rows: int, size: int, seed: int) -> NDArray[np.int64]:
    """Sorted indices of the rows of a sample: those that :func:`drawn` takes from blocks."""
    keys = np.random.default_rng(seed).random(rows)
    return np.arange(rows) if rows <= size else np.sort(np.argpartition(keys, size - 1)[:size])


def as_floats(X: Any) -> Any:
    """Rows in double precision; labels as they are."""
    if not hasattr(X.dtype, "kind"):  # tensors hold numbers
        return to_double(X)
    _refuse_dates(X.dtype)
    if X.dtype.kind in "OUS":
        return X
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
    """Refuse dates, which NumPy would convert to numbers of nanoseconds or days."""
    if dtype.kind in "mM":
        raise ValueError(f"{dtype} is not a number; encode dates and times")


def one_column(y: NDArray[Any]) -> None:
    """Refuse several targets."""
    if y.ndim > 1 and y.shape[1] != 1:
        raise ValueError(f"y has {y.shape[1]} columns; one is needed")
