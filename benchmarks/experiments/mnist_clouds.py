"""Digits as clouds of pixels, beside the table of Cuturi's paper on kernels for measures.

``python -m benchmarks.experiments.mnist_clouds --data FOLDER``; FOLDER (or MERCER_DATA) holds
``mnist/t10k-images-idx3-ubyte.gz`` and its labels.

1000 images, 100 of each digit, drawn at random.  A cloud is a random sample of 40 to 80 of the black
pixels (above half of the full intensity) of an image, or all of them if there are fewer, with
coordinates in the unit square and a Gaussian base kernel of width 0.1.  Kernels are normalised to
k(x, x) = 1.  Misclassification rates of a support vector machine in 3-fold cross-validation, repeated
five times with other folds; C is chosen by 3-fold cross-validation within each training set.
"""

from __future__ import annotations

import argparse
import gzip
import os
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold, StratifiedKFold
from sklearn.svm import SVC

from mercer.kernels import (
    Gaussian,
    GaussianEmbedding,
    InverseGeneralizedVariance,
    Kernel,
    MixtureMoment,
    TraceKernel,
)

BASE = Gaussian(length_scale=0.1)
KERNELS = {
    "IGV, eta = 0.01": InverseGeneralizedVariance(BASE, eta=0.01, normalized=True),
    "trace, t = 0.1": TraceKernel(BASE, t=0.1, normalized=True),
    "moment, delta = 1": MixtureMoment(BASE, delta=1.0, normalized=True),
    "Gaussian embedding": GaussianEmbedding(BASE, length_scale=0.2),
}
#: Misclassification in % by pixels, in the order of the kernels above.
PAPER = {
    40: (16.2, 28.6, 20.62),
    50: (14.7, 16.47, 15.84),
    60: (14.5, 14.97, 13.52),
    70: (13.1, 11.3, 13.0),
    80: (12.8, 10.8, 12.4),
}
GRID = {"C": [1.0, 10.0, 100.0, 1e3, 1e4, 1e5]}
REPEATS = 5


def images(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """The images and labels of MNIST's test part."""
    with gzip.open(folder / "mnist" / "t10k-images-idx3-ubyte.gz") as file:
        pixels = np.frombuffer(file.read(), dtype=np.uint8, offset=16).reshape(-1, 28, 28)
    with gzip.open(folder / "mnist" / "t10k-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), dtype=np.uint8, offset=8)
    return pixels, labels


def choose(labels: np.ndarray, random_state: int) -> np.ndarray:
    """100 images of each digit, shuffled."""
    rng = np.random.default_rng(random_state)
    chosen = [rng.choice(np.flatnonzero(labels == d), size=100, replace=False) for d in range(10)]
    return rng.permutation(np.concatenate(chosen))


def clouds(pixels: np.ndarray, size: int, random_state: int) -> list[np.ndarray]:
    """Up to ``size`` black pixels of each image, in the unit square."""
    rng = np.random.default_rng([random_state, size])
    found = []
    for image in pixels:
        black = np.argwhere(image > 127) / 27
        found.append(rng.permutation(black)[:size])
    return found


def errors(kernel: Kernel, X: list[np.ndarray], y: np.ndarray, random_state: int) -> np.ndarray:
    """Misclassification in % of each repeat."""
    K = kernel(X)
    folds = RepeatedStratifiedKFold(n_splits=3, n_repeats=REPEATS, random_state=random_state)
    wrong = []
    for train, test in folds.split(K, y):
        inner = StratifiedKFold(n_splits=3, shuffle=True, random_state=random_state)
        model = GridSearchCV(SVC(kernel="precomputed"), GRID, cv=inner)
        model.fit(K[np.ix_(train, train)], y[train])
        wrong.append((model.predict(K[np.ix_(test, train)]) != y[test]).sum())
    return 100 * np.reshape(wrong, (REPEATS, 3)).sum(axis=1) / len(y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("MERCER_DATA"), help="folder of data sets")
    parser.add_argument("--random-state", type=int, default=0)
    options = parser.parse_args()
    if options.data is None:
        parser.error("say where the data is: --data FOLDER")
    pixels, labels = images(Path(options.data))
    sample = choose(labels, options.random_state)
    console, log = Console(), Console(stderr=True)
    table = Table(
        "pixels", "fewer in", *KERNELS, title="misclassification in %: ours ± deviation (paper)"
    )
    cells = [(size, name) for size in PAPER for name in KERNELS]
    rows: dict[int, list[str]] = {size: [] for size in PAPER}
    for size, name in track(cells, "digits", console=log):
        X = clouds(pixels[sample], size, options.random_state)
        rates = errors(KERNELS[name], X, labels[sample], options.random_state)
        if not rows[size]:
            rows[size] = [f"{size}", f"{sum(len(x) < size for x in X)}"]
        place = len(rows[size]) - 2
        paper = f" ({PAPER[size][place]:.1f})" if place < 3 else ""
        rows[size].append(f"{rates.mean():.1f} ± {rates.std():.1f}{paper}")
        log.print(f"{size} pixels, {name}: {rows[size][-1]}")
    for row in rows.values():
        table.add_row(*row)
    console.print(table)


if __name__ == "__main__":
    main()
