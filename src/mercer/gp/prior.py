"""The process before any data: variances of the features, and what they leave out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.gp.inputs import Features
from mercer.spaces.zonal import LevelWeights

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Prior:
    """A Gaussian process with the covariance ``amplitude * kernel``, seen through features."""

    amplitude: float
    levels: LevelWeights
    features: Features

    @classmethod
    def of(cls, amplitude: float, kernel: Any, features: Features) -> Prior:
        """The prior of a kernel with its present hyperparameters."""
        return cls(amplitude, features.level_weights(kernel), features)

    @property
    def variances(self) -> Array:
        """Prior variance of the weight of each feature."""
        return self.amplitude * np.repeat(self.levels.weights, self.features.counts)

    def left(self, diagonal: Any, captured: Any) -> Any:
        """Variance that the features leave out, where ``|x|^(2p)`` is ``diagonal``.

        Complete groups leave nothing; ``captured`` is what the squares of the last one add up to, which
        may lack some.
        """
        return self.amplitude * (
            self.levels.rest * diagonal + self.levels.weights[-1] * self._missing(diagonal, captured)
        )

    def left_slopes(self, diagonal: float, captured: float) -> Array:
        """Derivatives of :meth:`left` by the logarithms of the kernel's hyperparameters."""
        last = self.levels.weights[-1] * self._missing(diagonal, captured) * self.levels.slopes[-1]
        return self.amplitude * (self.levels.rest_slopes * diagonal + last)

    def _missing(self, diagonal: Any, captured: Any) -> Any:
        if self.features.whole is None:
            return 0.0
        return np.maximum(self.features.whole * diagonal - captured, 0.0)
