"""The command ``mercer``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table as RichTable
from rich.text import Text

if TYPE_CHECKING:
    from mercer.datasets import Table
    from mercer.selection.compare import Comparison
    from mercer.selection.compare import Progress as Callback
    from mercer.selection.families import SpaceName

app = typer.Typer(
    help="Kernel methods on data that is not flat.", no_args_is_help=True, add_completion=False,
    pretty_exceptions_enable=False,
)  # fmt: skip

TableArgument = Annotated[
    Path | None,
    typer.Argument(help="CSV, TSV, Parquet, NPZ or svmlight file; scikit-learn's digits if left out."),
]


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Bad input ends the command with one line, not with a traceback."""
    try:
        yield
    except (ValueError, TypeError, OSError) as error:
        line = Text("error: ", style="bold red") + Text(" ".join(str(error).split()))
        Console(stderr=True, soft_wrap=True).print(line)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        Console(stderr=True).print("stopped")
        raise typer.Exit(130) from None


@app.command()
def compare(
    table: TableArgument = None,
    target: Annotated[str | None, typer.Option(help="Column (or NPZ array) of class labels.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Column to leave out; may be repeated.")] = None,
    text: Annotated[str | None, typer.Option(help="Column of strings to compare.")] = None,
    edges: Annotated[Path | None, typer.Option(help="Edge list of a graph: compare its nodes.")] = None,
    node: Annotated[str | None, typer.Option(help="Column that names the node (with --edges).")] = None,
    cloud: Annotated[
        str | None, typer.Option(help="Column that says which cloud a point is of.")
    ] = None,
    weight: Annotated[str | None, typer.Option(help="Column of weights (with --cloud).")] = None,
    space: Annotated[str, typer.Option(help="auto, simplex (counts) or sphere (directions).")] = "auto",
    folds: Annotated[int, typer.Option(min=2, help="Outer folds.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the folds.")] = 0,
    jobs: Annotated[int, typer.Option(min=-1, help="Threads; -1 for all cores.")] = -1,
    report: Annotated[Path | None, typer.Option(help="Write an HTML page here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Compare the kernels that fit the data.

    A table of numbers: mercer compare counts.csv --target label.
    Strings: --text COLUMN.  Nodes of a graph: --edges EDGES.csv, the table naming nodes and labels.
    Clouds, one point per row: --cloud COLUMN.
    """
    from mercer import selection
    from mercer.report import write_report

    with _plain_errors():
        data = _read(table, target, drop or [], text, edges, node, cloud, weight, space)
        if report is not None:
            _check_writable(report)  # now rather than after the work
        with _progress_bar() as progress:
            result = selection.compare(
                data.X, data.y, space=data.graph or cast("SpaceName", space), folds=folds,
                random_state=seed, n_jobs=jobs or None, progress=progress,
            )  # fmt: skip
        if data.coordinates:
            result = result.with_facts(f"coordinates: {', '.join(data.coordinates)}")
        if report is not None:
            write_report(result, data.name, report)
    if as_json:
        typer.echo(json.dumps({"table": data.name, **result.to_dict()}, indent=2))
        return
    console = Console()
    console.print(_scores(data.name, result))
    console.print(Text(result.verdict))
    console.print(Text(f"Best model: {result.best}"))
    for note in result.notes:
        console.print(Text(f"Note: {note}."))
    if report is not None:
        console.print(Text(f"Report: {report}"))


def _read(
    table: Path | None, target: str | None, drop: list[str], text: str | None, edges: Path | None,
    node: str | None, cloud: str | None, weight: str | None, space: str,
) -> Table:  # fmt: skip
    """The data that the options name."""
    from mercer import datasets

    kinds = {"--text": text, "--edges": edges, "--cloud": cloud}
    given = [name for name, value in kinds.items() if value is not None]
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} name different kinds of data; give one of them")
    for name, value, partner in (("--node", node, "--edges"), ("--weight", weight, "--cloud")):
        if value is not None and partner not in given:
            raise ValueError(f"{name} goes with {partner}")
    if given and space != "auto":
        raise ValueError(f"--space goes with tables of numbers, not with {given[0]}")
    if drop and (text is not None or edges is not None):
        raise ValueError(f"--drop does not go with {given[0]}, which looks at no other columns")
    if table is None:
        if given:
            raise ValueError(f"{given[0]} needs a table: mercer compare TABLE --target COLUMN ...")
        return datasets.digits()
    if text is not None:
        return datasets.read_strings(table, target, text)
    if edges is not None:
        return datasets.read_nodes(table, target, edges, node)
    if cloud is not None:
        return datasets.read_clouds(table, target, cloud, weight, drop)
    return datasets.read_table(table, target, drop)


def _check_writable(path: Path) -> None:
    folder = path.resolve().parent
    if path.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        raise ValueError(f"the report cannot be written to {path}")


@contextmanager
def _progress_bar() -> Iterator[Callback]:
    """A bar on the terminal's error stream, out of the way of piped output."""
    columns = (
        TextColumn("comparing kernels"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("compare", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _scores(name: str, result: Comparison) -> RichTable:
    shape = f"{result.rows} {result.data.noun}, {result.data.facts}, {len(result.classes)} classes"
    note = f"most frequent class {result.chance:.1%}"
    if result.data.columns is not None:
        note = f"rows taken as {result.kind}; {note}"
    table = RichTable(title=Text(f"{name}: {shape}\n{note}"), title_justify="left")
    for column in ("kernel", "accuracy", "95 % interval", "usual choice", "seconds"):
        left = column in ("kernel", "usual choice")
        table.add_column(column, justify="left" if left else "right", overflow="fold")
    for score in result.scores:
        low, high = score.interval
        table.add_row(
            score.name, f"{score.mean:.2%}", f"{low:.2%} .. {high:.2%}", score.usual_choice,
            f"{score.seconds:.1f}",
        )  # fmt: skip
    return table


@app.command()
def info() -> None:
    """Print versions and the engine in use."""
    from importlib import metadata

    from mercer import __version__
    from mercer.engine.threads import threads_in_use

    console = Console()
    console.print(f"mercer {__version__}, Python {sys.version.split()[0]}", highlight=False)
    for name in ("numpy", "scipy", "scikit-learn", "numba", "array-api-compat", "torch"):
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            version = "not installed"
        console.print(f"  {name:<18}{version}", highlight=False)
    console.print(f"engine: numba on the CPU, {threads_in_use()} threads", highlight=False)


if __name__ == "__main__":
    app()
