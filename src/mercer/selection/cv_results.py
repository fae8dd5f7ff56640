"""Results of a search as tables, in the layout of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.ma import MaskedArray
from scipy.stats import rankdata

from mercer.selection.fits import Outcome
from mercer.selection.grid import Setting


def described(kernel: Any, setting: Setting, params: dict[str, Any]) -> dict[str, Any]:
    """A candidate as users see it: kernel, similarity if one was chosen, parameters."""
    similarity = {} if setting.similarity is None else {"similarity": setting.similarity}
    return {"kernel": kernel, **similarity, **params}


def tabulate(
    params: list[dict[str, Any]], families: list[str], outcomes: list[list[Outcome]]
) -> dict[str, Any]:
    """``cv_results_`` of candidates, from their parameters, families and outcomes fold by fold."""
    table: dict[str, Any] = {}
    folds = len(outcomes[0])
    seconds = np.array([[outcome.seconds for outcome in row] for row in outcomes])
    for i, name in enumerate(("fit_time", "score_time")):
        table[f"mean_{name}"] = seconds[:, :, i].mean(axis=1)
        table[f"std_{name}"] = seconds[:, :, i].std(axis=1)
    settings = [
        {**p, **values} for p, values in zip(params, _varied([p["kernel"] for p in params]), strict=True)
    ]
    for name in dict.fromkeys(name for setting in settings for name in setting):
        table[f"param_{name}"] = _column([setting.get(name, _ABSENT) for setting in settings])
    table["params"] = params
    table["family"] = families
    for metric in outcomes[0][0].scores:
        scores = np.array([[outcome.scores[metric] for outcome in row] for row in outcomes])
        for fold in range(folds):
            table[f"split{fold}_test_{metric}"] = scores[:, fold]
        mean = scores.mean(axis=1)
        table[f"mean_test_{metric}"] = mean
        table[f"std_test_{metric}"] = scores.std(axis=1)
        table[f"rank_test_{metric}"] = rankdata(-mean, method="min").astype(np.int32)
    return table


_ABSENT = object()


def _varied(kernels: list[Any]) -> list[dict[str, Any]]:
    """Parameters of each kernel, of simple types, in which kernels of its class differ."""
    params = [
        {k: v for k, v in kernel.get_params().items() if isinstance(v, int | float | str | tuple)}
        for kernel in kernels
    ]
    seen: dict[tuple[type, str], set[Any]] = {}
    for kernel, values in zip(kernels, params, strict=True):
        for name, value in values.items():
            seen.setdefault((type(kernel), name), set()).add(value)
    return [
        {f"kernel__{name}": v for name, v in values.items() if len(seen[type(kernel), name]) > 1}
        for kernel, values in zip(kernels, params, strict=True)
    ]


def _column(values: list[Any]) -> Any:
    """A masked array, of floats if all values are numbers."""
    absent = [value is _ABSENT for value in values]
    present = [value for value in values if value is not _ABSENT]
    number = all(isinstance(value, int | float) and not isinstance(value, bool) for value in present)
    column = np.empty(len(values), dtype=float if number else object)
    for i, value in enumerate(values):
        column[i] = (0.0 if number else None) if absent[i] else value
    return MaskedArray(column, mask=absent)
