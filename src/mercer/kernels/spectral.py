"""Kernels given by weights on the Laplacian's eigenvalues: Heat, Matern, Spectral."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.engine.matrixfunction import Expansion
from mercer.kernels import shorttime
from mercer.kernels.base import check_choice, check_positive, log_derivative, number
from mercer.kernels.nodes import LaplacianKernel
from mercer.kernels.radial import RadialKernel, Road
from mercer.kernels.shorttime import Array, Law
from mercer.kernels.tails import log_heat_law
from mercer.kernels.time import DiffusionTime
from mercer.profiles import Profile, compile_profile
from mercer.spaces import Graph, SphericalSpace, zonal

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
    graph it runs over the eigenvectors of the Laplacian, and K is ``a(L)``.
    """

    space: SphericalSpace | Graph  # type: ignore[assignment]
    normalized: bool
    #: Lower bound of the values, 0 for laws known to be positive.
    floor = -np.inf

    @abstractmethod
    def log_weights(self, eigenvalues: NDArray[Any], n: int) -> NDArray[Any]:
        """Logarithm of the weights a(lambda) on S^(n-1), or on a graph, where n = 1.

        Write it with NumPy functions that are analytic in the hyperparameters: gradients come from
        evaluating it at complex ones.
        """

    def _validate(self) -> None:
        if not isinstance(self.space, SphericalSpace | Graph):
            raise TypeError(f"space must be Sphere(), Simplex() or a Graph, got {self.space!r}")
        check_choice(self, "normalized", (True, False))
        check_positive(self, *self.continuous())

    @property
    def requires_vector_input(self) -> bool:
        """Nodes of a graph are welcome in any form."""
        return not isinstance(self.space, Graph)

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """See :class:`Kernel`."""
        if isinstance(self.space, Graph):
            return LaplacianKernel(self)(X, Y, eval_gradient)
        return super().__call__(X, Y, eval_gradient)

    def diag(self, X: Any) -> Any:
        """See :class:`Kernel`."""
        return LaplacianKernel(self).diag(X) if isinstance(self.space, Graph) else super().diag(X)

    def matvec(self, X: Any, Y: Any, v: Any) -> Any:
        """See :class:`Kernel`."""
        if isinstance(self.space, Graph):
            return LaplacianKernel(self).matvec(X, Y, v)
        return super().matvec(X, Y, v)

    def expansion(self) -> Expansion:
        """On a graph: the series in the Laplacian, with its error; see :meth:`NodeKernel.expansion`."""
        if not isinstance(self.space, Graph):
            raise TypeError(f"expansion is for kernels on a graph; on {self.space!r} see profile(n)")
        return LaplacianKernel(self).expansion()

    @property
    def _sphere(self) -> SphericalSpace:
        """The space of kernels that are functions of an angle."""
        if isinstance(self.space, Graph):
            raise TypeError(
                f"{type(self).__name__} on a graph is no function of an angle; see expansion()"
            )
        return self.space

    @property
    def _sides(self) -> int:
        return 2 if self._sphere.separation == "folded" else 1

    def spectrum(self, n: int) -> zonal.Spectrum:
        """Weights on the levels that matter in dimension n of a sphere, and their sum."""
        self._validate()
        plain = self.with_floats()
        return self._remember(
            ("spectrum", n), lambda: zonal.spectrum(lambda lam: plain.log_weights(lam, n), n)
        )

    def log_self_similarity(self, n: int) -> float:
        """Logarithm of K(x, x) in the absolute form, in dimension n; finite where K overflows."""
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
        return self._table(_exact_at_zero(self._law(n), 1.0), self._factor(n), self.floor)

    def _compile_gradient(self, n: int, name: str) -> Profile:
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


class Heat(SpectralKernel, DiffusionTime):
    """The exact heat (diffusion) kernel.

    ``a(lambda) = exp(-lambda t)``.  On the sphere S^(n-1) the absolute form is
    ``G(w; t) = (1 / A) sum_l exp(-l (l + n - 2) t) N_l P_l(w)``, A the area of the sphere, the
    probability density of a Brownian motion after time t (generator: the Laplacian, so the variance
    per direction is 2 t); the normalised form divides by ``G(1; t)``.

    On a graph K is ``exp(-t L)``, and the normalised form divides by the square roots of K(x, x) and
    K(y, y), which differ from node to node.

    Positive definite and positive for every t > 0.  On spheres values are exact to 1e-13 (absolute,
    normalised form) in every dimension from 2 to 10^6; the number of levels is chosen from the weights.

    Parameters
    ----------
    space : Sphere, Simplex or Graph
    t : float, optional
        Absolute time, on the unit sphere; a graph needs it.
    t_star : float
        Time in units of ``log(n) / n``, used unless ``t`` is given.
    normalized : bool
        Divide by the value at equal points.
    t_bounds, t_star_bounds : pair of floats or "fixed"
        Ranges for optimisers.

    References
    ----------
    .. [1] C. Zhao, J. S. Song, "Exact heat kernel on a hypersphere and its applications in kernel
       SVM", Frontiers in Applied Mathematics and Statistics 4, 2018.
    .. [2] J. Lafferty, G. Lebanon, "Diffusion kernels on statistical manifolds", JMLR 6, 2005.

    Examples
    --------
    >>> from mercer.kernels import Heat
    >>> from mercer.spaces import Simplex
    >>> counts = [[3, 0, 1], [2, 1, 1], [0, 5, 0]]
    >>> Heat(Simplex(), t_star=0.5)(counts).round(4)
    array([[1.    , 0.6972, 0.0433],
           [0.6972, 1.    , 0.2464],
           [0.0433, 0.2464, 1.    ]])
    """

    floor = 0.0

    def __init__(
        self,
        space: SphericalSpace | Graph,
        t: Any = None,
        t_star: Any = 1.0,
        normalized: bool = True,
        t_bounds: Any = (1e-4, 1e2),
        t_star_bounds: Any = (1e-2, 1e2),
    ) -> None:
        self.space = space
        self.t = t
        self.t_star = t_star
        self.normalized = normalized
        self.t_bounds = t_bounds
        self.t_star_bounds = t_star_bounds

    def _validate(self) -> None:
        super()._validate()
        if isinstance(self.space, Graph) and self.t is None:
            raise ValueError("on a graph give Heat the time itself: Heat(graph, t=1.0)")
        self._check_time()

    def log_weights(self, eigenvalues: NDArray[Any], n: int) -> NDArray[Any]:
        """``-lambda t``."""
        return -eigenvalues * self._time(n)

    def log_self_similarity(self, n: int) -> float:
        """See :class:`SpectralKernel`; includes the area of the sphere."""
        t = self.time(n)
        if shorttime.is_short(n, t):
            return shorttime.log_heat_at_zero(n, t)
        return self.spectrum(n).log_total - zonal.log_area(n)

    def log(self, X: Any, Y: Any = None) -> Any:
        """Logarithm of the Gram matrix, also where the kernel over- or underflows.

        Relatively exact far into the tails, where sums in doubles have no correct digit left.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer.kernels import Heat
        >>> from mercer.spaces import Sphere
        >>> x, y = np.eye(1000)[:2]
        >>> Heat(Sphere(), normalized=False).log([x], [x]).round(4)    # e^2033 is no double
        array([[2033.0583]])
        """
        self._validate()
        if getattr(self._time(2), "requires_grad", False):
            raise TypeError("log is not differentiable in the time; detach it")
        road = Road(self, *self._check(X, Y))
        return road.gram(self._log_profile(road.n))

    def _log_profile(self, n: int) -> Profile:
        def compute() -> Profile:
            t = self.time(n)
            shift = 0.0 if self.normalized else self.log_self_similarity(n)
            if shorttime.is_short(n, t):
                law = shorttime.log_heat_law(n, t, self._sides)
            else:
                law = log_heat_law(self._law(n), n, t, self._sides)
            profile = compile_profile(
                lambda u: law(u) + shift, self._sphere.separation, logarithmic=True
            )
            return profile.without_exponential

        return self._remember(("log", n), compute)

    def _law(self, n: int) -> Law:
        t = self.time(n)
        return shorttime.heat_law(n, t) if shorttime.is_short(n, t) else super()._law(n)

    def _gradient_law(self, n: int, name: str) -> Law:
        t = self.time(n)
        if shorttime.is_short(n, t):
            return shorttime.heat_gradient_law(n, t, self.normalized)
        return super()._gradient_law(n, name)


class Matern(SpectralKernel):
    """The Matern kernel of a curved space.

    ``a(lambda) = (2 nu / length_scale^2 + lambda)^(-nu - (n - 1) / 2)`` on S^(n-1): the same smoothness
    as in R^(n-1), and the heat kernel with ``t = length_scale^2 / 2`` as nu goes to infinity.

    On a graph K is ``(2 nu / length_scale^2 + L)^(-nu)``, normalised by the square roots of K(x, x) and
    K(y, y).

    Positive definite for all parameters, unlike the flat Matern formula of the great-circle
    distance.  Where the weights fall too slowly to be summed (small nu, low dimension), times of the
    mixture of heat kernels that it is are split into a fast series and a short-time integral.

    Parameters
    ----------
    space : Sphere, Simplex or Graph
    nu : float
        Smoothness; not changed by optimisers.
    length_scale : float
        Angle over which the kernel falls, in radians.
    normalized : bool
        Divide by the value at equal points; the absolute form is ``sum_l a_l N_l P_l(w)``.
    length_scale_bounds : pair of floats or "fixed"
        Range for optimisers.

    References
    ----------
    .. [1] V. Borovitskiy, A. Terenin, P. Mostowsky, M. Deisenroth, "Matern Gaussian processes on
       Riemannian manifolds", NeurIPS 2020.

    Examples
    --------
    >>> from mercer.kernels import Matern
    >>> from mercer.spaces import Sphere
    >>> Matern(Sphere(), nu=1.5, length_scale=0.5)([[0, 0, 1], [0, 1, 1]]).round(4)
    array([[1.    , 0.2657],
           [0.2657, 1.    ]])
    """

    floor = 0.0
    #: Levels summed one by one before the split is used instead.
    _direct_levels = 16_384

    def __init__(
        self,
        space: SphericalSpace | Graph,
        nu: float = 2.5,
        length_scale: Any = 1.0,
        normalized: bool = True,
        length_scale_bounds: Any = (1e-2, 1e2),
    ) -> None:
        self.space = space
        self.nu = nu
        self.length_scale = length_scale
        self.normalized = normalized
        self.length_scale_bounds = length_scale_bounds

    def continuous(self) -> tuple[str, ...]:
        """The length scale."""
        return ("length_scale",)

    def _validate(self) -> None:
        super()._validate()
        check_positive(self, "nu")
        if number(self.nu) / max(number(self.length_scale) ** 2, 5e-324) > 1e300:
            raise ValueError(f"length_scale of Matern is too small: {self.length_scale!r}")
        if getattr(self.nu, "requires_grad", False):
            raise TypeError("Matern is not differentiable in nu; detach it")

    def log_weights(self, eigenvalues: NDArray[Any], n: int) -> NDArray[Any]:
        """``-(nu + (n - 1) / 2) log(2 nu / length_scale^2 + lambda)``."""
        return -self._power(n) * np.log(2 * number(self.nu) / self.length_scale**2 + eigenvalues)

    def _power(self, n: int) -> float:
        return number(self.nu) + (n - 1) / 2

    def _split(self, n: int, raised: int = 0) -> tuple[Law, float] | None:
        """The split series where levels cannot be summed one by one; with the power raised."""

        def compute() -> tuple[Law, float] | None:
            plain = self.with_floats()
            try:
                zonal.spectrum(lambda lam: plain.log_weights(lam, n), n, self._direct_levels)
            except zonal.SlowDecay:
                rate = 2 * number(self.nu) / plain.length_scale**2
                return shorttime.SplitSeries(n, self._power(n) + raised, rate).parts()
            return None

        return self._remember(("split", n, raised), compute)

    def log_self_similarity(self, n: int) -> float:
        """See :class:`SpectralKernel`."""
        split = self._split(n)
        return super().log_self_similarity(n) if split is None else split[1]

    def _law(self, n: int) -> Law:
        split = self._split(n)
        return super()._law(n) if split is None else split[0]

    def _gradient_law(self, n: int, name: str) -> Law:
        split, higher = self._split(n), self._split(n, raised=1)
        if split is None or higher is None:
            return super()._gradient_law(n, name)
        # d/dlog(length_scale) of (rate + lam)^-s is 2 s rate (rate + lam)^-(s+1).
        (law, log_total), (higher_law, higher_total) = split, higher
        rate = 2 * number(self.nu) / number(self.length_scale) ** 2
        weight = 2 * self._power(n) * math.exp(math.log(rate) + higher_total - log_total)
        shift = 1.0 if self.normalized else 0.0
        return lambda u: weight * (higher_law(u) - shift * law(u))


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
            given = np.asarray(self.weights, dtype=float)
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
        weights = np.asarray(weights, dtype=np.longdouble)
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
