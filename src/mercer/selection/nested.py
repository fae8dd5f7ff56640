"""Nested cross-validation: scores of a choice on points that were not used to make it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.selection.cv_results import described
from mercer.selection.fits import Evaluation, Index, Outcome, Split, Task, by_metric
from mercer.selection.grid import EXTENSIONS, Setting, Trials
from mercer.selection.scales import Scales
from mercer.selection.significance import corrected_interval, cut_off

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NestedScores:
    """Scores on the outer folds, each of the candidate that was chosen without that fold.

    Attributes
    ----------
    scores : array of shape (folds,)
        By the metric that decides.
    metrics : dict of arrays
        By all metrics.
    chosen : list of dicts
        Kernel, its similarity if one was chosen, and parameters of the estimator, per outer fold.
    settings : list of Setting
        The same in the units of the grid.
    inner_scores : array of shape (folds,)
        Mean score of the chosen candidate on the inner folds: optimistic, because it decided the choice.
    tests, predictions : lists of arrays
        Indices of the test points and the predictions for them, per outer fold.
    overlap : float
        Test points per training point.
    families : dict
        The same for each family of kernels alone, if there are several.
    metric : str
        scikit-learn's name of the metric that decides; empty if it is a function.
    timings : dict
        Processor seconds, see :class:`KernelSearchCV`.
    """

    scores: Array
    metrics: dict[str, Array]
    chosen: list[dict[str, Any]]
    settings: list[Setting]
    inner_scores: Array
    tests: list[Index]
    predictions: list[Any]
    overlap: float
    metric: str = ""
    families: dict[str, NestedScores] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        low, high = self.interval()
        return f"<NestedScores of {len(self.scores)} folds: {self.mean:.4g} ({low:.4g} to {high:.4g})>"

    @property
    def mean(self) -> float:
        """Mean over the outer folds."""
        return float(self.scores.mean())

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval of the mean, with Nadeau and Bengio's correction.

        It is cut off where the metric has no values, such as above 1.  See
        :func:`~mercer.selection.significance.corrected_interval`.
        """
        return cut_off(corrected_interval(self.scores, self.overlap, level), self.metric)


@dataclass
class Nested:
    """A choice on inner folds for each outer fold, and fits of what was chosen."""

    #: Fits on the inner folds, perhaps of some of the points, and on the outer ones.
    choosing: Evaluation
    evaluation: Evaluation
    trials: Trials
    scales: Scales
    #: Outer folds, and the inner folds of each of their training parts, as indices of all points.
    outer: list[Split]
    inner: list[list[Split]]
    #: Metric that decides: its name among the scores, and that of scikit-learn or none.
    metric: str
    title: str
    #: Mean inner score by setting and outer fold.
    means: dict[tuple[int, int], float] = field(default_factory=dict)

    def scores(self) -> NestedScores:
        """Choose on the inner folds, then fit and score each choice on its outer fold."""
        names = list(dict.fromkeys(self.trials.families))
        groups: list[str | None] = [None, *names] if len(names) > 1 else [None]
        everywhere = range(len(self.outer))
        self.evaluation.work.total = len(groups) * len(self.outer)
        self._evaluate([(s, fold) for s in range(len(self.trials.settings)) for fold in everywhere])
        for _ in range(EXTENSIONS):
            bests = {(self._best(group, fold), fold) for group in groups for fold in everywhere}
            around = self.trials.extend(sorted({best for best, _ in bests}))
            beyond = {(s, fold) for best, fold in bests for s in around[best]} - self.means.keys()
            if not beyond:
                break
            self._evaluate(sorted(beyond))
        choices = [[self._best(group, fold) for fold in everywhere] for group in groups]
        fits = self._outer_fits(choices)
        results = [self._collect(choice, fits) for choice in choices]
        families = dict(zip(names, results[1:], strict=True)) if len(names) > 1 else {}
        return NestedScores(**{**vars(results[0]), "families": families})

    def _evaluate(self, wanted: list[tuple[int, int]]) -> None:
        """Mean scores of settings on the inner folds, for pairs of a setting and an outer fold."""
        flat = [split for folds in self.inner for split in folds]
        ends = np.cumsum([len(folds) for folds in self.inner])
        places = [range(end - len(folds), end) for end, folds in zip(ends, self.inner, strict=True)]
        tasks = [self._task(s, flat[place], place) for s, fold in wanted for place in places[fold]]
        self.evaluation.work.total += len(tasks)
        outcomes = iter(self.choosing.run(tasks, flat))
        for setting, fold in wanted:
            found = [next(outcomes).scores[self.metric] for _ in places[fold]]
            self.means[setting, fold] = float(np.mean(found))

    def _task(self, setting: int, split: Split, place: int) -> Task:
        """A setting on a split, with the kernel scaled to the training part."""
        own = self.trials.settings[setting]
        return Task(self.scales.number(own.template, own.similarity, split[0]), place, own.params)

    def _best(self, family: str | None, fold: int) -> int:
        """The first of the best settings, of a family or of all."""
        trials = self.trials
        own = [
            s
            for s, setting in enumerate(trials.settings)
            if (s, fold) in self.means and family in (None, trials.families[setting.template])
        ]
        return max(own, key=lambda s: self.means[s, fold])

    def _outer_fits(self, choices: list[list[int]]) -> dict[tuple[int, int], Outcome]:
        """Fit the chosen settings, each once even if several families chose it."""
        wanted = sorted({(s, fold) for choice in choices for fold, s in enumerate(choice)})
        tasks = [self._task(s, self.outer[fold], fold) for s, fold in wanted]
        self.evaluation.work.total += len(tasks) - len(choices) * len(self.outer)
        return dict(zip(wanted, self.evaluation.run(tasks, self.outer, predictions=True), strict=True))

    def _collect(self, choice: list[int], fits: dict[tuple[int, int], Outcome]) -> NestedScores:
        outcomes = [fits[s, fold] for fold, s in enumerate(choice)]
        metrics = by_metric(outcomes)
        settings = [self.trials.settings[s] for s in choice]
        kernels = [
            self.scales.kernels[self.scales.number(setting.template, setting.similarity, train)]
            for setting, (train, _) in zip(settings, self.outer, strict=True)
        ]
        train, test = (np.mean([len(split[side]) for split in self.outer]) for side in (0, 1))
        return NestedScores(
            scores=metrics[self.metric],
            metrics=metrics,
            chosen=[
                described(kernel, setting, outcome.params)
                for kernel, setting, outcome in zip(kernels, settings, outcomes, strict=True)
            ],
            settings=settings,
            inner_scores=np.array([self.means[s, fold] for fold, s in enumerate(choice)]),
            tests=[test for _, test in self.outer],
            predictions=[outcome.prediction for outcome in outcomes],
            overlap=float(test / train),
            metric=self.title,
        )


def metric_title(scoring: Any, metric: str, estimator_type: str | None) -> str:
    """scikit-learn's name of a metric among those of ``scoring``; empty if it is a function."""
    if scoring is None:
        return {"classifier": "accuracy", "regressor": "r2"}.get(estimator_type or "", "")
    chosen = scoring[metric] if isinstance(scoring, Mapping) else scoring
    name = metric if isinstance(chosen, list | tuple | set) else chosen
    return name if isinstance(name, str) else ""
