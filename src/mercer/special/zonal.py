"""The Laplacian spectrum of the sphere S^(n-1): levels, weights and zonal series."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mercer._arrays import Array
from mercer._threads import run

#: Values of a function on both hemispheres at separations u, shape (2, u.size).
Function = Callable[[Array], Array]
#: Logarithm of a law's weight as a function of the eigenvalue, in extended precision.
LogWeights = Callable[[NDArray[np.longdouble]], NDArray[np.longdouble]]

#: No series is summed beyond this level (n = 10^6 at t* = 0.02 needs 8 * 10^5).
MAX_LEVELS = 4_000_000
#: Weight left out of a truncated series, relative to the whole.
TRUNCATION = 1e-16
#: Levels after which a law is refused if its weights still grow at the last level allowed.
_LOOK_AHEAD = 4096
#: Series shorter than this many node-levels are summed in one thread.
_SERIAL_WORK = 20_000_000


class SlowDecay(ValueError):
    """The weights of a law fall too slowly to be summed level by level."""


def eigenvalues(n: int, levels: int) -> NDArray[np.longdouble]:
    """Eigenvalues ``l (l + n - 2)`` of the Laplacian on S^(n-1), l < ``levels``."""
    level = np.arange(levels, dtype=np.longdouble)
    return level * (level + (n - 2))


def log_multiplicities(n: int, levels: int) -> NDArray[np.longdouble]:
    """Logarithms of the dimensions N_l of the eigenspaces, l < ``levels``.

    Summed from the ratios N_(l+1)/N_l: differences of log-gamma would lose all digits that matter
    in high dimension.
    """
    if n == 2:
        return np.log(np.where(np.arange(levels) == 0, 1, 2).astype(np.longdouble))
    level = np.arange(levels - 1, dtype=np.longdouble)
    steps = np.log((2 * level + n) / (2 * level + n - 2)) + np.log((level + n - 2) / (level + 1))
    return np.concatenate([np.zeros(1, np.longdouble), np.cumsum(steps)])


def log_area(n: int) -> float:
    """Logarithm of the area ``2 pi^(n/2) / Gamma(n/2)`` of S^(n-1)."""
    return math.log(2) + n / 2 * math.log(math.pi) - math.lgamma(n / 2)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """A law's weights on the levels, as a probability distribution.

    ``p[k] = a_l N_l / Z`` for the level ``l = first + k``; ``log_total = log Z`` with
    ``Z = sum_l a_l N_l``; ``tail`` bounds the probability of the levels left out.
    """

    n: int
    first: int
    p: Array
    log_total: float
    tail: float

    @property
    def levels(self) -> NDArray[np.int64]:
        """The levels of the series."""
        return np.arange(self.first, self.first + self.p.size)

    @property
    def eigenvalues(self) -> NDArray[np.longdouble]:
        """Laplacian eigenvalues of those levels."""
        return eigenvalues(self.n, self.first + self.p.size)[self.first :]


def spectrum(
    log_weights: LogWeights,
    n: int,
    max_levels: int = MAX_LEVELS,
    levels: int | None = None,
    least_levels: int = 64,
) -> Spectrum:
    """Truncate a law on S^(n-1) according to its weights.

    The tail beyond level L is bounded by ``p_L L / (q - 1)`` where ``q = - d log p / d log l`` at L,
    which holds once log p is concave in log l, as it is for every law in the library.  Weights that
    are a list of ``levels`` numbers are not truncated; weights that may have gaps are examined for
    ``least_levels`` before they count as ended.

    Raises
    ------
    SlowDecay
        If more than ``max_levels`` levels would be needed.
    """
    logs = (
        _all_logs(log_weights, n, levels) if levels else _logs(log_weights, n, max_levels, least_levels)
    )
    peak = logs.max()
    weight = np.exp(logs - peak)
    total = weight.sum()
    p = weight / total
    # Levels before the bulk add less than one rounding in all.
    first = int(np.searchsorted(np.cumsum(p), TRUNCATION / 4))
    first = min(first, int(np.argmax(p)))
    return Spectrum(n, first, p[first:].astype(float), float(peak + np.log(total)), TRUNCATION * 1.25)


def _all_logs(log_weights: LogWeights, n: int, levels: int) -> NDArray[np.longdouble]:
    """Logarithms of ``a_l N_l`` for the given number of levels."""
    logs = log_multiplicities(n, levels) + log_weights(eigenvalues(n, levels))
    if np.any(np.isnan(logs)) or np.any(logs == np.inf):
        raise ValueError("a spectral law must have finite, non-negative weights")
    if np.all(np.isneginf(logs)):
        raise ValueError("a spectral law must give at least one level a positive weight")
    return logs


def _logs(log_weights: LogWeights, n: int, max_levels: int, least_levels: int) -> NDArray[np.longdouble]:
    """Logarithms of ``a_l N_l`` for as many levels as matter."""
    count = least_levels
    while True:
        logs = _all_logs(log_weights, n, count)
        last = _last_level(logs)
        if last is not None:
            return logs[: last + 1]
        if count >= max_levels or (count >= _LOOK_AHEAD and _rises(log_weights, n, max_levels)):
            raise SlowDecay(
                f"the weights still matter at level {max_levels} on the sphere in dimension {n}; the "
                "law is too rough to be summed: take a longer time or length scale, or fewer columns "
                "(leave out those that are never in use, or hash words)"
            )
        count = min(2 * count, max_levels)


def _rises(log_weights: LogWeights, n: int, level: int) -> bool:
    """Tell whether ``a_l N_l`` still grows at a level."""
    # Two levels apart: weights may be those of the even levels alone.
    before, here = log_weights(np.array([(k * (k + n - 2)) for k in (level - 2, level)], np.longdouble))
    ratio = np.longdouble(2 * level + n - 2) / (2 * level + n - 6)
    ratio *= np.longdouble((level + n - 3) * (level + n - 4)) / (level * (level - 1))
    with np.errstate(invalid="ignore"):  # weights that end, or underflow even as logarithms, do not
        return bool(here - before + np.log(ratio) > 0)


def _last_level(logs: NDArray[np.longdouble]) -> int | None:
    """First level whose tail bound is below the truncation, if there is one."""
    levels = np.flatnonzero(np.isfinite(logs))
    if levels[-1] < logs.size // 2:  # the weights end, or underflow even as logarithms
        return int(levels[-1])
    bounds = _tail_bounds(logs[levels], levels)
    good = np.flatnonzero((bounds < np.log(TRUNCATION)) & (levels[1:] > np.argmax(logs)))
    return int(levels[good[0] + 1]) if good.size else None


def _tail_bounds(logs: NDArray[np.longdouble], levels: NDArray[np.int64]) -> NDArray[np.longdouble]:
    """Logarithm of the bound ``p_L L / (q - 1)`` at each level but the first."""
    peak = logs.max()
    total = peak + np.log(np.exp(logs - peak).sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        log_level = np.log(levels.astype(np.longdouble))
        decay = -np.diff(logs) / np.diff(log_level)
        bounds = logs[1:] - total + log_level[1:] - np.log(decay - 1)
    return np.where(decay > 1, bounds, np.inf)


def zonal_series(n: int, first: int, coefficients: Array, u: Array) -> Array:
    """Series ``sum_l c_l P_l(w)`` at ``w = 1 - u`` and at ``w = u - 1``, for u in [0, 1].

    ``P_l(-w) = (-1)^l P_l(w)``: one sweep serves both hemispheres.  Returns shape ``(2, u.size)``.
    """
    from mercer.compiled.radial import zonal_sweep

    u = np.ascontiguousarray(u, dtype=float)
    coefficients = np.ascontiguousarray(coefficients, dtype=float)
    even, odd = np.empty((2, u.size))
    serial = u.size * (first + coefficients.size) < _SERIAL_WORK
    chunk = u.size if serial else 64

    def sweep(start: int) -> None:
        part = slice(start, start + chunk)
        zonal_sweep(u[part], n, first, coefficients, even[part], odd[part])

    run(sweep, [(start,) for start in range(0, u.size, max(chunk, 1))])
    return np.stack([even + odd, even - odd])
