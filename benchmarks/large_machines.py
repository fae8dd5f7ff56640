"""Support vector machines with kernels of their own against ``sklearn.svm.SVC(kernel="rbf")``.

``python -m benchmarks.large_machines [--rows 10000] [--columns 64] [--C 1 100] [--memory 4]``: rows in
clusters, eight for each class, 2 % of the labels flipped.  Gram matrices are part of the time on both
sides.  libsvm runs with its default ``tol`` and ``cache_size=1000``; ours to a gap at least as small as
the one that libsvm's coefficients have.  Memory is what the fit takes above the input.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn import svm
from sklearn.datasets import make_classification

from mercer.kernels import Gaussian
from mercer.machines import SVC
from mercer.machines.classifier import separation
from mercer.machines.program import certify


def timed(call: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Best seconds, and seconds of processors."""
    times = []
    for _ in range(repeats):
        clock, processor = time.perf_counter(), time.process_time()
        call()
        times.append((time.perf_counter() - clock, time.process_time() - processor))
    return min(times)


def gap_of(machine: svm.SVC, kernel: Gaussian, X: np.ndarray, y: np.ndarray, C: float) -> float:
    """Relative duality gap of libsvm's machine of two classes."""
    b = np.zeros(len(X))
    b[machine.support_] = np.clip(machine.dual_coef_[0], -C, C)
    values = kernel.matvec(X, X[machine.support_], b[machine.support_])
    return certify(separation(y > 0, np.full(len(X), C)), b, values, np.ones(len(X))).relative_gap


def compared(X: np.ndarray, y: np.ndarray, C: float, memory: float, repeats: int) -> tuple[str, ...]:
    kernel = Gaussian(np.sqrt(0.5 * X.shape[1] * X.var()))  # gamma="scale"
    libsvm = svm.SVC(kernel="rbf", gamma="scale", C=C, cache_size=1000)
    theirs, their_processor = timed(lambda: libsvm.fit(X, y), repeats)
    tol = float(min(gap_of(libsvm, kernel, X, y, C), 1e-2))
    SVC(kernel, C, tol=tol, max_memory=1e-3).fit(X[:1000], y[:1000])
    SVC(kernel, C, tol=tol).fit(X[:1000], y[:1000])  # compiled
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    machine = SVC(kernel, C, tol=tol, max_memory=memory)
    ours, our_processor = timed(lambda: machine.fit(X, y), repeats)
    above = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e6
    return (
        f"{len(X)} rows, C = {C:g}", f"{tol:.1e}", f"{machine.dual_gap_:.1e}",
        f"{theirs:.1f} ({their_processor:.1f})", f"{ours:.1f} ({our_processor:.1f})",
        f"{theirs / ours:.2f} ({their_processor / our_processor:.2f})", f"{above:.2f}",
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--columns", type=int, default=64)
    parser.add_argument("--C", type=float, nargs="*", default=[1.0, 100.0])
    parser.add_argument("--memory", type=float, default=4.0, help="gigabytes")
    parser.add_argument(
        "--repeats", type=int, default=3, help="fits of each, of which the fastest counts"
    )
    options = parser.parse_args()
    X, y = make_classification(
        options.rows, options.columns, n_informative=options.columns // 2, n_clusters_per_class=8,
        flip_y=0.02, random_state=0,
    )  # fmt: skip
    columns = ("task", "gap of libsvm", "our gap", "libsvm, s", "ours, s", "ratio", "GB above the input")
    table = Table(*columns, title="seconds (of processors)")
    for C in options.C:
        table.add_row(*compared(X, y, C, options.memory, options.repeats))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
