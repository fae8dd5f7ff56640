"""Laws on the positive orthant of a sphere with its boundary: the multinomial family itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from mercer._arrays import Array, constant_rows
from mercer._validation import refuse_rows
from mercer.engine.equal import row_keys
from mercer.engine.orthant import ModeSums, log_products, refuse_gradients
from mercer.laws import Law
from mercer.spaces.base import Embedding
from mercer.spaces.realisations import sampling
from mercer.spaces.realisations.base import (
    LOG_MAX,
    Moving,
    Realisation,
    Similarities,
    Slope,
    normalised_slope,
)
from mercer.spaces.realisations.orthant.modes import Orthant, components

#: Largest relative error of K(x, x), and of values that must be known relative to themselves.
_RELATIVE = 1e-8
#: Points that a range is learnt from.
_SAMPLE = 200
_REMEDY = "take a longer time, or Simplex() without a boundary"


@dataclass(frozen=True, eq=False)
class _Side:
    """One set of rows: unit vectors, and logarithms of their lengths and of factors of the form.

    K(x, y) is the average over the group of reflections times the factors of x and y, in the absolute
    form, or divided by the lengths, in the normalised one.
    """

    roots: Any
    lengths: Any
    factors: Any


class OrthantRealisation(Realisation):
    """A law on the orthant, ``sum_l a_l sum_k phi_lk(x) phi_lk(y)`` over its own eigenfunctions.

    See :mod:`mercer.special.orthant` for how they are summed.

    Parameters
    ----------
    embedding : Embedding
        From checked rows to unit vectors.
    law : Law
    n : int
        Number of categories.
    normalized : bool
        Divide by the square roots of K(x, x) and K(y, y), which differ from row to row.
    absorbing : bool
        The eigenfunctions vanish at the boundary, rather than their normal derivatives.
    """

    def __init__(
        self, embedding: Embedding, law: Law, n: int, normalized: bool, absorbing: bool
    ) -> None:
        self._embedding, self._law, self._normalized = embedding, law, normalized
        self._place = Orthant(n, absorbing)
        self._components = components(law, self._place)

    def gram(self, P: Any, Q: Any = None, moving: Sequence[Moving] = ()) -> Any:
        refuse_gradients([tensor for tensor, _ in moving])
        return self._values(P, Q, self._components.sums())[0, ...]

    def log(self, P: Any, Q: Any = None) -> Any:
        return self._values(P, Q, self._components.sums(), logarithm=True)[0, ...]

    def diagonal(self, P: Any, moving: Sequence[Moving] = ()) -> Any:
        refuse_gradients([tensor for tensor, _ in moving])
        side = self._side(P, "X", self._components.sums())
        if self._normalized:
            return constant_rows(P, 1.0)
        return array_namespace(side.lengths).exp(2 * (side.lengths + side.factors))

    def slopes(self, P: Any, slopes: Sequence[Slope]) -> tuple[Any, list[Any]]:
        K, *derivatives = self._values(P, None, self._components.sums(slopes))
        if not self._normalized:
            return K, derivatives
        squares = np.ones(len(K))
        return K, [normalised_slope(part, K, squares) for part in derivatives]

    def pair_similarities(
        self, P: Any, max_rows: int, rng: np.random.Generator
    ) -> tuple[Similarities, int]:
        roots = self._embedding.embed(P)[0]
        rows, keys = sampling.distinct_sample(
            P.shape[0], lambda rows: row_keys(roots[rows]), min(max_rows, _SAMPLE), rng
        )
        pairs, sample, place = sampling.different_pairs(keys), P[rows], self._place

        def similarities(other: OrthantRealisation) -> Array:
            form = OrthantRealisation(other._embedding, other._law, place.n, True, place.absorbing)
            return form.gram(sample)[pairs]

        return similarities, len(rows)

    def _values(self, P: Any, Q: Any, sums: ModeSums, logarithm: bool = False) -> Any:
        """Gram matrix or its logarithm, and derivatives, for rows of lengths that stay as they are."""
        left = self._side(P, "X", sums)
        right = left if Q is None else self._side(Q, "Y", sums)
        first, second = (side.lengths if self._normalized else -side.factors for side in (left, right))
        relative = self._place.absorbing or logarithm
        K, worst = sums.gram(
            left.roots,
            None if Q is None else right.roots,
            (first, second),
            (left.lengths, right.lengths),
            logarithm=logarithm,
            own=(0.0 if logarithm else 1.0) if self._normalized else None,
            # What is negative is so by less than the error.
            floor=0.0 if self._law.nonnegative and not relative else -np.inf,
        )
        if relative:
            _refuse_faint(worst, "X" if Q is None else "Y")
        return K

    def _side(self, P: Any, name: str, sums: ModeSums) -> _Side:
        """Rows with their lengths, which must be larger than rounding errors."""
        roots = self._embedding.embed(P)[0]
        squares, errors = sums.diagonal(roots)
        refuse_rows(
            ~(errors < _RELATIVE), name,
            f"has a K(x, x) that is lost in rounding at this time; {_REMEDY}",
        )  # fmt: skip
        factors = constant_rows(squares[:, None], self._log_constant / 2)
        if self._place.absorbing:
            factors = factors + log_products(roots)
        logs = squares + 2 * factors
        left_out = self._components.log_left_out + self._log_constant - self._place.log_unit
        refuse_rows(
            left_out > logs + math.log(_RELATIVE), name,
            "is too near the boundary for so rough a law; use Heat",
        )  # fmt: skip
        if not self._normalized:
            refuse_rows(
                abs(logs) > LOG_MAX, name,
                "has a K(x, x) out of the floating-point range; use normalized=True",
            )  # fmt: skip
        return _Side(roots, squares / 2, factors)

    @property
    def _log_constant(self) -> float:
        """Logarithm of the factor that all values of the absolute form have beside the average."""
        return self._place.log_unit - (self._place.log_volume if self._law.density else 0.0)


def _refuse_faint(worst: Array, name: str) -> None:
    """Raise if rounding has destroyed the relative accuracy of a value."""
    row = int(np.argmax(worst[0]))
    if not worst[0, row] <= _RELATIVE:
        others = int((worst[0] > _RELATIVE).sum()) - 1
        more = f" ({others} more rows of X have such pairs)" if others else ""
        raise ValueError(
            f"row {row} of X and row {int(worst[1, row])} of {name}{more} are too far apart at this "
            "time: rounding leaves less than eight digits of K, which is next to nothing; "
            f"{_REMEDY}, or leave out such rows"
        )
