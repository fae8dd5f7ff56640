"""Weights of arc-cosine kernels on the levels of a sphere."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from mercer._arrays import Array


def of_unit(p: int, n: int, numbers: NDArray[np.int64]) -> Array:
    """Weights of one layer, from the Funk-Hecke coefficients of its unit ``max(t, 0)^p``.

    ``a_l = mu_l^2 / E[max(t, 0)^(2p)]``, ``mu_l = E[max(t, 0)^p P_l(t)]`` over a coordinate t of a
    uniform point.  Rodrigues' formula and l integrations by parts give mu_l for l > p; it is zero
    where l - p is even.
    """

    def half_moment(q: int) -> float:
        """Mean of ``max(t, 0)^q``."""
        logs = gammaln((q + 1) / 2) + gammaln(n / 2) - gammaln(0.5) - gammaln((n + q) / 2)
        return 0.5 * math.exp(logs)

    low = [half_moment(p), half_moment(p + 1), (n * half_moment(p + 2) - half_moment(p)) / (n - 1)]
    level = numbers.astype(float)
    j = (level - p - 1) / 2
    with np.errstate(invalid="ignore"):
        logs = (
            gammaln(n / 2) - gammaln(0.5) - level * math.log(2) + gammaln(p + 1.0) + gammaln(level - p)
            - gammaln(j + 1) - gammaln(level + (n - 1) / 2 - j)
        )  # fmt: skip
    coefficients = np.where((numbers - p) % 2 == 1, np.exp(logs), 0.0)
    small = numbers <= p
    coefficients[small] = np.array(low)[numbers[small]]
    return coefficients**2 / half_moment(2 * p)
