"""Rows of arrays in memory, memory maps and data frames."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import joblib
import numpy as np
from sklearn.utils.validation import _check_sample_weight

from mercer._validation import refuse_complex
from mercer.gp.rows.base import RowSource
from mercer.gp.rows.blocks import Block, as_floats, choice, joined
from mercer.gp.rows.columns import ColumnCheck

#: Rows of one block.
ROWS = 16_384


class ArrayRows(RowSource):
    """Slices of arrays that were checked before; nothing but the slice at hand is converted."""

    @classmethod
    def accepts(cls, X: Any, complete: bool) -> bool:
        """Whatever scikit-learn takes; see :class:`RowSource`."""
        return not complete

    @classmethod
    def open(cls, X: Any, y: Any, weight: Any, check: ColumnCheck) -> Self:
        """See :class:`RowSource`; arrays are checked as a whole."""
        for part, name in ((X, "X"), (y, "y"), (weight, "sample_weight")):
            refuse_complex(part, name)
        X, y = check.arrays(X, y)
        if weight is not None:
            weight = _check_sample_weight(weight, X, dtype=float, ensure_non_negative=True)
        return cls(X, y, weight)

    @property
    def length(self) -> int:  # type: ignore[override]
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def columns(self) -> int:
        """See :class:`RowSource`."""
        return int(self.X.shape[1])

    @property
    def flat(self) -> bool:  # type: ignore[override]
        """Whether targets are a vector rather than a matrix of one column."""
        return bool(self.y.ndim == 1)

    def fingerprint(self) -> str:
        """A hash of all numbers; see :class:`RowSource`."""
        return str(joblib.hash((self.X, self.y, self.weight)))

    def blocks(self, start: int = 0) -> Iterator[Block]:
        """See :class:`RowSource`."""
        for first in range(start, self.length, ROWS):
            part = slice(first, min(first + ROWS, self.length))
            weight = None if self.weight is None else self.weight[part]
            name = f"the rows from {part.start} on" if part.start else ""
            yield Block(as_floats(self.X[part]), self.y[part], weight, name)

    def sample(self, seed: int) -> Block:
        """See :class:`RowSource`; rows that are not chosen are not touched."""
        counting = np.arange(self.length) if self.weight is None else np.flatnonzero(self.weight)
        chosen = counting[choice(len(counting), self.columns, seed)]
        rows = Block(self.X, self.y, self.weight).take(chosen)
        return joined([Block(as_floats(rows.X), rows.y, rows.weight)])
