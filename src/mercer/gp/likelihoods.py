"""How targets depend on the process, where the noise is not Gaussian."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaln

Array = NDArray[np.float64]

#: Nodes and weights for means over a normal distribution.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True, eq=False)
class Expectations:
    """Means of ``log p(y | f)`` and of its derivatives by f, for ``f ~ N(mean, variance)``.

    ``curvature`` is the mean of minus the second derivative, and is not negative.
    """

    value: Array
    slope: Array
    curvature: Array


class Likelihood(ABC):
    """A log-concave likelihood of one target given the process there."""

    @abstractmethod
    def expectations(self, y: Array, mean: Array, variance: Array) -> Expectations:
        """Means over a normal distribution of f; arrays of one shape."""

    @abstractmethod
    def offset(self, average: Array) -> Array:
        """The process where it is constant and fits the average target."""

    @abstractmethod
    def start(self, y: Array, offset: float) -> Array:
        """A first guess of the process, less the offset, from each target alone."""


class Bernoulli(Likelihood):
    """Targets 0 and 1 with ``p(1 | f) = 1 / (1 + exp(-f))``; means by Gauss-Hermite quadrature."""

    def expectations(self, y: Array, mean: Array, variance: Array) -> Expectations:
        """See :class:`Likelihood`."""
        std = np.sqrt(variance)
        value, probability, curvature = (np.zeros_like(mean) for _ in range(3))
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            f = mean + node * std
            p = expit(f)
            value -= weight * np.logaddexp(0.0, f)
            probability += weight * p
            curvature += weight * p * (1 - p)
        return Expectations(value + y * mean, y - probability, curvature)

    def offset(self, average: Array) -> Array:
        """Logarithm of the odds."""
        return np.log(average) - np.log1p(-average)

    def start(self, y: Array, offset: float) -> Array:
        """None: a label says little of its probability."""
        return np.zeros_like(y)


class Poisson(Likelihood):
    """Counts with the rate ``exp(f)``; means in closed form."""

    def expectations(self, y: Array, mean: Array, variance: Array) -> Expectations:
        """See :class:`Likelihood`."""
        with np.errstate(over="ignore"):  # infinite rates have the value -inf, and are stepped back from
            rate = np.exp(mean + variance / 2)
        return Expectations(y * mean - rate - gammaln(y + 1), y - rate, rate)

    def offset(self, average: Array) -> Array:
        """Logarithm of the average."""
        return np.log(average)

    def start(self, y: Array, offset: float) -> Array:
        """Halfway between count and average: from the average alone large counts would overshoot."""
        return np.log1p(y / math.exp(offset)) - math.log(2)


def mean_probability(mean: Array, variance: Array) -> Array:
    """Mean of ``1 / (1 + exp(-f))`` over ``f ~ N(mean, variance)``."""
    std = np.sqrt(variance)
    return sum(w * expit(mean + node * std) for node, w in zip(_NODES, _WEIGHTS, strict=True))
