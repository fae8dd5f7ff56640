"""Rows of arrays in memory, memory maps and data frames."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import joblib
import numpy as np
from sklearn.utils.validation import _check_sample_weight

from mercer._arrays import count, on_cpu, taken
from mercer._validation import refuse_complex
from mercer.engine import engine_for
from mercer.rows.base import RowSource
from mercer.rows.blocks import Block, as_floats, choice, joined, sample_size
from mercer.rows.columns import ColumnCheck

#: Rows of one block, more on a device, and largest number of entries: some maps make sparse rows dense.
ROWS, _NUMBERS = 16_384, 2**25


class ArrayRows(RowSource):
    """Slices of arrays that were checked as a whole; only the current slice is converted.

    Rows of tensors stay on their device.  Targets and weights are in main memory.
    """

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
            weight = _check_sample_weight(on_cpu(weight), y, dtype=float, ensure_non_negative=True)
        return super().open(X, y, weight, check)

    @classmethod
    def apply(
        cls,
        check: ColumnCheck,
        method: str,
        X: Any,
        outputs: tuple[tuple[Any, ...], ...],
        **options: Any,
    ) -> Any:
        """See :class:`RowSource`; numbers are returned where the rows are, other labels unchanged."""
        found = super().apply(check, method, X, outputs, **options)
        back = engine_for(X).like_rows
        return tuple(back(part, X) for part in found) if isinstance(found, tuple) else back(found, X)

    @property
    def length(self) -> int:  # type: ignore[override]
        """Number of rows."""
        return count(self.X)

    @property
    def columns(self) -> int:
        return int(self.X.shape[1]) if getattr(self.X, "ndim", 1) == 2 else 1

    @property
    def flat(self) -> bool:  # type: ignore[override]
        """Whether targets are a vector rather than a matrix of one column."""
        return bool(self.y.ndim == 1)

    @property
    def where(self) -> Any:
        """See :class:`RowSource`."""
        return taken(self.X, slice(0))

    def fingerprint(self) -> str:
        """A hash of all numbers; see :class:`RowSource`."""
        return str(joblib.hash((on_cpu(self.X), self.y, self.weight)))

    def blocks(self, start: int = 0) -> Iterator[Block]:
        engine = None if self.opaque else engine_for(self.X)
        rows = min(ROWS, max(1, _NUMBERS // self.columns))
        height = rows if engine is None else engine.rows_at_once(self.X, rows, self.columns)
        for first in range(start, self.length, height):
            part = slice(first, min(first + height, self.length))
            name = f"the rows from {part.start} on" if part.start else ""
            yield self._block(part, name)

    def _block(self, chosen: Any, name: str = "") -> Block:
        block = Block(self.X, self.y, self.weight, name).take(chosen)
        return block if self.opaque else replace(block, X=as_floats(block.X))

    def sample(self, seed: int, size: int | None = None) -> Block:
        """See :class:`RowSource`; only the chosen rows are read."""
        counting = np.arange(self.length) if self.weight is None else np.flatnonzero(self.weight)
        chosen = counting[choice(len(counting), size or sample_size(self.columns), seed)]
        return joined([self._block(chosen)])
