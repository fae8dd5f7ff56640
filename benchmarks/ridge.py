"""Kernel ridge regression: coverage of jackknife+ intervals, and many rows in little memory.

``python -m benchmarks.ridge [--data FOLDER] [--rows 40000] [--memory 3]``.  Intervals are those of 300
training rows or half of the set, checked on up to 1000 others, in 20 random splits; FOLDER holds the UCI
sets ``uci_regression/{yacht,energy,concrete,wine_red}.csv.gz``.  The machine is fixed beforehand, as the
guarantee wants it: columns and target are standardised, the length scale is the square root of the
number of columns, and alpha is 0.1.
"""

from __future__ import annotations

import argparse
import gzip
import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_diabetes

from mercer.kernels import Gaussian
from mercer.machines import KernelRidge

SPLITS, TRAINING, TESTED = 20, 300, 1000
LEVELS = (0.8, 0.9, 0.95)
UCI = ("yacht", "energy", "concrete", "wine_red")


def simulated(rows: int, columns: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A smooth function with noise of heavy tails."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    return X, np.sin(X @ rng.normal(size=columns)) + 0.1 * rng.standard_t(3, size=rows)


def sets(data: str | None) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    yield "simulated, 4 columns", *simulated(3000, 4)
    yield "simulated, 20 columns", *simulated(3000, 20)
    yield "diabetes", *load_diabetes(return_X_y=True)
    for name in UCI if data else ():
        with gzip.open(Path(data) / "uci_regression" / f"{name}.csv.gz", "rt") as file:
            table = np.loadtxt(file, delimiter=",", skiprows=1)
        yield name, table[:, :-1], table[:, -1]


def coverage(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Share of new targets inside their intervals, and median width in standard deviations, by level."""
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)
    y = (y - y.mean()) / y.std()
    found = np.zeros((len(LEVELS), 2))
    for seed in range(SPLITS):
        order = np.random.default_rng(seed).permutation(len(y))
        few = min(TRAINING, len(y) // 2)
        train, test = order[:few], order[few : few + TESTED]
        kernel = Gaussian(np.sqrt(X.shape[1]))
        machine = KernelRidge(kernel, alpha=0.1, leave_one_out=True).fit(X[train], y[train])
        for k, level in enumerate(LEVELS):
            low, high = machine.predict_interval(X[test], level)
            inside = (low <= y[test]) & (y[test] <= high)
            found[k] += inside.mean() / SPLITS, np.median(high - low) / SPLITS
    return found


def many_rows(rows: int, memory: float) -> str:
    X, y = simulated(rows, 8)
    kernel = Gaussian().scaled_to(X)
    KernelRidge(kernel, max_memory=1e-4).fit(X[:500], y[:500])  # compiled
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, processor = time.perf_counter(), time.process_time()
    machine = KernelRidge(kernel, alpha=1.0, max_memory=memory).fit(X, y)
    took, used = time.perf_counter() - start, time.process_time() - processor
    above = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e6
    return (
        f"{rows} rows: {took:.0f} s ({used:.0f} s of processors), {above:.2f} GB above the input, "
        f"{machine.n_iter_} iterations, {machine.certificate_}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("MERCER_DATA"), help="folder of data sets")
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--memory", type=float, default=3.0, help="gigabytes")
    options = parser.parse_args()
    console = Console(width=120)
    table = Table("set", *(f"level {level:g}" for level in LEVELS), title="coverage (median width)")
    for name, X, y in sets(options.data):
        table.add_row(name, *(f"{share:.3f} ({width:.2f})" for share, width in coverage(X, y)))
    console.print(table)
    if options.rows:
        console.print(many_rows(options.rows, options.memory))


if __name__ == "__main__":
    main()
