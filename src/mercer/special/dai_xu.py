"""Spherical harmonics by the textbook formula, for comparison.

In spherical coordinates, with ``cos(theta_k) = x_k / r_k`` and ``r_k^2 = x_1^2 + ... + x_k^2``, a
harmonic is a product of ``C_j^(lambda)(cos theta_k) sin(theta_k)^m`` over k = 3, ..., n,
``lambda = m + k/2 - 1``, and of ``cos(m phi)`` or ``sin(m phi)``: F. Dai and Y. Xu, "Approximation
theory and harmonic analysis on spheres and balls", 2013, Theorem 1.5.1.  The library itself uses
:class:`~mercer.harmonics.SphericalHarmonics`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gamma, gammaln, poch


def dai_xu(X: NDArray[Any], level: int, powers: bool = False) -> NDArray[Any]:
    """Orthonormal harmonics of a level at unit vectors, in the precision of these.

    Parameters
    ----------
    X : array of shape (m, n)
        Unit vectors, float32 or float64.
    level : int
    powers : bool
        Sum the powers of Gegenbauer polynomials, with Gamma functions, as the supplement of "Sparse
        Gaussian processes with spherical harmonic features" does; or use the three-term recurrence.

    Returns
    -------
    array of shape (m, N_l)

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.special.dai_xu import dai_xu
    >>> X = np.array([[0.6, 0.0, 0.8], [0.0, 1.0, 0.0]])
    >>> (dai_xu(X, 1) @ dai_xu(X, 1).T).round(12)    # 3 x.y
    array([[3., 0.],
           [0., 3.]])
    """
    polynomial = by_powers if powers else by_recurrence
    phi = np.arctan2(X[:, 1], X[:, 0])
    root = math.sqrt(2)
    values = [np.ones_like(X[:, :1])] + [
        root * np.column_stack([np.cos(m * phi), np.sin(m * phi)]) for m in range(1, level + 1)
    ]
    for k in range(3, X.shape[1] + 1):
        theta = np.arctan2(np.linalg.norm(X[:, : k - 1], axis=1), X[:, k - 1])
        cosine, sine = np.cos(theta), np.sin(theta)
        wanted = [level] if k == X.shape[1] else range(level + 1)
        parts = {
            degree: np.column_stack(
                [
                    (
                        math.sqrt(_square_norm(k, degree - m, m))
                        * polynomial(degree - m, m + k / 2 - 1, cosine)
                        * sine**m
                    )[:, None]
                    * values[m]
                    for m in range(degree + 1)
                ]
            )
            for degree in wanted
        }
        values = [parts.get(degree, np.empty(0)) for degree in range(level + 1)]
    return values[level].astype(X.dtype)


def by_powers(j: int, lam: float, z: NDArray[Any]) -> NDArray[Any]:
    """Gegenbauer polynomial C_j by the alternating sum of powers."""
    total = np.zeros_like(z)
    for k in range(j // 2 + 1):
        size = gamma(j - k + lam) / (gamma(lam) * math.factorial(k) * math.factorial(j - 2 * k))
        total += z.dtype.type((-1) ** k * size) * (2 * z) ** (j - 2 * k)
    return total


def by_recurrence(j: int, lam: float, z: NDArray[Any]) -> NDArray[Any]:
    """Gegenbauer polynomial C_j by the three-term recurrence."""
    before, here = np.zeros_like(z), np.ones_like(z)
    for i in range(j):
        before, here = here, (2 * (i + lam) * z * here - (i + 2 * lam - 1) * before) / (i + 1)
    return here


def _square_norm(k: int, j: int, m: int) -> float:
    """One over the mean square of ``C_j sin^m``, relative to that of the functions it multiplies."""
    lam = m + k / 2 - 1
    log_rising = gammaln(2 * lam + j) - gammaln(2 * lam) - gammaln(j + 1)
    ratio = poch(k / 2, m) / poch((k - 1) / 2, m)
    return float(ratio * (j + lam) / lam * math.exp(-log_rising))
