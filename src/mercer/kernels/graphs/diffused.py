"""Attributes of nodes, smoothed by the heat flow of a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from mercer._arrays import Array, number, on_cpu, squared_lengths
from mercer._validation import check_positive, check_vector
from mercer.contributions import Contributions, of_nodes
from mercer.engine.matrix_functions import at, beside, scattered
from mercer.kernels.base import Kernel, nested_params
from mercer.kernels.graphs.attributed import Attributed
from mercer.kernels.structured import StructuredKernel
from mercer.laws import Diffusion, RandomTime
from mercer.spaces import Graph, Space
from mercer.spaces.realisations import sampling
from mercer.spaces.realisations.graphs import NodeFunction
from mercer.spaces.realisations.operators import Operator

Nodes = NDArray[np.intp]
#: Bytes of one block of columns; a few are held at a time.
_BLOCK_BYTES = 2**27
#: Largest number of features of attributes whose means are held for each requested node.
_FEW_FEATURES = 5000


@dataclass(eq=False, repr=False)
class Diffused(StructuredKernel):
    """A kernel of nodes by their attributes, smoothed by the heat flow of the graph.

    ``K = e^(-tL) K_base e^(-tL)``, with K_base the base kernel between the attributes of all nodes.
    For ``L = D - A`` a row of ``e^(-tL)`` is the distribution of heat that starts at a node, and K is
    the inner product of the *mean embeddings* of these distributions: two nodes are similar if the
    attributes around them are.  At t near 0 it is the base kernel, and links have no effect; at long
    times the nodes of a component look alike.

    With a finite ``nu`` heat flows for a random time of mean t, which has a Gamma distribution of shape
    nu: ``(1 + t L / nu)^(-nu)`` takes the place of ``e^(-tL)``.  Most heat then stays closer, and some
    goes further.  ``nu=1`` is the exponential distribution, as in personalised PageRank.

    Positive semidefinite if the base kernel is, for every t > 0.  On graphs of more than 4000 nodes
    there is never an n x n matrix: columns are computed block by block, by Chebyshev series in L and
    products with the base kernel.  On the graph of a tensor they are computed on its device, and the
    base kernel where the attributes are.

    The base kernel learns what it needs (:meth:`learnt_from`), such as weights of words, from the
    attributes of all nodes.  Its parameters have nested names such as ``base__length_scale``.  They can
    be searched, but they are not part of ``theta``, and gradients do not include them.

    Parameters
    ----------
    space : Graph
        Rows are its nodes, and its ``laplacian`` is L.
    base : Kernel
        Kernel of attributes or, without them, of nodes.
    t : float
        Diffusion time.
    attributes : array, sparse matrix, data frame or list, optional
        Attributes of all nodes, in the order of ``space.nodes``: short for the base
        :class:`Attributed(space, base, attributes) <Attributed>`.
    normalized : bool
        Divide by the square roots of K(x, x) and K(y, y).
    nu : float
        Shape of the distribution of times; infinite for the time t itself.
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
    nu: float = np.inf
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
        return "t"

    def sample(self, size: int, rng: np.random.Generator, clusters: int | None = None) -> Any:
        """See :class:`Kernel`; nodes."""
        return self.space.sample(size, rng, clusters)

    def validate(self) -> None:
        if not isinstance(self.space, Space):
            raise TypeError(f"space must be a Graph, got {self.space!r}")
        self.space.operator("laplacian")
        if not isinstance(self.base, Kernel):
            raise TypeError(f"base of Diffused must be a kernel, such as TfIdf(), got {self.base!r}")
        if self.attributes is None and self.base.requires_vector_input:
            raise ValueError(
                f"base of Diffused is {self.base!r}, a kernel of rows of numbers, and nodes have none; "
                "give the attributes of all nodes: Diffused(graph, base, t, attributes=X)"
            )
        self._of_nodes.validate()
        if self.nu != np.inf:
            check_positive(self, "nu")
        super().validate()

    def matvec(self, X: Any, Y: Any, v: Any) -> Any:
        """See :class:`Kernel`; the plain kernel needs no column per node."""
        if self.normalized:
            return super().matvec(X, Y, v)
        self.validate()
        P, Q = self._check(X, None if Y is X else Y)
        Q = P if Q is None else Q
        v = check_vector(v, len(Q))
        block = scattered(self._operator.edges, Q, v.reshape(len(v), -1))
        heat = self._heat()
        found = heat.times(self._attribute_product()(heat.times(block)))[P]
        return found[:, 0] if v.ndim == 1 else found

    def _check(self, X: Any, Y: Any) -> tuple[Nodes, Nodes | None]:
        return self.space.check(X, "X"), None if Y is None else self.space.check(Y, "Y")

    def _heat(self, raised: int = 0) -> NodeFunction:
        """The matrix ``e^(-tL)``, or ``(1 + t L / nu)^(-nu - raised)``."""
        t = number(self.t)
        law = Diffusion(t) if self.nu == np.inf else RandomTime(t, self.nu, raised)
        return self.space.realise(law, 0, normalized=False)

    @property
    def _of_nodes(self) -> Kernel:
        """The base kernel as a kernel of nodes."""
        if self.attributes is None:
            return self.base
        return Attributed(self.space, self.base, self.attributes)

    def _features(self) -> Any:
        """Explicit features of the base kernel for all nodes; None if it has none."""
        return self._of_nodes.explicit_features(self.space.nodes)

    def _few_features(self) -> tuple[Any, Any] | None:
        """Features and their transpose, where the graph is; None if too many to be smoothed."""
        F = self._features()
        few = F is not None and F.shape[1] <= _FEW_FEATURES
        return self._at_home(F) if few else None

    def _at_home(self, F: Any) -> tuple[Any, Any]:
        """Features and their transpose where the graph is."""
        return at(self._operator.home, F), at(self._operator.home, F.T)

    def _attribute_product(self) -> Callable[[Any], Any]:
        """The product of K_base with a block of vectors."""
        F = self._features()
        if F is not None:
            left, right = self._at_home(F)
            return lambda block: left @ (right @ block)
        base, nodes, home = self._of_nodes, self.space.nodes, self._operator.home
        if self._operator.decomposable:
            K = at(home, base(nodes))
            return lambda block: K @ block
        # The base kernel is computed where the attributes are.
        return lambda block: at(home, base.matvec(nodes, None, beside(self.attributes, block)))

    def _parts(self, columns: int) -> Iterator[slice]:
        """Places of columns, each a number for every node, that are in memory together."""
        width = max(1, _BLOCK_BYTES // (8 * self.space.size))
        return (slice(start, start + width) for start in range(0, columns, width))

    def _heated(self, nodes: Nodes, rate: float = 0.0) -> Iterator[Any]:
        """Distributions of heat from some nodes in columns; with a rate, their slope."""
        # d/dt (1 + t L / nu)^(-nu) = -L (1 + t L / nu)^(-nu - 1)
        heat, everywhere = self._heat(raised=1 if rate else 0), np.arange(self.space.size)
        for part in self._parts(len(nodes)):
            block = heat.plain_gram(everywhere, nodes[part])
            yield -rate * (self._operator.edges @ block) if rate else block

    def _smoothed(self, nodes: Nodes, features: tuple[Any, Any], rate: float = 0.0) -> Any:
        """Means of features under the heat of nodes; computed for all nodes if features are fewer."""
        F, transposed = features
        if not rate and F.shape[1] < len(nodes):
            heat, unit = self._heat(), at(self._operator.home, np.eye(F.shape[1]))
            found = [heat.times(F @ unit[:, part])[nodes] for part in self._parts(len(unit))]
            return array_namespace(found[0]).concat(found, axis=1)
        found = [transposed @ block for block in self._heated(nodes, rate)]
        return array_namespace(found[0]).concat(found, axis=1).T

    def _gram(self, P: Nodes, Q: Nodes | None) -> Any:
        F = self._few_features()
        if F is not None:
            G = self._smoothed(P, F)
            return G @ (G if Q is None else self._smoothed(Q, F)).T
        if Q is None:
            few, where = np.unique(P, return_inverse=True)
            K = self._columns(few, few)
            return ((K + K.T) / 2)[where[:, None], where]
        swap = len(P) < len(Q)
        few, where = np.unique(P if swap else Q, return_inverse=True)
        K = self._columns(few, Q if swap else P)[:, where]
        return K.T if swap else K

    def _columns(self, few: Nodes, keep: Nodes, rate: float = 0.0) -> Any:
        """Entries of K in the rows ``keep``; with a rate, one of the two flows is differentiated."""
        heat, product = self._heat(), self._attribute_product()
        found = [heat.times(product(block))[keep] for block in self._heated(few, rate)]
        return array_namespace(found[0]).concat(found, axis=1)

    @property
    def _operator(self) -> Operator:
        return self.space.operator("laplacian")

    def _diagonal(self, P: Nodes) -> Any:
        F = self._few_features()
        if F is not None:
            return squared_lengths(self._smoothed(P, F))
        few, where = np.unique(P, return_inverse=True)
        product = self._attribute_product()
        values = [(block * product(block)).sum(axis=0) for block in self._heated(few)]
        return array_namespace(values[0]).concat(values)[where]

    def _contributions(self, P: Nodes, Q: Nodes, weights: Array) -> tuple[Contributions, ...]:
        """Contributions of nodes that heat from P reaches, and of the attributes behind features."""
        heat, block = self._heat(), scattered(self._operator.edges, Q, weights.T)
        sums = self._attribute_product()(heat.times(block))
        values = on_cpu(heat.plain_gram(P, np.arange(self.space.size)) * sums.T)
        found = of_nodes(self.space.nodes, values)
        F, one = self._few_features(), self.space.nodes[:1]
        named = self._of_nodes.contributions(one, one, np.zeros((1, 1)))
        if F is None or [len(own.names) for own in named] != [F[0].shape[1]]:
            return found
        means = on_cpu(self._smoothed(P, F)) * (weights @ on_cpu(self._smoothed(Q, F)))
        return (*found, replace(named[0], values=means))

    def _slope(self, P: Nodes, name: str) -> Array:
        F, t = self._few_features(), number(self.t)
        if F is not None:
            S = self._smoothed(P, F, t) @ self._smoothed(P, F).T
            return S + S.T
        few, where = np.unique(P, return_inverse=True)
        S = self._columns(few, few, t)
        return (S + S.T)[np.ix_(where, where)]

    def _range_sample(self, X: Any, most: int, rng: np.random.Generator) -> tuple[Any, Any]:
        P, nodes = self.space.check(on_cpu(X)), self.space.nodes
        rows, keys = sampling.distinct_sample(len(P), lambda rows: P[rows], most, rng)
        return [nodes[i] for i in P[rows]], keys
