"""Comparison of families of kernels: which one fits the data."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    log_loss,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _get_feature_names

from mercer._arrays import on_cpu
from mercer._progress import Work, watched
from mercer._validation import check_whole
from mercer.kernels.tables.frames import is_frame
from mercer.machines.landmarks.base import LandmarkMachine
from mercer.selection.comparison import Comparison, KernelScore
from mercer.selection.fits import Evaluation, Outcome, Split, Task, by_metric, threads_for
from mercer.selection.grid import named_templates
from mercer.selection.journal import Journal
from mercer.selection.kinds import Candidates, candidates, empty_documents
from mercer.selection.nested import NestedScores
from mercer.selection.scales import C_GRID, Template
from mercer.selection.search import KernelSearchCV
from mercer.selection.target import Target, check_metric, landmark_size, read_target
from mercer.selection.yardstick import YARDSTICK, measured
from mercer.spaces import Graph

Array = NDArray[np.float64]
#: Called with the number of steps done and their total number.
Progress = Callable[[int, int], None]

INNER_FOLDS = 3
_CLASSIFICATION = {"accuracy": accuracy_score, "balanced_accuracy": balanced_accuracy_score}
_REGRESSION = {"r2": r2_score, "rmse": root_mean_squared_error, "mae": mean_absolute_error}


def compare(
    X: Any,
    y: Any,
    *,
    kernels: Any = None,
    similarities: Any = None,
    space: str | Graph = "auto",
    columns: Mapping[str, Any] | None = None,
    task: str = "auto",
    scoring: str | None = None,
    groups: Any = None,
    solver: str = "mercer",
    folds: int = 5,
    repeats: int = 1,
    random_state: int = 0,
    n_jobs: int | None = -1,
    max_memory: float = 4.0,
    landmarks: Any = "auto",
    cache: Any = None,
    device: str | None = None,
    progress: Progress | None = None,
    finished: Callable[[KernelScore], None] | None = None,
) -> Comparison:
    """Compare the kernels that fit the data: a table, strings, nodes of a graph, or clouds.

    On a table, linear and Gaussian kernels (the latter also on standardised columns) and, for counts,
    tf-idf see the rows as they are; cosine, parametrix and exact heat see them as points of the simplex
    or the sphere.  On strings: letter counts, spectra, subsequences with gaps (unless there are too many
    letters for them), and the weighted degree if all are of one length.  On nodes: shared neighbours,
    walks, heat, Matern and von Neumann; if they have attributes, these alone, smoothed by the graph
    (:class:`mercer.kernels.Diffused`) and with links.  On clouds: mean embeddings, trace and generalised
    variance.

    On a data frame with columns of several kinds there is a kernel (:class:`mercer.kernels.On`) for
    each kind.  They are compared alone and together, as a sum of parts of equal size and as a sum with
    learnt weights (:class:`mercer.kernels.MultipleKernel`).  Gradient boosting is scored as a
    yardstick.  With more than 2000 rows, parameters are chosen on 1000 of them, and no probabilities
    are calibrated.

    Each family is scored in cross-validation by a support vector machine for classes (with balanced
    weights where balanced accuracy decides) or a kernel ridge regression for numbers.  A second
    cross-validation inside each training part (:class:`KernelSearchCV`) chooses the kernel's
    parameters and C or the ridge, so every score comes from points that were not used in the choice.
    Kernels with a range are tried at six similarities, C and the ridge in units of the Gram matrix.  A
    final search on all points gives the model to use.  Ctrl-C ends the comparison with the finished
    families.

    Parameters
    ----------
    X : array or sparse matrix of shape (m, n), data frame, list of strings, of nodes or of clouds
        Strings are str, bytes or sequences of tokens.  Sequences of whole numbers are strings if they
        are tuples or differ in length; lists of one length are rows of a table.  A cloud is an array of
        shape (k, d), or a tuple of such an array and weights that sum to 1.  With a graph as the space,
        a data frame has nodes in its first column (or that of kind "node", see ``columns``), and their
        attributes in the others; those of nodes without a label are used too.
    y : array of shape (m,)
        Class labels or numbers.  Points without a label (None or NaN) are ignored.
    kernels : dict of lists of kernels, optional
        Families to compare instead of those above.  The others are tested against the families named
        ``"linear"`` and ``"Gaussian"`` (or their counterparts on other data).
    similarities : "auto" or list of floats, optional
        Similarities to try the given ``kernels`` at, see :class:`KernelSearchCV`; by default kernels are
        taken as they are.
    space : {"auto", "simplex", "sphere"} or Graph
        How the geometric kernels see a row of a table: as counts or a composition, or as a direction;
        "auto" takes rows without negative entries as counts.  Or the graph whose nodes X names.
    columns : dict, optional
        Kinds of some columns of a data frame by name: "number", "counts", "category", "text",
        "string", "date", "coordinate", "node", or "identifier" for a column to ignore; for a text also
        a ``CountVectorizer`` that defines its words.  The kinds of other columns are recognised.
    task : {"auto", "classification", "regression"}
        "auto" chooses regression if some number is not whole, or if there are more than 20 different
        ones.
    scoring : str, optional
        Name of the scikit-learn scorer that decides.  By default accuracy, balanced accuracy if one
        class is more than 3 times as frequent as another, or R squared.
    groups : array of shape (m,), optional
        Groups of points that belong together, such as samples of one patient; they are never split
        between training and test.
    solver : {"mercer", "libsvm"}
        Machines of :mod:`mercer.machines`, or those of scikit-learn.
    folds, repeats : int
        Number of outer folds, and how often they are drawn.
    random_state : int
        Seed of the folds.
    n_jobs : int, optional
        Threads for the estimators.
    max_memory : float
        Gigabytes, see :class:`KernelSearchCV`.
    landmarks : int, "auto" or None
        Compare machines on this number of landmarks (:class:`mercer.machines.LandmarkClassifier`,
        ``LandmarkRegressor``) instead of exact ones.  "auto" uses 1000 if exact machines do not fit
        into ``max_memory``, and adds a note; None never uses landmarks.
    cache : path, optional
        Folder of finished fits, from which an interrupted comparison resumes.
    device : str, optional
        Where Gram matrices of rows of numbers are computed, see :class:`KernelSearchCV`.
    progress : callable, optional
        Called with the number of finished fits and their total number.
    finished : callable, optional
        Called with the score of each family as soon as it is known.

    Returns
    -------
    Comparison
        Its ``notes`` say what was left out.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.selection import compare
    >>> rng = np.random.default_rng(0)
    >>> counts = np.vstack([rng.multinomial(20, p, size=30) for p in ([.6, .2, .2], [.2, .2, .6])])
    >>> result = compare(counts, ["a"] * 30 + ["b"] * 30)
    >>> result.scores[0].mean > 0.8
    True
    """
    check_whole("repeats", repeats, 1)
    check_whole("random_state", random_state, 0)
    X, y = on_cpu(X), on_cpu(y)
    data = candidates(X, space, columns)
    target = read_target(y, data.rows, data.noun, task, folds, INNER_FOLDS)
    if target.missing and data.kind.transductive:
        data = data.of_rows(target.known)
    elif target.missing:
        data = candidates(_safe_indexing(X, target.known), space, columns)
    if kernels is not None:
        data = replace(data, families=_families(kernels, similarities))
    if target.task == "regression":
        data = _positive(data)
    metric = check_metric(scoring, target)
    if groups is not None:
        target = replace(target, groups=_check_groups(groups, target, data, folds))
    names = _get_feature_names(X)
    size, note = landmark_size(landmarks, len(target.y), max_memory)
    data = replace(data, notes=(*data.notes, note) if note else data.notes)
    if device is not None and not data.kind.vectors:
        note = f"kernels of {data.noun} are computed in main memory, not on {device}"
        data = replace(data, notes=(*data.notes, note))
    search = KernelSearchCV(
        estimator=target.estimator(metric, solver, size), scoring=metric, n_jobs=n_jobs,
        max_memory=max_memory, cache=cache, device=device, random_state=random_state,
        cv=target.splitter(INNER_FOLDS, random_state, groups is not None), max_rows=data.max_rows,
    )  # fmt: skip
    outer = [
        split
        for repeat in range(repeats)
        for split in target.splitter(folds, random_state + repeat, groups is not None).split(
            np.zeros(len(target.y)), target.y, target.groups
        )
    ]
    several = len({column.kind for column in data.used}) > 1 and is_frame(data.X) and kernels is None
    meter = _Meter(data.families, len(outer), progress, several)
    contest = _Contest(data, target, search, outer, meter)
    scores: list[KernelScore] = []
    unfinished: tuple[str, ...] = ()
    for name, members in data.families.items():
        try:
            scores.append(contest.score(name, members))
        except KeyboardInterrupt:
            if not scores:
                raise
            unfinished = tuple(list(data.families)[len(scores) :])
            break
        if finished is not None:
            finished(scores[-1])
    yardstick = None
    if several and not unfinished:
        report = meter.watch(YARDSTICK, 0.0, 1.0)
        try:
            yardstick = measured(data.X, data.used, target, metric, outer, report)
        except KeyboardInterrupt:
            unfinished = (YARDSTICK,)
    # Among equal scores, kernels that are not positive semidefinite come last.
    scores.sort(key=lambda s: (-s.mean, not getattr(s.kernel, "positive_semidefinite", True)))
    return Comparison(
        data, target, metric, folds, repeats, INNER_FOLDS, random_state, scores, unfinished,
        () if names is None else tuple(names), yardstick,
    )  # fmt: skip


def _check_groups(groups: Any, target: Target, data: Candidates, folds: int) -> np.ndarray:
    """Group of each point with a target, as a number."""
    values = np.asarray(groups)
    rows = len(target.known) + target.missing
    if values.shape != (rows,):
        raise ValueError(
            f"groups has shape {values.shape}; give one group for each of {rows} {data.noun}"
        )
    if pd.isna(values).any():
        raise ValueError(f"row {int(np.argmax(pd.isna(values)))} of groups is missing; name its group")
    parts: np.ndarray = np.unique(values.astype(str), return_inverse=True)[1][target.known]
    number = len(np.unique(parts))
    if number < 3:
        raise ValueError(f"groups must have at least 3 different values, got {number}")
    if number < folds + 1:
        raise ValueError(f"{number} groups are too few for {folds} folds; use fewer folds")
    return parts


def _families(kernels: Any, similarities: Any) -> dict[str, list[Template]]:
    """Kernels by family."""
    families: dict[str, list[Template]] = {}
    for name, template in named_templates(kernels, similarities):
        families.setdefault(name, []).append(template)
    return families


def _positive(data: Candidates) -> Candidates:
    """The data without families that a ridge regression cannot use."""
    names = [n for n, members in data.families.items() if not members[0].kernel.positive_semidefinite]
    if not names:
        return data
    families = {name: members for name, members in data.families.items() if name not in names}
    if not families:
        raise ValueError(
            f"a ridge regression needs positive semidefinite kernels, but none of {', '.join(names)} is"
        )
    note = f"{' and '.join(names)} left out: a ridge regression needs positive semidefinite kernels"
    return replace(data, families=families, notes=(*data.notes, note))


class _Meter:
    """Progress of all families in one count."""

    def __init__(
        self,
        families: dict[str, list[Template]],
        folds: int,
        callback: Progress | None,
        yardstick: bool,
    ) -> None:
        fits = INNER_FOLDS * (folds + 1) * len(C_GRID)
        # A kernel of several parts takes as long as all of them.
        cells = {
            name: sum(
                (len(t.similarities) or 1) * max(1, len(t.kernel.column_blocks())) for t in members
            )
            for name, members in families.items()
        }
        self._shares = {name: fits * count + 2 * folds for name, count in cells.items()}
        if yardstick:  # as long as a family
            self._shares[YARDSTICK] = sum(self._shares.values()) // len(self._shares)
        self._callback = callback
        self._before, self._last = 0, -1
        self._advance(0)  # the total is known before the first fit is done

    def watch(self, name: str, first: float, last: float) -> Progress:
        """A callback for work that takes a family from one share of its fits to another."""

        def report(done: int, total: int) -> None:
            share = first + (last - first) * (done / total if total else 1.0)
            self._advance(self._before + int(share * self._shares[name]))

        return report

    def finish(self, name: str) -> None:
        """Count a family as done."""
        self._before += self._shares[name]
        self._advance(self._before)

    def _advance(self, now: int) -> None:
        if self._callback is not None and now > self._last:
            self._last = now
            self._callback(now, sum(self._shares.values()))


@dataclass
class _Contest:
    """Scores of families on the same folds."""

    data: Candidates
    target: Target
    search: KernelSearchCV
    outer: list[Split]
    meter: _Meter

    @empty_documents()
    def score(self, name: str, templates: list[Template]) -> KernelScore:
        """Nested scores of a family, further metrics, and the search on all points."""
        start = time.perf_counter()
        X, y = self.data.X, self.target.y
        end = 1 - 1 / (len(self.outer) + 1)
        search = KernelSearchCV(**{**self.search.get_params(deep=False), "kernels": {name: templates}})
        search.set_params(progress=self.meter.watch(name, 0.0, 0.95 * end))
        nested = search.nested_scores(X, y, outer_cv=self.outer, groups=self.target.groups)
        metrics = self._metrics(nested)
        search.set_params(progress=self.meter.watch(name, end, 1.0)).fit(X, y, self.target.groups)
        search.set_params(progress=None)
        self.meter.finish(name)
        return KernelScore(name, nested, metrics, search, time.perf_counter() - start)

    def _metrics(self, nested: NestedScores) -> dict[str, Array]:
        pairs = [(self.target.y[t], p) for t, p in zip(nested.tests, nested.predictions, strict=True)]
        regression = self.target.task == "regression"
        functions = _REGRESSION if regression else _CLASSIFICATION
        found = {name: np.array([f(y, p) for y, p in pairs]) for name, f in functions.items()}
        few = self.data.max_rows is None  # calibration takes longer than all the rest
        return found | self._probabilities(nested) if few and not regression else found

    def _probabilities(self, nested: NestedScores) -> dict[str, Array]:
        """ROC AUC and log loss of the chosen machines, calibrated inside the training parts."""
        if isinstance(self.search.estimator, LandmarkMachine):
            return self._own_probabilities(nested)
        kernels = list({id(c["kernel"]): c["kernel"] for c in nested.chosen}.values())
        places = {id(kernel): i for i, kernel in enumerate(kernels)}
        tasks = [
            Task(places[id(c["kernel"])], fold, {"estimator__C": c["C"]})
            for fold, c in enumerate(nested.chosen)
        ]
        calibrated = CalibratedClassifierCV(self.search.estimator, cv=INNER_FOLDS, ensemble=False)
        journal = None
        if self.search.cache is not None:
            common = (self.data.X, self.target.y, calibrated, _probability_scores)
            journal = Journal(self.search.cache, common)
        evaluation = Evaluation(
            self.data.X, self.target.y, calibrated, _probability_scores, kernels,
            1e9 * self.search.max_memory, threads_for(self.search.n_jobs), journal,
            Work(total=len(tasks), callback=lambda *_: None), self.search.device,
        )  # fmt: skip
        outcomes = watched(lambda: evaluation.run(tasks, self.outer), evaluation.work, "calibration")
        return by_metric(outcomes)

    def _own_probabilities(self, nested: NestedScores) -> dict[str, Array]:
        """The same of machines on landmarks, which have probabilities of their own."""
        outcomes = []
        for (train, test), choice in zip(self.outer, nested.chosen, strict=True):
            params = {name: choice[name] for name in ("kernel", "alpha")}
            machine = clone(self.search.estimator).set_params(**params)
            machine.fit(_safe_indexing(self.data.X, train), self.target.y[train])
            others, targets = _safe_indexing(self.data.X, test), self.target.y[test]
            outcomes.append(Outcome(_probability_scores(machine, others, targets), (0.0, 0.0)))
        return by_metric(outcomes)


def _probability_scores(model: Any, K: Any, y: Any) -> dict[str, float]:
    probabilities = model.predict_proba(K)
    labels = model.classes_
    if len(labels) == 2:
        area = roc_auc_score(y, probabilities[:, 1])
    else:
        area = roc_auc_score(y, probabilities, multi_class="ovr", labels=labels)
    return {"roc_auc": area, "log_loss": log_loss(y, probabilities, labels=labels)}
