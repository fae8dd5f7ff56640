"""Columns, words, substrings or neighbours that drive the predictions of the best kernel."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any

import pandas as pd

from mercer._arrays import taken
from mercer.explain import Explanation, explain, importance
from mercer.explain.importance import ShuffleRefused
from mercer.report import points
from mercer.report.labels import clip
from mercer.selection import Comparison

#: Points that are explained, largest number of classes, features of each, and letters of a name.
_POINTS, _CLASSES, _FEATURES, _LETTERS = 200, 20, 8, 60
#: Largest number of columns that are shuffled one by one.
_COLUMNS = 30
#: What features are called in the plural.
_PLURALS = {"column": "columns", "word": "words", "label": "labels"} | {
    "substring": "substrings", "neighbour": "neighbours", "subsequence": "subsequences",
    "axis": "axes",
}  # fmt: skip


@dataclass(frozen=True)
class Bar:
    """A line of a bar chart: a name, a number as text, and its length in percent of the longest."""

    name: str
    value: str
    length: float


@dataclass(frozen=True)
class Drivers:
    """Charts of features for each class or output, of columns, and of blocks of columns.

    Tables with few columns have a chart of the loss of score without each column, and a chart of
    features only if contributions are exact.
    """

    what: str
    points: int
    charts: list[tuple[str, list[Bar]]]
    exact: bool
    columns: list[Bar]
    blocks: list[Bar]


def drivers(comparison: Comparison, nodes: tuple[str, ...] = ()) -> Drivers | None:
    """What the best model relies on; None if it cannot be explained.

    Nodes of a graph are shown by their names, if these are given.
    """
    rows = points.choose(comparison)[:_POINTS]
    X, y = taken(comparison.data.X, rows), comparison.target.y[rows]
    model = comparison.scores[0].search.best_estimator_
    if len(comparison.classes) > _CLASSES:
        return None
    try:
        found = explain(model, X)
    except TypeError:  # not a sum over training points
        return None
    columns = _columns(comparison, model, X, y)
    if not (columns or found.tells_columns):
        return None
    number = "contribution" if comparison.classes else "size"
    losses = _losses_of_blocks(comparison, model, found, X, y)
    frame = _contributions(found, number, only_exact=bool(columns), idle=_idle(losses))
    if not (columns or len(frame)):
        return None
    names = {"column": comparison.columns, "neighbour": nodes}
    named = zip(frame["kind"], frame["name"], strict=True)
    frame = frame.assign(name=[_named(names.get(kind, ()), name) for kind, name in named])
    charts = [
        (clip(str(output), _LETTERS), _bars(own["name"], own[number], [f"{v:.3g}" for v in own[number]]))
        for output, own in frame.groupby("output", sort=False)
    ]
    what = " and ".join(_PLURALS[kind] for kind in dict.fromkeys(frame["kind"]))
    blocks = _losses(losses)
    return Drivers(what, len(rows), charts, bool(frame["exact"].all()), columns, blocks)


def _contributions(found: Explanation, number: str, only_exact: bool, idle: set[str]) -> pd.DataFrame:
    """The largest mean contributions to each output, without idle parts of the kernel."""
    if not found.tells_columns:
        return pd.DataFrame(columns=["output", "kind", "name", "exact", number])
    frame = found.typical(top=sys.maxsize if only_exact or idle else _FEATURES)
    frame = frame[(frame[number] > 0) & (frame["exact"] | (not only_exact)) & ~frame["part"].isin(idle)]
    return frame.groupby("output", sort=False).head(_FEATURES)


def _columns(comparison: Comparison, model: Any, X: Any, y: Any) -> list[Bar]:
    """Importance of the columns of a table; empty if there are many, or they cannot be shuffled."""
    shape: tuple[int, ...] = getattr(X, "shape", ())
    if len(shape) != 2 or shape[1] > _COLUMNS:
        return []
    keys = list(getattr(X, "columns", range(shape[1])))
    blocks = {str(j): [key] for j, key in enumerate(keys)}
    try:
        frame = importance(model, X, y, blocks=blocks, random_state=comparison.random_state)
    except ShuffleRefused:  # rows leave the space, such as rotations or counts that are all zero
        return []
    named = hasattr(X, "columns")
    names = [str(keys[int(j)]) if named else _named(comparison.columns, j) for j in frame["block"]]
    return _losses(frame.assign(block=names).head(_FEATURES))


def _losses_of_blocks(
    comparison: Comparison, model: Any, found: Explanation, X: Any, y: Any
) -> pd.DataFrame:
    """Importance of the parts of a table; empty if there is only one."""
    if len(found.blocks) < 2:
        return pd.DataFrame(columns=["block", "importance", "standard_error"])
    return importance(model, X, y, random_state=comparison.random_state)


def _idle(losses: pd.DataFrame) -> set[str]:
    """Parts without which the score is the same, within twice the standard error."""
    return set(losses["block"][losses["importance"] <= 2 * losses["standard_error"]])


def _losses(frame: pd.DataFrame) -> list[Bar]:
    pairs = zip(frame["importance"], frame["standard_error"], strict=True)
    return _bars(frame["block"], frame["importance"], [_with_error(v, e) for v, e in pairs])


def _with_error(value: float, error: float) -> str:
    """A number with as many digits as its standard error allows."""
    digits = max(2, -math.floor(math.log10(error))) if error > 0 else 2
    return f"{value:.{digits}f} ± {error:.{digits}f}"


def _named(names: tuple[str, ...], name: str) -> str:
    """The name of a feature; columns of arrays and nodes have positions."""
    return names[int(name)] if name.isdecimal() and int(name) < len(names) else name


def _bars(names: Any, values: Any, texts: list[str]) -> list[Bar]:
    longest = max(max(values, default=0.0), 1e-300)
    return [
        Bar(clip(str(name), _LETTERS), text, round(100 * max(value, 0.0) / longest, 1))
        for name, value, text in zip(names, values, texts, strict=True)
    ]
