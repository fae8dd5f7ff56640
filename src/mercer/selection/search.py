"""Cross-validated search over kernels, their parameters and those of an estimator."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.pipeline import make_pipeline
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from mercer._arrays import count, on_cpu, selectable
from mercer._progress import Work, watched
from mercer._validation import refuse_no_numbers
from mercer.engine.devices import check_device
from mercer.features import GramTransformer
from mercer.machines.landmarks.base import LandmarkMachine
from mercer.rkhs import warn_if_degenerate
from mercer.selection.cv_results import described, tabulate
from mercer.selection.fits import WHOLE, Evaluation, Outcome, Split, Task, choose_scorer, threads_for
from mercer.selection.gram_cache import Grams
from mercer.selection.grid import (
    EXTENSIONS,
    Trials,
    default_templates,
    expand,
    named_templates,
    precomputed,
)
from mercer.selection.journal import Journal
from mercer.selection.kinds import kind_of
from mercer.selection.landmark_fits import LandmarkEvaluation
from mercer.selection.nested import Nested, NestedScores, metric_title
from mercer.selection.scales import Relative, Scales, resolved, spread
from mercer.selection.target import (
    check_memory,
    check_splits,
    check_target,
    landmarks_by_size,
    machine_for,
    sample_rows,
)


def _has(method: str) -> Callable[[Any], bool]:
    """Whether the estimator has a method; for ``available_if``."""

    def check(search: KernelSearchCV) -> bool:
        fitted = getattr(search, "best_estimator_", None)
        getattr(search._prototype()[0] if fitted is None else fitted, method)
        return True

    return check


class KernelSearchCV(MetaEstimatorMixin, BaseEstimator):
    """Cross-validated search over kernels and an estimator's parameters.

    It gives the same order, scores and choice as scikit-learn's ``GridSearchCV(SVC(), {"kernel":
    kernels, "C": [...]})``, except where a machine is undecided about a point, but computes each Gram
    matrix only once: the matrix product once per space, and the law of each kernel applied to it.
    Folds are not copied from the matrix: coefficients of held-out points are fixed at zero.  A fold is
    solved for all values of C in turn, each starting from the previous solution.  The points may be of
    any kind that the kernels take.

    Memory: ``4 m^2`` bytes for each Gram matrix in single precision, as much for rows in use, and ``8
    m^2`` for what kernels share; twice as much where points are too similar for single precision, and
    for estimators other than :class:`mercer.machines.SVC`.  As many matrices are held as fit into
    ``max_memory``.

    Parameters
    ----------
    kernels : Kernel, list of kernels, or dict of lists of them, optional
        Kernels to try; keys name families.  By default kernels that fit the data, at six similarities.
    estimator : "classifier", "regressor" or estimator
        Any estimator that takes ``kernel="precomputed"``, or a machine on landmarks
        (:class:`mercer.machines.LandmarkClassifier`, ``LandmarkRegressor``).  With landmarks no Gram
        matrix is computed, and a fold is read once for all values of ``alpha``.  "classifier" is
        ``SVC`` and "regressor" is ``KernelRidge`` if they fit into ``max_memory``, otherwise machines
        on 1000 landmarks, with a warning.
    solver : {"mercer", "libsvm"}
        Exact machines for "classifier" and "regressor": those of :mod:`mercer.machines`, or of
        scikit-learn.
    similarities : "auto" or list of floats, optional
        Scales to try for each of the ``kernels`` with a range: median similarities of distinct points
        (:meth:`~mercer.kernels.Kernel.scaled_to`), learnt in each training part; "auto" stands for 0.02,
        0.1, 0.3, 0.6, 0.9 and 0.98.  By default kernels are taken as they are.
    param_grid : dict or list of dicts, optional
        Lists of values of the estimator's parameters and, with the prefix ``kernel__``, of the kernels'.
        By default five values of ``C``, 0.1 to 1000 divided by the total variance of the training Gram
        matrix (and, in regression, times the standard deviation of y), or of ``alpha``, 1e-4 to 1 times
        it.  If the best of such a grid is at its edge, values beyond it are tried too.
    scoring : str, callable, list or dict, optional
        As in scikit-learn.  With several metrics, ``refit`` names the one that decides.
    cv : int, splitter or iterable
        As in scikit-learn.
    refit : bool or str
        Fit the best candidate to all points.
    n_jobs : int, optional
        Threads; -1 for all that BLAS may use.
    max_memory : float
        Gigabytes for Gram matrices, slices and the solver's cache.
    cache : path, optional
        Folder of the scores of finished fits, from which an interrupted search resumes.  Scores are not
        reused if points, target, folds, kernel, estimator, metric or versions have changed.
    device : str, optional
        Where Gram matrices of rows of numbers are computed, such as "cuda"; needs PyTorch.  They are
        copied to main memory, where the estimators and all kernels of other points are computed.
    progress : callable, optional
        Called with the numbers of finished fits and of all.  By default a terminal shows a bar.
    max_rows : int, optional
        Try candidates on about this many points (whole groups); the best is fitted to all points.
    random_state : int
        Seed of the points from which scales are learnt, and of those that ``max_rows`` draws.

    Attributes
    ----------
    cv_results_ : dict of arrays
        As in ``GridSearchCV``, and the ``family`` of each kernel.  Scales, and C in units of the Gram
        matrix, differ between training parts; those shown are of all points.
    best_params_, best_kernel_, best_similarity_, best_family_, best_score_, best_index_
        The choice.
    edges_ : list of str
        Descriptions of the edges of the grid at which the best candidate lies.
    best_estimator_ : Pipeline
        :class:`~mercer.features.GramTransformer` and estimator, or the machine on landmarks.
    kernels_ : list of kernels
        All kernels that were tried.
    timings_ : dict
        Processor seconds of all threads in matrix products (``"products"``, which includes kernels that
        are not functions of one), ``"laws"``, ``"slices"``, ``"fits"`` and ``"scores"``.
    n_splits_, scorer_, refit_time_, multimetric_, classes_, n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Gaussian, Heat
    >>> from mercer.selection import KernelSearchCV
    >>> from mercer.spaces import Simplex
    >>> rng = np.random.default_rng(0)
    >>> models = rng.dirichlet(np.ones(20), size=2)
    >>> y = np.repeat(["ham", "spam"], 40)
    >>> X = np.array([rng.multinomial(15, models[int(label == "spam")]) for label in y])
    >>> search = KernelSearchCV(Heat(Simplex()), similarities="auto").fit(X, y)
    >>> search.best_params_
    {'kernel': Heat(Simplex(), t_star=0.66), 'similarity': 0.3, 'C': 14.8}
    >>> search.predict(X[:2]).tolist()
    ['ham', 'ham']
    >>> grid = {"kernel__t_star": [0.3, 1.0], "C": [1.0, 10.0]}
    >>> KernelSearchCV(Heat(Simplex()), param_grid=grid).fit(X, y).best_params_
    {'kernel': Heat(Simplex(), t_star=0.3), 'C': 1.0}
    """

    def __init__(
        self,
        kernels: Any = None,
        estimator: Any = "classifier",
        *,
        solver: str = "mercer",
        similarities: Any = None,
        param_grid: Any = None,
        scoring: Any = None,
        cv: Any = 5,
        refit: bool | str = True,
        n_jobs: int | None = -1,
        max_memory: float = 4.0,
        cache: Any = None,
        device: str | None = None,
        progress: Callable[[int, int], None] | None = None,
        max_rows: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.kernels = kernels
        self.estimator = estimator
        self.solver = solver
        self.similarities = similarities
        self.param_grid = param_grid
        self.scoring = scoring
        self.cv = cv
        self.refit = refit
        self.n_jobs = n_jobs
        self.max_memory = max_memory
        self.cache = cache
        self.device = device
        self.progress = progress
        self.max_rows = max_rows
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Search, and fit the best candidate to all points.

        Parameters
        ----------
        X : points: rows of numbers, strings, nodes, clouds or a data frame
        y : array of shape (m,) or, in regression, (m, p)
        groups : array of shape (m,), optional
            For splitters that keep groups together.
        """
        X, y = self._check_points(on_cpu(X), on_cpu(y))
        self._check_refit()
        trials = self._candidates(X)
        some = sample_rows(y, self.max_rows, self._classifies, self.random_state, groups)
        splits = self._inner(X, y, groups, np.arange(len(y)) if some is None else some)
        scales = Scales(X, y, trials.templates, self.random_state)
        evaluation = self._evaluation(X, y, scales, some)
        work = evaluation.work
        self.scorer_ = check_scoring(evaluation.estimator, self.scoring)
        outcomes = watched(lambda: self._try(evaluation, trials, scales, splits), work, "kernel search")
        self.n_splits_ = len(splits)
        self.multimetric_ = "score" not in outcomes[0][0].scores
        self._describe(evaluation, trials, scales, outcomes)
        self.timings_ = evaluation.seconds
        if self.refit or not self.multimetric_:
            self._choose(trials, self._metric(outcomes[0][0].scores))
        if self.refit:
            watched(lambda: self._refit(X, y), work, "last fit")
        return self

    def _try(
        self, evaluation: Evaluation, trials: Trials, scales: Scales, splits: list[Split]
    ) -> list[list[Outcome]]:
        """Outcomes of all settings on all folds, including those tried beyond an edge."""
        outcomes: list[list[Outcome]] = []
        for _ in range(EXTENSIONS + 1):
            new = trials.settings[len(outcomes) :]
            tasks = [
                Task(scales.number(s.template, s.similarity, train), fold, s.params)
                for s in new
                for fold, (train, _) in enumerate(splits)
            ]
            evaluation.work.total += len(tasks)
            flat = evaluation.run(tasks, splits)
            outcomes += [flat[i : i + len(splits)] for i in range(0, len(flat), len(splits))]
            if "score" not in outcomes[0][0].scores and not isinstance(self.refit, str):
                break  # no metric decides
            metric = self._metric(outcomes[0][0].scores)
            means = [np.mean([o.scores[metric] for o in row]) for row in outcomes]
            trials.extend([int(np.argmax(means))])
            if len(trials.settings) == len(outcomes):
                break
        del trials.settings[len(outcomes) :]  # added by the last extension, not tried
        return outcomes

    def _describe(
        self, evaluation: Evaluation, trials: Trials, scales: Scales, outcomes: list[list[Outcome]]
    ) -> None:
        """Tabulate kernels and parameters of all settings, as scaled to all points."""
        numbers = [scales.number(s.template, s.similarity) for s in trials.settings]
        used = sorted(set(numbers))
        variances = dict.fromkeys(used, 1.0)
        if any(isinstance(v, Relative) for s in trials.settings for v in s.params.values()):
            evaluation.work.total += len(used)
            found = evaluation.run([Task(k, WHOLE, {}) for k in used], [])
            variances = {k: o.scores["variance"] for k, o in zip(used, found, strict=True)}
        deviation = spread(evaluation.y)
        params = [
            described(scales.kernels[k], s, resolved(s.params, variances[k], deviation))
            for k, s in zip(numbers, trials.settings, strict=True)
        ]
        self.kernels_ = [scales.kernels[k] for k in dict.fromkeys(numbers)]
        self.settings_ = list(trials.settings)
        families = [trials.families[s.template] for s in trials.settings]
        self.cv_results_ = tabulate(params, families, outcomes)

    def nested_scores(
        self, X: Any, y: Any = None, *, outer_cv: Any = 5, groups: Any = None
    ) -> NestedScores:
        """Score the whole search on outer folds that it does not use.

        In each outer fold a search on the training part chooses a candidate, which is fitted to that
        part and scored on the rest.  All folds use the same Gram matrices.  If kernels are given as a
        dict, or are of several classes, each family is also scored alone.  The search itself is not
        changed.

        Parameters
        ----------
        X, y, groups
            See :meth:`fit`.
        outer_cv : int, splitter or iterable
            Folds to score on, which may be repeated.

        Returns
        -------
        NestedScores

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from mercer.kernels import Gaussian
        >>> from mercer.selection import KernelSearchCV
        >>> X, y = load_iris(return_X_y=True)
        >>> search = KernelSearchCV([Gaussian(s) for s in (0.5, 1, 2)], param_grid={"C": [1, 10]})
        >>> nested = search.nested_scores(X, y)
        >>> round(nested.mean, 2), len(nested.chosen)
        (0.97, 5)
        """
        if isinstance(self.cv, Iterable):
            raise ValueError(
                "nested_scores draws the folds of cv in each training part, but cv holds indices of all "
                "points; give a number or a splitter"
            )
        other = clone(self)
        other._check_refit()
        X, y = other._check_points(on_cpu(X), on_cpu(y))
        trials = other._candidates(X)
        outer = other._split(outer_cv, X, y, groups)
        some = sample_rows(y, self.max_rows, other._classifies, self.random_state, groups)
        parts = [train if some is None else np.intersect1d(train, some) for train, _ in outer]
        inner = [other._inner(X, y, groups, part) for part in parts]
        scales = Scales(X, y, trials.templates, self.random_state)
        evaluation = other._evaluation(X, y, scales)
        metric = str(self.refit) if self._several else "score"
        choosing = evaluation if some is None else other._evaluation(X, y, scales, some)
        choosing.work = evaluation.work
        title = metric_title(self.scoring, metric, get_tags(self).estimator_type)
        nested = Nested(choosing, evaluation, trials, scales, outer, inner, metric, title)
        result = watched(nested.scores, evaluation.work, "nested kernel search")
        return replace(result, timings=evaluation.seconds)

    def _prototype(self) -> tuple[Any, str]:
        """The estimator that takes Gram matrices, and the prefix of its parameters."""
        return precomputed(self._machine())

    def _machine(self) -> Any:
        """The estimator, or the usual one of its name, exact or on landmarks."""
        if not isinstance(self.estimator, str):
            return self.estimator
        return machine_for(self.estimator, self.solver, getattr(self, "_landmarks", None))

    def _check_points(self, X: Any, y: Any) -> tuple[Any, Any]:
        self._prototype()  # refuses an estimator that takes no Gram matrix
        if self.device is not None:
            check_device(self.device)
        if self.kernels is None:
            self._rows = kind_of(X).vectors
        else:
            named = named_templates(self.kernels, self.similarities)
            self._rows = any(template.kernel.requires_vector_input for _, template in named)
        X = self._checked(X, ensure_min_samples=2)
        y = check_target(y, count(X), get_tags(self))
        check_memory(self.max_memory)
        if isinstance(self.estimator, str):
            self._landmarks = landmarks_by_size(count(X), self.max_memory, self.param_grid)
        return X, y

    def _candidates(self, X: Any) -> Trials:
        if self.kernels is None:
            named = default_templates(X, self._classifies)
        else:
            named = named_templates(self.kernels, self.similarities)
        return expand(named, self.param_grid, *self._prototype())

    def _split(self, cv: Any, X: Any, y: Any, groups: Any) -> list[Split]:
        splitter = check_cv(cv, y, classifier=self._classifies)
        return check_splits(list(splitter.split(X, y, groups)), y, self._classifies)

    def _inner(self, X: Any, y: Any, groups: Any, train: Any) -> list[Split]:
        part = None if groups is None else _safe_indexing(groups, train)
        splits = self._split(self.cv, _safe_indexing(X, train), y[train], part)
        return [(train[fit], train[check]) for fit, check in splits]

    @property
    def _classifies(self) -> bool:
        return bool(get_tags(self).estimator_type == "classifier")

    def _evaluation(self, X: Any, y: Any, scales: Scales, some: Any = None) -> Evaluation:
        estimator, _ = self._prototype()
        journal = None
        if self.cache is not None:
            journal = Journal(self.cache, (X, y, estimator, self.scoring, some))
        kind = LandmarkEvaluation if isinstance(estimator, LandmarkMachine) else Evaluation
        return kind(
            X, y, estimator, choose_scorer(estimator, self.scoring), scales.kernels,
            1e9 * self.max_memory, threads_for(self.n_jobs), journal, Work(callback=self.progress),
            self.device, some,
        )  # fmt: skip

    @property
    def _several(self) -> bool:
        """Whether there are several metrics by name."""
        return isinstance(self.scoring, list | tuple | set | Mapping)

    def _check_refit(self) -> None:
        """Refuse a refit that does not say which metric decides."""
        if not isinstance(self.refit, bool | str):
            raise ValueError(f"refit must be True, False or the name of a metric, got {self.refit!r}")
        if self._several and self.refit:
            self._check_names(self.scoring)

    def _metric(self, scores: dict[str, float]) -> str:
        """Name of the metric that decides."""
        if "score" in scores:
            return "score"
        self._check_names(scores)
        return str(self.refit)

    def _check_names(self, known: Any) -> None:
        """Refuse a refit that is not the name of a metric."""
        if self.refit not in known:
            names = ", ".join(map(repr, known))
            raise ValueError(f"with several metrics refit must name one of {names}, got {self.refit!r}")

    def _choose(self, trials: Trials, metric: str) -> None:
        self.best_index_ = int(np.argmin(self.cv_results_[f"rank_test_{metric}"]))
        self.best_params_ = self.cv_results_["params"][self.best_index_]
        self.best_kernel_ = self.best_params_["kernel"]
        self.best_similarity_ = self.best_params_.get("similarity")
        self.best_family_ = self.cv_results_["family"][self.best_index_]
        self.best_score_ = float(self.cv_results_[f"mean_test_{metric}"][self.best_index_])
        self.edges_ = trials.edges(self.settings_[self.best_index_])

    def _refit(self, X: Any, y: Any) -> None:
        start = time.perf_counter()
        params = {k: v for k, v in self.best_params_.items() if k not in ("kernel", "similarity")}
        model = self._prototype()[0].set_params(**params)
        if isinstance(model, LandmarkMachine):
            self.best_estimator_ = model.set_params(kernel=self.best_kernel_).fit(X, y)
        else:
            self.best_estimator_ = self._fit_to_gram(X, y, model, params)
        self.refit_time_ = time.perf_counter() - start
        if hasattr(self.best_estimator_, "classes_"):
            self.classes_ = self.best_estimator_.classes_

    def _fit_to_gram(self, X: Any, y: Any, model: Any, params: dict[str, Any]) -> Any:
        """A pipeline of the best kernel's Gram matrix and a model."""
        K = Grams(X, kept=0, device=self.device)(self.best_kernel_)
        warn_if_degenerate(K, self.best_kernel_)
        if hasattr(model, "fit_path"):  # which does not warn about indefinite kernels
            (model,) = model.fit_path(K, y, np.arange(len(y)), [params])
        else:
            model.fit(K, y)
        return make_pipeline(GramTransformer(self.best_kernel_).fit(X), model)

    def predict(self, X: Any) -> Any:
        """Labels or values by the best candidate."""
        return self._output("predict", X)

    @available_if(_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """Decision values of the best candidate."""
        return self._output("decision_function", X)

    @available_if(_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Probabilities by the best candidate."""
        return self._output("predict_proba", X)

    @available_if(_has("predict_log_proba"))  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of probabilities by the best candidate."""
        return self._output("predict_log_proba", X)

    def score(self, X: Any, y: Any = None) -> float:
        """Score of the best candidate on other points, by the metric that decided."""
        X = self._new_points(X)
        result = self.scorer_(self.best_estimator_, X, y)
        return float(result[self.refit] if isinstance(result, dict) else result)

    def _new_points(self, X: Any) -> Any:
        if not self.refit and hasattr(self, "cv_results_"):
            raise AttributeError("the search was made with refit=False and has no model; set refit=True")
        check_is_fitted(self, "best_estimator_")
        return self._checked(on_cpu(X), reset=False)

    def _checked(self, X: Any, **options: Any) -> Any:
        """Rows of numbers as an array; other points as they are."""
        if not self._rows:
            return selectable(X)
        refuse_no_numbers(X, "X")
        return validate_data(
            self, X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=False,
            **options,
        )  # fmt: skip

    def _output(self, method: str, X: Any) -> Any:
        """Output of the model for new points, a block of the Gram matrix at a time."""
        X = self._new_points(X)
        call = getattr(self.best_estimator_, method)
        if isinstance(self.best_estimator_, LandmarkMachine):
            return call(X)
        rows = max(1, int(1e9 * self.max_memory / 16 / count(self.best_estimator_[0].X_fit_)))
        if count(X) <= rows:
            return call(X)
        parts = [slice(start, start + rows) for start in range(0, count(X), rows)]
        return np.concatenate([call(_safe_indexing(X, part)) for part in parts])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self._machine())
        for name in ("estimator_type", "classifier_tags", "regressor_tags", "target_tags"):
            setattr(tags, name, getattr(inner, name))
        tags.input_tags.sparse = tags.input_tags.string = True
        return tags
