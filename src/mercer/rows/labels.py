"""Labels of rows: which there are, and their numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.rows.blocks import Block

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LabelTally:
    """Labels in order, the sum of weights of each, and the number of rows."""

    labels: NDArray
    weights: Array
    rows: int

    @classmethod
    def of(cls, block: Block) -> LabelTally:
        """The labels of a block."""
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
    def weight(self) -> float:
        """Sum of all weights."""
        return float(self.weights.sum())

    def check(self) -> None:
        """Raise unless there are at least two classes, all of which count."""
        labels = self.labels.tolist()
        if len(labels) < 2:
            raise ValueError(f"there is one class only, {labels[0]!r}; at least two are needed")
        if not self.weights.all():
            empty = labels[int(self.weights.argmin())]
            raise ValueError(f"all rows of the class {empty!r} have weight zero; drop them")


def signs(classes: NDArray[Any], block: Block) -> Array:
    """Columns of 1 and -1: of the second of two classes, or of each class against the rest."""
    labels = np.searchsorted(classes, block.labels())
    if len(classes) == 2:
        return np.where(labels[:, None] == 1, 1.0, -1.0)
    return np.where(labels[:, None] == np.arange(len(classes)), 1.0, -1.0)
