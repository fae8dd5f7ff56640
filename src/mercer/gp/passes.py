"""Sums over all rows, wherever they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mercer._progress import progress
from mercer.gp.blocks import Block, StreamBlocks
from mercer.gp.checkpoint import Checkpoint


def total(
    blocks: Any,
    job: Callable[[Block], Any],
    what: str,
    checkpoint: Checkpoint,
    name: str,
) -> Any:
    """The sum of what a job makes of each block, in one pass.

    Parameters
    ----------
    blocks : ArrayBlocks, StreamBlocks, ParquetSource or Partitions
    job : callable
        From a block to something that can be added.
    what : str
        What is being done, for a progress bar over rows.
    checkpoint : Checkpoint
        Where the pass begins if part of it was done before, and where sums are kept.
    name : str
        What to call the sum in the checkpoint.
    """
    start, found, done = checkpoint.results.get(name, (0, None, False))
    if done:
        _confirm(blocks)
        return found
    try:
        with progress(blocks.length or 0, what) as advance:
            advance(start)
            for position, part in _parts(blocks, job, start, checkpoint.path is not None):
                advance(position - start)
                start = position
                if part is not None:
                    found = part if found is None else found + part
                checkpoint.keep(name, (start, found, False))
    except BaseException:  # also an interruption: nothing that was done is lost
        checkpoint.save()
        raise
    if found is None:
        raise ValueError("there are no rows")
    checkpoint.keep(name, (start, found, True))
    return found


def _confirm(blocks: Any) -> None:
    """Make sure that the sum of an earlier run was over these rows; all but streams told it before."""
    if isinstance(blocks, StreamBlocks):
        with progress(0, "blocks, as before") as advance:
            for _ in blocks.confirm():
                advance()


def _parts(blocks: Any, job: Any, start: int, in_rounds: bool) -> Iterator[tuple[int, Any]]:
    """Parts of the sum, each with the position after it."""
    if hasattr(blocks, "sums"):
        yield from blocks.sums(job, start, in_rounds)
        return
    for block in blocks.read(start):
        part = job(block)
        start += len(block.y)
        yield start, part
