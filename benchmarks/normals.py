"""Speed of kernels between products of normal distributions, beside scikit-learn's Gaussian kernel.

``python -m benchmarks.normals [rows]``: Gram matrices of rows with a mean and a standard deviation for
each feature; the ratio is to ``rbf_kernel`` of the same rows.
"""

from __future__ import annotations

import sys

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.metrics.pairwise import rbf_kernel

from benchmarks.timing import REPEATS, best
from mercer._threads import threads_in_use
from mercer.kernels import Heat, KullbackLeibler
from mercer.spaces import NormalProduct


def normals(m: int, features: int) -> np.ndarray:
    X = np.random.default_rng(0).normal(size=(m, 2 * features))
    X[:, 1::2] = np.exp(0.5 * X[:, 1::2])
    return X


def main() -> None:
    m = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    table = Table(
        "features", "rbf_kernel", "Heat", "ratio", "ns per pair and feature", "KullbackLeibler",
        title=f"{m} rows, best of {REPEATS} in seconds, {threads_in_use()} threads",
    )  # fmt: skip
    heat, divergence = Heat(NormalProduct(), t=0.5), KullbackLeibler(NormalProduct(), t=0.5)
    for features in (1, 10, 100):
        X = normals(m, features)
        flat, exact, approximate = best(
            lambda X=X: rbf_kernel(X), lambda X=X: heat(X), lambda X=X: divergence(X)
        )
        each = 1e9 * exact / (m * (m + 1) / 2) / features
        table.add_row(
            str(features), f"{flat:.3f}", f"{exact:.3f}", f"{exact / flat:.1f}", f"{each:.1f}",
            f"{approximate:.3f}",
        )  # fmt: skip
    Console().print(table)


if __name__ == "__main__":
    main()
