"""Contributions of columns, words, labels, substrings or nodes to weighted sums of a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._arrays import Array


@dataclass(frozen=True, eq=False)
class Contributions:
    """Contributions of features of points to sums ``sum_y weights[x, y] k(x, y)``, a row for each x.

    If the kernel is a sum over features, contributions are the terms of the sum, and they are exact.
    Otherwise they are of first order.  The kernel is then a function of an invariant, such as an inner
    product or a squared distance: if the feature's part of the invariant is multiplied by ``1 + e``
    with a small e, the sum changes by ``e`` times the contribution.

    Attributes
    ----------
    kind : str
        What features are: "column", "word", "label", "substring", "subsequence", "point" (of a cloud),
        "axis" (of rotations) or "neighbour".
    names : list
        Names of the features; positions of columns that have none.
    values : array of shape (m, len(names))
    exact : bool
        Whether contributions are terms of the sum; for labels, exactly what is lost with another
        label.
    """

    kind: str
    names: list[Any]
    values: Array
    exact: bool

    def renamed(self, columns: Sequence[Any], kind: str | None = None) -> Contributions:
        """The same with names instead of positions of columns."""
        if self.kind not in ("column", "label"):
            return self
        named = [_named(name, columns) for name in self.names]
        return replace(self, names=named, kind=kind if kind and self.kind == "column" else self.kind)


@dataclass(frozen=True)
class Label:
    """A label in a column, as the name of a feature."""

    column: Any
    value: Any

    def __str__(self) -> str:
        return f"{self.column} = {self.value}"


def of_columns(values: Array, exact: bool) -> tuple[Contributions, ...]:
    """Contributions of columns, by their positions."""
    return (Contributions("column", list(range(values.shape[1])), values, exact),)


def of_nodes(nodes: list[Any], values: Array) -> tuple[Contributions, ...]:
    """Contributions of nodes of a graph, which are terms of the sum."""
    return (Contributions("neighbour", nodes, values, exact=True),)


def of_labels(columns: Sequence[NDArray[Any]], found: Contributions) -> Contributions:
    """Contributions of columns as those of the labels in them."""
    names, parts = [], []
    for j, column in enumerate(columns):
        labels: dict[Any, int] = {}
        places = np.array([labels.setdefault(label, len(labels)) for label in column.tolist()])
        part = np.zeros((len(column), len(labels)))
        part[np.arange(len(column)), places] = found.values[:, j]
        names += [Label(j, label) for label in labels]
        parts.append(part)
    return Contributions("label", names, np.hstack(parts), found.exact)


def merged(found: Sequence[Contributions]) -> list[Contributions]:
    """Contributions with those of the same kind added up, as from the factors of a product."""
    kinds: dict[str, list[Contributions]] = {}
    for own in found:
        kinds.setdefault(own.kind, []).append(own)
    return [own[0] if len(own) == 1 else _added(own) for own in kinds.values()]


def _added(found: list[Contributions]) -> Contributions:
    places: dict[Any, int] = {}
    for own in found:
        for name in own.names:
            places.setdefault(name, len(places))
    values = np.zeros((len(found[0].values), len(places)))
    for own in found:
        np.add.at(values.T, np.array([places[name] for name in own.names]), own.values.T)
    return Contributions(found[0].kind, list(places), values, all(own.exact for own in found))


def _named(name: Any, columns: Sequence[Any]) -> Any:
    if isinstance(name, Label):
        return replace(name, column=_named(name.column, columns))
    return columns[name] if isinstance(name, int) else name
