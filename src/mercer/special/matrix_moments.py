"""Moments of Gaussian matrices and averages over spheres, as functions of eigenvalues.

All sums have terms of one sign, so they keep their relative precision however spread out the
eigenvalues are.  Eigenvalues are on the last axis; they may be complex, for derivatives by a complex
step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice, pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Partition = tuple[int, ...]

#: Largest order of a moment, and largest sum of a partition.
MAX_ORDER, MAX_WEIGHT = 500, 20
#: Largest ``t`` times the difference of two eigenvalues in an average over a sphere.
MAX_SPREAD = 200.0
#: Logarithm of the largest term omitted from an average over a sphere.
_LEFT_OUT = -39.0


def exponential_formula(sums: Iterable[Array], one: Array) -> Iterator[Array]:
    """Coefficients ``c_0, c_1, ...`` of ``exp(d_1 u + d_2 u^2 / 2 + d_3 u^3 / 3 + ...)``.

    ``c_0 = 1`` and ``c_k = (d_1 c_(k-1) + ... + d_k c_0) / k``.  With the power sums
    ``d_k = m (x_1^k + x_2^k + ...) / 2`` these are the coefficients of
    ``((1 - u x_1) (1 - u x_2) ...)^(-m/2)``.

    Parameters
    ----------
    sums : iterable of arrays
        ``d_1, d_2, ...``; read one by one, when the next coefficient is asked for.
    one : array
        ``c_0``, in the shape of the sums.
    """
    c: list[Any] = [one]
    d: list[Any] = []
    yield one
    for k, total in enumerate(sums, start=1):
        d.append(total)
        c.append(sum(d[k - 1 - r] * c[r] for r in range(k)) / k)
        yield c[k]


def power_sums(x: Array) -> Iterator[Array]:
    """Sums of the powers 1, 2, 3, ... of the eigenvalues."""
    powers = np.ones_like(x)
    while True:
        powers = powers * x
        yield powers.sum(axis=-1)


def _coefficients(x: Array, count: int, columns: int) -> tuple[list[Array], Array]:
    """The first coefficients of ``prod_j (1 - u x_j)^(-columns/2)``, times powers of r; and log r.

    For eigenvalues of at most 1, r keeps them in the floating-point range: their sum is at most e^count.
    """
    r = count / (count + columns / 2 * x.real.sum(axis=-1))
    sums = (columns / 2 * total for total in power_sums(x * r[..., None]))
    c = list(islice(exponential_formula(sums, np.ones(x.shape[:-1])), count + 1))
    return c, np.log(r)


def log_norm_moment(x: Array, order: int, columns: int = 1) -> Array:
    """Logarithm of ``E |Y|^(2 order)`` for a matrix Y whose columns are independent ``N(0, diag x)``.

    ``2^order order! c_order`` with the coefficients of :func:`exponential_formula`.

    Parameters
    ----------
    x : array of shape (..., n)
        Numbers of at most 1.
    order, columns : int

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.special.matrix_moments import log_norm_moment
    >>> np.exp(log_norm_moment(np.ones(3), 2)).round(9)    # chi-squared with 3 degrees: 3 * 5
    np.float64(15.0)
    """
    if order == 0:
        return np.zeros(x.shape[:-1])
    c, log_r = _coefficients(x, order, columns)
    return np.log(c[order]) - order * log_r + (math.lgamma(order + 1) + order * math.log(2))


def log_sphere_average(eigenvalues: Array, t: Any) -> Array:
    """Logarithm of the mean of ``exp(-t u'Su)`` over the unit sphere, for S with these eigenvalues.

    With ``z = t (l_max - l_min)`` and ``x_j = (l_max - l_j) / (l_max - l_min)`` it is
    ``-t l_max + log sum_k c_k z^k / (n/2)_k``, c as in :func:`exponential_formula`.  The published
    series is the one with ``x_j = -l_j``, whose terms alternate and cancel.

    Parameters
    ----------
    eigenvalues : array of shape (..., n)
        With ``t (l_max - l_min)`` of at most 200.
    t : number

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.special.matrix_moments import log_sphere_average
    >>> np.exp(log_sphere_average(np.array([0.0, 2.0]), 1.0)).round(6)    # exp(-1) I_0(1)
    np.float64(0.46576)
    """
    n = eigenvalues.shape[-1]
    top = eigenvalues.max(axis=-1)
    spread = top - eigenvalues.min(axis=-1)
    gaps = (top[..., None] - eigenvalues) / np.where(spread > 0, spread, 1.0)[..., None]
    z = t * spread
    largest = float(np.real(z).max(initial=0.0))
    count = max(int(math.e * largest), 1)
    while count * math.log(max(largest, 1e-300)) - math.lgamma(count + 1) > _LEFT_OUT:
        count += 4
    c, log_r = _coefficients(gaps, count, 1)
    total, factor = np.ones_like(z), np.ones_like(z)
    for k in range(1, count + 1):
        factor = factor * (z / ((n / 2 + k - 1) * np.exp(log_r)))
        total = total + c[k] * factor
    return np.log(total) - t * top


def log_zonal(x: Array, partition: Partition) -> Array:
    """Logarithm of the zonal polynomial ``C_partition`` of positive eigenvalues.

    The zonal polynomials of degree k sum to ``(x_1 + ... + x_n)^k``.  They are built variable by
    variable from those of smaller partitions, with positive coefficients (the branching rule of Jack
    polynomials with parameter 2).

    Parameters
    ----------
    x : array of shape (..., n)
        With at least as many eigenvalues as the partition has parts.
    partition : tuple of int
        Descending.

    References
    ----------
    .. [1] I. G. Macdonald, "Symmetric functions and Hall polynomials", 1995, chapter VI.10 and VII.
    .. [2] A. Takemura, "Zonal polynomials", 1984.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.special.matrix_moments import log_zonal
    >>> x = np.array([1.0, 2.0])
    >>> np.exp([log_zonal(x, (2,)), log_zonal(x, (1, 1))]).round(6)    # they sum to (1 + 2)^2
    array([6.333333, 2.666667])
    """
    factors, steps = _branching(partition)
    values = np.zeros((*x.shape[:-1], len(factors)), dtype=x.dtype)
    values[..., 0] = 1.0
    for j in range(x.shape[-1]):
        added, power = values, np.ones(x.shape[:-1])
        for step in steps:
            power = power * x[..., j]
            added = added + (values @ step) * np.expand_dims(power, -1)
        values = added
    return np.log(values[..., -1] * factors[-1])


@lru_cache(maxsize=64)
def _branching(partition: Partition) -> tuple[Array, list[Array]]:
    """Factors from monic to zonal polynomials, and the branching rule, of all smaller partitions.

    Partitions are in ascending order, the empty one first.  Matrix k - 1 has in row i and column j the
    coefficient with which the polynomial of partition i, times the k-th power of a new variable, enters
    that of partition j.
    """
    inside = [
        parts
        for parts in product(*(range(part + 1) for part in partition))
        if all(a >= b for a, b in pairwise(parts))
    ]
    steps = [np.zeros((len(inside), len(inside))) for _ in range(partition[0])]
    for i, small in enumerate(inside):
        for j, large in enumerate(inside):
            new = sum(large) - sum(small)
            if new > 0 and _is_horizontal_strip(small, large):
                steps[new - 1][i, j] = _branching_coefficient(small, large)
    return np.array([_zonal_factor(parts) for parts in inside]), steps


def _is_horizontal_strip(small: Partition, large: Partition) -> bool:
    """Tell whether the boxes in the larger partition only are in different columns."""
    inside = all(a <= b for a, b in zip(small, large, strict=True))
    return inside and all(b <= a for a, b in zip(small, large[1:], strict=False))


def _box(parts: Partition, row: int, column: int) -> int:
    """``2 arm + leg`` of a box, counted from zero."""
    leg = sum(part > column for part in parts[row + 1 :])
    return 2 * (parts[row] - column - 1) + leg


def _branching_coefficient(small: Partition, large: Partition) -> float:
    """Macdonald's psi: over boxes whose rows have new boxes and whose columns have none."""
    new = {c for a, b in zip(small, large, strict=True) for c in range(a, b)}
    value = 1.0
    for row, (before, after) in enumerate(zip(small, large, strict=True)):
        for column in range(before) if after > before else ():
            if column not in new:
                a, b = _box(small, row, column), _box(large, row, column)
                value *= (a + 1) / (a + 2) * (b + 2) / (b + 1)
    return value


def _zonal_factor(parts: Partition) -> float:
    """Factor from the monic to the zonal polynomial."""
    value = float(2 ** sum(parts) * math.factorial(sum(parts)))
    for row, part in enumerate(parts):
        for column in range(part):
            value /= _box(parts, row, column) + 2
    return value
