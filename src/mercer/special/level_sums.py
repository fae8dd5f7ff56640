"""Sums over the levels of a sphere whose terms fall like a power."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from mercer._arrays import Array
from mercer.special import zonal


@dataclass(frozen=True)
class Sums:
    """Sums of ``a_l N_l``.

    ``log_total`` is the logarithm of the sum over all levels and ``slope`` its derivative with respect
    to the logarithm of the law's time; ``share`` is the part outside some levels, and ``share_slope``
    the derivative of that part at a fixed sum.
    """

    log_total: float
    slope: float
    share: float
    share_slope: float


def of_powers(n: int, s: float, rate: float, numbers: NDArray[np.int64]) -> Sums:
    """Sums of ``N_l (rate + lambda_l)^(-s)``, in all and outside some levels; the time is 1 / rate."""
    log_total, share = _log_power_sum(n, s, rate, numbers)
    # d/dlog(rate) of (rate + lam)^-s is -s rate (rate + lam)^-(s+1).
    log_steeper, steeper_share = _log_power_sum(n, s + 1, rate, numbers)
    slope = s * math.exp(math.log(rate) + log_steeper - log_total)
    return Sums(log_total, slope, share, slope * steeper_share)


def _log_power_sum(n: int, s: float, rate: float, numbers: NDArray[np.int64]) -> tuple[float, float]:
    """Logarithm of ``sum_l N_l (rate + lambda_l)^(-s)``, and the part outside some levels.

    Terms up to some level are added up, the rest is an integral (Euler and Maclaurin's formula).
    """
    # A power of two: optimisers come back to the same few numbers of levels.
    direct = 2 ** math.ceil(math.log2(4096 + 8 * math.sqrt(rate) + 8 * n + numbers.max()))
    log_counts, eigenvalues = _ladder(n, direct)
    log_power = log_counts - s * np.log(rate + eigenvalues)
    peak = float(log_power.max())
    terms = np.exp(log_power - peak)
    last = float(direct - 1)
    nodes, weights = _legendre_nodes()
    # Terms fall as l^-(2s - n + 2): in log l the integrand is an exponential.
    reach = 40 / (2 * s - n + 1)
    y = reach * (nodes + 1) / 2
    level = last * np.exp(np.minimum(y, 650 - math.log(last)))
    log_term = _log_smooth(n, s, rate, level) - _log_smooth(n, s, rate, np.array([last]))
    integral = reach / 2 * (weights * np.exp(log_term + np.log(level))).sum()
    tail = terms[-1] * (integral - 0.5) - (terms[-1] - terms[-2]) / 12
    total = terms.sum() + tail
    terms[numbers] = 0.0
    return peak + math.log(total), float((terms.sum() + tail) / total)


@lru_cache(maxsize=8)
def _ladder(n: int, levels: int) -> tuple[Array, Array]:
    """Logarithms of multiplicities, and eigenvalues."""
    log_counts = zonal.log_multiplicities(n, levels).astype(float)
    return log_counts, zonal.eigenvalues(n, levels).astype(float)


@cache
def _legendre_nodes() -> tuple[Array, Array]:
    return np.polynomial.legendre.leggauss(200)


def _log_smooth(n: int, s: float, rate: float, level: Array) -> Array:
    """Logarithm of ``N_l (rate + lambda_l)^(-s)`` at real l, up to a constant."""
    power = np.log(rate + level * (level + n - 2)) * s
    return np.log(2 * level + n - 2) + _log_gamma_ratio(level + 1, n - 3) - power


def _log_gamma_ratio(a: Array, m: int) -> Array:
    """``log Gamma(a + m) - log Gamma(a)`` of large a, the difference of two of Stirling's series."""
    here, beyond = 1 / a, 1 / (a + m)
    leading: Array = m * np.log(a + m) + (a - 0.5) * np.log1p(m / a) - m
    return leading + (beyond - here) / 12 - (beyond**3 - here**3) / 360
