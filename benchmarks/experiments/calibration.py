"""Probabilities of the Gaussian process classifier beside those of a calibrated support vector machine.

``python -m benchmarks.experiments.calibration FOLDER`` takes the digits and the breast cancer data of
scikit-learn, and WebKB word counts from ``FOLDER/webkb`` if they are there.  Half of the rows train, the
others test, in ``--splits`` random ways.  C and the width of the machine's kernel are chosen, and its
decision values calibrated (a sigmoid, three folds), inside the training half.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from mercer.gp import SphericalGPClassifier
from mercer.kernels import AxialHeat, Heat
from mercer.spaces import Simplex, Sphere

BINS = 15
#: Words of WebKB: the most frequent ones.
WORDS = 250
FEATURES = 300


def calibration_error(labels: np.ndarray, p: np.ndarray) -> float:
    """Expected calibration error: mean gap between confidence and accuracy over bins of confidence."""
    confidence, right = p.max(axis=1), p.argmax(axis=1) == labels
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, right - confidence, minlength=BINS)
    return float(np.abs(gaps).sum() / len(labels))


def machine(svm, grid: dict[str, list]) -> GridSearchCV:
    """A support vector machine with a sigmoid; C and the kernel's width chosen by the log loss.

    The process learns its width, so the machine must be given the choice too: with a time that is too
    short for the words its Gram matrix is close to the identity.
    """
    calibrated = CalibratedClassifierCV(svm, cv=3, ensemble=False)
    grid = {f"estimator__{name}": values for name, values in grid.items()}
    return GridSearchCV(calibrated, grid, scoring="neg_log_loss", cv=3)


def tables() -> dict[str, Callable[[], object]]:
    """Models of columns."""
    return {
        "Gaussian process, AxialHeat": lambda: SphericalGPClassifier(
            AxialHeat(Sphere()), inputs="table", max_features=FEATURES
        ),
        "Gaussian process, ArcCosine": lambda: SphericalGPClassifier(max_features=FEATURES),
        "calibrated SVM, Gaussian kernel": lambda: machine(
            make_pipeline(StandardScaler(), SVC()),
            {"svc__C": [1.0, 10.0, 100.0], "svc__gamma": [0.003, 0.01, 0.03, 0.1]},
        ),
    }


def counts() -> dict[str, Callable[[], object]]:
    """Models of counts."""
    return {
        "Gaussian process, Heat": lambda: SphericalGPClassifier(Heat(Simplex()), max_features=FEATURES),
        "calibrated SVM, Heat": lambda: machine(
            SVC(),
            {
                "C": [1.0, 10.0, 100.0],
                "kernel": [Heat(Simplex(), t_star=t) for t in (0.5, 0.75, 1.0, 1.5, 2.0)],
            },
        ),
    }


def webkb(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Counts of the most frequent words; pages without any of them are left out."""
    with np.load(folder / "webkb" / "webkb4_paper_counts_no_header.npz", allow_pickle=True) as z:
        X = sparse.csr_matrix((z["data"], z["indices"], z["indptr"]), shape=tuple(z["shape"]))
        y = z["y"]
    X = X[:, :WORDS].toarray()
    seen = X.sum(axis=1) > 0
    return X[seen], y[seen]


def scores(model, X, y, seed: int) -> tuple[float, float, float, float]:
    """Accuracy, log loss, calibration error and processor seconds of one split."""
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=seed, stratify=y)
    start = time.process_time()
    p = model.fit(train, y_train).predict_proba(test)
    spent = time.process_time() - start
    right = float((p.argmax(axis=1) == y_test).mean())
    return right, log_loss(y_test, p), calibration_error(y_test, p), spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--sets", nargs="+", help="names of the table; by default all")
    arguments = parser.parse_args()
    sets = [
        ("cancer", *load_breast_cancer(return_X_y=True), tables()),
        ("digits", *load_digits(return_X_y=True), counts()),
    ]
    if arguments.folder is not None:
        sets.append(("WebKB", *webkb(arguments.folder), counts()))
    sets = [part for part in sets if arguments.sets is None or part[0] in arguments.sets]
    table = Table("set", "model", "accuracy", "log loss", "calibration error", "processor s")
    for name, X, y, models in sets:
        for label, make in models.items():
            found = [scores(make(), X, y, seed) for seed in range(arguments.splits)]
            mean = np.mean(found, axis=0)
            table.add_row(
                name, label, f"{100 * mean[0]:.1f} %", f"{mean[1]:.3f}", f"{100 * mean[2]:.1f} %",
                f"{mean[3]:.1f}",
            )  # fmt: skip
        table.add_section()
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
