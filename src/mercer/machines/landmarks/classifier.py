"""Classification on landmarks, by squared loss or losses of margins."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from mercer._validation import check_choice, check_positive, is_whole
from mercer.machines.landmarks.base import LandmarkMachine
from mercer.machines.landmarks.features import Sample
from mercer.machines.landmarks.losses import MARGIN_LOSSES, LossPass, LossSums, MarginLoss
from mercer.machines.landmarks.newton import (
    NewtonSolution,
    NewtonState,
    RowsInMemory,
    minimise,
    regular_hessian,
    solved,
)
from mercer.machines.landmarks.ridge import RidgeSums
from mercer.machines.probability import copies_of, fit_sigmoid
from mercer.machines.program import Array
from mercer.rows import Block, RowSource
from mercer.rows.checkpoint import Checkpoint
from mercer.rows.labels import ClassWeightedRows, LabelTally, signs
from mercer.rows.statistics import Statistics, weights_of

#: Largest number of Newton steps on the sample.
_STEPS = 100
#: Smallest width of the hinge where rows are left out.
_CALIBRATION = 0.1


class LandmarkClassifier(ClassifierMixin, LandmarkMachine):
    """Classification with functions spanned by the kernel at landmarks, for any number of rows.

    For two classes, with signs y of 1 and -1, the machine minimises
    ``P = sum_i w_i loss(y_i (f(x_i) + bias)) + alpha |f|^2`` over ``f = sum_j c_j k(z_j, .)``.  With
    several classes, each is separated from the rest.  Landmarks are chosen and rows summed up as in
    :class:`LandmarkRegressor`.

    The squared loss ``(1 - z)^2`` takes one pass for all classes.  The logistic loss,
    ``log(1 + exp(-z))``, the squared hinge loss, ``max(0, 1 - z)^2``, and the hinge loss,
    ``max(0, 1 - z)``, take further ones: Newton steps, each of which sums up a matrix for each class,
    first on the sample of landmarks and then on all rows (if these are more), until the relative duality
    gap among functions of the landmarks is at most ``tol``.  The matrices need only rows within their
    margin for squared hinge loss, and only those near it, which are few, for hinge loss.
    In both hinge losses ``max(0, 1 - z)`` is smoothed by ``h log(1 + exp((1 - z) / h))`` with a width h
    that shrinks on the way; the gap is that of the loss itself.  ``SVC(kernel, C)``, and with squared
    hinge loss scikit-learn's ``LinearSVC(C)``, have ``alpha = 1 / (2 C)``.

    Cost for m rows, M landmarks and q classes: ``m M`` kernel values and ``O(m M^2)`` operations in
    the first pass, at most ``O(q m M^2)`` in each later one; memory for ``q M^2`` numbers and up to six
    times the features of the sample, which has ``max(10 M, 10000)`` rows.

    Parameters
    ----------
    kernel : Kernel, callable, "rbf" or "linear"
    n_landmarks : int or "auto"
    alpha : float or "auto"
        Weight of the squared norm; "auto" with squared loss only.
    loss : "squared", "logistic", "squared_hinge" or "hinge"
    scale : float, optional
    class_weight : dict or "balanced", optional
        Factors of the weights of rows, as in scikit-learn; probabilities are those of the weighted rows.
    tol : float
        Largest relative duality gap, of losses other than the squared one.
    max_iter : int
        Largest number of Newton steps on all rows, for losses other than the squared one.
    random_state : int, RandomState or None
        See :class:`LandmarkRegressor` for parameters that are not described here.

    Attributes
    ----------
    classes_, class_weight_ : arrays of shape (q,)
    alpha_ : float
    landmarks_ : points
    dual_coef_ : array of shape (M,) or (M, q)
        Coefficients c for the second of two classes, or for each class.
    intercept_ : array of shape (1,) or (q,)
        Biases.
    kernel_ : Kernel
        The kernel, with what it learnt from the sample.
    dual_gap_ : float
        Relative duality gap among functions of the landmarks; 0 for squared loss.
    n_iter_ : int
        Newton steps on all rows.
    objective_, bounds_, certificate_, statistics_
        See :class:`LandmarkRegressor`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from mercer.kernels import Heat
    >>> from mercer.machines import LandmarkClassifier
    >>> from mercer.spaces import Simplex
    >>> X, y = load_digits(return_X_y=True)
    >>> kernel = Heat(Simplex())
    >>> model = LandmarkClassifier(kernel, 200, alpha=0.1, scale=0.1, random_state=0)
    >>> bool(model.fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.94)
    True
    >>> model.predict_proba(X[1000:]).shape
    (797, 10)
    """

    _kept: ClassVar[tuple[type, ...]] = (Statistics, LabelTally, LossSums, NewtonState)

    def __init__(
        self,
        kernel: Any = "rbf",
        n_landmarks: Any = 1000,
        alpha: float | str = 1.0,
        *,
        loss: str = "squared",
        scale: float | None = None,
        class_weight: Any = None,
        tol: float = 1e-3,
        max_iter: int = 100,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.n_landmarks = n_landmarks
        self.alpha = alpha
        self.loss = loss
        self.scale = scale
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def _validate(self) -> None:
        super()._validate()
        check_choice(self, "loss", ("squared", *MARGIN_LOSSES))
        check_positive(self, "tol")
        if isinstance(self.alpha, str) and self.loss != "squared":
            raise ValueError(f"alpha='auto' goes with loss='squared', not with loss={self.loss!r}")
        if not is_whole(self.max_iter) or self.max_iter < 1:
            raise ValueError(f"max_iter must be a whole number of at least 1, got {self.max_iter!r}")

    def _tallied(self, rows: RowSource, kept: Checkpoint) -> RowSource:
        if not rows.repeatable:
            raise ValueError(
                "LandmarkClassifier passes over the rows several times, but an iterator can be read "
                "only once; give a list of blocks, ParquetBlocks or arrays"
            )
        tally = rows.total(LabelTally.of, "labels", kept, "labels")
        tally.check()
        self.classes_, self.class_weight_ = tally.labels, tally.factors(self.class_weight)
        return self._weighted(rows)

    def _weighted(self, rows: RowSource) -> RowSource:
        if self.class_weight is None:
            return rows
        return ClassWeightedRows(rows, self.classes_, self.class_weight_)

    def _sum_up(self, rows: RowSource, kept: Checkpoint) -> Sample:
        return self._collect(rows, kept, self._signs)

    def _solve(self, sums: RidgeSums, rows: RowSource, sample: Sample, kept: Checkpoint) -> None:
        self.alpha_ = self._alpha(sums)
        if self.loss == "squared":
            self._solve_squares(sums, sample)
        else:
            self._solve_margins(rows, sample, kept)

    @property
    def _bias(self) -> bool:
        return True

    @property
    def _margin_loss(self) -> type[MarginLoss]:
        return MARGIN_LOSSES[self.loss]

    @property
    def _signs(self) -> Callable[[Block], Array]:
        return partial(signs, self.classes_)

    def _keep(self, b: Array, bias: Array) -> None:
        coefficients = self._whitening.T @ b
        self.dual_coef_ = coefficients[:, 0] if len(self.classes_) == 2 else coefficients
        self.intercept_ = bias

    def _solve_squares(self, sums: RidgeSums, sample: Sample) -> None:
        """All classes from one decomposition, and sigmoids from the rows of the sample left out."""
        found = sums.solve(self.alpha_)
        self._keep(found.coefficients, found.bias)
        self.dual_gap_, self.n_iter_ = 0.0, 1
        self._state(found.dual, found.left_out)
        y, (w, _) = self._signs(sample.block), self._copies(sample.block)
        residuals = y - sample.phi @ found.coefficients - found.bias
        shares = w * (sums.leverages(sample.phi, self.alpha_) + 1 / self.statistics_.weight)
        self._calibrate(y - residuals / np.maximum(1 - shares, 1e-6)[:, None], sample.block)

    def _calibrate_margins(self, state: NewtonState, rows: RowsInMemory, sample: Block) -> None:
        """Sigmoids from leave-one-out values of the sample, each by one Newton step.

        Removing a row of weight w, slope s and curvature c reduces the Hessian H by ``w c phi phi'`` and
        changes the row's own value by ``w s h / (1 - w c h)`` with ``h = phi' H^-1 phi``.  The loss is
        smooth enough that not only rows at the margin count in H.
        """
        wide = replace(
            state,
            width=np.maximum(state.width, _CALIBRATION),
            open_outputs=np.ones_like(state.open_outputs),
        )
        hessians = [regular_hessian(H, self.alpha_) for H in rows.sums(wide).hessian]
        own, w = rows.phi @ state.b, self._copies(sample)[0][:, None]
        terms = rows.loss(wide.width).terms(rows.y * own)
        inverses = (solved(H, rows.phi.T) for H in hessians)  # one at a time in memory
        h = np.column_stack([np.einsum("ij,ji->i", rows.phi, part) for part in inverses])
        left = np.maximum(1 - w * terms.curvature * h, 1e-6)
        self._calibrate(own - rows.y * w * terms.slope * h / left, sample)

    def _calibrate(self, values: Array, sample: Block) -> None:
        """Sigmoids of leave-one-out decision values of the sample."""
        weights, positive = weights_of(sample), self._signs(sample) > 0
        rows = float(self._copies(sample)[1].sum())
        outputs = zip(values.T, positive.T, strict=True)
        self.sigmoids_ = np.array([fit_sigmoid(own, side, weights, rows) for own, side in outputs])

    def _copies(self, sample: Block) -> tuple[Array, Array]:
        """Weight of one of the equal rows that each row stands for, and their number."""
        w = weights_of(sample)
        copies = copies_of(w / self.class_weight_[np.searchsorted(self.classes_, sample.labels())])
        return w / copies, copies

    def _solve_margins(self, rows: RowSource, sample: Sample, kept: Checkpoint) -> None:
        """Newton steps: first on the sample, then on all rows."""
        features, options = self._features, (self.alpha_, float(self.tol))
        few = self._in_memory(sample)

        def one_pass(state: NewtonState) -> tuple[NewtonState, LossSums]:
            kept.results["state"] = state
            loss = self._margin_loss(state.width)
            job = LossPass(features, self._signs, loss, state.b, state.origin, state.open_outputs)
            sums: LossSums = rows.total(job, "rows", kept, "sums")
            del kept.results["sums"]
            return state, sums

        in_memory = partial(few.best_sums, alpha=self.alpha_)
        start = NewtonState.start(*few.shape, self._margin_loss.first_width)
        if sample.complete:
            solution = minimise(in_memory, start, *options, int(self.max_iter))
        else:
            if "state" not in kept.results:
                # A sharp hinge would follow the rows of the sample too closely.
                b = minimise(in_memory, start, *options, _STEPS, sharpen=False).state.b
                kept.keep("state", replace(start, b=b, origin=b))
            solution = minimise(one_pass, kept.results["state"], *options, int(self.max_iter))
        self._finish(solution)
        if self.loss != "logistic":
            self._calibrate_margins(solution.state, few, sample.block)

    def _in_memory(self, sample: Sample) -> RowsInMemory:
        """Features of the sample, whose weights stand for those of all rows."""
        phi = np.column_stack([sample.phi, np.ones(len(sample.phi))])
        y, w = self._signs(sample.block), weights_of(sample.block)
        return RowsInMemory(phi, y, w * (self.statistics_.weight / w.sum()), self._margin_loss)

    def _finish(self, found: NewtonSolution) -> None:
        self._keep(found.state.b[:-1], found.state.b[-1])
        self._width, self._sides = found.state.width, found.sums.balance
        self.dual_gap_, self.n_iter_ = float(found.gaps.max()), found.state.passes
        squares = (self._sides**2 * found.sums.squares).sum(axis=0)
        self._state(found.dual, float(self.statistics_.rest[0]) * squares)
        if self.dual_gap_ > self.tol:
            warnings.warn(
                f"LandmarkClassifier stopped after {self.n_iter_} steps with a relative duality gap of "
                f"{self.dual_gap_:.2g}, above tol={self.tol:g}; raise max_iter, tol or alpha",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _dual(self, block: Block) -> Array:
        y, w = self._signs(block), weights_of(block)[:, None]
        values = self._values(block.X) + self.intercept_
        if self.loss == "squared":
            return w * (y - values) / self.alpha_
        slopes = self._margin_loss(self._width).terms(y * values).slope
        return w * y * slopes * np.where(y > 0, *self._sides)

    def decision_function(self, X: Any) -> Any:
        """Values of f plus bias for the second of two classes, or for each class; (m,) or (m, q)."""
        check_is_fitted(self)
        wide = () if len(self.classes_) == 2 else (len(self.classes_),)
        return self._apply("_decisions", X, (float, *wide))

    def _decisions(self, X: Any) -> Array:
        values = self._values(self._points(X)) + self.intercept_
        return values[:, 0] if len(self.classes_) == 2 else values

    def predict(self, X: Any) -> Any:
        """The class with the largest decision value."""
        check_is_fitted(self)
        return self._apply("_classes", X, (self.classes_.dtype,))

    def _classes(self, X: Any) -> Any:
        values = self._decisions(X)
        return self.classes_[(values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)]

    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the classes, shape (m, q).

        For logistic loss they are those of the model.  For other losses they are a sigmoid of decision
        values, fitted to leave-one-out values of the sample: exact ones for squared loss, by one Newton
        step for hinge losses.  Half of a row of weight two is left out, as if it were two equal rows; if
        weights are not whole numbers, all of it is left out.  Probabilities of several classes are
        divided by their sum.  Near the boundary the most probable class may differ from the predicted
        one.
        """
        check_is_fitted(self)
        return self._apply("_probabilities", X, (float, len(self.classes_)))

    def predict_log_proba(self, X: Any) -> Any:
        """Logarithms of the probabilities."""
        return np.log(self.predict_proba(X))

    def _probabilities(self, X: Any) -> Array:
        values = self._values(self._points(X)) + self.intercept_
        if self.loss != "logistic":
            values = values * self.sigmoids_[:, 0] + self.sigmoids_[:, 1]
        p = expit(values)
        if len(self.classes_) == 2:
            return np.hstack([expit(-values), p])
        # Where all are zero by rounding, the least unlikely class is certain.
        p = np.where(p.sum(axis=1, keepdims=True) > 0, p, values == values.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)
