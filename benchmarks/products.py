"""Exact kernels against the bare matrix product of the same call, best of five in one process.

``python -m benchmarks.products``; the calls take turns with a pause before each, see
:mod:`benchmarks.timing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.table import Table
from sklearn.metrics.pairwise import rbf_kernel

from benchmarks.timing import REPEATS, best
from mercer._threads import threads_in_use
from mercer.kernels import ArcCosine, Gaussian, Heat, Matern
from mercer.spaces import Hyperbolic, Sphere

Line = tuple[str, float, str]
#: Rows of the products by blocks that are not kept.
_BLOCK = 500


def rows(m: int, n: int, dtype: type = np.float64, seed: int = 0) -> np.ndarray:
    """Random directions, of length one."""
    X = np.random.default_rng(seed).normal(size=(m, n))
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(dtype)


def calls(kernel: Callable[..., Any], X: np.ndarray, Y: np.ndarray, what: str) -> Iterator[Line]:
    """One set of rows, and two: the product, the kernel and scikit-learn's."""
    for name, other in (("X", None), ("X, Y", Y)):
        right = X if other is None else other
        bare, ours, rbf = best(
            lambda right=right: X @ right.T,
            lambda other=other: kernel(X, other),
            lambda other=other: rbf_kernel(X, other),
        )
        ratio = f"{ours / bare:.2f} x product, rbf_kernel {rbf / ours:.2f} x"
        yield f"{what}, k({name})", ours, ratio


def wide() -> Iterator[Line]:
    """Rows of 393 columns in both precisions, where the product takes most of the time."""
    for dtype in (np.float64, np.float32):
        X, Y = (rows(4000, 393, dtype, seed) for seed in (0, 1))
        yield from calls(Heat(Sphere()), X, Y, f"Heat(Sphere()), 4000 x 393, {X.dtype}")


def narrow() -> Iterator[Line]:
    """Rows of few columns, where everything but the product does."""
    for n in (3, 10, 50):
        X, Y = (rows(2000, n, np.float64, seed) for seed in (0, 1))
        yield from calls(Heat(Sphere()), X, Y, f"Heat(Sphere()), 2000 x {n}")


def laws() -> Iterator[Line]:
    """Other laws, whose forms are other polynomials."""
    X, Y = (rows(4000, 393, np.float64, seed) / 20 for seed in (0, 1))
    kernels = {
        "Heat(Sphere(), t_star=0.1)": Heat(Sphere(), t_star=0.1),
        "Matern(Sphere(), nu=2.5)": Matern(Sphere(), nu=2.5),
        "ArcCosine()": ArcCosine(),
        "Heat(Hyperbolic('ball'), t=0.01)": Heat(Hyperbolic("ball"), t=0.01),
        "Gaussian(0.1)": Gaussian(length_scale=0.1),
    }
    for name, kernel in kernels.items():
        yield from calls(kernel, X, Y, f"{name}, 4000 x 393")


def streaming() -> Iterator[Line]:
    """Products with a vector, against products of row blocks that are not kept."""
    X = rows(20_000, 393)
    v = np.ones(len(X))
    kernel = Heat(Sphere())

    def blocks() -> None:
        for start in range(0, len(X), _BLOCK):
            X[start : start + _BLOCK] @ X.T

    bare, ours = best(blocks, lambda: kernel.matvec(X, None, v), repeats=2)
    yield "Heat(Sphere()).matvec, 20 000 x 393", ours, f"{ours / bare:.2f} x product by row blocks"


def main() -> None:
    """Print the table."""
    table = Table("what", "seconds", "ratio", title=f"best of {REPEATS}, {threads_in_use()} threads")
    with Live(table, console=Console(width=110)):
        for part in (narrow, wide, laws, streaming):
            for what, seconds, ratio in part():
                table.add_row(what, f"{seconds:.4f}", ratio)
            table.add_section()


if __name__ == "__main__":
    main()
