"""Attributes of nodes, smoothed by the heat flow of a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._arrays import count, number, on_cpu
from mercer._validation import check_vector
from mercer.contributions import Contributions, of_nodes
from mercer.kernels.base import Kernel, nested_params
from mercer.kernels.structured import StructuredKernel
from mercer.laws import Diffusion
from mercer.spaces import Graph, Space
from mercer.spaces.realisations import sampling
from mercer.spaces.realisations.graphs import NodeFunction

Array = NDArray[np.float64]
Nodes = NDArray[np.intp]
#: Bytes of one block of columns; a few are held at a time.
_BLOCK_BYTES = 2**27
#: Most features of attributes whose means are held for each node asked for.
_FEW_FEATURES = 5000


@dataclass(eq=False, repr=False)
class Diffused(StructuredKernel):
    """A kernel of nodes by their attributes, smoothed by the heat flow of the graph.

    ``K = e^(-tL) K_base e^(-tL)``, with K_base the base kernel between the attributes of all nodes.  For
    ``L = D - A`` a row of ``e^(-tL)`` is the distribution of heat that starts at a node, and K is the
    inner product of the *mean embeddings* of these distributions: two nodes are similar if the
    attributes around them are.  At t near 0 it is the base kernel, and links do not count; at long
    times the nodes of a component look alike.

    Positive semidefinite if the base kernel is, for every t > 0.  On graphs of more than 4000 nodes
    there is never an n x n matrix: columns are computed block by block, by Chebyshev series in L and
    products with the base kernel.

    The base kernel learns what it needs (:meth:`learnt_from`), such as weights of words, from the
    attributes of all nodes.  Its parameters have nested names such as ``base__length_scale``.  They can
    be searched, but they are not part of ``theta``, and gradients do not include them.

    Parameters
    ----------
    space : Graph
        Rows are its nodes, and its ``laplacian`` is L.
    base : Kernel
        Of attributes; if there are none, of nodes.
    t : float
        Diffusion time.
    attributes : array, sparse matrix, data frame or list, optional
        Attributes of all nodes, in the order of ``space.nodes``.
    normalized : bool
        Divide by the square roots of K(x, x) and K(y, y).
    t_bounds : pair of floats or "fixed"
        Range for optimisers.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Diffused, Linear
    >>> from mercer.spaces import Graph
    >>> path = Graph(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    >>> words = np.array([[1, 0], [0, 0], [0, 1]])    # nothing is known about node 1
    >>> Diffused(path, Linear(), t=0.5, attributes=words)([0, 1, 2]).round(3)
    array([[0.459, 0.192, 0.091],
           [0.192, 0.134, 0.192],
           [0.091, 0.192, 0.459]])
    """

    space: Graph
    base: Kernel
    t: Any = 1.0
    attributes: Any = None
    normalized: bool = False
    t_bounds: Any = (1e-4, 1e4)

    _range_rows = 200

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the kernel and, if deep, of the base kernel."""
        return nested_params(super().get_params(deep=False), "base", deep)

    @property
    def positive_semidefinite(self) -> bool:  # type: ignore[override]
        """See :class:`Kernel`."""
        return self.base.positive_semidefinite

    def range_parameter(self) -> str:
        """See :class:`Kernel`."""
        return "t"

    def sample(self, size: int, rng: np.random.Generator, clusters: int | None = None) -> Any:
        """See :class:`Kernel`; nodes."""
        return self.space.sample(size, rng, clusters)

    def validate(self) -> None:
        """See :class:`Kernel`."""
        if not isinstance(self.space, Space):
            raise TypeError(f"space must be a Graph, got {self.space!r}")
        self.space.operator("laplacian")
        if not isinstance(self.base, Kernel):
            raise TypeError(f"base of Diffused must be a kernel, such as TfIdf(), got {self.base!r}")
        if self.attributes is None:
            if self.base.requires_vector_input:
                raise ValueError(
                    f"base of Diffused is {self.base!r}, a kernel of rows of numbers, and nodes have "
                    "none; give the attributes of all nodes: Diffused(graph, base, t, attributes=X)"
                )
        elif count(self.attributes) != self.space.size:
            raise ValueError(
                f"attributes of Diffused has {count(self.attributes)} rows, and the graph "
                f"{self.space.size} nodes; give one row per node, in the order of graph.nodes"
            )
        super().validate()

    def matvec(self, X: Any, Y: Any, v: Any) -> Any:
        """See :class:`Kernel`; the plain kernel needs no column per node."""
        if self.normalized:
            return super().matvec(X, Y, v)
        self.validate()
        P, Q = self._check(X, None if Y is X else Y)
        Q = P if Q is None else Q
        v = np.asarray(check_vector(on_cpu(v), len(Q)), dtype=float)
        block = np.zeros((self.space.size, 1 if v.ndim == 1 else v.shape[1]))
        np.add.at(block, Q, v.reshape(len(v), -1))
        heat = self._heat()
        found = heat.times(self._attribute_product()(heat.times(block)))[P]
        return found[:, 0] if v.ndim == 1 else found

    def _check(self, X: Any, Y: Any) -> tuple[Nodes, Nodes | None]:
        return self.space.check(X, "X"), None if Y is None else self.space.check(Y, "Y")

    def _heat(self) -> NodeFunction:
        """The matrix ``e^(-tL)``."""
        return self.space.realise(Diffusion(number(self.t)), 0, normalized=False)

    def _base(self) -> tuple[Kernel, Any]:
        """The base kernel with what it learns, and the attributes of all nodes."""
        points = self.space.nodes if self.attributes is None else self.attributes
        return self.base.learnt_from(points), points

    @property
    def _attribute_names(self) -> list[Any]:
        """Names of the columns of the attributes, or their positions; none if there are no columns."""
        if hasattr(self.attributes, "columns"):
            return list(self.attributes.columns)
        shape: Any = getattr(self.attributes, "shape", ())
        return list(range(shape[1])) if len(shape) == 2 else []

    def _features(self) -> Any:
        """Explicit features of the base kernel for all nodes; None if it has none."""
        base, points = self._base()
        F = base.explicit_features(points)
        if F is None:
            return None
        return sparse.csr_array(F) if sparse.issparse(F) else np.asarray(F, dtype=float)

    def _few_features(self) -> Any:
        """The same if they are few enough to be smoothed, else None."""
        F = self._features()
        return F if F is not None and F.shape[1] <= _FEW_FEATURES else None

    def _attribute_product(self) -> Callable[[Array], Array]:
        """The product of K_base with a block of vectors."""
        F = self._features()
        if F is not None:
            return lambda block: F @ (F.T @ block)
        base, points = self._base()
        if self.space.operator("laplacian").decomposable:
            K = np.asarray(base(points), dtype=float)
            return lambda block: K @ block
        return lambda block: np.asarray(base.matvec(points, None, block), dtype=float)

    def _parts(self, nodes: Nodes) -> Iterator[slice]:
        """Places of nodes whose distributions of heat are in memory together."""
        width = max(1, _BLOCK_BYTES // (8 * self.space.size))
        return (slice(start, start + width) for start in range(0, len(nodes), width))

    def _smoothed(self, nodes: Nodes, F: Any) -> Array:
        """Means of features under the heat of nodes."""
        everywhere = np.arange(self.space.size)
        heat, found = self._heat(), np.empty((len(nodes), F.shape[1]))
        for part in self._parts(nodes):
            found[part] = heat.plain_gram(nodes[part], everywhere) @ F
        return found

    def _gram(self, P: Nodes, Q: Nodes | None) -> Array:
        F = self._few_features()
        if F is not None:
            G = self._smoothed(P, F)
            return G @ (G if Q is None else self._smoothed(Q, F)).T
        if Q is None:
            few, where = np.unique(P, return_inverse=True)
            K = self._columns(few, few)
            return ((K + K.T) / 2)[np.ix_(where, where)]
        swap = len(P) < len(Q)
        few, where = np.unique(P if swap else Q, return_inverse=True)
        K = self._columns(few, Q if swap else P)[:, where]
        return K.T if swap else K

    def _columns(self, few: Nodes, keep: Nodes, rate: float = 0.0) -> Array:
        """Entries of K in the rows ``keep``; with a rate, one of the two flows is differentiated."""
        out, everywhere = np.empty((len(keep), len(few))), np.arange(self.space.size)
        heat, product, laplacian = self._heat(), self._attribute_product(), self._laplacian
        for part in self._parts(few):
            block = heat.plain_gram(everywhere, few[part])
            if rate:
                block = -rate * (laplacian @ block)
            out[:, part] = heat.times(product(block))[keep]
        return out

    @property
    def _laplacian(self) -> Any:
        return self.space.operator("laplacian").matrix

    def _diagonal(self, P: Nodes) -> Array:
        F = self._few_features()
        if F is not None:
            G = self._smoothed(P, F)
            return np.vecdot(G, G)
        few, where = np.unique(P, return_inverse=True)
        heat, product, everywhere = self._heat(), self._attribute_product(), np.arange(self.space.size)
        values = np.empty(len(few))
        for part in self._parts(few):
            block = heat.plain_gram(everywhere, few[part])
            values[part] = (block * product(block)).sum(axis=0)
        return values[where]

    def _contributions(self, P: Nodes, Q: Nodes, weights: Array) -> tuple[Contributions, ...]:
        """Of nodes that heat from P reaches, and of attributes of the base kernel's features."""
        heat, block = self._heat(), np.zeros((self.space.size, len(P)))
        np.add.at(block, Q, weights.T)
        sums = self._attribute_product()(heat.times(block))
        found = of_nodes(self.space.nodes, heat.plain_gram(P, np.arange(self.space.size)) * sums.T)
        F, names = self._few_features(), self._attribute_names
        if F is None or F.shape[1] != len(names):
            return found
        means = self._smoothed(P, F) * (weights @ self._smoothed(Q, F))
        return (*found, Contributions("column", names, means, exact=True))

    def _slope(self, P: Nodes, name: str) -> Array:
        F, t = self._few_features(), number(self.t)
        if F is not None:
            S = self._smoothed(P, -t * (self._laplacian @ F)) @ self._smoothed(P, F).T
            return S + S.T
        few, where = np.unique(P, return_inverse=True)
        S = self._columns(few, few, t)
        return (S + S.T)[np.ix_(where, where)]

    def _range_sample(self, X: Any, most: int, rng: np.random.Generator) -> tuple[Any, Any]:
        P, nodes = self.space.check(on_cpu(X)), self.space.nodes
        rows, keys = sampling.distinct_sample(len(P), lambda rows: P[rows], most, rng)
        return [nodes[i] for i in P[rows]], keys
