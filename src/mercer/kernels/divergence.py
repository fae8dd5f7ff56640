"""A kernel with the Kullback-Leibler divergence in place of the squared Fisher distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mercer.kernels.euclidean import decay_profile
from mercer.kernels.parametrix import ORTHOGONAL_HALF
from mercer.kernels.radial import RadialKernel
from mercer.kernels.realised import DiffusionTime
from mercer.profiles import PowerProfile, ProductProfile, Profile
from mercer.spaces import Space
from mercer.spaces.realisations.base import Operands
from mercer.spaces.realisations.divergences import DistributionSpace


@dataclass(eq=False, repr=False)
class KullbackLeibler(DiffusionTime, RadialKernel):
    """The heat kernel's short-time formula with a divergence in place of the squared Fisher distance.

    ``k(p, q) = exp(-J(p, q) / (16 t))`` on the simplex, ``exp(-J / (8 k t))`` for normal distributions
    in k dimensions and ``exp(-J / (8 t))`` for products of normal distributions, where

        ``J(p, q) = KL(p || q) + KL(q || p)``

    is the symmetrised Kullback-Leibler divergence.  For close distributions J equals the squared Fisher
    distance, ``4 theta^2`` on the simplex and ``2 k rho^2`` on a normal family, up to terms of fourth
    order, and the kernel is the leading factor ``exp(-theta^2 / 4t)`` of the heat kernel.  For distant
    distributions J is larger than the squared distance: it is unbounded where a probability goes to
    zero, and grows exponentially with the distance between normal distributions.

    **Not positive semidefinite** in general.  For normal distributions with a common mean J is
    ``cosh(2 x) - 1`` with x the difference of the logarithms of their deviations, and the Fourier
    transform of ``exp(-c cosh(2 x))``, a Bessel function of imaginary order, changes its sign.  Use
    :class:`Heat`, except for comparisons.

    On the simplex J is a matrix product, centred at the mean of the rows; its absolute error is a few
    rounding errors of the largest products of probabilities and their logarithms.  Between normal
    distributions it is summed from differences, with a small relative error.

    Parameters
    ----------
    space : Simplex, NormalFamily or NormalProduct
        On the simplex all entries must be positive; otherwise the divergence is infinite.
    t : float, optional
        Absolute time, at curvature 1 or -1.
    t_star : float
        Time in the unit of :class:`Parametrix`, ``pi^2 / (16 log 2)``, used unless ``t`` is given; on
        the simplex only.
    t_bounds, t_star_bounds : pair of floats or "fixed"
        Ranges for optimisers.

    References
    ----------
    .. [1] J. Lafferty, G. Lebanon, "Diffusion kernels on statistical manifolds", JMLR 6, 2005.
    .. [2] S. Kullback, "Information theory and statistics", Wiley, 1959.

    Examples
    --------
    >>> from mercer.kernels import Heat, KullbackLeibler
    >>> from mercer.spaces import NormalFamily
    >>> rows = [[0.0, 1.0], [0.2, 1.1], [3.0, 0.5]]
    >>> KullbackLeibler(NormalFamily(), t=0.5)(rows[:1], rows).round(4)
    array([[1.    , 0.9864, 0.0027]])
    >>> Heat(NormalFamily(), t=0.5)(rows[:1], rows).round(4)
    array([[1.    , 0.9843, 0.0342]])
    """

    space: DistributionSpace  # type: ignore[assignment]
    t: Any = None
    t_star: Any = 1.0
    t_bounds: Any = (1e-6, 1e2)
    t_star_bounds: Any = (1e-2, 1e2)

    positive_semidefinite = False
    embeds_alike = False
    common_invariant = 0.0

    def divergences(self, X: Any, Y: Any = None) -> Any:
        """Symmetrised divergences J between the rows of X and those of Y.

        Examples
        --------
        >>> from mercer.kernels import KullbackLeibler
        >>> from mercer.spaces import Simplex
        >>> KullbackLeibler(Simplex()).divergences([[1, 1]], [[1, 3]]).round(4)    # log(3) / 4
        array([[0.2747]])
        """
        self._check_space()
        return Operands(self, *self.space.check_pair(X, Y)).gram(PowerProfile())

    def _unit(self, n: int) -> float | None:
        return None if self.space.natural_time(n) is None else ORTHOGONAL_HALF

    def validate(self) -> None:
        self._check_space()
        super().validate()

    def _check_space(self) -> None:
        if not isinstance(self.space, Space):
            raise TypeError(
                f"space must be Simplex(), NormalFamily() or NormalProduct(), got {self.space!r}"
            )
        self.space.divergence_unit(2)

    def embed(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        return self.space.embed_divergence(X, Y)

    def _rate(self, n: int) -> float:
        """The factor of J, kept in the floating-point range."""
        return 1 / min(max(self.time(n), 1e-300), 1e300) / self.space.divergence_unit(n)

    def _compile(self, n: int) -> Profile:
        return decay_profile(self._rate(n))

    def _compile_gradient(self, n: int, name: str) -> Profile:
        return ProductProfile(self._compile(n), PowerProfile(scale=self._rate(n)))
