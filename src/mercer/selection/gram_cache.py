"""Gram matrices of many kernels on the same points, in limited memory; shared parts computed once."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.gaussian_process import kernels as sk

from mercer._arrays import on_cpu
from mercer._memory import size_text
from mercer.engine import engine_for
from mercer.engine.devices import on_device
from mercer.kernels.algebra import elementwise
from mercer.kernels.base import Kernel
from mercer.kernels.realised import RealisedKernel
from mercer.spaces import Space
from mercer.spaces.base import Embedding
from mercer.spaces.realisations.base import Operands

Array = NDArray[Any]
#: Largest change of points by rounding to single precision, relative to their differences.
_ROUNDED = 1e-6


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
    single : bool
        Compute invariants in single precision, if that does not change the points noticeably.
    device : str, optional
        Device on which kernels of invariants are computed; invariants are then not kept.  Other
        kernels, and all results, are in main memory.

    Attributes
    ----------
    seconds : dict
        Processor seconds in ``"products"`` (and in kernels that are called) and in ``"laws"``.
    """

    def __init__(
        self,
        X: Any,
        *,
        dtype: Any = np.float64,
        kept: int = 1,
        single: bool = False,
        device: str | None = None,
    ) -> None:
        self.X = X
        self.single = single
        self.device = device
        self.dtype = np.dtype(dtype)
        self.kept = kept
        self.seconds = {"products": 0.0, "laws": 0.0}
        self._operands: OrderedDict[Hashable, Operands] = OrderedDict()
        self._invariants: dict[Hashable, Array] = {}
        self._checked: dict[Space, Any] = {}

    def __call__(self, kernel: sk.Kernel) -> Array:
        """Gram matrix of all points."""
        K = self._gram(kernel)
        # A sum in single precision is quick, and may overflow.
        if not np.isfinite(K.sum()) and not np.isfinite(K.sum(dtype=float)):
            row = int(np.argmin(np.isfinite(K).all(axis=1)))
            raise ValueError(
                f"{kernel!r} gives values that are not finite in row {row} of X; rescale the rows or "
                "leave the kernel out"
            )
        return K

    def _gram(self, kernel: sk.Kernel) -> Array:
        if is_shared(kernel):
            return self._radial(kernel)
        K = elementwise(kernel, self._gram)
        if K is not None:
            return K
        start = time.process_time()
        K = np.asarray(on_cpu(kernel(self.X))).astype(self.dtype, copy=False)
        self.seconds["products"] += time.process_time() - start
        return K

    def _radial(self, kernel: RealisedKernel) -> Array:
        start = time.process_time()
        kernel.validate()
        space = kernel.space
        if space not in self._checked:
            found = space.check(self.X)
            if self.single:
                found = _in_single(found)
            self._checked[space] = found if self.device is None else on_device(found, self.device)
        rows = self._checked[space]
        if self.device is not None:
            K = on_cpu(kernel.realise(space.columns(rows)).gram(rows)).astype(self.dtype, copy=False)
            self.seconds["products"] += time.process_time() - start
            return K
        operands, kept = self._shared(kernel, rows)
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

    def _shared(self, kernel: RealisedKernel, rows: Any) -> tuple[Operands, Array | None]:
        """Operands and, if they are kept, invariants, which all kernels of an embedding share."""
        key = sharing(kernel)
        if key not in self._operands:
            while len(self._operands) >= max(self.kept, 1):
                oldest, _ = self._operands.popitem(last=False)
                self._invariants.pop(oldest, None)
            self._operands[key] = Operands(cast(Embedding, kernel.embedding), rows, None)
        self._operands.move_to_end(key)
        operands = self._operands[key].under(cast(Embedding, kernel.embedding))
        if self.kept and key not in self._invariants:
            self._invariants[key] = operands.invariants()
        return operands, self._invariants.get(key)


def _in_single(X: Any) -> Any:
    """Rows of numbers in single precision, if that changes them by far less than they differ."""
    if getattr(X, "dtype", None) != np.float64:
        return X
    values = X.data if issparse(X) else X
    rounded = values.astype(np.float32)
    spread = values if issparse(X) else values - values.mean(axis=0)
    lost = float(np.square(rounded - values).sum())
    return X.astype(np.float32) if lost <= _ROUNDED**2 * float(np.square(spread).sum()) else X


def is_shared(kernel: sk.Kernel) -> bool:
    """Whether the kernel applies a law to invariants that others may share."""
    return isinstance(kernel, Kernel) and kernel.embedding is not None


def sharing(kernel: sk.Kernel) -> Hashable:
    """A key that kernels with the same invariants have in common."""
    return kernel.embedding_key if is_shared(kernel) else id(kernel)


@dataclass(frozen=True)
class Plan:
    """What is held in memory at once."""

    #: Precision of Gram matrices.
    dtype: Any
    #: Number of spaces whose invariants are kept.
    invariants: int
    #: Number of Gram matrices held at once.
    batch: int
    threads: int


def fit_bytes(estimator: Any, train: int, test: int) -> float:
    """Bytes of one fit: its slices, and the solver's own memory.

    A machine with a path cuts out the rows of test points, in single precision, and gathers rows of
    training points.  libsvm reads the slices in place and keeps a cache; other solvers are assumed to
    make two copies.
    """
    if hasattr(estimator, "fit_path"):
        return 4.0 * (train + test) * (train + test)
    caches = [v for k, v in estimator.get_params().items() if k.endswith("cache_size")]
    copies = 16.0 * train * train
    solver = min(4.0 * train * train, caches[0] * 2**20) if caches else copies
    return 8.0 * train * (train + test) + solver


def plan(
    rows: int,
    fit: float,
    *,
    kernels: int,
    shared: bool,
    combined: bool,
    threads: int,
    max_memory: float,
    single: bool = False,
) -> Plan:
    """Choose the precision, batch size and number of threads that fit into memory.

    ``fit`` is the size of the largest fit and ``max_memory`` the limit, both in bytes.  ``shared`` says
    whether some kernels share invariants, ``combined`` whether some need a second matrix while they are
    computed, and ``single`` whether single precision is enough.
    """
    options = [
        *((np.float64, kept, threads) for kept in ([1, 0] if shared else [0]) if not single),
        *((np.float32, kept, threads) for kept in ([1, 0] if shared else [0])),
        *((np.float32, 0, fewer) for fewer in range(threads - 1, 0, -1)),
    ]
    for dtype, kept, workers in options:
        size = float(np.dtype(dtype).itemsize) * rows * rows
        # Invariants and the parts of combined kernels are in double precision.
        aside = 8.0 * rows * rows * (kept + combined)
        batch = int((max_memory - workers * fit - aside) // size)
        if batch >= 1:
            return Plan(dtype, kept, min(batch, kernels), workers)
    needed = fit + size + 8.0 * rows * rows * combined
    raise ValueError(
        f"a search on {rows} points needs at least {size_text(needed)}, but max_memory allows "
        f"{size_text(max_memory)}; raise it, take fewer points (mercer.selection.representatives), or "
        "landmarks (estimator=mercer.machines.LandmarkClassifier() or LandmarkRegressor(), with alpha)"
    )
