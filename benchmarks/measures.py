"""Kernels between clouds against NumPy loops over pairs.

``python -m benchmarks.measures``: 1000 clouds of 60 points in the unit square, Gaussian base kernel of
width 0.1, inverse generalised variance with eta = 0.01.  The loops are timed on a sample of pairs and
extrapolated to the symmetric half of all pairs.  Median of three rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from mercer.engine.threads import threads_in_use
from mercer.kernels import Gaussian, InverseGeneralizedVariance, TraceKernel

CLOUDS, POINTS, WIDTH, ETA = 1000, 60, 0.1, 0.01
SAMPLE, ROUNDS = 1000, 3


def by_the_formula(x: np.ndarray, y: np.ndarray) -> float:
    """The definition as it is printed: joint Gram matrix, centring matrix, determinant."""
    z = np.concatenate([x, y])
    weights = np.full(len(z), 1 / len(z))
    K = np.exp(-((z[:, None] - z) ** 2).sum(axis=2) / (2 * WIDTH**2))
    C = np.eye(len(z)) - weights
    Kt = C @ K @ C.T * weights
    return np.exp(-0.5 * np.linalg.slogdet(np.eye(len(z)) + Kt / ETA)[1])


def by_hand(x: np.ndarray, y: np.ndarray) -> float:
    """The same with distances by a product, and centring without matrix products."""
    z = np.concatenate([x, y])
    squares = (z * z).sum(axis=1)
    K = z @ z.T
    K *= -2
    K += squares[:, None] + squares
    K *= -0.5 / WIDTH**2
    np.exp(K, out=K)
    means = K.mean(axis=0)
    K -= means
    K -= means[:, None] - means.mean()
    K *= 1 / (len(z) * ETA)
    K.flat[:: len(z) + 1] += 1
    return np.exp(-0.5 * np.linalg.slogdet(K)[1])


def loop(pair: Callable[[np.ndarray, np.ndarray], float], X: np.ndarray) -> tuple[float, np.ndarray]:
    """Seconds for all pairs, from a sample, and the sample's values.

    BLAS runs in one thread: on matrices this small two are no faster, and far slower on a busy machine.
    """
    with threadpool_limits(1):
        start = time.perf_counter()
        values = np.array([pair(X[i], X[j]) for i, j in sampled_pairs(len(X))])
        seconds = (time.perf_counter() - start) / SAMPLE
    return seconds * len(X) * (len(X) + 1) / 2, values


def sampled_pairs(m: int) -> np.ndarray:
    return np.random.default_rng(1).integers(m, size=(SAMPLE, 2))


def timed(call: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def measures() -> list[tuple[str, float, str]]:
    """Rows of the table: what, seconds, ratio."""
    X = np.random.default_rng(0).uniform(size=(CLOUDS, POINTS, 2))
    kernel = InverseGeneralizedVariance(Gaussian(length_scale=WIDTH), eta=ETA)
    kernel(X[:20])  # compile
    rounds = []
    for _ in range(ROUNDS):  # the calls take turns, so that noise hits all of them alike
        formula, expected = loop(by_the_formula, X)
        hand, again = loop(by_hand, X)
        ours, K = timed(lambda: kernel(X))
        trace, _ = timed(lambda: TraceKernel(Gaussian(length_scale=WIDTH))(X))
        rounds.append((formula, hand, ours, trace))
    for values in (expected, again):
        np.testing.assert_allclose(K[tuple(sampled_pairs(len(X)).T)], values, rtol=1e-10)
    formula, hand, ours, trace = np.median(rounds, axis=0).tolist()
    return [
        (f"NumPy loop by the formula, {CLOUDS} clouds of {POINTS} points", formula, "1"),
        ("NumPy loop tuned by hand", hand, f"{formula / hand:.1f} times faster"),
        (
            "InverseGeneralizedVariance(Gaussian())(X)",
            ours,
            f"{formula / ours:.1f} times faster, {hand / ours:.1f} than the tuned loop",
        ),
        ("TraceKernel(Gaussian())(X)", trace, ""),
    ]


def main() -> None:
    table = Table("what", "seconds", "ratio", title=f"{threads_in_use()} threads")
    for what, seconds, ratio in measures():
        table.add_row(what, f"{seconds:.2f}", ratio)
    Console().print(table)


if __name__ == "__main__":
    main()
