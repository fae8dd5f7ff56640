"""Spherical harmonics in any dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mercer.engine import engine_for
from mercer.spaces import Sphere
from mercer.special.harmonics import HarmonicBasis, multiplicity

__all__ = ["SphericalHarmonics", "multiplicity"]


@dataclass(frozen=True, repr=False)
class SphericalHarmonics(HarmonicBasis):
    """Real spherical harmonics of S^(n-1), orthonormal for the uniform probability measure.

    ``phi_lk(x)`` with ``sum_k phi_lk(x) phi_lk(y) = N_l P_l(x.y)``, k = 1, ..., N_l.  Coordinate by
    coordinate, ``H_k(x) = c r^d p_d(x_k / r) H_(k-1)(x)``: a harmonic of degree m of the first k - 1
    coordinates times an orthonormal Gegenbauer polynomial of degree d gives one of degree m + d, and
    the first two coordinates have the real and imaginary part of ``(x_1 + i x_2)^m``.  The factor
    ``r^d p_d(x_k / r)`` is a polynomial in x_k and ``r^2 = x_1^2 + ... + x_k^2``; its three-term
    recurrence divides by nothing that depends on x, so poles are points like all others.  Each value
    costs one product.

    With ``max_features`` levels are filled from the first on.  The one that no longer fits gets the B
    functions that are left, as zonal functions ``P_l(v_j.x)`` made orthonormal, at directions v_j that
    are well spread: from random orthogonal frames, by a pivoted Cholesky decomposition of their Gram
    matrix.  They are drawn without preference for any direction, so ``N_l / B`` times the sum of their
    products is ``N_l P_l(x.y)`` in the mean over ``random_state``.  Levels after it get none.

    Parameters
    ----------
    n : int
        Dimension of the space around the sphere, at least 2.
    levels : int or sequence of int, optional
        How many levels, from 0 on, or which; by default as many as ``max_features`` allows.
    max_features : int, optional
        Most functions in all.
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
            Rows of any length but zero.  Tensors are differentiable.
        """
        points, _ = Sphere(self.n).embed(Sphere(self.n).check(X))
        return engine_for(points).evaluate(self, points)
