"""Fits of machines on landmarks, to the points themselves."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from mercer._arrays import count, evenly_spread
from mercer.selection.fits import WHOLE, Evaluation, Outcome, Split, Task
from mercer.selection.scales import resolved, spread, variance_unit

#: Points from which the total variance of a kernel is learnt.
_POINTS = 1000


@dataclass
class LandmarkEvaluation(Evaluation):
    """Fits of one machine on landmarks: no Gram matrix, and one pass for all ridges of a fold."""

    def _fit(
        self,
        tasks: Sequence[Task],
        splits: Sequence[Split],
        left: list[int],
        keys: dict[int, str],
        outcomes: list[Any],
        predictions: bool,
    ) -> None:
        groups: dict[tuple[int, int], list[int]] = {}
        for i in left:
            groups.setdefault((tasks[i].kernel, tasks[i].split), []).append(i)
        for (kernel, split), chosen in groups.items():
            self._heed_stop()
            if split == WHOLE:
                found = [Outcome({"variance": self._variance(kernel, self.X)}, (0.0, 0.0))]
            else:
                found = self._fold([tasks[i] for i in chosen], splits[split], predictions)
            for i, outcome in zip(chosen, found, strict=True):
                outcomes[i] = self._done(outcome, keys.get(i))

    def _variance(self, kernel: int, X: Any) -> float:
        """Total variance of the kernel, at some of the points."""
        some = evenly_spread(count(X), _POINTS)
        return variance_unit(np.asarray(self.kernels[kernel](_safe_indexing(X, some))))

    def _fold(self, tasks: list[Task], split: Split, prediction: bool) -> list[Outcome]:
        """All settings of a fold; those that differ in the ridge alone share landmarks and sums."""
        train, test = split
        X, y = _safe_indexing(self.X, train), self.y[train]
        others, targets = _safe_indexing(self.X, test), self.y[test]
        variance = self._variance(tasks[0].kernel, X)
        settings = [resolved(task.params, variance, spread(y)) for task in tasks]
        groups: dict[str, list[int]] = {}
        for i, setting in enumerate(settings):
            rest = sorted((name, value) for name, value in setting.items() if name != "alpha")
            groups.setdefault(repr(rest), []).append(i)
        outcomes: list[Any] = [None] * len(tasks)
        for chosen in groups.values():
            machine = clone(self.estimator).set_params(
                kernel=self.kernels[tasks[0].kernel], **settings[chosen[0]]
            )
            wall, processor = time.perf_counter(), time.process_time()
            with self._noting(*(tasks[i] for i in chosen)):
                models = machine.path(X, y, [settings[i].get("alpha", machine.alpha) for i in chosen])
            self._spend("fits", time.process_time() - processor)
            share = (time.perf_counter() - wall) / len(chosen)
            for i, model in zip(chosen, models, strict=True):
                with self._noting(tasks[i]):
                    outcomes[i] = self._scored(model, settings[i], share, others, targets, prediction)
        return outcomes
