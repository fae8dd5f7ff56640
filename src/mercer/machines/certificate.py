"""Bounds on the objective that a machine without landmarks would reach."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Of a machine whose kernel is not positive semidefinite.
NO_CERTIFICATE = "none: the Gram matrix has negative eigenvalues"
_WORDS = {
    "safe": "more landmarks would improve the objective by at most {} %",
    "sampled": "more landmarks would improve the objective by at most about {} % (standard error {} %)",
    "exact": "more landmarks would improve the objective by at most {} %, by a product with all rows",
}
#: In place of them, where the bound is that no objective is negative.
_NOTHING = {
    "safe": "no bound from the sums over rows alone; certify(X, y) computes one",
    "sampled": "no bound with so few landmarks; raise n_landmarks or alpha",
}


@dataclass(frozen=True)
class Certificate:
    """A bracket around the objective that a machine without landmarks would reach.

    Attributes
    ----------
    grade : "safe", "sampled" or "exact"
        From sums over rows alone; from products at a sample of rows; from the product with all rows.
    upper : float
        The objective that was reached.
    lower : float
        No function of the kernel's space has a smaller objective.  If sampled, an estimate of such a
        bound.
    standard_error : float
        Of ``lower``; zero unless sampled.
    """

    grade: str
    upper: float
    lower: float
    standard_error: float = 0.0

    @property
    def improvement(self) -> float:
        """Largest relative improvement of the objective by more landmarks."""
        return (self.upper - self.lower) / self.upper if self.upper > 0 else 0.0

    def __str__(self) -> str:
        error = 100 * self.standard_error / self.upper if self.upper > 0 else 0.0
        shown = (f"{float(rounded_up(percent)):g}" for percent in (100 * self.improvement, error))
        improvement, spread = shown
        if improvement == "100":
            return _NOTHING.get(self.grade, _NOTHING["sampled"])
        return _WORDS[self.grade].format(improvement, spread)


@dataclass(frozen=True)
class DualObjective:
    """A dual objective along a ray, ``D(s) = s linear - s^2 (square + factor e)``, of each output.

    ``e = a'(K - Khat) a`` is the part that landmarks omit, for dual coefficients a such that s a is
    feasible for all s in [0, 1].  D(s) is a lower bound on the exact objective for every such s; the
    best one is taken.

    Parameters
    ----------
    reached : array of shape (q,)
        Objective that was reached, of each output.
    linear, square : arrays of shape (q,)
    factor : float
    """

    reached: Array
    linear: Array
    square: Array
    factor: float

    def certificate(self, grade: str, left_out: Array, errors: Array | float = 0.0) -> Certificate:
        """The bracket for given omitted parts and their standard errors."""
        square = self.square + self.factor * np.maximum(left_out, 0.0)
        step = np.minimum(1.0, 0.5 * self.linear / np.maximum(square, 1e-300))
        lower = np.maximum(step * self.linear - step**2 * square, 0.0)
        spread = math.sqrt(float(np.sum((step**2 * self.factor * errors) ** 2)))
        upper = float(self.reached.sum())
        return Certificate(grade, upper, min(float(lower.sum()), upper), spread)


def rounded_up(bound: float) -> str:
    """A bound in one digit, rounded up."""
    if not 0 < bound < math.inf:
        return f"{bound:g}"
    unit = 10.0 ** math.floor(math.log10(bound))
    return f"{math.ceil(bound / unit) * unit:.1g}"
