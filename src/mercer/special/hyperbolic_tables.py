"""Profiles of kernels on hyperbolic space, from functions on the line."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from mercer._arrays import Array
from mercer.profiles import TableProfile, compile_profile
from mercer.special.hyperbolic import FURTHER, NEARER, Generator, HalfStep, Ladder, Radial

#: ``cosh(rho)`` of two points is below 2 to this power.
FARTHEST = 158
#: Shortest times and lengths at which the tables, which begin at a distance, keep their digits.
LEAST_TIME, LEAST_LENGTH = 1e-8, 1e-5
#: Logarithms below minus this are zero in doubles.
_DEPTH = 760.0
#: Octaves of ``cosh(rho) - 1`` and distance above those of any pair.
_ABOVE = FARTHEST + 1
_FARTHEST = (_ABOVE + 1) * math.log(2)


@dataclass(frozen=True, eq=False)
class LineFunction:
    """A kernel on H^d as a function on the line, and its derivative in the logarithm of its time.

    ``K = exp(log_factor) D_d[generator]``, and the derivative of log K is
    ``slope_shift + slope_factor D_d[slope] / D_d[generator]``.  Distances below ``2**-octaves`` count as
    zero.
    """

    generator: Generator
    log_factor: float
    slope: Generator
    slope_factor: float = 1.0
    slope_shift: float = 0.0
    octaves: int = 32


class HyperbolicTables:
    """A kernel on H^d as a function of the separation ``u = cosh(rho) - 1``.

    Values in ball arithmetic are expensive.  They are computed at a few hundred distances, for tables
    of the distance rho.  The profiles of the separation, which span many more octaves, are compiled from
    these tables.
    """

    def __init__(self, line: LineFunction, d: int) -> None:
        self._line, self._odd = line, d % 2 == 1
        self._ladder = Ladder(line.generator, d // 2)

    @cached_property
    def log_at_zero(self) -> float:
        """Logarithm of K at equal points."""
        below = 0.0 if self._odd else float(self._half_step.log(np.zeros(1))[0])
        return self._line.log_factor + self._ladder.log_unit + below

    @cached_property
    def rise_at_zero(self) -> float:
        """Derivative of :attr:`log_at_zero` with respect to the logarithm of the time."""
        return self._line.slope_shift + self._line.slope_factor * float(self._ratio(np.zeros(1))[0])

    def log_profile(self, normalized: bool, deep: bool = False) -> TableProfile:
        """The kernel by its logarithm; deep: beyond its underflow."""
        shift = 0.0 if normalized else self.log_at_zero
        top = _ABOVE if deep else self._top(shift)
        return compile_profile(
            lambda u: (self._log(u) + shift)[None, :],
            "invariant", top=top, logarithmic=True, beyond=-np.inf,
            law_error=self._log_table.error, octaves=top + 2 * self._line.octaves,
        )  # fmt: skip

    def slope_profile(self, normalized: bool, chain: float) -> TableProfile:
        """Derivative of the logarithm of the kernel in that of its time, times a factor."""
        zero = float(self._ratio(np.zeros(1))[0]) if normalized else 0.0
        factor = chain * self._line.slope_factor
        shift = 0.0 if normalized else chain * self._line.slope_shift
        top = self._top(0.0 if normalized else self.log_at_zero)
        return compile_profile(
            lambda u: (factor * (self._ratio(u) - zero) + shift)[None, :],
            "invariant", top=top, least=1.0, beyond=0.0,
            law_error=self._ratio_table.error, octaves=top + 2 * self._line.octaves,
        )  # fmt: skip

    def _top(self, shift: float) -> int:
        """The first octave at which the kernel has fallen below the floating-point range."""
        octaves = np.arange(-2 * self._line.octaves, _ABOVE)
        seen = self._log(np.exp2(octaves)) + shift > -_DEPTH
        return int(octaves[seen].max(initial=octaves[0])) + 1

    def _log(self, u: Array) -> Array:
        """``log K`` less its value at zero, at separations."""
        return self._log_table.looked_up(2 * np.arcsinh(np.sqrt(u / 2)))

    def _ratio(self, u: Array) -> Array:
        """``D[slope] / D[generator]`` at separations."""
        return self._ratio_table.looked_up(2 * np.arcsinh(np.sqrt(u / 2)))

    @cached_property
    def _log_table(self) -> TableProfile:
        if self._odd:
            return self._odd_log_table
        zero = float(self._half_step.log(np.zeros(1))[0])
        return self._tabulate(lambda rho: self._half_step.log(rho) - zero)

    @cached_property
    def _ratio_table(self) -> TableProfile:
        if self._odd:
            return self._odd_ratio_table
        return self._tabulate(partial(self._half_step.mean, self._odd_ratio_table.looked_up))

    @cached_property
    def _half_step(self) -> HalfStep:
        log = self._odd_log_table.looked_up
        return HalfStep(log, self._ladder.power_at_zero, self._line.octaves)

    @cached_property
    def _odd_log_table(self) -> TableProfile:
        """``log K`` in the odd dimension, in units of the ladder."""
        return self._tabulate(self._ladder.log, further=not self._odd)

    @cached_property
    def _odd_ratio_table(self) -> TableProfile:
        return self._tabulate(partial(self._ladder.ratio, self._line.slope), further=not self._odd)

    def _tabulate(self, law: Radial, further: bool = False) -> TableProfile:
        """A table by the distance; ``further``: as far as half steps from there reach."""
        top = math.ceil(math.log2(_FARTHEST + (FURTHER if further else 0.0)))
        octaves = top + self._line.octaves + (NEARER if further else 0)
        return compile_profile(
            lambda rho: law(rho)[None, :], "invariant", top=top, least=1.0, octaves=octaves
        )
