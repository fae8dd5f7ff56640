"""Eigenfunctions of the Laplacian, for feature maps and sparse Gaussian processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from mercer._arrays import Array
from mercer.laws import Law

#: From eigenvalues to the logarithms of a law's weights.
LogWeights = Callable[[Array], Array]

#: Usual number of eigenfunctions, where there are too many for all of them.
USUAL = 500
#: Distinct eigenvalues that are kept one by one; and blocks of the others.
_SINGLE, _BLOCKS = 10_000, 2_000


def law_weights(law: Law, dimension: int) -> LogWeights:
    """Logarithms of the weights of a law on a space of some dimension."""
    return lambda eigenvalues: np.asarray(law.log_weights(eigenvalues, dimension), dtype=float)


class Eigenfunctions(ABC):
    """Some eigenfunctions ``phi_j`` of the Laplacian of a space, and the rest.

    For weights a of the eigenvalues, ``k(x, y) = sum_j a(lambda_j) phi_j(x) phi_j(y)`` plus the rest,
    and ``k(x, x) = sum_j a(lambda_j) phi_j(x)^2 + sum_r a(mu_r) psi_r(x)``.  The functions psi_r are
    sums of squares of the other eigenfunctions.
    """

    #: Eigenvalues lambda_j, shape (M,), and mu_r, shape (R,).
    eigenvalues: Array
    rest_eigenvalues: Array
    #: Number of points of a finite space, whose checked points are then numbers from 0 on; None for an
    #: infinite space, where ``k(x, x)`` must be the same at all points.
    n_points: int | None = None

    @property
    def mean_squares(self) -> Array:
        """Means over the space of ``phi_j^2`` and of ``psi_r``, shape (M + R,); infinite spaces only."""
        raise NotImplementedError(f"{type(self).__name__} has no means over the space")

    @abstractmethod
    def check(self, X: Any, name: str = "X") -> Any:
        """Validate points and return them as :meth:`values` takes them."""

    def points(self, checked: Any) -> Any:
        """Checked points as a kernel takes them; of a finite space, or for :meth:`gram`."""
        raise NotImplementedError(f"{type(self).__name__} has no points that a kernel takes")

    def gram(self, kernel: Any, checked: Any) -> Array:
        """Gram matrix of a kernel between checked points."""
        return np.asarray(kernel(self.points(checked)))

    @abstractmethod
    def values(self, checked: Any) -> Array:
        """The functions phi_j at checked points, shape (m, M)."""

    @abstractmethod
    def rest(self, checked: Any) -> Array:
        """The functions psi_r at checked points, shape (m, R)."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A text that identifies these functions."""


def require_columns(found: int, fitted: int) -> None:
    """Raise unless points have as many columns as the functions are for."""
    if found != fitted:
        raise ValueError(f"X has {found} columns, but {fitted} when fitted")


def compressed(values: Array, masses: Array) -> tuple[Array, Array]:
    """A spectrum with fewer eigenvalues, of nearly the same sums ``sum_r a(values_r) masses_r``.

    The least are kept one by one.  Each block of the others becomes two eigenvalues with the mean and
    variance of the block.
    """
    values, where = np.unique(np.round(values, 9), return_inverse=True)
    masses = np.bincount(where, masses).astype(float)
    if len(values) <= _SINGLE:
        return values, masses
    single, rest, mass = values[:_SINGLE], values[_SINGLE:], masses[_SINGLE:]
    edges = np.geomspace(rest[0], rest[-1], _BLOCKS + 1)[1:-1]
    block = np.searchsorted(edges, rest, side="right")
    total = np.bincount(block, mass, _BLOCKS)
    there = total > 0
    mean = np.bincount(block, mass * rest, _BLOCKS)[there] / total[there]
    middle = np.zeros(_BLOCKS)
    middle[there] = mean
    squares = np.bincount(block, mass * (rest - middle[block]) ** 2, _BLOCKS)[there]
    width = np.sqrt(squares / total[there])
    both = np.concatenate([single, mean - width, mean + width])
    return both, np.concatenate([masses[:_SINGLE], np.tile(total[there] / 2, 2)])
