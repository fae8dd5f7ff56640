"""Experiments, their input and their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mercer.reproduce.data import checked_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Called with the number of finished steps and the total number of steps.
Progress = Callable[[int, int], None]

#: Number of steps of one part of an experiment.
_FINE = 1000


@dataclass(frozen=True)
class Measured:
    """A measured number, with its 95 % interval and the published number.

    Examples
    --------
    >>> str(Measured(85.62, (83.1, 88.14), published=85.4))
    '85.6 [83.1, 88.1] (85.4)'
    """

    value: float
    interval: tuple[float, float] | None = None
    published: float | None = None

    def __str__(self) -> str:
        text = f"{self.value:.1f}"
        if self.interval is not None:
            low, high = self.interval
            text += f" [{low:.1f}, {high:.1f}]"
        if self.published is not None:
            text += f" ({self.published:.1f})"
        return text

    @property
    def gap(self) -> float:
        """The measured minus the published number."""
        if self.published is None:
            raise ValueError("there is no published number to compare with")
        return self.value - self.published


Cell = str | int | float | Measured


@dataclass(frozen=True)
class Table:
    """A table of numbers with a title, and a note on how they were obtained."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, and whether it holds here; None if that cannot be decided."""

    text: str
    holds: bool | None

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        return {True: "holds", False: "does not hold", None: "cannot be told"}[self.holds]


@dataclass(frozen=True)
class Result:
    """The result of an experiment."""

    tables: Sequence[Table]
    claims: Sequence[Claim]
    #: Figures by the suffix of their file names.
    figures: dict[str, Figure] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """A published experiment.

    Attributes
    ----------
    name : str
        Name on the command line.
    title : str
    source : str
        The publication.
    differs : str
        Differences from the publication.
    run : callable
        From a :class:`Context` to a :class:`Result`.
    files : tuple of str
        Required files of the data folder.
    """

    name: str
    title: str
    source: str
    differs: str
    run: Callable[[Context], Result]
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Context:
    """Settings of a run of an experiment.

    Attributes
    ----------
    data : path or None
        Folder of data sets; None for small synthetic data.
    quick : bool
        Run a small part of the experiment.
    cache : path or None
        Folder of finished fits.
    seed : int
        Seed of all random numbers.
    progress : callable, optional
    """

    data: Path | None = None
    quick: bool = False
    cache: Path | None = None
    seed: int = 0
    progress: Progress | None = None

    @property
    def invented(self) -> bool:
        """Whether the data is synthetic."""
        return self.data is None

    def file(self, name: str) -> Path:
        """Path of a file of the data folder, after checking its contents."""
        if self.data is None:
            raise ValueError("there is no data folder")
        return checked_file(self.data, name)

    def part(self, number: int, parts: int) -> Progress:
        """Progress within one of several equal parts."""

        def report(done: int, total: int) -> None:
            if self.progress is not None:
                share = done / total if total else 1.0
                self.progress(int(_FINE * (number + share)), _FINE * parts)

        return report


def within(progress: Progress | None, first: float, last: float) -> Progress | None:
    """Progress of work that covers a part from the fraction ``first`` to ``last``."""
    if progress is None:
        return None

    def report(done: int, total: int) -> None:
        share = first + (last - first) * (done / total if total else 1.0)
        progress(int(_FINE * share), _FINE)

    return report


def plain(value: Any) -> Any:
    """Cells, tables and claims as JSON values."""
    if isinstance(value, Measured):
        found: dict[str, Any] = {"value": float(value.value)}
        if value.interval is not None:
            found["interval"] = [float(bound) for bound in value.interval]
        if value.published is not None:
            found["published"] = value.published
        return found
    if isinstance(value, Table):
        rows = [[plain(cell) for cell in row] for row in value.rows]
        return {"title": value.title, "columns": list(value.columns), "rows": rows, "note": value.note}
    if isinstance(value, Claim):
        return {"text": value.text, "holds": None if value.holds is None else bool(value.holds)}
    return value
