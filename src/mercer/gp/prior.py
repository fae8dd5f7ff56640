"""The process before any data: variances of the features, and what they leave out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.harmonics import SphericalHarmonics
from mercer.kernels.levels import LevelWeights, level_weights

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Prior:
    """A Gaussian process with the covariance ``amplitude * kernel``, seen through harmonics."""

    amplitude: float
    levels: LevelWeights
    harmonics: SphericalHarmonics

    @classmethod
    def of(cls, amplitude: float, kernel: Any, harmonics: SphericalHarmonics) -> Prior:
        """The prior of a kernel with its present hyperparameters."""
        return cls(amplitude, level_weights(kernel, harmonics.n, harmonics.level_numbers), harmonics)

    @property
    def variances(self) -> Array:
        """Prior variance of the weight of each feature."""
        return self.amplitude * np.repeat(self.levels.weights, self.harmonics.counts)

    def left(self, diagonal: Any, captured: Any) -> Any:
        """Variance that the features leave out, where ``|x|^(2p)`` is ``diagonal``.

        Squares of the harmonics of a full level add up to N_l everywhere and leave nothing;
        ``captured`` is what those of the last level add up to, which may lack some.
        """
        return self.amplitude * (
            self.levels.rest * diagonal + self.levels.weights[-1] * self._missing(diagonal, captured)
        )

    def left_slopes(self, diagonal: float, captured: float) -> Array:
        """Derivatives of :meth:`left` by the logarithms of the kernel's hyperparameters."""
        last = self.levels.weights[-1] * self._missing(diagonal, captured) * self.levels.slopes[-1]
        return self.amplitude * (self.levels.rest_slopes * diagonal + last)

    def _missing(self, diagonal: Any, captured: Any) -> Any:
        share = self.harmonics.shares[-1]
        if share == 1:
            return 0.0
        return np.maximum(self.harmonics.counts[-1] / share * diagonal - captured, 0.0)


def last_level(phi: Array, harmonics: SphericalHarmonics) -> Array:
    """Sums of squares of the features of the last level."""
    return (phi[:, -harmonics.counts[-1] :] ** 2).sum(axis=1)
