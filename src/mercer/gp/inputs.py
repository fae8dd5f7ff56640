"""From rows to features: what sparse Gaussian processes on the sphere see of them."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer.gp.input_map import Moments
from mercer.harmonics import SphericalHarmonics
from mercer.kernels.levels import LevelWeights, level_weights, radial_power, weighty_levels
from mercer.spaces import Simplex, Sphere, SphericalSpace
from mercer.spaces.spherical import is_globe, row_lengths, unit_rows

Array = NDArray[np.float64]

#: Longest row whose squares of squares are numbers.
_LONGEST = 1e70
#: Fewest and most rows by which tables are told from directions, and how much their lengths vary then.
_FEWEST, _LOOKS, _TABLE = 30, 500, 0.75
#: Distance of the quartiles of the normal distribution, in standard deviations.
_QUARTILES = 1.349
#: Variance of the logarithm of lengths that is no more than rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class InputMap:
    """How rows become points of a sphere.

    A table's columns are centred and scaled, and a constant one is appended: ``z = ((x - m) / s, b)``, a
    point in the direction ``z / |z|``.  Otherwise rows are points of a space already, and m is None.
    """

    space: SphericalSpace
    bias: float = 0.0
    mean: Array | None = None
    scale: Array | None = None

    @classmethod
    def of_table(cls, moments: Moments, bias: float) -> InputMap:
        """Standardise columns by their moments."""
        return cls(Sphere(), bias, moments.mean, moments.scale)

    def stretched(self, factors: Array) -> InputMap:
        """The same with standardised columns multiplied by factors."""
        assert self.scale is not None
        return replace(self, scale=self.scale / factors)

    @property
    def is_table(self) -> bool:
        """Whether columns are standardised."""
        return self.mean is not None

    def rows(self, X: Any) -> Any:
        """Rows as the kernel takes them."""
        if self.mean is None:
            return X
        X = X.toarray() if sparse.issparse(X) else X
        out = np.empty((len(X), X.shape[1] + 1))
        np.subtract(X, self.mean, out=out[:, :-1])
        out[:, :-1] /= self.scale
        out[:, -1] = self.bias
        return out

    def dimension(self, columns: int) -> int:
        """Dimension of the space around the sphere."""
        if self.is_table:
            return columns + 1
        return columns if self.space.n is None else self.space.n


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


def is_table_kernel(kernel: Any, inputs: str) -> bool:
    """Whether rows are columns of a table, or points of the kernel's own space."""
    if inputs not in ("auto", "table", "points"):
        raise ValueError(f"inputs must be 'auto', 'table' or 'points', got {inputs!r}")
    space = kernel.space
    if inputs == "table" and (isinstance(space, Simplex) or is_globe(space)):
        raise ValueError(f"inputs='table' centres columns: use Sphere() in place of {space!r}")
    return inputs == "table" or (inputs == "auto" and not isinstance(space, SphericalSpace))


def takes_any_length(space: Any) -> bool:
    """Whether rows may have any length, and the space looks at their directions only."""
    return isinstance(space, Sphere) and not space.unit and not is_globe(space)


def looks_like_table(X: Any) -> bool:
    """Whether the lengths of rows vary about as much as their directions, or more.

    ``(n - 1) v / (n s)``, with v the variance of the logarithms of lengths (by their quartiles: single
    rows do not matter) and s the part of unit vectors off their main axis, ``1 - 1 / n`` if they go all
    ways alike.  It is 0 for rows of one length, 0.34 for normal rows of two columns, 0.21 of three and
    0.05 of ten; 0.94 for scikit-learn's iris, 1.2 for its diabetes in their own units, and above 40 for
    wine and breast cancer, where one column is nearly all of the length.  Columns that were standardised
    cannot be told from directions.
    """
    if sparse.issparse(X):  # counts of words, as a rule
        return False
    lengths = row_lengths(X)
    X, lengths = X[lengths > 0], lengths[lengths > 0]  # others are refused later, by name
    if len(X) < _FEWEST:
        return False
    some = slice(None, None, -(-len(X) // _LOOKS))
    low, high = np.quantile(np.log(lengths[some]), [0.25, 0.75])
    points = unit_rows(X[some])
    axis = np.linalg.eigvalsh(points @ points.T)[-1] / len(points)
    spread = (1 - axis) * X.shape[1] / (X.shape[1] - 1)
    return bool(((high - low) / _QUARTILES) ** 2 > _TABLE * spread + _ROUNDING)
