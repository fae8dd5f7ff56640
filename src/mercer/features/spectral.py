"""Explicit features: eigenfunctions of the space of a kernel."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from array_api_compat import array_namespace
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from mercer._validation import check_whole, refuse_rows
from mercer.features.gram import check_rows
from mercer.kernels import Kernel


class SpectralFeatures(TransformerMixin, BaseEstimator):
    """A truncated spectral feature map.

    ``F_x = (sqrt(f(lambda_1)) u_1(x), ..., sqrt(f(lambda_q)) u_q(x))`` with the eigenfunctions u that
    have the largest weights f.  On a graph ``F @ F.T`` is the best approximation of rank q of the
    kernel's matrix ``K = f(M)``.

    On sphere and simplex the u are spherical harmonics and f is the weight a_l of their level; see
    :class:`mercer.harmonics.SphericalHarmonics`.  If a level has more harmonics than features are left,
    B of its N_l harmonics are drawn and scaled by ``sqrt(N_l / B)``, so that the mean of ``F @ F.T``
    over ``random_state`` is the truncated kernel.  A small part of a level has a large variance, as
    ``error_`` shows: choose ``n_components`` to fill levels.  Features of tensors are differentiable.

    The error of every entry of ``F @ F.T`` is at most ``error_``; on a graph this is the largest omitted
    weight, accurate to about 1e-6.  For a kernel with ``normalized=True`` rows are scaled to norm 1,
    which at most doubles the error.

    Graphs of up to 4000 nodes are decomposed completely.  For larger ones eigenpairs come from Lanczos
    iteration, with one pass over the edges per step, or from a sparse factorisation if the end of the
    spectrum is too crowded for it (rings, grids, road maps).

    Parameters
    ----------
    kernel : ArcCosine, or a kernel given by a law
        On a Sphere, Simplex, Projective, Torus, Rotations, Graph, Categories with stated labels, or a
        ProductSpace of these.  On a graph the weights must rise or fall along the spectrum, like those
        of ``Heat``, ``Matern``, ``Exponential``, ``VonNeumann`` and ``Power``.
    n_components : int
        Largest number of features.  There are fewer if the space does not have as many, and on a torus,
        categories and products only whole levels are taken.
    random_state : int
        Seed of the first vector of the iteration, or of the harmonics drawn from an incomplete level.

    Attributes
    ----------
    kernel_ : Kernel
        A clone of the kernel.
    eigenvalues_ : array of shape (n_features,)
        Eigenvalues of the Laplacian (of S, for kernels of a graph's similarity S), by falling weight.
    error_ : float
        Bound on the error of an entry of ``F @ F.T``, for the plain kernel (for ``ArcCosine``, between
        rows of norm 1).

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
        """Compute the eigenpairs; X only determines the number of columns."""
        self.kernel_ = clone(self.kernel)
        check_whole("n_components", self.n_components, 1)
        space = self.kernel_.point_space if isinstance(self.kernel_, Kernel) else None
        if space is None:
            raise TypeError(
                f"SpectralFeatures needs a kernel on a space of mercer.spaces, got {self.kernel!r}"
            )
        if X is None:
            n = space.fixed_columns()
        else:
            n = space.columns(space.check(check_rows(self, X, reset=True)))
        self._map = self.kernel_.feature_map(n, self.n_components, self.random_state)
        self.eigenvalues_, self.error_ = self._map.eigenvalues, self._map.error
        return self

    def transform(self, X: Any) -> Any:
        """Features of points, an array of shape (m, n_components)."""
        check_is_fitted(self)
        rows = self._map(self.kernel_.space.check(check_rows(self, X, reset=False)))
        if not self.kernel_.normalized:
            return rows
        lengths = array_namespace(rows).vecdot(rows, rows) ** 0.5
        refuse_rows(lengths == 0, "X", "has features that are all zero; use more features")
        return rows / lengths[:, None]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names ``u0, u1, ...`` of the features."""
        check_is_fitted(self)
        return np.asarray([f"u{i}" for i in range(len(self.eigenvalues_))], dtype=object)
