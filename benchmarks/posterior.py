"""The posterior-averaged heat kernel: cost of a pair, of samples, and the error that is reported.

``python -m benchmarks.posterior``: processor time, so that other work on the machine counts less.
"""

from __future__ import annotations

import time

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import sparse

from mercer.kernels import Heat, PosteriorHeat
from mercer.spaces import Simplex


def documents(rows: int, n: int, words: int) -> sparse.csr_matrix:
    """Documents of ``words`` words, a few of them frequent."""
    rng = np.random.default_rng(0)
    p = 1 / np.arange(1, n + 1)
    return sparse.csr_matrix(rng.multinomial(words, p / p.sum(), size=rows).astype(float))


def timed(kernel: PosteriorHeat, X: sparse.csr_matrix) -> float:
    kernel(X[:3])
    start = time.process_time()
    kernel(X)
    return time.process_time() - start


def reference(X: np.ndarray, kernel: PosteriorHeat, pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """Means over pairs of independent samples, drawn with NumPy, and their standard errors."""
    rng = np.random.default_rng(1)
    profile = Heat(Simplex(), t_star=kernel.t_star).profile(X.shape[1])
    sums, squares = np.zeros((2, len(X), len(X)))
    chunk = 20_000
    for _ in range(pairs // chunk):
        a, b = (np.sqrt([rng.dirichlet(x + kernel.alpha, size=chunk) for x in X]) for _ in range(2))
        for i, j in np.ndindex(sums.shape):
            values = np.vecdot(a[i], b[j])[None]
            profile.apply(values)
            sums[i, j] += values.sum()
            squares[i, j] += np.vecdot(values[0], values[0])
    mean = sums / pairs
    return mean, np.sqrt((squares / pairs - mean**2) / pairs)


def main() -> None:
    costs = Table(
        "columns", "words", "t_star", "terms", "microseconds per pair", title="series, 300 rows"
    )
    for n, words in ((100, 50), (1000, 50), (1000, 500), (20_000, 500)):
        X = documents(300, n, words)
        for t_star in (1.0, 0.7):
            kernel = PosteriorHeat(t_star=t_star, alpha=0.1)
            polynomial = kernel._polynomial(n)
            assert polynomial is not None
            pair = timed(kernel, X) / (300 * 301 / 2) * 1e6
            costs.add_row(str(n), str(words), str(t_star), str(len(polynomial)), f"{pair:.1f}")
    samples = Table("samples", "seconds", title="samples, 100 rows of 100 columns")
    for n_samples in (256, 512, 1024, 2048):
        kernel = PosteriorHeat(t_star=0.3, n_samples=n_samples, method="samples")
        samples.add_row(str(n_samples), f"{timed(kernel, documents(100, 100, 50)):.2f}")
    inside = Table(
        "columns", "t_star", "method", "within 3 standard errors", "median standard error",
        title="12 rows of 10 words against 10^6 independent pairs of samples each",
    )  # fmt: skip
    for n, t_star in ((5, 0.2), (5, 1.0), (30, 0.5)):
        X = documents(12, n, 10).toarray()
        mean, noise = reference(X, PosteriorHeat(t_star=t_star), 10**6)
        for method in ("series", "samples"):
            kernel = PosteriorHeat(t_star=t_star, method=method)
            error = kernel.standard_error(X)
            good = np.abs(kernel(X) - mean) <= 3 * np.hypot(error, noise)
            share, size = f"{100 * good.mean():.1f} %", f"{np.median(error):.1e}"
            inside.add_row(str(n), str(t_star), method, share, size)
    for table in (costs, samples, inside):
        Console().print(table)


if __name__ == "__main__":
    main()
