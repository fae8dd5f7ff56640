"""The radial road: kernels that are one function of one invariant of a pair of points."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, TypeVar, cast

import numpy as np
from scipy import sparse

from mercer._arrays import is_foreign, on_cpu
from mercer._memory import check_room
from mercer._validation import check_vector
from mercer.engine import GramOptions, engine_for
from mercer.engine.base import Parameter
from mercer.engine.equal import Equal, equal_rows, row_keys
from mercer.engine.operands import Operand
from mercer.kernels import scale
from mercer.kernels.base import Kernel, hashable
from mercer.profiles import PowerProfile, Profile
from mercer.spaces import RadialSpace, SphericalSpace

T = TypeVar("T")


@dataclass(frozen=True)
class _Recipe:
    """How to compute something of a kernel; equal recipes give equal results."""

    identity: tuple[Any, ...]  # of what cannot be hashed the address, which ``compute`` keeps alive
    compute: Callable[[], Any] = field(compare=False)


@lru_cache(maxsize=256)
def _result(recipe: _Recipe) -> Any:
    return recipe.compute()


class RadialKernel(Kernel):
    """A space and a law: ``k(x, y) = s(x) s(y) f(invariant of x and y)``.

    A subclass gives the law as a profile (:meth:`_compile`); Gram matrices, diagonals, gradients and
    products with vectors follow, for dense, sparse, torch and other arrays.
    """

    space: RadialSpace
    #: The law may magnify the rounding of an invariant, so that equal points must be recognised.
    _magnifies = True
    #: Parameters that say where points are, and nothing of the law.
    _embedding_parameters: tuple[str, ...] = ()

    @abstractmethod
    def _compile(self, n: int) -> Profile:
        """Compile the law for rows with n columns."""

    def _compile_gradient(self, n: int, name: str) -> Profile:
        """Compile the derivative with respect to the logarithm of a continuous hyperparameter."""
        raise ValueError(f"{type(self).__name__} has no continuous hyperparameter {name!r}")

    @abstractmethod
    def _validate(self) -> None:
        """Raise for hyperparameters and options out of range."""

    @property
    def _sides(self) -> int:
        """Hemispheres that a law is compiled for."""
        return 2 if self.space.separation == "folded" else 1

    def _embed(self, X: Any, Y: Any) -> tuple[Any, Any]:
        return self.space.embed(X, Y)

    @property
    def _embedding(self) -> Any:
        """What, beside class and space, :meth:`_embed` depends on."""
        return None

    @property
    def _embeds_alike(self) -> bool:
        """Equal points are equal rows in both matrices that :meth:`_embed` returns."""
        return isinstance(self.space, SphericalSpace)

    def _self_invariant(self, X: Any) -> Any:
        """Invariant of each row with itself."""
        return self.space.self_invariant(X)

    def _row_scale(self, X: Any) -> Any:
        """Factor s(x) of each row, or None for 1."""
        return None

    def profile(self, n: int) -> Profile:
        """Compile the law for dimension n (number of columns), or take it from the cache.

        Examples
        --------
        >>> from mercer.kernels import Heat
        >>> from mercer.spaces import Sphere
        >>> Heat(Sphere(), t=0.1).profile(3).error < 1e-13
        True
        """
        self._validate()
        return self._remember(("profile", n), lambda: self._compile(n))

    def gradient_profile(self, n: int, name: str) -> Profile:
        """Compile the derivative with respect to the logarithm of the named hyperparameter."""
        self._validate()
        return self._remember(("gradient", n, name), lambda: self._compile_gradient(n, name))

    def _remember(self, what: tuple[Any, ...], compute: Callable[[], T]) -> T:
        """Compute once per kernel class, parameters and ``what``; kernels come and go by cloning."""
        params = self.get_params(deep=False)
        values = (
            (k, hashable(v))
            for k, v in params.items()
            if not k.endswith("_bounds") and k not in self._embedding_parameters
        )
        return cast(T, _result(_Recipe((type(self), *values, *what), compute)))

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """See :class:`Kernel`."""
        if eval_gradient and Y is not None:
            raise ValueError("gradients are of k(X): Y must be None")
        self._validate()
        X, Y = self._check(X, Y)
        if eval_gradient:
            free = len(self.free())
            check_room(X, None, matrices=1 + free * (1 if free < 2 else 2))
        road = Road(self, X, Y)
        K = road.gram(self.profile(road.n), tensor_parameters(self, X))
        if not eval_gradient:
            return K
        if is_foreign(X):
            raise TypeError("eval_gradient is for NumPy and SciPy rows; tensors have autograd")
        slopes = [road.gram(self.gradient_profile(road.n, name)) for name in self.free()]
        if len(slopes) == 1:  # no copy of the largest array there is
            return K, slopes[0][:, :, None]
        return K, np.stack(slopes, axis=2) if slopes else np.empty((*K.shape, 0), dtype=K.dtype)

    def diag(self, X: Any) -> Any:
        """See :class:`Kernel`."""
        self._validate()
        X = self.space.check(X)
        n = int(X.shape[1])
        return _diagonal(self, X, self.profile(n), tensor_parameters(self, X))

    def matvec(self, X: Any, Y: Any, v: Any) -> Any:
        """See :class:`Kernel`."""
        self._validate()
        P, Q = self._check(X, Y)
        v = check_vector(v, int((P if Q is None else Q).shape[0]))
        road = Road(self, P, Q)
        return road.matvec(self.profile(road.n), v, tensor_parameters(self, P))

    def _pair_similarities(
        self, X: Any, max_rows: int, rng: np.random.Generator
    ) -> tuple[scale.Similarities, int]:
        """See :class:`Kernel`; the law at the invariants of pairs, which are computed once."""
        X = self.space.check(on_cpu(X))
        rows, keys = scale.distinct_sample(
            X.shape[0], lambda rows: self._point_keys(X[rows]), max_rows, rng
        )
        road = Road(self, X[rows], None)
        invariants = road.invariants()
        own = self._self_invariant(X[:1]).astype(float)
        pairs = invariants[scale.different_pairs(keys)].astype(float)
        pairs = pairs[self._are_apart(pairs, float(own[0]), float(np.finfo(X.dtype).eps))]
        if not pairs.size:
            raise scale.NoPairs(scale.NO_PAIRS)
        pairs = scale.thinned(pairs)

        def similarities(kernel: Any) -> scale.Array:
            values = np.concatenate([own, pairs])[None, :]
            kernel.profile(road.n).apply(values)
            return values[0, 1:] / values[0, 0]

        return similarities, len(rows)

    def _are_apart(self, invariants: Any, own: float, rounding: float) -> Any:
        """Tell which invariants differ from that of a point with itself by more than rounding."""
        return np.abs(invariants - own) > 8 * rounding * abs(own)

    def _point_keys(self, X: Any) -> Any:
        """What rows that are the same point have in common."""
        embedded = self._embed(X, None)[0]
        flat = isinstance(embedded, np.ndarray) or sparse.issparse(embedded)
        return row_keys(embedded if flat else X)

    def _check(self, X: Any, Y: Any) -> tuple[Any, Any]:
        """Check both arguments; Y comes back as None where it is X."""
        same = Y is None or Y is X
        X = self.space.check(X, "X")
        if same:
            return X, None
        Y = self.space.check(Y, "Y")
        if X.shape[1] != Y.shape[1]:
            raise ValueError(f"X has {X.shape[1]} columns, Y has {Y.shape[1]}; they must agree")
        if engine_for(X) is not engine_for(Y):
            raise TypeError("X and Y must be arrays of one library")
        return X, Y


class Road:
    """Two sets of checked rows on their way to the engine."""

    def __init__(self, kernel: RadialKernel, X: Any, Y: Any) -> None:
        self._kernel, self._X, self._engine = kernel, X, engine_for(X)
        self._symmetric = Y is None
        self.n = int(X.shape[1])
        self.L, self.R = _embedded(kernel, X, Y)
        self.equal = self._equal(Y)
        left = kernel._row_scale(X)
        self.scales = None
        if left is not None:
            self.scales = (left, left if Y is None else kernel._row_scale(Y))

    def _equal(self, Y: Any) -> Equal | None:
        """Rows that are the same point, where their invariant is subject to rounding."""
        if not self._kernel._magnifies or isinstance(self.L, Operand):
            return None
        value = float(self._kernel._self_invariant(self._X)[0])
        if self._kernel._embeds_alike:
            return equal_rows(self.L, None if self._symmetric else self.R, value)
        return equal_rows(self._X, Y, value)

    def options(self, profile: Profile, parameters: Sequence[Parameter] = ()) -> GramOptions:
        """What the engine is to know; a symmetric Gram matrix has an exact diagonal."""
        own = _diagonal(self._kernel, self._X, profile, parameters) if self._symmetric else None
        return GramOptions(self._symmetric, self.scales, own, self.equal, parameters)

    def invariants(self) -> Any:
        """Invariants of all pairs."""
        options = GramOptions(self._symmetric, equal=self.equal)
        return self._engine.gram(self.L, self.R, PowerProfile(), options)

    def gram(self, profile: Profile, parameters: Sequence[Parameter] = ()) -> Any:
        """Gram matrix of a profile of the invariant, differentiable in tensor parameters."""
        options = self.options(profile, parameters)
        return self._engine.gram(self.L, self.R, profile, options)

    def matvec(self, profile: Profile, v: Any, parameters: Sequence[Parameter] = ()) -> Any:
        """Product of that Gram matrix with vectors."""
        options = self.options(profile, parameters)
        return self._engine.matvec(self.L, self.R, profile, v, options)


def _embedded(kernel: RadialKernel, X: Any, Y: Any) -> tuple[Any, Any]:
    """Embed two sets of rows, in the same arithmetic: equal rows stay so, dense or sparse."""
    mixed = Y is not None and sparse.issparse(X) != sparse.issparse(Y)
    if not mixed or not kernel._magnifies:
        return kernel._embed(X, Y)
    L, R = kernel._embed(sparse.csr_matrix(X), sparse.csr_matrix(Y))
    if not kernel._embeds_alike:
        return L, R
    return (L, R.toarray()) if sparse.issparse(X) else (L.toarray(), R)


def tensor_parameters(kernel: RadialKernel, X: Any) -> list[Parameter]:
    """Hyperparameters given as tensors, whose logarithm autograd is to see."""
    n = int(X.shape[1])
    tensors = [(name, getattr(kernel, name)) for name in kernel.continuous()]
    if not engine_for(X).differentiable:
        watched = [name for name, value in tensors if getattr(value, "requires_grad", False)]
        if watched:
            raise TypeError(
                f"{watched[0]} is a tensor that requires a gradient, but the rows are not tensors; "
                "give tensors for both, or detach it"
            )
    return [
        (value.log(), partial(_moved_slope, kernel, n, name))
        for name, value in tensors
        if hasattr(value, "requires_grad")
    ]


def _moved_slope(kernel: RadialKernel, n: int, name: str, shift: float) -> Profile:
    """Gradient profile of the kernel with the logarithm of a hyperparameter shifted."""
    moved = kernel.with_floats()
    setattr(moved, name, getattr(moved, name) * math.exp(shift))
    return moved.gradient_profile(n, name)


def _diagonal(kernel: RadialKernel, X: Any, profile: Profile, parameters: Sequence[Parameter]) -> Any:
    values = engine_for(X).apply(kernel._self_invariant(X), profile, GramOptions(parameters=parameters))
    scale = kernel._row_scale(X)
    return values if scale is None else values * scale * scale
