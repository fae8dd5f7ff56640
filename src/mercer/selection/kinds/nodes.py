"""Nodes of a graph, with or without attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.datasets import Table, read_known_nodes, read_nodes
from mercer.kernels import (
    Attributed,
    Diffused,
    Exponential,
    Gaussian,
    Heat,
    Linear,
    Matern,
    Power,
    VonNeumann,
)
from mercer.kernels.tables.frames import is_frame
from mercer.selection.kinds.attributes import Features, features, together
from mercer.selection.kinds.base import Candidates, ColumnRoles, Kind
from mercer.selection.kinds.mixed import (
    Mixed,
    as_pandas,
    documents_alone,
    notes,
    recognised_table,
    taken_as,
)
from mercer.selection.scales import SIMILARITIES, Template
from mercer.spaces import Graph, Space

if TYPE_CHECKING:
    from mercer.selection.models import SavedModel

#: Median similarities on a graph: most nodes are far apart, and near ones decide.
GRAPH_SIMILARITIES = (1e-8, 1e-5, 1e-3, 0.03, 0.3, 0.9)
#: Times for which heat smooths attributes.  Eigenvalues of the normalised Laplacian are at most 2, so
#: these mean the same on every graph; similarities do not, on graphs of several components.
_TIMES = (0.3, 1.0, 3.0, 10.0, 30.0)
#: Length scale of the links beside smoothed attributes, likewise.
_LINKS = 10.0
#: A feature that all nodes have, so that nodes without attributes have a length.
_COMMON = 0.1


class Nodes(Kind):
    """Nodes of a graph, which is given as the space."""

    name = noun = variable = "nodes"
    needs = ("node",)
    form = "a list of nodes"
    space_class = "Graph"
    option = "edges"
    own_options = ("node", *Mixed.own_options)
    shared_options = ("drop", "groups")
    settings = ("edges", *Mixed.own_options, *shared_options)
    transductive = True
    reader, reader_roles = "read_nodes", ("target", "edges", "node", "drop", "groups")

    def recognises(self, X: Any) -> bool:
        """Never: nodes are recognised by their graph."""
        return False

    def owns(self, space: Space) -> bool:
        """Whether the space has edges."""
        return space.adjacency is not None

    def candidates(
        self, X: Any, space: Any = "auto", columns: Mapping[str, Any] | None = None
    ) -> Candidates:
        """See :class:`Kind`; columns gives the kinds of some columns, see :func:`recognised`."""
        if not is_frame(X):
            if columns is not None:
                raise ValueError("columns have kinds only in a data frame, and X is not one")
            return self._linked(X, space)
        nodes, attributes, given = _apart(as_pandas(X), columns)
        data = self._linked(nodes, space)
        if attributes.shape[1] == 0:
            return data
        frame, found, used = recognised_table(attributes, given)
        own = {
            name: part.at(space.check(nodes), space.size) for name, part in features(frame, used).items()
        }
        data = replace(data, notes=(*data.notes, *notes(found, "the table's nodes")), taken=tuple(found))
        if not own:
            return data
        separate, absent = _separate(space, own), space.size - data.rows
        others = f", {absent} nodes of the graph have none" if absent else ""
        return replace(
            data, families=data.families | separate | _joined(space, own),
            plain=(*data.families, *separate),
            facts=f"{data.facts}, attributes: {taken_as(used)}{others}",
            plain_word="single-source", rich_word="joint", subject="Joining links and attributes",
            contrast="which see the links or the attributes only",
        )  # fmt: skip

    def _linked(self, X: Any, graph: Graph) -> Candidates:
        """Nodes by their links alone."""
        positions, nodes = graph.check(X), graph.nodes
        even = graph.with_matrices(laplacian="normalized", similarity="normalized")
        walks = graph.with_matrices()
        # A rate at which no walk overflows.
        gentle = 1 / max(float(walks.operator("similarity").top), 1e-12)
        rivals = {
            "walks": Exponential(walks, beta=gentle, normalized=True),
            "heat": Heat(even, t=1.0),
            "Matern": Matern(even, nu=2.0, length_scale=1.0),
            "von Neumann": VonNeumann(even, beta=1.0, normalized=True),
        }
        families = {"shared neighbours": [Template(Power(walks, 2))]}
        families |= {name: [Template(kernel, GRAPH_SIMILARITIES)] for name, kernel in rivals.items()}
        parts = int(graph.components.max()) + 1
        facts = f"a graph of {graph.size} nodes in {parts} component{'s' if parts > 1 else ''}"
        lonely = int((graph.degrees[positions] == 0).sum())
        if lonely:
            facts += f", {lonely} of those in the table without an edge"
        return Candidates(
            self, "nodes of a graph", facts, [nodes[i] for i in positions], len(positions), families,
            ("shared neighbours",), "neighbour-count", "diffusion", space="Graph(...)",
        )  # fmt: skip

    def labels(self, X: Any, rows: Sequence[int]) -> list[str]:
        """See :class:`Kind`; by the labels of the graph, or the positions in its matrix."""
        return [f"node {node}" for node in X]

    def read(self, path: str | Path, roles: ColumnRoles, model: SavedModel | None = None) -> Table:
        """Read a graph and some of its nodes with their attributes, or nodes of a model's graph."""
        target = roles.get("target")
        if model is not None:
            return read_known_nodes(path, target, roles["node"], model.nodes)
        drop, group = roles.get("drop", ()), roles.get("groups")
        table = read_nodes(path, target, roles["edges"], roles.get("node"), drop, group)
        return documents_alone(path, table, roles, table.columns[:1])

    def from_frame(self, frame: Any, model: SavedModel) -> Any:
        """Nodes in the column that the model knows, or the first; by name, if the model has names."""
        column = model.roles.get("node", frame.columns[0])
        if column not in frame.columns:
            raise ValueError(f"X has no column {column!r}, which the model needs")
        nodes = frame[column].to_numpy().tolist()
        if not model.nodes:
            return nodes
        places = {name: i for i, name in enumerate(model.nodes)}
        unknown = next((row for row, node in enumerate(nodes) if str(node) not in places), None)
        if unknown is not None:
            raise ValueError(f"row {unknown} of X names {nodes[unknown]!r}, which is not in the graph")
        return [places[str(node)] for node in nodes]

    def saved_roles(self, roles: ColumnRoles, table: Table) -> ColumnRoles:
        """Keep the column that names nodes, but not the file of edges: the model has the graph."""
        kept = super().saved_roles(roles, table)
        return {**kept, "node": table.columns[0]} if table.columns else kept

    def id_column(self, roles: ColumnRoles) -> str:
        return str(roles.get("node", "row"))


def _apart(frame: Any, columns: Mapping[str, Any] | None) -> tuple[list[Any], Any, dict[str, Any]]:
    """Nodes, their attributes, and kinds of these that were given."""
    given = dict(columns or {})
    named = [name for name, kind in given.items() if isinstance(kind, str) and kind == "node"]
    column = named[0] if named else frame.columns[0]
    if len(named) > 1 or column not in frame.columns:
        raise ValueError(f"one column of X must hold the nodes, and columns names {named!r}")
    nodes = frame[column].to_list()
    seen: dict[Any, int] = {}
    for row, node in enumerate(nodes):
        if seen.setdefault(node, row) != row:
            raise ValueError(
                f"rows {seen[node]} and {row} of X are both node {node!r}; keep one of them"
            )
    given.pop(column, None)
    return nodes, frame.drop(columns=[column]), given


def _separate(graph: Graph, own: dict[str, Features]) -> dict[str, list[Template]]:
    """Families of attributes without links: each kind alone, and all together."""
    found = {f"{name} alone": _alone(graph, part) for name, part in own.items()}
    return (
        found if len(own) == 1 else found | {"all attributes": _alone(graph, together([*own.values()]))}
    )


def _joined(graph: Graph, own: dict[str, Features]) -> dict[str, list[Template]]:
    """Families of attributes that are smoothed by the graph, and of these with links."""
    common = Features(np.full((graph.size, 1), _COMMON), np.array(["(any node)"]))
    every = together([*own.values(), common])
    even = graph.with_matrices(laplacian="normalized")
    base, looped = Attributed(even, Linear(), every.values, every.names), even.with_loops()
    smoothed = [
        Diffused(looped, base, t, normalized=True, nu=nu) for nu in (np.inf, 1.0) for t in _TIMES
    ]
    links = Matern(even, nu=2.0, length_scale=_LINKS)
    return {
        "diffused attributes": [Template(kernel) for kernel in smoothed],
        "links + diffused attributes": [Template(links + k) for k in smoothed if k.nu == 1.0],
    }


def _alone(graph: Graph, own: Features) -> list[Template]:
    return [
        Template(Attributed(graph, Linear(), own.values, own.names)),
        Template(Attributed(graph, Gaussian(), own.values, own.names), SIMILARITIES),
    ]
