"""The short-time expansion of the heat kernel as a kernel: Parametrix."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from mercer._arrays import Array
from mercer._validation import check_choice, check_whole
from mercer.kernels.euclidean import decay_profile
from mercer.kernels.radial import RadialKernel
from mercer.kernels.realised import DiffusionTime
from mercer.profiles import PowerProfile, ProductProfile, Profile, TableProfile, compile_profile
from mercer.spaces import RadialSpace, Space
from mercer.special import heat_expansion
from mercer.special.zonal import Function

#: From this time down, exp(-theta^2 / 4t) is zero in doubles for all unit vectors that differ.
_LEAST_TIME = 1e-20
#: Time at which exp(-theta^2 / 4t) is one half for orthogonal points.
ORTHOGONAL_HALF = math.pi**2 / (16 * math.log(2))


@dataclass(eq=False, repr=False)
class Parametrix(DiffusionTime, RadialKernel):
    """The parametrix: the short-time expansion of the heat kernel, to any order.

    Order 0 is ``exp(-theta^2 / 4t)``, the kernel of the literature; order k >= 1 is ``exp(-theta^2 /
    4t) (u_0 + u_1 t + ... + u_k t^k)`` with the coefficients of the sphere, ``u_0 = (theta / sin
    theta)^((n-2)/2)``.  The factor ``(4 pi t)^(-d/2)``, d = n - 1, is omitted.

    **Not positive semidefinite** in general: a Gram matrix of 800 points on the 2-sphere had the
    eigenvalue -6.7 at t = 2, and negative eigenvalues occur on the simplex too.  SVMs may stop at a
    saddle point, and Gaussian processes fail.  Use :class:`Heat`, which costs the same, except for
    comparisons.  With u_0 the kernel diverges at the antipode, and rises with the angle around
    theta = 0 if ``(n - 2) t > 3``: nearby points are then more similar than equal ones.  As t goes to 0
    the relative error falls like ``t^(k+1)``; in high dimension no order is accurate at the times used
    in practice.

    The coefficients are rational polynomials in ``1 / theta`` and ``cot(theta)``, computed exactly and
    evaluated in ball arithmetic; compiling takes 0.1 to 0.3 seconds up to order 10, in every dimension.

    Parameters
    ----------
    space : Sphere, Simplex or ExponentialFamily
        On an exponential family ``theta`` is the geodesic distance in the Fisher metric, the order is 0,
        and the time must be given.
    t : float, optional
        Absolute time.
    t_star : float
        Time in units of ``pi^2 / (16 log 2)``, used unless ``t`` is given: at 1 the kernel of order 0
        is 1/2 between orthogonal points.  The unit does not depend on the dimension, because angles
        between rows of many columns crowd near ``pi / 2``, however many columns there are.
    order : int
        Order k of the expansion, from 0.
    normalized : bool
        Divide by the value at theta = 0, which is 1 for order 0.
    van_vleck : bool
        Keep the factor u_0, the root of the Van Vleck determinant, in order 0; higher orders have it.
    t_bounds, t_star_bounds : pair of floats or "fixed"
        Ranges for optimisers.

    Notes
    -----
    u_2 is not the one published in [1]_, which does not satisfy its own recursion.  No coefficient is
    singular at theta = 0.

    References
    ----------
    .. [1] C. Zhao, J. S. Song, "Exact heat kernel on a hypersphere and its applications in kernel
       SVM", Frontiers in Applied Mathematics and Statistics 4, 2018.
    .. [2] J. Lafferty, G. Lebanon, "Diffusion kernels on statistical manifolds", JMLR 6, 2005.

    Examples
    --------
    >>> from mercer.kernels import Parametrix
    >>> from mercer.spaces import Sphere
    >>> k = Parametrix(Sphere(), t=0.1)
    >>> k([[1, 0, 0]], [[0, 1, 0]]).round(6), k.positive_semidefinite
    (array([[0.002094]]), False)
    >>> [Parametrix(Sphere(), t=0.1, order=k)([[1, 0, 0]]).item() for k in (1, 2, 3)]
    [1.0333333333333334, 1.034, 1.0340126984126985]
    """

    space: RadialSpace
    t: Any = None
    t_star: Any = 1.0
    order: int = 0
    normalized: bool = False
    van_vleck: bool = False
    t_bounds: Any = (1e-6, 1e2)
    t_star_bounds: Any = (1e-2, 1e2)

    positive_semidefinite = False

    def validate(self) -> None:
        if not isinstance(self.space, Space):
            raise TypeError(f"space must be Sphere() or Simplex(), got {self.space!r}")
        check_whole("order of Parametrix", self.order, 0)
        self.space.require_expansion(self.order or int(self.van_vleck))
        super().validate()
        check_choice(self, "normalized", (True, False))
        check_choice(self, "van_vleck", (True, False))

    def is_zonal(self) -> bool:
        return self.space.widest_angle is not None

    def _unit(self, n: int) -> float | None:
        return None if self.space.natural_time(n) is None else ORTHOGONAL_HALF

    @property
    def _sides(self) -> int:
        """Number of hemispheres that the function is compiled for."""
        return 2 if self.space.separation == "folded" else 1

    @property
    def _of_squares(self) -> bool:
        """Whether the invariant is the squared distance, not the cosine of an angle."""
        return self.space.separation == "invariant"

    def _compile(self, n: int) -> Profile:
        if self._of_squares:
            return decay_profile(self._rate(n))
        if self.order == 0:
            return self._exponential(n, self._stretch(n))
        bracket = heat_expansion.Combination(n - 1, self._weights(n)[0])
        return self._times(n, bracket.poles, lambda u: bracket(u, self._sides), least=0.0)

    def _compile_gradient(self, n: int, name: str) -> Profile:
        # d/dlog(t) of exp(-r^2/4t) b(t) is exp(-r^2/4t) (b r^2/4t + db/dlog(t)).
        if self._of_squares:
            return ProductProfile(self._compile(n), PowerProfile(scale=self._rate(n)))

        def rise(u: Array) -> Array:
            return self._drop(n, u)[: self._sides]

        if self.order == 0:
            return self._times(n, 0, rise, least=1.0)
        bracket, slope = (heat_expansion.Combination(n - 1, weights) for weights in self._weights(n))

        def law(u: Array) -> Array:
            return bracket(u, self._sides) * rise(u) + slope(u, self._sides)

        return self._times(n, bracket.poles, law, least=1.0)

    def _weights(self, n: int) -> tuple[list[Fraction], list[Fraction]]:
        """Factors of u_0, ..., u_order, and their derivatives with respect to log t."""
        t = Fraction(self.time(n))
        powers = [t**k for k in range(self.order + 1)]
        if not self.normalized:
            return powers, [k * power for k, power in enumerate(powers)]
        origin = [
            u * power
            for u, power in zip(heat_expansion.diagonal(n - 1, self.order), powers, strict=True)
        ]
        scale = sum(origin, Fraction(0))
        change = sum((k * term for k, term in enumerate(origin)), Fraction(0)) / scale
        weights = [power / scale for power in powers]
        return weights, [(k - change) * weight for k, weight in enumerate(weights)]

    def _rate(self, n: int) -> float:
        """``1 / 4t``, bounded."""
        return 1 / (4 * min(max(self.time(n), _LEAST_TIME), 1 / _LEAST_TIME))

    def _drop(self, n: int, u: Array) -> Array:
        """``theta^2 / 4t``, bounded."""
        return heat_expansion.angles(u) ** 2 * self._rate(n)

    def _exponential(self, n: int, power: float) -> TableProfile:
        """``exp(-theta^2 / 4t) (theta / sin theta)^power``."""

        def law(u: Array) -> Array:
            return (heat_expansion.log_stretch(power, u) - self._drop(n, u))[: self._sides]

        return compile_profile(law, self.space.separation, logarithmic=True)

    def _times(self, n: int, poles: int, law: Function, least: float) -> Profile:
        """A function without its poles, times the exponential, ``u_0`` and the poles."""

        def finite(u: Array) -> Array:
            values = law(u)
            if not np.isfinite(values).all():
                raise ValueError(
                    f"Parametrix of order {self.order} at t = {self.time(n):.3g} overflows in dimension "
                    f"{n}; use normalized=True, a smaller t or a lower order"
                )
            return values

        factor = compile_profile(finite, self.space.separation, least=least)
        return ProductProfile(self._exponential(n, self._stretch(n) + poles), factor)

    def _stretch(self, n: int) -> float:
        """The power of ``theta / sin theta`` that is u_0, if it is a factor."""
        return (n - 2) / 2 if self.order or self.van_vleck else 0.0
