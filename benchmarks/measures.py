"""Kernels between clouds against NumPy loops over pairs.

``python -m benchmarks.measures [CLOUDS]``: 1000 clouds, or as many as given, of 60 points in the unit
square, Gaussian base kernel of width 0.1, inverse generalised variance with eta = 0.01.  The loops are
timed on a sample of pairs and extrapolated to the symmetric half of all pairs.  Median of three rounds.
Next to the clock stands the time of the processor, which adds up all threads and suffers less from
other work on the machine.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from mercer._threads import threads_in_use
from mercer.kernels import Gaussian, InverseGeneralizedVariance, TraceKernel

POINTS, WIDTH, ETA = 60, 0.1, 0.01
SAMPLE, ROUNDS = 1000, 3
#: By the clock, and of the processor.
Seconds = np.ndarray


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


def loop(pair: Callable[[np.ndarray, np.ndarray], float], X: np.ndarray) -> tuple[Seconds, np.ndarray]:
    """Seconds for all pairs, from a sample, and the sample's values.

    BLAS runs in one thread: on matrices this small two are no faster, and far slower on a busy machine.
    """
    with threadpool_limits(1):
        seconds, values = timed(lambda: np.array([pair(X[i], X[j]) for i, j in sampled_pairs(len(X))]))
    return seconds * (len(X) * (len(X) + 1) / 2 / SAMPLE), values


def sampled_pairs(m: int) -> np.ndarray:
    return np.random.default_rng(1).integers(m, size=(SAMPLE, 2))


def timed(call: Callable[[], np.ndarray]) -> tuple[Seconds, np.ndarray]:
    start = np.array([time.perf_counter(), time.process_time()])
    result = call()
    return np.array([time.perf_counter(), time.process_time()]) - start, result


def measures(clouds: int = 1000) -> list[tuple[str, Seconds, str]]:
    """Rows of the table: what, seconds, ratios."""
    X = np.random.default_rng(0).uniform(size=(clouds, POINTS, 2))
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
    formula, hand, ours, trace = np.median(rounds, axis=0)
    return [
        (f"loop by the formula, {clouds} clouds of {POINTS} points", formula, ""),
        ("loop tuned by hand", hand, ratios(formula, hand)),
        ("InverseGeneralizedVariance", ours, f"{ratios(formula, ours)}; tuned: {ratios(hand, ours)}"),
        ("TraceKernel", trace, ""),
    ]


def ratios(slow: Seconds, fast: Seconds) -> str:
    return " and ".join(f"{r:.1f}" for r in slow / fast)


def main() -> None:
    table = Table(
        "what", "seconds", "of the processor", "times faster", title=f"{threads_in_use()} threads"
    )
    for what, (clock, processor), ratio in measures(*map(int, sys.argv[1:])):
        table.add_row(what, f"{clock:.1f}", f"{processor:.1f}", ratio)
    Console().print(table)


if __name__ == "__main__":
    main()
