"""Machines on landmarks beside scikit-learn's, with the same kernel and the same number of landmarks.

``python -m benchmarks.landmark_peers [--landmarks 200 500] [--seeds 3] [--slow]``: three data sets,
drawn anew for each seed. All machines have the Gaussian kernel scaled to similarity 0.3; those of
scikit-learn stand behind ``Nystroem``. The strength of regularisation is chosen on a third of the
training rows among the same three, and all are fitted to all of them; ``alpha="auto"`` has no choice,
and ``RidgeClassifierCV`` chooses among the three by rows that are left out.
``--slow`` adds machines on all rows: scikit-learn's ``SVC``, and GPyTorch's exact Gaussian process with
its own kernel, which regresses signs of the classes.
Accuracy is that on other rows, with the standard error over seeds; seconds are those of processors, for
the choice and the last fit together. Differences are those of accuracies on the same rows.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import gpytorch
import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, RidgeClassifier, RidgeClassifierCV
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC, LinearSVC

from benchmarks.landmarks import documents
from mercer._arrays import roots_of_shares
from mercer.kernels import Gaussian
from mercer.machines import LandmarkClassifier

ROWS, UNSEEN = 3000, 3000
STRENGTHS = (1e-1, 1e1, 1e3)
#: Penalties that are the same in our objectives.
ALPHAS = 0.5 / np.array(STRENGTHS)
LOSSES = ("squared", "logistic", "squared_hinge", "hinge")
#: Machines whose difference is told.
PAIRS = {
    "squared less RidgeClassifier": ("squared", "RidgeClassifier"),
    "squared hinge less LinearSVC": ("squared_hinge", "LinearSVC"),
    "hinge less LinearSVC": ("hinge", "LinearSVC"),
    "logistic less LogisticRegression": ("logistic", "LogisticRegression"),
    "squared on a quarter more less RidgeClassifier": ("squared, a quarter more", "RidgeClassifier"),
    "squared less RidgeClassifierCV": ("squared", "RidgeClassifierCV"),
    "squared on a quarter more less RidgeClassifierCV": ("squared, a quarter more", "RidgeClassifierCV"),
    "squared on twice the landmarks less LinearSVC": ("squared, twice", "LinearSVC"),
}


def features(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of 20 columns in three classes of several clusters."""
    return make_classification(
        ROWS + UNSEEN, n_features=20, n_informative=10, n_classes=3, n_clusters_per_class=4,
        flip_y=0.02, random_state=seed,
    )  # fmt: skip


def texts(seed: int) -> tuple[Any, np.ndarray]:
    """Square roots of proportions of words that occur often enough."""
    X, y = documents(seed, ROWS + UNSEEN)
    often = np.asarray((X > 0).sum(axis=0)).ravel() > 20
    return roots_of_shares(X[:, often]).toarray(), y


def pixels(file: str | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of MNIST, or scikit-learn's digits with noise."""
    rng = np.random.default_rng(seed)
    if file is not None:
        held = np.load(file)
        chosen = rng.choice(len(held["y"]), size=ROWS + UNSEEN, replace=False)
        return held["X"][chosen].reshape(len(chosen), -1) / 255.0, held["y"][chosen]
    X, y = load_digits(return_X_y=True)
    chosen = rng.integers(len(y), size=ROWS + UNSEEN)
    return X[chosen] + rng.normal(scale=4.0, size=(len(chosen), X.shape[1])), y[chosen]


def processor(call: Callable[[], Any]) -> tuple[Any, float]:
    """What a call returns, and seconds of processors."""
    start = time.process_time()
    return call(), time.process_time() - start


def ours(kernel: Any, loss: str, size: int, alphas: Any, parts: list[Any]) -> float:
    """Accuracy of a machine on landmarks."""
    fit, check, train, test = parts
    machine = LandmarkClassifier(kernel, size, loss=loss, random_state=0)
    if loss == "squared":
        return float(machine.set_params(alpha="auto").fit(*train).score(*test))
    scores = [model.score(*check) for model in machine.path(*fit, alphas)]
    best = float(alphas[int(np.argmax(scores))])
    return float(machine.set_params(alpha=best).fit(*train).score(*test))


def theirs(gamma: float, make: Callable[[float], Any], size: int, parts: list[Any]) -> float:
    """Accuracy of a linear machine behind Nystroem's features."""
    fit, check, train, test = parts
    features = Nystroem(gamma=gamma, n_components=size, random_state=0)
    phi, held = features.fit_transform(fit[0]), features.transform(check[0])
    scores = [make(strength).fit(phi, fit[1]).score(held, check[1]) for strength in STRENGTHS]
    best = make(STRENGTHS[int(np.argmax(scores))])
    best.fit(features.fit_transform(train[0]), train[1])
    return float(best.score(features.transform(test[0]), test[1]))


def left_out(gamma: float, size: int, parts: list[Any]) -> float:
    """Accuracy of ridge regression of signs that chooses among the penalties by rows left out."""
    _, _, train, test = parts
    features = Nystroem(gamma=gamma, n_components=size, random_state=0)
    machine = RidgeClassifierCV(ALPHAS).fit(features.fit_transform(train[0]), train[1])
    return float(machine.score(features.transform(test[0]), test[1]))


def exact(gamma: float, parts: list[Any]) -> float:
    """Accuracy of scikit-learn's support vector machine on all rows."""
    fit, check, train, test = parts
    grid = (1.0, 10.0, 100.0)
    scores = [SVC(C=C, gamma=gamma).fit(*fit).score(*check) for C in grid]
    return float(SVC(C=grid[int(np.argmax(scores))], gamma=gamma).fit(*train).score(*test))


def gaussian_process(length: float, parts: list[Any]) -> float:
    """Accuracy of GPyTorch's exact process on signs of the classes, with its own kernel."""
    fit, check, train, test = parts
    scores = [_process(length, noise, fit, check) for noise in ALPHAS]
    return _process(length, float(ALPHAS[int(np.argmax(scores))]), train, test)


def _process(length: float, noise: float, train: tuple[Any, Any], test: tuple[Any, Any]) -> float:
    """Posterior means of all classes from one factorisation, as GPyTorch's exact prediction has it."""
    X, new = (torch.as_tensor(part, dtype=torch.float64) for part in (train[0], test[0]))
    classes = np.unique(train[1])
    signs = torch.as_tensor(np.where(train[1][:, None] == classes, 1.0, -1.0))
    kernel = gpytorch.kernels.RBFKernel().double()
    kernel.lengthscale = length
    with torch.no_grad(), gpytorch.settings.max_cholesky_size(len(X)):
        means = kernel(new, X) @ kernel(X).add_diagonal(torch.tensor(noise)).solve(signs)
    return float((classes[means.numpy().argmax(axis=1)] == test[1]).mean())


def machines(size: int, kernel: Any, parts: list[Any]) -> dict[str, Callable[[], float]]:
    """Accuracies of machines on landmarks, yet to be found."""
    gamma = 0.5 / float(kernel.length_scale) ** 2
    peers: dict[str, Callable[[float], Any]] = {
        "RidgeClassifier": lambda s: RidgeClassifier(0.5 / s),
        "LinearSVC": lambda s: LinearSVC(C=s),
        "LogisticRegression": lambda s: LogisticRegression(C=s, max_iter=300),
    }
    found = {loss: partial(ours, kernel, loss, size, ALPHAS, parts) for loss in LOSSES}
    # As many landmarks as take about the time of a peer.
    for name, more in (("a quarter more", size + size // 4), ("twice", 2 * size)):
        found[f"squared, {name}"] = partial(ours, kernel, "squared", more, ALPHAS, parts)
    found["RidgeClassifierCV"] = partial(left_out, gamma, size, parts)
    return found | {name: partial(theirs, gamma, make, size, parts) for name, make in peers.items()}


def exact_machines(kernel: Any, parts: list[Any]) -> dict[str, Callable[[], float]]:
    """Accuracies of machines on all rows, yet to be found."""
    length = float(kernel.length_scale)
    return {
        "SVC": partial(exact, 0.5 / length**2, parts),
        "GPyTorch": partial(gaussian_process, length, parts),
    }


def run(name: str, make: Callable[[int], Any], options: argparse.Namespace) -> None:
    """All machines on one kind of data."""
    sizes, seeds = options.landmarks, options.seeds
    found: dict[tuple[str, Any], list[tuple[float, float]]] = {}
    for seed in range(seeds):
        X, y = make(seed)
        X, new, y, labels = train_test_split(X, y, test_size=UNSEEN, random_state=seed)
        fit, held, own, others = train_test_split(X, y, test_size=1 / 3, random_state=seed)
        parts = [(fit, own), (held, others), (X, y), (new, labels)]
        kernel = Gaussian(1.0).scaled_to(X[:1000], 0.3)
        calls = {(m, size): c for size in sizes for m, c in machines(size, kernel, parts).items()}
        if options.slow:
            calls |= {(m, "all"): c for m, c in exact_machines(kernel, parts).items()}
        for key, call in calls.items():
            if options.machines is None or key[0] in options.machines:
                found.setdefault(key, []).append(processor(call))
    accuracies = {key: 100 * np.array(runs)[:, 0] for key, runs in found.items()}
    table = Table("machine", "landmarks", "accuracy", "processor seconds", title=name)
    for (machine, size), runs in found.items():
        seconds = np.mean([spent for _, spent in runs])
        table.add_row(machine, str(size), with_error(accuracies[machine, size]), f"{seconds:.2f}")
    differences = Table("difference", "landmarks", "points", title=name)
    for pair, (mine, peer) in PAIRS.items():
        for size in sizes:
            if (mine, size) in accuracies and (peer, size) in accuracies:
                less = accuracies[mine, size] - accuracies[peer, size]
                differences.add_row(pair, str(size), with_error(less))
    small, large = ("LinearSVC", sizes[0]), ("squared", sizes[-1])
    if small in accuracies and large in accuracies:
        less = accuracies[large] - accuracies[small]
        differences.add_row("squared less LinearSVC", f"{large[1]}, {small[1]}", with_error(less))
    Console(width=100).print(table, differences)


def with_error(values: np.ndarray) -> str:
    """The mean and its standard error."""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{values.mean():.2f} ± {error:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--landmarks", type=int, nargs="+", default=[200, 500])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--mnist", help="NPZ file with X and y; by default noisy digits")
    parser.add_argument(
        "--sets", nargs="+", choices=("clusters", "texts", "pixels"), help="default: all"
    )
    parser.add_argument("--machines", nargs="+", help="only these, by their names in the table")
    parser.add_argument("--slow", action="store_true", help="also SVC and GPyTorch on all rows")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    sets = {"clusters": features, "texts": texts, "pixels": lambda s: pixels(options.mnist, s)}
    for loss in LOSSES:  # compiles loops
        LandmarkClassifier(Gaussian(), 5, loss=loss).fit(np.eye(6), np.arange(6) % 2)
    for name in options.sets or sets:
        run(name, sets[name], options)


if __name__ == "__main__":
    main()
