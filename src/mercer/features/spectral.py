"""Explicit features from the spectrum of a kernel's space."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from mercer._arrays import is_foreign
from mercer._progress import progress
from mercer._validation import is_whole, refuse_complex, refuse_rows
from mercer.features.harmonic import HarmonicMap
from mercer.kernels import ArcCosine, NodeKernel, SpectralKernel
from mercer.kernels.levels import check_zonal
from mercer.kernels.nodes import LaplacianKernel
from mercer.spaces import Graph, SphericalSpace
from mercer.spaces.graph import Operator

Array = NDArray[np.float64]

#: Restarts of the Lanczos iteration before it is given up.
_RESTARTS = 300
#: Entries per row up to which a sparse factorisation of the matrix does not fill in.
_THIN = 6


class SpectralFeatures(TransformerMixin, BaseEstimator):
    """A truncated spectral feature map for the nodes of a graph, or for points of a sphere.

    ``F_x = (sqrt(f(lambda_1)) u_1(x), ..., sqrt(f(lambda_q)) u_q(x))`` with the eigenpairs of the
    kernel's matrix that weigh most: ``F @ F.T`` is the best approximation of ``K = f(M)`` of rank q.

    On sphere and simplex the u are spherical harmonics and f their level's weight a_l; see
    :class:`mercer.harmonics.SphericalHarmonics`.  Of a level with more harmonics than are left, B of
    the N_l are taken and scaled by ``sqrt(N_l / B)``, so that ``F @ F.T`` is the truncated kernel in the
    mean over ``random_state``.  A small part of a level scatters widely, and ``error_`` says so: choose
    ``n_components`` that fill levels.  Tensors are differentiable.

    No entry of ``F @ F.T`` is off by more than ``error_``; on a graph it is the largest weight left out,
    and good to about 1e-6 of it.  For a kernel with ``normalized=True`` rows are then scaled to length
    one.  Eigenpairs of a graph come from Lanczos iteration, one pass over the edges per step, beside
    those of the Laplacian's zeros, which are known; on thin graphs where the end of the spectrum is too
    crowded for it (rings, grids, road maps), from a sparse factorisation.  Graphs of up to 4000 nodes
    are decomposed in full.

    Parameters
    ----------
    kernel : kernel on a Graph, a Sphere or a Simplex, or ArcCosine
        On a graph with weights that rise or fall along the spectrum, as ``Heat``, ``Matern``,
        ``Exponential``, ``VonNeumann`` and ``Power`` have: the pairs that weigh most are at its ends.
    n_components : int
        Number of features; no more than there are nodes.
    random_state : int
        Seed of the first vector of the iteration, or of the directions of an incomplete level.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel, cloned.
    eigenvalues_ : array of shape (n_components,)
        Eigenvalues of the matrix, the heaviest first; on a sphere those of its Laplacian.
    error_ : float
        Bound on the error of an entry of ``F @ F.T``, for the kernel in its plain form (and for rows
        of length one, where ``ArcCosine`` keeps lengths).

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
    >>> from mercer.spaces import Sphere
    >>> kernel, X = Heat(Sphere(), t=0.5), [[1.0, 0.0, 0.0], [0.0, 3.0, 4.0]]
    >>> F = SpectralFeatures(kernel, n_components=49).fit_transform(X)
    >>> bool(abs(F @ F.T - kernel(X)).max() < 1e-8)
    True
    """

    def __init__(self, kernel: Any, n_components: int = 100, random_state: int = 0) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Compute the eigenpairs; X is only checked, and tells the dimension of a sphere."""
        self.kernel_ = clone(self.kernel)
        if not is_whole(self.n_components) or self.n_components < 1:
            raise ValueError(f"n_components must be 1, 2, 3, ..., got {self.n_components!r}")
        if self._on_sphere:
            return self._fit_harmonics(X)
        law = self._law()
        size = law.space.size
        if X is not None:
            law.space.check(X)
        eigenvalues, vectors, left_out = self._heaviest(law, min(self.n_components, size))
        weights = law.relative_weights(eigenvalues)
        order = np.argsort(-weights, kind="stable")
        factor = law.largest_weight()
        self.eigenvalues_ = eigenvalues[order]
        self.error_ = factor * left_out
        self._rows = vectors[:, order] * np.sqrt(factor * weights[order])
        return self

    def transform(self, X: Any) -> Any:
        """Features of nodes or points, shape (m, n_components)."""
        check_is_fitted(self)
        if self._on_sphere:
            X = self._points(X, reset=False)
            rows, normalized = self._harmonics(X), self.kernel_.normalized
        else:
            law = self._law()
            rows, normalized = self._rows[law.space.check(X)], law.normalized
        if not normalized:
            return rows
        lengths = array_namespace(rows).vecdot(rows, rows) ** 0.5
        refuse_rows(lengths == 0, "X", "has no part in the features and cannot be normalised; take more")
        return rows / lengths[:, None]

    @property
    def _on_sphere(self) -> bool:
        return isinstance(self.kernel_, ArcCosine) or (
            isinstance(self.kernel_, SpectralKernel) and isinstance(self.kernel_.space, SphericalSpace)
        )

    def _fit_harmonics(self, X: Any) -> Self:
        check_zonal(self.kernel_)
        space = self.kernel_.space
        if X is None and space.n is None:
            raise ValueError(f"{space!r} has no dimension of its own: give X to fit")
        n = space.n if X is None else int(space.check(self._points(X, reset=True)).shape[1])
        self._harmonics = HarmonicMap.of(self.kernel_, n, self.n_components, self.random_state)
        self.eigenvalues_, self.error_ = self._harmonics.eigenvalues, self._harmonics.error
        return self

    def _points(self, X: Any, reset: bool) -> Any:
        """Rows as an array, with their columns counted and named."""
        if is_foreign(X):
            return X
        refuse_complex(X, "X")
        return validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32],
            ensure_all_finite=False,
        )  # fmt: skip

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _law(self) -> NodeKernel:
        """The kernel as a function of a matrix on the nodes."""
        kernel = self.kernel_
        if isinstance(kernel, SpectralKernel) and isinstance(kernel.space, Graph):
            kernel = LaplacianKernel(kernel)
        if not isinstance(kernel, NodeKernel):
            raise TypeError(
                "SpectralFeatures needs a kernel on a Graph, a Sphere or a Simplex, or ArcCosine, got "
                f"{self.kernel!r}"
            )
        kernel._validate()
        return kernel

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names ``u0, u1, ...`` of the features."""
        check_is_fitted(self)
        return np.asarray([f"u{i}" for i in range(len(self.eigenvalues_))], dtype=object)

    def _heaviest(self, law: NodeKernel, wanted: int) -> tuple[Array, Array, float]:
        """Eigenpairs of the largest weights, and the largest relative weight left out."""
        operator = law.operator
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
        end = _heavy_end(law)
        found = _null_vectors(operator, wanted) if _holds_zero(operator, end) else _none(operator)
        eigenvalues, vectors = found
        if len(eigenvalues) < wanted:
            more = self._iterate(law, end, vectors, wanted - len(eigenvalues))
            eigenvalues = np.concatenate([eigenvalues, more[0]])
            vectors = np.concatenate([vectors, more[1]], axis=1)
        eigenvalues = np.clip(eigenvalues, operator.low, operator.high)
        # What is left out lies further in, where weights are smaller.
        return eigenvalues, vectors, float(law.relative_weights(eigenvalues).min())

    def _iterate(self, law: NodeKernel, end: str, known: Array, wanted: int) -> tuple[Array, Array]:
        """Lanczos iteration at one end of the spectrum, beside the vectors that are known."""
        operator = law.operator
        size, width = operator.matrix.shape[0], operator.high - operator.low
        # The end in question is moved to the largest values: tolerances are relative to them.
        sign, shift = (-1.0, operator.high) if end == "SA" else (1.0, -operator.low)
        shift = shift if end != "LM" else 0.0
        start = np.random.default_rng(self.random_state).uniform(-1, 1, size=size)
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
                if end == "LM" or operator.matrix.nnz > _THIN * size:
                    raise ValueError(
                        f"{wanted} eigenvectors did not converge: the kernel tells eigenvalues apart "
                        "that are too close for the iteration; take fewer components, a smaller time or "
                        "length scale, or the kernel itself instead of features"
                    ) from None
        outside = operator.low - 1e-6 * width if end == "SA" else operator.high + 1e-6 * width
        more = wanted + known.shape[1]
        values, vectors = eigsh(operator.matrix, k=more, sigma=outside, which="LM", v0=start)
        keep = np.argsort(np.abs(values - outside))[known.shape[1] :]
        return values[keep], vectors[:, keep]


def _none(operator: Operator) -> tuple[Array, Array]:
    return np.zeros(0), np.zeros((operator.matrix.shape[0], 0))


def _holds_zero(operator: Operator, end: str) -> bool:
    """Whether the end of the spectrum in question is the known zero of a Laplacian."""
    return operator.null is not None and (operator.low == 0) == (end == "SA")


def _null_vectors(operator: Operator, most: int) -> tuple[Array, Array]:
    """Vectors that a Laplacian maps to zero: one for each component, the largest components first."""
    assert operator.null is not None
    values, component = operator.null
    sizes = np.bincount(component)
    largest = np.argsort(-sizes, kind="stable")[:most]
    vectors = np.zeros((len(values), len(largest)))
    for column, number in enumerate(largest):
        inside = component == number
        vectors[inside, column] = values[inside]
    return np.zeros(len(largest)), vectors


def _tolerance(law: NodeKernel, end: str) -> float:
    """How well eigenvalues must be known so that weights are known to about 1e-6."""
    operator = law.operator
    width = operator.high - operator.low
    step = 1e-6 * width
    ends = {"SA": [operator.low, operator.low + step], "LA": [operator.high - step, operator.high]}
    first, second = law.relative_weights(np.array(ends.get(end, ends["LA"])))
    slope = abs(first - second) / step if step > 0 else 0.0
    return float(np.clip(1e-6 / max(slope, 1e-300), 1e-15 * width, 1e-6 * width))


def _heavy_end(law: NodeKernel) -> str:
    """Where the largest weights are, in the words of ARPACK."""
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
