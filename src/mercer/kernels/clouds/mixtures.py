"""Kernels of the covariance of the mixture of two clouds: determinants and moments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._arrays import number
from mercer._validation import check_choice, is_whole
from mercer.engine.clouds import Clouds, Index, inner_products, matrix
from mercer.engine.mixtures import ExplicitMixtures, KernelMixtures, Mixtures
from mercer.kernels.base import Kernel
from mercer.kernels.clouds.base import Array, CloudKernel
from mercer.kernels.euclidean import Linear


@dataclass(eq=False, repr=False)
class InverseGeneralizedVariance(CloudKernel):
    """The inverse generalised variance of the mixture of two clouds.

    ``k(x, y) = |I + S / eta|^(-1/2)`` with S the covariance, in the feature space of the base kernel,
    of the mixture of both clouds with halved weights.  It is computed from the centred Gram matrix of
    the points of both clouds.  Positive semidefinite for every eta > 0.  Plain values are small: support
    vector machines need ``normalized=True`` or a very large C.  The relative rounding error is about
    1e-15 / eta for a base kernel with values near 1.

    For clouds of k points a pair costs about k^3 operations, after the Gram matrix of each cloud has
    been factorised once; if the base kernel has explicit features of dimension D <= k, it costs
    D^3 / 3.

    Parameters
    ----------
    base : Kernel
        Compares points.
    eta : float
        Ridge, in units of the variance.
    normalized : bool
        Divide by the square roots of k(x, x) and k(y, y).
    rescale_weights : bool
        Divide weights by their sum, instead of refusing those that do not sum to 1.
    eta_bounds : pair of floats or "fixed"
        Range for optimisers.

    References
    ----------
    .. [1] M. Cuturi, K. Fukumizu, J.-P. Vert, "Semigroup kernels on measures", JMLR 2005.

    Examples
    --------
    >>> from mercer.kernels import Gaussian, InverseGeneralizedVariance
    >>> ring = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]
    >>> pair = ([[0.0, 0.0], [0.5, 0.0]], [0.75, 0.25])  # points and their weights
    >>> InverseGeneralizedVariance(Gaussian(), eta=0.1)([ring, pair]).round(4)
    array([[0.2237, 0.2963],
           [0.2963, 0.8331]])
    >>> InverseGeneralizedVariance(Gaussian(), eta=0.1, normalized=True)([ring, pair]).round(4)
    array([[1.    , 0.6864],
           [0.6864, 1.    ]])
    """

    base: Kernel
    eta: float = 0.01
    normalized: bool = False
    rescale_weights: bool = False
    eta_bounds: Any = (1e-5, 1e5)

    def _pairs(self, P: Clouds, Q: Clouds | None) -> Array:
        return determinant_logarithms(self, P, Q, number(self.eta))

    def _own(self, P: Clouds) -> Array:
        return -0.5 * _mixtures(self, P, None, number(self.eta)).own_log_determinants()

    def _pairs_slope(self, P: Clouds, name: str) -> Array:
        return determinant_slope(self, P, number(self.eta))


@dataclass(frozen=True)
class Series:
    """Values of a truncated series.

    Attributes
    ----------
    values : array of shape (m, p)
    error : array of shape (m, p)
        Bound on the error: the first omitted term, plus the rounding error of the sum.
    terms : array of shape (m, p)
        Number of terms in the sum.
    """

    values: Array
    error: Array
    terms: NDArray[np.int64]


@dataclass(eq=False, repr=False)
class MixtureMoment(CloudKernel):
    """The moment kernel of the mixture of two clouds.

    ``k(x, y) = sum_k (-1)^k c_k`` with ``c_0 = 1``, ``c_k = (d_1 c_(k-1) + ... + d_k c_0) / k`` and
    ``d_k = tr (delta S)^k / 2``, where S is the covariance of the mixture as in
    :class:`InverseGeneralizedVariance`.  The series converges only for delta below 1 / (largest
    eigenvalue of S).  Its limit ``|I + delta S|^(-1/2)``, the inverse generalised variance with
    ``eta = 1 / delta``, is defined for every delta > 0, and is what this kernel computes.
    :meth:`series` sums the series itself.

    Parameters
    ----------
    base : Kernel
        Compares points.
    delta : float
        Factor of the variance.
    normalized : bool
        Divide by the square roots of k(x, x) and k(y, y).
    rescale_weights : bool
        Divide weights by their sum, instead of refusing those that do not sum to 1.
    delta_bounds : pair of floats or "fixed"
        Range for optimisers.

    References
    ----------
    .. [1] M. Cuturi, "Kernels for measures defined on the Gram matrix of their support", 2009.

    Examples
    --------
    >>> from mercer.kernels import Gaussian, MixtureMoment
    >>> kernel = MixtureMoment(Gaussian(), delta=1.0)
    >>> clouds = [[[0.0, 0.0], [1.0, 0.0]], [[0.0, 2.0]]]
    >>> kernel(clouds).round(4)
    array([[0.9141, 0.8075],
           [0.8075, 1.    ]])
    >>> series = kernel.series(clouds, tolerance=1e-6)
    >>> bool((abs(series.values - kernel(clouds)) <= series.error).all())
    True
    """

    base: Kernel
    delta: float = 1.0
    normalized: bool = False
    rescale_weights: bool = False
    delta_bounds: Any = (1e-5, 1e5)

    range_sense = -1

    def _pairs(self, P: Clouds, Q: Clouds | None) -> Array:
        return determinant_logarithms(self, P, Q, 1 / number(self.delta))

    def _own(self, P: Clouds) -> Array:
        return -0.5 * _mixtures(self, P, None, 1 / number(self.delta)).own_log_determinants()

    def _pairs_slope(self, P: Clouds, name: str) -> Array:
        slope = determinant_slope(self, P, 1 / number(self.delta))
        return np.negative(slope, out=slope)

    def _limit(self, least: float) -> str:
        return f"delta of MixtureMoment must be below {1 / least:.3g}, got {self.delta!r}"

    def series(self, X: Any, Y: Any = None, tolerance: float = 1e-12, max_terms: int = 1000) -> Series:
        """Plain values by the series of [1]_.

        The terms satisfy ``(k + 1) c_(k+1) <= (rho k + d_1) c_k`` with rho < 1 the largest eigenvalue of
        delta S.  From ``k (1 - rho) > d_1 - 1`` on they decrease, so that the rest of the alternating
        series is at most its first term.  The sum stops when that term is below the tolerance.

        Parameters
        ----------
        X, Y : clouds
            ``Y=None`` stands for X.
        tolerance : float
        max_terms : int
            An error is raised if a pair needs more.

        Returns
        -------
        Series
        """
        self.validate()
        if not 0 < tolerance < np.inf:
            raise ValueError(f"tolerance must be a positive number, got {tolerance!r}")
        if not is_whole(max_terms) or max_terms < 1:
            raise ValueError(f"max_terms must be 1, 2, 3, ..., got {max_terms!r}")
        P, Q = self._check(X, None if Y is X else Y)
        mixtures = _mixtures(self, P, Q, 1 / number(self.delta))

        def tile(left: Index, right: Index) -> Array:
            # Negative eigenvalues of a covariance are rounding errors.
            spectra = np.maximum(mixtures.spectra(left, right), 0)
            self._check_convergence(spectra[..., -1], left, right, "X" if Q is None else "Y")
            return _alternating_series(spectra, tolerance, int(max_terms))

        out = matrix(P, Q, tile, "series", channels=3, most=mixtures.most)
        return Series(out[..., 0], out[..., 1], out[..., 2].astype(np.int64))

    def _check_convergence(self, radii: Array, left: Index, right: Index, name: str) -> None:
        if radii.max() >= 1:
            i, j = np.unravel_index(int(radii.argmax()), radii.shape)
            limit = number(self.delta) / float(radii[i, j])
            raise ValueError(
                f"the series diverges for row {left[i]} of X and row {right[j]} of {name}: "
                f"delta must be below {limit:.6g}, got {self.delta!r}; "
                "the kernel itself is defined for every delta"
            )


def _alternating_series(spectra: Array, tolerance: float, most: int) -> Array:
    """Sum, error and number of terms of the series, for each spectrum."""
    shape = spectra.shape[:-1]
    rho, start = spectra[..., -1], spectra.sum(axis=-1) / 2
    powers = np.ones_like(spectra)
    c, d = [np.ones(shape)], []
    values, sizes, terms = np.zeros(shape), np.zeros(shape), np.zeros(shape, dtype=np.int64)
    running = np.ones(shape, dtype=bool)
    for k in range(most + 1):
        running &= ~((k * (1 - rho) > start - 1) & (c[k] <= tolerance))
        if not running.any():
            break
        if k == most:
            raise ValueError(
                f"the series has not reached the tolerance {tolerance:g} after {most} terms; "
                "allow more terms, a larger tolerance or a smaller delta"
            )
        values += np.where(running, (-1) ** k * c[k], 0)
        sizes += np.where(running, c[k], 0)
        terms += running
        powers *= spectra
        d.append(powers.sum(axis=-1) / 2)
        c.append(sum(d[k - r] * c[r] for r in range(k + 1)) / (k + 1))
    left_out = np.take_along_axis(np.stack(c), terms[None], axis=0)[0]
    # Every eigenvalue and every step of the recursion adds a rounding error to a term.
    rounding = np.finfo(float).eps * (terms + spectra.shape[-1]) * sizes
    return np.stack([values, left_out + rounding, terms], axis=-1)


@dataclass(eq=False, repr=False)
class RegularizedMoment(CloudKernel):
    """Moments of a Gaussian with the regularised covariance of the mixture of two clouds.

    With ``S = covariance + eps I`` of the mixture of both clouds with halved weights, and
    ``s_j = tr S^-j``, ``k(x, y) = |S|^(-1/2)`` times ``s_1`` for order 1, ``s_1^2 + 2 s_2`` for order
    2, and ``s_1^3 + 6 s_1 s_2 + 8 s_3`` for order 3.  Positive semidefinite.

    Directions without variance have the eigenvalue eps, so that the number D of coordinates matters.
    Unlike the other kernels between clouds, this one needs explicit coordinates: those of R^d, or the
    explicit features of the base kernel.  A pair costs about D^3 operations.

    Parameters
    ----------
    order : {1, 2, 3}
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

    References
    ----------
    .. [1] M. Cuturi, "Kernels for measures defined on the Gram matrix of their support", 2009.

    Examples
    --------
    >>> from mercer.kernels import RegularizedMoment
    >>> RegularizedMoment(order=1, eps=1.0)([[[0.0], [2.0]], [[1.0]]]).round(4)
    array([[0.3536, 0.5443],
           [0.5443, 1.    ]])
    """

    order: int = 1
    eps: float = 0.01
    base: Kernel = Linear()  # noqa: RUF009 (immutable)
    normalized: bool = False
    rescale_weights: bool = False
    eps_bounds: Any = (1e-5, 1e5)

    def validate(self) -> None:
        """See :class:`Kernel`."""
        super().validate()
        check_choice(self, "order", (1, 2, 3))

    def _pairs(self, P: Clouds, Q: Clouds | None) -> Array:
        mixtures = self._mixtures(P, Q)

        def tile(left: Index, right: Index) -> Array:
            return self._logarithm(mixtures.spectra(left, right))

        out = matrix(P, Q, tile, "covariances", most=mixtures.most)
        if Q is None:
            np.fill_diagonal(out, self._logarithm(mixtures.own_spectra()))
        return out

    def _own(self, P: Clouds) -> Array:
        return self._logarithm(self._mixtures(P, None).own_spectra())

    def _pairs_slope(self, P: Clouds, name: str) -> Array:
        mixtures = self._mixtures(P, None)

        def tile(left: Index, right: Index) -> Array:
            return self._logarithm_slope(mixtures.spectra(left, right))

        return matrix(P, None, tile, "covariances", most=mixtures.most)

    def _mixtures(self, P: Clouds, Q: Clouds | None) -> ExplicitMixtures:
        featured = self.centred(P, Q)
        if featured is None:
            raise ValueError(
                f"base of RegularizedMoment must have explicit features, as Linear() or Cosine() have; "
                f"{self.base!r} has none"
            )
        self.check_variance(number(self.eps), P, Q, featured)
        return ExplicitMixtures(*featured, 1.0)

    def _logarithm(self, spectra: Array) -> Array:
        roots, unit, s1, s2, s3, _ = self._inverse_powers(spectra)
        moment = (s1, s1**2 + 2 * s2, s1**3 + 6 * s1 * s2 + 8 * s3)[self.order - 1]
        return np.log(moment) - self.order * np.log(unit) - np.log(roots).sum(axis=-1) / 2

    def _logarithm_slope(self, spectra: Array) -> Array:
        """Derivative by log eps; the derivative of s_j by eps is -j s_(j+1)."""
        _, unit, s1, s2, s3, s4 = self._inverse_powers(spectra)
        moment, slope = (
            (s1, s2),
            (s1**2 + 2 * s2, 2 * s1 * s2 + 4 * s3),
            (s1**3 + 6 * s1 * s2 + 8 * s3, 3 * s1**2 * s2 + 6 * s2**2 + 12 * s1 * s3 + 24 * s4),
        )[self.order - 1]
        return -number(self.eps) / unit * (slope / moment + s1 / 2)

    def _inverse_powers(self, spectra: Array) -> tuple[Array, ...]:
        """Eigenvalues of S, the smallest one, and traces of inverse powers of S in units of it."""
        # Negative eigenvalues of a covariance are rounding errors.
        S = np.maximum(spectra, 0) + number(self.eps)
        unit = S.min(axis=-1)
        ratios = unit[..., None] / S
        return S, unit, *((ratios**j).sum(axis=-1) for j in (1, 2, 3, 4))


def determinant_logarithms(kernel: CloudKernel, P: Clouds, Q: Clouds | None, eta: float) -> Array:
    """Matrix of ``-log |I + S / eta| / 2``."""
    mixtures = _mixtures(kernel, P, Q, eta)
    out = matrix(P, Q, mixtures.log_determinants, "determinants", most=mixtures.most)
    out *= -0.5
    if Q is None:
        np.fill_diagonal(out, -0.5 * mixtures.own_log_determinants())
    return out


def determinant_slope(kernel: CloudKernel, P: Clouds, eta: float) -> Array:
    """Derivative of :func:`determinant_logarithms` by log eta."""
    mixtures = _mixtures(kernel, P, None, eta)
    out = matrix(P, None, mixtures.resolvent_traces, "gradients", most=mixtures.most)
    out *= 0.5
    return out


def _mixtures(kernel: CloudKernel, P: Clouds, Q: Clouds | None, eta: float) -> Mixtures:
    """Covariances of mixtures: explicit ones if they are smaller than the clouds."""
    featured = kernel.centred(P, Q)
    kernel.check_variance(eta, P, Q, featured)
    if featured is None:
        return KernelMixtures(P, Q, kernel.points_gram(P), eta)
    points = len(P.weights) + (0 if Q is None else len(Q.weights))
    clouds = len(P) + (0 if Q is None else len(Q))
    if featured[0].points.shape[1] * clouds <= points:
        return ExplicitMixtures(*featured, eta)
    return KernelMixtures(*featured, inner_products, eta)
