"""Labels of rows and their weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._validation import is_number
from mercer.rows.base import RowSource
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
        """Raise unless there are at least two classes, all of positive weight."""
        labels = self.labels.tolist()
        if len(labels) < 2:
            raise ValueError(f"there is only one class, {labels[0]!r}; at least two are needed")
        if not self.weights.all():
            empty = labels[int(self.weights.argmin())]
            raise ValueError(f"all rows of the class {empty!r} have weight zero; drop them")

    def factors(self, class_weight: Any) -> Array:
        """Factors of the weights of each class; a row of weight two counts as two rows."""
        if isinstance(class_weight, str) and class_weight == "balanced":
            return self.weight / (len(self.labels) * self.weights)
        return given_factors(class_weight, self.labels)


def given_factors(class_weight: Any, classes: NDArray[Any], zero: bool = False) -> Array:
    """Factors of classes from a dict, 1 for classes that it omits.

    Parameters
    ----------
    class_weight : dict, optional
    classes : array of labels
    zero : bool
        Whether a class may have no weight.
    """
    if class_weight is None:
        return np.ones(len(classes))
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            "class_weight must be 'balanced', None or a dict with the factor of each class, got "
            f"{class_weight!r}"
        )
    known = classes.tolist()
    strange = [label for label in class_weight if label not in known]
    if strange and not set(known) <= class_weight.keys():
        raise ValueError(
            f"class_weight names {', '.join(map(repr, strange))}, which is not among the classes: "
            f"{', '.join(map(repr, known))}"
        )
    factors = [class_weight.get(label, 1.0) for label in known]
    for label, factor in zip(known, factors, strict=True):
        if not (is_number(factor) and 0 <= factor < np.inf and (zero or factor)):
            allowed = "zero or a positive number" if zero else "a positive number"
            raise ValueError(f"class_weight of the class {label!r} must be {allowed}, got {factor!r}")
    return np.array(factors, dtype=float)


class ClassWeightedRows(RowSource):
    """Rows whose weights are multiplied by a factor for each class.

    Parameters
    ----------
    rows : RowSource
    classes : array of shape (q,)
        Labels in order.
    factors : array of shape (q,)
    """

    def __init__(self, rows: RowSource, classes: NDArray[Any], factors: Array) -> None:
        super().__init__(rows.X, rows.y, rows.weight)
        self._rows, self._weigh = rows, partial(_weighted, classes, factors)
        self.length, self.repeatable, self.flat = rows.length, rows.repeatable, rows.flat
        self.opaque = rows.opaque

    @classmethod
    def accepts(cls, X: Any, complete: bool) -> bool:
        """Nothing: it wraps another source."""
        return False

    @property
    def where(self) -> Any:
        """See :class:`RowSource`."""
        return self._rows.where

    @property
    def columns(self) -> int:
        return self._rows.columns

    def fingerprint(self) -> str:
        return self._rows.fingerprint()

    def confirm(self) -> None:
        self._rows.confirm()

    def blocks(self, start: int = 0) -> Iterator[Block]:
        return map(self._weigh, self._rows.blocks(start))

    def sample(self, seed: int, size: int | None = None) -> Block:
        return self._weigh(self._rows.sample(seed, size))

    def sums(
        self, job: Callable[[Block], Any], start: int, in_rounds: bool
    ) -> Iterator[tuple[int, Any]]:
        return self._rows.sums(partial(_of_weighted, job, self._weigh), start, in_rounds)


def _weighted(classes: NDArray[Any], factors: Array, block: Block) -> Block:
    own = factors[np.searchsorted(classes, block.labels())]
    return replace(block, weight=own if block.weight is None else own * block.weight)


def _of_weighted(job: Callable[[Block], Any], weigh: Callable[[Block], Block], block: Block) -> Any:
    return job(weigh(block))


def signs(classes: NDArray[Any], block: Block) -> Array:
    """Columns of 1 and -1: for the second of two classes, or for each class against the rest."""
    labels = np.searchsorted(classes, block.labels())
    if len(classes) == 2:
        return np.where(labels[:, None] == 1, 1.0, -1.0)
    return np.where(labels[:, None] == np.arange(len(classes)), 1.0, -1.0)
