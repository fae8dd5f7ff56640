"""Classes of papers from their words and citations: Cora and CiteSeer with the Planetoid split.

``python -m benchmarks.experiments.citations cora --data FOLDER``, where FOLDER (or MERCER_DATA) holds
``citation_graphs``.  Scales, weights and C are chosen by a search on the training and validation nodes.
The choice is fitted to the training nodes (20 per class), and the 1000 test nodes are looked at once.
With ``--loss squared`` least squares take the place of support vector machines, each class against the
rest; words without weights, graphs with self-loops and heat that flows for a random time are tried too.
With ``--draws 100`` the search compares mean scores of 100 draws in place of one score on the 500
validation nodes: 20 nodes per class of all these nodes are fitted, and the others scored.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import normalize
from sklearn.utils import Tags

from mercer.features import GramTransformer
from mercer.kernels import Diffused, Kernel, Linear, Matern, On
from mercer.machines import SVC, LandmarkClassifier
from mercer.selection import KernelSearchCV, SavedModel
from mercer.spaces import Graph

TIMES = (1.0, 2.0, 3.0, 5.0, 8.0)
#: Mean times of random ones (exponentially distributed).
RANDOM_TIMES = (2.0, 5.0, 10.0, 20.0)
MATERN = ((1.0, 10.0), (2.0, 10.0), (3.0, 20.0))
WEIGHTS = (0.1, 0.3, 1.0, 3.0)
CONSOLE = Console(width=250, highlight=False)
#: What a new process does with a saved model.
_ELSEWHERE = """
import sys, numpy, pandas
from mercer.selection import load_model
nodes, classes = numpy.loadtxt(sys.argv[1] + ".test", dtype=int).T
score = load_model(sys.argv[1]).score(pandas.DataFrame({"paper": nodes}), classes)
print(f"best on validation nodes, saved and loaded in a new process: {score:.1%} of test nodes")
"""
#: Regularisation of machines, by their losses.
GRIDS = {
    "hinge": {"C": (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)},
    "squared": {"alpha": (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)},
}


def read(path: Path) -> tuple[sparse.csr_array, sparse.csr_array, np.ndarray, np.ndarray]:
    """Links, words (a row per paper), classes and split."""
    with np.load(path) as archive:
        edges, y, split = archive["edges"], archive["labels"], archive["split"]
        places = archive["feat_indices"], archive["feat_indptr"]
        words = sparse.csr_array((np.ones(len(places[0])), *places), shape=tuple(archive["feat_shape"]))
    half = sparse.coo_array((np.ones(len(edges)), edges.T), shape=(len(y), len(y))).tocsr()
    return half + half.T, words, y, split


def parts(links: sparse.csr_array, words: sparse.csr_array, loss: str) -> dict[str, list[Kernel]]:
    """Kernels of nodes, each with its grid."""
    graphs = [Graph(links, laplacian=name) for name in ("normalized", "unnormalized")]
    weighted = TfidfTransformer().fit_transform(words)  # papers without words are rows of zeros
    smoothing, attributes = graphs, [weighted]
    flows = [(t, np.inf) for t in TIMES]
    if loss == "squared":
        looped = Graph(links + sparse.eye_array(len(links.indptr) - 1), laplacian="normalized")
        smoothing, attributes = [graphs[0], looped], [weighted, normalize(words)]
        flows += [(t, 1.0) for t in RANDOM_TIMES]
    return {
        "words": [Diffused(graphs[1], Linear(), 1e-6, weighted)],
        "links": [
            Matern(graph, nu=nu, length_scale=scale) for graph, (nu, scale) in product(graphs, MATERN)
        ],
        "words, diffused": [
            Diffused(graph, Linear(), t, own, normalized=unit, nu=nu)
            for graph, (t, nu), own, unit in product(smoothing, flows, attributes, (True, False))
        ],
    }


class LeastSquares(ClassifierMixin, BaseEstimator):
    """Least squares of each class against the rest, with Gram matrices of total variance 1.

    What ``LandmarkClassifier(On("paper", kernel))`` is if its landmarks are all training rows; of a
    precomputed Gram matrix, so that a search computes each kernel once for all draws.
    """

    def __init__(self, kernel: str = "precomputed", alpha: float = 1.0) -> None:
        self.kernel, self.alpha = kernel, alpha

    def fit(self, K: np.ndarray, y: np.ndarray) -> LeastSquares:
        """Solve for coefficients and biases."""
        m = len(K)
        self.classes_, targets = np.unique(y), 2.0 * (y[:, None] == np.unique(y)) - 1
        self.variance_ = np.trace(K) / m - (K.sum() - np.trace(K)) / (m * (m - 1))
        system = np.ones((m + 1, m + 1))
        system[:m, :m], system[m, m] = K / self.variance_ + self.alpha * np.eye(m), 0.0
        self.coefficients_ = np.linalg.solve(system, np.vstack([targets, 0 * targets[:1]]))
        return self

    def predict(self, K: np.ndarray) -> np.ndarray:
        """Classes with the largest values."""
        values = K @ self.coefficients_[:-1] / self.variance_ + self.coefficients_[-1]
        return self.classes_[values.argmax(axis=1)]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = True
        return tags


class Experiment:
    """Searches on training and validation nodes, one after the other."""

    def __init__(self, y: np.ndarray, split: np.ndarray, draws: int, loss: str) -> None:
        self.loss = loss
        self.y, self.papers = y, pd.DataFrame({"paper": np.arange(len(y))})
        self.train, self.check, self.test = (np.flatnonzero(split == part) for part in (1, 2, 3))
        #: Score on the validation nodes, and a model that can be saved.
        self.best: tuple[float, Any] = (0.0, None)
        self.known = np.concatenate([self.train, self.check])
        first = np.arange(len(self.known)) < len(self.train)
        rng = np.random.default_rng(0)
        chosen = [self._draw(rng) for _ in range(draws)] or [first]
        self.folds = [(np.flatnonzero(part), np.flatnonzero(~part)) for part in chosen]

    def _draw(self, rng: np.random.Generator) -> np.ndarray:
        """As many known nodes of each class as the training nodes have."""
        part, classes = np.zeros(len(self.known), dtype=bool), self.y[self.known]
        for label, size in zip(*np.unique(self.y[self.train], return_counts=True), strict=True):
            part[rng.choice(np.flatnonzero(classes == label), size, replace=False)] = True
        return part

    def _machine(self, kernel: Any, **options: Any) -> Any:
        if self.loss == "hinge":
            return SVC(kernel, **options)
        return LandmarkClassifier(kernel, n_landmarks=len(self.train), random_state=0, **options)

    def run(self, name: str, kernels: list[Kernel]) -> list[Kernel]:
        """Search, add a row to the table; returns the kernels, the best on validation nodes first."""
        hinge, grid = self.loss == "hinge", GRIDS[self.loss]
        machine = self._machine("precomputed") if hinge else LeastSquares()
        search = KernelSearchCV(kernels, machine, param_grid=grid, cv=self.folds, refit=False)
        search.fit(self.papers.iloc[self.known] if hinge else self.known, self.y[self.known])
        best = kernels[search.settings_[search.best_index_].template]
        best = best if hinge else On("paper", best)
        chosen = {option: search.best_params_[option] for option in grid}
        model = self._machine(best, **chosen)
        if hinge:
            model = make_pipeline(GramTransformer(best), self._machine("precomputed", **chosen))
        model.fit(self.papers.iloc[self.train], self.y[self.train])
        score = model.score(self.papers.iloc[self.test], self.y[self.test])
        if search.best_score_ > self.best[0]:
            self.best = search.best_score_, model
        figures = f"{search.best_score_:.1%}", f"{score:.1%}"
        CONSOLE.print(" | ".join([name, str(len(kernels)), *figures, f"{best}, {chosen}"]))
        scores = np.zeros(len(kernels))
        for setting, found in zip(search.settings_, search.cv_results_["mean_test_score"], strict=True):
            scores[setting.template] = max(scores[setting.template], found)
        return [kernels[i] for i in np.argsort(-scores, kind="stable")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=("cora", "citeseer"))
    parser.add_argument("--data", default=os.environ.get("MERCER_DATA"), help="folder of data sets")
    parser.add_argument("--loss", choices=tuple(GRIDS), default="hinge", help="loss of the machines")
    parser.add_argument("--draws", type=int, default=0, help="draws of nodes that decide")
    parser.add_argument("--save", help="file for the best model, which a new process loads and scores")
    arguments = parser.parse_args()
    path = Path(arguments.data or "") / "citation_graphs" / f"{arguments.name}.npz"
    if not path.exists():
        parser.error(f"there is no {path}; name the folder with citation_graphs (--data)")
    links, words, y, split = read(path)
    experiment, own = (
        Experiment(y, split, arguments.draws, arguments.loss),
        parts(links, words, arguments.loss),
    )
    CONSOLE.print("kernel | tried | validation | test | chosen")
    if arguments.loss == "hinge":
        own = {name: [On("paper", kernel) for kernel in kernels] for name, kernels in own.items()}
    ranked = {name: experiment.run(name, kernels) for name, kernels in own.items()}
    for name in ("words", "words, diffused") if arguments.loss == "hinge" else ():
        sums = product(ranked[name][:4], WEIGHTS, ranked["links"][:3])
        experiment.run(f"{name}, + links", [kernel + weight * link for kernel, weight, link in sums])
    if arguments.save is not None:
        SavedModel(experiment.best[1], kind="mixed").save(arguments.save)
        np.savetxt(f"{arguments.save}.test", np.c_[experiment.test, y[experiment.test]], fmt="%d")
        subprocess.run([sys.executable, "-c", _ELSEWHERE, arguments.save], check=True)


if __name__ == "__main__":
    main()
