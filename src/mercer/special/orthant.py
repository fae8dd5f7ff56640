"""Functions of an angle as sums of exponentials, whose averages over signs are products.

The heat kernels of the positive orthant of S^(n-1) are averages of a zonal function f:

* reflecting: over signs, ``E f(e_1 a_1 + ... + e_n a_n)`` with ``a_i = x_i y_i``, f the heat kernel of
  S^(n-1), since the orthant is a fundamental domain of the 2^n reflections;
* absorbing: the signed average is the n-th difference of f, hence ``prod_i a_i`` times
  ``E f^(n)(u_1 a_1 + ... + u_n a_n)`` with u_i uniform on [-1, 1].  The n-th derivative of a Gegenbauer
  series of S^(n-1) is one of S^(3n-1), with the eigenvalues shifted by ``2 n (n - 1)``.  Nothing
  cancels: all terms are positive.

Both are one product over the coordinates for ``f(w) = exp(z w)``, of ``cosh(z a_i)`` or of
``sinh(z a_i) / (z a_i)``.  Exponentials on a line ``z = s + i b`` through the slope s of log f at w = 1
follow f down its tail, so that a few of them represent it to a rounding, relative to ``exp(s w)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mercer._threads import blas_in_one_thread

Array = NDArray[np.float64]
#: From w in [0, 1] and a logarithm of the unit at each w to the even part of a function, in that unit.
Scaled = Callable[[Array, Array], Array]

#: Numbers of exponentials that are tried.
_SIZES = (6, 8, 12, 16, 24, 32, 64)
#: Period of the exponentials in lengths of the interval: longer, so that they need not meet at the ends.
_PERIOD = 1.5
#: Where exp() of minus this has fallen to, nothing is left in doubles.
_GONE = 45.0
#: An error that is as good as none, unless the rounding of s w is more; and one too large to go on with.
_GOOD, _POOR = 1e-13, 1e-8


class TooRough(ValueError):
    """A function takes more exponentials than are tried."""


@dataclass(frozen=True, eq=False)
class Modes:
    """An even function as ``sum_j [c_j Re cosh(z_j w) + d_j Im cosh(z_j w)] / cosh(s)``.

    Exponents are ``z_j = s + i j h``.  With r the ``share``, the error at w is at most
    ``error cosh(r s w) / cosh(r s)``.
    """

    tilt: float
    step: float
    share: float
    size: int
    coefficients: Array  # c in the first row, d in the second
    error: float

    def project(self, function: Scaled) -> Array:
        """Coefficients of another function, such as a derivative, in the same exponentials."""
        return _Fit(self.tilt, self.share, self.size).solve(function)


def fit(function: Scaled, tilt: float, shares: Sequence[float]) -> Modes:
    """Represent an even function that is 1 at w = 1.

    Parameters
    ----------
    function : callable
    tilt : float
        The real part s of the exponents: the slope of log f at 1.
    shares : floats in 0..1
        Parts of the tilt that the error may fall with, the most wanted first: with 1 the error is
        relative to ``exp(s (w - 1))``, with 0 it is the same for all w.

    Raises
    ------
    TooRough
    """
    best = None
    for share in shares:
        for size in _SIZES:
            found = _Fit(tilt, share, size)
            coefficients = found.solve(function)
            error = found.error(function, coefficients)
            if best is None or error < best.error:
                best = Modes(tilt, found.step, share, size, coefficients, error)
            if error < max(_GOOD, 4 * tilt * np.finfo(float).eps):
                return best
    assert best is not None
    if best.error > _POOR:
        raise TooRough(f"{_SIZES[-1]} exponentials leave an error of {best.error:.2g}")
    return best


def log_cosh(x: Array) -> Array:
    """``log cosh x`` for x >= 0, without overflow."""
    return x + np.log1p(np.exp(-2 * x)) - math.log(2)


@dataclass(frozen=True)
class _Fit:
    """Least squares for ``size`` exponentials, on the part of [0, 1] where the function has not died."""

    tilt: float
    share: float
    size: int

    @property
    def start(self) -> float:
        """Before it, function and exponentials are a rounding of the error that is allowed."""
        fall = (1 - self.share) * self.tilt
        return max(0.0, 1 - _GONE / fall) if fall > 0 else 0.0

    @property
    def step(self) -> float:
        # An even function on [0, 1] is one on [-1, 1].
        length = 2.0 if self.start == 0 else 1 - self.start
        return 2 * math.pi / (_PERIOD * length)

    def solve(self, function: Scaled) -> Array:
        w = self._nodes(3 * self.size + 10, 0.5)
        with blas_in_one_thread():
            found = np.linalg.lstsq(self._basis(w), function(w, self._log_unit(w)), rcond=1e-15)[0]
        return np.stack([found[: self.size + 1], np.append(0.0, found[self.size + 1 :])])

    def error(self, function: Scaled, coefficients: Array) -> float:
        """Largest error on a grid several times finer, in the unit that falls with w."""
        w = self._nodes(7 * self.size + 20, 0.0)
        fitted = self._basis(w) @ np.concatenate([coefficients[0], coefficients[1, 1:]])
        return float(np.abs(fitted - function(w, self._log_unit(w))).max())

    def _nodes(self, count: int, shift: float) -> Array:
        """Points of [start, 1], dense at 1, and at the start unless it is the centre of symmetry."""
        if self.start == 0:
            return np.cos(np.pi * (np.arange(count) + shift) / (2 * count))
        places = np.cos(np.pi * (np.arange(count) + shift) / (count - 1 + 2 * shift))
        return self.start + (1 - self.start) * (1 + places) / 2

    def _log_unit(self, w: Array) -> Array:
        falling = self.share * self.tilt
        return log_cosh(falling * w) - log_cosh(np.asarray(falling))

    def _basis(self, w: Array) -> Array:
        turns = np.outer(w, self.step * np.arange(self.size + 1))
        tilted = log_cosh(self.tilt * w) - log_cosh(np.asarray(self.tilt)) - self._log_unit(w)
        odd = np.tanh(self.tilt * w)[:, None] * np.sin(turns[:, 1:])
        return np.exp(tilted)[:, None] * np.hstack([np.cos(turns), odd])
