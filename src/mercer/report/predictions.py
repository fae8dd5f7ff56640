"""Predictions for points that were not used in the fit: confusions, or values against values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import confusion_matrix

from mercer.report.labels import short_names
from mercer.selection import Comparison
from mercer.selection.comparison import KernelScore

#: Largest number of classes for which a matrix is shown.
MOST_CLASSES = 40
_SHOWN_PAIRS = 8


@dataclass(frozen=True)
class Confusion:
    """How often each class was predicted as each, over all outer folds."""

    classes: list[str]
    #: Names short enough for a table.
    short: list[str]
    counts: list[list[int]]
    #: Counts in percent of the row.
    shares: list[list[float]]
    #: Most frequent mistakes: true class, predicted class, times.
    mistakes: list[tuple[str, str, int]]
    wrong: int
    total: int


def confusion(comparison: Comparison, score: KernelScore) -> Confusion:
    """Confusion matrix of the predictions on the outer folds of all repeats."""
    labels = np.unique(comparison.target.y)
    true = np.concatenate([comparison.target.y[test] for test in score.nested.tests])
    counts = confusion_matrix(true, np.concatenate(score.nested.predictions), labels=labels)
    classes = [str(label) for label in labels.tolist()]
    short = short_names(classes)
    off = counts.copy()
    np.fill_diagonal(off, 0)
    order = np.argsort(-off, axis=None, kind="stable")[:_SHOWN_PAIRS]
    pairs = [divmod(int(place), len(classes)) for place in order]
    return Confusion(
        classes=classes,
        short=short,
        counts=counts.tolist(),
        shares=(100 * counts / counts.sum(axis=1, keepdims=True)).tolist(),
        mistakes=[(short[i], short[j], int(off[i, j])) for i, j in pairs if off[i, j]],
        wrong=int(off.sum()),
        total=int(counts.sum()),
    )


def predicted(comparison: Comparison, score: KernelScore, rows: Any) -> list[Any]:
    """Predictions for these points when they were in an outer fold, in the first repeat."""
    found = np.empty(comparison.rows, dtype=object)
    pairs = list(zip(score.nested.tests, score.nested.predictions, strict=True))
    for test, prediction in reversed(pairs):
        found[test] = np.asarray(prediction, dtype=object)
    return found[rows].tolist()
