"""The Matern kernel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._arrays import number
from mercer._validation import check_positive
from mercer.kernels import shorttime
from mercer.kernels.hyperbolic import LEAST_LENGTH, Rungs
from mercer.kernels.shorttime import Law
from mercer.kernels.spectral import SpectralKernel
from mercer.kernels.time import natural_time
from mercer.spaces import Graph, HyperbolicSpace, SphericalSpace, zonal
from mercer.spaces.ladder import BesselGenerator

#: Least smoothness on hyperbolic space.
_LEAST_NU = 0.25
#: Largest one there; compiling takes seconds at it, and ever longer beyond.
_MOST_NU = 1e4


class Matern(SpectralKernel):
    """The Matern kernel of a curved space.

    ``a(lambda) = (2 nu / length_scale^2 + lambda)^(-nu - (n - 1) / 2)`` on S^(n-1): the same smoothness
    as in R^(n-1), and the heat kernel with ``t = length_scale^2 / 2`` as nu goes to infinity.

    On hyperbolic space H^d, with d in place of n - 1, lambda begins at ``(d - 1)^2 / 4``.  On a graph
    K is ``(2 nu / length_scale^2 + L)^(-nu)``, normalised by the square roots of K(x, x) and
    K(y, y).

    Positive definite for all parameters, unlike the flat Matern formula of the great-circle
    distance.  Where the weights fall too slowly to be summed (small nu, low dimension), times of the
    mixture of heat kernels that it is are split into a fast series and a short-time integral.

    Parameters
    ----------
    space : Sphere, Simplex, Hyperbolic, NormalFamily or Graph
    nu : float
        Smoothness, on hyperbolic space from 0.25 to 10^4; not changed by optimisers.
    length_scale : float, optional
        Distance over which the kernel falls, at curvature 1 (an angle, in radians) or -1.
    t_star : float
        Mean diffusion time in units of ``log(n) / n``, used unless ``length_scale`` is given; on sphere
        and simplex only.  The kernel is the mixture of heat kernels over times of a Gamma distribution
        with the mean ``t = (nu + (n - 1) / 2) length_scale^2 / (2 nu)``.
    normalized : bool
        Divide by the value at equal points.  The absolute form is ``sum_l a_l N_l P_l(w)`` on the sphere
        and the kernel of the operator ``a(-Laplacian)`` on hyperbolic space.
    length_scale_bounds, t_star_bounds : pair of floats or "fixed"
        Ranges for optimisers.

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
        space: SphericalSpace | HyperbolicSpace | Graph,
        nu: float = 2.5,
        length_scale: Any = None,
        t_star: Any = 1.0,
        normalized: bool = True,
        length_scale_bounds: Any = (1e-6, 1e2),
        t_star_bounds: Any = (1e-2, 1e2),
    ) -> None:
        self.space = space
        self.nu = nu
        self.length_scale = length_scale
        self.t_star = t_star
        self.normalized = normalized
        self.length_scale_bounds = length_scale_bounds
        self.t_star_bounds = t_star_bounds

    def continuous(self) -> tuple[str, ...]:
        """The length scale, or the mean time in its natural unit."""
        return ("t_star",) if self.length_scale is None else ("length_scale",)

    def range_parameter(self) -> str:
        """The length scale, or the mean time in its natural unit."""
        return self.continuous()[0] if self._has_unit else "length_scale"

    @property
    def _has_unit(self) -> bool:
        return isinstance(self.space, SphericalSpace)

    @property
    def steepness(self) -> int:
        """Power of the hyperparameter in the inverse of the rate ``2 nu / length_scale^2``."""
        return 1 if self.length_scale is None else 2

    def scale(self, n: int) -> float:
        """Length scale in dimension n."""
        return number(self._scale(n))

    def _scale(self, n: int) -> Any:
        if self.length_scale is not None:
            return self.length_scale
        nu = number(self.nu)
        return (2 * nu * self.t_star * natural_time(n) / self._power(n)) ** 0.5

    def _validate(self) -> None:
        super()._validate()
        check_positive(self, "nu")
        if self.length_scale is None and not self._has_unit:
            raise ValueError(
                f"give Matern the length scale: Matern({self.space!r}, length_scale=1.0), or take it "
                "from the data: scaled_to(X)"
            )
        name = self.continuous()[0]
        value = getattr(self, name)
        if self.length_scale is not None and self.t_star != 1.0:
            raise ValueError(
                f"give length_scale or t_star, not both: length_scale={self.length_scale!r}, "
                f"t_star={self.t_star!r} (t_star=1 counts as not given)"
            )
        if number(value) > 1e150:
            raise ValueError(f"{name} of Matern is too large: {value!r}")
        if number(self.nu) / max(number(value) ** 2, 5e-324) > 1e300:
            raise ValueError(f"{name} of Matern is too small: {value!r}")
        if isinstance(self.space, HyperbolicSpace):
            self._check_hyperbolic()
        if getattr(self.nu, "requires_grad", False):
            raise TypeError("Matern is not differentiable in nu; detach it")

    def _check_hyperbolic(self) -> None:
        if number(self.nu) < _LEAST_NU:
            raise ValueError(
                f"nu of Matern on hyperbolic space must be at least {_LEAST_NU}, got {self.nu!r}: a "
                "rougher kernel still falls at distances too small for its table"
            )
        if number(self.nu) > _MOST_NU:
            raise ValueError(
                f"nu of Matern on hyperbolic space must be at most {_MOST_NU:g}, got {self.nu!r}; use "
                "its limit, Heat with t = length_scale**2 / 2"
            )
        if number(self.length_scale) < LEAST_LENGTH:
            raise ValueError(
                f"length_scale of Matern on hyperbolic space must be at least {LEAST_LENGTH}, got "
                f"{self.length_scale!r}"
            )

    def log_weights(self, eigenvalues: NDArray[Any], n: int) -> NDArray[Any]:
        """``-(nu + (n - 1) / 2) log(2 nu / length_scale^2 + lambda)``."""
        return -self._power(n) * np.log(2 * number(self.nu) / self._scale(n) ** 2 + eigenvalues)

    def _power(self, n: int) -> float:
        return number(self.nu) + (n - 1) / 2

    def _split(self, n: int, raised: int = 0) -> tuple[Law, float] | None:
        """The split series where levels cannot be summed one by one; with the power raised."""

        def compute() -> tuple[Law, float] | None:
            plain = self.with_floats()
            try:
                zonal.spectrum(lambda lam: plain.log_weights(lam, n), n, self._direct_levels)
            except zonal.SlowDecay:
                rate = 2 * number(self.nu) / plain.scale(n) ** 2
                return shorttime.SplitSeries(n, self._power(n) + raised, rate).parts()
            return None

        return self._remember(("split", n, raised), compute)

    def log_self_similarity(self, n: int) -> float:
        """See :class:`SpectralKernel`."""
        split = self._split(n) if isinstance(self.space, SphericalSpace) else None
        return super().log_self_similarity(n) if split is None else split[1]

    def _law(self, n: int) -> Law:
        split = self._split(n)
        return super()._law(n) if split is None else split[0]

    def _gradient_law(self, n: int, name: str) -> Law:
        split, higher = self._split(n), self._split(n, raised=1)
        if split is None or higher is None:
            return super()._gradient_law(n, name)
        # d/dlog(rate) of (rate + lam)^-s is -s rate (rate + lam)^-(s+1).
        (law, log_total), (higher_law, higher_total) = split, higher
        rate = 2 * number(self.nu) / self.scale(n) ** 2
        weight = self.steepness * self._power(n) * math.exp(math.log(rate) + higher_total - log_total)
        shift = 1.0 if self.normalized else 0.0
        return lambda u: weight * (higher_law(u) - shift * law(u))

    def _rungs(self, d: int) -> Rungs:
        nu, scale = number(self.nu), self.scale(d)
        s = nu + d / 2
        rate = 2 * nu / scale**2 + ((d - 1) / 2) ** 2
        factor = math.log(2) - 0.5 * math.log(4 * math.pi) - (s - 0.5) * math.log(2 * rate)
        return Rungs(
            BesselGenerator(s - 0.5, rate),
            log_factor=factor - math.lgamma(s),
            slope=BesselGenerator(s + 0.5, rate),
            slope_factor=2 * nu / scale**2 / rate,
            # The kernel falls from its value at zero like rho^(2 nu).
            octaves=max(32, math.ceil(20 / nu)),
        )
