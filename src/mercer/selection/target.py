"""Checks of the target and of the folds."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn import kernel_ridge, svm
from sklearn.compose import TransformedTargetRegressor
from sklearn.metrics import get_scorer
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d

from mercer._memory import size_text
from mercer._validation import LARGEST, check_labels, is_whole, refuse_complex
from mercer.machines import SVC, KernelRidge, LandmarkClassifier, LandmarkRegressor
from mercer.selection.fits import Index, Split

TASKS = ("auto", "classification", "regression")
#: Machines of this package, or those of scikit-learn.
SOLVERS = ("mercer", "libsvm")
#: A target with more distinct numbers is a regression.
MOST_CLASSES = 20
#: Ratio of class frequencies above which classes are unbalanced.
UNBALANCED = 3.0
#: Fewest points of a class in a sample.
_FEWEST = 10
#: Usual number of landmarks, and bytes for each pair of points of a search on exact machines.
LANDMARKS, _BYTES = 1000, 16


@dataclass(frozen=True, eq=False)
class Target:
    """The target of the points that have one."""

    task: Literal["classification", "regression"]
    y: np.ndarray
    #: Indices of the points with a target, and the number of points without one.
    known: np.ndarray
    missing: int
    #: Group of each point, as a number, if there are groups that folds keep together.
    groups: np.ndarray | None = None

    @property
    def classes(self) -> dict[str, int]:
        """Points of each class; empty if the target is a number."""
        if self.task == "regression":
            return {}
        labels, counts = np.unique(self.y, return_counts=True)
        return dict(zip(map(str, labels.tolist()), counts.tolist(), strict=True))

    @property
    def usual_metric(self) -> str:
        """Accuracy, unless the classes are unbalanced; R squared of numbers."""
        if self.task == "regression":
            return "r2"
        counts = self.classes.values()
        return "balanced_accuracy" if max(counts) > UNBALANCED * min(counts) else "accuracy"

    def estimator(self, metric: str, solver: str = "mercer", landmarks: int | None = None) -> Any:
        """A support vector machine, or a kernel ridge regression of the standardised target.

        Where balanced accuracy decides, classes have balanced weights.  On landmarks it is a ridge
        regression with a bias, of signs or of the target.
        """
        if self.task == "classification":
            weights = "balanced" if metric == "balanced_accuracy" else None
            return machine_for("classifier", solver, landmarks).set_params(class_weight=weights)
        regressor = machine_for("regressor", solver, landmarks)
        if landmarks is not None:
            return regressor
        return TransformedTargetRegressor(regressor, transformer=StandardScaler())

    def splitter(self, folds: int, random_state: int, grouped: bool = False) -> Any:
        """Folds that preserve class frequencies and, if grouped, do not split groups."""
        kind = {
            ("classification", False): StratifiedKFold,
            ("classification", True): StratifiedGroupKFold,
            ("regression", False): KFold,
            ("regression", True): GroupKFold,
        }[self.task, grouped]
        return kind(n_splits=folds, shuffle=True, random_state=random_state)


def machine_for(task: str, solver: str, landmarks: int | None = None) -> Any:
    """The usual classifier or regressor: exact, by a solver, or on a number of landmarks."""
    if solver not in SOLVERS:
        raise ValueError(f"solver must be one of {SOLVERS}, got {solver!r}")
    if task not in ("classifier", "regressor"):
        raise ValueError(f"estimator must be 'classifier', 'regressor' or an estimator, got {task!r}")
    if landmarks is None:
        classifiers, regressors = (SVC, svm.SVC), (KernelRidge, kernel_ridge.KernelRidge)
        chosen = classifiers if task == "classifier" else regressors
        return chosen[solver == "libsvm"](kernel="precomputed")
    if task == "classifier":
        return LandmarkClassifier(n_landmarks=landmarks, random_state=0)
    return LandmarkRegressor(n_landmarks=landmarks, bias=True, random_state=0)


def check_memory(gigabytes: Any) -> None:
    """Refuse what is not a number of gigabytes; above a million, bytes are probably meant."""
    if not isinstance(gigabytes, int | float) or not 0 < gigabytes <= 1e6:
        raise ValueError(f"max_memory must be a positive number of gigabytes, got {gigabytes!r}")


def landmarks_by_size(rows: int, max_memory: float, param_grid: Any) -> int | None:
    """Landmarks, with a warning, if exact machines do not fit; None if their parameters are given."""
    grids = [param_grid] if isinstance(param_grid, Mapping) else param_grid or []
    if any(not name.startswith("kernel__") for grid in grids for name in grid):
        return None
    size, note = landmark_size("auto", rows, max_memory)
    if note:
        warnings.warn(f"the search is on {note}", stacklevel=4)
    return size


def landmark_size(landmarks: Any, rows: int, max_memory: float) -> tuple[int | None, str]:
    """Number of landmarks, None for exact machines; and a note if landmarks are used.

    "auto" takes them where exact machines do not fit into ``max_memory`` gigabytes.
    """
    needed = _BYTES * rows**2
    if landmarks is None or (landmarks == "auto" and needed <= 1e9 * max_memory):
        return None, ""
    size = LANDMARKS if landmarks == "auto" else landmarks
    if not is_whole(size) or size < 1:
        raise ValueError(f"landmarks must be a whole number of at least 1, or 'auto', got {landmarks!r}")
    return size, f"machines on {size} landmarks: exact ones on {rows} points need {size_text(needed)}"


def read_target(y: Any, rows: int, noun: str, task: str, folds: int, inner_folds: int) -> Target:
    """Check the target of a comparison: classes or numbers, of the points that have one."""
    if task not in TASKS:
        raise ValueError(f"task must be one of {TASKS}, got {task!r}")
    if not is_whole(folds) or folds < 2:
        raise ValueError(f"folds must be a whole number of at least 2, got {folds!r}")
    values = np.asarray(y, dtype=object if isinstance(y, list | tuple) else None)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    refuse_complex(values, "y")
    if values.ndim != 1:
        hint = f"; give the column itself, such as table[{y!r}]" if isinstance(y, str) else ""
        raise ValueError(f"y must have one value per point, got an array of shape {values.shape}{hint}")
    _check_length(values, rows, noun)
    absent = np.asarray(pd.isna(values))
    known = np.flatnonzero(~absent)
    if known.size == 0:
        raise ValueError("no point has a target: all of y is missing")
    values = _of_one_type(values[known])
    missing = int(absent.sum())
    if (_task(values) if task == "auto" else task) == "regression":
        values = _numbers(values, known)
        if len(values) < folds * 2:
            raise ValueError(f"{len(values)} {noun} are too few for {folds} folds; use fewer folds")
        return Target("regression", values, known, missing)
    labels, counts = _classes(values)
    needed = max(folds, inner_folds + -(-inner_folds // (folds - 1)))
    if counts.min() < needed:
        rare = labels[np.argmin(counts)]
        raise ValueError(
            f"class {str(rare)!r} has {counted(int(counts.min()), noun)}; {folds} folds with "
            f"{inner_folds} inner folds need {needed}: use another number of folds or drop the class"
        )
    return Target("classification", values, known, missing)


def check_target(y: Any, rows: int, tags: Any) -> Any:
    """Target of a search, as an array with one row per point."""
    if y is None:
        raise ValueError("the search requires y to be passed, but the target y is None")
    classifier = tags.estimator_type == "classifier"
    refuse_complex(y, "y")
    check_labels(y)
    y = check_array(
        y, ensure_2d=False, dtype=None if classifier else np.float64, input_name="y",
        estimator="the search",
    )  # fmt: skip
    if y.ndim == 1 or not tags.target_tags.multi_output:
        y = column_or_1d(y, warn=True)
    _check_length(y, rows, "points")
    if classifier:
        _of_one_type(y.ravel())
        check_classification_targets(y)
        _classes(y)
    else:
        _refuse_range(y)
    return y


def check_metric(scoring: str | None, target: Target) -> str:
    """Name of a scikit-learn scorer; by default one that suits the target."""
    if scoring is None:
        return target.usual_metric
    if not isinstance(scoring, str):
        raise TypeError(f"scoring must be the name of a scorer of scikit-learn, got {scoring!r}")
    get_scorer(scoring)
    return scoring


def check_splits(splits: list[Any], y: Any, classifier: bool) -> list[Split]:
    """Folds as indices of points; refuse those that cannot be fitted or scored."""
    if not splits:
        raise ValueError("cv gives no folds")
    numbered = [
        (_indices(train, fold, len(y)), _indices(test, fold, len(y)))
        for fold, (train, test) in enumerate(splits)
    ]
    for fold, (train, test) in enumerate(numbered):
        if not len(train) or not len(test):
            side = "training" if not len(train) else "test"
            raise ValueError(f"fold {fold} has no {side} points; use other folds")
        if classifier and len(np.unique(y[train])) < 2:
            raise ValueError(
                f"the training part of fold {fold} has only one class: {y[train].tolist()[0]!r}; "
                "use fewer or stratified folds, or drop rare classes"
            )
    return numbered


def sample_rows(
    y: Any, most: int | None, classifier: bool, random_state: int, groups: Any = None
) -> Index | None:
    """Indices of about ``most`` points, stratified, at least ten of each class; None for all points.

    Groups are drawn whole, and at least ten of them.
    """
    if most is not None and (not is_whole(most) or most < 2):
        raise ValueError(f"max_rows must be a whole number of at least 2, got {most!r}")
    rows = len(y)
    if most is None or most >= rows:
        return None
    if groups is not None:
        return _sample_groups(y, most, classifier, random_state, groups)
    shuffled = np.random.default_rng(random_state).permutation(rows)
    if not classifier:
        return np.sort(shuffled[:most])
    _, code, counts = np.unique(y[shuffled], return_inverse=True, return_counts=True)
    by_class = np.argsort(code, kind="stable")
    rank = np.empty(rows, dtype=np.intp)
    rank[by_class] = np.arange(rows) - np.repeat(np.cumsum(counts) - counts, counts)
    wanted = np.maximum(np.round(counts * most / rows), np.minimum(counts, _FEWEST))
    return np.sort(shuffled[rank < wanted[code]])


def _sample_groups(y: Any, most: int, classifier: bool, random_state: int, groups: Any) -> Index:
    """Indices of whole groups with about ``most`` points in total."""
    _, owner, sizes = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    shuffled = np.random.default_rng(random_state).permutation(len(sizes))
    taken, total = np.zeros(len(sizes), dtype=bool), 0
    for group in shuffled:  # those that are too large are left to the end
        if total < most and total + sizes[group] <= 2 * most:
            taken[group], total = True, total + sizes[group]
    lacking = max(_FEWEST - int(taken.sum()), 0)
    left = shuffled[~taken[shuffled]]
    taken[left[np.argsort(sizes[left], kind="stable")][:lacking]] = True
    for label in np.unique(y) if classifier else ():
        there = np.bincount(owner[y == label], minlength=len(sizes))
        others = shuffled[(there[shuffled] > 0) & ~taken[shuffled]]
        before = there[taken].sum() + np.cumsum(there[others]) - there[others]
        taken[others[before < _FEWEST]] = True
    return np.flatnonzero(taken[owner])


def counted(number: int, noun: str) -> str:
    """A number with a noun: "3 rows", "1 row"."""
    return f"{number} {noun if number != 1 else noun.removesuffix('s')}"


def _check_length(y: np.ndarray, rows: int, noun: str) -> None:
    if len(y) != rows:
        raise ValueError(f"X has {rows} {noun}, y has {len(y)}; give one target for each point")


def _of_one_type(values: np.ndarray) -> np.ndarray:
    """Values as an array of numbers or of strings; mixtures and dates are refused."""
    if values.dtype.kind in "mM":
        raise ValueError(
            f"the target holds dates or durations ({values[0]}); make them numbers or classes"
        )
    if values.dtype.kind != "O":
        return values
    kinds = {_type_name(value): value for value in values}
    if len(kinds) > 1:
        first, second, *_ = kinds.values()
        raise ValueError(
            f"the target mixes types: {first!r} and {second!r}; make them all strings or all numbers, "
            "and leave out points without a target"
        )
    if "Decimal" in kinds:
        return values.astype(float)
    return values.astype(str) if "string" in kinds else np.array(values.tolist())


def _type_name(value: Any) -> str:
    """Name of a type; all values of a target must share it."""
    if isinstance(value, str | bytes):
        return "string"
    return "number" if isinstance(value, int | float | np.number | np.bool_) else type(value).__name__


def _task(values: np.ndarray) -> str:
    if values.dtype.kind not in "iuf":
        return "classification"
    if values.dtype.kind == "f" and (values != np.round(values)).any():
        return "regression"
    return "regression" if len(np.unique(values)) > MOST_CLASSES else "classification"


def _classes(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Labels and their frequencies; refuse a single class."""
    labels, counts = np.unique(y, return_counts=True)
    if len(labels) < 2:
        raise ValueError(
            f"the target has only one class: {labels.tolist()[0]!r}; give at least two classes"
        )
    return labels, counts


def _numbers(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "iufb":
        raise ValueError(f"the target must hold numbers for a regression, got {values.tolist()[0]!r}")
    numbers: np.ndarray = values.astype(float)
    if not np.isfinite(numbers).all():
        row = int(known[np.flatnonzero(~np.isfinite(numbers))[0]])
        raise ValueError(f"row {row} of y is infinite")
    _refuse_range(numbers, known)
    if np.ptp(numbers) == 0:
        raise ValueError(f"the target is constant: {values.tolist()[0]!r}")
    return numbers


def _refuse_range(y: np.ndarray, known: np.ndarray | None = None) -> None:
    """Refuse numbers whose squares leave the floating-point range; ``known`` are their rows."""
    row = int(np.argmax(np.abs(y).reshape(len(y), -1).max(axis=1)))
    largest = float(np.abs(y[row]).max())
    if largest > LARGEST or 0 < largest < 1 / LARGEST:
        where = row if known is None else int(known[row])
        raise ValueError(
            f"row {where} of y is of size {largest:.3g}, whose square is out of range; rescale y"
        )


def _indices(part: Any, fold: int, rows: int) -> Index:
    """Indices of the points of one part, which may be given as a mask."""
    chosen = np.asarray(part)
    if chosen.dtype == bool and len(chosen) == rows:
        return np.flatnonzero(chosen)
    if chosen.size and (chosen.dtype.kind not in "iu" or chosen.min() < -rows or chosen.max() >= rows):
        raise ValueError(f"fold {fold} of cv must hold numbers from 0 to {rows - 1}, or a mask of them")
    return chosen.astype(np.intp)
