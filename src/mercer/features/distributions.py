"""Transformers from data to distributions.

Counts become multinomial distributions, for kernels on :class:`mercer.spaces.Simplex`.  Observations
and measurements become normal distributions, in one of two layouts: ``"pairs"``, a product of
one-dimensional normal distributions, with columns ``mu_1, sigma_1, mu_2, sigma_2, ...``; or
``"spherical"``, one normal distribution with the same standard deviation in all coordinates, with
columns ``mu_1, ..., mu_d, sigma``.
"""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse, special
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from mercer._validation import check_choice, is_number, refuse_complex, refuse_rows
from mercer.spaces import Simplex
from mercer.spaces.realisations.tables import is_missing
from mercer.spaces.simplex import Counts

__all__ = ["GroupNormals", "MeasuredNormals", "Multinomials", "split_groups"]

Array = NDArray[np.float64]
Layout = Literal["pairs", "spherical"]

#: Variances are at least this fraction of the pooled variance when a prior is fitted.
_LEAST_VARIANCE = 1e-5
#: Range of the search for the Dirichlet parameter.
_LEAST_ALPHA, _MOST_ALPHA = 1e-8, 1e5


def split_groups(X: Any, groups: Any) -> tuple[list[Any], NDArray[Any]]:
    """Split the rows of a long table by group.

    Parameters
    ----------
    X : array or data frame of shape (N, d)
        One observation per row.
    groups : array-like of shape (N,)
        The group of each observation.

    Returns
    -------
    list of m arrays or data frames
        Observations of each group, for :class:`GroupNormals` or a kernel between clouds.
    array of shape (m,)
        The groups, sorted.

    Examples
    --------
    >>> from mercer.features import split_groups
    >>> clouds, names = split_groups([[1.0], [2.0], [3.0]], ["b", "a", "b"])
    >>> names
    array(['a', 'b'], dtype='<U1')
    >>> clouds
    [array([[2.]]), array([[1.],
           [3.]])]
    """
    groups = np.asarray(groups)
    if groups.ndim != 1 or any(map(is_missing, groups.tolist())):
        raise ValueError("groups must be one-dimensional, with a label for every row of X")
    rows = X.iloc if hasattr(X, "iloc") else np.asarray(X)
    length = len(X)
    if length != len(groups):
        raise ValueError(f"X has {length} rows, but groups has {len(groups)} labels")
    if length == 0:
        raise ValueError("X has no rows, and therefore no groups")
    names, places = np.unique(groups, return_inverse=True)
    order = np.argsort(places, kind="stable")
    ends = np.cumsum(np.bincount(places, minlength=len(names)))
    return [rows[index] for index in np.split(order, ends[:-1])], names


class GroupNormals(TransformerMixin, BaseEstimator):
    """Groups of observations as normal distributions, with variances shrunk towards a common value.

    A group of k observations becomes its mean and the standard deviation ``s``, where

        ``s^2 = (d_0 s_0^2 + nu v) / (d_0 + nu)``,

    v is the unbiased variance of the group with ``nu = k - 1`` degrees of freedom (``d (k - 1)`` in
    the spherical layout), and the true variance has the prior ``d_0 s_0^2 / chi^2(d_0)``.  Variances of
    few observations are uncertain, and distances between normal distributions depend on the logarithm
    of the standard deviation: shrinkage prevents groups that vary little by chance from being far away.

    ``d_0`` and ``s_0`` are fitted to the training groups, feature by feature, by the mean and variance
    of ``log v``.  If the variances differ no more than by chance, d_0 is infinite and all groups get the
    same variance.  Groups of one observation get ``s_0``.

    Parameters
    ----------
    layout : {"pairs", "spherical"}
        One standard deviation per feature, or one for all features.
    shrinkage : "empirical" or float
        Fit the prior, or use the pooled variance with this number of degrees of freedom d_0; 0 means no
        shrinkage.

    Attributes
    ----------
    prior_variance_, prior_degrees_ : array
        ``s_0^2`` and ``d_0``, per feature or for all features.

    References
    ----------
    .. [1] G. K. Smyth, "Linear models and empirical Bayes methods for assessing differential
       expression in microarray experiments", Statistical Applications in Genetics and Molecular
       Biology 3, 2004.

    Examples
    --------
    >>> from mercer.features import GroupNormals
    >>> groups = [[[1.0], [3.0]], [[10.0], [10.2], [10.4]], [[5.0]]]
    >>> GroupNormals(shrinkage=2).fit_transform(groups).round(3)
    array([[ 2.   ,  1.062],
           [10.2  ,  0.606],
           [ 5.   ,  0.833]])
    """

    def __init__(self, layout: Layout = "pairs", shrinkage: Any = "empirical") -> None:
        self.layout = layout
        self.shrinkage = shrinkage

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the prior of the variances to groups, arrays or data frames of shape (k, d) or (k,)."""
        check_choice(self, "layout", ("pairs", "spherical"))
        if self.shrinkage != "empirical" and not (is_number(self.shrinkage) and self.shrinkage >= 0):
            raise ValueError(
                "shrinkage of GroupNormals must be 'empirical' or a non-negative number, got "
                f"{self.shrinkage!r}"
            )
        groups = _check_groups(X)
        self._names = getattr(X[0], "columns", None)
        self._columns = list(map(str, range(groups[0].shape[1]) if self._names is None else self._names))
        _, variances, degrees = self._moments(groups)
        known = degrees > 0
        if not known.any():
            raise ValueError(
                "no group of X has two observations, so that variances are unknown; give larger groups, "
                "or use MeasuredNormals for measurements with errors"
            )
        pooled = degrees[known] @ variances[known] / degrees.sum()
        constant = np.flatnonzero(~(pooled > 0))
        if constant.size:
            where = f"feature {constant[0]}" if self.layout == "pairs" else "every feature"
            raise ValueError(
                f"{where} is constant in every group of X (or varies by less than 1e-160); drop it or "
                "change its unit"
            )
        if self.shrinkage == "empirical":
            if known.sum() < 2:
                raise ValueError(
                    "fewer than two groups of X have two observations, so that the prior cannot be "
                    "fitted; set shrinkage to a number"
                )
            fits = [
                _fit_prior(np.maximum(v, _LEAST_VARIANCE * p), degrees[known])
                for v, p in zip(variances[known].T, pooled, strict=True)
            ]
            self.prior_variance_, self.prior_degrees_ = map(np.array, zip(*fits, strict=True))
        else:
            self.prior_variance_ = pooled
            self.prior_degrees_ = np.full(len(pooled), float(self.shrinkage))
        return self

    def transform(self, X: Any) -> Array:
        """Means and standard deviations, one row per group."""
        check_is_fitted(self)
        groups = _check_groups(X, len(self._columns), self._names)
        means, variances, degrees = self._moments(groups)
        with np.errstate(invalid="ignore"):
            own = degrees[:, None] / (degrees[:, None] + self.prior_degrees_)
        own[np.isnan(own)] = 0.0
        shrunk = (1 - own) * self.prior_variance_ + own * variances
        if not np.all(self.prior_degrees_ > 0):
            shrunk[degrees == 0] = 0.0
        refuse_rows(
            ~(shrunk > 0).all(axis=1),
            "X",
            "has a standard deviation of zero (one observation, or equal ones); use shrinkage",
        )
        return _arrange(means, np.sqrt(shrunk), self.layout)

    def _moments(self, groups: list[Array]) -> tuple[Array, Array, Array]:
        """Means, variances and degrees of freedom of groups."""
        sizes = np.array([len(g) for g in groups])
        starts = np.append(0, np.cumsum(sizes)[:-1])
        rows = np.concatenate(groups)
        with np.errstate(over="ignore"):
            means = np.add.reduceat(rows, starts, axis=0) / sizes[:, None]
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.add.reduceat((rows - np.repeat(means, sizes, axis=0)) ** 2, starts, axis=0)
        refuse_rows(
            ~np.isfinite(squares).all(axis=1), "X", "has a variance beyond 1e308; change its unit"
        )
        degrees = (sizes - 1).astype(float)
        variances = squares / np.maximum(degrees, 1)[:, None]
        if self.layout == "spherical":
            return means, variances.mean(axis=1, keepdims=True), degrees * rows.shape[1]
        return means, variances, degrees

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names ``mean_c`` and ``sd_c`` (or ``sd``) for the columns c of the groups."""
        check_is_fitted(self)
        return _names(self._columns if input_features is None else input_features, self.layout)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags


class MeasuredNormals(TransformerMixin, BaseEstimator):
    """Measurements with standard errors as normal distributions.

    A value x with the standard error e becomes ``N(x, e^2)``.  In the spherical layout the common
    standard deviation is the root mean square of the errors of a row.

    Parameters
    ----------
    errors : list of column names or numbers, optional
        Columns of the errors, in the order of the columns of values; by default the second half.
    layout : {"pairs", "spherical"}
        One standard deviation per feature, or one for all features.

    Examples
    --------
    >>> from mercer.features import MeasuredNormals
    >>> MeasuredNormals().fit_transform([[5.0, 7.0, 0.1, 0.2]])    # two values, two errors
    array([[5. , 0.1, 7. , 0.2]])
    """

    def __init__(self, errors: Any = None, layout: Layout = "pairs") -> None:
        self.errors = errors
        self.layout = layout

    def fit(self, X: Any, y: Any = None) -> Self:
        """Determine the columns of values and errors."""
        check_choice(self, "layout", ("pairs", "spherical"))
        rows = self._check_rows(X, reset=True)
        columns = rows.shape[1]
        if self.errors is None:
            if columns % 2:
                raise ValueError(f"X has {columns} columns; values and errors need an even number")
            errors = list(range(columns // 2, columns))
        else:
            names = list(getattr(self, "feature_names_in_", []))
            errors = [names.index(e) if e in names else e for e in self.errors]
            wrong = [e for e in errors if not isinstance(e, int | np.integer) or not 0 <= e < columns]
            if wrong or len(set(errors)) != len(errors):
                raise ValueError(f"errors must name different columns of X, got {self.errors!r}")
            if 2 * len(errors) != columns:
                raise ValueError(
                    f"X has {columns} columns, {len(errors)} of them errors; each value needs one"
                )
        self._errors = errors
        self._values = [c for c in range(columns) if c not in set(errors)]
        return self

    def transform(self, X: Any) -> Array:
        """Values and errors, arranged as points of a normal family."""
        check_is_fitted(self, "_errors")
        rows = self._check_rows(X, reset=False)
        values, errors = rows[:, self._values], rows[:, self._errors]
        refuse_rows((errors <= 0).any(axis=1), "X", "has an error that is not positive")
        if self.layout == "spherical":
            largest = errors.max(axis=1, keepdims=True)
            errors = largest * np.sqrt(((errors / largest) ** 2).mean(axis=1, keepdims=True))
        return _arrange(values, errors, self.layout)

    def _check_rows(self, X: Any, reset: bool) -> Array:
        refuse_complex(X, "X")
        rows: Array = validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite=False)
        refuse_rows(~np.isfinite(rows).all(axis=1), "X", "contains NaN or infinity; drop such rows")
        return rows

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names ``mean_c`` and ``sd_c`` (or ``sd``) for the columns c of values."""
        check_is_fitted(self, "_errors")
        names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))
        columns = names if input_features is None else np.asarray(input_features)
        return _names([str(columns[c]) for c in self._values], self.layout)


class Multinomials(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Rows of counts as multinomial distributions, smoothed by a Dirichlet prior.

    ``theta_i = (x_i + alpha) / (sum_j x_j + n alpha)``: the maximum likelihood estimate for alpha = 0,
    otherwise the posterior mean under the prior Dirichlet(alpha, ..., alpha).  With
    ``alpha="marginal"`` the prior maximises the marginal likelihood of the training rows,

        ``log p(X) = sum_x [log G(n a) - log G(|x| + n a) + sum_i (log G(x_i + a) - log G(a))]``

    up to a constant, with G the gamma function.  This function has at most one maximum [1]_.  Sparse
    rows stay sparse for alpha = 0; smoothing fills all zeros.  A row without counts is refused for
    alpha = 0; otherwise it becomes the uniform distribution.

    Parameters
    ----------
    alpha : float or "marginal"

    Attributes
    ----------
    alpha_ : float
        The parameter of the prior.

    References
    ----------
    .. [1] B. Levin, J. Reeds, "Compound multinomial likelihood functions are unimodal", Annals of
       Statistics 5, 1977.

    Examples
    --------
    >>> from mercer.features import Multinomials
    >>> Multinomials(alpha=0.5).fit_transform([[3, 0, 1], [0, 2, 0]]).round(4)
    array([[0.6364, 0.0909, 0.2727],
           [0.1429, 0.7143, 0.1429]])
    """

    def __init__(self, alpha: Any = 0.0) -> None:
        self.alpha = alpha

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the rows, and fit alpha if it is ``"marginal"``."""
        counts = self._check_counts(X, self.alpha, reset=True)
        if isinstance(self.alpha, str) and self.alpha == "marginal":
            self.alpha_ = _likeliest_alpha(counts)
        elif is_number(self.alpha) and 0 <= self.alpha < np.inf:
            self.alpha_ = float(self.alpha)
        else:
            raise ValueError(
                f"alpha of Multinomials must be 'marginal' or a non-negative number, got {self.alpha!r}"
            )
        return self

    def transform(self, X: Any) -> Any:
        """Probabilities, one row per row of counts."""
        check_is_fitted(self)
        counts = self._check_counts(X, self.alpha_, reset=False)
        if self.alpha_ == 0:
            # The space maps rows to unit vectors without overflow; their squares are the probabilities.
            roots, _ = Simplex().embed(counts)
            return roots.multiply(roots).tocsr() if sparse.issparse(roots) else roots**2
        smoothed = (counts.toarray() if sparse.issparse(counts) else counts) + self.alpha_
        return smoothed / smoothed.sum(axis=1, keepdims=True)

    def _check_counts(self, X: Any, alpha: Any, reset: bool) -> Any:
        """Check the rows; rows without counts are allowed if there is a prior."""
        refuse_complex(X, "X")
        X = validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32],
            ensure_all_finite=False,
        )  # fmt: skip
        try:
            return (Simplex() if is_number(alpha) and alpha == 0 else Counts()).check(X)
        except ValueError as error:
            # The words that scikit-learn's estimator checks look for.
            negative = "Negative values in data: " if "negative entries" in str(error) else ""
            raise ValueError(f"{negative}{error}") from None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags


def _likeliest_alpha(counts: Any) -> float:
    """The Dirichlet parameter that maximises the marginal likelihood of the rows."""
    matrix = sparse.csr_matrix(counts, dtype=np.float64)
    n = matrix.shape[1]
    totals = np.asarray(matrix.sum(axis=1)).ravel()
    values, times = np.unique(matrix.data[matrix.data > 0], return_counts=True)

    def slope(log_alpha: float) -> float:
        """Derivative of the log likelihood with respect to log alpha."""
        a = np.exp(log_alpha)
        entries = times @ (special.digamma(values + a) - special.digamma(a))
        return float(
            a * (entries + n * (special.digamma(n * a) - special.digamma(totals + n * a)).sum())
        )

    low, high = np.log(_LEAST_ALPHA), np.log(_MOST_ALPHA)
    if slope(low) <= 0:
        raise ValueError(
            "the marginal likelihood grows as alpha goes to zero, because no row of X has counts in two "
            "columns; set alpha to a number"
        )
    if slope(high) >= 0:
        raise ValueError(
            "the marginal likelihood grows with alpha without bound, because the rows of X vary no more "
            "than by chance; set alpha to a number"
        )
    return float(np.exp(optimize.brentq(slope, low, high, xtol=1e-12)))


def _fit_prior(variances: Array, degrees: Array) -> tuple[float, float]:
    """Scale and degrees of freedom of the prior, from mean and variance of log variances."""
    half = degrees / 2
    logs = np.log(variances) - special.digamma(half) + np.log(half)
    excess = logs.var(ddof=1) - special.polygamma(1, half).mean()
    if excess <= 1e-8:  # no more than by chance
        return float(np.exp(logs.mean())), np.inf
    log_half = optimize.brentq(lambda x: np.log(special.polygamma(1, np.exp(x)) / excess), -30, 30)
    prior = float(np.exp(log_half))
    return float(np.exp(logs.mean() + special.digamma(prior) - np.log(prior))), 2 * prior


def _check_groups(X: Any, columns: int | None = None, names: Any = None) -> list[Array]:
    if isinstance(X, str) or not hasattr(X, "__len__") or len(X) == 0:
        raise ValueError("X must be a list of groups, arrays of shape (k, d); see split_groups")
    groups = []
    for i, group in enumerate(X):
        refuse_complex(group, f"row {i} of X")
        try:
            rows = np.asarray(group, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"row {i} of X is not an array of numbers: {group!r}") from None
        rows = rows[:, None] if rows.ndim == 1 else rows
        columns = rows.shape[-1] if columns is None else columns
        if rows.ndim != 2 or 0 in rows.shape or rows.shape[1] != columns:
            raise ValueError(
                f"row {i} of X has shape {np.shape(group)}; a group needs at least one observation of "
                f"{columns} feature(s)"
            )
        if not np.isfinite(rows).all():
            raise ValueError(f"row {i} of X contains NaN or infinity; drop such observations")
        here = getattr(group, "columns", None)
        names = here if names is None else names
        if here is not None and list(here) != list(names):
            raise ValueError(
                f"row {i} of X has the columns {', '.join(map(str, here))}, but earlier groups "
                f"{', '.join(map(str, names))}; give all groups the same columns in the same order"
            )
        groups.append(rows)
    return groups


def _arrange(means: Array, deviations: Array, layout: Layout) -> Array:
    if layout == "spherical":
        return np.concatenate([means, deviations], axis=1)
    return np.stack([means, deviations], axis=2).reshape(len(means), -1)


def _names(columns: Any, layout: Layout) -> NDArray[Any]:
    means = [f"mean_{c}" for c in columns]
    if layout == "spherical":
        return np.array([*means, "sd"], dtype=object)
    pairs = zip(means, (f"sd_{c}" for c in columns), strict=True)
    return np.array([name for pair in pairs for name in pair], dtype=object)
