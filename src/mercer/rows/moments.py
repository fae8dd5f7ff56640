"""Means and standard deviations of columns, from additive sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy import sparse

from mercer._arrays import on_cpu, placed
from mercer.rows.blocks import Block

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Moments:
    """Sum of weights, weighted means, and sums of squared deviations of each column.

    Moments of two sets of rows are combined by Chan's formula, in which no large sums cancel.
    """

    weight: float
    mean: Array
    spread: Array

    @classmethod
    def of(cls, block: Block) -> Moments:
        """Moments of some rows."""
        X = block.X.toarray() if sparse.issparse(block.X) else block.X
        weight = np.ones(len(X)) if block.weight is None else block.weight
        total, w, xp = float(weight.sum()), placed(weight, X), array_namespace(X)
        # Relative to the first row a constant column is exactly zero.
        moved = X - X[0]
        _check_range(on_cpu(xp.max(xp.abs(moved), axis=0)), block)
        mean = w @ moved / total if total > 0 else 0.0 * X[0]
        return cls(total, on_cpu(X[0] + mean), on_cpu(w @ (moved - mean) ** 2))

    def __add__(self, other: Moments) -> Moments:
        if self.mean.shape != other.mean.shape:
            raise ValueError(f"X has {other.mean.size} columns, but {self.mean.size} in earlier rows")
        total = self.weight + other.weight
        if total == 0:
            return self
        gap = other.mean - self.mean
        return Moments(
            total,
            self.mean + gap * other.weight / total,
            self.spread + other.spread + gap**2 * self.weight * other.weight / total,
        )

    @property
    def scale(self) -> Array:
        """Standard deviations; infinite where a column varies by less than its rounding.

        Such a column is constant: dividing by infinity gives zeros.
        """
        if self.weight == 0:
            raise ValueError("there are no rows, or all weights are zero")
        scale = np.sqrt(self.spread / self.weight)
        return np.where(scale <= 8 * np.finfo(float).eps * np.abs(self.mean), np.inf, scale)


def _check_range(largest: Array, block: Block) -> None:
    """Refuse columns whose squares overflow or underflow: they would count as constant."""
    bad = (largest > 1e151) | ((largest > 0) & (largest < 1e-151))
    if bad.any():
        column = int(bad.argmax())
        raise ValueError(
            f"column {column} of {block.called('X')} varies by {largest[column]:.3g}, whose square is "
            "out of range; rescale it"
        )
