"""Spherical harmonics in any dimension."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular

from mercer._arrays import Array, asarray_like
from mercer._repr import constructor_call
from mercer._validation import check_whole, is_whole

#: Asking for more functions than this is taken for a mistake.
_MOST = 10**6


def multiplicity(n: int, level: int) -> int:
    """Number of spherical harmonics of a level in dimension n, ``N_l``.

    ``N_l = C(l + n - 2, n - 2) + C(l + n - 3, n - 2)``, with ``N_0 = 1``; exact.

    Parameters
    ----------
    n : int
        Ambient dimension, at least 2.
    level : int
        Level l, from 0.

    Examples
    --------
    >>> from mercer.harmonics import multiplicity
    >>> [multiplicity(3, level) for level in range(4)]
    [1, 3, 5, 7]
    """
    check_whole("n", n, 2)
    check_whole("level", level, 0)
    if level == 0:
        return 1
    return math.comb(level + n - 2, n - 2) + math.comb(level + n - 3, n - 2)


@dataclass(frozen=True, repr=False)
class HarmonicBasis:
    """Spherical harmonics at unit vectors; see :class:`mercer.harmonics.SphericalHarmonics`."""

    n: int
    levels: int | Sequence[int] | None = None
    max_features: int | None = None
    random_state: int = 0

    def __post_init__(self) -> None:
        check_whole("n", self.n, 2)
        if self.max_features is not None:
            check_whole("max_features", self.max_features, 1)
        if self.levels is None and self.max_features is None:
            raise ValueError("give levels, max_features or both")
        if self.levels is not None:
            levels: Any = self.levels
            levels = int(levels) if is_whole(levels) and levels >= 1 else _level_numbers(levels)
            object.__setattr__(self, "levels", levels)
        if self.max_features is None and self.n_features > _MOST:
            raise ValueError(
                f"{self.levels!r} levels in dimension {self.n} are {self.n_features} functions; "
                "give fewer levels, or max_features"
            )

    def __repr__(self) -> str:
        return constructor_call(self)

    @cached_property
    def _counts(self) -> dict[int, int]:
        """Functions of each level that has any, by level."""
        wanted = range(self.levels) if isinstance(self.levels, int) else self.levels
        left = math.inf if self.max_features is None else self.max_features
        counts: dict[int, int] = {}
        for level in wanted if wanted is not None else range(_MOST):
            if left <= 0:
                break
            counts[level] = int(min(multiplicity(self.n, level), left))
            left -= counts[level]
        return counts

    @property
    def level_numbers(self) -> tuple[int, ...]:
        """The levels that have functions, in the order of the columns."""
        return tuple(self._counts)

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of functions of each of those levels."""
        return tuple(self._counts.values())

    @property
    def shares(self) -> Array:
        """Part of each of those levels that is there, ``B / N_l``; one where it is full."""
        return np.array([B / multiplicity(self.n, level) for level, B in self._counts.items()])

    @property
    def n_features(self) -> int:
        """Number of functions in all."""
        return sum(self._counts.values())

    @property
    def feature_levels(self) -> NDArray[np.int64]:
        """Level of each function."""
        return np.repeat(self.level_numbers, self.counts)

    def evaluate(self, points: Any) -> Any:
        """Values at unit vectors, the rows of an array of any library."""
        xp = array_namespace(points)
        parts = self._full.evaluate(points, self.level_numbers) if self._full.levels else []
        if self._zonal is not None:
            cosines = points @ asarray_like(self._zonal.directions.T, points)
            parts.append(self._zonal.polynomial(cosines) @ asarray_like(self._zonal.mix.T, points))
        return xp.concat(parts, axis=1)

    def write(self, points: Array, out: NDArray[Any]) -> None:
        """Write the values at unit vectors, in this thread and without further memory."""
        if self._full.levels:
            from mercer.compiled.harmonics import product_harmonics

            full = self._full
            product_harmonics(
                points, full.up, full.down, full.counts, full.starts, full.places, full.scales, out
            )
        if self._zonal is not None:
            zonal = self._zonal
            out[:, zonal.place :] = zonal.polynomial(points @ zonal.directions.T) @ zonal.mix.T

    @cached_property
    def _partial(self) -> int | None:
        """The level that is not there in full."""
        last = self.level_numbers[-1]
        return last if self._counts[last] < multiplicity(self.n, last) else None

    @cached_property
    def _full(self) -> _Products:
        full = [level for level in self.level_numbers if level != self._partial]
        return _Products.of(self.n, full)

    @cached_property
    def _zonal(self) -> _Zonal | None:
        if self._partial is None:
            return None
        rng = np.random.default_rng(self.random_state)
        B = self._counts[self._partial]
        return _Zonal.of(self.n, self._partial, B, self.n_features - B, rng)


@dataclass(frozen=True, eq=False)
class _Products:
    """Coefficients of the product construction for full levels.

    ``up`` and ``down`` belong to the recurrence in each coordinate from the third on.  With
    ``T_k(l)^2 = prod_(i<l) (i + k/2) / (i + 1)`` functions divided by T_k stay as they are when a
    coordinate is added that they do not depend on.
    """

    n: int
    levels: int
    up: Array
    down: Array
    counts: NDArray[np.int64]
    starts: NDArray[np.int64]
    places: NDArray[np.int64]
    scales: Array

    @classmethod
    def of(cls, n: int, full: list[int]) -> _Products:
        levels = max(full) + 1 if full else 0
        k = np.arange(3, n + 1)[:, None, None]
        m = np.arange(levels)[None, :, None]
        d = np.arange(levels)[None, None, :]
        alpha = m + (k - 2) / 2

        def beta(d: Any) -> Array:  # coefficients of orthonormal Gegenbauer polynomials
            with np.errstate(divide="ignore", invalid="ignore"):
                value = np.sqrt(d * (d + 2 * alpha - 1) / (4 * (d + alpha) * (d + alpha - 1)))
            return np.where(d > 0, value, 0.0)

        def tau(i: Any) -> Array:
            return np.sqrt((np.maximum(i, 0) + 1) / (np.maximum(i, 0) + k / 2))

        up = tau(m + d) / beta(d + 1)
        down = up * beta(d) * tau(m + d - 1)
        counts = np.array([[multiplicity(j, level) for level in range(levels)] for j in range(2, n + 1)])
        starts = np.concatenate([[0], np.cumsum(counts[-1])]) if levels else np.zeros(1)
        places = np.full(levels, -1)
        places[full] = np.concatenate([[0], np.cumsum(counts[-1][full])])[:-1] if full else []
        i = np.arange(max(levels - 1, 0))
        scales = np.sqrt(np.concatenate([[1.0], np.cumprod((i + n / 2) / (i + 1))]))
        return cls(n, levels, up, down, counts.astype(int), starts.astype(int), places, scales)

    def evaluate(self, points: Any, wanted: tuple[int, ...]) -> list[Any]:
        """The wanted levels on arrays of any library: :func:`product_harmonics`, all points at once."""
        xp = array_namespace(points)
        x, y = points[:, 0], points[:, 1]
        one = xp.ones_like(x)
        real, imaginary, root = one, xp.zeros_like(x), math.sqrt(2.0)
        values = [one[:, None]]
        for _ in range(1, self.levels):
            real, imaginary = x * real - y * imaginary, x * imaginary + y * real
            values.append(root * xp.stack([real, imaginary], axis=1))
        square = x * x + y * y
        for stage in range(self.n - 2):
            x = points[:, stage + 2]
            square = square + x * x
            steps = [self._steps(x, square, one, stage, m) for m in range(self.levels)]
            values = [
                xp.concat(
                    [values[level]]
                    + [steps[m][level - m][:, None] * values[m] for m in range(level - 1, -1, -1)],
                    axis=1,
                )
                for level in range(self.levels)
            ]
        return [
            float(self.scales[level]) * values[level]
            for level in wanted
            if level < self.levels and self.places[level] >= 0
        ]

    def _steps(self, x: Any, square: Any, one: Any, stage: int, m: int) -> list[Any]:
        """Polynomials in a new coordinate that extend functions of degree m."""
        steps = [one]
        for d in range(self.levels - m - 1):
            after = float(self.up[stage, m, d]) * x * steps[d]
            if d:
                after = after - float(self.down[stage, m, d]) * square * steps[d - 1]
            steps.append(after)
        return steps


@dataclass(frozen=True, eq=False)
class _Zonal:
    """Part of one level: zonal functions at well-spread directions, made orthonormal."""

    n: int
    level: int
    place: int
    directions: Array
    mix: Array

    @classmethod
    def of(cls, n: int, level: int, size: int, place: int, rng: np.random.Generator) -> _Zonal:
        # Twice as many candidates as needed, in orthogonal frames where there is room for them.
        frames = [
            np.linalg.qr(rng.normal(size=(n, min(n, 2 * size))))[0].T for _ in range(-(-2 * size // n))
        ]
        candidates = np.concatenate(frames)
        # Signs as random as the rest: QR's own are not.
        candidates *= rng.choice([-1.0, 1.0], size=(len(candidates), 1))
        empty = cls(n, level, place, candidates, np.zeros((0, 0)))
        gram = empty.polynomial(candidates @ candidates.T)
        factor, pivots, rank, _ = lapack.dpstrf(gram, lower=1, tol=1e-8)
        if rank < size:
            raise ValueError(
                f"{size} zonal functions of level {level} in dimension {n} are not independent"
            )
        mix = solve_triangular(np.tril(factor[:size, :size]), np.eye(size), lower=True)
        mix *= math.sqrt(multiplicity(n, level))
        return cls(n, level, place, candidates[pivots[:size] - 1], mix)

    def polynomial(self, w: Any) -> Any:
        """Normalised Gegenbauer polynomial P_l of the level."""
        if self.level == 0:
            return w * 0.0 + 1.0
        before, here = 1.0, w
        for i in range(1, self.level):
            ahead = (2 * i + self.n - 2) / (i + self.n - 2)
            before, here = here, ahead * w * here - (i / (i + self.n - 2)) * before
        return here


def _level_numbers(levels: Any) -> tuple[int, ...]:
    """Check a list of levels."""
    try:
        numbers = tuple(levels)
    except TypeError:
        numbers = ()
    rising = all(a < b for a, b in pairwise(numbers))
    if not numbers or not rising or not all(is_whole(level) and level >= 0 for level in numbers):
        raise ValueError(
            "levels must be a number of levels from 1, or rising level numbers such as (0, 1, 2, 4), "
            f"got {levels!r}"
        )
    return tuple(map(int, numbers))
