"""The heat kernel between multinomial models, averaged over their posteriors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from mercer._arrays import number, on_cpu, row_any
from mercer._validation import check_positive, is_whole, refuse_foreign, refuse_rows
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

#: Longest polynomial that is averaged exactly; larger factorials overflow.
MAX_LEVELS = 128
#: Largest sum of the magnitudes of its coefficients, by which rounding errors are magnified.
_MAX_MAGNIFICATION = 1e4
#: Samples in a set, and least number of sets, whose spread gives the standard error.
_SET, _SETS = 32, 8
#: Most columns of a sample; every column needs a quantile, even without counts.
_MOST_COLUMNS = 1_000_000
#: Rows from which the range is learnt, times the square root of the number of columns.
_RANGE_COST = 1600
_METHODS = ("auto", "series", "samples")
#: Relative distance of row sums from 1 or 100 within which rows are taken for proportions.
_EQUAL = 1e-6


@dataclass(eq=False, repr=False)
class PosteriorHeat(StructuredKernel, DiffusionTime):
    """The heat kernel between multinomial models whose parameters are estimated from counts.

    ``K(x, x') = E k(theta, theta')`` over the independent posteriors ``theta ~ Dirichlet(x + alpha)``
    and ``theta' ~ Dirichlet(x' + alpha)`` of two rows of counts, with k the normalised heat kernel
    on the simplex.  The posteriors are independent even if the rows are equal, so that K(x, x) < 1; the
    fewer the counts, the smaller the value.  As counts grow, K approaches ``Heat(Simplex())``.  The
    posterior of a row without counts is the prior.  Counts may be weighted, but proportions (fractions
    that all sum to 1, or to 100) are refused: they do not tell how many counts there were.

    Positive semidefinite: it is the inner product of the posterior means of the features of k.  If k is
    a polynomial in ``w = sum_i sqrt(theta_i theta'_i)`` of at most 128 terms that can be summed, K is
    exact, because all moments of w have a closed form.  This is so for ``t_star`` of at least 0.05
    (n = 10), 0.12 (n = 100), 0.37 (n = 1000), 0.56 (n = 10000).  For shorter times samples are averaged,
    and :meth:`standard_error` estimates the error.

    A pair of rows costs half the square of the number of terms per column in which either row is not
    zero; with samples, about 64 n operations per sample.

    Parameters
    ----------
    t_star : float
        Time in units of ``log(n) / n``, used unless ``t`` is given.
    alpha : float
        Parameter of the symmetric Dirichlet prior: 0.5 is the Jeffreys prior, 1 the uniform prior.
    n_samples : int
        Samples per row, in sets of 32 (of an eighth of the samples, if there are fewer than 256).
    random_state : int
        Seed of the samples.
    method : {"auto", "series", "samples"}
        The exact series, samples, or the series where it can be summed and samples elsewhere ("auto").
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

    t_star: float = 1.0
    alpha: float = 0.5
    n_samples: int = 256
    random_state: int = 0
    method: str = "auto"
    t: float | None = None
    t_star_bounds: Any = (1e-2, 1e2)
    t_bounds: Any = (1e-6, 1e2)

    space = Simplex()
    normalized = False

    @property
    def point_space(self) -> Simplex:
        """See :class:`Kernel`."""
        return self.space

    def validate(self) -> None:
        """See :class:`Kernel`."""
        super().validate()
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
                "random_state of PosteriorHeat must be a non-negative whole number, so that samples "
                f"do not change between calls, got {self.random_state!r}"
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
        refuse_foreign(X, f"PosteriorHeat takes NumPy and SciPy rows; convert {name} to one of them")
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

        None if there are too many, or if they cancel so much that the sum is lost to rounding.
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
        """Tell whether the kernel is exact for rows with n columns.

        Examples
        --------
        >>> from mercer.kernels import PosteriorHeat
        >>> PosteriorHeat(t_star=0.5).is_exact(1000), PosteriorHeat(t_star=0.1).is_exact(1000)
        (True, False)
        """
        self.validate()
        return self._series(n) is not None

    def _series(self, n: int, name: str | None = None) -> Array | None:
        """The polynomial to average; None if samples are used."""
        polynomial = None if self.method == "samples" else self._polynomial(n, name)
        if polynomial is None and n > _MOST_COLUMNS:
            raise ValueError(
                f"{self!r} would need samples of all {n} columns, which takes too long; use a longer "
                "time, for which the series is exact, or drop empty columns"
            )
        if polynomial is None and self.method == "series":
            raise ValueError(
                f"the series of {self!r} cannot be summed in dimension {n}: the time is too short; use "
                "method='auto' or a longer time"
            )
        return polynomial

    def pair_similarities(
        self, X: Any, max_rows: int, rng: np.random.Generator
    ) -> tuple[Similarities, int]:
        """See :class:`Kernel`."""
        # The cost of a pair grows with the number of columns.
        counts = self._check_counts(on_cpu(X), "X")
        most = min(max(int(_RANGE_COST / counts.shape[1] ** 0.5), 32), 300)
        return super().pair_similarities(counts, min(max_rows, most), rng)

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
        """Standard errors of the entries of ``k(X, Y)``; zero if the kernel is exact.

        ``sqrt(s^2 / R + d^2)`` with s the standard deviation between the R sets of samples, and d the
        contribution to the mean of pairs of samples from the same point of the unit cube, which are not
        independent; d usually bounds the bias.
        """
        self.validate()
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
        """Number of sets, and number of samples in each."""
        size = min(_SET, int(self.n_samples) // _SETS)
        return int(self.n_samples) // size, size

    def _sets(self, n: int) -> Any:
        """Sets of points in the unit cube."""
        sets, size = self._counts
        return (latin_hypercube(size, n, (int(self.random_state), k)) for k in range(sets))

    def _profile(self, n: int, name: str | None = None) -> Profile:
        return self._heat.profile(n) if name is None else self._heat.gradient_profile(n, name)


def _refuse_shares(X: Any, totals: Array, name: str) -> None:
    """Raise for proportions, whose totals are not numbers of counts: fractions that sum to 1 or 100."""
    known = totals[totals > 0]
    for total in (1.0, 100.0):
        if known.size and np.all(np.abs(known - total) <= _EQUAL * total):
            fractions = row_any(X, X.data % 1 != 0) if sparse.issparse(X) else (X % 1 != 0).any(axis=1)
            refuse_rows(
                fractions, name,
                f"has fractions, and all rows sum to {total:g}: proportions do not tell how many counts "
                "there were; give the counts, or use Heat(Simplex()) for proportions",
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
        # The recurrence divides by zero for n = 2 and level 0, where P_1 = w.
        before, current = current, after / (level + n - 2) if level + n > 2 else np.roll(current, 1)
    return powers
