"""Likelihoods of targets given the process, other than Gaussian noise."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaln

from mercer._validation import LARGEST
from mercer.rows.blocks import Block, one_column
from mercer.rows.labels import LabelTally

Array = NDArray[np.float64]

#: Nodes and weights for means over a normal distribution.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True, eq=False)
class Expectations:
    """Means of ``log p(y | f)`` and of its derivatives in f, for ``f ~ N(mean, variance)``.

    ``curvature`` is the mean of minus the second derivative, and is not negative.
    """

    value: Array
    slope: Array
    curvature: Array


class Tally(Protocol):
    """What must be known about the targets before the first pass; tallies can be added."""

    @property
    def weight(self) -> float:
        """Sum of the weights of the rows."""

    @property
    def rows(self) -> int:
        """Number of rows."""


class Likelihood(ABC):
    """A log-concave likelihood of targets, each given its own process.

    A subclass is a frozen data class; its fields are learnt from the tally of all targets
    (:meth:`fitted`).  It implements :meth:`terms`, from which means over the process follow by
    Gauss-Hermite quadrature, or :meth:`expectations` directly.  An estimator is then a class of a few
    lines::

        class MyRegressor(RegressorMixin, VariationalGP):
            likelihood = MyLikelihood()
    """

    #: Data classes of tallies, for checkpoints.
    kinds: tuple[type, ...] = ()

    @abstractmethod
    def tally(self, block: Block) -> Tally:
        """The tally of the targets of one block; invalid targets are refused."""

    @abstractmethod
    def fitted(self, tally: Any) -> Self:
        """The likelihood for targets with this tally."""

    @property
    @abstractmethod
    def offset(self) -> Array:
        """A constant added to each process, which fits the average target."""

    @abstractmethod
    def encode(self, block: Block) -> Array:
        """Targets of a block as numbers, a column for each process."""

    def terms(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        """``log p(y | f)``, its derivative with respect to f, and minus the second derivative."""
        raise NotImplementedError(f"{type(self).__name__} has neither terms nor expectations")

    def expectations(self, y: Array, mean: Array, variance: Array) -> Expectations:
        """Means of :meth:`terms` over a normal distribution of f; arrays of one shape."""
        std = np.sqrt(variance)
        value, slope, curvature = (np.zeros_like(mean) for _ in range(3))
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            log_p, first, second = self.terms(y, mean + node * std)
            value += weight * log_p
            slope += weight * first
            curvature += weight * second
        return Expectations(value, slope, curvature)

    def start(self, y: Array, offset: float) -> Array:
        """A first guess of the process, minus the offset, from each target alone; by default none."""
        return np.zeros_like(y)

    @abstractmethod
    def predict(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Mean and variance of encoded targets, for ``f ~ N(mean, variance)``."""


@dataclass(frozen=True, eq=False)
class Bernoulli(Likelihood):
    """Labels: a process for each against the rest, or one for the second of two.

    Encoded targets are 0 and 1, with ``p(1 | f) = 1 / (1 + exp(-f))``.
    """

    labels: NDArray[Any] = field(default_factory=lambda: np.zeros(0))
    frequencies: Array = field(default_factory=lambda: np.zeros(0))
    kinds = (LabelTally,)

    def tally(self, block: Block) -> LabelTally:
        return LabelTally.of(block)

    def fitted(self, tally: LabelTally) -> Self:
        tally.check()
        return replace(self, labels=tally.labels, frequencies=tally.weights / tally.weight)

    @property
    def _own(self) -> slice:
        """Labels that have a process."""
        return slice(1, 2) if len(self.labels) == 2 else slice(None)

    @property
    def offset(self) -> Array:
        """Logarithms of the odds."""
        shown = self.frequencies[self._own]
        return np.log(shown) - np.log1p(-shown)

    def encode(self, block: Block) -> Array:
        return (block.labels()[:, None] == self.labels[self._own]).astype(float)

    def terms(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        p = expit(f)
        return y * f - np.logaddexp(0.0, f), y - p, p * (1 - p)

    def predict(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        p = mean_probability(mean, variance)
        return p, p * (1 - p)


@dataclass(frozen=True, eq=False)
class TargetTotals:
    """Sums of numbers that are functions of the targets, of the weights, and the number of rows."""

    sums: Array
    weight: float
    rows: int

    @classmethod
    def of(cls, block: Block, *values: Array) -> TargetTotals:
        """Weighted sums over rows of each of the values, which are arrays of shape (rows,)."""
        w = np.ones(len(block.y)) if block.weight is None else block.weight
        return cls(np.array([float(w @ v) for v in values]), float(w.sum()), len(w))

    def __add__(self, other: TargetTotals) -> TargetTotals:
        return TargetTotals(self.sums + other.sums, self.weight + other.weight, self.rows + other.rows)

    @property
    def means(self) -> Array:
        """Weighted means."""
        if self.weight == 0:
            raise ValueError("there are no rows, or all weights are zero")
        return self.sums / self.weight


@dataclass(frozen=True, eq=False)
class Poisson(Likelihood):
    """Counts with the rate ``exp(f)``; means in closed form."""

    average: float = 1.0
    kinds = (TargetTotals,)

    def tally(self, block: Block) -> TargetTotals:
        return TargetTotals.of(block, self.encode(block)[:, 0])

    def fitted(self, tally: TargetTotals) -> Self:
        (average,) = tally.means
        if average == 0:
            raise ValueError("all counts are zero; there is nothing to learn a rate from")
        return replace(self, average=float(average))

    @property
    def offset(self) -> Array:
        """Logarithm of the average."""
        return np.log([self.average])

    def encode(self, block: Block) -> Array:
        one_column(block.y)
        y = block.targets()
        if y.min() < 0:
            raise ValueError(
                f"row {int((y < 0).argmax())} of {block.called('y')} is negative; counts have to be "
                "zero or more"
            )
        if y.max() > LARGEST:
            raise ValueError(
                f"row {int(y.argmax())} of {block.called('y')} is {y.max():.3g}, whose square is out of "
                "range; rescale y"
            )
        return y

    def expectations(self, y: Array, mean: Array, variance: Array) -> Expectations:
        with np.errstate(over="ignore"):  # infinite rates have the value -inf, and are stepped back from
            rate = np.exp(mean + variance / 2)
        return Expectations(y * mean - rate - gammaln(y + 1), y - rate, rate)

    def start(self, y: Array, offset: float) -> Array:
        """Halfway between count and average: from the average, steps for large counts overshoot."""
        return np.log1p(y / math.exp(offset)) - math.log(2)

    def predict(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        rate = np.exp(mean + variance / 2)
        return rate, rate + rate**2 * np.expm1(variance)


def mean_probability(mean: Array, variance: Array) -> Array:
    """Mean of ``1 / (1 + exp(-f))`` over ``f ~ N(mean, variance)``."""
    std = np.sqrt(variance)
    return sum(w * expit(mean + node * std) for node, w in zip(_NODES, _WEIGHTS, strict=True))
