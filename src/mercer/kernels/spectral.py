"""Kernels given by weights on the Laplacian's eigenvalues."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._validation import check_choice, check_positive, refuse_complex
from mercer.engine.matrix_functions import Expansion
from mercer.kernels.base import log_derivative
from mercer.kernels.realised import RealisedKernel
from mercer.laws import Law, Weights, refuse_negative_weights
from mercer.profiles import Profile
from mercer.spaces.base import Embedding, Space
from mercer.spaces.realisations.base import FeatureMap, Realisation, Slope
from mercer.special.zonal import Spectrum


@dataclass(frozen=True)
class _OwnWeights(Law):
    """The law of a kernel that writes its weights itself."""

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
        """See :class:`Law`."""
        return self.kernel.log_weights(eigenvalues, dimension)


class LawKernel(RealisedKernel):
    """A kernel given by a :class:`~mercer.laws.Law`, which its space realises.

    ``K(x, y) = sum_l a_l sum_k phi_lk(x) phi_lk(y)`` over Laplacian eigenfunctions.  On sphere and
    simplex the inner sum is ``N_l P_l(x.y)``; on the nodes of a graph it runs over the eigenvectors of
    the Laplacian, and K is ``a(L)``.
    """

    normalized: bool

    @abstractmethod
    def law(self, n: int) -> Law:
        """The law for rows with n columns."""

    def _chain(self, name: str) -> float:
        """Derivative of the logarithm of the law's time by that of a hyperparameter."""
        return 1.0

    def check_space(self) -> None:
        """Raise unless the space is one."""
        if not isinstance(self.space, Space):
            hint = "; wrap it: Graph(graph)" if hasattr(self.space, "nodes") else ""
            raise TypeError(f"space must be a space of mercer.spaces, got {self.space!r}{hint}")

    def _validate(self) -> None:
        self.check_space()
        check_choice(self, "normalized", (True, False))
        check_positive(self, *self.continuous())

    def realise(self, n: int) -> Realisation:
        """See :class:`RealisedKernel`; the space does it."""
        return self.home.realise(self.with_floats().law(n), n, bool(self.normalized))

    @property
    def home(self) -> Space:
        """The space whose Laplacian it is; in natural units if the range is given in these."""
        return self.space.in_natural_units() if "t_star" in self.continuous() else self.space

    @property
    def embedding(self) -> Embedding | None:
        """See :class:`RealisedKernel`; that of the space."""
        return self.home.embedding

    def slope(self, n: int, name: str) -> Slope:
        """See :class:`RealisedKernel`."""
        dimension = self.home.dimension(n)

        def scores(eigenvalues: NDArray[Any]) -> NDArray[Any]:
            return log_derivative(self, name, lambda k: k.law(n).log_weights(eigenvalues, dimension))

        return Slope(name, self._chain(name), scores)

    def profile(self, n: int) -> Profile:
        """The kernel as a function of the invariant of two rows with n columns.

        Examples
        --------
        >>> from mercer.kernels import Heat
        >>> from mercer.spaces import Sphere
        >>> Heat(Sphere(), t=0.1).profile(3).error < 1e-13
        True
        """
        self._validate()
        return self.realise(n).profile()

    def gradient_profile(self, n: int, name: str) -> Profile:
        """Its derivative with respect to the logarithm of the named hyperparameter."""
        self._validate()
        return self.realise(n).slope_profile(self.slope(n, name))

    def spectrum(self, n: int) -> Spectrum:
        """Weights on the levels that matter in dimension n of a sphere, and their sum."""
        self._validate()
        return self.realise(n).spectrum

    def expansion(self) -> Expansion:
        """On a graph: the series in the Laplacian, with its error.

        Examples
        --------
        >>> import networkx as nx
        >>> from mercer.kernels import Heat
        >>> from mercer.spaces import Graph
        >>> ring = Graph(nx.cycle_graph(10**5), laplacian="normalized")
        >>> series = Heat(ring, t=1.0).expansion()
        >>> len(series.coefficients) < 20, series.error < 1e-12
        (True, True)
        """
        self._validate()
        return self.realise(0).expansion()

    def log_self_similarity(self, n: int) -> float:
        """Logarithm of K(x, x) in the absolute form, for n columns; finite where K overflows."""
        return self.realise(n).log_self_similarity

    def feature_map(self, n: int, size: int, seed: int) -> FeatureMap:
        """See :class:`Kernel`."""
        self._validate()
        return self.realise(n).features(size, seed)

    def require_levels(self) -> None:
        """See :class:`Kernel`."""
        self._validate()
        self.home.require_unit_vectors()

    def level_weights(self, n: int, levels: Sequence[int]) -> Any:
        """See :class:`Kernel`."""
        self._validate()
        slopes = [self.slope(n, name) for name in self.free()]
        return self.realise(n).level_weights(np.asarray(levels, dtype=int), slopes)


class SpectralKernel(LawKernel):
    """A kernel that writes the weights of its law itself.

    A subclass writes :meth:`log_weights`; truncation, profile, gradients and normalisation follow.
    """

    #: Lower bound of the values, 0 for weights whose kernel is known to be positive.
    floor = -np.inf

    @abstractmethod
    def log_weights(self, eigenvalues: NDArray[Any], dimension: int) -> NDArray[Any]:
        """Logarithm of the weights a(lambda) on a manifold of some dimension; 0 on a graph.

        Write it with NumPy functions that are analytic in the hyperparameters: gradients come from
        evaluating it at complex ones.
        """

    def law(self, n: int) -> Law:
        """The weights."""
        return _OwnWeights(self)


class Spectral(LawKernel):
    """A kernel with weights of your own on the Laplacian's spectrum.

    ``K(x, y) = sum_l a_l N_l P_l(x.y)`` with ``a_l >= 0``; N_l is the multiplicity of level l.  By
    Schoenberg's theorem these are all the kernels on the sphere that depend on the angle alone.

    Parameters
    ----------
    space : Sphere, Simplex or Graph
    weights : callable or array-like
        The weights as a function of the array of eigenvalues (on the sphere ``l (l + n - 2)``), or, on
        the sphere, the list ``a_0, a_1, ...`` itself.  There a function must fall fast enough to be
        summed; if it is zero on half of the first 2^15 levels it is taken to have ended.
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

    def __init__(self, space: Space, weights: Any, normalized: bool = True) -> None:
        self.space = space
        self.weights = weights
        self.normalized = normalized

    def law(self, n: int) -> Law:
        """The weights."""
        if callable(self.weights):
            return Weights(self.weights)
        return Weights(tuple(np.asarray(self.weights, dtype=float).tolist()))

    def _validate(self) -> None:
        super()._validate()
        if not callable(self.weights):
            given = np.asarray(self.weights)
            refuse_complex(given, "weights")
            given = given.astype(float)
            if given.ndim != 1 or given.size == 0 or not np.all(np.isfinite(given)):
                raise ValueError("weights must be a function or a list of finite numbers")
            refuse_negative_weights(given)
