"""Functions of rows that sparse Gaussian processes are seen through."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer.gp.input_map import InputMap
from mercer.harmonics import SphericalHarmonics
from mercer.kernels.levels import LevelWeights, level_weights, radial_power, weighty_levels
from mercer.spaces.spherical import row_lengths

Array = NDArray[np.float64]

#: Longest row whose squares of squares are numbers.
_LONGEST = 1e70


class Features(ABC):
    """Functions of rows that a process is seen through, in groups of equal prior variance.

    The groups are levels of the sphere.  The functions of all but the last are complete: their squares
    add up to the same number at all unit vectors.
    """

    inputs: InputMap
    #: The power p of ``|x|`` that all functions have as a factor.
    power: int

    @property
    @abstractmethod
    def n(self) -> int:
        """Dimension of the space around the sphere."""

    @property
    @abstractmethod
    def counts(self) -> tuple[int, ...]:
        """Number of functions in each group."""

    @property
    @abstractmethod
    def whole(self) -> float | None:
        """What squares of the last group would add up to if it were complete; None if it is."""

    @abstractmethod
    def level_weights(self, kernel: Any) -> LevelWeights:
        """Prior variances of the groups for a kernel, and what they leave out."""

    @abstractmethod
    def _write(self, points: Array, out: Array) -> None:
        """Write the functions at unit vectors."""

    @property
    @abstractmethod
    def _identity(self) -> tuple[Any, ...]:
        """What tells these functions from others."""

    @property
    def size(self) -> int:
        """Number of features."""
        return sum(self.counts)

    def check(self, X: Any, name: str = "X") -> Any:
        """Rows as the kernel takes them, checked."""
        if self.inputs.dimension(X.shape[1]) != self.n:
            columns = self.n - self.inputs.is_table
            raise ValueError(f"{name} has {X.shape[1]} columns, but {columns} in the rows before")
        rows = self.inputs.space.check(self.inputs.rows(X), name)
        if self.power:
            long = row_lengths(rows) > _LONGEST
            if long.any():
                raise ValueError(f"row {int(long.argmax())} of {name} is too long for floating numbers")
        return rows

    def write(self, rows: Any, out: Array) -> Array:
        """Write the features of checked rows; returns ``|x|^(2p)`` of each."""
        points = self.inputs.space.embed(rows)[0]
        self._write(points.toarray() if sparse.issparse(points) else points, out)
        if self.power == 0:
            return np.ones(len(out))
        lengths = row_lengths(rows) ** self.power
        out *= lengths[:, None]
        return lengths**2

    def captured(self, phi: Array) -> Array:
        """Sums of squares of the features of the last group."""
        return (phi[:, -self.counts[-1] :] ** 2).sum(axis=1)

    @property
    def fingerprint(self) -> str:
        """The same for the same features: statistics of different ones must not be added."""
        inputs = self.inputs
        parts = (inputs.space, inputs.bias, inputs.mean, inputs.scale, self.power, *self._identity)
        shown = [p.tobytes().hex() if isinstance(p, np.ndarray) else repr(p) for p in parts]
        return hashlib.sha256(";".join(shown).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class HarmonicFeatures(Features):
    """Features ``|x|^p phi_lk(x / |x|)`` of rows."""

    inputs: InputMap
    harmonics: SphericalHarmonics
    power: int

    @classmethod
    def of(
        cls, kernel: Any, inputs: InputMap, n: int, levels: Any, most: int | None, seed: int
    ) -> HarmonicFeatures:
        """Choose harmonics for a kernel: levels of weight zero are left out unless asked for."""
        if levels is None:
            levels = weighty_levels(kernel, n)
        harmonics = SphericalHarmonics(n, levels, most, seed)
        return cls(inputs, harmonics, radial_power(kernel))

    @property
    def n(self) -> int:
        """See :class:`Features`."""
        return self.harmonics.n

    @property
    def counts(self) -> tuple[int, ...]:
        """See :class:`Features`."""
        return self.harmonics.counts

    @property
    def whole(self) -> float | None:
        """See :class:`Features`; squares of a full level add up to N_l everywhere."""
        share = self.harmonics.shares[-1]
        return None if share == 1 else self.counts[-1] / share

    def level_weights(self, kernel: Any) -> LevelWeights:
        """See :class:`Features`."""
        return level_weights(kernel, self.n, self.harmonics.level_numbers)

    def _write(self, points: Array, out: Array) -> None:
        self.harmonics.write(points, out)

    @property
    def _identity(self) -> tuple[Any, ...]:
        return (self.harmonics,)
