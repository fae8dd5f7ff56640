"""How often sampled certificates of machines on landmarks hold.

``python -m benchmarks.certificates [--problems 240] [--rows 3000] [--samples 30 150 1000]``: random
problems with three kernels, four losses and regression, 2 to 20 columns, some with outliers, noise of
heavy tails or uneven weights, 30 to 300 landmarks, alpha between 0.01 and 30. A sampled bound holds if
it is not above the exact one, which is computed from all rows; it states 95 % confidence. The ratio is
that of the improvements which both bounds leave possible.
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict
from itertools import chain
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from mercer.kernels import Gaussian, Heat, Matern
from mercer.machines import LandmarkClassifier, LandmarkRegressor
from mercer.spaces import Euclidean, Sphere

KERNELS = (Gaussian(), Heat(Sphere()), Matern(Euclidean(), nu=1.5))
LOSSES = ("regression", "squared", "logistic", "squared_hinge", "hinge")


def problem(seed: int, rows: int) -> tuple[str, Any, list[Any]]:
    """A loss, a machine that is yet to be fitted, and X, y and weights."""
    rng = np.random.default_rng(seed)
    loss, options = LOSSES[seed % 5], {"scale": 0.3, "random_state": seed}
    X = rng.normal(size=(rows, rng.choice([2, 5, 20])))
    if rng.random() < 0.3:
        X *= rng.lognormal(0, 0.7, size=(rows, 1))
    w = rng.choice([0.5, 1.0, 4.0, 20.0], size=rows) if rng.random() < 0.5 else None
    target = np.sin(2 * X[:, 0]) + X[:, -1]
    alpha, size = 10.0 ** rng.uniform(-2, 1.5), int(rng.choice([30, 100, 300]))
    kernel = KERNELS[seed % 3]
    if loss == "regression":
        noise = rng.standard_t(2 if rng.random() < 0.4 else 30, size=rows)
        return loss, LandmarkRegressor(kernel, size, alpha, **options), [X, target + 0.3 * noise, w]
    classes = int(rng.choice([2, 3]))
    noisy = target + rng.normal(scale=rng.choice([0.05, 0.5]), size=rows)
    y = np.digitize(noisy, np.quantile(noisy, np.arange(1, classes) / classes))
    return loss, LandmarkClassifier(kernel, size, alpha, loss=loss, tol=1e-2, **options), [X, y, w]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=240)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--samples", type=int, nargs="+", default=[30, 150, 1000])
    options = parser.parse_args()
    held: dict[tuple[int, str], list[bool]] = defaultdict(list)
    ratios: dict[int, list[float]] = defaultdict(list)
    for seed in range(options.problems):
        loss, machine, rows = problem(seed, options.rows)
        machine.fit(*rows)
        exact = machine.certify(*rows, grade="exact")
        for n_rows in options.samples:
            found = machine.certify(*rows, n_rows=n_rows)
            held[n_rows, loss].append(found.lower <= exact.lower)
            ratios[n_rows].append(found.improvement / max(exact.improvement, 1e-300))
    title = f"{options.problems} problems of {options.rows} rows: sampled bounds that hold"
    table = Table("sampled rows", *LOSSES, "all", "median ratio", title=title)
    for n_rows in options.samples:
        parts = [held[n_rows, loss] for loss in LOSSES]
        parts.append(list(chain.from_iterable(parts)))
        counts = [f"{sum(part)} of {len(part)}" for part in parts]
        table.add_row(str(n_rows), *counts, f"{np.median(ratios[n_rows]):.2f}")
    Console(width=110).print(table)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
