"""Functions of rows that represent sparse Gaussian processes."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer._arrays import count, filled, on_cpu, row_lengths
from mercer.engine import engine_for
from mercer.gp.input_map import InputMap, reads_table
from mercer.harmonics import SphericalHarmonics
from mercer.rows.sums import ProductSums, RowSums

if TYPE_CHECKING:
    from mercer.gp.elbo import Bound, Prior, Solution

Array = NDArray[np.float64]

#: Number of features, unless the space is finite or another is given.
USUAL = 500
#: Rows whose features are in memory at a time, in each thread; more on a device.
ROWS = 1024
#: Longest row whose fourth powers do not overflow.
_LONGEST = 1e70


@dataclass(frozen=True, eq=False)
class PriorWeights:
    """A kernel in terms of features ``phi_j`` and of functions ``psi_r`` that represent the rest.

    ``k(x, x) = sum_j variances_j phi_j(x)^2 + sum_r rest_r psi_r(x)``.  ``slopes`` are derivatives of
    the logarithms of the variances, and ``rest_slopes`` of the rest, with respect to the logarithms of
    the kernel's free hyperparameters.
    """

    variances: Array
    slopes: Array
    rest: Array
    rest_slopes: Array


class Functions(Protocol):
    """Functions of rows at one kernel, as a prior takes them; see :class:`Features`."""

    def write(self, rows: Any, out: Array) -> Array:
        """See :meth:`Features.write`."""

    def weights(self, kernel: Any) -> PriorWeights:
        """See :meth:`Features.weights`."""

    def project(self, bound: Bound) -> Bound:
        """See :meth:`Features.project`."""

    def project_rest(self, bound: Bound, rest: Array) -> Array:
        """See :meth:`Features.project_rest`."""

    def function_slopes(self, solution: Solution, prior: Prior, bound: Bound) -> Array | float:
        """See :meth:`Features.function_slopes`."""


class Features(ABC):
    """Functions of rows with independent weights: values, prior variances, and the rest.

    Sums over rows of products of these functions are collected once.  Where the functions themselves
    depend on the kernel (:meth:`at`), sums are collected from which theirs follow (:meth:`project`).
    """

    #: Number of functions.
    size: int
    #: Number of functions psi_r.
    n_rest: int = 1
    #: How rows become points of a sphere; None for points of other spaces.
    inputs: InputMap | None
    #: Whether the functions are the kernel's own expansion, cut off: alone they are a process too.
    truncation: bool = True

    @abstractmethod
    def check(self, X: Any, name: str = "X") -> Any:
        """Checked rows, in the form that the other methods take."""

    @abstractmethod
    def write(self, rows: Any, out: Any) -> Any:
        """Write the functions at checked rows; returns the functions psi_r there, shape (m, R).

        Arrays are on the device of the rows.
        """

    @abstractmethod
    def weights(self, kernel: Any) -> PriorWeights:
        """Prior variances for a kernel, and the rest."""

    @abstractmethod
    def gram(self, kernel: Any, rows: Any) -> Array:
        """The whole kernel matrix of checked rows."""

    @abstractmethod
    def serves(self, kernel: Any, inputs: str) -> bool:
        """Whether the sums that were collected suit another kernel too."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A text that identifies the features: statistics of different ones must not be added."""

    def sums(self, rows: Any, outputs: int, beside: Any = None) -> RowSums:
        """An accumulator of sums over checked rows; it shares buffers with one ``beside`` it."""
        return ProductSums(self, rows, outputs, beside)

    def lanes(self, rows: Any) -> int:
        """Number of threads for a loop over checked rows."""
        return engine_for(rows).lanes(rows)

    def height(self, rows: Any) -> int:
        """Number of checked rows at which the functions are evaluated at a time."""
        return engine_for(rows).rows_at_once(rows, ROWS, self.size)

    def buffer(self, rows: Any) -> Any:
        """Buffer for the functions at that many rows."""
        return filled((min(self.height(rows), count(rows)), self.size), 0.0, rows)

    def at(self, kernel: Any) -> Functions:
        """The functions at the present hyperparameters of a kernel."""
        return self

    def project(self, bound: Bound) -> Bound:
        """The bound with sums of these functions, from those that were collected."""
        return bound

    def project_rest(self, bound: Bound, rest: Array) -> Array:
        """Sums over rows of the functions psi_r, from those that were collected."""
        return rest

    def function_slopes(self, solution: Solution, prior: Prior, bound: Bound) -> Array | float:
        """Derivatives of the bound in the kernel's hyperparameters, through the functions."""
        return 0.0


class SphericalFeatures(Features):
    """Functions on the sphere times ``|x|^p``, in groups of equal prior variance.

    The functions of all groups but the last are complete: their squares add up to the same number at
    all unit vectors.
    """

    inputs: InputMap
    #: The power p of ``|x|`` that all functions have as a factor.
    power: int

    @property
    @abstractmethod
    def n(self) -> int:
        """Dimension of the space around the sphere."""

    @property
    def whole(self) -> float | None:
        """Sum of squares of the last group if it were complete; None if it is."""
        return None

    @abstractmethod
    def _write(self, points: Any, out: Any) -> None:
        """Write the functions at unit vectors."""

    @property
    @abstractmethod
    def _identity(self) -> tuple[Any, ...]:
        """What distinguishes these functions from others."""

    def check(self, X: Any, name: str = "X") -> Any:
        if self.inputs.dimension(X.shape[1]) != self.n:
            columns = self.n - self.inputs.is_table
            raise ValueError(f"{name} has {X.shape[1]} columns, but {columns} in earlier rows")
        rows = self.inputs.space.check(self.inputs.rows(X), name)
        if self.power:
            long = row_lengths(rows) > _LONGEST
            if bool(long.any()):
                first = int(on_cpu(long).argmax())
                raise ValueError(f"row {first} of {name} is too long for floating-point numbers")
        return rows

    def write(self, rows: Any, out: Any) -> Any:
        """See :class:`Features`; ``|x|^(2p)``, and what squares of the last group lack."""
        self._write(self.inputs.space.embed(rows)[0], out)
        psi = filled((len(out), self.n_rest), 1.0, out)
        if self.power:
            lengths = row_lengths(rows) ** self.power
            out *= lengths[:, None]
            psi *= lengths[:, None] ** 2
        if self.whole is not None:
            psi[:, 1] = (self.whole * psi[:, 1] - self._captured(out)).clip(min=0.0)
        return psi

    def _captured(self, phi: Any) -> Any:
        """Sums of squares of the features of the last group, where that is not complete."""
        return 0.0

    def gram(self, kernel: Any, rows: Any) -> Array:
        return np.asarray(kernel.realise(int(rows.shape[1])).gram(rows))

    def serves(self, kernel: Any, inputs: str) -> bool:
        kernel.require_levels()
        table = reads_table(kernel.space, inputs)
        right_space = table or kernel.space.directions() == self.inputs.space
        return bool(table == self.inputs.is_table and right_space and kernel.radial_power == self.power)

    @property
    def fingerprint(self) -> str:
        inputs = self.inputs
        parts = (inputs.space, inputs.bias, inputs.mean, inputs.scale, self.power, *self._identity)
        # Each step of a search for inducing points asks; with 20 000 columns they take megabytes.
        shown = [_digest(p.tobytes()) if isinstance(p, np.ndarray) else repr(p) for p in parts]
        return _digest(";".join(shown).encode())


@dataclass(frozen=True, eq=False)
class HarmonicFeatures(SphericalFeatures):
    """Features ``|x|^p phi_lk(x / |x|)`` of rows, in levels of the sphere."""

    inputs: InputMap
    harmonics: SphericalHarmonics
    power: int

    @classmethod
    def of(
        cls, kernel: Any, inputs: InputMap, n: int, levels: Any, most: int | None, seed: int
    ) -> HarmonicFeatures:
        """Choose harmonics for a kernel; levels of weight zero are skipped unless requested."""
        if levels is None:
            levels = kernel.nonzero_levels(n)
        harmonics = SphericalHarmonics(n, levels, most, seed)
        return cls(inputs, harmonics, kernel.radial_power)

    @property
    def n(self) -> int:
        return self.harmonics.n

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of functions of each level."""
        return self.harmonics.counts

    @property
    def size(self) -> int:  # type: ignore[override]
        """See :class:`Features`."""
        return sum(self.counts)

    @property
    def n_rest(self) -> int:  # type: ignore[override]
        """See :class:`Features`."""
        return 1 if self.whole is None else 2

    @property
    def whole(self) -> float | None:
        """See :class:`SphericalFeatures`; squares of a full level add up to N_l everywhere."""
        share = self.harmonics.shares[-1]
        return None if share == 1 else self.counts[-1] / share

    def weights(self, kernel: Any) -> PriorWeights:
        levels = kernel.level_weights(self.n, self.harmonics.level_numbers)
        rest, rest_slopes = np.array([levels.rest]), levels.rest_slopes[None, :]
        if self.whole is not None:
            last = levels.weights[-1:]
            rest = np.append(rest, last)
            rest_slopes = np.concatenate([rest_slopes, last * levels.slopes[-1:]])
        variances = np.repeat(levels.weights, self.counts)
        return PriorWeights(variances, np.repeat(levels.slopes, self.counts, axis=0), rest, rest_slopes)

    def _write(self, points: Any, out: Any) -> None:
        engine_for(points).write(self.harmonics, points, out)

    def _captured(self, phi: Any) -> Any:
        return (phi[:, -self.counts[-1] :] ** 2).sum(axis=1)

    @property
    def _identity(self) -> tuple[Any, ...]:
        return (self.harmonics,)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
