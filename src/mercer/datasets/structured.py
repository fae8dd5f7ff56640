"""Readers of strings, graphs and clouds with their labels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from mercer._files import readable
from mercer.datasets.tables import (
    Table,
    check_column,
    groups_of,
    labels_of,
    line_of,
    numbers_of,
    read_frame,
    refuse_missing,
    refuse_twice,
    refuse_unnamed,
)
from mercer.spaces import Graph

#: A whole number as floats are written.
_FLOAT = re.compile(r"-?\d+\.0+")


def read_strings(
    path: str | Path, target: str | None, text: str, group: str | None = None, *, labelled: bool = True
) -> Table:
    r"""Read a table with a column of strings.

    Parameters
    ----------
    path : str or Path
        CSV, TSV (perhaps gzipped), Parquet or Feather file.
    target : str
        Column of labels or numbers.
    text : str
        Column of strings; other columns are ignored.
    group : str, optional
        Column of the groups of strings.
    labelled : bool
        Whether a target is required.

    Returns
    -------
    Table
        X is a list of strings, or of bytes if the column of a Parquet file contains bytes.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from mercer.datasets import read_strings
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "genes.csv")
    ...     _ = path.write_text("dna,kind\nACGT,a\nTTGA,b\n")
    ...     table = read_strings(path, "kind", "dna")
    >>> table.X, table.y.tolist()
    (['ACGT', 'TTGA'], ['a', 'b'])
    """
    path = Path(path)
    frame = read_frame(path, as_text=True, keep_bytes=text)
    with readable(path):
        labels = labels_of(path, frame, target, labelled)
        column = frame[check_column(path, frame, text)]
        refuse_missing(path, column, "drop rows without a string")
        groups = groups_of(path, frame, group, labelled)
        return Table(path.name, column.to_list(), labels, groups=groups)


def read_nodes(
    path: str | Path,
    target: str | None,
    edges: str | Path,
    node: str | None = None,
    drop: Sequence[str] = (),
    group: str | None = None,
) -> Table:
    r"""Read an edge list and a table of nodes, with labels and perhaps attributes.

    An edge that is listed twice, or in both directions, counts once, with the larger weight.  Nodes
    without a label are part of the graph; labelled nodes without an edge are isolated nodes.  Names are
    compared as written, except that in a column of whole numbers such as 7.0 the decimals are dropped.

    Parameters
    ----------
    path : str or Path
        CSV, TSV (perhaps gzipped), Parquet or Feather file with one row per labelled node.
    target : str
        Column of labels.
    edges : str or Path
        File of one of these formats, with a header.  The first two columns are the ends of an edge, and
        an optional column ``weight`` is its weight.
    node : str, optional
        Column of ``path`` with the name of the node; by default the first without another role.
    drop : sequence of str
        Columns to leave out.
    group : str, optional
        Column of the groups of nodes.

    Returns
    -------
    Table
        X are the indices of nodes in ``graph``; if the table has other columns, a data frame with the
        indices in the first column and the others as they are.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from mercer.datasets import read_nodes
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     papers, links = Path(folder, "papers.csv"), Path(folder, "links.csv")
    ...     _ = papers.write_text("paper,topic\na,art\nb,law\n")
    ...     _ = links.write_text("from,to\na,b\nb,c\n")
    ...     table = read_nodes(papers, "topic", links)
    >>> table.nodes, table.X.tolist(), table.y.tolist()
    (('a', 'b', 'c'), [0, 1], ['art', 'law'])
    """
    path, edges = Path(path), Path(edges)
    frame, typed = read_frame(path, as_text=True), read_frame(path)
    with readable(path):
        labels = labels_of(path, typed, target, labelled=True)
        groups = groups_of(path, frame, group, labelled=True)
        for name in drop:
            check_column(path, frame, name)
        others = [c for c in frame.columns if c not in (target, group, *drop)]
        if node is None and not others:
            raise ValueError(f"{path.name} has no column with the names of nodes")
        _refuse_two_roles(path, {"node": node, "target": target, "group": group}, drop)
        column = check_column(path, frame, node or others[0])
        names = _names(path, frame, column, "drop rows without a node")
        _refuse_repeated(path, column, names)
    ends, weights = _read_edges(edges, names, path.name)
    everyone, positions = np.unique(np.concatenate([ends.ravel(), names]), return_inverse=True)
    size = len(everyone)
    first, second = positions[: ends.size].reshape(-1, 2).T
    graph = _graph(first, second, weights, size)
    X: Any = positions[ends.size :]
    attributes = [name for name in others if name != column]
    if attributes:
        typed = typed[attributes]
        refuse_unnamed(path, typed)
        refuse_twice(path, typed)
        X = pd.DataFrame({column: X}).join(typed)
    return Table(
        path.name, X, labels, graph, nodes=tuple(everyone.tolist()), columns=(column, *attributes),
        ids=tuple(names.tolist()), groups=groups,
    )  # fmt: skip


def read_known_nodes(path: str | Path, target: str | None, node: str, nodes: Sequence[str]) -> Table:
    """Read a table of nodes of a known graph, with or without labels.

    Parameters
    ----------
    path : str or Path
        As in :func:`read_nodes`.
    target : str
        Column of labels, if the table has one.
    node : str
        Column with the name of the node.
    nodes : sequence of str
        Names of the nodes of the graph, in its order.
    """
    path = Path(path)
    frame = read_frame(path, as_text=True)
    with readable(path):
        labels = labels_of(path, frame, target, labelled=False)
        names = _names(path, frame, check_column(path, frame, node), "drop rows without a node")
    places = {name: i for i, name in enumerate(nodes)}
    for row, name in enumerate(names.tolist()):
        if name not in places:
            raise ValueError(f"{line_of(row)} of {path.name} names {name!r}, which is not in the graph")
    positions = np.array([places[name] for name in names.tolist()])
    return Table(path.name, positions, labels, columns=(node,), ids=tuple(names.tolist()))


def _names(path: Path, frame: Any, column: str, advice: str) -> np.ndarray:
    """Names of nodes; if all are whole numbers written as floats, such as 7.0, without decimals."""
    refuse_missing(path, frame[column], advice)
    names = frame[column].to_list()
    if all(_FLOAT.fullmatch(name) for name in names):
        names = [name[: name.index(".")] for name in names]
    # As objects: in a string array one long name, such as from a stray quote, would lengthen all others.
    return np.array(names, dtype=object)


def _refuse_repeated(path: Path, column: str, names: np.ndarray) -> None:
    seen: dict[str, int] = {}
    for row, name in enumerate(names.tolist()):
        if seen.setdefault(name, row) != row:
            raise ValueError(
                f"column {column!r} of {path.name} lists node {name!r} twice, in "
                f"{line_of(seen[name])} and {line_of(row)}; keep one of them, or name another column of "
                "nodes (--node)"
            )


def _read_edges(path: Path, labelled: np.ndarray, table: str) -> tuple[np.ndarray, np.ndarray]:
    """Ends and weights of the edges; at least one end must be a labelled node."""
    frame = read_frame(path, as_text=True)
    with readable(path):
        if frame.shape[1] < 2:
            raise ValueError(
                f"{path.name} is not an edge list: it needs a header, two columns that name the ends, "
                "and rows"
            )
        ends = np.column_stack([_names(path, frame, c, "drop such edges") for c in frame.columns[:2]])
        known = set(ends.ravel().tolist())
        for cell in frame.columns[:2]:
            if cell in known or cell in labelled:
                raise ValueError(
                    f"{path.name} seems to have no header line: its first line names the node {cell!r}; "
                    "add one, such as source,target"
                )
        if not known.intersection(labelled.tolist()):
            raise ValueError(
                f"none of the {len(labelled)} nodes (such as {str(labelled[0])!r}) occurs in "
                f"{path.name} (with nodes such as {str(ends[0, 0])!r}); are the names in {table} spelt "
                "the same way?"
            )
        return ends, _edge_weights(path, frame, ends)


def _edge_weights(path: Path, frame: Any, ends: np.ndarray) -> np.ndarray:
    """The column ``weight``, or ones."""
    others = frame.columns[2:]
    if "weight" not in others:
        for name in others:
            if pd.to_numeric(frame[name], errors="coerce").notna().all():
                raise ValueError(
                    f"column {name!r} of {path.name} is not used; rename it to weight or remove it"
                )
        return np.ones(len(frame))
    weights: np.ndarray = pd.to_numeric(frame["weight"], errors="coerce").to_numpy(dtype=float)
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if bad.size:
        row = int(bad[0])
        written, (first, second) = frame["weight"].iloc[row], ends[row].tolist()
        raise ValueError(
            f"{line_of(row)} of {path.name}: the edge of {first!r} and {second!r} has "
            f"{'no weight' if pd.isna(written) else f'weight {written}'}; weights must not be negative"
        )
    return weights


def _graph(first: Any, second: Any, weights: Any, size: int) -> Graph:
    """Graph of the edges; edges that are listed more than once have the largest weight."""
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
    *,
    labelled: bool = True,
) -> Table:
    r"""Read clouds from a table with one row per point.

    Parameters
    ----------
    path : str or Path
        CSV, TSV (perhaps gzipped), Parquet or Feather file.
    target : str
        Column of labels, equal for all points of a cloud.
    cloud : str
        Column with the name of the cloud of a point.
    weight : str, optional
        Column of weights, which are divided by their sum over the cloud.
    drop : sequence of str
        Columns to leave out; all others are coordinates.
    labelled : bool
        Whether a target is required.

    Returns
    -------
    Table
        X is a list of arrays, or of pairs of an array and weights.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from mercer.datasets import read_clouds
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "cells.csv")
    ...     _ = path.write_text("cell,x,y,kind\n1,0,0,a\n1,0,2,a\n2,5,5,b\n")
    ...     table = read_clouds(path, "kind", "cell")
    >>> [cloud.tolist() for cloud in table.X], table.y.tolist()
    ([[[0.0, 0.0], [0.0, 2.0]], [[5.0, 5.0]]], ['a', 'b'])
    """
    path = Path(path)
    frame = read_frame(path)
    with readable(path):
        labels = labels_of(path, frame, target, labelled)
        used = [
            check_column(path, frame, name) for name in (cloud, *drop, *([weight] if weight else []))
        ]
        named = {"target": None if labels is None else target, "cloud": cloud, "weight": weight}
        _refuse_two_roles(path, named, drop)
        refuse_missing(path, frame[cloud], "drop points without a cloud")
        features = frame.drop(columns=used if labels is None else [target, *used])
        refuse_unnamed(path, features)
        refuse_twice(path, features)
        if features.shape[1] == 0:
            raise ValueError(f"{path.name} has no columns of coordinates")
        points = numbers_of(path, features)
        names, owner = np.unique(frame[cloud].astype(str).to_numpy(), return_inverse=True)
        order = np.argsort(owner, kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(owner))[:-1])
        weights = None if weight is None else numbers_of(path, frame[[weight]])[:, 0]
        for name, part in zip(names, parts, strict=True):
            if labels is not None:
                _check_label(labels[part], str(name), path)
            if weights is not None:
                _check_weights(weights[part], str(name), path)
        X = [
            points[part] if weights is None else (points[part], weights[part] / weights[part].sum())
            for part in parts
        ]
        if labels is not None:
            labels = labels[[part[0] for part in parts]]
        return Table(path.name, X, labels, columns=tuple(features.columns), ids=tuple(names.tolist()))


def _check_label(labels: np.ndarray, cloud: str, path: Path) -> None:
    """Raise unless all points of a cloud have the same label, or none has a label."""
    found = {None if label != label else label for label in labels.tolist()}
    if len(found) > 1:
        raise ValueError(f"cloud {cloud!r} of {path.name} has several labels: {found}")


def _refuse_two_roles(path: Path, roles: dict[str, str | None], drop: Sequence[str]) -> None:
    """Raise if a column has two roles, or a role and is dropped."""
    seen: dict[str, str] = dict.fromkeys(drop, "left out")
    for role, name in roles.items():
        if name in seen:
            raise ValueError(
                f"column {name!r} of {path.name} cannot be both {seen[name]} and the {role}"
            )
        if name is not None:
            seen[name] = f"the {role}"


def _check_weights(weights: np.ndarray, cloud: str, path: Path) -> None:
    if (weights < 0).any() or not 0 < weights.sum() < np.inf:
        raise ValueError(f"cloud {cloud!r} of {path.name} has negative weights, or none above zero")
