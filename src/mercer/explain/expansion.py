"""Fitted models as sums ``b + sum_i a_i k(x, x_i)``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import TransformedTargetRegressor
from sklearn.gaussian_process import kernels as sk
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from mercer._arrays import count, on_cpu, taken
from mercer.features import GramTransformer
from mercer.kernels.base import Kernel
from mercer.kernels.tables.frames import is_frame
from mercer.selection import KernelSearchCV, SavedModel
from mercer.selection.kinds import kind_called

Array = NDArray[np.float64]
Index = NDArray[np.intp]
#: Targets that test whether a transformation is linear.
_LINEAR = 1e-9
#: Largest number of letters shown of a string.
_SHORT = 40


@dataclass(frozen=True, eq=False)
class Expansion:
    """A fitted model as functions ``b + sum_i a_i k(x, x_i)``, one for each output.

    Attributes
    ----------
    kernel : Kernel or callable, optional
        None if the Gram matrix is precomputed: points are then its rows.
    points : points x_i, or None
    coefficients : array of shape (p, q)
    intercept : array of shape (q,)
    outputs : tuple
        Classes, pairs of classes, or names of outputs.
    rows : array of shape (p,)
        Positions of the points among the training rows, or among the landmarks.
    row_kind : str
        "training row" or "landmark".
    normalize : bool
        Divide the kernel by the square roots of k(x, x) and k(y, y).
    names : list, optional
        Names of the columns.
    classes : list, optional
        Classes of a classifier.
    """

    kernel: Any
    points: Any
    coefficients: Array
    intercept: Array
    outputs: tuple[Any, ...]
    rows: Index
    row_kind: str = "training row"
    normalize: bool = False
    names: list[Any] | None = None
    classes: list[Any] | None = None

    @property
    def part_names(self) -> list[str]:
        """Names of the terms of the kernel, all different."""
        labels = [_label(term) for _, term in self.terms]
        seen: dict[str, int] = {}
        names = []
        for label in labels:
            seen[label] = seen.get(label, 0) + 1
            names.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
        return names

    @property
    def row_names(self) -> list[str]:
        """Names of the points: nodes and short strings themselves, or else their positions."""
        if isinstance(self.points, list) and all(isinstance(point, str | int) for point in self.points):
            return [f"{point}"[:_SHORT] for point in self.points]
        return [str(row) for row in self.rows]

    @property
    def terms(self) -> tuple[tuple[float, Any], ...]:
        """Weights and kernels whose sum the kernel is."""
        return self.kernel.terms() if isinstance(self.kernel, Kernel) else ((1.0, self.kernel),)

    def similarities(self, term: Any, X: Any) -> Array:
        """A term of the kernel between some points and those of the expansion."""
        if not len(self.rows):
            return np.zeros((count(X), 0))
        K = X[:, self.rows] if term is None else term(X, self.points)
        return self.divided(X, np.asarray(on_cpu(K), dtype=float))

    def divided(self, X: Any, pairs: Array) -> Array:
        """Values at pairs of points, divided by the lengths of both if the kernel is normalised."""
        if not self.normalize:
            return pairs
        return pairs / np.sqrt(self.kernel.diag(X))[:, None] / np.sqrt(self._squares)

    def distances(self, X: Any, similarities: Array) -> Array | None:
        """Distances in feature space; None if k(x, x) is not known."""
        if not isinstance(self.kernel, sk.Kernel):
            return None
        if self.normalize:
            return np.sqrt(np.maximum(2 - 2 * similarities, 0.0))
        own = np.asarray(self.kernel.diag(X), dtype=float)[:, None]
        return np.sqrt(np.maximum(own + self._squares - 2 * similarities, 0.0))

    @cached_property
    def _squares(self) -> Array:
        """Values k(x_i, x_i) of the points."""
        return np.asarray(self.kernel.diag(self.points), dtype=float)


def _label(term: Any) -> str:
    """The name of a kernel, a function or a precomputed matrix."""
    if isinstance(term, Kernel):
        return term.label
    return "precomputed" if term is None else getattr(term, "__name__", str(term))


def points_of(model: Any, X: Any) -> Any:
    """Points in the form that the model's kernel takes."""
    model, X = _inner(model, X)
    if isinstance(model, Pipeline):
        X = _before_gram(model).transform(X) if len(_before_gram(model)) else X
    X = on_cpu(X)
    kernel = getattr(_machine(model), "kernel_", None)
    vectors = getattr(kernel, "requires_vector_input", False) or isinstance(kernel, str)
    return np.asarray(X) if hasattr(X, "columns") and vectors else X


def expansion_of(model: Any) -> Expansion:
    """The expansion of a fitted model, from its attributes."""
    names = _names(model)
    model, _ = _inner(model, None)
    check_is_fitted(model)
    if not isinstance(model, Pipeline):
        return replace(_of_machine(model), names=names)
    before = _before_gram(model)
    if len(before):
        known = hasattr(before[-1], "get_feature_names_out")
        names = list(before.get_feature_names_out(names)) if known else None
    found = replace(_of_machine(model[-1]), names=names)
    gram = model[-2] if len(model) > 1 else None
    if not isinstance(gram, GramTransformer):
        return found
    return replace(
        found, kernel=gram.kernel_, points=taken(gram.X_fit_, found.rows), normalize=gram.normalize
    )


def _inner(model: Any, X: Any) -> tuple[Any, Any]:
    """The estimator in a search or a saved model, and the points as it takes them."""
    if isinstance(model, KernelSearchCV):
        check_is_fitted(model)
        return model.best_estimator_, X
    if isinstance(model, SavedModel):
        return model.model, kind_called(model.kind).from_frame(X, model) if is_frame(X) else X
    return model, X


def _names(model: Any) -> list[Any] | None:
    """Names of the columns that a model was fitted to."""
    for owner in (model, model[0] if isinstance(model, Pipeline) else None):
        names = getattr(owner, "feature_names_in_", None)
        if names is not None:
            return list(names)
    return None


def _before_gram(model: Pipeline) -> Pipeline:
    """Steps that prepare the points."""
    return model[: -2 if len(model) > 1 and isinstance(model[-2], GramTransformer) else -1]


def _machine(model: Any) -> Any:
    """The estimator, or the transformer, that has the kernel."""
    if not isinstance(model, Pipeline):
        return model
    return model[-2] if len(model) > 1 and isinstance(model[-2], GramTransformer) else model[-1]


def _of_machine(machine: Any) -> Expansion:
    """The expansion of a machine; without points and kernel, if the matrix is precomputed."""
    if isinstance(machine, TransformedTargetRegressor):
        return _retransformed(_of_machine(machine.regressor_), machine.transformer_)
    if not hasattr(machine, "dual_coef_"):
        raise TypeError(
            "explain takes machines of mercer.machines, Gaussian processes of mercer.gp with a kernel "
            "of tables, strings or clouds, or a pipeline of a GramTransformer and an estimator with "
            f"dual_coef_ such as SVC, SVR and KernelRidge, got {machine!r}"
        )
    kernel = getattr(machine, "kernel_", getattr(machine, "kernel", None))
    precomputed = isinstance(kernel, str) and kernel == "precomputed"
    if not precomputed and not hasattr(machine, "kernel_"):
        raise TypeError(
            f"{machine!r} does not keep its points and kernel; use the machine of that name in "
            "mercer.machines, or a pipeline of a GramTransformer and an estimator with "
            'kernel="precomputed"'
        )
    found = _of_vectors(machine) if hasattr(machine, "support_") else _of_functions(machine)
    classes = machine.classes_.tolist() if hasattr(machine, "classes_") else None
    return replace(found, kernel=None if precomputed else kernel, classes=classes)


def _of_vectors(machine: Any) -> Expansion:
    """Functions of a support vector machine."""
    if hasattr(machine, "classes_"):
        pairs, columns = _pairs(machine)
    else:
        pairs, columns = [], machine.dual_coef_.T
    points, rows, kind = getattr(machine, "support_vectors_", None), machine.support_, "training row"
    if hasattr(machine, "landmark_coef_"):  # predictions are made of these
        points, kind = machine.landmarks_, "landmark"
        rows, columns = np.arange(count(points)), machine.landmark_coef_.reshape(count(points), -1)
    intercept = np.asarray(machine.intercept_, dtype=float)
    outputs: tuple[Any, ...] = ("inlier" if hasattr(machine, "offset_") else "prediction",)
    if pairs:
        classes = machine.classes_.tolist()
        if machine.decision_function_shape == "ovo" and len(classes) > 2:
            outputs = tuple((classes[i], classes[j]) for i, j in pairs)
        else:
            signs = np.zeros((len(pairs), len(classes)))
            for k, (i, j) in enumerate(pairs):
                signs[k, i], signs[k, j] = 1.0, -1.0
            outputs, columns, intercept = tuple(classes), columns @ signs, intercept @ signs
    return Expansion(None, points, columns, intercept, outputs, rows.astype(np.intp), kind)


def _pairs(machine: Any) -> tuple[list[tuple[int, int]], Array]:
    """Pairs of classes, the first of which is positive, and coefficients of each pair."""
    classes, coefficients = len(machine.classes_), np.asarray(machine.dual_coef_)
    if classes == 2:
        return [(1, 0)], coefficients.T
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    owners = np.repeat(np.arange(classes), machine.n_support_)
    columns = np.zeros((coefficients.shape[1], len(pairs)))
    for column, (i, j) in zip(columns.T, pairs, strict=True):
        column[owners == i] = coefficients[j - 1, owners == i]
        column[owners == j] = coefficients[i, owners == j]
    return pairs, columns


def _of_functions(machine: Any) -> Expansion:
    """Functions of kernel ridge regression, and of machines on landmarks."""
    landmarks = getattr(machine, "landmarks_", None)
    columns = getattr(machine, "landmark_coef_", machine.dual_coef_)
    points = getattr(machine, "X_fit_", None) if landmarks is None else landmarks
    columns = np.asarray(columns, dtype=float).reshape(len(columns), -1)
    intercept = np.broadcast_to(getattr(machine, "intercept_", 0.0), columns.shape[1])
    outputs: tuple[Any, ...] = tuple(range(columns.shape[1]))
    if hasattr(machine, "classes_"):
        outputs = tuple(machine.classes_.tolist())
        if len(outputs) == 2:
            columns, intercept = np.hstack([-columns, columns]), np.append(-intercept, intercept)
    elif len(outputs) == 1:
        outputs = ("prediction",)
    kind = "training row" if landmarks is None else "landmark"
    return Expansion(None, points, columns, intercept, outputs, np.arange(len(columns)), kind)


def _retransformed(found: Expansion, transformer: Any) -> Expansion:
    """Functions in the units of the target, if its transformation was linear."""
    probes = np.repeat(np.arange(3.0)[:, None], len(found.outputs), axis=1)
    zero, one, two = transformer.inverse_transform(probes)
    if not np.allclose(two - one, one - zero, rtol=_LINEAR, atol=0):
        return replace(found, outputs=tuple(f"transformed {name}" for name in found.outputs))
    slope = one - zero
    intercept = found.intercept * slope + zero
    return replace(found, coefficients=found.coefficients * slope, intercept=intercept)
