"""The heat kernel."""

from __future__ import annotations

from typing import Any

from mercer.kernels.spectral import LawKernel
from mercer.kernels.time import DiffusionTime
from mercer.laws import Diffusion
from mercer.spaces import Space


class Heat(LawKernel, DiffusionTime):
    """The exact heat (diffusion) kernel.

    ``a(lambda) = exp(-lambda t)``.  On the sphere S^(n-1) the absolute form is
    ``G(w; t) = (1 / A) sum_l exp(-l (l + n - 2) t) N_l P_l(w)``, A the area of the sphere, the
    probability density of a Brownian motion after time t (generator: the Laplacian, so the variance
    per direction is 2 t); the normalised form divides by ``G(1; t)``.

    On hyperbolic space H^d it is a function of the distance rho, from ``K_1 = exp(-rho^2 / 4t) /
    sqrt(4 pi t)`` by ``K_(d+2) = -exp(-d t) / (2 pi) dK_d / d(cosh rho)``.

    On ``Simplex(boundary=...)`` it is the kernel of the multinomial family whose boundary reflects or
    absorbs, a sum over reflections, and the normalised form divides by the square roots of K(x, x) and
    K(y, y).

    On a product of normal families it is the product of the heat kernels of the features.

    On a graph K is ``exp(-t L)``, and the normalised form divides by the square roots of K(x, x) and
    K(y, y), which differ from node to node.

    Positive definite and positive for every t > 0.  On spheres values are exact to 1e-13 (absolute,
    normalised form) in every dimension from 2 to 10^6; the number of levels is chosen from the weights.

    Parameters
    ----------
    space : Sphere, Simplex, Hyperbolic, NormalFamily, NormalProduct or Graph
    t : float, optional
        Absolute time, at curvature 1 or -1; on hyperbolic space at least 1e-8.
    t_star : float
        Time in units of ``log(n) / n``, used unless ``t`` is given; on sphere and simplex only.  In
        high dimension the normalised kernel is ``exp(B (w - 1))`` with ``B = n^(1 - t_star)``: what is
        useful lies close to 1, and :meth:`scaled_to` finds it.
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

    def __init__(
        self,
        space: Space,
        t: Any = None,
        t_star: Any = 1.0,
        normalized: bool = True,
        t_bounds: Any = (1e-6, 1e2),
        t_star_bounds: Any = (1e-2, 1e2),
    ) -> None:
        self.space = space
        self.t = t
        self.t_star = t_star
        self.normalized = normalized
        self.t_bounds = t_bounds
        self.t_star_bounds = t_star_bounds

    def law(self, n: int) -> Diffusion:
        """Diffusion for the time."""
        return Diffusion(self._time(n))

    def _validate(self) -> None:
        super()._validate()
        self._check_time()
        self.space.check_time(self.time(2))

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
        P, Q = self.space.check_pair(X, Y)
        return self.realise(self.space.columns(P)).log(P, Q)
