"""Kernels given by weights on the Laplacian's eigenvalues."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._validation import refuse_complex
from mercer.kernels.realised import LawKernel
from mercer.laws import Law, Weights, refuse_negative_weights
from mercer.spaces.base import Space


@dataclass(frozen=True)
class _OwnWeights(Law):
    """The law of a :class:`SpectralKernel`."""

    kernel: SpectralKernel

    @property
    def name(self) -> str:  # type: ignore[override]
        """See :class:`Law`."""
        return type(self.kernel).__name__

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        """See :class:`Law`."""
        return self.kernel.floor == 0.0

    def log_weights(self, eigenvalues: NDArray[Any], dimension: int) -> NDArray[Any]:
        return self.kernel.log_weights(eigenvalues, dimension)


class SpectralKernel(LawKernel):
    """Base class of kernels that are defined by weights on the Laplacian's eigenvalues.

    A subclass implements :meth:`log_weights`; truncation, profile, gradients and normalisation follow.
    """

    #: Lower bound of the values; 0 if the kernel is known to be positive.
    floor = -np.inf

    @abstractmethod
    def log_weights(self, eigenvalues: NDArray[Any], dimension: int) -> NDArray[Any]:
        """Logarithm of the weights a(lambda) on a manifold of the given dimension (0 for a graph).

        Gradients come from evaluating it at complex hyperparameters: use NumPy functions that are
        analytic in them.
        """

    def law(self, n: int) -> Law:
        return _OwnWeights(self.with_floats())


@dataclass(eq=False, repr=False)
class Spectral(LawKernel):
    """A kernel with user-defined weights on the Laplacian's spectrum.

    ``K(x, y) = sum_l a_l N_l P_l(x.y)`` on the sphere, with ``a_l >= 0`` and N_l the multiplicity of
    level l.  By Schoenberg's theorem these are all the kernels on the sphere that depend on the angle
    alone.

    Parameters
    ----------
    space : Sphere, Simplex, Projective, Torus, Rotations, Graph or Categories
        Categories must have one number of levels for all columns, as ``Categories(levels=3)`` has.
    weights : callable or array-like
        The weights as a function of an array of eigenvalues (on the sphere ``l (l + n - 2)``); on
        spheres also the list ``a_0, a_1, ...``.  On spheres a function must fall fast enough to be
        summed, and is taken to have ended if it is zero on half of the first 2^15 levels.
    normalized : bool
        Divide by the value at equal points.

    Examples
    --------
    >>> from mercer.kernels import Spectral
    >>> from mercer.spaces import Sphere
    >>> Spectral(Sphere(), weights=[0, 1])([[1, 0, 0], [3, 4, 0]])    # level 1 alone: the cosine
    array([[1. , 0.6],
           [0.6, 1. ]])
    """

    space: Space
    weights: Any
    normalized: bool = True

    def law(self, n: int) -> Law:
        if callable(self.weights):
            return Weights(self.weights)
        return Weights(tuple(np.asarray(self.weights, dtype=float).tolist()))

    def validate(self) -> None:
        super().validate()
        if not callable(self.weights):
            given = np.asarray(self.weights)
            refuse_complex(given, "weights")
            given = given.astype(float)
            if given.ndim != 1 or given.size == 0 or not np.all(np.isfinite(given)):
                raise ValueError("weights must be a function or a list of finite numbers")
            refuse_negative_weights(given)
