"""Regression on UCI sets with the published splits: accuracy, test log-likelihood, coverage and time.

``python -m benchmarks.experiments.uci FOLDER`` reads ``FOLDER/uci_regression`` and prints one table;
``--splits 2 --first 3`` takes splits 3 and 4 of each set, ``--features 500`` is the number of features
and of inducing points.  ``--results FILE`` keeps each run in a file as it ends: the same command goes on
where it stopped, and files of parts (``--sets``, ``--methods``) can be joined.  GPyTorch's SGPR needs
``pip install mercer[gpytorch]``.  Sets without published splits get random ones of a tenth.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.preprocessing import StandardScaler

from benchmarks.experiments.inducing import sgpr

SETS = ["energy", "concrete", "airfoil", "kin8nm", "powerplant", "protein"]
#: Rows that the exact process is given.
EXACT = 2000

#: Training rows and targets, test rows; predictive mean and standard deviation of the targets.
Method = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def read(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Rows, targets and the test rows of each split."""
    frame = pd.read_csv(folder / f"{name}.csv.gz")
    X, y = frame.drop(columns="y").to_numpy(float), frame["y"].to_numpy(float)
    path = folder / f"{name}_test_splits.txt.gz"
    if path.exists():
        with gzip.open(path, "rt") as file:
            return X, y, [np.array(line.split(), dtype=int) for line in file]
    rng = np.random.default_rng(0)
    return X, y, [rng.permutation(len(y))[: len(y) // 10] for _ in range(20)]


def process(kernel: str, size: int, **options) -> Method:
    """Ours."""

    def fit(X, y, new):
        from mercer import kernels
        from mercer.gp import SphericalGPRegressor
        from mercer.spaces import Sphere

        laws = {
            "ArcCosine": kernels.ArcCosine(),
            "AxialHeat": kernels.AxialHeat(Sphere()),
            "Matern": kernels.Matern(Sphere(), nu=2.5, length_scale=0.2),
        }
        model = SphericalGPRegressor(laws[kernel], inputs="table", max_features=size, **options)
        return model.fit(X, y).predict(new, return_std=True)

    return fit


def exact(X, y, new):
    """Scikit-learn's process with a scale for each column, on some of the rows if there are more."""
    chosen = np.random.default_rng(0).permutation(len(y))[:EXACT]
    scaler = StandardScaler().fit(X)
    kernel = ConstantKernel() * RBF(np.ones(X.shape[1])) + WhiteKernel(0.1)
    model = GaussianProcessRegressor(kernel, normalize_y=True)
    with warnings.catch_warnings():
        # Columns that do not matter end at the bounds of their scales.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(scaler.transform(X[chosen]), y[chosen])
    return model.predict(scaler.transform(new), return_std=True)


def boosting(X, y, new):
    """Trees; the deviation is that of errors on a fifth of the rows that was left out."""
    held = np.random.default_rng(0).permutation(len(y))[: len(y) // 5]
    rest = np.setdiff1d(np.arange(len(y)), held)
    part = HistGradientBoostingRegressor(random_state=0).fit(X[rest], y[rest])
    spread = np.sqrt(np.mean((y[held] - part.predict(X[held])) ** 2))
    model = HistGradientBoostingRegressor(random_state=0).fit(X, y)
    return model.predict(new), np.full(len(new), spread)


def methods(features: int) -> dict[str, Method]:
    return {
        "ArcCosine": process("ArcCosine", features),
        "AxialHeat": process("AxialHeat", features),
        "AxialHeat, scales": process("AxialHeat", features, ard=True),
        "Matern, inducing points": process("Matern", features, ard=True, features="inducing"),
        "SGPR": sgpr(features),
        "SGPR, Matern": sgpr(features, nu=2.5),
        f"exact GP, {EXACT} rows": exact,
        "gradient boosting": boosting,
    }


def scores(
    method: Method, X: np.ndarray, y: np.ndarray, test: np.ndarray, rows: int | None
) -> dict[str, float]:
    """Fit without the test rows, to so many of the others, and judge on the test rows."""
    train = np.setdiff1d(np.arange(len(y)), test)
    train = np.random.default_rng(0).permutation(train)[:rows]
    clock, processors = time.perf_counter(), time.process_time()
    mean, std = method(X[train], y[train], X[test])
    spent = {"processor": time.process_time() - processors, "clock": time.perf_counter() - clock}
    error = y[test] - mean
    return {
        "rmse": float(np.sqrt((error**2).mean())),
        "likelihood": float(norm.logpdf(error, scale=std).mean()),
        "covered": float((np.abs(error) < 1.96 * std).mean()),
    } | spent


def warm_up(chosen: list[Method]) -> None:
    """Import and compile everything before the clock starts."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 4))
    for method in chosen:
        method(X, X[:, 0] + rng.normal(size=100), X[:5])


def load(path: Path | None) -> list[dict]:
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def show(results: list[dict]) -> Table:
    """Means over splits, with standard errors of the first two."""
    table = Table(
        "set", "method", "splits", "RMSE", "log-likelihood", "covered by 95 %", "processor s", "clock s"
    )
    frame = pd.DataFrame(results)
    for name in frame["set"].unique():
        for method in frame["method"].unique():
            part = frame[(frame["set"] == name) & (frame["method"] == method)]
            if part.empty:
                continue
            mean, error = part.mean(numeric_only=True), part.sem(numeric_only=True).fillna(0.0)
            table.add_row(
                name, method, str(len(part)),
                *(f"{mean[c]:.4g} ± {error[c]:.2g}" for c in ("rmse", "likelihood")),
                f"{100 * mean['covered']:.1f}", f"{mean['processor']:.3g}", f"{mean['clock']:.3g}",
            )  # fmt: skip
        table.add_section()
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="number of the first split")
    parser.add_argument("--features", type=int, default=500)
    parser.add_argument("--rows", type=int, default=10_000, help="most training rows, for all methods")
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--methods", nargs="+", help="labels of the table; by default all")
    parser.add_argument("--results", type=Path, help="file that keeps each run")
    arguments = parser.parse_args()
    results = load(arguments.results)
    done = {(r["set"], r["method"], r["split"]) for r in results}
    available = methods(arguments.features)
    warm_up([available[label] for label in arguments.methods or available])
    for name in arguments.sets:
        X, y, splits = read(arguments.folder / "uci_regression", name)
        for number in range(arguments.first, min(arguments.first + arguments.splits, len(splits))):
            for label in arguments.methods or available:
                if (name, label, number) in done:
                    continue
                result = {"set": name, "method": label, "split": number}
                result |= scores(available[label], X, y, splits[number], arguments.rows)
                results.append(result)
                if arguments.results is not None:
                    with arguments.results.open("a") as file:
                        file.write(json.dumps(result) + "\n")
    Console(width=120).print(show(results))


if __name__ == "__main__":
    main()
