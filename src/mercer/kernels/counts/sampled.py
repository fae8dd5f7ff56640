"""The base class of kernels that are averaged over posteriors, and their samples."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from mercer._validation import check_whole, is_whole
from mercer.engine.posteriors import Array, Sampler, latin_hypercube
from mercer.kernels.structured import StructuredKernel

#: Number of samples in a set, and smallest number of sets, whose spread gives the standard error.
_SET, _SETS = 32, 8


class PosteriorKernel(StructuredKernel):
    """Base class of kernels ``K(x, x') = E k(theta, theta')`` over independent posteriors.

    A subclass draws samples of the posteriors from points of a unit cube and compares them
    (:meth:`_sampler`); it may have an exact form besides.
    """

    n_samples: int
    random_state: int
    normalized = False

    @abstractmethod
    def _sampler(self, P: Any, uniform: Array, name: str | None) -> Sampler:
        """Samples from points of the cube, compared by the kernel or by its derivative in log(name)."""

    @abstractmethod
    def _coordinates(self, P: Any) -> int:
        """Dimension of the cube."""

    def _is_exact(self, P: Any) -> bool:
        """Tell whether no samples are needed."""
        return False

    def _check_samples(self) -> None:
        owner = type(self).__name__
        check_whole(f"n_samples of {owner}", self.n_samples, 2 * _SETS)
        if not is_whole(self.random_state) or self.random_state < 0:
            raise ValueError(
                f"random_state of {owner} must be a non-negative whole number, so that samples "
                f"do not change between calls, got {self.random_state!r}"
            )

    @property
    def _counts(self) -> tuple[int, int]:
        """Number of sets, and number of samples in each."""
        size = min(_SET, int(self.n_samples) // _SETS)
        return int(self.n_samples) // size, size

    def _sets(self, P: Any, name: str | None = None) -> Iterator[Sampler]:
        """Sets of samples."""
        (sets, size), n = self._counts, self._coordinates(P)
        for k in range(sets):
            yield self._sampler(P, latin_hypercube(size, n, (int(self.random_state), k)), name)

    def sampled_gram(self, P: Any, Q: Any, name: str | None = None) -> Array:
        """Average over samples between checked points, or its derivative in log(name)."""
        K = np.zeros((P.shape[0], (P if Q is None else Q).shape[0]))
        for sampler in self._sets(P, name):
            K += sampler.gram(P, Q)[0]
        return K / self._counts[0]

    def _sampled_diagonal(self, P: Any) -> Array:
        values = np.zeros(P.shape[0])
        for sampler in self._sets(P):
            values += sampler.diagonal(P)
        return values / self._counts[0]

    def standard_error(self, X: Any, Y: Any = None) -> Array:
        """Standard errors of the entries of ``k(X, Y)``; zero if the kernel is exact.

        ``sqrt(s^2 / R + d^2)`` with s the standard deviation between the R sets of samples, and d the
        contribution to the mean of pairs of samples from the same point of the unit cube, which are not
        independent; d usually bounds the bias.
        """
        self.validate()
        P, Q = self._check(X, None if Y is X else Y)
        total, squares, bias = np.zeros((3, P.shape[0], (P if Q is None else Q).shape[0]))
        if self._is_exact(P):
            return total
        sets, size = self._counts
        for done, sampler in enumerate(self._sets(P)):
            means, equals = sampler.gram(P, Q)
            change = means - total
            total += change / (done + 1)
            squares += change * (means - total)
            bias += (equals - means) / (size - 1) / sets
        return np.sqrt(squares / (sets - 1) / sets + bias**2)
