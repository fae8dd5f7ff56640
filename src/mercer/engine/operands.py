"""Points that are compared by their differences rather than by a matrix product."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Differences:
    """Points p with factors s, for the invariant ``|p - q|^2 s(p) s(q)`` from differences."""

    points: np.ndarray
    scales: np.ndarray


@dataclass(frozen=True, eq=False)
class Normals:
    """Products of normal distributions, for divergences from differences of their parameters."""

    means: np.ndarray
    deviations: np.ndarray
