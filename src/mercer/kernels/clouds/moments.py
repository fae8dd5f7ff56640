"""Kernels of the covariance of the mixture of two clouds, in coordinates: moments and averages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from mercer._arrays import Array, is_watched, number, on_cpu, placed, with_diagonal
from mercer._validation import is_whole
from mercer.engine.clouds import Clouds, Index, matrix
from mercer.engine.mixtures import mixtures_of
from mercer.kernels.base import Kernel
from mercer.kernels.clouds.base import CloudKernel
from mercer.kernels.euclidean import Linear
from mercer.special.matrix_moments import (
    MAX_ORDER,
    MAX_SPREAD,
    MAX_WEIGHT,
    log_norm_moment,
    log_sphere_average,
    log_zonal,
)

#: Imaginary step by which derivatives are computed.
_STEP = 1e-30


@dataclass(eq=False, repr=False)
class RegularizedMoment(CloudKernel):
    """Moments of a Gaussian with the regularised covariance of the mixture of two clouds.

    ``k(x, y) = |S|^(-1/2) E |v|^(2 order)`` for ``v ~ N(0, S^-1)``, with ``S = covariance + eps I`` of
    the mixture of both clouds with halved weights.  It is proportional to the integral of
    ``exp(-v'Sv / 2) |v|^(2 order)``.  With ``s_j = tr S^-j`` the moment is ``s_1`` for order 1,
    ``s_1^2 + 2 s_2`` for order 2 and ``s_1^3 + 6 s_1 s_2 + 8 s_3`` for order 3; in general
    ``2^i i! c_i`` with ``c_i = (s_1 c_(i-1) + ... + s_i c_0) / (2 i)`` and ``c_0 = 1``.

    Integrals over matrices V with m columns in place of vectors v give ``|S|^(-m/2) E |V|^(2 order)``
    and, for a partition such as ``order=(2, 1)``, ``|S|^(-m/2) C(S^-1)`` with the zonal polynomial C of
    the partition.  The zonal kernels of [1]_ have as many columns as coordinates: ``rank="full"``.

    Positive semidefinite, as an integral of ``exp(-tr V'SV / 2)`` with non-negative weights.

    Directions without variance have the eigenvalue eps, so that the number D of coordinates matters.
    Unlike the other kernels between clouds, this one needs explicit coordinates: those of R^d, or the
    explicit features of the base kernel.  A pair costs about D^3 operations.  For tensors, eigenvalues
    are computed on the device and moments in main memory.

    Parameters
    ----------
    order : int or tuple of int
        From 0 to 500, or the partition of a zonal polynomial: descending whole numbers with a sum of at
        most 20.
    eps : float
        Added to all eigenvalues.
    base : Kernel
        ``Linear()`` for the coordinates of the points, or a kernel with explicit features, such as
        ``Cosine()``.
    normalized : bool
        Divide by the square roots of k(x, x) and k(y, y).
    rescale_weights : bool
        Divide weights by their sum, instead of refusing those that do not sum to 1.
    eps_bounds : pair of floats or "fixed"
        Range for optimisers.
    rank : int or "full"
        Number m of columns; "full" for the number of coordinates.  It must be at least the number of
        parts of a partition.

    References
    ----------
    .. [1] M. Cuturi, "Kernels for measures defined on the Gram matrix of their support", 2009.
    .. [2] A. Takemura, "Zonal polynomials", 1984.

    Examples
    --------
    >>> from mercer.kernels import RegularizedMoment
    >>> RegularizedMoment(order=1, eps=1.0)([[[0.0], [2.0]], [[1.0]]]).round(4)
    array([[0.3536, 0.5443],
           [0.5443, 1.    ]])
    >>> zonal = RegularizedMoment(order=(2, 1), rank="full", eps=1.0, normalized=True)
    >>> zonal([[[0.0, 1.0], [2.0, 0.0]], [[1.0, 1.0]]]).round(4)
    array([[1.    , 0.7007],
           [0.7007, 1.    ]])
    """

    order: Any = 1
    eps: float = 0.01
    base: Kernel = Linear()  # noqa: RUF009 (immutable)
    normalized: bool = False
    rescale_weights: bool = False
    eps_bounds: Any = (1e-5, 1e5)
    rank: Any = 1

    def validate(self) -> None:
        super().validate()
        whole = is_whole(self.order) and 0 <= self.order <= MAX_ORDER
        if not whole and not _is_partition(self.order):
            raise ValueError(
                f"order of RegularizedMoment must be a whole number from 0 to {MAX_ORDER}, or a "
                "partition such as (2, 1): descending whole numbers with a sum of at most "
                f"{MAX_WEIGHT}; got {self.order!r}"
            )
        if self.rank != "full" and not (is_whole(self.rank) and self.rank >= self._parts):
            raise ValueError(
                "rank of RegularizedMoment must be 'full' or a whole number of at least "
                f"{self._parts} for order={self.order!r}, got {self.rank!r}"
            )

    @property
    def _parts(self) -> int:
        """Smallest number of columns."""
        return 1 if is_whole(self.order) else len(self.order)

    def _pairs(self, P: Clouds, Q: Clouds | None) -> Any:
        return _matrix(self._mixtures(P, Q), P, Q, self._logarithm)

    def _own(self, P: Clouds) -> Any:
        return _of_spectra(self._logarithm, self._mixtures(P, None).own_spectra())

    def _pairs_slope(self, P: Clouds, name: str) -> Array:
        return _matrix(self._mixtures(P, None), P, None, self._logarithm_slope)

    def _mixtures(self, P: Clouds, Q: Clouds | None) -> Any:
        mixtures = _explicit_mixtures(self, P, Q, number(self.eps))
        if self._parts > mixtures.size:
            raise ValueError(
                f"order={self.order!r} of RegularizedMoment has {self._parts} parts, but points have "
                f"{mixtures.size} coordinates: the kernel would be zero; use fewer parts"
            )
        return mixtures

    def _logarithm(self, spectra: Array, step: float = 0.0) -> Any:
        # Negative eigenvalues of a covariance are rounding errors.
        S: Any = np.maximum(spectra, 0) + number(self.eps)
        unit = S.min(axis=-1)
        S = S + 1j * step if step else S
        x = unit[..., None] / S
        rank = S.shape[-1] if self.rank == "full" else int(self.rank)
        if is_whole(self.order):
            degree, moment = int(self.order), log_norm_moment(x, int(self.order), rank)
        else:
            degree, moment = sum(self.order), log_zonal(x, tuple(map(int, self.order)))
        return moment - degree * np.log(unit) - rank / 2 * np.log(S).sum(axis=-1)

    def _logarithm_slope(self, spectra: Array) -> Array:
        """Derivative with respect to log eps."""
        return np.imag(self._logarithm(spectra, number(self.eps) * _STEP)) / _STEP


def _is_partition(order: Any) -> bool:
    """Tell whether these are descending positive whole numbers with a sum that is not too large."""
    if not isinstance(order, tuple | list) or not order:
        return False
    if not all(is_whole(part) and part >= 1 for part in order) or sum(order) > MAX_WEIGHT:
        return False
    return all(a >= b for a, b in pairwise(order))


@dataclass(eq=False, repr=False)
class SphericalAverage(CloudKernel):
    """The average of ``exp(-v'Sv)`` over a sphere, for the covariance S of the mixture of two clouds.

    ``k(x, y) = E exp(-v'Sv)`` over vectors v of squared length t, uniform on their sphere; the
    covariance is that of the mixture of both clouds with halved weights.  Times
    ``pi^(D/2) t^(D/2 - 1) / Gamma(D/2)`` it is the contribution of the sphere to the integral of
    ``exp(-v'Sv)`` over all of R^D, the function ``f(t)`` of [1]_, whose Laplace transform at s is
    proportional to ``|I + S / s|^(-1/2)``.  Positive semidefinite, with values in (0, 1].

    Averages depend on the number D of coordinates, so that the kernel needs explicit ones: those of
    R^d, or the explicit features of the base kernel.  It needs no regularisation.  Sums of terms of one
    sign keep the relative precision; they allow differences of eigenvalues of S up to ``200 / t``.

    Parameters
    ----------
    t : float
        Squared radius of the sphere.
    base : Kernel
        ``Linear()`` for the coordinates of the points, or a kernel with explicit features, such as
        ``Cosine()``.
    normalized : bool
        Divide by the square roots of k(x, x) and k(y, y).
    rescale_weights : bool
        Divide weights by their sum, instead of refusing those that do not sum to 1.
    t_bounds : pair of floats or "fixed"
        Range for optimisers.

    References
    ----------
    .. [1] M. Cuturi, "Kernels for measures defined on the Gram matrix of their support", 2009, lemma 6.

    Examples
    --------
    >>> from mercer.kernels import SphericalAverage
    >>> SphericalAverage(t=1.0)([[[0.0], [2.0]], [[1.0]]]).round(4)    # exp(-variance) on the line
    array([[0.3679, 0.6065],
           [0.6065, 1.    ]])
    """

    t: float = 1.0
    base: Kernel = Linear()  # noqa: RUF009 (immutable)
    normalized: bool = False
    rescale_weights: bool = False
    t_bounds: Any = (1e-5, 1e5)

    range_sense = -1

    def _pairs(self, P: Clouds, Q: Clouds | None) -> Any:
        return _matrix(self._mixtures(P, Q), P, Q, self._logarithm)

    def _own(self, P: Clouds) -> Any:
        return _of_spectra(self._logarithm, self._mixtures(P, None).own_spectra())

    def _pairs_slope(self, P: Clouds, name: str) -> Array:
        def slope(spectra: Array) -> Array:
            return np.imag(self._logarithm(spectra, _STEP)) / _STEP

        return _matrix(self._mixtures(P, None), P, None, slope)

    def _mixtures(self, P: Clouds, Q: Clouds | None) -> Any:
        return _explicit_mixtures(self, P, Q, 1 / number(self.t))

    def _logarithm(self, spectra: Array, step: float = 0.0) -> Any:
        spread = float((spectra[..., -1] - spectra[..., 0]).max())
        if number(self.t) * spread > MAX_SPREAD:
            raise ValueError(
                f"t of SphericalAverage must be at most {MAX_SPREAD / spread:.6g} for these clouds, got "
                f"{self.t!r}: eigenvalues of their covariances differ by up to {spread:.6g}"
            )
        t = number(self.t)
        return log_sphere_average(spectra, t * (1 + 1j * step) if step else t)

    def _limit(self, least: float) -> str:
        return f"t of SphericalAverage must be below {1 / least:.3g}, got {self.t!r}"


def _explicit_mixtures(kernel: CloudKernel, P: Clouds, Q: Clouds | None, variance: float) -> Any:
    """Covariances in the coordinates of the points; ``variance`` is their unit."""
    watched = [kernel.value(name) for name in kernel.continuous()]
    if any(map(is_watched, [*watched, P.points, *([] if Q is None else [Q.points])])):
        raise TypeError(
            f"functions of eigenvalues in {type(kernel).__name__} are computed in main memory and have "
            "no derivatives: detach the tensors, or use InverseGeneralizedVariance"
        )
    featured = kernel.centred(P, Q)
    if featured is None:
        raise ValueError(
            f"base of {type(kernel).__name__} must have explicit features, as Linear() or Cosine() "
            f"have; {kernel.base!r} has none"
        )
    kernel.check_variance(variance, P, Q, featured)
    return mixtures_of(*featured, None, 1.0)


def _of_spectra(function: Callable[[Array], Array], spectra: Any) -> Any:
    """A function of eigenvalues, which is computed in main memory."""
    return placed(function(on_cpu(spectra)), spectra)


def _matrix(mixtures: Any, P: Clouds, Q: Clouds | None, function: Callable[[Array], Array]) -> Any:
    """A function of the eigenvalues of the covariance, for each pair of clouds."""

    def tile(left: Index, right: Index) -> Any:
        return _of_spectra(function, mixtures.spectra(left, right))

    out = matrix(P, Q, tile, "covariances", most=mixtures.most)
    return with_diagonal(out, _of_spectra(function, mixtures.own_spectra())) if Q is None else out
