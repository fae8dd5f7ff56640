"""The ladder of dimensions in hyperbolic space: radial functions of H^d from those of the line.

With ``x = cosh(rho)``, a function of the Laplacian has on H^(d+2) the kernel ``-(1 / 2 pi) d/dx`` of the
one on H^d, once the shift ``((d - 1) / 2)^2`` of the spectrum is set aside.  Odd dimensions are whole
steps up from H^1, taken as Taylor coefficients in ball arithmetic: digits that derivatives lose are
made up for by precision.  An even dimension is half a step down from the next odd one,
``D_d(x) = sqrt(2) int_x^inf D_(d+1)(y) / sqrt(y - x) dy``, a smooth integral of positive values.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

import numpy as np

from mercer._arrays import Array
from mercer.special.balls import flint, precision

#: Values at distances.
Radial = Callable[[Array], Array]
#: A ball, or None if it is too wide, from a distance and the series of its square.
Compute = Callable[[float, list[Any]], Any]

#: Accuracy wanted of every value, in bits.
_BITS = 58
#: Precision to begin with and to end with, in bits.
_LEAST_PRECISION, _MOST_PRECISION = 96, 2**14
#: Bits that may be lost in a recursion; beyond, series about zero are cheaper.
_MOST_LOST = 600
#: The integral of half a step: nodes on each panel; panels per octave; where they end, in octaves, and
#: how far below the root of the smallest distance they begin.
_NODES, _PER_OCTAVE, _LAST, _MARGIN = 20, 2, 3.5, 6
#: How much further half steps look than the distance they are taken at, and how many octaves below
#: the smallest distance they look from zero.
FURTHER, NEARER = 4.0**_LAST, 2 * _MARGIN + 2


class Generator(ABC):
    """A function g of ``y = rho^2`` on the line, in ball arithmetic."""

    @abstractmethod
    def compose(self, y: list[Any]) -> Any:
        """The series of g(y), in the precision in force, for a y given by its Taylor coefficients."""

    def power_at_zero(self, m: int) -> float:
        """The m-th derivative goes like y to this power as y goes to 0; 0 where it is finite."""
        return 0.0


class GaussianGenerator(Generator):
    """``exp(-y / 4t)``, for the heat kernel; with ``slope``, its derivative with respect to log t."""

    def __init__(self, t: float, slope: bool = False) -> None:
        self._t, self._slope = t, slope

    def compose(self, y: list[Any]) -> Any:
        exponent = flint.arb_series(y, len(y)) * (1 / (4 * flint.arb(self._t)))
        value = (-exponent).exp()
        return exponent * value if self._slope else value


class BesselGenerator(Generator):
    """``z^q K_q(z)`` with ``z = sqrt(rate y)``, for the Matern kernel.

    Up to a factor it is the mixture ``int t^(q-1) exp(-rate t - y / 4t) dt`` of Gaussians.  Its k-th
    derivative with respect to ``z^2`` is ``(-1/2)^k z^(q-k) K_(q-k)(z)``.
    """

    def __init__(self, q: float, rate: float) -> None:
        self._q, self._rate = q, rate

    def power_at_zero(self, m: int) -> float:
        """See :class:`Generator`; the logarithm of q = m counts as a small power."""
        return 0.0 if self._q > m else min(self._q - m, -1e-9)

    def compose(self, y: list[Any]) -> Any:
        rate = flint.arb(self._rate)
        values = self._powers(y[0] * rate, len(y))
        outer, factor = [], flint.arb(1)
        for k in range(len(y)):
            outer.append(factor * values[-1 - k])
            factor = factor * -rate / (2 * (k + 1))
        if len(y) == 1:
            return flint.arb_series(outer, 1)
        return flint.arb_series(outer, len(y))(flint.arb_series([0, *y[1:]], len(y)))

    def _powers(self, square: Any, count: int) -> list[Any]:
        """``w_p = z^p K_p(z)`` for p = q - count + 1, ..., q, by ``w_(p+1) = z^2 w_(p-1) + 2 p w_p``."""
        lowest = flint.arb(self._q) - (count - 1)
        if square == 0:
            return [flint.arb(2) ** (lowest + k - 1) * (lowest + k).gamma() for k in range(count)]
        z = square.sqrt()
        values = [z ** (lowest + k) * z.bessel_k(lowest + k) for k in range(min(count, 2))]
        for k in range(1, count - 1):
            values.append(square * values[k - 1] + 2 * (lowest + k) * values[k])
        return values


class Ladder:
    """``D`` and ratios to it in the odd dimension 2 m + 1, at one distance after the other."""

    def __init__(self, generator: Generator, m: int) -> None:
        self._generator, self._m = generator, m
        #: Coefficients by distance and precision: what is asked for first serves again in ratios.
        self._known: dict[tuple[float, int], Any] = {}

    @property
    def power_at_zero(self) -> float:
        """Power of rho^2 with which D diverges at 0, or 0."""
        return self._generator.power_at_zero(self._m)

    @cached_property
    def log_unit(self) -> float:
        """Logarithm of what :meth:`log` is relative to: of D at 0, or at 1 where that is infinite."""
        return float(self._unit.mid())

    def log(self, rho: Array) -> Array:
        """Logarithm of ``D = (-1 / 2 pi d/dx)^m g(rho^2)``, less :attr:`log_unit`."""
        return np.array([self._log(float(value)) for value in rho])

    def ratio(self, other: Generator, rho: Array) -> Array:
        """What the other generator gives, relative to this one; it may have either sign."""
        return np.array([self._ratio(float(value), other) for value in rho])

    @cached_property
    def _unit(self) -> Any:
        # With bits to spare: what is left of logarithms near this one is to be as accurate.
        return self._to_accuracy(self._log_value, 1.0 if self.power_at_zero else 0.0, 2 * _BITS)

    def _log(self, rho: float) -> float:
        if rho == 0 and self.power_at_zero:
            return math.inf
        unit = self._unit

        def log(rho: float, y: list[Any]) -> Any:
            value = self._log_value(rho, y)
            return None if value is None else value - unit

        return float(self._to_accuracy(log, rho).mid())

    def _log_value(self, rho: float, y: list[Any]) -> Any:
        value = self._coefficient(rho, y) * math.factorial(self._m)
        return value.log() - self._m * (2 * flint.arb.pi()).log() if value > 0 else None

    def _ratio(self, rho: float, other: Generator) -> float:
        if rho == 0 and self.power_at_zero:
            return 0.0  # slopes diverge less, if at all

        def ratio(rho: float, y: list[Any]) -> Any:
            below = self._coefficient(rho, y)
            return _coefficient(other, y) / below if below > 0 else None

        return float(self._to_accuracy(ratio, rho).mid())

    def _to_accuracy(self, compute: Compute, rho: float, wanted: int = _BITS) -> Any:
        """Compute from the series of rho^2 with more and more digits until enough are correct."""
        count = self._m + 1
        lost = lost_bits(rho, count)
        recursive = lost <= _MOST_LOST
        bits = _LEAST_PRECISION + count // 2 + (math.ceil(lost) if recursive else 0)
        while bits <= _MOST_PRECISION:
            with precision(bits):
                cap, flint.ctx.cap = flint.ctx.cap, count
                try:
                    value = compute(rho, squared_distance(rho, count, None if recursive else bits))
                finally:
                    flint.ctx.cap = cap
                # Errors that count are those of values near 1: logarithms and ratios may be zero.
                if value is not None and value.rel_one_accuracy_bits() > wanted:
                    return value
            bits *= 2
        raise ValueError(f"the radial function is not resolved at the distance {rho:.6g}")

    def _coefficient(self, rho: float, y: list[Any]) -> Any:
        if (rho, flint.ctx.prec) not in self._known:
            self._known[rho, flint.ctx.prec] = _coefficient(self._generator, y)
        return self._known[rho, flint.ctx.prec]


def _coefficient(generator: Generator, y: list[Any]) -> Any:
    """Last Taylor coefficient m of g(y), times (-1)^m."""
    value = generator.compose(y)[len(y) - 1]
    return value if len(y) % 2 else -value


def lost_bits(rho: float, count: int) -> float:
    """Bits that the recursion of :func:`squared_distance` loses, about, by dividing by little."""
    return count * max(0.0, -1 - 2 * math.log2(rho)) if rho else math.inf


def squared_distance(rho: float, count: int, bits: int | None) -> list[Any]:
    """Taylor coefficients of ``y = arcosh(x)^2`` at ``x = cosh(rho)``, as balls.

    By ``(x^2 - 1) y'' + x y' = 2``; with ``bits`` of precision given, by moving the centre of the series
    at x = 1, for small rho.
    """
    half = (flint.arb(rho) / 2).sinh()
    u = 2 * half * half
    if bits is not None:
        # A term gains at least log2(2 / u) - 1 bits on the one before, once binomials have peaked.
        terms = count + math.ceil((bits + 2 * count) / (1 - 2 * math.log2(max(rho, 1e-150))))
        moved = _at_one(64 * -(-terms // 64), bits)(flint.arb_poly([u, 1]))
        return [moved[k] for k in range(count)]
    x, square = u + 1, u * (u + 2)
    y = [flint.arb(rho) ** 2, 2 * flint.arb(rho) / square.sqrt()]
    for j in range(count - 2):
        rest = (2 if j == 0 else 0) - x * ((j + 1) * (2 * j + 1)) * y[j + 1] - j * j * y[j]
        y.append(rest / (square * ((j + 2) * (j + 1))))
    return y[:count]


@cache
def _at_one(count: int, bits: int) -> Any:
    """The series of ``arcosh(1 + u)^2`` in u, as a polynomial; ``bits`` tells precisions apart."""
    y = [flint.arb(0), flint.arb(2)]
    for j in range(1, count):
        y.append(-j * j * y[j] / ((j + 1) * (2 * j + 1)))
    return flint.arb_poly(y)


class HalfStep:
    """``D_d(rho) = int_0^inf D_(d+1)(rho + v^2) F(rho, v) dv``, from the logarithm of ``D_(d+1)``.

    ``F = 2 v sinh(rho + v^2) / sqrt(sinh(rho + v^2 / 2) sinh(v^2 / 2))``.

    Parameters
    ----------
    log : callable
        ``log D_(d+1)`` at distances.
    power : float
        Power of rho^2 with which ``D_(d+1)`` diverges at 0, or 0.
    octaves : int
        Distances are zero or at least 2 to the power minus this.
    """

    def __init__(self, log: Radial, power: float, octaves: int) -> None:
        self._log, self._power = log, power
        self._nodes, self._weights = _panels(-(octaves // 2) - _MARGIN)

    def log(self, rho: Array) -> Array:
        """Logarithm of ``D_d``."""
        parts = [self._terms(part) for part in self._chunks(rho)]
        return np.concatenate([top + np.log(terms.sum(axis=1)) for top, terms in parts])

    def mean(self, values: Radial, rho: Array) -> Array:
        """Mean of a function of the distance, with the integrand as its weight."""
        found = []
        for part in self._chunks(rho):
            _, terms = self._terms(part)
            mean = (terms * values(part[:, None] + self._nodes**2)).sum(axis=1) / terms.sum(axis=1)
            found.append(mean)
        return np.concatenate(found)

    def _chunks(self, rho: Array) -> list[Array]:
        """Parts of the distances, with some 10^5 terms each."""
        return np.array_split(rho, -(-len(rho) * len(self._nodes) // 2**18))

    def _terms(self, rho: Array) -> tuple[Array, Array]:
        """Terms of the integral, a row for each distance, and the logarithms of units they are in."""
        square = self._nodes**2
        logs = self._log(rho[:, None] + square)
        top = logs.max(axis=1)
        # All signs are plus: nothing cancels.
        whole, half = (_sinh_of_sum(rho, v) for v in (square, square / 2))
        terms = np.exp(logs - top[:, None]) * whole / np.sqrt(half)
        terms *= 2 * self._weights * self._nodes / np.sqrt(np.sinh(square / 2))
        # Below the first panel the integrand is level, or at rho = 0 a power of v, taken at its middle.
        power = 1 + 4 * self._power
        terms[rho == 0, 0] *= 2**power / (1 + power)
        return top, terms


def _sinh_of_sum(rho: Array, v: Array) -> Array:
    return np.outer(np.sinh(rho), np.cosh(v)) + np.outer(np.cosh(rho), np.sinh(v))


@cache
def _panels(first: int) -> tuple[Array, Array]:
    """Nodes v of the integral, and their weights.

    Panels are parts of octaves of v, which resolve singularities at rho = 0 from any distance.
    """
    x, gauss = np.polynomial.legendre.leggauss(_NODES)
    ends = np.exp2(np.arange(first * _PER_OCTAVE, _LAST * _PER_OCTAVE + 1) / _PER_OCTAVE)
    centres, halves = (ends[1:] + ends[:-1]) / 2, (ends[1:] - ends[:-1]) / 2
    nodes, weights = centres[:, None] + halves[:, None] * x, halves[:, None] * gauss
    # The first node stands for what is left below the first panel.
    return np.append(ends[0] / 2, nodes), np.append(ends[0], weights)
