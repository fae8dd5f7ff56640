"""Newton's method on sums over rows, until the duality gap is small."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from mercer.machines.certificate import DualObjective
from mercer.machines.landmarks.losses import LossSums, MarginLoss, loss_sums
from mercer.machines.program import Array

#: A hinge that is not sharp enough is made so by this factor once a step promises less than this part
#: of what its smoothing costs.
_SHARPER, _PART = 0.3, 0.1
#: A step that does not improve the objective is cut to this part of it.
_SHORTER = 0.25
#: Added to the diagonal of the Hessian, relative to it.
_JITTER = 1e-12


@dataclass(frozen=True, eq=False)
class NewtonState:
    """Where the method is.

    Attributes
    ----------
    b : array of shape (M + 1, q)
        Coefficients, with the bias in the last row.
    origin, value : arrays of shape (M + 1, q) and (q,)
        Where the last step came from, and the objective there.
    width : float
        Of the loss.
    passes : int
    """

    b: Array
    origin: Array
    value: Array
    width: float
    passes: int

    @classmethod
    def start(cls, size: int, outputs: int) -> NewtonState:
        """Coefficients of zero, and a wide loss."""
        b = np.zeros((size, outputs))
        return cls(b, b, np.full(outputs, np.inf), 1.0, 0)


@dataclass(frozen=True, eq=False)
class NewtonSolution:
    """Where the method ended, with the sums there."""

    state: NewtonState
    sums: LossSums
    dual: DualObjective

    @property
    def gap(self) -> float:
        """Relative duality gap in the span of the features, the largest of all outputs."""
        return relative_gap(self.dual)


def relative_gap(dual: DualObjective) -> float:
    """Relative duality gap in the span of the features, the largest of all outputs."""
    step = np.minimum(1.0, 0.5 * dual.linear / np.maximum(dual.square, 1e-300))
    lower = step * dual.linear - step**2 * dual.square
    return float(((dual.reached - lower) / np.maximum(dual.reached, 1e-300)).max())


def minimise(
    evaluate: Callable[[NewtonState], LossSums],
    state: NewtonState,
    hinge: bool,
    alpha: float,
    tol: float,
    max_iter: int,
) -> NewtonSolution:
    """Minimise ``sum w loss + alpha |b|^2`` for each output.

    Parameters
    ----------
    evaluate : callable
        From a state to sums over rows: one pass.
    state : NewtonState
        Where to start.
    hinge : bool
        Hinge loss, which is made sharper on the way, or logistic loss.
    alpha : float
    tol : float
        Largest relative duality gap.
    max_iter : int
        Most passes.
    """
    while True:
        sums = evaluate(state)
        state = replace(state, passes=state.passes + 1)
        found = NewtonSolution(state, sums, sums.dual_objective(state.b, alpha))
        if found.gap <= tol or state.passes >= max_iter:
            return found
        value = sums.objective(state.b, alpha)
        worse = value > state.value + _JITTER * np.abs(value)
        if worse.any():
            shorter = state.origin + _SHORTER * (state.b - state.origin)
            state = replace(state, b=np.where(worse, shorter, state.b))
            continue
        step, promised = _newton_step(sums, state.b, alpha)
        wide = sums.excess > 0.5 * tol * found.dual.reached
        sharper = hinge and wide.any() and (promised[wide] < _PART * sums.excess[wide]).all()
        width = state.width * (_SHARPER if sharper else 1.0)
        state = replace(state, b=state.b + step, origin=state.b, value=value, width=width)


def _newton_step(sums: LossSums, b: Array, alpha: float) -> tuple[Array, Array]:
    """The step of each output, and what it promises to improve."""
    gradient = sums.gradient(b, alpha)
    step = np.empty_like(b)
    for k, A in enumerate(regular_hessians(sums, alpha)):
        try:
            step[:, k] = -cho_solve(cho_factor(A, check_finite=False), gradient[:, k])
        except LinAlgError:  # no row is near its margin, and the bias is free
            step[:, k] = -np.linalg.lstsq(A, gradient[:, k], rcond=None)[0]
    return step, -0.5 * (gradient * step).sum(axis=0)


def regular_hessians(sums: LossSums, alpha: float) -> Iterator[Array]:
    """The Hessian of the objective of each output; the bias is not penalised."""
    for hessian in sums.hessian:
        A = hessian.copy()
        main = np.diag_indices_from(A)
        A[main] += 2 * alpha
        A[-1, -1] += _JITTER * A[main].max() - 2 * alpha
        yield A


@dataclass(frozen=True, eq=False)
class RowsInMemory:
    """Features with a column of ones, signs and weights of some rows."""

    phi: Array
    y: Array
    w: Array
    hinge: bool

    def sums(self, state: NewtonState) -> LossSums:
        """Sums over these rows."""
        return loss_sums(MarginLoss(self.hinge, state.width), self.phi, self.y, self.w, state.b)
