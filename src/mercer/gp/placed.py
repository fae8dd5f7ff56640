"""The bound as a function of the places of zonal features, and its derivatives."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer.engine.threads import run
from mercer.gp.bound import Solution
from mercer.gp.evidence import AMPLITUDES, NOISES, Evidence
from mercer.gp.inputs import InputMap
from mercer.gp.rows import ArrayRows, Block
from mercer.gp.statistics import add_rows, collect, lanes_for
from mercer.gp.zonal import JITTER, TILE, ZonalFeatures, Zones, strips, with_fixed_parameters
from mercer.kernels.levels import radial_power

Array = NDArray[np.float64]

#: Least and largest factor of a column, in units of the kernel's width by the root of the number of
#: columns: all columns together always move a row by some of the width.  Without such a floor the bound
#: is highest where some columns are left out for good, and errors on new rows are larger.
_FACTORS = (0.3, 1e4)


@dataclass(frozen=True, eq=False)
class PlacedEvidence:
    """The bound of some rows as a function of everything that zonal features depend on.

    ``theta`` holds the logarithms of column factors (if ``scaled``), then those of :class:`Evidence`
    (amplitude, noise, the kernel's free hyperparameters), then the places, row by row in ``units``.
    Places of a table have its columns, standardised; factors move them along with the rows.

    With features ``phi = L^-1 k``, weights of posterior mean mu and covariance S, amplitude a and noise
    s, the derivatives of the bound are ``L^-T ((a - S) phi + mu (y - phi'mu)) / s`` by the values k of
    the kernel at a row, and ``-L^-T (mu mu' / a + a G / s - 1 + S / a) L^-1 / 2`` by its matrix at the
    places.  The rest is the chain rule.  An evaluation costs two passes over the rows, O(m M^2 + M^3).

    Parameters
    ----------
    inputs : InputMap
        With all factors one.
    kernel : Kernel
    rows : Block
        Raw rows, standardised targets in columns, weights or None.
    scaled : bool
        Whether a table's columns have factors.
    units : array of shape (d,)
        Of the coordinates of places.
    """

    inputs: InputMap
    kernel: Any
    rows: Block
    scaled: bool
    units: Array

    @cached_property
    def points(self) -> Array:
        """Rows in the space around the sphere, before factors; their lengths count for some kernels."""
        X = self.rows.X
        if not self.inputs.is_table and radial_power(self.kernel) == 0:
            X = self.inputs.space.embed(self.inputs.space.check(X))[0]
        X = X.toarray() if sparse.issparse(X) else X
        return np.asarray(self.inputs.rows(X), dtype=float)

    @property
    def _own(self) -> tuple[int, int]:
        """Where the parameters of Evidence begin and end in theta."""
        first = self.rows.X.shape[1] if self.scaled else 0
        return first, first + 2 + len(self.kernel.theta)

    def theta(self, factors: Array, own: Array, places: Array) -> Array:
        """Put theta together."""
        logs = np.log(factors) if self.scaled else np.zeros(0)
        return np.concatenate([logs, own, (places / self.units).ravel()])

    def split(self, theta: Array) -> tuple[Array, Array, Array]:
        """Factors of columns, parameters of Evidence, and places of theta."""
        first, last = self._own
        factors = np.exp(theta[:first]) if self.scaled else np.ones(self.units.size)
        return factors, theta[first:last], theta[last:].reshape(-1, self.units.size) * self.units

    @property
    def bounds(self) -> Array:
        """Lower and upper end of everything in theta but places."""
        own = np.concatenate([np.log([AMPLITUDES, NOISES]), self.kernel.bounds.reshape(-1, 2)])
        if not self.scaled:
            return own
        factors = np.log(self.usual_factor * np.array(_FACTORS))
        return np.concatenate([np.tile(factors, (self._own[0], 1)), own])

    def width(self, own: Array) -> float:
        """The kernel's width in coordinates, at given hyperparameters."""
        kernel = self.kernel.clone_with_theta(own[2:])
        angle = Zones.of(kernel, self.points.shape[1]).width
        return angle * self.inputs.bias if self.inputs.is_table else angle

    @cached_property
    def usual_factor(self) -> float:
        """The factor with which all columns together move a row by about the kernel's width."""
        own = np.concatenate([np.zeros(2), self.kernel.theta])
        return self.width(own) / math.sqrt(self.rows.X.shape[1])

    def _around(self, factors: Array, places: Array) -> tuple[Array, Array]:
        """Factors of all coordinates of the space around the sphere, and places in it."""
        if not self.inputs.is_table:
            return factors, places
        bias = np.full((len(places), 1), self.inputs.bias)
        return np.append(factors, 1.0), np.concatenate([places * factors, bias], axis=1)

    def features(self, theta: Array) -> ZonalFeatures:
        """The features of theta."""
        factors, own, places = self.split(theta)
        inputs = self.inputs.stretched(factors) if self.scaled else self.inputs
        kernel = self.kernel.clone_with_theta(own[2:])
        return ZonalFeatures.of(kernel, inputs, unit(self._around(factors, places)[1])[0])

    def evidence(self, features: ZonalFeatures) -> Evidence:
        """The bound at given features, of amplitude and noise."""
        block = self.rows
        sums = collect(features, ArrayRows(block.X, block.y, block.weight))
        sums = sums.shifted(np.zeros(block.y.shape[1]))
        return Evidence.of(sums, features, with_fixed_parameters(self.kernel))

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """The bound and its derivatives."""
        factors, own, places = self.split(theta)
        around, raw = self._around(factors, places)
        features = self.features(theta)
        evidence = self.evidence(features)
        solution, prior, left = evidence.solve(own[:2])
        outward = _Outward.of(features, solution)
        lanes = [_Lane(features, outward, around) for _ in range(lanes_for(len(self.points)))]
        add_rows(lanes, self.points, self.rows.y, self.rows.weight)
        by_places = sum(lane.places for lane in lanes) + 2 * outward.between_places(features)
        by_raw = through_length(by_places, *unit(raw))
        by_factors = sum(lane.factors for lane in lanes) + (by_raw * raw).sum(axis=0)
        by_total = solution.left_slope() * prior.amplitude * evidence.diagonal
        by_parameters = outward.of_parameters(features, by_total)
        by_parameters += sum(lane.parameters for lane in lanes)
        d = len(factors)
        gradient = [
            by_factors[:d] if self.scaled else np.zeros(0),
            evidence.slopes(solution, prior, left),
            by_parameters,
            ((by_raw * around)[:, :d] * self.units).ravel(),
        ]
        return solution.value(left), np.concatenate(gradient)


def unit(raw: Array) -> tuple[Array, Array]:
    """Directions and lengths of rows."""
    lengths = np.linalg.norm(raw, axis=1, keepdims=True)
    return raw / lengths, lengths


def through_length(by_directions: Array, directions: Array, lengths: Array) -> Array:
    """Derivatives by vectors, from those by their directions."""
    along = np.einsum("ij,ij->i", by_directions, directions)[:, None]
    return (by_directions - along * directions) / lengths


@dataclass(frozen=True, eq=False)
class _Outward:
    """Derivatives of the bound by values of the kernel."""

    alpha: Array
    matrix: Array
    between: Array
    noise: float
    of_square: float

    @classmethod
    def of(cls, features: ZonalFeatures, solution: Solution) -> _Outward:
        a, s, q = float(solution.variances[0]), solution.noise, solution.quadratic.size
        mean, covariance, white = solution.mean, solution.covariance, features.whitening
        diagonal = np.diag_indices_from(covariance)
        between = solution.bound.gram * (-0.5 * q * a / s)
        between -= covariance * (0.5 * q / a)
        between -= mean @ (mean.T / (2 * a))
        between[diagonal] += 0.5 * q
        inner = covariance
        inner *= -q / s
        inner[diagonal] += q * a / s
        outside: dict[str, Array] = {}

        def job(name: str, matrix: Array) -> None:
            outside[name] = congruent(white, matrix)

        run(job, [("matrix", inner), ("between", between)])
        of_square = solution.left_slope() * a * features.zones.total
        return cls(white.T @ mean, outside["matrix"], outside["between"], s, of_square)

    def between_places(self, features: ZonalFeatures) -> Array:
        """Half the derivatives by the places, of their matrix."""
        w = features.places @ features.places.T
        slopes = features.zones.slopes(w, out=np.empty_like(w))
        slopes *= self.between
        slopes[np.diag_indices_from(slopes)] = 0.0
        return slopes @ features.places

    def of_parameters(self, features: ZonalFeatures, by_total: float) -> Array:
        """Derivatives by the kernel's hyperparameters, of the places' matrix and of k(x, x)."""
        w = features.places @ features.places.T
        w[np.diag_indices_from(w)] = 1.0
        found = []
        for slopes in features.zones.parameter_slopes(w, out=np.empty_like(w)):
            total = float(slopes[0, 0])
            jitter = JITTER * total * float(np.trace(self.between))
            found.append(float((self.between * slopes).sum()) + jitter + by_total * total)
        return np.array(found)


def congruent(lower: Array, matrix: Array) -> Array:
    """``L' A L`` for a lower triangle L and a symmetric A, leaving out zeros and one half."""
    out = np.empty_like(matrix)
    for first, last in strips(len(matrix)):
        part = matrix[first:, first:] @ lower[first:, first:last]
        out[first:, first:last] = lower[first:, first:].T @ part
        out[first:last, last:] = out[last:, first:last].T
    return out


class _Lane:
    """Sums of derivatives over the rows of one thread."""

    def __init__(self, features: ZonalFeatures, outward: _Outward, around: Array) -> None:
        self._zones, self._power = features.zones, features.power
        self._directions, self._outward, self._around = features.places, outward, around
        # Kernel values and residuals side by side: one product for both.
        self._stacked = np.concatenate([outward.matrix, outward.alpha.T])
        M, width = outward.alpha.shape
        self._buffers = [np.empty((TILE, k)) for k in (M, M, M + width, M)]
        self.places = np.zeros_like(features.places)
        self.factors = np.zeros(features.n)
        self.parameters = np.zeros(len(features.zones.kernel.free()))

    def add(self, rows: Array, y: Array, weight: Array | None) -> None:
        """Add a few rows, in tiles that stay in the cache."""
        for start in range(0, len(y), TILE):
            part = slice(start, start + TILE)
            self._add(rows[part], y[part], None if weight is None else weight[part, None])

    def _add(self, rows: Array, y: Array, weight: Array | None) -> None:
        raw = rows * self._around
        points, lengths = unit(raw)
        powers = lengths**self._power
        w, slopes, stacked, by_values = (buffer[: len(y)] for buffer in self._buffers)
        values = stacked[:, : w.shape[1]]
        np.matmul(points, self._directions.T, out=w)
        np.copyto(slopes, w)
        np.multiply(self._zones.values(slopes), powers, out=values)
        stacked[:, w.shape[1] :] = (y - values @ self._outward.alpha) / self._outward.noise
        np.matmul(stacked, self._stacked, out=by_values)
        by_lengths = np.zeros_like(lengths)
        if weight is not None:
            by_values *= weight
        if self._power:
            along = np.einsum("ij,ij->i", by_values, values)[:, None]
            squares = powers**2 if weight is None else weight * powers**2
            by_lengths = self._power * (along + 2 * self._outward.of_square * squares) / lengths
            by_values *= powers
        for i, slope in enumerate(self._zones.parameter_slopes(w, out=slopes)):
            self.parameters[i] += np.einsum("ij,ij->", by_values, slope)
        by_values *= self._zones.slopes(w, out=slopes)
        self.places += by_values.T @ points
        by_raw = through_length(by_values @ self._directions, points, lengths) + by_lengths * points
        self.factors += (by_raw * raw).sum(axis=0)
