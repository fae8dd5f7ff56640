"""Tables whose columns are of several kinds."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer

from mercer._validation import LARGEST
from mercer.datasets import Table, read_mixed
from mercer.datasets.tables import check_column, has_columns, numbers_of, read_table
from mercer.kernels import MultipleKernel
from mercer.kernels.tables.frames import all_numbers, is_frame
from mercer.selection.kinds.base import Candidates, ColumnRoles, Kind
from mercer.selection.kinds.blocks import Variant, blocks, products, total
from mercer.selection.kinds.columns import LEFT_OUT, Column, recognised
from mercer.selection.scales import Template

if TYPE_CHECKING:
    from mercer.selection.models import SavedModel

#: Median similarities of all parts of a sum.
_TOGETHER = (0.3, 0.8)
#: Rows above which parameters are chosen on some rows only, and how many these are.
_MANY, _TRIED = 2000, 1000
#: The label of missing labels.
_MISSING = "(missing)"
#: What missing values are taken as, by the kind of column.
_FILLED = {
    "number": "the median of {rows}",
    "date": "the median of {rows}",
    "category": "a label of their own",
    "text": "documents without words",
}
#: Words for a table with one kind of column.
_ONE_KIND = {
    "plain_word": "flat",
    "rich_word": "geometric",
    "subject": "Geometry",
    "contrast": "which see the rows as they are",
}
#: Kinds of columns that hold numbers.
_NUMBERS = ("number", "counts", "coordinate")
#: Characters of a row that a report shows.
_SHOWN = 60
#: Names of kinds of columns in sentences, where they are others.
_SINGULARS = {"category": "label", "counts": "count"}


class Mixed(Kind):
    """Data frames with columns of several kinds, each with a kernel of its own."""

    name, noun, variable = "mixed", "rows", "table"
    form = "a data frame"
    subject, these = "Combining columns", "this table"
    contrast = "which see the columns of one kind only"
    own_options = ("as", "words", "ngrams", "min_documents")
    settings = ("ngrams", "min_documents")
    shared_options = ("drop", "groups")
    reader = "read_mixed"

    def recognises(self, X: Any) -> bool:
        """Recognise data frames but those of numbers without gaps, and single columns but strings."""
        if not is_frame(X):
            return False
        if X.shape[1] == 1:  # one number has no direction and no proportions
            return recognised(as_pandas(X))[0].kind != "string"
        return not all_numbers(X) or bool(as_pandas(X).isna().any(axis=None))

    def candidates(
        self, X: Any, space: Any = "auto", columns: Mapping[str, Any] | None = None
    ) -> Candidates:
        """See :class:`Kind`; columns gives the kinds of some columns, see :func:`recognised`."""
        if not is_frame(X):
            raise ValueError("columns have kinds only in a data frame, and X is not one")
        frame, found, used = recognised_table(X, columns)
        if not used:
            reasons = "; ".join(f"{c.name!r} is left out: {c.why}" for c in found[:3])
            raise ValueError(f"no column is left to compare ({reasons}); name its kind (columns=, --as)")
        own = blocks(frame, used)
        if len(own) == 1:  # its kernels are rivals
            (variants,) = own.values()
            families = {variant.name: [variant.template] for variant in variants}
            plain = tuple(variant.name for variant in variants if variant.plain)
            words = _ONE_KIND
        else:
            families = _combined(own)
            plain = tuple(name for name in families if name not in _TOGETHER_NAMES)
            words = {"plain_word": "single-kind", "rich_word": "combined"}
        facts = f"{len(used)} column{'s' if len(used) > 1 else ''}"
        return Candidates(
            self, taken_as(used), facts, frame, len(frame), families, plain, **words,
            columns=len(used), notes=(*notes(found), *_without(found, used), *_sampling(len(frame))),
            taken=tuple(found), max_rows=_TRIED if len(frame) > _MANY else None,
        )  # fmt: skip

    def families(self, X: Any) -> dict[str, list[Template]]:
        """Families for a search, without weights, which are for comparisons."""
        found = super().families(X)
        return {name: own for name, own in found.items() if name != WEIGHTED}

    def labels(self, X: Any, rows: Sequence[int]) -> list[str]:
        """Rows, with the beginnings of their values."""
        values = [", ".join(map(str, row)) for row in X.iloc[:, :6].itertuples(index=False)]
        return [f"row {row}: {text[:_SHOWN]}" for row, text in zip(rows, values, strict=True)]

    def read(self, path: str | Path, roles: ColumnRoles, model: SavedModel | None = None) -> Table:
        """Read all columns; without a model, numbers alone are a table of numbers."""
        target, drop, group = roles.get("target"), roles.get("drop", ()), roles.get("groups")
        given = [name for name in self.own_options if name in roles]
        if model is None and not given and not has_columns(path):
            return read_table(path, target, drop, group)
        table = read_mixed(path, target, drop, group, labelled=model is None)
        table = documents_alone(path, table, roles)
        if model is None and not given and not self.recognises(table.X):
            return replace(table, X=numbers_of(Path(path), table.X))
        return table

    def from_frame(self, frame: Any, model: SavedModel) -> Any:
        """The frame, with the types of columns that the model was fitted to."""
        return typed(as_pandas(frame), kinds_given(model.roles))


#: Families of all kinds together; the weights of the second are learnt from targets.
SUM, WEIGHTED, PRODUCTS = "sum of all", "weighted sum of all", "sums and products"
_TOGETHER_NAMES = (SUM, WEIGHTED, PRODUCTS)


@contextmanager
def empty_documents() -> Iterator[None]:
    """Suppress the warnings about documents without words in each training part."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* taken as uniform")
        yield


def documents_alone(
    path: str | Path, table: Table, roles: ColumnRoles, kept: tuple[str, ...] = ()
) -> Table:
    """The table with the column of documents that ``--words`` names, and columns to be kept."""
    if "words" not in roles:
        return table
    if not is_frame(table.X):
        raise ValueError(f"{Path(path).name} has no column of documents; leave out --words")
    names = (*kept, check_column(Path(path), table.X, roles["words"]))
    return replace(table, X=table.X[list(names)], columns=names)


def recognised_table(
    X: Any, columns: Mapping[str, Any] | None
) -> tuple[pd.DataFrame, list[Column], list[Column]]:
    """The columns that are used, with the types of their kinds; all columns, and those that are used."""
    frame = as_pandas(X)
    found = recognised(frame, columns)
    used = [column for column in found if column.kind not in LEFT_OUT]
    frame = typed(frame[[column.name for column in used]], {c.name: c.kind for c in used})
    return frame, found, used


def kinds_given(roles: ColumnRoles) -> dict[str, Any]:
    """Kinds of columns by name, of options such as ``age=number``."""
    found: dict[str, Any] = {}
    for option in roles.get("as", ()):
        name, mark, kind = option.rpartition("=")
        if not mark:
            raise ValueError(f"--as takes COLUMN=KIND, such as --as age=number, got {option!r}")
        found[name] = kind
    return found


def column_kinds(roles: ColumnRoles, table: Table) -> dict[str, Any] | None:
    """Kinds of columns from the options of the command, for :func:`mercer.selection.compare`."""
    found = kinds_given(roles)
    if "words" in roles:
        found[roles["words"]] = "text"
    options = {"ngram_range": (1, roles.get("ngrams", 1)), "min_df": roles.get("min_documents", 1)}
    if options != {"ngram_range": (1, 1), "min_df": 1} and is_frame(table.X):
        kinds = recognised(as_pandas(table.X), found)
        found |= {c.name: CountVectorizer(**options) for c in kinds if c.kind == "text"}
    return found or None


def typed(frame: Any, kinds: Mapping[str, str]) -> pd.DataFrame:
    """A frame whose columns have the types of their kinds.

    Dates are local times without a time zone.  A missing text is an empty one, a missing label a label
    of its own.  Labels are text: in another table, without "X" or with a missing value, the labels "1",
    "2" and "X" would be read as numbers.
    """
    _refuse_large(frame[[name for name, k in kinds.items() if k in _NUMBERS and name in frame.columns]])
    changed = {}
    for name, kind in kinds.items():
        if name not in frame.columns:
            continue  # the kernel that needs it says so
        column = frame[name]
        if kind == "date":
            changed[name] = _moments(column, name)
        elif kind in _NUMBERS and not pd.api.types.is_numeric_dtype(column.dtype):
            _refuse_others(column, pd.to_numeric(column, errors="coerce"), "a number")
        elif kind == "text":
            changed[name] = column.astype(object).where(column.notna(), "").map(str)
        elif kind == "category":
            labels = column.astype(str if column.dtype.kind == "M" else object).astype(object)
            changed[name] = labels.map(label_text).where(column.notna(), _MISSING)
        elif kind == "string" and column.isna().any():
            row = int(column.isna().argmax())
            raise ValueError(f"column {name!r} has no string in row {row}; drop such rows or the column")
    # A copy of all columns at once is faster to index than one of many blocks.
    return frame.assign(**changed).copy()


def _refuse_large(numbers: pd.DataFrame) -> None:
    """Raise for infinite numbers, and for those whose squares may overflow, by column and row."""
    numbers = numbers.select_dtypes("number")
    large = np.abs(numbers.to_numpy(dtype=float, na_value=np.nan)) > LARGEST
    if large.any():
        row, place = np.argwhere(large)[0]
        value = numbers.iloc[row, place]
        what, remedy = ("an infinite value", "drop or replace it")
        if np.isfinite(value):
            what, remedy = f"the value {value:.3g}", "rescale the column"
        raise ValueError(f"column {numbers.columns[place]!r} has {what} in row {row}; {remedy}")


def label_text(value: Any) -> str:
    """A label as text, whole numbers without decimals."""
    return str(int(value) if isinstance(value, float | np.floating) and value.is_integer() else value)


def _moments(column: Any, name: str) -> Any:
    try:
        moments = pd.to_datetime(column, format=None if column.dtype.kind == "M" else "ISO8601")
    except (ValueError, TypeError) as error:
        found = pd.to_datetime(column, format="ISO8601", errors="coerce", utc=True)
        _refuse_others(column, found, "a date such as 2024-03-01")
        raise ValueError(f"column {name!r} holds no dates: {error}") from None
    return moments if moments.dt.tz is None else moments.dt.tz_localize(None)


def _refuse_others(column: Any, found: Any, what: str) -> None:
    """Raise for the first value that could not be converted."""
    wrong = np.asarray(column.notna() & found.isna())
    if wrong.any():
        row = int(wrong.argmax())
        value = str(column.iloc[row])
        raise ValueError(f"column {column.name!r} has {value!r} in row {row}, which is not {what}")


def as_pandas(X: Any) -> pd.DataFrame:
    """A data frame of pandas with names that are text, its rows numbered, and numbers as such."""
    names = [str(name) for name in X.columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"X has several columns {twice!r}; give them different names")
    if isinstance(X, pd.DataFrame):
        frame = X.set_axis(names, axis=1).reset_index(drop=True).infer_objects()
    else:
        frame = pd.DataFrame({name: X[name].to_numpy() for name in X.columns}).infer_objects()
    for place in [place for place, dtype in enumerate(frame.dtypes) if dtype.kind == "O"]:
        column: Any = frame.iloc[:, place]
        if pd.api.types.infer_dtype(column, skipna=True) == "decimal":  # of a database
            frame.isetitem(place, column.astype(float))
    return frame


def _combined(own: dict[str, list[Variant]]) -> dict[str, list[Template]]:
    """Each kind alone, with all its kernels, and all kinds together."""
    families = {
        f"{name} alone": [variant.template for variant in variants if not variant.alone]
        for name, variants in own.items()
    }
    parts = tuple(chain.from_iterable(variants[0].parts for variants in own.values()))
    return {
        **families,
        SUM: [Template(total(parts), _TOGETHER)],
        WEIGHTED: [Template(MultipleKernel(list(parts)), _TOGETHER)],
        PRODUCTS: [
            Template(products([total(variants[0].parts) for variants in own.values()]), _TOGETHER)
        ],
    }


def taken_as(used: list[Column]) -> str:
    """How many columns there are of each kind, in words."""
    counts: dict[str, int] = {}
    for column in used:
        counts[column.kind] = counts.get(column.kind, 0) + 1
    names = {kind: _SINGULARS.get(kind, kind) for kind in counts}
    return ", ".join(f"{n} {names[kind]}{'s' if n > 1 else ''}" for kind, n in counts.items())


def notes(found: list[Column], rows: str = "the training rows") -> tuple[str, ...]:
    """What was left out, and what was filled in by medians of some rows."""
    notes = []
    for kind in LEFT_OUT:
        own = [repr(column.name) for column in found if column.kind == kind]
        if own:
            notes.append(f"left out as {kind}: {', '.join(own)}")
    for kind, filled in _FILLED.items():
        own = [f"{c.missing} in {c.name!r}" for c in found if c.kind == kind and c.missing]
        if own:
            notes.append(f"missing values ({', '.join(own)}) are taken as {filled.format(rows=rows)}")
    return tuple(notes)


def _without(found: list[Column], used: list[Column]) -> tuple[str, ...]:
    """How to compare numbers beside columns that are left out as a table of numbers."""
    left = [repr(column.name) for column in found if column.kind in LEFT_OUT]
    numbers = {column.kind for column in used} in ({"number"}, {"counts"})
    if not left or not numbers or any(column.missing for column in used):
        return ()
    return (f"a table of numbers has more kernels to compare: for one, drop {', '.join(left)} (--drop)",)


def _sampling(rows: int) -> tuple[str, ...]:
    if rows <= _MANY:
        return ()
    note = f"parameters were chosen on {_TRIED} of {rows} rows; scores are of machines fitted to all "
    return (f"{note}training rows",)
