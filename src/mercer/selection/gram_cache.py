"""Gram matrices of many kernels on the same points, with what they share computed once."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process import kernels as sk

from mercer._memory import check_gram
from mercer.engine.products import Product, product
from mercer.engine.threads import run
from mercer.kernels.algebra import Sum
from mercer.kernels.radial import RadialKernel, Road
from mercer.profiles import PowerProfile, Profile
from mercer.spaces import RadialSpace

Array = NDArray[Any]
#: Rows of the stored invariants that a thread reads at a time.
_ROWS = 64


class Grams:
    """Gram matrices of kernels on points X.

    Radial kernels are a law applied to the invariant of each pair, a matrix product that all kernels
    of one space share: it is computed for the first of them and kept.  Sums, products and powers are
    put together from their parts; other kernels are called as they are.

    Parameters
    ----------
    X : points
    dtype : dtype
        Precision in which the result is stored; all is computed in that of the points.
    kept : int
        Number of spaces whose invariants are kept, the latest ones.

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
        self._invariants: OrderedDict[Hashable, Product] = OrderedDict()
        self._checked: dict[RadialSpace, Any] = {}

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

    def _radial(self, kernel: RadialKernel) -> Array:
        start = time.process_time()
        space = kernel.space
        if space not in self._checked:
            self._checked[space] = space.check(self.X)
        road = Road(kernel, self._checked[space], None)
        source = self._source(sharing(kernel), road)
        middle = time.process_time()
        profile = kernel.profile(road.n)
        diagonal = road.diagonal(profile)
        check_gram(*source.shape, self.dtype.itemsize)
        K = np.empty(source.shape, dtype=self.dtype)
        _fill(K, source, profile, road.scales)
        np.fill_diagonal(K, diagonal)
        self.seconds["products"] += middle - start
        # Without room for invariants the product is computed along with the law.
        self.seconds["laws" if self.kept else "products"] += time.process_time() - middle
        return K

    def _source(self, key: Hashable, road: Road) -> Product:
        """Invariants of all pairs, kept or to be computed on the way."""
        if key in self._invariants:
            self._invariants.move_to_end(key)
            return self._invariants[key]
        source = product(road.L, road.R, True, road.equal)
        if self.kept == 0:
            return source
        while len(self._invariants) >= self.kept:
            self._invariants.popitem(last=False)
        check_gram(*source.shape, source.dtype.itemsize)
        invariants = np.empty(source.shape, dtype=source.dtype)
        _fill(invariants, source, PowerProfile(), None)
        self._invariants[key] = _Stored(invariants)
        return self._invariants[key]


class _Stored:
    """Invariants that are kept, read like a product."""

    def __init__(self, values: Array) -> None:
        self._values = values
        self.tile = (_ROWS, np.iinfo(np.int64).max)
        self.shape: tuple[int, int] = (len(values), len(values))
        self.dtype = values.dtype

    def write(self, rows: slice, columns: slice, out: Array) -> None:
        """See :class:`Product`."""
        out[:] = self._values[rows, columns]


def is_shared(kernel: sk.Kernel) -> bool:
    """Tell whether the kernel is a law applied to invariants that others may share."""
    return isinstance(kernel, RadialKernel) and isinstance(kernel.space, RadialSpace)


def sharing(kernel: sk.Kernel) -> Hashable:
    """What kernels with the same invariants have in common; others are alone."""
    return (type(kernel)._embed, kernel.space, kernel._embedding) if is_shared(kernel) else id(kernel)


def _fill(K: Array, source: Product, profile: Profile, scales: tuple[Array, Array] | None) -> None:
    """Write ``profile(invariant)`` into a symmetric matrix, half of it computed."""
    height, width = source.tile
    m = len(K)

    def fill(rows: slice, columns: slice) -> None:
        tile = np.empty((rows.stop - rows.start, columns.stop - columns.start), dtype=source.dtype)
        source.write(rows, columns, tile)
        profile.apply(tile)
        if scales is not None:
            tile *= scales[0][rows, None]
            tile *= scales[1][columns]
        if rows.start == columns.start:
            square = tile[:, : len(tile)]
            square[:] = np.triu(square) + np.triu(square, 1).T
        K[rows, columns] = tile
        K[columns, rows] = tile.T

    places = [
        (slice(i, min(i + height, m)), slice(j, min(j + width, m)))
        for i in range(0, m, height)
        for j in range(i, m, width)
    ]
    run(fill, places)
