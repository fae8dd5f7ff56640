"""Columns of sources of rows: their roles, names and permitted values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    _check_y,
    _get_feature_names,
    check_consistent_length,
    validate_data,
)

from mercer._arrays import finite_rows, on_cpu, selectable
from mercer._validation import as_rows, refuse_masked, refuse_no_numbers, refuse_rows
from mercer.engine import engine_for

Labels = list[Any] | None


@dataclass(frozen=True, eq=False)
class ColumnCheck:
    """Learns or checks the names and the number of columns of an estimator.

    Parameters
    ----------
    estimator : BaseEstimator
    reset : bool
        Learn them, rather than compare with those learnt before.
    options : dict
        Options of scikit-learn's ``validate_data``, for arrays.
    vectors : bool
        Whether rows are vectors of numbers; otherwise each is one object, such as a node's label.
    opaque : bool
        Whether points are of any kind, and left to the kernel.
    """

    estimator: Any
    reset: bool = True
    options: dict[str, Any] = field(default_factory=dict)
    vectors: bool = True
    opaque: bool = False

    def arrays(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Rows and targets in memory, checked as a whole."""
        here = self._resident(X)
        if here is None:
            rows, targets = self._validated(on_cpu(X), y=_finite_targets(y), **self.options)
            return self._finite(rows), targets
        y = _check_y(_finite_targets(y), estimator=self.estimator, **self.options)
        check_consistent_length(here, y)
        return here, y

    def points(self, X: Any) -> Any:
        """Rows without targets, in memory."""
        here = self._resident(X)
        return self._finite(self._validated(on_cpu(X))) if here is None else here

    def _finite(self, X: Any) -> Any:
        """Rows of finite numbers, or raise; objects are left alone."""
        if self.vectors:
            refuse_rows(~finite_rows(X), "X", "contains NaN or infinity; drop or impute such rows")
        return X

    def _resident(self, X: Any) -> Any:
        """Points that are used where they are, checked as a whole; None if X has to be converted."""
        if self.opaque:
            _refuse_equal_names(X)
            if getattr(X, "ndim", 1) == 2 and not hasattr(X, "columns"):
                self.frame(X)
            return columns_by_name(self.estimator, X, self.reset)
        here = engine_for(X).resident(X) if self.vectors else None
        if here is None:
            return None
        here = as_rows(here, "X")
        self.frame(here)
        return self._finite(here)

    def _validated(self, X: Any, **options: Any) -> Any:
        _refuse_equal_names(X)
        if self.vectors:
            refuse_no_numbers(X, "X")
        else:
            X = _column(X)
        usual: dict[str, Any] = {"accept_sparse": "csr", "dtype": "numeric" if self.vectors else None}
        usual["ensure_all_finite"] = not self.vectors  # numbers are looked at by row
        return validate_data(self.estimator, X, reset=self.reset, **usual | options)

    def frame(self, empty: Any) -> None:
        """Names and number of columns of a table without rows."""
        _check_feature_names(self.estimator, empty, reset=self.reset)
        _check_n_features(self.estimator, empty, reset=self.reset)

    @property
    def known(self) -> Labels:
        """Names that were learnt before; None if there are none."""
        found = None if self.reset else getattr(self.estimator, "feature_names_in_", None)
        return None if found is None else list(found)

    def names(self, names: Sequence[str] | None) -> None:
        """Names of the columns of blocks; None if they have none."""
        if names is None:
            return
        known = list(getattr(self.estimator, "feature_names_in_", names))
        if self.reset:
            self.estimator.feature_names_in_ = np.asarray(names, dtype=object)
        elif list(names) != known and not (self.opaque and set(known) <= set(names)):
            raise ValueError(
                f"the columns of X are {', '.join(names)}; in earlier rows they were "
                f"{', '.join(known)}, in this order"
            )


def columns_by_name(estimator: Any, X: Any, reset: bool) -> Any:
    """A data frame for a kernel of whole tables, with the columns of the fit in their order.

    Columns are found by name, in any order and among others.  Missing columns are left to the kernel,
    which knows whether it needs them.  Sparse matrices become CSR, and other points are returned
    unchanged.
    """
    X = selectable(X)
    names = list(X.columns) if hasattr(X, "columns") else []
    named = bool(names) and all(isinstance(name, str) for name in names)
    if reset:
        vars(estimator).pop("feature_names_in_", None)
        if named:
            estimator.feature_names_in_ = np.asarray(names, dtype=object)
            estimator.n_features_in_ = len(names)
    known = getattr(estimator, "feature_names_in_", None)
    return X if known is None or not named else in_order(X, list(known))


def in_order(X: Any, known: list[Any]) -> Any:
    """The known columns of a data frame, in their order; all of X if one is missing."""
    names = list(X.columns)
    return X[known] if names != known and set(known) <= set(names) else X


def _column(X: Any) -> Any:
    """Objects of any kind as an array of one column."""
    if getattr(X, "ndim", 1) != 1:
        return X
    if all(isinstance(one, Number) for one in X):
        return np.asarray(X)[:, None]
    found = np.empty((len(X), 1), dtype=object)
    for i, one in enumerate(X):  # NumPy would make a matrix of tuples
        found[i, 0] = one
    return found


@dataclass(frozen=True)
class Roles:
    """Names of columns by what they are for."""

    points: list[str]
    targets: list[str]
    weights: list[str]

    @classmethod
    def of(
        cls,
        file: Path,
        names: list[str],
        target: str | Sequence[str],
        columns: Sequence[str] | None,
        weight: str | None,
    ) -> Roles:
        """The columns that were asked for; points are by default all that are left in the file."""
        targets = [target] if isinstance(target, str) else list(target)
        weights = [] if weight is None else [weight]
        if not targets:
            raise ValueError("target is empty; name a column to predict")
        if isinstance(columns, str):
            raise ValueError(f"columns must be a list of names, got {columns!r}; give [{columns!r}]")
        if columns is not None:
            points = list(columns)
            if not points:
                raise ValueError(
                    "columns is empty; name the columns to predict from, or None for all that are left"
                )
        else:
            # pandas writes the index of rows as a column, and takes it for no column when it reads.
            present = [c for c in names if not c.startswith("__index_level_")]
            points = [c for c in present if c not in (*targets, *weights)]
            if not points:
                raise ValueError(f"{file} has no column to predict from besides {', '.join(present)}")
        named = [*points, *targets]
        twice = [name for name in named if named.count(name) > 1]
        if twice:
            raise ValueError(
                f"the column {twice[0]!r} is named twice in columns and target; name it once"
            )
        return cls(points, targets, weights)

    @property
    def all(self) -> list[str]:
        """All of them."""
        return [*self.points, *self.targets, *self.weights]

    def check(self, file: Path, schema: Any, opaque: bool = False) -> None:
        """Refuse a file that lacks a column, or has text or dates where numbers are needed.

        Columns of ``opaque`` points are left to the kernel.
        """
        from pyarrow import types

        for name in self.all:
            count = schema.names.count(name)
            if count != 1:
                raise ValueError(f"{file} has {count or 'no'} column{'s' * (count > 1)} {name!r}")
        # One target may also be labels.
        labels = self.targets if len(self.targets) == 1 else []
        for name in [*self.targets, *self.weights] if opaque else self.all:
            kind = schema.field(name).type
            if not (_is_number(kind) or (name in labels and not types.is_nested(kind))):
                raise ValueError(
                    f"column {name!r} of {file} holds {kind}, not numbers; encode it, or name the "
                    "columns to use without it"
                )


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    # A column of nothing but nulls has a type of its own; its rows are refused as missing.
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(kind) for test in tests)


def column_labels(table: Any, what: str) -> Labels:
    """Names of the columns of a data frame; None if they are only numbered."""
    try:
        _refuse_equal_names(table)
        names = _get_feature_names(table)
    except (ValueError, TypeError) as error:  # a name twice, or names of several kinds
        raise ValueError(f"{what}: {error}") from None
    if names is not None:
        return list(names)
    if not isinstance(table, pd.DataFrame):
        return None
    found: list[Any] = table.columns.tolist()
    return None if found == list(range(len(found))) else found


def column_without_numbers(table: Any) -> str:
    """For messages: a column of a data frame that is not numeric, if there is one."""
    if isinstance(table, pd.DataFrame):
        for name, column in table.items():
            # pandas takes dates for numbers of nanoseconds; what is missing is another error.
            lost = pd.to_numeric(column, errors="coerce").isna() & column.notna()
            if column.dtype.kind in "mM" or lost.any():
                return f"column {name!r} holds {column.dtype}, not numbers: "
    return ""


def check_labels(first: Labels, here: Labels, what: str) -> None:
    """Refuse a block whose columns are not those of the first one, in the same order."""
    if here == first:
        return
    raise ValueError(
        f"{what} has {_text(here)}, but {_text(first)} in the first block; give the same columns in the "
        "same order in every block, or arrays in every block"
    )


def _finite_targets(y: Any) -> Any:
    """Targets in main memory; raise for the first row that is not finite."""
    if sparse.issparse(y):
        raise ValueError("y is sparse; give an array: toarray()")
    refuse_masked(y, "y")
    y = on_cpu(y)
    values = np.asarray(y)
    if values.dtype.kind == "f" and values.size and values.ndim:
        wrong = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
        if len(wrong):
            raise ValueError(
                f"Input y contains NaN or infinity, first in row {wrong[0]}; drop or impute such rows"
            )
    return y


def check_width(first: Any, here: Any, what: str) -> None:
    """Refuse a block with another number of columns than the first one."""
    widths = [int(X.shape[1]) for X in (first, here) if getattr(X, "ndim", 1) == 2]
    if len(set(widths)) > 1:
        raise ValueError(f"{what} has {widths[1]} columns, but {widths[0]} in the first block")


def _text(found: Labels) -> str:
    return "no names of columns" if found is None else f"the columns {', '.join(map(str, found))}"


def _refuse_equal_names(X: Any) -> None:
    """Refuse data frames with two columns of the same name, which older scikit-learn accepts."""
    names = list(X.columns) if hasattr(X, "columns") else []
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"expected unique column names, but {twice!r} appears twice")
