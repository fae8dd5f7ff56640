"""Sums over rows from which Gaussian processes and machines are fitted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial, reduce
from operator import add
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from mercer._arrays import filled, on_cpu, placed
from mercer._files import DAMAGE, atomic_write, one_line, seal, unsealed
from mercer._npz import Npz
from mercer._threads import run
from mercer._validation import LARGEST
from mercer.rows import Block, RowSource
from mercer.rows.checkpoint import Checkpoint
from mercer.rows.sums import RowFunctions

Array = NDArray[np.float64]

#: Version of what is written.
FORMAT = 1


@dataclass(frozen=True, eq=False)
class Statistics:
    """Sums over rows with features phi, targets y and weights w; statistics of two parts add up.

    Targets are relative to ``shift``, a number near their mean, so that sums of squares do not lose
    digits; statistics with different shifts can be added.

    Attributes
    ----------
    gram : array of shape (M, M)
        Sum of ``w phi phi'``; only its diagonal if features are indicators of the points of a finite
        space.
    linear : array of shape (M, q)
        Sum of ``w phi (y - shift)'``.
    features : array of shape (M,)
        Sum of ``w phi``.
    targets, squares : arrays of shape (q,)
        Sums of ``w (y - shift)`` and ``w (y - shift)^2``.
    rest : array of shape (R,)
        Sums of w times the part of k(x, x) that the features omit.
    weight : float
        Sum of w.
    rows : int
        Number of rows.
    fingerprint : str
        Identifies the features.
    """

    gram: Array
    linear: Array
    features: Array
    targets: Array
    squares: Array
    rest: Array
    weight: float
    rows: int
    shift: Array
    fingerprint: str

    def __add__(self, other: Statistics) -> Statistics:
        if not isinstance(other, Statistics):
            return NotImplemented
        if self.fingerprint != other.fingerprint:
            raise ValueError("these statistics belong to different features and do not add up")
        if self.shift.shape != other.shift.shape:
            raise ValueError(
                f"y has {other.shift.size} column(s), but {self.shift.size} in earlier rows"
            )
        other = other.shifted(self.shift)
        kept = ("shift", "fingerprint")
        summed = {
            f.name: getattr(self, f.name) + getattr(other, f.name)
            for f in fields(self)
            if f.name not in kept
        }
        return replace(self, **summed)

    def __radd__(self, other: Any) -> Statistics:
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def shifted(self, shift: Array) -> Statistics:
        """The same with another shift of the targets."""
        move = self.shift - shift
        return replace(
            self,
            shift=shift,
            linear=self.linear + self.features[:, None] * move,
            targets=self.targets + self.weight * move,
            squares=self.squares + 2 * move * self.targets + self.weight * move**2,
        )

    def scaled(self, mean: Array, scale: Array) -> Statistics:
        """The same for targets ``(y - mean) / scale``."""
        moved = self.shifted(mean)
        return replace(
            moved,
            shift=np.zeros_like(mean),
            linear=moved.linear / scale,
            targets=moved.targets / scale,
            squares=moved.squares / scale**2,
        )

    @property
    def target_mean(self) -> Array:
        """Mean of the targets."""
        return self.shift + self.targets / self.weight

    @property
    def target_scale(self) -> Array:
        """Standard deviation of the targets; one where they are all the same."""
        mean = self.targets / self.weight
        variance = np.maximum(self.squares / self.weight - mean**2, 0.0)
        still = np.sqrt(variance) <= 1e-12 * np.maximum(np.abs(self.target_mean), 1e-290)
        return np.where(still, 1.0, np.sqrt(variance))

    def save(self, path: str | Path) -> None:
        """Write to an NPZ file that ends with a checksum."""
        with atomic_write(path) as file:
            np.savez(file, **{f.name: getattr(self, f.name) for f in fields(self)})
            seal(file, "statistics", FORMAT)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what :meth:`save` wrote; a file that was changed is refused."""
        kinds = {"weight": float, "rows": int, "fingerprint": str}
        try:
            with unsealed(path, "statistics", FORMAT) as file:
                stored = Npz(file)
                values: dict[str, Any] = {f.name: stored[f.name] for f in fields(cls)}
            found = cls(**values | {name: kind(values[name]) for name, kind in kinds.items()})
            found._check_shapes()
        except FileNotFoundError:
            raise
        except DAMAGE as error:
            raise ValueError(
                f"{path} holds no statistics: {one_line(error)}; give a file that Statistics.save has "
                "written"
            ) from None
        return found

    def _check_shapes(self) -> None:
        M, q = self.features.shape, self.shift.shape
        gram = M if self.gram.ndim == 1 else M + M
        shapes = {
            "gram": gram, "linear": M + q, "features": M, "rest": (self.rest.size,), "targets": q,
            "squares": q, "shift": q,
        }  # fmt: skip
        for name, shape in shapes.items():
            part = getattr(self, name)
            if part.shape != shape or part.dtype != float or not len(M) == len(q) == 1:
                raise ValueError(
                    f"{name} has shape {part.shape} of {part.dtype}, not {shape} of float64"
                )


def collect(
    features: RowFunctions,
    rows: RowSource,
    checkpoint: Checkpoint | None = None,
    targets: Callable[[Block], Array] = Block.targets,
) -> Statistics:
    """Statistics of rows, in one pass; memory for a block and a few matrices of M x M.

    ``targets`` turns the targets of a block into columns of numbers.
    """
    kept = Checkpoint() if checkpoint is None else checkpoint
    found: Statistics = rows.total(partial(statistics_of, features, targets), "rows", kept, "statistics")
    if found.fingerprint != features.fingerprint:
        # Blocks of an iterator are scaled by the first of them, those of a list by all.
        raise ValueError(
            f"the checkpoint {kept.path} was made with other features: blocks were given as an iterator "
            "in one run only; give them in the same way, or delete the checkpoint"
        )
    if found.weight == 0:
        raise ValueError("all weights are zero; give some rows a positive weight")
    if not np.isfinite(found.squares).all():
        raise ValueError("y varies so much that its square is out of range; rescale it")
    return found


def statistics_of(
    features: RowFunctions,
    targets: Callable[[Block], Array],
    block: Block,
    values: tuple[Any, Any] | None = None,
) -> Statistics:
    """Statistics of a block; ``values`` are what ``features.write`` gives there, if it is known."""
    rows, y = features.check(block.X, block.called("X")), targets(block)
    shift = y.mean(axis=0)
    y = y - shift
    _check_range(y, block.called("y"))
    lanes = features.lanes(rows)
    accumulators = [_StatisticsAccumulator(features, rows, y.shape[1]) for _ in range(lanes)]
    add_rows(accumulators, rows, placed(y, rows), placed(weights_of(block), rows), values)
    return reduce(add, [part.statistics(shift) for part in accumulators])


def _check_range(y: Array, name: str) -> None:
    """Refuse targets whose squares overflow or underflow: they would count as constant."""
    largest = np.abs(y).max(initial=0.0)
    if largest > LARGEST or 0 < largest < 1 / LARGEST:
        raise ValueError(f"{name} varies by {largest:.3g}, whose square is out of range; rescale it")


class Accumulator(Protocol):
    """Sums of one thread."""

    #: Largest number of rows that are added at a time.
    height: int

    def add(self, rows: Any, y: Any, weight: Any, *values: Any) -> None:
        """Add a few checked rows, with what is known of them."""


def weights_of(block: Block) -> Array:
    """Weights of the rows of a block."""
    return np.ones(len(block.y)) if block.weight is None else block.weight


def add_rows(
    accumulators: Sequence[Accumulator],
    rows: Any,
    y: Any,
    weight: Any,
    values: tuple[Any, ...] | None = None,
) -> None:
    """Add rows, with values that are known of them, to the accumulators, each in a thread of its own."""
    size = min(accumulators[0].height, -(-len(y) // len(accumulators)))  # few rows are shared alike
    starts = range(0, len(y), size)
    stop = threading.Event()

    def job(number: int) -> None:
        for start in starts[number :: len(accumulators)]:
            if stop.is_set():
                return
            part = slice(start, start + size)
            known = () if values is None else [value[part] for value in values]
            own = None if weight is None else weight[part]
            accumulators[number].add(rows[part], y[part], own, *known)

    run(job, [(number,) for number in range(len(accumulators))], stop)


class _StatisticsAccumulator:
    """Sums of one thread for :class:`Statistics`."""

    def __init__(self, features: RowFunctions, rows: Any, outputs: int) -> None:
        self._fingerprint = features.fingerprint
        # Targets and a column of ones together: one product for both.
        self._sums = features.sums(rows, outputs + 1)
        self._targets, self._squares = (filled((outputs,), 0.0, self._sums.gram) for _ in range(2))
        self._weight: Any = 0.0
        self._rows = 0
        self.height = features.height(rows)

    def add(self, rows: Any, y: Any, weight: Any, *values: Any) -> None:
        both = array_namespace(y).concat([y, filled((len(y), 1), 1.0, y)], axis=1)
        self._sums.add(rows, weight, both * weight[:, None], values or None)
        self._targets += weight @ y
        self._squares += weight @ y**2
        self._weight += weight.sum()  # as an array: a device does not wait for it
        self._rows += len(y)

    def statistics(self, shift: Array) -> Statistics:
        gram, linear, rest = map(on_cpu, (self._sums.gram, self._sums.linear, self._sums.rest))
        return Statistics(
            gram, linear[:, :-1].copy(), linear[:, -1].copy(), on_cpu(self._targets),
            on_cpu(self._squares), rest, float(self._weight), self._rows, shift, self._fingerprint,
        )  # fmt: skip
