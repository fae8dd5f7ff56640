"""Results as files (JSON, Markdown, PNG, SVG) and on a terminal."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from mercer.engine.threads import threads_in_use
from mercer.reproduce.experiment import Experiment, Result, Table, plain

PACKAGES = ("mercer", "numpy", "scipy", "scikit-learn", "numba")
#: A section of this name is written by hand, and kept when a page is written anew.
_DISCUSSION = "\n## Discussion\n"
INVENTED = (
    "INVENTED DATA: no data folder was named, so this ran on a small synthetic stand-in.  The numbers "
    "show that the code runs and nothing else."
)
PARTIAL = "QUICK RUN: a small part of the experiment, with small grids.  Not the published protocol."


@dataclass(frozen=True)
class Run:
    """How an experiment was run."""

    experiment: Experiment
    command: str
    quick: bool
    invented: bool
    #: Fits that were finished before were there to be taken.
    resumed: bool
    seconds: float

    @property
    def warnings(self) -> list[str]:
        """What a reader must know first."""
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
            "resumed": self.resumed,
        }


def write(result: Result, run: Run, folder: Path) -> list[Path]:
    """Write all files of a result; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    name = run.experiment.name
    facts = run.facts
    paths = [folder / f"{name}.json", folder / f"{name}.md"]
    content = {
        "experiment": name,
        "warnings": run.warnings,
        "run": facts,
        "claims": [plain(claim) for claim in result.claims],
        "tables": [plain(table) for table in result.tables],
    }
    paths[0].write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    paths[1].write_text(_page(result, run, facts) + _kept(paths[1]))
    for ending, figure in result.figures.items():
        for kind in ("png", "svg"):
            path = folder / f"{name}-{ending}.{kind}"
            # Without a date and with fixed names inside, equal figures are equal files.
            extra = {"metadata": {"Date": None}} if kind == "svg" else {}
            _save(figure, path, extra)
            paths.append(path)
    return paths


def _save(figure: Any, path: Path, extra: dict[str, Any]) -> None:
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "mercer", "svg.fonttype": "none"}):
        figure.savefig(path, dpi=150, **extra)


def _kept(path: Path) -> str:
    """The discussion of a page that is there already."""
    before = path.read_text() if path.exists() else ""
    return _DISCUSSION + before.partition(_DISCUSSION)[2] if _DISCUSSION in before else ""


def _page(result: Result, run: Run, facts: dict[str, Any]) -> str:
    experiment = run.experiment
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    parts = [f"# {experiment.title}", f"Source: {experiment.source}"]
    parts += [f"**{warning}**" for warning in run.warnings]
    parts += [f"```console\n$ {facts['command']}\n```"]
    parts += [
        f"Run on {facts['date']} with Python {facts['python']}, {versions}; {facts['threads']} threads, "
        f"{_duration(facts['seconds'])}{' with fits kept from an earlier run' * facts['resumed']}."
    ]
    if result.claims:
        lines = [
            f"- **{claim.verdict[0].upper()}{claim.verdict[1:]}.** {claim.text}"
            for claim in result.claims
        ]
        parts += ["## What holds", "\n".join(lines)]
    for table in result.tables:
        parts += [f"## {table.title}", markdown(table)]
        if table.note:
            parts.append(table.note)
    for ending in result.figures:
        parts.append(f"![{experiment.title}: {ending}]({experiment.name}-{ending}.png)")
    parts += ["## What differs from the source", experiment.differs]
    return "\n\n".join(parts) + "\n"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"


def markdown(table: Table) -> str:
    """A table in Markdown.

    Examples
    --------
    >>> from mercer.reproduce import Measured
    >>> print(markdown(Table("", ["n", "ours"], [[3, Measured(1.234)]])))
    | n | ours |
    | --- | --- |
    | 3 | 1.2 |
    """
    lines: list[Sequence[Any]] = [table.columns, ["---"] * len(table.columns), *table.rows]
    return "\n".join("| " + " | ".join(_text(cell) for cell in line) + " |" for line in lines)


def _text(cell: Any) -> str:
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
