"""Eigenvectors of a graph's matrix as features of kernels between its nodes, and of processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from mercer._arrays import Array, on_cpu
from mercer._progress import progress
from mercer.engine import matrix_functions
from mercer.spaces.realisations.base import FeatureMap
from mercer.spaces.realisations.eigenfunctions import USUAL, Eigenfunctions, LogWeights

if TYPE_CHECKING:
    from mercer.spaces.realisations.graphs import NodeFunction
    from mercer.spaces.realisations.operators import Operator


#: Restarts of the Lanczos iteration before it is given up.
_RESTARTS = 300
#: Shift for the least eigenvalues of a large graph, in units of the largest.
_SHIFT = 1e-6
#: Entries per row up to which a sparse factorisation of the matrix hardly fills in, and nodes up to
#: which it is tried before the iteration: in the worst case it is as large as a decomposition.
_THIN, _SOON = 6, 10_000


@dataclass(frozen=True, eq=False)
class NodeFeatures(FeatureMap):
    """``F_x = (sqrt(f(lambda_1)) u_1(x), ...)`` with the eigenpairs of the largest weights.

    Features of the graph of a tensor are on its device.
    """

    eigenvalues: Array
    error: float
    rows: Any

    @classmethod
    def of(cls, law: NodeFunction, size: int, seed: int) -> NodeFeatures:
        """The heaviest eigenpairs of a function of a matrix."""
        eigenvalues, vectors, left_out = _heaviest(law, min(size, law.graph.size), seed)
        weights = law.relative_weights(eigenvalues)
        order = np.argsort(-weights, kind="stable")
        factor = law.largest_weight()
        rows = vectors[:, order] * np.sqrt(factor * weights[order])
        return cls(eigenvalues[order], factor * left_out, matrix_functions.at(law.operator.home, rows))

    def __call__(self, P: Any) -> Any:
        return self.rows[P]


def _heaviest(law: NodeFunction, wanted: int, seed: int) -> tuple[Array, Array, float]:
    """Eigenpairs of the largest weights, and the largest relative weight left out."""
    operator = law.operator
    if operator.decomposable:
        eigenvalues, vectors = operator.decomposition
        weights = law.relative_weights(eigenvalues)
        order = np.argsort(-weights, kind="stable")
        left_out = float(weights[order[wanted]]) if wanted < len(order) else 0.0
        return eigenvalues[order[:wanted]], on_cpu(vectors)[:, order[:wanted]], left_out
    if wanted >= law.graph.size // 2:
        raise ValueError(
            f"n_components={wanted} of {law.graph.size} nodes is not a small part of the spectrum"
        )
    end = _heavy_end(law)
    eigenvalues, vectors = _null_vectors(operator, end, wanted)
    if len(eigenvalues) < wanted:
        more = _iterate(law, end, vectors, wanted - len(eigenvalues), seed)
        eigenvalues = np.concatenate([eigenvalues, more[0]])
        vectors = np.concatenate([vectors, more[1]], axis=1)
    eigenvalues = np.clip(eigenvalues, operator.low, operator.high)
    # What is left out lies further in, where weights are smaller.
    return eigenvalues, vectors, float(law.relative_weights(eigenvalues).min())


def _iterate(law: NodeFunction, end: str, known: Array, wanted: int, seed: int) -> tuple[Array, Array]:
    """Lanczos iteration at one end of the spectrum, beside the vectors that are known."""
    operator = law.operator
    size, width = operator.matrix.shape[0], operator.high - operator.low
    thin = end != "LM" and operator.matrix.nnz <= _THIN * size
    if thin and size <= _SOON:
        return _inverted(operator, end, known.shape[1], wanted, seed)
    # The end in question is moved to the largest values: tolerances are relative to them.
    sign, shift = (-1.0, operator.high) if end == "SA" else (1.0, -operator.low)
    shift = shift if end != "LM" else 0.0
    start = np.random.default_rng(seed).uniform(-1, 1, size=size)
    basis = min(max(2 * wanted + 1, wanted + 40), size)
    with progress(basis + _RESTARTS * (basis - wanted), "eigenvectors, at most") as advance:

        def multiply(x: Array) -> Array:
            advance()
            x = x.ravel()
            product = sign * (operator.matrix @ x) + shift * x
            return product - width * (known @ (known.T @ x)) if known.shape[1] else product

        moved = LinearOperator(operator.matrix.shape, matvec=multiply, dtype=float)
        try:
            values, vectors = eigsh(
                moved, k=wanted, which="LM" if end == "LM" else "LA", v0=start, ncv=basis,
                maxiter=_RESTARTS, tol=_tolerance(law, end) / max(width, 1e-300),
            )  # fmt: skip
            return sign * (values - shift), vectors
        except ArpackNoConvergence:
            if not thin:
                raise ValueError(
                    f"{wanted} eigenvectors did not converge: the kernel tells eigenvalues apart "
                    "that are too close for the iteration; take fewer components, a smaller time or "
                    "length scale, or the kernel itself instead of features"
                ) from None
    return _inverted(operator, end, known.shape[1], wanted, seed)


def _inverted(operator: Operator, end: str, known: int, wanted: int, seed: int) -> tuple[Array, Array]:
    """Lanczos iteration on the inverse, next to the end of the spectrum, without those known."""
    margin = 1e-6 * (operator.high - operator.low)
    outside = operator.low - margin if end == "SA" else operator.high + margin
    start = np.random.default_rng(seed).uniform(-1, 1, size=operator.matrix.shape[0])
    values, vectors = eigsh(operator.matrix, k=wanted + known, sigma=outside, which="LM", v0=start)
    keep = np.argsort(np.abs(values - outside))[known:]
    return values[keep], vectors[:, keep]


def _null_vectors(operator: Operator, end: str, most: int) -> tuple[Array, Array]:
    """Eigenpairs of the known zero of a Laplacian; none if it is not at this end of the spectrum.

    There is one for each component, the largest components first.
    """
    if operator.null is None or (operator.low == 0) != (end == "SA"):
        return np.zeros(0), np.zeros((operator.matrix.shape[0], 0))
    values, component = operator.null
    sizes = np.bincount(component)
    largest = np.argsort(-sizes, kind="stable")[:most]
    vectors = np.zeros((len(values), len(largest)))
    for column, number in enumerate(largest):
        inside = component == number
        vectors[inside, column] = values[inside]
    return np.zeros(len(largest)), vectors


def _tolerance(law: NodeFunction, end: str) -> float:
    """Accuracy of eigenvalues that makes weights accurate to about 1e-6."""
    operator = law.operator
    width = operator.high - operator.low
    step = 1e-6 * width
    ends = {"SA": [operator.low, operator.low + step], "LA": [operator.high - step, operator.high]}
    first, second = law.relative_weights(np.array(ends.get(end, ends["LA"])))
    slope = abs(first - second) / step if step > 0 else 0.0
    return float(np.clip(1e-6 / max(slope, 1e-300), 1e-15 * width, 1e-6 * width))


def _heavy_end(law: NodeFunction) -> str:
    """The end of the spectrum with the largest weights, as ARPACK names it."""
    operator = law.operator
    if operator.high == operator.low:
        return "SA"
    grid = np.linspace(operator.low, operator.high, 1025)
    weights = law.relative_weights(grid)
    for end, values in (("LA", grid), ("SA", -grid), ("LM", np.abs(grid))):
        along = weights[np.argsort(values, kind="stable")]
        if np.all(np.diff(along) >= -1e-12):
            return end
    raise ValueError("the weights neither rise nor fall along the spectrum; SpectralFeatures needs that")


@dataclass(frozen=True, eq=False)
class Eigenvectors(Eigenfunctions):
    """Eigenvectors of the Laplacian of a graph, as functions of the nodes.

    Parameters
    ----------
    graph : Graph
    eigenvalues, rest_eigenvalues : arrays of shape (M,) and (R,)
    vectors : array of shape (n, M)
    squares : array of shape (n, R)
        Squares of the omitted vectors.
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
            return cls._least(graph, USUAL if count is None else count, log_weights)
        values, vectors = operator.decomposition
        vectors = on_cpu(vectors)
        kept = np.arange(len(values))
        if count is not None and count < len(values):
            kept = np.sort(np.argsort(-log_weights(values), kind="stable")[:count])
        left = np.setdiff1d(np.arange(len(values)), kept)
        return cls(graph, values[kept], values[left], vectors[:, kept], vectors[:, left] ** 2)

    @classmethod
    def _least(cls, graph: Any, count: int, log_weights: LogWeights) -> Eigenvectors:
        """Those of the least eigenvalues of a large graph.

        Squares of all vectors add up to one at each node.  The rest counts as if it had the largest
        eigenvalue that is kept, which is an upper bound for decreasing weights.
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
        return self.graph.check(X, name)

    def points(self, checked: NDArray[np.intp]) -> list[Any]:
        """Labels of nodes, or indices; see :class:`Eigenfunctions`."""
        nodes = self.graph.nodes
        return [nodes[i] for i in checked]

    def values(self, checked: NDArray[np.intp]) -> Array:
        return self.vectors[checked]

    def rest(self, checked: NDArray[np.intp]) -> Array:
        return self.squares[checked]

    @property
    def fingerprint(self) -> str:
        return f"{self.graph.fingerprint} {len(self.eigenvalues)}"
