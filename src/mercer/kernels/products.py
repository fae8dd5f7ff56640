"""Kernels on products of normal families: products over the features."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any, cast

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from mercer._arrays import is_foreign, on_cpu
from mercer._validation import check_vector
from mercer.engine import GramOptions, engine_for
from mercer.engine.equal import row_keys
from mercer.engine.operands import Factors
from mercer.kernels import scale
from mercer.kernels.base import Kernel
from mercer.kernels.radial import tensor_parameters
from mercer.profiles import PowerProfile, ProductProfile, Profile
from mercer.spaces import NormalFamily, NormalProduct

#: Columns of one feature: mean and standard deviation.
_PAIR = 2


class _Exponential:
    """The profile ``exp(w)`` of a sum of logarithms."""

    error = 0.0

    def apply(self, tile: NDArray[Any]) -> None:
        """See :class:`Profile`."""
        np.exp(tile, out=tile)

    def evaluate(self, w: Any) -> Any:
        """See :class:`Profile`."""
        return array_namespace(w).exp(w)


class FactorKernel(Kernel):
    """A kernel on a product of normal families, ``K(x, y) = prod_j K_j(x_j, y_j)``.

    The logarithms of the factors, read off one table, are summed tile by tile.  Tensors are
    multiplied factor by factor.
    """

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel

    @property
    def space(self) -> NormalProduct:
        """The product."""
        return self.kernel.space

    @property
    def factor(self) -> Any:
        """The kernel of one feature."""
        single = copy.copy(self.kernel)
        single.space = NormalFamily()
        return single

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """See :class:`Kernel`."""
        if eval_gradient and Y is not None:
            raise ValueError("gradients are of k(X): Y must be None")
        X, Y = self._check(X, Y)
        if is_foreign(X):
            if eval_gradient:
                raise TypeError("eval_gradient is for NumPy and SciPy rows; tensors have autograd")
            return self._combine(operator.mul, operator.call, X, Y)
        K = self._gram(X, Y, self._log_profile(), _Exponential())
        if not eval_gradient:
            return K
        slopes = [self._gram(X, Y, self._slope_profile(name), PowerProfile()) for name in self.free()]
        for slope in slopes:
            slope *= K
        return K, np.stack(slopes, axis=2) if slopes else np.empty((*K.shape, 0))

    def diag(self, X: Any) -> Any:
        """See :class:`Kernel`."""
        X, _ = self._check(X, None)
        if is_foreign(X):  # all points of the hyperbolic plane are alike
            return self.factor.diag(X[:, :_PAIR]) ** (X.shape[1] // _PAIR)
        return _diagonal(X, self._log_profile(), _Exponential())

    def matvec(self, X: Any, Y: Any, v: Any) -> Any:
        """See :class:`Kernel`."""
        X, Y = self._check(X, Y)
        v = check_vector(v, int((X if Y is None else Y).shape[0]))
        if is_foreign(X):
            return super().matvec(X, Y, v)
        profile, table = _Exponential(), self._log_profile()
        options = GramOptions(Y is None, diagonal=_diagonal(X, table, profile))
        return engine_for(X).matvec(*self._embed(X, Y, table), profile, v, options)

    def log(self, X: Any, Y: Any = None) -> Any:
        """Logarithm of the Gram matrix, the sum of those of the factors."""
        X, Y = self._check(X, Y)
        if is_foreign(X):
            return self._combine(operator.add, lambda factor, *rows: factor.log(*rows), X, Y)
        return self._gram(X, Y, self._log_profile(), PowerProfile())

    def _pair_similarities(
        self, X: Any, max_rows: int, rng: np.random.Generator
    ) -> tuple[scale.Similarities, int]:
        """See :class:`Kernel`; a sum over the features of each pair, whose invariants are kept."""
        X = self.space.check(on_cpu(X))
        rows, keys = scale.distinct_sample(len(X), lambda rows: row_keys(X[rows]), max_rows, rng)
        i, j = scale.different_pairs(keys)
        if len(i) > scale.MOST_PAIRS:
            chosen = np.sort(rng.choice(len(i), scale.MOST_PAIRS, replace=False))
            i, j = i[chosen], j[chosen]
        charts = [NormalFamily().chart(part) for part in self.space.factors(X[rows])]
        invariants = np.stack([((p[i] - p[j]) ** 2).sum(axis=1) * s[i] * s[j] for p, s in charts])

        def similarities(kernel: Any) -> scale.Array:
            table = kernel._log_profile()
            values = np.hstack([np.zeros((len(charts), 1)), invariants])
            table.apply(values)
            logs = values.sum(axis=0)
            return np.exp(logs[1:] - logs[0])

        return similarities, len(rows)

    def free(self) -> tuple[str, ...]:
        """Those of the kernel."""
        return self.kernel.free()

    def _check(self, X: Any, Y: Any) -> tuple[Any, Any]:
        self.kernel._validate()
        X, Y = self.kernel._check(X, Y)
        self.kernel._factor(int(X.shape[1]))  # refuses what overflows
        tensor_parameters(self.kernel, X)  # refuses a time to differentiate by if rows are not tensors
        return X, Y

    def _log_profile(self) -> Profile:
        """Logarithm of the kernel of one feature."""
        return self.factor.with_floats()._log_profile(_PAIR)

    def _slope_profile(self, name: str) -> Profile:
        """Its derivative by the logarithm of a hyperparameter."""
        gradient = self.factor.with_floats().gradient_profile(_PAIR, name)
        return cast(ProductProfile, gradient).second  # the first is the kernel

    def _embed(self, X: Any, Y: Any, table: Profile) -> tuple[Factors, Factors]:
        left = self.space.factors(X)
        right = left if Y is None else self.space.factors(Y)
        pairs = [NormalFamily().embed(x, y) for x, y in zip(left, right, strict=True)]
        first, second = zip(*pairs, strict=True)
        return Factors(first, table), Factors(second, table)

    def _gram(self, X: Any, Y: Any, table: Profile, profile: Profile) -> NDArray[np.float64]:
        """``profile(sum_j table(w_j))``, w_j the invariants of a pair in the factors."""
        options = GramOptions(Y is None, diagonal=_diagonal(X, table, profile))
        return engine_for(X).gram(*self._embed(X, Y, table), profile, options)

    def _combine(self, join: Callable[[Any, Any], Any], call: Callable[..., Any], X: Any, Y: Any) -> Any:
        """Combine what is called on each factor."""
        left = self.space.factors(X)
        right = [None] * len(left) if Y is None else self.space.factors(Y)
        factor = self.factor
        return reduce(join, (call(factor, x, y) for x, y in zip(left, right, strict=True)))


def _diagonal(X: Any, table: Profile, profile: Profile) -> NDArray[np.float64]:
    """The value at equal points, for each row."""
    value = np.zeros((1, 1))
    table.apply(value)
    value *= X.shape[1] // _PAIR
    profile.apply(value)
    return np.full(len(X), value[0, 0])
