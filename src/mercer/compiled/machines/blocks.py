"""Gains from moving the coefficients of a large program."""

from __future__ import annotations

import numpy as np

from mercer.compiled.jit import jit


@jit()
def gains(p, values, b, lower, upper, epsilon, chosen):
    """Slopes of the objective when coefficients rise and when they fall; -inf where they cannot.

    Coefficients that are already chosen get -inf too.
    """
    rising, falling = np.empty(p.size), np.empty(p.size)
    for i in range(p.size):
        slope = p[i] - values[i]
        rises, falls = not chosen[i] and b[i] < upper[i], not chosen[i] and b[i] > lower[i]
        rising[i] = slope + (-epsilon if b[i] >= 0 else epsilon) if rises else -np.inf
        falling[i] = -slope - (-epsilon if b[i] > 0 else epsilon) if falls else -np.inf
    return rising, falling
