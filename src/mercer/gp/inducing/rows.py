"""Functions of a kernel at training rows, for points of any kind: tables, strings, clouds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky
from scipy.optimize import minimize

from mercer._arrays import on_cpu
from mercer.gp.features import Features, PriorWeights
from mercer.gp.hyperparameters import AMPLITUDES, NOISES, descending
from mercer.machines.landmarks.features import LandmarkFeatures, choose_landmarks
from mercer.rows import Block

Array = NDArray[np.float64]

#: Rows whose exact evidence finds the hyperparameters, and steps of L-BFGS.
_EVIDENCE, _STEPS = 500, 50
#: Restarts of a search that found noise alone: factors of the hyperparameters, and noises.
_FACTORS, _NOISES = 10.0 ** np.array([-3.0, -2.5, -2.0, -1.5, -1.0, -0.5, 0.5, 1.0]), (1e-1, 1e-3)
#: Gains of evidence per row that do not count: a kernel without any neighbours is noise too.
_NOTHING = 0.01


@dataclass(frozen=True, eq=False)
class InducingRows(Features):
    """Features ``L^-1 (k(z_1, x), ..., k(z_M, x))`` of points x, for training rows z_j.

    ``L L'`` is the kernel's matrix at these rows, so that the features have independent weights of
    equal prior variance.  With all training rows it is the exact process.

    Parameters
    ----------
    landmarks : LandmarkFeatures
        Its kernel has no free hyperparameters, and all that it learns from training rows.
    """

    landmarks: LandmarkFeatures
    inputs = None
    n_rest = 1
    truncation = False

    @classmethod
    def of(cls, kernel: Any, sample: Block, size: int, seed: int) -> InducingRows:
        """Features at no more than ``size`` rows of a sample, at random where much variance is left."""
        F, pivots = choose_landmarks(kernel, sample, size, np.random.default_rng(seed))
        return cls(LandmarkFeatures.of(kernel, sample, pivots, F[pivots], opaque=True))

    @property
    def kernel(self) -> Any:
        """The kernel."""
        return self.landmarks.kernel

    @property
    def points(self) -> Any:
        """The inducing points."""
        return self.landmarks.points

    @property
    def size(self) -> int:  # type: ignore[override]
        """See :class:`Features`."""
        return self.landmarks.size

    def check(self, X: Any, name: str = "X") -> Any:
        """See :class:`Features`; the kernel checks points."""
        return self.landmarks.check(X, name)

    def write(self, rows: Any, out: Any) -> Any:
        """See :class:`Features`; returns the part of k(x, x) that the functions omit."""
        return self.landmarks.write(rows, out)

    def weights(self, kernel: Any) -> PriorWeights:
        """See :class:`Features`; variances are one."""
        return PriorWeights(np.ones(self.size), np.zeros((self.size, 0)), np.ones(1), np.zeros((1, 0)))

    def gram(self, kernel: Any, rows: Any) -> Array:
        return np.asarray(on_cpu(kernel(rows)), dtype=float)

    def serves(self, kernel: Any, inputs: str) -> bool:
        raise ValueError("inducing points belong to their kernel; call fit instead")

    @property
    def fingerprint(self) -> str:
        return self.landmarks.fingerprint

    def lanes(self, rows: Any) -> int:
        return self.landmarks.lanes(rows)

    def height(self, rows: Any) -> int:
        return self.landmarks.height(rows)


def with_evidence(kernel: Any, rows: Block, own: Array) -> Any:
    """The kernel with the hyperparameters that maximise the evidence of some of the rows.

    The model is the exact process ``y ~ N(0, a K + s / w)`` for targets of weights w, whose amplitude a
    and noise s are found along with the hyperparameters.

    Parameters
    ----------
    kernel : Kernel
    rows : Block
        Targets are columns of standardised numbers.
    own : array of shape (2,)
        Logarithms of amplitude and noise to start from.
    """
    if not len(kernel.theta):
        return kernel
    few = rows.take(slice(_EVIDENCE))
    y, outputs = few.y, few.y.shape[1]
    noises = np.ones(len(y)) if few.weight is None else 1 / few.weight

    def value_and_gradient(theta: Array) -> tuple[float, Array]:
        amplitude, noise = np.exp(theta[:2])
        K, slopes = kernel.clone_with_theta(theta[2:])(few.X, eval_gradient=True)
        K = amplitude * np.asarray(K, dtype=float)
        factor = cholesky(K + np.diag(noise * noises), lower=True)
        weights = cho_solve((factor, True), y)
        value = -0.5 * float((y * weights).sum()) - outputs * float(np.log(factor.diagonal()).sum())
        by_matrix = 0.5 * (weights @ weights.T - outputs * cho_solve((factor, True), np.eye(len(y))))
        by_kernel = amplitude * np.einsum("ij,ijk->k", by_matrix, slopes)
        own = [float((by_matrix * K).sum()), noise * float(by_matrix.diagonal() @ noises)]
        return value - 0.5 * y.size * math.log(2 * math.pi), np.concatenate([own, by_kernel])

    start = np.concatenate([own, kernel.theta])
    bounds = np.concatenate([np.log([AMPLITUDES, NOISES]), kernel.bounds])
    descent = descending(value_and_gradient, y.size)

    def climbed(start: Array) -> Any:
        return minimize(
            descent, np.clip(start, *bounds.T), jac=True, method="L-BFGS-B", bounds=bounds,
            options={"maxiter": _STEPS},
        )  # fmt: skip

    found = climbed(start)
    level = max(float((y * y).mean()), NOISES[0])
    alone = descent(np.append(np.log([AMPLITUDES[0], level]), kernel.theta))[0]
    if found.fun > alone - _NOTHING:
        starts = [
            np.concatenate([[own[0], math.log(noise)], kernel.theta + math.log(factor)])
            for factor in _FACTORS
            for noise in _NOISES
        ]
        again = climbed(min(starts, key=lambda start: descent(np.clip(start, *bounds.T))[0]))
        found = again if again.fun < alone - _NOTHING else found
    return kernel.clone_with_theta(found.x[2:])
