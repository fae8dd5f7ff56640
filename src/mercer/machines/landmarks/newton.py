"""Newton's method on sums over rows, until the duality gap is small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from mercer.machines.certificate import DualObjective
from mercer.machines.landmarks.losses import LENGTHS, LossSums, MarginLoss, loss_slopes, loss_sums
from mercer.machines.program import Array

#: A hinge is sharpened by this factor once a step promises less than this part of what its smoothing
#: costs: near the path of minima full steps succeed.
_SHARPER, _NEAR_PATH = 0.5, 0.1
#: A step is too long where the objective rises at its end by more than this part of its first slope.
_FLAT = 0.5
#: Added to the diagonal of the Hessian, relative to it.
_JITTER = 1e-12


@dataclass(frozen=True, eq=False)
class NewtonState:
    """State of the method.

    Attributes
    ----------
    b : array of shape (M + 1, q)
        Coefficients, with the bias in the last row.
    origin : array of shape (M + 1, q)
        Where the last step came from.
    width : array of shape (q,)
        Width of the loss.
    open_outputs : array of shape (q,)
        Whether the gap of an output is still too large.
    passes : int
    """

    b: Array
    origin: Array
    width: Array
    open_outputs: Array
    passes: int

    @classmethod
    def start(cls, size: int, outputs: int, width: float) -> NewtonState:
        """Coefficients of zero."""
        b = np.zeros((size, outputs))
        return cls(b, b, np.full(outputs, width), np.ones(outputs, dtype=bool), 0)


@dataclass(frozen=True, eq=False)
class NewtonSolution:
    """Final state of the method, with the sums there."""

    state: NewtonState
    sums: LossSums
    dual: DualObjective

    @property
    def gaps(self) -> Array:
        """Relative duality gap in the span of the features, of each output."""
        reached = self.dual.reached
        return (reached - self.dual.bound()) / np.maximum(reached, 1e-300)


def minimise(
    evaluate: Callable[[NewtonState], tuple[NewtonState, LossSums]],
    state: NewtonState,
    alpha: float,
    tol: float,
    max_iter: int,
    sharpen: bool = True,
) -> NewtonSolution:
    """Minimise ``sum w loss + alpha |b|^2`` for each output.

    A loss that is smoothed is made sharper on the way, until that costs less than ``tol``.  A step that
    is too long is cut where the objective is least: sums over rows at its end tell where that is.

    Parameters
    ----------
    evaluate : callable
        From a state to sums over rows, one pass, and the state that they are at.
    state : NewtonState
        Where to start.
    alpha : float
    tol : float
        Largest relative duality gap.
    max_iter : int
        Largest number of passes.
    sharpen : bool
        Whether to go on from the minimum of a loss that is smoothed to that of the loss itself.
    """
    while True:
        state, sums = evaluate(state)
        state = replace(state, passes=state.passes + 1)
        found = NewtonSolution(state, sums, sums.dual_objective(state.b, alpha))
        smoothing = sums.excess / np.maximum(found.dual.reached, 1e-300)
        gaps = found.gaps if sharpen else found.gaps - smoothing
        still = np.logical_and(state.open_outputs, gaps > tol)
        if not still.any() or state.passes >= max_iter:
            return found
        length = step_length(sums.slopes, state, alpha)
        shorter = still & (length < 1)
        back = state.origin + length * (state.b - state.origin)
        step, path, promised = _newton_step(sums, state.b, alpha, still & ~shorter)
        near_path = promised < _NEAR_PATH * sums.excess
        sharper = sharpen & still & ~shorter & near_path & (smoothing > 0.5 * tol)
        step += np.where(sharper, (_SHARPER - 1) * path, 0.0)
        state = replace(
            state,
            b=np.where(shorter, back, state.b + step),
            origin=np.where(shorter, back, state.b),
            width=np.where(sharper, _SHARPER * state.width, state.width),
            open_outputs=still,
        )


def step_length(slopes: Array, state: NewtonState, alpha: float) -> Array:
    """The part of each output's step where the objective is least; one where it is almost flat there.

    ``slopes`` are those of the losses at the parts LENGTHS of the step.
    """
    start, step = state.origin[:-1], state.b[:-1] - state.origin[:-1]
    inner, square = (start * step).sum(axis=0), (step**2).sum(axis=0)
    slopes = slopes + 2 * alpha * (inner + LENGTHS[:, None] * square)
    length = np.ones(slopes.shape[1])
    for k in np.flatnonzero(slopes[-1] > _FLAT * np.abs(slopes[0])):
        after = int(np.argmax(slopes[:, k] > 0))
        # Slopes rise along a step: the root is between those of different signs.
        part = slice(max(after - 1, 0), after + 1)
        length[k] = np.interp(0.0, slopes[part, k], LENGTHS[part])
    return length


def _newton_step(
    sums: LossSums, b: Array, alpha: float, outputs: NDArray[np.bool_]
) -> tuple[Array, Array, Array]:
    """The step of some outputs, how their minima move with log(width), and the predicted gain."""
    gradient = sums.gradient(b, alpha)
    both = np.zeros((2, *b.shape))
    for k in np.flatnonzero(outputs):
        A = regular_hessian(sums.hessian[k], alpha)
        right = np.column_stack([-gradient[:, k], sums.drift[:, k]])
        both[:, :, k] = solved(A, right).T
    step, path = both
    return step, path, -0.5 * (gradient * step).sum(axis=0)


def solved(A: Array, right: Array) -> Array:
    """``A^-1 right``; the shortest solution if A is singular, as where no row is near its margin."""
    try:
        return np.asarray(cho_solve(cho_factor(A, check_finite=False), right), dtype=float)
    except LinAlgError:
        return np.asarray(np.linalg.lstsq(A, right, rcond=None)[0], dtype=float)


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
        return loss_sums(loss, self.phi, self.y, self.w, state.b, state.origin, state.open_outputs)

    def best_sums(self, state: NewtonState, alpha: float) -> tuple[NewtonState, LossSums]:
        """Sums where the objective is least on the way to a state, and the state there."""
        y, phi = self.y, self.phi
        slopes = loss_slopes(self.loss(state.width), phi, y, self.w, state.b, state.origin)
        b = state.origin + step_length(slopes, state, alpha) * (state.b - state.origin)
        state = replace(state, b=b, origin=b)
        return state, self.sums(state)
