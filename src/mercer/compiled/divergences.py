"""Loops of divergences between distributions."""

from __future__ import annotations

from mercer.compiled.jit import jit

#: Larger divergences are replaced by this one, because tables cannot hold infinity.
_LARGEST = 1e300


@jit(fastmath={"contract"})
def normal_divergences(means, deviations, column_means, column_deviations, column_inverses, out):
    """Symmetrised divergences between products of normal distributions, in rows and in columns.

    ``sum_k [(s/r - r/s)^2 + (m - q)^2 (1/s^2 + 1/r^2)] / 2`` for means m, q and deviations s, r;
    differences come first, so that close distributions lose no digits.
    """
    for i in range(means.shape[0]):
        line = out[i]
        line[:] = 0.0
        for k in range(means.shape[1]):
            m = means[i, k]
            s = deviations[i, k]
            inverse = 1.0 / s
            for j in range(line.size):
                r = column_deviations[k, j]
                other = column_inverses[k, j]
                spread = (s - r) * (inverse + other)
                shift = (m - column_means[k, j]) * inverse
                ratio = (m - column_means[k, j]) * other
                line[j] += 0.5 * (spread * spread + shift * shift + ratio * ratio)
        for j in range(line.size):
            line[j] = min(line[j], _LARGEST)
