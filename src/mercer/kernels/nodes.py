"""What a kernel between the nodes of a graph is: a function of one of its matrices."""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mercer._arrays import on_cpu
from mercer._validation import check_choice, check_positive, check_vector
from mercer.engine import matrixfunction
from mercer.kernels import scale
from mercer.kernels.base import log_derivative
from mercer.kernels.structured import Array, StructuredKernel
from mercer.spaces import Graph
from mercer.spaces.graph import MatrixName, Operator

Nodes = NDArray[np.intp]
Series = matrixfunction.Expansion | matrixfunction.WalkSeries

#: Eigenvalues are right to so many roundings, and the kernel must not change by more over that.
_ROUNDING_STEPS, _LARGEST_CHANGE, _LARGEST_CHANGE_OF_SERIES = 8, 1e-8, 1e-6
#: exp() of more than this overflows.
LOG_MAX = math.log(np.finfo(float).max)
#: Nodes of a graph that is not decomposed from which a range is learnt.
_LARGE_GRAPH_SAMPLE = 128


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
        >>> len(series.coefficients) < 20, series.error < 1e-12
        (True, True)
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
        if abs(top) > LOG_MAX:
            raise ValueError(
                f"the largest eigenvalue of the kernel is exp({top:.6g}), out of the floating range; "
                "use normalized=True or a smaller parameter"
            )
        return math.exp(top)

    @property
    def _by_spectrum(self) -> bool:
        """Whether to compute from the decomposition rather than column by column."""
        return self.operator.decomposable

    def _series(self, name: str | None = None) -> tuple[Series, float]:
        """The series of f or of its derivative by a log hyperparameter, and a factor of it."""
        f = self.relative_weights if name is None else partial(self._weight_slopes, name=name)
        return self._expand(f), self._factor()

    def _check_resolved(self) -> None:
        """Refuse kernels that tell eigenvalues apart which rounding does not."""
        operator = self.operator
        if operator.null is None:
            return
        known = _ROUNDING_STEPS * np.finfo(float).eps * (operator.high - operator.low)
        at, allowed = np.array([operator.low, operator.high]), _LARGEST_CHANGE_OF_SERIES
        if self._by_spectrum:  # zeros are exact
            allowed = _LARGEST_CHANGE
            at = operator.decomposition[0]
            at = at[operator.nullity :] if operator.low == 0 else at[: len(at) - operator.nullity]
        ends = (np.clip(at + shift, operator.low, operator.high) for shift in (-known, known))
        below, above = (self.relative_weights(end) for end in ends)
        change = float(np.abs(above - below).max(initial=0.0))
        if change > allowed:
            raise ValueError(
                f"rounding of the eigenvalues ({known:.2g}) would change the kernel by {change:.2g}: "
                "weights of edges span too many orders of magnitude for these parameters; take a "
                "shorter time or length scale, or drop the weakest or the strongest edges"
            )

    def _gram(self, P: Nodes, Q: Nodes | None) -> Array:
        self._check_resolved()
        if self._by_spectrum:
            features = self._features(P)
            return self._factor() * (features @ (features if Q is None else self._features(Q)).T)
        series, factor = self._series()
        return factor * self._columns(series, P, Q)

    def _features(self, P: Nodes) -> Array:
        eigenvalues, vectors = self.operator.decomposition
        return vectors[P] * np.sqrt(self.relative_weights(eigenvalues))

    def _columns(self, series: Series, P: Nodes, Q: Nodes | None) -> Array:
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
        self._check_resolved()
        if self._by_spectrum:
            features = self._features(P)
            return self._factor() * np.vecdot(features, features)
        few, where = np.unique(P, return_inverse=True)
        series, factor = self._series()
        values = np.empty(len(few))
        for start in range(0, len(few), matrixfunction.WIDTH):
            part = few[start : start + matrixfunction.WIDTH]
            values[start : start + len(part)] = np.diagonal(self._columns(series, part, None))
        return factor * values[where]

    def _slope(self, P: Nodes, name: str) -> Array:
        if not self._by_spectrum:
            series, factor = self._series(name)
            return factor * self._columns(series, P, None)
        eigenvalues, vectors = self.operator.decomposition
        chosen = vectors[P]
        slope = (chosen * self._weight_slopes(eigenvalues, name)) @ chosen.T
        return self._factor() * (slope + slope.T) / 2

    def _pair_similarities(
        self, X: Any, max_rows: int, rng: np.random.Generator
    ) -> tuple[scale.Similarities, int]:
        """See :class:`Kernel`; pairs in one component: others have nothing in common at any range."""
        nodes, components = self.space.check(on_cpu(X)), self.space.components
        most = max_rows if self.operator.decomposable else min(max_rows, _LARGE_GRAPH_SAMPLE)
        rows, keys = scale.distinct_sample(len(nodes), lambda rows: nodes[rows], most, rng)
        nodes = nodes[rows]
        i, j = scale.different_pairs(keys)
        joined = components[nodes[i]] == components[nodes[j]]
        if not joined.any():
            raise scale.NoPairs(
                "no two of these nodes are in one component of the graph: no scale can be learnt from "
                "them; give more nodes, or set the parameter by hand"
            )
        i, j = i[joined], j[joined]

        def similarities(kernel: Any) -> Array:
            kernel._validate()
            K = kernel._gram(nodes, None)
            lengths = np.sqrt(np.diagonal(K))
            return K[i, j] / (lengths[i] * lengths[j])

        return similarities, len(rows)

    def matvec(self, X: Any, Y: Any, v: Any) -> Any:
        """See :class:`Kernel`; the plain kernel of a large graph needs no column per node."""
        if self.normalized or self.operator.decomposable:
            return super().matvec(X, Y, v)
        self._validate()
        self._check_resolved()
        P, Q = self._check(X, None if Y is X else Y)
        Q = P if Q is None else Q
        v = check_vector(v, len(Q))
        block = np.zeros((self.space.size, 1 if v.ndim == 1 else v.shape[1]))
        np.add.at(block, Q, v.reshape(len(v), -1))
        result = self._times(block)[P]
        return result[:, 0] if v.ndim == 1 else result

    def _times(self, block: Array) -> Array:
        """Product of the plain kernel of all nodes with a block of vectors, which is used up."""
        series, factor = self._series()
        return factor * matrixfunction.product(self.operator.matrix, series, block)


class LaplacianKernel(NodeKernel):
    """A spectral kernel (Heat, Matern, Spectral) on the nodes of a graph.

    On a graph, a space without dimension, ``K = a(L)`` with the weights a of the kernel for n = 1.
    """

    matrix: MatrixName = "laplacian"

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.space = kernel.space
        self.normalized = kernel.normalized

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
