"""Fits on slices of Gram matrices: many kernels, folds and parameters of an estimator, in threads."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn import config_context, get_config
from sklearn.base import ClassifierMixin, clone, is_classifier
from sklearn.gaussian_process.kernels import Kernel
from sklearn.metrics import check_scoring
from sklearn.utils import _safe_indexing

from mercer._progress import Work
from mercer._threads import blas_limited_to, run, threads_in_use
from mercer.exceptions import IndefiniteKernelWarning
from mercer.selection.gram_cache import Grams, fit_bytes, is_shared, plan, sharing
from mercer.selection.journal import Journal, fingerprint
from mercer.selection.scales import Relative, naming_rows, resolved, spread, variance_unit

Index = NDArray[np.intp]
Split = tuple[Index, Index]
#: Called with an estimator, Gram matrix and target; returns a score, or a dict of them.
Scorer = Callable[[Any, Any, Any], Any]
#: Rows of a slice that are copied at a time.
_ROWS = 256
#: A total variance below this share of k(x, x) asks for double precision.
_BLURRED = 1e-3
#: In place of a split: compute the total variance of the whole Gram matrix, without a fit.
WHOLE = -1


@dataclass(frozen=True)
class Task:
    """One fit: which kernel, which split, which parameters of the estimator."""

    kernel: int
    split: int
    params: dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """Result of one fit."""

    scores: dict[str, float]
    #: Wall seconds of fit and of scoring.
    seconds: tuple[float, float]
    #: Predictions for the test points, if requested, and parameters of the fit.
    prediction: Any = None
    params: dict[str, Any] = field(default_factory=dict)


@dataclass
class Evaluation:
    """Fits of one estimator on Gram matrices of points X.

    Each Gram matrix is computed once, in batches that fit into memory.  A machine with a path
    (:meth:`mercer.machines.SVC.fit_path`) is fitted to all parameters of a fold in one go, on a matrix
    in single precision whose rows are sorted by class.  For other estimators each fold is cut out once.

    Attributes
    ----------
    seconds : dict
        Processor seconds: ``"products"``, ``"laws"``, ``"slices"``, ``"fits"``, ``"scores"``.
    """

    X: Any
    y: Any
    estimator: Any
    scorer: Scorer
    kernels: Sequence[Kernel]
    max_memory: float
    threads: int = 1
    journal: Journal | None = None
    work: Work = field(default_factory=Work)
    device: str | None = None
    #: Points that fits may look at; all by default.
    some: Index | None = None
    #: scikit-learn's settings in the thread that created this object.
    config: dict[str, Any] = field(default_factory=get_config)
    seconds: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("products", "laws", "slices", "fits", "scores"), 0.0)
    )

    def __post_init__(self) -> None:
        self._given = self.X, self.y
        self.has_path = hasattr(self.estimator, "fit_path")
        #: Where each point is among those of X, which are sorted by class for a machine with a path.
        self.places = np.arange(len(self.y))
        if self.has_path or self.some is not None:
            order = self.places if self.some is None else self.some
            if self.has_path:
                order = order[np.argsort(self.y[order], kind="stable")]
            self.X, self.y = _safe_indexing(self.X, order), self.y[order]
            self.places = np.full(len(self.places), -1)
            self.places[order] = np.arange(len(order))

    def run(
        self, tasks: Sequence[Task], splits: Sequence[Split], *, predictions: bool = False
    ) -> list[Outcome]:
        """Run all tasks; finished ones are read from the journal, unless predictions are requested."""
        outcomes: list[Any] = [None] * len(tasks)
        keys = self._recall(tasks, splits, outcomes) if not predictions else {}
        left = [i for i, outcome in enumerate(outcomes) if outcome is None]
        self.work.advance(len(tasks) - len(left))
        if left:
            moved = [(self.places[train], self.places[test]) for train, test in splits]
            used = [self.kernels[k] for k in sorted({tasks[i].kernel for i in left})]
            with (
                blas_limited_to(self.threads),
                warnings.catch_warnings(),
                naming_rows(used, *self._given),
            ):
                warnings.simplefilter("ignore", IndefiniteKernelWarning)
                self._fit(tasks, moved, left, keys, outcomes, predictions)
        return outcomes

    def _recall(
        self, tasks: Sequence[Task], splits: Sequence[Split], outcomes: list[Any]
    ) -> dict[int, str]:
        """Fill in the outcomes that the journal has; returns the keys of the tasks."""
        if self.journal is None:
            return {}
        kernels = {k: fingerprint(self.kernels[k]) for k in {task.kernel for task in tasks}}
        folds = {WHOLE: "whole"} | {s: fingerprint(tuple(split)) for s, split in enumerate(splits)}
        keys = {}
        for i, task in enumerate(tasks):
            keys[i] = fingerprint((kernels[task.kernel], folds[task.split], task.params))
            known = self.journal.get(keys[i])
            if known is not None:
                outcomes[i] = Outcome(known[0], tuple(known[1]))
        return keys

    def _fit(
        self,
        tasks: Sequence[Task],
        splits: Sequence[Split],
        left: list[int],
        keys: dict[int, str],
        outcomes: list[Any],
        predictions: bool,
    ) -> None:
        used = self._order({tasks[i].kernel for i in left})
        used_splits = [splits[tasks[i].split] for i in left if tasks[i].split != WHOLE]
        train, test = (max((len(split[side]) for split in used_splits), default=0) for side in (0, 1))
        shared = len({sharing(self.kernels[k]) for k in used}) < len(used)
        plain = all(is_shared(self.kernels[k]) for k in used)
        layout = plan(
            len(self.y), fit_bytes(self.estimator, train, test), kernels=len(used), shared=shared,
            combined=not plain, threads=self.threads, max_memory=self.max_memory, single=self.has_path,
        )  # fmt: skip
        grams = Grams(
            self.X, dtype=layout.dtype, kept=layout.invariants, single=self.has_path, device=self.device
        )
        config = {**self.config, "assume_finite": True}  # Gram matrices are checked once

        def job(part: _Part, *chosen: int) -> None:
            if self.work.stop.is_set():
                return
            with config_context(**config):
                several = self._path if self.has_path else self._one
                found = several([tasks[i] for i in chosen], part, predictions)
            if self.has_path and self.work.stop.is_set():
                return  # the machines may not have converged
            for i, outcome in zip(chosen, found, strict=True):
                outcomes[i] = self._done(outcome, keys.get(i))

        for start in range(0, len(used), layout.batch):
            batch = used[start : start + layout.batch]
            matrices = {}
            for k in batch:
                self._heed_stop()
                matrices[k] = self._gram(grams, self.kernels[k])
            for name, value in grams.seconds.items():
                self._spend(name, value)
                grams.seconds[name] = 0.0
            chosen = [i for i in left if tasks[i].kernel in matrices]
            for i in [i for i in chosen if tasks[i].split == WHOLE]:
                variance = {"variance": variance_unit(matrices[tasks[i].kernel])}
                outcomes[i] = self._done(Outcome(variance, (0.0, 0.0)), keys.get(i))
            parts = self._parts(tasks, splits, [i for i in chosen if tasks[i].split != WHOLE], matrices)
            if parts:
                with blas_limited_to(layout.threads):
                    run(job, parts, self.work.stop)
            self._heed_stop()

    def _gram(self, grams: Grams, kernel: Kernel) -> Any:
        """The Gram matrix, in double precision if points are too similar for single precision."""
        K = grams(kernel)
        if K.dtype == np.float32 and variance_unit(K) < _BLURRED * np.abs(np.diagonal(K)).max():
            return Grams(self.X, kept=0)(kernel)
        return K

    def _done(self, outcome: Outcome, key: str | None) -> Outcome:
        """Record a finished task."""
        if self.journal is not None and key is not None:
            self.journal.put(key, outcome.scores, outcome.seconds)
        self.work.advance()
        return outcome

    def _heed_stop(self) -> None:
        if self.work.stop.is_set():
            raise KeyboardInterrupt

    def _order(self, kernels: set[int]) -> list[int]:
        """Order kernels so that those with the same invariants are adjacent."""
        groups: dict[Any, list[int]] = {}
        for k in sorted(kernels):
            groups.setdefault(sharing(self.kernels[k]), []).append(k)
        return [k for group in groups.values() for k in group]

    def _parts(
        self, tasks: Sequence[Task], splits: Sequence[Split], chosen: list[int], matrices: dict[int, Any]
    ) -> list[tuple[Any, ...]]:
        """Folds with their tasks: all of a fold for a machine with a path, else one by one."""
        groups: dict[tuple[int, int], list[int]] = {}
        for i in chosen:
            groups.setdefault((tasks[i].kernel, tasks[i].split), []).append(i)
        if self.has_path:
            return [
                (_Part(matrices[k], self.y, splits[s], 1), *group) for (k, s), group in groups.items()
            ]
        return [
            (part, i)
            for (k, s), group in groups.items()
            for part in [_Part(matrices[k], self.y, splits[s], len(group))]
            for i in group
        ]

    def _path(self, tasks: list[Task], part: _Part, prediction: bool) -> list[Outcome]:
        """Fit all settings of a fold along one path."""
        clocks = [(time.perf_counter(), time.thread_time())]
        K, train, test = part.whole()
        relative = any(isinstance(v, Relative) for task in tasks for v in task.params.values())
        variance = variance_unit(K, train) if relative else 1.0
        settings = [resolved(task.params, variance, 1.0) for task in tasks]
        others, targets = K[test], self.y[test]
        clocks.append((time.perf_counter(), time.thread_time()))
        with self._noting(*tasks):
            models = self.estimator.fit_path(K, self.y, train, settings, self.work.stop.is_set)
        clocks.append((time.perf_counter(), time.thread_time()))
        wall, processor = np.diff(clocks, axis=0).T
        self._spend("slices", processor[0])
        self._spend("fits", processor[1])
        outcomes = []
        for task, model, params in zip(tasks, models, settings, strict=True):
            with self._noting(task):
                share = wall[1] / len(tasks)
                outcomes.append(self._scored(model, params, share, others, targets, prediction))
        return outcomes

    def _one(self, tasks: list[Task], part: _Part, prediction: bool) -> list[Outcome]:
        """One fit to the slices of a fold."""
        clock = time.thread_time()
        with part as (K, others, y, targets), self._noting(tasks[0]):
            params = resolved(tasks[0].params, part.variance, part.spread)
            self._spend("slices", time.thread_time() - clock)
            model = clone(self.estimator).set_params(**params)
            wall, processor = time.perf_counter(), time.thread_time()
            model.fit(K, y)
            self._spend("fits", time.thread_time() - processor)
            wall = time.perf_counter() - wall
            return [self._scored(model, params, wall, others, targets, prediction)]

    @contextmanager
    def _noting(self, *tasks: Task) -> Iterator[None]:
        """Add a note to errors that says which fits of a fold they come from."""
        try:
            yield
        except Exception as error:
            kernel, params = self.kernels[tasks[0].kernel], ", ".join(str(t.params) for t in tasks)
            error.add_note(f"in fold {tasks[0].split} with {kernel!r}, {params}")
            raise

    def _scored(
        self,
        model: Any,
        params: dict[str, Any],
        fitting: float,
        others: Any,
        targets: Any,
        prediction: bool,
    ) -> Outcome:
        """Scores of a fitted model; fitting is the seconds that its fit took."""
        wall, processor = time.perf_counter(), time.thread_time()
        try:
            result = self.scorer(model, others, targets)
        except AttributeError as error:
            raise ValueError(
                f"the metric does not work with the estimator: {error} For probabilities use "
                "mercer.machines.SVC(probability=True) as the estimator"
            ) from error
        except ValueError as error:
            raise ValueError(
                f"the metric does not go with the target: {error}; choose another, such as f1_macro "
                "in place of f1 where labels are words"
            ) from error
        self._spend("scores", time.thread_time() - processor)
        seconds = (float(fitting), time.perf_counter() - wall)
        scores = result if isinstance(result, dict) else {"score": result}
        for name, value in scores.items():
            if np.isnan(value):
                raise ValueError(f"the {name} is not a number; use other folds or another metric")
        predicted = model.predict(others) if prediction else None
        return Outcome({n: float(value) for n, value in scores.items()}, seconds, predicted, params)

    def _spend(self, name: str, seconds: float) -> None:
        with self.work.lock:
            self.seconds[name] += float(seconds)


def by_metric(outcomes: Sequence[Outcome]) -> dict[str, NDArray[np.float64]]:
    """Scores of several fits, metric by metric."""
    return {name: np.array([o.scores[name] for o in outcomes]) for name in outcomes[0].scores}


def threads_for(n_jobs: int | None) -> int:
    """Number of threads for ``n_jobs``; -1 stands for all that BLAS may use."""
    threads = int(effective_n_jobs(n_jobs))
    return min(threads, threads_in_use()) if n_jobs == -1 else threads


def choose_scorer(estimator: Any, scoring: Any) -> Scorer:
    """scikit-learn's scorer, except for accuracy, where its checks take longer than the score."""
    scorer: Scorer = check_scoring(estimator, scoring)
    own = getattr(type(estimator), "score", None)
    plain = own is ClassifierMixin.score if scoring is None else scoring == "accuracy"
    return accuracy if plain and is_classifier(estimator) else scorer


def accuracy(model: Any, K: Any, y: Any) -> float:
    """Share of points that are classified correctly."""
    return float(np.mean(model.predict(K) == y))


class _Part:
    """Slices of a Gram matrix for one fold, cut on first use and freed after the last."""

    def __init__(self, K: Any, y: Any, split: Split, uses: int) -> None:
        self._K, self._y, self._split, self._uses = K, y, split, uses
        self._lock = threading.Lock()
        self._slices: Any = None
        #: Total variance of the training slice, and standard deviation of the training target.
        self.variance = self.spread = 1.0

    def __enter__(self) -> tuple[Any, Any, Any, Any]:
        with self._lock:
            if self._slices is None:
                train, test = self._split
                self._slices = (
                    self._cut(train, train), self._cut(test, train), self._y[train], self._y[test]
                )  # fmt: skip
                self.variance = variance_unit(self._slices[0])
                self.spread = spread(self._slices[2])
            return self._slices

    def whole(self) -> tuple[Any, Index, Index]:
        """The whole matrix, and the rows of both parts."""
        return self._K, *self._split

    def _cut(self, rows: Index, columns: Index) -> Any:
        """Copy a slice in double precision, some rows at a time to avoid a second copy."""
        out = np.empty((len(rows), len(columns)))
        for start in range(0, len(rows), _ROWS):
            part = slice(start, start + _ROWS)
            out[part] = self._K[np.ix_(rows[part], columns)]
        return out

    def __exit__(self, *_: Any) -> None:
        with self._lock:
            self._uses -= 1
            if self._uses == 0:
                self._slices = self._K = None
