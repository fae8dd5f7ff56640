"""Kernels between multinomial models, averaged over their posteriors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from mercer._arrays import number, squared_lengths, unit_rows
from mercer.engine import GramOptions, engine_for
from mercer.engine.dirichlet import Array, mean_root
from mercer.engine.posteriors import parts
from mercer.kernels.counts.multinomial import (
    MAX_LEVELS,
    MultinomialPosterior,
    check_alpha,
    check_counts,
)
from mercer.kernels.heat import Heat
from mercer.kernels.parametrix import ORTHOGONAL_HALF, Parametrix
from mercer.kernels.structured import StructuredKernel
from mercer.profiles import PowerProfile
from mercer.spaces import Simplex
from mercer.special import heat_short_time

#: Degrees of polynomials that are tried for the parametrix, and the error that they may have.
_DEGREES, _CLOSE = (12, 24, 32), 1e-16
#: Rows of a Gram matrix that are completed together.
_ROWS = 256


@dataclass(eq=False, repr=False)
class PosteriorHeat(MultinomialPosterior):
    """The heat kernel between multinomial models whose parameters are estimated from counts.

    ``K(x, x') = E k(theta, theta')`` over the independent posteriors ``theta ~ Dirichlet(x + alpha)``
    and ``theta' ~ Dirichlet(x' + alpha)`` of two rows of counts, with k the normalised heat kernel on
    the simplex.  The posteriors are independent even if the rows are equal, so that K(x, x) < 1; the
    fewer the counts, the smaller the value.  As counts grow, K approaches ``Heat(Simplex())``.  The
    posterior of a row without counts is the prior.  Counts may be weighted, but proportions (fractions
    that all sum to 1, or to 100) are refused, because they do not say how many counts there were.

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

    _averaged = Heat

    def _powers(self, n: int, name: str | None = None) -> Any:
        heat = self.point_kernel()
        if heat_short_time.is_short(n, heat.time(n)):
            return None
        spectrum = heat.spectrum(n)
        if spectrum.levels[-1] >= MAX_LEVELS:
            return None
        weights = np.zeros(max(int(spectrum.levels[-1]) + 1, 2), dtype=np.longdouble)
        weights[spectrum.levels] = spectrum.p
        if name is not None:
            scores = heat.slope(n, name).scores(spectrum.eigenvalues)
            weights[spectrum.levels] *= scores - (spectrum.p * scores).sum()
        return zonal_to_powers(n, weights)


@dataclass(eq=False, repr=False)
class PosteriorParametrix(MultinomialPosterior):
    """The parametrix kernel between multinomial models whose parameters are estimated from counts.

    ``K(x, x') = E exp(-arccos(w)^2 / 4t)``, ``w = sum_i sqrt(theta_i theta'_i)``, over the independent
    posteriors ``theta ~ Dirichlet(x + alpha)`` and ``theta' ~ Dirichlet(x' + alpha)`` of two rows of
    counts.  As counts grow, K approaches ``Parametrix(Simplex())``.  It serves for comparison with
    :class:`PosteriorHeat`, whose page describes counts, rows without counts and proportions.

    **Not positive semidefinite** in general, because the parametrix is not.

    On [0, 1] the kernel is a polynomial in w up to rounding errors, in every dimension.  If it can be
    summed, for ``t_star`` of at least 0.1, K is exact, because all moments of w have a closed form.
    For shorter times samples are averaged, and :meth:`standard_error` estimates the error.

    Parameters
    ----------
    t_star : float
        Time in units of ``pi^2 / (16 log 2)``, as in :class:`Parametrix`, used unless ``t`` is given.
    alpha, n_samples, random_state, method, t, t_star_bounds, t_bounds
        See :class:`PosteriorHeat`.

    References
    ----------
    .. [1] J. Lafferty, G. Lebanon, "Information diffusion kernels", NIPS 2002.

    Examples
    --------
    >>> from mercer.kernels import PosteriorParametrix
    >>> PosteriorParametrix()([[3, 0, 1], [300, 0, 100]]).round(4)
    array([[0.9574, 0.9636],
           [0.9636, 0.9994]])
    """

    positive_semidefinite = False
    _averaged = Parametrix

    def _unit(self, n: int) -> float:
        return ORTHOGONAL_HALF

    def _powers(self, n: int, name: str | None = None) -> Any:
        t = np.longdouble(self.time(n))

        def function(w: Any) -> Any:
            drop = np.arccos(w) ** 2 / (4 * t)
            return np.exp(-drop) * (1 if name is None else drop)

        for degree in _DEGREES:
            coefficients = _chebyshev(function, degree)
            if np.abs(coefficients[-3:]).max() <= _CLOSE:
                return _chebyshev_to_powers(coefficients)
        return None


@dataclass(eq=False, repr=False)
class PosteriorCosine(StructuredKernel):
    """The cosine kernel between multinomial models whose parameters are estimated from counts.

    ``K(x, x') = E sum_i sqrt(theta_i theta'_i) = sum_i E sqrt(theta_i) E sqrt(theta'_i)`` over the
    independent posteriors ``Dirichlet(x + alpha)`` and ``Dirichlet(x' + alpha)`` of two rows of counts.
    With ``b = x + alpha`` and ``B = sum_i b_i``,

        ``E sqrt(theta_i) = Gamma(b_i + 1/2) Gamma(B) / (Gamma(b_i) Gamma(B + 1/2))``.

    Exact and positive semidefinite: an inner product of n features.  As counts grow, K approaches
    ``Cosine(Simplex())``; the fewer the counts, the smaller K(x, x).  The cost of sparse rows depends on
    their non-zeros.  See :class:`PosteriorHeat` for rows without counts and proportions.

    Parameters
    ----------
    alpha : float
        Parameter of the symmetric Dirichlet prior: 0.5 is the Jeffreys prior, 1 the uniform prior.
    normalized : bool
        Divide by the square roots of K(x, x) and K(x', x').

    References
    ----------
    .. [1] J. Lafferty, G. Lebanon, "Information diffusion kernels", NIPS 2002.

    Examples
    --------
    >>> from mercer.kernels import PosteriorCosine
    >>> PosteriorCosine()([[3, 0, 1], [300, 0, 100]]).round(4)
    array([[0.923 , 0.9342],
           [0.9342, 0.9989]])
    """

    alpha: float = 0.5
    normalized: bool = False

    space = Simplex()

    @property
    def point_space(self) -> Simplex:
        return self.space

    def explicit_features(self, X: Any) -> Any:
        """See :class:`Kernel`; posterior means of square roots."""
        self.validate()
        counts = check_counts(self, X, None)[0]
        dense = counts.toarray() if sparse.issparse(counts) else counts
        features = _RootMeans.of(dense, number(self.alpha))
        rows = unit_rows(features.rows) if self.normalized else features.rows
        return rows.astype(counts.dtype, copy=False)

    def validate(self) -> None:
        super().validate()
        check_alpha(self)

    def _check(self, X: Any, Y: Any) -> tuple[Any, Any]:
        return check_counts(self, X, Y)

    def _gram(self, P: Any, Q: Any) -> Any:
        dtype = P.dtype if Q is None else np.result_type(P.dtype, Q.dtype)
        if sparse.issparse(P) or sparse.issparse(Q):
            P, Q = sparse.csr_matrix(P), None if Q is None else sparse.csr_matrix(Q)
        left = _RootMeans.of(P, number(self.alpha))
        return left.products(None if Q is None else _RootMeans.of(Q, number(self.alpha))).astype(dtype)

    def _diagonal(self, P: Any) -> Any:
        return _RootMeans.of(P, number(self.alpha)).squares().astype(P.dtype)


@dataclass(frozen=True)
class _RootMeans:
    """Posterior means of square roots: ``rows``, plus a constant in all columns of a row.

    The constant is that of categories without counts, so that sparse rows stay sparse.
    """

    rows: Any
    constants: Array
    sums: Array

    @classmethod
    def of(cls, counts: Any, alpha: float) -> _RootMeans:
        """Posteriors of rows of counts (array or CSR)."""
        totals = np.asarray(counts.sum(axis=1, dtype=np.float64)).ravel() + counts.shape[1] * alpha
        factors = 1 / mean_root(totals)
        if not sparse.issparse(counts):
            rows = mean_root(np.asarray(counts, dtype=np.float64) + alpha) * factors[:, None]
            return cls(rows, np.zeros(len(rows)), np.zeros(len(rows)))
        unseen = mean_root(np.array(alpha))
        rows = sparse.csr_matrix(counts, dtype=np.float64, copy=True)
        rows.data = (mean_root(rows.data + alpha) - unseen) * np.repeat(factors, np.diff(rows.indptr))
        return cls(rows, unseen * factors, np.asarray(rows.sum(axis=1)).ravel())

    def products(self, other: _RootMeans | None) -> Array:
        """Inner products with others, or with each other."""
        options = GramOptions(symmetric=other is None)
        other = self if other is None else other
        K = engine_for(self.rows).gram(self.rows, other.rows, PowerProfile(), options)
        n = self.rows.shape[1]
        for begin, end in parts(len(K), _ROWS):
            s, sums = self.constants[begin:end, None], self.sums[begin:end, None]
            K[begin:end] += (s * other.sums + sums * other.constants) + n * s * other.constants
        return K

    def squares(self) -> Array:
        """Squared lengths."""
        s = self.constants
        return squared_lengths(self.rows) + 2 * s * self.sums + self.rows.shape[1] * s**2


def _chebyshev(function: Any, degree: int) -> Any:
    """Coefficients of the interpolating polynomial on [0, 1] in Chebyshev polynomials of ``2 w - 1``."""
    pi = np.arccos(np.longdouble(-1))
    angles = pi * (np.arange(degree + 1, dtype=np.longdouble) + 0.5) / (degree + 1)
    values = function((np.cos(angles) + 1) / 2)
    cosines = np.cos(np.arange(degree + 1)[:, None] * angles)
    return cosines @ values * (2 - (np.arange(degree + 1) == 0)) / (degree + 1)


def _chebyshev_to_powers(coefficients: Any) -> Any:
    """Coefficients in powers of w of a series in Chebyshev polynomials of ``2 w - 1``."""
    powers, before, current = np.zeros((3, len(coefficients)), dtype=np.longdouble)
    current[0] = 1
    for k, coefficient in enumerate(coefficients):
        powers += coefficient * current
        after: Any = 4 * np.roll(current, 1) - 2 * current
        before, current = current, after / 2 if k == 0 else after - before
    return powers


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
