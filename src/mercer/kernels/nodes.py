"""Kernels between the nodes of a graph: functions of its Laplacian or its similarity matrix."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer.engine import matrixfunction
from mercer.kernels.base import (
    check_choice,
    check_positive,
    check_vector,
    is_whole,
    log_derivative,
    number,
)
from mercer.kernels.structured import Array, StructuredKernel
from mercer.spaces import Graph
from mercer.spaces.graph import MatrixName, Operator

Nodes = NDArray[np.intp]

#: An eigenvalue below zero by less than this part of the spectrum's width is zero.
_ROUNDING = 1e-12
#: Part of non-zero entries from which a matrix is multiplied as a dense one.
_CROWDED = 0.05
#: exp() of more than this overflows.
_LOG_MAX = math.log(np.finfo(float).max)


class NodeKernel(StructuredKernel):
    """A kernel ``K = f(M)``: a non-negative function of the eigenvalues of a matrix on the nodes.

    A subclass writes :meth:`log_weights`, the logarithm of f.  Graphs of up to 4000 nodes are
    decomposed once, and every further kernel is a matrix product.  On larger graphs there is never an
    n x n matrix: a column is computed for each node asked for, by a Chebyshev series of f with
    a bound on its error (:meth:`expansion`), at the cost of one pass over the edges per term.
    """

    space: Graph
    #: The matrix M.
    matrix: MatrixName = "similarity"

    @abstractmethod
    def log_weights(self, eigenvalues: Array) -> Array:
        """Logarithm of f; analytic in the hyperparameters, since gradients evaluate complex ones."""

    def _validate(self) -> None:
        if not isinstance(self.space, Graph):
            raise TypeError(f"space must be a Graph, got {self.space!r}")
        check_choice(self, "normalized", (True, False))
        check_positive(self, *self.continuous())

    @property
    def operator(self) -> Operator:
        """The matrix M, with bounds on its eigenvalues."""
        return self.space.operator(self.matrix)

    def _check(self, X: Any, Y: Any) -> tuple[Nodes, Nodes | None]:
        return self.space.check(X, "X"), None if Y is None else self.space.check(Y, "Y")

    def expansion(self) -> matrixfunction.Expansion:
        """The Chebyshev series of f / max f, whose ``error`` bounds that of every entry of K / max f.

        Examples
        --------
        >>> import networkx as nx
        >>> from mercer.kernels import Exponential
        >>> from mercer.spaces import Graph
        >>> ring = Graph(nx.cycle_graph(10**5), similarity="normalized")
        >>> series = Exponential(ring, beta=1.0).expansion()
        >>> len(series.coefficients), series.error < 1e-13
        (14, True)
        """
        self._validate()
        return self._expand(self.relative_weights)

    def _expand(self, f: Any) -> matrixfunction.Expansion:
        return matrixfunction.expand(f, self.operator.low, self.operator.high)

    @property
    def _log_top(self) -> float:
        """Logarithm of the largest weight."""
        if self.operator.decomposable:
            eigenvalues = self.operator.decomposition[0]
        else:
            eigenvalues = np.linspace(self.operator.low, self.operator.high, 4097)
        top = float(np.max(self.with_floats().log_weights(eigenvalues)))
        return top if top > -np.inf else 0.0

    def relative_weights(self, eigenvalues: Array) -> Array:
        """The function f divided by its largest value."""
        return np.exp(self.with_floats().log_weights(eigenvalues) - self._log_top)

    def _weight_slopes(self, eigenvalues: Array, name: str) -> Array:
        """Derivative of f by the logarithm of a hyperparameter, divided by the largest value of f."""
        return self.relative_weights(eigenvalues) * self._scores(eigenvalues, name)

    def _scores(self, eigenvalues: Array, name: str) -> Array:
        """Derivative of log f by the logarithm of a hyperparameter."""
        return log_derivative(self, name, lambda kernel: kernel.log_weights(eigenvalues))

    def _factor(self) -> float:
        """What the values relative to the largest weight are multiplied with."""
        return 1.0 if self.normalized else self.largest_weight()  # it cancels in the normalised form

    def largest_weight(self) -> float:
        """The largest value of f on the spectrum, or on the interval known to hold it."""
        top = self._log_top
        if abs(top) > _LOG_MAX:
            raise ValueError(
                f"the largest eigenvalue of the kernel is exp({top:.6g}), out of the floating range; "
                "use normalized=True or a smaller parameter"
            )
        return math.exp(top)

    def _gram(self, P: Nodes, Q: Nodes | None) -> Array:
        return self._factor() * (
            self._from_spectrum(P, Q) if self.operator.decomposable else self._series(P, Q)
        )

    def _from_spectrum(self, P: Nodes, Q: Nodes | None) -> Array:
        features = self._features(P)
        return features @ (features if Q is None else self._features(Q)).T

    def _features(self, P: Nodes) -> Array:
        eigenvalues, vectors = self.operator.decomposition
        return vectors[P] * np.sqrt(self.relative_weights(eigenvalues))

    def _series(self, P: Nodes, Q: Nodes | None) -> Array:
        return self._columns(self._expand(self.relative_weights), P, Q)

    def _columns(self, series: matrixfunction.Expansion, P: Nodes, Q: Nodes | None) -> Array:
        """Entries of the series, from columns for the smaller of two sets of nodes."""
        matrix = self.operator.matrix
        few, where = np.unique(P if Q is None or len(P) < len(Q) else Q, return_inverse=True)
        if Q is None:
            K = matrixfunction.columns(matrix, series, few, few)
            return ((K + K.T) / 2)[np.ix_(where, where)]
        if len(P) < len(Q):
            return matrixfunction.columns(matrix, series, few, Q)[:, where].T
        return matrixfunction.columns(matrix, series, few, P)[:, where]

    def _diagonal(self, P: Nodes) -> Array:
        if self.operator.decomposable:
            features = self._features(P)
            return self._factor() * np.vecdot(features, features)
        few, where = np.unique(P, return_inverse=True)
        series = self._expand(self.relative_weights)
        values = np.empty(len(few))
        for start in range(0, len(few), matrixfunction.WIDTH):
            part = few[start : start + matrixfunction.WIDTH]
            values[start : start + len(part)] = np.diagonal(self._columns(series, part, None))
        return self._factor() * values[where]

    def _slope(self, P: Nodes, name: str) -> Array:
        if not self.operator.decomposable:
            series = self._expand(lambda values: self._weight_slopes(values, name))
            return self._factor() * self._columns(series, P, None)
        eigenvalues, vectors = self.operator.decomposition
        chosen = vectors[P]
        slope = (chosen * self._weight_slopes(eigenvalues, name)) @ chosen.T
        return self._factor() * (slope + slope.T) / 2

    def matvec(self, X: Any, Y: Any, v: Any) -> Any:
        """See :class:`Kernel`; the plain kernel of a large graph needs no column per node."""
        if self.normalized or self.operator.decomposable:
            return super().matvec(X, Y, v)
        self._validate()
        P, Q = self._check(X, None if Y is X else Y)
        Q = P if Q is None else Q
        v = check_vector(v, len(Q))
        block = np.zeros((self.space.size, 1 if v.ndim == 1 else v.shape[1]))
        np.add.at(block, Q, v.reshape(len(v), -1))
        result = matrixfunction.product(
            self.operator.matrix, self._expand(self.relative_weights), block
        )[P]
        return self._factor() * (result[:, 0] if v.ndim == 1 else result)


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

    def log_weights(self, eigenvalues: Array) -> Array:
        """``exponent log |lambda|``."""
        with np.errstate(divide="ignore"):
            return self.exponent * np.log(np.abs(eigenvalues))

    # Products of the matrix itself keep whole numbers whole.

    def _gram(self, P: Nodes, Q: Nodes | None) -> Array:
        left, rest = self._half_way(P)
        right = left if Q is None else self._half_way(Q)[0]
        return self._finite(rest @ right.T)

    def _diagonal(self, P: Nodes) -> Array:
        left, rest = self._half_way(P)
        products = left.multiply(rest) if sparse.issparse(left) else left * rest
        return self._finite(products.sum(axis=1))

    def _half_way(self, P: Nodes) -> tuple[Any, Any]:
        """Rows of the lower and of the upper half of the power; their product is the power."""
        matrix = self.operator.matrix
        crowded = matrix.nnz > _CROWDED * self.space.size**2
        step = matrix.toarray() if crowded else matrix
        rows = step[P] if self.exponent > 1 else sparse.eye_array(self.space.size, format="csr")[P]
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(self.exponent // 2 - 1):
                rows = rows @ step
            return rows, rows @ step if self.exponent % 2 else rows

    def _finite(self, values: Any) -> Array:
        values = values.toarray() if sparse.issparse(values) else np.asarray(values, dtype=float)
        if not np.isfinite(values).all():
            raise ValueError(f"S^{self.exponent} overflows; use a smaller exponent, or smaller weights")
        return values


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

    def log_weights(self, eigenvalues: Array) -> Array:
        """``beta lambda``."""
        return self.beta * eigenvalues


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

    def _validate(self) -> None:
        super()._validate()
        if self.space.similarity != "adjacency":
            return
        # Perron and Frobenius: the largest eigenvalue of a non-negative matrix is its radius.
        radius = self.operator.top if self.operator.decomposable else self.operator.high
        if number(self.beta) * radius >= 1:
            raise ValueError(
                f"beta of VonNeumann must be below 1 / rho(S) = {1 / radius:.6g} with the similarity "
                f"'adjacency', which has eigenvalues of both signs; got {number(self.beta):.6g} "
                "(with 'laplacian' or 'normalized' any beta will do)"
            )

    def log_weights(self, eigenvalues: Array) -> Array:
        """``-log(1 - beta lambda)``."""
        return -np.log1p(-self.beta * eigenvalues)


class LaplacianKernel(NodeKernel):
    """A spectral kernel (Heat, Matern, Spectral) on the nodes of a graph.

    On a graph, a space without dimension, ``K = a(L)`` with the weights a of the kernel for n = 1.
    """

    matrix: MatrixName = "laplacian"

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    @property
    def space(self) -> Graph:  # type: ignore[override]
        """The graph."""
        return self.kernel.space

    @property
    def normalized(self) -> bool:  # type: ignore[override]
        """Whether K(x, x) = 1."""
        return self.kernel.normalized

    def continuous(self) -> tuple[str, ...]:
        """Those of the kernel."""
        return self.kernel.continuous()

    def free(self) -> tuple[str, ...]:
        """Those of the kernel."""
        return self.kernel.free()

    def _validate(self) -> None:
        self.kernel._validate()

    def with_floats(self) -> Self:
        """See :class:`Kernel`."""
        return type(self)(self.kernel.with_floats())

    def log_weights(self, eigenvalues: Array) -> Array:
        """The weights of the kernel for n = 1."""
        return np.asarray(self.kernel.log_weights(eigenvalues, 1), dtype=float)

    def _scores(self, eigenvalues: Array, name: str) -> Array:
        return log_derivative(self.kernel, name, lambda kernel: kernel.log_weights(eigenvalues, 1))
