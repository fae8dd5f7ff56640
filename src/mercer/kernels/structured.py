"""Kernels on points other than rows of numbers, such as strings and clouds."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from mercer._arrays import Array, on_cpu
from mercer._validation import check_choice, check_room, refuse_foreign
from mercer.contributions import Contributions
from mercer.engine.base import combined
from mercer.kernels.base import Kernel
from mercer.spaces.realisations.base import normalised, normalised_slope, positive


class StructuredKernel(Kernel):
    """Base class of kernels that check and compare their own kind of points.

    A subclass implements :meth:`_check`, :meth:`_gram` and :meth:`_diagonal` for the plain kernel, and
    :meth:`_slope` if it has continuous hyperparameters; the normalised form
    ``k(x, y) / sqrt(k(x, x) k(y, y))``, its gradient and products with vectors follow.
    """

    #: Divide by the square roots of k(x, x) and k(y, y).
    normalized: bool

    @property
    def requires_vector_input(self) -> bool:
        """False: points need not be rows of numbers."""
        return False

    def validate(self) -> None:
        check_choice(self, "normalized", (True, False))
        super().validate()

    @abstractmethod
    def _check(self, X: Any, Y: Any) -> tuple[Any, Any]:
        """Check both sets of points and convert them for :meth:`_gram`; None stays None."""

    @abstractmethod
    def _gram(self, P: Any, Q: Any) -> Array:
        """Plain Gram matrix between checked points; that of P alone if Q is None."""

    @abstractmethod
    def _diagonal(self, P: Any) -> Array:
        """Plain k(x, x) of each checked point."""

    def _slope(self, P: Any, name: str) -> Array:
        """Derivative of the plain Gram matrix of P with respect to the logarithm of a hyperparameter."""
        raise ValueError(f"{type(self).__name__} has no continuous hyperparameter {name!r}")

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        if eval_gradient and Y is not None:
            raise ValueError("eval_gradient is for k(X) alone: Y must be None")
        self.validate()
        P, Q = self._check(X, None if Y is X else Y)
        check_room(X, Y)
        K = self._gram(P, Q)
        if eval_gradient:
            refuse_foreign(K, "eval_gradient is for points in main memory; tensors have autograd")
        squares = None
        if self.normalized:
            K, squares = normalised(K, P, Q, self._diagonal)
        if not eval_gradient:
            return K
        slopes = [self._slope(P, name) for name in self.free()]
        if squares is not None:
            slopes = [normalised_slope(slope, K, squares) for slope in slopes]
        return K, np.stack(slopes, axis=2) if slopes else np.empty((*K.shape, 0))

    def multiple(self, factor: float, X: Any, Y: Any = None, plus: Any = None) -> Any:
        return combined(factor, self(X, Y), plus)

    def contributions(self, X: Any, Y: Any, weights: Any) -> tuple[Contributions, ...]:
        self.validate()
        P, Q = self._check(X, Y)
        if self.normalized:
            left = positive(on_cpu(self._diagonal(P)), "X")
            right = positive(on_cpu(self._diagonal(Q)), "Y")
            weights = weights / np.sqrt(left)[:, None] / np.sqrt(right)
        return self._contributions(P, Q, weights)

    def _contributions(self, P: Any, Q: Any, weights: Array) -> tuple[Contributions, ...]:
        """Contributions of features of checked points to sums of the plain kernel."""
        return ()

    def diag(self, X: Any) -> Any:
        self.validate()
        P, _ = self._check(X, None)
        values = self._diagonal(P)
        return 0 * positive(values, "X") + 1 if self.normalized else values
