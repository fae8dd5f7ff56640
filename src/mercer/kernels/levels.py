"""Zonal kernels level by level: the weights that feature maps and sparse Gaussian processes read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from mercer.kernels.axial import AxialHeat
from mercer.kernels.base import log_derivative, number
from mercer.kernels.heat import Heat
from mercer.kernels.matern import Matern
from mercer.kernels.spectral import SpectralKernel
from mercer.kernels.sphere import ArcCosine
from mercer.spaces import SphericalSpace, zonal
from mercer.spaces.base import Space

Array = NDArray[np.float64]

#: Weights of a composed kernel below this part of the largest are lost in the rounding.
_ROUNDING = 1e-13
#: exp() of more than this times a few rows overflows.
_LOG_MOST = 600.0


@dataclass(frozen=True, eq=False)
class LevelWeights:
    """A kernel ``K(x, y) = |x|^p |y|^p sum_l a_l N_l P_l(x.y / |x| |y|)``, by its weights a_l.

    ``weights`` holds a_l for the levels asked for, ``total`` the sum of ``a_l N_l`` over all levels,
    which is K(x, x) at unit vectors, and ``rest`` the sum over those not asked for, without
    cancellation.  ``slopes`` are derivatives of log a_l, and ``rest_slopes`` of the rest, by the
    logarithms of the kernel's free hyperparameters.
    """

    weights: Array
    total: float
    rest: float
    slopes: Array
    rest_slopes: Array


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


def has_log_weights(kernel: Any) -> bool:
    """Whether a kernel is given by weights on the eigenvalues of its space's Laplacian."""
    return isinstance(kernel, SpectralKernel) and isinstance(kernel.space, Space)


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
    if not isinstance(kernel, ArcCosine):
        return _spectral_weights(kernel, n, numbers)
    weights = (_unit_weights if kernel.depth == 1 else _composed_weights)(kernel, n, numbers)
    counts = np.exp(zonal.log_multiplicities(n, int(numbers.max()) + 1)[numbers].astype(float))
    rest = max(1.0 - float(weights @ counts), 0.0)
    return LevelWeights(weights, 1.0, rest, np.zeros((len(numbers), 0)), np.zeros(0))


def weighty_levels(kernel: Any, n: int) -> tuple[int, ...]:
    """Levels among the first 64 where the kernel has weight: some leave out every other one."""
    return tuple(np.flatnonzero(level_weights(kernel, n, range(64)).weights > 0).tolist())


def radial_power(kernel: Any) -> int:
    """The power p of ``|x|`` in the kernel."""
    return kernel._exponent if isinstance(kernel, ArcCosine) else 0


def _spectral_weights(kernel: SpectralKernel, n: int, numbers: NDArray[np.int64]) -> LevelWeights:
    eigenvalues = zonal.eigenvalues(n, int(numbers.max()) + 1)[numbers]
    names = kernel.free()
    slopes = np.zeros((len(numbers), len(names)))
    for i, name in enumerate(names):
        slopes[:, i] = log_derivative(kernel, name, lambda k: k.log_weights(eigenvalues, n))
    sums = _matern_sums if isinstance(kernel, Matern) else _series_sums
    log_total, total_slopes, share, share_slopes = sums(kernel, n, numbers, names)
    log_weights = _listed(kernel, eigenvalues, numbers, n) - log_total
    slopes, share_slopes = slopes - total_slopes, share_slopes - share * total_slopes
    factor = 1.0
    if not kernel.normalized:
        log_factor = log_total - (zonal.log_area(n) if isinstance(kernel, Heat | AxialHeat) else 0.0)
        if abs(log_factor) > _LOG_MOST:
            raise ValueError(f"{kernel!r} is exp({log_factor:.6g}) on the diagonal; use normalized=True")
        factor = math.exp(log_factor)
        slopes, share_slopes = slopes + total_slopes, share_slopes + share * total_slopes
    weights = factor * np.exp(log_weights.astype(float))
    return LevelWeights(weights, factor, factor * share, slopes, factor * share_slopes)


#: Logarithm of sum_l a_l N_l; its derivatives; part of it outside some levels; derivatives of that part
#: at a fixed sum.
_Sums = tuple[float, Array, float, Array]


def _series_sums(
    kernel: SpectralKernel, n: int, numbers: NDArray[np.int64], names: tuple[str, ...]
) -> _Sums:
    """Sums over a law's own truncated series."""
    spectrum = kernel.spectrum(n)
    outside = ~np.isin(spectrum.levels, numbers)
    scores = np.empty((len(spectrum.p), len(names)))
    for i, name in enumerate(names):
        scores[:, i] = log_derivative(kernel, name, lambda k: k.log_weights(spectrum.eigenvalues, n))
    p = spectrum.p
    return spectrum.log_total, p @ scores, float(p[outside].sum()), p[outside] @ scores[outside]


def _matern_sums(kernel: Matern, n: int, numbers: NDArray[np.int64], names: tuple[str, ...]) -> _Sums:
    """The same for the Matern kernel, whose series may be too long to sum."""
    rate = 2 * number(kernel.nu) / kernel.scale(n) ** 2
    s = kernel._power(n)
    log_total, share = _log_power_sum(n, s, rate, numbers)
    # d/dlog(rate) of (rate + lam)^-s is -s rate (rate + lam)^-(s+1).
    log_steeper, steeper_share = _log_power_sum(n, s + 1, rate, numbers)
    slope = kernel.steepness * s * math.exp(math.log(rate) + log_steeper - log_total)
    shape = len(names)
    return log_total, np.full(shape, slope), share, np.full(shape, slope * steeper_share)


def _log_power_sum(n: int, s: float, rate: float, numbers: NDArray[np.int64]) -> tuple[float, float]:
    """Logarithm of ``sum_l N_l (rate + lambda_l)^(-s)``, and the part outside some levels.

    Terms up to some level are added up, the rest is an integral (Euler and Maclaurin's formula).
    """
    # A power of two: optimisers come back to the same few numbers of levels.
    direct = 2 ** math.ceil(math.log2(4096 + 8 * math.sqrt(rate) + 8 * n + numbers.max()))
    log_counts, eigenvalues = _ladder(n, direct)
    log_power = log_counts - s * np.log(rate + eigenvalues)
    peak = float(log_power.max())
    terms = np.exp(log_power - peak)
    last = float(direct - 1)
    nodes, weights = _legendre_nodes()
    # Terms fall as l^-(2s - n + 2): in log l the integrand is an exponential.
    reach = 40 / (2 * s - n + 1)
    y = reach * (nodes + 1) / 2
    level = last * np.exp(np.minimum(y, 650 - math.log(last)))
    log_term = _log_smooth(n, s, rate, level) - _log_smooth(n, s, rate, np.array([last]))
    integral = reach / 2 * (weights * np.exp(log_term + np.log(level))).sum()
    tail = terms[-1] * (integral - 0.5) - (terms[-1] - terms[-2]) / 12
    total = terms.sum() + tail
    terms[numbers] = 0.0
    return peak + math.log(total), float((terms.sum() + tail) / total)


@lru_cache(maxsize=8)
def _ladder(n: int, levels: int) -> tuple[Array, Array]:
    """Logarithms of multiplicities, and eigenvalues."""
    log_counts = zonal.log_multiplicities(n, levels).astype(float)
    return log_counts, zonal.eigenvalues(n, levels).astype(float)


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
    kernel.profile(n).apply(shape)
    before, here = np.zeros_like(w), np.ones_like(w)
    sums, spreads = np.empty(highest + 1), np.empty(highest + 1)
    for i in range(highest + 1):
        sums[i], spreads[i] = (density * shape[0] * here).sum(), (density * np.abs(here)).sum()
        before, here = here, ((2 * i + n - 2) * w * here - i * before) / (i + n - 2) if i else w
    return np.where(sums > _ROUNDING * spreads, sums, 0.0)[numbers]
