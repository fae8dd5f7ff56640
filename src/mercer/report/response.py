"""Response of the score to the kernel's parameter and to C (or the ridge), family by family."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.kernels.tables.summary import in_short, of_columns, unweighted
from mercer.report.ticks import plain
from mercer.selection import Comparison
from mercer.selection.comparison import KernelScore
from mercer.selection.scales import Relative

_KERNEL, _SIMILARITY = "param_kernel__", "param_similarity"
#: Parameters of the machine by the last part of their name, their display names, and units of the Gram
#: matrix.
_KNOBS = {"C": "C", "alpha": "ridge"}
_UNITS = {"": "", "C": " \u00d7 variance of the Gram matrix", "ridge": " / variance of the Gram matrix"}


def response(comparison: Comparison, score: KernelScore) -> dict[str, Any]:
    """A grid of mean scores: a row for each kernel, a column for each value of C or the ridge."""
    search = score.search
    table, settings = search.cv_results_, search.settings_
    order = sorted(
        {(s.template, s.similarity) for s in settings}, key=lambda row: (row[0], row[1] or 0.0)
    )
    places = {row: i for i, row in enumerate(order)}
    rows = [places[s.template, s.similarity] for s in settings]
    column = _knob(table)
    values = np.zeros(len(rows)) if column is None else np.asarray(table[column], dtype=float)
    knobs = [_grid_value(s, column) for s in settings]
    heads = sorted(set(knobs))
    cells: list[list[int | None]] = [[None] * len(heads) for _ in order]
    for candidate, (row, knob) in enumerate(zip(rows, knobs, strict=True)):
        cells[row][heads.index(knob)] = candidate
    mean, spread = table["mean_test_score"], table["std_test_score"]
    chosen = Counter((s.template, s.similarity, _grid_value(s, column)) for s in score.nested.settings)
    best = search.best_index_
    kernels = [table["params"][rows.index(i)]["kernel"] for i in range(len(order))]
    parameter, labels = _labels(table, kernels, rows) if len(kernels) > 1 else ("", [score.name])

    def each(value: Callable[[int], Any]) -> list[list[Any]]:
        return [[None if c is None else value(c) for c in line] for line in cells]

    own = "" if column is None else _KNOBS[column.split("_")[-1]]
    relative = any(isinstance(value, Relative) for value in settings[0].params.values())
    return {
        "rows": labels,
        "parameter": parameter,
        "columns": [_short(float(head)) for head in heads],
        "knob": own + _UNITS[own] if relative else own,
        "own": own,
        "values": each(lambda c: plain(values[[c]])[0]),
        "mean": each(lambda c: plain(mean[[c]], 6)[0]),
        "text": each(lambda c: comparison.text(float(mean[c]))),
        "spread": each(lambda c: comparison.text(float(spread[c]))),
        "folds": [[chosen.get((*row, head), 0) for head in heads] for row in order],
        "best": [rows[best], heads.index(knobs[best])],
    }


def _knob(table: dict[str, Any]) -> str | None:
    """The column of C or the ridge; kernels may have an alpha too."""
    own = [name for name in table if name.startswith("param_") and not name.startswith(_KERNEL)]
    return next((name for name in own if name.split("_")[-1] in _KNOBS), None)


def _grid_value(setting: Any, column: str | None) -> float:
    """C or the ridge, in the units of the grid."""
    if column is None:
        return 0.0
    value = setting.params[column.removeprefix("param_")]
    return float(value.value if isinstance(value, Relative) else value)


def _labels(table: dict[str, Any], kernels: list[Any], rows: list[int]) -> tuple[str, list[str]]:
    """Names of the parameters in which the kernels differ, and their values.

    If these do not identify the kernels, as in a family of several classes: no name, and their repr.
    """
    if of_columns(kernels[0]):
        return _of_columns(table, kernels, rows)
    names = [name for name in table if name.startswith(_KERNEL) or name == _SIMILARITY]
    settings = [[table[name][rows.index(i)] for name in names] for i in range(len(kernels))]
    labels = [", ".join(map(_short, values)) for values in settings]
    masked = any(value is np.ma.masked for values in settings for value in values)
    if masked or len(set(labels)) < len(labels):
        return "", [repr(kernel) for kernel in kernels]
    shown = [name.removeprefix(_KERNEL).removeprefix("param_").replace("__", ".") for name in names]
    return ", ".join(shown), labels


def _of_columns(table: dict[str, Any], kernels: list[Any], rows: list[int]) -> tuple[str, list[str]]:
    """Similarities and, if they differ, the kernels of columns."""
    names = [in_short(unweighted(kernel)) for kernel in kernels]
    similarities = [
        table[_SIMILARITY][rows.index(i)] if _SIMILARITY in table else None for i in range(len(kernels))
    ]
    scales = ["" if s is None or s is np.ma.masked else _short(float(s)) for s in similarities]
    if len(set(names)) == 1 and len(set(scales)) == len(scales):
        return "similarity", scales
    labels = [f"{n}, {s}" if s else n for n, s in zip(names, scales, strict=True)]
    return "kernel, similarity" if any(scales) else "kernel", _told_apart(labels, kernels)


def _told_apart(labels: list[str], kernels: list[Any]) -> list[str]:
    """Labels, with the parameters in which kernels of the same label differ."""
    found = []
    for label, kernel in zip(labels, kernels, strict=True):
        own = kernel.get_params()
        same = [k.get_params() for other, k in zip(labels, kernels, strict=True) if other == label]
        differ = {
            name.split("__")[-1]: _short(value)
            for name, value in own.items()
            # Of the kernels in parts, not the factors that parts learn.
            if "kernel__" in name
            and isinstance(value, int | float | tuple)
            and any(other.get(name) != value for other in same)
        }
        found.append(", ".join([label, *(f"{name} {value}" for name, value in differ.items())]))
    return found


def _short(value: Any) -> str:
    if isinstance(value, tuple):
        return " to ".join(_short(v) for v in value)
    if not isinstance(value, float):
        return str(value)
    if abs(value) < 1e-3:
        return f"{value:.2g}"
    return np.format_float_positional(value, precision=3, fractional=False, trim="-")
