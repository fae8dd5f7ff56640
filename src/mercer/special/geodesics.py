"""Lengths of shortest paths in a metric that is given by its values and derivatives.

A path from a to b is ``a + (b - a) s + sum_k c_k phi_k(s)``, s in [0, 1].  The phi_k are integrals of
Legendre polynomials and vanish at both ends.  The energy ``int g(x', x') ds`` is least for the geodesic,
whose squared length it is.  It is minimised by Newton's method, for many pairs at once, with more and
more polynomials.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Numbers of polynomials that are tried.
_SIZES = (6, 12, 24, 48, 96)
#: Relative change of a squared length by twice as many polynomials that is small enough: paths converge
#: geometrically, so that the error that is left is of the order of its square.
_TOLERANCE = 1e-7
#: Newton steps with one number of polynomials, and halvings of a step.
_STEPS, _HALVINGS = 40, 30
#: A step that lowers the energy by less than this fraction is the last.
_SETTLED = 1e-14


class Metric(NamedTuple):
    """A metric at m points: values (m, d, d), first and second derivatives, derivatives last."""

    values: Array
    first: Array
    second: Array


#: From points of shape (m, d), and the number of derivatives wanted, to the metric; NaN outside of it.
MetricFunction = Callable[[Array, int], Metric]


class NoGeodesic(ValueError):
    """A path does not settle; ``pairs`` tells which."""

    def __init__(self, pairs: NDArray[np.intp]) -> None:
        super().__init__("the shortest path was not found")
        self.pairs = pairs


def squared_lengths(metric: MetricFunction, a: Array, b: Array) -> Array:
    """Squared lengths of the geodesics from the rows of a to those of b."""
    lengths, left = np.full(len(a), np.nan), np.arange(len(a))
    weights = np.zeros((len(a), _SIZES[0], a.shape[1]))
    before = np.full(len(a), np.inf)
    for size in _SIZES:
        if not left.size:
            break
        path = _Path(metric, a[left], b[left], size)
        grown = np.zeros((len(left), size, a.shape[1]))
        grown[:, : weights.shape[1]] = weights
        weights, energy = path.shortened(grown)
        with np.errstate(invalid="ignore"):
            done = np.abs(energy - before) <= _TOLERANCE * energy
        lengths[left[done]] = energy[done]
        left, weights, before = left[~done], weights[~done], energy[~done]
    if left.size:
        raise NoGeodesic(left)
    return lengths


class _Path:
    """Polynomial paths between pairs of points."""

    def __init__(self, metric: MetricFunction, a: Array, b: Array, size: int) -> None:
        self._metric, self._a, self._steps = metric, a, b - a
        nodes, weights = legendre.leggauss(2 * size + 4)
        self._s, self._weights = (nodes + 1) / 2, weights / 2
        polynomials = np.asarray(legendre.legvander(nodes, size + 1), dtype=float)
        self._slopes = polynomials[:, 1:-1].T
        k = np.arange(1, size + 1)
        self._values = (polynomials[:, 2:] - polynomials[:, :-2]).T / (2 * (2 * k + 1))[:, None]

    def _along(self, c: Array) -> tuple[Array, Array]:
        """Places and velocities, shape (m, nodes, d)."""
        places = self._a[:, None] + self._steps[:, None] * self._s[:, None]
        places = places + np.einsum("mkd,kq->mqd", c, self._values)
        return places, self._steps[:, None] + np.einsum("mkd,kq->mqd", c, self._slopes)

    def _metric_along(self, places: Array, orders: int) -> Metric:
        m, nodes, d = places.shape
        found = self._metric(places.reshape(-1, d), orders)
        parts = [part.reshape(m, nodes, *part.shape[1:]) for part in found[: orders + 1]]
        return Metric(*parts, *found[orders + 1 :])

    def energy(self, c: Array) -> Array:
        """Energies of the paths; infinite where they leave the domain."""
        places, velocities = self._along(c)
        pulls = np.einsum("mqij,mqj->mqi", self._metric_along(places, 0).values, velocities)
        squares = (velocities * pulls).sum(axis=2)
        return np.where((squares >= 0).all(axis=1), squares @ self._weights, np.inf)

    def of(self, pairs: NDArray[np.intp]) -> _Path:
        """The same for some of the pairs."""
        part = copy(self)
        part._a, part._steps = self._a[pairs], self._steps[pairs]
        return part

    def shortened(self, c: Array) -> tuple[Array, Array]:
        """Coefficients of shortest paths, and their energies."""
        energy = self.energy(c)
        lost = np.flatnonzero(np.isinf(energy))  # a path that is in the domain at fewer nodes only
        if lost.size:
            c[lost] = 0.0
            energy[lost] = self.of(lost).energy(c[lost])
        moving = np.flatnonzero(np.isfinite(energy))
        for _ in range(_STEPS):
            if not moving.size:
                break
            found, lowered = self.of(moving)._descended(c[moving], energy[moving])
            gains = energy[moving] - lowered
            c[moving], energy[moving] = found, lowered
            moving = moving[gains > _SETTLED * lowered]
        return c, energy

    def _descended(self, c: Array, energy: Array) -> tuple[Array, Array]:
        """One step of Newton's method, shortened until it lowers the energy; none if it cannot."""
        step, found, lowered = self._newton_step(c), c.copy(), energy.copy()
        trying = np.arange(len(c))
        for halving in range(_HALVINGS):
            moved = c[trying] + step[trying] / 2**halving
            reached = self.of(trying).energy(moved)
            better = reached < energy[trying]
            found[trying[better]], lowered[trying[better]] = moved[better], reached[better]
            # What a whole step does not lower by more than rounding is at its minimum.
            flat = np.abs(reached - energy[trying]) <= _SETTLED * energy[trying]
            trying = trying[~(better | flat)]
            if not trying.size:
                break
        return found, lowered

    def _newton_step(self, c: Array) -> Array:
        """Newton's step; without the derivatives of the metric in it where it would not descend."""
        m, size, d = c.shape
        places, v = self._along(c)
        g, first, second = self._metric_along(places, 2)
        change = np.einsum("mqihj,mqh->mqij", first, v)
        turns = np.einsum("mqij,mqi->mqj", change, v)
        bends = np.einsum("mqhij,mqh->mqij", np.einsum("mqghij,mqg->mqhij", second, v), v)
        slopes, values = self._slopes * self._weights, self._values * self._weights
        gradient = 2 * (slopes @ np.einsum("mqij,mqj->mqi", g, v)) + values @ turns
        flat = 2 * self._matrix(slopes, g, self._slopes)
        mixed = 2 * self._matrix(slopes, change, self._values)
        whole = flat + mixed + mixed.transpose(0, 2, 1) + self._matrix(values, bends, self._values)
        slope = gradient.reshape(m, -1, 1)
        step = -np.linalg.solve(whole, slope)
        uphill = ~((step * slope).sum(axis=(1, 2)) < 0)
        if uphill.any():
            step[uphill] = -np.linalg.solve(flat[uphill], slope[uphill])
        return step.reshape(m, size, d)

    @staticmethod
    def _matrix(left: Array, forms: Array, right: Array) -> Array:
        """``sum_q left_kq forms_qij right_lq`` as matrices, shape (m, k i, l j)."""
        m, _, d, _ = forms.shape
        # Shape (m, i, j, k, l): one product of matrices for each entry of the forms.
        entries = (left * forms.transpose(0, 2, 3, 1)[:, :, :, None, :]) @ right.T
        return entries.transpose(0, 3, 1, 4, 2).reshape(m, len(left) * d, len(right) * d)
