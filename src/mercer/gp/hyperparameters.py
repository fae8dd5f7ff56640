"""Hyperparameters: the bound as a function of them, and its maximum."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from mercer._threads import blas_in_one_thread, run
from mercer.gp.elbo import Bound, Prior, Solution
from mercer.gp.features import Features
from mercer.rows.statistics import Statistics

Array = NDArray[np.float64]

#: Ranges of the amplitude and of the noise, both in units of the variance of the targets.
AMPLITUDES = (1e-6, 1e9)
NOISES = (1e-7, 1e2)
#: Processes with a smaller amplitude have found noise alone.
FLAT = 10 * AMPLITUDES[0]
#: Amplitudes and noises from which the search begins anew if it found noise alone.
_AGAIN = np.log([(a, s) for a in (1.0, 1e2, 1e4, 1e6) for s in (1e-1, 1e-3, 1e-5)])
#: How far restarts stray from the start, as a factor.
_STRAY = 10.0
#: Steps of Newton's method, and of the differences that it takes the curvature from.
_NEWTON_STEPS = 3
_STEP = 1e-3


@dataclass(frozen=True, eq=False)
class Evidence:
    """The bound as a function of ``theta``: logarithms of amplitude, noise and kernel hyperparameters.

    Parameters
    ----------
    bound : Bound
    features : Features
    rest : array of shape (R,)
        Sums over rows of the functions that the features leave out; see :class:`PriorWeights`.
    kernel : Kernel
        Its own values of the hyperparameters do not matter.
    fixed_noise : bool
        The noise is one, and theta does not name it.
    """

    bound: Bound
    features: Features
    rest: Array
    kernel: Any
    fixed_noise: bool = False

    @classmethod
    def of(cls, sums: Statistics, features: Features, kernel: Any) -> Evidence:
        """The bound of rows with Gaussian noise, from their sums."""
        bound = Bound(sums.gram, sums.linear, sums.squares, sums.weight, sums.rows)
        return cls(bound, features, sums.rest, kernel)

    def placed(self, like: Any) -> Evidence:
        """The same with the matrix of sums on the device of another array."""
        return replace(self, bound=self.bound.placed(like))

    @property
    def bounds(self) -> Array:
        """Lower and upper end of each element of theta."""
        own = [AMPLITUDES] if self.fixed_noise else [AMPLITUDES, NOISES]
        return np.concatenate([np.log(own), self.kernel.bounds.reshape(-1, 2)])

    def split(self, theta: Array) -> tuple[float, float, Any]:
        """Amplitude, noise and kernel of theta."""
        own = 1 if self.fixed_noise else 2
        noise = 1.0 if self.fixed_noise else math.exp(theta[1])
        kernel = self.kernel.clone_with_theta(np.asarray(theta[own:], dtype=float))
        return math.exp(theta[0]), noise, kernel

    def solve(self, theta: Array) -> tuple[Solution, Prior, float]:
        """Posterior and prior at theta, and the variance that the features leave out of all rows."""
        amplitude, noise, kernel = self.split(theta)
        prior = Prior.of(amplitude, kernel, self.features)
        left = float(prior.left(prior.features.project_rest(self.bound, self.rest)))
        return prior.features.project(self.bound).solve(prior.variances, noise), prior, left

    def value(self, theta: Array) -> float:
        """The bound."""
        solution, _, left = self.solve(theta)
        return solution.value(left)

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """The bound and its derivatives."""
        solved = self.solve(theta)
        return solved[0].value(solved[2]), self.slopes(*solved)

    def slopes(self, solution: Solution, prior: Prior, left: float) -> Array:
        """Derivatives of the bound, where it was solved."""
        by_variance, by_left = solution.slopes(), solution.left_slope()
        own = [by_variance.sum() + by_left * left]
        if not self.fixed_noise:
            own.append(solution.noise_slope(left))
        rest = prior.features.project_rest(self.bound, self.rest)
        of_kernel = by_variance @ prior.weights.slopes + by_left * prior.left_slopes(rest)
        of_kernel = of_kernel + prior.features.function_slopes(solution, prior, self.bound)
        return np.concatenate([own, of_kernel])

    def maximise(
        self, start: Array, restarts: int, rng: np.random.Generator, max_iter: int = 200
    ) -> tuple[Array, float]:
        """The best theta that L-BFGS finds from the start and points around it, and the bound there.

        Starts that fail (noise below the rounding error of many rows) count as worst.
        """
        low, high = self.bounds.T
        stray = math.log(_STRAY) * rng.uniform(-1, 1, size=(restarts, len(start)))
        starts = [np.clip(start + move, low, high) for move in (np.zeros_like(start), *stray)]
        results: list[tuple[Array, float]] = [(start, -math.inf)] * len(starts)

        def job(number: int) -> None:
            results[number] = self._climb(starts[number], max_iter)

        # Matrices are small: BLAS is at its best in one thread, and the starts share the cores.
        if len(starts) == 1:
            with blas_in_one_thread():
                job(0)
        else:
            run(job, [(number,) for number in range(len(starts))], what="hyperparameters")
        best, value = max(results, key=lambda result: result[1])
        with blas_in_one_thread():
            if best[0] <= math.log(FLAT):
                best, value = max((best, value), self._anew(start, max_iter), key=lambda found: found[1])
            return self._polished(best, value)

    def _anew(self, start: Array, max_iter: int) -> tuple[Array, float]:
        """What L-BFGS finds from the best of other amplitudes and noises."""
        own = 1 if self.fixed_noise else 2
        starts = [np.append(pair, start[own:]) for pair in np.unique(_AGAIN[:, :own], axis=0)]
        descent = descending(self.value_and_gradient, 1.0)
        return self._climb(min(starts, key=lambda theta: descent(theta)[0]), max_iter)

    def _polished(self, theta: Array, value: float) -> tuple[Array, float]:
        """The maximum near theta to working precision, by Newton's method.

        The maximum is flat, so the point where L-BFGS stops depends on the last digits of the sums.
        The result must not depend on how the rows were split.
        """
        low, high = self.bounds.T
        free = np.flatnonzero((theta > low + 2 * _STEP) & (theta < high - 2 * _STEP))
        if free.size == 0:
            return theta, value
        moves = _STEP * np.eye(len(theta))[free]

        def slope(at: Array) -> Array:
            return self.value_and_gradient(at)[1][free]

        try:
            curvature = np.array([slope(theta + m) - slope(theta - m) for m in moves]) / (2 * _STEP)
            factor = cho_factor(-(curvature + curvature.T) / 2, check_finite=False)
            found = theta.copy()
            for _ in range(_NEWTON_STEPS):
                step = cho_solve(factor, slope(found), check_finite=False)
                if not np.abs(step).max(initial=0.0) < 0.1:
                    return theta, value
                found[free] += step
            found = np.clip(found, low, high)
            better = self.value(found)
        except np.linalg.LinAlgError:  # no maximum here
            return theta, value
        # The bound is known to fewer digits than its gradient.
        return (found, better) if better >= value - 1e-9 * abs(value) else (theta, value)

    def _climb(self, start: Array, max_iter: int) -> tuple[Array, float]:
        scale = max(self.bound.count, 1.0) * self.bound.squares.size

        found = minimize(
            descending(self.value_and_gradient, scale), start, jac=True, method="L-BFGS-B",
            bounds=self.bounds, options={"maxiter": max_iter, "ftol": 1e-9, "gtol": 1e-6},
        )  # fmt: skip
        return found.x, -float(found.fun) * scale


def descending(
    value_and_gradient: Callable[[Array], tuple[float, Array]], scale: float
) -> Callable[[Array], tuple[float, Array]]:
    """The negative of a bound in units of ``scale``, for a minimiser; large if it cannot be computed."""

    def descent(theta: Array) -> tuple[float, Array]:
        try:
            value, gradient = value_and_gradient(theta)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros_like(theta)  # noise below the rounding of so many rows
        return -value / scale, -gradient / scale

    return descent


def warn_at_bounds(bounded: Any, found: list[Any]) -> None:
    """Warn of hyperparameters that ended at their bounds, those of a kernel before they were learnt.

    Each is named once, however many of the kernels that were found have it there.
    """
    told = set()
    for kernel in found:
        values = kernel.get_params()
        for h in bounded.hyperparameters:
            if h.fixed:
                continue
            for side, change, ends in zip(
                ("lower", "upper"), ("lower", "raise"), h.bounds.T, strict=True
            ):
                close = np.isclose(np.log(values[h.name]), np.log(ends))
                if not close.any() or (h.name, side) in told:
                    continue
                told.add((h.name, side))
                end = ends[close.argmax()]
                warnings.warn(
                    f"the optimal value found for {h.name} is close to its {side} bound, {end:.3g}; "
                    f"{change} it by {h.name}_bounds=(..., ...), or keep the hyperparameter where it is "
                    f"by {h.name}_bounds='fixed'",
                    ConvergenceWarning,
                    stacklevel=4,
                )
