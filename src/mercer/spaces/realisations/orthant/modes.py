"""Laws on the orthant as sums over modes: heat kernels far into their tails, or sums over levels."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from mercer._arrays import Array
from mercer.engine.orthant import ModeSums
from mercer.laws import QUADRATURE, Diffusion, Law
from mercer.spaces.realisations.base import Slope
from mercer.spaces.spherical import ZonalSeries
from mercer.special import heat_expansion, orthant, zonal
from mercer.special.orthant import Modes, Scaled

#: Parts of the tilt that errors may fall with, the most wanted first; see :func:`orthant.fit`.
_SHARES = (1.0, 0.5, 0.0)
#: The same for a diffusion that is far from its tangent and absorbed, as it is to be known relative to
#: itself.
_FAR_SHARES = (0.95, 0.9, 0.75, 0.5)
#: The tilt is at least this: damping factors of many coordinates must not underflow.
_LEAST_TILT = 1.0
#: Logarithm of what is nothing in doubles.
_NOTHING = 40.0
#: Logarithm of the fall after which a function is held against its tangent exponential.
_LOOK = 60.0
#: With a tilt above this it is far from its tangent.
_STEEP = 1e6
#: Degree of the polynomial that stands for the logarithm of a heat kernel, analytic up to w = -1.
_DEGREE = 40
#: Below this u angles are below one, where the short-time expansion of this order is fast.
_SHORT, _ORDER = 0.46, 6
#: Size of its last term, at which it counts as converged.
_CONVERGED = 1e-14
#: Step in the logarithm of a time, for derivatives by differences of fourth order.
_STEP = 2e-3
#: A mixture of diffusions with more levels than this is summed time by time.
_FEW_LEVELS = 512
#: Share of a mixture that its shortest times may have and be left out, and the share at which it is
#: refused.
_LEFT_OUT, _TOO_MUCH = 1e-13, 1e-9
#: Times below this are left out: equal rows of different totals are this near to each other as unit
#: vectors, and must not be told apart.
_SHORTEST = 1e-28


@dataclass(frozen=True)
class Orthant:
    """The positive part of S^(n-1), and the sphere whose zonal functions its kernels average."""

    n: int
    absorbing: bool

    @property
    def sphere(self) -> int:
        """Ambient dimension of that sphere: each coordinate becomes three if walls absorb."""
        return 3 * self.n if self.absorbing else self.n

    @property
    def gap(self) -> int:
        """The least eigenvalue on the orthant."""
        return 2 * self.n * (self.n - 1) if self.absorbing else 0

    @property
    def log_unit(self) -> float:
        """Logarithm of the factor of the average, beside the product of the coordinates."""
        return sum(math.log(self.n + 2 * i) for i in range(self.n)) if self.absorbing else 0.0

    @property
    def log_volume(self) -> float:
        """Logarithm of its area."""
        return zonal.log_area(self.n) - self.n * math.log(2)


class _Source(ABC):
    """A zonal function, of which a component is made.

    ``log_one`` is the logarithm of its even part at u = 0, and ``tilt`` a slope of its logarithm there.
    """

    log_one: float
    tilt: float

    @abstractmethod
    def shares(self) -> tuple[float, ...]:
        """How errors may fall; see :func:`orthant.fit`."""

    @abstractmethod
    def even(self, u: Array, log_unit: Array) -> Array:
        """The even part relative to u = 0, in units."""

    @abstractmethod
    def slope(self, slope: Slope) -> Scaled:
        """Its derivative with respect to the logarithm of a hyperparameter, likewise."""


class _Heat:
    """The heat kernel of a sphere at one time, by its logarithm."""

    def __init__(self, n: int, t: float) -> None:
        self.n, self.t = n, t
        self._law = Diffusion(t)
        self._series = ZonalSeries(self._law, n)
        self.log_value = self._series.log_value + zonal.log_area(n)
        self._known: dict[float, Array] = {}
        self._opposite: Array | None = None

    @cached_property
    def tilt(self) -> float:
        """Slope of the logarithm at w = 1, where the Laplacian of a zonal f is ``-(n - 1) f'``."""
        ahead, behind = (ZonalSeries(Diffusion(self.t * math.exp(s)), self.n) for s in (_STEP, -_STEP))
        slope = (behind.log_value - ahead.log_value) / (2 * _STEP * self.t * (self.n - 1))
        return max(slope, _LEAST_TILT)

    def log_even(self, u: Array) -> Array:
        """Logarithm of the even part of the normalised kernel."""
        reach = min(1.0, 2.5 * _NOTHING / self.tilt)
        logs = self._expanded(u) if u.max() < _SHORT else None
        if logs is None:
            logs = self._interpolated(u, reach if u.max() < reach else 1.0)
        # The logarithm of the other side falls by twice the tilt at least.
        close = 2 * self.tilt * (1 - u) <= _NOTHING
        if close.any():
            middle = self._interpolated(np.ones(1), 1.0)
            logs[close] = middle + np.log(np.exp(logs[close] - middle) + self._behind(1 - u[close]))
        return logs - math.log(2)

    def _expanded(self, u: Array) -> Array | None:
        """Logarithm of the normalised kernel by its short-time expansion, if that has converged."""
        d, u = self.n - 1, np.append(u, 0.0)
        ratios = np.stack([part[0] for part in heat_expansion.corrections(d, _ORDER, u)])
        terms = ratios * self.t ** np.arange(1, _ORDER + 1)[:, None]
        if np.abs(terms[-1]).max() > _CONVERGED:
            return None
        logs = -(heat_expansion.angles(u)[0] ** 2) / (4 * self.t) + heat_expansion.log_u0(d, u)[0]
        logs += np.log1p(terms.sum(axis=0))
        return logs[:-1] - logs[-1]

    def _interpolated(self, u: Array, reach: float) -> Array:
        """The same on [0, reach] from a few points: each value is dear."""
        if reach not in self._known:
            function = self._law.log_function(self.n, self._series.function, 1)
            self._known[reach] = chebyshev.chebinterpolate(
                lambda x: function(reach / 2 * (1 + x))[0], _DEGREE
            )
        return np.asarray(chebyshev.chebval(2 * u / reach - 1, self._known[reach]), dtype=float)

    def _behind(self, w: Array) -> Array:
        """The kernel at -w over that at 0, likewise, where it matters."""
        half = min(1.0, _NOTHING / (2 * self.tilt)) / 2
        if self._opposite is None:
            function = self._law.log_function(self.n, self._series.function, 2)
            middle = self._interpolated(np.ones(1), 1.0)
            self._opposite = chebyshev.chebinterpolate(
                lambda x: np.exp(function(1 - half * (1 + x))[1] - middle), _DEGREE
            )
        return np.asarray(chebyshev.chebval(w / half - 1, self._opposite), dtype=float)


@lru_cache(maxsize=1024)
def _heat(n: int, t: float) -> _Heat:
    return _Heat(n, t)


class _Diffused(_Source):
    """The heat kernel at a time, with its weight.

    ``rise`` is the derivative of the logarithm of the weight with respect to that of the law's time,
    where the law mixes times; None where the time itself moves.
    """

    def __init__(self, place: Orthant, t: float, log_weight: float, rise: float | None = None) -> None:
        self._place, self._t, self._log_weight, self._rise = place, t, log_weight, rise
        self.tilt = _heat(place.sphere, t).tilt
        self.log_one = float(self._log_even(np.zeros(1))[0])

    def _log_even(self, u: Array, shift: float = 0.0) -> Array:
        """Logarithm of the even part after the logarithm of the time has moved."""
        heat = _heat(self._place.sphere, self._t * math.exp(shift))
        log_weight = self._log_weight - self._place.gap * heat.t
        return log_weight + heat.log_value + heat.log_even(u)

    def shares(self) -> tuple[float, ...]:
        if self.tilt > _STEEP:
            return _SHARES[1:2]
        reach = min(1.0, _LOOK / self.tilt)
        fall = float(self._log_even(np.array([reach]))[0]) - self.log_one
        # The logarithm falls away from its tangent like the square of u.
        far = (fall + self.tilt * reach) / reach**2 < -_NOTHING
        if not far:
            return _SHARES[:2]
        return _FAR_SHARES if self._place.absorbing and self._rise is None else _SHARES[1:2]

    def even(self, u: Array, log_unit: Array) -> Array:
        return np.exp(self._log_even(u) - self.log_one - log_unit)

    def slope(self, slope: Slope) -> Scaled:
        """See :class:`_Source`; of the logarithm, which is smooth where the function is small."""

        def scaled(u: Array, log_unit: Array) -> Array:
            if self._rise is not None:
                return slope.chain * self._rise * self.even(u, log_unit)
            near, far = (
                self._log_even(u, step) - self._log_even(u, -step) for step in (_STEP, 2 * _STEP)
            )
            rise = (8 * near - far) / (12 * _STEP)
            return slope.chain * rise * self.even(u, log_unit)

        return scaled


@dataclass(frozen=True)
class _RaisedLaw(Law):
    """A law at the eigenvalues of the orthant, for the sphere whose functions are averaged."""

    law: Law
    orthant: Orthant

    @property
    def levels(self) -> int | None:  # type: ignore[override]
        """See :class:`Law`; levels below n vanish at absorbing walls."""
        known = self.law.levels
        if known is None or not self.orthant.absorbing:
            return known
        if known <= self.orthant.n:
            raise ValueError(
                f"the weights end at level {known - 1}; functions that vanish at the boundary begin at "
                f"level n = {self.orthant.n}: give more weights"
            )
        return known - self.orthant.n

    @property
    def least_levels(self) -> int:  # type: ignore[override]
        """See :class:`Law`."""
        return self.law.least_levels

    def log_weights(self, eigenvalues: NDArray[Any], dimension: int) -> NDArray[Any]:
        return self.law.log_weights(eigenvalues + self.orthant.gap, self.orthant.n - 1)


class _Levels(_Source):
    """A law known to the rounding of its sum over levels."""

    def __init__(self, place: Orthant, law: Law) -> None:
        self._place = place
        self._series = ZonalSeries(_RaisedLaw(law, place), place.sphere)
        spectrum = self._series.spectrum
        even = spectrum.p * (spectrum.levels % 2 == 0)
        self._one = float(even.sum())
        if not self._one > 0:
            raise ValueError("the law has no weight on functions that obey the boundary condition")
        mean = float((even * spectrum.eigenvalues).sum()) / self._one
        self.tilt = max(mean / (place.sphere - 1), _LEAST_TILT)
        self.log_one = self._series.log_value + math.log(self._one)

    def shares(self) -> tuple[float, ...]:
        return _SHARES

    def even(self, u: Array, log_unit: Array) -> Array:
        return self._series.function(u).mean(axis=0) / self._one * np.exp(-log_unit)

    def slope(self, slope: Slope) -> Scaled:
        raised = replace(slope, scores=lambda lam: slope.scores(lam + self._place.gap))
        function = self._series.slope(raised, normalized=False)
        return lambda u, log_unit: function(u).mean(axis=0) / self._one * np.exp(-log_unit)


@dataclass(frozen=True, eq=False)
class Components:
    """A law as a sum of components, each with its modes; ``log_left_out`` weighs what is not in it."""

    place: Orthant
    sources: list[_Source]
    modes: list[Modes]
    log_left_out: float

    def sums(self, slopes: Sequence[Slope] = ()) -> ModeSums:
        """Values and derivatives as the engine takes them."""
        size = max(modes.size for modes in self.modes) + 1
        coefficients = np.zeros((1 + len(slopes), len(self.modes), 2, size))
        for k, (source, modes) in enumerate(zip(self.sources, self.modes, strict=True)):
            coefficients[0, k, :, : modes.size + 1] = modes.coefficients
            for r, slope in enumerate(slopes):
                coefficients[1 + r, k, :, : modes.size + 1] = modes.project(source.slope(slope))
        tilts = np.array([modes.tilt for modes in self.modes])
        log_ones = np.array([source.log_one for source in self.sources])
        errors = np.array([modes.error for modes in self.modes])
        falling = tilts * [modes.share for modes in self.modes]
        return ModeSums(
            self.place.absorbing,
            log_ones - _log_average(tilts),
            tilts,
            np.array([modes.step for modes in self.modes]),
            np.array([modes.size + 1 for modes in self.modes]),
            coefficients,
            log_ones - _log_average(falling) + np.log(errors),
            falling,
            QUADRATURE if len(self.modes) > 1 else 0.0,
        )


def _log_average(s: Array) -> Array:
    """``log(exp(-s) cosh(s))``."""
    return np.log1p(np.exp(-2 * s)) - math.log(2)


@lru_cache(maxsize=64)
def components(law: Law, place: Orthant) -> Components:
    """Represent a law on an orthant: a mixture by its diffusions, unless few levels do."""
    sources, log_left_out = _sources(law, place)
    try:
        modes = [orthant.fit(source.even, source.tilt, source.shares()) for source in sources]
    except orthant.TooRough as error:
        raise ValueError(
            f"{law.name} is too rough in dimension {place.n} with a boundary ({error}); take a longer "
            "time or a smoother law"
        ) from None
    return Components(place, sources, modes, log_left_out)


def _sources(law: Law, place: Orthant) -> tuple[list[_Source], float]:
    try:
        given = law.times(place.n - 1)
    except TypeError:  # no mixture of diffusions: its levels have to do
        return [_Levels(place, law)], -np.inf
    if given.slopes is None:
        return [_Diffused(place, float(given.times[0]), float(given.logs[0]))], -np.inf
    if _has_few_levels(law, place):
        return [_Levels(place, law)], -np.inf
    kept, log_left_out = _without_shortest(law, place, given.times, given.logs)
    terms = zip(*(part[kept].tolist() for part in given if part is not None), strict=True)
    return [_Diffused(place, *term) for term in terms], log_left_out


def _has_few_levels(law: Law, place: Orthant) -> bool:
    """Tell whether a mixture can be summed over levels; what walls absorb takes more digits."""
    if place.absorbing:
        return False
    try:
        zonal.spectrum(lambda lam: law.log_weights(lam, place.n - 1), place.n, _FEW_LEVELS)
    except zonal.SlowDecay:
        return False
    return True


def _without_shortest(
    law: Law, place: Orthant, times: Array, logs: Array
) -> tuple[NDArray[np.bool_], float]:
    """Which times of a mixture matter, and the logarithm of the weight of shorter ones.

    Weights are those at equal points far from the boundary, times the decay by absorption.  A
    reflecting wall adds to long times first, so that they matter more; at an absorbing wall, rows are
    compared with what was omitted.
    """
    weights = logs + [_heat(place.n, t).log_value for t in times.tolist()]
    decayed = weights - place.gap * times
    total = np.logaddexp.accumulate(decayed)
    first = int(np.searchsorted(total, total[-1] + math.log(_LEFT_OUT)))
    first = max(first, int(np.searchsorted(times, _SHORTEST)))
    if first and total[first - 1] > total[-1] + math.log(_TOO_MUCH):
        share = math.exp(total[first - 1] - total[-1])
        raise ValueError(
            f"{law.name} is too rough for a boundary: diffusions for times below {_SHORTEST:g}, which "
            f"the rounding of rows hides, are {share:.1g} of it; take a larger nu (0.4 or more) or a "
            "longer scale"
        )
    kept = (np.arange(len(times)) >= first) & (decayed > decayed.max() - _NOTHING)
    left_out = np.logaddexp.reduce(weights[:first], initial=-np.inf) - place.n * math.log(2)
    return kept, float(left_out)
