"""The protocol of the hypersphere paper for five kernels, and nested cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from mercer.kernels import Cosine, Gaussian, Heat, Kernel, Linear, Parametrix
from mercer.reproduce.experiment import Claim, Context, Measured, Progress, within
from mercer.rkhs import distances
from mercer.selection import KernelSearchCV
from mercer.selection.significance import corrected_interval, corrected_test
from mercer.spaces import SphericalSpace

Array = NDArray[np.float64]

SOURCE = (
    'C. Zhao, J. S. Song, "Exact heat kernel on a hypersphere and its applications in kernel SVM", '
    "Frontiers in Applied Mathematics and Statistics 4, 2018"
)
KERNELS = ("lin", "rbf", "cos", "prx", "ext")
RUNS = 5
FOLDS, INNER_FOLDS = 5, 3
#: Test points per training point.
OVERLAP = 1 / (FOLDS - 1)
#: Widths in units of the median distance, times of the parametrix, and times of the exact kernel in
#: units of log(n) / n.  The paper does not give its grids.
WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
TIMES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
T_STARS = (0.3, 0.5, 0.7, 1.0, 1.4, 2.0)
#: Values of C, in units of the mean of k(x, x).
STRENGTHS = (0.1, 1.0, 10.0, 100.0, 1000.0)


def note(runs: int) -> str:
    """Note below the tables.

    Examples
    --------
    >>> "mean of 5 runs" in note(5), "one run" in note(1)
    (True, True)
    """
    return (
        "Accuracy in %: ours [95 % interval] (published).  Protocol: the best mean over the grid in "
        f"5-fold cross-validation, {'one run' if runs == 1 else f'mean of {runs} runs'}; too good, "
        "because the grid was chosen on the same folds.  Nested: parameters chosen by 3-fold "
        "cross-validation inside each training part.  Intervals have the correction of Nadeau and "
        "Bengio for training parts that overlap, and are cut at 0 and 100."
    )


@dataclass(frozen=True)
class Scores:
    """Accuracies of one kernel in one run, in %."""

    #: Accuracy of each setting of the grid (kernel and C) on each fold.
    grid: Array
    #: Accuracy on each fold of the setting chosen without that fold.
    nested: Array
    settings: list[dict[str, Any]]

    @property
    def best(self) -> int:
        """Index of the setting with the best mean."""
        return first_best(self.grid.mean(axis=1))

    @property
    def protocol(self) -> Array:
        """Accuracy of the best setting on each fold."""
        return self.grid[self.best]


def kernels(X: Any, space: SphericalSpace, quick: bool = False) -> dict[str, list[Kernel]]:
    """The grid of each of the five kernels; one value each in a quick run."""
    sample = X[np.random.default_rng(0).permutation(X.shape[0])[:500]]
    pairs = distances(Linear()(sample))
    width = float(np.median(pairs[np.triu_indices(len(pairs), 1)])) or 1.0
    widths, times, t_stars = (g[2:3] if quick else g for g in (WIDTHS, TIMES, T_STARS))
    return {
        "lin": [Linear()],
        "rbf": [Gaussian(length_scale=factor * width) for factor in widths],
        "cos": [Cosine(space)],
        "prx": [Parametrix(space, t=t) for t in times],
        "ext": [Heat(space, t_star=t_star) for t_star in t_stars],
    }


def outer_folds(context: Context, run: int) -> StratifiedKFold:
    """Folds of one run."""
    return StratifiedKFold(FOLDS, shuffle=True, random_state=context.seed + run)


def score(
    X: Any, y: Any, space: SphericalSpace, context: Context, run: int, progress: Progress | None
) -> dict[str, Scores]:
    """Scores of all kernels in one run."""
    families = kernels(X, space, context.quick)
    outer = outer_folds(context, run)
    inner = StratifiedKFold(INNER_FOLDS, shuffle=True, random_state=context.seed + run)
    found = {}
    for place, (name, members) in enumerate(families.items()):
        first, middle, last = (np.array([0.0, 0.4, 1.0]) + place) / len(families)
        search = family_search(members, X, cv=outer, cache=context.cache)
        table = search.set_params(progress=within(progress, first, middle)).fit(X, y).cv_results_
        search.set_params(cv=inner, progress=within(progress, middle, last))
        nested = search.nested_scores(X, y, outer_cv=outer)
        folds = [table[f"split{fold}_test_score"] for fold in range(FOLDS)]
        found[name] = Scores(100 * np.stack(folds, axis=1), 100 * nested.scores, table["params"])
    return found


def family_search(members: list[Kernel], X: Any, **options: Any) -> KernelSearchCV:
    """The search over one family, with values of C relative to the mean of k(x, x)."""
    size = float(np.mean(members[0].diag(X)))
    grid = {"C": [c / size for c in STRENGTHS]}
    return KernelSearchCV(members, param_grid=grid, refit=False, **options)


def measured(
    runs: Sequence[dict[str, Scores]], name: str, kind: str = "protocol", published: float | None = None
) -> Measured:
    """Mean of a kernel over runs and folds, with its interval.

    The kind is ``"protocol"`` (each run has its best setting), ``"one setting"`` (all runs have the one
    that is best on average) or ``"nested"``.
    """
    scores = [run[name] for run in runs]
    if kind == "one setting":
        best = first_best(np.mean([s.grid.mean(axis=1) for s in scores], axis=0))
        folds = np.concatenate([s.grid[best] for s in scores])
    else:
        folds = np.concatenate([getattr(s, kind) for s in scores])
    return Measured(float(folds.mean()), percent_interval(folds, OVERLAP), published)


def all_measured(
    runs: Sequence[dict[str, Scores]], kind: str, published: Sequence[float] | None = None
) -> list[Measured]:
    """The same for all kernels, with the published scores if there are any."""
    known = published or (None,) * len(KERNELS)
    return [measured(runs, name, kind, p) for name, p in zip(KERNELS, known, strict=True)]


def percent_interval(folds: Array, overlap: float) -> tuple[float, float]:
    """Corrected interval of a percentage, cut at 0 and 100.

    Examples
    --------
    >>> percent_interval(np.array([0.0, 0.0, 100.0]), 0.5)
    (0.0, 100.0)
    """
    low, high = corrected_interval(folds, overlap)
    return max(low, 0.0), min(high, 100.0)


def first_best(means: Array) -> int:
    """Index of the first of the best settings, up to rounding errors."""
    return int(np.argmax(np.round(means, 9)))


def error_saved(one: float, other: float) -> float:
    """Reduction of the error of another accuracy by one, in %; 0 if the other has no error."""
    return 100 * (one - other) / (100 - other) if other < 100 else 0.0


#: Names of the kernels in sentences.
_NOUNS = {
    "lin": "linear kernel", "rbf": "Gaussian", "cos": "cosine kernel", "prx": "parametrix",
    "ext": "exact kernel",
}  # fmt: skip


def reduction(
    where: str,
    one: str,
    other: str,
    said: tuple[int, int],
    rows: Sequence[Sequence[float]],
    published: Sequence[Sequence[float]],
) -> Claim:
    """The claim that a kernel reduces the error of another by a range of percentages.

    It holds if the reduction is at least the least that is claimed in every row, up to rounding.
    """
    i, j = KERNELS.index(one), KERNELS.index(other)
    here, there = (
        sorted(round(error_saved(row[i], row[j])) for row in table) for table in (rows, published)
    )
    return Claim(
        f"{where}, the {_NOUNS[one]} reduces the error of the {_NOUNS[other]} by {said[0]} to "
        f"{said[1]} %: by {here[0]} to {here[-1]} % in our protocol scores (published scores: "
        f"{there[0]} to {there[-1]} %).",
        here[0] >= said[0],
    )


@dataclass(frozen=True)
class Contest:
    """Mean difference of two kernels on the same folds in percentage points, and its p-value."""

    difference: float
    interval: tuple[float, float]
    p: float

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.difference:+.2f} points [{low:.2f}, {high:.2f}], p = {self.p:.2g}"


def contest(runs: Sequence[dict[str, Scores]], one: str, other: str) -> Contest:
    """Compare nested scores of two kernels, fold by fold."""
    gaps = np.concatenate([scores[one].nested - scores[other].nested for scores in runs])
    interval = corrected_interval(gaps, OVERLAP)
    return Contest(float(gaps.mean()), interval, corrected_test(gaps, OVERLAP))
