"""Laws on products of spaces: products of the factors' heat kernels, mixed over diffusion times."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache, partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer._arrays import Array, count
from mercer.engine.base import Products, product_of_sums
from mercer.engine.equal import row_keys
from mercer.laws import Law
from mercer.spaces.realisations import sampling
from mercer.spaces.realisations.base import (
    Moving,
    Realisation,
    Similarities,
    Slope,
    absolute_factor,
    normalised,
    normalised_slope,
    positive,
)
from mercer.spaces.realisations.eigenfunctions import law_weights
from mercer.spaces.realisations.eigenmaps import EigenMap
from mercer.spaces.realisations.mixtures import TimeMixture

if TYPE_CHECKING:
    from mercer.spaces.product import ProductSpace


#: Points from which the range of a mixture is learnt, and pairs of rows in one block of a product.
_MIXTURE_SAMPLE, _BLOCK = 200, 2_000_000
_product_of = partial(reduce, operator.mul)


class ProductPoints:
    """Checked points of a product: those of each factor, which are cut and counted together."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = tuple(parts)

    def __len__(self) -> int:
        return count(self.parts[0])

    @property
    def shape(self) -> tuple[int]:
        """Number of points."""
        return (len(self),)

    def __getitem__(self, rows: Any) -> ProductPoints:
        return ProductPoints([part[rows] for part in self.parts])


class ProductRealisation(Realisation):
    """``K = sum_k w_k prod_j K_jk(x_j, y_j)``, K_jk the heat kernel of factor j at time t_k.

    A diffusion has one time.  In a mixture, factors whose kernel is constant on the diagonal are
    normalised, and their values there are parts of the weights, so that nothing overflows.
    """

    def __init__(self, space: ProductSpace, law: Law, n: Any, normalized: bool) -> None:
        self._space, self._law, self._n, self._normalized = space, law, n, normalized
        times = law.times(space.dimension(n)).times
        self._time = float(times[0]) if len(times) == 1 else None

    @property
    def _single(self) -> bool:
        return self._time is not None

    @cached_property
    def heat(self) -> list[Realisation]:
        """Kernels of the factors of a diffusion."""
        assert self._time is not None
        return self._space.factor_heat(self._time, self._n, self._normalized)

    @property
    def _mixture(self) -> _Mixture:
        return _mixture(self._space, self._law, self._n)

    @property
    def _divides(self) -> bool:
        """Whether values have to be divided by lengths of points."""
        return not self._single and self._normalized and not all(self._mixture.even)

    @property
    def _factor(self) -> float:
        log_value = None if self._normalized else self._mixture.weights.log_total
        return absolute_factor(log_value, self._space.dimension(self._n))

    @property
    def log_self_similarity(self) -> float:
        if self._single:
            return sum(kernel.log_self_similarity for kernel in self.heat)
        if not all(self._mixture.even):
            return super().log_self_similarity
        return self._mixture.weights.log_total

    def gram(self, P: Any, Q: Any = None, moving: Sequence[Moving] = ()) -> Any:
        if self._single:
            joined = self._in_one_pass(P, Q, moving)
            return self._product(self.heat, P, Q, moving) if joined is None else joined
        K = self._factor * self._mixed(lambda kernels: self._product(kernels, P, Q), P, moving)
        return normalised(K, P, Q, self._plain_diagonal)[0] if self._divides else K

    def products(self, P: Any, Q: Any = None, moving: Sequence[Moving] = ()) -> Products | None:
        """See :class:`Realisation`; the products of the factors' terms."""
        if not self._single:
            return None
        parts = enumerate(zip(self.heat, *_both(P, Q), strict=True))
        return product_of_sums(
            [k.products(x, y, self._factor_moving(moving, j)) for j, (k, x, y) in parts]
        )

    def _in_one_pass(self, P: Any, Q: Any, moving: Sequence[Moving], v: Any = None) -> Any:
        """Gram matrix, or its product with vectors, if the engine has a way without those of factors."""
        engine = self._space.engine(P)
        products = self.products(P, Q, moving) if engine.joins else None
        return None if products is None else engine.joined(products, v)

    def diagonal(self, P: Any, moving: Sequence[Moving] = ()) -> Any:
        values = self._plain_diagonal(P, moving)
        return values / positive(values, "X") if self._divides else values

    def _plain_diagonal(self, P: Any, moving: Sequence[Moving] = ()) -> Any:
        def diagonals(kernels: Sequence[Realisation], moving: Sequence[Moving] = ()) -> Any:
            parts = enumerate(zip(kernels, P.parts, strict=True))
            return _product_of(k.diagonal(x, self._factor_moving(moving, j)) for j, (k, x) in parts)

        if self._single:
            return diagonals(self.heat, moving)
        return self._factor * self._mixed(diagonals, P, moving)

    def matvec(self, P: Any, Q: Any, v: Any, moving: Sequence[Moving] = ()) -> Any:
        """See :class:`Realisation`; block by block of rows."""
        others = P if Q is None else Q
        if not self._space.engine(P).takes_operands:
            return self._in_one_pass(P, others, moving, v)
        size = max(1, _BLOCK // len(others))
        blocks = (P[start : start + size] for start in range(0, len(P), size))
        return np.concatenate([self.gram(block, others) @ v for block in blocks])

    def log(self, P: Any, Q: Any = None) -> Any:
        """See :class:`Realisation`; the sum of those of the factors."""
        if not self._single:
            raise TypeError("logarithms are known only for heat kernels")
        logs = [kernel.log(x, y) for kernel, x, y in zip(self.heat, *_both(P, Q), strict=True)]
        return reduce(operator.add, logs)

    def slopes(self, P: Any, slopes: Sequence[Slope]) -> tuple[Any, list[Any]]:
        """See :class:`Realisation`; all are multiples of the derivative with respect to the time."""
        if not self._space.engine(P).takes_operands:
            raise TypeError("eval_gradient is for NumPy and SciPy rows; tensors have autograd")
        K, rise = self._with_rise(P) if self._single else self._mixed_rise(P)
        return K, [slope.chain * rise for slope in slopes]

    def _with_rise(self, P: Any) -> tuple[Array, Array]:
        """Product of the factors' Gram matrices, and its derivative with respect to the log time."""
        assert self._time is not None
        pairs = []
        times = self._space.factor_times(self._n)
        for kernel, part, time in zip(self.heat, P.parts, times, strict=True):
            K, (slope,) = kernel.slopes(part, [_time_slope("t", 1.0, self._time * time)])
            pairs.append((K, slope))
        grams = [K for K, _ in pairs]
        terms = (_product_of([*grams[:j], s, *grams[j + 1 :]]) for j, (_, s) in enumerate(pairs))
        return _product_of(grams), reduce(operator.add, terms)

    def _mixed_rise(self, P: Any) -> tuple[Array, Array]:
        """The same of a mixture, whose weights alone depend on the law's time."""
        mixture = self._mixture
        K = np.zeros((len(P), len(P)))
        rise = np.zeros_like(K)
        slopes = mixture.weights.share_slopes(self._normalized and not self._divides)
        for share, slope, kernels in zip(mixture.weights.shares, slopes, mixture.kernels, strict=True):
            values = self._product(kernels, P, None)
            K += share * values
            rise += slope * values
        if self._divides:
            K, squares = normalised(K, P, None, self._plain_diagonal)
            return K, normalised_slope(rise, K, squares)
        if self._normalized:
            np.fill_diagonal(rise, 0.0)
        return self._factor * K, self._factor * rise

    def pair_similarities(
        self, P: Any, max_rows: int, rng: np.random.Generator
    ) -> tuple[Similarities, int]:
        """See :class:`Realisation`; from the Gram matrix of a sample."""
        most = max_rows if self._single else min(max_rows, _MIXTURE_SAMPLE)
        rows, keys = sampling.distinct_sample(len(P), lambda rows: _keys(P[rows]), most, rng)
        chosen = P[rows]
        i, j = sampling.different_pairs(keys)

        def similarities(other: ProductRealisation) -> Array:
            K, lengths = other.gram(chosen), np.sqrt(other.diagonal(chosen))
            return np.asarray(K[i, j] / (lengths[i] * lengths[j]), dtype=float)

        return similarities, len(rows)

    def features(self, size: int, seed: int) -> EigenMap:
        """See :class:`Realisation`; products of the factors' eigenfunctions."""
        dimension = self._space.dimension(self._n)
        weights = law_weights(self._law, dimension)
        basis = self._space.factor_eigenfunctions(self._n, size, weights)
        return EigenMap.of(basis, self._law, dimension, self.log_self_similarity, self._normalized)

    def _mixed(self, call: Callable[[Any], Any], P: Any, moving: Sequence[Moving]) -> Any:
        weights: Any = self._mixture.weights.shares
        if not self._space.engine(P).takes_operands:
            even = self._normalized and not self._divides
            weights = self._mixture.weights.moving_shares(P.parts[0], moving, even)
        terms = zip(weights, self._mixture.kernels, strict=True)
        return reduce(operator.add, (weight * call(kernels) for weight, kernels in terms))

    def _product(self, kernels: Any, P: Any, Q: Any, moving: Sequence[Moving] = ()) -> Any:
        parts = enumerate(zip(kernels, *_both(P, Q), strict=True))
        return _product_of(k.gram(x, y, self._factor_moving(moving, j)) for j, (k, x, y) in parts)

    def _factor_moving(self, moving: Sequence[Moving], j: int) -> list[Moving]:
        """Hyperparameters as tensors, for one factor of a diffusion."""
        rate = self._space.factor_times(self._n)[j]

        def moved(move: Any, shift: float) -> tuple[Realisation, Slope]:
            whole, slope = move(shift)
            return whole.heat[j], _time_slope(slope.name, slope.chain, whole._time * rate)

        return [(tensor, partial(moved, move)) for tensor, move in moving]


class _Mixture(NamedTuple):
    """Weights and kernels of diffusions, and which factors have a kernel constant on the diagonal."""

    weights: TimeMixture
    kernels: list[list[Realisation]]
    even: list[bool]


@lru_cache(maxsize=32)
def _mixture(space: ProductSpace, law: Law, n: Any) -> _Mixture:
    dimension = space.dimension(n)
    times = law.times(dimension)
    latest = float(times.times[-1])
    even = [_is_even(kernel) for kernel in space.factor_heat(latest, n, True)]

    def log_value(t: float) -> float:
        kernels = zip(space.factor_heat(t, n, True), even, strict=True)
        return sum(kernel.log_self_similarity for kernel, alike in kernels if alike)

    def kernels(t: float) -> list[Realisation]:
        normal, plain = (space.factor_heat(t, n, normalized) for normalized in (True, False))
        return [k if alike else p for alike, k, p in zip(even, normal, plain, strict=True)]

    discrete = filter(_is_even, space.discrete_heat(latest, n))
    slack = -sum(kernel.log_self_similarity for kernel in discrete)
    weights = TimeMixture(times, dimension, log_value, slack)
    return _Mixture(weights, [kernels(t) for t in weights.times.tolist()], even)


def _is_even(kernel: Realisation) -> bool:
    """Whether the value at equal points is the same for all."""
    try:
        return math.isfinite(kernel.log_self_similarity)
    except TypeError:
        return False


def _time_slope(name: str, chain: float, t: float) -> Slope:
    """How a diffusion changes with the logarithm of a hyperparameter of its time."""
    return Slope(name, chain, lambda eigenvalues: -chain * t * eigenvalues)


def _both(P: Any, Q: Any) -> tuple[Any, Any]:
    return P.parts, [None] * len(P.parts) if Q is None else Q.parts


def _keys(part: Any) -> NDArray[Any]:
    """Keys that are equal for equal points."""
    if not isinstance(part, ProductPoints):
        return row_keys(part if len(part.shape) == 2 else part[:, None])
    found = np.stack([_keys(each) for each in part.parts], axis=1)
    return np.unique(found, axis=0, return_inverse=True)[1].ravel().astype(np.uint64)
