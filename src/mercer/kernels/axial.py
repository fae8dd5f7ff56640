"""The heat kernel of axes: points of projective space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mercer.kernels.base import check_spherical
from mercer.kernels.spectral import LawKernel
from mercer.kernels.time import DiffusionTime
from mercer.laws import Diffusion
from mercer.spaces import SphericalSpace
from mercer.spaces.projective import Projective


@dataclass(eq=False, repr=False)
class AxialHeat(LawKernel, DiffusionTime):
    """The heat kernel of axes: x and -x are the same point.

    ``a_l = exp(-l (l + n - 2) t)`` on the even levels of the sphere and 0 on the odd ones: the even part
    ``(G(w; t) + G(-w; t)) / 2`` of the heat kernel, which is the heat kernel of real projective space.
    The absolute form is divided by the area of the sphere, like that of :class:`Heat`.

    It suits axes without a direction, such as fibres and normals of planes.  It also suits tables in a
    Gaussian process: their rows lie on one half of the sphere, where the even harmonics represent as
    much as all of them, so that the same number of features reaches higher levels.

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
    t: Any = None
    t_star: Any = 1.0
    normalized: bool = True
    t_bounds: Any = (1e-6, 1e2)
    t_star_bounds: Any = (1e-2, 1e2)

    def law(self, n: int) -> Diffusion:
        """See :class:`LawKernel`."""
        return Diffusion(self._time(n))

    @property
    def laplacian_space(self) -> Projective:
        """See :class:`Kernel`."""
        return Projective(self.space)

    def _validate(self) -> None:
        check_spherical(self)
        super()._validate()
        self._check_time()
