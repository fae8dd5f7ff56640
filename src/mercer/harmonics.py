"""Spherical harmonics in any dimension, and functions on spheres expanded in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import lstsq
from scipy.special import roots_gegenbauer

from mercer._arrays import count
from mercer._validation import check_whole, refuse_complex
from mercer.engine import engine_for
from mercer.spaces import Sphere
from mercer.special.funk_hecke import FunkHecke, funk_hecke
from mercer.special.harmonics import HarmonicBasis, multiplicity

Array = NDArray[np.float64]
#: Asking for more points than this is taken for a mistake.
_MOST_POINTS = 10**7

__all__ = ["FunkHecke", "SphericalHarmonics", "funk_hecke", "multiplicity", "sphere_quadrature"]


@dataclass(frozen=True, repr=False)
class SphericalHarmonics(HarmonicBasis):
    """Real spherical harmonics of S^(n-1), orthonormal for the uniform probability measure.

    ``phi_lk(x)`` with ``sum_k phi_lk(x) phi_lk(y) = N_l P_l(x.y)``, k = 1, ..., N_l.  Coordinate by
    coordinate, ``H_k(x) = c r^d p_d(x_k / r) H_(k-1)(x)``: a harmonic of degree m of the first k - 1
    coordinates times an orthonormal Gegenbauer polynomial of degree d gives one of degree m + d, and
    the first two coordinates have the real and imaginary part of ``(x_1 + i x_2)^m``.  The factor
    ``r^d p_d(x_k / r)`` is a polynomial in x_k and ``r^2 = x_1^2 + ... + x_k^2``; its three-term
    recurrence divides by nothing that depends on x, so the poles are not special.  Each value costs
    one product.

    With ``max_features`` levels are filled from the first on.  The first level that does not fit gets
    the remaining B functions, as orthonormalised zonal functions ``P_l(v_j.x)`` at well spread
    directions v_j, which are chosen from random orthogonal frames by a pivoted Cholesky decomposition
    of their Gram matrix.  No direction is preferred, so ``N_l / B`` times the sum of their products is
    ``N_l P_l(x.y)`` on average over ``random_state``.  Later levels get none.

    Parameters
    ----------
    n : int
        Dimension of the space around the sphere, at least 2.
    levels : int or sequence of int, optional
        Number of levels from 0 on, or a list of levels; by default as many as ``max_features`` allows.
    max_features : int, optional
        Largest number of functions.
    random_state : int
        Seed of the directions.

    Examples
    --------
    >>> from mercer.harmonics import SphericalHarmonics
    >>> harmonics = SphericalHarmonics(3, levels=2)
    >>> harmonics([[0.0, 0.0, 1.0], [0.0, 3.0, 4.0]]).round(4) + 0.0
    array([[1.    , 0.    , 0.    , 1.7321],
           [1.    , 0.    , 1.0392, 1.3856]])
    >>> SphericalHarmonics(50, max_features=500).counts
    (1, 50, 449)
    """

    def __call__(self, X: Any) -> Any:
        """Values at directions, shape (m, n_features).

        Parameters
        ----------
        X : array-like, sparse matrix or tensor of shape (m, n)
            Rows of any non-zero length.  Tensors are differentiable.
        """
        points, _ = Sphere(self.n).embed(Sphere(self.n).check(X))
        return engine_for(points).evaluate(self, points)

    def project(self, X: Any, values: ArrayLike, weights: ArrayLike | None = None) -> Array:
        """Coefficients of a function on the sphere, from its values at points.

        With quadrature weights, ``f_lk = sum_i w_i f(x_i) phi_lk(x_i)``: the inner products
        ``<f, phi_lk>`` over the uniform measure, of every f for which the quadrature is exact.  Without
        weights, those of the least-squares fit to the values.

        Parameters
        ----------
        X : rows of m points
        values : array of shape (m,) or (m, q)
            One function, or q of them.
        weights : array of shape (m,), optional
            They sum to 1; see :func:`sphere_quadrature`.

        Returns
        -------
        array of shape (n_features,) or (n_features, q)

        Examples
        --------
        >>> from mercer.harmonics import SphericalHarmonics, sphere_quadrature
        >>> X, weights = sphere_quadrature(3, degree=4)
        >>> SphericalHarmonics(3, levels=3).project(X, X[:, 2] ** 2, weights).round(4) + 0.0
        array([0.3333, 0.    , 0.    , 0.    , 0.    , 0.    , 0.    , 0.    ,
               0.2981])
        """
        refuse_complex(values, "values")
        f = np.asarray(values, dtype=float)
        if f.ndim not in (1, 2) or len(f) != count(X):
            raise ValueError(f"values have shape {f.shape}, but X has {count(X)} rows")
        if not np.isfinite(f).all():
            raise ValueError("values contain NaN or infinity; drop such points")
        phi = np.asarray(self(X), dtype=float)
        if weights is None:
            fitted, _, rank, _ = lstsq(phi, f)
            if rank < self.n_features:
                raise ValueError(
                    f"{len(f)} points do not determine the coefficients of {self.n_features} functions "
                    f"(rank {rank}); give more points or fewer levels"
                )
            return np.asarray(fitted)
        w = np.asarray(weights, dtype=float)
        if w.shape != (len(f),):
            raise ValueError(f"weights have shape {w.shape}, but X has {len(f)} rows")
        if not abs(w.sum() - 1) < 1e-6:
            raise ValueError(f"weights must sum to 1, but their sum is {w.sum():g}; divide them by it")
        return phi.T @ (w * f.T).T


def sphere_quadrature(n: int, degree: int) -> tuple[Array, Array]:
    """Points and weights that integrate polynomials over the sphere S^(n-1) exactly.

    A product of a trapezoidal rule on the circle and of Gauss-Gegenbauer rules in the other
    coordinates; ``(degree + 1) (degree // 2 + 1)^(n - 2)`` points.

    Parameters
    ----------
    n : int
        Dimension of the space around the sphere, at least 2.
    degree : int
        Highest degree of the polynomials; products of two harmonics of level l have degree 2 l.

    Returns
    -------
    X : array of shape (m, n)
    weights : array of shape (m,)
        Positive, with the sum 1.

    Examples
    --------
    >>> from mercer.harmonics import sphere_quadrature
    >>> X, weights = sphere_quadrature(4, degree=6)
    >>> round(float(weights @ (X[:, 0] ** 2 * X[:, 3] ** 4)), 12), 3 / (4 * 6 * 8)    # exact
    (0.015625, 0.015625)
    """
    check_whole("n", n, 2)
    check_whole("degree", degree, 0)
    size = (degree + 1) * (degree // 2 + 1) ** (n - 2)
    if size > _MOST_POINTS:
        raise ValueError(f"degree {degree} in dimension {n} would take {size} points; take a lower one")
    angles = 2 * np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1)
    X, weights = np.column_stack([np.cos(angles), np.sin(angles)]), np.full(degree + 1, 1.0)
    for k in range(3, n + 1):
        t, w = roots_gegenbauer(degree // 2 + 1, (k - 2) / 2)
        across = np.sqrt((1 - t) * (1 + t))[:, None, None] * X
        along = np.broadcast_to(t[:, None, None], (*across.shape[:2], 1))
        X = np.concatenate([across, along], axis=2).reshape(-1, k)
        weights = np.outer(w, weights).ravel()
    return X, weights / weights.sum()
