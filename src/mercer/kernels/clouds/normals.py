"""Groups of observations as samples of normal distributions: posterior averages and Fisher kernels."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy.special import ndtri

from mercer._arrays import number, placed, plain_lengths, squared_lengths
from mercer._validation import (
    check_choice,
    check_positive,
    is_number,
    refuse_foreign,
    refuse_rows,
)
from mercer.engine.clouds import Array, Clouds
from mercer.engine.equal import row_keys
from mercer.engine.posteriors import Sampler, log_gamma_quantile
from mercer.kernels.clouds.base import in_precision
from mercer.kernels.counts.sampled import PosteriorKernel
from mercer.kernels.heat import Heat
from mercer.kernels.scale import Similarities
from mercer.kernels.structured import StructuredKernel
from mercer.spaces import NormalFamily
from mercer.spaces.clouds import check_clouds, check_one_place
from mercer.spaces.realisations import sampling

#: Groups from which the range is learnt.
_RANGE_GROUPS = 60


def check_groups(X: Any, name: str) -> Clouds:
    """Check groups of observations: clouds without weights."""
    if isinstance(X, list | tuple):
        for i, group in enumerate(X):
            if isinstance(group, tuple) and len(group) == 2:
                raise ValueError(
                    f"row {i} of {name} is a tuple, points and weights; a group of observations is an "
                    "array of shape (k, d)"
                )
    return check_clouds(X, name, vectors=True, rescale=False)


def _check_pair(X: Any, Y: Any) -> tuple[Clouds, Clouds | None]:
    P = check_groups(X, "X")
    if Y is None:
        return P, None
    Q = check_groups(Y, "Y")
    check_one_place(P, Q)
    if P.points.shape[1] != Q.points.shape[1]:
        raise ValueError(
            f"observations of X have {P.points.shape[1]} coordinates, those of Y have "
            f"{Q.points.shape[1]}; they must agree"
        )
    return P, Q


def _sample_groups(size: int, rng: np.random.Generator, clusters: int | None) -> list[Array]:
    """Groups of two to six observations, or a few that are repeated."""
    scales = rng.gamma(3.0, size=size)
    groups = [
        scales[i] * rng.normal(size=(k, 3)) + rng.normal(size=3)
        for i, k in enumerate(rng.integers(2, 7, size=size))
    ]
    return groups if clusters is None else [groups[i % clusters] for i in range(size)]


@dataclass(frozen=True)
class _Posteriors:
    """Normal-gamma posteriors of groups: rows of means, and of counts, degrees of freedom and sums."""

    means: Array
    scales: Array
    single: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return self.means.shape

    def __getitem__(self, rows: Any) -> _Posteriors:
        return _Posteriors(self.means[rows], self.scales[rows], self.single)


@dataclass(eq=False, repr=False)
class PosteriorNormal(PosteriorKernel):
    """The heat kernel between normal distributions that are estimated from groups of observations.

    ``K(x, x') = E k((mu, sigma), (mu', sigma'))`` over the independent posteriors of two groups, with k
    the normalised heat kernel of :class:`~mercer.spaces.NormalFamily`.  A group of m observations in
    d dimensions is a sample of N(mu, sigma^2 I).  With the mean a of the group and its sum S of squared
    distances to a, under the prior ``d_0 s_0^2 / chi^2(d_0)`` of sigma^2 and a flat prior of mu,

        ``sigma^2 ~ (d_0 s_0^2 + S) / chi^2(d_0 + d (m - 1))``,  ``mu ~ N(a, sigma^2 I / m)``.

    The posteriors are independent even if the groups are equal, so that K(x, x) < 1; the fewer the
    observations, the smaller the value.  As groups grow, K approaches ``Heat(NormalFamily())`` between
    their means and standard deviations.  Without a prior (``d_0 = 0``) it does not depend on the unit
    and the origin of the observations.

    Positive semidefinite: an average over all pairs of samples of the two posteriors is an inner product
    of mean embeddings.  :meth:`standard_error` estimates the error of the average.  A pair costs
    ``32 n_samples`` values of the heat kernel.

    Points are groups as for :class:`~mercer.features.GroupNormals`: a list of arrays of shape (m, d).

    Parameters
    ----------
    t : float
        Time, at curvature -1, as in ``Heat(NormalFamily())``.
    prior_degrees : float
        Degrees of freedom d_0 of the prior of the variance.  With 0, groups need two observations.
    prior_deviation : float
        Standard deviation s_0 of the prior.
    n_samples : int
        Samples per group, in sets of 32 (of an eighth of the samples, if there are fewer than 256).
    random_state : int
        Seed of the samples.
    t_bounds : pair of floats or "fixed"
        Range for optimisers.

    References
    ----------
    .. [1] J. Lafferty, G. Lebanon, "Information diffusion kernels", NIPS 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import PosteriorNormal
    >>> few, many = np.array([[1.0], [2.0], [3.0]]), np.linspace(0.3, 3.7, 300)[:, None]
    >>> PosteriorNormal(t=0.5)([few, many]).round(2)
    array([[0.62, 0.74],
           [0.74, 1.  ]])
    """

    t: float = 0.5
    prior_degrees: float = 0.0
    prior_deviation: float = 1.0
    n_samples: int = 256
    random_state: int = 0
    t_bounds: Any = (1e-3, 1e2)

    def validate(self) -> None:
        check_positive(self, "t", "prior_deviation")
        if not (is_number(self.prior_degrees) and 0 <= number(self.prior_degrees) < np.inf):
            raise ValueError(
                "prior_degrees of PosteriorNormal must be a number that is not negative, got "
                f"{self.prior_degrees!r}"
            )
        self._check_samples()
        self._heat.validate()

    @property
    def _heat(self) -> Heat:
        return Heat(NormalFamily(), t=number(self.t))

    def range_parameter(self) -> str:
        return "t"

    def sample(self, size: int, rng: np.random.Generator, clusters: int | None = None) -> list[Array]:
        """See :class:`Kernel`; groups of observations."""
        return _sample_groups(size, rng, clusters)

    def _check(self, X: Any, Y: Any) -> tuple[Any, Any]:
        P, Q = _check_pair(X, Y)
        return self._posteriors(P, "X"), None if Q is None else self._posteriors(Q, "Y")

    def _posteriors(self, P: Clouds, name: str) -> _Posteriors:
        refuse_foreign(
            P.points, "PosteriorNormal is computed in main memory: give groups in NumPy arrays, as by "
            "group.cpu().numpy()",
        )  # fmt: skip
        d, prior = P.points.shape[1], number(self.prior_degrees)
        means = P.sums(P.points)
        centred = P.points - np.repeat(means, P.sizes, axis=0)
        degrees = prior + d * (P.sizes - 1.0)
        refuse_rows(
            degrees < 1, name,
            "has too few observations for a variance; give more, or prior_degrees of at least 1",
        )  # fmt: skip
        sums = P.sizes * P.sums(np.vecdot(centred, centred)) + prior * number(self.prior_deviation) ** 2
        refuse_rows(
            ~(sums > 0), name,
            "has equal observations, and no variance; drop it, or give prior_degrees of at least 1",
        )  # fmt: skip
        return _Posteriors(means, np.stack([P.sizes, degrees, sums], axis=1), P.single)

    def pair_similarities(
        self, X: Any, max_rows: int, rng: np.random.Generator
    ) -> tuple[Similarities, int]:
        P = self._check(X, None)[0]
        numbers = np.concatenate([P.means, P.scales], axis=1)
        rows, keys = sampling.distinct_sample(
            len(numbers), lambda rows: row_keys(numbers[rows]), min(max_rows, _RANGE_GROUPS), rng
        )
        i, j = sampling.different_pairs(keys)

        def similarities(kernel: Any) -> Array:
            kernel.validate()
            K = kernel.sampled_gram(P[rows], None)
            lengths = np.sqrt(np.diagonal(K))
            return np.asarray(K[i, j] / (lengths[i] * lengths[j]))

        return similarities, len(rows)

    def _gram(self, P: Any, Q: Any) -> Any:
        return in_precision(self.sampled_gram(P, Q), P, Q)

    def _slope(self, P: Any, name: str) -> Any:
        return in_precision(self.sampled_gram(P, None, name), P, None)

    def _diagonal(self, P: Any) -> Any:
        return in_precision(self._sampled_diagonal(P), P, None)

    def _coordinates(self, P: Any) -> int:
        return int(P.shape[1]) + 1

    def _sampler(self, P: Any, uniform: Array, name: str | None) -> Sampler:
        d, heat = int(P.shape[1]), self._heat
        profile = heat.profile(d + 1) if name is None else heat.gradient_profile(d + 1, name)

        def draw(rows: Any) -> Array:
            """Points of the upper half-space, where the Fisher metric is hyperbolic."""
            sizes, degrees, sums = rows.scales.T[:, :, None]
            halves = log_gamma_quantile(degrees / 2, uniform[:, 0])
            sigma = np.exp((np.log(sums / 2) - halves) / 2)[:, :, None]
            mu = rows.means[:, None] + sigma / np.sqrt(sizes)[:, :, None] * ndtri(uniform[:, 1:])
            return np.concatenate([mu / math.sqrt(2 * d), sigma], axis=2)

        def compare(left: Array, right: Array) -> Array:
            squares = np.zeros((*left.shape[:-1], right.shape[-2]))
            for j in range(d + 1):
                squares += (left[..., :, None, j] - right[..., None, :, j]) ** 2
            # cosh(distance) - 1
            squares /= 2 * left[..., :, None, d] * right[..., None, :, d]
            profile.apply(squares.reshape(-1, squares.shape[-1]))
            return squares

        return Sampler(draw, compare, len(uniform), uniform.size)


@dataclass(eq=False, repr=False)
class FisherNormal(StructuredKernel):
    """The Fisher kernel of the normal family: scores of groups of observations at one model.

    ``k(x, y) = U_x' I^-1 U_y`` with the scores U of the samples x and y of N(mu, sigma^2 I) in d
    dimensions, and the Fisher information I of one observation.  It is the inner product of

        ``sum_i (x_i - mu) / sigma``  and  ``sum_i (|x_i - mu|^2 / sigma^2 - d) / sqrt(2 d)``.

    It does not depend on the parameters of the family.  Without the information it is the covariance of
    the sufficient statistics: the inner product of ``sum_i (x_i - mu)`` and
    ``sum_i (|x_i|^2 - |mu|^2 - d sigma^2)``.  Positive semidefinite.  It serves for comparison with
    :class:`PosteriorNormal` and ``Heat(NormalFamily())``, which use the whole geometry of the family.

    Points are groups as for :class:`~mercer.features.GroupNormals`: a list of arrays of shape (m, d).

    Parameters
    ----------
    mean : array of shape (d,), optional
    deviation : float, optional
        The model.  By default :meth:`scaled_to`, searches and
        :class:`~mercer.features.GramTransformer` learn mean and standard deviation from all training
        observations.
    information : bool
        Use the Fisher information, or not.
    normalized : bool
        Divide by the square roots of k(x, x) and k(y, y).

    References
    ----------
    .. [1] T. Jaakkola, D. Haussler, "Exploiting generative models in discriminative classifiers",
       NIPS 1998.

    Examples
    --------
    >>> from mercer.kernels import FisherNormal
    >>> FisherNormal(mean=[0.0], deviation=1.0)([[[1.0], [2.0]], [[-1.0]]])
    array([[13.5, -3. ],
           [-3. ,  1. ]])
    """

    mean: Any = None
    deviation: float | None = None
    information: bool = True
    normalized: bool = False

    def learnt_from(self, X: Any, y: Any = None) -> FisherNormal:
        """See :class:`Kernel`; mean and deviation of all observations, unless they are given."""
        if self.mean is not None or self.deviation is not None:
            return self
        points = check_groups(X, "X").in_main_memory().points
        learnt = copy.copy(self)
        learnt.mean = points.mean(axis=0)
        learnt.deviation = float(np.sqrt(((points - learnt.mean) ** 2).mean()))
        if not learnt.deviation > 0:
            raise ValueError("all observations of X are equal: no deviation can be learnt from them")
        return learnt

    def sample(self, size: int, rng: np.random.Generator, clusters: int | None = None) -> list[Array]:
        """See :class:`Kernel`; groups of observations."""
        return _sample_groups(size, rng, clusters)

    def explicit_features(self, X: Any) -> Any:
        """See :class:`Kernel`; the scores."""
        self.validate()
        scores = self._scores(check_groups(X, "X"))
        if not self.normalized:
            return scores
        lengths = plain_lengths(scores)
        refuse_rows(lengths == 0, "X", "has a score of zero; drop it")
        return scores / lengths[:, None]

    def validate(self) -> None:
        super().validate()
        check_choice(self, "information", (True, False))
        if self.mean is None or self.deviation is None:
            raise ValueError(
                "mean and deviation of FisherNormal have not been learnt from training groups; call "
                "scaled_to(X) first, or give both"
            )
        check_positive(self, "deviation")
        mean = np.asarray(self.mean, dtype=float)
        if mean.ndim != 1 or not np.isfinite(mean).all():
            raise ValueError(
                f"mean of FisherNormal must be one number per coordinate, got {self.mean!r}"
            )

    def _check(self, X: Any, Y: Any) -> tuple[Any, Any]:
        return _check_pair(X, Y)

    def _gram(self, P: Any, Q: Any) -> Any:
        left = self._scores(P)
        return in_precision(left @ (left if Q is None else self._scores(Q)).T, P, Q)

    def _diagonal(self, P: Any) -> Any:
        return in_precision(squared_lengths(self._scores(P)), P, None)

    def _scores(self, P: Clouds) -> Any:
        mean, d = np.asarray(self.mean, dtype=float), P.points.shape[1]
        if len(mean) != d:
            raise ValueError(
                f"mean of FisherNormal has {len(mean)} numbers, but observations have {d} coordinates"
            )
        sigma, xp = number(self.deviation), array_namespace(P.points)
        mean = placed(mean, P.points)
        centred = (P.points - mean) / sigma
        excess = squared_lengths(centred) - d
        if self.information:
            scores = xp.concat([centred, excess[:, None] / math.sqrt(2 * d)], axis=1)
        else:
            squares = sigma**2 * excess + 2 * sigma * centred @ mean
            scores = xp.concat([sigma * centred, squares[:, None]], axis=1)
        return replace(P, weights=np.ones(len(P.weights))).sums(scores)
