"""The constant kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from sklearn.gaussian_process import kernels as sk

from mercer._arrays import count, filled, has_overflowed, is_watched, number, place_of, placed
from mercer._validation import check_room, check_vector
from mercer.engine.base import Products
from mercer.kernels.base import Kernel

OVERFLOW = "values of {!r} overflow; rescale the rows, or take smaller factors and exponents"


@dataclass(eq=False, repr=False)
class Constant(Kernel):
    """The constant kernel ``k(x, y) = value``.

    Positive numbers in sums and products become constant kernels, which Gaussian processes can fit.

    Parameters
    ----------
    value : float
        Positive.
    value_bounds : pair of floats or "fixed"
        Range for optimisers.

    Examples
    --------
    >>> from mercer.kernels import Heat
    >>> from mercer.spaces import Sphere
    >>> 2.0 * Heat(Sphere()) + 0.5
    2.0 * Heat(Sphere()) + 0.5
    """

    value: float = 1.0
    value_bounds: Any = (1e-5, 1e5)

    def is_stationary(self) -> bool:
        return True

    @property
    def requires_vector_input(self) -> bool:
        """False: any kind of point is accepted."""
        return False

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        self.validate()
        if eval_gradient and Y is not None:
            raise ValueError("eval_gradient is for k(X) alone: Y must be None")
        check_room(X, Y)
        shape = (count(X), count(X if Y is None else Y))
        K = finite(self, lambda: filled(shape, self.value, place_of(X)))
        if not eval_gradient:
            return K
        return K, np.repeat(K[:, :, None], len(self.free()), axis=2)

    def diag(self, X: Any) -> Any:
        self.validate()
        return finite(self, lambda: filled((count(X),), self.value, place_of(X)))

    def matvec(self, X: Any, Y: Any, v: Any) -> Any:
        v = placed(check_vector(v, count(X if Y is None else Y)), place_of(X))
        xp = array_namespace(v)
        total = finite(self, lambda: xp.sum(v, axis=0) * filled((), self.value, v))
        return filled((count(X), *v.shape[1:]), 1.0, v) * total

    def product_sizes(self) -> tuple[int, int] | None:
        return 1, 0

    def products(self, X: Any, Y: Any = None) -> Products | None:
        self.validate()
        return [(self.value if is_watched(self.value) else number(self.value), [])]

    def __repr__(self) -> str:
        plain = self.value_bounds == (1e-5, 1e5)
        return repr(number(self.value)) if plain else super().__repr__()


def finite(kernel: sk.Kernel, combine: Callable[[], Any]) -> Any:
    """Values, or matrices, that are combined; raise where they overflow."""
    try:
        with np.errstate(over="raise"):
            values = combine()
        if not has_overflowed(values):
            return values
    except (FloatingPointError, OverflowError):
        pass
    raise ValueError(OVERFLOW.format(kernel))
