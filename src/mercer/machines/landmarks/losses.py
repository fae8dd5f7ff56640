"""Losses of margins, and their sums over rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from mercer._arrays import filled, on_cpu, placed, taken
from mercer.machines.certificate import DualObjective
from mercer.machines.landmarks.features import LandmarkFeatures
from mercer.machines.program import Array
from mercer.rows import Block
from mercer.rows.statistics import weights_of

#: Rows with a smaller curvature times width are far from the bend of the loss and ignored in the
#: Hessian.
_NEAR = 1e-12
#: Parts of a step at which slopes are summed: the objective is least between two of them.
LENGTHS = np.array([0.0, *np.geomspace(2.0**-10, 1.0, 16)])


class Terms(NamedTuple):
    """A loss at margins z: its value, and the smoothed loss that is minimised, with derivatives.

    ``slope`` is minus the first derivative, a dual coefficient; ``dual`` is its contribution to the
    dual objective, and ``excess`` that to the duality gap at the minimum.  ``drift`` is the derivative
    of the slope with respect to the logarithm of the width.
    """

    value: Any
    smooth: Any
    slope: Any
    curvature: Any
    dual: Any
    excess: Any
    drift: Any


@dataclass(frozen=True)
class MarginLoss(ABC):
    """A convex loss of margins with a width h, which may differ between outputs.

    Parameters
    ----------
    width : float or array of shape (q,)
        How far the loss is smoothed around its kink; ignored by losses without one.
    """

    width: Any = 1.0
    #: Where the width starts.
    first_width: ClassVar[float] = 1.0

    @abstractmethod
    def terms(self, z: Any) -> Terms:
        """The loss at an array of margins."""

    @abstractmethod
    def slope(self, z: Any) -> Any:
        """Minus the first derivative alone."""


class LogisticLoss(MarginLoss):
    """``log(1 + exp(-z))``."""

    def terms(self, z: Any) -> Terms:
        """The loss at an array of margins."""
        smooth, slope, curvature = _softplus(-z)
        return Terms(smooth, smooth, slope, curvature, smooth + slope * z, 0 * z, 0 * z)

    def slope(self, z: Any) -> Any:
        """Minus the first derivative alone."""
        return _sigmoid(-z)[0]


class HingeLoss(MarginLoss):
    """``max(0, 1 - z)``, smoothed by ``h log(1 + exp((1 - z) / h))``."""

    def terms(self, z: Any) -> Terms:
        """The loss at an array of margins."""
        width = placed(self.width, z)
        u, value = (1 - z) / width, _positive(1 - z)
        smooth, slope, curvature = _softplus(u)
        excess, drift = value - slope * (1 - z), -curvature * u
        return Terms(value, width * smooth, slope, curvature / width, slope, excess, drift)

    def slope(self, z: Any) -> Any:
        """Minus the first derivative alone."""
        return _sigmoid((1 - z) / placed(self.width, z))[0]


class SquaredHingeLoss(MarginLoss):
    """``max(0, 1 - z)^2``, smoothed by the square of what smooths the hinge.

    Its second derivative jumps at 1, and Newton steps would chase rows from one side to the other.
    """

    first_width = 0.1

    def terms(self, z: Any) -> Terms:
        """The loss at an array of margins."""
        width = placed(self.width, z)
        u, value = (1 - z) / width, _positive(1 - z) ** 2
        smooth, rise, bend = _softplus(u)
        short = width * smooth
        slope, curvature = 2 * short * rise, 2 * (rise**2 + smooth * bend)
        excess = value - slope * (1 - z) + slope**2 / 4
        drift = 2 * rise * (short - (1 - z) * rise) - 2 * short * u * bend
        return Terms(value, short**2, slope, curvature, slope - slope**2 / 4, excess, drift)

    def slope(self, z: Any) -> Any:
        """Minus the first derivative alone."""
        width = placed(self.width, z)
        smooth, rise, _ = _softplus((1 - z) / width)
        return 2 * width * smooth * rise


#: Losses that take Newton steps.
MARGIN_LOSSES: dict[str, type[MarginLoss]] = {
    "logistic": LogisticLoss,
    "squared_hinge": SquaredHingeLoss,
    "hinge": HingeLoss,
}


def _positive(u: Any) -> Any:
    """The positive part."""
    xp = array_namespace(u)
    return xp.where(u > 0, u, xp.zeros_like(u))


def _sigmoid(u: Any) -> tuple[Any, Any]:
    """``1 / (1 + exp(-u))``, and ``exp(-|u|)``."""
    xp = array_namespace(u)
    small = xp.exp(-xp.abs(u))
    return xp.where(u >= 0, 1 / (1 + small), small / (1 + small)), small


def _softplus(u: Any) -> tuple[Any, Any, Any]:
    """``log(1 + exp(u))`` with its first and second derivative."""
    slope, small = _sigmoid(u)
    return _positive(u) + array_namespace(u).log1p(small), slope, small / (1 + small) ** 2


@dataclass(frozen=True, eq=False)
class LossSums:
    """Sums over rows with features phi (the last is one, for the bias) and signs y, of each output.

    Attributes
    ----------
    values, smooth, excess : arrays of shape (q,)
        Of the loss, of the smoothed loss, and of its contribution to the duality gap.
    dual, squares : arrays of shape (2, q)
        Of the dual terms and of squared slopes, for positive and for negative rows.
    linear : array of shape (2, M + 1, q)
        Of slopes times phi, for positive and for negative rows.
    drift : array of shape (M + 1, q)
        Of derivatives, with respect to the logarithm of the width, of slopes times ``y phi``.
    hessian : array of shape (q, M + 1, M + 1)
        Of curvatures times ``phi phi'``, of the outputs that are still open.
    slopes : array of shape (L, q)
        Of derivatives of the loss along the last step, at the parts LENGTHS of it.
    """

    values: Array
    smooth: Array
    excess: Array
    dual: Array
    squares: Array
    linear: Array
    drift: Array
    hessian: Array
    slopes: Array

    def __add__(self, other: LossSums) -> LossSums:
        parts = (getattr(self, f.name) + getattr(other, f.name) for f in fields(self))
        return LossSums(*parts)

    def objective(self, b: Array, alpha: float) -> Array:
        """The objective ``sum w loss + alpha |b|^2``; the bias is the last row of b."""
        return self.smooth + alpha * (b[:-1] ** 2).sum(axis=0)

    def gradient(self, b: Array, alpha: float) -> Array:
        """Its gradient."""
        found = self.linear[1] - self.linear[0] + 2 * alpha * b
        found[-1] -= 2 * alpha * b[-1]
        return found

    @property
    def balance(self) -> Array:
        """Factors of the slopes of positive and of negative rows that make their sums equal."""
        totals = self.linear[:, -1]
        return np.minimum(1.0, totals[::-1] / np.maximum(totals, 1e-300))

    def dual_objective(self, b: Array, alpha: float) -> DualObjective:
        """The objective that was reached, and the dual objective of the balanced slopes."""
        sides = self.balance
        inside = sides[0] * self.linear[0, :-1] - sides[1] * self.linear[1, :-1]
        reached = self.values + alpha * (b[:-1] ** 2).sum(axis=0)
        linear, square = (sides * self.dual).sum(axis=0), (inside**2).sum(axis=0) / (4 * alpha)
        return DualObjective(reached, linear, square, 1 / (4 * alpha))


def loss_sums(
    loss: MarginLoss, phi: Any, y: Any, w: Any, b: Any, origin: Any, open_outputs: Array
) -> LossSums:
    """Sums over a few rows, where they live, after a step from ``origin`` to ``b``."""
    xp = array_namespace(phi)
    terms = loss.terms(y * (phi @ b))
    sides = [xp.astype(sign * y > 0, phi.dtype) * w[:, None] for sign in (1, -1)]
    hessian = filled((y.shape[1], b.shape[0], b.shape[0]), 0.0, phi)
    near = terms.curvature * placed(loss.width, phi) > _NEAR
    for k in np.flatnonzero(open_outputs):
        hessian[k] = _curved(phi, w * terms.curvature[:, k], near[:, k])
    return LossSums(
        w @ terms.value,
        w @ terms.smooth,
        w @ terms.excess,
        xp.stack([(side * terms.dual).sum(axis=0) for side in sides]),
        xp.stack([(side * terms.slope**2).sum(axis=0) for side in sides]),
        xp.stack([phi.T @ (side * terms.slope) for side in sides]),
        phi.T @ (w[:, None] * y * terms.drift),
        hessian,
        loss_slopes(loss, phi, y, w, b, origin),
    )


def loss_slopes(loss: MarginLoss, phi: Any, y: Any, w: Any, b: Any, origin: Any) -> Any:
    """Derivatives of the sum of losses along a step, at the parts LENGTHS of it; shape (L, q)."""
    xp = array_namespace(phi)
    start, along = y * (phi @ origin), y * (phi @ (b - origin))
    weighted = -w[:, None] * along
    return xp.stack([(weighted * loss.slope(start + part * along)).sum(axis=0) for part in LENGTHS])


def _curved(phi: Any, curvature: Any, near: Any) -> Any:
    """The sum of curvatures times ``phi phi'`` over rows near the bend; others affect the bias only."""
    xp = array_namespace(phi)
    rows = xp.nonzero(near)[0]
    scaled = xp.take(phi, rows, axis=0) * xp.sqrt(xp.take(curvature, rows))[:, None]
    found = scaled.T @ scaled
    found[-1, -1] = xp.sum(curvature)  # without it the bias is free where no row is near
    return found


@dataclass(frozen=True, eq=False)
class LossPass:
    """Contribution of a block to the sums, at coefficients b."""

    features: LandmarkFeatures
    signs: Callable[[Block], Array]
    loss: MarginLoss
    b: Array
    origin: Array
    open_outputs: Array

    def __call__(self, block: Block) -> LossSums:
        """The sums over a block, in main memory."""
        total: Any = None
        for phi, y, w in with_bias(self.features, block, self.signs):
            step = placed(self.b, phi), placed(self.origin, phi)
            part = loss_sums(self.loss, phi, y, w, *step, self.open_outputs)
            total = part if total is None else total + part
        return LossSums(*(on_cpu(getattr(total, f.name)) for f in fields(total)))


def with_bias(
    features: LandmarkFeatures, block: Block, signs: Callable[[Block], Array]
) -> Iterator[tuple[Any, Any, Any]]:
    """Features and a column of ones, signs and weights, a few rows at a time."""
    X = features.check(block.X, block.called("X"))
    y, w, height = signs(block), weights_of(block), features.height(X)
    for start in range(0, len(y), height):
        part = slice(start, min(start + height, len(y)))
        rows = taken(X, part)
        both = filled((part.stop - start, features.size + 1), 1.0, rows)
        features.write(rows, both[:, :-1])
        yield both, placed(y[part], both), placed(w[part], both)
