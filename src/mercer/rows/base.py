"""The interface of a source of rows, and the registry of sources."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np

from mercer import __version__
from mercer._progress import progress
from mercer.rows.blocks import Block, drawn, sample_size
from mercer.rows.checkpoint import Checkpoint
from mercer.rows.columns import ColumnCheck
from mercer.rows.moments import Moments

_REGISTERED: list[type[RowSource]] = []


class RowSource(ABC):
    """Rows with targets and weights, read block by block.

    A subclass says which X it reads (:meth:`accepts`), and provides the number of columns, the blocks
    and a fingerprint.  Once registered (:func:`register`), every estimator of :mod:`mercer.gp` takes
    such X. The rest follows from the blocks; a source may override what it can do faster.

    Parameters
    ----------
    X : what was given to ``fit``
    y : array or None
        None if X contains its targets.
    weight : array, optional
    """

    #: Names of the columns, where they have any.
    names: list[str] | None = None
    #: Rows, or whatever :meth:`sums` counts, for a progress bar; None if unknown.
    length: int | None = None
    #: Whether there can be a second pass.
    repeatable: bool = True
    #: Whether targets are a vector; None to tell by the number of targets.
    flat: bool | None = None

    #: Whether points are of any kind, and left to the kernel; otherwise they are rows of numbers.
    opaque: bool = False
    #: A few numbers on the device of the rows; None in main memory.
    where: Any = None
    #: Names of the columns that an estimator learnt before, by which blocks are ordered.
    known: list[Any] | None = None

    def __init__(self, X: Any, y: Any = None, weight: Any = None) -> None:
        self.X, self.y, self.weight = X, y, weight

    @classmethod
    @abstractmethod
    def accepts(cls, X: Any, complete: bool) -> bool:
        """Whether the source reads X; ``complete`` if X is given without targets."""

    @classmethod
    def open(cls, X: Any, y: Any, weight: Any, check: ColumnCheck) -> Self:
        """The source of X, with columns learnt or checked."""
        source = cls(X, y, weight)
        source.opaque, source.known = check.opaque, check.known
        check.names(source.names)
        return source

    @property
    @abstractmethod
    def columns(self) -> int:
        """Number of columns of X."""

    @abstractmethod
    def blocks(self, start: int = 0) -> Iterator[Block]:
        """Checked blocks, from row ``start`` on; see :func:`~mercer.rows.blocks.checked`."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A text that identifies the rows: an interrupted fit resumes only with the same rows."""

    @classmethod
    def apply(
        cls,
        check: ColumnCheck,
        method: str,
        X: Any,
        outputs: tuple[tuple[Any, ...], ...],
        **options: Any,
    ) -> Any:
        """Apply a method of a fitted model to the rows of X, at once unless the source is lazy.

        Parameters
        ----------
        check : ColumnCheck
            The check of the fitted model.
        method : str
        X : whatever the source accepts
        outputs : tuple of (dtype, *shape)
            Type and shape of each array that the method returns; the shape omits the rows, and None in
            it stands for another axis of rows.
        **options : further arguments of the method
        """
        return getattr(check.estimator, method)(X, **options)

    def first(self) -> Block | None:
        """The first block, without consuming it; None if reading it is expensive."""
        for block in self.blocks():
            return block
        raise ValueError("there are no rows")

    def sample(self, seed: int, size: int | None = None) -> Block:
        """Random rows of positive weight as one block, at most ``size`` or the usual number."""
        return drawn(self.blocks(), size or sample_size(self.columns), seed)

    def moments(self, checkpoint: Checkpoint | None = None) -> Moments:
        """Means and standard deviations of the columns, or of the first block if there is one pass."""
        if self.repeatable:
            return self.total(Moments.of, "columns", checkpoint or Checkpoint(), "moments")
        first = self.first()
        assert first is not None
        return Moments.of(first)

    def attach(self, checkpoint: Checkpoint) -> None:  # noqa: B027 - most have nothing to store
        """Begin a fit with a checkpoint, for sources that store something in it."""

    def confirm(self) -> None:  # noqa: B027 - for most the fingerprint is enough
        """Make sure that the sums of an earlier run were over these rows."""

    def sums(
        self, job: Callable[[Block], Any], start: int, in_rounds: bool
    ) -> Iterator[tuple[int, Any]]:
        """Parts of a sum over all blocks, each with the position after it.

        Parameters
        ----------
        job : callable
            From a block to something that can be added.
        start : int
            Position to begin at.
        in_rounds : bool
            Whether parts are kept, so that there should be several.
        """
        for block in self.blocks(start):
            part = job(block)
            start += len(block.y)
            yield start, part

    def total(self, job: Callable[[Block], Any], what: str, checkpoint: Checkpoint, name: str) -> Any:
        """The sum of a job's results over all blocks, in one pass.

        Parameters
        ----------
        job : callable
            From a block to something that can be added.
        what : str
            What is being done, for a progress bar.
        checkpoint : Checkpoint
            Where the pass begins if part of it was done before, and where sums are kept.
        name : str
            What to call the sum in the checkpoint.
        """
        start, found, done = checkpoint.results.get(name, (0, None, False))
        if done:
            self.confirm()
            return found
        try:
            with progress(self.length or 0, what) as advance:
                advance(start)
                for position, part in self.sums(job, start, checkpoint.path is not None):
                    advance(position - start)
                    start = position
                    if part is not None:
                        found = part if found is None else found + part
                    checkpoint.keep(name, (start, found, False))
        except BaseException:  # an interruption too: finished work is not lost
            checkpoint.save()
            raise
        if found is None:
            raise ValueError("there are no rows")
        checkpoint.keep(name, (start, found, True))
        return found


def register(source: type[RowSource]) -> None:
    """Register a source for all estimators; the latest is asked first."""
    _REGISTERED.insert(0, source)


def unregister(source: type[RowSource]) -> None:
    """Undo :func:`register`."""
    _REGISTERED.remove(source)


def open_rows(X: Any, y: Any, weight: Any, check: ColumnCheck) -> RowSource:
    """The rows of whatever was given to ``fit``."""
    if y is None and weight is not None:
        raise ValueError("give weights with the blocks, as triples (X, y, weight)")
    return source_for(X, complete=y is None).open(X, y, weight, check)


def checkpoint_for(
    estimator: Any, path: Any, rows: RowSource, kinds: Sequence[type], kernel: Any = None
) -> Checkpoint:
    """The checkpoint of a fit of an estimator to rows; see :class:`Checkpoint` for what it may hold."""
    if path is None:
        return Checkpoint()
    parameters = {
        f"{name} (a parameter)": repr(value.tolist() if isinstance(value, np.ndarray) else value)
        for name, value in estimator.get_params(deep=False).items()
    }
    kind = f"{type(estimator).__name__} {__version__}"
    description = {"estimator": kind, **parameters, "rows": rows.fingerprint()}
    checkpoint = Checkpoint(path, description, kinds, kernel)
    rows.attach(checkpoint)
    return checkpoint


def source_for(X: Any, complete: bool = False) -> type[RowSource]:
    """The registered source that reads X; ``complete`` if X is given without targets."""
    for source in _REGISTERED:
        if source.accepts(X, complete):
            return source
    raise ValueError(
        "This estimator requires y to be passed, but the target y is None: give X and y, an iterable of "
        "blocks (X, y), or ParquetBlocks"
    )
