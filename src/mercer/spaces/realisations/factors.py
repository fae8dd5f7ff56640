"""Heat kernels on products of like spaces: products of the factors' kernels."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, Protocol

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from mercer._arrays import Array, constant_rows
from mercer.contributions import Contributions, of_columns
from mercer.engine import GramOptions, engine_for
from mercer.engine.base import FactorRows, Products, Term
from mercer.engine.equal import row_keys
from mercer.engine.operands import Factors
from mercer.laws import Diffusion
from mercer.profiles import PowerProfile, Profile
from mercer.spaces.realisations import sampling
from mercer.spaces.realisations.base import (
    Moving,
    Realisation,
    Similarities,
    Slope,
    absolute_factor,
    with_slopes,
)


class Power(Protocol):
    """A space that is a product of equal factors."""

    @property
    def factor(self) -> Any:
        """The space of one factor; its realisations have logarithmic profiles."""

    @property
    def width(self) -> int:
        """Columns of a factor."""

    def factors(self, X: Any) -> list[Any]:
        """Checked rows of each factor on its own."""


class _Exponential:
    """The profile ``exp(w)`` of a sum of logarithms."""

    error = 0.0

    def apply(self, tile: NDArray[Any]) -> None:
        """See :class:`Profile`."""
        np.exp(tile, out=tile)

    def evaluate(self, w: Any) -> Any:
        """See :class:`Profile`."""
        return array_namespace(w).exp(w)


class FactorRealisation(Realisation):
    """``K = prod_j kappa(x_j, y_j)``, kappa the factor's heat kernel.

    Logarithms of the factors, read off one table, are summed tile by tile.  Tensors are multiplied
    factor by factor.
    """

    def __init__(self, space: Power, t: float, n: int, normalized: bool) -> None:
        self._space, self._n, self._normalized = space, n, normalized
        self._part = space.factor.realise(Diffusion(t), space.width)
        self._count = n // space.width

    @property
    def log_self_similarity(self) -> float:
        return float(self._count * self._part.log_self_similarity)

    @property
    def _factor(self) -> float:
        return absolute_factor(None if self._normalized else self.log_self_similarity, self._n)

    def _moving_factor(self, P: Any, moving: Sequence[Moving]) -> Any:
        """The factor of tensors, which depends on the time in the absolute form."""
        if self._normalized:
            return 1.0

        def rise(whole: FactorRealisation, slope: Slope) -> Profile:
            return PowerProfile(scale=0.0, shift=whole._factor * whole._common_rise(slope))

        options = GramOptions(parameters=with_slopes(moving, rise))
        constant = PowerProfile(scale=0.0, shift=self._factor)
        return engine_for(P).apply(array_namespace(P).zeros_like(P[:1, :1]), constant, options)[0, 0]

    def _common_rise(self, slope: Slope) -> float:
        """Derivative of the logarithm of the absolute form's value at equal points."""
        return 0.0 if self._normalized else self._count * self._part.self_rise(slope)

    def gram(self, P: Any, Q: Any = None, moving: Sequence[Moving] = ()) -> Any:
        if not engine_for(P).takes_operands:
            if (joined := self._in_one_pass(P, Q, moving)) is not None:
                return joined
            return self._moving_factor(P, moving) * self._product(P, Q, moving)
        K = self._combined(P, Q, self._part.log_profile(), _Exponential())
        K *= self._factor
        return K

    def products(self, P: Any, Q: Any = None, moving: Sequence[Moving] = ()) -> Products | None:
        """See :class:`Realisation`; one term, whose logarithm is a sum over the factors."""
        try:
            table = self._part.log_table()
        except ValueError:  # the law varies too fast for a table
            return None
        left = self._charts(P)
        right = left if Q is None else self._charts(Q)
        own = constant_rows(P, 1.0) if Q is None else None
        rises = with_slopes(moving, lambda whole, slope: whole._part.log_slope_table(slope))
        options = GramOptions(Q is None, diagonal=own, parameters=rises)
        factor = self._moving_factor(P, moving) if moving else self._factor
        return [(factor, [Term(left, right, table, options)])]

    def _in_one_pass(self, P: Any, Q: Any, moving: Sequence[Moving], v: Any = None) -> Any:
        """Gram matrix, or its product with vectors, if the engine has a way without parts of it."""
        engine = engine_for(P)
        products = self.products(P, Q, moving) if engine.joins else None
        return None if products is None else engine.joined(products, v)

    def _charts(self, P: Any) -> FactorRows:
        """Rows of tensors in the charts of the factors; of circles, half a turn is one."""
        xp, factor = array_namespace(P), self._space.factor
        charts = [factor.chart(part) for part in self._space.factors(P)]
        points = xp.concat([points.T for points, _ in charts])
        if factor.period is not None:
            points = points * (2 / factor.period)
        scales = xp.stack([scales for _, scales in charts])
        return FactorRows(points, scales, int(charts[0][0].shape[1]), factor.period is not None)

    def diagonal(self, P: Any, moving: Sequence[Moving] = ()) -> Any:
        """See :class:`Realisation`; all points of a factor are alike."""
        if engine_for(P).takes_operands:
            return np.full(len(P), self._factor)
        ones = self._product(P[:1, ...], None, moving)[0, 0]
        return self._moving_factor(P, moving) * ones * array_namespace(P).ones_like(P[:, 0])

    def matvec(self, P: Any, Q: Any, v: Any, moving: Sequence[Moving] = ()) -> Any:
        if not engine_for(P).takes_operands:
            return self._in_one_pass(P, P if Q is None else Q, moving, v)
        operands = self._embed(P, Q, self._part.log_profile())
        options = GramOptions(Q is None, diagonal=np.ones(len(P)))
        return self._factor * engine_for(P).matvec(*operands, _Exponential(), v, options)

    def log(self, P: Any, Q: Any = None) -> Any:
        """See :class:`Realisation`; the sum of those of the factors."""
        shift = 0.0 if self._normalized else self.log_self_similarity
        if not engine_for(P).takes_operands:
            return shift + self._reduced(operator.add, P, Q, self._part.log)
        return shift + self._combined(P, Q, self._part.log_profile(), PowerProfile())

    def slopes(self, P: Any, slopes: Sequence[Slope]) -> tuple[Any, list[Any]]:
        K = self.gram(P)
        found = []
        for slope in slopes:
            rise = self._combined(P, None, self._part.log_slope_profile(slope), PowerProfile())
            rise += self._common_rise(slope)
            rise *= K
            found.append(rise)
        return K, found

    def contributions(self, P: Any, Q: Any, weights: Array) -> tuple[Contributions, ...]:
        return of_columns(self.column_parts(P, Q, weights), exact=False)

    def column_parts(self, P: Any, Q: Any, weights: Array) -> Array:
        """The slope of the kernel by a factor's invariant, times each column's part of that."""
        weights, factor = weights * self.gram(P, Q), self._space.factor
        found = []
        for x, y in zip(self._space.factors(P), self._space.factors(Q), strict=True):
            left, right = factor.embed(x, y)
            invariants = engine_for(x).gram(left, right, PowerProfile(), GramOptions(False))
            found.append(factor.column_sums(x, y, weights * self._part.log_slope(invariants)))
        return np.hstack(found)

    def pair_similarities(
        self, P: Any, max_rows: int, rng: np.random.Generator
    ) -> tuple[Similarities, int]:
        """See :class:`Realisation`; a sum over the factors of each pair, whose invariants are kept."""
        rows, i, j = sampling.distinct_pairs(len(P), lambda rows: row_keys(P[rows]), max_rows, rng)
        charts = [self._space.factor.chart(part) for part in self._space.factors(P[rows])]
        invariants = np.stack([((p[i] - p[j]) ** 2).sum(axis=1) * s[i] * s[j] for p, s in charts])

        def similarities(other: FactorRealisation) -> Array:
            values = invariants.copy()
            other._part.log_profile().apply(values)
            return np.exp(values.sum(axis=0))

        return similarities, len(rows)

    def _product(self, P: Any, Q: Any, moving: Sequence[Moving]) -> Any:
        """Product over the factors, on tensors."""

        def moved(move: Any, shift: float) -> tuple[Realisation, Slope]:
            whole, slope = move(shift)
            return whole._part, slope

        of_factor = [(tensor, partial(moved, move)) for tensor, move in moving]
        return self._reduced(operator.mul, P, Q, lambda x, y: self._part.gram(x, y, of_factor))

    def _reduced(self, join: Callable[[Any, Any], Any], P: Any, Q: Any, call: Any) -> Any:
        """Combine what is called on the rows of each factor."""
        left = self._space.factors(P)
        right = [None] * len(left) if Q is None else self._space.factors(Q)
        return reduce(join, (call(x, y) for x, y in zip(left, right, strict=True)))

    def _embed(self, P: Any, Q: Any, table: Profile) -> tuple[Factors, Factors]:
        left = self._space.factors(P)
        right = left if Q is None else self._space.factors(Q)
        pairs = [self._space.factor.embed(x, y) for x, y in zip(left, right, strict=True)]
        first, second = zip(*pairs, strict=True)
        return Factors(first, table), Factors(second, table)

    def _combined(self, P: Any, Q: Any, table: Profile, profile: Profile) -> Array:
        """``profile(sum_j table(w_j))``, w_j the invariants of a pair in the factors."""
        value = np.zeros((1, 1))
        table.apply(value)
        value *= self._count
        profile.apply(value)
        diagonal = np.full(len(P), value[0, 0])
        return engine_for(P).gram(
            *self._embed(P, Q, table), profile, GramOptions(Q is None, diagonal=diagonal)
        )
