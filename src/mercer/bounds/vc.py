"""VC bounds of support vector machines, from the margin and the smallest enclosing ball."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC, NuSVC
from sklearn.utils.validation import check_array, check_is_fitted

from mercer._arrays import count
from mercer._threads import run
from mercer._validation import is_whole
from mercer.bounds.ball import EnclosingBall, enclosing_ball
from mercer.kernels.base import Kernel

Array = NDArray[np.float64]


@dataclass(frozen=True)
class VCBound:
    """VC bound of a support vector machine; see :func:`vc_bound`.

    ``size`` is the number m of training rows, ``margin`` the distance M between the separating
    hyperplane and the hyperplanes of value 1 and -1, ``dimension`` the dimension n of feature space
    (possibly infinite), and ``inside`` the number of rows inside the margin or on its wrong side.
    """

    size: int
    ball: EnclosingBall
    margin: float
    dimension: float
    inside: int

    @property
    def ratio(self) -> float:
        """``R^2 / M^2``."""
        return self.ball.upper / self.margin**2

    @property
    def mu(self) -> float:
        """Bound ``min(n, R^2 / M^2) + 1`` on the VC dimension."""
        return min(self.dimension, self.ratio) + 1

    @property
    def effective_sample_size(self) -> float:
        """Rows per unit of VC dimension, ``m / mu``."""
        return effective_sample_size(self.size, self.mu)

    def generalization_bound(self, eta: float = 0.05) -> float:
        """Bound on how much the error rate on new data exceeds that on the training rows."""
        return generalization_bound(self.size, self.mu, eta)

    def __str__(self) -> str:
        space = "infinite dimension" if np.isinf(self.dimension) else f"dimension {self.dimension:.0f}"
        kind = "hard margin" if self.inside == 0 else f"soft margin, {self.inside} rows inside it"
        return "\n".join(
            [
                f"{self.size} rows, {space}, {kind}",
                f"radius R               {self.ball.radius:.4g}",
                f"margin M               {self.margin:.4g}",
                f"VC bound mu            {self.mu:.4g}",
                f"effective sample size  {self.effective_sample_size:.4g}",
                f"error beyond training  {self.generalization_bound():.4g} (with probability 0.95)",
            ]
        )


def effective_sample_size(m: ArrayLike, mu: ArrayLike) -> Any:
    """Number of training rows in units of the VC dimension, ``m / mu``.

    Parameters
    ----------
    m : int or array
        Number of training rows.
    mu : float or array
        VC dimension, or a bound on it.

    Examples
    --------
    >>> from mercer.bounds import effective_sample_size
    >>> effective_sample_size(200, 25.0)
    8.0
    """
    m, mu = _positive(m, "m"), _positive(mu, "mu")
    return _plain(m / mu)


def generalization_bound(m: ArrayLike, mu: ArrayLike, eta: float = 0.05) -> Any:
    """Bound on how much larger the error rate is on new data than on the training rows.

    ``sqrt((log(2 m/mu) + 1 - log(eta/4)/mu) / (m/mu))``, which holds with probability at least
    ``1 - eta`` over training sets, for all machines of a class of VC dimension ``mu`` at once.

    Bounds of 1 and more are vacuous.  The formula uses an estimate of the growth function that requires
    ``2 m >= mu``; otherwise the value is ``inf``.

    Parameters
    ----------
    m : int or array
        Number of training rows.
    mu : float or array
        VC dimension, or a bound on it.
    eta : float
        Probability, between 0 and 1, that the bound fails.

    References
    ----------
    .. [1] V. Vapnik, "The nature of statistical learning theory", Springer, 1995.
    .. [2] C. Zhao, J. S. Song, "Exact heat kernel on a hypersphere and its applications in kernel
       SVM", Frontiers in Applied Mathematics and Statistics 4, 2018.

    Examples
    --------
    >>> from mercer.bounds import generalization_bound
    >>> generalization_bound([1_000, 10_000, 100_000], mu=25).round(3)
    array([0.373, 0.14 , 0.05 ])
    """
    _check_eta(eta)
    m, mu = _positive(m, "m"), _positive(mu, "mu")
    share = m / mu
    valid = share >= 0.5
    inner = np.log(2 * np.where(valid, share, 1.0)) + 1 - np.log(eta / 4) / mu
    return _plain(np.where(valid, np.sqrt(inner / share), np.inf))


def critical_sample_size(mu: ArrayLike, eta: float = 0.05) -> Any:
    """Effective sample size from which :func:`generalization_bound` falls as rows are added.

    ``(eta / 4)^(1/mu) / 2``, where the derivative of the bound with respect to ``m / mu`` vanishes.
    It is below 1/2, and close to it for large mu: the bound falls wherever it holds.

    Parameters
    ----------
    mu : float or array
        VC dimension, or a bound on it.
    eta : float
        Probability, between 0 and 1, that the bound fails.

    References
    ----------
    .. [1] C. Zhao, J. S. Song, "Exact heat kernel on a hypersphere and its applications in kernel
       SVM", Frontiers in Applied Mathematics and Statistics 4, 2018, supplement.

    Examples
    --------
    >>> from mercer.bounds import critical_sample_size
    >>> critical_sample_size([5, 100, 1000]).round(3)
    array([0.208, 0.479, 0.498])
    """
    _check_eta(eta)
    return _plain(0.5 * (eta / 4) ** (1 / _positive(mu, "mu")))


def vc_bound(model: Any, X: Any, *, kernel: Any = None, dimension: int | None = None) -> VCBound:
    """VC bound of a fitted support vector machine with two classes.

    ``mu = min(n, R^2 / M^2) + 1`` with n the dimension of feature space, R the radius of the smallest
    ball around the training points, and ``M = 1 / |w|`` the margin,
    ``|w|^2 = sum_ij c_i c_j k(x_i, x_j)`` with the dual coefficients c of the machine.

    The theorem holds for machines that keep the margin M on every row, with R and M chosen before the
    data are seen.  A fitted machine has chosen M from its data, and with a soft margin some rows lie
    inside (``inside`` counts them).  Then ``mu`` serves to compare machines, but it is not a bound.

    Parameters
    ----------
    model : SVC or NuSVC
        Fitted, with any positive semidefinite kernel.
    X : rows
        The training rows in the order of the fit; for ``kernel="precomputed"`` their Gram matrix.
    kernel : callable, optional
        Kernel of a model with ``kernel="precomputed"``, if X are the rows.
    dimension : int, optional
        Dimension of feature space.  By default the number of columns for linear and cosine kernels, and
        infinite otherwise.

    See Also
    --------
    pairwise_vc_bounds : machines with more classes.

    References
    ----------
    .. [1] V. Vapnik, "The nature of statistical learning theory", Springer, 1995.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.svm import SVC
    >>> from mercer.bounds import vc_bound
    >>> from mercer.kernels import Linear
    >>> X = np.array([[-2.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
    >>> bound = vc_bound(SVC(kernel=Linear(), C=1e3).fit(X, [0, 0, 1, 1]), X)
    >>> print(bound)
    4 rows, dimension 2, hard margin
    radius R               2
    margin M               1
    VC bound mu            3
    effective sample size  1.333
    error beyond training  1.607 (with probability 0.95)
    """
    _check_model(model)
    if len(model.classes_) != 2:
        raise ValueError(
            f"the model has {len(model.classes_)} classes, one machine for each pair: use "
            "pairwise_vc_bounds(model, X, y)"
        )
    K, columns = _gram(model, X, kernel), _dimension(model, X, kernel, dimension)
    margin, inside = _margin(model, K, len(K), model.support_, _dual(model)[0], model.intercept_[0])
    return VCBound(len(K), enclosing_ball(K), margin, columns, inside)


def pairwise_vc_bounds(
    model: Any, X: Any, y: ArrayLike, *, kernel: Any = None, dimension: int | None = None
) -> dict[tuple[Any, Any], VCBound]:
    """VC bounds of all machines in a support vector classifier, one for each pair of classes.

    A classifier with more than two classes consists of one machine per pair, fitted on the rows of the
    two classes only; ball, margin and number of rows are those of that machine.

    Parameters
    ----------
    model : SVC or NuSVC
    X : rows
        As for :func:`vc_bound`.
    y : array of shape (m,)
        Classes of the training rows.
    kernel : callable, optional
    dimension : int, optional
        As for :func:`vc_bound`.

    Returns
    -------
    dict
        From pairs of classes, in the order of ``model.classes_``, to :class:`VCBound`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from mercer.bounds import pairwise_vc_bounds
    >>> X, y = load_iris(return_X_y=True)
    >>> bounds = pairwise_vc_bounds(SVC(kernel="linear").fit(X, y), X, y)
    >>> {(int(a), int(b)): round(bound.ratio, 1) for (a, b), bound in bounds.items()}
    {(0, 1): 8.8, (0, 2): 5.1, (1, 2): 56.2}
    """
    _check_model(model)
    K, columns = _gram(model, X, kernel), _dimension(model, X, kernel, dimension)
    code = _class_codes(model, np.asarray(y), len(K))
    pairs = list(combinations(range(len(model.classes_)), 2))
    bounds: list[VCBound | None] = [None] * len(pairs)

    def job(place: int, first: int, second: int) -> None:
        rows = np.flatnonzero((code == first) | (code == second))
        support, coefficients = _machine(model, code, first, second)
        margin, inside = _margin(model, K, rows.size, support, coefficients, model.intercept_[place])
        ball = enclosing_ball(K[np.ix_(rows, rows)])
        bounds[place] = VCBound(rows.size, ball, margin, columns, inside)

    run(job, [(i, *pair) for i, pair in enumerate(pairs)], what="enclosing balls")
    labels = [(model.classes_[a], model.classes_[b]) for a, b in pairs]
    return {label: bound for label, bound in zip(labels, bounds, strict=True) if bound is not None}


def _check_model(model: Any) -> None:
    if not isinstance(model, SVC | NuSVC):
        raise TypeError(
            f"the model must be a fitted sklearn.svm.SVC or NuSVC, got {type(model).__name__}; "
            "for a pipeline or search, pass the machine inside it"
        )
    check_is_fitted(model)


def _gram(model: Any, X: Any, kernel: Any) -> Array:
    """Gram matrix of the training rows, by the given kernel or that of the model."""
    size = model.shape_fit_[0]
    if count(X) != size:
        raise ValueError(f"X has {count(X)} rows, but the model was fitted on {size}")
    kernel = model.kernel if kernel is None else kernel
    if callable(kernel):
        K = np.asarray(kernel(X, X))
    elif kernel == "precomputed":
        K = _dense(X)
    else:
        X = check_array(X, accept_sparse="csr", dtype=float)
        options = {"gamma": _gamma(model, X), "degree": model.degree, "coef0": model.coef0}
        K = pairwise_kernels(X, metric=kernel, filter_params=True, **options)
    if K.shape != (size, size):
        raise ValueError(
            f"the Gram matrix has shape {K.shape}, expected {(size, size)}; a model with "
            'kernel="precomputed" needs it as X, or the kernel and the rows'
        )
    return K


def _gamma(model: Any, X: Any) -> float:
    """The value of ``gamma``, which scikit-learn takes from the training rows unless it is given."""
    if not isinstance(model.gamma, str):
        return model.gamma
    variance = 1.0
    if model.gamma == "scale":
        variance = X.multiply(X).mean() - X.mean() ** 2 if sparse.issparse(X) else X.var()
    return 1.0 / (X.shape[1] * variance) if variance != 0 else 1.0


def _dimension(model: Any, X: Any, kernel: Any, dimension: Any) -> float:
    """Dimension of feature space, as given or from the features of the kernel."""
    if dimension is not None:
        if not (is_whole(dimension) and dimension > 0):
            raise ValueError(f"dimension must be a positive whole number or None, got {dimension!r}")
        return dimension
    kernel = model.kernel if kernel is None else kernel
    if isinstance(kernel, Kernel):
        features = kernel.explicit_features(X)
        return np.inf if features is None else features.shape[1]
    return X.shape[1] if isinstance(kernel, str) and kernel == "linear" else np.inf


def _class_codes(model: Any, y: NDArray, size: int) -> NDArray[np.int64]:
    """Indices of the labels in the model's classes, checked against its support vectors."""
    if y.shape != (size,):
        raise ValueError(f"y has shape {y.shape}, but the model was fitted on {size} rows")
    unknown = np.flatnonzero(~np.isin(y, model.classes_))
    if unknown.size:
        raise ValueError(f"row {unknown[0]} of y is {y[unknown[0]]!r}, not a class of the model")
    code = np.searchsorted(model.classes_, y)
    expected = np.repeat(np.arange(len(model.classes_)), model.n_support_)
    wrong = model.support_[code[model.support_] != expected]
    if wrong.size:
        raise ValueError(f"row {wrong[0]} of y is not the class that the model was fitted on")
    return code


def _machine(
    model: Any, code: NDArray[np.int64], first: int, second: int
) -> tuple[NDArray[np.int64], Array]:
    """Support vectors of the machine for a pair of classes, and their coefficients."""
    if len(model.classes_) == 2:
        return model.support_, _dual(model)[0]
    # scikit-learn stores one row of coefficients for each class other than that of the support vector.
    owner = code[model.support_]
    row = np.where(owner == first, second - 1, first)
    coefficients = _dual(model)[row, np.arange(owner.size)]
    used = ((owner == first) | (owner == second)) & (coefficients != 0)
    return model.support_[used], coefficients[used]


def _margin(
    model: Any, K: Array, size: int, support: NDArray[np.int64], coefficients: Array, intercept: float
) -> tuple[float, int]:
    """Margin ``1 / |w|`` of a machine fitted on ``size`` rows, and the number of rows inside it."""
    K = K[np.ix_(support, support)]
    values = K @ coefficients
    square = float(coefficients @ values)
    weight, largest = float(np.abs(coefficients).sum()), float(np.abs(K).max())
    if square < -1e-12 * weight**2 * largest:
        raise ValueError("the Gram matrix is not positive semidefinite: |w|^2 is negative")
    reach = np.sign(coefficients) * (values + intercept)
    # libsvm solves nu-SVMs with coefficients that sum to nu * size, and rescales them afterwards.
    tol = model.tol if isinstance(model, SVC) else model.tol * weight / (model.nu * size)
    tol += np.finfo(np.float32).eps * weight * largest  # it keeps K in single precision
    if tol >= 0.5:
        raise ValueError(
            "the tolerance of the fit is too large to tell which rows are inside the margin; fit the "
            "model with a smaller tol"
        )
    # At the optimum support vectors have values of at most 1, other rows of at least 1.
    if reach.max() > 1 + 10 * tol:
        raise ValueError(
            "the model is not optimal for these rows: X must be the training rows in the order of the "
            "fit, with the same kernel, and the fit must have converged"
        )
    margin = 1 / np.sqrt(square) if square > 0 else np.inf
    return float(margin), int((reach < 1 - 2 * tol).sum())


def _dual(model: Any) -> Array:
    """Dual coefficients, which are sparse if the rows were."""
    return _dense(model.dual_coef_)


def _dense(matrix: Any) -> Array:
    return matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix)


def _check_eta(eta: Any) -> None:
    if not (np.ndim(eta) == 0 and 0 < eta < 1):
        raise ValueError(f"eta must lie between 0 and 1, both excluded, got {eta!r}")


def _positive(values: ArrayLike, name: str) -> Array:
    array = np.asarray(values, dtype=float)
    if not np.all((array > 0) & (array < np.inf)):
        raise ValueError(f"{name} must be positive and finite, got {values!r}")
    return array


def _plain(values: NDArray) -> Any:
    """A float for a single value."""
    return values if np.ndim(values) else float(values)
