"""Attributes of nodes, without the links between them."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.gaussian_process import kernels as sk

from mercer._arrays import Array, count, on_cpu, taken
from mercer.contributions import Contributions
from mercer.kernels.base import Kernel, nested_params
from mercer.kernels.structured import StructuredKernel
from mercer.spaces import Graph, Space

Nodes = NDArray[np.intp]


@dataclass(eq=False, repr=False)
class Attributed(StructuredKernel):
    """A kernel of nodes by their attributes: ``k(x, y) = base(attributes of x, attributes of y)``.

    Links have no effect.  It adds up and multiplies with kernels of the graph, is a kernel to compare
    them with, and the base of a :class:`Diffused` that smooths it: ``Diffused(graph, Attributed(...))``.
    The base kernel learns what it needs from the attributes of all nodes.  Its parameters have nested
    names such as ``base__length_scale``; they can be searched, but are not part of ``theta``.

    Parameters
    ----------
    space : Graph
        Rows are its nodes.
    base : Kernel
        Kernel of attributes.
    attributes : array or sparse matrix of shape (n, d), data frame or list
        Attributes of all nodes, in the order of ``space.nodes``.
    names : sequence of d str, optional
        Names of the columns for explanations; by default those of a data frame.
    normalized : bool
        Divide by the square roots of k(x, x) and k(y, y).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Attributed, Linear
    >>> from mercer.spaces import Graph
    >>> path = Graph(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    >>> words = np.array([[1, 0], [2, 1], [0, 1]])
    >>> Attributed(path, Linear(), words)([0, 1, 2])
    array([[1., 2., 0.],
           [2., 5., 1.],
           [0., 1., 1.]])
    """

    space: Graph
    base: Kernel
    attributes: Any
    names: Any = None
    normalized: bool = False

    @property
    def parts(self) -> tuple[sk.Kernel, ...]:
        return (self.base,)

    @property
    def positive_semidefinite(self) -> bool:  # type: ignore[override]
        """See :class:`Kernel`."""
        return self.base.positive_semidefinite

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the kernel and, if deep, of the base kernel."""
        return nested_params(super().get_params(deep=False), "base", deep)

    def sample(self, size: int, rng: np.random.Generator, clusters: int | None = None) -> Any:
        """See :class:`Kernel`; nodes."""
        return self.space.sample(size, rng, clusters)

    def validate(self) -> None:
        if not isinstance(self.space, Space):
            raise TypeError(f"space must be a Graph, got {self.space!r}")
        if not isinstance(self.base, Kernel):
            raise TypeError(f"base must be a kernel, such as TfIdf(), got {self.base!r}")
        if count(self.attributes) != self.space.size:
            raise ValueError(
                f"attributes has {count(self.attributes)} rows, and the graph {self.space.size} nodes; "
                "give one row per node, in the order of graph.nodes"
            )
        super().validate()

    def learnt_from(self, X: Any, y: Any = None) -> Attributed:
        """See :class:`Kernel`; what the base kernel learns from the attributes of all nodes."""
        learnt = self.base.learnt_from(self.attributes)
        return self if learnt is self.base else self._with(learnt)

    def scaled_to(
        self, X: Any, similarity: float = 0.5, *, max_rows: int = 1000, random_state: int = 0
    ) -> Attributed:
        """See :class:`Kernel`; the base kernel is scaled to the attributes of nodes X."""
        options = {"max_rows": max_rows, "random_state": random_state}
        return self._with(self._base.scaled_to(self._of(self.space.check(X)), similarity, **options))

    def explicit_features(self, X: Any) -> Any:
        return None if self.normalized else self._base.explicit_features(self._of(self.space.check(X)))

    def _check(self, X: Any, Y: Any) -> tuple[Nodes, Nodes | None]:
        return self.space.check(X, "X"), None if Y is None else self.space.check(Y, "Y")

    def _gram(self, P: Nodes, Q: Nodes | None) -> Any:
        # A new matrix, whatever the base kernel keeps.
        return self._base.multiple(1.0, self._of(P), None if Q is None else self._of(Q))

    def _diagonal(self, P: Nodes) -> Any:
        return self._base.diag(self._of(P))

    def matvec(self, X: Any, Y: Any, v: Any) -> Any:
        """See :class:`Kernel`; that of the base kernel."""
        if self.normalized:
            return super().matvec(X, Y, v)
        self.validate()
        P, Q = self._check(X, Y)
        return self._base.matvec(self._of(P), None if Q is None else self._of(Q), v)

    def _contributions(self, P: Nodes, Q: Nodes, weights: Array) -> tuple[Contributions, ...]:
        """Those of the base kernel, with the names of columns."""
        left, right = on_cpu(self._of(P)), on_cpu(self._of(Q))
        found = self._base.contributions(left, right, weights)
        return tuple(own.renamed(self.columns) for own in found)

    @property
    def columns(self) -> list[str]:
        """Names of the columns of the attributes, or their numbers; none if there are no columns.

        Never bare positions, which would be those of a table that has the nodes in a column.
        """
        if self.names is not None:
            return list(map(str, self.names))
        if hasattr(self.attributes, "columns"):
            return list(map(str, self.attributes.columns))
        shape: Any = getattr(self.attributes, "shape", ())
        return [f"attribute {i}" for i in range(shape[1])] if len(shape) == 2 else []

    @property
    def _base(self) -> Kernel:
        return self.base.learnt_from(self.attributes)

    def _of(self, nodes: Nodes) -> Any:
        """Attributes of nodes."""
        held = self.attributes
        return taken(held.tocsr() if sparse.issparse(held) else held, nodes)

    def _with(self, base: Any) -> Attributed:
        other = copy.copy(self)
        other.base = base
        return other
