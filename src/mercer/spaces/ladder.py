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
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.spaces.balls import precision

Array = NDArray[np.float64]
#: Values at separations ``u = cosh(rho) - 1``.
Radial = Callable[[Array], Array]
#: Replaces separations by values, in place, as profiles do.
Replace = Callable[[Array], None]

#: Accuracy wanted of every value, in bits.
_BITS = 58
#: Precision to begin with and to end with, in bits.
_LEAST_PRECISION, _MOST_PRECISION = 128, 2**14
#: Separations below this are reached by the series of rho^2 about zero, which converges up to 2.
_NEAR = 0.25
#: The integral of half a step: nodes on each panel, panels per octave, where they begin and end.
_NODES, _PER_OCTAVE, _FIRST, _REACH = 20, 2, -30, 45.0


class Generator(ABC):
    """A function g of ``y = rho^2`` on the line, in ball arithmetic."""

    @abstractmethod
    def compose(self, y: list[Any]) -> Any:
        """The series of g(y), in the precision in force, for a y given by its Taylor coefficients."""

    def power_at_zero(self, m: int) -> float:
        """The m-th derivative goes like y to this power as y goes to 0; 0 where it is finite."""
        return 0.0


class GaussianGenerator(Generator):
    """``exp(-y / 4t)``, for the heat kernel; with ``slope``, its derivative by log t."""

    def __init__(self, t: float, slope: bool = False) -> None:
        self._t, self._slope = t, slope

    def compose(self, y: list[Any]) -> Any:
        """See :class:`Generator`."""
        from flint import arb, arb_series

        exponent = arb_series(y, len(y)) * (1 / (4 * arb(self._t)))
        value = (-exponent).exp()
        return exponent * value if self._slope else value


class BesselGenerator(Generator):
    """``z^q K_q(z)`` with ``z = sqrt(rate y)``, for the Matern kernel.

    Up to a factor it is the mixture ``int t^(q-1) exp(-rate t - y / 4t) dt`` of Gaussians.  Its k-th
    derivative by ``z^2`` is ``(-1/2)^k z^(q-k) K_(q-k)(z)``.
    """

    def __init__(self, q: float, rate: float) -> None:
        self._q, self._rate = q, rate

    def power_at_zero(self, m: int) -> float:
        """See :class:`Generator`; the logarithm of q = m counts as a small power."""
        return 0.0 if self._q > m else min(self._q - m, -1e-9)

    def compose(self, y: list[Any]) -> Any:
        """See :class:`Generator`."""
        from flint import arb, arb_series

        rate = arb(self._rate)
        values = self._powers(y[0] * rate, len(y))
        outer, factor = [], arb(1)
        for k in range(len(y)):
            outer.append(factor * values[-1 - k])
            factor = factor * -rate / (2 * (k + 1))
        if len(y) == 1:
            return arb_series(outer, 1)
        return arb_series(outer, len(y))(arb_series([0, *y[1:]], len(y)))

    def _powers(self, square: Any, count: int) -> list[Any]:
        """``w_p = z^p K_p(z)`` for p = q - count + 1, ..., q, by ``w_(p+1) = z^2 w_(p-1) + 2 p w_p``."""
        from flint import arb

        lowest = arb(self._q) - (count - 1)
        if square == 0:
            return [arb(2) ** (lowest + k - 1) * (lowest + k).gamma() for k in range(count)]
        z = square.sqrt()
        values = [z ** (lowest + k) * z.bessel_k(lowest + k) for k in range(min(count, 2))]
        for k in range(1, count - 1):
            values.append(square * values[k - 1] + 2 * (lowest + k) * values[k])
        return values


class Ladder:
    """``log D_d`` and ratios to it in the odd dimension d = 2 m + 1, point by point."""

    def __init__(self, generator: Generator, m: int) -> None:
        self._generator, self._m = generator, m

    @property
    def power_at_zero(self) -> float:
        """Power of u with which D diverges at 0, or 0."""
        return self._generator.power_at_zero(self._m)

    def log(self, u: Array) -> Array:
        """Logarithm of ``(-1 / 2 pi d/dx)^m g(rho^2)``."""
        return np.array([self._log(float(value)) for value in u])

    def ratio(self, other: Generator, u: Array) -> Array:
        """What the other generator gives, relative to this one; it may have either sign."""
        return np.array([self._ratio(float(value), other) for value in u])

    def _log(self, u: float) -> float:
        if u == 0 and self.power_at_zero:
            return math.inf

        def log(precision: int) -> Any:
            from flint import arb

            value = self._coefficient(u, self._generator, precision) * math.factorial(self._m)
            return value.log() - self._m * (2 * arb.pi()).log() if value > 0 else None

        return self._to_accuracy(log, u)

    def _ratio(self, u: float, other: Generator) -> float:
        def ratio(precision: int) -> Any:
            below = self._coefficient(u, self._generator, precision)
            return self._coefficient(u, other, precision) / below if below > 0 else None

        return self._to_accuracy(ratio, u)

    def _to_accuracy(self, compute: Callable[[int], Any], u: float) -> float:
        """Compute with more and more digits until enough are right."""
        from flint import ctx

        bits = _LEAST_PRECISION
        while bits <= _MOST_PRECISION:
            with precision(bits):
                cap, ctx.cap = ctx.cap, self._m + 1
                try:
                    value = compute(bits)
                finally:
                    ctx.cap = cap
                # Errors that count are those of values near 1: logarithms and ratios may be zero.
                if value is not None and value.rel_one_accuracy_bits() > _BITS:
                    return float(value.mid())
            bits *= 2
        raise ValueError(f"the radial function is not resolved at cosh(rho) - 1 = {u:.6g}")

    def _coefficient(self, u: float, generator: Generator, precision: int) -> Any:
        """Taylor coefficient m of g(rho(x)^2) at x = 1 + u, times (-1)^m."""
        value = generator.compose(squared_distance(u, self._m + 1, precision))[self._m]
        return -value if self._m % 2 else value


def squared_distance(u: float, count: int, precision: int) -> list[Any]:
    """Taylor coefficients of ``rho^2 = arcosh(x)^2`` at ``x = 1 + u``, as balls.

    ``(x^2 - 1) y'' + x y' = 2``; near x = 1, where the recursion would divide by little, by moving the
    centre of the series at 1.
    """
    from flint import arb, arb_poly

    if u < _NEAR:
        # A term gains at least log2(2 / u) - 1 bits on the one before, once binomials have peaked.
        bits = -math.log2(max(u, 1e-300))
        terms = count + math.ceil((precision + 2 * count) / bits)
        moved = _at_one(64 * -(-terms // 64), precision)(arb_poly([arb(u), 1]))
        return [moved[k] for k in range(count)]
    x = arb(u) + 1
    rho, square = x.acosh(), x * x - 1
    y = [rho * rho, 2 * rho / square.sqrt()]
    for j in range(count - 2):
        rest = (2 if j == 0 else 0) - x * ((j + 1) * (2 * j + 1)) * y[j + 1] - j * j * y[j]
        y.append(rest / (square * ((j + 2) * (j + 1))))
    return y[:count]


@cache
def _at_one(count: int, precision: int) -> Any:
    """The series of ``arcosh(1 + u)^2`` in u, as a polynomial."""
    from flint import arb, arb_poly

    y = [arb(0), arb(2)]
    for j in range(1, count):
        y.append(-j * j * y[j] / ((j + 1) * (2 * j + 1)))
    return arb_poly(y)


def half_step_log(log: Replace, power: float, u: Array) -> Array:
    """``log D_d`` from ``log D_(d+1)``: ``D_d = int D_(d+1)(u + cosh w - 1) cosh(w / 2) dw``.

    ``power`` is that with which ``D_(d+1)`` diverges at 0, or 0.
    """
    return np.concatenate([_log_sum(_terms(log, power, part)) for part in _chunks(u)])


def half_step_ratio(log: Replace, power: float, ratio: Replace, u: Array) -> Array:
    """Mean of a ratio over the integral of half a step."""
    found = []
    for part in _chunks(u):
        terms = _terms(log, power, part)
        values = part[:, None] + _panels()[0]
        ratio(values)
        p = np.exp(terms - terms.max(axis=1, keepdims=True))
        found.append((p * values).sum(axis=1) / p.sum(axis=1))
    return np.concatenate(found)


def _chunks(u: Array) -> list[Array]:
    return np.array_split(u, -(-len(u) // 512))


def _terms(log: Replace, power: float, u: Array) -> Array:
    """Logarithms of the terms of the integral, a row for each separation."""
    nodes, weights = _panels()
    values = u[:, None] + nodes
    log(values)
    values += weights
    # Below the first panel the integrand is level, or at u = 0 a power of w, taken at its middle.
    values[u < nodes[0], 0] += 2 * power * math.log(2) - math.log1p(2 * power)
    return values


def _log_sum(terms: Array) -> Array:
    top = terms.max(axis=1)
    return top + np.log(np.exp(terms - top[:, None]).sum(axis=1))


@cache
def _panels() -> tuple[Array, Array]:
    """``cosh(w) - 1`` at the nodes of the integral, and the logarithms of their weights.

    Octaves resolve singularities at u = 0 from any distance, as the tables do.
    """
    x, gauss = np.polynomial.legendre.leggauss(_NODES)
    last = math.log2(2 * _REACH)
    ends = np.exp2(np.arange(_FIRST, last + 0.5 / _PER_OCTAVE, 1 / _PER_OCTAVE))
    centres, halves = (ends[1:] + ends[:-1]) / 2, (ends[1:] - ends[:-1]) / 2
    w = (centres[:, None] + halves[:, None] * x).ravel()
    weights = (halves[:, None] * gauss).ravel()
    # The first node stands for what is left below the first panel.
    w, weights = np.concatenate([[ends[0] / 2], w]), np.concatenate([[ends[0]], weights])
    log_cosh = w / 2 + np.log1p(np.exp(-w)) - math.log(2)
    return 2 * np.sinh(w / 2) ** 2, np.log(2 * weights) + log_cosh
