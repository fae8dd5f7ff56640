"""Laws on graphs: functions of a matrix on the nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from mercer._arrays import Array, on_cpu, placed, squared_lengths
from mercer.contributions import Contributions, of_nodes
from mercer.engine import matrix_functions
from mercer.laws import Law
from mercer.spaces.realisations import sampling
from mercer.spaces.realisations.base import (
    LOG_MAX,
    Moving,
    Realisation,
    Similarities,
    Slope,
    normalised,
    normalised_slope,
    positive,
)
from mercer.spaces.realisations.graph_features import NodeFeatures

if TYPE_CHECKING:
    from mercer.spaces.graph import Graph
    from mercer.spaces.realisations.operators import Operator

Nodes = NDArray[np.intp]
Series = matrix_functions.Expansion | matrix_functions.WalkSeries

#: Eigenvalues are right to so many roundings, and the kernel must not change by more over that.
_ROUNDING_STEPS, _LARGEST_CHANGE, _LARGEST_CHANGE_OF_SERIES = 8, 1e-8, 1e-6
#: Nodes of a graph that is not decomposed from which a range is learnt.
_LARGE_GRAPH_SAMPLE = 128


@dataclass(frozen=True)
class _SquareRoot(Law):
    """The law whose weights are square roots of another's."""

    law: Law

    def log_weights(self, eigenvalues: NDArray[Any], dimension: int) -> NDArray[Any]:
        return self.law.log_weights(eigenvalues, dimension) / 2


class NodeFunction(Realisation):
    """A kernel ``K = f(M)``: a non-negative function of the eigenvalues of a matrix on the nodes.

    Graphs of up to 4000 nodes are decomposed once, and every further kernel is a matrix product.  On
    larger graphs there is never an n x n matrix: a column is computed for each requested node, by a
    Chebyshev series of f with a bound on its error (:meth:`expansion`), at the cost of one pass over
    the edges per term.  Results are on the device of the matrix.

    Parameters
    ----------
    graph : Graph
    operator : Operator
        The matrix M, with bounds on its eigenvalues.
    law : Law
        Logarithm of f, in dimension 0.
    normalized : bool
        Divide by the square roots of K(x, x) and K(y, y).
    """

    def __init__(self, graph: Graph, operator: Operator, law: Law, normalized: bool) -> None:
        self.graph, self.operator, self.law, self.normalized = graph, operator, law, normalized

    def log_weights(self, eigenvalues: Array) -> Array:
        """Logarithm of f."""
        return np.asarray(self.law.log_weights(eigenvalues, 0), dtype=float)

    def expansion(self) -> matrix_functions.Expansion:
        """The Chebyshev series of f / max f, whose ``error`` bounds that of every entry of K / max f."""
        return self._expand(self.relative_weights)

    def features(self, size: int, seed: int) -> NodeFeatures:
        """See :class:`Realisation`; eigenvectors."""
        return NodeFeatures.of(self, size, seed)

    def _expand(self, f: Callable[[Array], Array]) -> matrix_functions.Expansion:
        return matrix_functions.expand(f, self.operator.low, self.operator.high)

    @property
    def _log_top(self) -> float:
        """Logarithm of the largest weight."""
        if self.operator.decomposable:
            eigenvalues = self.operator.decomposition[0]
        else:
            eigenvalues = np.linspace(self.operator.low, self.operator.high, 4097)
        top = float(np.max(self.log_weights(eigenvalues)))
        return top if top > -np.inf else 0.0

    def relative_weights(self, eigenvalues: Array) -> Array:
        """The function f divided by its largest value."""
        return np.exp(self.log_weights(eigenvalues) - self._log_top)

    def _weight_slopes(self, eigenvalues: Array, slope: Slope) -> Array:
        """Derivative of f with respect to a log hyperparameter, divided by the largest value of f."""
        return self.relative_weights(eigenvalues) * slope.scores(eigenvalues)

    def _factor(self) -> float:
        """What the values relative to the largest weight are multiplied with."""
        return 1.0 if self.normalized else self.largest_weight()  # it cancels in the normalised form

    def largest_weight(self) -> float:
        """The largest value of f on the spectrum, or on the interval known to hold it."""
        top = self._log_top
        if abs(top) > LOG_MAX:
            raise ValueError(
                f"the largest eigenvalue of the kernel is exp({top:.6g}), out of the floating-point "
                "range; use normalized=True or a smaller parameter"
            )
        return math.exp(top)

    @property
    def _by_spectrum(self) -> bool:
        """Whether to compute from the decomposition rather than column by column."""
        return self.operator.decomposable

    def _series(self, slope: Slope | None = None) -> tuple[Series, float]:
        """The series of f, or of its slope in a log hyperparameter, and a factor of it."""
        f = self.relative_weights if slope is None else partial(self._weight_slopes, slope=slope)
        return self._expand(f), self._factor()

    def _check_resolved(self) -> None:
        """Refuse kernels that depend on eigenvalues beyond their rounding."""
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

    def gram(self, P: Nodes, Q: Nodes | None = None, moving: Sequence[Moving] = ()) -> Any:
        K = self.plain_gram(P, Q)
        return normalised(K, P, Q, self.plain_diagonal)[0] if self.normalized else K

    def diagonal(self, P: Nodes, moving: Sequence[Moving] = ()) -> Any:
        values = self.plain_diagonal(P)
        return 0 * positive(values, "X") + 1 if self.normalized else values

    def slopes(self, P: Nodes, slopes: Sequence[Slope]) -> tuple[Any, list[Any]]:
        K = self.plain_gram(P, None)
        plain = [self._slope(P, slope) for slope in slopes]
        if not self.normalized:
            return K, plain
        K, squares = normalised(K, P, None, self.plain_diagonal)
        return K, [normalised_slope(slope, K, squares) for slope in plain]

    def plain_gram(self, P: Nodes, Q: Nodes | None) -> Any:
        """Gram matrix that is not normalised."""
        self._check_resolved()
        if self._by_spectrum:
            features = self._features(P)
            return self._factor() * (features @ (features if Q is None else self._features(Q)).T)
        series, factor = self._series()
        return factor * self._columns(series, P, Q)

    def _features(self, P: Nodes) -> Any:
        eigenvalues, vectors = self.operator.decomposition
        return vectors[P] * placed(np.sqrt(self.relative_weights(eigenvalues)), vectors)

    def _columns(self, series: Series, P: Nodes, Q: Nodes | None) -> Any:
        """Entries of the series, from columns for the smaller of two sets of nodes."""
        matrix = self.operator.edges
        few, where = np.unique(P if Q is None or len(P) < len(Q) else Q, return_inverse=True)
        if Q is None:
            K = matrix_functions.columns(matrix, series, few, few)
            return ((K + K.T) / 2)[where[:, None], where]
        if len(P) < len(Q):
            return matrix_functions.columns(matrix, series, few, Q)[:, where].T
        return matrix_functions.columns(matrix, series, few, P)[:, where]

    def plain_diagonal(self, P: Nodes) -> Any:
        """K(x, x) of each node."""
        self._check_resolved()
        if self._by_spectrum:
            features = self._features(P)
            return self._factor() * squared_lengths(features)
        few, where = np.unique(P, return_inverse=True)
        series, factor = self._series()
        starts = range(0, len(few), matrix_functions.WIDTH)
        parts = [few[start : start + matrix_functions.WIDTH] for start in starts]
        values = [self._columns(series, part, None).diagonal() for part in parts]
        return factor * array_namespace(values[0]).concat(values)[where]

    def _slope(self, P: Nodes, slope: Slope) -> Any:
        if not self._by_spectrum:
            series, factor = self._series(slope)
            return factor * self._columns(series, P, None)
        eigenvalues, vectors = self.operator.decomposition
        chosen = vectors[P]
        found = (chosen * placed(self._weight_slopes(eigenvalues, slope), vectors)) @ chosen.T
        return self._factor() * (found + found.T) / 2

    def pair_similarities(
        self, P: Nodes, max_rows: int, rng: np.random.Generator
    ) -> tuple[Similarities, int]:
        """See :class:`Realisation`; pairs in one component: others have nothing in common."""
        components = self.graph.components
        most = max_rows if self.operator.decomposable else min(max_rows, _LARGE_GRAPH_SAMPLE)
        rows, keys = sampling.distinct_sample(len(P), lambda rows: P[rows], most, rng)
        nodes = P[rows]
        i, j = sampling.different_pairs(keys)
        joined = components[nodes[i]] == components[nodes[j]]
        if not joined.any():
            raise sampling.NoPairs(
                "no two of these nodes are in one component of the graph: no scale can be learnt from "
                "them; give more nodes, or set the parameter by hand"
            )
        i, j = i[joined], j[joined]

        def similarities(other: NodeFunction) -> Array:
            K = on_cpu(other.plain_gram(nodes, None))
            lengths = np.sqrt(np.diagonal(K))
            return K[i, j] / (lengths[i] * lengths[j])

        return similarities, len(rows)

    def matvec(self, P: Nodes, Q: Nodes | None, v: Any, moving: Sequence[Moving] = ()) -> Any:
        """See :class:`Realisation`; the plain kernel of a large graph needs no column per node."""
        if self.normalized or self.operator.decomposable:
            return None
        self._check_resolved()
        Q = P if Q is None else Q
        block = matrix_functions.scattered(self.operator.edges, Q, v.reshape(len(v), -1))
        result = self.times(block)[P]
        return result[:, 0] if v.ndim == 1 else result

    def contributions(self, P: Nodes, Q: Nodes, weights: Array) -> tuple[Contributions, ...]:
        """See :class:`Realisation`; of nodes where walks from p and from q meet half-way.

        ``K(p, q) = sum_u R(p, u) R(q, u)`` with R the square root of the plain kernel.
        """
        if self.normalized:
            lengths = [
                np.sqrt(positive(on_cpu(self.plain_diagonal(nodes)), name))
                for nodes, name in ((P, "X"), (Q, "Y"))
            ]
            weights = weights / lengths[0][:, None] / lengths[1]
        return of_nodes(self.graph.nodes, self._met_half_way(P, Q, weights))

    def _met_half_way(self, P: Nodes, Q: Nodes, weights: Array) -> Array:
        """Sums ``sum_q weights[p, q] R(p, u) R(q, u)`` for all nodes u."""
        root = self._root()
        block = matrix_functions.scattered(self.operator.edges, Q, weights.T)
        return on_cpu(root.plain_gram(P, np.arange(self.graph.size)) * root.times(block).T)

    def _root(self) -> NodeFunction:
        """The square root of the plain kernel."""
        return NodeFunction(self.graph, self.operator, _SquareRoot(self.law), self.normalized)

    def times(self, block: Any) -> Any:
        """Product of the plain kernel of all nodes with a block of vectors, which is used up."""
        self._check_resolved()
        if self._by_spectrum:
            eigenvalues, vectors = self.operator.decomposition
            weights = placed(self._factor() * self.relative_weights(eigenvalues), vectors)
            return vectors @ (weights[:, None] * (vectors.T @ block))
        series, factor = self._series()
        return factor * matrix_functions.product(self.operator.edges, series, block)

    def log(self, P: Any, Q: Any = None) -> Any:
        raise TypeError("log is for sphere, simplex and hyperbolic space; on a graph take np.log(k(X))")
