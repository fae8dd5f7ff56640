"""Kernels of flat space as functions of the squared distance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.polynomial.polynomial import polyval

from mercer._arrays import Array
from mercer.profiles import TableProfile, compile_profile
from mercer.special.hyperbolic import BesselGenerator, Ladder

Function = Callable[[Array], Array]

#: Half-integers up to this have their closed form, whose terms are all positive.
_MOST_CLOSED = 30.5
#: Logarithms below this are out of the floating-point range.
_LOG_LEAST = -760.0
#: Octaves of squared distances beyond which rows of a table would leave the floating-point range.
FINEST = -165
#: Octaves of the argument of the Bessel function that are tabulated, from one upwards.
_ABOVE = 24


@dataclass(frozen=True)
class FlatFunction:
    """A kernel of R^d, a function of ``u = |x - y|^2``, by logarithms.

    ``log`` is the logarithm of the normalised kernel and ``rise`` its derivative with respect to the
    logarithm of the law's time; ``log_value`` is the logarithm of the absolute form at equal points and
    ``value_rise`` its derivative.  Below ``2**finest`` the kernel is one, to a rounding.
    """

    log: Function
    rise: Function
    log_value: float
    value_rise: float
    finest: int

    def top(self, shift: float) -> int:
        """The first octave where the kernel times ``exp(shift)`` is out of the floating-point range."""
        octaves = np.arange(self.finest, -FINEST)
        seen = self.log(np.exp2(octaves)) + shift > _LOG_LEAST
        return int(octaves[seen].max(initial=octaves[0])) + 1

    def log_profile(self, shift: float, deep: bool) -> TableProfile:
        """The kernel times ``exp(shift)``, by its logarithm; deep: beyond its underflow."""
        top = -FINEST if deep else self.top(shift)
        return compile_profile(
            lambda u: (self.log(u) + shift)[None, :],
            "invariant", top=top, logarithmic=True, beyond=-np.inf, octaves=top - self.finest,
        )  # fmt: skip

    def rise_profile(self, shift: float, chain: float, absolute: bool) -> TableProfile:
        """Derivative of the logarithm, times a factor."""
        top, value = self.top(shift), self.value_rise if absolute else 0.0
        return compile_profile(
            lambda u: (chain * (self.rise(u) + value))[None, :],
            "invariant", top=top, least=1.0, beyond=0.0, octaves=top - self.finest,
        )  # fmt: skip


def heat(t: float, d: int) -> FlatFunction:
    """``(4 pi t)^(-d/2) exp(-u / 4t)``."""
    rate = 1 / (4 * t)
    log_value = -d / 2 * math.log(4 * math.pi * t)
    return FlatFunction(lambda u: -rate * u, lambda u: rate * u, log_value, -d / 2, FINEST)


def matern(nu: float, rate: float, d: int) -> FlatFunction:
    """``2^(1-nu) / Gamma(nu) z^nu K_nu(z)`` with ``z = (rate u)^(1/2)``, the time being 1 / rate.

    The absolute form is the kernel of ``(rate - Laplacian)^(-nu - d/2)``.
    """
    log, rise = _closed(nu) if (nu - 0.5).is_integer() and nu <= _MOST_CLOSED else _tabulated(nu)

    def argument(u: Array) -> Array:
        # The product may underflow where the root does not.
        return math.sqrt(rate) * np.sqrt(u)

    log_value = -nu * math.log(rate) + math.lgamma(nu) - math.lgamma(nu + d / 2)
    log_value -= d / 2 * math.log(4 * math.pi)
    finest = max(math.floor(-math.log2(rate) - max(54, 56 / nu)), FINEST)
    return FlatFunction(lambda u: log(argument(u)), lambda u: rise(argument(u)), log_value, nu, finest)


def _closed(nu: float) -> tuple[Function, Function]:
    """For half-integers: ``exp(-z)`` times a polynomial, and ``z^2 w_(nu-1) / (2 w_nu)``."""
    p = round(nu - 0.5)
    log_first = math.log(_reverse_bessel(p)[0])

    def log(z: Array) -> Array:
        return _log_polynomial(p, z) - log_first - z

    def rise(z: Array) -> Array:
        with np.errstate(divide="ignore"):
            twice = 2 * np.log(z) + _log_polynomial(p - 1, z) - _log_polynomial(p, z) if p else np.log(z)
        return np.exp(twice) / 2

    return log, rise


def _log_polynomial(p: int, z: Array) -> Array:
    """Logarithm of a reverse Bessel polynomial; by falling powers where rising ones may overflow."""
    coefficients, above = _reverse_bessel(p), np.maximum(z, 1.0)
    falling = np.log(polyval(1 / above, coefficients[::-1])) + p * np.log(above)
    return np.where(z > 1, falling, np.log(polyval(np.minimum(z, 1.0), coefficients)))


def _reverse_bessel(p: int) -> Array:
    """Coefficients of the reverse Bessel polynomial ``(2/pi)^(1/2) e^z z^nu K_nu(z)``, nu = p + 1/2."""
    return np.array(
        [
            math.factorial(2 * p - k) / (math.factorial(p - k) * math.factorial(k) * 2 ** (p - k))
            for k in range(p + 1)
        ]
    )


def _tabulated(nu: float) -> tuple[Function, Function]:
    """For all other nu: tables of the argument, from ball arithmetic."""
    log, ratio = _tables(nu)

    def rise(z: Array) -> Array:
        return 0.5 * ratio(z) - nu

    return log, rise


@lru_cache(maxsize=16)
def _tables(nu: float) -> tuple[Function, Function]:
    """Logarithm of ``z^nu K_nu(z)`` over its value at 0, and ``z^(nu+1) K_(nu+1)(z)`` relative to it."""
    ladder = Ladder(BesselGenerator(nu, 1.0), 0)
    finer = min(math.ceil(max(27, 28 / nu)) + 2, -FINEST)

    def tabulated(function: Function) -> Function:
        table = compile_profile(
            lambda z: function(z)[None, :],
            "invariant", top=_ABOVE, least=1.0, octaves=_ABOVE + finer,
        )  # fmt: skip
        return lambda z: table.looked_up(np.minimum(z, 2.0**_ABOVE))

    return tabulated(ladder.log), tabulated(partial(ladder.ratio, BesselGenerator(nu + 1, 1.0)))
