"""Hyperparameters: the bound as a function of them, and its maximum."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
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
#: Processes with a smaller prior variance at the rows, in the same unit, have found noise alone.
_FLAT = 1e-5
#: Where the search begins anew if it found noise alone: prior variances in units of the noise, and
#: factors of the kernel's hyperparameters.
_RATIOS, _FACTORS = 10.0 ** np.arange(-1, 8), (0.1, 0.3, 1.0, 3.0, 10.0)
#: How much larger the evidence of features alone must be than that of noise: two hyperparameters that
#: are fitted to noise gain one on average.
_SURE = 3.0
#: How far restarts stray from the start, as a factor.
_STRAY = 10.0
#: Steps of Newton's method, and of the differences that give it the curvature.
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
        Its own values of the hyperparameters matter for the range of the amplitude, and where noise
        alone was found.
    fixed_noise : bool
        The noise is one, and theta does not name it.
    alone : bool
        The process is that of the features alone, and the bound is its evidence: the rest of the kernel
        counts as noise.
    """

    bound: Bound
    features: Features
    rest: Array
    kernel: Any
    fixed_noise: bool = False
    alone: bool = False

    @classmethod
    def of(cls, sums: Statistics, features: Features, kernel: Any) -> Evidence:
        """The bound of rows with Gaussian noise, from their sums."""
        bound = Bound(sums.gram, sums.linear, sums.squares, sums.weight, sums.rows)
        return cls(bound, features, sums.rest, kernel)

    def placed(self, like: Any) -> Evidence:
        """The same with the matrix of sums on the device of another array."""
        return replace(self, bound=self.bound.placed(like))

    def _variances(self, kernel: Any) -> tuple[float, float]:
        """Mean prior variances of a kernel at the rows that features hold and leave out."""
        prior = Prior.of(1.0, kernel, self.features)
        held = prior.variances @ prior.features.project(self.bound).squared_features
        left = prior.left(prior.features.project_rest(self.bound, self.rest))
        return float(held) / self.bound.count, float(left) / self.bound.count

    def held(self, kernel: Any) -> float:
        """Part of a kernel's prior variance at the rows that the features hold."""
        held, left = self._variances(kernel)
        return held / (held + left)

    @cached_property
    def _variance(self) -> float:
        """Mean prior variance at the rows, of the kernel as it is."""
        return max(sum(self._variances(self.kernel)), np.finfo(float).tiny)

    def is_noise(self, theta: Array) -> bool:
        """Whether a process has next to no variance at the rows: noise alone was found."""
        amplitude, _, kernel = self.split(theta)
        return amplitude * sum(self._variances(kernel)) <= _FLAT

    @property
    def bounds(self) -> Array:
        """Lower and upper end of each element of theta."""
        own = [amplitude_range(self._variance), NOISES][: 1 if self.fixed_noise else 2]
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
        prior = Prior.of(amplitude, kernel, self.features, self.alone)
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

    def search(
        self, start: Array, restarts: int, rng: np.random.Generator, max_iter: int = 200
    ) -> tuple[Evidence, Array]:
        """The bound with its best theta, or the evidence of the features alone with its own.

        What the features leave out of the kernel counts as unexplained variance, half of which, in units
        of the noise, is subtracted from the bound.  Whatever the features explain, this favours large
        noise and small amplitudes: with many columns the bound is largest for noise alone.  The features
        alone are a process too, the kernel cut off after its first levels.  Its evidence has no such
        term, and decides whether the rows need the rest.  If the bound is larger at the hyperparameters
        of the features alone than where its own search ended, the search continues from there.

        Functions at inducing points are not such a process, because they vanish away from the points;
        and if no noise is learnt, nothing accounts for the rest.  In these cases the features are used
        alone only if the search found noise alone, and the rest is smaller than the noise.
        """
        theta, value = self.maximise(start, restarts, rng, max_iter, insist=False)
        flat = self.is_noise(theta)
        cut_off = self.features.truncation and not self.fixed_noise
        if not (flat or cut_off):
            return self, theta
        alone = replace(self, alone=True)
        with blas_in_one_thread():
            others = self._elsewhere() if flat else [(theta, value, value)]
            found, evidence = alone._climbed(max(others, key=itemgetter(2))[0], max_iter)
            if evidence < value + _SURE:  # it is above the bound everywhere
                return self, theta
            if cut_off and self.value(found) <= value:
                return alone, found
            start = found if cut_off else max(others, key=itemgetter(1))[0]
            again, bound = self._climbed(start, max_iter)
        better = bound > value and not self.is_noise(again)  # not noise alone once more
        if better and (not cut_off or evidence < bound + _SURE):
            return self, again
        return (self, theta) if not cut_off and self.exceeds_noise(found) else (alone, found)

    def exceeds_noise(self, theta: Array) -> bool:
        """Whether the features leave out more of the whole kernel than the noise is."""
        solution, _, left = replace(self, alone=False).solve(theta)
        return left > solution.noise * self.bound.count

    def maximise(
        self,
        start: Array,
        restarts: int,
        rng: np.random.Generator,
        max_iter: int = 200,
        insist: bool = True,
    ) -> tuple[Array, float]:
        """The best theta that L-BFGS finds from the start and points around it, and the bound there.

        With ``insist`` it begins anew elsewhere if it found noise alone.  Starts that fail (noise below
        the rounding error of many rows) count as worst.
        """
        low, high = self.bounds.T
        stray = math.log(_STRAY) * rng.uniform(-1, 1, size=(restarts, len(start)))
        starts = [np.clip(start + move, low, high) for move in (np.zeros_like(start), *stray)]
        results: list[tuple[Array, float]] = [(start, -math.inf)] * len(starts)

        def job(number: int) -> None:
            results[number] = self._climb(starts[number], max_iter)

        # Matrices are small: BLAS is fastest in one thread, and the starts share the cores.
        if len(starts) == 1:
            with blas_in_one_thread():
                job(0)
        else:
            run(job, [(number,) for number in range(len(starts))], what="hyperparameters")
        best, value = max(results, key=lambda result: result[1])
        with blas_in_one_thread():
            if insist and self.is_noise(best):
                other = max(self._elsewhere(), key=itemgetter(1))[0]
                best, value = max((best, value), self._climb(other, max_iter), key=itemgetter(1))
            return self._polished(best, value)

    def _elsewhere(self) -> list[tuple[Array, float, float]]:
        """Other amplitudes and ranges of the kernel, each with the best noise.

        They come with the bound and the evidence of the features alone.  Ranges are around those of the
        kernel itself, which a search may leave far behind on its way to noise.
        """
        low, high = self.kernel.bounds.reshape(-1, 2).T
        ranges = np.clip(self.kernel.theta + np.log(_FACTORS)[:, None], low, high)
        found = []
        amplitudes = np.log(_RATIOS) - math.log(self._variance)
        for amplitude, of_kernel in itertools.product(amplitudes, np.unique(ranges, axis=0)):
            theta = np.append([amplitude, 0.0][: 1 if self.fixed_noise else 2], of_kernel)
            try:
                solution, _, left = self.solve(theta)
            except np.linalg.LinAlgError:  # noise below the rounding error of that many rows
                found.append((theta, -math.inf, -math.inf))
                continue
            gain = 0.0
            if not self.fixed_noise:
                factor, gain = solution.rescaled()
                theta[:2] += math.log(factor)
            theta = np.clip(theta, *self.bounds.T)
            found.append((theta, solution.value(left) + gain, solution.value(0.0) + gain))
        return found

    def _climbed(self, start: Array, max_iter: int) -> tuple[Array, float]:
        return self._polished(*self._climb(start, max_iter))

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


def amplitude_range(variance: float) -> tuple[float, float]:
    """Range of the amplitude of a kernel with this mean ``k(x, x)``, which need not be near one.

    A kernel that is not normalised, or that grows with ``|x|``, can be large or small.
    """
    return AMPLITUDES[0] / max(1.0, variance), AMPLITUDES[1] / min(1.0, variance)


def descending(
    value_and_gradient: Callable[[Array], tuple[float, Array]], scale: float
) -> Callable[[Array], tuple[float, Array]]:
    """The negative of a bound in units of ``scale``, for a minimiser; large if it cannot be computed."""

    def descent(theta: Array) -> tuple[float, Array]:
        try:
            value, gradient = value_and_gradient(theta)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros_like(theta)  # noise below the rounding error of that many rows
        return -value / scale, -gradient / scale

    return descent


def warn_at_bounds(bounded: Any, found: list[Any]) -> None:
    """Warn about hyperparameters that ended at their bounds, those of a kernel before they were learnt.

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
                remedy = (
                    f"{change} it by {h.name}_bounds=(..., ...), or keep the hyperparameter where it is "
                    f"by {h.name}_bounds='fixed'"
                )
                _warn_of_bound(h.name, side, ends[close.argmax()], remedy)


def warn_of_own_bounds(amplitude: float, most: float, noise: float, standardised: bool) -> None:
    """Warn about an amplitude at its upper bound (both as logarithms), or a noise at a bound.

    They are in units of the targets.  Noise at its lower bound is none, unless targets are not
    standardised.
    """
    rescale = "rescale the targets" if standardised else "rescale the targets, or use normalize_y=True"
    if np.isclose(amplitude, most):
        remedy = f"use a kernel of shorter range, or {rescale}"
        _warn_of_bound("amplitude", "upper", math.exp(most), remedy)
    for side, end in zip(("lower", "upper"), NOISES, strict=True):
        if np.isclose(math.log(noise), math.log(end)) and not (standardised and side == "lower"):
            _warn_of_bound("noise", side, end, rescale)


def _warn_of_bound(name: str, side: str, end: float, remedy: str) -> None:
    warnings.warn(
        f"the optimal value found for {name} is close to its {side} bound, {end:.3g}; {remedy}",
        ConvergenceWarning,
        stacklevel=6,  # the caller of fit
    )
