"""Decision values of pairs of classes."""

from __future__ import annotations

import numpy as np

from mercer.compiled.jit import jit

#: Rows for which a coefficient is read once.
_ROWS = 4


@jit(fastmath={"reassoc", "nsz"})
def decide(K, support, ends, coefficients, values):
    """Add decision values of all pairs of classes, in double precision.

    Parameters
    ----------
    K : array of shape (rows, m)
        Rows of the Gram matrix.
    support : array of shape (s,)
        Columns of the support vectors, sorted by class; unsigned, since none is negative.
    ends : array of shape (classes + 1,)
        Where the support vectors of each class begin, and where the last ones end.
    coefficients : array of shape (classes - 1, s)
        In libsvm's layout: those of a support vector against each other class.
    values : array of shape (rows, pairs)
        Added to; the pairs are (0, 1), (0, 2), ..., (1, 2), ...
    """
    classes, sums = ends.size - 1, np.empty(_ROWS)
    entries = np.zeros((_ROWS, support.size))
    for start in range(0, len(K), _ROWS):
        rows = min(_ROWS, len(K) - start)
        for r in range(rows):
            row, to = K[start + r], entries[r]
            for k in range(support.size):
                to[k] = row[support[k]]
        for own in range(classes):
            for other in range(classes - 1):
                _weighted_sums(coefficients[other], entries, ends[own], ends[own + 1], sums)
                first, second = min(own, other), max(own, other + 1)
                pair = first * classes - first * (first + 1) // 2 + second - first - 1
                for r in range(rows):
                    values[start + r, pair] += sums[r]


@jit(fastmath={"reassoc", "nsz"})
def _weighted_sums(coefficients, entries, begin, end, sums):
    """Weighted sums of a part of each of four rows."""
    a, b, c, d = (
        entries[0, begin:end], entries[1, begin:end], entries[2, begin:end], entries[3, begin:end]
    )  # fmt: skip
    weights = coefficients[begin:end]
    sum_a, sum_b, sum_c, sum_d = 0.0, 0.0, 0.0, 0.0
    for k in range(weights.size):
        sum_a += weights[k] * a[k]
        sum_b += weights[k] * b[k]
        sum_c += weights[k] * c[k]
        sum_d += weights[k] * d[k]
    sums[0], sums[1], sums[2], sums[3] = sum_a, sum_b, sum_c, sum_d
