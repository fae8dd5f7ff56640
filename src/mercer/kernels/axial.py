"""The heat kernel of axes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels.spectral import SpectralKernel
from mercer.kernels.time import DiffusionTime
from mercer.spaces import SphericalSpace
from mercer.special import zonal


class AxialHeat(SpectralKernel, DiffusionTime):
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

    floor = 0.0

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

    def _validate(self) -> None:
        super()._validate()
        if not isinstance(self.space, SphericalSpace):
            raise TypeError(f"axes are points of Sphere() or Simplex(), got {self.space!r}; use Heat")
        self._check_time()

    def log_weights(self, eigenvalues: NDArray[Any], n: int) -> NDArray[Any]:
        """``-lambda t`` on even levels."""
        alpha = n / 2 - 1
        levels = np.rint(np.sqrt(np.real(eigenvalues) + alpha**2) - alpha)
        return np.where(levels % 2 == 0, -eigenvalues * self._time(n), -np.inf)

    def _are_apart(self, invariants: Any, own: float, rounding: float) -> Any:
        return super()._are_apart(np.abs(invariants), own, rounding)  # x and -x are one point

    def log_self_similarity(self, n: int) -> float:
        """See :class:`SpectralKernel`; includes the area of the sphere, as that of Heat does."""
        return super().log_self_similarity(n) - zonal.log_area(n)
