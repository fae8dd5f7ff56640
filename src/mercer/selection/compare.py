"""Which kernel fits the data? Support vector machines under nested cross-validation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC
from sklearn.utils.multiclass import type_of_target

from mercer.kernels import Cosine, Gaussian, Heat, Kernel, Linear, Parametrix
from mercer.rkhs import distances
from mercer.spaces import Simplex, Sphere, SphericalSpace

Array = NDArray[np.float64]
SpaceName = Literal["auto", "simplex", "sphere"]
#: Called with the steps done and the steps in all.
Progress = Callable[[int, int], None]

C_GRID = (0.1, 1.0, 10.0, 100.0, 1000.0)
#: Times of the exact kernel, in units of log(n) / n.
T_STAR_GRID = (0.1, 0.25, 0.5, 1.0, 2.0)
#: Widths of the Gaussian and, squared, times of the parametrix, in units of the data's own median.
WIDTH_GRID = (0.25, 0.5, 1.0, 2.0, 4.0)
INNER_FOLDS = 3
#: Kernels of flat space.
FLAT = ("linear", "Gaussian")


@dataclass(frozen=True, eq=False)
class KernelScore:
    """How one family of kernels did."""

    name: str
    accuracies: Array  # one per outer fold
    interval: tuple[float, float]
    chosen: list[tuple[Kernel, float]]  # kernel and C, per outer fold
    seconds: float

    @property
    def mean(self) -> float:
        """Mean accuracy over the outer folds."""
        return float(self.accuracies.mean())

    @property
    def usual_choice(self) -> str:
        """Parameters chosen in most outer folds."""
        texts = [f"{_parameter(kernel)}C={c:g}" for kernel, c in self.chosen]
        return max(texts, key=texts.count)


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of :func:`compare`, best kernel first."""

    space: SphericalSpace
    rows: int
    columns: int
    classes: dict[str, int]
    folds: int
    random_state: int
    scores: list[KernelScore]

    @property
    def chance(self) -> float:
        """Accuracy of always naming the most frequent class."""
        return max(self.classes.values()) / self.rows

    @property
    def geometry(self) -> str:
        """How the geometric kernels saw the rows."""
        return "counts" if isinstance(self.space, Simplex) else "directions"

    @property
    def verdict(self) -> str:
        """One sentence on whether a geometric kernel does better than the flat ones."""
        flat = next(s for s in self.scores if s.name in FLAT)
        curved = next(s for s in self.scores if s.name not in FLAT)
        gain = curved.mean - flat.mean
        if gain < 5e-4:
            return (
                f"Geometry does not help on this table: the {flat.name} kernel reaches {flat.mean:.2%}, "
                f"the best geometric kernel ({curved.name}) {curved.mean:.2%}."
            )
        clear = curved.interval[0] > flat.mean
        return (
            f"The {curved.name} kernel reaches {curved.mean:.2%}, {100 * gain:.1f} points above the "
            f"best flat kernel ({flat.name}, {flat.mean:.2%}); the flat score is "
            f"{'outside' if clear else 'inside'} its 95 % interval."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, ready for JSON."""
        return {
            "rows": self.rows,
            "columns": self.columns,
            "classes": self.classes,
            "most_frequent_class": self.chance,
            "space": type(self.space).__name__.lower(),
            "verdict": self.verdict,
            "folds": self.folds,
            "inner_folds": INNER_FOLDS,
            "random_state": self.random_state,
            "kernels": [
                {
                    "name": s.name,
                    "accuracy": s.mean,
                    "interval_95": list(s.interval),
                    "fold_accuracies": s.accuracies.tolist(),
                    "chosen": [
                        {**{name: getattr(k, name) for name in k.continuous()}, "C": c}
                        for k, c in s.chosen
                    ],
                    "seconds": s.seconds,
                }
                for s in self.scores
            ],
        }


def compare(
    X: Any,
    y: Any,
    *,
    space: SpaceName = "auto",
    folds: int = 5,
    random_state: int = 0,
    n_jobs: int | None = -1,
    progress: Progress | None = None,
) -> Comparison:
    """Compare linear, Gaussian, cosine, parametrix and exact heat kernels on one table.

    The linear and the Gaussian kernel see the rows as they are; the others see them as points of the
    simplex or the sphere.

    Each is scored by a support vector machine in stratified cross-validation; kernel parameters and
    C are chosen by a second cross-validation inside each training part, so that the scores are of
    data that had no say in the choice.  Gram matrices are computed once per kernel, one at a time.

    Parameters
    ----------
    X : array or sparse matrix of shape (m, n)
    y : array of shape (m,)
        Class labels.
    space : {"auto", "simplex", "sphere"}
        How the geometric kernels see a row: as counts or a composition, or as a direction.  "auto"
        takes rows without negative entries as counts.
    folds : int
        Outer folds.
    random_state : int
        Seed of the folds.
    n_jobs : int, optional
        Threads for the support vector machines.
    progress : callable, optional
        Told the steps done and the steps in all.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.selection import compare
    >>> rng = np.random.default_rng(0)
    >>> counts = np.vstack([rng.multinomial(20, p, size=30) for p in ([.6, .2, .2], [.2, .2, .6])])
    >>> result = compare(counts, ["a"] * 30 + ["b"] * 30)
    >>> result.scores[0].mean > 0.8
    True
    """
    labels, encoded = _check_target(y, folds)
    geometry = _choose_space(X, space)
    X = geometry.check(X)
    if len(encoded) != X.shape[0]:
        raise ValueError(f"X has {X.shape[0]} rows, y has {len(encoded)}")
    splitter = StratifiedKFold(folds, shuffle=True, random_state=random_state)
    outer = list(splitter.split(np.zeros(len(encoded)), encoded))
    families = _families(X, geometry, random_state)
    steps = sum(len(kernels) for kernels in families.values()) + len(families)
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, steps)

    scores = []
    with Parallel(n_jobs=n_jobs, prefer="threads") as parallel:
        for name, kernels in families.items():
            search = _Search(X, encoded, outer, random_state, parallel)
            scores.append(search.run(name, kernels, step))
    # Level scores: the parametrix, which is no kernel in general, yields.
    scores.sort(key=lambda s: (-s.mean, s.name == "parametrix"))
    counts = dict(zip(map(str, labels), np.bincount(encoded).tolist(), strict=True))
    return Comparison(geometry, X.shape[0], X.shape[1], counts, folds, random_state, scores)


def _parameter(kernel: Kernel) -> str:
    """The continuous hyperparameter, for people."""
    return "".join(f"{name}={getattr(kernel, name):.4g}, " for name in kernel.continuous())


def _check_target(y: Any, folds: int) -> tuple[np.ndarray, np.ndarray]:
    y = np.asarray(y)
    kind = type_of_target(y, input_name="y")
    if kind not in ("binary", "multiclass"):
        raise ValueError(
            f"the target must hold class labels, one per row, but it is {kind}; "
            "bin a continuous target into classes first"
        )
    labels, encoded = np.unique(y, return_inverse=True)
    counts = np.bincount(encoded)
    if len(labels) < 2:
        raise ValueError(f"the target has one class only: {labels[0]!r}")
    needed = max(folds, INNER_FOLDS + -(-INNER_FOLDS // (folds - 1)))
    if counts.min() < needed:
        rare = labels[np.argmin(counts)]
        raise ValueError(
            f"class {str(rare)!r} has {counts.min()} rows; {folds} folds with {INNER_FOLDS} inner folds "
            f"need {needed}: use fewer folds or drop the class"
        )
    return labels, encoded


def _choose_space(X: Any, space: SpaceName) -> SphericalSpace:
    if space == "simplex":
        return Simplex()
    if space == "sphere":
        return Sphere()
    if space != "auto":
        raise ValueError(f"space must be 'auto', 'simplex' or 'sphere', got {space!r}")
    values = X.data if sparse.issparse(X) else np.asarray(X)
    signed = np.asarray(values < 0).any() if values.dtype.kind in "fiub" else False
    return Sphere() if signed else Simplex()


def _families(X: Any, space: SphericalSpace, random_state: int) -> dict[str, list[Kernel]]:
    """The kernels of each family; widths and the parametrix' times come from the data."""
    rows = X[np.random.default_rng(random_state).permutation(X.shape[0])[:500]]
    width = _median(distances(Linear()(rows)))
    angle = _median(np.arccos(np.clip(Cosine(space)(rows), -1, 1)))
    return {
        "linear": [Linear()],
        "Gaussian": [Gaussian(length_scale=factor * width) for factor in WIDTH_GRID],
        "cosine": [Cosine(space)],
        "parametrix": [Parametrix(space, t=(factor * angle) ** 2 / 2) for factor in WIDTH_GRID],
        "exact heat": [Heat(space, t_star=t) for t in T_STAR_GRID],
    }


def _median(pairs: Array) -> float:
    """Median over different points, or 1 where most points are equal."""
    median = float(np.median(pairs[np.triu_indices(len(pairs), 1)]))
    return median if median > 0 else 1.0


@dataclass
class _Search:
    """Nested cross-validation of one family of kernels."""

    X: Any
    y: np.ndarray
    outer: list[tuple[np.ndarray, np.ndarray]]
    random_state: int
    parallel: Parallel

    def run(self, name: str, kernels: list[Kernel], step: Callable[[], None]) -> KernelScore:
        start = time.perf_counter()
        inner = np.zeros((len(kernels), len(self.outer), len(C_GRID)))
        for i, kernel in enumerate(kernels):
            inner[i] = self._inner_scores(self._gram(kernel))
            step()
        choice = [
            np.unravel_index(np.argmax(inner[:, fold]), (len(kernels), len(C_GRID)))
            for fold in range(len(self.outer))
        ]
        accuracies = np.zeros(len(self.outer))
        for i in {int(k) for k, _ in choice}:
            K = self._gram(kernels[i])
            folds = [fold for fold, (k, _) in enumerate(choice) if k == i]
            jobs = ((*self.outer[fold], C_GRID[choice[fold][1]]) for fold in folds)
            accuracies[folds] = self.parallel(
                delayed(_accuracy)(K, self.y, train, test, c) for train, test, c in jobs
            )
        step()
        chosen = [(clone(kernels[int(k)]), C_GRID[int(c)]) for k, c in choice]
        seconds = time.perf_counter() - start
        return KernelScore(name, accuracies, self._interval(accuracies), chosen, seconds)

    def _gram(self, kernel: Kernel) -> Array:
        """Gram matrix scaled to a mean diagonal of 1, so that one range of C serves all kernels."""
        K: Array = kernel(self.X)
        K /= np.trace(K) / len(K)
        return K

    def _inner_scores(self, K: Array) -> Array:
        """Mean inner accuracy for each outer fold and C."""
        jobs = list(self._inner_jobs())
        scores = self.parallel(delayed(_accuracy)(K, self.y, train, test, c) for train, test, c in jobs)
        shape = (len(self.outer), INNER_FOLDS, len(C_GRID))
        return np.reshape(scores, shape).mean(axis=1)

    def _inner_jobs(self) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
        splitter = StratifiedKFold(INNER_FOLDS, shuffle=True, random_state=self.random_state)
        for train, _ in self.outer:
            for fit, check in splitter.split(np.zeros(len(train)), self.y[train]):
                for c in C_GRID:
                    yield train[fit], train[check], c

    def _interval(self, accuracies: Array) -> tuple[float, float]:
        """95 % interval with Nadeau and Bengio's correction for overlapping training parts."""
        train, test = self.outer[0]
        spread = accuracies.std(ddof=1) * np.sqrt(1 / len(accuracies) + len(test) / len(train))
        reach = float(stats.t.ppf(0.975, len(accuracies) - 1) * spread)
        mean = float(accuracies.mean())
        return max(mean - reach, 0.0), min(mean + reach, 1.0)


def _accuracy(K: Array, y: np.ndarray, train: np.ndarray, test: np.ndarray, c: float) -> float:
    machine = SVC(kernel="precomputed", C=c, cache_size=100)
    machine.fit(K[np.ix_(train, train)], y[train])
    return float(machine.score(K[np.ix_(test, train)], y[test]))
