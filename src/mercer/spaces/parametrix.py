"""Short-time (parametrix) expansion of the heat kernel on the sphere.

``G(theta; t) ~ (4 pi t)^(-d/2) exp(-theta^2 / 4t) (u_0 + u_1 t + u_2 t^2 + ...)`` on S^d, d = n - 1.
The coefficients are functions of ``C = r cot r`` and ``S = (r / sin r)^2``.  Near r = 0 the closed
forms cancel to nothing, so there they are summed as power series in ``z = r^2``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import zeta

Array = NDArray[np.float64]

#: Below this angle the coefficients are summed as series; their radius of convergence is pi.
_SERIES_BELOW = 1.0
_TERMS = 26
_K = np.arange(1, _TERMS + 3)
#: r cot r = 1 - 2 sum_k zeta(2k) (r / pi)^(2k), and (r / sin r)^2 = C - r C'.
_COT = np.concatenate([[1.0], -2 * zeta(2 * _K) / np.pi ** (2.0 * _K)])
_SIN = _COT * (1 - 2 * np.arange(_TERMS + 3))
#: log(r / sin r) = sum_k zeta(2k) / k (r / pi)^(2k)
_LOG = zeta(2 * _K) / (_K * np.pi ** (2.0 * _K))


def angles(u: Array) -> Array:
    """Angles at the separation u from the pole and from the antipode, shape (2, u.size)."""
    near = 2 * np.arcsin(np.sqrt(u / 2))
    return np.stack([near, np.pi - near])


def log_u0(d: int, u: Array) -> Array:
    """Logarithm of ``u_0 = (r / sin r)^((d-1)/2)`` on both hemispheres; infinite at the antipode."""
    if d == 1:
        return np.zeros((2, u.size))
    r = angles(u)
    small = r < _SERIES_BELOW
    z = np.where(small, r, 0.0) ** 2
    series = z * np.polynomial.polynomial.polyval(z, _LOG)
    with np.errstate(divide="ignore"):
        closed = np.log(np.where(small, 1.0, r)) - np.log(np.where(small, 1.0, np.sqrt(u * (2 - u))))
    return (d - 1) / 2 * np.where(small, series, closed)


def corrections(d: int, order: int, u: Array) -> list[Array]:
    """Ratios ``u_1 / u_0 .. u_order / u_0`` (order at most 2) on both hemispheres."""
    if d == 1:  # the circle is flat
        return [np.zeros((2, u.size)) for _ in range(order)]
    r = angles(u)
    small = r < _SERIES_BELOW
    z = np.where(small, r, 0.0) ** 2
    large = np.where(small, 1.0, r)
    cosine = np.stack([1 - u, u - 1])
    sine = np.sqrt(u * (2 - u))
    with np.errstate(divide="ignore", invalid="ignore"):
        cot = np.where(small, 1.0, large * cosine / sine)
        sin = np.where(small, 1.0, (large / sine) ** 2)
    ratios = []
    for closed, series in ((_u1, _u1_series), (_u2, _u2_series))[:order]:
        inner = np.polynomial.polynomial.polyval(z, series(d))
        with np.errstate(invalid="ignore"):
            ratios.append(np.where(small, inner, closed(d, large**2, cot, sin)))
    return ratios


def _u1(d: int, z: Array, cot: Array, sin: Array) -> Array:
    return (d - 1) / 4 * ((d - 1) + ((3 - d) + (d - 3) * cot) / z)


def _u1_series(d: int) -> Array:
    series = (d - 3) * _COT[1:]
    series[0] += d - 1
    return (d - 1) / 4 * series[:_TERMS]


def _u2(d: int, z: Array, cot: Array, sin: Array) -> Array:
    constant = -(d - 3) * (d - 5) * (3 * d - 5) / 3 - 2 * (d - 1) ** 2 * (d - 3)
    fourth = (d - 3) * (d - 5) * ((d - 7) - 2 * (d - 3) * cot + (d + 1) * sin)
    second = 2 * (d - 1) ** 2 * (d - 3) * cot + constant
    return (d - 1) / 32 * ((d - 1) ** 3 + fourth / z**2 + second / z)


def _u2_series(d: int) -> Array:
    fourth = (d - 3) * (d - 5) * (-2 * (d - 3) * _COT[2:] + (d + 1) * _SIN[2:])
    series = fourth[:_TERMS] + 2 * (d - 1) ** 2 * (d - 3) * _COT[1 : _TERMS + 1]
    series[0] += (d - 1) ** 3
    return (d - 1) / 32 * series
