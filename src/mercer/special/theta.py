"""The theta function of the circle, and points of the integer lattice.

``theta(x, t) = sum_k exp(-k^2 t) cos(k x)`` over all integers k, which is also the sum of wrapped
Gaussians ``sqrt(pi / t) sum_j exp(-(x - 2 pi j)^2 / 4 t)``.  Times below one take the Gaussians, longer
ones the cosines: either way a handful of terms are enough, and logarithms are relatively exact.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from mercer._arrays import Array

#: Times from which cosines are summed.
_LONG = 1.0
#: Terms below this, relative to the largest, are left out.
_LOG_LEAST = -40.0
#: Levels up to this are kept one by one where what is left out is summed, and counted exactly.
_SINGLE, _COUNTED = 512, 4096
#: Blocks of levels between the two, the ratio of the ends of those beyond, and where they end.
_BLOCKS, _RATIO, _LAST = 40, 1.1, 1e12


def log_theta_at_zero(t: float) -> float:
    """``log theta(0, t)``."""
    if t >= _LONG:
        return math.log1p(2 * sum(q for _, q in _cosines(t)))
    return 0.5 * math.log(math.pi / t) + math.log1p(2 * sum(math.exp(-x) for x in _images(t)))


def rise_at_zero(t: float) -> float:
    """Derivative of ``log theta(0, t)`` with respect to log t."""
    if t >= _LONG:
        terms = _cosines(t)
        return -2 * t * sum(k * k * q for k, q in terms) / (1 + 2 * sum(q for _, q in terms))
    weights = [(x, 2 * math.exp(-x)) for x in _images(t)]
    return -0.5 + sum(x * w for x, w in weights) / (1 + sum(w for _, w in weights))


def log_theta(angle: Any, t: float) -> Any:
    """``log(theta(x, t) / theta(0, t))`` at angles x in [-pi, pi]; differentiable."""
    xp = array_namespace(angle)
    if t >= _LONG:
        return xp.log1p(-_fall(angle, _cosines(t)) / (1 + 2 * sum(q for _, q in _cosines(t))))
    shift = math.log1p(2 * sum(math.exp(-x) for x in _images(t)))
    total = sum(xp.exp(-x) for x in _exponents(angle, t))
    return xp.log1p(total) - shift - angle * (angle / (4 * t))


def theta_rise(angle: Any, t: float) -> Any:
    """Derivative of :func:`log_theta` with respect to log t."""
    if t >= _LONG:
        terms = _cosines(t)
        slopes = [(k, t * k * k * q) for k, q in terms]
        top, slope = 1 + 2 * sum(q for _, q in terms), -2 * sum(s for _, s in slopes)
        fall = _fall(angle, terms)
        return (_fall(angle, slopes) * top + slope * fall) / (top * (top - fall))
    xp = array_namespace(angle)
    exponents = _exponents(angle, t)
    weights = [xp.exp(-x) for x in exponents]
    mean = sum(x * w for x, w in zip(exponents, weights, strict=True)) / (1 + sum(weights))
    return mean - (rise_at_zero(t) + 0.5) + angle * (angle / (4 * t))


def log_theta_slope(angle: Array, t: float) -> Array:
    """Derivative of :func:`log_theta` with respect to the square of the angle."""
    x = np.abs(angle)
    if t >= _LONG:
        terms = _cosines(t)
        theta = 1 + 2 * sum(q for _, q in terms) - _fall(x, terms)
        return -sum(k * k * q * np.sinc(k * x / math.pi) for k, q in terms) / theta
    total, rise = np.ones_like(x), np.zeros_like(x)
    for j in (1, 2):
        rate = math.pi * j / t
        near = np.exp(-rate * (math.pi * j - x))
        # That of the image on the other side is smaller by the factor exp(-2 rate x).
        gap = np.full_like(x, 2 * rate)
        np.divide(-np.expm1(-2 * rate * x), x, out=gap, where=x > 0)
        total += near + near * np.exp(-2 * rate * x)
        rise += rate * near * gap
    return rise / (2 * total) - 1 / (4 * t)


def _cosines(t: float) -> list[tuple[int, float]]:
    """Numbers k > 0 and ``exp(-k^2 t)``, as far as they matter."""
    last = max(1, math.isqrt(int(-_LOG_LEAST / t)))
    return [(k, math.exp(-k * k * t)) for k in range(1, last + 1)]


def _images(t: float) -> list[float]:
    """Exponents of the wrapped Gaussians at zero, the first one left out."""
    return [math.pi**2 * j * j / t for j in (1, 2, 3)]


def _exponents(angle: Any, t: float) -> list[Any]:
    """Exponents of the other wrapped Gaussians, less that of the first."""
    found = []
    for j in (1, -1, 2, -2):
        # The least exponent of a pair is found at |x| = pi.
        if j in (1, -1) or -2 * math.pi**2 / t > _LOG_LEAST:
            found.append((math.pi * j / t) * (math.pi * j - angle))
    return found


def _fall(angle: Any, terms: list[tuple[int, float]]) -> Any:
    """``2 sum_k q_k (1 - cos(k x))``, without cancellation."""
    xp = array_namespace(angle)
    return sum(4 * q * xp.sin(0.5 * k * angle) ** 2 for k, q in terms)


def level_counts(p: int, bound: int) -> Array:
    """Numbers of points k of the lattice Z^p with ``|k|^2 = m``, for m up to a bound."""
    counts = np.zeros(bound + 1)
    counts[0] = 1
    for _ in range(p):
        before = counts.copy()
        for k in range(1, math.isqrt(bound) + 1):
            counts[k * k :] += 2 * before[: bound + 1 - k * k]
    return counts


def short_levels(p: int, most: int) -> tuple[NDArray[np.int64], Array]:
    """Levels ``m = |k|^2`` of Z^p and their numbers of points, while these are few enough in all."""
    if p == 1:
        k = np.arange((most + 1) // 2)
        return k * k, np.where(k > 0, 2.0, 1.0)
    counts = level_counts(p, most)
    kept = np.flatnonzero((counts > 0) & (np.cumsum(counts) <= most))
    return kept, counts[kept]


def next_levels(p: int, last: int) -> tuple[NDArray[np.int64], Array]:
    """Some levels after the last, and their numbers of points."""
    if p == 1:
        k = np.arange(math.isqrt(last) + 1, 2 * math.isqrt(last) + 10)
        return k * k, np.full(len(k), 2.0)
    with np.errstate(over="ignore"):  # infinity is enough to refuse them
        counts = level_counts(p, 4 * last + 8)[last + 1 :]
    return last + 1 + np.flatnonzero(counts), counts[counts > 0]


def half_lattice(p: int, bound: int) -> NDArray[np.int64]:
    """Points k of Z^p with ``|k|^2 <= bound``, one of each pair k and -k, by length."""
    points, norms = np.zeros((1, 0), dtype=np.int64), np.zeros(1, dtype=np.int64)
    last = math.isqrt(bound)
    steps = np.arange(-last, last + 1)
    for _ in range(p):
        sums = norms[:, None] + steps**2
        row, step = np.nonzero(sums <= bound)
        points = np.column_stack([points[row], steps[step]])
        norms = sums[row, step]
    first = np.argmax(points != 0, axis=1)
    kept = points[np.arange(len(points)), first] >= 0
    points, norms = points[kept], norms[kept]
    return points[np.argsort(norms, kind="stable")]


def remaining_levels(p: int, taken: NDArray[np.int64]) -> tuple[Array, Array]:
    """Eigenvalues of the torus that were not taken, and how often each occurs.

    One by one at first, then in blocks that grow (as two eigenvalues, of the block's mean and variance),
    and finally as many as the volume of a ball predicts.
    """
    values, found, end = (_near_squares if p == 1 else _near_levels)(p, taken)
    log_ball = p / 2 * math.log(math.pi) - math.lgamma(p / 2 + 1)
    last = min(math.log(_LAST), 2 / p * (600 - log_ball))
    ends = np.exp(np.arange(math.log(end), last, math.log(_RATIO)))
    values.append(np.sqrt(ends[1:] * ends[:-1]))
    found.append(np.diff(np.exp(log_ball + p / 2 * np.log(ends))))
    return np.concatenate(values), np.concatenate(found)


def _near_squares(p: int, taken: NDArray[np.int64]) -> tuple[list[Array], list[Array], float]:
    """Eigenvalues of the circle that were not taken, their numbers, and where these end."""
    k = np.arange(max(math.isqrt(_COUNTED), 2 * math.isqrt(int(taken.max()))) + 1)
    end = (k[-1] + 0.5) ** 2
    k = k[~np.isin(k * k, taken)]
    return [(k * k).astype(float)], [np.where(k > 0, 2.0, 1.0)], end


def _near_levels(p: int, taken: NDArray[np.int64]) -> tuple[list[Array], list[Array], float]:
    """The same for tori of more dimensions, one by one and then in blocks."""
    counted = max(_COUNTED, int(taken.max()))
    counts = level_counts(p, counted)
    counts[taken] = 0
    singles = np.flatnonzero(counts[:_SINGLE])
    values, found = [singles.astype(float)], [counts[singles]]
    edges = np.rint(np.geomspace(_SINGLE, counted + 1, _BLOCKS + 1)).astype(int)
    for low, high in itertools.pairwise(edges):
        number, levels = counts[low:high], np.arange(low, high)
        if number.any():
            mean = np.average(levels, weights=number)
            width = math.sqrt(np.average((levels - mean) ** 2, weights=number))
            values.append(np.array([mean - width, mean + width]))
            found.append(np.full(2, number.sum() / 2))
    return values, found, counted + 0.5
