"""Spaces of unit vectors, and laws on them: functions of the angle, and weights of their levels."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._arrays import Array
from mercer.laws import Law
from mercer.profiles import Profile, Separation, compile_profile
from mercer.spaces.base import RadialSpace, product_sums
from mercer.spaces.realisations.base import Radial, Slope, absolute_factor
from mercer.spaces.realisations.eigenfunctions import LogWeights
from mercer.spaces.realisations.eigenmaps import MOST_DIMENSIONS, HarmonicFunctions, HarmonicMap
from mercer.special import zonal
from mercer.special.level_sums import Sums
from mercer.special.zonal import Function

#: exp() of more than this times a few rows overflows.
_LOG_MOST = 600.0
#: Smallest smoothness of Matern kernels.
_LEAST_NU = 1e-5


class SphericalSpace(RadialSpace):
    """A space whose points are unit vectors: the invariant is ``w = x.y = cos(theta)``.

    The Laplacian of S^(n-1) has the eigenvalues ``l (l + n - 2)`` with multiplicities N_l, and its
    zonal functions are the normalised Gegenbauer polynomials P_l; see :mod:`mercer.special.zonal`.
    """

    least_dimension = 2
    embeds_alike = True
    common_invariant = 1.0
    widest_angle = 180.0

    def natural_time(self, n: int) -> float:
        """``log(n) / n``: see :meth:`Space.natural_time`."""
        return math.log(n) / n

    def dimension(self, n: int) -> int:
        """``n - 1``: see :meth:`Space.dimension`."""
        return n - 1

    def check_matern(self, nu: float, length_scale: float) -> None:
        if nu < _LEAST_NU:
            raise ValueError(
                f"nu of Matern on {self!r} must be at least {_LEAST_NU:g}, got {nu!r}: smaller ones "
                "lose their digits beside the dimension"
            )

    def require_vectors(self) -> None:
        """See :meth:`Space.require_vectors`."""

    def require_unit_vectors(self) -> None:
        """See :meth:`Space.require_unit_vectors`."""

    def directions(self) -> SphericalSpace:
        return self

    def realise(self, law: Law, n: int, normalized: bool = True) -> ZonalRealisation:
        """A function of the angle: see :meth:`Space.realise`."""
        return ZonalRealisation(self, law, n, normalized)

    def factor_eigenfunctions(
        self, n: Any, count: int, log_weights: LogWeights
    ) -> HarmonicFunctions | None:
        """Harmonics: see :meth:`Space.factor_eigenfunctions`."""
        if n > MOST_DIMENSIONS:
            return None
        volume = math.exp(zonal.log_area(n))
        return HarmonicFunctions.of(self, n, count, log_weights, step=1, scale=1.0, volume=volume)

    @abstractmethod
    def _unit_rows(self, X: Any) -> Any:
        """Map checked rows to unit vectors."""

    def embed(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        """Map checked rows to unit vectors; see :meth:`RadialSpace.embed`."""
        left = self._unit_rows(X)
        return left, left if Y is None or Y is X else self._unit_rows(Y)

    def column_sums(self, X: Any, Y: Any, weights: Any) -> Any:
        """See :meth:`Embedding.column_sums`; products of coordinates of unit vectors."""
        return product_sums(*self.embed(X, Y), weights)

    def eigenvalues(self, levels: int, n: int | None = None) -> np.ndarray:
        """Eigenvalues ``l (l + n - 2)`` of the Laplacian, l < ``levels``."""
        return zonal.eigenvalues(self._dimension(n), levels).astype(float)

    def log_multiplicities(self, levels: int, n: int | None = None) -> np.ndarray:
        """Logarithms of the dimensions of the eigenspaces, l < ``levels``."""
        return zonal.log_multiplicities(self._dimension(n), levels).astype(float)

    def series(self, coefficients: Any, w: Any, n: int | None = None) -> np.ndarray:
        """Sum the zonal series ``sum_l c_l P_l(w)`` at invariants w in [-1, 1].

        Examples
        --------
        >>> from mercer.spaces import Sphere
        >>> Sphere(3).series([0, 0, 1], [0.0, 1.0])    # the Legendre polynomial (3 w^2 - 1) / 2
        array([-0.5,  1. ])
        """
        w = np.asarray(w, dtype=float)
        if not np.all(np.abs(w) <= 1):
            raise ValueError("w must lie in [-1, 1]")
        both = zonal.zonal_series(
            self._dimension(n), 0, np.asarray(coefficients, dtype=float), 1 - np.abs(w.ravel())
        )
        return np.where(w.ravel() >= 0, both[0], both[1]).reshape(w.shape)

    def _dimension(self, n: int | None) -> int:
        dimension = self.n if n is None else n
        if dimension is None:
            raise ValueError(f"{self!r} has no dimension of its own: give n")
        return dimension


@dataclass(frozen=True, eq=False)
class LevelWeights:
    """A kernel ``K(x, y) = |x|^p |y|^p sum_l a_l N_l P_l(x.y / |x| |y|)``, by its weights a_l.

    ``weights`` holds a_l for the requested levels, ``total`` the sum of ``a_l N_l`` over all levels,
    which is K(x, x) at unit vectors, and ``rest`` the sum over the other levels, without cancellation.
    ``slopes`` are derivatives of log a_l, and ``rest_slopes`` of the rest, with respect to the
    logarithms of the kernel's free hyperparameters.
    """

    weights: Array
    total: float
    rest: float
    slopes: Array
    rest_slopes: Array


class ZonalRealisation(Radial):
    """A law on S^(n-1), ``sum_l a_l N_l P_l(w)``, for points embedded as unit vectors.

    Parameters
    ----------
    space : RadialSpace
    law : Law
    n : int
        Ambient dimension.
    normalized : bool
    scale : float
        The Laplacian of the sphere in units of that of the space.
    """

    def __init__(
        self, space: RadialSpace, law: Law, n: int, normalized: bool, scale: float = 1.0
    ) -> None:
        self.embedding, self._separation = space, space.separation
        self._law, self._n, self._normalized, self._scale = law, n, normalized, scale

    @property
    def series(self) -> ZonalSeries:
        return _series(self._law, self._n)

    @property
    def log_self_similarity(self) -> float:
        return self.series.log_value

    def profile(self) -> Profile:
        return _profile(self._law, self._n, self._separation, self._normalized)

    def slope_profile(self, slope: Slope) -> Profile:
        slope = self._on_sphere(slope)
        return _slope_profile(self._law, self._n, self._separation, self._normalized, slope)

    def _on_sphere(self, slope: Slope) -> Slope:
        """The same derivatives as functions of the eigenvalues of the sphere."""
        if self._scale == 1.0:
            return slope
        return replace(slope, scores=lambda eigenvalues: slope.scores(eigenvalues / self._scale))

    def log_profile(self) -> Profile:
        return _log_profile(self._law, self._n, self._separation, self._normalized)

    def features(self, size: int, seed: int) -> HarmonicMap:
        """See :class:`Realisation`; spherical harmonics."""
        weights = self.level_weights(np.arange(64), ()).weights
        levels = np.flatnonzero(weights > 0).tolist()
        found = HarmonicMap.of(
            self.embedding, self._n, levels, size, seed, lambda numbers: self.level_weights(numbers, ())
        )
        return replace(found, scale=self._scale)

    def level_weights(self, numbers: NDArray[np.int64], slopes: Sequence[Slope]) -> LevelWeights:
        slopes = [self._on_sphere(slope) for slope in slopes]
        return self.series.level_weights(numbers, slopes, self._normalized)


class ZonalSeries:
    """A law on S^(n-1), by its series or in closed form."""

    def __init__(self, law: Law, n: int) -> None:
        self._law, self._n = law, n

    @cached_property
    def spectrum(self) -> zonal.Spectrum:
        """Weights on the levels that matter, and their sum."""
        law, n = self._law, self._n
        spectrum = zonal.spectrum(
            lambda lam: law.log_weights(lam, n - 1), n, levels=law.levels, least_levels=law.least_levels
        )
        law.check_truncation(spectrum)
        return spectrum

    def log_weights(self, levels: int) -> NDArray[Any]:
        """Logarithms of the law's weights on the first levels."""
        return self._law.log_weights(zonal.eigenvalues(self._n, levels), self._n - 1)

    def level_sums(self, numbers: NDArray[np.int64]) -> Sums | None:
        """Sums over all levels and outside some, if the law has a formula for them."""
        return self._law.level_sums(self._n, numbers)

    @cached_property
    def _closed(self) -> Any:
        return self._law.closed_form(self._n)

    @property
    def log_value(self) -> float:
        """Logarithm of the absolute form at equal points."""
        if self._closed is not None:
            return self._closed.log_value
        return self.spectrum.log_total - self._log_volume

    @property
    def _log_volume(self) -> float:
        return zonal.log_area(self._n) if self._law.density else 0.0

    def function(self, u: Array) -> Array:
        """The normalised kernel at separations."""
        if self._closed is not None:
            return self._closed.function(u)
        return zonal.zonal_series(self._n, self.spectrum.first, self.spectrum.p, u)

    def slope(self, slope: Slope, normalized: bool) -> Function:
        """Derivative of K, or (absolute form) of K relative to K(x, x)."""
        if self._closed is not None:
            function = self._closed.slope(normalized)
            return lambda u: slope.chain * function(u)
        spectrum = self.spectrum
        scores = slope.scores(spectrum.eigenvalues)
        if normalized:
            scores = scores - (spectrum.p * scores).sum()
        coefficients = np.asarray(spectrum.p * scores, dtype=float)
        return lambda u: zonal.zonal_series(self._n, spectrum.first, coefficients, u)

    def level_weights(
        self, numbers: NDArray[np.int64], slopes: Sequence[Slope], normalized: bool
    ) -> LevelWeights:
        """Weights of levels, and what they leave out."""
        eigenvalues = zonal.eigenvalues(self._n, int(numbers.max()) + 1)[numbers]
        scores = _columns([slope.scores(eigenvalues) for slope in slopes], len(numbers))
        log_total, total_slopes, share, share_slopes = self._sums(numbers, slopes)
        log_weights = self._law.log_weights(eigenvalues, self._n - 1) - log_total
        scores, share_slopes = scores - total_slopes, share_slopes - share * total_slopes
        factor = 1.0
        if not normalized:
            log_factor = log_total - self._log_volume
            if abs(log_factor) > _LOG_MOST:
                raise ValueError(f"the kernel is exp({log_factor:.6g}) on the diagonal; normalise it")
            factor = math.exp(log_factor)
            scores, share_slopes = scores + total_slopes, share_slopes + share * total_slopes
        weights = factor * np.exp(log_weights.astype(float))
        return LevelWeights(weights, factor, factor * share, scores, factor * share_slopes)

    def _sums(
        self, numbers: NDArray[np.int64], slopes: Sequence[Slope]
    ) -> tuple[float, Array, float, Array]:
        """Logarithm of ``sum_l a_l N_l``, its slopes, the part outside some levels, and its slopes."""
        sums = self.level_sums(numbers)
        if sums is not None:
            chains = np.array([slope.chain for slope in slopes])
            return sums.log_total, chains * sums.slope, sums.share, chains * sums.share_slope
        spectrum = self.spectrum
        outside = ~np.isin(spectrum.levels, numbers)
        scores = _columns([slope.scores(spectrum.eigenvalues) for slope in slopes], len(spectrum.p))
        p = spectrum.p
        return spectrum.log_total, p @ scores, float(p[outside].sum()), p[outside] @ scores[outside]


@lru_cache(maxsize=512)
def _series(law: Law, n: int) -> ZonalSeries:
    return ZonalSeries(law, n)


@lru_cache(maxsize=512)
def _profile(law: Law, n: int, separation: Separation, normalized: bool) -> Profile:
    function = _exact_at_zero(_series(law, n).function, 1.0)
    floor = 0.0 if law.nonnegative else -np.inf
    return _table(function, law, n, separation, normalized, floor)


@lru_cache(maxsize=256)
def _slope_profile(law: Law, n: int, separation: Separation, normalized: bool, slope: Slope) -> Profile:
    function = _series(law, n).slope(slope, normalized)
    function = _exact_at_zero(function, 0.0) if normalized else function
    return _table(function, law, n, separation, normalized)


@lru_cache(maxsize=256)
def _log_profile(law: Law, n: int, separation: Separation, normalized: bool) -> Profile:
    series = _series(law, n)
    shift = 0.0 if normalized else series.log_value
    function = law.log_function(n, series.function, _sides(separation))
    profile = compile_profile(lambda u: function(u) + shift, separation, logarithmic=True)
    return profile.without_exponential


def _table(
    function: Function,
    law: Law,
    n: int,
    separation: Separation,
    normalized: bool,
    floor: float = -np.inf,
) -> Profile:
    factor = absolute_factor(None if normalized else _series(law, n).log_value, n)
    sides = _sides(separation)
    return compile_profile(
        lambda u: factor * function(u)[:sides], separation,
        unit=factor, floor=floor, law_error=2 * zonal.TRUNCATION,
    )  # fmt: skip


def _sides(separation: Separation) -> int:
    """Hemispheres that a law is compiled for."""
    return 2 if separation == "folded" else 1


def _columns(parts: list[Any], rows: int) -> Array:
    return np.stack(parts, axis=1).astype(float) if parts else np.zeros((rows, 0))


def _exact_at_zero(function: Function, value: float) -> Function:
    """The function with an exact value at separation zero."""

    def exact(u: Array) -> Array:
        values = function(u)
        values[0, u == 0] = value
        return values

    return exact
