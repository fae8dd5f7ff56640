"""The command ``mercer``.

NumPy, pandas, scikit-learn and the parts of Mercer that need them take a second or more to import.  Each
command imports them itself, so that ``mercer --help`` and errors in options come at once.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from mercer import __version__
from mercer._files import atomic_write, one_line
from mercer._progress import INTERRUPTED, shown, stoppable
from mercer._threads import threads_in_use
from mercer.outputs import REFUSED, Outputs, plain_cell, tell, tell_warning

if TYPE_CHECKING:
    from mercer.datasets import Table
    from mercer.selection import Comparison
    from mercer.selection.kinds import ColumnRoles, Kind

_EXIT_CODES = (
    "Exit codes: 0 done; 2 bad input, described in one line; 3 done, but an output, which is named, "
    "could not be written; 1 the reader of the output closed it; 130 stopped by Ctrl-C."
)
app = typer.Typer(
    help="Kernel methods for data that is not flat.", epilog=_EXIT_CODES, no_args_is_help=True,
    add_completion=False, pretty_exceptions_enable=False,
)  # fmt: skip

#: Width of a line, in characters, from which the table of scores has room for choices.
_WIDE = 120

TableArgument = Annotated[
    Path | None,
    typer.Argument(
        help="CSV, TSV, Parquet, Feather, NPZ or svmlight file; word counts of docstrings by default."
    ),
]


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Print errors and warnings in one line each, once, without a traceback."""
    told: set[str] = set()

    def tell_once(message: object, *_: Any, **__: Any) -> None:
        if str(message) not in told:
            told.add(str(message))
            tell_warning(message)

    try:
        with warnings.catch_warnings():
            warnings.showwarning = tell_once
            yield
    except (ValueError, TypeError, OSError, MemoryError) as error:
        tell(error)
        raise typer.Exit(REFUSED) from None
    except KeyboardInterrupt:
        Console(stderr=True).print("stopped; run it again to resume")
        raise typer.Exit(INTERRUPTED) from None


@app.command(epilog=_EXIT_CODES)
def compare(
    context: typer.Context,
    table: TableArgument = None,
    target: Annotated[str | None, typer.Option(help="Column (or NPZ array) to predict.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="Column to leave out; may be repeated.")] = None,
    text: Annotated[str | None, typer.Option(help="Column of strings to compare.")] = None,
    edges: Annotated[Path | None, typer.Option(help="Edge list of a graph: compare its nodes.")] = None,
    node: Annotated[str | None, typer.Option(help="Column that names the node (with --edges).")] = None,
    cloud: Annotated[str | None, typer.Option(help="Column that names the cloud of a point.")] = None,
    weight: Annotated[str | None, typer.Option(help="Column of weights (with --cloud).")] = None,
    groups: Annotated[
        str | None, typer.Option(help="Column of groups that folds must not split.")
    ] = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option("--as", help="Kind of a column, COLUMN=KIND such as age=number; may be repeated."),
    ] = None,
    words: Annotated[str | None, typer.Option(help="Column of documents to compare.")] = None,
    ngrams: Annotated[int, typer.Option(min=1, help="Count sequences of up to N words.")] = 1,
    min_documents: Annotated[
        int, typer.Option(min=1, help="Count words that occur in at least N documents.")
    ] = 1,
    space: Annotated[str, typer.Option(help="auto, simplex (counts) or sphere (directions).")] = "auto",
    task: Annotated[str, typer.Option(help="auto, classification or regression.")] = "auto",
    metric: Annotated[
        str | None,
        typer.Option(help="Deciding metric: a scikit-learn scorer such as balanced_accuracy."),
    ] = None,
    folds: Annotated[int, typer.Option(min=2, help="Outer folds.")] = 5,
    repeats: Annotated[int, typer.Option(min=1, help="How often the folds are drawn.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the folds.")] = 0,
    jobs: Annotated[int, typer.Option(min=-1, help="Threads; -1 for all cores.")] = -1,
    max_memory: Annotated[float, typer.Option(help="Gigabytes for Gram matrices.")] = 4.0,
    landmarks: Annotated[
        str, typer.Option(help="Number of landmarks; auto uses them if Gram matrices do not fit.")
    ] = "auto",
    device: Annotated[
        str | None, typer.Option(help="Compute Gram matrices there, such as cuda; needs PyTorch.")
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(help="Folder of finished fits to resume from; the user's cache by default."),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML page here.")] = None,
    save_model: Annotated[
        Path | None, typer.Option(help="Write the best model here, for `mercer predict`.")
    ] = None,
    bounds: Annotated[
        bool, typer.Option("--bounds", help="Include VC bounds of the machines in the report.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Compare the kernels that fit the data.

    mercer compare table.csv --target label

    A table may have columns of several kinds.  Options name other data:
    --words COLUMN compares documents, --text COLUMN strings,
    --edges EDGES.csv nodes of a graph, and --cloud COLUMN clouds of points.

    Ctrl-C ends it with the results so far; the next run resumes from there.
    """
    from mercer import selection
    from mercer.selection.kinds import column_kinds, kind_by_options

    outputs = Outputs()
    options = {
        "text": text, "edges": edges, "cloud": cloud, "node": node, "weight": weight, "target": target,
        "drop": tuple(drop or ()), "groups": groups, "space": None if space == "auto" else space,
        "as": tuple(kinds or ()), "words": words, "ngrams": ngrams, "min_documents": min_documents,
    }  # fmt: skip
    given = {name: value for name, value in options.items() if value not in (None, (), 1)}
    with _plain_errors():
        kind = kind_by_options(given)
        data = _read(table, kind, given)
        _check_outputs([report, save_model], inputs=[table, edges])
        with shown("comparing kernels") as (progress, say), stoppable(say):
            result = selection.compare(
                data.X, data.y, space=data.graph or space, columns=column_kinds(given, data), task=task,
                scoring=metric,
                groups=data.groups, folds=folds, repeats=repeats, random_state=seed, n_jobs=jobs or None,
                max_memory=max_memory, cache=cache or _user_cache(), device=device, progress=progress,
                landmarks=int(landmarks) if landmarks.isdecimal() else landmarks,
                finished=lambda score: say(f"{score.name}: {score.mean:.4g} in {score.seconds:.1f} s"),
            )  # fmt: skip
        if facts := result.data.kind.file_facts(data):
            result = result.with_facts(facts)
        if result.data.kind.vectors:
            result = replace(result, columns=tuple(data.columns))
        with outputs.printing():
            if as_json:
                typer.echo(json.dumps({"table": data.name, **result.to_dict()}, indent=2))
            else:
                _print(result, data.name)
        paths = {"Model": save_model, "Report": report}
        page = {"source": _source(context, [table, edges], given, data.nodes), "bounds": bounds}
        _write(outputs, result, data, given, paths, page, quiet=as_json)
    outputs.end()
    if result.unfinished:
        raise typer.Exit(INTERRUPTED)


@app.command(epilog=_EXIT_CODES)
def predict(
    model: Annotated[Path, typer.Argument(help="File of `mercer compare --save-model`.")],
    table: Annotated[Path, typer.Argument(help="Table with the same columns; a target is not needed.")],
    output: Annotated[Path | None, typer.Option(help="CSV file; printed by default.")] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Add a column with the probability of each class.")
    ] = False,
    explain: Annotated[
        Path | None,
        typer.Option(help="CSV file for explanations: contributions of parts, columns, training rows."),
    ] = None,
    module: Annotated[
        str | None,
        typer.Option(help="Module with your own functions in the model's kernel; its code is run."),
    ] = None,
) -> None:
    """Predict the target of a table's rows, strings, nodes or clouds.

    Text that a spreadsheet would read as a formula is written with a leading '.
    """
    import pandas as pd

    from mercer.selection import load_model
    from mercer.selection.kinds import kind_called
    from mercer.selection.model_files import import_module_of_functions

    outputs = Outputs()
    with _plain_errors():
        if module is not None:
            import_module_of_functions(module)
        saved = load_model(model)
        if proba and not hasattr(saved, "predict_proba"):
            raise ValueError(f"{model.name} has no probabilities; leave out --proba")
        data = saved.read(table)
        _check_outputs([output, explain], inputs=[model, table])
        name = kind_called(saved.kind).id_column(saved.roles)
        with _of_model(model):
            # Documents without words among the training rows were reported when the model was fitted.
            warnings.filterwarnings("ignore", message=".* of Y .*taken as uniform")
            predictions = saved.predict(data.X)
            shares = saved.predict_proba(data.X) if proba else None
            reasons = None if explain is None else _reasons(saved, data, name)
        frame = pd.DataFrame({name: data.ids or range(len(predictions)), "prediction": predictions})
        if shares is not None:
            names = [f"probability of {label}" for label in saved.classes_]
            frame = frame.join(pd.DataFrame(shares, columns=names))
        if data.y is not None and not pd.isna(data.y).all():
            _print_score(saved, data, predictions)
        if output is None:
            with outputs.printing():
                _plain(frame).to_csv(sys.stdout, index=False)
        for path, written in ((output, frame), (explain, reasons)):
            if path is not None:
                with outputs.attempt(path), atomic_write(path, "w") as file:
                    _plain(written).to_csv(file, index=False)
    outputs.end()


def _plain(frame: Any) -> Any:
    """A table without text that a spreadsheet would read as a formula."""
    return frame.map(plain_cell).rename(columns=plain_cell)


def _reasons(saved: Any, data: Table, name: str) -> Any:
    """Explanations of the predictions, in a table with the same names of points."""
    from mercer.explain import explain

    reasons = explain(saved, data.X).table()
    if data.ids:
        reasons["row"] = [data.ids[row] for row in reasons["row"]]
    if saved.nodes:  # the model knows them by their positions
        nodes = reasons["kind"].isin(["neighbour", "training row", "landmark"])
        reasons.loc[nodes, "name"] = [saved.nodes[int(place)] for place in reasons["name"][nodes]]
    return reasons.rename(columns={"row": name})


@contextmanager
def _of_model(path: Path) -> Iterator[None]:
    """Name the model in errors that only inconsistent parts of it can cause."""
    try:
        yield
    except (LookupError, AttributeError, ArithmeticError, AssertionError, RuntimeError) as error:
        raise ValueError(
            f"{path.name} does not predict ({type(error).__name__}: {one_line(error)}); save the model "
            "again by mercer compare --save-model"
        ) from None


def _print_score(saved: Any, data: Any, predictions: Any) -> None:
    """Print the score of the predictions on rows with a target."""
    import pandas as pd
    from sklearn.metrics import accuracy_score, r2_score

    from mercer.selection.kinds.mixed import label_text
    from mercer.selection.target import counted

    known = ~pd.isna(data.y)
    truth, predictions = data.y[known], predictions[known]
    if hasattr(saved.model, "classes_"):  # 1 and 1.0 are the same label, and so is "1" beside words
        share = accuracy_score([*map(label_text, truth)], [*map(label_text, predictions)])
        text = f"accuracy {share:.2%}"
    else:
        try:
            text = f"R squared {r2_score(truth.astype(float), predictions):.4g}"
        except ValueError as error:
            raise ValueError(
                f"the target in {data.name} must hold numbers or nothing: {error}"
            ) from None
    rows = counted(int(known.sum()), "rows")
    Console(stderr=True).print(f"{text} on the {rows} with a target", highlight=False)


def _read(table: Path | None, kind: Kind, roles: ColumnRoles) -> Table:
    """The data that the options name."""
    from mercer import datasets

    if table is not None:
        return kind.read(table, roles)
    given = [name for name in roles if name != "space"]
    if given:
        raise ValueError(f"--{given[0]} needs a table: mercer compare TABLE --target COLUMN ...")
    return datasets.load_docstrings()


def _check_outputs(outputs: list[Path | None], inputs: list[Path | None]) -> None:
    """Check that outputs can be written and are not other files of the command."""
    taken = [path.resolve() for path in inputs if path is not None]
    for path in outputs:
        if path is None:
            continue
        if path.resolve() in taken:
            raise ValueError(f"{path} is already read or written by this command; name another file")
        taken.append(path.resolve())
        folder = path.resolve().parent
        if path.is_dir():
            raise ValueError(f"{path} cannot be written: it is a folder")
        if not folder.is_dir():
            raise ValueError(f"{path} cannot be written: there is no folder {folder}")
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise ValueError(f"{path} cannot be written: permission denied")


def _user_cache() -> Path | None:
    """Folder of finished fits, from which an interrupted command resumes."""
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return Path(base or Path.home() / ".cache") / "mercer"
    except RuntimeError:  # a user without a home
        return None


def _write(
    outputs: Outputs,
    result: Comparison,
    data: Table,
    roles: ColumnRoles,
    paths: dict[str, Path | None],
    page: dict[str, Any],
    quiet: bool,
) -> None:
    """Write the requested files, and print the name of each."""
    from mercer.report import write_report
    from mercer.selection import save_model

    for what, path in paths.items():
        if path is None:
            continue
        with outputs.attempt(path):
            if what == "Model":
                save_model(path, result, data, roles)
            else:
                write_report(result, data.name, path, **page)
            if not quiet:
                with outputs.printing():
                    Console().print(Text(f"{what}: {path}"))


def _source(
    context: typer.Context, files: list[Path | None], roles: ColumnRoles, nodes: tuple[str, ...]
) -> Any:
    """The command as it was given, with the files that it read."""
    from mercer.report.source import Source

    words = ["mercer", "compare"]
    for option in context.command.params:
        name = option.name or ""
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE":
            continue
        value = context.params[name]
        for one in value if isinstance(value, list | tuple) else [value]:
            flag = [option.opts[0]] if option.param_type_name == "option" else []
            words += [*flag, *([] if one is True else [str(one)])]
    return Source(shlex.join(words), tuple(file for file in files if file is not None), roles, nodes)


def _print(result: Comparison, name: str) -> None:
    console = Console()
    console.print(Text(_title(name, result)))
    for line in result.columns_taken:
        console.print(Text(line))
    wide = console.width >= _WIDE
    console.print(_scores(result, wide))
    for score in () if wide else result.scores:
        console.print(Text(f"{score.name}: {score.choice}"))
    console.print(Text(result.advice))
    console.print(Text(result.verdict))
    code, _, words = result.best.partition("  # ")
    kept = f"{words} (--save-model keeps it; --report has a script that repeats the comparison)"
    console.print(Text(f"Best model: {kept if words else code}"))
    for note in result.notes:
        console.print(Text(f"Note: {note}."))


def _title(name: str, result: Comparison) -> str:
    """Two lines on what was compared."""
    data = result.data
    shape = f"{result.rows} {data.noun}, {data.facts}"
    facts = [f"{data.noun} taken as {result.kind}"] if data.kind.spaces else []
    facts.append(result.target.task)
    if result.classes:
        shape += f", {len(result.classes)} classes"
    if result.chance is not None:
        facts.append(f"{result.baseline} {result.text(result.chance)}")
    if result.groups is not None:
        facts.append(f"folds keep each of {result.groups} groups together")
    return f"{name}: {shape}\n{'; '.join(facts)}"


def _scores(result: Comparison, choices: bool) -> RichTable:
    table = RichTable()
    for column in ("kernel", result.metric_title, "95 % interval", "p", "error", "s"):
        table.add_column(column, justify="left" if column == "kernel" else "right", overflow="fold")
    if choices:
        table.add_column("choice")
    for score in result.scores:
        low, high = map(result.text, score.interval)
        table.add_row(
            score.name, result.text(score.mean), f"{low} .. {high}", result.p_text(score.name),
            result.error_change(score.name), f"{score.seconds:.1f}",
            *([score.choice] if choices else []),
        )  # fmt: skip
    if (other := result.yardstick) is not None:
        low, high = map(result.text, other.interval)
        table.add_row(
            other.name, result.text(other.mean), f"{low} .. {high}", None, None, f"{other.seconds:.1f}",
            *(["not a kernel"] if choices else []), style="dim",
        )  # fmt: skip
    return table


@app.command(epilog=_EXIT_CODES)
def reproduce(
    name: Annotated[str, typer.Argument(help="Experiment; `mercer reproduce list` names them.")],
    data: Annotated[
        Path | None, typer.Option(help="Folder of data sets; $MERCER_DATA by default.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small part, on synthetic data if there is no folder.")
    ] = False,
    results: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("mercer-results"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random draws.")] = 0,
) -> None:
    """Repeat a published experiment and compare with the published numbers.

    Writes NAME.json, NAME.md and figures into the folder of results.

    Ctrl-C stops it; the next run resumes from there.
    """
    from mercer import reproduce as experiments
    from mercer.reproduce.documents import DOCUMENTS
    from mercer.reproduce.output import show, write

    console, outputs = Console(), Outputs()
    if name == "list":
        with outputs.printing():
            for experiment in experiments.experiments():
                console.print(f"{experiment.name:<21}{experiment.title}", highlight=False)
            for document in DOCUMENTS:
                console.print(f"\n{document.title}", highlight=False, soft_wrap=True)
                for item, where in document.items.items():
                    console.print(f"  {item}: {where}", highlight=False, soft_wrap=True)
        outputs.end()
        return
    with _plain_errors():
        with shown(name) as (progress, _):
            result, run = experiments.measure(
                name, data=data, quick=quick, results=results, seed=seed, progress=progress
            )
        with outputs.printing():
            show(result, run, console)
        written = write(result, run, results, outputs.attempt)
        with outputs.printing():
            console.print(Text(f"Written: {', '.join(map(str, written))}, in {run.seconds:.0f} s"))
    outputs.end()


@app.command()
def info() -> None:
    """Print versions and the engine in use."""
    from mercer.engine.cuda import cuda_device

    console, outputs = Console(), Outputs()
    with outputs.printing():
        console.print(f"mercer {__version__}, Python {sys.version.split()[0]}", highlight=False)
        for name in ("numpy", "scipy", "scikit-learn", "numba", "array-api-compat", "torch", "triton"):
            try:
                version = metadata.version(name)
            except metadata.PackageNotFoundError:
                version = "not installed"
            console.print(f"  {name:<18}{version}", highlight=False)
        console.print(f"engine: numba on the CPU, threads: {threads_in_use()}", highlight=False)
        console.print(f"tensors: {cuda_device()}", highlight=False)
    outputs.end()


if __name__ == "__main__":
    app()
