"""Reading strings, graphs and clouds with their labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from mercer.datasets.tables import (
    Table,
    check_column,
    labels_of,
    numbers_of,
    read_frame,
    refuse_missing,
)
from mercer.spaces import Graph


def read_strings(path: str | Path, target: str | None, text: str) -> Table:
    """Read a table with a column of strings.

    Parameters
    ----------
    path : str or Path
        CSV, TSV (perhaps gzipped) or Parquet file.
    target : str
        Column of labels.
    text : str
        Column of strings; other columns are not looked at.

    Returns
    -------
    Table
        X is a list of strings.
    """
    path = Path(path)
    frame = read_frame(path, as_text=True)
    labels = labels_of(path, frame, target)
    column = frame[check_column(path, frame, text)]
    refuse_missing(path, column, "drop rows without a string")
    return Table(path.name, column.to_list(), labels)


def read_nodes(
    path: str | Path, target: str | None, edges: str | Path, node: str | None = None
) -> Table:
    """Read an edge list, and a table of nodes with labels.

    An edge that is listed twice, or in both directions, counts once, with the larger weight.  Nodes
    without a label are part of the graph; labelled nodes without an edge are isolated nodes of it.

    Parameters
    ----------
    path : str or Path
        CSV, TSV (perhaps gzipped) or Parquet file with a row per labelled node.
    target : str
        Column of labels.
    edges : str or Path
        File of the same kinds; its first two columns name the ends of an edge, a column ``weight``, if
        there is one, holds its weight.
    node : str, optional
        Column of ``path`` that names the node; by default the first beside the target.

    Returns
    -------
    Table
        X are positions of nodes in ``graph``.
    """
    path, edges = Path(path), Path(edges)
    frame = read_frame(path, as_text=True)
    labels = labels_of(path, frame, target)
    others = [c for c in frame.columns if c != target]
    if node is None and not others:
        raise ValueError(f"{path.name} has no column that names the node")
    named = frame[check_column(path, frame, node or others[0])]
    refuse_missing(path, named, "drop rows without a node")
    names = named.to_numpy()
    ends, weights = _read_edges(edges)
    everyone, positions = np.unique(np.concatenate([ends.ravel(), names]), return_inverse=True)
    size = len(everyone)
    first, second = positions[: ends.size].reshape(-1, 2).T
    return Table(path.name, positions[ends.size :], labels, _graph(first, second, weights, size))


def _read_edges(path: Path) -> tuple[np.ndarray, np.ndarray]:
    import pandas as pd

    frame = read_frame(path, as_text=True)
    if frame.shape[1] < 2 or len(frame) == 0:
        raise ValueError(
            f"{path.name} is no edge list: it needs a header, two columns that name the ends, and rows"
        )
    ends = frame.iloc[:, :2]
    for name in ends:
        refuse_missing(path, ends[name], "drop such edges")
    weights = np.ones(len(frame))
    if "weight" in frame.columns[2:]:
        weights = numbers_of(path, frame[["weight"]].apply(pd.to_numeric, errors="coerce"))[:, 0]
    return ends.to_numpy(), weights


def _graph(first: Any, second: Any, weights: Any, size: int) -> Graph:
    """Graph of the edges, the largest weight for edges that are listed more than once."""
    low, high = np.minimum(first, second), np.maximum(first, second)
    order = np.lexsort((weights, high, low))
    low, high, weights = low[order], high[order], weights[order]
    last = np.append((np.diff(low) != 0) | (np.diff(high) != 0), True)
    half = sparse.coo_array((weights[last], (low[last], high[last])), shape=(size, size)).tocsr()
    loops = sparse.diags_array(half.diagonal())
    return Graph(half + half.T - loops)


def read_clouds(
    path: str | Path,
    target: str | None,
    cloud: str,
    weight: str | None = None,
    drop: Sequence[str] = (),
) -> Table:
    """Read clouds from a table with one point per row.

    Parameters
    ----------
    path : str or Path
        CSV, TSV (perhaps gzipped) or Parquet file.
    target : str
        Column of labels, the same on all rows of a cloud.
    cloud : str
        Column that says which cloud the point belongs to.
    weight : str, optional
        Column of weights, which are divided by their sum over the cloud.
    drop : sequence of str
        Columns to leave out; all others are coordinates.

    Returns
    -------
    Table
        X is a list of arrays, or of pairs of an array and weights.
    """
    path = Path(path)
    frame = read_frame(path)
    labels = labels_of(path, frame, target)
    used = [check_column(path, frame, name) for name in (cloud, *drop, *([weight] if weight else []))]
    refuse_missing(path, frame[cloud], "drop points without a cloud")
    features = frame.drop(columns=[target, *used])
    if features.shape[1] == 0 or len(features) == 0:
        raise ValueError(f"{path.name} has no columns of coordinates, or no rows")
    points = numbers_of(path, features)
    names, owner = np.unique(frame[cloud].astype(str).to_numpy(), return_inverse=True)
    order = np.argsort(owner, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(owner))[:-1])
    weights = None if weight is None else numbers_of(path, frame[[weight]])[:, 0]
    for name, part in zip(names, parts, strict=True):
        if len(set(labels[part])) > 1:
            raise ValueError(f"cloud {name!r} of {path.name} has several labels: {set(labels[part])}")
        if weights is not None:
            _check_weights(weights[part], str(name), path)
    X = [
        points[part] if weights is None else (points[part], weights[part] / weights[part].sum())
        for part in parts
    ]
    return Table(path.name, X, np.array([labels[part[0]] for part in parts]))


def _check_weights(weights: np.ndarray, cloud: str, path: Path) -> None:
    if (weights < 0).any() or not 0 < weights.sum() < np.inf:
        raise ValueError(f"cloud {cloud!r} of {path.name} has negative weights, or none above zero")
