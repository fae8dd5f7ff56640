"""Rows of iterables of blocks, which may be readable only once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import joblib

from mercer._arrays import on_cpu, taken
from mercer._progress import progress
from mercer.rows.base import RowSource
from mercer.rows.blocks import Block, checked, drawn, joined, sample_size
from mercer.rows.checkpoint import Checkpoint
from mercer.rows.columns import (
    Labels,
    check_labels,
    check_width,
    column_labels,
    in_order,
)

#: Last entry of a complete journal.
END = "end"
_MISMATCH = " that the checkpoint was made with; give the same blocks again, or delete the checkpoint"


class StreamRows(RowSource):
    """Blocks ``(X, y)`` or ``(X, y, weight)``, checked as they come.

    With a checkpoint there is a journal of the hashes of the blocks seen before, and of their end.
    Blocks must agree with it; new ones are added.
    """

    _labels: tuple[Labels, Labels] | None = None
    _begun: Iterator[Any] | None = None
    _journal: list[str] | None = None
    _confirmed = False
    _where: Any = None

    @classmethod
    def accepts(cls, X: Any, complete: bool) -> bool:
        """Iterables that are not arrays; see :class:`RowSource`."""
        is_array = hasattr(X, "shape") or isinstance(X, str | bytes)
        return complete and isinstance(X, Iterable) and not is_array

    @property
    def repeatable(self) -> bool:  # type: ignore[override]
        """Whether there can be a second pass: an iterator is exhausted after one."""
        return iter(self.X) is not self.X

    @property
    def columns(self) -> int:
        """Number of columns of the first block."""
        first = self.first().X
        return int(first.shape[1]) if getattr(first, "ndim", 1) == 2 else 1

    @property
    def names(self) -> list[str] | None:  # type: ignore[override]
        """Names of the columns if the blocks are data frames."""
        if self._labels is None:
            self.first()
        assert self._labels is not None
        found = self._labels[0]
        return found if found is not None and all(isinstance(name, str) for name in found) else None

    @property
    def where(self) -> Any:
        """See :class:`RowSource`; the device of the first block."""
        return self._where

    def fingerprint(self) -> str:
        """Empty: blocks are compared with the journal as they are read."""
        return ""

    def attach(self, checkpoint: Checkpoint) -> None:
        """See :class:`RowSource`; the journal is part of the checkpoint."""
        if checkpoint.path is not None:
            self._journal = checkpoint.results.setdefault("journal", [])

    def blocks(self, start: int = 0) -> Iterator[Block]:
        """See :class:`RowSource`; blocks before the start are read and skipped."""
        done = count = 0
        for raw in self._raws():
            block = self._block(count, raw)
            if done >= start:
                yield block
            done += len(block.y)
            count += 1
        if done < start:
            raise ValueError(
                f"there are {done} rows, but the checkpoint was made after {start}; give the same "
                "blocks again, or delete the checkpoint"
            )
        self._end(count)

    def confirm(self) -> None:
        """Compare all blocks with the journal, once: the sums exist, but the rows might differ."""
        if self._journal is None or self._confirmed:
            return
        count = 0
        with progress(0, "blocks, as before") as advance:
            for _ in self._raws():
                advance()
                count += 1
        self._end(count)

    def _raws(self) -> Iterator[Any]:
        """Blocks as the source gives them, compared with the journal."""
        if self._journal is not None and isinstance(self.X, list | tuple):
            _check_count(self._journal, len(self.X))
        source, self._begun = self._begun or iter(self.X), None
        for number, raw in enumerate(source):
            if self._journal is not None:
                here = [on_cpu(part) for part in raw] if isinstance(raw, tuple | list) else raw
                _check_entry(self._journal, number, str(joblib.hash(here)))
            yield raw

    def _end(self, count: int) -> None:
        if self._journal is not None:
            _check_entry(self._journal, count, END)
            self._confirmed = True

    def _block(self, number: int, raw: Any) -> Block:
        if not isinstance(raw, tuple | list) or len(raw) not in (2, 3):
            raise TypeError(
                f"block {number} is {type(raw).__name__}; give pairs (X, y) or triples (X, y, weight)"
            )
        X, y = f"X of block {number}", f"y of block {number}"
        points, here = self._ordered(raw[0], column_labels(raw[0], X)), column_labels(raw[1], y)
        names = column_labels(points, X)
        first = self._labels = (names, here) if self._labels is None else self._labels
        check_labels(first[0], names, X)
        check_labels(first[1], here, y)
        weight = raw[2] if len(raw) == 3 else None
        block = checked(points, raw[1], weight, f"block {number}", self.opaque)
        if block is None:
            raise ValueError(f"block {number} has no rows; leave it out")
        self._where = taken(block.X, slice(0)) if self._where is None else self._where
        check_width(self._where, block.X, X)
        return block

    def _ordered(self, X: Any, names: Labels) -> Any:
        """A data frame for a kernel of whole tables, in the column order of the fit or first block."""
        known = self.known if self._labels is None else self._labels[0]
        return in_order(X, known) if self.opaque and names is not None and known is not None else X

    def first(self) -> Block:
        return self._head(1)[0]

    def sample(self, seed: int, size: int | None = None) -> Block:
        """See :class:`RowSource`; the first rows of an iterator, without consuming them."""
        size = size or sample_size(self.columns)
        return drawn(self.blocks(), size, seed) if self.repeatable else joined(self._head(size), size)

    def _head(self, rows: int) -> list[Block]:
        """The first blocks with at least this many rows; the next pass begins with them."""
        source = self._begun or iter(self.X)
        raws: list[Any] = []
        blocks: list[Block] = []
        for raw in source:
            raws.append(raw)
            blocks.append(self._block(len(blocks), raw))
            if sum(len(b.y) for b in blocks) >= rows:
                break
        self._begun = chain(raws, source)
        if not blocks:
            raise ValueError("there are no rows")
        return blocks


def _check_entry(journal: list[str], number: int, entry: str) -> None:
    """Compare a block, or the end, with the one seen before; add it if it is new."""
    if number == len(journal):
        journal.append(entry)
    elif entry == END:
        _check_count(journal, number)
    elif journal[number] == END:
        raise ValueError(f"block {number} is not one of the {number}{_MISMATCH}")
    elif journal[number] != entry:
        raise ValueError(f"block {number} is not the one{_MISMATCH}")


def _check_count(journal: list[str], count: int) -> None:
    """Refuse a number of blocks that contradicts the journal."""
    complete = END in journal[-1:]
    seen = len(journal) - complete
    if count < seen or (complete and count > seen):
        least = "" if complete else "at least "
        raise ValueError(f"there are {count} blocks, not {least}the {seen}{_MISMATCH}")
