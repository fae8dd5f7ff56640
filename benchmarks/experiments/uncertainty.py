"""Where it pays to know the errors: measurements with standard errors as products of normals.

``python -m benchmarks.experiments.uncertainty [--data FOLDER] [--repeats 3]``.  Rows give a mean and a
standard error for each feature.  A support vector machine has the heat kernel between the normal
distributions, or a Gaussian kernel on the means alone, on means and errors side by side, or on means
and logarithms of errors.  Nested cross-validation, the same folds for all: 5 outer folds, repeated with
other folds, and 4 inner ones that choose the kernel's parameter, C and, for normal distributions and
logarithms, the floor that is added to the errors.  Intervals and tests have Nadeau and Bengio's
correction.

breast cancer   ten features of cell nuclei, with mean and standard error over the nuclei of an image
unlike errors   simulated: two classes of profiles, measured three times each with a precision that
                differs from entry to entry by a factor of ten and more
like errors     the same with one precision for all entries
stocks          if FOLDER (or MERCER_DATA) holds ``sp500``: mean daily return in 25 periods of 19 days
                and its standard error; sectors Financials and Information Technology
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from mercer.features import MeasuredNormals
from mercer.kernels import Gaussian, Heat, Kernel, KullbackLeibler
from mercer.selection.significance import corrected_interval, corrected_test
from mercer.spaces import NormalProduct

FOLDS, INNER = 5, 4
C_GRID = (1.0, 10.0, 100.0, 1000.0)
#: Parts of a feature's standard deviation between rows that are added (in squares) to its errors.
FLOORS = (0.03, 0.1, 0.3, 1.0)
TIMES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
SCALES = (0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0)


@dataclass(frozen=True)
class Measurements:
    """Means and standard errors of shape (m, p), and classes."""

    means: np.ndarray
    errors: np.ndarray
    y: np.ndarray


def breast_cancer() -> Measurements:
    data = load_breast_cancer()
    return Measurements(data.data[:, :10], data.data[:, 10:20], data.target)


def repeats(spread: float, rows: int = 400, features: int = 20, times: int = 3) -> Measurements:
    """Three measurements of each entry; logarithms of the noise have the standard deviation spread."""
    rng = np.random.default_rng(0)
    y = np.arange(rows) % 2
    truth = rng.normal(size=(rows, features)) + 0.6 * np.outer(2 * y - 1, np.arange(features) < 8)
    noise = np.exp(rng.normal(0.5, spread, size=(rows, features)))
    seen = truth[:, :, None] + noise[:, :, None] * rng.normal(size=(rows, features, times))
    return Measurements(seen.mean(axis=2), seen.std(axis=2, ddof=1) / np.sqrt(times), y)


def stocks(folder: Path) -> Measurements:
    prices = pd.read_csv(folder / "sp500" / "sp500_close_2015-01-02_2016-11-18.csv.gz", index_col=0)
    sectors = pd.read_csv(folder / "sp500" / "sp500_tickers.csv", index_col=0)["gics_2016_07"]
    sectors = sectors.reindex(prices.columns)
    chosen = sectors.isin(["Financials", "Information Technology"])
    returns = np.diff(np.log(prices.loc[:, chosen].to_numpy()), axis=0).T.reshape(-1, 25, 19)
    errors = returns.std(axis=2, ddof=1) / np.sqrt(19)
    return Measurements(returns.mean(axis=2), errors, (sectors[chosen] == "Financials").to_numpy())


def floored(data: Measurements, train: np.ndarray, floor: float) -> np.ndarray:
    """Errors of which none is far below the differences between training rows."""
    return np.hypot(data.errors, floor * data.means[train].std(axis=0))


def flat(rows: np.ndarray, train: np.ndarray) -> Iterator[tuple[np.ndarray, Kernel]]:
    """Gaussian kernels of standardised rows; scales in units of the root of the dimension."""
    rows = StandardScaler().fit(rows[train]).transform(rows)
    return ((rows, Gaussian(s * np.sqrt(rows.shape[1] / 10))) for s in SCALES)


def normals(law: type, data: Measurements, train: np.ndarray) -> Iterator[tuple[np.ndarray, Kernel]]:
    for floor in FLOORS:
        table = np.hstack([data.means, floored(data, train, floor)])
        rows = MeasuredNormals().fit_transform(table)
        yield from ((rows, law(NormalProduct(), t=t)) for t in TIMES)


def with_logarithms(data: Measurements, train: np.ndarray) -> Iterator[tuple[np.ndarray, Kernel]]:
    for floor in FLOORS:
        yield from flat(np.hstack([data.means, np.log(floored(data, train, floor))]), train)


Candidates = Callable[[Measurements, np.ndarray], Iterator[tuple[np.ndarray, Kernel]]]
METHODS: dict[str, Candidates] = {
    "heat, products of normals": lambda data, train: normals(Heat, data, train),
    "Kullback-Leibler, the same": lambda data, train: normals(KullbackLeibler, data, train),
    "Gaussian, means": lambda data, train: flat(data.means, train),
    "Gaussian, means and errors": lambda data, train: flat(np.hstack([data.means, data.errors]), train),
    "Gaussian, means and log errors": with_logarithms,
}


def accuracy(K: np.ndarray, y: np.ndarray, c: float, train: np.ndarray, test: np.ndarray) -> float:
    machine = SVC(kernel="precomputed", C=c).fit(K[np.ix_(train, train)], y[train])
    return machine.score(K[np.ix_(test, train)], y[test])


def outer_fold(candidates: Candidates, data: Measurements, train: np.ndarray, test: np.ndarray) -> float:
    """Accuracy on the test rows of what inner folds of the training rows have chosen."""
    folds = [
        (train[a], train[b])
        for a, b in StratifiedKFold(INNER, shuffle=True, random_state=0).split(train, data.y[train])
    ]
    best: tuple[float, float] = (-1.0, 0.0)
    for rows, kernel in candidates(data, train):
        K = kernel(rows)
        for c in C_GRID:
            inner = np.mean([accuracy(K, data.y, c, *fold) for fold in folds])
            if inner > best[0]:
                best = (float(inner), accuracy(K, data.y, c, train, test))
    return best[1]


def study(name: str, data: Measurements, times: int) -> Table:
    m, p = data.means.shape
    table = Table(
        "kernel", "accuracy", "95 % interval", "heat less this", "p",
        title=f"{name}: {m} rows, {p} features, {times} x {FOLDS} folds",
    )  # fmt: skip
    folds = list(
        RepeatedStratifiedKFold(n_splits=FOLDS, n_repeats=times, random_state=0).split(data.y, data.y)
    )
    scores = {
        method: np.array([outer_fold(candidates, data, *fold) for fold in track(folds, method)])
        for method, candidates in METHODS.items()
    }
    exact, overlap = scores["heat, products of normals"], 1 / (FOLDS - 1)
    for method, own in scores.items():
        low, high = corrected_interval(own, overlap)
        gain, p_value = 100 * (exact - own).mean(), corrected_test(exact - own, overlap)
        table.add_row(
            method, f"{own.mean():.1%}", f"{low:.1%} to {high:.1%}", f"{gain:+.1f}", f"{p_value:.2g}"
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("MERCER_DATA"), help="folder of data sets")
    parser.add_argument("--repeats", type=int, default=3, help="how often folds are drawn")
    options = parser.parse_args()
    sets: dict[str, Callable[[], Measurements]] = {
        "breast cancer": breast_cancer,
        "unlike errors": lambda: repeats(1.2),
        "like errors": lambda: repeats(0.0),
    }
    if options.data and (Path(options.data) / "sp500").exists():
        sets["stocks"] = lambda: stocks(Path(options.data))
    for name, load in sets.items():
        Console().print(study(name, load(), options.repeats))


if __name__ == "__main__":
    main()
