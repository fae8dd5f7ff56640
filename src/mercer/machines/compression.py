"""Sums over many support vectors replaced by sums over few landmarks, with a stated error."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from mercer._arrays import on_cpu, taken
from mercer._validation import is_whole
from mercer.machines.pivots import sampled_pivots
from mercer.machines.points import Points, products
from mercer.machines.program import Array

#: Errors this many times as large as typical values are warned about; smaller ones may be a loose
#: bound.
_WIDE = 3.0
#: Relative rounding error of Gram matrices, which is added to their diagonal.
_RIDGE = 1e-12


def check_compress(size: Any, kernel: Any) -> None:
    """Raise unless an expansion can be replaced by this many landmarks."""
    if size is None:
        return
    if not is_whole(size) or size < 1:
        raise ValueError(f"compress must be a whole number of at least 1, or None, got {size!r}")
    if isinstance(kernel, str) and kernel == "precomputed":
        raise ValueError("compress needs points, but the matrix is precomputed; leave it out")
    if not getattr(kernel, "positive_semidefinite", True):
        raise _indefinite(kernel)


def _indefinite(kernel: Any) -> ValueError:
    return ValueError(
        f"compress needs a positive semidefinite kernel, which {kernel!r} is not: there is no distance "
        "between functions to bound the change by; leave it out"
    )


def compressed(kernel: Any, X: Any, coefficients: Array, size: int) -> tuple[Any, Array, float]:
    """Landmarks z and coefficients c of the ``g = sum_j c_j k(z_j, .)`` nearest to a sum over points.

    For ``f = sum_i b_i k(x_i, .)`` they solve ``K_zz c = f(z)``.  Values differ by at most
    ``|f - g| sqrt(k(x, x))``, and ``|f - g|^2 = b'Kb - 2 c'f(z) + c'K_zz c``.

    Parameters
    ----------
    kernel : Kernel or callable
    X : m points
    coefficients : array of shape (m,) or (m, q)
    size : int
        Largest number of landmarks.

    Returns
    -------
    landmarks, coefficients, error
        The error is the largest ``|f - g|`` times the largest ``sqrt(k(x_i, x_i))``.
    """
    columns = coefficients.reshape(len(coefficients), -1)
    points = Points(kernel, X)
    if points.indefinite:  # a function that does not say so
        raise _indefinite(kernel)
    diagonal = np.maximum(points.diagonal(), 0.0)
    landmarks = taken(X, sampled_pivots(points, size, np.random.default_rng(0))[0])
    K = np.asarray(on_cpu(Points(kernel, landmarks).gram()), dtype=float)
    values = products(kernel, landmarks, X, columns)
    ridge = _RIDGE * len(K) * max(float(diagonal.max(initial=0.0)), np.finfo(float).tiny)
    c = cho_solve(cho_factor(K + ridge * np.eye(len(K))), values)
    # A product with itself has an exact diagonal.
    exact = products(kernel, X, None, columns)
    length = (columns * exact).sum(axis=0)
    left = length - 2 * (c * values).sum(axis=0) + (c * (K @ c)).sum(axis=0)
    # Terms that cancel leave some rounding.
    left = np.maximum(left, 0.0) + len(points) * np.finfo(float).eps * np.abs(length)
    errors = np.sqrt(left * diagonal.max(initial=0.0))
    _warn_of_errors(errors, np.sqrt((exact**2).mean(axis=0)), len(c))
    return on_cpu(landmarks), c.reshape(len(c), *coefficients.shape[1:]), float(errors.max(initial=0.0))


def _warn_of_errors(errors: Array, typical: Array, size: int) -> None:
    """Warn about outputs whose error may be larger than their values."""
    wide = np.flatnonzero(errors > _WIDE * typical)
    if len(wide):
        worst = wide[np.argmax(errors[wide])]
        warnings.warn(
            f"compress: {size} landmarks change sums over the kernel by up to {errors[worst]:.2g}, and "
            f"these are about {typical[worst]:.2g} at the points of the fit; raise compress, or leave "
            "it out",
            stacklevel=4,
        )
