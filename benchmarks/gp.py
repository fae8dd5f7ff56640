"""Sparse Gaussian processes on millions of rows: time and memory.

``python -m benchmarks.gp`` runs all of the following, each in a process of its own; or name some:

- ``memory``: 10^6 rows of 8 columns with 504 features, and other kernels from the same statistics;
- ``inducing``: the same rows with as many learnt inducing points;
- ``files``: 10^7 rows of Parquet files, written to a temporary folder (0.7 GB) before the clock starts;
- ``dask``: 10^6 rows in 16 partitions, on a cluster of two processes, beside the same in memory;
- ``classes``: a classifier of 10^5 rows.

``--rows 1e5`` takes fewer rows or more.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from mercer._threads import threads_in_use
from mercer.gp import ParquetBlocks, SphericalGPClassifier, SphericalGPRegressor
from mercer.kernels import Heat, Matern
from mercer.spaces import Sphere

FEATURES, COLUMNS = 504, 8
CHUNK = 10**6

Line = tuple[str, float, float, str]


def rows(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, COLUMNS))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) + 0.3 * rng.normal(size=count)
    return X, y


def timed(call: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the clock and of the processors, in this process."""
    clock, processors = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - clock, time.process_time() - processors


def peak() -> str:
    return f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB"


def compiled() -> None:
    """Have all loops compiled before the clock starts."""
    X, y = rows(2000)
    SphericalGPRegressor(max_features=FEATURES, n_restarts=0).fit(X, y).predict(X, return_std=True)


def memory(count: int) -> list[Line]:
    X, y = rows(count)
    new, truth = rows(10_000, seed=1)
    model = SphericalGPRegressor(max_features=FEATURES)
    lines = [(f"fit, ArcCosine, {count} rows", *timed(lambda: model.fit(X, y)), peak())]
    lines.append(prediction(model, new, truth))
    table = SphericalGPRegressor(Heat(Sphere()), inputs="table", max_features=FEATURES)
    lines.append((f"fit, Heat, {count} rows", *timed(lambda: table.fit(X, y)), peak()))
    for kernel in (Matern(Sphere(), nu=2.5, length_scale=1.0), Heat(Sphere(), t_star=0.3)):
        spent = timed(lambda kernel=kernel: table.refit(kernel))
        lines.append((f"refit, {kernel!r}", *spent, "from the statistics"))
    return lines


def prediction(model: SphericalGPRegressor, new: np.ndarray, truth: np.ndarray) -> Line:
    """Time of predictions, and how good they are."""
    mean, std = model.predict(new, return_std=True)
    error = np.sqrt(np.mean((mean - truth) ** 2))
    covered = np.mean(np.abs(mean - truth) < 1.96 * std)
    note = f"RMSE {error:.3f} (noise 0.3), coverage of 95 % intervals {covered:.3f}"
    return f"predict, {len(new)} rows", *timed(lambda: model.predict(new, return_std=True)), note


def inducing(count: int) -> list[Line]:
    X, y = rows(count)
    kernel = Matern(Sphere(), nu=2.5, length_scale=1.0)
    model = SphericalGPRegressor(
        kernel, inputs="table", features="inducing", ard=True, max_features=FEATURES
    )
    spent = timed(lambda: model.fit(X, y))
    lines = [(f"fit, learnt inducing points, {count} rows", *spent, peak())]
    return [*lines, prediction(model, *rows(10_000, seed=1))]


def files(count: int) -> list[Line]:
    with tempfile.TemporaryDirectory() as folder:
        for number, start in enumerate(range(0, count, CHUNK)):
            X, y = rows(min(CHUNK, count - start), seed=number)
            frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(COLUMNS)]).assign(y=y)
            frame.to_parquet(Path(folder) / f"{number:04}.parquet")
        before = peak()
        model = SphericalGPRegressor(max_features=FEATURES)
        spent = timed(lambda: model.fit(ParquetBlocks(folder, target="y")))
        assert model.statistics_.rows == count
    return [
        (f"fit from Parquet files, {count} rows", *spent, f"{peak()}, {before} when they were written")
    ]


def partitions(count: int) -> list[Line]:
    import dask.array as da
    from distributed import Client, LocalCluster

    X, y = rows(count)
    model, local = (SphericalGPRegressor(max_features=FEATURES) for _ in range(2))
    size = -(-count // 16)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        blocks = da.from_array(X, chunks=(size, COLUMNS)).persist()
        targets = da.from_array(y, chunks=size).persist()
        client.run(compiled)
        spent = timed(lambda: model.fit(blocks, targets))
    lines = [(f"fit, Dask, {count} rows", *spent, "processor seconds without the workers'")]
    lines.append((f"fit, ArcCosine, {count} rows", *timed(lambda: local.fit(X, y)), "in memory"))
    gap = np.abs(model.predict(X[:10_000]) - local.predict(X[:10_000])).max()
    return [*lines, ("largest difference of predictions", 0.0, 0.0, f"{gap:.1e}")]


def classes(count: int) -> list[Line]:
    X, y = rows(count)
    model = SphericalGPClassifier(max_features=FEATURES)
    spent = timed(lambda: model.fit(X, y > y.mean()))
    return [(f"classifier, {count} rows", *spent, f"{model.n_iter_} passes, {peak()}")]


CASES = {
    "memory": (memory, 1e6),
    "inducing": (inducing, 1e6),
    "files": (files, 1e7),
    "dask": (partitions, 1e6),
    "classes": (classes, 1e5),
}


def run(name: str, count: int) -> list[Line]:
    """One case; in a process of its own, since its memory is measured."""
    compiled()
    return CASES[name][0](count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("cases", nargs="*", help=f"some of {', '.join(CASES)}; by default all")
    parser.add_argument("--rows", type=float)
    arguments = parser.parse_args()
    unknown = set(arguments.cases) - set(CASES)
    if unknown:
        parser.error(f"no case {min(unknown)!r}; there are {', '.join(CASES)}")
    table = Table("what", "seconds", "processor", "note", title=f"{threads_in_use()} threads")
    for name in arguments.cases or CASES:
        count = int(arguments.rows or CASES[name][1])
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            lines = process.submit(run, name, count).result()
        for what, seconds, processor, note in lines:
            table.add_row(what, f"{seconds:.2f}", f"{processor:.2f}", note)
    Console().print(table)


if __name__ == "__main__":
    main()
