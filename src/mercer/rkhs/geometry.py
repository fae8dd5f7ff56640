"""Norms, distances, means, angles and coordinates of points, from their Gram matrix."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.preprocessing import KernelCenterer

from mercer._arrays import on_cpu
from mercer._validation import refuse_rows
from mercer.rkhs.checks import Array, block_of, gram_matrix

#: Means of a matrix below this part of its largest entry are rounding errors.
_NO_PART = 1e-12


def norms(K: ArrayLike) -> Array:
    """Norms ``sqrt(K_ii)`` of the points in feature space.

    Parameters
    ----------
    K : array of shape (m, m)
        Gram matrix of the points.

    Returns
    -------
    array of shape (m,)

    Examples
    --------
    >>> from mercer.rkhs import norms
    >>> norms([[43.81, 50.01], [50.01, 57.22]]).round(3)
    array([6.619, 7.564])
    """
    return np.sqrt(_diagonal(gram_matrix(K)))


def distances(K: ArrayLike) -> Array:
    """Distances ``sqrt(K_ii + K_jj - 2 K_ij)`` between all points in feature space.

    Parameters
    ----------
    K : array of shape (m, m)
        Gram matrix of the points.

    Returns
    -------
    array of shape (m, m)

    Examples
    --------
    >>> from mercer.rkhs import distances
    >>> distances([[43.81, 50.01], [50.01, 57.22]]).round(3)
    array([[0.   , 1.005],
           [1.005, 0.   ]])
    """
    K = gram_matrix(K)
    diagonal = _diagonal(K)
    squared = diagonal[:, None] + diagonal - 2 * K
    # Rounding makes squared distances of (nearly) equal points slightly negative.
    result = np.sqrt(np.maximum(squared, 0))
    np.fill_diagonal(result, 0)
    return result


def mean_norm(K: ArrayLike) -> float:
    """Norm of the mean of the points, ``sqrt(mean of K)``.

    Parameters
    ----------
    K : array of shape (m, m)
        Gram matrix of the points.

    Examples
    --------
    >>> from mercer.rkhs import mean_norm
    >>> round(mean_norm([[43.81, 50.01], [50.01, 57.22]]), 4)    # the mean is (6.4, 3.05)
    7.0896
    """
    return math.sqrt(_not_negative(np.mean, gram_matrix(K)))


def total_variance(K: ArrayLike) -> float:
    """Mean squared distance to the mean, ``mean(K_ii) - mean(K)``.

    Parameters
    ----------
    K : array of shape (m, m)
        Gram matrix of the points.

    Examples
    --------
    >>> from mercer.rkhs import total_variance
    >>> total_variance([[1.0, 0.0], [0.0, 1.0]])
    0.5
    """
    return _not_negative(lambda K: np.diag(K).mean() - K.mean(), gram_matrix(K))


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

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> from mercer.rkhs import center
    >>> K, K_test = Linear()([[1.0], [3.0]]), Linear()([[4.0]], [[1.0], [3.0]])
    >>> centred, test = center(K, K_test)    # of the points -1, 1 and 2
    >>> centred.tolist(), test.tolist()
    ([[1.0, -1.0], [-1.0, 1.0]], [[-2.0, 2.0]])

    See Also
    --------
    sklearn.preprocessing.KernelCenterer : the same as a transformer.
    """
    K = gram_matrix(K)
    centerer = KernelCenterer().fit(K)
    centred = centerer.transform(K)
    centred = (centred + centred.T) / 2
    if K_test is None:
        return centred
    return centred, centerer.transform(block_of(K_test, len(K)))


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
    K = gram_matrix(K)
    lengths = _positive_lengths(_diagonal(K), "K")
    unit = K / lengths[:, None] / lengths
    np.fill_diagonal(unit, 1.0)
    if K_test is None:
        return unit
    if test_diagonal is None:
        raise ValueError("K_test requires test_diagonal: k(x, x) of its rows")
    block = block_of(K_test, len(K))
    own = np.asarray(on_cpu(test_diagonal))
    if own.shape != (len(block),):
        raise ValueError(f"test_diagonal has shape {own.shape}, K_test {len(block)} rows")
    return unit, block / _positive_lengths(own, "K_test")[:, None] / lengths


def correlation(K: ArrayLike) -> Array:
    """Correlations in feature space: the Gram matrix, centred and then normalised.

    Parameters
    ----------
    K : array of shape (m, m)
        Gram matrix of the points.

    Returns
    -------
    array of shape (m, m)

    Examples
    --------
    >>> from mercer.kernels import Linear
    >>> from mercer.rkhs import correlation
    >>> correlation(Linear()([[1.0, 0.0], [2.0, 0.0], [3.0, 3.0]])).round(4)
    array([[ 1.    ,  0.7071, -0.9487],
           [ 0.7071,  1.    , -0.8944],
           [-0.9487, -0.8944,  1.    ]])
    """
    return normalize(center(K))


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
    values, vectors = _eigen(gram_matrix(K), tol)
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

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.rkhs import empirical_map
    >>> K = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> F = empirical_map(K)
    >>> np.allclose(F @ F.T, K), np.allclose(F, F.T)
    (True, True)
    """
    K = gram_matrix(K)
    values, vectors = _eigen(K, tol)
    if K_test is None:
        return (vectors * np.sqrt(values)) @ vectors.T
    return ((block_of(K_test, len(K)) @ vectors) / np.sqrt(values)) @ vectors.T


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
