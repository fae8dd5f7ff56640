"""Which kernel fits the data? Support vector machines under nested cross-validation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import stats
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC
from sklearn.utils.multiclass import type_of_target

from mercer.kernels import Kernel
from mercer.selection.families import Candidates, SpaceName, candidates
from mercer.spaces import Graph

Array = NDArray[np.float64]
#: Called with the steps done and the steps in all.
Progress = Callable[[int, int], None]

C_GRID = (0.1, 1.0, 10.0, 100.0, 1000.0)
INNER_FOLDS = 3
#: Gram matrices of a family are kept, not computed a second time, up to so many bytes.
KEPT_BYTES = 2**29
#: Accuracies that differ by less are level.
_LEVEL = 5e-4


@dataclass(frozen=True, eq=False)
class KernelScore:
    """How one family of kernels did."""

    name: str
    accuracies: Array  # one per outer fold
    interval: tuple[float, float]
    chosen: list[tuple[Kernel, float]]  # kernel and C, per outer fold
    varied: tuple[str, ...]  # parameters that were chosen, beside C
    seconds: float
    sizes: list[float]  # mean of k(x, x) of the chosen kernel, per outer fold

    @property
    def mean(self) -> float:
        """Mean accuracy over the outer folds."""
        return float(self.accuracies.mean())

    @property
    def choices(self) -> list[dict[str, Any]]:
        """Parameters and C, per outer fold."""
        return [
            {**{name: kernel.get_params()[name] for name in self.varied}, "C": c}
            for kernel, c in self.chosen
        ]

    @property
    def usual_choice(self) -> str:
        """Parameters chosen in most outer folds."""
        return self._texts[self._usual]

    @property
    def usual_kernel(self) -> Kernel:
        """The kernel chosen in most outer folds (with C)."""
        return self.chosen[self._usual][0]

    @property
    def usual_c(self) -> float:
        """Its C, for the kernel as it is, not scaled to a mean diagonal of 1."""
        return self.chosen[self._usual][1] / self.sizes[self._usual]

    @property
    def _texts(self) -> list[str]:
        return [
            ", ".join(f"{name.replace('__', '.')}={_shown(value)}" for name, value in choice.items())
            for choice in self.choices
        ]

    @property
    def _usual(self) -> int:
        """An outer fold with the most frequent choice."""
        texts = self._texts
        return max(range(len(texts)), key=lambda fold: texts.count(texts[fold]))


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of :func:`compare`, best kernel first."""

    data: Candidates
    classes: dict[str, int]
    folds: int
    random_state: int
    scores: list[KernelScore]

    @property
    def rows(self) -> int:
        """Number of points."""
        return self.data.rows

    @property
    def chance(self) -> float:
        """Accuracy of always naming the most frequent class."""
        return max(self.classes.values()) / self.rows

    @property
    def kind(self) -> str:
        """What the points were taken as."""
        return self.data.kind

    @property
    def verdict(self) -> str:
        """One sentence on whether a kernel that knows the structure does better than a plain one."""
        plain = next(s for s in self.scores if s.name in self.data.plain)
        rich = next(s for s in self.scores if s.name not in self.data.plain)
        gain = rich.mean - plain.mean
        if gain < _LEVEL:
            table = self.data.columns is not None
            where = "on this table" if table else f"on these {self.data.noun}"
            # Differences of a rounding error's breadth are none.
            word = "makes no difference" if gain > -_LEVEL else "does not help"
            subject = "Geometry" if table else "Structure"
            return (
                f"{subject} {word} {where}: the {plain.name} kernel reaches "
                f"{plain.mean:.2%}, the best {self.data.rich_word} kernel ({rich.name}) {rich.mean:.2%}."
            )
        clear = rich.interval[0] > plain.mean
        return (
            f"The {rich.name} kernel reaches {rich.mean:.2%}, {100 * gain:.1f} points above the "
            f"best {self.data.plain_word} kernel ({plain.name}, {plain.mean:.2%}); the "
            f"{self.data.plain_word} score is {'outside' if clear else 'inside'} the 95 % interval "
            f"of the {rich.name} kernel."
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out, and why."""
        return self.data.notes

    @property
    def best(self) -> str:
        """The model to build: the best family's kernel, as chosen in most folds, and its C."""
        best = self.scores[0]
        return (
            f"make_pipeline(GramTransformer({best.usual_kernel!r}), "
            f'SVC(kernel="precomputed", C={best.usual_c:.6g}))'
        )

    @property
    def call(self) -> str:
        """How to repeat the comparison in Python."""
        points, space = {
            "strings": ("strings", ""),
            "nodes of a graph": ("nodes", "space=Graph(...), "),
            "clouds": ("clouds", ""),
            "counts": ("X", 'space="simplex", '),
            "directions": ("X", 'space="sphere", '),
        }[self.kind]
        return f"compare({points}, y, {space}folds={self.folds}, random_state={self.random_state})"

    def with_facts(self, facts: str) -> Comparison:
        """The same, with more to tell about the points."""
        return replace(self, data=replace(self.data, facts=f"{self.data.facts}, {facts}"))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and strings, ready for JSON."""
        return {
            "kind": self.kind,
            "rows": self.rows,
            "columns": self.data.columns,
            "facts": self.data.facts,
            "classes": self.classes,
            "most_frequent_class": self.chance,
            "verdict": self.verdict,
            "notes": list(self.notes),
            "best": {
                "family": self.scores[0].name,
                "kernel": repr(self.scores[0].usual_kernel),
                "C": self.scores[0].usual_c,
                "model": self.best,
            },
            "folds": self.folds,
            "inner_folds": INNER_FOLDS,
            "random_state": self.random_state,
            "kernels": [
                {
                    "name": s.name,
                    "accuracy": s.mean,
                    "interval_95": list(s.interval),
                    "fold_accuracies": s.accuracies.tolist(),
                    "chosen": s.choices,
                    "seconds": s.seconds,
                }
                for s in self.scores
            ],
        }


def compare(
    X: Any,
    y: Any,
    *,
    space: SpaceName | Graph = "auto",
    folds: int = 5,
    random_state: int = 0,
    n_jobs: int | None = -1,
    progress: Progress | None = None,
) -> Comparison:
    """Compare the kernels that fit the data: a table, strings, nodes of a graph, or clouds.

    On a table: linear and Gaussian kernels, which see the rows as they are, and cosine, parametrix
    and exact heat, which see them as points of the simplex or the sphere.  On strings: letter counts,
    spectra, subsequences with gaps (unless there are too many letters for them), and the weighted
    degree if all are of one length.  On nodes: shared neighbours, walks, heat, Matern and von Neumann.
    On clouds: mean embeddings, trace and generalised variance.

    Each is scored by a support vector machine in stratified cross-validation; kernel parameters and
    C are chosen by a second cross-validation inside each training part, so that the scores are of
    data that had no say in the choice.  Gram matrices are computed once per kernel, one at a time.

    Parameters
    ----------
    X : array or sparse matrix of shape (m, n), list of strings, of nodes or of clouds
        Strings are str, bytes or sequences of tokens.  Sequences of whole numbers count as strings if
        they are tuples or of unequal lengths; lists of one length are rows of a table.  A cloud is an
        array of shape (k, d), or a tuple of that and weights that sum to 1.
    y : array of shape (m,)
        Class labels.
    space : {"auto", "simplex", "sphere"} or Graph
        How the geometric kernels see a row of a table: as counts or a composition, or as a direction;
        "auto" takes rows without negative entries as counts.  Or the graph whose nodes X names.
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
        Its ``notes`` tell which families were left out.

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
    data = candidates(X, space, random_state)
    labels, encoded = _check_target(y, folds, data.noun)
    if len(encoded) != data.rows:
        raise ValueError(f"X has {data.rows} {data.noun}, y has {len(encoded)} rows")
    splitter = StratifiedKFold(folds, shuffle=True, random_state=random_state)
    outer = list(splitter.split(np.zeros(len(encoded)), encoded))
    steps = sum(len(kernels) for kernels in data.families.values()) + len(data.families)
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, steps)

    scores = []
    with Parallel(n_jobs=n_jobs, prefer="threads") as parallel:
        for name, kernels in data.families.items():
            search = _Search(data, encoded, outer, random_state, parallel)
            scores.append(search.run(name, kernels, step))
    # Level scores: the parametrix, which is no kernel in general, yields.
    scores.sort(key=lambda s: (-s.mean, s.name == "parametrix"))
    counts = dict(zip(map(str, labels), np.bincount(encoded).tolist(), strict=True))
    return Comparison(data, counts, folds, random_state, scores)


def _varied(kernels: list[Kernel]) -> tuple[str, ...]:
    """Names of the parameters in which the kernels of a family differ."""
    params = [kernel.get_params() for kernel in kernels]
    names = [name for name in params[0] if isinstance(params[0][name], int | float | tuple)]
    return tuple(name for name in names if any(p[name] != params[0][name] for p in params))


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _check_target(y: Any, folds: int, noun: str) -> tuple[np.ndarray, np.ndarray]:
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
            f"class {str(rare)!r} has {counts.min()} {noun}; {folds} folds with {INNER_FOLDS} inner "
            f"folds need {needed}: use fewer folds or drop the class"
        )
    return labels, encoded


@dataclass
class _Search:
    """Nested cross-validation of one family of kernels."""

    data: Candidates
    y: np.ndarray
    outer: list[tuple[np.ndarray, np.ndarray]]
    random_state: int
    parallel: Parallel

    def run(self, name: str, kernels: list[Kernel], step: Callable[[], None]) -> KernelScore:
        start = time.perf_counter()
        inner = np.zeros((len(kernels), len(self.outer), len(C_GRID)))
        kept: dict[int, Array] = {}
        sizes = np.ones(len(kernels))
        for i, kernel in enumerate(kernels):
            K, sizes[i] = self._gram(kernel)
            inner[i] = self._inner_scores(K)
            if len(kernels) * K.nbytes <= KEPT_BYTES:
                kept[i] = K
            step()
        choice = [
            np.unravel_index(np.argmax(inner[:, fold]), (len(kernels), len(C_GRID)))
            for fold in range(len(self.outer))
        ]
        accuracies = np.zeros(len(self.outer))
        for i in {int(k) for k, _ in choice}:
            K = kept[i] if i in kept else self._gram(kernels[i])[0]
            folds = [fold for fold, (k, _) in enumerate(choice) if k == i]
            jobs = ((*self.outer[fold], C_GRID[choice[fold][1]]) for fold in folds)
            accuracies[folds] = self.parallel(
                delayed(_accuracy)(K, self.y, train, test, c) for train, test, c in jobs
            )
        step()
        chosen = [(clone(kernels[int(k)]), C_GRID[int(c)]) for k, c in choice]
        seconds = time.perf_counter() - start
        interval = self._interval(accuracies)
        used = [float(sizes[int(k)]) for k, _ in choice]
        return KernelScore(name, accuracies, interval, chosen, _varied(kernels), seconds, used)

    def _gram(self, kernel: Kernel) -> tuple[Array, float]:
        """Gram matrix scaled to a mean diagonal of 1, so that one range of C serves all kernels."""
        K = self.data.gram(kernel)
        size = float(np.trace(K) / len(K))
        size = size if size > 0 else 1.0
        K /= size
        return K, size

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
