"""Nested cross-validation: scores of a choice, on data that had no say in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.selection.evaluation import Evaluation, Index, Outcome, Split, Task
from mercer.selection.statistics import corrected_interval
from mercer.selection.trials import Trials

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
        Kernel and parameters of the estimator, per outer fold.
    inner_scores : array of shape (folds,)
        Mean score of the chosen candidate on the inner folds: too good, because it was chosen by it.
    tests, predictions : lists of arrays
        Indices of the test points and what was predicted for them, per outer fold.
    overlap : float
        Test points per training point.
    families : dict
        The same for each family of kernels alone, if there are several.
    timings : dict
        Processor seconds, see :class:`KernelSearchCV`.
    """

    scores: Array
    metrics: dict[str, Array]
    chosen: list[dict[str, Any]]
    inner_scores: Array
    tests: list[Index]
    predictions: list[Any]
    overlap: float
    families: dict[str, NestedScores] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        """Mean over the outer folds."""
        return float(self.scores.mean())

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval of the mean, with Nadeau and Bengio's correction.

        Training parts overlap, so that scores of the folds depend on each other: the variance of the
        mean is taken as ``(1 / folds + test / train)`` times that of the scores.
        """
        return corrected_interval(self.scores, self.overlap, level)


@dataclass(frozen=True)
class NestedSplits:
    """Outer folds and the inner folds of each training part, as indices of all points."""

    outer: list[Split]
    inner: list[list[Split]]

    @property
    def flat(self) -> list[Split]:
        """All inner folds."""
        return [split for folds in self.inner for split in folds]

    @property
    def owners(self) -> NDArray[np.intp]:
        """Outer fold of each inner one."""
        return np.repeat(np.arange(len(self.outer)), [len(folds) for folds in self.inner])


def nested_scores(
    evaluation: Evaluation, trials: Trials, splits: NestedSplits, metric: str
) -> NestedScores:
    """Choose on the inner folds, then fit and score each choice on its outer fold."""
    names = list(dict.fromkeys(trials.families))
    groups = [np.arange(len(trials.settings))]
    if len(names) > 1:
        owner = [trials.families[setting.kernel] for setting in trials.settings]
        groups += [np.array([i for i, n in enumerate(owner) if n == name]) for name in names]
    tasks = trials.tasks(len(splits.flat))
    evaluation.work.total = len(tasks) + len(groups) * len(splits.outer)
    outcomes = evaluation.run(tasks, splits.flat)
    means = _inner_means(outcomes, len(trials.settings), splits, metric)
    choices = [[int(group[np.argmax(column[group])]) for column in means.T] for group in groups]
    fits = _outer_fits(evaluation, trials, splits, choices)
    results = [_collect(trials, splits, choice, means, fits, metric) for choice in choices]
    families = dict(zip(names, results[1:], strict=True)) if len(names) > 1 else {}
    return NestedScores(**{**vars(results[0]), "families": families})


def _inner_means(
    outcomes: Sequence[Outcome], candidates: int, splits: NestedSplits, metric: str
) -> Array:
    """Mean inner score of each candidate in each outer fold."""
    scores = np.reshape([outcome.scores[metric] for outcome in outcomes], (candidates, -1))
    owners = splits.owners
    return np.stack(
        [scores[:, owners == fold].mean(axis=1) for fold in range(len(splits.outer))], axis=1
    )


def _outer_fits(
    evaluation: Evaluation, trials: Trials, splits: NestedSplits, choices: list[list[int]]
) -> dict[tuple[int, int], Outcome]:
    """Fit what was chosen, once where several chose the same."""
    wanted = sorted({(c, fold) for choice in choices for fold, c in enumerate(choice)})
    tasks = [Task(trials.settings[c].kernel, fold, trials.settings[c].params) for c, fold in wanted]
    evaluation.work.total += len(tasks) - len(choices) * len(splits.outer)
    return dict(zip(wanted, evaluation.run(tasks, splits.outer, predictions=True), strict=True))


def _collect(
    trials: Trials,
    splits: NestedSplits,
    choice: list[int],
    means: Array,
    fits: dict[tuple[int, int], Outcome],
    metric: str,
) -> NestedScores:
    outcomes = [fits[c, fold] for fold, c in enumerate(choice)]
    metrics = {
        name: np.array([outcome.scores[name] for outcome in outcomes]) for name in outcomes[0].scores
    }
    picked = [trials.settings[c] for c in choice]
    train, test = (np.mean([len(split[side]) for split in splits.outer]) for side in (0, 1))
    return NestedScores(
        scores=metrics[metric],
        metrics=metrics,
        chosen=[{"kernel": trials.kernels[c.kernel], **c.params} for c in picked],
        inner_scores=np.array([means[c, fold] for fold, c in enumerate(choice)]),
        tests=[test for _, test in splits.outer],
        predictions=[outcome.prediction for outcome in outcomes],
        overlap=float(test / train),
    )
