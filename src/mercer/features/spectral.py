"""Explicit features from the spectrum of a kernel's space."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from array_api_compat import array_namespace
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from mercer._validation import estimator_rows, is_whole, refuse_rows
from mercer.kernels import Kernel


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
        if not isinstance(self.kernel_, Kernel):
            raise TypeError(f"SpectralFeatures needs a kernel of mercer.kernels, got {self.kernel!r}")
        space = self.kernel_.space
        if X is None:
            n = space.fixed_columns()
        else:
            n = space.columns(space.check(self._points(X, reset=True)))
        self._map = self.kernel_.feature_map(n, self.n_components, self.random_state)
        self.eigenvalues_, self.error_ = self._map.eigenvalues, self._map.error
        return self

    def transform(self, X: Any) -> Any:
        """Features of nodes or points, shape (m, n_components)."""
        check_is_fitted(self)
        rows = self._map(self.kernel_.space.check(self._points(X, reset=False)))
        if not self.kernel_.normalized:
            return rows
        lengths = array_namespace(rows).vecdot(rows, rows) ** 0.5
        refuse_rows(lengths == 0, "X", "has no part in the features and cannot be normalised; take more")
        return rows / lengths[:, None]

    def _points(self, X: Any, reset: bool) -> Any:
        """Rows as an array, with their columns counted and named."""
        return estimator_rows(self, X, reset) if self.kernel_.requires_vector_input else X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names ``u0, u1, ...`` of the features."""
        check_is_fitted(self)
        return np.asarray([f"u{i}" for i in range(len(self.eigenvalues_))], dtype=object)
