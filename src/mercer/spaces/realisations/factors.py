"""Laws on products of like spaces: products of the factors' kernels, mixed over diffusion times."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, Protocol

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from mercer.engine import GramOptions, engine_for
from mercer.engine.equal import row_keys
from mercer.engine.operands import Factors
from mercer.laws import Diffusion, Law, mixture_shares
from mercer.profiles import PowerProfile, Profile
from mercer.spaces.realisations import sampling
from mercer.spaces.realisations.base import Moving, Realisation, Similarities, Slope
from mercer.spaces.realisations.zonal import absolute_factor

Array = NDArray[np.float64]


class Power(Protocol):
    """A space that is a product of equal factors."""

    @property
    def factor(self) -> Any:
        """The space of one factor; its realisations have logarithmic profiles."""

    @property
    def width(self) -> int:
        """Columns of a factor."""

    def dimension(self, n: int) -> int:
        """Dimension of the product."""

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
    """``K = sum_k omega_k prod_j kappa_k(x_j, y_j)``, kappa_k the factor's heat kernel at time t_k.

    Logarithms of the factors, read off one table per time, are summed tile by tile.  Tensors are
    multiplied factor by factor.  A diffusion has one time; other laws are mixtures of many, at the
    price of that many kernels.
    """

    def __init__(self, space: Power, law: Law, n: int, normalized: bool) -> None:
        self._space, self._n, self._normalized = space, n, normalized
        times, logs, self._growth = law.times(space.dimension(n))
        self._count = n // space.width
        parts = [space.factor.realise(Diffusion(float(t)), space.width) for t in times]
        if len(parts) == 1:
            self._log_total = self._count * parts[0].log_self_similarity
            self._parts, self._shares = parts, np.ones(1)
            return
        logs = logs + self._count * np.array([part.log_self_similarity for part in parts])
        self._log_total, shares, heavy = mixture_shares(logs)
        self._parts, self._shares = [parts[k] for k in heavy], shares[heavy]

    @property
    def log_self_similarity(self) -> float:
        """See :class:`Realisation`."""
        return self._log_total

    @property
    def _factor(self) -> float:
        return absolute_factor(None if self._normalized else self._log_total, self._n)

    def _moving_factor(self, P: Any, moving: Sequence[Moving]) -> Any:
        """The factor of tensors, which depends on the time in the absolute form."""
        if self._normalized:
            return 1.0

        def slope(move: Any, shift: float) -> Profile:
            whole, slope = move(shift)
            rise = self._count * whole._parts[0].self_rise(slope)
            return PowerProfile(scale=0.0, shift=whole._factor * rise)

        options = GramOptions(parameters=[(tensor, partial(slope, move)) for tensor, move in moving])
        constant = PowerProfile(scale=0.0, shift=self._factor)
        return engine_for(P).apply(array_namespace(P).zeros_like(P[:1, :1]), constant, options)[0, 0]

    def gram(self, P: Any, Q: Any = None, moving: Sequence[Moving] = ()) -> Any:
        """See :class:`Realisation`."""
        if not engine_for(P).takes_operands:
            return self._moving_factor(P, moving) * self._products(P, Q, moving)
        K = self._mixed(lambda part: self._combined(P, Q, part.log_profile(), _Exponential()))
        K *= self._factor
        return K

    def diagonal(self, P: Any, moving: Sequence[Moving] = ()) -> Any:
        """See :class:`Realisation`; all points of a factor are alike."""
        if engine_for(P).takes_operands:
            return np.full(len(P), self._factor)
        ones = self._products(P[:1, ...], None, moving)[0, 0]
        return self._moving_factor(P, moving) * ones * array_namespace(P).ones_like(P[:, 0])

    def matvec(self, P: Any, Q: Any, v: Any, moving: Sequence[Moving] = ()) -> Any:
        """See :class:`Realisation`."""
        if not engine_for(P).takes_operands:
            return None

        def product(part: Any) -> Any:
            return engine_for(P).matvec(
                *self._embed(P, Q, part.log_profile()), _Exponential(), v,
                GramOptions(Q is None, diagonal=np.ones(len(P))),
            )  # fmt: skip

        return self._factor * self._mixed(product)

    def log(self, P: Any, Q: Any = None) -> Any:
        """See :class:`Realisation`; the sum of those of the factors."""
        if len(self._parts) > 1:
            return super().log(P, Q)
        shift = 0.0 if self._normalized else self._log_total
        if not engine_for(P).takes_operands:
            return shift + self._reduced(operator.add, P, Q, lambda x, y: self._parts[0].log(x, y))
        return shift + self._combined(P, Q, self._parts[0].log_profile(), PowerProfile())

    def slopes(self, P: Any, slopes: Sequence[Slope]) -> tuple[Any, list[Any]]:
        """See :class:`Realisation`."""
        K = np.zeros((len(P), len(P)))
        totals = [np.zeros_like(K) for _ in slopes]
        common = [self._common_rises(slope) for slope in slopes]
        for k, (share, part) in enumerate(zip(self._shares, self._parts, strict=True)):
            values = share * self._combined(P, None, part.log_profile(), _Exponential())
            K += values
            for total, slope, shift in zip(totals, slopes, common, strict=True):
                rise = self._combined(P, None, part.log_slope_profile(slope), PowerProfile())
                total += (rise + shift[k]) * values
        factor = self._factor
        return factor * K, [factor * total for total in totals]

    def pair_similarities(
        self, P: Any, max_rows: int, rng: np.random.Generator
    ) -> tuple[Similarities, int]:
        """See :class:`Realisation`; a sum over the factors of each pair, whose invariants are kept."""
        rows, keys = sampling.distinct_sample(len(P), lambda rows: row_keys(P[rows]), max_rows, rng)
        i, j = sampling.different_pairs(keys)
        if len(i) > sampling.MOST_PAIRS:
            chosen = np.sort(rng.choice(len(i), sampling.MOST_PAIRS, replace=False))
            i, j = i[chosen], j[chosen]
        charts = [self._space.factor.chart(part) for part in self._space.factors(P[rows])]
        invariants = np.stack([((p[i] - p[j]) ** 2).sum(axis=1) * s[i] * s[j] for p, s in charts])

        def similarities(other: FactorRealisation) -> Array:
            total = np.zeros(len(i))
            for share, part in zip(other._shares, other._parts, strict=True):
                values = invariants.copy()
                part.log_profile().apply(values)
                total += share * np.exp(values.sum(axis=0))
            return total

        return similarities, len(rows)

    def _common_rises(self, slope: Slope) -> Array:
        """Derivatives of the logarithms of the parts' shares, and of the absolute form if asked for."""
        rises = np.array([part.self_rise(slope) for part in self._parts])
        rises = slope.chain * self._growth + self._count * rises
        return rises - self._shares @ rises if self._normalized else rises

    def _mixed(self, call: Callable[[Any], Any]) -> Any:
        total = call(self._parts[0])
        if len(self._parts) == 1:  # no other array of this size
            return total
        total = self._shares[0] * total
        for share, part in zip(self._shares[1:], self._parts[1:], strict=True):
            total = total + share * call(part)
        return total

    def _products(self, P: Any, Q: Any, moving: Sequence[Moving]) -> Any:
        """Sum over times of the products over factors, on tensors."""
        if moving and len(self._parts) > 1:
            raise TypeError("a mixture over times is not differentiable in its range; detach it")

        def factor_moving() -> list[Moving]:
            def moved(move: Any, shift: float) -> tuple[Realisation, Slope]:
                whole, slope = move(shift)
                return whole._parts[0], slope

            return [(tensor, partial(moved, move)) for tensor, move in moving]

        return self._mixed(
            lambda part: self._reduced(operator.mul, P, Q, lambda x, y: part.gram(x, y, factor_moving()))
        )

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
