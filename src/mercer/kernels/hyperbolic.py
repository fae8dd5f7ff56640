"""Profiles of kernels on hyperbolic space, from functions on the line."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mercer.profiles import TableProfile, compile_profile
from mercer.spaces.hyperbolic import FARTHEST
from mercer.spaces.ladder import Generator, Ladder, Radial, half_step_log, half_step_ratio

Array = NDArray[np.float64]

#: Logarithms below minus this, relative to the value at zero, are zero in doubles.
_DEPTH = 760.0
#: Octaves of ``cosh(rho) - 1``: the smallest rho is about 1e-10, the largest above that of any pair.
_BELOW, _ABOVE, _FURTHER = 64, FARTHEST + 1, 6


@dataclass(frozen=True, eq=False)
class Rungs:
    """A kernel on H^d as a function on the line, and its derivative by a log hyperparameter.

    ``K = exp(log_factor) D_d[generator]``, and the derivative of log K is
    ``slope_shift + slope_factor D_d[slope] / D_d[generator]``.
    """

    generator: Generator
    log_factor: float
    slope: Generator
    slope_factor: float = 1.0
    slope_shift: float = 0.0


def log_at_zero(rungs: Rungs, d: int) -> float:
    """Logarithm of K at equal points."""
    return rungs.log_factor + float(_log_law(rungs, d)(np.zeros(1))[0])


def log_profile(rungs: Rungs, d: int, normalized: bool, deep: bool = False) -> TableProfile:
    """The kernel as a profile of ``cosh(rho) - 1``, by its logarithm; deep: beyond its underflow."""
    law = _log_law(rungs, d)
    zero = float(law(np.zeros(1))[0])
    shift = -zero if normalized else rungs.log_factor
    return _compile_log(law, shift, _ABOVE if deep else _top(law, zero))


def slope_profile(rungs: Rungs, d: int, normalized: bool) -> TableProfile:
    """Derivative of the logarithm of the kernel by that of its hyperparameter."""
    ladder = Ladder(rungs.generator, d // 2)
    ratio: Radial = partial(ladder.ratio, rungs.slope)
    law = _log_law(rungs, d)
    top = _top(law, float(law(np.zeros(1))[0]))
    if d % 2 == 0:
        table = compile_profile(
            lambda u: ratio(u)[None, :],
            "invariant", top=_ABOVE + _FURTHER, least=1.0, beyond=0.0,
            octaves=_ABOVE + _FURTHER + _BELOW,
        )  # fmt: skip
        ratio = partial(half_step_ratio, _tabulate(ladder).apply, ladder.power_at_zero, table.apply)
    zero = float(ratio(np.zeros(1))[0]) if normalized else 0.0
    shift = 0.0 if normalized else rungs.slope_shift
    return compile_profile(
        lambda u: (rungs.slope_factor * (ratio(u) - zero) + shift)[None, :],
        "invariant", top=top, least=1.0, beyond=0.0, octaves=top + _BELOW,
    )  # fmt: skip


def _log_law(rungs: Rungs, d: int) -> Radial:
    """``log D_d``, whole steps up and, in even dimensions, half a step down."""
    ladder = Ladder(rungs.generator, d // 2)
    if d % 2:
        return ladder.log
    return partial(half_step_log, _tabulate(ladder).apply, ladder.power_at_zero)


def _tabulate(ladder: Ladder) -> TableProfile:
    """A table of ``log D``, for the integral of half a step, which looks further."""
    return _compile_log(ladder.log, 0.0, _ABOVE + _FURTHER).without_exponential


def _compile_log(law: Radial, shift: float, top: int) -> TableProfile:
    return compile_profile(
        lambda u: (law(u) + shift)[None, :],
        "invariant", top=top, logarithmic=True, beyond=-np.inf, octaves=top + _BELOW,
    )  # fmt: skip


def _top(law: Radial, zero: float) -> int:
    """The first octave at which the law has fallen below the floating range."""
    low, high = -_BELOW, _ABOVE
    if law(np.array([2.0**high]))[0] - zero > -_DEPTH:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        there = law(np.array([2.0**middle]))[0] - zero > -_DEPTH
        low, high = (middle, high) if there else (low, middle)
    return high
