"""Gram matrices of many kernels on the same points, with shared parts computed once."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process import kernels as sk

from mercer.engine import engine_for
from mercer.kernels.algebra import Sum
from mercer.kernels.realised import RealisedKernel
from mercer.spaces import Space
from mercer.spaces.base import Embedding
from mercer.spaces.realisations.base import Operands

Array = NDArray[Any]


class Grams:
    """Gram matrices of kernels on points X.

    A radial kernel applies a law to the invariant of each pair of points.  The invariants are a matrix
    product that all kernels of a space share: it is computed for the first of them and kept.  Sums,
    products and powers are combined from their parts; other kernels are called directly.

    Parameters
    ----------
    X : points
    dtype : dtype
        Precision of the result; computations use the precision of the points.
    kept : int
        Number of spaces whose invariants are kept; the oldest are dropped.

    Attributes
    ----------
    seconds : dict
        Processor seconds in ``"products"`` (and in kernels that are called) and in ``"laws"``.
    """

    def __init__(self, X: Any, *, dtype: Any = np.float64, kept: int = 1) -> None:
        self.X = X
        self.dtype = np.dtype(dtype)
        self.kept = kept
        self.seconds = {"products": 0.0, "laws": 0.0}
        self._invariants: OrderedDict[Hashable, Array] = OrderedDict()
        self._checked: dict[Space, Any] = {}

    def __call__(self, kernel: sk.Kernel) -> Array:
        """Gram matrix of all points."""
        K = self._gram(kernel)
        if not np.isfinite(K.sum(dtype=float)):
            row = int(np.argmin(np.isfinite(K).all(axis=1)))
            raise ValueError(
                f"{kernel!r} gives values that are not finite in row {row} of X; rescale the rows or "
                "leave the kernel out"
            )
        return K

    def _gram(self, kernel: sk.Kernel) -> Array:
        if is_shared(kernel):
            return self._radial(kernel)
        if isinstance(kernel, sk.KernelOperator):
            combine = np.add if isinstance(kernel, Sum | sk.Sum) else np.multiply
            K = self._gram(kernel.k1)
            return combine(K, self._gram(kernel.k2), out=K)
        if isinstance(kernel, sk.Exponentiation):
            K = self._gram(kernel.kernel)
            return np.power(K, kernel.exponent, out=K)
        start = time.process_time()
        K = np.asarray(kernel(self.X)).astype(self.dtype, copy=False)
        self.seconds["products"] += time.process_time() - start
        return K

    def _radial(self, kernel: RealisedKernel) -> Array:
        start = time.process_time()
        space = kernel.space
        if space not in self._checked:
            self._checked[space] = space.check(self.X)
        rows = self._checked[space]
        operands = Operands(cast(Embedding, kernel.embedding), rows, None)
        kept = self._invariants_of(sharing(kernel), operands) if self.kept else None
        middle = time.process_time()
        profile = kernel.realise(space.columns(rows)).profile()
        if kept is None:
            K = operands.gram(profile, dtype=self.dtype)
        else:
            K = engine_for(rows).apply(kept, profile, operands.options(profile, dtype=self.dtype))
        self.seconds["products"] += middle - start
        # Without room for invariants the product is computed along with the law.
        self.seconds["laws" if self.kept else "products"] += time.process_time() - middle
        return K

    def _invariants_of(self, key: Hashable, operands: Operands) -> Array:
        """Invariants of all pairs, computed when the first kernel needs them."""
        if key not in self._invariants:
            while len(self._invariants) >= self.kept:
                self._invariants.popitem(last=False)
            self._invariants[key] = operands.invariants()
        self._invariants.move_to_end(key)
        return self._invariants[key]


def is_shared(kernel: sk.Kernel) -> bool:
    """Whether the kernel applies a law to invariants that others may share."""
    return isinstance(kernel, RealisedKernel) and kernel.embedding is not None


def sharing(kernel: sk.Kernel) -> Hashable:
    """A key that kernels with the same invariants have in common."""
    return kernel.embedding_key if is_shared(kernel) else id(kernel)
