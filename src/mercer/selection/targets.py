"""Targets and folds, checked before any work is done."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d

from mercer.selection.evaluation import Index, Split
from mercer.selection.task import kind_of, refuse_range


def check_target(y: Any, rows: int, tags: Any) -> Any:
    """Return the target as an array, one row per point."""
    if y is None:
        raise ValueError("the search requires y to be passed, but the target y is None")
    classifier = tags.estimator_type == "classifier"
    y = check_array(
        y,
        ensure_2d=False,
        dtype=None if classifier else np.float64,
        input_name="y",
        estimator="the search",
    )
    if y.ndim == 1 or not tags.target_tags.multi_output:
        y = column_or_1d(y, warn=True)
    if len(y) != rows:
        raise ValueError(f"X has {rows} points, y has {len(y)}; give one target for each point")
    if classifier:
        _check_labels(y)
    else:
        refuse_range(y)
    return y


def _check_labels(y: Any) -> None:
    """Raise for what cannot be told apart as classes."""
    kinds = {kind_of(label): label for label in y.ravel()} if y.dtype == object else {}
    if len(kinds) > 1:
        first, second, *_ = kinds.values()
        raise ValueError(
            f"the target mixes types: {first!r} and {second!r}; make them all strings or all numbers, "
            "and leave out points without a target"
        )
    check_classification_targets(y)
    labels = np.unique(y)
    if len(labels) < 2:
        raise ValueError(
            f"the target has one class only: {labels.tolist()[0]!r}; give two classes at least"
        )


def check_splits(splits: list[Any], y: Any, classifier: bool) -> list[Split]:
    """Folds as numbers of points; raise for those that cannot be fitted or scored."""
    if not splits:
        raise ValueError("cv gives no folds")
    numbered = [
        (_numbers(train, fold, len(y)), _numbers(test, fold, len(y)))
        for fold, (train, test) in enumerate(splits)
    ]
    for fold, (train, test) in enumerate(numbered):
        if not len(train) or not len(test):
            side = "training" if not len(train) else "test"
            raise ValueError(f"fold {fold} has no {side} points; use other folds")
        if classifier and len(np.unique(y[train])) < 2:
            raise ValueError(
                f"the training part of fold {fold} has one class only: {y[train].tolist()[0]!r}; "
                "use fewer or stratified folds, or drop rare classes"
            )
    return numbered


def _numbers(part: Any, fold: int, rows: int) -> Index:
    """Numbers of the points of one part, which may come as a mask."""
    chosen = np.asarray(part)
    if chosen.dtype == bool and len(chosen) == rows:
        return np.flatnonzero(chosen)
    if chosen.size and (chosen.dtype.kind not in "iu" or chosen.min() < -rows or chosen.max() >= rows):
        raise ValueError(f"fold {fold} of cv must hold numbers from 0 to {rows - 1}, or a mask of them")
    return chosen.astype(np.intp)
