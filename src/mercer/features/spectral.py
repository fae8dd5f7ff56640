"""Explicit features from the spectrum of a kernel's space."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from mercer.engine.threads import progress
from mercer.kernels import NodeKernel, SpectralKernel
from mercer.kernels.base import is_whole
from mercer.kernels.nodes import LaplacianKernel
from mercer.spaces import Graph
from mercer.spaces.base import refuse_rows
from mercer.spaces.graph import Operator

Array = NDArray[np.float64]

#: Restarts of the Lanczos iteration before it is given up.
_RESTARTS = 50


class SpectralFeatures(TransformerMixin, BaseEstimator):
    """A truncated spectral feature map for the nodes of a graph.

    ``F_x = (sqrt(f(lambda_1)) u_1(x), ..., sqrt(f(lambda_q)) u_q(x))`` with the eigenpairs of the
    kernel's matrix that weigh most: ``F @ F.T`` is the best approximation of ``K = f(M)`` of rank q.

    No entry of ``F @ F.T`` is off by more than ``error_``, the largest weight left out.  For a kernel
    with ``normalized=True`` rows are then scaled to length one.  Eigenpairs come from Lanczos
    iteration, one pass over the edges per step; where the end of the spectrum is too crowded for it
    (rings, grids, road maps), from a sparse factorisation.  Graphs of up to 4000 nodes are decomposed
    in full.

    Parameters
    ----------
    kernel : kernel on a Graph
        With weights that rise or fall along the spectrum, as ``Heat``, ``Matern``, ``Exponential``,
        ``VonNeumann`` and ``Power`` have: the pairs that weigh most are at its ends.
    n_components : int
        Number of features.
    random_state : int
        Seed of the first vector of the iteration.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel, cloned.
    eigenvalues_ : array of shape (n_components,)
        Eigenvalues of the matrix, the heaviest first.
    error_ : float
        Bound on the error of an entry of ``F @ F.T``, for the kernel in its plain form.

    Examples
    --------
    >>> import networkx as nx
    >>> from mercer.features import SpectralFeatures
    >>> from mercer.kernels import Heat
    >>> from mercer.spaces import Graph
    >>> graph = Graph(nx.karate_club_graph(), laplacian="normalized")
    >>> features = SpectralFeatures(Heat(graph, t=5.0), n_components=10).fit([0, 33])
    >>> features.transform([0, 33]).shape, features.error_ < 0.05
    ((2, 10), True)
    """

    def __init__(self, kernel: Any, n_components: int = 100, random_state: int = 0) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Compute the eigenpairs; X, if given, is only checked."""
        self.kernel_ = clone(self.kernel)
        law = self._law()
        size = law.space.size
        if not is_whole(self.n_components) or not 1 <= self.n_components <= size:
            raise ValueError(
                f"n_components must be a whole number from 1 to {size}, the number of nodes, "
                f"got {self.n_components!r}"
            )
        if X is not None:
            law.space.check(X)
        eigenvalues, vectors, left_out = self._heaviest(law)
        weights = law.relative_weights(eigenvalues)
        order = np.argsort(-weights, kind="stable")
        factor = law.largest_weight()
        self.eigenvalues_ = eigenvalues[order]
        self.error_ = factor * left_out
        self._rows = vectors[:, order] * np.sqrt(factor * weights[order])
        return self

    def transform(self, X: Any) -> Any:
        """Features of nodes, shape (m, n_components)."""
        check_is_fitted(self)
        law = self._law()
        rows = self._rows[law.space.check(X)]
        if not law.normalized:
            return rows
        lengths = np.sqrt(np.vecdot(rows, rows))
        refuse_rows(lengths == 0, "X", "has no part in the features and cannot be normalised; take more")
        return rows / lengths[:, None]

    def _law(self) -> NodeKernel:
        """The kernel as a function of a matrix on the nodes."""
        kernel = self.kernel_
        if isinstance(kernel, SpectralKernel) and isinstance(kernel.space, Graph):
            kernel = LaplacianKernel(kernel)
        if not isinstance(kernel, NodeKernel):
            raise TypeError(f"SpectralFeatures needs a kernel on a Graph, got {self.kernel!r}")
        kernel._validate()
        return kernel

    def _heaviest(self, law: NodeKernel) -> tuple[Array, Array, float]:
        """Eigenpairs of the largest weights, and the largest relative weight left out."""
        operator, wanted = law.operator, self.n_components
        if operator.decomposable:
            eigenvalues, vectors = operator.decomposition
            weights = law.relative_weights(eigenvalues)
            order = np.argsort(-weights, kind="stable")
            left_out = float(weights[order[wanted]]) if wanted < len(order) else 0.0
            return eigenvalues[order[:wanted]], vectors[:, order[:wanted]], left_out
        if wanted >= law.space.size // 2:
            raise ValueError(
                f"n_components={wanted} of {law.space.size} nodes is no small part of the spectrum"
            )
        eigenvalues, vectors = self._lanczos(operator, _heavy_end(law))
        eigenvalues = np.clip(eigenvalues, operator.low, operator.high)
        # What is left out lies further in, where weights are smaller.
        return eigenvalues, vectors, float(law.relative_weights(eigenvalues).min())

    def _lanczos(self, operator: Operator, end: str) -> tuple[Array, Array]:
        size = operator.matrix.shape[0]
        start = np.random.default_rng(self.random_state).uniform(-1, 1, size=size)
        basis = max(2 * self.n_components + 1, 20)
        passes = basis + _RESTARTS * (basis - self.n_components)
        with progress(passes, "eigenvectors, at most") as advance:

            def multiply(x: Array) -> Array:
                advance()
                return operator.matrix @ x

            counted = LinearOperator(operator.matrix.shape, matvec=multiply, dtype=float)
            try:
                return eigsh(
                    counted, k=self.n_components, which=end, v0=start, ncv=basis, maxiter=_RESTARTS
                )
            except ArpackNoConvergence:
                if end == "LM":
                    raise ValueError(
                        "the ends of the spectrum are too crowded for the iteration to converge; take "
                        "a kernel of the Laplacian"
                    ) from None
        margin = 1e-6 * (operator.high - operator.low)
        outside = operator.low - margin if end == "SA" else operator.high + margin
        return eigsh(operator.matrix, k=self.n_components, sigma=outside, which="LM", v0=start)


def _heavy_end(law: NodeKernel) -> str:
    """Where the largest weights are, in the words of ARPACK."""
    operator = law.operator
    grid = np.linspace(operator.low, operator.high, 1025)
    weights = law.relative_weights(grid)
    for end, values in (("LA", grid), ("SA", -grid), ("LM", np.abs(grid))):
        along = weights[np.argsort(values, kind="stable")]
        if np.all(np.diff(along) >= -1e-12):
            return end
    raise ValueError("the weights neither rise nor fall along the spectrum; SpectralFeatures needs that")
