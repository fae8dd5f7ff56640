"""Sparse Gaussian processes on a million rows: time and memory.

``python -m benchmarks.gp``: 10^6 rows of 8 columns with 504 features, in memory and from Parquet files,
another kernel from the same statistics, and a classifier of 10^5 rows.  ``python -m benchmarks.gp 1e5``
takes fewer; ``--parquet 1e7`` more from files.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from mercer.engine.threads import threads_in_use
from mercer.gp import ParquetBlocks, SphericalGPClassifier, SphericalGPRegressor
from mercer.kernels import Heat, Matern
from mercer.spaces import Sphere

FEATURES, COLUMNS = 504, 8
CHUNK = 10**6


def rows(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, COLUMNS))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) + 0.3 * rng.normal(size=count)
    return X, y


def timed(call: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the clock and of the processors."""
    clock, processors = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - clock, time.process_time() - processors


def peak() -> str:
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB at most so far"


def regression(count: int) -> list[tuple[str, float, float, str]]:
    X, y = rows(count)
    new, truth = rows(10_000, seed=1)
    lines = []
    model = SphericalGPRegressor(max_features=FEATURES)
    model.fit(X[:2000], y[:2000])  # compile
    lines.append((f"fit, ArcCosine, {count} rows", *timed(lambda: model.fit(X, y)), peak()))
    mean, std = model.predict(new, return_std=True)
    error = np.sqrt(np.mean((mean - truth) ** 2))
    covered = np.mean(np.abs(mean - truth) < 1.96 * std)
    note = f"RMSE {error:.3f} (noise 0.3), coverage of 95 % intervals {covered:.3f}"
    lines.append(("predict, 10000 rows", *timed(lambda: model.predict(new, return_std=True)), note))
    table = SphericalGPRegressor(Heat(Sphere()), inputs="table", max_features=FEATURES)
    lines.append((f"fit, Heat, {count} rows", *timed(lambda: table.fit(X, y)), peak()))
    for kernel in (Matern(Sphere(), nu=2.5), Heat(Sphere(), t_star=0.3)):
        spent = timed(lambda kernel=kernel: table.refit(kernel))
        lines.append((f"refit, {kernel!r}", *spent, "from the statistics"))
    return lines


def parquet(count: int) -> list[tuple[str, float, float, str]]:
    with tempfile.TemporaryDirectory() as folder:
        for number, start in enumerate(range(0, count, CHUNK)):
            X, y = rows(min(CHUNK, count - start), seed=number)
            frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(COLUMNS)]).assign(y=y)
            frame.to_parquet(Path(folder) / f"{number:04}.parquet")
        model = SphericalGPRegressor(max_features=FEATURES)
        spent = timed(lambda: model.fit(ParquetBlocks(folder, target="y")))
    return [(f"fit from Parquet, {count} rows", *spent, peak())]


def classification(count: int) -> list[tuple[str, float, float, str]]:
    X, y = rows(count)
    model = SphericalGPClassifier(max_features=FEATURES)
    spent = timed(lambda: model.fit(X, y > y.mean()))
    return [(f"classifier, {count} rows", *spent, f"{model.n_iter_} passes, {peak()}")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="?", type=float, default=1e6)
    parser.add_argument("--parquet", type=float, default=1e6, help="rows in Parquet files")
    arguments = parser.parse_args()
    count = int(arguments.rows)
    table = Table("what", "seconds", "processor", "note", title=f"{threads_in_use()} threads")
    lines = parquet(int(arguments.parquet)) + regression(count) + classification(count // 10)
    for what, seconds, processor, note in lines:
        table.add_row(what, f"{seconds:.2f}", f"{processor:.2f}", note)
    Console().print(table)


if __name__ == "__main__":
    main()
