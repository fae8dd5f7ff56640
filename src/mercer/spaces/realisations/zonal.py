"""Laws on spheres: functions of the angle, and weights of their levels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from mercer.engine import engine_for
from mercer.laws import Law
from mercer.profiles import Profile, Separation, compile_profile
from mercer.spaces.base import Embedding
from mercer.spaces.realisations.base import FeatureMap, Radial, Slope
from mercer.spaces.realisations.eigenfunctions import require_columns
from mercer.special import zonal
from mercer.special.harmonics import HarmonicBasis, multiplicity
from mercer.special.level_sums import Sums
from mercer.special.zonal import Array, Function

#: exp() of more than this overflows.
LOG_MAX = math.log(np.finfo(float).max)
#: exp() of more than this times a few rows overflows.
_LOG_MOST = 600.0


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
    embedding : Embedding
    separation : {"one-sided", "folded"}
    law : Law
    n : int
        Ambient dimension.
    normalized : bool
    scale : float
        The Laplacian of the sphere in units of that of the space.
    """

    def __init__(
        self,
        embedding: Embedding,
        separation: Separation,
        law: Law,
        n: int,
        normalized: bool,
        scale: float = 1.0,
    ) -> None:
        self.embedding = embedding
        self._separation = separation
        self._series = _series(law, n)
        self._law, self._n, self._normalized, self._scale = law, n, normalized, scale

    @property
    def spectrum(self) -> zonal.Spectrum:
        """Weights on the levels that matter, and their sum."""
        return self._series.spectrum

    @property
    def log_self_similarity(self) -> float:
        return self._series.log_value

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

    def log_level_weights(self, levels: int) -> NDArray[Any]:
        """Logarithms of the law's weights on the first levels."""
        return self._law.log_weights(zonal.eigenvalues(self._n, levels), self._n - 1)

    def level_sums(self, numbers: NDArray[np.int64]) -> Sums | None:
        """Sums over all levels and outside some, if the law has a formula for them."""
        return self._law.level_sums(self._n, numbers)

    def features(self, size: int, seed: int) -> HarmonicMap:
        """See :class:`Realisation`; spherical harmonics."""
        weights = self.level_weights(np.arange(64), ()).weights
        levels = np.flatnonzero(weights > 0).tolist()
        found = HarmonicMap.of(
            self.embedding, self._n, levels, size, seed, lambda numbers: self.level_weights(numbers, ())
        )
        return replace(found, scale=self._scale)

    def level_weights(self, numbers: NDArray[np.int64], slopes: Sequence[Slope]) -> LevelWeights:
        """Weights of levels, and what they leave out."""
        slopes = [self._on_sphere(slope) for slope in slopes]
        return self._series.level_weights(numbers, slopes, self._normalized)


@dataclass(frozen=True, eq=False)
class HarmonicMap(FeatureMap):
    """``F_x = s(x) (sqrt(a_l N_l / B_l) phi_lj(x))`` with B_l of the N_l harmonics of level l."""

    embedding: Embedding
    harmonics: HarmonicBasis
    roots: Array
    error: float
    #: The Laplacian of the sphere in units of that of the space.
    scale: float = 1.0

    @classmethod
    def of(
        cls,
        embedding: Embedding,
        n: int,
        levels: Sequence[int],
        size: int,
        seed: int,
        level_weights: Callable[[Any], Any],
    ) -> HarmonicMap:
        """The map of at most ``size`` features in dimension n."""
        harmonics = HarmonicBasis(n, levels, size, seed)
        found = level_weights(np.asarray(harmonics.level_numbers))
        roots = np.sqrt(np.repeat(found.weights / harmonics.shares, harmonics.counts))
        share, last = harmonics.shares[-1], multiplicity(n, harmonics.level_numbers[-1])
        # An incomplete level is right on average over directions, not for those that were drawn.
        missing = 0.0 if share == 1 else found.weights[-1] * last / share
        return cls(embedding, harmonics, roots, found.rest + float(missing))

    @property
    def eigenvalues(self) -> Array:  # type: ignore[override]
        """Eigenvalue of the Laplacian of each feature."""
        level = self.harmonics.feature_levels.astype(float)
        return level * (level + self.harmonics.n - 2) / self.scale

    def __call__(self, P: Any) -> Any:
        """See :class:`FeatureMap`; differentiable where rows are tensors."""
        require_columns(int(P.shape[1]), self.harmonics.n)
        points, _ = self.embedding.embed(P)
        values = engine_for(points).evaluate(self.harmonics, points)
        scale = self.embedding.row_scale(P)
        if scale is not None:
            values = values * scale[:, None]
        xp = array_namespace(values)
        return values * xp.asarray(self.roots, dtype=values.dtype, device=device(values))


def absolute_factor(log_value: float | None, n: int) -> float:
    """Factor of a normalised kernel in the absolute form; refused outside the floating-point range."""
    if log_value is None:
        return 1.0
    if abs(log_value) > LOG_MAX:
        raise ValueError(
            f"the absolute form is exp({log_value:.6g}) on the diagonal in dimension {n}, out of "
            "the floating-point range; use normalized=True (and log_self_similarity for the factor), or "
            "the log(X, Y) of a heat kernel"
        )
    return math.exp(log_value)


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
        sums: Sums | None = self._law.level_sums(self._n, numbers)
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
