"""Geometry in feature space, from Gram matrices.

Norms, distances, means, variances, angles and coordinates of points in feature space are functions of
the Gram matrix, computed stably here even for singular matrices.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.preprocessing import KernelCenterer

from mercer._validation import is_number, refuse_complex, refuse_rows
from mercer.exceptions import DegenerateKernelWarning
from mercer.harmonics import SphericalHarmonics
from mercer.kernels.base import Kernel, has_range
from mercer.kernels.tables.summary import in_short, of_columns

Array = NDArray[np.float64]
#: Smallest difference from 1, and smallest similarity of neighbours, of a matrix that is not degenerate.
_NEARLY_CONSTANT, _NEARLY_IDENTITY = 1e-3, 1e-2
#: Size of the sample for that test, smallest number of points, tolerance, and usual share of equal ones.
_LOOKED_AT, _FEWEST, _EQUAL, _OFTEN_EQUAL = 400, 4, 1e-12, 0.1
#: Coefficients, or sums over a matrix, below this part of the largest are rounding errors.
_NO_PART = 1e-12
#: Part of a squared norm that rounding errors may make up.
_NOTICED = 1e-3
__all__ = [
    "Diagnosis", "center", "correlation", "degeneracy", "diagnose", "distances", "empirical_map",
    "mean_norm", "mercer_map", "normalize", "norms", "rkhs_inner_product", "rkhs_norm",
    "total_variance", "warn_if_degenerate",
]  # fmt: skip


def norms(K: ArrayLike) -> Array:
    """Norms ``sqrt(K_ii)`` of the points in feature space.

    Examples
    --------
    >>> from mercer.rkhs import norms
    >>> norms([[43.81, 50.01], [50.01, 57.22]]).round(3)
    array([6.619, 7.564])
    """
    return np.sqrt(_diagonal(_gram(K)))


def distances(K: ArrayLike) -> Array:
    """Distances ``sqrt(K_ii + K_jj - 2 K_ij)`` between all points in feature space.

    Examples
    --------
    >>> from mercer.rkhs import distances
    >>> distances([[43.81, 50.01], [50.01, 57.22]]).round(3)
    array([[0.   , 1.005],
           [1.005, 0.   ]])
    """
    K = _gram(K)
    diagonal = _diagonal(K)
    squared = diagonal[:, None] + diagonal - 2 * K
    # Rounding makes squared distances of (nearly) equal points slightly negative.
    result = np.sqrt(np.maximum(squared, 0))
    np.fill_diagonal(result, 0)
    return result


def mean_norm(K: ArrayLike) -> float:
    """Norm of the mean of the points, ``sqrt(mean of K)``."""
    return math.sqrt(_not_negative(np.mean, _gram(K)))


def total_variance(K: ArrayLike) -> float:
    """Mean squared distance to the mean, ``mean(K_ii) - mean(K)``.

    Examples
    --------
    >>> from mercer.rkhs import total_variance
    >>> total_variance([[1.0, 0.0], [0.0, 1.0]])
    0.5
    """
    return _not_negative(lambda K: np.diag(K).mean() - K.mean(), _gram(K))


def center(K: ArrayLike, K_test: ArrayLike | None = None) -> Any:
    """Move the origin of feature space to the mean of the points: ``(I - 1/m) K (I - 1/m)``.

    Parameters
    ----------
    K : array of shape (m, m)
        Gram matrix of the training points.
    K_test : array of shape (p, m), optional
        Gram matrix of other points with the training points, to be centred in the same way.

    Returns
    -------
    array of shape (m, m), or a pair of arrays if ``K_test`` is given

    See Also
    --------
    sklearn.preprocessing.KernelCenterer : the same as a transformer.
    """
    K = _gram(K)
    centerer = KernelCenterer().fit(K)
    centred = centerer.transform(K)
    centred = (centred + centred.T) / 2
    if K_test is None:
        return centred
    return centred, centerer.transform(_block(K_test, len(K)))


def normalize(
    K: ArrayLike, K_test: ArrayLike | None = None, test_diagonal: ArrayLike | None = None
) -> Any:
    """Scale the points to norm 1: ``K_ij / sqrt(K_ii K_jj)``.

    Parameters
    ----------
    K : array of shape (m, m)
        Gram matrix of the training points.
    K_test : array of shape (p, m), optional
        Gram matrix of other points with the training points.
    test_diagonal : array of shape (p,)
        ``k(x, x)`` of these points; required with ``K_test``.

    Examples
    --------
    >>> from mercer.rkhs import normalize
    >>> normalize([[4.0, 2.0], [2.0, 9.0]]).round(4)
    array([[1.    , 0.3333],
           [0.3333, 1.    ]])

    See Also
    --------
    mercer.features.GramTransformer : the same as a transformer, with ``normalize=True``.
    """
    K = _gram(K)
    lengths = _positive_lengths(_diagonal(K), "K")
    unit = K / lengths[:, None] / lengths
    np.fill_diagonal(unit, 1.0)
    if K_test is None:
        return unit
    if test_diagonal is None:
        raise ValueError("K_test requires test_diagonal: k(x, x) of its rows")
    block = _block(K_test, len(K))
    if np.shape(test_diagonal) != (len(block),):
        raise ValueError(f"test_diagonal has shape {np.shape(test_diagonal)}, K_test {len(block)} rows")
    return unit, block / _positive_lengths(np.asarray(test_diagonal), "K_test")[:, None] / lengths


def correlation(K: ArrayLike) -> Array:
    """Correlations in feature space: the Gram matrix, centred and then normalised."""
    return normalize(center(K))


def rkhs_inner_product(kernel: Kernel, harmonics: SphericalHarmonics, f: ArrayLike, g: ArrayLike) -> Any:
    """Inner product of two functions on the sphere in the space of a kernel.

    ``<f, g> = sum_lk f_lk g_lk / a_l`` with the coefficients of ``f = sum_lk f_lk phi_lk`` and the
    weights a_l of the kernel on the levels.  It reproduces: ``<k(x, .), f> = f(x)``.  Functions with a
    part on a level of weight zero are not in the space, and are refused.

    Parameters
    ----------
    kernel : Heat, Matern, Spectral, Zonal or ArcCosine
        On Sphere() or Simplex(); with lengths, on unit vectors.
    harmonics : SphericalHarmonics
    f, g : arrays of shape (n_features,) or (n_features, q)
        Coefficients of functions, or of q functions each, from :meth:`SphericalHarmonics.project`.

    Returns
    -------
    float, or array of shape (q, q')

    References
    ----------
    .. [1] V. Dutordoir, N. Durrande, J. Hensman, "Sparse Gaussian processes with spherical harmonic
       features", ICML 2020, supplement, equation 13.

    Examples
    --------
    >>> from mercer.harmonics import SphericalHarmonics
    >>> from mercer.kernels import Heat
    >>> from mercer.rkhs import rkhs_inner_product
    >>> from mercer.spaces import Sphere
    >>> kernel, harmonics = Heat(Sphere(), t=0.5), SphericalHarmonics(3, levels=2)
    >>> weights = kernel.level_weights(3, harmonics.feature_levels).weights
    >>> section = weights * harmonics([[0.6, 0.0, 0.8]])[0]    # of k(x, .)
    >>> round(rkhs_inner_product(kernel, harmonics, section, [0, 0, 0, 1]), 6)    # f(x)
    1.385641
    """
    kernel.require_levels()
    kernel.diag(np.eye(1, harmonics.n))  # refuses another dimension
    left, right = (_coefficients(values, name, harmonics) for values, name in ((f, "f"), (g, "g")))
    weights = kernel.level_weights(harmonics.n, harmonics.feature_levels.tolist()).weights
    for values, name in ((left, "f"), (right, "g")):
        parts = np.abs(values.reshape(len(values), -1)).max(axis=1)
        part = parts > _NO_PART * parts.max()
        shares = parts**2 / np.maximum(weights, 1e-300)
        if shares[~part & (weights > 0)].sum() > _NOTICED * shares[part].sum():
            raise ValueError(
                f"{name} has coefficients that are rounding errors, on levels where the weights of "
                f"{kernel!r} are so small that they matter; take fewer levels"
            )
        outside = (weights == 0) & part
        if outside.any():
            raise ValueError(
                f"{name} has a part on level {harmonics.feature_levels[outside][0]}, where {kernel!r} "
                "has weight 0, so it is not in its space; leave this level out of the harmonics"
            )
    kept = weights > 0
    found = left[kept].T @ (right[kept].T / weights[kept]).T
    return float(found) if found.ndim == 0 else found


def rkhs_norm(kernel: Kernel, harmonics: SphericalHarmonics, f: ArrayLike) -> Any:
    """Norm ``sqrt(<f, f>)`` of a function on the sphere in the space of a kernel.

    It takes what :func:`rkhs_inner_product` takes, and returns an array for q functions.

    Examples
    --------
    >>> from mercer.harmonics import SphericalHarmonics, sphere_quadrature
    >>> from mercer.kernels import Heat
    >>> from mercer.rkhs import rkhs_norm
    >>> from mercer.spaces import Sphere
    >>> X, weights = sphere_quadrature(3, degree=30)
    >>> harmonics, kernel = SphericalHarmonics(3, levels=16), Heat(Sphere(), t=0.2)
    >>> section = harmonics.project(X, kernel(X, [[0.0, 0.0, 1.0]])[:, 0], weights)
    >>> round(rkhs_norm(kernel, harmonics, section), 6)    # k(x, x)^(1/2)
    1.0
    """
    squares = rkhs_inner_product(kernel, harmonics, f, f)
    return math.sqrt(squares) if np.ndim(squares) == 0 else np.sqrt(np.diag(squares))


def mercer_map(K: ArrayLike, rank: int | None = None, tol: float | None = None) -> Array:
    """Coordinates ``U sqrt(Lambda)`` with the Gram matrix K, one row per point.

    Parameters
    ----------
    K : array of shape (m, m)
    rank : int, optional
        Number of leading coordinates to keep.
    tol : float, optional
        Smaller eigenvalues count as zero; by default, those within rounding errors of the largest.

    Returns
    -------
    array of shape (m, r)
        Columns in the order of falling eigenvalues; r is the numerical rank.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.rkhs import mercer_map
    >>> K = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> F = mercer_map(K)
    >>> np.allclose(F @ F.T, K)
    True
    """
    values, vectors = _eigen(_gram(K), tol)
    return (vectors * np.sqrt(values))[:, :rank]


def empirical_map(K: ArrayLike, K_test: ArrayLike | None = None, tol: float | None = None) -> Any:
    """Coordinates ``K^(-1/2) K_i`` in the span of the points; a pseudo-inverse if K is singular.

    Parameters
    ----------
    K : array of shape (m, m)
        Gram matrix of the training points.
    K_test : array of shape (p, m), optional
        Gram matrix of other points with the training points, to compute their coordinates instead.
    tol : float, optional
        Smaller eigenvalues count as zero; by default, those within rounding errors of the largest.

    Returns
    -------
    array of shape (m, m), or (p, m) with ``K_test``
        The inner products of the rows of training points are K.
    """
    K = _gram(K)
    values, vectors = _eigen(K, tol)
    if K_test is None:
        return (vectors * np.sqrt(values)) @ vectors.T
    return ((_block(K_test, len(K)) @ vectors) / np.sqrt(values)) @ vectors.T


@dataclass(frozen=True)
class Diagnosis:
    """Properties of a Gram matrix; see :func:`diagnose`."""

    size: int
    least_eigenvalue: float
    largest_eigenvalue: float
    effective_rank: float
    mean_similarity: float
    alignment: float | None
    degeneracy: str | None = None

    @property
    def positive_semidefinite(self) -> bool:
        """Whether negative eigenvalues are within rounding errors."""
        return self.least_eigenvalue >= -1e-12 * self.size * max(self.largest_eigenvalue, 1e-300)

    def __str__(self) -> str:
        verdict = "positive semidefinite" if self.positive_semidefinite else "NOT positive semidefinite"
        lines = [
            f"{self.size} points, {verdict} on them",
            f"eigenvalues      {self.least_eigenvalue:.4g} .. {self.largest_eigenvalue:.4g}",
            f"effective rank   {self.effective_rank:.4g}",
            f"mean similarity  {self.mean_similarity:.4g} (off the diagonal, normalised)",
        ]
        if self.alignment is not None:
            lines.append(f"alignment        {self.alignment:.4g} (centred, with the target)")
        if self.degeneracy is not None:
            lines.append(f"DEGENERATE       {self.degeneracy}; scale the kernel: kernel.scaled_to(X)")
        return "\n".join(lines)


def diagnose(K: ArrayLike, y: ArrayLike | None = None) -> Diagnosis:
    """Check a Gram matrix before fitting a model to it.

    Parameters
    ----------
    K : array of shape (m, m)
    y : array of shape (m,), optional
        Target: numbers if floating, class labels otherwise.

    Returns
    -------
    Diagnosis
        ``least_eigenvalue`` (not negative for a kernel), ``effective_rank`` (exponential of the entropy
        of the eigenvalues), ``mean_similarity`` (near 1: all points look alike; near 0: every point is
        similar to itself only), ``alignment`` (correlation of the centred K with that of the target),
        and ``degeneracy`` (a message if K is nearly constant or nearly the identity).

    Examples
    --------
    >>> from mercer.rkhs import diagnose
    >>> print(diagnose([[1.0, 0.5], [0.5, 1.0]], y=["a", "b"]))
    2 points, positive semidefinite on them
    eigenvalues      0.5 .. 1.5
    effective rank   1.755
    mean similarity  0.5 (off the diagonal, normalised)
    alignment        1 (centred, with the target)
    """
    K = _gram(K)
    values, size = np.linalg.eigvalsh(K), len(K)
    spread = np.maximum(values, 0)
    share = spread[spread > 0] / spread.sum() if spread.any() else np.ones(1)
    lengths = np.sqrt(np.maximum(np.diag(K), 0))
    scale = np.outer(lengths, lengths)
    ratio = np.divide(K, scale, out=np.zeros_like(K), where=scale > 0)
    others = (ratio.sum() - np.trace(ratio)) / (size * (size - 1)) if size > 1 else 1.0
    return Diagnosis(
        size=size,
        least_eigenvalue=float(values[0]),
        largest_eigenvalue=float(values[-1]),
        effective_rank=float(np.exp(-(share * np.log(share)).sum())),
        mean_similarity=float(others),
        alignment=None if y is None else _alignment(K, y),
        degeneracy=degeneracy(K),
    )


def degeneracy(K: ArrayLike, amplitude: float = 1.0) -> str | None:
    """Describe a Gram matrix that is nearly constant or nearly the identity; None if it is neither.

    K is nearly constant if normalised values differ from 1 by less than 1e-3 on average and the total
    variance is below 1e-3 too (a linear kernel separates parallel rows).  K is nearly the identity
    if for half of about 400 points no unequal one is more similar than 1e-2, and equal ones are rare.

    Parameters
    ----------
    K : array of shape (m, m)
    amplitude : float
        Factor of the matrix in a model; a large factor compensates for small differences.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.rkhs import degeneracy
    >>> degeneracy(np.eye(10))
    'nearly the identity: every point is similar to itself alone'
    """
    if not (is_number(amplitude) and 0 < amplitude < math.inf):
        raise ValueError(f"amplitude must be a positive number, got {amplitude!r}")
    return _degeneracy(_gram(K), amplitude)


def _degeneracy(K: NDArray[Any], amplitude: float) -> str | None:
    """See :func:`degeneracy`; for a matrix that needs no checks."""
    step = max(1, len(K) // _LOOKED_AT)
    part: Array = np.asarray(K[::step, ::step], dtype=float)
    lengths = np.sqrt(np.maximum(np.diagonal(part), 0))
    if len(keep := np.flatnonzero(lengths > 0)) < _FEWEST:
        return None
    part, lengths = part[np.ix_(keep, keep)], lengths[keep]
    small = amplitude * float((lengths**2).mean() - part.mean()) < _NEARLY_CONSTANT
    part = part / lengths[:, None] / lengths
    others = ~np.eye(len(part), dtype=bool)
    if small and float(np.abs(1 - part[others]).mean()) < _NEARLY_CONSTANT:
        return "nearly constant: all points look alike to the kernel"
    nearest = np.where(others & (part < 1 - _EQUAL), np.abs(part), 0).max(axis=1)
    if np.median(nearest) < _NEARLY_IDENTITY and np.mean(part[others] >= 1 - _EQUAL) < _OFTEN_EQUAL:
        return "nearly the identity: every point is similar to itself alone"
    return None


def warn_if_degenerate(K: NDArray[Any], kernel: object, amplitude: float = 1.0) -> None:
    """Warn if nothing can be learnt from a training Gram matrix; see :func:`degeneracy`."""
    if (found := _degeneracy(K, amplitude)) is not None:
        name = in_short(kernel) if of_columns(kernel) else repr(kernel)
        remedy = "choose its range by kernel.scaled_to(X), or " if has_range(kernel) else ""
        warnings.warn(
            f"the Gram matrix of {name} on the training points is {found}; {remedy}use another kernel",
            DegenerateKernelWarning,
            stacklevel=3,
        )


def _alignment(K: Array, y: ArrayLike) -> float:
    """Cosine between the centred K and the centred Gram matrix of the target."""
    labels = np.asarray(y)
    if labels.shape != (len(K),):
        raise ValueError(f"y has shape {labels.shape}, K has {len(K)} rows")
    alike = np.multiply if labels.dtype.kind == "f" else np.equal
    first, second = center(K), center(alike.outer(labels, labels).astype(float))
    scale = np.linalg.norm(first) * np.linalg.norm(second)
    return float((first * second).sum() / scale) if scale > 0 else 0.0


def _coefficients(values: ArrayLike, name: str, harmonics: SphericalHarmonics) -> Array:
    array = _numbers(values, name)
    if array.ndim not in (1, 2) or len(array) != harmonics.n_features:
        size = harmonics.n_features
        raise ValueError(f"{name} has shape {array.shape}, but there are {size} harmonics: project it")
    return array


def _gram(K: ArrayLike) -> Array:
    if callable(K):
        raise TypeError(f"a Gram matrix is needed, not the kernel {K!r}: give kernel(X)")
    K = _numbers(K, "the Gram matrix")
    if K.ndim != 2 or K.shape[0] != K.shape[1] or K.size == 0:
        raise ValueError(f"a Gram matrix is square and not empty; got shape {K.shape}")
    if not np.allclose(K, K.T, rtol=1e-6, atol=1e-8 * np.abs(K).max()):
        raise ValueError("a Gram matrix is symmetric; this one is not")
    return K


def _block(K: ArrayLike, columns: int) -> Array:
    K = _numbers(K, "K_test")
    if K.ndim != 2 or K.shape[1] != columns:
        raise ValueError(f"expected a matrix with {columns} columns, got shape {K.shape}")
    return K


def _numbers(values: ArrayLike, name: str) -> Array:
    refuse_complex(values, name)
    if sparse.issparse(values):
        raise TypeError(f"{name} is sparse; make it dense by toarray()")
    array = np.asarray(values, dtype=float)
    refuse_rows(~np.isfinite(np.atleast_2d(array.T).T).all(axis=1), name, "contains NaN or infinity")
    return array


def _not_negative(function: Callable[[Array], Any], K: Array) -> float:
    value = float(function(K))
    if value < -_NO_PART * np.abs(K).max():
        raise ValueError("the Gram matrix is not positive semidefinite; see diagnose")
    return max(value, 0.0)


def _diagonal(K: Array) -> Array:
    diagonal = np.diag(K)
    refuse_rows(diagonal < 0, "the Gram matrix", "has a negative k(x, x); this is not a kernel")
    return diagonal


def _positive_lengths(diagonal: Array, name: str) -> Array:
    refuse_rows(~(diagonal > 0), name, "has norm zero in feature space; drop it")
    return np.sqrt(diagonal)


def _eigen(K: Array, tol: float | None) -> tuple[Array, Array]:
    """Eigenvalues above the tolerance, in falling order, and their eigenvectors."""
    if tol is not None and not tol >= 0:
        raise ValueError(f"tol must not be negative, got {tol!r}")
    values, vectors = np.linalg.eigh(K)
    limit = len(K) * np.finfo(float).eps * max(values[-1], 0.0) if tol is None else tol
    keep = np.flatnonzero(values > limit)[::-1]
    return values[keep], vectors[:, keep]
