"""A law on a space, which provides Gram matrices, gradients, products with vectors and features."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy import sparse

from mercer._arrays import (
    LARGEST_SINGLE,
    Array,
    constant_rows,
    is_single,
    is_watched,
    to_double,
    with_diagonal,
)
from mercer._validation import refuse_rows
from mercer.contributions import Contributions, of_columns
from mercer.engine import GramOptions, engine_for
from mercer.engine.base import Parameter, Products, Term, combined
from mercer.engine.equal import Equal, Known, NumberedRows, equal_or_opposite_rows, row_keys
from mercer.engine.operands import Operand
from mercer.profiles import PowerProfile, Profile
from mercer.spaces.base import Embedding
from mercer.spaces.realisations import sampling

#: Rows of a Gram matrix that are divided at a time.
_ROWS = 256
_EPS = float(np.finfo(float).eps)
#: exp() of more than this overflows.
LOG_MAX = math.log(np.finfo(float).max)
_NO_LEVELS = "the kernel is not a function of an angle: levels are those of a sphere"
#: From a realisation to its normalised values at pairs of points.
Similarities = Callable[[Any], Array]


@dataclass(frozen=True)
class Slope:
    """How a law changes with the logarithm of one of its kernel's hyperparameters.

    ``scores`` are the derivatives of the log weights at eigenvalues; ``chain`` is the derivative of the
    logarithm of the law's time, for laws that have closed forms.
    """

    name: str
    chain: float = 1.0
    scores: Callable[[NDArray[Any]], NDArray[Any]] = field(default=np.zeros_like, compare=False)


#: The logarithm of a hyperparameter that is a tensor, and a function of a shift of it: the realisation
#: there, with its slope.
Moving = tuple[Any, Callable[[float], tuple["Realisation", Slope]]]


class FeatureMap(ABC):
    """Features F of checked points with ``F @ F.T`` near the Gram matrix of the absolute form.

    Attributes
    ----------
    eigenvalues : array
        Of the Laplacian, or of another matrix, for each feature.
    error : float
        Bound on the error of an entry of ``F @ F.T``.
    """

    eigenvalues: Array
    error: float

    @abstractmethod
    def __call__(self, P: Any) -> Any:
        """Features of checked points, shape (m, len(eigenvalues))."""


class Realisation(ABC):
    """A kernel between checked points of a space."""

    @abstractmethod
    def gram(self, P: Any, Q: Any = None, moving: Sequence[Moving] = ()) -> Any:
        """Gram matrix; symmetric, between P and P, if Q is None."""

    def multiple(
        self, factor: float, P: Any, Q: Any = None, moving: Sequence[Moving] = (), plus: Any = None
    ) -> Any:
        """A number times the Gram matrix, plus a matrix, which may be overwritten."""
        return combined(factor, self.gram(P, Q, moving), plus)

    @abstractmethod
    def diagonal(self, P: Any, moving: Sequence[Moving] = ()) -> Any:
        """Diagonal of ``gram(P)``."""

    @abstractmethod
    def slopes(self, P: Any, slopes: Sequence[Slope]) -> tuple[Any, list[Any]]:
        """Gram matrix of P, and its derivatives."""

    @abstractmethod
    def pair_similarities(
        self, P: Any, max_rows: int, rng: np.random.Generator
    ) -> tuple[Similarities, int]:
        """Values of such realisations at sampled pairs of distinct points, and the number of points."""

    def matvec(self, P: Any, Q: Any, v: Any, moving: Sequence[Moving] = ()) -> Any:
        """Product ``gram(P, Q) @ v`` without the Gram matrix; None if there is no better way."""
        return None

    def products(self, P: Any, Q: Any = None, moving: Sequence[Moving] = ()) -> Products | None:
        """``gram(P, Q)`` as a sum of products that an engine can compute in one pass, if it is one."""
        return None

    def log(self, P: Any, Q: Any = None) -> Any:
        """Logarithm of the Gram matrix."""
        raise TypeError("log is for sphere, simplex and hyperbolic space; take np.log(k(X))")

    def contributions(self, P: Any, Q: Any, weights: Array) -> tuple[Contributions, ...]:
        """Contributions of columns or nodes to ``sum_q weights[p, q] K(p, q)``, if they are known."""
        return ()

    def profile(self) -> Profile:
        """The kernel as a function of the one invariant of a pair."""
        raise TypeError("the kernel is not a function of an angle or of another invariant of two points")

    def slope_profile(self, slope: Slope) -> Profile:
        """Its derivative with respect to the logarithm of a hyperparameter."""
        raise TypeError("the kernel is not a function of one invariant of two points")

    @property
    def log_self_similarity(self) -> float:
        """Logarithm of K(x, x) in the absolute form, finite where K overflows."""
        raise TypeError("the kernel differs from point to point on the diagonal")

    @property
    def series(self) -> Any:
        """The law on the levels of a sphere, a :class:`~mercer.spaces.spherical.ZonalSeries`."""
        raise TypeError(_NO_LEVELS)

    def level_weights(self, numbers: NDArray[np.int64], slopes: Sequence[Slope]) -> Any:
        """Weights of levels of a sphere, and the rest."""
        raise TypeError(_NO_LEVELS)

    def expansion(self) -> Any:
        """On a graph: the series in the matrix, with its error."""
        raise TypeError("expansion is for kernels on a graph; elsewhere see profile(n)")

    def features(self, size: int, seed: int) -> FeatureMap:
        """At most ``size`` features, from the eigenfunctions of the space."""
        raise TypeError("the eigenfunctions of the space are not known; use GramTransformer")


class Radial(Realisation):
    """A kernel ``s(x) s(y) f(invariant of x and y)``."""

    #: How points become the operands of a matrix product.
    embedding: Embedding

    @abstractmethod
    def profile(self) -> Profile:
        """The function f."""

    @abstractmethod
    def slope_profile(self, slope: Slope) -> Profile:
        """Its derivative with respect to the logarithm of a hyperparameter."""

    def log_profile(self) -> Profile:
        """Its logarithm."""
        raise TypeError("logarithms are known only for heat kernels")

    def gram(self, P: Any, Q: Any = None, moving: Sequence[Moving] = ()) -> Any:
        return self.multiple(1.0, P, Q, moving)

    def multiple(
        self, factor: float, P: Any, Q: Any = None, moving: Sequence[Moving] = (), plus: Any = None
    ) -> Any:
        """See :class:`Realisation`; tiles are multiplied and added while they are in cache."""
        operands = Operands(self.embedding, P, Q, factor)
        return operands.gram(self.profile(), parameters(moving), plus=plus)

    def products(self, P: Any, Q: Any = None, moving: Sequence[Moving] = ()) -> Products | None:
        return [(1.0, [Operands(self.embedding, P, Q).term(self.profile(), parameters(moving))])]

    def diagonal(self, P: Any, moving: Sequence[Moving] = ()) -> Any:
        values = _diagonal(self.embedding, P, self.profile(), parameters(moving))
        return engine_for(P).like_rows(values, P)

    def slopes(self, P: Any, slopes: Sequence[Slope]) -> tuple[Any, list[Any]]:
        operands = Operands(self.embedding, P, None)
        K = operands.gram(self.profile())
        return K, [operands.gram(self.slope_profile(slope)) for slope in slopes]

    def matvec(self, P: Any, Q: Any, v: Any, moving: Sequence[Moving] = ()) -> Any:
        return Operands(self.embedding, P, Q).matvec(self.profile(), v, parameters(moving))

    def log(self, P: Any, Q: Any = None) -> Any:
        return Operands(self.embedding, P, Q).gram(self.log_profile())

    def contributions(self, P: Any, Q: Any, weights: Array) -> tuple[Contributions, ...]:
        """See :class:`Realisation`; the slope of f times each column's part of the invariant."""
        P, Q = to_double(P), to_double(Q)
        profile: Any = self.profile()
        operands, own = Operands(self.embedding, P, Q), self.embedding.self_invariant(P)[:, None]
        if operands.scales is not None:
            left, right = operands.scales
            weights = weights * left[:, None] * right
        invariants, least = operands.invariants(), self.embedding.least_invariant
        if least:
            invariants = np.where(np.abs(invariants) < least, least, invariants)
        apart = self.embedding.are_apart(invariants, own, _EPS)
        slopes = profile.slope(np.where(apart, invariants, np.copysign(own, invariants)))
        # At distance zero every column's part is zero, and the slope of a kernel with a kink infinite.
        slopes[~apart & (own == 0)] = 0.0
        sums = self.embedding.column_sums(P, Q, weights * slopes)
        return () if sums is None else of_columns(sums, profile.linear)

    def pair_similarities(
        self, P: Any, max_rows: int, rng: np.random.Generator
    ) -> tuple[Similarities, int]:
        """See :class:`Realisation`; the law at the invariants of pairs, which are computed once."""
        embedding = self.embedding
        rows, keys = sampling.distinct_sample(
            P.shape[0], lambda rows: _point_keys(embedding, P[rows]), max_rows, rng
        )
        operands = Operands(embedding, P[rows], None)
        invariants = operands.invariants()
        own = embedding.self_invariant(P[:1]).astype(float)
        pairs = invariants[sampling.different_pairs(keys)].astype(float)
        pairs = pairs[embedding.are_apart(pairs, float(own[0]), float(np.finfo(P.dtype).eps))]
        if not pairs.size:
            raise sampling.NoPairs(sampling.NO_PAIRS)
        pairs = sampling.thinned(pairs)

        def similarities(other: Radial) -> Array:
            values = np.concatenate([own, pairs])[None, :]
            other.profile().apply(values)
            return values[0, 1:] / values[0, 0]

        return similarities, len(rows)


class Operands:
    """Two sets of checked rows, embedded for the engine; Q is None where it is P.

    Gram matrices, not invariants, are multiplied by ``factor``.
    """

    def __init__(self, embedding: Embedding, P: Any, Q: Any, factor: float = 1.0) -> None:
        self._embedding, self._P, self._Q, self._factor = embedding, P, Q, factor
        self._symmetric = Q is None
        self._engine = engine_for(P)
        embedding.check_precision(P)
        self.L, self.R = _embedded(embedding, P, Q)
        self.equal = self._equal(Q)
        self.scales = self._scales()

    def under(self, embedding: Embedding) -> Operands:
        """The same under an embedding that has other factors of rows at most."""
        embedding.check_precision(self._P)
        other = copy.copy(self)
        other._embedding = embedding
        other.scales = other._scales()
        return other

    def _scales(self) -> tuple[Any, Any] | None:
        """Factors of rows and columns."""
        P, Q, factor = self._P, self._Q, self._factor
        left = self._embedding.row_scale(P)
        if left is None and factor == 1:
            return None
        left = constant_rows(P, 1.0) if left is None else left
        right = left if Q is None else self._embedding.row_scale(Q)
        right = constant_rows(Q, 1.0) if right is None else right
        return (left if factor == 1 else left * factor), right

    def _equal(self, Q: Any) -> Equal | Known | NumberedRows | None:
        """Equal and opposite rows, if their invariant is subject to rounding."""
        if not self._embedding.magnifies or isinstance(self.L, Operand):
            return None
        value = self._embedding.common_invariant
        if value is None:
            value = float(self._embedding.self_invariant(self._P)[0])
        if self._embedding.embeds_alike and self._engine.rounds_alike:
            opposites = self._embedding.has_opposites and self._engine.takes_operands
            found = equal_or_opposite_rows if opposites else self._engine.equal_rows
            return found(self.L, None if self._symmetric else self.R, value)
        return self._engine.equal_rows(self._P, Q, value)

    def options(
        self, profile: Profile, parameters: Sequence[Parameter] = (), dtype: Any = None
    ) -> GramOptions:
        """Options for the engine; a symmetric Gram matrix has an exact diagonal."""
        invariant, single = self._embedding.common_invariant, is_single(self._P)
        if single and invariant is not None:
            _value(profile, invariant, single)  # the largest of all, which may be refused
        own = _diagonal(self._embedding, self._P, profile, parameters) if self._symmetric else None
        own = own if own is None or self._factor == 1 else own * self._factor
        return GramOptions(self._symmetric, self.scales, own, self.equal, parameters, dtype)

    def gram(
        self,
        profile: Profile,
        parameters: Sequence[Parameter] = (),
        dtype: Any = None,
        plus: Any = None,
    ) -> Any:
        """Gram matrix of a profile of the invariant, differentiable in tensor parameters.

        A matrix may be added, and overwritten by the sum.
        """
        options = self.options(profile, parameters, dtype)
        if plus is None:
            return self._engine.gram(self.L, self.R, profile, options)
        return self._engine.added_gram(plus, self.L, self.R, profile, options)

    def term(self, profile: Profile, parameters: Sequence[Parameter] = ()) -> Term:
        """The same, still to be computed."""
        return Term(self.L, self.R, profile, self.options(profile, parameters))

    def invariants(self) -> Any:
        """Invariants of all pairs."""
        options = GramOptions(self._symmetric, equal=self.equal)
        return self._engine.gram(self.L, self.R, PowerProfile(), options)

    def matvec(self, profile: Profile, v: Any, parameters: Sequence[Parameter] = ()) -> Any:
        """Product of the Gram matrix with vectors, tile by tile."""
        return self._engine.matvec(self.L, self.R, profile, v, self.options(profile, parameters))


def parameters(moving: Sequence[Moving]) -> list[Parameter]:
    """Tensors and the profiles of derivatives with respect to their logarithms, for engines."""
    return with_slopes(moving, lambda realisation, slope: realisation.slope_profile(slope))


def with_slopes(moving: Sequence[Moving], profile: Callable[[Any, Slope], Profile]) -> list[Parameter]:
    """Tensors, and profiles of a realisation that is shifted and its slope."""

    def shifted(moved: Callable[[float], tuple[Any, Slope]], shift: float) -> Profile:
        return profile(*moved(shift))

    return [(tensor, partial(shifted, moved)) for tensor, moved in moving]


def _embedded(embedding: Embedding, P: Any, Q: Any) -> tuple[Any, Any]:
    """Embed two sets of rows in the same arithmetic, so that equal rows stay equal, dense or sparse."""
    mixed = Q is not None and sparse.issparse(P) != sparse.issparse(Q)
    if not mixed or not embedding.magnifies:
        return embedding.embed(P, Q)
    L, R = embedding.embed(sparse.csr_matrix(P), sparse.csr_matrix(Q))
    if not embedding.embeds_alike:
        return L, R
    return (L, R.toarray()) if sparse.issparse(P) else (L.toarray(), R)


def _point_keys(embedding: Embedding, P: Any) -> Any:
    """Keys that are equal for rows that are the same point."""
    embedded = embedding.embed(P, None)[0]
    flat = isinstance(embedded, np.ndarray) or sparse.issparse(embedded)
    return row_keys(embedded if flat else P)


def _diagonal(embedding: Embedding, P: Any, profile: Profile, parameters: Sequence[Parameter]) -> Any:
    own = embedding.common_invariant
    if own is None or parameters:
        options = GramOptions(parameters=parameters)
        values = engine_for(P).apply(embedding.self_invariant(P), profile, options)
    else:
        values = constant_rows(P, _value(profile, own, is_single(P)))
    scale = embedding.row_scale(P)
    return values if scale is None else values * scale * scale


@lru_cache(maxsize=64)
def _value(profile: Profile, invariant: float, single: bool) -> float:
    """Value of a profile at one invariant, in single or double precision; refused beyond its range."""
    exact = np.full((1, 1), invariant, dtype=float)
    value = exact.astype(np.float32) if single else exact
    profile.apply(value)
    if single:
        profile.apply(exact)
        if LARGEST_SINGLE < abs(exact[0, 0]) < np.inf:
            raise ValueError(
                f"values of the kernel reach {exact[0, 0]:.3g}, out of the range of single precision; "
                "give rows in double precision, or use normalized=True"
            )
    return float(value[0, 0])


def absolute_factor(log_value: float | None, n: int) -> float:
    """Factor of a normalised kernel in the absolute form; refused outside the floating-point range."""
    if log_value is None:
        return 1.0
    if abs(log_value) > LOG_MAX:
        raise ValueError(
            f"the absolute form is exp({log_value:.6g}) on the diagonal in dimension {n}, out of "
            "the floating-point range; use normalized=True (and log_self_similarity for the factor), or "
            "the log(X, Y) of a heat kernel"
        )
    return math.exp(log_value)


def normalised(K: Any, P: Any, Q: Any, diagonal: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Normalise a Gram matrix, in place unless it is being differentiated; and squared lengths of P."""
    xp = array_namespace(K)
    squares = positive(1.0 * K.diagonal() if Q is None else diagonal(P), "X")
    others = squares if Q is None else positive(diagonal(Q), "Y")
    K = divide(K, xp.sqrt(squares), xp.sqrt(others))
    return with_diagonal(K, 1.0) if Q is None else K, squares


def normalised_slope(slope: Any, K: Any, squares: Any) -> Any:
    """Derivative of a normalised Gram matrix from that of the plain one, which is overwritten."""
    relative = slope.diagonal() / squares / 2
    slope = divide(slope, squares**0.5, squares**0.5)
    slope -= K * (relative[:, None] + relative)
    return slope


def positive(squares: Any, name: str) -> Any:
    """Check that every point has a length to divide by."""
    refuse_rows(
        ~(squares > 0), name,
        "has k(x, x) = 0 and cannot be normalised; drop it, or use normalized=False",
    )  # fmt: skip
    return squares


def divide(K: Any, left: Any, right: Any) -> Any:
    """Divide rows and columns by lengths, without losing symmetry; in place if nothing is recorded."""
    if is_watched(K):
        return K / (left[:, None] * right)
    for start in range(0, len(K), _ROWS):
        part = slice(start, start + _ROWS)
        K[part] /= left[part, None] * right
    return K
