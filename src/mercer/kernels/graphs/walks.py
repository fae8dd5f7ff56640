"""Kernels between nodes that add up walks: functions of a graph's similarity matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from mercer._arrays import number
from mercer._validation import is_whole
from mercer.engine.matrix_functions import WalkSeries
from mercer.kernels.graphs.base import NodeKernel
from mercer.laws import Law
from mercer.spaces import Graph
from mercer.spaces.realisations.base import Slope
from mercer.spaces.realisations.graphs import LOG_MAX, Array, NodeFunction, Nodes, Series

#: An eigenvalue below zero by less than this part of the spectrum's width is zero.
_ROUNDING = 1e-12
#: Part of non-zero entries from which a matrix is multiplied as a dense one.
_CROWDED = 0.05
#: Exponents up to which exp(beta A) from a decomposition is right to 1e-11 everywhere.
_SMALL_EXPONENT = 8.0


@dataclass(frozen=True)
class _PowerLaw(Law):
    """``f(lambda) = |lambda|^exponent``."""

    exponent: int

    def log_weights(self, eigenvalues: Array, dimension: int) -> Array:
        """See :class:`Law`."""
        with np.errstate(divide="ignore"):
            return self.exponent * np.log(np.abs(eigenvalues))


@dataclass(frozen=True)
class _ExponentialLaw(Law):
    """``f(lambda) = exp(beta lambda)``."""

    beta: Any

    def log_weights(self, eigenvalues: Array, dimension: int) -> Array:
        """See :class:`Law`."""
        return self.beta * eigenvalues


@dataclass(frozen=True)
class _Resolvent(Law):
    """``f(lambda) = 1 / (1 - beta lambda)``."""

    beta: Any

    def log_weights(self, eigenvalues: Array, dimension: int) -> Array:
        """See :class:`Law`."""
        return -np.log1p(-self.beta * eigenvalues)


class _Products(NodeFunction):
    """A power of the matrix by products of it, which keep whole numbers whole."""

    law: _PowerLaw

    def plain_gram(self, P: Nodes, Q: Nodes | None) -> Array:
        """See :class:`NodeFunction`."""
        left, rest = self._half_way(P)
        right = left if Q is None else self._half_way(Q)[0]
        with np.errstate(over="ignore", invalid="ignore"):
            return self._in_range(rest @ right.T)

    def plain_diagonal(self, P: Nodes) -> Array:
        """See :class:`NodeFunction`."""
        left, rest = self._half_way(P)
        with np.errstate(over="ignore", invalid="ignore"):
            products = left.multiply(rest) if sparse.issparse(left) else left * rest
            return self._in_range(products.sum(axis=1))

    def times(self, block: Array) -> Array:
        """See :class:`NodeFunction`."""
        for _ in range(self.law.exponent):
            block = self.operator.matrix @ block
        return block

    def _half_way(self, P: Nodes) -> tuple[Any, Any]:
        """Rows of the lower and of the upper half of the power; their product is the power."""
        matrix, size = self.operator.matrix, self.graph.size
        step = matrix.toarray() if matrix.nnz > _CROWDED * size**2 else matrix
        rows = step[P] if self.law.exponent > 1 else sparse.eye_array(size, format="csr")[P]
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(self.law.exponent // 2 - 1):
                rows = rows @ step
            return rows, rows @ step if self.law.exponent % 2 else rows

    def _in_range(self, values: Any) -> Array:
        values = values.toarray() if sparse.issparse(values) else np.asarray(values, dtype=float)
        largest = max(abs(self.operator.low), abs(self.operator.high))
        vanishing = largest > 0 and self.law.exponent * math.log(largest) < -LOG_MAX
        if vanishing or not np.isfinite(values).all():
            raise ValueError(
                f"S^{self.law.exponent} is out of the floating range; use a smaller exponent, or "
                "rescale the weights of the edges"
            )
        return values


class _Walks(NodeFunction):
    """An exponential, of the adjacency matrix as a sum over walks.

    Its entries differ by factors of up to exp(beta rho), and what is right relative to the largest may
    be all wrong elsewhere.  The sum over walks has no negative terms.
    """

    law: _ExponentialLaw

    @property
    def _by_walks(self) -> bool:
        return self.graph.similarity == "adjacency" and (
            not self.operator.decomposable or self._exponent > _SMALL_EXPONENT
        )

    @property
    def _exponent(self) -> float:
        top = self.operator.top if self.operator.decomposable else self.operator.high
        return float(self.law.beta * top)

    @property
    def _by_spectrum(self) -> bool:
        return not self._by_walks and super()._by_spectrum

    def _series(self, slope: Slope | None = None) -> tuple[Series, float]:
        if not self._by_walks:
            return super()._series(slope)
        if self._exponent > LOG_MAX:
            raise ValueError(
                f"beta of Exponential is too large: exp(beta rho(S)) = exp({self._exponent:.6g}) is out "
                "of the floating range"
            )
        beta = self.law.beta
        return WalkSeries.reaching(beta, self._exponent / beta, slope is not None), 1.0


class Power(NodeKernel):
    """Walks of a given length between nodes.

    ``K = S^exponent``; with the adjacency matrix, the number (weight) of walks of that length.

    Positive semidefinite for even exponents; for odd ones only if S has no negative eigenvalue, and
    refused otherwise.

    Parameters
    ----------
    space : Graph
        Its ``similarity`` is S.
    exponent : int
        Length of the walks, 1, 2, ...
    normalized : bool
        Divide by the square roots of K(x, x) and K(y, y).

    References
    ----------
    .. [1] M. J. Zaki, W. Meira, "Data Mining and Analysis", Cambridge University Press, 2014, ch. 5.

    Examples
    --------
    >>> import networkx as nx
    >>> from mercer.kernels import Power
    >>> from mercer.spaces import Graph
    >>> Power(Graph(nx.path_graph(3)), exponent=2)([0, 1, 2])
    array([[1., 0., 1.],
           [0., 2., 0.],
           [1., 0., 1.]])
    """

    _function = _Products

    def __init__(self, space: Graph, exponent: int = 2, normalized: bool = False) -> None:
        self.space = space
        self.exponent = exponent
        self.normalized = normalized

    def _validate(self) -> None:
        super()._validate()
        if not is_whole(self.exponent) or self.exponent < 1:
            raise ValueError(f"exponent of Power must be 1, 2, 3, ..., got {self.exponent!r}")
        if self.exponent % 2:
            least = self.operator.bottom
            if least < -_ROUNDING * (self.operator.high - self.operator.low):
                raise ValueError(
                    f"exponent of Power must be even: the similarity {self.space.similarity!r} has the "
                    f"negative eigenvalue {least:.6g}, so its odd powers are not positive semidefinite"
                )

    def law(self, n: int = 0) -> _PowerLaw:
        """``exponent log |lambda|``."""
        return _PowerLaw(self.exponent)


class Exponential(NodeKernel):
    """The exponential diffusion kernel on the nodes of a graph.

    ``K = exp(beta S)``, the sum of ``beta^k S^k / k!`` over walks of all lengths.  With a negated
    Laplacian for S it is the heat kernel at time beta.  Positive definite for every beta > 0.

    Parameters
    ----------
    space : Graph
        Its ``similarity`` is S.
    beta : float
        Rate of diffusion.
    normalized : bool
        Divide by the square roots of K(x, x) and K(y, y).
    beta_bounds : pair of floats or "fixed"
        Range for optimisers.

    References
    ----------
    .. [1] R. I. Kondor, J. Lafferty, "Diffusion kernels on graphs and other discrete input spaces",
       ICML 2002.

    Examples
    --------
    >>> import networkx as nx
    >>> from mercer.kernels import Exponential
    >>> from mercer.spaces import Graph
    >>> edges = [(1, 3), (1, 4), (2, 3), (2, 5), (3, 4), (4, 5)]
    >>> graph = Graph(nx.Graph(edges), similarity="laplacian")
    >>> Exponential(graph, beta=0.2)([1], [1, 2, 3, 4, 5]).round(2)
    array([[0.7 , 0.01, 0.14, 0.14, 0.01]])
    """

    _function = _Walks

    def __init__(
        self,
        space: Graph,
        beta: float = 1.0,
        normalized: bool = False,
        beta_bounds: Any = (1e-4, 1e2),
    ) -> None:
        self.space = space
        self.beta = beta
        self.normalized = normalized
        self.beta_bounds = beta_bounds

    def continuous(self) -> tuple[str, ...]:
        """The rate."""
        return ("beta",)

    def range_parameter(self) -> str:
        """The rate."""
        return "beta"

    def law(self, n: int = 0) -> _ExponentialLaw:
        """``beta lambda``."""
        return _ExponentialLaw(self.beta)


class VonNeumann(NodeKernel):
    """The von Neumann diffusion kernel on the nodes of a graph.

    ``K = (I - beta S)^-1``, the sum of ``beta^k S^k`` over walks of all lengths where it converges:
    ``beta < 1 / rho(S)``, rho the spectral radius.  With a negated Laplacian for S the closed form is
    positive definite for every beta > 0; with the adjacency matrix only within the bound, and
    refused outside it.

    Parameters
    ----------
    space : Graph
        Its ``similarity`` is S.
    beta : float
        Discount of a step.
    normalized : bool
        Divide by the square roots of K(x, x) and K(y, y).
    beta_bounds : pair of floats or "fixed"
        Range for optimisers.

    References
    ----------
    .. [1] J. Kandola, J. Shawe-Taylor, N. Cristianini, "Learning semantic similarity", NIPS 2002.

    Examples
    --------
    >>> import networkx as nx
    >>> from mercer.kernels import VonNeumann
    >>> from mercer.spaces import Graph
    >>> edges = [(1, 3), (1, 4), (2, 3), (2, 5), (3, 4), (4, 5)]
    >>> graph = Graph(nx.Graph(edges), similarity="laplacian")
    >>> VonNeumann(graph, beta=0.2)([1], [1, 2, 3, 4, 5]).round(2)
    array([[0.75, 0.02, 0.11, 0.11, 0.02]])
    """

    def __init__(
        self,
        space: Graph,
        beta: float = 0.1,
        normalized: bool = False,
        beta_bounds: Any = (1e-4, 1e2),
    ) -> None:
        self.space = space
        self.beta = beta
        self.normalized = normalized
        self.beta_bounds = beta_bounds

    def continuous(self) -> tuple[str, ...]:
        """The discount."""
        return ("beta",)

    def range_parameter(self) -> str:
        """The discount."""
        return "beta"

    def range_start(self) -> float:
        """See :class:`Kernel`."""
        start = super().range_start()
        if self.space.similarity != "adjacency":
            return start
        return min(start, 0.5 / max(self._radius, 1e-300))

    @property
    def _radius(self) -> float:
        """The spectral radius of an adjacency matrix, or a bound of it."""
        # Perron and Frobenius: the largest eigenvalue of a non-negative matrix is its radius.
        return float(self.operator.top if self.operator.decomposable else self.operator.high)

    def _validate(self) -> None:
        super()._validate()
        if self.space.similarity != "adjacency":
            return
        radius = self._radius
        if number(self.beta) * radius >= 1:
            raise ValueError(
                f"beta of VonNeumann must be below 1 / rho(S) = {1 / radius:.6g} with the similarity "
                f"'adjacency', which has eigenvalues of both signs; got {number(self.beta):.6g} (with "
                "'laplacian' or 'normalized' any beta will do; optimisers need beta_bounds below it)"
            )

    def law(self, n: int = 0) -> _Resolvent:
        """``-log(1 - beta lambda)``."""
        return _Resolvent(self.beta)
