"""Columns of data frames and arrays: selection, types and values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, time, timedelta
from functools import cached_property, partial
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._repr import listed
from mercer._validation import is_whole, refuse_masked
from mercer.spaces.realisations.tables import as_numbers, as_table, is_missing, take_columns

Array = NDArray[Any]
#: Units of dates: days since 1970, and hours since midnight.
DATES = ("days", "hours")
#: Types of columns of text, in pandas and in polars.
_TEXT = ("str", "string", "String")
#: Names of columns that identify rows, fewest rows to tell that by values, and the share of all whole
#: numbers in their range that such values make up.
_IDENTIFIER = re.compile(r"(^|[_\W])(id|uuid|guid|key|index)$|[a-z]I[dD]$", re.IGNORECASE)
_FEWEST, _DENSE = 20, 0.3
#: Largest number of columns of a data frame that are examined one by one.
_FEW = 4
#: Rows in which the numbers of an identifier must differ before all rows are examined.
_FIRST = 50


def is_frame(X: Any) -> bool:
    """Tell whether X is a data frame."""
    return hasattr(X, "columns") and hasattr(X, "to_numpy") and hasattr(X, "shape")


def is_selector(columns: Any) -> bool:
    """Tell whether columns are chosen by a function, or by an expression of polars."""
    return callable(columns) or hasattr(columns, "meta")


def find(columns: Any, X: Any, name: str) -> tuple[list[Any], list[int], bool]:
    """Names of columns of a data frame, or positions in an array; positions; whether it is one."""
    if callable(columns):
        if not is_frame(X):
            raise ValueError(
                f"a selector of columns needs a data frame, but {name} is not one; give positions"
            )
        columns = _chosen(columns, list(columns(X)), name)
    elif hasattr(columns, "meta"):  # an expression of polars
        if not hasattr(X, "with_columns"):
            raise ValueError(f"{columns!r} selects columns of polars, but {name} is not a polars frame")
        columns = _chosen(columns, X.select(columns).columns, name)
    single = isinstance(columns, str) or is_whole(columns)
    given = [columns] if single else columns
    named = _finder(X, name)
    where = _positions(given, X.shape[1], named, name)
    if not is_frame(X) or (isinstance(given, list) and all(isinstance(c, str) for c in given)):
        return given if is_frame(X) else where, where, single
    names = list(X.columns)
    if not all(isinstance(own, str) for own in names):
        return where, where, single
    found = [names[place] for place in where]
    for own in found:
        named(own)  # refuses a name that several columns have
    return found, where, single


def _chosen(selector: Any, columns: list[Any], name: str) -> list[Any]:
    """What a selector has chosen, which is at least one column."""
    if columns:
        return columns
    shown = repr(selector)
    if callable(selector):  # its options, not its address
        options = getattr(selector, "__dict__", {}).items()
        shown = getattr(selector, "__name__", type(selector).__name__)
        shown += f"({', '.join(f'{key}={value!r}' for key, value in options if value is not None)})"
    raise ValueError(f"the selector {shown} chooses no column of {name}; leave this part out")


def _positions(columns: Any, width: int, named: Callable[[str], int], name: str) -> list[int]:
    if isinstance(columns, slice):
        ends = (columns.start, columns.stop)
        if any(isinstance(end, str) for end in ends):  # both ends count, as in scikit-learn
            first, last = (None if end is None else named(end) for end in ends)
            columns = slice(first, None if last is None else last + 1, columns.step)
        where = list(range(*columns.indices(width)))
    elif isinstance(columns, list | tuple | np.ndarray) or hasattr(columns, "__iter__"):
        given = list(columns)
        if given and all(isinstance(c, bool | np.bool_) for c in given):
            if len(given) != width:
                raise ValueError(
                    f"a mask of {len(given)} columns does not fit {name}, which has {width}"
                )
            where = np.flatnonzero(given).tolist()
        else:
            where = [_position(c, width, named, name) for c in given]
    else:
        raise ValueError(f"columns must be names, positions, a slice or a selector, got {columns!r}")
    if not where or len(set(where)) < len(where):
        problem = "are no columns" if not where else "name a column twice"
        raise ValueError(f"{columns!r} {problem} of {name}; give different ones, at least one")
    return where


def _position(column: Any, width: int, named: Callable[[str], int], name: str) -> int:
    if isinstance(column, str):
        return named(column)
    if not is_whole(column):
        raise ValueError(f"columns must be names, positions, a slice or a selector, got {column!r}")
    if not -width <= column < width:
        raise ValueError(
            f"{name} has {width} columns, and none at position {column} (whole numbers are positions)"
        )
    return int(column) % width


def _finder(X: Any, name: str) -> Callable[[str], int]:
    """A function from names of columns to their positions."""
    if not is_frame(X):
        return partial(_nameless, name)
    locate = X.columns.get_loc if hasattr(X, "iloc") else X.get_column_index

    def named(column: str) -> int:
        try:
            place = locate(column)
        except Exception:  # pandas and polars have their own
            place = None
        if isinstance(place, int):
            return place
        names = list(X.columns)
        if column in names:
            raise ValueError(f"{name} has several columns {column!r}; give them different names")
        raise ValueError(f"{name} has no column {column!r}; its columns are {listed(names, 8)}")

    return named


def _nameless(name: str, column: str) -> int:
    raise ValueError(
        f"column {column!r} is asked for by name, and {name} is a bare array without names "
        "(scikit-learn's Gaussian processes turn data frames into one); give a data frame, or "
        "positions such as On([0, 2], ...)"
    )


@dataclass(frozen=True, eq=False)
class Block:
    """Some columns of a data frame or array, by their positions, with names where they have some.

    ``single`` says that one column was requested, not a list of one.
    """

    rows: Any
    places: list[int]
    keys: list[Any]
    single: bool
    name: str

    @classmethod
    def of(cls, columns: Any, X: Any, name: str) -> Block:
        """The requested columns."""
        refuse_masked(X, name)
        X = as_rows(X, name)
        keys, places, single = find(columns, X, name)
        return cls(X, places, keys, single, name)

    @cached_property
    def numeric(self) -> bool:
        """Whether all columns hold numbers, by their types alone."""
        return all(map(_is_numeric, self._types))

    @cached_property
    def _types(self) -> set[Any]:
        if not is_frame(self.rows) or len(self.places) > _FEW:
            return _types(self.table)
        return {column.dtype for column in self.columns}

    @cached_property
    def table(self) -> Any:
        """The columns as a data frame or array."""
        return _take(self.rows, self.places)

    @cached_property
    def columns(self) -> list[Any]:
        """The columns, one by one."""
        return [_column(self.rows, place) for place in self.places]

    @cached_property
    def kinds(self) -> dict[Any, str]:
        """What each column holds."""
        return {key: holds(column) for key, column in zip(self.keys, self.columns, strict=True)}

    @cached_property
    def is_sparse(self) -> bool:
        """Whether numbers are held in a sparse matrix, or in columns of pandas that store no zeros."""
        if not is_frame(self.rows):
            return bool(sparse.issparse(self.rows))
        return all(getattr(dtype, "fill_value", None) == 0 for dtype in self._types)

    def numbers(self) -> Any:
        """Columns of numbers as an array, NaN where they are missing; sparse if all of them are."""
        if not is_frame(self.rows):
            return as_numbers(self.table, self.name)
        if self.is_sparse:
            return sparse.csr_matrix(self.table.sparse.to_coo())
        kinds = {str(dtype) for dtype in self._types}
        dtype = np.float32 if kinds <= {"float32", "Float32"} else np.float64
        if any(kind.startswith("complex") for kind in kinds):
            self._refuse_values(float, "a real number")
        try:
            if hasattr(self.table, "iloc"):
                return self.table.to_numpy(dtype=dtype, na_value=np.nan)
            return np.asarray(self.table.to_numpy(), dtype=dtype)
        except (TypeError, ValueError):
            self._refuse_values(float, "a real number")
            raise

    def _refuse_values(self, convert: Callable[[Any], Any], what: str) -> None:
        """Raise for a value that cannot be converted, by column and row."""
        for key, column in zip(self.keys, self.columns, strict=True):
            for row, value in enumerate(_values(column)):
                try:
                    convert(value)
                except (TypeError, ValueError):
                    raise ValueError(
                        f"column {key!r} of {self.name} has {value!r} in row {row}, which is not {what}"
                    ) from None

    def objects(self) -> Array:
        """Columns as an array of objects."""
        found = np.empty((len(self.rows), len(self.places)), dtype=object)
        for i, column in enumerate(self.columns):
            found[:, i] = _values(column)
        return found

    def times(self, unit: str) -> Array:
        """Columns of dates as numbers of a unit, NaN where they are missing."""
        found = np.empty((len(self.rows), len(self.places)))
        for i, column in enumerate(self.columns):
            if getattr(column.dtype, "tz", None) is not None:
                column = column.dt.tz_localize(None)  # the time that clocks showed
            elif getattr(column.dtype, "time_zone", None) is not None:
                column = column.dt.replace_time_zone(None)
            try:
                moments = np.array([_moment(v) for v in _values(column)], dtype="datetime64[us]")
            except ValueError:
                self._refuse_values(_moment, "a date such as 2024-03-01 or 2024-03-01T06:30")
                raise
            start = moments.astype("datetime64[D]") if unit == "hours" else np.datetime64("1970-01-01")
            found[:, i] = (moments - start) / np.timedelta64(1, "h" if unit == "hours" else "D")
        return found

    def refuse_missing(self, among: Any = None) -> None:
        """Raise for missing values, by column and row; among some columns only, if a mask is given."""
        if sparse.issparse(self.rows):
            return
        asked = [True] * len(self.keys) if among is None else among
        for key, column, wanted in zip(self.keys, self.columns, asked, strict=True):
            found = _missing(column)
            if wanted and found.any():
                others = int(found.sum()) - 1
                more = f" (and {others} more row{'s' if others > 1 else ''})" if others else ""
                how, which = "SimpleImputer(strategy='constant', fill_value='unknown')", "labels"
                if self.kinds[key] in ("numbers", "dates"):
                    how, which = "make_pipeline(SimpleImputer(), StandardScaler())", "numbers"
                raise ValueError(
                    f"column {key!r} of {self.name} has a missing value in row {int(found.argmax())}"
                    f"{more}; drop such rows or write a value; a kernel of {which} with "
                    f"prepare={how} fills them in itself"
                )

    def refuse_infinite(self, values: Any) -> None:
        """Raise for infinite values among those of the columns, by column and row."""
        found = np.isinf(values) if isinstance(values, np.ndarray) else np.zeros((0, 0))
        if found.any():
            row, place = np.argwhere(found)[0].tolist()
            raise ValueError(
                f"column {self.keys[place]!r} of {self.name} has an infinite value in row {row}; drop "
                "such rows, or write a number"
            )

    def refuse_identifiers(self, labels: bool) -> None:
        """Raise for columns that number the rows or, if they are labels, name them."""
        # Floats are never identifiers, and a table may have many of them.
        if not is_frame(self.rows) or all(map(_is_float, self._types)):
            return
        for place in self._different_at_first():
            key, column = self.keys[place], _column(self.rows, self.places[place])
            if not _is_float(column.dtype) and identifies(column, str(key), labels):
                raise ValueError(
                    f"column {key!r} of {self.name} looks like an identifier: every row has a value of "
                    "its own; leave it out, or convert it to floats if its size means something"
                )

    def _different_at_first(self) -> Iterable[int]:
        """Columns without equal numbers in the first rows: few of a table of counts are."""
        first = np.asarray(self.table.head(_FIRST))
        if first.dtype.kind not in "biuf":
            return range(len(self.keys))
        first = np.sort(first, axis=0)
        return np.flatnonzero((first[1:] != first[:-1]).all(axis=0)).tolist()


def _take(X: Any, places: list[int]) -> Any:
    """Some columns, as a data frame or array."""
    if not is_frame(X):
        return take_columns(X.tocsr() if sparse.issparse(X) else X, places)
    # In pandas, selection by position takes a fifth of the time of selection by name.
    return X.take(places, axis=1) if hasattr(X, "iloc") else X[:, places]


def _column(X: Any, place: int) -> Any:
    """One column of a data frame or array."""
    if hasattr(X, "iloc"):
        return X.iloc[:, place]
    return X.to_series(place) if is_frame(X) else X[:, place]


def as_rows(X: Any, name: str) -> Any:
    """Rows with columns: data frames and arrays as they are, lists of rows as an array of objects."""
    if is_frame(X) or sparse.issparse(X) or hasattr(X, "ndim"):
        if len(X.shape) != 2:
            raise ValueError(f"{name} of shape {tuple(X.shape)} has no columns; give a data frame")
        return X
    return as_table(X, name)


def all_numbers(X: Any) -> bool:
    """Tell by the types alone whether all columns hold numbers."""
    return all(map(_is_numeric, _types(X)))


def _types(X: Any) -> set[Any]:
    return set(X.dtypes) if is_frame(X) else {X.dtype}


def _is_numeric(dtype: Any) -> bool:
    if hasattr(dtype, "is_numeric"):  # polars
        return bool(dtype.is_numeric())
    return getattr(dtype, "kind", "f") in "biuf"  # tensors say nothing


def _is_float(dtype: Any) -> bool:
    if hasattr(dtype, "is_float"):  # polars
        return bool(dtype.is_float())
    return getattr(dtype, "kind", "O") == "f"


def holds(column: Any) -> str:
    """What a column holds: "numbers", "dates", "text" or "objects"."""
    dtype = column.dtype
    if hasattr(dtype, "is_temporal"):  # polars
        if dtype.is_temporal():
            return "dates"
        kind = "f" if dtype.is_numeric() or str(dtype) == "Boolean" else "O"
    else:
        kind = "M" if str(dtype).startswith("period") else getattr(dtype, "kind", "O")
    if str(dtype) in _TEXT:
        return "text"
    if kind in "biufcmM":
        return "dates" if kind in "mM" else "numbers"
    first = next((value for value in _values(column) if not is_missing(value)), None)
    if isinstance(first, date | time | timedelta | np.datetime64 | np.timedelta64):
        return "dates"
    if isinstance(first, str | bytes):
        return "text"
    return "numbers" if isinstance(first, Number | np.bool_) else "objects"


def _values(column: Any) -> Array:
    """The values of a column as objects."""
    if hasattr(column, "to_numpy"):
        column = column.to_numpy()
    return np.asarray(column, dtype=object)


def _moment(value: Any) -> Any:
    """A date, or a time of day or duration after the first moment of 1970."""
    if is_missing(value):
        return np.datetime64("NaT")
    if isinstance(value, time):
        return np.datetime64(f"1970-01-01T{value.replace(tzinfo=None)}")
    if isinstance(value, timedelta | np.timedelta64):
        return np.datetime64(0, "us") + np.timedelta64(value)
    return np.datetime64(value, "ns") if is_whole(value) else np.datetime64(value)


def _missing(column: Any) -> Array:
    if hasattr(column, "isna"):
        return np.asarray(column.isna())
    if hasattr(column, "is_null"):  # polars tells null from NaN
        if not column.dtype.is_float():
            return np.asarray(column.is_null()) if column.null_count() else np.zeros(1)
        nan = np.asarray(column.is_nan().fill_null(False))
        return np.asarray(column.is_null()) | nan
    values = np.asarray(column)
    if values.dtype.kind in "fmM":
        return values != values
    return np.array([is_missing(value) for value in values]) if values.dtype.kind == "O" else np.zeros(1)


def identifies(column: Any, name: str, labels: bool) -> bool:
    """Tell whether a column of whole numbers or, if they are labels, of text names the rows."""
    kind = holds(column)
    if kind not in ("numbers", "text") or (kind == "text" and not labels):
        return False
    values = _values(column)
    whole = kind == "numbers" and all(is_whole(value) for value in values)
    if len(values) < 2 or not (whole or kind == "text"):
        return False
    if len(set(values.tolist())) < len(values):
        return False
    if _IDENTIFIER.search(name):
        return True
    if len(values) < _FEWEST:
        return False
    return not whole or len(values) >= _DENSE * (int(max(values)) - int(min(values)) + 1)
