"""One polynomial in place of a table, where a profile is smooth enough on its whole range."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.polynomial import chebyshev, polynomial
from numpy.typing import NDArray

from mercer.profiles.profile import Profile, Separation, TableProfile

Array = NDArray[np.float64]

#: Largest degree in single and in double precision: beyond it, looking up a table is cheaper.
MOST = {np.dtype(np.float32): 16, np.dtype(np.float64): 28}
#: Error that is allowed, relative to the largest value.
ALLOWED = {np.dtype(np.float32): 3e-8, np.dtype(np.float64): 1e-14}
#: Points of the fit, and of the check.
_NODES, _CHECKS = 64, 1001


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
        Values of x are held between this and 1: nothing is extrapolated.
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
    root: bool = False
    exponential: bool = False
    separation: Separation = "folded"
    floor: float = -np.inf
    error: float = 0.0

    @property
    def degree(self) -> int:
        """Degree of the polynomial."""
        return len(self.coefficients) - 1

    def evaluate(self, w: Array) -> Array:
        """Values at invariants, by Horner's scheme."""
        argument = w
        if self.root:
            u = w if self.separation == "invariant" else 1.0 - w
            argument = np.sqrt(np.maximum(u, 0.0))
        x = np.clip(argument * self.scale + self.shift, self.least, 1.0)
        value = np.asarray(polynomial.polyval(x, self.coefficients), dtype=float)
        return np.maximum(np.exp(value) if self.exponential else value, self.floor)


@lru_cache(maxsize=256)
def as_polynomial(profile: Profile, dtype: np.dtype) -> Polynomial | None:
    """Return the cheapest polynomial that gives a profile to the precision of a type; None if none does.

    Its range is that of the invariant: no value is extrapolated.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Heat, Matern
    >>> from mercer.profiles.polynomial import as_polynomial
    >>> from mercer.spaces import Sphere
    >>> as_polynomial(Heat(Sphere()).profile(50), np.dtype(np.float32)).degree < 10
    True
    >>> as_polynomial(Matern(Sphere(), nu=0.5).profile(3), np.dtype(np.float32)).root
    True
    """
    if not isinstance(profile, TableProfile):
        return None
    low, high = _range(profile)
    for exponential in (False, True):
        for root in (False, True):
            found = _Fit(profile, low, high, root, exponential).polynomial(dtype)
            if found is not None:
                return found
    return None


def _range(profile: TableProfile) -> tuple[float, float]:
    """Range of the invariant."""
    width = 2.0**profile.pieces.top
    return {"invariant": (0.0, width), "one-sided": (1.0 - width, 1.0), "folded": (-1.0, 1.0)}[
        profile.separation
    ]


@dataclass(frozen=True)
class _Fit:
    """A fit of one form; arguments as in :class:`Polynomial`."""

    profile: TableProfile
    low: float
    high: float
    root: bool
    exponential: bool

    def polynomial(self, dtype: np.dtype) -> Polynomial | None:
        """The polynomial of least degree, checked against the profile; None if none is good enough."""
        nodes = np.cos(np.pi * (np.arange(_NODES) + 0.5) / _NODES)
        found, largest = self._values(self._invariants(nodes))
        if found is None or not self._ends_well(found, largest):
            return None
        c = 2.0 / _NODES * chebyshev.chebvander(nodes, _NODES - 1).T @ found
        c[0] /= 2.0
        heavy = np.flatnonzero(np.abs(c) > ALLOWED[dtype] * largest / 2)
        degree = int(heavy[-1]) if heavy.size else 0
        if degree > MOST[dtype]:
            return None
        return self._checked(np.asarray(chebyshev.cheb2poly(c[: degree + 1]), float), largest, dtype)

    def _values(self, w: Array) -> tuple[Array | None, float]:
        """Values to fit, and the size that their errors are relative to; None without a logarithm."""
        if not self.exponential:
            found = _applied(self.profile, w)
            return found, float(np.abs(found).max())
        if self.profile.logarithmic:
            return _applied(self.profile.without_exponential, w), 1.0
        found = _applied(self.profile, w)
        return (np.log(found) if found.min() > 0.0 else None), 1.0

    def _ends_well(self, found: Array, largest: float) -> bool:
        """Tell whether the value at the end of the range serves beyond it, if the invariant goes on."""
        beyond = self.profile.pieces.beyond
        if beyond is None:
            return True
        if self.profile.logarithmic and not self.exponential:
            return False
        return min(found[0], found[-1]) < -800.0 if self.exponential else False

    def _invariants(self, x: Array) -> Array:
        """Invariants from arguments in [-1, 1]."""
        share = (x + 1.0) / 2.0
        if not self.root:
            return self.low + (self.high - self.low) * share
        u = (self.high - self.low) * share**2
        return u if self.profile.separation == "invariant" else 1.0 - u

    def _checked(self, coefficients: Array, largest: float, dtype: np.dtype) -> Polynomial | None:
        low, high = (0.0, np.sqrt(self.high - self.low)) if self.root else (self.low, self.high)
        scale, least = 2.0 / (high - low), -1.0
        shift = -1.0 - scale * low
        if self.exponential:
            # About equal points, where the value is largest: there rounding is least.
            near = low if self.root or self.profile.separation == "invariant" else high
            scale, least = 1.0 / (high - low) if near == low else 1.0 / (low - high), 0.0
            shift = -scale * near
            flipped = 1.0 if near == low else -1.0
            moved = polynomial.Polynomial(coefficients)(polynomial.Polynomial([-flipped, 2 * flipped]))
            coefficients = np.asarray(moved.coef, dtype=float)
        found = Polynomial(
            coefficients, scale, shift, least, self.root, self.exponential, self.profile.separation,
            self.profile.floor,
        )  # fmt: skip
        w = self._invariants(np.linspace(-1.0, 1.0, _CHECKS))
        expected = _applied(self.profile, w)
        size = np.abs(expected).max()
        error = np.abs(found.evaluate(w) - expected).max() / size
        # Rounding of Horner's scheme is part of the error.
        x = np.linspace(least, 1.0, _CHECKS)
        terms = polynomial.polyval(np.abs(x), np.abs(coefficients))
        if self.exponential:
            terms *= np.exp(polynomial.polyval(x, coefficients))
        rounding = np.finfo(dtype).eps * terms.max() / size
        if error > 4 * ALLOWED[dtype] or rounding > 32 * np.finfo(dtype).eps:
            return None
        # What was seen between the points of the fit, twice: others may lie in between.
        return replace(found, error=float(2 * error + 2 * rounding))


def _applied(profile: Profile, w: Array) -> Array:
    """Values of a profile."""
    tile = w[None, :].copy()
    profile.apply(tile)
    return tile[0]
