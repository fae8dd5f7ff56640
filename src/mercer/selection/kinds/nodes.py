"""Nodes of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mercer.datasets import Table, read_known_nodes, read_nodes
from mercer.kernels import Exponential, Heat, Matern, Power, VonNeumann
from mercer.selection.kinds.base import Candidates, ColumnRoles, Kind
from mercer.selection.scales import Template
from mercer.spaces import Graph, Space

if TYPE_CHECKING:
    from mercer.selection.models import SavedModel

#: Median similarities on a graph: most nodes are far apart, and near ones decide.
GRAPH_SIMILARITIES = (1e-8, 1e-5, 1e-3, 0.03, 0.3, 0.9)


class Nodes(Kind):
    """Nodes of a graph, which is given as the space."""

    name = noun = variable = "nodes"
    needs = ("node",)
    form = "a list of nodes"
    space_class = "Graph"
    option = "edges"
    own_options = ("node",)
    settings = ("edges",)
    reader, reader_roles = "read_nodes", ("target", "edges", "node")

    def recognises(self, X: Any) -> bool:
        """Never: nodes are recognised by their graph."""
        return False

    def owns(self, space: Space) -> bool:
        """Whether the space has edges."""
        return space.adjacency is not None

    def candidates(self, X: Any, space: Any = "auto") -> Candidates:
        graph: Graph = space
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
            facts += f", {lonely} of the labelled nodes without an edge"
        return Candidates(
            self, "nodes of a graph", facts, [nodes[i] for i in positions], len(positions), families,
            ("shared neighbours",), "neighbour-count", "diffusion", space="Graph(...)",
        )  # fmt: skip

    def labels(self, X: Any, rows: Sequence[int]) -> list[str]:
        """See :class:`Kind`; by the labels of the graph, or the positions in its matrix."""
        return [f"node {node}" for node in X]

    def read(self, path: str | Path, roles: ColumnRoles, model: SavedModel | None = None) -> Table:
        """Read a graph and some of its nodes, or nodes of a model's graph."""
        if model is not None:
            return read_known_nodes(path, roles.get("target"), roles["node"], model.nodes)
        return read_nodes(path, roles.get("target"), roles["edges"], roles.get("node"))

    def saved_roles(self, roles: ColumnRoles, table: Table) -> ColumnRoles:
        """Keep the column that names nodes, but not the file of edges: the model has the graph."""
        kept = super().saved_roles(roles, table)
        return {**kept, "node": table.columns[0]} if table.columns else kept

    def id_column(self, roles: ColumnRoles) -> str:
        return str(roles.get("node", "row"))
