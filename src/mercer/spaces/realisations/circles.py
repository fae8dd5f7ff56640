"""Laws on the torus that mix diffusions: products over circles."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from mercer._arrays import Array, constant_rows
from mercer.contributions import Contributions, of_columns
from mercer.engine import GramOptions, engine_for
from mercer.engine.equal import row_keys
from mercer.engine.operands import Differences, Invariants, Operand
from mercer.laws import Law
from mercer.profiles import PowerProfile, TableProfile, compile_profile
from mercer.spaces.realisations import sampling
from mercer.spaces.realisations.base import (
    Moving,
    Realisation,
    Similarities,
    Slope,
    absolute_factor,
    parameters,
)
from mercer.spaces.realisations.eigenfunctions import law_weights
from mercer.spaces.realisations.eigenmaps import EigenMap
from mercer.spaces.realisations.factors import FactorRealisation
from mercer.spaces.realisations.lattice import TorusFunctions, heaviest
from mercer.spaces.realisations.mixtures import TimeMixture
from mercer.special import theta

if TYPE_CHECKING:
    from mercer.spaces.torus import Torus


_TURN = 2 * math.pi
#: Rows and columns of a tile of a mixture, such that it stays in cache.
_TILE = (64, 1024)


def wrapped(angle: Any) -> Any:
    """Differences of angles, brought to [-pi, pi]."""
    return angle - _TURN * array_namespace(angle).round(angle / _TURN)


class Circle:
    """One column of angles; the invariant of a pair is the square of the difference."""

    #: Coordinates of the chart that differ by this are the same.
    period = _TURN

    def chart(self, X: Any) -> tuple[Any, Any]:
        """Angles, and factors of the points (one)."""
        return X, constant_rows(X, 1.0)

    def embed(self, X: Array, Y: Array) -> tuple[Differences, Differences]:
        """See :meth:`Embedding.embed`."""
        left = Differences(*self.chart(X))
        return left, left if Y is X else Differences(*self.chart(Y))

    def column_sums(self, X: Array, Y: Array, weights: Array) -> Array:
        """See :meth:`Embedding.column_sums`; squares of the angles between points."""
        return np.einsum("xy,xy->x", weights, wrapped(X - Y[:, 0]) ** 2)[:, None]

    def realise(self, law: Any, n: int) -> _CircleHeat:
        """A diffusion, by its one time."""
        return _CircleHeat(float(law.times(n).times[0]))


@dataclass(frozen=True)
class _Angular:
    """A profile of the difference of two angles, or of its square."""

    function: Callable[[Any], Any]
    squared: bool = False
    error: float = 1e-15

    def apply(self, tile: NDArray[Any]) -> None:
        """See :class:`Profile`."""
        tile[...] = self.evaluate(tile)

    def evaluate(self, w: Any) -> Any:
        """See :class:`Profile`."""
        return self.function(wrapped(array_namespace(w).sqrt(w) if self.squared else w))


@dataclass(frozen=True)
class _CircleHeat:
    """The heat kernel of a circle, normalised."""

    t: float

    @property
    def log_self_similarity(self) -> float:
        """See :class:`Realisation`."""
        return theta.log_theta_at_zero(self.t) - math.log(_TURN)

    def self_rise(self, slope: Slope) -> float:
        """Its derivative with respect to the logarithm of a hyperparameter."""
        return theta.rise_at_zero(self.t) * slope.chain

    def log_profile(self) -> _Angular:
        """Logarithm of the kernel."""
        return _Angular(self._log, squared=True)

    def log_table(self) -> TableProfile:
        """The same as a table."""
        return _log_table(self.t)

    def log_slope_profile(self, slope: Slope) -> _Angular:
        """Derivative of the logarithm."""
        return _Angular(lambda angle: slope.chain * theta.theta_rise(angle, self.t), squared=True)

    def log_slope_table(self, slope: Slope) -> TableProfile:
        """The same as a table."""
        return _log_slope_table(self.t, slope.chain)

    def log_slope(self, w: Array) -> Array:
        """Derivative of the logarithm with respect to the invariant."""
        return theta.log_theta_slope(wrapped(np.sqrt(w)), self.t)

    def gram(self, P: Any, Q: Any, moving: Sequence[Moving]) -> Any:
        """Gram matrix of tensors."""
        xp = array_namespace(P)
        profile = _Angular(lambda angle: xp.exp(self._log(angle)))
        return self._of_differences(P, Q, profile, GramOptions(parameters=parameters(moving)))

    def slope_profile(self, slope: Slope) -> _Angular:
        """Derivative of the kernel, for tensors."""

        def function(angle: Any) -> Any:
            exponential = array_namespace(angle).exp(self._log(angle))
            return slope.chain * theta.theta_rise(angle, self.t) * exponential

        return _Angular(function)

    def log(self, P: Any, Q: Any = None) -> Any:
        """Logarithm of the Gram matrix of tensors."""
        return self._of_differences(P, Q, _Angular(self._log), GramOptions())

    def _log(self, angle: Any) -> Any:
        return theta.log_theta(angle, self.t)

    @staticmethod
    def _of_differences(P: Any, Q: Any, profile: _Angular, options: GramOptions) -> Any:
        other = P if Q is None else Q
        return engine_for(P).apply(P - other[:, 0][None, :], profile, options)


@lru_cache(maxsize=64)
def _log_table(t: float) -> TableProfile:
    """Logarithm of the kernel of a circle at squares of differences, the largest of which is one."""
    return _table(lambda angle: theta.log_theta(angle, t))


@lru_cache(maxsize=64)
def _log_slope_table(t: float, chain: float) -> TableProfile:
    """Its derivative with respect to the logarithm of a hyperparameter."""
    return _table(lambda angle: chain * theta.theta_rise(angle, t))


def _table(function: Callable[[Array], Any]) -> TableProfile:
    """A function of an angle as a table of squares of angles, the largest of which is one."""

    def law(u: Array) -> Array:
        return np.asarray(function(math.pi * np.sqrt(u)))[None, :]

    return compile_profile(law, "invariant", least=1.0)


class TorusHeat(FactorRealisation):
    """The heat kernel of the torus, a product over the columns."""

    def __init__(self, space: Torus, law: Law, n: int, normalized: bool) -> None:
        super().__init__(space, float(law.times(n).times[0]), n, normalized)
        self._torus, self._law = space, law

    def features(self, size: int, seed: int) -> EigenMap:
        """See :class:`Realisation`; cosines and sines of whole levels."""
        return _features(self._torus, self._law, self._n, size, self, self._normalized)


class TorusMixture(Realisation):
    """``sum_k w_k prod_j theta(x_j - y_j, t_k)``, in one pass over the pairs of rows."""

    def __init__(self, space: Torus, law: Law, n: int, normalized: bool) -> None:
        self._torus, self._law, self._n, self._normalized = space, law, n, normalized

    @cached_property
    def _mixture(self) -> TimeMixture:
        return _mixture(self._law, self._n)

    @property
    def log_self_similarity(self) -> float:
        return self._mixture.log_total

    @property
    def _factor(self) -> float:
        return absolute_factor(None if self._normalized else self.log_self_similarity, self._n)

    def gram(self, P: Any, Q: Any = None, moving: Sequence[Moving] = ()) -> Any:
        if not engine_for(P).takes_operands:
            return self._factor * self._of_tensors(P, Q, moving)
        K = self._mixed(P, Q, self._mixture.shares, 1.0)
        K *= self._factor
        return K

    def diagonal(self, P: Any, moving: Sequence[Moving] = ()) -> Any:
        """See :class:`Realisation`; all points are alike."""
        if engine_for(P).takes_operands:
            return np.full(len(P), self._factor)
        shares = self._mixture.moving_shares(P, moving, self._normalized)
        return self._factor * array_namespace(P).sum(shares) * array_namespace(P).ones_like(P[:, 0])

    def matvec(self, P: Any, Q: Any, v: Any, moving: Sequence[Moving] = ()) -> Any:
        if not engine_for(P).takes_operands:
            return None
        options = GramOptions(Q is None, diagonal=np.ones(len(P)))
        operands = self._operands(P, Q, self._mixture.shares)
        return self._factor * engine_for(P).matvec(*operands, PowerProfile(), v, options)

    def slopes(self, P: Any, slopes: Sequence[Slope]) -> tuple[Any, list[Any]]:
        """See :class:`Realisation`; a mixture of the same times with other weights."""
        weights = self._mixture.share_slopes(self._normalized)
        rise = self._mixed(P, None, weights, 0.0 if self._normalized else float(weights.sum()))
        return self.gram(P), [self._factor * slope.chain * rise for slope in slopes]

    def contributions(self, P: Any, Q: Any, weights: Array) -> tuple[Contributions, ...]:
        """See :class:`Realisation`; those of the diffusions."""
        found = np.zeros((len(P), self._n))
        for share, t in zip(self._mixture.shares, self._mixture.times.tolist(), strict=True):
            heat = FactorRealisation(self._torus, t, self._n, normalized=True)
            found += heat.column_parts(P, Q, share * self._factor * weights)
        return of_columns(found, exact=False)

    def pair_similarities(
        self, P: Any, max_rows: int, rng: np.random.Generator
    ) -> tuple[Similarities, int]:
        """See :class:`Realisation`; pairs against the point zero, by their differences."""
        rows, i, j = sampling.distinct_pairs(len(P), lambda rows: row_keys(P[rows]), max_rows, rng)
        gaps = wrapped(P[rows][i] - P[rows][j])

        def similarities(other: TorusMixture) -> Array:
            return other._mixed(gaps, np.zeros((1, self._n)), other._mixture.shares, 1.0)[:, 0]

        return similarities, len(rows)

    def features(self, size: int, seed: int) -> EigenMap:
        """See :class:`Realisation`; cosines and sines of whole levels."""
        return _features(self._torus, self._law, self._n, size, self, self._normalized)

    def _mixed(self, P: Any, Q: Any, weights: Array, own: float) -> Array:
        """Mixture of the normalised heat kernels, whose value at equal points is known."""
        options = GramOptions(Q is None, diagonal=np.full(len(P), own))
        return engine_for(P).gram(*self._operands(P, Q, weights), PowerProfile(), options)

    def _operands(self, P: Any, Q: Any, weights: Array) -> tuple[_Angles, _Angles]:
        left = _Angles(P, self._mixture.times, weights)
        return left, left if Q is None else _Angles(Q, self._mixture.times, weights)

    def _of_tensors(self, P: Any, Q: Any, moving: Sequence[Moving]) -> Any:
        shares = self._mixture.moving_shares(P, moving, self._normalized)
        left = self._torus.factors(P)
        right = [None] * len(left) if Q is None else self._torus.factors(Q)

        def product(t: float) -> Any:
            circle = _CircleHeat(t)
            grams = (circle.gram(x, y, ()) for x, y in zip(left, right, strict=True))
            return reduce(operator.mul, grams)

        times = self._mixture.times.tolist()
        return reduce(operator.add, (share * product(t) for share, t in zip(shares, times, strict=True)))


@dataclass(frozen=True, eq=False)
class _Angles(Operand):
    """Rows of angles, with the times and weights of a mixture of theta functions."""

    angles: Array
    times: Array
    weights: Array

    def invariants(self, other: _Angles, symmetric: bool) -> Invariants:
        from mercer.compiled.circles import mix_thetas

        left, right = np.ascontiguousarray(self.angles), np.ascontiguousarray(other.angles.T)
        tops = np.exp([_log_top(t) for t in self.times.tolist()])

        def write(rows: slice, columns: slice, out: NDArray[Any]) -> None:
            mix_thetas(left[rows], right[:, columns], self.times, tops, self.weights, out)

        return Invariants((len(left), right.shape[1]), np.dtype(float), _TILE, write)


@lru_cache(maxsize=32)
def _mixture(law: Law, n: int) -> TimeMixture:
    return TimeMixture(law.times(n), n, lambda t: n * (theta.log_theta_at_zero(t) - math.log(_TURN)))


def _log_top(t: float) -> float:
    """Logarithm of theta at zero, without the factor ``sqrt(pi / t)`` of wrapped Gaussians."""
    return theta.log_theta_at_zero(t) - (0.0 if t >= 1 else 0.5 * math.log(math.pi / t))


def _features(space: Torus, law: Law, n: int, size: int, kernel: Any, normalized: bool) -> EigenMap:
    functions = TorusFunctions.of(space, heaviest(n, size, law_weights(law, n)))
    return EigenMap.of(functions, law, n, kernel.log_self_similarity, normalized)
