"""The interface of an engine, and the choice of the engine for an array."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from mercer._arrays import floating_beside, placed, roots_of_shares, together, unit_rows
from mercer._threads import threads_in_use
from mercer.engine.equal import Equal, NumberedRows, equal_rows
from mercer.profiles import Profile

Place = tuple[slice, slice]
#: Fewest rows that are worth a thread.
_FEW = 256
#: A hyperparameter that is a tensor, and a function of a shift of the hyperparameter: the profile of
#: the kernel's derivative there.
Parameter = tuple[Any, Callable[[float], Profile]]


class Functions(Protocol):
    """Several functions of a point, such as spherical harmonics."""

    @property
    def n_features(self) -> int:
        """Number of the functions."""

    def evaluate(self, points: Any) -> Any:
        """Values at the rows of an array of any library."""

    def write(self, points: NDArray[np.float64], out: NDArray[Any]) -> None:
        """Write the values at the rows of a NumPy array, in this thread."""


class Extent(NamedTuple):
    """Statistics of rows of numbers from one pass; ``largest`` is not finite if a number is not."""

    #: Whether a number is negative.
    negative: bool
    #: Least of the largest magnitudes of the rows.
    flattest: float
    #: Largest magnitude of all.
    largest: float


@dataclass(frozen=True, eq=False)
class GramOptions:
    """Options of a Gram matrix of shape (m, p), besides its operands and its profile.

    Parameters
    ----------
    symmetric : bool
        The matrix is symmetric: half of it may be computed.
    scales : pair of arrays of shape (m,) and (p,), optional
        Factors for rows and columns.
    diagonal : array of shape (m,), optional
        Exact values for the diagonal of a symmetric matrix.
    equal : Equal or NumberedRows, optional
        Rows that are equal, whose invariant is known.
    parameters : sequence of Parameter
        What the profile depends on, for engines that differentiate.
    dtype : dtype, optional
        Precision in which the matrix is stored; by default that of the operands.
    """

    symmetric: bool = False
    scales: tuple[Any, Any] | None = None
    diagonal: Any = None
    equal: Any = None
    parameters: Sequence[Parameter] = ()
    dtype: Any = None

    def part(self, rows: slice, columns: slice) -> GramOptions:
        """Options of a tile."""
        square = self.symmetric and rows == columns
        return replace(
            self,
            symmetric=square,
            scales=None if self.scales is None else (self.scales[0][rows], self.scales[1][columns]),
            diagonal=None if self.diagonal is None or not square else self.diagonal[rows],
            equal=None if self.equal is None else self.equal.part(rows, columns),
        )


PLAIN = GramOptions()


class FactorRows(NamedTuple):
    """Rows in the charts of each factor of a product of spaces, for :class:`Term`.

    The invariant of a pair in factor f is ``|p_f - q_f|^2 s(p_f) s(q_f)``.
    """

    #: Coordinates of all factors, shape (factors * width, m).
    points: Any
    #: The numbers s, shape (factors, m).
    scales: Any
    width: int
    #: Whether coordinates that differ by two are the same.
    periodic: bool


class Term(NamedTuple):
    """A matrix ``profile(L @ R.T)`` that is still to be computed.

    Of :class:`FactorRows` it is ``exp(sum_f profile(u_f))``, u_f the invariants of a pair; the profiles
    of its parameters are then derivatives of ``profile``.
    """

    L: Any
    R: Any
    profile: Profile
    options: GramOptions


#: A sum of products of terms, each with a factor: a number, or a tensor without axes.
Products = Sequence[tuple[Any, Sequence[Term]]]


#: Largest number of terms of a sum of products that are computed in one pass.
MOST_TERMS = 8


def product_of_sums(sums: Sequence[Products | None]) -> Products | None:
    """Products of one from each of several sums; None if one of these is not known."""
    result: Products = [(1.0, [])]
    for each in sums:
        if each is None:
            return None
        result = [(f * g, [*terms, *more]) for f, terms in result for g, more in each]
    return result


class Engine(ABC):
    """Profiles applied to matrix products, for the arrays of one library or device.

    A subclass says which arrays it accepts and implements :meth:`gram` and :meth:`apply`.  Products with
    vectors follow, tile by tile.  :func:`register_engine` makes the engine available.
    """

    #: Whether results carry derivatives with respect to operands, scales and parameters.
    differentiable = False
    #: Whether products may be of sparse matrices and of :mod:`mercer.engine.operands` too.
    takes_operands = False
    #: Whether a row is rounded the same in all operations, whatever array it is part of.
    rounds_alike = True
    #: Whether sums and products of Gram matrices are computed in one pass; see :meth:`joined`.
    joins = False
    #: Rows and columns of the tiles that a product with vectors is summed from.
    side = 2048

    @abstractmethod
    def accepts(self, array: Any) -> bool:
        """Tell whether the engine computes with an array."""

    @abstractmethod
    def gram(self, L: Any, R: Any, profile: Profile, options: GramOptions = PLAIN) -> Any:
        """Gram matrix ``profile(L @ R.T)``.

        Parameters
        ----------
        L, R : arrays of shape (m, k) and (p, k)
            Or operands, if the engine takes them.
        profile : Profile
        options : GramOptions

        Returns
        -------
        array of shape (m, p)
        """

    @abstractmethod
    def apply(self, w: Any, profile: Profile, options: GramOptions = PLAIN) -> Any:
        """Values ``profile(w)`` at an array of invariants, which is kept; see :meth:`gram`."""

    def matvec(self, L: Any, R: Any, profile: Profile, v: Any, options: GramOptions = PLAIN) -> Any:
        """Product ``profile(L @ R.T) @ v`` without the Gram matrix; see :meth:`gram`.

        Parameters
        ----------
        v : array of shape (p,) or (p, q)

        Returns
        -------
        array of shape (m,) or (m, q)
        """
        xp = array_namespace(L)
        v = floating_beside(placed(v, L), L)
        dtype = xp.result_type(L.dtype, v.dtype)
        v = xp.astype(v, dtype, copy=False)
        if 0 in (L.shape[0], R.shape[0]):
            return xp.zeros((L.shape[0], *v.shape[1:]), dtype=dtype, device=device(L))

        def products(rows: slice, columns: slice) -> tuple[Any, ...]:
            part = replace(options.part(rows, columns), dtype=dtype)
            tile = self.gram(L[rows, :], R[columns, :], profile, part)
            ahead = tile @ v[columns, ...]
            if not options.symmetric or part.symmetric:
                return (ahead,)
            return ahead, tile.T @ v[rows, ...]  # its mirror image below the diagonal

        sums: dict[int, Any] = {}
        for place in places((L.shape[0], R.shape[0]), (self.side, self.side), options.symmetric):
            for part, values in zip(place, self._forget(products, *place), strict=False):
                sums[part.start] = sums[part.start] + values if part.start in sums else values
        return xp.concat([sums[start] for start in sorted(sums)])

    def weighted_sum(self, products: Products, weights: Any) -> Any:
        """Sum of weights times a sum of products of Gram matrices, which is not stored.

        None if that is not possible.  Weights are an array of shape (m, p).
        """
        return None

    def joined(self, products: Products, v: Any = None) -> Any:
        """A sum of products of Gram matrices, computed in one pass; None if that is not possible.

        If vectors v are given, the product with them, without the matrix, which is not symmetric.
        """
        return None

    def extent(self, X: Any) -> Extent | None:
        """Statistics of rows from one pass, if that is cheaper than checking them; else None."""
        return None

    def unit_rows(self, X: Any) -> Any:
        """Rows divided by their lengths, whatever their scale; rows of zeros stay as they are."""
        return unit_rows(X)

    def roots_of_shares(self, X: Any) -> Any:
        """Square roots of rows divided by their sums, whatever their scale."""
        return roots_of_shares(X)

    def equal_rows(self, X: Any, Y: Any, value: float) -> Equal | NumberedRows | None:
        """See :func:`mercer.engine.equal.equal_rows`."""
        return equal_rows(X, Y, value)

    def evaluate(self, functions: Functions, points: Any) -> Any:
        """Values of functions at points, shape (m, n_features)."""
        return functions.evaluate(points)

    def serving(self, array: Any) -> Engine:
        """The engine that computes with an array it accepts: this one, or that of the array's device."""
        return self

    def write(self, functions: Functions, points: Any, out: Any) -> None:
        """Write the values of functions at a few points into an array, in this thread."""
        out[...] = functions.evaluate(points)

    def borrow(self, X: Any) -> Any:
        """Rows, or vectors, as an array that the engine can compute with, in the same memory."""
        return X

    def resident(self, X: Any) -> Any:
        """Rows for sums over them: on their device, or None for a copy in main memory."""
        return None

    def like_rows(self, values: Any, X: Any) -> Any:
        """Results for such rows, perhaps in main memory, as an array of their library."""
        return values

    def rows_at_once(self, X: Any, least: int, width: int) -> int:
        """Number of rows to process at a time, at least ``least``; each takes ``width`` numbers."""
        return least

    def lanes(self, X: Any) -> int:
        """Number of threads for a loop over rows."""
        return 1

    def exhausted(self, error: BaseException) -> bool:
        """Whether an error says that a device is out of memory for a computation of this size."""
        return False

    def inverse_factor(self, B: Any) -> tuple[Any, float]:
        """``L^-1`` and ``log |B|`` for ``B = L L'``, which is used up; NaN where B is singular."""
        raise TypeError(f"{type(self).__name__} cannot factor matrices")

    def multiplied(self, K: Any, factor: float) -> Any:
        """A matrix times a number; it may be overwritten."""
        return K * factor

    def added(self, K: Any, other: Any, factor: float = 1.0) -> Any:
        """``K + factor * other``; K may be overwritten."""
        return K + (other if factor == 1 else other * factor)

    def added_gram(self, K: Any, L: Any, R: Any, profile: Profile, options: GramOptions = PLAIN) -> Any:
        """K plus a Gram matrix, see :meth:`gram`; K, symmetric if that is, may be overwritten."""
        return self.added(K, self.gram(L, R, profile, options))

    def _forget(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function without keeping its intermediate results, even for derivatives."""
        return function(*arguments)


def threads_for(rows: int) -> int:
    """Number of threads worth using for a loop over so many rows in main memory."""
    return max(1, min(threads_in_use(), -(-rows // _FEW)))


def places(shape: tuple[int, int], tile: tuple[int, int], symmetric: bool) -> list[Place]:
    """Rows and columns of the tiles of a matrix; of a symmetric one, on and above the diagonal."""
    (rows, columns), (height, width) = shape, tile
    return [
        (slice(i, min(i + height, rows)), slice(j, min(j + width, columns)))
        for i in range(0, rows, height)
        for j in range(i if symmetric else 0, columns, width)
    ]


_ENGINES: list[Engine] = []


def register_engine(engine: Engine) -> None:
    """Register an engine; it takes precedence over those registered earlier."""
    _ENGINES.insert(0, engine)


def joins(array: Any, sizes: tuple[int, int] | None) -> bool:
    """Tell whether a sum of products of Gram matrices of an array may be computed in one pass.

    ``sizes`` are the numbers of products and of their terms, if it is such a sum.
    """
    if sizes is None or sizes[1] > MOST_TERMS:
        return False
    engine = next((engine for engine in _ENGINES if engine.accepts(array)), None)
    return engine is not None and engine.serving(array).joins


def combined(factor: float, K: Any, plus: Any = None) -> Any:
    """``factor * K + plus``; both matrices may be overwritten."""
    if plus is not None:
        plus, K = together(plus, K)
        return engine_for(plus).added(plus, K, factor)
    return K if factor == 1 else engine_for(K).multiplied(K, factor)


def engine_for(array: Any) -> Engine:
    """Return the engine for an array: the only place where engines are chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.engine import engine_for
    >>> type(engine_for(np.eye(3))).__name__
    'NumpyEngine'
    """
    for engine in _ENGINES:
        if engine.accepts(array):
            return engine.serving(array)
    raise TypeError(f"no engine of mercer computes with {type(array).__name__}")
