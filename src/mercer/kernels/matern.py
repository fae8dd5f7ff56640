"""The Matern kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from mercer._arrays import is_watched, number
from mercer._validation import check_positive
from mercer.kernels.realised import LawKernel
from mercer.laws import GammaDiffusion
from mercer.spaces import Space


@dataclass(eq=False, repr=False)
class Matern(LawKernel):
    """The Matern kernel of curved and of flat spaces.

    ``a(lambda) = (2 nu / length_scale^2 + lambda)^(-nu - (n - 1) / 2)`` on S^(n-1).  It is as smooth as
    the Matern kernel of R^(n-1), and becomes the heat kernel with ``t = length_scale^2 / 2`` as nu goes
    to infinity.

    On Euclidean space it is the usual one,
    ``2^(1 - nu) / Gamma(nu) z^nu K_nu(z)`` with ``z = (2 nu)^(1/2) |x - y| / length_scale``: in closed
    form for nu = 1/2, 3/2, ..., 61/2, and for other nu from a table of the Bessel function.

    On hyperbolic space H^d, with d in place of n - 1, lambda starts at ``(d - 1)^2 / 4``.  On a graph
    K is ``(2 nu / length_scale^2 + L)^(-nu)``, normalised by the square roots of K(x, x) and K(y, y).
    On a product of spaces it is the mixture of the products of heat kernels.

    Positive definite for all parameters, unlike the flat formula applied to the great-circle
    distance.  It is a mixture of heat kernels over times of a Gamma distribution.  Where the weights
    fall too slowly to be summed (small nu, low dimension), the times are split into a fast series and a
    short-time integral.

    Parameters
    ----------
    space : Sphere, Simplex, Projective, Euclidean, Hyperbolic, NormalFamily, Graph, Torus, Rotations, \
Categories or ProductSpace
        Products with hyperbolic or normal factors are refused if the mixture needs shorter times than
        these factors can compute; a larger nu helps.
    nu : float
        Smoothness, from 0.25 to 10^4 on hyperbolic and from 0.1 to 10^4 on Euclidean space; optimisers
        do not change it.
    length_scale : float, optional
        Distance over which the kernel falls, at curvature 1 (an angle, in radians) or -1.
    t_star : float
        Mean ``t = (nu + (n - 1) / 2) length_scale^2 / (2 nu)`` of the times, in the natural unit of the
        space (see :class:`Heat`); used unless ``length_scale`` is given.
    normalized : bool
        Divide by the value at equal points.  The absolute form is ``sum_l a_l N_l P_l(w)`` on the sphere
        and the kernel of the operator ``a(-Laplacian)`` on hyperbolic and Euclidean space.
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
    >>> from mercer.spaces import Euclidean
    >>> Matern(Euclidean(), nu=0.5, length_scale=5.0)([[0, 0], [3, 4]]).round(4)    # exp(-|x - y| / 5)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """

    space: Space
    nu: float = 2.5
    length_scale: Any = None
    t_star: Any = 1.0
    normalized: bool = True
    length_scale_bounds: Any = (1e-6, 1e2)
    t_star_bounds: Any = (1e-2, 1e2)

    def continuous(self) -> tuple[str, ...]:
        """See :class:`Kernel`; the one of ``length_scale`` and ``t_star`` that is in use."""
        return ("t_star",) if self.length_scale is None else ("length_scale",)

    def range_parameter(self) -> str:
        return "length_scale" if self.space.natural_time(2) is None else self.continuous()[0]

    def scale(self, n: int) -> float:
        """Length scale for n columns."""
        if self.length_scale is not None:
            return number(self.length_scale)
        nu, unit = number(self.nu), cast(float, self.space.natural_time(n))
        return (2 * nu * number(self.t_star) * unit / (nu + self.space.dimension(n) / 2)) ** 0.5

    def _chain(self, name: str) -> float:
        return 1.0 if self.length_scale is None else 2.0  # a time is a squared length

    def law(self, n: int) -> GammaDiffusion:
        nu = number(self.nu)
        return GammaDiffusion(nu, 2 * nu / self.scale(n) ** 2)

    def validate(self) -> None:
        super().validate()
        check_positive(self, "nu")
        if self.length_scale is None and self.space.natural_time(2) is None:
            raise ValueError(
                f"Matern has no default length scale on {self.space!r}: give one, as in "
                "Matern(..., length_scale=1.0), or take it from the data: scaled_to(X)"
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
        self.space.check_matern(number(self.nu), number(value))
        if is_watched(self.nu):
            raise TypeError("Matern is not differentiable in nu; detach it")
