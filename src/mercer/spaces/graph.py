"""Nodes of a graph, and the matrices whose functions are kernels between them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from mercer._arrays import Array, on_cpu
from mercer._repr import listed
from mercer.engine import matrix_functions
from mercer.laws import Law
from mercer.spaces.base import Space
from mercer.spaces.realisations.eigenfunctions import LogWeights
from mercer.spaces.realisations.graph_features import Eigenvectors
from mercer.spaces.realisations.graphs import NodeFunction
from mercer.spaces.realisations.operators import Operator

MatrixName = Literal["laplacian", "similarity"]

LAPLACIANS = ("unnormalized", "normalized")
SIMILARITIES = ("adjacency", "laplacian", "normalized", "matrix")
#: Relative asymmetry that counts as rounding.
_ROUNDING = 1e-12
_FROM_EDGES = "make a graph of an edge list by networkx.Graph(edges) or networkx.from_pandas_edgelist"
#: Nodes whose paths to all others are in memory at a time.
_SOURCES = 64


class Graph(Space):
    """The nodes of an undirected graph, with non-negative weights on the edges.

    ``L = D - A`` with the adjacency matrix A and the degrees ``D_ii = sum_j A_ij``; the normalised
    Laplacian is ``D^(-1/2) L D^(-1/2)``, with zeros in the rows of isolated nodes.  A self-loop counts
    once in A and in D, hence not in L; parallel edges of a networkx multigraph add up.  Graphs need
    not be connected: kernels of the Laplacian vanish between components.

    Parameters
    ----------
    graph : networkx graph, sparse or dense array or tensor of shape (n, n)
        The points are the labels of a networkx graph, whose edges may have the attribute ``weight`` (1
        by default), or the indices 0 .. n - 1 of an adjacency matrix.  Kernels on the graph of a
        tensor are computed on its device, and are tensors there.
    laplacian : {"unnormalized", "normalized"}
        The Laplacian of ``Heat``, ``Matern`` and ``Spectral``.
    similarity : {"adjacency", "laplacian", "normalized", "matrix"}
        The matrix S of ``Power``, ``Exponential`` and ``VonNeumann``: A, -L, or the negated normalised
        Laplacian.  With "matrix" S is the given matrix, which may be any symmetric one; if it has
        negative weights, there is no Laplacian.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.spaces import Graph
    >>> path = Graph(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    >>> path
    Graph(<3 nodes, 2 edges>)
    >>> path.operator("laplacian").matrix.toarray()
    array([[ 1., -1.,  0.],
           [-1.,  2., -1.],
           [ 0., -1.,  1.]])
    """

    requires_vector_input = False

    def __init__(
        self,
        graph: Any,
        laplacian: Literal["unnormalized", "normalized"] = "unnormalized",
        similarity: Literal["adjacency", "laplacian", "normalized", "matrix"] = "adjacency",
    ) -> None:
        if laplacian not in LAPLACIANS:
            raise ValueError(f"laplacian must be one of {LAPLACIANS}, got {laplacian!r}")
        if similarity not in SIMILARITIES:
            raise ValueError(f"similarity must be one of {SIMILARITIES}, got {similarity!r}")
        self._laplacian, self._similarity = laplacian, similarity
        if hasattr(graph, "is_directed") and hasattr(graph, "nodes"):
            self._labels: list[Any] | None = list(graph.nodes)
            graph = _from_networkx(graph)
        else:
            self._labels = None
        graph, self._home = matrix_functions.from_tensor(graph)
        self._adjacency = _check_adjacency(graph, self._labels)
        if similarity != "matrix":
            self._refuse_negative(
                "but weights must not be negative; similarity='matrix' allows them for Power, "
                "Exponential and VonNeumann"
            )

    def _refuse_negative(self, complaint: str) -> None:
        complaint = "has weight {:g}, " + complaint
        _refuse_edges(self._adjacency, self._adjacency.data < 0, self._labels, complaint)

    def with_matrices(
        self,
        laplacian: Literal["unnormalized", "normalized"] = "unnormalized",
        similarity: Literal["adjacency", "laplacian", "normalized"] = "adjacency",
    ) -> Graph:
        """The same nodes and edges with another Laplacian and similarity."""
        other = Graph(self._adjacency, laplacian, similarity)
        other._labels, other._home = self._labels, self._home
        return other

    def with_loops(self) -> Graph:
        """The same with a self-loop at each node, of the mean weight of an edge.

        With the normalised Laplacian heat then leaves a node at a rate below 1, the more slowly the
        fewer neighbours it has.
        """
        mean = float(self._adjacency.data.mean()) if self._adjacency.nnz else 1.0
        loops = sparse.diags_array(np.full(self.size, mean))
        other = Graph(self._adjacency + loops, self._laplacian, self._similarity)
        other._labels, other._home = self._labels, self._home
        return other

    def columns(self, P: Any) -> int:
        """Nodes have no columns: see :meth:`Space.columns`."""
        return 0

    def dimension(self, n: int) -> int:
        """Zero: see :meth:`Space.dimension`."""
        return 0

    def sample(self, size: int, rng: np.random.Generator, clusters: int | None = None) -> list[Any]:
        """See :meth:`Space.sample`; nodes, which may come twice."""
        nodes = self.nodes
        return [nodes[i] for i in rng.integers(0, clusters or len(nodes), size=size)]

    def realise(self, law: Law, n: int = 0, normalized: bool = True) -> NodeFunction:
        """A function of the Laplacian: see :meth:`Space.realise`."""
        if law.levels is not None:
            raise TypeError("weights on a graph must be a function of the Laplacian's eigenvalues")
        return NodeFunction(self, self.operator("laplacian"), law, normalized)

    def distances(self, X: Any, Y: Any = None) -> Array:
        """Lengths of shortest paths between nodes, over edges of the length ``1 / weight``.

        Without weights they are numbers of edges; they are infinite between components.

        Examples
        --------
        >>> import networkx as nx
        >>> from mercer.spaces import Graph
        >>> Graph(nx.cycle_graph(6)).distances([0], [1, 3, 5])
        array([[1., 3., 1.]])
        """
        P, Q = self.check_pair(X, Y)
        Q = P if Q is None else Q
        lengths = self._adjacency.copy()
        if lengths.nnz and lengths.data.min() < 0:
            raise ValueError("distances are for graphs without negative weights")
        lengths.data = 1 / lengths.data
        sources, places = np.unique(P, return_inverse=True)
        found = np.empty((len(sources), len(Q)))
        for start in range(0, len(sources), _SOURCES):
            part = slice(start, start + _SOURCES)
            found[part] = csgraph.dijkstra(lengths, directed=False, indices=sources[part])[:, Q]
        return found[places]

    @property
    def adjacency(self) -> sparse.csr_array:
        """Adjacency matrix A; not to be changed."""
        return self._adjacency

    @property
    def laplacian(self) -> str:
        """Which Laplacian."""
        return self._laplacian

    @property
    def similarity(self) -> str:
        """Which similarity."""
        return self._similarity

    @property
    def size(self) -> int:
        """Number of nodes."""
        return int(self._adjacency.shape[0])

    @property
    def nodes(self) -> list[Any]:
        """All points: labels or indices, in the order of the matrix."""
        return list(range(self.size)) if self._labels is None else list(self._labels)

    @cached_property
    def degrees(self) -> Array:
        """Weighted degrees."""
        return np.asarray(self._adjacency.sum(axis=1), dtype=float).ravel()

    @cached_property
    def components(self) -> NDArray[np.int32]:
        """Number of the connected component of each node."""
        return csgraph.connected_components(self._adjacency, directed=False)[1]

    def operator(self, name: MatrixName) -> Operator:
        """The Laplacian or the similarity, with bounds on its eigenvalues."""
        return self._laplacian_operator if name == "laplacian" else self._similarity_operator

    @cached_property
    def _laplacian_operator(self) -> Operator:
        self._refuse_negative("but a Laplacian needs weights that are not negative")
        normalized = self._laplacian == "normalized"
        found = self._normalized_laplacian() if normalized else self._plain_laplacian()
        return replace(found, home=self._home)

    @cached_property
    def _similarity_operator(self) -> Operator:
        return replace(self._similarities(), home=self._home)

    def _similarities(self) -> Operator:
        if self._similarity == "adjacency":
            first, second = self._edge_degrees()
            reach = float((np.sqrt(first) * np.sqrt(second)).max(initial=0.0))
            operator = Operator(self._adjacency, -reach, reach)
            if operator.decomposable:
                return operator
            # The bound is loose, and functions of A may grow fast.  Perron and Frobenius: the largest
            # eigenvalue is the largest in size.
            radius = min(operator.top * (1 + 1e-9), reach)
            return Operator(self._adjacency, -radius, radius)
        if self._similarity == "matrix":
            return self._symmetric_operator()
        normalized = self._similarity == "normalized"
        positive = self._normalized_laplacian() if normalized else self._plain_laplacian()
        return Operator(-positive.matrix, -positive.high, 0.0, positive.null)

    def _symmetric_operator(self) -> Operator:
        """The matrix itself, whose eigenvalues are at most its largest row sum in size."""
        reach = float(np.abs(self._adjacency).sum(axis=1).max(initial=0.0))
        operator = Operator(self._adjacency, -reach, reach)
        if operator.decomposable:
            return operator
        margin = 1e-9 * reach
        low, high = max(operator.bottom - margin, -reach), min(operator.top + margin, reach)
        return Operator(self._adjacency, low, high)

    def eigenfunctions(self, n: int, count: int | None, log_weights: LogWeights) -> Eigenvectors:
        """Eigenvectors of the Laplacian; see :class:`Space`.

        All of them up to 4000 nodes; for larger graphs those of the smallest eigenvalues, and the rest
        counts as if it had the largest of these.
        """
        return Eigenvectors.of(self, count, log_weights)

    @property
    def fingerprint(self) -> str:
        """A text that identifies the graph."""
        return f"{self._laplacian} {self._digest}"

    def _plain_laplacian(self) -> Operator:
        matrix = _with_short_indices(
            sparse.csr_array(sparse.diags_array(self.degrees) - self._adjacency)
        )
        null = self._null(np.ones(self.size))
        return Operator(matrix, 0.0, self._largest_laplacian_eigenvalue(), null)

    def _largest_laplacian_eigenvalue(self) -> float:
        """Merris: it is at most the largest sum of a degree and the mean degree of the neighbours."""
        linked = self.degrees > 0
        neighbours = (self._adjacency @ self.degrees)[linked] / self.degrees[linked]
        return float((self.degrees[linked] + neighbours).max(initial=0.0))

    def _null(self, values: Array) -> tuple[Array, NDArray[np.int32]]:
        """Unit vectors proportional to the values on each component."""
        lengths = np.sqrt(np.bincount(self.components, weights=values**2))
        return values / lengths[self.components], self.components

    def _normalized_laplacian(self) -> Operator:
        with np.errstate(divide="ignore"):
            roots = np.where(self.degrees > 0, self.degrees**-0.5, 0.0)
        scaled = self._adjacency.multiply(roots[:, None]).multiply(roots[None, :])
        ones = sparse.diags_array((self.degrees > 0).astype(float))
        matrix = _with_short_indices(sparse.csr_array(ones - scaled))
        scale = self.degrees.max(initial=0.0)
        parts = np.sqrt(self.degrees / scale) if scale > 0 else np.zeros(self.size)
        null = self._null(np.where(self.degrees > 0, parts, 1.0))
        return Operator(matrix, 0.0, 2.0 if self._adjacency.nnz else 0.0, null)

    def _edge_degrees(self) -> tuple[Array, Array]:
        """Degrees of both ends of every edge."""
        rows = np.repeat(self.degrees, np.diff(self._adjacency.indptr))
        return rows, self.degrees[self._adjacency.indices]

    @cached_property
    def _positions(self) -> dict[Any, int]:
        return {label: i for i, label in enumerate(self._labels or ())}

    def check(self, X: Any, name: str = "X") -> NDArray[np.intp]:
        """Positions of nodes in the matrix; ``X`` holds indices or labels, shape (m,) or (m, 1).

        Examples
        --------
        >>> import networkx as nx
        >>> from mercer.spaces import Graph
        >>> Graph(nx.path_graph(["a", "b", "c"])).check(["c", "a"])
        array([2, 0])
        """
        if isinstance(X, str | bytes):
            raise TypeError(f"{name} is one string; give a list of nodes")
        X = X.to_numpy() if hasattr(X, "to_numpy") else on_cpu(X)
        if not isinstance(X, Iterable) or getattr(X, "ndim", 1) == 0:
            raise ValueError(f"{name} is {X!r}; give a list of nodes, such as [{X!r}]")
        X = X if isinstance(X, np.ndarray) else list(X)
        if len(X) == 0:
            raise ValueError(f"{name} holds no nodes")
        return self._by_index(X, name) if self._labels is None else self._by_label(X, name)

    def _by_index(self, X: Any, name: str) -> NDArray[np.intp]:
        try:
            given = np.asarray(X)
        except ValueError:
            raise ValueError(f"{name} has rows of several lengths; give one node per row") from None
        if given.dtype.kind == "O" and all(isinstance(node, Integral) for node in given.ravel()):
            given = given.astype(np.int64)
        if given.ndim > 1 and given.size != len(given):
            raise ValueError(f"{name} has shape {given.shape}; give one node per row: (m,) or (m, 1)")
        given = given.ravel()
        if given.dtype.kind not in "iuf":
            raise ValueError(
                f"{name} must hold indices of nodes, whole numbers from 0 to {self.size - 1}; row 0 is "
                f"{given[0]!r} (labels are for graphs made from networkx)"
            )
        bad = np.flatnonzero(~((given >= 0) & (given < self.size) & (given == np.floor(given))))
        if bad.size:
            raise ValueError(
                f"row {bad[0]} of {name} is {given[bad[0]].item()!r}, which is not a node: nodes are "
                f"the whole numbers 0 to {self.size - 1}"
            )
        return given.astype(np.intp)

    def _by_label(self, X: Any, name: str) -> NDArray[np.intp]:
        rows = X.tolist() if isinstance(X, np.ndarray) else list(X)
        found = np.empty(len(rows), dtype=np.intp)
        for i, label in enumerate(rows):
            found[i] = self._position(label, i, name)
        return found

    def _position(self, label: Any, row: int, name: str) -> int:
        """Position of a label, which scikit-learn may have wrapped in a list of one."""
        if isinstance(label, list):
            label = label[0] if len(label) == 1 else tuple(label)
        try:
            return self._positions[label]
        except (KeyError, TypeError):
            raise ValueError(
                f"row {row} of {name} is {label!r}, which is not a node of the graph; nodes are "
                f"{listed(self.nodes)}"
            ) from None

    def _identity(self) -> tuple[Any, ...]:
        return self._laplacian, self._similarity, self._home, self._digest

    @cached_property
    def _digest(self) -> str:
        digest = hashlib.sha256(repr(self._labels).encode())
        for part in (self._adjacency.indptr, self._adjacency.indices, self._adjacency.data):
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __getstate__(self) -> dict[str, Any]:
        # Matrices and decompositions are computed again where they are needed.
        kept = ("_laplacian", "_similarity", "_labels", "_home", "_adjacency")
        return {name: self.__dict__[name] for name in kept}

    def __repr__(self) -> str:
        loops = int(np.count_nonzero(self._adjacency.diagonal()))
        edges = (self._adjacency.nnz - loops) // 2 + loops
        options = "".join(
            f", {name}={getattr(self, name)!r}"
            for name, usual in (("laplacian", LAPLACIANS[0]), ("similarity", SIMILARITIES[0]))
            if getattr(self, name) != usual
        )
        place = "" if self._home is None else f" on {self._home}"
        return f"Graph(<{self.size} nodes, {edges} edges{place}>{options})"


def _from_networkx(graph: Any) -> sparse.csr_array:
    if graph.is_directed():
        raise ValueError("the graph is directed; give graph.to_undirected()")
    if graph.number_of_nodes() == 0:
        raise ValueError("the graph has no nodes")
    import networkx

    try:
        return networkx.to_scipy_sparse_array(graph, dtype=float, format="csr")
    except (TypeError, ValueError) as error:
        raise ValueError(f"edge weights must be numbers: {error}") from None


def _check_adjacency(given: Any, labels: list[Any] | None) -> sparse.csr_array:
    """Adjacency matrix in canonical form, or an error that names an edge."""
    if not sparse.issparse(given):
        if isinstance(given, list | tuple) and any(isinstance(row, tuple) for row in given):
            raise ValueError(f"this is a list of tuples, not a matrix; {_FROM_EDGES}")
        given = np.asarray(given)
    if given.ndim != 2 or given.shape[0] != given.shape[1]:
        raise ValueError(
            f"an adjacency matrix is square; this one has shape {given.shape}; {_FROM_EDGES}"
        )
    if given.shape[0] == 0:
        raise ValueError("the graph has no nodes")
    if given.dtype.kind not in "biuf":
        raise ValueError(f"edge weights must be real numbers, not {given.dtype}; {_FROM_EDGES}")
    # Floats first: sums of parallel edges must not overflow small integers.
    matrix = sparse.csr_array(given.astype(float), copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    _refuse_edges(matrix, ~np.isfinite(matrix.data), labels, "has weight {:g}, which is not finite")
    sizes = abs(matrix)
    with np.errstate(over="ignore"):
        finite = np.isfinite(np.asarray(sizes.sum(axis=1))).all() and np.isfinite(sizes.sum())
    if not finite:
        raise ValueError("the edge weights are so large that their sum overflows; rescale them")
    difference = sparse.csr_array(matrix - matrix.T)
    larger = sparse.csr_array(sizes.maximum(sizes.T))
    # Entry by entry: both matrices have their indices in order, and the first only where they differ.
    uneven = np.abs(difference.data) > _ROUNDING * _entries(larger, difference)
    _refuse_edges(
        abs(difference), uneven, labels, "has weights that differ by {:g} between its two directions: "
        "the matrix is not symmetric (a directed graph?); give (A + A.T) / 2 or np.maximum(A, A.T)",
    )  # fmt: skip
    if difference.nnz:
        matrix = sparse.csr_array((matrix + matrix.T) / 2)
    matrix.sort_indices()
    return _with_short_indices(matrix)


def _with_short_indices(matrix: sparse.csr_array) -> sparse.csr_array:
    """The matrix with 32-bit indices if possible: passes over the edges are limited by memory."""
    if matrix.nnz < np.iinfo(np.int32).max:
        parts = (matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32))
        return sparse.csr_array(parts, shape=matrix.shape)
    return matrix


def _entries(matrix: sparse.csr_array, pattern: sparse.csr_array) -> Array:
    """Entries of a matrix where the pattern has its own."""
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    return np.asarray(matrix[rows, pattern.indices]).ravel() if len(rows) else np.zeros(0)


def _refuse_edges(matrix: sparse.csr_array, bad: Any, labels: Any, complaint: str) -> None:
    where = np.flatnonzero(bad)
    if where.size:
        first = where[0]
        row = int(np.searchsorted(matrix.indptr, first, side="right") - 1)
        ends = [end if labels is None else labels[end] for end in (row, int(matrix.indices[first]))]
        raise ValueError(f"edge {ends[0]!r} - {ends[1]!r} {complaint.format(matrix.data[first])}")
