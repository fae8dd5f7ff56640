"""Worst-case bounds on new points, from the margins of the final machines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.svm import SVC

from mercer.bounds import VCBound, pairwise_vc_bounds
from mercer.machines.landmarks.base import LandmarkMachine
from mercer.selection import Comparison
from mercer.selection.comparison import KernelScore

#: Largest number of points: the Gram matrix of all of them is computed once more.
MOST_POINTS = 3000
#: Largest number of classes: a ball is computed for each pair.
MOST_CLASSES = 30


@dataclass(frozen=True)
class Capacity:
    """Bounds of one family's machines as text: medians over pairs of classes, or why there are none."""

    name: str
    rows: str = ""
    mu: str = ""
    effective: str = ""
    excess: str = ""
    inside: str = ""
    reason: str = ""


def capacities(comparison: Comparison) -> list[Capacity]:
    """VC bound and effective sample size of each family's final machine; empty if there are none."""
    small = comparison.rows <= MOST_POINTS and len(comparison.classes) <= MOST_CLASSES
    exact = not isinstance(comparison.scores[0].search.estimator, LandmarkMachine)
    if comparison.target.task == "regression" or not (small and exact):
        return []
    return [_capacity(comparison, score) for score in comparison.scores]


def _capacity(comparison: Comparison, score: KernelScore) -> Capacity:
    X, y, chosen = comparison.data.X, comparison.target.y, score.search.best_estimator_[-1]
    # The bounds check optimality row by row, as libsvm does.
    machine = SVC(kernel="precomputed", C=chosen.C, class_weight=chosen.class_weight)
    try:
        machine.fit(score.kernel(X), y)
        bounds = list(pairwise_vc_bounds(machine, X, y, kernel=score.kernel).values())
    except (ValueError, ArithmeticError) as error:
        # A kernel that is not positive semidefinite has no feature space to enclose points in.
        return Capacity(score.name, reason=str(error).split(";")[0].split(", so")[0])
    return Capacity(
        name=score.name,
        rows=_median([b.size for b in bounds]),
        mu=_median([b.mu for b in bounds]),
        effective=_median([b.effective_sample_size for b in bounds]),
        excess=_excess(bounds),
        inside=_median([b.inside for b in bounds]),
    )


def _median(values: list[float] | list[int]) -> str:
    return f"{float(np.median(values)):.3g}"


def _excess(bounds: list[VCBound]) -> str:
    value = float(np.median([b.generalization_bound() for b in bounds]))
    return f"{100 * value:.0f}%" if value < 1 else "above 100%: says nothing"
