"""The kernel at landmarks as features, and the choice of landmarks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import joblib
import numpy as np
from array_api_compat import array_namespace
from scipy.linalg import solve_triangular

from mercer._arrays import count, filled, on_cpu, placed, taken, to_double
from mercer.engine import engine_for
from mercer.kernels.base import Kernel
from mercer.machines.pivots import pivoted_cholesky
from mercer.machines.points import Points, is_exhausted
from mercer.machines.program import Array, Index
from mercer.rows.blocks import Block
from mercer.rows.statistics import Statistics, statistics_of, weights_of
from mercer.rows.sums import ProductSums, RowSums

#: Numbers of a block of features in main memory, and the fewest rows of one.
_NUMBERS, _LEAST = 2**23, 256


@dataclass(frozen=True, eq=False)
class LandmarkFeatures:
    """Features ``phi(x) = L^-1 (k(z_1, x), ..., k(z_M, x))`` for landmarks z_j, with ``L L' = k(Z, Z)``.

    Inner products of features are the Nystroem approximation of the kernel, and the squared norm of
    ``f = phi b`` in the kernel's space of functions is ``|b|^2``.  Features of the first landmarks do
    not depend on those that follow.

    Parameters
    ----------
    kernel : Kernel or callable
    points : landmarks
    whitening : array of shape (M, M)
        ``L^-1``, lower triangular.
    opaque : bool
        Whether points are checked by the kernel alone.
    """

    kernel: Any
    points: Any
    whitening: Array
    opaque: bool
    n_rest = 1

    @classmethod
    def of(cls, kernel: Any, sample: Block, pivots: Index, L: Array, opaque: bool) -> LandmarkFeatures:
        """Features with some rows of a sample as landmarks; ``L L'`` is their kernel matrix."""
        whitening = solve_triangular(L, np.eye(len(L)), lower=True, check_finite=False)
        return cls(kernel, taken(sample.X, pivots), whitening, opaque)

    @property
    def size(self) -> int:
        """Number of landmarks."""
        return len(self.whitening)

    @cached_property
    def fingerprint(self) -> str:
        """A text that identifies the features."""
        parts = (repr(self.kernel), joblib.hash(self.points), joblib.hash(self.whitening))
        return hashlib.sha256(";".join(map(str, parts)).encode()).hexdigest()

    def check(self, X: Any, name: str = "X") -> Any:
        """Points, checked by the kernel, whose errors name the row."""
        check_points(self.kernel, X, name)
        return X

    def write(self, rows: Any, out: Any) -> Any:
        """Write the features at rows; returns the part of k(x, x) that they omit, shape (m, 1).

        If a device runs out of memory, rows are split in halves.
        """
        try:
            return self._write(rows, out)
        except RuntimeError as error:
            half = len(out) // 2
            if not half or not is_exhausted(rows, error):
                raise
        parts = [self.write(rows[part], out[part]) for part in (slice(half), slice(half, None))]
        return array_namespace(out).concat(parts)

    def _write(self, rows: Any, out: Any) -> Any:
        xp = array_namespace(out)
        K = to_double(self.kernel(rows, self.near(rows)))
        xp.matmul(K, placed(self.whitening, out).T, out=out)
        left = to_double(diagonal_of(self.kernel, rows)) - (out * out).sum(axis=1)
        return xp.where(left > 0, left, xp.zeros_like(left))[:, None]

    def at(self, X: Any) -> Array:
        """Features at points in main memory, a few rows at a time."""
        found, height = np.empty((count(X), self.size)), self.height(X)
        for start in range(0, len(found), height):
            part = slice(start, min(start + height, len(found)))
            self.write(taken(X, part), found[part])
        return found

    def left(self, X: Any) -> Array:
        """The part of k(x, x) that the features omit, at each point."""
        buffer, found = self.buffer(X), []
        for start in range(0, count(X), len(buffer)):
            rows = taken(X, slice(start, min(start + len(buffer), count(X))))
            found.append(on_cpu(self.write(rows, buffer[: count(rows)]))[:, 0])
        return np.concatenate(found)

    def sums(self, rows: Any, outputs: int, beside: Any = None) -> RowSums:
        """An accumulator of sums over rows."""
        return ProductSums(self, rows, outputs, beside)

    def lanes(self, rows: Any) -> int:
        """One: the kernel and the matrix products use all threads."""
        return 1

    def height(self, rows: Any) -> int:
        """Rows whose features are in memory at a time."""
        least = max(_LEAST, _NUMBERS // self.size)
        return least if self.opaque else engine_for(rows).rows_at_once(rows, least, self.size)

    def buffer(self, rows: Any) -> Any:
        """Buffer for the features at that many rows."""
        return filled((min(self.height(rows), count(rows)), self.size), 0.0, rows)

    def near(self, rows: Any) -> Any:
        """The landmarks on the device of the rows."""
        return self.points if self.opaque else placed(self.points, rows)


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows that landmarks were chosen among.

    Parameters
    ----------
    block : Block
    phi : array of shape (m, M)
        Their features.
    complete : bool
        Whether there are no other rows of positive weight.
    """

    block: Block
    phi: Array
    complete: bool

    def statistics(self, features: LandmarkFeatures, targets: Callable[[Block], Array]) -> Statistics:
        """Sums over these rows."""
        rest = Points(features.kernel, self.block.X).diagonal() - (self.phi**2).sum(axis=1)
        values = self.phi, np.maximum(rest, 0.0)[:, None]
        return statistics_of(features, targets, self.block, values)


def check_points(kernel: Any, X: Any, name: str) -> None:
    """Let the kernel check the points of a block of this name."""
    try:
        diagonal_of(kernel, X)
    except (ValueError, TypeError) as error:
        raise type(error)(str(error).replace("of X", f"of {name}", 1)) from None


def diagonal_of(kernel: Any, rows: Any) -> Any:
    """``k(x, x)`` at rows, where they live."""
    return kernel.diag(rows) if isinstance(kernel, Kernel) else Points(kernel, rows).diagonal()


def choose_landmarks(
    kernel: Any, sample: Block, most: int, rng: np.random.Generator
) -> tuple[Array, Index]:
    """Landmarks among some rows, by randomly pivoted Cholesky factorisation.

    Returns
    -------
    F, pivots
        Features of all rows, and indices of the landmarks, whose features are the Cholesky factor of
        their kernel matrix.
    """
    points = Points(kernel, sample.X)
    diagonal = points.diagonal()
    if not (np.isfinite(diagonal).all() and (diagonal >= 0).all() and diagonal.any()):
        raise ValueError(
            f"{kernel!r} has no positive finite k(x, x) at a sample of the rows; landmarks need one"
        )
    weights = weights_of(sample)
    return pivoted_cholesky(points, diagonal, most, rng, weights / weights.max())
