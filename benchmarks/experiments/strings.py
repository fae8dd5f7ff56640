"""Promoters and splice junctions with string kernels and a support vector machine.

``python -m benchmarks.experiments.strings --data FOLDER``; FOLDER (or MERCER_DATA) holds
``dna_strings/promoters.csv`` and ``dna_strings/splice.csv.gz``.

Promoters: leave one out.  Splice: five folds, equal sequences kept in one fold (185 are repeated).
Degree and C are chosen inside the training part by five-fold cross-validation; the table over degrees,
at C = 1, is there to see how much depends on them.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from sklearn.model_selection import (
    GridSearchCV,
    LeaveOneOut,
    StratifiedGroupKFold,
    StratifiedKFold,
    cross_val_predict,
)
from sklearn.svm import SVC

from mercer.kernels import Spectrum, WeightedDegree

DEGREES = (1, 2, 3, 4, 6, 8, 12, 20)
GRID = {"C": [0.1, 1.0, 10.0], "kernel__degree": list(DEGREES)}
SPLITS = 5


def machine(C: float = 1.0, **kernel: int) -> SVC:
    return SVC(kernel=WeightedDegree(normalized=True, **kernel), C=C)


def promoters(folder: Path) -> Table:
    data = pd.read_csv(folder / "promoters.csv")
    X, y = data["sequence"].to_numpy(dtype=object), data["label"].to_numpy()
    inner = StratifiedKFold(SPLITS, shuffle=True, random_state=0)
    table = Table("kernel", "errors", title=f"promoters: leave one out, {len(X)} strings")
    for degree in DEGREES:
        guess = cross_val_predict(machine(degree=degree), X, y, cv=LeaveOneOut())
        table.add_row(f"WeightedDegree({degree}), C = 1", str(int((guess != y).sum())))
    for length in (2, 3, 4, 5):
        model = SVC(kernel=Spectrum(length, normalized=True), C=1.0)
        guess = cross_val_predict(model, X, y, cv=LeaveOneOut())
        table.add_row(f"Spectrum({length}), C = 1", str(int((guess != y).sum())))
    search = GridSearchCV(machine(), GRID, cv=inner)
    guess = cross_val_predict(search, X, y, cv=LeaveOneOut(), n_jobs=-1)
    table.add_row("WeightedDegree, degree and C chosen in training", str(int((guess != y).sum())))
    return table


def splice(folder: Path) -> Table:
    data = pd.read_csv(folder / "splice.csv.gz")
    X, y = data["sequence"].to_numpy(dtype=object), data["label"].to_numpy()
    groups = pd.factorize(data["sequence"])[0]
    outer = list(StratifiedGroupKFold(SPLITS, shuffle=True, random_state=0).split(X, y, groups))
    table = Table("kernel", "accuracy", "folds", title=f"splice: {SPLITS} folds, {len(X)} strings")

    def add(name: str, scores: list[float]) -> None:
        table.add_row(name, f"{100 * np.mean(scores):.2f} %", " ".join(f"{100 * s:.1f}" for s in scores))

    for degree in DEGREES:
        K = WeightedDegree(degree, normalized=True)(X)
        add(f"WeightedDegree({degree}), C = 1", [score(K, y, *fold, 1.0) for fold in outer])
    grams = {degree: WeightedDegree(degree, normalized=True)(X) for degree in DEGREES}
    add(
        "WeightedDegree, degree and C chosen in training",
        [nested(grams, y, groups, *fold) for fold in outer],
    )
    return table


def score(K: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, C: float) -> float:
    model = SVC(kernel="precomputed", C=C).fit(K[np.ix_(train, train)], y[train])
    return float(model.score(K[np.ix_(test, train)], y[test]))


def nested(
    grams: dict[int, np.ndarray], y: np.ndarray, groups: np.ndarray, train: np.ndarray, test: np.ndarray
) -> float:
    """Score of what is best on folds of the training part."""
    inner = StratifiedGroupKFold(SPLITS, shuffle=True, random_state=1)
    folds = [(train[a], train[b]) for a, b in inner.split(train, y[train], groups[train])]
    choices = [(degree, C) for degree in grams for C in GRID["C"]]
    means = [np.mean([score(grams[d], y, *fold, C) for fold in folds]) for d, C in choices]
    degree, C = choices[int(np.argmax(means))]
    return score(grams[degree], y, train, test, C)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("MERCER_DATA"), help="folder of data sets")
    folder = parser.parse_args().data
    if folder is None:
        parser.error("give the folder of data sets by --data or MERCER_DATA")
    for part in (promoters, splice):
        Console(width=120).print(part(Path(folder) / "dna_strings"))


if __name__ == "__main__":
    main()
