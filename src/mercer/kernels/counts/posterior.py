"""The heat kernel of multinomial models, averaged over what is not known of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from mercer._arrays import is_foreign, number, on_cpu, row_any
from mercer._validation import check_positive, is_whole, refuse_rows
from mercer.engine.dirichlet import (
    Array,
    Moments,
    latin_hypercube,
    moment_diagonal,
    moment_gram,
    sampled_diagonal,
    sampled_gram,
)
from mercer.kernels.heat import Heat
from mercer.kernels.scale import Similarities
from mercer.kernels.structured import StructuredKernel
from mercer.kernels.time import DiffusionTime
from mercer.profiles import Profile
from mercer.spaces import Simplex
from mercer.spaces.simplex import Counts
from mercer.special import heat_short_time

#: Longest polynomial that is averaged exactly: factorials beyond leave the floating range.
MAX_LEVELS = 128
#: Roundings are magnified by the sum of the magnitudes of its coefficients; no more than so.
_MAX_MAGNIFICATION = 1e4
#: Samples in a set, and fewest sets: their spread is the standard error.
_SET, _SETS = 32, 8
#: Most columns of a sample: each has a quantile of its own, also where nothing was counted.
_MOST_COLUMNS = 1_000_000
#: Rows from which a range is learnt, times the root of the number of their columns.
_RANGE_COST = 1600
_METHODS = ("auto", "series", "samples")
#: How far totals of rows may be from 1, or from 100, to be taken for those of shares.
_EQUAL = 1e-6


class PosteriorHeat(StructuredKernel, DiffusionTime):
    """The heat kernel between multinomial models that are known from counts only.

    ``K(x, x') = E k(theta, theta')`` over the independent posteriors ``theta ~ Dirichlet(x + alpha)``
    and ``theta' ~ Dirichlet(x' + alpha)`` of two rows of counts, with k the normalised heat kernel
    on the simplex.  Two posteriors are independent also where the rows are equal, so K(x, x) < 1:
    the fewer the counts, the smaller.  As counts grow, K becomes ``Heat(Simplex())``.  A row without
    any counts has the prior itself for its posterior.  Counts may be weighted, but shares (fractions
    that all sum to 1, or to 100) are refused: they do not tell how much was counted.

    Positive semidefinite: it is the inner product of the posterior means of k's features.  Where k is
    a polynomial of ``w = sum_i sqrt(theta_i theta'_i)`` of at most 128 terms that can be summed, K is
    exact: all moments of w have a closed form.  So it is for ``t_star`` of at least 0.05 (n = 10), 0.12
    (n = 100), 0.37 (n = 1000), 0.56 (n = 10000).  Below, samples are averaged, and
    :meth:`standard_error` says how far off the result may be.

    A pair of rows costs half the square of the number of terms for each column where one of them is
    not zero; or, with samples, about 64 n for each sample.

    Parameters
    ----------
    t_star : float
        Time in units of ``log(n) / n``, used unless ``t`` is given.
    alpha : float
        Parameter of the symmetric Dirichlet prior: 0.5 is Jeffreys', 1 the uniform one.
    n_samples : int
        Samples per row, where they are needed; used in whole sets of 32 (of an eighth, below 256).
    random_state : int
        Seed of the samples.
    method : {"auto", "series", "samples"}
        The exact series where it can be summed, or one of the two in any case.
    t : float, optional
        Absolute time, on the unit sphere.
    t_star_bounds, t_bounds : pair of floats or "fixed"
        Ranges for optimisers.

    References
    ----------
    .. [1] J. Lafferty, G. Lebanon, "Diffusion kernels on statistical manifolds", JMLR 6, 2005.
    .. [2] A. Smola, A. Gretton, L. Song, B. Scholkopf, "A Hilbert space embedding for distributions",
       ALT 2007.

    Examples
    --------
    >>> from mercer.kernels import PosteriorHeat
    >>> few, many = [3, 0, 1], [300, 0, 100]
    >>> PosteriorHeat(t_star=0.5)([few, many]).round(4)
    array([[0.8315, 0.8535],
           [0.8535, 0.9973]])
    """

    space = Simplex()
    normalized = False

    def __init__(
        self,
        t_star: float = 1.0,
        alpha: float = 0.5,
        n_samples: int = 256,
        random_state: int = 0,
        method: str = "auto",
        t: float | None = None,
        t_star_bounds: Any = (1e-2, 1e2),
        t_bounds: Any = (1e-6, 1e2),
    ) -> None:
        self.t_star = t_star
        self.alpha = alpha
        self.n_samples = n_samples
        self.random_state = random_state
        self.method = method
        self.t = t
        self.t_star_bounds = t_star_bounds
        self.t_bounds = t_bounds

    def _validate(self) -> None:
        self._check_time()
        check_positive(self, "alpha")
        if not 1e-100 <= number(self.alpha) <= 1e100:
            raise ValueError(f"alpha of PosteriorHeat must be in 1e-100..1e100, got {self.alpha!r}")
        if not is_whole(self.n_samples) or self.n_samples < 2 * _SETS:
            raise ValueError(
                f"n_samples of PosteriorHeat must be a whole number of at least {2 * _SETS}, "
                f"got {self.n_samples!r}"
            )
        if not is_whole(self.random_state) or self.random_state < 0:
            raise ValueError(
                "random_state of PosteriorHeat must be a whole number that is not negative (the "
                f"samples of a row must not change from call to call), got {self.random_state!r}"
            )
        if self.method not in _METHODS:
            shown = ", ".join(map(repr, _METHODS))
            raise ValueError(f"method of PosteriorHeat must be one of {shown}, got {self.method!r}")

    def _check(self, X: Any, Y: Any) -> tuple[Any, Any]:
        P = self._check_counts(X, "X")
        if Y is None:
            return P, None
        Q = self._check_counts(Y, "Y")
        if P.shape[1] != Q.shape[1]:
            raise ValueError(f"X has {P.shape[1]} columns, Y has {Q.shape[1]}; they must agree")
        return P, Q

    def _check_counts(self, X: Any, name: str) -> Any:
        if is_foreign(X):
            raise TypeError(f"PosteriorHeat takes NumPy and SciPy rows; convert {name} to one of them")
        X = Counts().check(X, name)
        with np.errstate(over="ignore"):
            totals = np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()
        refuse_rows(~np.isfinite(totals), name, "sums to infinity; scale its counts down")
        _refuse_shares(X, totals, name)
        return X

    @property
    def _heat(self) -> Heat:
        """The kernel that is averaged."""
        if self.t is not None:
            return Heat(self.space, t=number(self.t))
        return Heat(self.space, t_star=number(self.t_star))

    def _polynomial(self, n: int, name: str | None = None) -> Array | None:
        """Coefficients of the heat kernel (or its derivative) in powers of w, times ``k!``.

        None where they are too many, or so large and of so different signs that their sum is lost
        in roundings.
        """
        heat = self._heat
        if heat_short_time.is_short(n, heat.time(n)):
            return None
        spectrum = heat.spectrum(n)
        if spectrum.levels[-1] >= MAX_LEVELS:
            return None
        weights = np.zeros(max(int(spectrum.levels[-1]) + 1, 2), dtype=np.longdouble)
        weights[spectrum.levels] = spectrum.p
        powers = zonal_to_powers(n, weights)
        if np.abs(powers).sum() > _MAX_MAGNIFICATION:
            return None
        if name is not None:
            scores = heat.slope(n, name).scores(spectrum.eigenvalues)
            weights[spectrum.levels] *= scores - (spectrum.p * scores).sum()
            powers = zonal_to_powers(n, weights)
        factorials = np.array([math.factorial(m) for m in range(len(powers))], dtype=np.longdouble)
        return np.asarray(powers * factorials, dtype=np.float64)

    def is_exact(self, n: int) -> bool:
        """Tell whether the kernel is averaged exactly in dimension n (number of columns).

        Examples
        --------
        >>> from mercer.kernels import PosteriorHeat
        >>> PosteriorHeat(t_star=0.5).is_exact(1000), PosteriorHeat(t_star=0.1).is_exact(1000)
        (True, False)
        """
        self._validate()
        return self._series(n) is not None

    def _series(self, n: int, name: str | None = None) -> Array | None:
        """The polynomial to average, or None for samples."""
        polynomial = None if self.method == "samples" else self._polynomial(n, name)
        if polynomial is None and n > _MOST_COLUMNS:
            raise ValueError(
                f"{self!r} would need samples of all {n} columns, which no one waits for; take a longer "
                "time, where the series is exact, or leave out columns that are never in use"
            )
        if polynomial is None and self.method == "series":
            raise ValueError(
                f"the series of {self!r} cannot be summed in dimension {n}: the time is too short; use "
                "method='auto' or a longer time"
            )
        return polynomial

    def _pair_similarities(
        self, X: Any, max_rows: int, rng: np.random.Generator
    ) -> tuple[Similarities, int]:
        # A pair costs as much as it has columns.
        counts = self._check_counts(on_cpu(X), "X")
        most = min(max(int(_RANGE_COST / counts.shape[1] ** 0.5), 32), 300)
        return super()._pair_similarities(counts, min(max_rows, most), rng)

    def _gram(self, P: Any, Q: Any) -> Any:
        return self._average(P, Q)

    def _slope(self, P: Any, name: str) -> Any:
        return self._average(P, None, name)

    def _average(self, P: Any, Q: Any, name: str | None = None) -> Any:
        n, alpha = int(P.shape[1]), float(self.alpha)
        polynomial = self._series(n, name)
        if polynomial is not None:
            order = len(polynomial)
            others = None if Q is None else Moments.of(Q, alpha, order)
            K = moment_gram(Moments.of(P, alpha, order), others, polynomial)
        else:
            profile = self._profile(n, name)
            K = np.zeros((P.shape[0], (P if Q is None else Q).shape[0]))
            for points in self._sets(n):
                K += sampled_gram(P, Q, alpha, points, profile)[0]
            K /= self._counts[0]
        return K.astype(P.dtype if Q is None else np.result_type(P.dtype, Q.dtype), copy=False)

    def _diagonal(self, P: Any) -> Any:
        n, alpha = int(P.shape[1]), float(self.alpha)
        polynomial = self._series(n)
        if polynomial is not None:
            values = moment_diagonal(Moments.of(P, alpha, len(polynomial)), polynomial)
        else:
            profile = self._profile(n)
            values = np.zeros(P.shape[0])
            for points in self._sets(n):
                values += sampled_diagonal(P, alpha, points, profile)
            values /= self._counts[0]
        return values.astype(P.dtype, copy=False)

    def standard_error(self, X: Any, Y: Any = None) -> Array:
        """Standard errors of the entries of ``k(X, Y)``; zero where the kernel is exact.

        ``sqrt(s^2 / R + d^2)`` with s the standard deviation between the R sets of samples, and d
        the part of the mean that stems from pairs of samples made from the same point of the unit
        cube, which are not independent: a bound, as a rule, of the bias.
        """
        self._validate()
        P, Q = self._check(X, None if Y is X else Y)
        n = int(P.shape[1])
        total, squares, bias = np.zeros((3, P.shape[0], (P if Q is None else Q).shape[0]))
        if self._series(n) is not None:
            return total
        profile = self._profile(n)
        sets, size = self._counts
        for done, points in enumerate(self._sets(n)):
            means, equals = sampled_gram(P, Q, float(self.alpha), points, profile)
            change = means - total
            total += change / (done + 1)
            squares += change * (means - total)
            bias += (equals - means) / (size - 1) / sets
        return np.sqrt(squares / (sets - 1) / sets + bias**2)

    @property
    def _counts(self) -> tuple[int, int]:
        """Number of sets of samples, and samples in a set."""
        size = min(_SET, int(self.n_samples) // _SETS)
        return int(self.n_samples) // size, size

    def _sets(self, n: int) -> Any:
        """Points of the unit cube, one set after the other."""
        sets, size = self._counts
        return (latin_hypercube(size, n, (int(self.random_state), k)) for k in range(sets))

    def _profile(self, n: int, name: str | None = None) -> Profile:
        return self._heat.profile(n) if name is None else self._heat.gradient_profile(n, name)


def _refuse_shares(X: Any, totals: Array, name: str) -> None:
    """Refuse shares, whose totals are no numbers of counts: fractions that all sum to 1, or to 100."""
    known = totals[totals > 0]
    for total in (1.0, 100.0):
        if known.size and np.all(np.abs(known - total) <= _EQUAL * total):
            fractions = row_any(X, X.data % 1 != 0) if sparse.issparse(X) else (X % 1 != 0).any(axis=1)
            refuse_rows(
                fractions, name,
                f"is not of whole numbers, and all rows sum to {total:g}: shares do not tell how much "
                "was counted; give the counts themselves, or use Heat(Simplex()) for shares",
            )  # fmt: skip


def zonal_to_powers(n: int, weights: Any) -> Any:
    """Coefficients in powers of w of the zonal series ``sum_l weights[l] P_l(w)`` on S^(n-1)."""
    powers, before, current = np.zeros((3, len(weights)), dtype=np.longdouble)
    current[0] = 1
    for level, weight in enumerate(weights):
        powers += weight * current
        after = np.zeros_like(current)
        after[1:] = (2 * level + n - 2) * current[:-1]
        after -= level * before
        # n = 2 and level 0 is the one place where the recurrence has no divisor: P_1 = w.
        before, current = current, after / (level + n - 2) if level + n > 2 else np.roll(current, 1)
    return powers
