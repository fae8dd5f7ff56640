"""Newton's method on sums over rows, until the duality gap is small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from mercer.machines.certificate import DualObjective
from mercer.machines.landmarks.losses import LossSums, MarginLoss, loss_sums
from mercer.machines.program import Array

#: A hinge that is not sharp enough is made so by this factor once a step promises less than its
#: smoothing costs.
_SHARPER = 0.3
#: A step that does not improve the objective is cut to this part of it.
_SHORTER = 0.25
#: Added to the diagonal of the Hessian, relative to it.
_JITTER = 1e-12
#: Where a search along a step ends: slope, relative to that at its start, and number of trials.
_FLAT, _TRIALS = 0.1, 30


@dataclass(frozen=True, eq=False)
class NewtonState:
    """State of the method.

    Attributes
    ----------
    b : array of shape (M + 1, q)
        Coefficients, with the bias in the last row.
    origin, value : arrays of shape (M + 1, q) and (q,)
        Where the last step came from, and the objective there.
    width : array of shape (q,)
        Of the loss.
    open_outputs : array of shape (q,)
        Whether the gap of an output is still too large.
    passes : int
    """

    b: Array
    origin: Array
    value: Array
    width: Array
    open_outputs: Array
    passes: int

    @classmethod
    def start(cls, size: int, outputs: int) -> NewtonState:
        """Coefficients of zero, and a wide loss."""
        b = np.zeros((size, outputs))
        everywhere = np.ones(outputs, dtype=bool)
        return cls(b, b, np.full(outputs, np.inf), np.ones(outputs), everywhere, 0)


@dataclass(frozen=True, eq=False)
class NewtonSolution:
    """Final state of the method, with the sums there."""

    state: NewtonState
    sums: LossSums
    dual: DualObjective

    @property
    def gaps(self) -> Array:
        """Relative duality gap in the span of the features, of each output."""
        dual = self.dual
        step = np.minimum(1.0, 0.5 * dual.linear / np.maximum(dual.square, 1e-300))
        lower = step * dual.linear - step**2 * dual.square
        return (dual.reached - lower) / np.maximum(dual.reached, 1e-300)


def minimise(
    evaluate: Callable[[NewtonState], LossSums],
    state: NewtonState,
    alpha: float,
    tol: float,
    max_iter: int,
    search: Callable[[NewtonState, Array, float], Array] | None = None,
) -> NewtonSolution:
    """Minimise ``sum w loss + alpha |b|^2`` for each output.

    A loss that is smoothed is made sharper on the way, until that costs less than ``tol``.

    Parameters
    ----------
    evaluate : callable
        From a state to sums over rows: one pass.
    state : NewtonState
        Where to start.
    alpha : float
    tol : float
        Largest relative duality gap.
    max_iter : int
        Most passes.
    search : callable, optional
        How far to go along the step of each output; one without.
    """
    while True:
        sums = evaluate(state)
        state = replace(state, passes=state.passes + 1)
        found = NewtonSolution(state, sums, sums.dual_objective(state.b, alpha))
        still = np.logical_and(state.open_outputs, found.gaps > tol)
        if not still.any() or state.passes >= max_iter:
            return found
        value = sums.objective(state.b, alpha)
        worse = still & (value > state.value + _JITTER * np.abs(value))
        better = still & ~worse
        step, path, promised = _newton_step(sums, state.b, alpha, better)
        wide = sums.excess > 0.5 * tol * found.dual.reached
        sharper = better & wide & (promised < sums.excess)
        step += np.where(sharper, (_SHARPER - 1) * path, 0.0)
        state = replace(
            state,
            origin=np.where(worse, state.origin, state.b),
            value=np.where(worse, state.value, value),
            width=np.where(sharper, _SHARPER * state.width, state.width),
            open_outputs=still,
        )
        if search is not None:
            step *= search(state, step, alpha)
        shorter = state.origin + _SHORTER * (state.b - state.origin)
        state = replace(state, b=np.where(worse, shorter, state.b + step))


def _newton_step(
    sums: LossSums, b: Array, alpha: float, outputs: NDArray[np.bool_]
) -> tuple[Array, Array, Array]:
    """The step of some outputs, how their minima move with log(width), and the predicted gain."""
    gradient = sums.gradient(b, alpha)
    both = np.zeros((2, *b.shape))
    for k in np.flatnonzero(outputs):
        A = regular_hessian(sums.hessian[k], alpha)
        right = np.column_stack([-gradient[:, k], sums.drift[:, k]])
        try:
            both[:, :, k] = cho_solve(cho_factor(A, check_finite=False), right).T
        except LinAlgError:  # no row is near its margin, and the bias is free
            both[:, :, k] = np.linalg.lstsq(A, right, rcond=None)[0].T
    step, path = both
    return step, path, -0.5 * (gradient * step).sum(axis=0)


def regular_hessian(hessian: Array, alpha: float) -> Array:
    """The Hessian of the objective of an output; the bias is not penalised."""
    A = hessian.copy()
    main = np.diag_indices_from(A)
    A[main] += 2 * alpha
    A[-1, -1] += _JITTER * A[main].max() - 2 * alpha
    return A


@dataclass(frozen=True, eq=False)
class RowsInMemory:
    """Features with a column of ones, signs and weights of some rows."""

    phi: Array
    y: Array
    w: Array
    loss: type[MarginLoss]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of features, and of outputs."""
        return self.phi.shape[1], self.y.shape[1]

    def sums(self, state: NewtonState) -> LossSums:
        """Sums over these rows."""
        loss = self.loss(state.width)
        return loss_sums(loss, self.phi, self.y, self.w, state.b, state.open_outputs)

    def search(self, state: NewtonState, step: Array, alpha: float) -> Array:
        """How far to go along the step of each output: where the objective is almost flat.

        A Newton iteration for its slope, by bisection where that leaves the bracket.
        """
        z, along = self.y * (self.phi @ state.b), self.y * (self.phi @ step)
        square = 2 * alpha * (step[:-1] ** 2).sum(axis=0)
        start = 2 * alpha * (state.b[:-1] * step[:-1]).sum(axis=0)
        length, low, high = np.ones(len(square)), np.zeros(len(square)), np.full(len(square), np.inf)
        steep = _FLAT * np.abs(self._slopes(state.width, z, along)[0] + start)
        for _ in range(_TRIALS):
            slope, curvature = self._slopes(state.width, z + length * along, along)
            slope, curvature = slope + start + length * square, curvature + square
            flat = np.abs(slope) <= steep
            if flat.all():
                break
            low, high = np.where(slope < 0, length, low), np.where(slope > 0, length, high)
            following = length - slope / np.maximum(curvature, 1e-300)
            halfway = np.where(np.isinf(high), 2 * length, 0.5 * (low + high))
            inside = (low < following) & (following < high)
            length = np.where(flat, length, np.where(inside, following, halfway))
        return length

    def _slopes(self, width: Array, z: Array, along: Array) -> tuple[Array, Array]:
        """First and second derivatives of the sum of losses, where margins move along a direction."""
        terms = self.loss(width).terms(z)
        return -self.w @ (terms.slope * along), self.w @ (terms.curvature * along**2)
