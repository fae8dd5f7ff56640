"""The series of the moment kernel by eigenvalues, by traces of powers, and its closed form.

``python -m benchmarks.moments [CLOUDS]``: 60 clouds, or as many as given, of points in the unit square
under a Gaussian base kernel of width 0.1, delta = 1.  Processor time of the symmetric half of all pairs,
median of three rounds, and the number of terms that tolerances need.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from rich.console import Console
from rich.table import Table

from mercer.kernels import Gaussian, MixtureMoment

SIZES, TOLERANCES, ROUNDS = (10, 20, 40, 80), (1e-3, 1e-6, 1e-12), 3


def seconds(call: Callable[[], object]) -> float:
    """Processor time of a call."""
    found = []
    for _ in range(ROUNDS):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return float(np.median(found))


def main() -> None:
    clouds = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    pairs = clouds * (clouds + 1) / 2
    kernel = MixtureMoment(Gaussian(length_scale=0.1), delta=1.0)
    table = Table(
        "points", "tolerance", "terms", "eigenvalues", "traces", "closed form",
        title=f"microseconds for a pair of clouds, {clouds} clouds",
    )  # fmt: skip
    for size in SIZES:
        X = np.random.default_rng(0).uniform(size=(clouds, size, 2))
        kernel(X[:3])  # compile
        closed = seconds(lambda X=X: kernel(X)) / pairs * 1e6
        for tolerance in TOLERANCES:
            times, terms = [], []
            for method in ("eigenvalues", "traces"):
                call = partial(kernel.series, X, tolerance=tolerance, method=method)
                terms.append(int(call().terms.max()))
                times.append(f"{seconds(call) / pairs * 1e6:.0f}")
            shown = f"{terms[0]}" if terms[0] == terms[1] else f"{terms[0]}, {terms[1]}"
            table.add_row(str(2 * size), f"{tolerance:g}", shown, *times, f"{closed:.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
