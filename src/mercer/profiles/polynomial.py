"""One polynomial instead of a table, if a profile is smooth enough on the range that occurs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace
from numpy.polynomial import polynomial
from numpy.typing import NDArray

from mercer._arrays import Array, aligned, in_lines, line_of

Separation = Literal["invariant", "one-sided", "folded"]

#: Largest degree in single and in double precision: beyond it, looking up a table is cheaper.
MOST = {np.dtype(np.float32): 16, np.dtype(np.float64): 28}
#: Products of a row at a time: the longer, the faster results are written, but beyond some coordinates
#: the columns would not stay in cache.
_LINE, _FEW, _SHORT_LINE = 2048, 16, 512
#: Logarithms below this are those of zero, and smaller values are as good as zero.
_NOTHING, _LEAST = -800.0, 1e-290
#: Values from this share of the largest on are of the same size as it.
_SAME_SIZE = 0.1
#: Values whose logarithms are too noisy to be fitted, relative to the largest.
_NOISE = 1e-10
#: Points of the fit, and what takes values there to Chebyshev coefficients.
_NODES = 64
_ODD = 2 * np.arange(_NODES) + 1
_AT = np.cos(np.pi * _ODD / (2 * _NODES))
# Angles are reduced while they are whole numbers: large ones would cost digits.
_FIT = 2.0 / _NODES * np.cos(np.pi * (np.outer(np.arange(_NODES), _ODD) % (4 * _NODES)) / (2 * _NODES))
_FIT[0] /= 2.0
#: Row k: monomial coefficients of the k-th Chebyshev polynomial, by its recurrence.
_MONOMIALS = np.eye(1 + max(MOST.values()))
for _k in range(2, len(_MONOMIALS)):
    _MONOMIALS[_k] = 2.0 * np.roll(_MONOMIALS[_k - 1], 1) - _MONOMIALS[_k - 2]
#: Points at which rounding is looked at, and what it may be in units of the last place.
_ROUNDINGS, _ULPS = np.linspace(0.0, 1.0, 101), 32


@dataclass(frozen=True, eq=False)
class Polynomial:
    """A profile as ``p(x)``, or its exponential, where ``x = scale * argument + shift``.

    Attributes
    ----------
    coefficients : array of shape (degree + 1,)
        Of p, lowest first.
    scale, shift : float
        The argument is the invariant, or the square root of the separation.
    least : float
        Values of x lie between this and 1.
    bounded : bool
        Whether invariants see to that.  Else x is held there: nothing is extrapolated.
    own : float
        The exact value at equal points.
    root : bool
        Whether the argument is the root: of ``1 - w``, or of w where that is the separation.
    exponential : bool
    separation : {"invariant", "one-sided", "folded"}
    floor : float
        No value is below it; minus infinity where the polynomial sees to that.
    error : float
        Bound of the difference to the profile, relative to its largest value.
    """

    coefficients: Array
    scale: float
    shift: float
    least: float
    bounded: bool
    own: float
    root: bool
    exponential: bool
    separation: Separation
    floor: float
    error: float = 0.0

    @property
    def degree(self) -> int:
        """Degree of the polynomial."""
        return len(self.coefficients) - 1

    @property
    def largest(self) -> float:
        """Largest magnitude of the values, as seen on a grid."""
        x = self.least + (1.0 - self.least) * _ROUNDINGS
        values = polynomial.polyval(x, self.coefficients)
        with np.errstate(over="ignore"):
            values = np.exp(values) if self.exponential else values
        return max(float(np.abs(values).max()), abs(self.own))

    def apply(self, tile: NDArray[Any], out: NDArray[Any] | None = None) -> None:
        """Replace the invariants in a tile by values, in place or in another array."""
        from mercer.compiled.profiles import polynomial_loop

        single = tile.dtype == np.float32
        loop = polynomial_loop(self.degree, self.root, self.exponential, self.separation, single)
        in_lines(loop, tile, out, self._single if single else self._double)

    def apply_to_products(self, left: Any, right: Any, begin: int, out: NDArray[Any]) -> None:
        """Write the values at products of rows with columns from one on, of a multiple of four terms."""
        from mercer.compiled.profiles import polynomial_loop

        single = out.dtype == np.float32
        loop = polynomial_loop(self.degree, self.root, self.exponential, self.separation, single, True)
        arguments = self._single if single else self._double
        line = _LINE if len(right) <= _FEW else _SHORT_LINE
        few = aligned(4, min(line, out.shape[1]), out.dtype)
        loop(*line_of(few), *line_of(out), *out.shape, *arguments, left, right, begin)

    def evaluate(self, w: Any) -> Any:
        """Values at an array of invariants, of any array-API library."""
        xp = array_namespace(w)
        u = w if self.separation == "invariant" else 1.0 - w
        x = xp.sqrt(xp.where(u > 0.0, u, xp.zeros_like(u))) if self.root else w
        x = xp.clip(x * self.scale + self.shift, self.least, 1.0)
        value = xp.full_like(x, self.coefficients[-1])
        for c in self.coefficients[-2::-1].tolist():
            value = value * x + c
        if self.exponential:
            value = xp.exp(value)
        value = xp.where(value < self.floor, xp.full_like(value, self.floor), value)
        return xp.where(u <= 0.0, xp.full_like(value, self.own), value)

    @cached_property
    def _double(self) -> tuple[Any, ...]:
        """Arguments of the loop in double precision."""
        return self._arguments(np.float64)

    @cached_property
    def _single(self) -> tuple[Any, ...]:
        """Arguments of the loop in single precision."""
        return self._arguments(np.float32)

    def _arguments(self, real: type) -> tuple[Any, ...]:
        """What the loop takes, without what does nothing."""
        line = None if (self.scale, self.shift) == (1.0, 0.0) else (real(self.scale), real(self.shift))
        least = None if self.bounded else real(self.least)
        floor = None if self.floor == -np.inf else real(self.floor)
        return tuple(map(real, self.coefficients)), line, least, real(self.own), floor


@dataclass(frozen=True, eq=False)
class Smooth:
    """A profile on a range, as values to fit.

    Parameters
    ----------
    values : callable
        From invariants to values.
    logarithms : callable or None
        From invariants to logarithms of the values, where these are what is known.
    low, high : float
        Range of the invariant.
    bounded : bool
        Whether the range is all that occurs.
    checks, allowed : arrays of shape (k,)
        Invariants at which polynomials are checked, wherever the profile changes, and the errors that
        are allowed there.
    separation : {"invariant", "one-sided", "folded"}
    own : float
        Value at equal points.
    floor : float
        No value is below it.
    step : int
        The degree is a multiple of it: a loop is compiled for each degree.
    """

    values: Callable[[Array], Array]
    logarithms: Callable[[Array], Array] | None
    low: float
    high: float
    bounded: bool
    checks: Array
    allowed: Array
    separation: Separation
    own: float
    floor: float
    step: int

    def polynomial(self, dtype: np.dtype) -> Polynomial | None:
        """Return the cheapest polynomial whose errors are allowed; None if there is none."""
        expected = self.values(self.checks)
        if not np.all(np.isfinite(expected)):
            return None
        for exponential in (False, True):
            for root in (False, True):
                found = self._fitted(root, exponential, dtype, expected)
                if found is not None:
                    return found
        return None

    def _fitted(
        self, root: bool, exponential: bool, dtype: np.dtype, expected: Array
    ) -> Polynomial | None:
        """The polynomial of least degree of one form; None if none is good enough."""
        if root and not self._reaches_equal_points:
            return None
        values = self._to_fit(self._invariants(_AT, root), exponential)
        if values is None:
            return None
        c = _FIT @ values
        enough = self.allowed
        if exponential:
            c[np.abs(c) <= 2 * np.finfo(float).eps * np.abs(c).max()] = 0.0
            enough = enough / np.maximum(np.abs(expected), _LEAST)
        # Degrees that leave out too much need no closer look.
        last = np.flatnonzero(np.abs(c) > enough.max())
        first = int(last[-1]) if last.size else 0
        for degree in range(first + -first % self.step, MOST[dtype] + 1, self.step):
            monomials = c[: degree + 1] @ _MONOMIALS[: degree + 1, : degree + 1]
            found = self._checked(self._placed(monomials, root, exponential), dtype, expected)
            if found is not None:
                return found
        return None

    @property
    def _reaches_equal_points(self) -> bool:
        return self.low == 0.0 if self.separation == "invariant" else self.high == 1.0

    def _to_fit(self, w: Array, exponential: bool) -> Array | None:
        """Values or logarithms; None if there are none, or if they do not serve beyond the range."""
        if not exponential:
            if not self.bounded:
                return None
            values = self.values(w)
            # Rounding of sums is relative to the largest value, not to each.
            same_size = self.logarithms is None or values.min() > _SAME_SIZE * values.max()
            return values if same_size else None
        if self.logarithms is not None:
            found = self.logarithms(w)
        else:
            values = self.values(w)
            if values.min() <= _NOISE * max(self.own, values.max()):
                return None
            found = np.log(values)
        return found if self.bounded or min(found[0], found[-1]) < _NOTHING else None

    def _invariants(self, x: Array, root: bool) -> Array:
        """Invariants from arguments in [-1, 1]."""
        share = (x + 1.0) / 2.0
        if not root:
            return self.low + (self.high - self.low) * share
        u = (self.high - self.low) * share**2
        return u if self.separation == "invariant" else 1.0 - u

    def _placed(self, coefficients: Array, root: bool, exponential: bool) -> Polynomial:
        """A polynomial on [-1, 1]; an exponential on [0, 1], from equal points on."""
        low, high = (0.0, float(np.sqrt(self.high - self.low))) if root else (self.low, self.high)
        near_low = root or self.separation == "invariant"
        scale, shift, least = 2.0 / (high - low), -(high + low) / (high - low), -1.0
        if exponential:
            # Rounding is least where the argument is zero, and there the value is largest.
            sign = 1.0 if near_low else -1.0
            moved = polynomial.Polynomial(coefficients)(polynomial.Polynomial([-sign, 2 * sign]))
            coefficients = np.asarray(moved.coef, dtype=float)
            scale, shift = sign / (high - low), -sign * (low if near_low else high) / (high - low)
            least = 0.0
            if self._reaches_equal_points and self.own > 0.0:
                coefficients[0] = np.log(self.own)
        padding = -(len(coefficients) - 1) % self.step
        return Polynomial(
            np.pad(coefficients, (0, padding)), scale, shift, least, self.bounded, self.own, root,
            exponential, self.separation, self.floor,
        )  # fmt: skip

    def _checked(self, found: Polynomial, dtype: np.dtype, expected: Array) -> Polynomial | None:
        """The polynomial with its error; None if that is too large."""
        with np.errstate(over="ignore"):  # of exponentials that are far off
            error = np.abs(found.evaluate(self.checks) - expected)
        if not np.all(error <= self.allowed):
            return None
        # Rounding of Horner's scheme is part of the error.
        x = found.least + (1.0 - found.least) * _ROUNDINGS
        terms = polynomial.polyval(np.abs(x), np.abs(found.coefficients))
        if found.exponential:
            terms = terms * np.exp(polynomial.polyval(x, found.coefficients))
        largest = max(float(np.abs(expected).max()), abs(self.own))
        ulps = float(np.max(terms) / largest) if largest else np.inf
        if not ulps <= _ULPS:
            return None
        # Twice what was seen: there are points in between.
        bound = 2 * float(error.max() / largest + np.finfo(dtype).eps * ulps)
        lowest = 0.0 if found.exponential else float(expected.min()) - bound * largest
        return replace(found, error=bound, floor=-np.inf if lowest >= self.floor else self.floor)
