"""Ridge regression on features from sums over rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import eigh

from mercer.machines.certificate import DualObjective
from mercer.machines.program import Array
from mercer.rows.statistics import Statistics

_EPS, _TINY = float(np.finfo(float).eps), 1e-300
#: Logarithm of the smallest alpha that is tried, relative to the largest eigenvalue, and number of
#: trials.
_LEAST, _TRIED = -12, 79


@dataclass(frozen=True)
class RidgeSolution:
    """Coefficients of features, biases, the dual objective, and a bound on what landmarks omit."""

    coefficients: Array
    bias: Array
    dual: DualObjective
    left_out: Array


@dataclass(frozen=True, eq=False)
class RidgeSums:
    """Sums over rows of weights w, features phi and targets y, perhaps about their means.

    Parameters
    ----------
    gram : array of shape (M, M)
        Sum of ``w phi phi'``.
    linear : array of shape (M, q)
        Sum of ``w phi y'``.
    squares : array of shape (q,)
        Sum of ``w y^2``.
    left : float
        Sum of w times the part of k(x, x) that the features omit.
    means : pair of arrays of shape (M,) and (q,)
        Means of features and targets; zeros where there is no bias.
    rows : float
        Sum of the weights, minus one if there is a bias.
    """

    gram: Array
    linear: Array
    squares: Array
    left: float
    means: tuple[Array, Array]
    rows: float

    @classmethod
    def of(cls, sums: Statistics, bias: bool) -> RidgeSums:
        """The sums, about the means if there is a bias."""
        if not bias:
            sums = sums.shifted(np.zeros_like(sums.shift))
            means = np.zeros_like(sums.features), np.zeros_like(sums.shift)
            return cls(sums.gram, sums.linear, sums.squares, float(sums.rest[0]), means, sums.weight)
        sums = sums.shifted(sums.target_mean)
        means = sums.features / sums.weight, sums.shift
        gram = sums.gram - np.outer(sums.features, means[0])
        return cls(gram, sums.linear, sums.squares, float(sums.rest[0]), means, sums.weight - 1)

    def first(self, size: int) -> RidgeSums:
        """The sums of the first features."""
        left = self.left + float(np.trace(self.gram[size:, size:]))
        means = self.means[0][:size], self.means[1]
        return replace(
            self, gram=self.gram[:size, :size], linear=self.linear[:size], left=left, means=means
        )

    @cached_property
    def _decomposition(self) -> tuple[Array, Array, Array]:
        """Eigenvalues, eigenvectors, and the linear sums in their basis."""
        values, vectors = eigh(self.gram, driver="evd", check_finite=False)
        return np.maximum(values, 0.0), vectors, vectors.T @ self.linear

    def leverages(self, phi: Array, alpha: float) -> Array:
        """``phi (G + alpha)^-1 phi'`` at rows, about the mean."""
        values, vectors, _ = self._decomposition
        return ((phi - self.means[0]) @ vectors) ** 2 @ (1 / (values + alpha))

    def best_alpha(self, phi: Array, y: Array, w: Array) -> float:
        """The alpha that minimises the score of generalised cross-validation.

        The score is ``|y - f|^2 / (1 - df / m)^2`` with ``df = sum v / (v + alpha)`` for eigenvalues v
        of the Gram matrix, and m the sum of weights.  Landmarks are fitted more closely than others, so
        their parts of all three sums are omitted, unless they are most of the rows.

        Parameters
        ----------
        phi, y, w : arrays of shape (M, M), (M, q) and (M,)
            Features, targets and weights of the landmarks.
        """
        values, vectors, linear = self._decomposition
        # Rows that are (nearly) all equal differ by rounding, which must not be taken for a scale.
        common = (self.rows + 1) * float(self.means[0] @ self.means[0])
        top = max(float(values[-1]), _EPS**0.5 * common, _TINY)
        phi, y = (phi - self.means[0]) @ vectors, y - self.means[1]
        w = w if 2 * w.sum() <= self.rows else np.zeros_like(w)
        # The largest of equally good values is taken.
        alphas = np.geomspace(10 * top, 10.0**_LEAST * max(top, common), _TRIED)
        inverse, squares = 1 / (values[:, None] + alphas), float(self.squares.sum())
        explained = (linear**2).sum(axis=1) @ (inverse * (2 - values[:, None] * inverse))
        own = [w @ ((y - phi @ (linear * part[:, None])) ** 2).sum(axis=1) for part in inverse.T]
        residual = np.maximum(squares - explained - np.array(own), 0.0)
        freedom = (values - w @ phi**2) @ inverse
        left = np.maximum(1 - freedom / max(self.rows - float(w.sum()), _TINY), _EPS)
        rounding = 10 * len(values) * _EPS * squares
        return float(alphas[np.argmin((residual + rounding) / left**2)])

    def solve(self, alpha: float) -> RidgeSolution:
        """Minimise ``sum w (y - phi b - bias)^2 + alpha |b|^2``, for each output."""
        values, vectors, linear = self._decomposition
        shrunk = linear / (values + alpha)[:, None]
        b = vectors @ shrunk
        # Residual sum of squares and objective, without the difference of large numbers b'Gb.
        reached = self.squares - (linear * shrunk).sum(axis=0)
        residual = reached - alpha * (shrunk**2).sum(axis=0)
        rounding = len(values) * _EPS * self.squares
        least, residual = np.maximum(reached - rounding, 0.0), np.maximum(residual, 0.0) + rounding
        dual = DualObjective(np.maximum(reached, 0.0) + rounding, 2 * least, least, alpha)
        left_out = (self.left / alpha) * (residual / alpha)
        return RidgeSolution(b, self.means[1] - self.means[0] @ b, dual, left_out)
