"""Laws: weights on the spectrum of a Laplacian, as values that spaces realise.

A law does not know the space it is used on, and a space does not ask which law it is given.  A law
offers what it can: always the logarithm of its weights; closed forms where a series would be too long;
its function on the line, for hyperbolic space; the diffusion times that it mixes, for products of
spaces.  A space takes what it needs, or raises an error that says what is missing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import loggamma

from mercer._arrays import Array
from mercer.special import (
    flat,
    funk_hecke,
    heat_expansion,
    heat_short_time,
    heat_tails,
    level_sums,
    zonal,
)
from mercer.special.funk_hecke import values_at
from mercer.special.heat_short_time import ClosedForm
from mercer.special.hyperbolic import BesselGenerator, GaussianGenerator
from mercer.special.hyperbolic_tables import LineFunction

#: Levels of a Matern law that are summed one by one before a closed form is used instead.
_DIRECT_LEVELS = 16_384
#: A user's weights may have gaps: this many levels are examined before they count as ended.
_GAP_LEVELS = 2**15
#: Weights with a logarithm below this are about to underflow.
_LOG_LEAST = -650.0
#: Diffusions with a smaller share of a mixture, relative to the largest, are left out.
_LOG_NEGLIGIBLE = math.log(1e-17)
#: Levels of a function of the angle that are computed, and the part of it that a series may lack.
_SHAPE_LEVELS, _SHAPE_TRUNCATION = 2048, 1e-12
#: Dimensions of great spheres on which a function of the angle is tested, and levels there.
_GREAT_SPHERES, _GREAT_LEVELS = (3, 10, 30, 100), 512
#: Error of the quadrature in the logarithm of the time, relative, of every weight of the law.
QUADRATURE = 1e-15


class Times(NamedTuple):
    """Diffusions whose mixture ``sum_k exp(logs_k) K(t_k)`` is the kernel of a law.

    ``slopes`` are the derivatives of ``logs`` with respect to the logarithm of the law's time at fixed
    t_k, since an integral over times depends on it only through its weights.  None if there is a
    single time.
    """

    times: Array
    logs: Array
    slopes: Array | None = None


def heavy_terms(
    given: Times, dimension: int, log_value: Callable[[float], float], slack: float = 0.0
) -> tuple[slice, Array]:
    """Terms of ``sum_k exp(logs_k) K(t_k)`` at equal points that are not negligible, as logarithms.

    Times are processed from the longest to the shortest.  The value K(t) at equal points falls with t,
    and ``t^(d/2) K(t)`` rises on spaces of nonnegative Ricci curvature (Li and Yau).  So values at
    shorter times are bounded by that at the last one.

    Parameters
    ----------
    given : Times
    dimension : int
    log_value : callable
        From a time to the logarithm of K.
    slack : float
        Largest possible contribution of factors of dimension 0.
    """
    times, logs, _ = given
    powers = 0.5 * dimension * np.log(times)
    shorter = np.maximum.accumulate(logs - powers)
    last = int(np.flatnonzero(logs >= logs.max() + _LOG_NEGLIGIBLE)[-1])
    found: list[float] = []
    for k in range(last, -1, -1):
        value = log_value(float(times[k]))
        found.append(float(logs[k]) + value)
        if k and shorter[k - 1] + powers[k] + value + slack < max(found) + _LOG_NEGLIGIBLE:
            break
    return slice(last + 1 - len(found), last + 1), np.array(found[::-1])


class Law(ABC):
    """Weights ``a(lambda)`` on the eigenvalues of a Laplacian; a hashable value."""

    #: Name of the law in messages: that of its kernel.
    name = "the law"
    #: Whether the kernel is nonnegative on every space.
    nonnegative = False
    #: The absolute form is a density: divided by the volume where the space has one.
    density = False
    #: Number of levels, where the weights are a list.
    levels: int | None = None
    #: Number of levels that are examined before the weights count as ended.
    least_levels = 64

    @abstractmethod
    def log_weights(self, eigenvalues: NDArray[Any], dimension: int) -> NDArray[Any]:
        """Logarithm of the weights on a manifold of some dimension; 0 on a graph."""

    def check_truncation(self, spectrum: zonal.Spectrum) -> None:  # noqa: B027 (most need no check)
        """Raise if a truncated series does not represent the law."""

    def closed_form(self, n: int) -> ClosedForm | None:
        """The kernel of S^(n-1) if its series is too long to be summed, else None."""
        return None

    def most_levels(self, n: int) -> int:
        """Number of levels of S^(n-1) whose weights can be computed."""
        return self.levels or zonal.MAX_LEVELS

    def slower(self, factor: float) -> Law | None:
        """The law ``a(lambda / factor)``, up to a constant, if it is of the same class."""
        return None

    def log_function(self, n: int, function: zonal.Function, sides: int) -> zonal.Function:
        """Logarithm of the normalised kernel of S^(n-1), far into its tails, from its values."""
        raise TypeError("logarithms are known only for heat kernels")

    def level_sums(self, n: int, numbers: NDArray[np.int64]) -> level_sums.Sums | None:
        """Sums over the levels of S^(n-1), and over those not in ``numbers``, if there is a formula."""
        return None

    def line_function(self, dimension: int) -> LineFunction:
        """The kernel of hyperbolic space, by its function on the line."""
        raise TypeError(f"{self.name} is not known on hyperbolic space; use Heat or Matern")

    def flat_function(self, dimension: int) -> flat.FlatFunction:
        """The kernel of flat space, by its function of the squared distance."""
        raise TypeError(f"{self.name} is not known on flat space; use Heat, Matern or Gaussian")

    def times(self, dimension: int) -> Times:
        """The diffusions that the law mixes, if it is a mixture of them."""
        raise TypeError(f"{self.name} is not known on products: it mixes no diffusions; use Heat")


@dataclass(frozen=True)
class Diffusion(Law):
    """Diffusion for a time: ``a(lambda) = exp(-lambda t)``."""

    t: Any
    name = "Heat"
    nonnegative = True
    density = True

    def log_weights(self, eigenvalues: NDArray[Any], dimension: int) -> NDArray[Any]:
        return -eigenvalues * self.t

    def slower(self, factor: float) -> Diffusion:
        """See :class:`Law`; a shorter time."""
        return Diffusion(self.t / factor)

    def closed_form(self, n: int) -> ClosedForm | None:
        """See :class:`Law`; the short-time expansion where it is exact up to rounding."""
        return heat_short_time.closed_heat(n, self.t) if heat_short_time.is_short(n, self.t) else None

    def log_function(self, n: int, function: zonal.Function, sides: int) -> zonal.Function:
        if heat_short_time.is_short(n, self.t):
            return heat_short_time.log_heat(n, self.t, sides)
        return heat_tails.log_heat(function, n, self.t, sides)

    def line_function(self, dimension: int) -> LineFunction:
        """See :class:`Law`; a Gaussian."""
        rate = ((dimension - 1) / 2) ** 2 * self.t
        return LineFunction(
            GaussianGenerator(self.t),
            log_factor=-0.5 * math.log(4 * math.pi * self.t) - rate,
            slope=GaussianGenerator(self.t, slope=True),
            slope_shift=-0.5 - rate,
        )

    def flat_function(self, dimension: int) -> flat.FlatFunction:
        """See :class:`Law`; a Gaussian."""
        return flat.heat(self.t, dimension)

    def times(self, dimension: int) -> Times:
        """See :class:`Law`; one time."""
        return Times(np.array([self.t]), np.zeros(1))


@dataclass(frozen=True)
class GammaDiffusion(Law):
    """The Matern law, ``a(lambda) = (rate + lambda)^(-nu - d / 2)`` in dimension d.

    A mixture of diffusions over times of a Gamma distribution, of shape ``nu + d / 2``.
    """

    nu: Any
    rate: Any
    name = "Matern"
    nonnegative = True

    def power(self, dimension: int) -> float:
        """``nu + d / 2``."""
        return self.nu + dimension / 2

    def log_weights(self, eigenvalues: NDArray[Any], dimension: int) -> NDArray[Any]:
        return -self.power(dimension) * np.log(self.rate + eigenvalues)

    def slower(self, factor: float) -> GammaDiffusion:
        """See :class:`Law`; shorter times."""
        return GammaDiffusion(self.nu, self.rate * factor)

    def closed_form(self, n: int) -> ClosedForm | None:
        """See :class:`Law`; times are split into a fast series and a short-time integral."""
        split, higher = _split_series(self, n, 0), _split_series(self, n, 1)
        if split is None or higher is None:
            return None
        # d/dlog(rate) of (rate + lam)^-s is -s rate (rate + lam)^-(s+1).
        (function, log_total), (higher_function, higher_total) = split, higher
        weight = self.power(n - 1) * math.exp(math.log(self.rate) + higher_total - log_total)

        def slope(normalized: bool) -> zonal.Function:
            shift = 1.0 if normalized else 0.0
            return lambda u: weight * (higher_function(u) - shift * function(u))

        return ClosedForm(function, log_total, slope)

    def level_sums(self, n: int, numbers: NDArray[np.int64]) -> level_sums.Sums:
        """See :class:`Law`; series of powers, whose rest is an integral."""
        return level_sums.of_powers(n, self.power(n - 1), self.rate, numbers)

    def line_function(self, dimension: int) -> LineFunction:
        """See :class:`Law`; a Bessel function."""
        s = self.power(dimension)
        whole = self.rate + ((dimension - 1) / 2) ** 2
        factor = math.log(2) - 0.5 * math.log(4 * math.pi) - (s - 0.5) * math.log(2 * whole)
        return LineFunction(
            BesselGenerator(s - 0.5, whole),
            log_factor=factor - math.lgamma(s),
            slope=BesselGenerator(s + 0.5, whole),
            slope_factor=self.rate / whole / 2,
            # The kernel falls from its value at zero like rho^(2 nu).
            octaves=max(32, math.ceil(20 / self.nu)),
        )

    def flat_function(self, dimension: int) -> flat.FlatFunction:
        """See :class:`Law`; a Bessel function."""
        return flat.matern(self.nu, self.rate, dimension)

    def times(self, dimension: int) -> Times:
        """See :class:`Law`; the trapezoidal rule in the logarithm of the time."""
        s = self.power(dimension)
        first = _LOG_NEGLIGIBLE / self.nu - 2
        last = math.log(60 + 4 * s)
        step = _log_time_step(s)
        x = np.arange(first, last + step, step)
        logs = s * x - np.exp(x) - math.lgamma(s) + math.log(step) - s * math.log(self.rate)
        return Times(np.exp(x) / self.rate, logs, np.exp(x))


@dataclass(frozen=True)
class RandomTime(Law):
    """Diffusion for a random time of mean t: ``a(lambda) = (1 + lambda t / nu)^(-nu)``.

    The time has a Gamma distribution of shape nu.  ``raised`` is subtracted from the exponent, as
    derivatives need it.
    """

    t: Any
    nu: Any
    raised: int = 0
    nonnegative = True

    def log_weights(self, eigenvalues: NDArray[Any], dimension: int) -> NDArray[Any]:
        """See :class:`Law`."""
        return -(self.nu + self.raised) * np.log1p(eigenvalues * self.t / self.nu)


@lru_cache(maxsize=64)
def _log_time_step(s: float) -> float:
    """Step h for a Gamma density of shape s.

    By Poisson's summation formula the weight of every eigenvalue has the relative error
    ``2 |Gamma(s + 2 pi i / h)| / Gamma(s)`` and less.
    """
    frequency = 20.0
    while loggamma(s + 1j * frequency).real - math.lgamma(s) > math.log(QUADRATURE):
        frequency *= 1.03
    return 2 * math.pi / frequency


@lru_cache(maxsize=64)
def _split_series(law: GammaDiffusion, n: int, raised: int) -> tuple[zonal.Function, float] | None:
    """The split series, with the power raised, if levels cannot be summed one by one; else None."""
    try:
        zonal.spectrum(lambda lam: law.log_weights(lam, n - 1), n, _DIRECT_LEVELS)
    except zonal.SlowDecay:
        return heat_short_time.SplitSeries(n, law.power(n - 1) + raised, law.rate).parts()
    return None


@dataclass(frozen=True)
class Weights(Law):
    """Weights given by the user: a function of the eigenvalues, or a list by levels."""

    weights: Callable[[NDArray[Any]], Any] | tuple[float, ...]
    name = "Spectral"
    least_levels = _GAP_LEVELS

    @property
    def levels(self) -> int | None:  # type: ignore[override]
        """See :class:`Law`."""
        return None if callable(self.weights) else len(self.weights)

    def log_weights(self, eigenvalues: NDArray[Any], dimension: int) -> NDArray[Any]:
        """See :class:`Law`; a list is that of the first levels."""
        if callable(self.weights):
            weights = np.asarray(self.weights(eigenvalues.astype(float)))
        else:
            weights = _of_levels(np.array(self.weights, dtype=float), eigenvalues, dimension)
        if weights.dtype.kind == "c":
            raise ValueError("Complex data not supported: weights holds complex numbers; give real ones")
        if weights.shape != eigenvalues.shape:
            raise ValueError(
                f"weights returned shape {weights.shape} for eigenvalues of shape {eigenvalues.shape}"
            )
        refuse_negative_weights(weights)
        with np.errstate(divide="ignore"):
            return np.log(weights.astype(np.longdouble))

    def check_truncation(self, spectrum: zonal.Spectrum) -> None:
        """See :class:`Law`; weights must not underflow where they matter."""
        if self.levels is not None:
            return
        last = self.log_weights(spectrum.eigenvalues[-1:], spectrum.n - 1)[0]
        if last < _LOG_LEAST and spectrum.p[-1] > zonal.TRUNCATION:
            raise ValueError(
                f"weights underflow at level {spectrum.levels[-1]}, where they still matter in "
                f"dimension {spectrum.n}; subclass SpectralKernel and give their logarithms"
            )


@dataclass(frozen=True)
class AngularShape(Law):
    """A user's function of the angle on spheres, with weights by the theorem of Funk and Hecke.

    Weights smaller than their errors are set to zero, but are part of the sum over all levels, which
    is the value of the function at angle zero.
    """

    shape: Callable[[Array], Any]
    name = "Zonal"

    @property
    def value(self) -> float:
        """The function at the angle zero."""
        angle = np.zeros(1)
        value = float(values_at(self.shape, angle)[0])
        if value <= 0:
            raise ValueError(f"shape must be positive at angle 0, where it is k(x, x), got {value!r}")
        return value

    def log_weights(self, eigenvalues: NDArray[Any], dimension: int) -> NDArray[Any]:
        weights = _of_levels(_shape_weights(self.shape, dimension + 1), eigenvalues, dimension)
        with np.errstate(divide="ignore"):
            return np.log(weights.astype(np.longdouble))

    def most_levels(self, n: int) -> int:
        """See :class:`Law`; the levels that double precision resolves."""
        return len(_shape_weights(self.shape, n))

    def check_truncation(self, spectrum: zonal.Spectrum) -> None:
        """See :class:`Law`; the known weights must add up to the total."""
        share = math.exp(spectrum.log_total) / self.value
        if share < 1 - _SHAPE_TRUNCATION:
            raise zonal.SlowDecay(
                f"the levels of the shape that are known in dimension {spectrum.n} have {share:.6g} of "
                "the whole; level_weights gives them one by one, and what they leave out"
            )

    def closed_form(self, n: int) -> ClosedForm:
        """See :class:`Law`; the function itself."""
        value = self.value
        _shape_weights(self.shape, n)  # refuses shapes that are not positive definite

        def function(u: Array) -> Array:
            theta = heat_expansion.angles(u)
            return values_at(self.shape, theta.ravel()).reshape(theta.shape) / value

        return ClosedForm(function, math.log(value), lambda normalized: np.zeros_like)

    def level_sums(self, n: int, numbers: NDArray[np.int64]) -> level_sums.Sums:
        """See :class:`Law`; the total minus the given levels."""
        weights = _shape_weights(self.shape, n)
        numbers = numbers[numbers < len(weights)]
        parts = weights * np.exp(zonal.log_multiplicities(n, len(weights)).astype(float))
        share = max(1.0 - float(parts[numbers].sum()) / self.value, 0.0)
        return level_sums.Sums(math.log(self.value), 0.0, share, 0.0)


@lru_cache(maxsize=64)
def _shape_weights(shape: Callable[[Array], Any], n: int) -> Array:
    """Weights of a function of the angle on the levels of S^(n-1) that can be known.

    A function that is positive definite on a sphere is so on its great spheres, where double precision
    resolves more levels; these are tested too.
    """
    for lower in (m for m in _GREAT_SPHERES if m < n):
        levels = funk_hecke.knowable_levels(lower, _GREAT_LEVELS)
        funk_hecke.funk_hecke(shape, lower, levels).nonnegative(lower)
    levels = funk_hecke.knowable_levels(n, _SHAPE_LEVELS)
    return funk_hecke.funk_hecke(shape, n, levels).nonnegative(n)


def _of_levels(weights: Array, eigenvalues: NDArray[Any], dimension: int) -> Array:
    """Weights of the levels of a sphere, whose eigenvalues are ``l (l + d - 1)``; 0 beyond the last."""
    middle = (dimension - 1) / 2
    numbers = np.rint(np.sqrt(eigenvalues.astype(float) + middle**2) - middle).astype(int)
    return np.append(weights, 0.0)[np.minimum(numbers, len(weights))]


def refuse_negative_weights(weights: NDArray[Any]) -> None:
    """Raise for weights that are negative or NaN."""
    bad = np.flatnonzero(~(weights >= 0))
    if bad.size:
        raise ValueError(
            f"weights must not be negative or NaN (K would not be a kernel): level {bad[0]} has "
            f"{float(weights[bad[0]])!r}"
        )
