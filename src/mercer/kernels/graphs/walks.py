"""Kernels between nodes that sum over walks: functions of the similarity matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy import sparse
from sklearn.gaussian_process import kernels as sk

from mercer._arrays import Array, number, on_cpu, placed
from mercer._validation import check_whole
from mercer.engine.matrix_functions import WalkSeries, half_powers
from mercer.kernels.graphs.base import NodeKernel
from mercer.laws import Law
from mercer.spaces import Graph, Space
from mercer.spaces.realisations.base import LOG_MAX, Slope
from mercer.spaces.realisations.graphs import NodeFunction, Nodes, Series

#: A negative eigenvalue smaller than this fraction of the spectrum's width counts as zero.
_ROUNDING = 1e-12
#: Exponents up to which exp(beta A) from an eigendecomposition is exact to 1e-11 everywhere.
_SMALL_EXPONENT = 8.0
#: Discount factors of VonNeumann relative to their limit: the usual one, and the largest for optimisers.
_USUAL, _CLOSEST = 0.9, 0.999


@dataclass(frozen=True)
class _PowerLaw(Law):
    """``f(lambda) = |lambda|^exponent``."""

    exponent: int

    def log_weights(self, eigenvalues: Array, dimension: int) -> Array:
        with np.errstate(divide="ignore"):
            return self.exponent * np.log(np.abs(eigenvalues))


@dataclass(frozen=True)
class _ExponentialLaw(Law):
    """``f(lambda) = exp(beta lambda)``."""

    beta: Any

    def log_weights(self, eigenvalues: Array, dimension: int) -> Array:
        return self.beta * eigenvalues


@dataclass(frozen=True)
class _Resolvent(Law):
    """``f(lambda) = 1 / (1 - beta lambda)``."""

    beta: Any

    def log_weights(self, eigenvalues: Array, dimension: int) -> Array:
        return -np.log1p(-self.beta * eigenvalues)


class _Products(NodeFunction):
    """A power of the matrix by repeated multiplication, exact for whole numbers."""

    law: _PowerLaw

    def plain_gram(self, P: Nodes, Q: Nodes | None) -> Any:
        left, rest = self._half_way(P)
        right = left if Q is None else self._half_way(Q)[0]
        with np.errstate(over="ignore", invalid="ignore"):
            return self._in_range(rest @ right.T)

    def plain_diagonal(self, P: Nodes) -> Any:
        left, rest = self._half_way(P)
        with np.errstate(over="ignore", invalid="ignore"):
            products = left.multiply(rest) if sparse.issparse(left) else left * rest
            return self._in_range(products.sum(axis=1))

    def times(self, block: Any) -> Any:
        for _ in range(self.law.exponent):
            block = self.operator.edges @ block
        return block

    def _met_half_way(self, P: Nodes, Q: Nodes, weights: Array) -> Array:
        left, right = self._half_way(P)[1], self._half_way(Q)[0]
        right = placed(weights, right) @ right
        return left.multiply(right).toarray() if sparse.issparse(left) else on_cpu(left * right)

    def _half_way(self, P: Nodes) -> tuple[Any, Any]:
        """Rows of two matrix powers whose product is the power."""
        with np.errstate(over="ignore", invalid="ignore"):
            return half_powers(self.operator.edges, P, self.law.exponent)

    def _in_range(self, values: Any) -> Any:
        values = values.toarray() if sparse.issparse(values) else values
        largest = max(abs(self.operator.low), abs(self.operator.high))
        vanishing = largest > 0 and self.law.exponent * math.log(largest) < -LOG_MAX
        if vanishing or not array_namespace(values).isfinite(values).all():
            raise ValueError(
                f"S^{self.law.exponent} is out of the floating-point range; use a smaller exponent or "
                "rescale the edge weights"
            )
        return values


class _Walks(NodeFunction):
    """An exponential; for the adjacency matrix, by a sum over walks.

    Entries differ by factors of up to exp(beta rho): an error that is small relative to the largest
    entry may leave no correct digit in others.  The sum over walks has no negative terms.
    """

    law: _ExponentialLaw

    def _root(self) -> NodeFunction:
        half = replace(self.law, beta=self.law.beta / 2)
        # Sums over walks are not relative to the largest weight.
        return _Walks(self.graph, self.operator, half, self.normalized and not self._by_walks)

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
                "of the floating-point range"
            )
        beta = self.law.beta
        return WalkSeries.reaching(beta, self._exponent / beta, slope is not None), 1.0


@dataclass(eq=False, repr=False)
class Power(NodeKernel):
    """The number of walks of a given length between nodes.

    ``K = S^exponent``; for the adjacency matrix, the number (total weight) of walks of that length.

    Positive semidefinite for even exponents.  Odd exponents are refused if S has a negative eigenvalue.

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

    space: Graph
    exponent: int = 2
    normalized: bool = False

    _function = _Products

    def validate(self) -> None:
        super().validate()
        check_whole("exponent of Power", self.exponent, 1)
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


@dataclass(eq=False, repr=False)
class Exponential(NodeKernel):
    """The exponential diffusion kernel on the nodes of a graph.

    ``K = exp(beta S)``, the sum of ``beta^k S^k / k!`` over walks of all lengths k.  If S is a negated
    Laplacian, this is the heat kernel at time beta.  Positive definite for every beta > 0.

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

    space: Graph
    beta: float = 1.0
    normalized: bool = False
    beta_bounds: Any = (1e-4, 1e2)

    _function = _Walks

    def law(self, n: int = 0) -> _ExponentialLaw:
        """``beta lambda``."""
        return _ExponentialLaw(number(self.beta))


@dataclass(eq=False, repr=False)
class VonNeumann(NodeKernel):
    """The von Neumann diffusion kernel on the nodes of a graph.

    ``K = (I - beta S)^-1``, the sum of ``beta^k S^k`` over walks of all lengths k if
    ``beta < 1 / rho(S)`` with rho the spectral radius.  The closed form is positive definite as long as
    beta is below 1 / (largest eigenvalue of S): for every beta > 0 if S is a negated Laplacian.  Larger
    beta are refused.

    Parameters
    ----------
    space : Graph
        Its ``similarity`` is S.
    beta : float, optional
        Discount factor per step.  By default nine tenths of the limit 1 / (largest eigenvalue of S), or
        1 where there is no limit.
    normalized : bool
        Divide by the square roots of K(x, x) and K(y, y).
    beta_bounds : pair of floats or "fixed"
        Range for optimisers, which stay below 0.999 times the limit.

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

    space: Graph
    beta: Any = None
    normalized: bool = False
    beta_bounds: Any = (1e-4, 1e2)

    def __post_init__(self) -> None:
        if self.beta is None and isinstance(self.space, Space):
            self.space.operator("similarity")  # refuses what is not a graph
            self.beta = _USUAL / self._top if self._top > 0 else 1.0

    @property
    def hyperparameters(self) -> list[sk.Hyperparameter]:
        """See :class:`Kernel`; bounds end below the limit."""
        (found,) = super().hyperparameters
        if found.fixed or number(self.beta) * self._top >= 1:  # which validate refuses
            return [found]
        limit = _CLOSEST / self._top if self._top > 0 else math.inf
        low, high = found.bounds[0]
        return [sk.Hyperparameter(found.name, "numeric", (min(low, 1e-3 * limit), min(high, limit)))]

    def range_start(self) -> float:
        start = super().range_start()
        return min(start, 0.5 / max(self._top, 1e-300))

    @property
    def _top(self) -> float:
        """The largest eigenvalue of S, or an upper bound."""
        if self.space.similarity in ("laplacian", "normalized"):  # negated Laplacians
            return 0.0
        return float(self.operator.top if self.operator.decomposable else self.operator.high)

    def validate(self) -> None:
        super().validate()
        top = self._top
        if number(self.beta) * top >= 1:
            raise ValueError(
                f"beta of VonNeumann must be below {1 / top:.6g}, the inverse of the largest eigenvalue "
                f"of the similarity {self.space.similarity!r}, got {number(self.beta):.6g}; lower beta "
                "and beta_bounds, or use the similarity 'laplacian' or 'normalized', which allow every "
                "beta"
            )

    def law(self, n: int = 0) -> _Resolvent:
        """``-log(1 - beta lambda)``."""
        return _Resolvent(number(self.beta))
