"""Kernels of mean embeddings of clouds: MeanEmbedding, GaussianEmbedding, TraceKernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy.special import xlogy

from mercer._arrays import Array, filled, number, placed, squared_lengths, to_double, with_diagonal
from mercer._validation import check_choice
from mercer.contributions import Contributions
from mercer.engine.clouds import Clouds, at_least_zero, mean_products, mean_squares
from mercer.kernels.base import Kernel
from mercer.kernels.clouds.base import CloudKernel

#: Relative asymmetry of a metric, and size of negative eigenvalues, that count as rounding.
_ROUNDING = 1e-12
#: Squared distances below this share of the squared lengths are nothing but rounding.
_ALIKE = 8 * np.finfo(float).eps


@dataclass(eq=False, repr=False)
class MeanEmbedding(CloudKernel):
    """The inner product of mean embeddings.

    ``k(x, y) = sum_ij a_i b_j base(x_i, y_j)`` for clouds with weights a and b.  The distance that it
    induces is the maximum mean discrepancy (MMD).  Positive semidefinite.  Costs one value of the base
    kernel per pair of points, or one product of means if the base kernel has explicit features.

    Parameters
    ----------
    base : Kernel
        Compares points.
    normalized : bool
        Divide by the norms of the mean embeddings.
    rescale_weights : bool
        Divide weights by their sum, instead of refusing those that do not sum to 1.

    References
    ----------
    .. [1] A. Smola, A. Gretton, L. Song, B. Scholkopf, "A Hilbert space embedding for distributions",
       ALT 2007.

    Examples
    --------
    >>> from mercer.kernels import Linear, MeanEmbedding
    >>> MeanEmbedding(Linear())([[[1.0, 0.0], [3.0, 2.0]], [[0.0, 4.0]]])
    array([[ 5.,  4.],
           [ 4., 16.]])
    """

    base: Kernel
    normalized: bool = False
    rescale_weights: bool = False

    _logarithmic = False

    def _pairs(self, P: Clouds, Q: Clouds | None) -> Any:
        featured = self._featured(P, Q)
        if featured is None:
            K = mean_products(P, Q, self.points_gram(P))
        else:
            means = featured[0].sums(featured[0].points)
            K = means @ (means if featured[1] is None else featured[1].sums(featured[1].points)).T
        return with_diagonal(K, self._own(P)) if Q is None else K

    def _own(self, P: Clouds) -> Any:
        return self.squared_norms(P)

    def _contributions(self, P: Clouds, Q: Clouds, weights: Array) -> tuple[Contributions, ...]:
        sums = np.einsum("iy,iy->i", np.repeat(weights, P.sizes, axis=0), self.inner_products(P, Q))
        return self.of_points(P, P.weights * sums, exact=True)


@dataclass(eq=False, repr=False)
class GaussianEmbedding(CloudKernel):
    """The Gaussian kernel of the distance between mean embeddings.

    ``k(x, y) = exp(-MMD(x, y)^2 / (2 length_scale^2))`` with
    ``MMD^2 = a'Ka + b'Kb - 2 a'Kb`` under the base kernel.  Positive semidefinite.  Costs as much as
    :class:`MeanEmbedding`.

    Parameters
    ----------
    base : Kernel
        Compares points.
    length_scale : float
        In units of the MMD, which is at most sqrt(2) for a base kernel with k(x, x) = 1.
    normalized : bool
        Has no effect, because k(x, x) = 1.
    rescale_weights : bool
        Divide weights by their sum, instead of refusing those that do not sum to 1.
    length_scale_bounds : pair of floats or "fixed"
        Range for optimisers.

    References
    ----------
    .. [1] A. Christmann, I. Steinwart, "Universal kernels on non-standard input spaces", NeurIPS 2010.

    Examples
    --------
    >>> from mercer.kernels import GaussianEmbedding, Linear
    >>> GaussianEmbedding(Linear(), length_scale=5.0)([[[3.0, 4.0]], [[-1.0, 0.0], [1.0, 0.0]]]).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    """

    base: Kernel
    length_scale: float = 1.0
    normalized: bool = False
    rescale_weights: bool = False
    length_scale_bounds: Any = (1e-5, 1e5)

    _range_power = -2.0
    _range_rows = 300

    def _pairs(self, P: Clouds, Q: Clouds | None) -> Any:
        exponents = squared_distances(self, P, Q, number(self.length_scale) ** 2)
        with np.errstate(over="ignore"):
            exponents *= -0.5
            exponents /= self.value("length_scale")
            exponents /= self.value("length_scale")
        return exponents

    def _own(self, P: Clouds) -> Any:
        return filled((len(P),), 0.0, P.points)

    def _pairs_slope(self, P: Clouds, name: str) -> Array:
        return -2 * self._pairs(P, None)

    def _contributions(self, P: Clouds, Q: Clouds, weights: Array) -> tuple[Contributions, ...]:
        slopes = weights * self._gram(P, Q) / (-2 * number(self.length_scale) ** 2)
        return self.of_points(P, distance_parts(self, P, Q, slopes), exact=False)

    def _limit(self, least: float) -> str:
        return super()._limit(least**0.5)


@dataclass(eq=False, repr=False)
class TraceKernel(CloudKernel):
    """The trace kernel: the total variance of the mixture of two clouds in feature space.

    ``k(x, y) = exp(-tr S / t)`` with S the covariance of the mixture of both clouds with halved
    weights, ``tr S = tr Sx / 2 + tr Sy / 2 + MMD(x, y)^2 / 4``.  Positive semidefinite.  It is a
    Gaussian kernel of mean embeddings times a factor for the variance of each cloud.  This factor makes
    plain values small: support vector machines need ``normalized=True`` or a very large C.  Costs as
    much as :class:`MeanEmbedding`.

    The variance is a negative definite function of the mixture, and so are its powers and its
    logarithm.  Hence ``exp(-(tr S / t)^beta)`` for beta up to 1 and ``(1 + tr S / t)^(-beta)``, the
    exponential of ``-beta log(1 + tr S / t)``, are kernels too, with longer tails.  A metric M replaces
    ``tr S`` by ``tr S M``.

    Parameters
    ----------
    base : Kernel
        Compares points.
    t : float
        Scale of the variance, which is at most 1 for a base kernel with k(x, x) = 1.
    normalized : bool
        Divide by the square roots of k(x, x) and k(y, y).  For the plain exponential, this leaves the
        distance of the means only.
    rescale_weights : bool
        Divide weights by their sum, instead of refusing those that do not sum to 1.
    t_bounds : pair of floats or "fixed"
        Range for optimisers.
    decay : {"exponential", "rational"}
        ``exp(-(tr S / t)^beta)`` or ``(1 + tr S / t)^(-beta)``.
    beta : float
        Exponent; at most 1 for the exponential.
    metric : array of shape (D, D), optional
        Symmetric positive semidefinite matrix M, for a base kernel with D explicit features, such as
        ``Linear()``; by default the identity.
    beta_bounds : pair of floats or "fixed"
        Range for optimisers.

    References
    ----------
    .. [1] M. Cuturi, "Kernels for measures defined on the Gram matrix of their support", 2009.

    Examples
    --------
    >>> from mercer.kernels import Linear, TraceKernel
    >>> TraceKernel(Linear(), t=1.0)([[[0.0], [2.0]], [[3.0]]]).round(4)
    array([[0.3679, 0.2231],
           [0.2231, 1.    ]])
    >>> TraceKernel(Linear(), t=1.0, normalized=True)([[[0.0], [2.0]], [[3.0]]]).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    >>> TraceKernel(Linear(), t=1.0, decay="rational")([[[0.0], [2.0]], [[3.0]]])
    array([[0.5, 0.4],
           [0.4, 1. ]])
    """

    base: Kernel
    t: float = 0.1
    normalized: bool = False
    rescale_weights: bool = False
    t_bounds: Any = (1e-5, 1e5)
    decay: str = "exponential"
    beta: float = 1.0
    metric: Any = None
    beta_bounds: Any = "fixed"

    _range_rows = 300

    @property
    def _range_power(self) -> float | None:  # type: ignore[override]
        return -number(self.beta) if self.decay == "exponential" else None

    def validate(self) -> None:
        super().validate()
        check_choice(self, "decay", ("exponential", "rational"))
        if self.decay == "exponential" and number(self.beta) > 1:
            raise ValueError(
                f"beta of TraceKernel must be at most 1, got {self.beta!r}: the exponential of larger "
                "powers is not positive semidefinite; decay='rational' allows every beta"
            )
        if self.metric is not None:
            _metric_root(self.metric)

    def variances(self, P: Clouds, Q: Clouds | None) -> Any:
        """Matrix of ``tr S`` for checked clouds."""
        D = squared_distances(self, P, Q, number(self.t))
        D *= 0.25
        own = self._traces(P)
        D += own[:, None] / 2 + (own if Q is None else self._traces(Q)) / 2
        return D

    def _pairs(self, P: Clouds, Q: Clouds | None) -> Any:
        return self._logarithm(self.variances(P, Q))

    def _own(self, P: Clouds) -> Any:
        return self._logarithm(self._traces(P))

    def _logarithm(self, variances: Any) -> Any:
        with np.errstate(over="ignore"):
            v, beta = variances / self.value("t"), self.value("beta")
            if self.decay == "exponential":
                return -(v**beta)
            return -beta * array_namespace(v).log1p(v)

    def _pairs_slope(self, P: Clouds, name: str) -> Array:
        v, beta = self.variances(P, None) / number(self.t), number(self.beta)
        if self.decay == "exponential":
            return beta * v**beta if name == "t" else -beta * xlogy(v**beta, v)
        return beta * v / (1 + v) if name == "t" else -beta * np.log1p(v)

    def _contributions(self, P: Clouds, Q: Clouds, weights: Array) -> tuple[Contributions, ...]:
        weights = weights * self._gram(P, Q)
        slopes = weights * self._variance_slope(self.variances(P, Q))
        # Half the variance of a cloud, and a quarter of the distance, are parts of the mixture's.
        of_own = slopes.sum(axis=1) / 2
        if self.normalized:
            of_own -= weights.sum(axis=1) * self._variance_slope(self._traces(P)) / 2
        own = P.weights * (self._squares(P) - self.own_products(P))
        return self.of_points(
            P, of_own[P.owners] * own + distance_parts(self, P, Q, slopes / 4), exact=False
        )

    def _variance_slope(self, variances: Array) -> Array:
        """Derivative of the logarithm in the variance; zero where a power has none."""
        v, beta, t = variances / number(self.t), number(self.beta), number(self.t)
        if self.decay == "rational":
            return -beta / (t * (1 + v))
        return -beta / t * np.power(v, beta - 1, out=np.zeros_like(v), where=v > 0)

    def _featured(self, P: Clouds, Q: Clouds | None) -> tuple[Clouds, Clouds | None] | None:
        featured = super()._featured(P, Q)
        if self.metric is None:
            return featured
        if featured is None:
            raise ValueError(
                "base of TraceKernel with a metric must have explicit features, as Linear() or Cosine() "
                f"have; {self.base!r} has none"
            )
        root, size = _metric_root(self.metric), featured[0].points.shape[1]
        if len(root) != size:
            raise ValueError(
                f"metric of TraceKernel has shape {root.shape}, but points have {size} coordinates"
            )
        F, G = featured
        root = placed(root, F.points)
        return replace(F, points=F.points @ root), G and replace(G, points=G.points @ root)

    def _traces(self, P: Clouds) -> Any:
        """Total variance of each cloud."""
        featured = self._featured(P, None)
        if featured is None:
            # Variances below zero are rounding errors.
            return at_least_zero(P.sums(self._squares(P)) - mean_squares(P, self.points_gram(P)))
        F = featured[0]
        return F.sums(squared_lengths(F.points - F.sums(F.points)[F.owners]))

    def _squares(self, P: Clouds) -> Any:
        """Squared lengths of the points of all clouds, in feature space."""
        featured = self._featured(P, None)
        return (
            to_double(self.base.diag(P.points))
            if featured is None
            else squared_lengths(featured[0].points)
        )


def _metric_root(metric: Any) -> Array:
    """The symmetric square root of a metric, or an error."""
    try:
        M = np.asarray(metric, dtype=np.float64)
    except (TypeError, ValueError):
        M = np.empty(0)
    if M.ndim != 2 or M.shape[0] != M.shape[1] or not M.size or not np.isfinite(M).all():
        raise ValueError(f"metric of TraceKernel must be a square matrix of numbers, got {metric!r}")
    values, vectors = np.linalg.eigh((M + M.T) / 2)
    rounding = _ROUNDING * max(float(np.abs(M).max()), np.finfo(float).tiny)
    if np.abs(M - M.T).max() > rounding or values[0] < -rounding * len(M):
        raise ValueError(
            "metric of TraceKernel must be symmetric and positive semidefinite; its symmetric part has "
            f"the eigenvalue {values[0]:.6g}"
        )
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


def distance_parts(kernel: CloudKernel, P: Clouds, Q: Clouds, weights: Array) -> Array:
    """Parts of each point of P in squared distances of mean embeddings, summed over Q with weights.

    ``|m_x - m_y|^2 = sum_i a_i <x_i - m_y, m_x - m_y>`` for points x_i of x with weights a_i.
    """
    with_others = kernel.inner_products(P, Q)
    between = kernel.squared_norms(Q) - P.sums(with_others)
    parts = kernel.own_products(P)[:, None] - with_others + between[P.owners]
    return P.weights * np.einsum("iy,iy->i", weights[P.owners], parts)


def squared_distances(kernel: CloudKernel, P: Clouds, Q: Clouds | None, variance: float) -> Any:
    """Squared distances between the mean embeddings of clouds; ``variance`` is their unit."""
    featured = kernel.centred(P, Q)
    kernel.check_variance(variance, P, Q, featured)
    if featured is None:
        base = kernel.points_gram(P)
        squares = mean_squares(P, base)
        others = squares if Q is None else mean_squares(Q, base)
        D = mean_products(P, Q, base)
    else:
        means = featured[0].sums(featured[0].points)
        theirs = means if featured[1] is None else featured[1].sums(featured[1].points)
        squares, others = squared_lengths(means), squared_lengths(theirs)
        D = means @ theirs.T
    D *= -2
    sizes = squares[:, None] + others
    D += sizes
    D *= _ALIKE * sizes < D  # equal clouds have the distance zero, however BLAS rounds
    return with_diagonal(D, 0.0) if Q is None else D
