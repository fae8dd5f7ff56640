"""Kernels given by weights on the Laplacian's eigenvalues."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._arrays import is_single, to_single
from mercer._validation import check_choice, check_positive, refuse_complex
from mercer.engine.matrixfunction import Expansion
from mercer.kernels.base import Kernel, log_derivative
from mercer.kernels.hyperbolic import RadialLaw, Rungs
from mercer.kernels.nodes import LaplacianKernel
from mercer.kernels.products import FactorKernel
from mercer.kernels.radial import RadialKernel
from mercer.kernels.scale import Similarities
from mercer.kernels.shorttime import Array, Law
from mercer.profiles import ProductProfile, Profile, compile_profile
from mercer.spaces import Graph, HyperbolicSpace, NormalProduct, SphericalSpace, zonal

#: exp() of more than this overflows.
_LOG_MAX = math.log(np.finfo(float).max)
#: Weights with a logarithm below this are about to underflow.
_LOG_LEAST = -650.0
#: A user's weights may have gaps: so many levels are looked at before they count as ended.
_GAP_LEVELS = 2**15


class SpectralKernel(RadialKernel):
    """A kernel ``K(x, y) = sum_l a_l sum_k phi_lk(x) phi_lk(y)`` over Laplacian eigenfunctions.

    A subclass writes only :meth:`log_weights`; the truncation level, the profile, gradients and the
    normalisation follow.  On sphere and simplex the inner sum is ``N_l P_l(x.y)``; on the nodes of a
    graph it runs over the eigenvectors of the Laplacian, and K is ``a(L)``.  Hyperbolic space has a
    continuous spectrum; a kernel that is to work there writes :meth:`_rungs`.
    """

    space: SphericalSpace | HyperbolicSpace | NormalProduct | Graph  # type: ignore[assignment]
    normalized: bool
    #: The kernel of a product of spaces is the product of the kernels of its factors.
    factorizes = False
    #: Lower bound of the values, 0 for laws known to be positive.
    floor = -np.inf

    @abstractmethod
    def log_weights(self, eigenvalues: NDArray[Any], n: int) -> NDArray[Any]:
        """Logarithm of the weights a(lambda) on S^(n-1), or on a graph, where n = 1.

        Write it with NumPy functions that are analytic in the hyperparameters: gradients come from
        evaluating it at complex ones.
        """

    def _validate(self) -> None:
        if not isinstance(self.space, SphericalSpace | HyperbolicSpace | NormalProduct | Graph):
            hint = "; wrap it: Graph(graph)" if hasattr(self.space, "nodes") else ""
            raise TypeError(
                "space must be Sphere(), Simplex(), Hyperbolic(), NormalFamily(), NormalProduct() or a "
                f"Graph of mercer.spaces, got {self.space!r}{hint}"
            )
        if isinstance(self.space, NormalProduct) and not self.factorizes:
            raise TypeError(
                f"{type(self).__name__} is not known on products: it is no product over the features; "
                "use Heat"
            )
        check_choice(self, "normalized", (True, False))
        check_positive(self, *self.continuous())

    @property
    def requires_vector_input(self) -> bool:
        """Nodes of a graph are welcome in any form."""
        return not isinstance(self.space, Graph)

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """See :class:`Kernel`."""
        worker = self._worker()
        values = super().__call__(X, Y, eval_gradient) if worker is None else worker(X, Y, eval_gradient)
        if not self._computes_in_double or not is_single(X):
            return values
        return to_single(values)

    @property
    def _computes_in_double(self) -> bool:
        return isinstance(self.space, HyperbolicSpace | NormalProduct)

    def _worker(self) -> Kernel | None:
        """Who computes on spaces where no invariant of a pair is enough."""
        if isinstance(self.space, Graph):
            return LaplacianKernel(self)
        return FactorKernel(self) if isinstance(self.space, NormalProduct) else None

    def diag(self, X: Any) -> Any:
        """See :class:`Kernel`."""
        worker = self._worker()
        return super().diag(X) if worker is None else worker.diag(X)

    def matvec(self, X: Any, Y: Any, v: Any) -> Any:
        """See :class:`Kernel`."""
        worker = self._worker()
        return super().matvec(X, Y, v) if worker is None else worker.matvec(X, Y, v)

    def _pair_similarities(
        self, X: Any, max_rows: int, rng: np.random.Generator
    ) -> tuple[Similarities, int]:
        worker = self._worker()
        if worker is None:
            return super()._pair_similarities(X, max_rows, rng)
        found, points = worker._pair_similarities(X, max_rows, rng)
        return lambda kernel: found(kernel._worker()), points

    def expansion(self) -> Expansion:
        """On a graph: the series in the Laplacian, with its error; see :meth:`NodeKernel.expansion`."""
        if not isinstance(self.space, Graph):
            raise TypeError(f"expansion is for kernels on a graph; on {self.space!r} see profile(n)")
        return LaplacianKernel(self).expansion()

    @property
    def _sphere(self) -> SphericalSpace:
        """The space of kernels that are functions of an angle."""
        if not isinstance(self.space, SphericalSpace):
            raise TypeError(f"{type(self).__name__} on {self.space!r} is no function of an angle")
        return self.space

    @property
    def _sides(self) -> int:
        return 2 if self._sphere.separation == "folded" else 1

    def _rungs(self, d: int) -> Rungs:
        """The kernel on hyperbolic space, by its function on the line."""
        raise TypeError(f"{type(self).__name__} is not known on hyperbolic space; use Heat or Matern")

    def _radial_law(self, space: HyperbolicSpace, n: int) -> RadialLaw:
        """The kernel on hyperbolic space, for n columns; profile and gradients share its tables."""
        d = space.manifold_dimension(n)
        return self._remember(("radial", d), lambda: RadialLaw(self._rungs(d), d))

    def spectrum(self, n: int) -> zonal.Spectrum:
        """Weights on the levels that matter in dimension n of a sphere, and their sum."""
        self._validate()
        _ = self._sphere
        plain = self.with_floats()
        return self._remember(
            ("spectrum", n), lambda: zonal.spectrum(lambda lam: plain.log_weights(lam, n), n)
        )

    def log_self_similarity(self, n: int) -> float:
        """Logarithm of K(x, x) in the absolute form, for n columns; finite where K overflows."""
        if isinstance(self.space, HyperbolicSpace):
            return self._radial_law(self.space, n).log_at_zero
        if isinstance(self.space, NormalProduct):
            return n // 2 * FactorKernel(self).factor.log_self_similarity(2)
        return self.spectrum(n).log_total

    def _law(self, n: int) -> Law:
        """The normalised kernel as a function of the separation."""
        spectrum = self.spectrum(n)
        return lambda u: zonal.zonal_series(n, spectrum.first, spectrum.p, u)

    def _gradient_law(self, n: int, name: str) -> Law:
        """Derivative by a log hyperparameter, of K or (absolute form) of K relative to K(x, x)."""
        spectrum = self.spectrum(n)
        scores = log_derivative(self, name, lambda k: k.log_weights(spectrum.eigenvalues, n))
        if self.normalized:
            scores = scores - (spectrum.p * scores).sum()
        coefficients = np.asarray(spectrum.p * scores, dtype=float)
        return lambda u: zonal.zonal_series(n, spectrum.first, coefficients, u)

    def _compile(self, n: int) -> Profile:
        if isinstance(self.space, HyperbolicSpace):
            self._factor(n)  # refuses what overflows
            return self._radial_law(self.space, n).log_profile(self.normalized)
        return self._table(_exact_at_zero(self._law(n), 1.0), self._factor(n), self.floor)

    def _compile_gradient(self, n: int, name: str) -> Profile:
        if isinstance(self.space, HyperbolicSpace):
            slope = self._radial_law(self.space, n).slope_profile(self.normalized)
            return ProductProfile(self.profile(n), slope)
        law = self._gradient_law(n, name)
        return self._table(_exact_at_zero(law, 0.0) if self.normalized else law, self._factor(n))

    def _factor(self, n: int) -> float:
        """What the normalised kernel is multiplied with."""
        if self.normalized:
            return 1.0
        log_total = self.log_self_similarity(n)
        if abs(log_total) > _LOG_MAX:
            raise ValueError(
                f"the absolute form is exp({log_total:.6g}) on the diagonal in dimension {n}, out of "
                "the floating range; use normalized=True (and log_self_similarity for the factor), or "
                "the log(X, Y) of a heat kernel"
            )
        return math.exp(log_total)

    def _table(self, law: Law, factor: float, floor: float = -np.inf) -> Profile:
        return compile_profile(
            lambda u: factor * law(u)[: self._sides],
            self._sphere.separation,
            unit=factor,
            floor=floor,
            law_error=2 * zonal.TRUNCATION,
        )


def _exact_at_zero(law: Law, value: float) -> Law:
    """The law with its value at separation zero freed from rounding."""

    def exact(u: Array) -> Array:
        values = law(u)
        values[0, u == 0] = value
        return values

    return exact


class Spectral(SpectralKernel):
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

    def __init__(self, space: SphericalSpace | Graph, weights: Any, normalized: bool = True) -> None:
        self.space = space
        self.weights = weights
        self.normalized = normalized

    def _validate(self) -> None:
        super()._validate()
        if not callable(self.weights):
            if isinstance(self.space, Graph):
                raise TypeError("weights on a graph must be a function of the Laplacian's eigenvalues")
            given = np.asarray(self.weights)
            refuse_complex(given, "weights")
            given = given.astype(float)
            if given.ndim != 1 or given.size == 0 or not np.all(np.isfinite(given)):
                raise ValueError("weights must be a function or a list of finite numbers")
            self._check_sign(given)

    def spectrum(self, n: int) -> zonal.Spectrum:
        """See :class:`SpectralKernel`."""
        self._validate()
        levels = None if callable(self.weights) else len(self.weights)
        spectrum = self._remember(
            ("spectrum", n),
            lambda: zonal.spectrum(
                lambda lam: self.log_weights(lam, n), n, levels=levels, least_levels=_GAP_LEVELS
            ),
        )
        last = self.log_weights(spectrum.eigenvalues[-1:], n)[0] if levels is None else 0.0
        if last < _LOG_LEAST and spectrum.p[-1] > zonal.TRUNCATION:
            raise ValueError(
                f"weights underflow at level {spectrum.levels[-1]}, where they still matter in "
                f"dimension {n}; subclass SpectralKernel and give their logarithms"
            )
        return spectrum

    def log_weights(self, eigenvalues: NDArray[Any], n: int) -> NDArray[Any]:
        """Logarithm of the given weights."""
        values = eigenvalues.astype(float)
        weights = self.weights(values) if callable(self.weights) else self.weights
        weights = np.asarray(weights)
        refuse_complex(weights, "weights")
        weights = weights.astype(np.longdouble)
        if weights.shape != eigenvalues.shape:
            raise ValueError(
                f"weights returned shape {weights.shape} for eigenvalues of shape {eigenvalues.shape}"
            )
        self._check_sign(weights)
        with np.errstate(divide="ignore"):
            return np.log(weights)

    @staticmethod
    def _check_sign(weights: NDArray[Any]) -> None:
        bad = np.flatnonzero(~(weights >= 0))
        if bad.size:
            raise ValueError(
                f"weights must not be negative or NaN (else K is no kernel): level {bad[0]} has "
                f"{float(weights[bad[0]])!r}"
            )
