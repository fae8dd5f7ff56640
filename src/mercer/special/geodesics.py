"""Lengths of shortest paths in a metric that is given by its values and derivatives.

In one dimension the path is known, and its length is an integral.  In more, a path from a to b is
``a + (b - a) s + sum_k c_k phi_k(s)``, s in [0, 1].  The phi_k are integrals of Legendre polynomials and
vanish at both ends.  The energy ``int g(x', x') / pace(s) ds`` is least for the geodesic that is run
through at this pace, and its squared length if the pace has the integral 1.  It is minimised by Newton's
method, for many pairs at once, with more and more polynomials: at an even pace, and where this fails at
that of the straight path, along which the scale of the metric may change by orders of magnitude.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray

from mercer._arrays import Array

#: Numbers of polynomials that are tried, and how many are enough for Newton's method to settle.
_SIZES, _ENOUGH = (6, 12, 24, 48, 96), 12
#: Pairs that are tried first, and pairs for which another pace is tried at a time.
_BATCH = 16
#: Relative change of a squared length by twice as many polynomials that is small enough: paths converge
#: geometrically, so that the error that is left is of the order of its square.
_TOLERANCE = 1e-7
#: Relative change of the metric by another Newton step below which a path is near the shortest.
_DRIFT = 1e-2
#: Newton steps with one number of polynomials, and halvings of a step.
_STEPS, _HALVINGS = 40, 30
#: Smallest curvature by which a step is divided, in units of that of a metric without derivatives.
_LEAST_CURVATURE = 1e-3
#: A step that lowers the energy by less than this fraction is the last.
_SETTLED = 1e-14
#: First panels of an integral, Gauss-Legendre points on each, halvings and largest number of panels of a
#: pair.
_PANELS, _POINTS, _PANEL_HALVINGS, _MOST_PANELS = 8, 12, 40, 256
#: Change of a panel's part by halving it, relative to the whole, that is small enough.
_PANEL_TOLERANCE = 1e-9
#: Relative error of the integral of the metric over a panel that shows that nothing was missed, and
#: what rounding adds to it, relative to the potential.
_BUMP, _ROUNDING = 1e-6, 1e-13


class Metric(NamedTuple):
    """A metric at m points: values (m, d, d), first and second derivatives, derivatives last."""

    values: Array
    first: Array
    second: Array


#: From points of shape (m, d), and the number of derivatives wanted, to the metric; NaN outside of it.
MetricFunction = Callable[[Array, int], Metric]


class NoGeodesic(ValueError):
    """Paths that do not converge; ``pairs`` says which."""

    def __init__(self, pairs: NDArray[np.intp]) -> None:
        super().__init__("the shortest path was not found")
        self.pairs = pairs


def lengths(metric: MetricFunction, a: Array, b: Array, potential: Callable[[Array], Array]) -> Array:
    """Lengths of the geodesics from the rows of a to those of b.

    The metric is the second derivative of a function, and ``potential`` its first, shape (m, d).
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # such paths are refused
        return _integrals(metric, a, b, potential) if a.shape[1] == 1 else _shortest(metric, a, b)


def _integrals(metric: MetricFunction, a: Array, b: Array, potential: Callable[[Array], Array]) -> Array:
    """Lengths in one dimension, ``int sqrt(g)``: panels are halved until their parts settle.

    The integral of g itself is known on every panel, so that no narrow bump between nodes is missed.
    """
    nodes, weights = legendre.leggauss(_POINTS)

    def parts(starts: Array, widths: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Integrals of sqrt(g), and whether those of g are right."""
        points = (starts[:, None] + widths[:, None] * (nodes + 1) / 2).reshape(-1, 1)
        values = metric(points, 0).values.reshape(len(starts), _POINTS)
        first, last = (potential(ends[:, None]).ravel() for ends in (starts, starts + widths))
        missed = np.abs(widths / 2 * (values @ weights) - (last - first))
        known = missed <= _BUMP * np.abs(last - first) + _ROUNDING * np.maximum(
            np.abs(first), np.abs(last)
        )
        return np.abs(widths) / 2 * (np.sqrt(values) @ weights), known

    pairs = np.repeat(np.arange(len(a)), _PANELS)
    widths = np.repeat((b - a).ravel() / _PANELS, _PANELS)
    starts = np.repeat(a.ravel(), _PANELS) + widths * np.tile(np.arange(_PANELS), len(a))
    (found, _), settled = parts(starts, widths), np.zeros(len(a))
    for _ in range(_PANEL_HALVINGS):
        widths = np.repeat(widths / 2, 2)
        starts = np.repeat(starts, 2)
        starts[1::2] += widths[1::2]
        halves, known = parts(starts, widths)
        both = halves.reshape(-1, 2).sum(axis=1)
        total = settled + np.bincount(pairs, both, len(a))
        done = np.abs(both - found) <= _PANEL_TOLERANCE * total[pairs]
        done &= known.reshape(-1, 2).all(axis=1)
        settled += np.bincount(pairs[done], both[done], len(a))
        left = np.repeat(~done, 2)
        pairs, starts, widths, found = (
            np.repeat(pairs, 2)[left],
            starts[left],
            widths[left],
            halves[left],
        )
        if not pairs.size or np.bincount(pairs).max() > _MOST_PANELS:
            break
    lost = np.union1d(pairs, np.flatnonzero(~np.isfinite(settled)))
    if lost.size:
        raise NoGeodesic(lost)
    return settled


def _shortest(metric: MetricFunction, a: Array, b: Array) -> Array:
    """Lengths in several dimensions.

    The farthest pairs come first: if any are lost, they are, and the others need not be tried.
    """
    found = np.zeros(len(a))
    order = np.argsort(-((b - a) ** 2).sum(axis=1), kind="stable")
    for part in (order[:_BATCH], order[_BATCH:]):
        if not part.size:
            continue
        try:
            found[part] = _at_either_pace(metric, a[part], b[part])
        except NoGeodesic as error:
            raise NoGeodesic(part[error.pairs]) from None
    return found


def _at_either_pace(metric: MetricFunction, a: Array, b: Array) -> Array:
    """Lengths at an even pace, and where this fails at that of the straight path."""
    found = np.sqrt(_energies(metric, a, b, even=True))
    left = np.flatnonzero(np.isnan(found))
    for start in range(0, len(left), _BATCH):  # the first that is lost ends the search
        part = left[start : start + _BATCH]
        found[part] = np.sqrt(_energies(metric, a[part], b[part], even=False))
        lost = part[np.isnan(found[part])]
        if lost.size:
            raise NoGeodesic(lost)
    return np.asarray(found)


def _energies(metric: MetricFunction, a: Array, b: Array, even: bool) -> Array:
    """Smallest energies of paths with more and more polynomials; NaN if they do not converge."""
    found, left = np.full(len(a), np.nan), np.arange(len(a))
    weights = np.zeros((len(a), _SIZES[0], a.shape[1]))
    before = np.full(len(a), np.inf)
    for size in _SIZES:
        path = _Path(metric, a[left], b[left], size, 2 * size + 4, even)
        grown = np.zeros((len(left), size, a.shape[1]))
        grown[:, : weights.shape[1]] = weights
        weights, energy, moving = path.shortened(grown)
        done = np.abs(energy - before) <= _TOLERANCE * energy
        settled = np.flatnonzero(done)
        if settled.size:  # few nodes may miss what lies between them
            fine = _Path(metric, a[left[settled]], b[left[settled]], size, 3 * size + 7, even)
            done[settled] = fine.is_geodesic(weights[settled], energy[settled])
        found[left[done]] = energy[done]
        # With so many polynomials Newton's method settles in a few steps, or never.
        stays = ~done & ~(moving & (size >= _ENOUGH))
        left, weights, before = left[stays], weights[stays], energy[stays]
        if not left.size:
            break
    return found


class _Path:
    """Polynomial paths between pairs of points."""

    def __init__(
        self, metric: MetricFunction, a: Array, b: Array, size: int, nodes: int, even: bool
    ) -> None:
        self._metric, self._a, self._steps = metric, a, b - a
        places, weights = legendre.leggauss(nodes)
        self._s, self._weights = (places + 1) / 2, weights / 2
        polynomials = np.asarray(legendre.legvander(places, size + 1), dtype=float)
        self._slopes = polynomials[:, 1:-1].T
        k = np.arange(1, size + 1)
        self._values = (polynomials[:, 2:] - polynomials[:, :-2]).T / (2 * (2 * k + 1))[:, None]
        self._pace = np.ones((len(a), nodes))
        if not even:
            straight = np.sqrt(self._squares(np.zeros((len(a), size, a.shape[1]))))
            self._pace = straight / (straight @ self._weights)[:, None]

    def _along(self, c: Array) -> tuple[Array, Array]:
        """Places and velocities, shape (m, nodes, d)."""
        places = self._a[:, None] + self._steps[:, None] * self._s[:, None]
        places = places + np.einsum("mkd,kq->mqd", c, self._values)
        return places, self._steps[:, None] + np.einsum("mkd,kq->mqd", c, self._slopes)

    def _metric_along(self, places: Array, orders: int) -> Metric:
        """The metric divided by the pace, which the energy is made of."""
        m, nodes, d = places.shape
        found = self._metric(places.reshape(-1, d), orders)
        pace = self._pace.ravel()
        parts = [
            (part / pace.reshape(-1, *[1] * (part.ndim - 1))).reshape(m, nodes, *part.shape[1:])
            for part in found[: orders + 1]
        ]
        return Metric(*parts, *found[orders + 1 :])

    def _squares(self, c: Array) -> Array:
        """Squared velocities divided by the pace, shape (m, nodes)."""
        places, velocities = self._along(c)
        pulls = np.einsum("mqij,mqj->mqi", self._metric_along(places, 0).values, velocities)
        return np.asarray((velocities * pulls).sum(axis=2))

    def energy(self, c: Array) -> Array:
        """Energies of the paths; infinite where they leave the domain."""
        squares = self._squares(c)
        found = np.where((squares >= 0).all(axis=1), squares @ self._weights, np.inf)
        return np.where(np.isnan(found), np.inf, found)

    def is_geodesic(self, c: Array, energy: Array) -> NDArray[np.bool_]:
        """Tell which paths have these energies, the right pace, and are unchanged by another step.

        A path along the edge of the domain may be far from the shortest although its energy hardly
        changes: the step then leads to a region with a different metric.
        """
        squares = self._squares(c)
        length = np.sqrt(squares * self._pace) @ self._weights
        close = np.abs(squares @ self._weights - energy) <= _TOLERANCE * energy
        close &= energy - length**2 <= 2 * _TOLERANCE * energy
        places, _ = self._along(c)
        g, first, _ = self._metric_along(places, 1)
        moves = np.einsum("mkd,kq->mqd", self._newton_step(c), self._values)
        drift = np.einsum("mqijh,mqh->mqij", first, moves)
        d = c.shape[2]
        relative = _solutions(g.reshape(-1, d, d), drift.reshape(-1, d, d)).reshape(len(c), -1)
        return close & (np.abs(relative).max(axis=1) <= _DRIFT)

    def of(self, pairs: NDArray[np.intp]) -> _Path:
        """The paths between some of the pairs."""
        part = copy(self)
        part._a, part._steps, part._pace = self._a[pairs], self._steps[pairs], self._pace[pairs]
        return part

    def shortened(self, c: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Coefficients of shortest paths, their energies, and whether these were still falling."""
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
        falling = np.zeros(len(c), dtype=bool)
        falling[moving] = True
        return c, energy, falling

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
        """Newton's step; where it may lead to a saddle, one with absolute values of curvatures."""
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
        step = -_solutions(whole, slope)
        saddle = ~_positive(whole)
        if saddle.any():
            step[saddle] = _descent(flat[saddle], whole[saddle], slope[saddle])
        return step.reshape(m, size, d)

    @staticmethod
    def _matrix(left: Array, forms: Array, right: Array) -> Array:
        """``sum_q left_kq forms_qij right_lq`` as matrices, shape (m, k i, l j)."""
        m, _, d, _ = forms.shape
        # Shape (m, i, j, k, l): one product of matrices for each entry of the forms.
        entries = (left * forms.transpose(0, 2, 3, 1)[:, :, :, None, :]) @ right.T
        return entries.transpose(0, 3, 1, 4, 2).reshape(m, len(left) * d, len(right) * d)


def _scaled(matrices: Array) -> tuple[Array, Array]:
    """Symmetric matrices whose rows may differ in scale, with a diagonal of ones, and their scales."""
    scale = np.sqrt(np.abs(np.diagonal(matrices, axis1=1, axis2=2)))[:, :, None]
    return matrices / scale / scale.transpose(0, 2, 1), scale


def _positive(matrices: Array) -> NDArray[np.bool_]:
    """Tell which symmetric matrices are positive definite."""
    scaled, _ = _scaled(matrices)
    finite = np.isfinite(scaled).all(axis=(1, 2))
    scaled[~finite] = 0.0
    return np.asarray(np.linalg.eigvalsh(scaled)[:, 0] > 0)


def _descent(flat: Array, whole: Array, slope: Array) -> Array:
    """``-|H|^-1 g``: absolute values of the curvatures of ``whole`` in units of those of ``flat``."""
    scaled, scale = _scaled(flat)
    whole = whole / scale / scale.transpose(0, 2, 1)
    lost = ~np.isfinite(scaled + whole).all(axis=(1, 2))
    scaled[lost] = whole[lost] = np.eye(scaled.shape[1])
    units, axes = np.linalg.eigh(scaled)
    roots = axes / np.sqrt(np.maximum(units, _SETTLED))[:, None, :]
    curvatures, axes = np.linalg.eigh(roots.transpose(0, 2, 1) @ whole @ roots)
    roots = roots @ axes
    curvatures = np.maximum(np.abs(curvatures), _LEAST_CURVATURE)[:, :, None]
    step = -(roots @ (roots.transpose(0, 2, 1) @ (slope / scale) / curvatures)) / scale
    step[lost] = np.nan
    return np.asarray(step)


def _solutions(matrices: Array, right: Array) -> Array:
    """Solutions of symmetric systems whose rows may differ in scale; NaN where they are singular."""
    scaled, scale = _scaled(matrices)
    right = right / scale
    try:
        return np.asarray(np.linalg.solve(scaled, right)) / scale
    except np.linalg.LinAlgError:
        regular = np.linalg.slogdet(scaled)[0] != 0
        found = np.full_like(right, np.nan)
        found[regular] = np.linalg.solve(scaled[regular], right[regular]) / scale[regular]
        return found
