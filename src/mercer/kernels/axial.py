"""The heat kernel of axes."""

from __future__ import annotations

from typing import Any

from mercer.kernels.base import check_spherical
from mercer.kernels.spectral import LawKernel
from mercer.kernels.time import DiffusionTime
from mercer.laws import Diffusion
from mercer.spaces import SphericalSpace
from mercer.spaces.projective import Projective


class AxialHeat(LawKernel, DiffusionTime):
    """The heat kernel of axes: x and -x are the same point.

    ``a_l = exp(-l (l + n - 2) t)`` on the even levels of the sphere and 0 on the odd ones: the even part
    ``(G(w; t) + G(-w; t)) / 2`` of the heat kernel, which is that of the real projective space.
    The absolute form is divided by the area of the sphere, as that of :class:`Heat` is.

    For axes without a direction, such as normals of planes and fibres.  Beside that for tables in a
    Gaussian process: their rows lie on one half of the sphere, where even harmonics can say as much
    as all of them, and the same number of features reaches further.

    Parameters
    ----------
    space : Sphere or Simplex
    t : float, optional
        Absolute time.
    t_star : float
        Time in units of ``log(n) / n``, used unless ``t`` is given.
    normalized : bool
        Divide by the value at equal points.
    t_bounds, t_star_bounds : pair of floats or "fixed"
        Ranges for optimisers.

    Examples
    --------
    >>> from mercer.kernels import AxialHeat
    >>> from mercer.spaces import Sphere
    >>> AxialHeat(Sphere(), t=0.1)([[1.0, 0, 0], [-1.0, 0, 0], [0, 1.0, 0]]).round(4)
    array([[1.    , 1.    , 0.0053],
           [1.    , 1.    , 0.0053],
           [0.0053, 0.0053, 1.    ]])
    """

    space: SphericalSpace

    def __init__(
        self,
        space: SphericalSpace,
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

    @property
    def home(self) -> Projective:
        """See :class:`LawKernel`."""
        return Projective(self.space)

    def _validate(self) -> None:
        check_spherical(self)
        super()._validate()
        self._check_time()
