"""Ratios to the bare matrix product and to scikit-learn, best of several runs in one process.

``python -m benchmarks [--data FOLDER]``; FOLDER (or MERCER_DATA) holds ``webkb/webkb4_counts.npz`` for
the sparse measurement, which otherwise runs on a synthetic corpus of the same shape.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import sparse

from benchmarks.products import wide as wide_rows
from benchmarks.timing import REPEATS, best
from mercer._threads import threads_in_use
from mercer.kernels import Heat
from mercer.selection import KernelSearchCV
from mercer.spaces import Simplex, Sphere


def corpus(folder: str | None) -> tuple[str, sparse.csr_matrix]:
    path = Path(folder or "") / "webkb" / "webkb4_counts.npz"
    if folder and path.exists():
        with np.load(path, allow_pickle=True) as z:
            return "WebKB", sparse.csr_matrix(
                (z["data"], z["indices"], z["indptr"]), shape=tuple(z["shape"])
            )
    rng = np.random.default_rng(0)
    words = np.minimum(rng.zipf(1.35, size=1_000_000) - 1, 19187)
    rows = rng.integers(0, 4199, size=words.size)
    counts = sparse.coo_matrix((np.ones(words.size), (rows, words)), shape=(4199, 19188)).tocsr()
    return "synthetic", counts


def sparse_counts(folder: str | None) -> list[tuple[str, float, str]]:
    name, X = corpus(folder)
    mapped, _ = Simplex().embed(Simplex().check(X))
    heat = Heat(Simplex())
    bare, ours = best(lambda: (mapped @ mapped.T).toarray(), lambda: heat(X), repeats=3)
    return [
        (f"scipy (H @ H.T).toarray(), {name} {X.shape[0]} x {X.shape[1]}", bare, "1"),
        ("Heat(Simplex())(counts)", ours, f"{ours / bare:.2f} x scipy"),
    ]


def wide(rows: int = 400, each: int = 1000, columns: int = 10_000_000) -> list[tuple[str, float, str]]:
    """Rows of few words among very many, and the same with the words numbered anew."""
    rng = np.random.default_rng(0)
    used = np.sort(rng.choice(columns, 20_000, replace=False))
    numbers = np.sort([rng.choice(used.size, each, replace=False) for _ in range(rows)], axis=1).ravel()
    counts = rng.integers(1, 6, size=numbers.size).astype(float)
    starts = np.arange(0, numbers.size + 1, each)
    narrow = sparse.csr_matrix((counts, numbers, starts), shape=(rows, used.size))
    scattered = sparse.csr_matrix((counts, used[numbers], starts), shape=(rows, columns))
    labels = np.arange(rows) % 2

    def search(X: sparse.csr_matrix) -> None:
        KernelSearchCV(Heat(Simplex()), similarities=[0.3, 0.6], cv=3).fit(X, labels)

    tables = []
    for name, work in (("Heat(Simplex())(X)", Heat(Simplex())), ("KernelSearchCV", search)):
        few, many = best(lambda work=work: work(narrow), lambda work=work: work(scattered))
        tables += [
            (f"{name}, {rows} x {used.size} sparse", few, "1"),
            (f"{name}, the same words among {columns}", many, f"{many / few:.2f} x renumbered"),
        ]
    return tables


def streaming() -> list[tuple[str, float, str]]:
    X = np.random.default_rng(0).normal(size=(20_000, 393))
    v = np.ones(len(X))
    heat = Heat(Sphere())
    heat.matvec(X[:1000], None, v[:1000])
    tracemalloc.start()
    heat.matvec(X, None, v)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    (seconds,) = best(lambda: heat.matvec(X, None, v), repeats=1)
    return [("matvec, 20000 x 393", seconds, f"{peak / 1e6:.0f} MB above its inputs")]


def compiling() -> list[tuple[str, float, str]]:
    from mercer.kernels.radial import _result

    rows = []
    for n, t_star in ((393, 1.0), (393, 0.1), (10_000, 1.0), (10_000, 0.1), (100_000, 0.1)):

        def fresh(n: int = n, t_star: float = t_star) -> None:
            _result.cache_clear()
            profile = Heat(Sphere(), t_star=t_star).profile(n)
            profile.apply(np.ones((1, 1)))

        (seconds,) = best(fresh)
        rows.append((f"fresh profile, n = {n}, t* = {t_star}", seconds, f"{1e3 * seconds:.1f} ms"))
    return rows


def importing() -> list[tuple[str, float, str]]:
    def cold(statement: str) -> float:
        code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return float(run.stdout)

    reference, bare, kernels = (
        min(cold(f"import {name}") for _ in range(REPEATS))
        for name in ("sklearn.svm", "mercer", "mercer.kernels")
    )
    return [
        ("import sklearn.svm", reference, "1"),
        ("import mercer", bare, f"{bare / reference:.3f} x sklearn.svm"),
        ("import mercer.kernels", kernels, f"{kernels / reference:.2f} x sklearn.svm"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("MERCER_DATA"), help="folder of data sets")
    folder = parser.parse_args().data
    console = Console()
    table = Table("what", "seconds", "ratio", title=f"best of {REPEATS}, {threads_in_use()} threads")
    for part in (
        wide_rows,
        lambda: sparse_counts(folder),
        wide,
        streaming,
        compiling,
        importing,
    ):
        for what, seconds, ratio in part():
            table.add_row(what, f"{seconds:.4f}", ratio)
        table.add_section()
    console.print(table)


if __name__ == "__main__":
    main()
