"""Eigenfunctions of homogeneous spaces: harmonics, and products; and features made of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._arrays import Array, asarray_like
from mercer.engine import engine_for
from mercer.laws import Law
from mercer.spaces.base import Embedding
from mercer.spaces.realisations.base import FeatureMap, absolute_factor
from mercer.spaces.realisations.eigenfunctions import (
    Eigenfunctions,
    LogWeights,
    compressed,
    law_weights,
    require_columns,
)
from mercer.special import zonal
from mercer.special.harmonics import HarmonicBasis, multiplicity

#: Levels of a sphere that are kept one by one where what is left out is summed; ends of blocks beyond.
_LEVELS, _RATIO, _LAST = 1024, 1.02, 1e6
#: Most columns of a sphere whose levels have numbers of functions that can be summed.
MOST_DIMENSIONS = 32


@dataclass(frozen=True, eq=False)
class HomogeneousFunctions(Eigenfunctions):
    """Orthonormal eigenfunctions in sets whose squares have the same sum at all points.

    Parameters
    ----------
    space : Space
    eigenvalues, rest_eigenvalues : arrays
    rest_masses : array
        Sums of squares of the omitted functions, for each of their eigenvalues.
    mass : float
        Mean square of a function: one over the volume of the space.
    sets : array of int
        Number of the set of each function.
    """

    space: Any
    eigenvalues: Array
    rest_eigenvalues: Array
    rest_masses: Array
    mass: float
    sets: NDArray[np.intp]

    @property
    def mean_squares(self) -> Array:
        return np.concatenate([np.full(len(self.eigenvalues), self.mass), self.rest_masses])

    def check(self, X: Any, name: str = "X") -> Any:
        return self.space.check(X, name)

    def gram(self, kernel: Any, checked: Any) -> Array:
        return np.asarray(kernel.realise(self.space.columns(checked)).gram(checked))

    def rest(self, checked: Any) -> Array:
        return np.broadcast_to(self.rest_masses, (len(checked), len(self.rest_masses)))


@dataclass(frozen=True, eq=False)
class HarmonicFunctions(HomogeneousFunctions):
    """Spherical harmonics of whole levels."""

    harmonics: HarmonicBasis

    @classmethod
    def of(
        cls,
        space: Any,
        n: int,
        count: int,
        log_weights: LogWeights,
        *,
        step: int,
        scale: float,
        volume: float,
    ) -> HarmonicFunctions:
        """The heaviest levels of S^(n-1), every ``step``-th of which is one of the space.

        Parameters
        ----------
        space : Space
            Its checked points are embedded as unit vectors.
        scale : float
            The Laplacian of the sphere in units of that of the space.
        volume : float
            Volume of the space.
        """
        levels = np.arange(0, _LEVELS, step)
        values = zonal.eigenvalues(n, _LEVELS)[levels].astype(float) / scale
        sizes = np.array([float(multiplicity(n, level)) for level in levels.tolist()])
        order = np.argsort(-log_weights(values), kind="stable")
        kept = np.sort(order[np.cumsum(sizes[order]) <= count])
        if not kept.size:
            raise ValueError(
                f"the heaviest level of {space!r} has more than {count} functions; allow for more"
            )
        left = np.setdiff1d(np.arange(len(levels)), kept)
        # Beyond, blocks of levels with as many functions, at the eigenvalue of their middle.
        ends = np.exp(np.arange(math.log(_LEVELS), math.log(_LAST), math.log(_RATIO)))
        middle = np.sqrt(ends[1:] * ends[:-1])
        many = np.exp(np.array([_log_multiplicity(n, m) for m in middle])) * np.diff(ends) / step
        rest = np.concatenate([values[left], middle * (middle + n - 2) / scale])
        masses = np.concatenate([sizes[left], many]) / volume
        harmonics = HarmonicBasis(n, levels[kept].tolist())
        level = harmonics.feature_levels
        eigenvalues = level * (level + n - 2.0) / scale
        return cls(space, eigenvalues, rest, masses, 1 / volume, level, harmonics)

    def values(self, checked: Any) -> Array:
        require_columns(int(checked.shape[1]), self.harmonics.n)
        points, _ = self.space.embed(checked)
        values = engine_for(points).evaluate(self.harmonics, points)
        return np.asarray(values * math.sqrt(self.mass))

    @property
    def fingerprint(self) -> str:
        return f"{self.space!r} {self.harmonics!r}"


def _log_multiplicity(n: int, level: float) -> float:
    """Logarithm of the number of harmonics of a level, as a smooth function of it."""
    if n == 2:
        return math.log(2)
    return (
        math.log(2 * level + n - 2)
        + math.lgamma(level + n - 2)
        - math.lgamma(level + 1)
        - math.lgamma(n - 1)
    )


@dataclass(frozen=True, eq=False)
class ProductFunctions(HomogeneousFunctions):
    """Products of eigenfunctions of the factors of a product of spaces."""

    factors: tuple[Any, ...]
    places: NDArray[np.intp]

    @classmethod
    def of(
        cls, space: Any, factors: Sequence[Any], times: Sequence[float], count: int
    ) -> ProductFunctions:
        """The least sums of eigenvalues, by the functions of each factor."""
        sums, places = np.zeros(1), np.zeros((1, 0), dtype=np.intp)
        spectrum, masses = np.zeros(1), np.ones(1)
        for factor, time in zip(factors, times, strict=True):
            both = np.add.outer(sums, time * factor.eigenvalues)
            chosen = np.argsort(both, axis=None, kind="stable")[:count]
            rows, columns = np.unravel_index(chosen, both.shape)
            sums, places = both.ravel()[chosen], np.column_stack([places[rows], columns])
            whole = np.concatenate([factor.eigenvalues, factor.rest_eigenvalues])
            parts = compressed(time * whole, factor.mean_squares)
            spectrum = np.add.outer(spectrum, parts[0]).ravel()
            spectrum, masses = compressed(spectrum, np.multiply.outer(masses, parts[1]).ravel())
        # The sets of a product are products of sets; the last may not be complete.
        sets = np.column_stack([f.sets[where] for f, where in zip(factors, places.T, strict=True)])
        names, sets, counts = np.unique(sets, axis=0, return_inverse=True, return_counts=True)
        full = [np.bincount(f.sets)[name] for f, name in zip(factors, names.T, strict=True)]
        sets = sets.ravel()  # NumPy 2.0 returns a column
        complete = (counts == np.prod(full, axis=0))[sets]
        sums, places, sets = sums[complete], places[complete], sets[complete]
        mass = math.prod(factor.mass for factor in factors)
        nearest = np.searchsorted((spectrum[1:] + spectrum[:-1]) / 2, sums)
        left = masses - mass * np.bincount(nearest, minlength=len(spectrum))
        some = left > 1e-9 * masses
        return cls(space, sums, spectrum[some], left[some], mass, sets, tuple(factors), places)

    def values(self, checked: Any) -> Array:
        parts = zip(self.factors, checked.parts, self.places.T, strict=True)
        return reduce(np.multiply, (factor.values(part)[:, where] for factor, part, where in parts))

    @property
    def fingerprint(self) -> str:
        return f"{self.space!r} {[factor.fingerprint for factor in self.factors]} {len(self.places)}"


@dataclass(frozen=True, eq=False)
class EigenMap(FeatureMap):
    """``F_x = (sqrt(a(lambda_1)) phi_1(x), ...)`` with eigenfunctions of a homogeneous space."""

    basis: Any
    roots: Array
    error: float

    @classmethod
    def of(cls, basis: Any, law: Law, dimension: int, log_total: float, normalized: bool) -> EigenMap:
        """The map of a law with the value ``exp(log_total)`` at equal points."""
        factor = absolute_factor(None if normalized else log_total, dimension)
        shares = np.exp(law_weights(law, dimension)(basis.eigenvalues) - log_total)
        error = max(1 - basis.mass * math.fsum(shares), 0.0) + 16 * float(np.finfo(float).eps)
        return cls(basis, np.sqrt(factor * shares), factor * error)

    @property
    def eigenvalues(self) -> Array:  # type: ignore[override]
        """Eigenvalue of the Laplacian of each feature."""
        return self.basis.eigenvalues

    def __call__(self, P: Any) -> Any:
        """See :class:`FeatureMap`; differentiable where the eigenfunctions are."""
        values = self.basis.values(P)
        return values * asarray_like(self.roots, values)


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
        return values * asarray_like(self.roots, values)
