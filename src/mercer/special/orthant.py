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

Functions are given by the separation ``u = 1 - w``, which is half the squared distance of unit vectors:
at short times z is so large that w itself would lose all digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mercer._arrays import Array
from mercer._threads import blas_in_one_thread

#: From u in [0, 1] and a logarithm of the unit at each u to the even part of a function, in that unit.
Scaled = Callable[[Array, Array], Array]

#: Numbers of exponentials that are tried.
_SIZES = (6, 8, 12, 16, 24, 32, 64)
#: Period of the exponentials in lengths of the interval: longer, so that they need not meet at the ends.
_PERIOD = 1.5
#: Exponentials of less than minus this are negligible in double precision.
_GONE = 45.0
#: An error that is negligible, and one too large to continue with.
_GOOD, _POOR = 1e-13, 1e-8


class TooRough(ValueError):
    """A function that needs more exponentials than are tried."""


@dataclass(frozen=True, eq=False)
class Modes:
    """An even function as ``sum_j c_j Re E_j + d_j Im E_j``, with ``E_j = exp(-z_j) cosh(z_j w)``.

    Exponents are ``z_j = s + i j h``; the E_j are in units of ``E_0(1)``.  With r the ``share``, the
    error at w is at most ``error cosh(r s w) / cosh(r s)``.
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
    """Represent an even function that is 1 at u = 0.

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
            if error < _GOOD:
                return best
    assert best is not None
    if best.error > _POOR:
        raise TooRough(f"{_SIZES[-1]} exponentials leave an error of {best.error:.2g}")
    return best


def log_unit(s: float, u: Array) -> Array:
    """``log(cosh(s (1 - u)) / cosh(s))``."""
    return -s * u + np.log1p(np.exp(-2 * s * (1 - u))) - math.log1p(math.exp(-2 * s))


@dataclass(frozen=True)
class _Fit:
    """Least squares for ``size`` exponentials, on the part of [0, 1] where the function has not died."""

    tilt: float
    share: float
    size: int

    @property
    def reach(self) -> float:
        """The u beyond which function and exponentials are negligible beside the allowed error."""
        fall = (1 - self.share) * self.tilt
        return min(1.0, _GONE / fall) if fall > 0 else 1.0

    @property
    def step(self) -> float:
        # An even function on [0, 1] is one on [-1, 1].
        length = 2.0 if self.reach == 1 else self.reach
        return 2 * math.pi / (_PERIOD * length)

    def solve(self, function: Scaled) -> Array:
        u = self._nodes(3 * self.size + 10, 0.5)
        with blas_in_one_thread():
            found = np.linalg.lstsq(self._basis(u), function(u, self._log_unit(u)), rcond=1e-15)[0]
        return np.stack([found[: self.size + 1], np.append(0.0, found[self.size + 1 :])])

    def error(self, function: Scaled, coefficients: Array) -> float:
        """Largest error on a grid several times finer, in the unit that falls with u."""
        u = self._nodes(7 * self.size + 20, 0.0)
        fitted = self._basis(u) @ np.concatenate([coefficients[0], coefficients[1, 1:]])
        return float(np.abs(fitted - function(u, self._log_unit(u))).max())

    def _nodes(self, count: int, shift: float) -> Array:
        """Points of [0, reach], dense at its ends, but for w = 0, the centre of symmetry."""
        places = np.arange(count) + shift
        if self.reach == 1:
            return 2 * np.sin(np.pi * places / (4 * count)) ** 2
        return self.reach * np.sin(np.pi * places / (2 * (count - 1 + 2 * shift))) ** 2

    def _log_unit(self, u: Array) -> Array:
        return log_unit(self.share * self.tilt, u)

    def _basis(self, u: Array) -> Array:
        turns = self.step * np.arange(self.size + 1)
        falling = np.exp(-2 * np.outer(1 - u, self.tilt + 1j * turns))
        # In units of the first, which are exp(log_unit(tilt, u)).
        modes = np.exp(-1j * np.outer(u, turns)) * (1 + falling) / (1 + falling[:, :1])
        modes *= np.exp(log_unit(self.tilt, u) - self._log_unit(u))[:, None]
        return np.hstack([modes.real, modes.imag[:, 1:]])
