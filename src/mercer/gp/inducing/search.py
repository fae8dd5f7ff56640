"""The search for inducing points: the bound as a function of them, its derivatives, its maximum."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize

from mercer._progress import progress
from mercer._threads import run, threads_for_runs
from mercer.engine import engine_for
from mercer.gp.elbo import Solution
from mercer.gp.features import ROWS
from mercer.gp.hyperparameters import AMPLITUDES, NOISES, Evidence, descending
from mercer.gp.inducing.features import (
    JITTER,
    TILE,
    InducingFeatures,
    ZonalFunction,
    strips,
    with_fixed_parameters,
)
from mercer.gp.input_map import InputMap
from mercer.rows import ArrayRows, Block
from mercer.rows.statistics import add_rows, collect

Array = NDArray[np.float64]

#: Smallest and largest factor of a column, in units of the kernel's width divided by the square root of
#: the number of columns: all columns together always move a row by part of the width.  Without such a
#: floor the bound is highest where some columns are left out altogether, and errors on new rows are
#: larger.
_FACTORS = (0.3, 1e4)
#: Rows and inducing points of the first search.
FEW, SCOUTS = 2000, 200
#: Steps of L-BFGS in it, and then with all points: fewer where rows are few and most of them are points.
FIRST_STEPS, STEPS, MORE_STEPS = 20, 20, 30
#: Where the search may begin: common factors of the columns in units of the usual one, or parts of the
#: ranges of the kernel's hyperparameters.
_STARTS = (0.3, 0.6, 1.2, 2.5, 5.0, 10.0)
_PARTS = np.linspace(0.1, 0.9, 9)
#: Ratio of the longest to the shortest length scales and times that are tried at the start.
_LENGTHS, _TIMES = 1e4, 1e6
#: Largest unit of a point's coordinates, in standardised columns or coordinates of the sphere.  Usually
#: the unit is the width of the kernel: a point, one of hundreds, matters far less than a scale, and
#: L-BFGS needs far fewer steps if a unit of each matters equally.
_FARTHEST = 10.0
#: Number of steps that find the amplitude and noise of a start.
_TRIAL_STEPS = 10
#: Widest kernel, as an angle, with which scales are learnt: the cap of the sphere that rows fill is then
#: nearly flat, and scales can make up for everything else.
_WIDEST = 0.3
#: Largest number of coordinates of inducing points that are learnt; points with more stay at their rows.
_COORDINATES = 200_000
#: Smallest and largest number of steps that L-BFGS remembers, and largest number of entries in them.
_MEMORY, _NUMBERS = (5, 30), 10**7


@dataclass(frozen=True, eq=False)
class InducingEvidence:
    """The bound of some rows as a function of inducing points and hyperparameters.

    ``theta`` holds the logarithms of column factors (if ``scaled``), then those of :class:`Evidence`
    (amplitude, noise, the kernel's free hyperparameters), then the inducing points, row by row in
    ``units``.  Those of a table have its columns, standardised; factors move them along with the rows.

    With features ``phi = L^-1 k``, weights of posterior mean mu and covariance S, amplitude a and noise
    s, the derivatives of the bound are ``L^-T ((a - S) phi + mu (y - phi'mu)) / s`` with respect to the
    values k of the kernel at a row, and ``-L^-T (mu mu' / a + a G / s - 1 + S / a) L^-1 / 2`` with
    respect to its matrix at the inducing points.  The rest is the chain rule.  An evaluation costs two
    passes over the rows, O(m M^2 + M^3).

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
        Units of the coordinates of inducing points.
    """

    inputs: InputMap
    kernel: Any
    rows: Block
    scaled: bool
    units: Array

    @cached_property
    def ambient(self) -> Array:
        """Rows in the space around the sphere, before factors; their lengths count for some kernels."""
        X = self.rows.X
        if not self.inputs.is_table and self.kernel.radial_power == 0:
            X = self.inputs.space.embed(self.inputs.space.check(X))[0]
        X = X.toarray() if sparse.issparse(X) else X
        return np.asarray(self.inputs.rows(X), dtype=float)

    @property
    def _own(self) -> tuple[int, int]:
        """Where the parameters of Evidence begin and end in theta."""
        first = self.rows.X.shape[1] if self.scaled else 0
        return first, first + 2 + len(self.kernel.theta)

    def theta(self, factors: Array, own: Array, inducing: Array) -> Array:
        """Put theta together."""
        logs = np.log(factors) if self.scaled else np.zeros(0)
        return np.concatenate([logs, own, (inducing / self.units).ravel()])

    def split(self, theta: Array) -> tuple[Array, Array, Array]:
        """Factors of columns, parameters of Evidence, and inducing points of theta."""
        first, last = self._own
        factors = np.exp(theta[:first]) if self.scaled else np.ones(self.units.size)
        return factors, theta[first:last], theta[last:].reshape(-1, self.units.size) * self.units

    @property
    def bounds(self) -> Array:
        """Lower and upper end of everything in theta but inducing points."""
        own = np.concatenate([np.log([AMPLITUDES, NOISES]), self.kernel.bounds.reshape(-1, 2)])
        if not self.scaled:
            return own
        factors = np.log(self.usual_factor * np.array(_FACTORS))
        return np.concatenate([np.tile(factors, (self._own[0], 1)), own])

    def width(self, own: Array) -> float:
        """The kernel's width in coordinates, at given hyperparameters."""
        kernel = self.kernel.clone_with_theta(own[2:])
        angle = ZonalFunction.of(kernel, self.ambient.shape[1]).width
        return angle * self.inputs.bias if self.inputs.is_table else angle

    @cached_property
    def usual_factor(self) -> float:
        """The factor with which all columns together move a row by about the kernel's width."""
        own = np.concatenate([np.zeros(2), self.kernel.theta])
        return self.width(own) / math.sqrt(self.rows.X.shape[1])

    def _around(self, factors: Array, inducing: Array) -> tuple[Array, Array]:
        """Factors of all coordinates of the space around the sphere, and inducing points in it."""
        if not self.inputs.is_table:
            return factors, inducing
        bias = np.full((len(inducing), 1), self.inputs.bias)
        return np.append(factors, 1.0), np.concatenate([inducing * factors, bias], axis=1)

    def features(self, theta: Array) -> InducingFeatures:
        """The features of theta."""
        factors, own, inducing = self.split(theta)
        inputs = self.inputs.stretched(factors) if self.scaled else self.inputs
        kernel = self.kernel.clone_with_theta(own[2:])
        return InducingFeatures.of(kernel, inputs, unit(self._around(factors, inducing)[1])[0])

    def evidence(self, features: InducingFeatures) -> Evidence:
        """The bound at given features, of amplitude and noise."""
        block = self.rows
        sums = collect(features, ArrayRows(block.X, block.y, block.weight))
        sums = sums.shifted(np.zeros(block.y.shape[1]))
        return Evidence.of(sums, features, with_fixed_parameters(self.kernel))

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """The bound and its derivatives."""
        factors, own, inducing = self.split(theta)
        around, raw = self._around(factors, inducing)
        features = self.features(theta)
        evidence = self.evidence(features)
        solution, prior, left = evidence.solve(own[:2])
        by_kernel = _KernelSlopes.of(features, solution)
        lanes = engine_for(self.ambient).lanes(self.ambient)
        accumulators = [_SlopeAccumulator(features, by_kernel, around) for _ in range(lanes)]
        add_rows(accumulators, self.ambient, self.rows.y, self.rows.weight)
        by_points = sum(part.points for part in accumulators) + 2 * by_kernel.between_points(features)
        by_raw = through_length(by_points, *unit(raw))
        by_factors = sum(part.factors for part in accumulators) + (by_raw * raw).sum(axis=0)
        by_total = solution.left_slope() * prior.amplitude * evidence.rest[0]
        by_parameters = by_kernel.of_parameters(features, by_total)
        by_parameters += sum(part.parameters for part in accumulators)
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
    """Derivatives with respect to vectors, from those with respect to their directions."""
    along = np.einsum("ij,ij->i", by_directions, directions)[:, None]
    return (by_directions - along * directions) / lengths


@dataclass(frozen=True, eq=False)
class _KernelSlopes:
    """Derivatives of the bound with respect to values of the kernel."""

    alpha: Array
    matrix: Array
    between: Array
    noise: float
    of_square: float

    @classmethod
    def of(cls, features: InducingFeatures, solution: Solution) -> _KernelSlopes:
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
        of_square = solution.left_slope() * a * features.zonal.total
        return cls(white.T @ mean, outside["matrix"], outside["between"], s, of_square)

    def between_points(self, features: InducingFeatures) -> Array:
        """Half the derivatives of the bound in the inducing points, through their matrix."""
        w = features.points @ features.points.T
        slopes = features.zonal.slopes(w, out=np.empty_like(w))
        slopes *= self.between
        slopes[np.diag_indices_from(slopes)] = 0.0
        return slopes @ features.points

    def of_parameters(self, features: InducingFeatures, by_total: float) -> Array:
        """Derivatives of the bound in the kernel's hyperparameters, through its matrix and k(x, x)."""
        w = features.points @ features.points.T
        w[np.diag_indices_from(w)] = 1.0
        found = []
        for slopes in features.zonal.parameter_slopes(w, out=np.empty_like(w)):
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


class _SlopeAccumulator:
    """Sums of derivatives over the rows of one thread."""

    height = ROWS

    def __init__(self, features: InducingFeatures, by_kernel: _KernelSlopes, around: Array) -> None:
        self._zonal, self._power = features.zonal, features.power
        self._directions, self._by_kernel, self._around = features.points, by_kernel, around
        # Kernel values and residuals side by side: one product for both.
        self._stacked = np.concatenate([by_kernel.matrix, by_kernel.alpha.T])
        M, width = by_kernel.alpha.shape
        self._buffers = [np.empty((TILE, k)) for k in (M, M, M + width, M)]
        self.points = np.zeros_like(features.points)
        self.factors = np.zeros(features.n)
        self.parameters = np.zeros(len(features.zonal.kernel.free()))

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
        np.multiply(self._zonal.values(slopes), powers, out=values)
        stacked[:, w.shape[1] :] = (y - values @ self._by_kernel.alpha) / self._by_kernel.noise
        np.matmul(stacked, self._stacked, out=by_values)
        by_lengths = np.zeros_like(lengths)
        if weight is not None:
            by_values *= weight
        if self._power:
            along = np.einsum("ij,ij->i", by_values, values)[:, None]
            squares = powers**2 if weight is None else weight * powers**2
            by_lengths = self._power * (along + 2 * self._by_kernel.of_square * squares) / lengths
            by_values *= powers
        for i, slope in enumerate(self._zonal.parameter_slopes(w, out=slopes)):
            self.parameters[i] += np.einsum("ij,ij->", by_values, slope)
        by_values *= self._zonal.slopes(w, out=slopes)
        self.points += by_values.T @ points
        by_raw = through_length(by_values @ self._directions, points, lengths) + by_lengths * points
        self.factors += (by_raw * raw).sum(axis=0)


def learn_inducing_points(
    inputs: InputMap, kernel: Any, own: Array, rows: Block, size: int, scaled: bool, seed: int
) -> tuple[Array, InducingFeatures]:
    """Inducing points that maximise the bound of some rows, and the factors of columns they go with.

    The points begin at random rows.  The search begins with a few rows and goes on with all of them.
    Points at all rows are the exact process and stay there, and so do those with very many coordinates.

    Parameters
    ----------
    inputs, kernel, rows, scaled
        See :class:`InducingEvidence`.  With factors the kernel's own hyperparameters stay as they are,
        unless it is wide: they stretch the same thing.
    own : array
        Where :class:`Evidence` starts.
    size : int
        Largest number of inducing points.
    seed : int

    Returns
    -------
    factors : array of shape (d,)
    features : InducingFeatures
        Their kernel has the hyperparameters that were found, fixed.
    """
    rng = np.random.default_rng(seed)
    if rows.weight is not None:
        rows = rows.take(np.flatnonzero(rows.weight))
    rows = rows.take(rng.permutation(len(rows.y)))
    # Coordinates of an inducing point: columns of a table, or those of the space around the sphere.
    columns = inputs.dimension(rows.X.shape[1]) - inputs.is_table
    if scaled:
        kernel, own = with_fixed_parameters(_narrowed(kernel, columns + 1)), own[:2]
    task = InducingEvidence(inputs, kernel, rows, scaled, np.ones(columns))
    few = replace(task, rows=rows.take(np.arange(min(FEW, len(rows.y)))))
    points = task.ambient[:, :columns] if inputs.is_table else unit(task.ambient)[0]
    # A row that occurs several times is as likely as others, and becomes one point.
    distinct = rng.permutation(np.unique(points, axis=0))
    inducing = distinct[:size]
    still = len(inducing) == len(distinct) or inducing.size > _COORDINATES
    scouts = SCOUTS if len(inducing) < len(distinct) else len(inducing)
    steps = STEPS if len(rows.y) <= FEW else MORE_STEPS
    with threads_for_runs(), progress(FIRST_STEPS + steps, "inducing points") as advance:
        theta = _begin(few, own, inducing[:scouts])
        few, theta = _with_units(few, theta)
        theta = _ascend(few, theta, FIRST_STEPS, still, advance)
        factors, own, moved = few.split(theta)
        theta = task.theta(factors, own, np.concatenate([moved, inducing[scouts:]]))
        task, theta = _with_units(task, theta)
        theta = _ascend(task, theta, steps, still, advance)
    factors, parameters, _ = task.split(theta)
    features = task.features(theta)
    fixed = with_fixed_parameters(kernel.clone_with_theta(parameters[2:]))
    return factors, InducingFeatures.of(fixed, features.inputs, features.points)


def _narrowed(kernel: Any, n: int) -> Any:
    """A kernel of moderate width, if its hyperparameters can make it so."""
    if len(kernel.theta) == 0 or ZonalFunction.of(kernel, n).width <= _WIDEST:
        return kernel
    low, high = _window(kernel)
    for part in reversed(_PARTS):
        narrower = kernel.clone_with_theta(low + part * (high - low))
        if ZonalFunction.of(narrower, n).width <= _WIDEST:
            break
    return narrower


def _window(kernel: Any) -> tuple[Array, Array]:
    """Where starts are looked for: the upper part of the bounds, which hold for all dimensions."""
    low, high = kernel.bounds.T
    free = [h.name for h in kernel.hyperparameters if not h.fixed]
    spans = [_LENGTHS if name.endswith("length_scale") else _TIMES for name in free]
    return np.maximum(low, high - np.log(spans)), high


def _starts(task: InducingEvidence, own: Array) -> list[tuple[Array, Array]]:
    """Factors of columns and parameters of Evidence, from long ranges of the kernel to short ones."""
    ones = np.ones(task.units.size)
    if task.scaled:
        return [(ones * start * task.usual_factor, own) for start in _STARTS]
    if len(own) == 2:
        return [(ones, own)]
    low, high = _window(task.kernel)
    thetas = [own[2:], *(low + part * (high - low) for part in _PARTS)]
    return [(ones, np.concatenate([own[:2], theta])) for theta in thetas]


def _begin(task: InducingEvidence, own: Array, inducing: Array) -> Array:
    """The best of the starts, each at its best amplitude and noise; those that fail are left out."""
    found, failure = [], None
    for factors, parameters in _starts(task, own):
        try:
            features = task.features(task.theta(factors, parameters, inducing))
        except ValueError as error:  # out of the floating-point range
            failure = error
            continue
        # A kernel of long range hardly varies from row to row, unless its amplitude is large: from a
        # small one the way leads to noise alone.
        usual = parameters[:2] - [math.log(features.variation), 0.0]
        best, value = task.evidence(features).maximise(usual, 0, np.random.default_rng(0), _TRIAL_STEPS)
        found.append((value, task.theta(factors, np.concatenate([best, parameters[2:]]), inducing)))
    if failure is not None and not found:
        raise failure
    return max(found, key=lambda pair: pair[0])[1]


def _with_units(task: InducingEvidence, theta: Array) -> tuple[InducingEvidence, Array]:
    """The same with units of inducing points that suit the factors of theta, and theta in them."""
    factors, own, inducing = task.split(theta)
    task = replace(task, units=np.minimum(task.width(own) / factors, _FARTHEST))
    return task, task.theta(factors, own, inducing)


def _ascend(
    task: InducingEvidence, theta: Array, steps: int, still: bool, advance: Callable[[], None]
) -> Array:
    """Maximise the bound by L-BFGS, over everything or, with ``still`` points, over all but these."""
    bounds = task.bounds
    free = len(bounds) if still else len(theta)
    bounds = np.concatenate([bounds, np.tile((-np.inf, np.inf), (free - len(bounds), 1))])

    def value_and_gradient(moving: Array) -> tuple[float, Array]:
        value, gradient = task.value_and_gradient(np.concatenate([moving, theta[free:]]))
        return value, gradient[:free]

    found = minimize(
        descending(value_and_gradient, task.rows.target_weight), theta[:free], jac=True,
        method="L-BFGS-B", bounds=bounds, callback=lambda _: advance(),
        options={
            "maxiter": steps, "maxcor": int(np.clip(_NUMBERS // free, *_MEMORY)),
            "ftol": 1e-7, "gtol": 1e-6,
        },
    )  # fmt: skip
    return np.concatenate([found.x, theta[free:]])
