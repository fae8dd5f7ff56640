"""Tables with columns of several kinds: which of them belong to a factor, and rows of labels."""

from __future__ import annotations

import hashlib
import numbers
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray
from scipy import sparse

from mercer._validation import is_whole, refuse_rows

#: Bits of the number that stands for a label: floats hold whole numbers up to 53 bits.
_BITS = 52
_MISSING = "has a missing label; drop such rows, or give missing labels a name of their own"
#: Columns of a factor: positions, names, or a slice.
Columns = tuple[Any, ...] | slice


def check_columns(given: Any) -> Columns:
    """Columns of a factor, checked."""
    if isinstance(given, slice):
        return given
    if isinstance(given, str) or is_whole(given):
        return (given,)
    if isinstance(given, Sequence | np.ndarray) and len(given):
        columns = tuple(int(c) if is_whole(c) else c for c in given)
        if len({isinstance(c, int) for c in columns}) == 1 and len(set(columns)) == len(columns):
            return columns
    raise ValueError(f"columns of a factor are different positions, names or a slice, got {given!r}")


def is_named(columns: Columns) -> bool:
    """Whether columns are names."""
    return not isinstance(columns, slice) and not isinstance(columns[0], int)


def shown(columns: Columns) -> str:
    """Columns as they are written in a call."""
    return repr(columns if isinstance(columns, slice) else list(columns))


def size(columns: Columns, width: int) -> int:
    """Number of a factor's columns in a table of the given width."""
    return len(range(*columns.indices(width)) if isinstance(columns, slice) else columns)


def positions(columns: Columns, width: int, names: list[Any] | None, name: str) -> list[int]:
    """Positions of a factor's columns among those of a table."""
    if is_named(columns):
        if names is None:
            raise ValueError(
                f"columns have names, but {name} has none: give a data frame, or positions "
                "(scikit-learn estimators pass arrays)"
            )
        named: Any = columns
        if not set(named) <= set(names):
            raise ValueError(f"{name} has no column {next(c for c in named if c not in names)!r}")
        return [names.index(column) for column in named]
    where = list(range(*columns.indices(width))) if isinstance(columns, slice) else list(columns)
    ends = (
        [columns.stop or 0] if isinstance(columns, slice) else [p + 1 if p >= 0 else -p for p in where]
    )
    if not where or max(ends) > width:
        raise ValueError(f"{name} has {width} columns, too few")
    return where


def take_columns(X: Any, where: list[int]) -> Any:
    """Columns of an array, sparse matrix, tensor or data frame."""
    if hasattr(X, "iloc"):
        return X.iloc[:, where]
    if isinstance(X, np.ndarray) or sparse.issparse(X):
        return X[:, where]
    if hasattr(X, "columns"):
        return X[:, where].to_numpy()
    xp = array_namespace(X)
    return xp.take(X, xp.asarray([w % X.shape[1] for w in where], device=device(X)), axis=1)


def as_numbers(part: Any, name: str) -> Any:
    """Objects of a mixed table that are to be numbers; other arrays and data frames as they are."""
    kinds = getattr(part, "dtypes", [getattr(part, "dtype", None)])
    if not any(isinstance(kind, np.dtype) and kind.kind == "O" for kind in kinds):
        return part
    part = np.asarray(part, dtype=object)
    try:
        return part.astype(float)
    except (TypeError, ValueError):
        for (row, _), value in np.ndenumerate(part):
            try:
                float(value)
            except (TypeError, ValueError):
                raise ValueError(f"row {row} of {name} has {value!r}, not a number") from None
        raise


def label_columns(X: Any, name: str) -> list[Any]:
    """Columns of a table of labels, each an array."""
    if isinstance(X, str | bytes) or sparse.issparse(X):
        raise TypeError(f"{name} is a {type(X).__name__}; give labels as a list of rows or an array")
    if hasattr(X, "iloc") and getattr(X, "ndim", 0) == 2 and 0 not in X.shape:
        return [X.iloc[:, j].to_numpy(dtype=object) for j in range(X.shape[1])]
    table = as_table(X.to_numpy() if hasattr(X, "to_numpy") else X, name)
    return [table[:, j] for j in range(table.shape[1])]


def as_table(X: Any, name: str) -> NDArray[Any]:
    """Rows of anything as an array with two axes."""
    if not isinstance(X, np.ndarray):
        if not isinstance(X, Iterable):
            raise TypeError(f"{name} is a {type(X).__name__}; give a list of rows")
        rows = list(X)
        for i, row in enumerate(rows):
            if not isinstance(row, list | tuple | np.ndarray) or len(row) != len(rows[0]):
                raise ValueError(
                    f"Expected a 2D array: row {i} of {name} is {row!r}; give a list of rows of equal "
                    "length, such as [['a'], ['b']]"
                )
        X = np.empty((len(rows), len(rows[0]) if rows else 0), dtype=object)
        for place in np.ndindex(X.shape):
            X[place] = rows[place[0]][place[1]]
    if X.ndim != 2:
        raise ValueError(f"Expected a 2D array, got {name} of shape {X.shape}; one row per point")
    if 0 in X.shape:
        raise ValueError(f"{name} of shape {X.shape} has no rows or no columns")
    return X


def numbered(column: NDArray[Any], name: str) -> NDArray[np.float64]:
    """Numbers that stand for the labels of a column."""
    if column.dtype.kind == "O":
        codes: dict[Any, int] = {}
        try:
            places = np.fromiter((codes.setdefault(label, len(codes)) for label in column), np.intp)
        except TypeError:
            row = next(i for i, label in enumerate(column) if type(label).__hash__ is None)
            raise TypeError(
                f"row {row} of {name} has the label {column[row]!r}, which cannot be hashed; give "
                "strings, numbers, dates or tuples"
            ) from None
        labels: Any = list(codes)
    else:
        if column.dtype.kind in "fcmM":
            refuse_rows(column != column, name, _MISSING)
        labels, places = np.unique(column, return_inverse=True)
        labels = labels.tolist() if column.dtype.kind not in "mM" else list(labels)
    missing = np.array([is_missing(label) for label in labels])
    refuse_rows(missing[places], name, _MISSING)
    digests = [hashlib.blake2b(_encoded(label), digest_size=8).digest() for label in labels]
    return np.array([int.from_bytes(d, "big") >> (64 - _BITS) for d in digests], dtype=float)[places]


def is_missing(label: Any) -> bool:
    """Tell whether a value stands for none: None, NaN, NaT or ``pandas.NA``."""
    if label is None:
        return True
    try:
        return bool(label != label)
    except (TypeError, ValueError):  # pandas.NA is neither true nor false
        return type(label).__name__ == "NAType"


def _encoded(label: Any) -> bytes:
    """Bytes that are equal exactly if the labels are."""
    if isinstance(label, str):
        return b"s" + label.encode("utf-8", "surrogatepass")
    if isinstance(label, bytes):
        return b"b" + label
    if isinstance(label, bool | np.bool_ | numbers.Integral):
        return b"n%d" % int(label)
    if isinstance(label, numbers.Number) and not isinstance(label, complex):
        value = float(label)  # type: ignore[arg-type]
        return b"n%d" % int(value) if value.is_integer() else b"n" + repr(value).encode()
    if isinstance(label, tuple):
        parts = [_encoded(part) for part in label]
        return b"t" + b"".join(b"%d " % len(part) + part for part in parts)
    if isinstance(label, date):
        return b"d" + label.isoformat().encode()
    if type(label).__repr__ is object.__repr__:  # type: ignore[comparison-overlap]
        raise TypeError(f"labels of {type(label)} are not known; give strings, numbers, dates or tuples")
    return f"o{type(label).__qualname__} {label!r}".encode("utf-8", "surrogatepass")
