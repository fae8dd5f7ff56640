"""Covering numbers of the functions of a kernel, from its eigenvalues on the sphere."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer._validation import check_whole
from mercer.kernels import Kernel, LawKernel
from mercer.special import zonal

Extended = NDArray[np.longdouble]

#: Number of levels to start with; it is doubled until the omitted levels do not matter.
_LEVELS = 2**9
#: Logarithm of the fraction of a tail that may be bounded rather than summed.
_SMALL = math.log(0.1)
#: The constant of the theorem.
_CONSTANT = 6.0
#: Levels that leave out a smaller part of the sum than this are all levels.
_ENDED = 1e-15
#: If the last weight has a smaller logarithm, the next ones may have underflowed.
_LOG_LEAST = -650.0


@dataclass(frozen=True)
class CoveringBound:
    """A point of the curve between accuracy and size of a cover; see :func:`covering_bound`.

    At most ``exp(entropy)`` balls of radius ``epsilon`` cover the functions.  ``rank`` is the number j*
    of leading eigenvalues that the bound uses.  All are stored as logarithms, because they may overflow;
    they are arrays if arrays were given.
    """

    log_epsilon: Any
    log_entropy: Any
    log_rank: Any

    @property
    def epsilon(self) -> Any:
        """Accuracy of the cover."""
        return _exp(self.log_epsilon)

    @property
    def entropy(self) -> Any:
        """Logarithm of the number of balls; ``inf`` if it overflows."""
        return _exp(self.log_entropy)

    @property
    def rank(self) -> Any:
        """Number j* of leading eigenvalues; ``inf`` if it overflows."""
        return _exp(self.log_rank)


def covering_bound(kernel: LawKernel, n: int, epsilon: ArrayLike, radius: float = 1.0) -> CoveringBound:
    """Bound on the number of balls that cover the functions of a kernel on the sphere.

    For ``F = {x -> <w, phi(x)> : |w| <= R}`` on any points of S^(n-1), with distances
    ``max_i |f(x_i) - g(x_i)|``, ``N(eps_k) <= k`` where ``lambda_1 >= lambda_2 >= ...`` are the
    eigenvalues with their multiplicities,

    ``eps_k = 6 R sqrt(j (lambda_1 ... lambda_j / k^2)^(1/j) + sum_(i>j) lambda_i)``

    and ``j = j*(k)`` is the least j with ``lambda_(j+1) < (lambda_1 ... lambda_j / k^2)^(1/j)``.
    This function solves for k at a given epsilon.  For a support vector machine with margin M, R = 1/M.

    The theorem contains the largest absolute value of an eigenfunction as a factor.  On the sphere it
    can be replaced by 1: j* never splits a level, and the squares of the eigenfunctions of a level sum
    to their number at every point.  Eigenvalues refer to the uniform probability measure.  The bound
    holds on the simplex too, whose points are points of the sphere.

    Parameters
    ----------
    kernel : Heat, Matern, Spectral, Zonal or another LawKernel
        On Sphere() or Simplex().
    n : int
        Ambient dimension: the number of columns.
    epsilon : float or array
        Accuracy of the cover; one ball suffices from ``6 R sqrt(k(x, x))`` on.
    radius : float
        Bound R on the norm of the functions.

    References
    ----------
    .. [1] Y. Guo, P. Bartlett, J. Shawe-Taylor, R. Williamson, "Covering numbers for support vector
       machines", COLT 1999.
    .. [2] J. Lafferty, G. Lebanon, "Information diffusion kernels", NIPS 2002.

    Examples
    --------
    >>> from mercer.bounds import covering_bound
    >>> from mercer.kernels import Heat
    >>> from mercer.spaces import Sphere
    >>> bound = covering_bound(Heat(Sphere(), t=0.5), n=3, epsilon=[1.0, 0.1, 0.01])
    >>> bound.rank.round()
    array([ 9., 25., 36.])
    >>> bound.entropy.round(1)
    array([ 14.5,  56.9, 121.8])
    """
    log_epsilon = _log_positive(epsilon, "epsilon")
    target = 2 * (log_epsilon - math.log(_CONSTANT) - _log_radius(radius))
    levels, place = _deep_enough(kernel, n, lambda levels: levels.place_of_accuracy(target))
    log_entropy = levels.log_entropy(place, target)
    return _result(log_epsilon, log_entropy, levels.log_ranks[place])


def entropy_number(kernel: LawKernel, n: int, entropy: ArrayLike, radius: float = 1.0) -> CoveringBound:
    """Bound on the accuracy that ``exp(entropy)`` balls reach: the inverse of :func:`covering_bound`.

    Parameters
    ----------
    kernel : Heat, Matern, Spectral or another LawKernel
    n : int
        Ambient dimension.
    entropy : float or array
        Logarithm of the number k of balls.
    radius : float
        Bound R on the norm of the functions.

    Examples
    --------
    >>> from mercer.bounds import entropy_number
    >>> from mercer.kernels import Heat
    >>> from mercer.spaces import Sphere
    >>> round(entropy_number(Heat(Sphere(), t=0.5), n=3, entropy=56.9).epsilon, 2)
    0.1
    """
    log_entropy = _log_positive(entropy, "entropy")
    target = log_entropy + math.log(2)
    levels, place = _deep_enough(kernel, n, lambda levels: levels.place_of_entropy(target))
    log_epsilon = levels.log_accuracy(place, target) / 2 + math.log(_CONSTANT) + _log_radius(radius)
    return _result(log_epsilon, log_entropy, levels.log_ranks[place])


def log_covering_rate(n: int, t: ArrayLike, epsilon: ArrayLike, volume: float | str = "sphere") -> Any:
    """Logarithm of the rate at which the entropy of the heat kernel grows as epsilon goes to 0.

    ``c(d) (V / t^(d/2)) log(1/epsilon)^((d+2)/2)`` with d = n - 1: the rate of the theorem for a
    manifold of volume V.  ``c(d) = 2 / ((d + 2) (2 pi)^(d/2) Gamma(d/2 + 1))``, which
    follows from Weyl's law, makes it the leading term of :func:`covering_bound`.  Convergence to the
    limit is slow, especially in high dimension.

    Parameters
    ----------
    n : int
        Ambient dimension.
    t : float or array
        Absolute diffusion time.
    epsilon : float or array
        Accuracy, below 1.
    volume : {"sphere", "orthant"} or float
        V: the area of S^d; that of its positive orthant, 2^-n of it, for the multinomial family with its
        boundary (``Simplex(boundary=...)``); or that of another manifold of dimension d, at the
        curvature that t refers to.

    References
    ----------
    .. [1] J. Lafferty, G. Lebanon, "Information diffusion kernels", NIPS 2002, Theorem 4.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.bounds import log_covering_rate
    >>> slope = np.diff(log_covering_rate(4, 0.1, np.exp([-10.0, -100.0])))    # (d + 2) / 2 for d = 3
    >>> (slope / np.log(10)).round(6)
    array([2.5])
    >>> sphere, orthant = (log_covering_rate(4, 0.1, 0.01, volume=v) for v in ("sphere", "orthant"))
    >>> round(float(np.exp(sphere - orthant)))
    16
    """
    check_whole("n, the ambient dimension,", n, 2)
    log_epsilon = _log_positive(epsilon, "epsilon")
    if np.any(log_epsilon >= 0):
        raise ValueError(f"epsilon must be below 1 for a rate, got {epsilon!r}")
    d = n - 1
    log_weyl = _log_volume(volume, n) - d / 2 * math.log(4 * math.pi) - math.lgamma(d / 2 + 1)
    scale = (1 + d / 2) * math.log(2) - math.log(d + 2)
    return _plain(log_weyl + scale - d / 2 * _log_positive(t, "t") + (1 + d / 2) * np.log(-log_epsilon))


@dataclass(frozen=True, eq=False)
class _Levels:
    """Levels of a kernel by falling eigenvalue, and sums over them, as logarithms.

    ``log_ranks[k]``: number of eigenvalues up to level k.  ``log_steps[k]``: ``sum_i log(lambda_i /
    lambda')`` over them, where lambda' is the next eigenvalue; the theorem takes j* from the first
    level where it exceeds ``2 log(number of balls)``.  ``log_tails[k]``: sum of the other
    eigenvalues.  ``ends``: whether there are no further levels.
    """

    log_values: Extended
    log_ranks: Extended
    log_steps: Extended
    log_tails: Extended
    ends: bool

    @classmethod
    def of(cls, kernel: LawKernel, n: int, levels: int, finite: bool) -> _Levels:
        series = kernel.realise(n).series
        logs = np.asarray(series.log_weights(levels), dtype=np.longdouble)
        log_counts = zonal.log_multiplicities(n, levels)
        if np.any(np.isnan(logs)) or np.any(logs == np.inf) or np.all(np.isneginf(logs)):
            raise ValueError(
                "a spectral law must have finite, non-negative weights, not all of them zero"
            )
        kept = np.flatnonzero(np.isfinite(logs))
        sums = (logs + log_counts)[kept]
        known = series.level_sums(np.arange(levels))
        if known is not None:
            ended, log_total = known.share < _ENDED, np.longdouble(known.log_total)
            rest = -np.inf if ended else log_total + np.log(np.longdouble(known.share))
        else:
            ended = finite or (kept[-1] < levels // 2 and logs[kept[-1]] > _LOG_LEAST)
            rest = -np.inf if ended else _log_rest(kept, sums)
            # The partial sum is at most the total, so that eigenvalues are not underestimated.
            log_total = np.logaddexp.reduce(sums)
        scale = (0.0 if kernel.normalized else kernel.log_self_similarity(n)) - log_total
        order = np.argsort(-logs[kept], kind="stable")
        values, log_counts = logs[kept][order] + scale, log_counts[kept][order]
        return cls._sorted(values, log_counts, rest + scale, bool(ended))

    @classmethod
    def _sorted(cls, log_values: Extended, log_counts: Extended, rest: Any, ends: bool) -> _Levels:
        log_ranks = np.logaddexp.accumulate(log_counts)
        after = np.append(log_values[1:], -np.inf)
        with np.errstate(divide="ignore"):
            log_steps = np.logaddexp.accumulate(log_ranks + np.log(log_values - after))
        sums = np.logaddexp.accumulate(np.append(rest, (log_values + log_counts)[:0:-1]))
        return cls(log_values, log_ranks, log_steps, sums[::-1], ends)

    def place_of_accuracy(self, log_square: Extended) -> NDArray[np.int64]:
        """Last level that j* includes, for a squared accuracy in units of ``(6 R)^2``."""
        after = np.append(self.log_values[1:], -np.inf)
        reached = np.logaddexp(self.log_ranks + after, self.log_tails)
        return np.searchsorted(-np.minimum.accumulate(reached), -log_square)

    def place_of_entropy(self, log_twice: Extended) -> NDArray[np.int64]:
        """Last level that j* includes, for twice an entropy."""
        return np.searchsorted(self.log_steps, log_twice, side="right")

    def log_entropy(self, place: NDArray[np.int64], log_square: Extended) -> Extended:
        """Entropy at which the accuracy is reached; -inf if one ball is enough."""
        tail = np.minimum(self.log_tails[place] - log_square, 0)
        with np.errstate(divide="ignore"):
            # (lambda_1 ... lambda_j / k^2)^(1/j) = (square - tail) / j, and it lies between neighbours.
            log_level = log_square + np.log(-np.expm1(tail)) - self.log_ranks[place]
            below = np.append(self.log_values[1:], -np.inf)[place]
            drop = self.log_values[place] - np.maximum(log_level, below)
            inside = self.log_ranks[place] + np.log(np.maximum(drop, 0))
        return np.logaddexp(self._steps_before(place), inside) - math.log(2)

    def log_accuracy(self, place: NDArray[np.int64], log_twice: Extended) -> Extended:
        """Squared accuracy, in units of ``(6 R)^2``, reached with half of that entropy."""
        before = np.minimum(self._steps_before(place) - log_twice, 0)
        with np.errstate(divide="ignore"):
            drop = np.exp(log_twice + np.log(-np.expm1(before)) - self.log_ranks[place])
        return np.logaddexp(self.log_ranks[place] + self.log_values[place] - drop, self.log_tails[place])

    def know_tail_at(self, place: int) -> bool:
        """Tell whether the levels that were not summed are a small part of the tail after a level."""
        return place < self.log_tails.size and bool(self.log_tails[-1] < self.log_tails[place] + _SMALL)

    def _steps_before(self, place: NDArray[np.int64]) -> Extended:
        return np.append(np.longdouble(-np.inf), self.log_steps)[place]


def _deep_enough(
    kernel: LawKernel, n: int, locate: Callable[[_Levels], NDArray[np.int64]]
) -> tuple[_Levels, NDArray[np.int64]]:
    """As many levels as are needed, and the levels among them that ``locate`` finds."""
    _check_kernel(kernel)
    check_whole("n, the ambient dimension,", n, 2)
    law = kernel.law(n)
    most = law.most_levels(n)
    count = min(law.levels or max(_LEVELS, law.least_levels), most)
    while True:
        levels = _Levels.of(kernel, n, count, finite=law.levels is not None)
        place = locate(levels)
        if levels.ends or levels.know_tail_at(int(np.max(place, initial=0))):
            return levels, place
        if count >= most:
            raise zonal.SlowDecay(
                f"more than {count} levels of {kernel!r} are needed in dimension {n}; take a larger "
                "epsilon (a smaller entropy) or a smoother kernel"
            )
        count = min(2 * count, most)


def _log_rest(levels: NDArray[np.int64], logs: Extended) -> Any:
    """Bound on the sum beyond the last level, if logs is concave in the logarithm of the level."""
    if levels.size < 2 or levels[-2] == 0:
        return np.inf
    decay = (logs[-2] - logs[-1]) / np.log(levels[-1] / np.longdouble(levels[-2]))
    return logs[-1] + np.log(np.longdouble(levels[-1])) - np.log(decay - 1) if decay > 1 else np.inf


def _check_kernel(kernel: Any) -> None:
    if not isinstance(kernel, Kernel) or kernel.laplacian_space is None:
        raise TypeError(
            "covering bounds need the eigenvalues of Heat, Matern, Spectral or Zonal on a sphere; "
            f"got {kernel!r}"
        )
    try:
        kernel.require_levels()
    except TypeError as error:
        raise TypeError(f"covering bounds: {error}") from None


def _log_volume(volume: Any, n: int) -> float:
    if isinstance(volume, str):
        if volume not in ("sphere", "orthant"):
            raise ValueError(f'volume must be "sphere", "orthant" or a number, got {volume!r}')
        return zonal.log_area(n) - (n * math.log(2) if volume == "orthant" else 0.0)
    if np.ndim(volume):
        raise ValueError(f"volume must be one number, got {volume!r}")
    return float(_log_positive(volume, "volume"))


def _log_radius(radius: Any) -> float:
    if np.ndim(radius):
        raise ValueError(f"radius must be one number, got {radius!r}")
    return float(_log_positive(radius, "radius"))


def _log_positive(values: ArrayLike, name: str) -> Extended:
    array = np.asarray(values, dtype=np.longdouble)
    if not np.all((array > 0) & (array < np.inf)):
        raise ValueError(f"{name} must be positive and finite, got {values!r}")
    return np.log(array)


def _result(log_epsilon: Any, log_entropy: Any, log_rank: Any) -> CoveringBound:
    return CoveringBound(*(_plain(np.asarray(v)) for v in (log_epsilon, log_entropy, log_rank)))


def _exp(logs: Any) -> Any:
    with np.errstate(over="ignore"):
        return _plain(np.exp(logs))


def _plain(values: Any) -> Any:
    """Doubles, and a float for a single value."""
    return values.astype(float) if np.ndim(values) else float(values)
