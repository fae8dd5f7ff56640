"""Bounds on the objective that a machine without landmarks would reach."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

Array = NDArray[np.float64]

#: Probability that a sampled bound holds.
CONFIDENCE = 0.95

#: Of a machine whose kernel is not positive semidefinite.
NO_CERTIFICATE = "none: the Gram matrix has negative eigenvalues"
_WORDS = {
    "safe": "more landmarks would improve the objective by at most {} %",
    "sampled": "more landmarks would improve the objective by at most {} %, with 95 % confidence from a "
    "sample (standard error {} %)",
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
        No function of the kernel's space has a smaller objective; if sampled, with 95 % confidence.
        NaN if the Gram matrix has negative eigenvalues, so that nothing is known.
    standard_error : float
        Standard error of the estimate that a sampled ``lower`` is based on, otherwise zero.
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
        if math.isnan(self.lower):
            return NO_CERTIFICATE
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

    def bound(self, left_out: Array | float = 0.0) -> Array:
        """The largest D for given omitted parts; no objective is negative."""
        step, square = self._best(left_out)
        return np.maximum(step * self.linear - step**2 * square, 0.0)

    def certificate(self, grade: str, left_out: Array) -> Certificate:
        """The bracket for given omitted parts."""
        upper = float(self.reached.sum())
        return Certificate(grade, upper, min(float(self.bound(left_out).sum()), upper))

    def sampled(self, parts: SampledSum, least: float) -> Certificate:
        """The bracket for omitted parts that are estimated; the bound is at least ``least``.

        For given steps D is linear in the omitted parts of all outputs, hence in one sum over rows.
        Steps are those of upper limits of each.
        """
        step, _ = self._best(parts.upper_limit)
        both = parts.of(step**2 * self.factor)
        certain = float((step * self.linear - step**2 * self.square).sum())
        upper, error = float(self.reached.sum()), float(both.standard_error[0])
        lower = certain - max(float(both.upper_limit[0]), 0.0)
        return Certificate("sampled", upper, min(max(lower, least), upper), error)

    def _best(self, left_out: Array | float) -> tuple[Array, Array]:
        """The best s for given omitted parts, and the factor of its square in D."""
        square = self.square + self.factor * np.maximum(left_out, 0.0)
        return np.minimum(1.0, 0.5 * self.linear / np.maximum(square, 1e-300)), square


@dataclass(frozen=True, eq=False)
class SampledSum:
    """Estimates of sums over rows from draws with replacement and unequal chances.

    A draw of a row with chance p and term t estimates the sum by ``t / p``; the mean of the draws is
    unbiased (Hansen and Hurwitz 1943).

    Parameters
    ----------
    terms : array of shape (n, q)
    chances : array of shape (n,)
    """

    terms: Array
    chances: Array

    def of(self, factors: Array) -> SampledSum:
        """The sum of all columns, multiplied by factors."""
        return replace(self, terms=(self.terms @ factors)[:, None])

    @property
    def estimate(self) -> Array:
        """Estimates, shape (q,)."""
        return np.asarray((self.terms / self.chances[:, None]).mean(axis=0))

    @property
    def standard_error(self) -> Array:
        """Standard errors of the estimates."""
        spread = (self.terms / self.chances[:, None]).std(axis=0, ddof=1)
        return np.asarray(spread / math.sqrt(len(self.terms)))

    @property
    def upper_limit(self) -> Array:
        """Upper limits of the sums, each with 95 % confidence, by Student's distribution."""
        quantile = float(stdtrit(len(self.terms) - 1, CONFIDENCE))
        return self.estimate + quantile * self.standard_error


def rounded_up(bound: float) -> str:
    """A bound in one digit, rounded up."""
    if not 0 < bound < math.inf:
        return f"{bound:g}"
    unit = 10.0 ** math.floor(math.log10(bound))
    return f"{math.ceil(bound / unit) * unit:.1g}"
