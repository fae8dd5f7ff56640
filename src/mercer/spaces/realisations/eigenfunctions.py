"""Eigenfunctions of the Laplacian, by which a space takes part in feature maps and sparse processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh

Array = NDArray[np.float64]
#: From eigenvalues to the logarithms of a law's weights.
LogWeights = Callable[[Array], Array]

#: Number of eigenvectors of a graph that is too large for all of them.
_USUAL = 500
#: Shift for the least eigenvalues of a large graph, in units of the largest.
_SHIFT = 1e-6


class Eigenfunctions(ABC):
    """Some eigenfunctions ``phi_j`` of the Laplacian of a space, and what they leave out.

    For weights a of the eigenvalues, ``k(x, y) = sum_j a(lambda_j) phi_j(x) phi_j(y)`` plus what is left
    out, and ``k(x, x) = sum_j a(lambda_j) phi_j(x)^2 + sum_r a(mu_r) psi_r(x)``.  The functions psi_r
    are sums of squares of eigenfunctions that were left out.
    """

    #: Eigenvalues lambda_j, shape (M,), and mu_r, shape (R,).
    eigenvalues: Array
    rest_eigenvalues: Array
    #: Number of points of a finite space, whose checked points are then numbers from 0 on; None for a
    #: space without end, where ``k(x, x)`` must be the same at all points.
    n_points: int | None = None

    @property
    def mean_squares(self) -> Array:
        """Means over the space of ``phi_j^2`` and of ``psi_r``, shape (M + R,), where it has no end."""
        raise NotImplementedError(f"{type(self).__name__} has no means over the space")

    @abstractmethod
    def check(self, X: Any, name: str = "X") -> Any:
        """Validate points and return them as :meth:`values` takes them."""

    @abstractmethod
    def points(self, checked: Any) -> Any:
        """Checked points as a kernel takes them."""

    @abstractmethod
    def values(self, checked: Any) -> Array:
        """The functions phi_j at checked points, shape (m, M)."""

    @abstractmethod
    def rest(self, checked: Any) -> Array:
        """The functions psi_r at checked points, shape (m, R)."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A text that other functions do not have."""


@dataclass(frozen=True, eq=False)
class Eigenvectors(Eigenfunctions):
    """Eigenvectors of the Laplacian of a graph, as functions of the nodes.

    Parameters
    ----------
    graph : Graph
    eigenvalues, rest_eigenvalues : arrays of shape (M,) and (R,)
    vectors : array of shape (n, M)
    squares : array of shape (n, R)
        Squares of the vectors that were left out.
    """

    graph: Any
    eigenvalues: Array
    rest_eigenvalues: Array
    vectors: Array
    squares: Array

    @classmethod
    def of(cls, graph: Any, count: int | None, log_weights: LogWeights) -> Eigenvectors:
        """The ``count`` heaviest; see :meth:`mercer.spaces.Graph.eigenfunctions`."""
        operator = graph.operator("laplacian")
        if not operator.decomposable:
            return cls._least(graph, _USUAL if count is None else count, log_weights)
        values, vectors = operator.decomposition
        kept = np.arange(len(values))
        if count is not None and count < len(values):
            kept = np.sort(np.argsort(-log_weights(values), kind="stable")[:count])
        left = np.setdiff1d(np.arange(len(values)), kept)
        return cls(graph, values[kept], values[left], vectors[:, kept], vectors[:, left] ** 2)

    @classmethod
    def _least(cls, graph: Any, count: int, log_weights: LogWeights) -> Eigenvectors:
        """Those of the least eigenvalues of a large graph.

        Squares of all vectors add up to one at each node.  What is left out counts as if it had the
        largest eigenvalue that is kept, which is an upper bound for weights that fall.
        """
        operator = graph.operator("laplacian")
        if (np.diff(log_weights(np.linspace(operator.low, operator.high, 1025))) > 0).any():
            raise ValueError(
                f"{graph!r} is too large to be decomposed, and the heaviest eigenvectors are known only "
                "for weights that fall with the eigenvalue; use Heat or Matern"
            )
        count = min(count, graph.size - 1)
        start = np.random.default_rng(0).uniform(0.5, 1.5, size=graph.size)
        shift = -_SHIFT * max(operator.high, np.finfo(float).tiny)
        values, vectors = eigsh(operator.matrix.tocsc(), k=count, sigma=shift, which="LM", v0=start)
        order = np.argsort(values)
        values, vectors = np.clip(values[order], operator.low, operator.high), vectors[:, order]
        squares = np.maximum(1 - (vectors**2).sum(axis=1, keepdims=True), 0.0)
        return cls(graph, values, values[-1:], vectors, squares)

    @property
    def n_points(self) -> int:  # type: ignore[override]
        """Number of nodes."""
        return len(self.vectors)

    def check(self, X: Any, name: str = "X") -> NDArray[np.intp]:
        """Positions of nodes; see :class:`Eigenfunctions`."""
        found: NDArray[np.intp] = self.graph.check(X, name)
        return found

    def points(self, checked: NDArray[np.intp]) -> list[Any]:
        """Labels of nodes, or indices; see :class:`Eigenfunctions`."""
        nodes = self.graph.nodes
        return [nodes[i] for i in checked]

    def values(self, checked: NDArray[np.intp]) -> Array:
        """See :class:`Eigenfunctions`."""
        return self.vectors[checked]

    def rest(self, checked: NDArray[np.intp]) -> Array:
        """See :class:`Eigenfunctions`."""
        return self.squares[checked]

    @property
    def fingerprint(self) -> str:
        """See :class:`Eigenfunctions`."""
        return f"{self.graph.fingerprint} {len(self.eigenvalues)}"
