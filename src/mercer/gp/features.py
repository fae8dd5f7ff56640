"""Functions of rows that sparse Gaussian processes are seen through."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer.gp.input_map import InputMap, is_table_kernel
from mercer.harmonics import SphericalHarmonics
from mercer.kernels.base import log_derivative
from mercer.kernels.levels import (
    check_zonal,
    has_log_weights,
    level_weights,
    radial_power,
    weighty_levels,
)
from mercer.kernels.radial import Road
from mercer.spaces.eigenfunctions import Eigenfunctions
from mercer.spaces.spherical import row_lengths

if TYPE_CHECKING:
    from mercer.gp.elbo import Bound, Prior, Solution

Array = NDArray[np.float64]

#: Number of features, unless the space is finite or another is given.
USUAL = 500
#: Rows whose features are in memory at a time, in each thread.
ROWS = 1024
#: Longest row whose squares of squares are numbers.
_LONGEST = 1e70
#: exp() of more than this times a few rows overflows.
_LOG_MOST = 600.0


@dataclass(frozen=True, eq=False)
class PriorWeights:
    """What a kernel is, seen through features ``phi_j`` that leave functions ``psi_r`` out.

    ``k(x, x) = sum_j variances_j phi_j(x)^2 + sum_r rest_r psi_r(x)``.  ``slopes`` are derivatives of
    the logarithms of the variances, and ``rest_slopes`` of the rest, by the logarithms of the kernel's
    free hyperparameters.
    """

    variances: Array
    slopes: Array
    rest: Array
    rest_slopes: Array


class Features(ABC):
    """Functions of rows with independent weights: values, prior variances, and what they leave out.

    Sums over rows of products of these functions are collected once.  Where the functions themselves
    depend on the kernel (:meth:`at`), sums are collected from which theirs follow (:meth:`project`).
    """

    #: Number of functions.
    size: int
    #: Number of functions psi_r.
    n_rest: int = 1
    #: Whether rows are of a table, with columns that are standardised.
    is_table: bool = False
    #: Numbers of columns of a table that are left out because they are constant.
    constant_columns: Sequence[int] = ()

    @abstractmethod
    def check(self, X: Any, name: str = "X") -> Any:
        """Rows as the other methods take them, checked."""

    @abstractmethod
    def write(self, rows: Any, out: Array) -> Array:
        """Write the functions at checked rows; returns the functions psi_r there, shape (m, R)."""

    @abstractmethod
    def weights(self, kernel: Any) -> PriorWeights:
        """Prior variances for a kernel, and what they leave out."""

    @abstractmethod
    def gram(self, kernel: Any, rows: Any) -> Array:
        """The whole kernel matrix of checked rows."""

    @abstractmethod
    def serves(self, kernel: Any, inputs: str) -> bool:
        """Whether sums that were collected are those of another kernel too."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """The same for the same features: statistics of different ones must not be added."""

    def sums(self, outputs: int, beside: Any = None) -> ProductSums:
        """Where sums over rows are collected, in a thread that has others ``beside``."""
        return ProductSums(self, outputs, beside)

    def at(self, kernel: Any) -> Features:
        """The functions at the present hyperparameters of a kernel."""
        return self

    def project(self, bound: Bound, rest: Array) -> tuple[Bound, Array]:
        """Sums of these functions, from those that were collected."""
        return bound, rest

    def function_slopes(self, solution: Solution, prior: Prior, bound: Bound) -> Array | float:
        """Derivatives of the bound by the kernel's hyperparameters, through the functions."""
        return 0.0


class ProductSums:
    """Sums over rows with weights w and targets t: ``w phi phi'``, ``phi t'`` and ``w psi``."""

    def __init__(self, features: Features, outputs: int, beside: ProductSums | None = None) -> None:
        size = features.size
        self._features = features
        self.gram: Array = np.zeros((size, size))
        self.linear: Array = np.zeros((size, outputs))
        self.rest = np.zeros(features.n_rest)
        # Sums of one thread are computed one after the other, and share their buffers.
        self._buffers: tuple[Array, Array] = (
            (np.empty((ROWS, size)), np.empty((size, size))) if beside is None else beside._buffers
        )

    def add(self, rows: Any, w: Array, t: Array, values: tuple[Array, Array] | None = None) -> None:
        """Add some rows; ``values`` are what ``features.write`` gives there, if it is known."""
        buffer, product = self._buffers
        scaled = buffer[: len(w)]
        phi, psi = values or (scaled, self._features.write(rows, scaled))
        self.linear += phi.T @ t
        np.multiply(phi, np.sqrt(w)[:, None], out=scaled)
        # NumPy computes half of such a product, and lets other threads run, unlike SciPy's syrk.
        self.gram += np.matmul(scaled.T, scaled, out=product)
        self.rest += w @ psi


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
        """What squares of the last group would add up to if it were complete; None if it is."""
        return None

    @abstractmethod
    def _write(self, points: Array, out: Array) -> None:
        """Write the functions at unit vectors."""

    @property
    @abstractmethod
    def _identity(self) -> tuple[Any, ...]:
        """What tells these functions from others."""

    @property
    def is_table(self) -> bool:  # type: ignore[override]
        """See :class:`Features`."""
        return self.inputs.is_table

    @property
    def constant_columns(self) -> Sequence[int]:  # type: ignore[override]
        """See :class:`Features`."""
        scale = self.inputs.scale
        return () if scale is None else np.flatnonzero(np.isinf(scale)).tolist()

    def check(self, X: Any, name: str = "X") -> Any:
        """See :class:`Features`."""
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
        """See :class:`Features`; ``|x|^(2p)``, and what squares of the last group lack."""
        points = self.inputs.space.embed(rows)[0]
        self._write(points.toarray() if sparse.issparse(points) else points, out)
        psi = np.ones((len(out), self.n_rest))
        if self.power:
            lengths = row_lengths(rows) ** self.power
            out *= lengths[:, None]
            psi *= lengths[:, None] ** 2
        if self.whole is not None:
            psi[:, 1] = np.maximum(self.whole * psi[:, 1] - self._captured(out), 0.0)
        return psi

    def _captured(self, phi: Array) -> Array:
        """Sums of squares of the features of the last group."""
        raise NotImplementedError

    def gram(self, kernel: Any, rows: Any) -> Array:
        """See :class:`Features`."""
        road = Road(kernel, rows, None)
        return np.asarray(road.gram(kernel.profile(road.n)))

    def serves(self, kernel: Any, inputs: str) -> bool:
        """See :class:`Features`."""
        check_zonal(kernel)
        table = is_table_kernel(kernel, inputs)
        right_space = table if self.is_table else kernel.space == self.inputs.space
        return bool(right_space and radial_power(kernel) == self.power)

    @property
    def fingerprint(self) -> str:
        """See :class:`Features`."""
        inputs = self.inputs
        parts = (inputs.space, inputs.bias, inputs.mean, inputs.scale, self.power, *self._identity)
        shown = [p.tobytes().hex() if isinstance(p, np.ndarray) else repr(p) for p in parts]
        return hashlib.sha256(";".join(shown).encode()).hexdigest()


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
        """Choose harmonics for a kernel: levels of weight zero are left out unless asked for."""
        if levels is None:
            levels = weighty_levels(kernel, n)
        harmonics = SphericalHarmonics(n, levels, most, seed)
        return cls(inputs, harmonics, radial_power(kernel))

    @property
    def n(self) -> int:
        """See :class:`SphericalFeatures`."""
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
        """See :class:`Features`."""
        levels = level_weights(kernel, self.n, self.harmonics.level_numbers)
        rest, rest_slopes = np.array([levels.rest]), levels.rest_slopes[None, :]
        if self.whole is not None:
            last = levels.weights[-1:]
            rest = np.append(rest, last)
            rest_slopes = np.concatenate([rest_slopes, last * levels.slopes[-1:]])
        variances = np.repeat(levels.weights, self.counts)
        return PriorWeights(variances, np.repeat(levels.slopes, self.counts, axis=0), rest, rest_slopes)

    def _write(self, points: Array, out: Array) -> None:
        self.harmonics.write(points, out)

    def _captured(self, phi: Array) -> Array:
        return (phi[:, -self.counts[-1] :] ** 2).sum(axis=1)

    @property
    def _identity(self) -> tuple[Any, ...]:
        return (self.harmonics,)


def check_kernel(kernel: Any) -> None:
    """Raise unless a kernel has weights on the eigenvalues of a space, or on the levels of a sphere."""
    if not has_log_weights(kernel):
        check_zonal(kernel)


def eigenfunctions(kernel: Any, count: int | None) -> Eigenfunctions | None:
    """Eigenfunctions for a kernel, where its space offers them; None where it does not."""
    if not has_log_weights(kernel):
        return None
    found: Eigenfunctions | None = kernel.space.eigenfunctions(
        count, USUAL, lambda eigenvalues: log_weights(kernel, eigenvalues)
    )
    return found


def log_weights(kernel: Any, eigenvalues: Array) -> Array:
    """Logarithms of a kernel's weights on eigenvalues of a space without dimension."""
    return np.asarray(kernel.with_floats().log_weights(eigenvalues, 1), dtype=float)


@dataclass(frozen=True, eq=False)
class EigenFeatures(Features):
    """Eigenfunctions that a space offers."""

    basis: Eigenfunctions
    space: Any

    @classmethod
    def of(cls, kernel: Any, basis: Eigenfunctions, inputs: str, levels: Any) -> EigenFeatures:
        """Features of a kernel; options that are for spheres are refused."""
        if inputs not in ("auto", "points") or levels is not None:
            raise ValueError(
                f"inputs={inputs!r} and levels={levels!r} are for spheres; leave both out with "
                f"{kernel.space!r}"
            )
        if basis.n_points is None:
            return HomogeneousFeatures(basis, kernel.space)
        kernel.diag(basis.points([0]))  # refuses parameters out of range, and what rounding would spoil
        return FiniteFeatures(basis, kernel.space)

    @property
    def size(self) -> int:  # type: ignore[override]
        """See :class:`Features`."""
        return len(self.basis.eigenvalues)

    def check(self, X: Any, name: str = "X") -> Any:
        """See :class:`Features`."""
        return self.basis.check(X, name)

    def gram(self, kernel: Any, rows: Any) -> Array:
        """See :class:`Features`."""
        return np.asarray(kernel(self.basis.points(rows)))

    def serves(self, kernel: Any, inputs: str) -> bool:
        """See :class:`Features`."""
        return bool(has_log_weights(kernel) and kernel.space == self.space)

    @property
    def fingerprint(self) -> str:
        """See :class:`Features`."""
        return self.basis.fingerprint

    def _spectrum(self, kernel: Any) -> tuple[Array, Array]:
        """Weights of all eigenvalues, kept and left out, and derivatives of their logarithms.

        Those of a normalised kernel are relative to the largest.
        """
        eigenvalues = np.concatenate([self.basis.eigenvalues, self.basis.rest_eigenvalues])
        logs = log_weights(kernel, eigenvalues)
        top = float(logs.max())
        if not kernel.normalized and abs(top) > _LOG_MOST:
            raise ValueError(f"{kernel!r} has the eigenvalue exp({top:.6g}); use normalized=True")
        scores = np.zeros((len(logs), len(kernel.free())))
        for i, name in enumerate(kernel.free()):
            scores[:, i] = log_derivative(kernel, name, lambda k: k.log_weights(eigenvalues, 1))
        return np.exp(logs - (top if kernel.normalized else 0.0)), scores


@dataclass(frozen=True, eq=False)
class HomogeneousFeatures(EigenFeatures):
    """Eigenfunctions on a space whose points are all alike: k(x, x) is the same everywhere."""

    @property
    def n_rest(self) -> int:  # type: ignore[override]
        """See :class:`Features`."""
        return len(self.basis.rest_eigenvalues)

    def write(self, rows: Any, out: Array) -> Array:
        """See :class:`Features`."""
        out[:] = self.basis.values(rows)
        return self.basis.rest(rows)

    def weights(self, kernel: Any) -> PriorWeights:
        """See :class:`Features`."""
        a, scores = self._spectrum(kernel)
        if kernel.normalized:
            a = a / (a @ self.basis.mean_squares)
            scores = scores - (a * self.basis.mean_squares) @ scores
        kept, rest = slice(self.size), slice(self.size, None)
        return PriorWeights(a[kept], scores[kept], a[rest], a[rest, None] * scores[rest])


@dataclass(frozen=True, eq=False)
class FiniteFeatures(EigenFeatures):
    """Eigenfunctions on a space of finitely many points, such as the nodes of a graph.

    Sums are collected point by point: the sum of weights at each, and of targets.  Whatever functions a
    kernel makes of the eigenfunctions, their sums follow from these; a normalised kernel divides them by
    ``k(x, x)^(1/2)``, which is not the same at all points.
    """

    n_rest = 0

    @property
    def n_points(self) -> int:
        """Number of points."""
        assert self.basis.n_points is not None
        return self.basis.n_points

    def write(self, rows: Any, out: Array) -> Array:
        """See :class:`Features`; the eigenfunctions, which no kernel has scaled yet."""
        out[:] = self.basis.values(rows)
        return np.empty((len(out), 0))

    def weights(self, kernel: Any) -> PriorWeights:
        """See :class:`Features`."""
        return self.at(kernel).weights(kernel)

    def sums(self, outputs: int, beside: Any = None) -> ProductSums:
        """See :class:`Features`."""
        return PointSums(self.n_points, outputs)

    def at(self, kernel: Any) -> TabulatedFeatures:
        """See :class:`Features`; ``phi_j(x) (a_j / k(x, x))^(1/2)``, or without k if not normalised."""
        everywhere = np.arange(self.n_points)
        phi, psi = self.basis.values(everywhere), self.basis.rest(everywhere)
        a, scores = self._spectrum(kernel)
        # Sums of a_j, and of its derivatives, times squares: those kept, and the rest.
        terms = np.column_stack([a, a[:, None] * scores])
        kept, rest = phi**2 @ terms[: phi.shape[1]], psi @ terms[phi.shape[1] :]
        scale, scale_slopes = np.ones(len(phi)), np.zeros((len(phi), scores.shape[1]))
        if kernel.normalized:
            scale, scale_slopes = kept[:, 0] + rest[:, 0], kept[:, 1:] + rest[:, 1:]
            if not (scale > 0).all():
                raise ValueError(
                    f"{kernel!r} is zero at {self.basis.points([int(scale.argmin())])[0]!r}, and cannot "
                    "be normalised; use normalized=False"
                )
            scale_slopes = scale_slopes / scale[:, None]
        table = phi * np.sqrt(a[: phi.shape[1]])
        table /= np.sqrt(scale)[:, None]
        left = rest / scale[:, None]
        left_slopes = left[:, 1:] - left[:, :1] * scale_slopes
        return TabulatedFeatures(
            self, table, left[:, 0], scores[: phi.shape[1]], scale_slopes, left_slopes
        )


class PointSums(ProductSums):
    """Sums over rows at each point of a finite space; ``gram`` holds sums of weights."""

    def __init__(self, points: int, outputs: int) -> None:
        self.gram, self.linear, self.rest = np.zeros(points), np.zeros((points, outputs)), np.zeros(0)

    def add(self, rows: Any, w: Array, t: Array, values: tuple[Array, Array] | None = None) -> None:
        """See :class:`ProductSums`."""
        self.gram += np.bincount(rows, w, len(self.gram))
        for i, column in enumerate(t.T):
            self.linear[:, i] += np.bincount(rows, column, len(self.gram))


@dataclass(frozen=True, eq=False)
class TabulatedFeatures(Features):
    """The functions of :class:`FiniteFeatures` at one kernel: tables, with derivatives.

    Weights have the prior variance one.  With s the derivatives of ``log a_j`` and h those of
    ``log k(x, x)`` (zero if not normalised) by a hyperparameter, the derivative of a value phi_j(x) of
    the table is ``phi_j(x) (s_j - h(x)) / 2``.

    Parameters
    ----------
    finite : FiniteFeatures
    table : array of shape (n, M)
        The functions at all points.
    left : array of shape (n,)
        What they leave out of k(x, x).
    scores, scale_slopes, left_slopes : arrays of shape (M, p), (n, p) and (n, p)
        Derivatives s, h, and those of ``left``.
    """

    finite: FiniteFeatures
    table: Array
    left: Array
    scores: Array
    scale_slopes: Array
    left_slopes: Array

    @property
    def size(self) -> int:  # type: ignore[override]
        """See :class:`Features`."""
        return self.table.shape[1]

    def check(self, X: Any, name: str = "X") -> Any:
        """See :class:`Features`."""
        return self.finite.check(X, name)

    def write(self, rows: Any, out: Array) -> Array:
        """See :class:`Features`."""
        np.take(self.table, rows, axis=0, out=out)
        return self.left[rows, None]

    def weights(self, kernel: Any) -> PriorWeights:
        """See :class:`Features`; derivatives are in :meth:`function_slopes`."""
        free = self.scores.shape[1]
        return PriorWeights(
            np.ones(self.size), np.zeros((self.size, free)), np.ones(1), np.zeros((1, free))
        )

    def gram(self, kernel: Any, rows: Any) -> Array:
        """See :class:`Features`."""
        return self.finite.gram(kernel, rows)

    def serves(self, kernel: Any, inputs: str) -> bool:
        """See :class:`Features`."""
        return self.finite.serves(kernel, inputs)

    @property
    def fingerprint(self) -> str:
        """See :class:`Features`."""
        return self.finite.fingerprint

    def project(self, bound: Bound, rest: Array) -> tuple[Bound, Array]:
        """See :class:`Features`; rows at one point count as one, of all their weight."""
        counts = bound.gram
        seen = np.flatnonzero(counts)
        roots = np.sqrt(counts[seen])[:, None]
        factor = roots * self.table[seen], bound.linear[seen] / roots
        return bound.of_factor(*factor), np.array([counts @ self.left])

    def function_slopes(self, solution: Solution, prior: Prior, bound: Bound) -> Array:
        """See :class:`Features`."""
        seen = np.flatnonzero(bound.gram)
        counts, phi = bound.gram[seen][:, None], self.table[seen]
        mean, outputs = solution.mean, solution.quadratic.size
        by_values = (bound.linear[seen] - counts * (phi @ mean)) @ mean.T
        by_values -= outputs * counts * solution.times_covariance(phi)
        by_values *= phi / (2 * solution.noise)
        by_left = solution.left_slope() * prior.amplitude * counts[:, 0]
        found: Array = by_values.sum(axis=0) @ self.scores
        found -= by_values.sum(axis=1) @ self.scale_slopes[seen]
        return found + by_left @ self.left_slopes[seen]
