"""The base class of kernels between the nodes of a graph: functions of its similarity matrix."""

from __future__ import annotations

from abc import abstractmethod

from mercer._validation import check_choice
from mercer.kernels.base import log_derivative
from mercer.kernels.realised import RealisedKernel
from mercer.laws import Law
from mercer.spaces import Graph, Space
from mercer.spaces.realisations.base import Slope
from mercer.spaces.realisations.graphs import NodeFunction
from mercer.spaces.realisations.operators import Operator


class NodeKernel(RealisedKernel):
    """Base class of kernels ``K = f(S)``: non-negative functions of the similarity matrix of a graph.

    A subclass defines the logarithm of f as a :class:`~mercer.laws.Law`.
    """

    space: Graph
    normalized: bool
    #: The algorithm that computes the function.
    _function: type[NodeFunction] = NodeFunction

    @abstractmethod
    def law(self, n: int = 0) -> Law:
        """The logarithm of the function f."""

    def range_parameter(self) -> str | None:
        """See :class:`Kernel`; the continuous hyperparameter, if there is one."""
        return next(iter(self.continuous()), None)

    def validate(self) -> None:
        if not isinstance(self.space, Space):
            raise TypeError(f"space must be a Graph, got {self.space!r}")
        self.space.operator("similarity")
        check_choice(self, "normalized", (True, False))
        super().validate()

    @property
    def operator(self) -> Operator:
        """The matrix S, with bounds on its eigenvalues."""
        return self.space.operator("similarity")

    def realise(self, n: int = 0) -> NodeFunction:
        return self._function(self.space, self.operator, self.law(), bool(self.normalized))

    def slope(self, n: int, name: str) -> Slope:

        def scores(eigenvalues: object) -> object:
            return log_derivative(self, name, lambda k: k.law().log_weights(eigenvalues, 0))

        return Slope(name, scores=scores)  # type: ignore[arg-type]
