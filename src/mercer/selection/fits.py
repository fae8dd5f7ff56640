"""Fits on slices of Gram matrices: many kernels, folds and parameters of an estimator, in threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn import config_context, get_config
from sklearn.base import ClassifierMixin, clone
from sklearn.gaussian_process.kernels import Kernel
from sklearn.metrics import check_scoring

from mercer._progress import Work
from mercer._threads import blas_limited_to, run, threads_in_use
from mercer.selection.gram_cache import Grams, fit_bytes, is_shared, plan, sharing
from mercer.selection.journal import Journal, fingerprint
from mercer.selection.scales import resolved, spread, variance_unit

Index = NDArray[np.intp]
Split = tuple[Index, Index]
#: Called with an estimator, Gram matrix and target; returns a score, or a dict of them.
Scorer = Callable[[Any, Any, Any], Any]
#: Rows of a slice that are copied at a time.
_ROWS = 256
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

    Each Gram matrix is computed once, in batches that fit into memory, and each fold is cut out of it
    once for all parameters of the estimator.

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
    #: scikit-learn's settings, which are those of the thread that made this object.
    config: dict[str, Any] = field(default_factory=get_config)
    seconds: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("products", "laws", "slices", "fits", "scores"), 0.0)
    )

    def run(
        self, tasks: Sequence[Task], splits: Sequence[Split], *, predictions: bool = False
    ) -> list[Outcome]:
        """Run all tasks; finished ones are read from the journal, unless predictions are requested."""
        outcomes: list[Any] = [None] * len(tasks)
        keys = self._recall(tasks, splits, outcomes) if not predictions else {}
        left = [i for i, outcome in enumerate(outcomes) if outcome is None]
        self.work.advance(len(tasks) - len(left))
        if left:
            with blas_limited_to(self.threads):
                self._fit(tasks, splits, left, keys, outcomes, predictions)
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
            combined=not plain, threads=self.threads, max_memory=self.max_memory,
        )  # fmt: skip
        grams = Grams(self.X, dtype=layout.dtype, kept=layout.invariants, device=self.device)
        config = {**self.config, "assume_finite": True}  # Gram matrices are checked once

        def job(i: int, part: _Part) -> None:
            if self.work.stop.is_set():
                return
            with config_context(**config):
                outcomes[i] = self._one(tasks[i], part, predictions)
            if self.journal is not None and i in keys:
                self.journal.put(keys[i], outcomes[i].scores, outcomes[i].seconds)
            self.work.advance()

        for start in range(0, len(used), layout.batch):
            batch = used[start : start + layout.batch]
            matrices = {}
            for k in batch:
                self._heed_stop()
                matrices[k] = grams(self.kernels[k])
            for name, value in grams.seconds.items():
                self._spend(name, value)
                grams.seconds[name] = 0.0
            chosen = [i for i in left if tasks[i].kernel in matrices]
            for i in [i for i in chosen if tasks[i].split == WHOLE]:
                outcomes[i] = self._measured(matrices[tasks[i].kernel], keys.get(i))
            parts = self._parts(tasks, splits, [i for i in chosen if tasks[i].split != WHOLE], matrices)
            if parts:
                with blas_limited_to(layout.threads):
                    run(job, parts, self.work.stop)
            self._heed_stop()

    def _measured(self, K: Any, key: str | None) -> Outcome:
        """The total variance of a whole Gram matrix."""
        outcome = Outcome({"variance": variance_unit(K)}, (0.0, 0.0))
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
    ) -> list[tuple[int, _Part]]:
        """Tasks with their slices, those on the same slices adjacent."""
        groups: dict[tuple[int, int], list[int]] = {}
        for i in chosen:
            groups.setdefault((tasks[i].kernel, tasks[i].split), []).append(i)
        return [
            (i, part)
            for (k, s), group in groups.items()
            for part in [_Part(matrices[k], self.y, splits[s], len(group))]
            for i in group
        ]

    def _one(self, task: Task, part: _Part, prediction: bool) -> Outcome:
        clock = time.thread_time()
        with part as (K, others, y, targets):
            params = resolved(task.params, part.variance, part.spread)
            self._spend("slices", time.thread_time() - clock)
            try:
                return self._score(params, K, others, y, targets, prediction)
            except Exception as error:
                error.add_note(f"in fold {task.split} with {self.kernels[task.kernel]!r}, {task.params}")
                raise

    def _score(
        self, params: dict[str, Any], K: Any, others: Any, y: Any, targets: Any, prediction: bool
    ) -> Outcome:
        model = clone(self.estimator).set_params(**params)
        clocks = [(time.perf_counter(), time.thread_time())]
        model.fit(K, y)
        clocks.append((time.perf_counter(), time.thread_time()))
        try:
            result = self.scorer(model, others, targets)
        except AttributeError as error:
            raise ValueError(
                f"the metric does not go with the estimator: {error} For probabilities use "
                "CalibratedClassifierCV(SVC(), ensemble=False)"
            ) from error
        clocks.append((time.perf_counter(), time.thread_time()))
        scores = result if isinstance(result, dict) else {"score": result}
        for name, value in scores.items():
            if np.isnan(value):
                raise ValueError(f"the {name} is not a number; use other folds or another metric")
        wall, processor = np.diff(clocks, axis=0).T
        self._spend("fits", processor[0])
        self._spend("scores", processor[1])
        predicted = model.predict(others) if prediction else None
        seconds = (float(wall[0]), float(wall[1]))
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
    plain = scoring is None and own is ClassifierMixin.score
    return accuracy if plain or scoring == "accuracy" else scorer


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
