"""Scorers, and a quick one for the metric that most searches use."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import check_scoring

from mercer.selection.evaluation import Scorer


def choose_scorer(estimator: Any, scoring: Any) -> Scorer:
    """scikit-learn's scorer, but for plain accuracy, where its checks take longer than the work."""
    scorer: Scorer = check_scoring(estimator, scoring)
    own = getattr(type(estimator), "score", None)
    plain = scoring is None and own is ClassifierMixin.score
    return accuracy if plain or scoring == "accuracy" else scorer


def accuracy(model: Any, K: Any, y: Any) -> float:
    """Share of points that are classified right."""
    return float(np.mean(model.predict(K) == y))
