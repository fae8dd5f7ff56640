"""What kind of points was given: a table, strings or clouds."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy import sparse


def recognise(X: Any) -> Literal["table", "strings", "clouds"]:
    """Tell strings and clouds from tables by the first points; refuse what could be several things.

    Tokens that are numbers are known as strings by their unequal lengths, or by coming as tuples;
    otherwise rows of numbers are a table.
    """
    rows = _points(X)
    if not rows:
        return "table"
    first = next((row for row in rows if not _empty(row)), rows[0])
    if isinstance(first, str | bytes):
        return "strings"
    if isinstance(first, tuple) and len(first) == 2 and _depth(first[0]) > 0:
        return "clouds"  # points and weights
    depth = _depth(first)
    if depth == 0:
        raise ValueError(
            f"row 0 of X is the single value {first!r}: for nodes of a graph give space=Graph(...), "
            "for a table an array of shape (m, n)"
        )
    if depth == 1:
        return "strings" if _tokens(rows, first) else "table"
    return "clouds"


def _points(X: Any) -> list[Any]:
    """The points of a list, Series or array of them; none for tables of numbers."""
    if sparse.issparse(X) or isinstance(X, str | bytes) or not hasattr(X, "__len__"):
        return []
    if hasattr(X, "to_numpy"):
        X = X.to_numpy()
    if isinstance(X, np.ndarray) and X.ndim == 2:
        text = X.shape[1] == 1 and len(X) > 0 and isinstance(X[0, 0], str | bytes)
        return X[:, 0].tolist() if text else []
    try:
        return list(X)
    except TypeError:
        return []


def _depth(point: Any) -> int:
    """0 for a single value, 1 for a row, 2 for rows of rows."""
    if isinstance(point, str | bytes):
        return 0
    if hasattr(point, "ndim"):
        return int(point.ndim)
    if not isinstance(point, list | tuple):
        return 0
    return 1 + (_depth(point[0]) if point else 0)


def _empty(row: Any) -> bool:
    return row.size == 0 if isinstance(row, np.ndarray) else isinstance(row, list | tuple) and not row


def _tokens(rows: list[Any], first: Any) -> bool:
    """Whether rows of single values are sequences of tokens rather than rows of a table."""
    token = first[0]
    if isinstance(token, str | bytes):
        return True
    if not isinstance(token, int | np.integer):
        return False
    lengths = {len(row) for row in rows if hasattr(row, "__len__")}
    if len(lengths) > 1:
        return True
    if isinstance(first, tuple) and len(first) == 2:
        raise ValueError(
            "rows of X are pairs of numbers: give lists for strings of tokens of unequal length, an "
            "array of shape (m, 2) for a table, space=Graph(...) for nodes of a graph"
        )
    return isinstance(first, tuple)
