"""Support vector classification."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from mercer._validation import check_labels
from mercer.machines.points import Points, check_points, check_weights, open_points
from mercer.machines.probability import (
    copies_of,
    couple,
    fit_sigmoid,
    held_out_shares,
    out_of_fold,
    sigmoid,
)
from mercer.machines.program import Array, Index, Program, Solution
from mercer.machines.svm import SupportVectorMachine, solved_in_turn
from mercer.rows.labels import given_factors


class SVC(ClassifierMixin, SupportVectorMachine):
    """Support vector classification to a stated duality gap.

    For two classes, with labels y of 1 and -1, the machine minimises ``P = |f|^2 / 2 + sum_i C_i
    max(0, 1 - y_i (f(x_i) + bias))`` over the kernel's space of functions.  Several classes are taken
    in pairs, as in libsvm.  The dual objective ``D`` is a lower bound on P, and the relative gap ``(P
    - D) / max(|P|, |D|)`` at the solution certifies how close it is to the optimum: function values
    without bias are within ``sqrt(2 (P - D) k(x, x))`` of the optimal ones.  The solver stops when the
    gap is at most ``tol``.

    Cost: the Gram matrix, in memory if it fits, otherwise block by block; pairs of classes are solved
    in threads.

    Parameters
    ----------
    kernel : Kernel, callable, "rbf", "linear" or "precomputed"
        "rbf" is the Gaussian kernel with scikit-learn's ``gamma="scale"``.
    C : float
        Weight of the losses.
    scale : float, optional
        Scale the kernel so that this is the median similarity of distinct training points; see
        :meth:`~mercer.kernels.Kernel.scaled_to`.  By default the kernel is used as it is.
    tol : float
        Largest relative duality gap.
    class_weight : dict or "balanced", optional
        Factors of C, as in scikit-learn.
    decision_function_shape : "ovr" or "ovo"
        One column for each class, or one for each pair of classes.
    break_ties : bool
        Settle ties of votes by the decision function; needs "ovr".
    probability : bool
        Calibrate probabilities on decision values of five held-out parts.
    warm_start : bool
        Start from the solution of the last fit, as along a path of C on the same rows.
    max_iter : int
        Largest number of steps for each pair of classes, -1 for no limit.
    max_memory : float
        Gigabytes for the Gram matrix and its rows.
    compress : int, optional
        Number of landmarks that replace the support vectors in predictions, which then take that many
        kernel values per row; ``compression_error_`` bounds the change.

    Attributes
    ----------
    classes_, class_weight_, support_, support_vectors_, n_support_, dual_coef_, intercept_, n_iter_
        As in :class:`sklearn.svm.SVC`.
    dual_gap_ : float
        Largest relative duality gap of the pairs; an upper bound that includes rounding errors.  NaN if
        the Gram matrix has negative eigenvalues.
    dual_gaps_ : array of shape (n_pairs,)
        Relative duality gap of each pair of classes.
    objective_ : float
        Dual objective, summed over pairs.
    converged_ : bool
        Whether all gaps are at most ``tol``.
    kernel_ : Kernel
        The kernel, with what it learnt from the training points.
    landmarks_, landmark_coef_
        Expansion used in predictions, with ``compress``.
    compression_error_ : float
        Largest difference of decision values from those of all support vectors, at points whose ``k(x,
        x)`` is no larger than theirs.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from mercer.kernels import Heat
    >>> from mercer.machines import SVC
    >>> from mercer.spaces import Simplex
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SVC(Heat(Simplex()), C=10, scale=0.1).fit(X[:1000], y[:1000])
    >>> bool(model.score(X[1000:], y[1000:]) > 0.95), model.dual_gap_ <= 1e-3
    (True, True)
    >>> model.certificate_  # doctest: +ELLIPSIS
    'the objective is within 0... % of the optimum'
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        C: float = 1.0,
        *,
        scale: float | None = None,
        tol: float = 1e-3,
        class_weight: Any = None,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        probability: bool = False,
        warm_start: bool = False,
        max_iter: int = -1,
        max_memory: float = 4.0,
        compress: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.scale = scale
        self.tol = tol
        self.class_weight = class_weight
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.probability = probability
        self.warm_start = warm_start
        self.max_iter = max_iter
        self.max_memory = max_memory
        self.compress = compress

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the machine.

        Parameters
        ----------
        X : points, or their Gram matrix if the kernel is precomputed
        y : array of shape (m,)
        sample_weight : array of shape (m,), optional
            Factors of C; rows of weight zero are ignored.
        """
        self._check()
        check_labels(y)
        points, y = open_points(self, X, y, sample_weight)
        labels = self._encode(y, len(points))
        weights = self._weights(points, labels, sample_weight)
        boxes = self.C * self.class_weight_[labels] * weights
        pairs = _Pairs(labels, self._pairs())
        programs = pairs.programs(boxes)
        solutions = self._solve(points, programs, pairs.indices)
        self._finish(points, labels, pairs, programs, solutions, weights)
        return self

    def fit_path(
        self, K: Any, y: Any, rows: Any, settings: Any, stop: Callable[[], bool] = lambda: False
    ) -> list[SVC]:
        """Fit machines with several settings to the same rows of a Gram matrix.

        They are clones with these parameters, as if fitted to ``K[rows][:, rows]``, and take whole
        rows of K for new points: ``predict(K[test])``.  No part of K is copied.  Each pair of classes
        is solved for all settings in turn, the smallest C first, starting from the previous solution.
        It is fastest if the rows of K are sorted by class.  At large C a matrix in single precision
        may not admit a small gap; see ``converged_`` and ``dual_gap_``.

        Parameters
        ----------
        K : array of shape (m, m)
            Gram matrix in single or double precision, used as it is.
        y : array of shape (m,)
            Classes of all rows of K.
        rows : array of int
            Rows to fit to.
        settings : sequence of dicts
            Parameters of each machine.
        stop : callable, optional
            Called from time to time; once it returns True, the solver stops with the present
            solutions.

        Returns
        -------
        list of SVC
            In the order of the settings.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_iris
        >>> from mercer.kernels import Gaussian
        >>> from mercer.machines import SVC
        >>> X, y = load_iris(return_X_y=True)
        >>> K, test = Gaussian()(X), np.arange(0, 150, 5)
        >>> train = np.setdiff1d(np.arange(150), test)
        >>> models = SVC().fit_path(K, y, train, [{"C": c} for c in (0.1, 1, 10)])
        >>> [model.score(K[test], y[test]) > 0.9 for model in models]
        [True, True, True]
        """
        points, used = Points("precomputed", K), np.zeros(len(K))
        used[rows] = 1.0
        models = self._with_settings(settings)
        first = models[0]
        first._weigh(y[rows])
        for model in models:
            model._check()
            if model.class_weight == first.class_weight:  # the checks take longer than small fits
                model.classes_, model.class_weight_ = first.classes_, first.class_weight_
            else:
                model._weigh(y[rows])
            model.kernel_, model.n_features_in_ = "precomputed", len(K)
        labels = np.where(used > 0, _numbered(y, first.classes_), -1)
        pairs = _Pairs(labels, first._pairs())
        programs = [pairs.programs(model.C * used * model.class_weight_[labels]) for model in models]
        solutions = solved_in_turn(models, points, programs, pairs.indices, stop)
        for model, own, found in zip(models, programs, solutions, strict=True):
            model._finish(points, labels, pairs, own, found, used)
        return models

    def _with_settings(self, settings: Any) -> list[SVC]:
        """Machines for precomputed matrices with other parameters; clones would be slow."""
        names = _parameter_names(type(self))  # type: ignore[arg-type]
        own, models = {name: getattr(self, name) for name in names}, []
        for setting in settings:
            if not setting.keys() <= own.keys():
                clone(self).set_params(**setting)  # which says what is wrong
            models.append(type(self)(**{**own, **setting, "kernel": "precomputed"}))
        return models

    def _weigh(self, y: Any) -> None:
        """Learn the classes and their weights from unweighted rows."""
        labels = self._number_classes(y)
        self.class_weight_ = self._class_weights(labels, np.ones(len(y)))

    def _check(self) -> None:
        self._check_options(C=self.C)
        if self.decision_function_shape not in ("ovr", "ovo"):
            raise ValueError(
                f"decision_function_shape must be 'ovr' or 'ovo', got {self.decision_function_shape!r}"
            )

    def _encode(self, y: Any, rows: int) -> Index:
        """Integer codes of the classes."""
        if not isinstance(y, np.ndarray) or y.ndim != 1:  # otherwise it takes long, and changes nothing
            y = column_or_1d(y, warn=True)
        if y.dtype.kind not in "biuSU":  # of others it takes longer than a small fit to be sure
            check_classification_targets(y)
        if len(y) != rows:
            raise ValueError(f"X has {rows} points and y {len(y)} labels")
        return self._number_classes(y)

    def _number_classes(self, y: Any) -> Index:
        """Integer codes of the classes, which are learnt."""
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("SVC needs at least two classes, but y holds 1 class")
        return labels

    def _weights(self, points: Points, labels: Index, sample_weight: Any) -> Array:
        weights = check_weights(len(points), sample_weight)
        self.class_weight_ = self._class_weights(labels, weights)
        present = np.unique(labels[weights * self.class_weight_[labels] > 0])
        if len(present) < 2:
            raise ValueError(
                "rows of at least two classes need a positive weight, but "
                f"{'none has one' if not len(present) else 'those that have one are of one class'}"
            )
        return weights

    def _class_weights(self, labels: Index, weights: Array) -> Array:
        """Factors of C; a row of weight two counts as two rows."""
        if not isinstance(self.class_weight, str) or self.class_weight != "balanced":
            return given_factors(self.class_weight, self.classes_, zero=True)
        totals = np.bincount(labels, weights)
        used = totals > 0
        return np.divide(weights.sum(), used.sum() * totals, out=np.ones(len(totals)), where=used)

    def _pairs(self) -> list[tuple[int, int]]:
        """Pairs of classes in libsvm's order; the first is the positive one, or the second of two."""
        classes = len(self.classes_)
        if classes == 2:
            return [(1, 0)]
        return [(i, j) for i in range(classes) for j in range(i + 1, classes)]

    def _finish(
        self,
        points: Points,
        labels: Index,
        pairs: _Pairs,
        programs: list[Program],
        solutions: list[Solution],
        weights: Array,
    ) -> None:
        """Coefficients in libsvm's layout: a column for each support vector, sorted by class."""
        if self.probability:
            self._calibrate(points, programs, pairs.indices, solutions, weights)
        classes = len(self.classes_)
        table = np.zeros((classes - 1, len(points)))
        table[pairs.places, pairs.rows] = np.concatenate([solution.b for solution in solutions])
        used = np.flatnonzero(table.any(axis=0))
        support = used[np.argsort(labels[used], kind="stable")]
        self.n_support_ = np.bincount(labels[support], minlength=classes).astype(np.int32)
        self.dual_coef_ = table[:, support]
        self.intercept_ = np.array([solution.bias for solution in solutions])
        self._keep(points, support)
        self._shorten(points, support)

    def _coefficients(self) -> Array:
        """A column of coefficients for each pair of classes."""
        if len(self.classes_) == 2:
            return self.dual_coef_.T
        owners = np.repeat(np.arange(len(self.classes_)), self.n_support_)
        columns = []
        for i, j in self._pairs():
            column = np.where(owners == i, self.dual_coef_[j - 1], 0.0)
            columns.append(np.where(owners == j, self.dual_coef_[i], column))
        return np.stack(columns, axis=1)

    def _decisions(self, X: Any) -> Array:
        """Decision values of all pairs; positive for the first class of the pair."""
        if not hasattr(self, "dual_coef_"):  # the check takes longer than few decisions
            check_is_fitted(self)
        if isinstance(self.kernel_, str) and len(self.classes_) > 2:
            return self._precomputed_decisions(check_points(self, X)[0])
        return self._values(X) + self.intercept_

    def _precomputed_decisions(self, K: Any) -> Array:
        """Decision values, each support vector only in pairs of its class."""
        from mercer.compiled.machines.decisions import decide

        ends = np.cumsum([0, *self.n_support_])
        values = np.repeat(self.intercept_[None], len(K), axis=0)
        K, coefficients = np.ascontiguousarray(K), np.ascontiguousarray(self.dual_coef_)
        decide(K, self.support_.astype(np.uint64), ends, coefficients, values)
        return values

    def decision_function(self, X: Any) -> Array:
        """Decision values.

        Returns
        -------
        array of shape (m,) for two classes, else (m, n_classes) or, with "ovo", (m, n_pairs)
            Of two classes, positive for the second.
        """
        decisions = self._decisions(X)
        if len(self.classes_) == 2:
            return decisions[:, 0]
        if self.decision_function_shape == "ovo":
            return decisions
        return self._votes(decisions, break_ties=True)

    def _votes(self, decisions: Array, break_ties: bool) -> Array:
        """Votes for each class; sums of decision values in its favour settle ties."""
        first, second = _members(tuple(self._pairs()), len(self.classes_))
        won = decisions > 0
        votes = won @ first + ~won @ second
        if not break_ties:
            return votes
        sums = decisions @ (first - second)
        return votes + sums / (3 * (np.abs(sums) + 1))  # squeezed, so that they change no vote

    def predict(self, X: Any) -> Any:
        """Classes with the most votes; ties go to the first."""
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties=True needs decision_function_shape='ovr'")
        votes = self._votes(self._decisions(X), self.break_ties)
        return self.classes_[votes.argmax(axis=1)]

    def _calibrate(
        self,
        points: Points,
        programs: list[Program],
        indices: list[Any],
        solutions: list[Solution],
        weights: Array,
    ) -> None:
        """Fit a sigmoid to the decision values of held-out rows, for each pair."""
        sources = self._sources(points, indices, self._gram(points))
        sigmoids, alone = [], set()
        for pair, program, index, source, solution in zip(
            self._pairs(), programs, indices, sources, solutions, strict=True
        ):
            rows, positive = source(), program.p > 0
            copies = copies_of(weights[index])
            shares = held_out_shares(program, rows, copies)
            for label, own in zip(pair, (positive, ~positive), strict=True):
                if np.count_nonzero(shares[own].any(axis=0)) == 1:
                    alone.add(label)
            values = out_of_fold(program, rows, shares, solution, self.tol)
            row, part = np.nonzero(shares)
            held_out = weights[index][row] * shares[row, part]
            count = float(copies[shares.any(axis=1)].sum())
            sigmoids.append(fit_sigmoid(values[row, part], positive[row], held_out, count))
        self.sigmoids_ = np.array(sigmoids)
        for label in self.classes_[sorted(alone)].tolist():
            warnings.warn(
                f"probabilities of class {label!r} are little more than its share of the rows: it has "
                "one row, and none is left when it is held out; add rows or drop the class",
                stacklevel=4,
            )

    @available_if(lambda self: self.probability)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes: a sigmoid of each pair's decision value, coupled.

        Returns
        -------
        array of shape (m, n_classes)
        """
        decisions = self._decisions(X)
        first = sigmoid(decisions, self.sigmoids_)
        if len(self.classes_) == 2:
            return np.hstack([1 - first, first])
        return couple(first, len(self.classes_))

    @available_if(lambda self: self.probability)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the probabilities."""
        return np.log(self.predict_proba(X))


class _Pairs:
    """Rows of pairs of classes, one pair after the other.

    Parameters
    ----------
    labels : array of int
        Class of each row; negative for rows that are not used.
    pairs : list of tuples of two classes
    """

    def __init__(self, labels: Index, pairs: list[tuple[int, int]]) -> None:
        #: Rows of each pair, class by class where there are several.
        self.indices: list[Any] = [np.flatnonzero(labels >= 0)]
        if len(pairs) > 1:
            members = [np.flatnonzero(labels == k) for k in range(max(pairs)[1] + 1)]
            self.indices = [np.concatenate([members[i], members[j]]) for i, j in pairs]
        sizes = [len(index) for index in self.indices]
        self._parts = [slice(*ends) for ends in pairwise([0, *np.cumsum(sizes).tolist()])]
        self.rows = np.concatenate(self.indices)
        own, (first, second) = labels[self.rows], np.repeat(pairs, sizes, axis=0).T
        self._positive, other = own == first, first + second - own
        #: Row of the table of coefficients: the other class, not counting one's own.
        self.places = other - (other > own)

    def programs(self, boxes: Array) -> list[Program]:
        """A program for each pair, with coefficients up to the boxes of its rows."""
        joint = separation(self._positive, boxes[self.rows])
        return [Program(joint.p[part], joint.lower[part], joint.upper[part]) for part in self._parts]


@cache
def _parameter_names(kind: Any) -> tuple[str, ...]:
    """Names of the parameters, cached because reading the signature takes as long as a small fit."""
    return tuple(inspect.signature(kind).parameters)


@cache
def _members(pairs: tuple[tuple[int, int], ...], classes: int) -> Any:
    """Matrices with a one for the first and for the second class of each pair."""
    return np.eye(classes)[np.transpose(pairs)]


def _numbered(y: Any, classes: Any) -> Index:
    """Integer codes of labels, -1 for those of no class."""
    places = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    return np.where(classes[places] == y, places, -1)


def separation(positive: Any, boxes: Array) -> Program:
    """The program that separates positive rows from others, with coefficients up to the boxes."""
    return Program(
        p=np.where(positive, 1.0, -1.0),
        lower=np.where(positive, 0.0, -boxes),
        upper=np.where(positive, boxes, 0.0),
    )
