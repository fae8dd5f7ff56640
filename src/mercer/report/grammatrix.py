"""Pictures of the Gram matrix of some points: the matrix, a map, and similarities of pairs."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from mercer._threads import run
from mercer.report.ticks import plain
from mercer.rkhs import center

Array = NDArray[np.float64]
Index = NDArray[np.intp]
#: Bars of a histogram.
BINS = 48


def similarities(K: Array) -> Array:
    """``k(x, y) / sqrt(k(x, x) k(y, y))``; zero for points of length zero in feature space."""
    lengths = np.sqrt(np.maximum(np.diag(K), 0))
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return K * scale[:, None] * scale


def heat_map(K: Array) -> dict[str, Any]:
    """The lower triangle as bytes from the least to the largest similarity of two points."""
    S = similarities(K)
    below = np.tril_indices(len(S))
    pairs = S[np.tril_indices(len(S), -1)]
    low, high = (float(pairs.min()), float(pairs.max())) if pairs.size else (0.0, 1.0)
    shares = (S[below] - low) / (high - low) if high > low else np.ones(len(below[0]))
    # The diagonal, which is 1 and no pair, gets the colour of the largest similarity.
    levels = np.rint(255 * np.clip(shares, 0, 1)).astype(np.uint8)
    return {"low": low, "high": high, "bytes": base64.b64encode(levels.tobytes()).decode("ascii")}


def maps(grams: list[Array]) -> list[dict[str, Any]]:
    """First two kernel principal components of the points under each kernel.

    The sign of an axis is arbitrary; it is chosen to agree with the first map.
    """
    found: list[Any] = [None] * len(grams)

    def job(place: int) -> None:
        found[place] = principal_components(grams[place])

    run(job, [(i,) for i in range(len(grams))])
    first = found[0][0]
    pictures = []
    for places, shares in found:
        signs = np.where(np.sum(places * first, axis=0) < 0, -1.0, 1.0)
        x, y = (places * signs).T
        pictures.append({"x": plain(x), "y": plain(y), "shares": plain(shares)})
    return pictures


def principal_components(K: Array) -> tuple[Array, Array]:
    """First two kernel principal components of the points, and the axes' shares of the variance."""
    centred = center(K)
    size = len(centred)
    number = min(2, size)
    # All eigenpairs: asked for some of many equal eigenvalues, LAPACK may return fewer.
    values, vectors = eigh(centred, driver="evd")
    values = np.maximum(values[: -number - 1 : -1], 0.0)
    places, shares = np.zeros((size, 2)), np.zeros(2)
    places[:, :number] = vectors[:, : -number - 1 : -1] * np.sqrt(values)
    # The sign of an eigenvector is arbitrary: the farthest point is made positive.
    places *= np.where(places[np.abs(places).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
    total = float(np.trace(centred))
    if total > 0:
        shares[:number] = values / total
    return places, shares


def pair_histogram(values: Array, code: Index | None, edges: Array | None = None) -> dict[str, Any]:
    """Share of the pairs of points in each bin: pairs of one class and of two, or all pairs."""
    i, j = np.tril_indices(len(values), -1)
    pairs = values[i, j]
    if edges is None:
        low, high = (float(pairs.min()), float(pairs.max())) if pairs.size else (0.0, 1.0)
        edges = np.linspace(low, high if high > low else low + 1e-9 + abs(low) * 1e-9, BINS + 1)
    groups = {"all pairs": np.ones(len(pairs), dtype=bool)}
    if code is not None:
        same = code[i] == code[j]
        groups = {"pairs of one class": same, "pairs of two classes": ~same}
    bars = {
        name: (np.histogram(pairs[part], edges)[0] / max(int(part.sum()), 1)).tolist()
        for name, part in groups.items()
    }
    return {"edges": plain(edges, 6), "groups": [{"name": n, "bars": plain(b)} for n, b in bars.items()]}
