"""Functions on the sphere in the space of a kernel, by their coefficients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mercer.harmonics import SphericalHarmonics
from mercer.kernels.base import Kernel
from mercer.rkhs.checks import Array, numbers

#: Coefficients below this part of the largest are rounding errors.
_NO_PART = 1e-12
#: Part of a squared norm that rounding errors may make up.
_NOTICED = 1e-3


def rkhs_inner_product(kernel: Kernel, harmonics: SphericalHarmonics, f: ArrayLike, g: ArrayLike) -> Any:
    """Inner product of two functions on the sphere in the space of a kernel.

    ``<f, g> = sum_lk f_lk g_lk / a_l`` with the coefficients of ``f = sum_lk f_lk phi_lk`` and the
    weights a_l of the kernel on the levels.  It reproduces: ``<k(x, .), f> = f(x)``.  Functions with a
    part on a level of weight zero are not in the space, and are refused.

    Parameters
    ----------
    kernel : Heat, Matern, Spectral, Zonal or ArcCosine
        On Sphere() or Simplex(); with lengths, on unit vectors.
    harmonics : SphericalHarmonics
    f, g : arrays of shape (n_features,) or (n_features, q)
        Coefficients of functions, or of q functions each, from :meth:`SphericalHarmonics.project`.

    Returns
    -------
    float, or array of shape (q, q')

    References
    ----------
    .. [1] V. Dutordoir, N. Durrande, J. Hensman, "Sparse Gaussian processes with spherical harmonic
       features", ICML 2020, supplement, equation 13.

    Examples
    --------
    >>> from mercer.harmonics import SphericalHarmonics
    >>> from mercer.kernels import Heat
    >>> from mercer.rkhs import rkhs_inner_product
    >>> from mercer.spaces import Sphere
    >>> kernel, harmonics = Heat(Sphere(), t=0.5), SphericalHarmonics(3, levels=2)
    >>> weights = kernel.level_weights(3, harmonics.feature_levels).weights
    >>> section = weights * harmonics([[0.6, 0.0, 0.8]])[0]    # of k(x, .)
    >>> round(rkhs_inner_product(kernel, harmonics, section, [0, 0, 0, 1]), 6)    # f(x)
    1.385641
    """
    kernel.require_levels()
    kernel.diag(np.eye(1, harmonics.n))  # refuses another dimension
    left, right = (_coefficients(values, name, harmonics) for values, name in ((f, "f"), (g, "g")))
    weights = kernel.level_weights(harmonics.n, harmonics.feature_levels.tolist()).weights
    for values, name in ((left, "f"), (right, "g")):
        parts = np.abs(values.reshape(len(values), -1)).max(axis=1)
        part = parts > _NO_PART * parts.max()
        shares = parts**2 / np.maximum(weights, 1e-300)
        if shares[~part & (weights > 0)].sum() > _NOTICED * shares[part].sum():
            raise ValueError(
                f"{name} has coefficients that are rounding errors, on levels where the weights of "
                f"{kernel!r} are so small that they matter; take fewer levels"
            )
        outside = (weights == 0) & part
        if outside.any():
            raise ValueError(
                f"{name} has a part on level {harmonics.feature_levels[outside][0]}, where {kernel!r} "
                "has weight 0, so it is not in its space; leave this level out of the harmonics"
            )
    kept = weights > 0
    found = left[kept].T @ (right[kept].T / weights[kept]).T
    return float(found) if found.ndim == 0 else found


def rkhs_norm(kernel: Kernel, harmonics: SphericalHarmonics, f: ArrayLike) -> Any:
    """Norm ``sqrt(<f, f>)`` of a function on the sphere in the space of a kernel.

    Parameters
    ----------
    kernel, harmonics
        See :func:`rkhs_inner_product`.
    f : array of shape (n_features,) or (n_features, q)
        Coefficients of a function, or of q functions.

    Returns
    -------
    float, or array of shape (q,)

    Examples
    --------
    >>> from mercer.harmonics import SphericalHarmonics, sphere_quadrature
    >>> from mercer.kernels import Heat
    >>> from mercer.rkhs import rkhs_norm
    >>> from mercer.spaces import Sphere
    >>> X, weights = sphere_quadrature(3, degree=30)
    >>> harmonics, kernel = SphericalHarmonics(3, levels=16), Heat(Sphere(), t=0.2)
    >>> section = harmonics.project(X, kernel(X, [[0.0, 0.0, 1.0]])[:, 0], weights)
    >>> round(rkhs_norm(kernel, harmonics, section), 6)    # k(x, x)^(1/2)
    1.0
    """
    squares = rkhs_inner_product(kernel, harmonics, f, f)
    return math.sqrt(squares) if np.ndim(squares) == 0 else np.sqrt(np.diag(squares))


def _coefficients(values: ArrayLike, name: str, harmonics: SphericalHarmonics) -> Array:
    array = numbers(values, name)
    if array.ndim not in (1, 2) or len(array) != harmonics.n_features:
        size = harmonics.n_features
        raise ValueError(f"{name} has shape {array.shape}, but there are {size} harmonics: project it")
    return array
