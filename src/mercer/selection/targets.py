"""Targets and folds, checked before any work is done."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d

from mercer.selection.evaluation import Split


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
        check_classification_targets(y)
        labels = np.unique(y)
        if len(labels) < 2:
            raise ValueError(f"the target has one class only: {labels[0]!r}; give two classes at least")
    return y


def check_splits(splits: list[Split], y: Any, classifier: bool) -> None:
    """Raise for folds that cannot be fitted or scored."""
    if not splits:
        raise ValueError("cv gives no folds")
    for fold, (train, test) in enumerate(splits):
        if not len(train) or not len(test):
            side = "training" if not len(train) else "test"
            raise ValueError(f"fold {fold} has no {side} points; use other folds")
        if classifier and len(np.unique(y[train])) < 2:
            raise ValueError(
                f"the training part of fold {fold} has one class only: {y[train][0]!r}; "
                "use fewer or stratified folds, or drop rare classes"
            )
