"""KernelSearchCV and representatives against scikit-learn and a loop written by hand.

``python -m benchmarks.search [--data FOLDER]``: 800 rows of the WebKB counts (200 of each class, words
that occur more than once in ten pages), five folds, nine times, five values of C; on a synthetic corpus
if FOLDER (or MERCER_DATA) has none.  Then 50 runs of k-means in each class of all rows.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from joblib import effective_n_jobs
from rich.console import Console
from rich.table import Table
from scipy import sparse
from scipy.special import gammaln
from sklearn.cluster import KMeans
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC

from mercer.kernels import Heat, Parametrix
from mercer.selection import KernelSearchCV, representatives
from mercer.spaces import Simplex

FOLDS, C = 5, [0.1, 1.0, 10.0, 100.0, 1000.0]
T_STAR = np.geomspace(0.25, 2.5, 9).tolist()  # in units of log(n) / n
T = np.geomspace(0.05, 5.0, 9).tolist()  # the short-time formula wants longer ones


def corpus(folder: str | None) -> tuple[str, sparse.csr_matrix, np.ndarray]:
    """Rows and classes."""
    path = Path(folder or "") / "webkb" / "webkb4_paper_counts.npz"
    if folder and path.exists():
        with np.load(path, allow_pickle=True) as z:
            X = sparse.csr_matrix((z["data"], z["indices"], z["indptr"]), shape=tuple(z["shape"]))
            y = z["y"]
        name, X = "WebKB", X[:, np.asarray(X.sum(axis=0)).ravel() > X.shape[0] / 10]
    else:
        rng = np.random.default_rng(1)
        models = rng.dirichlet(np.full(396, 0.3), size=4) + 0.01 * rng.dirichlet(np.ones(396))
        y = np.repeat(np.arange(4), 300)
        rows = [rng.multinomial(150, models[c] / models[c].sum()) for c in y]
        name, X = "synthetic", sparse.csr_matrix(np.array(rows))
    return name, X.astype(float), y


def some(y: np.ndarray) -> np.ndarray:
    """200 rows of each class."""
    rng = np.random.default_rng(0)
    chosen = [rng.choice(np.flatnonzero(y == c), 200, replace=False) for c in range(4)]
    return np.sort(np.concatenate(chosen))


class Spherical:
    """A kernel as one writes it with NumPy: a function of two matrices of square roots."""

    def __init__(self, n: int, t: float) -> None:
        self.t = t

    def cosines(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """Cosines of the angles between rows."""
        return np.clip(A @ B.T, -1, 1)


class NumpyParametrix(Spherical):
    """``exp(-theta^2 / 4t)``."""

    def __call__(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """Gram matrix."""
        return np.exp(-(np.arccos(self.cosines(A, B)) ** 2) / (4 * self.t))


class NumpyHeat(Spherical):
    """The spectral series, by the recurrence of the Gegenbauer polynomials."""

    def __init__(self, n: int, t_star: float) -> None:
        super().__init__(n, t_star * np.log(n) / n)
        a = n / 2 - 1
        levels = np.arange(400)
        log_size = gammaln(levels + 2 * a) - gammaln(levels + 1) - gammaln(2 * a)
        log_size += np.log1p(levels / a)  # multiplicity N_l
        logs = log_size - levels * (levels + 2 * a) * self.t
        weights = np.exp(logs - logs.max())
        self.weights = weights[: int(np.flatnonzero(weights > 1e-16 * weights.sum())[-1]) + 1]
        self.weights /= self.weights.sum()
        self.a = a

    def __call__(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """Gram matrix."""
        w, a = self.cosines(A, B), self.a
        before, now = np.ones_like(w), w
        total = self.weights[0] + (self.weights[1] * w if len(self.weights) > 1 else 0)
        for level in range(1, len(self.weights) - 1):
            up = (2 * (level + a) * w * now - level * before) / (level + 2 * a)
            before, now = now, up
            total = total + self.weights[level + 1] * now
        return total


def by_hand(kernels: list, X: sparse.csr_matrix, y: np.ndarray) -> np.ndarray:
    """Scores of a loop over precomputed Gram matrices: kernel, fold, C."""
    folds = list(StratifiedKFold(FOLDS).split(X, y))
    scores = np.zeros((len(kernels), len(C), FOLDS))
    for i, kernel in enumerate(kernels):
        K = kernel(X)
        for j, (train, test) in enumerate(folds):
            inner, outer = K[np.ix_(train, train)], K[np.ix_(test, train)]
            for k, c in enumerate(C):
                machine = SVC(kernel="precomputed", C=c).fit(inner, y[train])
                scores[i, k, j] = machine.score(outer, y[test])
    return scores


def timed(call: Callable[[], object]) -> tuple[float, float, object]:
    """Wall seconds, processor seconds and the result."""
    wall, processor = time.perf_counter(), time.process_time()
    result = call()
    return time.perf_counter() - wall, time.process_time() - processor, result


def search(kernels: list, jobs: int) -> KernelSearchCV:
    return KernelSearchCV(kernels, param_grid={"C": C}, cv=FOLDS, refit=False, n_jobs=jobs)


def grid(kernels: list, jobs: int) -> GridSearchCV:
    return GridSearchCV(SVC(), {"C": C, "kernel": kernels}, cv=FOLDS, refit=False, n_jobs=jobs)


def contest(
    name: str, ours: list, theirs: list, X: sparse.csr_matrix, y: np.ndarray, repeats: int
) -> Table:
    roots = Simplex().embed(Simplex().check(X))[0].toarray()
    threads = effective_n_jobs(-1)
    calls = {
        "GridSearchCV(SVC(kernel=NumPy callable)), 1 job": lambda: grid(theirs, 1).fit(roots, y),
        f"the same, {threads} jobs": lambda: grid(theirs, threads).fit(roots, y),
        "GridSearchCV(SVC(kernel=our kernel)), 1 job": lambda: grid(ours, 1).fit(X, y),
        "loop by hand over our Gram matrices": lambda: by_hand(ours, X, y),
        "KernelSearchCV, 1 thread": lambda: search(ours, 1).fit(X, y),
        f"KernelSearchCV, {threads} threads": lambda: search(ours, threads).fit(X, y),
    }
    runs = {what: [timed(call)] for what, call in calls.items()}
    for _ in range(repeats - 1):
        for what, call in calls.items():
            runs[what].append(timed(call))
    table = Table("what", "wall s", "processor s", "wall / ours", title=name)
    best = {what: (min(r[0] for r in rs), min(r[1] for r in rs)) for what, rs in runs.items()}
    last = list(calls)[-1]
    for what, (wall, processor) in best.items():
        seen = "in workers" if "jobs" in what else f"{processor:.2f}"
        table.add_row(what, f"{wall:.2f}", seen, f"{wall / best[last][0]:.2f}")
    results = {what: rs[-1][2] for what, rs in runs.items()}
    table.caption = _agreement(results, list(calls)) + "\n" + _shares(results[last])
    return table


def _agreement(results: dict, names: list[str]) -> str:
    """Whether all chose the same, and how far scores differ."""
    ours = results[names[-1]]
    scores = np.stack([ours.cv_results_[f"split{f}_test_score"] for f in range(FOLDS)], axis=1)
    gaps = []
    for what in (names[0], names[2]):
        table = results[what].cv_results_
        theirs = np.stack([table[f"split{f}_test_score"] for f in range(FOLDS)], axis=1)
        same = results[what].best_index_ == ours.best_index_
        gaps.append(
            f"{'same' if same else 'OTHER'} choice, scores within {abs(theirs - scores).max():.0e}"
        )
    loop = results[names[3]].transpose(1, 0, 2).reshape(scores.shape)
    gaps.append(f"scores within {abs(loop - scores).max():.0e}")
    chosen = f"{ours.best_params_} with {ours.best_score_:.4f}"
    return f"{chosen}; against NumPy: {gaps[0]}; our kernel: {gaps[1]}; loop: {gaps[2]}"


def _shares(fitted: KernelSearchCV) -> str:
    total = sum(fitted.timings_.values())
    parts = ", ".join(f"{name} {value / total:.1%}" for name, value in fitted.timings_.items())
    kernel = (fitted.timings_["products"] + fitted.timings_["laws"]) / total
    return f"of {total:.2f} processor seconds: {parts}; kernel work {kernel:.1%}"


def balancing(X: sparse.csr_matrix, y: np.ndarray) -> Table:
    """Processor seconds of representatives, and of as many runs of scikit-learn's k-means."""
    per_class = int(np.bincount(y).min()) * 4 // 5
    representatives(X[::20], y[::20], 2, n_init=1)  # load the compiled loops
    wall, processor, _ = timed(lambda: representatives(X, y, per_class))
    title = f"{per_class} representatives of each class of {X.shape[0]} x {X.shape[1]}, 50 runs"
    table = Table("what", "wall s", "processor s", title=title)
    table.add_row("representatives", f"{wall:.2f}", f"{processor:.2f}")
    runs = [timed(lambda c=c: KMeans(per_class, n_init=1).fit(X[y == c])) for c in np.unique(y)]
    walls, processors = (50 * sum(run[i] for run in runs) for i in (0, 1))
    table.add_row("KMeans, from one run of 50", f"{walls:.1f}", f"{processors:.1f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("MERCER_DATA"), help="folder of data sets")
    parser.add_argument("--repeats", type=int, default=3, help="runs to take the best of")
    options = parser.parse_args()
    name, everything, labels = corpus(options.data)
    X, y = everything[some(labels)], labels[some(labels)]
    n, console = X.shape[1], Console(width=120)
    title = f"{name} {X.shape[0]} x {n}, {FOLDS} folds, {len(T)} times, {len(C)} values of C"
    console.print(f"{title}; best of {options.repeats}")
    heat = [Heat(Simplex(), t_star=t) for t in T_STAR]
    short = [Parametrix(Simplex(), t=t) for t in T]
    heat[0](X[:2])  # load the compiled loops
    for title, ours, theirs in (
        ("parametrix", short, [NumpyParametrix(n, t) for t in T]),
        ("heat", heat, [NumpyHeat(n, t) for t in T_STAR]),
    ):
        console.print(contest(title, ours, theirs, X, y, options.repeats))
    console.print(balancing(everything, labels))


if __name__ == "__main__":
    main()
