"""Round numbers for axes, and numbers for JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Axis:
    """An interval between round numbers, and the round numbers in it."""

    low: float
    high: float
    ticks: list[float]

    def share(self, value: float) -> float:
        """Position of a value, in percent of the axis."""
        return 100 * (value - self.low) / (self.high - self.low)


def axis(values: ArrayLike, most: float = math.inf) -> Axis:
    """An axis that holds all finite values, with four to eight ticks, and nothing above ``most``."""
    finite = np.asarray(values, dtype=float).ravel()
    finite = finite[np.isfinite(finite)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    # Ticks of values that differ only by rounding errors would all read the same.
    least = 1e-3 * max(abs(low), abs(high), 1e-3)
    if high - low < least:
        low, high = low - least, high + least
    step = _step((min(high, most) - low) / 6)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(min(high, most) / step - 1e-9)
    ticks = [round(i * step, 12) for i in range(first, max(last, first + 1) + 1)]
    return Axis(ticks[0], ticks[-1], ticks)


def _step(wanted: float) -> float:
    """The smallest 1, 2 or 5 times a power of ten that is at least as large as wanted."""
    power = 10.0 ** math.floor(math.log10(wanted))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= wanted * (1 - 1e-9))


def plain(values: ArrayLike, digits: int = 4) -> list[float | None]:
    """Numbers rounded to some significant digits; NaN and infinity become None."""
    return [float(f"{v:.{digits}g}") if math.isfinite(v) else None for v in np.ravel(values).tolist()]
