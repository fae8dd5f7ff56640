"""Kernels as functions of the angle or distance, with histograms of those in the data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer.kernels import Cosine, Linear
from mercer.report.grammatrix import BINS, Index, pair_histogram
from mercer.report.ticks import axis, plain
from mercer.rkhs import distances
from mercer.selection import Comparison

Array = NDArray[np.float64]
_STEPS = 181


def curves(comparison: Comparison, rows: Any, code: Index | None) -> list[dict[str, Any]]:
    """A figure for each space of directions among the chosen kernels, and one for isotropic kernels.

    Only rows of numbers have angles and distances, and figures.
    """
    if not comparison.data.kind.vectors:
        return []
    chosen = {score.name: score.kernel for score in comparison.scores}
    zonal: dict[str, Any] = {name: k for name, k in chosen.items() if k.is_zonal()}
    spaces = list({repr(k.space): k.space for k in zonal.values()}.values())
    figures = [
        _angles(space, {n: k for n, k in zonal.items() if k.space == space}, rows, code)
        for space in spaces
    ]
    flat = {name: k for name, k in chosen.items() if k.is_isotropic()}
    return [*figures, _distances(flat, rows, code)] if flat else figures


def _angles(space: Any, kernels: dict[str, Any], rows: Any, code: Index | None) -> dict[str, Any]:
    right = float(space.widest_angle)
    degrees = np.linspace(0, right, _STEPS)
    cosines = np.cos(np.radians(degrees))
    cosines[-1] = round(cosines[-1])  # 90 degrees, exactly
    n = int(space.check(rows).shape[1])
    angles = np.degrees(np.arccos(np.clip(Cosine(space)(rows), -1.0, 1.0)))
    return {
        "x": plain(degrees),
        "ticks": [right / 6 * i for i in range(7)],
        "unit": "°",
        "title": "angle between two rows",
        "place": f"on the {space.title}",
        "lines": _lines({name: k.profile(n).evaluate(cosines) for name, k in kernels.items()}),
        "histogram": pair_histogram(angles, code, np.linspace(0, right, BINS + 1)),
    }


def _distances(kernels: dict[str, Any], rows: Any, code: Index | None) -> dict[str, Any]:
    found = distances(Linear()(rows))
    line = axis([0.0, found.max()])
    x = np.linspace(0, line.high, _STEPS)
    n = int(rows.shape[1])
    # Rows at those distances from the origin, along the first column.
    steps = sparse.csr_matrix((x, (np.arange(_STEPS), np.zeros(_STEPS, dtype=int))), shape=(_STEPS, n))
    values = {name: np.asarray(k(steps, steps[:1])).ravel() for name, k in kernels.items()}
    return {
        "x": plain(x),
        "ticks": line.ticks,
        "unit": "",
        "title": "Euclidean distance between two rows",
        "place": "in flat space",
        "lines": _lines(values),
        "histogram": pair_histogram(found, code, np.linspace(0, line.high, BINS + 1)),
    }


def _lines(values: dict[str, Array]) -> list[dict[str, Any]]:
    """Values relative to those at angle or distance zero."""
    return [{"name": name, "y": plain(v / v[0])} for name, v in values.items()]
