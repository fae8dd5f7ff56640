"""Kernels on points that are no rows of numbers: graph nodes, strings, clouds."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._memory import check_room
from mercer.kernels.base import Kernel

Array = NDArray[np.float64]
#: Rows of a Gram matrix that are divided at a time.
_ROWS = 256


class StructuredKernel(Kernel):
    """A kernel that checks its own kind of points and compares two sets of them.

    A subclass writes :meth:`_check`, :meth:`_gram` and :meth:`_diagonal` for the plain kernel, and
    :meth:`_slope` if it has continuous hyperparameters; the normalised form
    ``k(x, y) / sqrt(k(x, x) k(y, y))``, its gradient and products with vectors follow.
    """

    #: Divide by the square roots of k(x, x) and k(y, y).
    normalized: bool

    @property
    def requires_vector_input(self) -> bool:
        """Points of other kinds than rows of numbers are welcome."""
        return False

    @abstractmethod
    def _validate(self) -> None:
        """Raise for hyperparameters and options out of range."""

    @abstractmethod
    def _check(self, X: Any, Y: Any) -> tuple[Any, Any]:
        """Check both sets of points, in the form to compute with; Y comes back as None if it is None."""

    @abstractmethod
    def _gram(self, P: Any, Q: Any) -> Array:
        """Plain Gram matrix between checked points; symmetric, between P and P, if Q is None."""

    @abstractmethod
    def _diagonal(self, P: Any) -> Array:
        """Plain k(x, x) of each checked point."""

    def _slope(self, P: Any, name: str) -> Array:
        """Derivative of the plain Gram matrix of P by the logarithm of a hyperparameter."""
        raise ValueError(f"{type(self).__name__} has no continuous hyperparameter {name!r}")

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """See :class:`Kernel`."""
        if eval_gradient and Y is not None:
            raise ValueError("gradients are of k(X): Y must be None")
        self._validate()
        P, Q = self._check(X, None if Y is X else Y)
        check_room(X, Y)
        K = self._gram(P, Q)
        squares = None
        if self.normalized:
            squares = _positive(np.diagonal(K).copy() if Q is None else self._diagonal(P), "X")
            others = squares if Q is None else _positive(self._diagonal(Q), "Y")
            _divide(K, np.sqrt(squares), np.sqrt(others))
            if Q is None:
                np.fill_diagonal(K, 1.0)
        if not eval_gradient:
            return K
        slopes = [self._finish_slope(self._slope(P, name), K, squares) for name in self.free()]
        return K, np.stack(slopes, axis=2) if slopes else np.empty((*K.shape, 0))

    @staticmethod
    def _finish_slope(slope: Array, K: Array, squares: Array | None) -> Array:
        """Derivative of the normalised Gram matrix from that of the plain one."""
        if squares is None:
            return slope
        relative = np.diagonal(slope) / squares / 2
        _divide(slope, np.sqrt(squares), np.sqrt(squares))
        slope -= K * (relative[:, None] + relative)
        return slope

    def diag(self, X: Any) -> Any:
        """See :class:`Kernel`."""
        self._validate()
        P, _ = self._check(X, None)
        values = self._diagonal(P)
        return np.ones_like(_positive(values, "X")) if self.normalized else values


def _positive(squares: Array, name: str) -> Array:
    """Check that every point has a length to divide by."""
    zero = np.flatnonzero(~(squares > 0))
    if zero.size:
        more = f" (and {zero.size - 1} more)" if zero.size > 1 else ""
        raise ValueError(
            f"row {zero[0]} of {name}{more} has k(x, x) = 0 and cannot be normalised; "
            "drop it, or use normalized=False"
        )
    return squares


def _divide(K: Array, left: Array, right: Array) -> None:
    """Divide rows and columns by lengths, in place and without losing symmetry."""
    for start in range(0, len(K), _ROWS):
        part = slice(start, start + _ROWS)
        K[part] /= left[part, None] * right
