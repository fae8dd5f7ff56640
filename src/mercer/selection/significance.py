"""Intervals and tests for scores of folds whose training parts overlap."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]
#: Beginnings of the names of metrics that are never negative.
_SHARES = (
    "accuracy", "balanced_accuracy", "top_k", "f1", "precision", "recall", "jaccard", "roc_auc",
    "average_precision",
)  # fmt: skip
#: Fewest folds whose spread a test relies on, and the spread, relative to the mean, that counts as none.
_FEWEST, _NONE = 3, 1e-9


def corrected_interval(scores: Array, overlap: float, level: float = 0.95) -> tuple[float, float]:
    """Confidence interval of a mean over folds, with Nadeau and Bengio's correction.

    Scores of folds depend on each other because their training parts overlap: the variance of the mean
    is taken as ``(1 / folds + overlap)`` times that of the scores, where overlap is the number of test
    points per training point.

    Examples
    --------
    >>> import numpy as np
    >>> low, high = corrected_interval(np.array([0.8, 0.9, 0.85, 0.9, 0.8]), overlap=0.25)
    >>> round(low, 3), round(high, 3)
    (0.757, 0.943)
    """
    folds = len(scores)
    reach = float(stats.t.ppf(0.5 + level / 2, folds - 1)) * _spread(scores, overlap)
    mean = float(scores.mean())
    return mean - reach, mean + reach


def cut_off(interval: tuple[float, float], metric: str) -> tuple[float, float]:
    """An interval without the values that a metric of scikit-learn cannot have.

    Examples
    --------
    >>> [cut_off((-0.1, 1.2), metric) for metric in ("accuracy", "r2", "neg_log_loss")]
    [(0.0, 1.0), (-0.1, 1.0), (-0.1, 0.0)]
    """
    low, high = interval
    if not metric or "mutual_info" in metric:  # a function of the user's, or not bounded
        return interval
    most = 0.0 if metric.startswith("neg_") else 1.0
    return max(low, 0.0) if metric.startswith(_SHARES) else low, min(high, most)


def corrected_test(differences: Array, overlap: float) -> float:
    """Two-sided p-value of the mean of paired differences being zero, with the same correction.

    NaN if the differences cannot tell: there are fewer than three, or all are the same and not zero.

    Examples
    --------
    >>> import numpy as np
    >>> round(corrected_test(np.array([0.1, 0.05, 0.1, 0.05, 0.1]), overlap=0.25), 3)
    0.012
    >>> corrected_test(np.array([0.1, 0.1]), overlap=1.0)
    nan
    """
    spread = _spread(differences, overlap)
    mean = float(differences.mean())
    if mean == 0:
        return 1.0
    if len(differences) < _FEWEST or spread <= _NONE * abs(mean):
        return float("nan")
    return float(2 * stats.t.sf(abs(mean) / spread, len(differences) - 1))


def holm(p_values: Array) -> Array:
    """P-values adjusted for multiple tests by Holm's step-down method.

    Examples
    --------
    >>> import numpy as np
    >>> holm(np.array([0.01, 0.04, 0.03]))
    array([0.03, 0.06, 0.06])
    """
    order = np.argsort(p_values, kind="stable")
    steps = p_values[order] * np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def _spread(scores: Array, overlap: float) -> float:
    """Standard error of the mean."""
    if len(scores) < 2:
        raise ValueError("one fold tells nothing about the spread of scores; use at least two folds")
    return float(scores.std(ddof=1)) * float(np.sqrt(1 / len(scores) + overlap))
