"""The base class of kernels between multinomial models, averaged over their posteriors."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from mercer._arrays import number, on_cpu, row_any
from mercer._validation import check_choice, check_positive, refuse_foreign, refuse_rows
from mercer.engine.dirichlet import (
    Array,
    Moments,
    moment_diagonal,
    moment_gram,
    posterior_points,
)
from mercer.engine.posteriors import Sampler
from mercer.kernels.counts.sampled import PosteriorKernel
from mercer.kernels.realised import DiffusionTime
from mercer.kernels.scale import Similarities
from mercer.spaces import Simplex
from mercer.spaces.simplex import Counts

#: Longest polynomial that is averaged exactly; larger factorials overflow.
MAX_LEVELS = 128
#: Largest sum of the magnitudes of its coefficients, by which rounding errors are magnified.
_MAX_MAGNIFICATION = 1e4
#: Largest number of columns of a sample; every column needs a quantile, even without counts.
_MOST_COLUMNS = 1_000_000
#: Rows from which the range is learnt, times the square root of the number of columns.
_RANGE_COST = 1600
#: Most columns for which samples help to find a range; a Gram matrix of them takes minutes with more.
_SAMPLED_COLUMNS = 5000
#: Relative distance of row sums from 1 or 100 within which rows are taken for proportions.
_EQUAL = 1e-6


@dataclass(eq=False, repr=False)
class MultinomialPosterior(DiffusionTime, PosteriorKernel):
    """Base class of averages of a kernel on the simplex over Dirichlet posteriors.

    A subclass names the kernel that is averaged, and may give it as a polynomial of
    ``w = sum_i sqrt(theta_i theta'_i)``, whose moments are known.
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
    #: The class of the kernel that is averaged.
    _averaged: ClassVar[Any]

    @property
    def point_space(self) -> Simplex:
        return self.space

    def point_kernel(self) -> Any:
        """The kernel that is averaged."""
        if self.t is not None:
            return self._averaged(self.space, t=number(self.t))
        return self._averaged(self.space, t_star=number(self.t_star))

    @abstractmethod
    def _powers(self, n: int, name: str | None = None) -> Any:
        """Its coefficients, or those of its derivative, in powers of w; None if there are too many."""

    def validate(self) -> None:
        super().validate()
        check_alpha(self)
        self._check_samples()
        check_choice(self, "method", ("auto", "series", "samples"))

    def _check(self, X: Any, Y: Any) -> tuple[Any, Any]:
        return check_counts(self, X, Y)

    def _polynomial(self, n: int, name: str | None = None) -> Array | None:
        """Coefficients of the kernel (or its derivative) in powers of w, times ``k!``.

        None if there are too many, or if they cancel so much that the sum is lost to rounding.
        """
        powers = self._powers(n)
        if powers is None or len(powers) > MAX_LEVELS or np.abs(powers).sum() > _MAX_MAGNIFICATION:
            return None
        if name is not None:
            powers = self._powers(n, name)
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

    def _is_exact(self, P: Any) -> bool:
        return self._series(int(P.shape[1])) is not None

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
        # The cost of a pair grows with the number of columns.
        counts = check_counts(self, on_cpu(X), None)[0]
        most = min(max(int(_RANGE_COST / counts.shape[1] ** 0.5), 32), 300)
        similarities, points = super().pair_similarities(counts, min(max_rows, most), rng)
        n = int(counts.shape[1])
        if n <= _SAMPLED_COLUMNS or self.method != "auto" or not self.is_exact(n):
            return similarities, points
        return lambda kernel: similarities(replace(kernel, method="series")), points

    def _gram(self, P: Any, Q: Any) -> Any:
        return self._average(P, Q)

    def _slope(self, P: Any, name: str) -> Any:
        return self._average(P, None, name)

    def _average(self, P: Any, Q: Any, name: str | None = None) -> Any:
        polynomial = self._series(int(P.shape[1]), name)
        if polynomial is not None:
            left, right = (None if X is None else self._moments(X, polynomial) for X in (P, Q))
            assert left is not None
            K = moment_gram(left, right, polynomial)
        else:
            K = self.sampled_gram(P, Q, name)
        return K.astype(P.dtype if Q is None else np.result_type(P.dtype, Q.dtype), copy=False)

    def _diagonal(self, P: Any) -> Any:
        polynomial = self._series(int(P.shape[1]))
        if polynomial is not None:
            values = moment_diagonal(self._moments(P, polynomial), polynomial)
        else:
            values = self._sampled_diagonal(P)
        return values.astype(P.dtype, copy=False)

    def _moments(self, X: Any, polynomial: Array) -> Moments:
        return Moments.of(X, float(self.alpha), len(polynomial))

    def _coordinates(self, P: Any) -> int:
        return int(P.shape[1])

    def _sampler(self, P: Any, uniform: Array, name: str | None) -> Sampler:
        n, kernel = int(P.shape[1]), self.point_kernel()
        profile = kernel.profile(n) if name is None else kernel.gradient_profile(n, name)

        def draw(rows: Any) -> Array:
            counts = rows.toarray() if sparse.issparse(rows) else rows
            return posterior_points(np.asarray(counts, dtype=np.float64) + float(self.alpha), uniform)

        def compare(left: Array, right: Array) -> Array:
            w = left @ right.swapaxes(-1, -2)
            profile.apply(w.reshape(-1, w.shape[-1]))
            return w

        return Sampler(draw, compare, len(uniform), uniform.size)


def check_alpha(kernel: Any) -> None:
    """Raise unless the parameter of the prior is in range."""
    check_positive(kernel, "alpha")
    if not 1e-100 <= number(kernel.alpha) <= 1e100:
        raise ValueError(
            f"alpha of {type(kernel).__name__} must be in 1e-100..1e100, got {kernel.alpha!r}"
        )


def check_counts(kernel: Any, X: Any, Y: Any) -> tuple[Any, Any]:
    """Check rows of counts; None stays None."""
    P = _checked(kernel, X, "X")
    if Y is None:
        return P, None
    Q = _checked(kernel, Y, "Y")
    if P.shape[1] != Q.shape[1]:
        raise ValueError(f"X has {P.shape[1]} columns, Y has {Q.shape[1]}; they must agree")
    return P, Q


def _checked(kernel: Any, X: Any, name: str) -> Any:
    owner = type(kernel).__name__
    refuse_foreign(X, f"{owner} takes NumPy and SciPy rows; convert {name} to one of them")
    X = Counts().check(X, name)
    with np.errstate(over="ignore"):
        totals = np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()
    refuse_rows(~np.isfinite(totals), name, "sums to infinity; scale its counts down")
    _refuse_shares(X, totals, name)
    return X


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
