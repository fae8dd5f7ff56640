"""What an experiment is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mercer.reproduce.data import checked_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Told the steps done and the steps in all.
Progress = Callable[[int, int], None]

#: Steps that one part of an experiment counts as.
_FINE = 1000


@dataclass(frozen=True)
class Measured:
    """One number of ours, with its 95 % interval, beside the published one.

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
        """Ours minus the published one."""
        if self.published is None:
            raise ValueError("nothing was published to compare with")
        return self.value - self.published


Cell = str | int | float | Measured


@dataclass(frozen=True)
class Table:
    """Numbers, with what they are above them and how they were got below."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


@dataclass(frozen=True)
class Claim:
    """What a paper says, and whether it holds here; None where it cannot be told."""

    text: str
    holds: bool | None

    @property
    def verdict(self) -> str:
        """In a word or two."""
        return {True: "holds", False: "does not hold", None: "cannot be told"}[self.holds]


@dataclass(frozen=True)
class Result:
    """What an experiment found."""

    tables: Sequence[Table]
    claims: Sequence[Claim]
    #: Figures by the end of their files' names.
    figures: dict[str, Figure] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """An experiment: what it repeats, what it needs, how it is done.

    Attributes
    ----------
    name : str
        As the command knows it.
    title : str
    source : str
        The publication.
    differs : str
        What is not as in the publication.
    run : callable
        From a :class:`Context` to a :class:`Result`.
    files : tuple of str
        What it needs of the data folder.
    """

    name: str
    title: str
    source: str
    differs: str
    run: Callable[[Context], Result]
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Context:
    """What an experiment is run with.

    Attributes
    ----------
    data : path or None
        Folder of data sets; None for small data made by code.
    quick : bool
        A small part of the experiment, to see that it runs.
    cache : path or None
        Where finished fits are kept.
    seed : int
        Of all that is drawn.
    progress : callable, optional
    """

    data: Path | None = None
    quick: bool = False
    cache: Path | None = None
    seed: int = 0
    progress: Progress | None = None

    @property
    def invented(self) -> bool:
        """The data is made by code."""
        return self.data is None

    def file(self, name: str) -> Path:
        """A file of the data folder, as it should be."""
        if self.data is None:
            raise ValueError("there is no data folder to take files from")
        return checked_file(self.data, name)

    def part(self, number: int, parts: int) -> Progress:
        """Progress within one of several equal parts."""

        def report(done: int, total: int) -> None:
            if self.progress is not None:
                share = done / total if total else 1.0
                self.progress(int(_FINE * (number + share)), _FINE * parts)

        return report


def within(progress: Progress | None, first: float, last: float) -> Progress | None:
    """Progress of work that goes from one share of a part to another."""
    if progress is None:
        return None

    def report(done: int, total: int) -> None:
        share = first + (last - first) * (done / total if total else 1.0)
        progress(int(_FINE * share), _FINE)

    return report


def plain(value: Any) -> Any:
    """Cells, tables and claims as what JSON knows."""
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
