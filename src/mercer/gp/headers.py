"""Names of the columns of blocks, which must go together."""

from __future__ import annotations

from typing import Any

import pandas as pd
from sklearn.utils.validation import _get_feature_names

Labels = list[Any] | None


def column_labels(table: Any, what: str) -> Labels:
    """What the columns of a data frame are called; None if they have no names but their places."""
    try:
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
    """For messages: a column of a data frame that cannot be taken for numbers, if there is one."""
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


def _text(found: Labels) -> str:
    return "no names of columns" if found is None else f"the columns {', '.join(map(str, found))}"
