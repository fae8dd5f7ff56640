"""Results as files (JSON, Markdown, SVG) and on the terminal."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from mercer._files import atomic_write
from mercer._threads import threads_in_use
from mercer.reproduce.experiment import Claim, Experiment, Measured, Result, plain

PACKAGES = ("mercer", "numpy", "scipy", "scikit-learn", "numba")
#: This section is written by hand, and kept when a page is rewritten.
_DISCUSSION = "\n## Discussion\n"
INVENTED = (
    "INVENTED DATA: no data folder was named, so this ran on a small synthetic stand-in.  The numbers "
    "show that the code runs and nothing else."
)
PARTIAL = "QUICK RUN: a small part of the experiment, with small grids.  Not the published protocol."
OF_FULL_RUN = "This was a quick run.  What follows is said of the full one.  "


@dataclass(frozen=True)
class Run:
    """A run of an experiment."""

    experiment: Experiment
    command: str
    quick: bool
    invented: bool
    #: Whether fits of an earlier run were reused.
    resumed: bool
    seconds: float
    #: Sum over all threads.
    processor_seconds: float

    @property
    def warnings(self) -> list[str]:
        """Warnings at the top of the results."""
        found = [INVENTED] if self.invented and self.experiment.files else []
        return found + ([PARTIAL] if self.quick else [])

    @property
    def facts(self) -> dict[str, Any]:
        """Command, date, versions and time."""
        return {
            "command": self.command,
            "date": datetime.now(UTC).date().isoformat(),
            "python": platform.python_version(),
            "versions": {name: metadata.version(name) for name in PACKAGES},
            "threads": threads_in_use(),
            "seconds": round(self.seconds, 1),
            "processor_seconds": round(self.processor_seconds, 1),
            "resumed": self.resumed,
        }


def write(
    result: Result,
    run: Run,
    folder: Path,
    attempt: Callable[[Path], AbstractContextManager[Any]] = nullcontext,
) -> list[Path]:
    """Write all files of a result, each completely or not at all; return the paths of those written.

    Each file is written inside ``attempt(path)``, which may suppress errors.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = run.experiment.name
    written = []
    for path, save in _files(result, run, folder / name):
        with attempt(path):
            with atomic_write(path) as file:
                save(file)
            written.append(path)
    return written


Save = Callable[[IO[bytes]], Any]


def _files(result: Result, run: Run, stem: Path) -> Iterator[tuple[Path, Save]]:
    """Paths of the files of a result, each with a function that writes it."""
    name = run.experiment.name
    content = {
        "experiment": name,
        "warnings": run.warnings,
        "run": run.facts,
        "claims": [plain(claim) for claim in result.claims],
        "tables": [plain(table) for table in result.tables],
        "figures": list(result.figures),
    }
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    yield stem.with_name(f"{name}.json"), lambda file: file.write(text.encode())
    about = stem.with_name(f"{name}.md")
    yield about, lambda file: file.write((page(content, run.experiment) + _kept(about)).encode())
    for ending, figure in result.figures.items():
        yield stem.with_name(f"{name}-{ending}.svg"), partial(_save_svg, figure)


def _save_svg(figure: Any, file: IO[bytes]) -> None:
    """Save a figure; equal figures give equal files."""
    import matplotlib

    # Without a salt the identifiers in an SVG are random, and by default it contains the date.
    with matplotlib.rc_context({"svg.hashsalt": "mercer", "svg.fonttype": "none"}):
        figure.savefig(file, format="svg", metadata={"Date": None})


def _kept(path: Path) -> str:
    """The discussion section of an existing page."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    return _DISCUSSION + before.partition(_DISCUSSION)[2] if _DISCUSSION in before else ""


def page(content: dict[str, Any], experiment: Experiment) -> str:
    """Markdown page of the results in a JSON file, without the discussion."""
    facts = content["run"]
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    parts = [f"# {experiment.title}", f"Source: {experiment.source}"]
    parts += [f"**{warning}**" for warning in content["warnings"]]
    parts += [f"```console\n$ {facts['command']}\n```"]
    parts += [
        f"Run on {facts['date']} with Python {facts['python']}, {versions}; "
        f"{_threads(facts['threads'])}, {_duration(facts['seconds'])} "
        f"(processors: {_duration(facts['processor_seconds'])})"
        f"{', with fits kept from an earlier run' * facts['resumed']}."
    ]
    if content["claims"]:
        claims = [Claim(**claim) for claim in content["claims"]]
        lines = [f"- **{claim.verdict.capitalize()}.** {claim.text}" for claim in claims]
        parts += ["## What holds", "\n".join(lines)]
    for table in content["tables"]:
        parts += [f"## {table['title']}", markdown(table)]
        if table["note"]:
            parts.append(table["note"])
    for ending in content["figures"]:
        parts.append(f"![{experiment.title}: {ending}]({experiment.name}-{ending}.svg)")
    parts += ["## What differs from the source", _differs(content["warnings"], experiment)]
    return "\n\n".join(parts) + "\n"


def _differs(warnings: Sequence[str], experiment: Experiment) -> str:
    """Differences from the publication; those of the real data do not apply to invented data."""
    if INVENTED in warnings:
        return "The data is invented, and this is a small part of the experiment."
    return (OF_FULL_RUN if PARTIAL in warnings else "") + experiment.differs


def _threads(count: int) -> str:
    return "one thread" if count == 1 else f"{count} threads"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"


def markdown(table: dict[str, Any]) -> str:
    """A table of a JSON file as Markdown.

    Examples
    --------
    >>> print(markdown({"columns": ["n", "ours"], "rows": [[3, {"value": 1.234, "published": 1.5}]]}))
    | n | ours |
    | --- | --- |
    | 3 | 1.2 (1.5) |
    """
    columns = table["columns"]
    lines: list[Sequence[Any]] = [columns, ["---"] * len(columns), *table["rows"]]
    return "\n".join("| " + " | ".join(_text(cell) for cell in line) + " |" for line in lines)


def _text(cell: Any) -> str:
    if isinstance(cell, dict):
        return str(Measured(**cell))
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def show(result: Result, run: Run, console: Console) -> None:
    """Print tables and claims."""
    for warning in run.warnings:
        console.print(Text(warning, style="bold red"))
    for table in result.tables:
        shown = RichTable(title=Text(table.title), title_justify="left")
        for column in table.columns:
            shown.add_column(Text(column), overflow="fold")
        for row in table.rows:
            shown.add_row(*(Text(_text(cell)) for cell in row))
        console.print(shown)
        if table.note:
            console.print(Text(table.note))
    for claim in result.claims:
        console.print(Text(f"{claim.verdict}: {claim.text}"))
