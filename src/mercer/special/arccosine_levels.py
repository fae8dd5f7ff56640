"""Weights of arc-cosine kernels on the levels of a sphere."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from mercer.special.zonal import Array

#: Weights of a composed kernel below this part of the largest are lost in the rounding.
_ROUNDING = 1e-13


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


def of_shape(apply: Callable[[Array], None], n: int, numbers: NDArray[np.int64]) -> Array:
    """Weights of a shape s, ``a_l = E[s(t) P_l(t)]``, by double-exponential quadrature.

    ``apply`` replaces cosines by values of the shape, in place.
    """
    highest = int(numbers.max())
    steps = np.linspace(-4.5, 4.5, 2001 + 32 * highest)
    s = np.pi / 2 * np.sinh(steps)
    # theta = pi / (1 + exp(-2 s)), and what is left to pi, both to full relative precision
    theta = np.pi / (1 + np.exp(-2 * s))
    rest = np.pi / (1 + np.exp(2 * s))
    density = np.sin(np.minimum(theta, rest)) ** (n - 2) * theta * rest * np.cosh(steps)
    density /= density.sum()
    w = np.where(theta < np.pi / 2, np.cos(theta), -np.cos(rest))
    shape = w[None, :].copy()
    apply(shape)
    before, here = np.zeros_like(w), np.ones_like(w)
    sums, spreads = np.empty(highest + 1), np.empty(highest + 1)
    for i in range(highest + 1):
        sums[i], spreads[i] = (density * shape[0] * here).sum(), (density * np.abs(here)).sum()
        before, here = here, ((2 * i + n - 2) * w * here - i * before) / (i + n - 2) if i else w
    return np.where(sums > _ROUNDING * spreads, sums, 0.0)[numbers]
