"""Contents of the page: words and tables for the template, numbers for the script."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

import numpy as np

from mercer import __version__
from mercer._arrays import taken
from mercer.kernels.tables.summary import in_short, of_columns
from mercer.report import points, predictions
from mercer.report.capacity import MOST_CLASSES, MOST_POINTS, capacities
from mercer.report.curves import curves
from mercer.report.drivers import drivers
from mercer.report.grammatrix import heat_map, maps, pair_histogram, similarities
from mercer.report.labels import short_names
from mercer.report.points import HEAT_POINTS
from mercer.report.response import response
from mercer.report.scoreboard import scoreboard
from mercer.report.source import Source
from mercer.report.ticks import axis, plain
from mercer.selection import Comparison

#: Columns of a kind that are named, and all that are explained.
_COLUMNS, _ALL_COLUMNS = 30, 200
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba")


def page(comparison: Comparison, title: str, source: Source, bounds: bool) -> dict[str, Any]:
    """Variables of the template."""
    rows = points.choose(comparison)
    classes = comparison.target.task == "classification"
    confusion = predictions.confusion(comparison, comparison.scores[0]) if classes else None
    return {
        "title": title,
        "result": comparison,
        "classification": classes,
        "board": scoreboard(comparison),
        "indefinite": [s.name for s in comparison.scores if not s.kernel.positive_semidefinite],
        "confusion": confusion,
        "matrix": confusion is not None and len(confusion.classes) <= predictions.MOST_CLASSES,
        "drivers": drivers(comparison, source.nodes),
        "bounds": bounds and classes,
        "capacities": capacities(comparison) if bounds else [],
        "limits": (MOST_POINTS, MOST_CLASSES),
        "shown": len(rows),
        "heat_shown": min(len(rows), HEAT_POINTS),
        "shown_columns": _COLUMNS,
        "most_columns": _ALL_COLUMNS,
        "settings": [*_settings(comparison), *source.facts()],
        "script": source.script(comparison),
        "versions": _versions(),
        "data": pictures(comparison, rows),
    }


def pictures(comparison: Comparison, rows: points.Index) -> dict[str, Any]:
    """Data of all figures that the script draws."""
    X = taken(comparison.data.X, rows)
    y = comparison.target.y[rows]
    names = points.names(comparison, rows)
    found: dict[str, Any] = {"points": {"names": names}, "metric": comparison.metric_title}
    code = None
    if comparison.target.task == "classification":
        labels, everywhere = np.unique(comparison.target.y, return_inverse=True)
        code = everywhere[rows]
        found["classes"] = [str(label) for label in labels.tolist()]
        found["short"] = short_names(found["classes"])
        found["points"]["code"] = code.tolist()
    else:
        found["points"]["value"] = plain(y)
    first = np.arange(min(len(rows), HEAT_POINTS))
    order = first[np.argsort(y[first], kind="stable")]
    found["order"] = order.tolist()
    found["families"] = _families(comparison, rows, X, code, order)
    if code is None:
        guesses = found["families"][0]["predicted"]
        found["ticks"] = axis([*found["points"]["value"], *guesses]).ticks
    found["curves"] = curves(comparison, X, code)
    return found


def _families(
    comparison: Comparison, rows: points.Index, X: Any, code: points.Index | None, order: points.Index
) -> list[dict[str, Any]]:
    grams = [np.asarray(score.kernel(X), dtype=float) for score in comparison.scores]
    return [
        {
            "name": score.name,
            "kernel": in_short(score.kernel, 99) if of_columns(score.kernel) else repr(score.kernel),
            "response": response(comparison, score),
            "map": found,
            "heat": heat_map(K[np.ix_(order, order)]),
            "similarities": pair_histogram(similarities(K), code),
            "predicted": _predicted(comparison, predictions.predicted(comparison, score, rows)),
        }
        for score, K, found in zip(comparison.scores, grams, maps(grams), strict=True)
    ]


def _predicted(comparison: Comparison, values: list[Any]) -> list[Any]:
    """Class indices, or values."""
    if comparison.target.task == "regression":
        return plain(np.asarray(values, dtype=float))
    labels = np.unique(comparison.target.y)
    return np.searchsorted(labels, np.array(values, dtype=labels.dtype)).tolist()


def _settings(comparison: Comparison) -> list[tuple[str, str]]:
    """Settings of the comparison, as names and values."""
    classes, groups = comparison.classes, comparison.groups
    rows = [("points", f"{comparison.rows} {comparison.data.noun}, {comparison.data.facts}")]
    if comparison.data.kind.spaces:
        rows.append((f"{comparison.data.noun} taken as", comparison.kind))
    if classes:
        least, most = min(classes.values()), max(classes.values())
        sizes = f"{least}" if least == most else f"{least} to {most}"
        rows.append(("target", f"{len(classes)} classes of {sizes} {comparison.data.noun}"))
    else:
        y = comparison.target.y
        rows.append(("target", f"numbers from {y.min():.4g} to {y.max():.4g}"))
    again = f", drawn {comparison.repeats} times" if comparison.repeats > 1 else ""
    rows += [
        ("metric that decides", comparison.metric_title),
        ("outer folds", f"{comparison.folds}{again}"),
        ("inner folds", str(comparison.inner_folds)),
        *([] if groups is None else [("groups", f"{groups}, each kept together in all folds")]),
        ("seed", str(comparison.random_state)),
        ("kernels tried", ", ".join(f"{s.name} ({len(s.search.kernels_)})" for s in comparison.scores)),
    ]
    if comparison.unfinished:
        rows.append(("not reached", ", ".join(comparison.unfinished)))
    return rows


def _versions() -> list[tuple[str, str]]:
    libraries = [(name, metadata.version(name)) for name in _LIBRARIES]
    return [("mercer", __version__), ("Python", platform.python_version()), *libraries]
