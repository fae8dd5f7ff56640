"""What is known of targets before the first sweep: labels and their frequencies, average counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mercer.gp.rows.blocks import Block, one_column
from mercer.spaces.base import LARGEST

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LabelTally:
    """Labels in order, the sum of weights of each, and the number of rows."""

    labels: NDArray
    weights: Array
    rows: int

    @classmethod
    def of(cls, block: Block) -> LabelTally:
        """The labels of some rows."""
        y = block.labels()
        if y.dtype.kind == "f" and (y != np.round(y)).any():
            row = int((y != np.round(y)).argmax())
            raise ValueError(
                f"Unknown label type: {block.called('y')} is continuous, {y[row]} in row {row}; classes "
                "are whole numbers or text"
            )
        try:
            labels, codes = np.unique(y, return_inverse=True)
        except TypeError:
            raise ValueError(
                f"labels in {block.called('y')} are of several kinds; give numbers or text"
            ) from None
        return cls(labels, np.bincount(codes, block.weight).astype(float), len(y))

    def __add__(self, other: LabelTally) -> LabelTally:
        if (self.labels.dtype.kind in "biuf") != (other.labels.dtype.kind in "biuf"):
            raise ValueError(
                f"some labels are numbers ({self.labels.dtype}, {other.labels.dtype}), others are not"
            )
        labels = np.union1d(self.labels, other.labels)
        weights = np.zeros(len(labels))
        for part in (self, other):
            weights[np.searchsorted(labels, part.labels)] += part.weights
        return LabelTally(labels, weights, self.rows + other.rows)

    @property
    def frequencies(self) -> Array:
        """Relative frequencies of the labels."""
        if not self.weights.all():
            raise ValueError(
                f"all rows of the class {self.labels[self.weights.argmin()]!r} have weight zero; drop "
                "them"
            )
        return self.weights / self.weights.sum()


@dataclass(frozen=True, eq=False)
class CountTally:
    """The sum of counts, the sum of weights, and the number of rows."""

    counts: float
    weight: float
    rows: int

    @classmethod
    def of(cls, block: Block) -> CountTally:
        """The counts of some rows."""
        y = counts(block)[:, 0]
        w = np.ones(len(y)) if block.weight is None else block.weight
        return cls(float(w @ y), float(w.sum()), len(y))

    def __add__(self, other: CountTally) -> CountTally:
        return CountTally(self.counts + other.counts, self.weight + other.weight, self.rows + other.rows)

    @property
    def average(self) -> Array:
        """Mean count, shape (1,)."""
        if self.weight == 0:
            raise ValueError("there are no rows, or all weights are zero")
        if self.counts == 0:
            raise ValueError("all counts are zero; there is nothing to learn a rate from")
        return np.array([self.counts / self.weight])


@dataclass(frozen=True, eq=False)
class OneAgainstRest:
    """Targets of one column for each label, 1 where a row has it."""

    labels: NDArray

    def __call__(self, block: Block) -> Array:
        """Targets of a block, shape (m, q)."""
        return (block.labels()[:, None] == self.labels).astype(float)


def counts(block: Block) -> Array:
    """Counts as a checked matrix of one column."""
    one_column(block.y)
    y = block.targets()
    if y.min() < 0:
        raise ValueError(
            f"row {int((y < 0).argmax())} of {block.called('y')} is negative; counts are not"
        )
    if y.max() > LARGEST:
        raise ValueError(
            f"row {int(y.argmax())} of {block.called('y')} is {y.max():.3g}, whose square is no number; "
            "rescale y"
        )
    return y
