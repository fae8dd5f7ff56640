"""What a kernel between the nodes of a graph is: a function of one of its matrices."""

from __future__ import annotations

from abc import abstractmethod

from mercer._validation import check_choice, check_positive
from mercer.engine.matrix_functions import Expansion
from mercer.kernels.base import log_derivative
from mercer.kernels.realised import RealisedKernel
from mercer.laws import Law
from mercer.spaces import Graph, Space
from mercer.spaces.graph import Operator
from mercer.spaces.realisations.base import FeatureMap, Slope
from mercer.spaces.realisations.graphs import NodeFunction


class NodeKernel(RealisedKernel):
    """A kernel ``K = f(S)``: a non-negative function of the eigenvalues of a graph's similarity.

    A subclass gives the logarithm of f as a :class:`~mercer.laws.Law`.
    """

    space: Graph
    normalized: bool
    #: How the function is computed.
    _function: type[NodeFunction] = NodeFunction

    @abstractmethod
    def law(self, n: int = 0) -> Law:
        """The function f, by its logarithm."""

    def _validate(self) -> None:
        if not isinstance(self.space, Space):
            raise TypeError(f"space must be a Graph, got {self.space!r}")
        self.space.operator("similarity")
        check_choice(self, "normalized", (True, False))
        check_positive(self, *self.continuous())

    @property
    def operator(self) -> Operator:
        """The matrix S, with bounds on its eigenvalues."""
        return self.space.operator("similarity")

    def realise(self, n: int = 0) -> NodeFunction:
        """See :class:`RealisedKernel`."""
        return self._function(self.space, self.operator, self.with_floats().law(), bool(self.normalized))

    def slope(self, n: int, name: str) -> Slope:
        """See :class:`RealisedKernel`."""

        def scores(eigenvalues: object) -> object:
            return log_derivative(self, name, lambda k: k.law().log_weights(eigenvalues, 0))

        return Slope(name, scores=scores)  # type: ignore[arg-type]

    def feature_map(self, n: int, size: int, seed: int) -> FeatureMap:
        """See :class:`Kernel`."""
        self._validate()
        return self.realise().features(size, seed)

    def expansion(self) -> Expansion:
        """The Chebyshev series of f / max f, whose ``error`` bounds that of every entry of K / max f.

        Examples
        --------
        >>> import networkx as nx
        >>> from mercer.kernels import Exponential
        >>> from mercer.spaces import Graph, Space
        >>> ring = Graph(nx.cycle_graph(10**5), similarity="normalized")
        >>> series = Exponential(ring, beta=1.0).expansion()
        >>> len(series.coefficients) < 20, series.error < 1e-12
        (True, True)
        """
        self._validate()
        return self.realise().expansion()
