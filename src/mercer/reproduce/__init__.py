"""Published experiments, each reproduced with one command.

``mercer reproduce NAME`` runs an experiment, prints its numbers next to the published ones and writes
tables and figures.  :func:`run` does the same from Python, and :func:`experiments` lists them.
"""

from __future__ import annotations

import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from mercer.reproduce.data import checked_file, find_folder, missing_folder
from mercer.reproduce.experiment import Claim, Context, Experiment, Measured, Progress, Result, Table
from mercer.reproduce.output import Run, write

__all__ = [
    "NAMES",
    "Claim",
    "Experiment",
    "Measured",
    "Result",
    "Run",
    "Table",
    "experiments",
    "find",
    "measure",
    "run",
]

#: Names of the experiments; each is a module of :mod:`mercer.reproduce.published`.
NAMES = (
    "webkb",
    "webkb-pairs",
    "decision-boundaries",
    "gbm",
    "sp500",
    "mnist-clouds",
    "textbook",
    "sphere-heat",
    "parametrix",
    "harmonics",
)


def find(name: str) -> Experiment:
    """The experiment of the given name."""
    if name not in NAMES:
        raise ValueError(f"there is no experiment {name!r}; choose from {', '.join(NAMES)}")
    module = import_module(f"mercer.reproduce.published.{name.replace('-', '_')}")
    return module.EXPERIMENT


def experiments() -> list[Experiment]:
    """All experiments."""
    return [find(name) for name in NAMES]


def run(
    name: str,
    *,
    data: Path | str | None = None,
    quick: bool = False,
    results: Path | str = "mercer-results",
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[Result, Run]:
    """Run an experiment and write its results.

    Each file is written completely or not at all.

    Parameters
    ----------
    name : str
        One of :data:`NAMES`.
    data : path, optional
        Folder of data sets; by default the environment variable MERCER_DATA.  Without a folder, a quick
        run uses small synthetic data, and the results say so.
    quick : bool
        Run a small part of the experiment.
    results : path
        Folder for the results: ``NAME.json``, ``NAME.md`` and figures.  Finished fits are kept in its
        folder ``cache/NAME``, from which an interrupted run continues.
    seed : int
        Seed of all random numbers; equal seeds give equal results.
    progress : callable, optional
        Called with the number of finished steps and the total number of steps.

    Examples
    --------
    >>> import tempfile
    >>> from mercer import reproduce
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result, _ = reproduce.run("textbook", results=folder)
    >>> all(claim.holds for claim in result.claims)
    True
    """
    result, how = measure(name, data=data, quick=quick, results=results, seed=seed, progress=progress)
    write(result, how, Path(results))
    return result, how


def measure(
    name: str,
    *,
    data: Path | str | None = None,
    quick: bool = False,
    results: Path | str = "mercer-results",
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[Result, Run]:
    """The same as :func:`run`, without writing results; finished fits are kept."""
    experiment = find(name)
    folder = find_folder(data) if experiment.files else None
    if folder is not None:
        for file in experiment.files:  # all of them before the work begins
            checked_file(folder, file)
    elif experiment.files and not quick:
        raise ValueError(missing_folder(name, experiment.files))
    target = Path(results)
    target.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter(), time.process_time()
    cache = target / "cache" / name
    resumed = any(path.stat().st_size for path in cache.glob("*.jsonl"))
    result = experiment.run(Context(folder, quick, cache, seed, progress))
    if quick and experiment.files:
        result = replace(result, claims=())  # part of an experiment cannot decide them
    options = " --data FOLDER" if folder is not None else ""
    options += " --quick" if quick else ""
    options += f" --seed {seed}" if seed else ""
    how = Run(
        experiment, f"mercer reproduce {name}{options}", quick, folder is None, resumed,
        time.perf_counter() - start[0], time.process_time() - start[1],
    )  # fmt: skip
    return result, how
