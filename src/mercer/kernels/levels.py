"""Zonal kernels level by level: the weights that feature maps and sparse Gaussian processes read."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from mercer.kernels.base import log_derivative, number
from mercer.kernels.heat import Heat
from mercer.kernels.matern import Matern
from mercer.kernels.spectral import SpectralKernel
from mercer.kernels.sphere import ArcCosine
from mercer.spaces import SphericalSpace, zonal

Array = NDArray[np.float64]

#: Weights of a composed kernel below this part of the largest are lost in the rounding.
_ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class LevelWeights:
    """A kernel ``K(x, y) = |x|^p |y|^p sum_l a_l N_l P_l(x.y / |x| |y|)``, by its weights a_l.

    ``weights`` holds a_l for the levels asked for, ``total`` the sum of ``a_l N_l`` over all levels,
    which is K(x, x) at unit vectors; ``slopes`` and ``total_slopes`` are derivatives of their
    logarithms by the logarithms of the kernel's free hyperparameters.
    """

    weights: Array
    total: float
    slopes: Array
    total_slopes: Array


def check_zonal(kernel: Any) -> None:
    """Raise unless the kernel has weights on the levels of a sphere."""
    if isinstance(kernel, ArcCosine) or (
        isinstance(kernel, SpectralKernel) and isinstance(kernel.space, SphericalSpace)
    ):
        kernel._validate()
        return
    raise TypeError(
        "the kernel must be ArcCosine, or Heat, Matern or another SpectralKernel on Sphere() or "
        f"Simplex(), got {kernel!r}"
    )


def level_weights(kernel: Any, n: int, levels: Sequence[int]) -> LevelWeights:
    """Weights of a zonal kernel on levels in dimension n.

    Examples
    --------
    >>> from mercer.kernels import ArcCosine
    >>> (level_weights(ArcCosine(), 3, range(5)).weights * np.pi).round(7)
    array([1.1780972, 0.5235988, 0.0736311, 0. , 0.0020453])
    """
    check_zonal(kernel)
    numbers = np.asarray(levels, dtype=int)
    if isinstance(kernel, ArcCosine):
        compute = _unit_weights if kernel.depth == 1 else _composed_weights
        none = np.zeros((len(numbers), 0))
        return LevelWeights(compute(kernel, n, numbers), 1.0, none, np.zeros(0))
    return _spectral_weights(kernel, n, numbers)


def radial_power(kernel: Any) -> int:
    """The power p of ``|x|`` in the kernel."""
    return kernel._exponent if isinstance(kernel, ArcCosine) else 0


def _spectral_weights(kernel: SpectralKernel, n: int, numbers: NDArray[np.int64]) -> LevelWeights:
    eigenvalues = zonal.eigenvalues(n, int(numbers.max()) + 1)[numbers]
    area = zonal.log_area(n) if isinstance(kernel, Heat) else 0.0
    log_weights = _listed(kernel, eigenvalues, numbers, n) - area
    names = kernel.free()
    slopes = np.zeros((len(numbers), len(names)))
    for i, name in enumerate(names):
        slopes[:, i] = log_derivative(kernel, name, lambda k: k.log_weights(eigenvalues, n))
    log_total, total_slopes = _log_total(kernel, n, names)
    if kernel.normalized:
        slopes, total_slopes = slopes - total_slopes, np.zeros(len(names))
        log_weights, log_total = log_weights - log_total, 0.0
    elif abs(log_total) > 600:
        raise ValueError(f"{kernel!r} is exp({log_total:.6g}) on the diagonal; use normalized=True")
    return LevelWeights(np.exp(log_weights.astype(float)), math.exp(log_total), slopes, total_slopes)


def _log_total(kernel: SpectralKernel, n: int, names: tuple[str, ...]) -> tuple[float, Array]:
    """Logarithm of K(x, x) in the absolute form, and its derivatives."""
    if isinstance(kernel, Matern):
        rate = 2 * number(kernel.nu) / number(kernel.length_scale) ** 2
        s = kernel._power(n)
        log_total = _log_power_sum(n, s, rate)
        slope = 2 * s * math.exp(math.log(rate) + _log_power_sum(n, s + 1, rate) - log_total)
        return log_total, np.full(len(names), slope)
    absolute = copy.copy(kernel.with_floats())
    absolute.normalized = False
    slopes = [absolute._gradient_law(n, name)(np.zeros(1))[0, 0] for name in names]
    return kernel.log_self_similarity(n), np.array(slopes)


def _log_power_sum(n: int, s: float, rate: float) -> float:
    """Logarithm of ``sum_l N_l (rate + lambda_l)^(-s)``: optimisers ask for it many times.

    Terms up to some level are added up, the rest is an integral (Euler and Maclaurin's formula).
    """
    direct = 4096 + 8 * int(math.sqrt(rate)) + 8 * n
    log_power = zonal.log_multiplicities(n, direct) - s * np.log(rate + zonal.eigenvalues(n, direct))
    peak = float(log_power.max())
    terms = np.exp((log_power - peak).astype(float))
    last = float(direct - 1)
    nodes, weights = _legendre_nodes()
    # Terms fall as l^-(2s - n + 2): in log l the integrand is an exponential.
    reach = 40 / (2 * s - n + 1)
    y = reach * (nodes + 1) / 2
    level = last * np.exp(np.minimum(y, 650 - math.log(last)))
    log_term = _log_smooth(n, s, rate, level) - _log_smooth(n, s, rate, np.array([last]))
    integral = reach / 2 * (weights * np.exp(log_term + np.log(level))).sum()
    tail = terms[-1] * (integral - 0.5) - (terms[-1] - terms[-2]) / 12
    return peak + math.log(terms.sum() + tail)


@cache
def _legendre_nodes() -> tuple[Array, Array]:
    return np.polynomial.legendre.leggauss(200)


def _log_smooth(n: int, s: float, rate: float, level: Array) -> Array:
    """Logarithm of ``N_l (rate + lambda_l)^(-s)`` at real l, up to a constant."""
    log_count = -np.log(level) if n == 2 else sum(np.log(level + i) for i in range(1, n - 2))
    power = np.log(rate + level * (level + n - 2)) * s
    return np.log(2 * level + n - 2) + log_count - power


def _listed(kernel: Any, eigenvalues: Any, numbers: NDArray[np.int64], n: int) -> NDArray[Any]:
    """Logarithms of the weights, also of a kernel whose weights are a list and end somewhere."""
    given = getattr(kernel, "weights", None)
    if given is None or callable(given):
        return kernel.log_weights(eigenvalues, n)
    padded = np.zeros(max(int(numbers.max()) + 1, len(given)))
    padded[: len(given)] = given
    with np.errstate(divide="ignore"):
        return np.log(padded[numbers])


def _unit_weights(kernel: ArcCosine, n: int, numbers: NDArray[np.int64]) -> Array:
    """Weights of one layer, from the Funk-Hecke coefficients of its unit ``max(t, 0)^p``.

    ``a_l = mu_l^2 / E[max(t, 0)^(2p)]``, ``mu_l = E[max(t, 0)^p P_l(t)]`` over a coordinate t of a
    uniform point.  Rodrigues' formula and l integrations by parts give mu_l for l > p; it is zero
    where l - p is even.
    """
    p = kernel.order

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


def _composed_weights(kernel: ArcCosine, n: int, numbers: NDArray[np.int64]) -> Array:
    """Weights of several layers, ``a_l = E[s(t) P_l(t)]``, by double-exponential quadrature."""
    steps = np.linspace(-4.5, 4.5, 2001)
    s = np.pi / 2 * np.sinh(steps)
    # theta = pi / (1 + exp(-2 s)), and what is left to pi, both to full relative precision
    theta = np.pi / (1 + np.exp(-2 * s))
    rest = np.pi / (1 + np.exp(2 * s))
    density = np.sin(np.minimum(theta, rest)) ** (n - 2) * theta * rest * np.cosh(steps)
    density /= density.sum()
    w = np.where(theta < np.pi / 2, np.cos(theta), -np.cos(rest))
    shape = w[None, :].copy()
    kernel.profile(n).apply(shape)
    before, here = np.ones_like(w), w
    polynomials = [before, here]
    for i in range(1, int(numbers.max())):
        before, here = here, ((2 * i + n - 2) * w * here - i * before) / (i + n - 2)
        polynomials.append(here)
    weights = np.array([(density * shape[0] * polynomials[number]).sum() for number in numbers])
    spread = np.array([(density * np.abs(polynomials[number])).sum() for number in numbers])
    return np.where(weights > _ROUNDING * spread, weights, 0.0)
