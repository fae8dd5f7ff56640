"""Support vector machines against libsvm on the same Gram matrices, to the same duality gap.

``python -m benchmarks.machines [noisy] [classes] [digits] [--rows 500 1000 2000 5000 10000] [--C ...]``:
a binary task with 10 % of the labels flipped, ten classes with 5 % of them, and digits.  libsvm runs
with its default ``tol`` and ``cache_size=1000``; ours to a gap at least as small as the one of libsvm's
coefficients, however large that is.  The two take turns, and the best time of each counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn import svm
from sklearn.datasets import load_digits, make_classification

from mercer.kernels import Gaussian
from mercer.machines import SVC
from mercer.machines.classifier import separation
from mercer.machines.program import certify

#: Calls of each for small tasks, and rows of these.
REPEATS, FEW, GRID = 15, 2000, (0.1, 1.0, 10.0, 100.0, 1000.0)


def timed(repeats: int, *calls: Callable[[], object]) -> list[float]:
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for call, record in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            record.append(time.perf_counter() - start)
    return [min(record) for record in times]


def gap_of(machine: svm.SVC, K: np.ndarray, y: np.ndarray, C: float) -> float:
    """Largest relative duality gap of libsvm's pairs of classes."""
    counts = machine.n_support_
    ends = np.concatenate([[0], np.cumsum(counts)])
    pairs = [(i, j) for i in range(len(counts)) for j in range(i + 1, len(counts))]
    gaps = []
    for i, j in pairs:
        b = np.zeros(len(K))
        for own, other in ((i, j), (j, i)):
            part = slice(ends[own], ends[own + 1])
            b[machine.support_[part]] = machine.dual_coef_[other - (other > own), part]
        index = np.flatnonzero((y == i) | (y == j))
        b = -b if len(counts) == 2 else b
        program = separation(y[index] == i, np.full(len(index), C))
        sub = K[np.ix_(index, index)]
        gaps.append(certify(program, b[index], sub @ b[index], np.diagonal(sub).copy()).relative_gap)
    return max(gaps)


def compared(name: str, K: np.ndarray, y: np.ndarray, grid: list[float]) -> list[tuple[str, ...]]:
    rows = []
    for C in grid:
        gap = gap_of(svm.SVC(kernel="precomputed", C=C, cache_size=1000).fit(K, y), K, y, C)
        tol = float(max(gap, 1e-6))
        theirs, ours = timed(
            REPEATS if len(K) < FEW else 2,
            lambda C=C: svm.SVC(kernel="precomputed", C=C, cache_size=1000).fit(K, y),
            lambda C=C, tol=tol: SVC("precomputed", C, tol=tol).fit(K, y),
        )
        reached = SVC("precomputed", C, tol=tol).fit(K, y).dual_gap_
        numbers = (
            f"{gap:.1e}",
            f"{reached:.1e}",
            f"{theirs:.4f}",
            f"{ours:.4f}",
            f"{theirs / ours:.2f}",
        )
        rows.append((f"{name}, C = {C:g}", *numbers))
    return rows


def tasks(names: list[str], sizes: list[int]) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, rows and classes of each task."""
    for rows in sizes:
        if "noisy" in names:
            X, y = make_classification(rows, 20, n_informative=10, flip_y=0.1, random_state=0)
            yield f"noisy, {rows} rows", X, y
        if "classes" in names:
            X, y = make_classification(
                rows, 40, n_informative=20, n_classes=10, flip_y=0.05, random_state=0
            )
            yield f"ten classes, {rows} rows", X, y
    if "digits" in names:
        X, y = load_digits(return_X_y=True)
        for rows in (500, 1000, len(X)):
            yield f"digits, {rows} rows", X[:rows], y[:rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", default=["noisy", "classes", "digits"])
    parser.add_argument("--rows", type=int, nargs="*", default=[500, 1000, 2000, 5000, 10_000])
    parser.add_argument("--C", type=float, nargs="*", default=GRID)
    options = parser.parse_args()
    columns = ("task", "gap of libsvm", "our gap", "libsvm, s", "ours, s", "ratio")
    table = Table(*columns, title=f"seconds, best of {REPEATS}, or of 2 from {FEW} rows")
    for name, X, y in tasks(options.tasks, options.rows):
        K = Gaussian().scaled_to(X, 0.3)(X)
        for tol in (1e-3, 1e-6):  # compiled in both precisions
            SVC("precomputed", tol=tol).fit(K[:1000, :1000], y[:1000])
        for row in compared(name, K, y, options.C):
            table.add_row(*row)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
