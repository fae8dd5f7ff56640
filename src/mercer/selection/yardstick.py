"""Gradient boosting on the same folds: a yardstick other than kernels for tables of several kinds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import get_scorer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder

from mercer._progress import Report
from mercer.selection.fits import Split
from mercer.selection.kinds.columns import Column
from mercer.selection.significance import corrected_interval, cut_off
from mercer.selection.target import Target

#: Largest number of words of a text or substrings of a string, and of labels of a column, that trees
#: see.
_WORDS, _LABELS = 100, 250
#: A leaf has at least this many rows or, in small tables, one in this many of all rows.
_LEAF, _SHARE = 20, 50
#: Most bins of scikit-learn's trees.
_BINS = 255
YARDSTICK = "gradient boosting"


@dataclass(frozen=True, eq=False)
class Yardstick:
    """Scores of a model that is not a kernel machine, on the folds of a comparison."""

    name: str
    metric: str
    scores: NDArray[np.float64]
    overlap: float
    seconds: float

    @property
    def mean(self) -> float:
        """Mean over the outer folds."""
        return float(self.scores.mean())

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the mean, cut off at 1 and, for accuracies, at 0."""
        return cut_off(corrected_interval(self.scores, self.overlap), self.metric)


def boosting(X: Any, columns: Sequence[Column], target: Target, metric: str) -> Pipeline:
    """Histogram gradient boosting with scikit-learn's settings, and smaller leaves for few rows.

    There are no more bins than values, which changes nothing: bins take time even if they are empty.

    Labels are categories, dates days and hours, texts the tf-idf of their 100 most frequent words, and
    strings that of their 100 most frequent substrings of one to three letters.
    """
    own: dict[str, list[str]] = {}
    for column in columns:
        own.setdefault(column.kind, []).append(column.name)
    labels = make_pipeline(
        FunctionTransformer(_texts),  # labels of several types cannot be sorted
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan, max_categories=_LABELS),
    )
    parts: list[tuple[str, Any, Any]] = [("labels", labels, own.get("category", []))]
    numbers = [name for kind in ("number", "counts", "coordinate") for name in own.get(kind, [])]
    parts.append(("numbers", "passthrough", numbers))
    parts.append(("dates", FunctionTransformer(_moments), own.get("date", [])))
    for name in own.get("text", []):
        parts.append((f"words of {name}", TfidfVectorizer(max_features=_WORDS, sublinear_tf=True), name))
    for name in own.get("string", []):
        letters = TfidfVectorizer(
            analyzer="char", ngram_range=(1, 3), lowercase=False, max_features=_WORDS
        )
        parts.append((f"letters of {name}", letters, name))
    leaf = min(_LEAF, max(2, len(target.y) // _SHARE))
    settings = {
        "categorical_features": list(range(len(own.get("category", [])))) or None,
        "min_samples_leaf": leaf, "max_bins": _bins(X, columns), "random_state": 0,
    }  # fmt: skip
    if target.task == "regression":
        machine: Any = HistGradientBoostingRegressor(**settings)
    else:
        weights = "balanced" if metric == "balanced_accuracy" else None
        machine = HistGradientBoostingClassifier(class_weight=weights, **settings)
    return make_pipeline(ColumnTransformer(parts, sparse_threshold=0.0), machine)


def _bins(X: Any, columns: Sequence[Column]) -> int:
    """As many bins as a column can have values, within what trees allow."""
    plain = {"category", "number", "counts", "coordinate"}
    values = [
        X[column.name].nunique(dropna=False) if column.kind in plain else len(X) for column in columns
    ]
    return min(max(2, *values), _BINS)


def measured(
    X: Any, columns: Sequence[Column], target: Target, metric: str, outer: list[Split], report: Report
) -> Yardstick:
    """Score gradient boosting on outer folds; with nothing to choose, it needs no inner ones.

    ``report`` takes the number of folds that are done and of all folds.
    """
    start, scorer = time.perf_counter(), get_scorer(metric)
    model = boosting(X, columns, target, metric)
    scores = []
    for train, test in outer:
        model.fit(X.iloc[train], target.y[train])
        scores.append(scorer(model, X.iloc[test], target.y[test]))
        report(len(scores), len(outer))
    fitted, tested = (np.mean([len(split[side]) for split in outer]) for side in (0, 1))
    seconds = time.perf_counter() - start
    return Yardstick(YARDSTICK, metric, np.array(scores), float(tested / fitted), seconds)


def _texts(frame: Any) -> Any:
    return frame.astype(str)


def _moments(frame: Any) -> Any:
    """Days since 1970 and hours of the day."""
    found = {}
    for name in frame.columns:
        moments = pd.to_datetime(frame[name])
        found[f"{name} in days"] = (moments - pd.Timestamp("1970-01-01")) / pd.Timedelta("1D")
        found[f"hour of {name}"] = (moments - moments.dt.normalize()) / pd.Timedelta("1h")
    return pd.DataFrame(found)
