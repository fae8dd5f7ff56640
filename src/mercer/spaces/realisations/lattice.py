"""Laws on the torus as sums over the lattice, and the cosines and sines that they are sums of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from mercer._arrays import Array, asarray_like
from mercer.engine.equal import row_keys
from mercer.laws import Law
from mercer.spaces.realisations import sampling
from mercer.spaces.realisations.base import Moving, Realisation, Similarities, Slope, absolute_factor
from mercer.spaces.realisations.eigenfunctions import LogWeights, law_weights, require_columns
from mercer.spaces.realisations.eigenmaps import EigenMap, HomogeneousFunctions
from mercer.special import theta

if TYPE_CHECKING:
    from mercer.spaces.torus import Torus


_TURN = 2 * math.pi
#: Points of the lattice that are summed one by one, and what may be left out of their sum.
MOST_POINTS = 20_000
_TRUNCATION = 1e-15


def heaviest(n: int, count: int, log_weights: LogWeights) -> NDArray[np.int64]:
    """Points k, one of each pair k and -k, of the heaviest levels with at most so many functions."""
    levels, numbers = theta.short_levels(n, MOST_POINTS)
    logs = log_weights(levels.astype(float))
    order = np.argsort(-logs, kind="stable")
    order = order[np.isfinite(logs[order])]
    order = order[np.cumsum(numbers[order]) <= count]
    if not order.size:
        raise ValueError(
            f"the heaviest level of the torus has more than {count} functions; allow for more"
        )
    points = theta.half_lattice(n, int(levels[order].max()))
    return points[np.isin((points**2).sum(axis=1), levels[order])]


class LatticeSum(Realisation):
    """``sum_k a(|k|^2) cos(k.(x - y)) / (2 pi)^p`` over the points k of a lattice, one by one."""

    def __init__(self, space: Torus, law: Law, n: int, normalized: bool) -> None:
        self._space, self._law, self._n, self._normalized = space, law, n, normalized
        self._log_weights = law_weights(law, n)
        levels, numbers = theta.short_levels(n, MOST_POINTS)
        logs = self._log_weights(levels.astype(float)) + np.log(numbers)
        if not np.isfinite(logs.max()):
            raise ValueError("a spectral law must give at least one level a positive, finite weight")
        self._log_total = float(np.logaddexp.reduce(logs)) - n * math.log(_TURN)
        shares = np.exp(logs - logs.max())
        shares /= shares.sum()
        more, many = theta.next_levels(n, int(levels[-1]))
        tail = np.logaddexp.reduce(self._log_weights(more.astype(float)) + np.log(many))
        if tail - np.logaddexp.reduce(logs) > math.log(_TRUNCATION):
            raise ValueError(
                f"the weights of {law.name} still matter at the eigenvalue {levels[-1]}: on {space!r} "
                f"with {n} columns more than {MOST_POINTS} points of the lattice would have to be "
                "summed; take weights that fall faster, fewer columns, or Heat or Matern"
            )
        beyond = np.flatnonzero(np.cumsum(shares[::-1])[::-1] > _TRUNCATION)
        self._points = theta.half_lattice(n, int(levels[beyond[-1]]))

    @property
    def log_self_similarity(self) -> float:
        return self._log_total

    @cached_property
    def _map(self) -> EigenMap:
        return self._map_of(self._points)

    def _map_of(self, points: NDArray[np.int64]) -> EigenMap:
        functions = TorusFunctions.of(self._space, points)
        return EigenMap.of(functions, self._law, self._n, self._log_total, self._normalized)

    def gram(self, P: Any, Q: Any = None, moving: Sequence[Moving] = ()) -> Any:
        if moving:
            raise TypeError("a sum over the lattice is not differentiable in parameters; detach them")
        found = self._map
        left = found(P)
        if Q is not None:
            return left @ found(Q).T
        K = left @ left.T
        xp = array_namespace(K)
        same = xp.eye(K.shape[0], dtype=xp.int8, device=device(K)) > 0
        return xp.where(same, self.diagonal(P)[:, None], (K + K.T) / 2)

    def diagonal(self, P: Any, moving: Sequence[Moving] = ()) -> Any:
        """See :class:`Realisation`; all points are alike."""
        factor = absolute_factor(None if self._normalized else self._log_total, self._n)
        return factor * array_namespace(P).ones_like(P[:, 0])

    def slopes(self, P: Any, slopes: Sequence[Slope]) -> tuple[Any, list[Any]]:
        found = self._map
        F, weights = found(P), found.roots**2 / (found.roots**2).sum()
        scores = [np.asarray(slope.scores(found.eigenvalues), dtype=float) for slope in slopes]
        if self._normalized:
            scores = [s - weights @ s for s in scores]
        return self.gram(P), [(F * s) @ F.T for s in scores]

    def pair_similarities(
        self, P: Any, max_rows: int, rng: np.random.Generator
    ) -> tuple[Similarities, int]:
        rows, keys = sampling.distinct_sample(len(P), lambda rows: row_keys(P[rows]), max_rows, rng)
        i, j = sampling.different_pairs(keys)

        def similarities(other: LatticeSum) -> Array:
            found: Array = other.gram(P[rows])
            return sampling.thinned(found[i, j] / found[0, 0])

        return similarities, len(rows)

    def features(self, size: int, seed: int) -> EigenMap:
        """See :class:`Realisation`; cosines and sines of whole levels."""
        return self._map_of(heaviest(self._n, size, self._log_weights))


@dataclass(frozen=True, eq=False)
class TorusFunctions(HomogeneousFunctions):
    """Cosines and sines, orthonormal over the torus of angles, at some points of the lattice."""

    lattice: NDArray[np.int64]

    @classmethod
    def of(cls, space: Torus, lattice: NDArray[np.int64]) -> TorusFunctions:
        """The functions at points of the lattice, of which one of each pair k and -k is given."""
        levels = (lattice**2).sum(axis=1)
        rest, numbers = theta.remaining_levels(lattice.shape[1], np.unique(levels))
        mass = float(_TURN ** -lattice.shape[1])
        pairs = np.flatnonzero(levels)
        sets = np.concatenate([np.arange(len(levels)), pairs])
        return cls(space, levels[sets].astype(float), rest, mass * numbers, mass, sets, lattice)

    def values(self, checked: Any) -> Any:
        """``sqrt(2) cos(k.x)`` and ``sqrt(2) sin(k.x)`` at each k, and 1 at k = 0, times a constant."""
        require_columns(int(checked.shape[1]), self.lattice.shape[1])
        xp = array_namespace(checked)
        phase = checked @ asarray_like(self.lattice.T, checked)
        zero = int((self.lattice == 0).all(axis=1).sum())  # k = 0 comes first
        waves = [math.sqrt(2) * wave(phase[:, zero:]) for wave in (xp.cos, xp.sin)]
        values = xp.concat([xp.ones_like(phase[:, :zero]), *waves], axis=1)
        return math.sqrt(self.mass) * values

    @property
    def fingerprint(self) -> str:
        return f"{self.space!r} {np.unique(self.eigenvalues).astype(int).tolist()}"
