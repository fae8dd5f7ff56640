"""The range of a kernel, measured by the similarity that it gives to distinct points of the data."""

from __future__ import annotations

import copy
import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq

from mercer._arrays import Array
from mercer._validation import check_whole

#: Similarities of a sample of pairs under a kernel.
Similarities = Callable[[Any], Array]

#: Bounds for optimisers: neighbours have the first similarity at one end, far points the second at the
#: other.
_NEARLY_ALONE, _NEARLY_ALIKE = 0.01, 0.999
#: Smallest and largest distance of a bound, in the logarithm of the parameter, and smallest slope of
#: decay.
_LEAST_MARGIN, _MOST_MARGIN, _LEAST_SLOPE = math.log(2), math.log(1e4), 0.1
#: First step of a search, in the logarithm of the parameter, and how often steps may double.
_FIRST_STEP, _DOUBLINGS = 0.25, 10
#: Number of values that a kernel may refuse before a search ends, and smallest change of similarity that
#: counts.
_REFUSALS, _LEVEL = 7, 1e-7
#: Accuracy of the logarithm of the parameter.
_TOLERANCE = 1e-5
#: Deviation from the wanted similarity that rounding the parameter to few digits may cause.
_ROUNDING = 0.01


@dataclass(frozen=True)
class Reach:
    """Normalised similarities of distinct points of a sample: three quantiles."""

    #: Quantiles: the farthest hundredth of pairs, the median, and neighbours.
    far: float
    median: float
    near: float


class Unreachable(ValueError):
    """No value of the range parameter gives the wanted similarity."""


class Survey:
    """Similarities of a sample of pairs, as functions of the range parameter of a kernel.

    Parameters
    ----------
    kernel : Kernel
        With a range parameter.
    X : points
    max_rows : int
        Points in the sample.
    random_state : int
        Seed of the sample.
    """

    def __init__(self, kernel: Any, X: Any, max_rows: int = 1000, random_state: int = 0) -> None:
        self._kernel = kernel.with_floats()
        self._name = kernel.range_parameter()
        rng = np.random.default_rng(random_state)
        self._similarities, points = self._kernel.pair_similarities(X, max_rows, rng)
        self._quantiles = (0.01, 0.5, 1 - 1 / max(points, 2))
        self._seen: dict[float, Reach] = {}

    def kernel(self, value: float) -> Any:
        """The kernel with a value of its range parameter."""
        moved = copy.copy(self._kernel)
        setattr(moved, self._name, value)
        return moved

    def reach(self, value: float) -> Reach:
        """Similarities in the sample under the kernel with this value."""
        if value not in self._seen:
            with np.errstate(all="ignore"):  # results that are not finite raise an error below
                values = self._similarities(self.kernel(value))
            if not np.isfinite(values).all():
                raise ValueError(f"{self.kernel(value)!r} has values that are not finite")
            far, median, near = np.quantile(values, self._quantiles).tolist()
            self._seen[value] = Reach(far, median, near)
        return self._seen[value]

    def find(self, similarity: float) -> float:
        """Value of the range parameter at which the median similarity is the one given."""
        ends = self._enclosed(similarity)
        return math.exp(brentq(self._excess, *ends, args=(similarity,), xtol=_TOLERANCE))

    def find_short(self, similarity: float) -> float:
        """A value of few digits that comes near, so that similar training sets give equal values.

        Each step of the search rounds to one more digit: nearly all values that are tried are tried for
        other training sets too, and profiles are compiled once.
        """
        allowed = _ROUNDING * min(1, 8 * similarity, 8 * (1 - similarity))
        low, high = self._enclosed(similarity)
        for digits in range(1, 6):
            below, above = (self._excess(x, similarity) for x in (low, high))
            x = low if below == above else low + (high - low) * below / (below - above)
            short = float(f"{math.exp(x):.{digits - 1}e}")
            try:
                if abs(self.reach(short).median - similarity) <= allowed:
                    return short
            except (ValueError, ArithmeticError):
                continue  # rounded to a value that the kernel refuses
            x = math.log(short)
            if min(low, high) < x < max(low, high):
                low, high = (low, x) if self._excess(x, similarity) * below <= 0 else (x, high)
        return self.find(similarity)

    def nearest(self, similarity: float) -> float:
        """The first of the values tried so far that comes as near to a similarity as any of them.

        Near a ceiling ever longer ranges gain next to nothing.
        """
        wanted = _decay(similarity)
        gaps = {value: abs(_decay(reach.median) - wanted) for value, reach in self._seen.items()}
        least = min(gaps.values())
        return next(value for value, gap in gaps.items() if gap <= least + _ROUNDING)

    def bounds(self, value: float) -> tuple[float, float]:
        """Bounds for optimisers: from dissimilar neighbours to far points that look alike.

        They are extrapolated along the line that :meth:`find` assumes.
        """
        reach, slope = self.reach(value), self._slope(value)
        down = (_decay(_NEARLY_ALONE) - _decay(reach.near)) / slope
        up = (_decay(reach.far) - _decay(_NEARLY_ALIKE)) / slope
        low, high = (min(max(step, _LEAST_MARGIN), _MOST_MARGIN) for step in (down, up))
        if self._kernel.range_sense < 0:
            low, high = high, low
        return self._accepted(value, -low), self._accepted(value, high)

    def _accepted(self, value: float, step: float) -> float:
        """The value at that distance, or as near to it as the kernel allows."""
        for _ in range(_REFUSALS):
            end = float(f"{value * math.exp(step):.1e}")
            try:
                self.reach(end)
            except (ValueError, ArithmeticError):
                step /= 2
            else:
                return end
        return value

    def _slope(self, value: float) -> float:
        """Derivative of the decay with respect to the logarithm of the parameter, near a value."""
        if len(self._seen) == 1:
            for sign in (1, -1):
                next(self._steps(math.log(value), sign), None)
        other = min((v for v in self._seen if v != value), key=lambda v: abs(math.log(v / value)))
        change = _decay(self.reach(other).median) - _decay(self.reach(value).median)
        return max(abs(change / math.log(other / value)), _LEAST_SLOPE)

    def _start(self) -> float:
        """Logarithm of the first value that the kernel accepts."""
        start, refused = self._kernel.range_start(), None
        for power in (0, -1, -2, -3, -4, -6, -8):
            try:
                self.reach(start * 10.0**power)
            except (ValueError, ArithmeticError) as error:
                refused = refused or error
            else:
                return math.log(start * 10.0**power)
        assert refused is not None
        raise refused

    def _excess(self, x: float, similarity: float) -> float:
        """How far the median at a logarithm of the parameter is above a similarity.

        It is linear in x if similarities are ``exp(-c / p^a)``, as they roughly are for these kernels.
        """
        return _decay(similarity) - _decay(self.reach(math.exp(x)).median)

    def _enclosed(self, similarity: float) -> tuple[float, float]:
        """Two logarithms of the parameter that enclose a similarity."""
        start = self._start()
        first = self._excess(start, similarity)
        if first == 0:
            return start, start
        # Similarities are nearly always monotonic in the parameter; try the other direction otherwise.
        likely = self._kernel.range_sense * (1 if first < 0 else -1)
        for sign in (likely, -likely):
            before = start
            for x in self._steps(start, sign):
                if self._excess(x, similarity) * first <= 0:
                    return before, x
                before = x
        least, most = (f(r.median for r in self._seen.values()) for f in (min, max))
        remedy = f"ask for one in between, such as {(least + most) / 2:.2g}"
        if max(reach.near for reach in self._seen.values()) < _NEARLY_ALONE:
            remedy = "even neighbours look unlike at every value, so use another kernel"
        raise Unreachable(
            f"similarity {similarity:g} cannot be reached by {self._name} of "
            f"{type(self._kernel).__name__} on these points: their median similarity stays between "
            f"{least:.4g} and {most:.4g}; {remedy}"
        )

    def _steps(self, start: float, sign: int) -> Any:
        """Values at growing distances, as long as the kernel accepts them."""
        step, refused, x = _FIRST_STEP, 0, start
        median = self.reach(math.exp(x)).median
        while step <= _FIRST_STEP * 2**_DOUBLINGS and refused < _REFUSALS:
            before = median
            try:
                median = self.reach(math.exp(x + sign * step)).median
            except (ValueError, ArithmeticError):
                refused += 1
                step /= 4
                continue
            x += sign * step
            yield x
            step *= 1 if refused else 2
            if abs(median - before) < _LEVEL and _LEVEL < median < 1 - _LEVEL:
                return  # the similarity no longer changes


def _decay(similarity: float) -> float:
    """``log(-log s)``, with s kept away from 0 and 1."""
    return math.log(-math.log(min(max(similarity, 1e-300), 1 - 1e-15)))


def scaled(kernel: Any, X: Any, similarity: Any, max_rows: Any, random_state: int) -> Any:
    """A copy of a kernel with the given median similarity, and bounds for optimisers around it."""
    similarity, max_rows = check_similarity(similarity), check_max_rows(max_rows)
    survey = Survey(kernel, X, max_rows, random_state)
    value = survey.find(similarity)
    found = survey.kernel(value)
    name = f"{kernel.range_parameter()}_bounds"
    if not isinstance(getattr(found, name), str):
        setattr(found, name, survey.bounds(value))
    return found


def check_similarity(similarity: Any, name: str = "similarity") -> float:
    """Return a similarity as a float; raise unless it lies between 0 and 1."""
    number = isinstance(similarity, numbers.Real) or getattr(similarity, "shape", None) == ()
    value = float(similarity) if number else math.nan
    if not 0 < value < 1:
        raise ValueError(f"{name} must be a number between 0 and 1, got {similarity!r}")
    return value


def check_max_rows(max_rows: Any) -> int:
    """Return the size of a sample; raise unless it is at least 2."""
    check_whole("max_rows", max_rows, 2)
    return int(max_rows)
