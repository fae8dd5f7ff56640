"""Published experiments, repeated with one command each.

``mercer reproduce NAME`` runs one, prints its numbers beside the published ones and writes tables and
figures.  :func:`run` does the same from Python, :func:`experiments` lists them.
"""

from __future__ import annotations

import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from mercer.reproduce.data import check_all, find_folder, missing_folder
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

#: Experiments; each is a module of this package.
NAMES = (
    "webkb",
    "webkb-pairs",
    "gbm",
    "sp500",
    "mnist-clouds",
    "textbook",
    "sphere-heat",
    "parametrix",
    "harmonics",
)


def find(name: str) -> Experiment:
    """The experiment of a name."""
    if name not in NAMES:
        raise ValueError(f"no experiment is called {name!r}; there are {', '.join(NAMES)}")
    module = import_module(f"mercer.reproduce.{name.replace('-', '_')}")
    found: Experiment = module.EXPERIMENT
    return found


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
    """Run an experiment and write what it found.

    Files are written one after the other, each whole or not at all.

    Parameters
    ----------
    name : str
        One of :data:`NAMES`.
    data : path, optional
        Folder of data sets; by default what the variable MERCER_DATA says.  Without both, a quick run
        takes small data made by code, and says so.
    quick : bool
        A small part of the experiment.
    results : path
        Folder of the files that are written: ``NAME.json``, ``NAME.md`` and figures.  Finished fits are
        kept in ``cache/NAME`` inside it; an interrupted run goes on from there.
    seed : int
        Of all that is drawn; equal seeds give equal numbers.
    progress : callable, optional
        Told the steps done and the steps in all.

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
    """The same as :func:`run`, with nothing written but finished fits."""
    experiment = find(name)
    folder = find_folder(data) if experiment.files else None
    if folder is not None:
        check_all(folder, experiment.files)
    elif experiment.files and not quick:
        raise ValueError(missing_folder(name, experiment.files))
    target = Path(results)
    target.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter(), time.process_time()
    cache = target / "cache" / name
    resumed = any(path.stat().st_size for path in cache.glob("*.jsonl"))
    result = experiment.run(Context(folder, quick, cache, seed, progress))
    if quick and experiment.files:
        result = replace(result, claims=())  # a part of the experiment settles nothing
    options = " --data FOLDER" if folder is not None else ""
    options += " --quick" if quick else ""
    options += f" --seed {seed}" if seed else ""
    how = Run(
        experiment, f"mercer reproduce {name}{options}", quick, folder is None, resumed,
        time.perf_counter() - start[0], time.process_time() - start[1],
    )  # fmt: skip
    return result, how
