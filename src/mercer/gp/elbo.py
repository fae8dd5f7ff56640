"""The evidence lower bound of a Gaussian process with a diagonal prior on its features."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from mercer._arrays import on_cpu, placed
from mercer.engine import engine_for
from mercer.gp.features import Features, Functions, PriorWeights

Array = NDArray[np.float64]

#: Eigenvalues below this part of the largest are rounding errors of the Gram matrix.
_RANK = 1e-13


@dataclass(frozen=True, eq=False)
class Prior:
    """A Gaussian process with the covariance ``amplitude * kernel``, represented by features."""

    amplitude: float
    weights: PriorWeights
    features: Functions

    @classmethod
    def of(cls, amplitude: float, kernel: Any, features: Features, alone: bool = False) -> Prior:
        """The prior of a kernel with its present hyperparameters, or of its features alone."""
        here = features.at(kernel)
        weights = here.weights(kernel)
        if alone:
            none = {"rest": 0 * weights.rest, "rest_slopes": 0 * weights.rest_slopes}
            weights = replace(weights, **none)
        return cls(amplitude, weights, here)

    @property
    def variances(self) -> Array:
        """Prior variance of the weight of each feature."""
        return self.amplitude * self.weights.variances

    def left(self, psi: Array) -> Any:
        """Variance that the features omit, for given values or sums of the functions psi_r."""
        return self.amplitude * (psi @ placed(self.weights.rest, psi))

    def left_slopes(self, psi: Array) -> Array:
        """Derivatives of :meth:`left` with respect to the logarithms of the kernel's hyperparameters."""
        return self.amplitude * (psi @ self.weights.rest_slopes)


@dataclass(frozen=True, eq=False)
class Bound:
    """The bound on the log evidence as a function of prior variances and noise.

    ``f(x) = phi(x)' w`` with ``w_j ~ N(0, a_j)`` is part of a process; the rest has the variance
    ``left``, summed over the rows.  Targets have noise of variance s.  With ``G = Phi' Phi``, ``b =
    Phi' y`` and ``B = I + A^(1/2) G A^(1/2) / s``, the bound of one output is

    ``-(m log(2 pi s) + log |B| + (y'y - b' A^(1/2) B^-1 A^(1/2) b / s) / s + left / s) / 2``.

    Each evaluation costs O(M^3), or O(M r^2) where the rank r of G is small.

    Parameters
    ----------
    gram : array of shape (M, M)
    linear : array of shape (M, q)
    squares : array of shape (q,)
        ``y'y`` of each output.
    count : float
        Number of targets.
    rank : int
        Bound on the rank of ``gram``.
    factor : pair of arrays, optional
        ``F`` and ``z`` with ``G = F'F`` and ``b = F'z``, in place of ``gram`` and ``linear``.
    """

    gram: Array
    linear: Array
    squares: Array
    count: float
    rank: int
    factor: tuple[Array, Array] | None = None

    def of_factor(self, F: Array, z: Array) -> Bound:
        """The bound of other features of the same rows, ``G = F'F`` and ``b = F'z``."""
        if len(F) < F.shape[1]:
            return replace(self, gram=self.gram[:0], linear=self.linear[:0], rank=len(F), factor=(F, z))
        return replace(self, gram=F.T @ F, linear=F.T @ z, rank=len(F))

    @property
    def squared_features(self) -> Array:
        """Sums over rows of the squares of the features: the diagonal of G."""
        if self.factor is not None:
            return np.asarray((self.factor[0] ** 2).sum(axis=0))
        found: Array = on_cpu(self.gram.diagonal())
        return found

    def placed(self, like: Any) -> Bound:
        """The same with the large matrix on the device of an array; solutions are for values alone."""
        small = self.gram.ndim == 1 or self._factor is not None
        return self if small else replace(self, gram=placed(self.gram, like))

    def solve(self, variances: Array, noise: float) -> Solution:
        """Everything at given prior variances and noise."""
        return (self._solve_all if self._factor is None else self._solve_few)(variances, noise)

    @cached_property
    def _factor(self) -> tuple[Array, Array] | None:
        """``F`` and ``z`` with ``G = F'F`` and ``b = F'z``, where rows are far fewer than features."""
        if self.factor is not None:
            return self.factor
        if 2 * self.rank > len(self.gram):
            return None
        values, vectors = np.linalg.eigh(self.gram)
        keep = values > _RANK * max(values[-1], 0.0)
        roots = np.sqrt(values[keep])
        vectors = vectors[:, keep]
        return roots[:, None] * vectors.T, (vectors.T @ self.linear) / roots[:, None]

    def _solve_all(self, variances: Array, noise: float) -> Solution:
        xp, roots = array_namespace(self.gram), np.sqrt(variances)
        scale = placed(roots, self.gram)
        B = scale[:, None] * self.gram
        B *= scale / noise
        diagonal = np.arange(len(B))
        B[diagonal, diagonal] += 1.0
        inverse, log_det = inverse_factor(B)
        half = inverse @ placed(roots[:, None] * self.linear / noise, inverse)
        beta = on_cpu(inverse.T @ half)
        quadratic = self.squares / noise - on_cpu((half**2).sum(axis=0))
        shrinkage = on_cpu(xp.einsum("ij,ij->j", inverse, inverse))
        return Solution(self, variances, noise, log_det, quadratic, beta, shrinkage, inverse)

    def _solve_few(self, variances: Array, noise: float) -> Solution:
        assert self._factor is not None
        F, z = self._factor
        scaled = F * np.sqrt(variances)
        C = scaled @ scaled.T / noise
        C[np.diag_indices_from(C)] += 1.0
        inverse, log_det = inverse_factor(C)
        half = inverse @ z
        beta = scaled.T @ (inverse.T @ half) / noise
        quadratic = (self.squares - (z**2).sum(axis=0) + (half**2).sum(axis=0)) / noise
        projected = inverse @ scaled / math.sqrt(noise)
        shrinkage = 1.0 - (projected**2).sum(axis=0)
        return Solution(self, variances, noise, log_det, quadratic, beta, shrinkage, projected, few=True)


@dataclass(frozen=True, eq=False)
class Solution:
    """The bound and the posterior at one setting of the hyperparameters.

    ``beta`` is ``B^-1 A^(1/2) b / s``, ``shrinkage`` the diagonal of ``B^-1``; B^-1 itself is ``R'R``,
    or ``I - R'R`` if rows are few, with R the array ``root``.
    """

    bound: Bound
    variances: Array
    noise: float
    log_det: float
    quadratic: Array
    beta: Array
    shrinkage: Array
    root: Array
    few: bool = False

    def value(self, left: float) -> float:
        """The bound, summed over outputs."""
        per_output = (
            self.bound.count * math.log(2 * math.pi * self.noise) + self.log_det + left / self.noise
        )
        return -0.5 * float(self.quadratic.size * per_output + self.quadratic.sum())

    def rescaled(self) -> tuple[float, float]:
        """The best factor of the noise and of all prior variances, and what the bound gains by it."""
        terms, quadratic = self.quadratic.size * self.bound.count, float(self.quadratic.sum())
        factor = max(quadratic / terms, np.finfo(float).tiny)  # rounding can take it to zero
        return factor, 0.5 * (quadratic - quadratic / factor - terms * math.log(factor))

    def slopes(self) -> Array:
        """Derivatives with respect to the logarithms of the prior variances."""
        return 0.5 * (self.quadratic.size * (self.shrinkage - 1.0) + (self.beta**2).sum(axis=1))

    def noise_slope(self, left: float) -> float:
        """Derivative with respect to the logarithm of the noise."""
        per_output = left / self.noise - self.bound.count + (1.0 - self.shrinkage).sum()
        return 0.5 * float(
            self.quadratic.size * per_output + self.quadratic.sum() - (self.beta**2).sum()
        )

    def left_slope(self) -> float:
        """Derivative with respect to the variance that is left."""
        return -0.5 * self.quadratic.size / self.noise

    def divergence(self) -> float:
        """Kullback-Leibler divergence of the posterior from the prior, of one output."""
        return 0.5 * float((self.shrinkage - 1.0).sum() + self.log_det + (self.beta**2).sum())

    @property
    def mean(self) -> Array:
        """Posterior mean of the features' weights, shape (M, q)."""
        return np.sqrt(self.variances)[:, None] * self.beta

    def placed(self, like: Any) -> Posterior:
        """What moments at rows need, on the device of another array."""
        weights, scales = placed(self.mean, like), placed(np.sqrt(self.variances), like)
        return Posterior(weights, scales, placed(self.root, like), self.few)

    @property
    def covariance(self) -> Array:
        """Posterior covariance of the features' weights, shape (M, M)."""
        scaled = self.root * np.sqrt(self.variances)
        part = scaled.T @ scaled
        return np.diag(self.variances) - part if self.few else part

    def times_covariance(self, phi: Array) -> Array:
        """Rows of features times the posterior covariance of their weights."""
        roots = np.sqrt(self.variances)
        scaled = phi * roots
        part = (scaled @ self.root.T) @ self.root
        return (scaled - part if self.few else part) * roots

    def explained_covariance(self, phi: Array) -> Array:
        """Reduction of the covariance of ``phi w`` by the data, between each pair of rows."""
        scaled = phi * np.sqrt(self.variances)
        part = scaled @ self.root.T
        return part @ part.T if self.few else scaled @ scaled.T - part @ part.T


@dataclass(frozen=True, eq=False)
class Posterior:
    """Moments of ``phi w`` for rows phi of features; see :class:`Solution`.

    Its arrays are on the device of the features; moments are returned in main memory.
    """

    weights: Any
    scales: Any
    root: Any
    few: bool

    def mean(self, phi: Any) -> Array:
        """Means, shape (m, q)."""
        found: Array = on_cpu(phi @ self.weights)
        return found

    def variance(self, phi: Any) -> Array:
        """Variances, shape (m,)."""
        scaled = phi * self.scales
        part = ((scaled @ self.root.T) ** 2).sum(axis=1)
        if self.few:  # rounding can take a variance of nearly zero below it
            part = ((scaled**2).sum(axis=1) - part).clip(min=0.0)
        found: Array = on_cpu(part)
        return found


def inverse_factor(B: Any) -> tuple[Any, float]:
    """``L^-1`` and ``log |B|`` for ``B = L L'``; B is overwritten."""
    B, log_det = engine_for(B).inverse_factor(B)
    if math.isnan(log_det):
        raise np.linalg.LinAlgError(
            "the Gram matrix of the features is not positive definite to working precision; is the "
            "noise too small?"
        )
    return B, log_det
