"""Spherical harmonics as features of a kernel on the sphere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from mercer._arrays import row_lengths
from mercer.harmonics import SphericalHarmonics, multiplicity
from mercer.kernels.levels import level_weights, radial_power, weighty_levels
from mercer.spaces import Sphere, SphericalSpace

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HarmonicMap:
    """``F_x = |x|^p (sqrt(a_l N_l / B_l) phi_lj(x))`` with B_l of the N_l harmonics of level l."""

    kernel: Any
    harmonics: SphericalHarmonics
    roots: Array
    error: float

    @classmethod
    def of(cls, kernel: Any, n: int, size: int, seed: int) -> HarmonicMap:
        """The map of at most ``size`` features in dimension n."""
        harmonics = SphericalHarmonics(n, weighty_levels(kernel, n), size, seed)
        levels = level_weights(kernel, n, harmonics.level_numbers)
        roots = np.sqrt(np.repeat(levels.weights / harmonics.shares, harmonics.counts))
        share, last = harmonics.shares[-1], multiplicity(n, harmonics.level_numbers[-1])
        # An incomplete level is there in the mean over directions, but not for these.
        missing = 0.0 if share == 1 else levels.weights[-1] * last / share
        return cls(kernel, harmonics, roots, levels.rest + float(missing))

    @property
    def eigenvalues(self) -> Array:
        """Eigenvalue of the Laplacian of each feature."""
        level = self.harmonics.feature_levels.astype(float)
        return level * (level + self.harmonics.n - 2)

    def __call__(self, X: Any) -> Any:
        """Features of rows; differentiable where rows are tensors."""
        own = self.kernel.space
        space = own if isinstance(own, SphericalSpace) else Sphere()
        rows = space.check(X)
        if rows.shape[1] != self.harmonics.n:
            raise ValueError(f"X has {rows.shape[1]} columns, but {self.harmonics.n} when fitted")
        values = self.harmonics.evaluate(space.embed(rows)[0])
        power = radial_power(self.kernel)
        if power:
            values = values * row_lengths(rows)[:, None] ** power
        xp = array_namespace(values)
        return values * xp.asarray(self.roots, dtype=values.dtype, device=device(values))
