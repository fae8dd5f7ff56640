"""Names of the columns of blocks, which must go together."""

from __future__ import annotations

from typing import Any

import pandas as pd
from sklearn.utils.validation import _get_feature_names

Labels = list[Any] | None


def labels(table: Any) -> Labels:
    """What the columns of a data frame are called; None if they have no names but their places."""
    names = _get_feature_names(table)
    if names is not None:
        return list(names)
    if not isinstance(table, pd.DataFrame):
        return None
    found: list[Any] = table.columns.tolist()
    return None if found == list(range(len(found))) else found


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
