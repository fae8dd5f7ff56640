"""How the score answers to the kernel's parameter and to C (or the ridge), family by family."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.report.ticks import plain
from mercer.selection import Comparison
from mercer.selection.comparison import KernelScore

_KERNEL = "param_kernel__"
#: Parameters of the machine, by the last part of their name, and what to call them.
_KNOBS = {"C": "C", "alpha": "ridge"}


def response(comparison: Comparison, score: KernelScore) -> dict[str, Any]:
    """A grid of mean scores: a row for each kernel, a column for each value of C or the ridge."""
    table = score.search.cv_results_
    kernels = score.search.kernels_
    places = {id(kernel): i for i, kernel in enumerate(kernels)}
    rows = [places[id(params["kernel"])] for params in table["params"]]
    column = _knob(table)
    knobs = np.zeros(len(rows)) if column is None else np.asarray(table[column], dtype=float)
    cells: list[list[int]] = [[] for _ in kernels]
    for candidate in np.argsort(knobs, kind="stable").tolist():
        cells[rows[candidate]].append(candidate)
    mean, spread = table["mean_test_score"], table["std_test_score"]
    chosen = _times_chosen(score, kernels, column)
    best = score.search.best_index_
    parameter, labels = _labels(table, kernels, rows) if len(kernels) > 1 else ("", [score.name])
    return {
        "rows": labels,
        "parameter": parameter,
        "columns": _columns(knobs, cells),
        "knob": "" if column is None else _KNOBS[column.split("_")[-1]],
        "values": [plain(knobs[line]) for line in cells],
        "mean": [plain(mean[line], 6) for line in cells],
        "text": [[comparison.text(float(mean[c])) for c in line] for line in cells],
        "spread": [[comparison.text(float(spread[c])) for c in line] for line in cells],
        "folds": [[chosen.get((k, float(knobs[c])), 0) for c in line] for k, line in enumerate(cells)],
        "best": [rows[best], cells[rows[best]].index(best)],
    }


def _knob(table: dict[str, Any]) -> str | None:
    """The column of C or the ridge; kernels may have an alpha too."""
    own = [name for name in table if name.startswith("param_") and not name.startswith(_KERNEL)]
    return next((name for name in own if name.split("_")[-1] in _KNOBS), None)


def _times_chosen(score: KernelScore, kernels: list[Any], column: str | None) -> dict[Any, int]:
    """In how many outer folds each kernel and value was chosen."""
    numbers = {repr(kernel): i for i, kernel in reversed(list(enumerate(kernels)))}
    counts: dict[Any, int] = {}
    for choice in score.nested.chosen:
        knob = 0.0 if column is None else float(choice[column.removeprefix("param_")])
        place = (numbers.get(repr(choice["kernel"])), knob)
        counts[place] = counts.get(place, 0) + 1
    return counts


def _labels(table: dict[str, Any], kernels: list[Any], rows: list[int]) -> tuple[str, list[str]]:
    """Names of the parameters in which the kernels differ, and their values.

    Where that does not tell the kernels apart, as in a family of several classes, no name and whole
    kernels.
    """
    names = [name for name in table if name.startswith(_KERNEL)]
    settings = [[table[name][rows.index(i)] for name in names] for i in range(len(kernels))]
    labels = [", ".join(map(_short, values)) for values in settings]
    masked = any(value is np.ma.masked for values in settings for value in values)
    if masked or len(set(labels)) < len(labels):
        return "", [repr(kernel) for kernel in kernels]
    return ", ".join(name.removeprefix(_KERNEL).replace("__", ".") for name in names), labels


def _columns(knobs: Any, cells: list[list[int]]) -> list[str]:
    """Values that all kernels share, or ratios to the middle one where each has its own."""
    widest = max(cells, key=len)
    grid = [knobs[line] for line in cells if len(line) == len(widest)]
    if all(np.allclose(line, grid[0], rtol=1e-6, atol=0) for line in grid):
        return [_short(float(value)) for value in grid[0]]
    return [f"\u00d7 {_short(float(value / grid[0][len(widest) // 2]))}" for value in grid[0]]


def _short(value: Any) -> str:
    if isinstance(value, tuple):
        return " to ".join(_short(v) for v in value)
    if not isinstance(value, float):
        return str(value)
    if abs(value) < 1e-3:
        return f"{value:.2g}"
    return np.format_float_positional(value, precision=3, fractional=False, trim="-")
