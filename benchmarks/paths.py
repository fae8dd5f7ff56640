"""Searches on paths of certified machines against libsvm, Gram matrices included on both sides.

``python -m benchmarks.paths [--data FOLDER] [TASK ...]`` with the tasks ``mnist``, ``noisy`` and
``webkb``.  Both sides have two threads or processes; libsvm has its default ``tol`` and
``cache_size=1000``.  ``--rbf`` also times ``GridSearchCV(SVC(kernel="rbf"))``, which takes minutes.
``--other SOURCE`` times the search of another checkout on WebKB: SOURCE is its folder ``src``.
"""

from __future__ import annotations

import argparse
import gzip
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from mercer.kernels import Gaussian, Heat
from mercer.selection import KernelSearchCV
from mercer.spaces import Simplex

C, FOLDS, THREADS = [0.1, 1.0, 10.0, 100.0, 1000.0], 5, 2
#: Runs that the best is taken of.
REPEATS = 3
#: The search of another checkout, in a process of its own; prints seconds and the best score.
_OTHER = """
from benchmarks import paths
kernels, X, y = paths.webkb({data!r})
found = paths.search(kernels, X, y)
((seconds, _),) = paths.best_of({repeats}, lambda: paths.search(kernels, X, y))
print(seconds, found.best_score_)
"""


def mnist(folder: str | None) -> tuple[list, np.ndarray, np.ndarray]:
    """5000 rows of MNIST, and scikit-learn's default kernel for them."""
    base = Path(folder or "") / "mnist"
    with gzip.open(base / "t10k-images-idx3-ubyte.gz") as file:
        X = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)[:5000].astype(float)
    with gzip.open(base / "t10k-labels-idx1-ubyte.gz") as file:
        y = np.frombuffer(file.read(), np.uint8, offset=8)[:5000].astype(int)
    return [Gaussian(length_scale=float(np.sqrt(0.5 * 784 * X.var())))], X, y


def noisy(folder: str | None) -> tuple[list, np.ndarray, np.ndarray]:
    """5000 rows of two classes, 10 % of the labels flipped."""
    X, y = make_classification(5000, 20, n_informative=10, flip_y=0.2, random_state=0)
    return [Gaussian(length_scale=float(np.sqrt(0.5 * 20 * X.var())))], X, y


def webkb(folder: str | None) -> tuple[list, object, np.ndarray]:
    """800 rows of the WebKB counts, and nine times of the heat kernel."""
    from benchmarks.search import T_STAR, corpus, some

    _, X, y = corpus(folder)
    return [Heat(Simplex(), t_star=t) for t in T_STAR], X[some(y)], y[some(y)]


def search(kernels: list, X: object, y: np.ndarray) -> KernelSearchCV:
    grid = {"C": C}
    return KernelSearchCV(kernels, param_grid=grid, cv=FOLDS, refit=False, n_jobs=THREADS).fit(X, y)


def grid_search(K: np.ndarray, y: np.ndarray, kernel: str = "precomputed") -> GridSearchCV:
    machine = SVC(kernel=kernel, cache_size=1000)
    return GridSearchCV(machine, {"C": C}, cv=FOLDS, refit=False, n_jobs=THREADS).fit(K, y)


def best_of(repeats: int, *calls: Callable[[], object]) -> list[tuple[float, object]]:
    """Wall seconds of calls that take turns, and their results."""
    times: list[list[float]] = [[] for _ in calls]
    results: list[object] = [None] * len(calls)
    for _ in range(repeats):
        for k, call in enumerate(calls):
            start = time.perf_counter()
            results[k] = call()
            times[k].append(time.perf_counter() - start)
    return [(min(seconds), result) for seconds, result in zip(times, results, strict=True)]


def other(source: str, data: str | None, repeats: int) -> tuple[float, float]:
    """Seconds and best score of the WebKB search of another checkout."""
    paths = os.pathsep.join([source, str(Path(__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, "-c", _OTHER.format(data=data, repeats=repeats)],
        env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    seconds, score = map(float, done.stdout.split())
    return seconds, score


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", default=["mnist", "noisy", "webkb"])
    parser.add_argument("--data", default=os.environ.get("MERCER_DATA"), help="folder of data sets")
    parser.add_argument("--rbf", action="store_true")
    parser.add_argument("--other", help="sources of another checkout")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    options = parser.parse_args()
    for task in options.tasks:
        table = Table("task", "what", "seconds", "over ours", "scores", title="wall seconds, the best")
        kernels, X, y = globals()[task](options.data)
        search(kernels, X[::5], y[::5])  # load the compiled loops
        calls: list[Callable[[], object]] = [lambda k=kernels, X=X, y=y: search(k, X, y)]
        if task != "webkb":
            calls.append(lambda k=kernels, X=X, y=y: grid_search(k[0](X), y))
        (ours, found), *rest = best_of(options.repeats, *calls)
        table.add_row(task, "KernelSearchCV", f"{ours:.2f}", "1", f"best {found.best_score_:.4f}")
        for seconds, theirs in rest:
            scores = [r.cv_results_["mean_test_score"] for r in (found, theirs)]
            apart = f"within {abs(scores[0] - scores[1]).max():.4f}"
            table.add_row(task, "precomputed", f"{seconds:.2f}", f"{seconds / ours:.2f}", apart)
        if options.rbf and task != "webkb":
            ((seconds, _),) = best_of(1, lambda X=X, y=y: grid_search(X, y, "rbf"))
            table.add_row(task, "rbf", f"{seconds:.2f}", f"{seconds / ours:.2f}", "")
        if options.other and task == "webkb":
            seconds, score = other(options.other, options.data, options.repeats)
            ratio = f"{seconds / ours:.2f}"
            table.add_row(task, "other checkout", f"{seconds:.2f}", ratio, f"best {score:.4f}")
        Console(width=100).print(table)


if __name__ == "__main__":
    main()
