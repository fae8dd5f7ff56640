"""Kernels given by weights on the Laplacian's eigenvalues."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._validation import check_choice, refuse_complex
from mercer.kernels.base import log_derivative
from mercer.kernels.realised import RealisedKernel
from mercer.laws import Law, Weights, refuse_negative_weights
from mercer.spaces.base import Embedding, Space
from mercer.spaces.realisations.base import Realisation, Slope
from mercer.spaces.realisations.eigenfunctions import Eigenfunctions
from mercer.special.zonal import Spectrum


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


class LawKernel(RealisedKernel):
    """A kernel given by a :class:`~mercer.laws.Law`, which its space realises.

    ``K(x, y) = sum_l a_l sum_k phi_lk(x) phi_lk(y)`` over the Laplacian's eigenfunctions.  On the sphere
    and the simplex the inner sum is ``N_l P_l(x.y)``; on a graph it runs over the eigenvectors of the
    Laplacian L, and K is ``a(L)``.
    """

    normalized: bool

    @abstractmethod
    def law(self, n: int) -> Law:
        """The law for points with n columns."""

    def _chain(self, name: str) -> float:
        """Derivative of the logarithm of the law's time by that of a hyperparameter."""
        return 1.0

    def validate(self) -> None:
        if not isinstance(self.space, Space):
            hint = "; wrap it: Graph(graph)" if hasattr(self.space, "nodes") else ""
            raise TypeError(f"space must be a space of mercer.spaces, got {self.space!r}{hint}")
        check_choice(self, "normalized", (True, False))
        super().validate()

    def realise(self, n: int) -> Realisation:
        return self.laplacian_space.realise(self.with_floats().law(n), n, bool(self.normalized))

    @property
    def laplacian_space(self) -> Space:
        """See :class:`Kernel`; in natural units if the range is given in these."""
        return self.space.in_natural_units() if "t_star" in self.continuous() else self.space

    def is_zonal(self) -> bool:
        return self.space.widest_angle is not None and self.space.embedding is not None

    def is_stationary(self) -> bool:
        return self.space.is_flat

    def is_isotropic(self) -> bool:
        return self.space.is_flat

    def heat_time(self, n: int) -> float | None:
        """Time of the heat kernel on S^(n-1) that this kernel is; None for other kernels."""
        return None

    @property
    def embedding(self) -> Embedding | None:
        return self.laplacian_space.embedding

    def slope(self, n: int, name: str) -> Slope:
        dimension = self.laplacian_space.dimension(n)

        def scores(eigenvalues: NDArray[Any]) -> NDArray[Any]:
            return log_derivative(self, name, lambda k: k.law(n).log_weights(eigenvalues, dimension))

        return Slope(name, self._chain(name), scores)

    def spectrum(self, n: int) -> Spectrum:
        """Weights on the levels of S^(n-1) that contribute, and their sum."""
        self.validate()
        return self.realise(n).spectrum

    def log_self_similarity(self, n: int) -> float:
        """Logarithm of the absolute form of K(x, x) for n columns; finite where K overflows."""
        return self.realise(n).log_self_similarity

    def log_weights_at(self, eigenvalues: NDArray[Any], n: int) -> NDArray[np.float64]:
        """Logarithms of the weights on some eigenvalues of the Laplacian, for n columns."""
        self.validate()
        law = self.with_floats().law(n)
        return np.asarray(law.log_weights(eigenvalues, self.laplacian_space.dimension(n)), dtype=float)

    def eigenfunctions(self, columns: int, count: int | None) -> Eigenfunctions | None:
        self.validate()
        n = self.laplacian_space.fixed_columns(columns)
        weights = partial(self.log_weights_at, n=n)
        return self.laplacian_space.eigenfunctions(n, count, weights)

    def require_levels(self) -> None:
        self.validate()
        self.laplacian_space.require_unit_vectors()

    def level_weights(self, n: int, levels: Sequence[int]) -> Any:
        self.validate()
        slopes = [self.slope(n, name) for name in self.free()]
        return self.realise(n).level_weights(np.asarray(levels, dtype=int), slopes)


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
        return _OwnWeights(self)


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
