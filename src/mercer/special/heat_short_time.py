"""Kernels beyond level-by-level sums: tiny times, and weights that fall like a power."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, gammaln

from mercer._arrays import Array
from mercer.special import heat_expansion, zonal

#: Beyond this angle short-time kernels have died out; the expansion itself diverges at pi.
_FAR = 2.5
#: The expansion to second order is relatively exact to x^3 / 6 in x = d (d - 1) t / 6.
_EXACT, _SPLIT = 2e-5, 1e-4
#: exp(-theta^2 / 4t) is zero in doubles at this time for every positive separation of unit vectors.
_FIRST_TIME = 1e-20


def is_short(n: int, t: float) -> bool:
    """Tell whether the second-order expansion is exact up to rounding at time t."""
    d = n - 1
    return t < 1e-2 and d * (d - 1) * t / 6 < _EXACT


@dataclass(frozen=True, eq=False)
class ClosedForm:
    """A kernel on a sphere, by a formula other than its series.

    ``function`` is the normalised kernel, ``log_value`` the logarithm of the absolute form at equal
    points, and ``slope(normalized)`` the derivative with respect to the logarithm of the law's time,
    relative to that value.
    """

    function: zonal.Function
    log_value: float
    slope: Callable[[bool], zonal.Function]


def closed_heat(n: int, t: float) -> ClosedForm:
    """The heat kernel at a short time."""

    def slope(normalized: bool) -> zonal.Function:
        def function(u: Array) -> Array:
            values, slopes = _heat(n, t, u)
            _, origin = _heat(n, t, np.zeros(1))
            # The absolute kernel also carries (4 pi t)^(-d/2).
            shift = origin[0, 0] if normalized else (n - 1) / 2
            return np.where(values > 0, values * (slopes - shift), 0.0)

        return function

    return ClosedForm(lambda u: _heat(n, t, u)[0], log_heat_at_zero(n, t), slope)


def log_heat(n: int, t: float, sides: int) -> zonal.Function:
    """Logarithm of the normalised heat kernel at a short time, on one hemisphere."""
    if n == 2:  # flat: the Gaussian wrapped around once is all there is at such times

        def wrapped(u: Array) -> Array:
            r = heat_expansion.angles(u)[:sides]
            return np.logaddexp(-(r**2) / (4 * t), -((2 * np.pi - r) ** 2) / (4 * t))

        return wrapped
    if sides > 1:
        raise ValueError(
            f"the logarithm of the heat kernel at the short time t = {t:.3g} cannot be computed near "
            "the antipode; use Simplex(), which has none, or a larger t"
        )
    d = n - 1

    def law(u: Array) -> Array:
        first, second = heat_expansion.corrections(d, 2, u)
        bracket = np.log1p(first * t + second * t * t)
        logs = -(heat_expansion.angles(u) ** 2) / (4 * t) + heat_expansion.log_u0(d, u) + bracket
        return logs[:1] - log_heat_at_zero(n, t) - d / 2 * math.log(4 * math.pi * t)

    return law


def log_heat_at_zero(n: int, t: float) -> float:
    """Logarithm of the absolute heat kernel at separation zero."""
    d = n - 1
    first, second = (c[0, 0] for c in heat_expansion.corrections(d, 2, np.zeros(1)))
    return -d / 2 * math.log(4 * math.pi * t) + math.log1p(first * t + second * t * t)


def _heat(n: int, t: float, u: Array) -> tuple[Array, Array]:
    """Normalised values, and derivatives of ``log(values sqrt(t)^d)`` with respect to log t."""
    d = n - 1
    r = heat_expansion.angles(u)
    with np.errstate(invalid="ignore", over="ignore"):
        first, second = heat_expansion.corrections(d, 2, u)
        bracket = 1 + first * t + second * t * t
        exponent = -(r**2) / (4 * t) + heat_expansion.log_u0(d, u)
        values = np.where(r < _FAR, np.exp(exponent) * bracket, 0.0)
        slopes = r**2 / (4 * t) + (first * t + 2 * second * t * t) / bracket
    first, second = (c[0, 0] for c in heat_expansion.corrections(d, 2, np.zeros(1)))
    return values / (1 + first * t + second * t * t), np.where(r < _FAR, slopes, 0.0)


@dataclass(frozen=True)
class SplitSeries:
    """The series ``sum_l (c + lam_l)^(-s) N_l P_l`` on S^(n-1) as a smooth and a short-time part.

    ``(c + lam)^(-s)`` is a Gamma mixture of heat kernels ``exp(-lam t)``.  Times above a threshold
    make a series that converges faster than any power (its weights are regularised incomplete gamma
    functions); times below it see the sphere as nearly flat, and the short-time expansion of the heat
    kernel is integrated instead.  Where plain summation needs 10^10 levels this needs hundreds.
    """

    n: int
    s: float
    c: float

    @property
    def threshold(self) -> float:
        """Time at which the mixture is split."""
        d = self.n - 1
        return min(6 * _SPLIT / max(d * (d - 1), 1), 30 / self.c)

    def parts(self) -> tuple[zonal.Function, float]:
        """Function normalised to 1 at separation zero, and the logarithm of the series there."""
        cut = self.threshold
        spectrum = zonal.spectrum(self._smooth_weights, self.n)
        flat_at_zero = self._flat(np.zeros(1))[0, 0]
        d = self.n - 1
        log_flat = zonal.log_area(self.n) - float(gammaln(self.s)) - d / 2 * math.log(4 * math.pi)
        log_flat += math.log(flat_at_zero) + (self.s - d / 2) * math.log(cut)
        log_total = float(np.logaddexp(spectrum.log_total, log_flat))
        smooth = math.exp(spectrum.log_total - log_total)
        flat = math.exp(log_flat - log_total) / flat_at_zero

        def law(u: Array) -> Array:
            series = zonal.zonal_series(self.n, spectrum.first, spectrum.p, u)
            return smooth * series + flat * self._flat(u)

        return law, log_total

    def _smooth_weights(self, eigenvalues: NDArray[np.longdouble]) -> NDArray[np.longdouble]:
        rate = self.c + eigenvalues
        with np.errstate(divide="ignore"):
            late = np.log(gammaincc(self.s, (rate * self.threshold).astype(float)))
        return -self.s * np.log(rate) + late

    def _flat(self, u: Array) -> Array:
        """Integral over times below the threshold, in units of threshold^(s - d/2)."""
        d = self.n - 1
        nu = self.s - d / 2
        cut = self.threshold
        x, weights = _panels(math.log(_FIRST_TIME / cut))
        t = cut * np.exp(x)
        first, second = (c[0] for c in heat_expansion.corrections(d, 2, u))
        r = heat_expansion.angles(u)[0]
        base = weights * np.exp(nu * x - self.c * t)
        with np.errstate(invalid="ignore", over="ignore"):
            # One exponent: in many dimensions u_0 overflows where the Gaussian vanishes.
            decay = np.exp(heat_expansion.log_u0(d, u)[0][:, None] - r[:, None] ** 2 / (4 * t))
            moments = decay @ np.stack([base, base * t, base * t * t], axis=1)
            value = moments[:, 0] + first * moments[:, 1] + second * moments[:, 2]
        before = math.exp(nu * math.log(_FIRST_TIME / cut)) / nu
        near = value + np.where(u == 0, before, 0.0)
        return np.stack([near, np.zeros_like(near)])


def _panels(start: float) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights on [start, 0] in panels of length one or less."""
    nodes, weights = np.polynomial.legendre.leggauss(16)
    edges = np.linspace(start, 0.0, math.ceil(-start) + 1)
    half = np.diff(edges)[:, None] / 2
    centre = (edges[:-1, None] + edges[1:, None]) / 2
    return (centre + half * nodes).ravel(), (half * weights).ravel()
