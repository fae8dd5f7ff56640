"""Spherical harmonics as features of a kernel on the sphere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from mercer.engine import engine_for
from mercer.spaces.base import Embedding
from mercer.spaces.realisations.base import FeatureMap
from mercer.special.harmonics import HarmonicBasis, multiplicity

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HarmonicMap(FeatureMap):
    """``F_x = s(x) (sqrt(a_l N_l / B_l) phi_lj(x))`` with B_l of the N_l harmonics of level l."""

    embedding: Embedding
    harmonics: HarmonicBasis
    roots: Array
    error: float

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
        # An incomplete level is there in the mean over directions, but not for these.
        missing = 0.0 if share == 1 else found.weights[-1] * last / share
        return cls(embedding, harmonics, roots, found.rest + float(missing))

    @property
    def eigenvalues(self) -> Array:  # type: ignore[override]
        """Eigenvalue of the Laplacian of each feature."""
        level = self.harmonics.feature_levels.astype(float)
        return level * (level + self.harmonics.n - 2)

    def __call__(self, P: Any) -> Any:
        """See :class:`FeatureMap`; differentiable where rows are tensors."""
        if P.shape[1] != self.harmonics.n:
            raise ValueError(f"X has {P.shape[1]} columns, but {self.harmonics.n} when fitted")
        points, _ = self.embedding.embed(P)
        values = engine_for(points).evaluate(self.harmonics, points)
        scale = self.embedding.row_scale(P)
        if scale is not None:
            values = values * scale[:, None]
        xp = array_namespace(values)
        return values * xp.asarray(self.roots, dtype=values.dtype, device=device(values))
