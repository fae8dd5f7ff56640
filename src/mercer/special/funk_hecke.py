"""Weights of any function of the angle on the levels of a sphere, with error bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray
from scipy.special import gammaln

from mercer._arrays import Array
from mercer._validation import check_whole
from mercer.special import zonal

#: A function of angles in [0, pi], an array of any length.
Shape = Callable[[Array], Any]

EPS, TINY = float(np.finfo(float).eps), float(np.finfo(float).tiny)
#: Gauss-Legendre points on a panel, and the last coefficients that tell whether it is resolved.
_POINTS, _LAST = 24, 4
#: Size of these coefficients, relative to the largest value, of a panel that is resolved.
_RESOLVED = 4 * EPS
#: Phase of the fastest factor of the integrand over half a panel, which the points resolve.
_PHASE = 4.0
#: Logarithm of the density, relative to its maximum, that is left out beside the polynomials' own size.
_LOG_NEGLIGIBLE = 80.0
#: Largest number of halvings of a panel, and of panels in all.
_MOST_HALVINGS, _MOST_PANELS = 48, 20_000
#: Coefficients below this part of the shape that do not fall in either half are its rounding errors.
_NOISE = 1e-6
#: Angles below this are measured from the pole, others from the equator.
_BETWEEN = math.pi / 4

_NODES, _WEIGHTS = legendre.leggauss(_POINTS)
_PLACES = np.concatenate([[-1.0], _NODES, [1.0]])
#: From values at the nodes to the last coefficients in normalised Legendre polynomials.
_TAIL = np.stack(
    [
        math.sqrt(k + 0.5) * _WEIGHTS * legendre.legval(_NODES, np.eye(_POINTS)[k])
        for k in range(_POINTS - _LAST, _POINTS)
    ]
)
#: From values at the nodes to values at the ends of the panel, by Lagrange's formula.
_OTHERS = np.array([np.delete(_NODES, j) for j in range(_POINTS)])
_ENDS = np.array([np.prod((end - _OTHERS) / (_NODES[:, None] - _OTHERS), axis=1) for end in (-1.0, 1.0)])
#: How much larger rounding errors are there.
_END_NOISE = 8.0


@dataclass(frozen=True, eq=False)
class FunkHecke:
    """Weights a_l of a function of the angle on the levels of S^(n-1), and bounds on their errors.

    Attributes
    ----------
    weights : array of shape (levels,)
    errors : array of shape (levels,)
        From rounding of the function's values, and from intervals on which its samples are not smooth.
        Double precision does not determine levels with smaller weights.
    """

    weights: Array
    errors: Array

    def nonnegative(self, n: int) -> Array:
        """The weights, with zero for those that do not exceed their errors.

        Raises
        ------
        ValueError
            If a weight is negative beyond its error: the function is not positive definite.
        """
        negative = np.flatnonzero(self.weights < -self.errors)
        if negative.size:
            level = int(negative[0])
            raise ValueError(
                f"the shape is not positive definite in dimension {n}: level {level} has the weight "
                f"{self.weights[level]:.6g}, with an error of at most {self.errors[level]:.1g}"
            )
        return np.where(self.weights > self.errors, self.weights, 0.0)


def funk_hecke(shape: Shape, n: int, levels: int) -> FunkHecke:
    """Weights of a function of the angle on the first levels of S^(n-1).

    ``a_l = E[s(theta) P_l(cos theta)]`` over the angle between a fixed and a uniform point, by the
    theorem of Funk and Hecke; ``s(theta) = sum_l a_l N_l P_l(cos theta)``.

    Panels of Gauss-Legendre points are halved until the function is resolved on each.  This finds
    cusps, edges of a support and other singularities, but not features narrower than the distance
    between samples.  The density ``sin(theta)^(n - 2)`` is computed from its logarithm, on the
    interval where it matters.  The error is about ``1e-16 N_l^(-1/2)`` times the largest value of the
    function.

    Parameters
    ----------
    shape : callable
        From an array of angles in [0, pi] to an array of values.
    n : int
        Ambient dimension, at least 2.
    levels : int
        How many, from 0 on.

    Returns
    -------
    FunkHecke
        ``weights`` and bounds on their ``errors``.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.harmonics import funk_hecke
    >>> found = funk_hecke(lambda theta: np.cos(theta) ** 2, n=4, levels=5)
    >>> (found.weights * [1, 4, 9, 16, 25]).round(12) + 0.0    # 1/4 + 3/4 P_2
    array([0.25, 0.  , 0.75, 0.  , 0.  ])
    >>> bool((found.errors < 1e-14).all())
    True
    """
    check_whole("n", n, 2)
    check_whole("levels", levels, 1)
    nodes = _Panels(shape, n, levels).nodes()
    whole = nodes.measure.sum() * 2
    even, odd = nodes.measure * nodes.values / whole
    doubts = nodes.measure * nodes.doubts / whole
    weights, errors = np.empty(levels), np.empty(levels)
    for level, p in enumerate(_polynomials(n, nodes, levels)):
        sides = even - odd if level % 2 else even + odd
        weights[level] = sides @ p
        # A sum of products is off by its own rounding errors, and by those of the polynomial in each
        # term.
        rounding = (4 + math.sqrt(level)) * EPS * (np.abs(even) + np.abs(odd))
        errors[level] = (rounding + doubts) @ np.abs(p) + TINY
    return FunkHecke(weights, errors)


def knowable_levels(n: int, most: int) -> int:
    """Number of levels, at most ``most``, that values in double precision resolve.

    The part ``a_l N_l`` of level l is known to about ``eps sqrt(N_l)``.
    """
    logs = zonal.log_multiplicities(n, most)
    return int(np.searchsorted(logs, -2 * math.log(EPS)))


def arccosine_weights(p: int, n: int, numbers: NDArray[np.int64]) -> Array:
    """Weights of one layer of an arc-cosine kernel, from the coefficients of its unit ``max(t, 0)^p``.

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


def values_at(shape: Shape, angles: Array) -> Array:
    """Values of a shape; refused unless they are finite real numbers, one for each angle."""
    if not callable(shape):
        raise TypeError(f"shape must be a function of the angle, got {shape!r}")
    try:
        values = np.asarray(shape(angles))
    except (TypeError, ValueError) as error:
        raise TypeError(
            "shape must take an array of angles, as functions of NumPy do; use np.exp and not math.exp, "
            f"or np.vectorize(shape); it raised {type(error).__name__}: {error}"
        ) from error
    if values.shape != angles.shape:
        raise ValueError(
            f"shape must return one value for each angle, got an array of shape {values.shape} for "
            f"angles of shape {angles.shape}; a constant is np.full_like(theta, value)"
        )
    if values.dtype.kind not in "biuf":
        raise ValueError(f"shape must return real numbers, got {values.dtype}")
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise ValueError(
            f"shape must return finite numbers, got {values[bad[0]]} at the angle {angles[bad[0]]:.6g}"
        )
    return values.astype(float)


class _Nodes(NamedTuple):
    """Quadrature on a hemisphere: nodes near the pole by ``u = 1 - w``, then those by the cosine w.

    ``values`` are those of the shape at the nodes and opposite, ``measure`` the weights with the
    density, and ``doubts`` bounds on the errors of the values.
    """

    u: Array
    w: Array
    values: Array
    measure: Array
    doubts: Array


class _Panels:
    """Intervals of the angle from 0 to pi/2, with those opposite, on which a shape is a polynomial.

    From pi/4 on angles are measured from the equator: in high dimension all that matters is there, and
    needs its digits as much as a cusp at the pole.
    """

    def __init__(self, shape: Shape, n: int, levels: int) -> None:
        self._shape, self._n = shape, n
        depth = _LOG_NEGLIGIBLE + float(zonal.log_multiplicities(n, levels)[-1])
        # Before this angle the density is negligible even where the polynomial is 1.
        first = math.asin(math.exp(-depth / (n - 2))) if n > 2 else 0.0
        speed = levels + math.sqrt(2 * depth * n)
        reaches = (first, _BETWEEN), (0.0, min(math.pi / 2 - first, _BETWEEN))
        self._groups = [self._resolve(*reach, speed, equator=bool(i)) for i, reach in enumerate(reaches)]

    def nodes(self) -> _Nodes:
        """Nodes of all panels."""
        (x, *near), (y, *far) = self._groups
        u, w = 2 * np.sin(x / 2) ** 2, np.sin(y)
        values, weights, doubts = (np.concatenate(pair, axis=-1) for pair in zip(near, far, strict=True))
        log_sines = np.concatenate([np.log(np.sin(x)), 0.5 * np.log1p(-w * w)])
        return _Nodes(u, w, values, weights * np.exp((self._n - 2) * log_sines), doubts)

    def _sample(self, x: Array, equator: bool) -> Array:
        if not x.size:  # in high dimension nothing is near the pole
            return np.zeros((2, *x.shape))
        theta = np.pi / 2 - x.ravel() if equator else x.ravel()
        both = np.concatenate([theta, np.pi - theta])
        return values_at(self._shape, both).reshape(2, *x.shape)

    def _resolve(self, low: float, high: float, speed: float, equator: bool) -> list[Array]:
        """Angles, values, weights and doubts between two angles from the pole or from the equator."""
        edges = np.linspace(low, high, max(math.ceil((high - low) * speed / (2 * _PHASE)), 0) + 1)
        starts, widths = edges[:-1], np.diff(edges)
        done: list[list[Array]] = []
        largest, kept = 0.0, 0
        before = np.full(len(starts), np.inf)
        for halving in range(_MOST_HALVINGS + 1):
            x = starts[:, None] + widths[:, None] * (_PLACES + 1) / 2
            values = self._sample(x, equator)
            largest = max(largest, float(np.abs(values).max(initial=0.0)))
            x, ends, values = x[:, 1:-1], values[:, :, [0, -1]], values[:, :, 1:-1]
            last = np.abs(values @ _TAIL.T).max(axis=(0, 2), initial=0.0)
            # A jump or a kink may hide between the outermost nodes and the ends.
            missed = np.abs(values @ _ENDS.T - ends).max(axis=(0, 2), initial=0.0) / _END_NOISE
            tails = np.maximum(last, missed)
            smooth = tails <= _RESOLVED * largest
            noisy = ~smooth & (tails < _NOISE * largest) & (tails > 0.5 * before)
            # Halves of a panel are neighbours: where neither has fallen, the tails are noise.
            noisy = np.repeat(noisy.reshape(-1, 2).all(axis=1), 2) if halving else noisy & False
            ready = smooth | noisy
            kept += int(ready.sum())
            if halving == _MOST_HALVINGS or kept + 2 * int((~ready).sum()) > _MOST_PANELS:
                ready[:] = True
            # Coefficients that fall slowly add up to no more than twice their number times the last.
            factor = np.where(smooth | noisy, 4.0, 2.0 * _POINTS)
            doubts = np.repeat((factor * np.maximum(tails, 0.5 * EPS * largest))[ready], _POINTS)
            weights = widths[ready, None] / 2 * _WEIGHTS
            done.append([x[ready].ravel(), values[:, ready].reshape(2, -1), weights.ravel(), doubts])
            if ready.all():
                break
            starts, widths, tails = starts[~ready], widths[~ready] / 2, tails[~ready]
            starts = np.stack([starts, starts + widths], axis=1).ravel()
            widths, before = np.repeat(widths, 2), np.repeat(tails, 2)
        return [np.concatenate(parts, axis=-1) for parts in zip(*done, strict=True)]


def _polynomials(n: int, nodes: _Nodes, levels: int) -> Iterator[Array]:
    """Normalised Gegenbauer polynomials at the nodes, level by level.

    Near the pole by their differences, elsewhere by the recurrence in the cosine: either keeps full
    precision relative to the size of the polynomial there.
    """
    u, w = nodes.u, nodes.w
    p, step, lost = np.ones(len(u) + len(w)), np.zeros_like(u), np.zeros_like(u)
    near, far, before = p[: len(u)], p[len(u) :], np.zeros_like(w)
    for level in range(levels):
        yield p
        down = 1 / (level + n - 2) if level else 1.0
        keep, pull = level * down, (2 * level + n - 2) * down if level else 1.0
        step = keep * step - pull * u * near
        # Compensated: the polynomial takes many small steps on its way down.
        change = step - lost
        after = near + change
        lost = (after - near) - change
        near[:] = after
        ahead = pull * w * far - keep * before
        before = far.copy()
        far[:] = ahead
