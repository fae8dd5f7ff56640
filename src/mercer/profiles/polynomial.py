"""One polynomial in place of a table, where a profile is smooth enough on its whole range."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace
from numpy.polynomial import chebyshev, polynomial
from numpy.typing import NDArray

Array = NDArray[np.float64]
Separation = Literal["invariant", "one-sided", "folded"]

#: Largest degree in single and in double precision: beyond it, looking up a table is cheaper.
MOST = {np.dtype(np.float32): 16, np.dtype(np.float64): 28}
#: Error that is allowed, relative to the largest value.
ALLOWED = {np.dtype(np.float32): 3e-8, np.dtype(np.float64): 1e-14}
#: Loops are compiled for multiples of this degree.
DEGREES = 4
#: Logarithms below this are those of zero.
_NOTHING = -800.0
#: Smaller values are as good as zero.
_LEAST = 1e-290
#: Points of the fit, and those at which rounding is looked at.
_NODES, _ROUNDINGS = 64, 201


@dataclass(frozen=True, eq=False)
class Polynomial:
    """A profile as ``p(x)``, or its exponential, where ``x = scale * argument + shift``.

    Attributes
    ----------
    coefficients : array of shape (degree + 1,)
        Of p, lowest first.  The degree is a multiple of 4.
    scale, shift : float
        The argument is the invariant, or the square root of the separation.
    least : float
        Values of x are held between this and 1: nothing is extrapolated.
    end, own : float
        The x of equal points, and the exact value there.
    root : bool
        Whether the argument is the root: of ``1 - w``, or of w where that is the separation.
    exponential : bool
    separation : {"invariant", "one-sided", "folded"}
    floor : float
        No value is below it.
    error : float
        Bound of the difference to the profile, relative to its largest value.
    """

    coefficients: Array
    scale: float
    shift: float
    least: float
    end: float
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

    def apply(self, tile: NDArray[Any]) -> None:
        """Replace the invariants in a tile by values, in place."""
        from mercer.compiled.radial import polynomial_loop

        single = tile.dtype == np.float32
        loop = polynomial_loop(self.degree, self.root, self.exponential, self.separation, single)
        loop(tile, *(self._single if single else self._double))

    def evaluate(self, w: Any) -> Any:
        """Values at an array of invariants, of any array-API library."""
        xp = array_namespace(w)
        x = w
        if self.root:
            u = w if self.separation == "invariant" else 1.0 - w
            x = xp.sqrt(xp.where(u > 0.0, u, xp.zeros_like(u)))
        x = xp.clip(x * self.scale + self.shift, self.least, 1.0)
        value = xp.full_like(x, self.coefficients[-1])
        for c in self.coefficients[-2::-1].tolist():
            value = value * x + c
        if self.exponential:
            value = xp.exp(value)
        value = xp.where(value < self.floor, xp.full_like(value, self.floor), value)
        return xp.where(x == self.end, xp.full_like(value, self.own), value)

    @cached_property
    def _double(self) -> tuple[Any, ...]:
        """Arguments of the loop in double precision."""
        return self._arguments(np.float64)

    @cached_property
    def _single(self) -> tuple[Any, ...]:
        """Arguments of the loop in single precision."""
        return self._arguments(np.float32)

    def _arguments(self, real: type) -> tuple[Any, ...]:
        numbers = (self.scale, self.shift, self.least, self.end, self.own, self.floor)
        return tuple(map(real, self.coefficients)), *map(real, numbers)


@dataclass(frozen=True, eq=False)
class Smooth:
    """A profile on its range, as values to fit.

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
    checks, sizes : arrays of shape (k,)
        Invariants at which polynomials are checked, wherever the profile changes, and the sizes that
        errors there are relative to.
    separation : {"invariant", "one-sided", "folded"}
    floor : float
        No value is below it.
    """

    values: Callable[[Array], Array]
    logarithms: Callable[[Array], Array] | None
    low: float
    high: float
    bounded: bool
    checks: Array
    sizes: Array
    separation: Separation
    floor: float

    def polynomial(self, dtype: np.dtype) -> Polynomial | None:
        """Return the cheapest polynomial that has the precision of a type; None if none has."""
        for exponential in (False, True):
            for root in (False, True):
                found = self._fitted(root, exponential, dtype)
                if found is not None:
                    return found
        return None

    def _fitted(self, root: bool, exponential: bool, dtype: np.dtype) -> Polynomial | None:
        """The polynomial of least degree of one form, checked; None if it is not good enough."""
        nodes = np.cos(np.pi * (np.arange(_NODES) + 0.5) / _NODES)
        found = self._to_fit(self._invariants(nodes, root), exponential)
        if found is None:
            return None
        largest = 1.0 if exponential else float(np.abs(found).max())
        c = 2.0 / _NODES * chebyshev.chebvander(nodes, _NODES - 1).T @ found
        c[0] /= 2.0
        heavy = np.flatnonzero(np.abs(c) > ALLOWED[dtype] * largest / 2)
        degree = int(heavy[-1]) if heavy.size else 0
        if degree > MOST[dtype]:
            return None
        coefficients = np.asarray(chebyshev.cheb2poly(c[: degree + 1]), dtype=float)
        return self._checked(self._placed(coefficients, root, exponential), dtype)

    def _to_fit(self, w: Array, exponential: bool) -> Array | None:
        """Values or logarithms; None if there are none, or if they do not serve beyond the range."""
        if not exponential:
            return self.values(w) if self.bounded and self.logarithms is None else None
        if self.logarithms is not None:
            found = self.logarithms(w)
        else:
            values = self.values(w)
            if values.min() <= 0.0:
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
        scale, shift, least, end = 2.0 / (high - low), -(high + low) / (high - low), -1.0, 1.0
        if near_low:
            end = -1.0
        if exponential:
            # Rounding is least where the argument is zero, and there the value is largest.
            sign = 1.0 if near_low else -1.0
            moved = polynomial.Polynomial(coefficients)(polynomial.Polynomial([-sign, 2 * sign]))
            coefficients = np.asarray(moved.coef, dtype=float)
            scale, shift = sign / (high - low), -sign * (low if near_low else high) / (high - low)
            least, end = 0.0, 0.0
        padding = -(len(coefficients) - 1) % DEGREES
        own = self.low if self.separation == "invariant" else 1.0
        return Polynomial(
            np.pad(coefficients, (0, padding)), scale, shift, least, end,
            float(self.values(np.array([own]))[0]), root, exponential, self.separation, self.floor,
        )  # fmt: skip

    def _checked(self, found: Polynomial, dtype: np.dtype) -> Polynomial | None:
        """The polynomial with its error; None if that is too large."""
        expected, values = self.values(self.checks), self.checks[None, :].copy()
        found.apply(values)
        # Where a logarithm is known, each value is good to its own size, unless it underflows.
        sizes = self.sizes if self.logarithms is None else np.maximum(np.abs(expected), _LEAST)
        largest = float(np.abs(expected).max())
        if largest == 0.0 or sizes.min() == 0.0:
            return None
        error = float((np.abs(values[0] - expected) / sizes).max())
        # Rounding of Horner's scheme is part of the error.
        x = np.linspace(found.least, 1.0, _ROUNDINGS)
        terms = polynomial.polyval(np.abs(x), np.abs(found.coefficients))
        if found.exponential:
            terms = terms * np.exp(polynomial.polyval(x, found.coefficients))
        rounding = float(np.finfo(dtype).eps * np.max(terms) / largest)
        if error > 4 * ALLOWED[dtype] or rounding > 32 * np.finfo(dtype).eps:
            return None
        # Twice what was seen: there are points in between.
        return replace(found, error=2 * error + 2 * rounding)
