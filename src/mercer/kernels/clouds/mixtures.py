"""Kernels of the covariance of the mixture of two clouds: determinants, and their series."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import tee
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._arrays import Array, number, with_diagonal
from mercer._validation import check_whole
from mercer.engine.clouds import Clouds, Index, inner_products, matrix
from mercer.engine.mixtures import eigenvalues, mixtures_of
from mercer.kernels.base import Kernel
from mercer.kernels.clouds.base import CloudKernel
from mercer.kernels.clouds.embeddings import TraceKernel
from mercer.special.matrix_moments import exponential_formula, power_sums

#: Traces of the powers 1, 2, 3, ... of matrices, with lower and upper bounds on the largest eigenvalues.
Traces = Iterator[tuple[Array, Array, Array]]


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

    def _pairs(self, P: Clouds, Q: Clouds | None) -> Any:
        return determinant_logarithms(self, P, Q, self.value("eta"))

    def _own(self, P: Clouds) -> Any:
        return -0.5 * _mixtures(self, P, None, self.value("eta")).own_log_determinants()

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

    def _pairs(self, P: Clouds, Q: Clouds | None) -> Any:
        return determinant_logarithms(self, P, Q, 1 / self.value("delta"))

    def _own(self, P: Clouds) -> Any:
        return -0.5 * _mixtures(self, P, None, 1 / self.value("delta")).own_log_determinants()

    def _pairs_slope(self, P: Clouds, name: str) -> Array:
        slope = determinant_slope(self, P, 1 / number(self.delta))
        return np.negative(slope, out=slope)

    def _limit(self, least: float) -> str:
        return f"delta of MixtureMoment must be below {1 / least:.3g}, got {self.delta!r}"

    def series(
        self,
        X: Any,
        Y: Any = None,
        tolerance: float = 1e-12,
        max_terms: int = 1000,
        method: str = "eigenvalues",
    ) -> Series:
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
        method : {"eigenvalues", "traces"}
            Compute ``d_k`` from the eigenvalues of S, or from the traces of its powers, at the cost of
            one product of matrices for two terms.  Traces bound rho by ``(tr (delta S)^k)^(1/k)``, so
            that they may need more terms.

        Returns
        -------
        Series
        """
        self.validate()
        if not 0 < tolerance < np.inf:
            raise ValueError(f"tolerance must be a positive number, got {tolerance!r}")
        check_whole("max_terms", max_terms, 1)
        if method not in ("eigenvalues", "traces"):
            raise ValueError(f"method must be 'eigenvalues' or 'traces', got {method!r}")
        P, Q = self._in_main_memory(X, Y)
        mixtures = _mixtures(self, P, Q, 1 / number(self.delta))

        def tile(left: Index, right: Index) -> Array:
            matrices = mixtures.matrices(left, right)
            if method == "traces":
                traces = _power_traces(matrices)
            else:
                # Negative eigenvalues of a covariance are rounding errors.
                spectra = np.maximum(eigenvalues(matrices), 0)
                rho = spectra[..., -1]
                traces = ((total, rho, rho) for total in power_sums(spectra))
            name = "X" if Q is None else "Y"
            checked = self._converging(traces, left, right, name)
            return _alternating_series(checked, matrices.shape[-1], tolerance, int(max_terms))

        out = matrix(P, Q, tile, "series", channels=3, most=mixtures.most)
        return Series(out[..., 0], out[..., 1], out[..., 2].astype(np.int64))

    def safe_delta(self, X: Any, Y: Any = None, rule: str = "variance") -> float:
        """A bound on delta below which :meth:`series` converges for all pairs of clouds.

        ``1 / max rho`` by "spectrum", with rho the largest eigenvalue of S; ``1 / max tr S`` by
        "variance", which needs no eigenvalues; and by "weights", from [1]_, without comparing any
        points, ``1 / (kappa max(d w - 1, 1)^2 d w)`` for mixtures of at most d points with weights of
        at most w and ``kappa = max k(x, x)`` of the base kernel.  Each is at least as large as the
        next: ``rho <= tr S <= kappa <= kappa d w``.  In particular every ``delta < 1`` is safe if the
        base kernel is at most 1, whatever the sizes of the clouds.

        Parameters
        ----------
        X, Y : clouds
            ``Y=None`` stands for X.
        rule : {"spectrum", "variance", "weights"}

        Examples
        --------
        >>> from mercer.kernels import Gaussian, MixtureMoment
        >>> kernel = MixtureMoment(Gaussian())
        >>> clouds = [[[0.0], [1.0], [3.0]], [[0.5]]]
        >>> rules = ("spectrum", "variance", "weights")
        >>> [round(kernel.safe_delta(clouds, rule=rule), 3) for rule in rules]
        [2.699, 2.003, 0.083]
        """
        self.validate()
        P, Q = self._in_main_memory(X, Y)
        both = [P] if Q is None else [P, Q]
        if rule not in ("spectrum", "variance", "weights"):
            raise ValueError(f"rule must be 'spectrum', 'variance' or 'weights', got {rule!r}")
        kappa = max(float(np.max(self.base.diag(Z.points))) for Z in both)
        if not kappa > 0:
            return np.inf
        if rule == "weights":
            points = [int(Z.sizes.max()) for Z in both]
            most = (points[0] + points[-1]) * max(float(Z.weights.max()) for Z in both) / 2
            return 1 / (kappa * max(most - 1, 1.0) ** 2 * most)
        if rule == "variance":
            largest = TraceKernel(self.base).variances(P, Q).max()
        else:
            largest = self._spectral_radii(P, Q, kappa).max()
        return float(1 / largest) if largest > 0 else np.inf

    def _in_main_memory(self, X: Any, Y: Any) -> tuple[Clouds, Clouds | None]:
        """Checked clouds; those of tensors are copied."""
        P, Q = self._check(X, None if Y is X else Y)
        return P.in_main_memory(), Q and Q.in_main_memory()

    def _spectral_radii(self, P: Clouds, Q: Clouds | None, unit: float) -> Array:
        """Largest eigenvalue of S for each pair of clouds, computed in a unit of its size."""
        mixtures = _mixtures(self, P, Q, unit)

        def tile(left: Index, right: Index) -> Array:
            return eigenvalues(mixtures.matrices(left, right))[..., -1]

        return matrix(P, Q, tile, "covariances", most=mixtures.most) * unit

    def _converging(self, traces: Traces, left: Index, right: Index, name: str) -> Traces:
        """The traces, or an error where they show that the series diverges."""
        for total, least, most in traces:
            if least.max() >= 1:
                i, j = np.unravel_index(int(least.argmax()), least.shape)
                limit = number(self.delta) / float(least[i, j])
                raise ValueError(
                    f"the series diverges for row {left[i]} of X and row {right[j]} of {name}: "
                    f"delta must be below {limit:.6g}, got {self.delta!r}; "
                    "the kernel itself is defined for every delta"
                )
            yield total, least, most


def _power_traces(matrices: Array) -> Traces:
    """Traces of the powers of matrices A, where ``tr A^(i+j)`` is the inner product of two powers.

    The largest eigenvalue is between ``tr A^k / tr A^(k-1)`` and ``(tr A^k)^(1/k)``.
    """

    def traces() -> Iterator[Array]:
        flat = (*matrices.shape[:-2], -1)
        yield np.trace(matrices, axis1=-2, axis2=-1)
        power = matrices
        while True:
            yield np.vecdot(power.reshape(flat), power.reshape(flat))
            following = power @ matrices
            yield np.vecdot(power.reshape(flat), following.reshape(flat))
            power = following

    before: Any = np.inf
    for k, total in enumerate(traces(), start=1):
        # A matrix of zeros has no ratio.
        yield total, total / np.maximum(before, np.finfo(float).tiny), np.maximum(total, 0) ** (1 / k)
        before = total


def _alternating_series(traces: Traces, size: int, tolerance: float, most: int) -> Array:
    """Sum, error and number of terms of the series, for matrices of this size."""
    ahead, behind = tee(traces)
    start = next(iter(ahead))[0] / 2
    values, sizes, left_out, terms = np.zeros((4, *start.shape))
    running = np.ones(start.shape, dtype=bool)
    terms_of_series = exponential_formula((total / 2 for total, _, _ in behind), np.ones(start.shape))
    for k, (c, (_, _, rho)) in enumerate(zip(terms_of_series, ahead, strict=False)):
        stopped = running & (rho < 1) & (k * (1 - rho) > start - 1) & (c <= tolerance)
        left_out[stopped] = c[stopped]
        running &= ~stopped
        if not running.any():
            break
        if k == most:
            raise ValueError(
                f"the series has not reached the tolerance {tolerance:g} after {most} terms; "
                "allow more terms, a larger tolerance or a smaller delta"
            )
        values += np.where(running, (-1) ** k * c, 0)
        sizes += np.where(running, c, 0)
        terms += running
    # Every eigenvalue and every step of the recursion adds a rounding error to a term.
    rounding = np.finfo(float).eps * (terms + size) * sizes
    return np.stack([values, left_out + rounding, terms], axis=-1)


def determinant_logarithms(kernel: CloudKernel, P: Clouds, Q: Clouds | None, eta: Any) -> Any:
    """Matrix of ``-log |I + S / eta| / 2``."""
    mixtures = _mixtures(kernel, P, Q, eta)
    out = matrix(P, Q, mixtures.log_determinants, "determinants", most=mixtures.most)
    out *= -0.5
    return with_diagonal(out, -0.5 * mixtures.own_log_determinants()) if Q is None else out


def determinant_slope(kernel: CloudKernel, P: Clouds, eta: float) -> Array:
    """Derivative of :func:`determinant_logarithms` with respect to log eta."""
    mixtures = _mixtures(kernel, P, None, eta)
    out: Array = matrix(P, None, mixtures.resolvent_traces, "gradients", most=mixtures.most)
    out *= 0.5
    return out


def _mixtures(kernel: CloudKernel, P: Clouds, Q: Clouds | None, eta: Any) -> Any:
    """Covariances of mixtures: explicit ones if they are smaller than the clouds."""
    featured = kernel.centred(P, Q)
    kernel.check_variance(number(eta), P, Q, featured)
    if featured is None:
        return mixtures_of(P, Q, kernel.points_gram(P), eta)
    points = len(P.weights) + (0 if Q is None else len(Q.weights))
    clouds = len(P) + (0 if Q is None else len(Q))
    explicit = featured[0].points.shape[1] * clouds <= points
    return mixtures_of(*featured, None if explicit else inner_products, eta)
