"""Hyperbolic kernels: Gram matrices against product and exponential, and the compilation of profiles.

``python -m benchmarks.hyperbolic``: 4000 points of H^10.  The yardstick is the bare product of the rows
and one pass of ``exp`` over it, as NumPy runs them (the product in all threads, ``exp`` in one), and the
same with ``exp`` in our threads.  Then fresh profiles and gradients, by the processor's time, and a
Gaussian process of scikit-learn.
"""

from __future__ import annotations

import time

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.gaussian_process import GaussianProcessRegressor

from benchmarks.timing import best
from mercer._threads import run, threads_in_use
from mercer.kernels import Heat, Kernel, Matern
from mercer.kernels.radial import _result
from mercer.spaces import Hyperbolic

ROWS, DIMENSION = 4000, 10
TIMES = (0.01, 0.1, 0.5, 1.0, 3.0)


def points(rows: int, d: int) -> np.ndarray:
    X = np.random.default_rng(0).normal(size=(rows, d))
    X[:, -1] = np.exp(0.5 * X[:, -1])
    return X


def gram() -> list[tuple[str, float, str]]:
    X = points(ROWS, DIMENSION)
    Y = X[::-1].copy()
    kernel = Heat(Hyperbolic(), t=1.0)

    def bare() -> None:
        K = X @ Y.T
        np.exp(K, out=K)

    def threaded() -> None:
        K = X @ Y.T
        run(lambda i: np.exp(K[i : i + 64], out=K[i : i + 64]), [(i,) for i in range(0, ROWS, 64)])

    plain, ours_threads, symmetric, full = best(bare, threaded, lambda: kernel(X), lambda: kernel(X, Y))

    def ratios(seconds: float) -> str:
        return f"{seconds / plain:.2f} and {seconds / ours_threads:.2f} x"

    return [
        (f"X @ Y.T and exp, {ROWS} rows, {DIMENSION} columns", plain, "1"),
        ("the same, exp in our threads", ours_threads, f"{ours_threads / plain:.2f} x"),
        (f"Heat(Hyperbolic())(X), d = {DIMENSION}", symmetric, ratios(symmetric)),
        ("Heat(Hyperbolic())(X, Y)", full, ratios(full)),
    ]


def fresh(kernel: Kernel, d: int, name: str) -> tuple[float, float]:
    """Processor time of a profile, and of its gradient after it."""
    _result.cache_clear()
    start = time.process_time()
    kernel.profile(d).apply(np.ones((1, 1)))
    middle = time.process_time()
    kernel.gradient_profile(d, name)
    return middle - start, time.process_time() - middle


def compiling() -> list[tuple[str, float, str]]:
    fresh(Heat(Hyperbolic(), t=1.0), 2, "t")
    rows = []
    for d in (2, 3, 10, 51, 100):
        profile, gradient = np.max([fresh(Heat(Hyperbolic(), t=t), d, "t") for t in TIMES], axis=0)
        rows.append(
            (f"fresh profile of Heat, d = {d}, slowest t", profile, f"gradient {gradient:.2f} s")
        )
    for d in (2, 3, 10, 51, 100):
        profile, gradient = fresh(Matern(Hyperbolic(), nu=2.5), d, "length_scale")
        rows.append((f"fresh profile of Matern(nu=2.5), d = {d}", profile, f"gradient {gradient:.2f} s"))
    return rows


def process() -> list[tuple[str, float, str]]:
    rows = []
    for d in (2, 3):
        X = points(200, d)
        y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=len(X))
        _result.cache_clear()
        start = time.process_time()
        model = GaussianProcessRegressor(Heat(Hyperbolic(), t=1.0), alpha=0.01).fit(X, y)
        seconds = time.process_time() - start
        rows.append(
            (f"GaussianProcessRegressor, 200 points, d = {d}", seconds, f"t = {model.kernel_.t:.3g}")
        )
    return rows


def main() -> None:
    table = Table("what", "seconds", "ratio", title=f"{threads_in_use()} threads")
    for part in (gram, compiling, process):
        for what, seconds, ratio in part():
            table.add_row(what, f"{seconds:.3f}", ratio)
        table.add_section()
    Console().print(table)


if __name__ == "__main__":
    main()
