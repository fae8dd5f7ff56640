"""Products of spaces: mixed tables, each space on its own columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._arrays import is_watched, on_cpu
from mercer._repr import listed
from mercer._validation import is_number
from mercer.engine import Engine
from mercer.laws import Diffusion, Law
from mercer.spaces.base import Space
from mercer.spaces.realisations import tables
from mercer.spaces.realisations.base import Realisation
from mercer.spaces.realisations.eigenfunctions import USUAL, Eigenfunctions, LogWeights
from mercer.spaces.realisations.eigenmaps import ProductFunctions
from mercer.spaces.realisations.products import ProductPoints, ProductRealisation


class ProductSpace(Space):
    """A product of spaces, ``K_t(x, y) = prod_j K_t(x_j, y_j)`` for the heat kernel.

    Heat flows in each factor on its own.  ``Matern`` is the mixture of these products over times of a
    Gamma distribution with the shape ``nu + d / 2``, d the sum of the factors' dimensions; it takes
    fifty to two hundred times as long.  Laws that are not mixtures of diffusions are refused.

    ``Heat(space, t=t)`` is the product of ``Heat(factor, t=t)`` over the factors, and ``Heat(space,
    t_star=s)`` that of ``Heat(factor, t_star=s)``: an absolute time is the same in all factors, and a
    time in natural units is in the unit of each.  These units depend on the number of columns, so that
    a factor with thousands of columns does not dominate one with two.  If a factor has no natural
    unit, the product has none.

    Parameters
    ----------
    *spaces : Space
        The factors.
    columns : sequence, one for each factor
        Its columns: a list of positions, a slice, or, for data frames, a list of names; one position or
        name stands for a list of one.
    times : sequence of float or "natural", optional
        Factors of the time, one for each space: the heat kernel at time t is that of ``times[j] * t`` in
        factor j.  The natural unit is then the largest of the factors' units divided by these numbers.
        "natural" takes the unit of each factor, even for absolute times.
    remainder : {"error", "drop"}
        What to do with columns that belong to no factor: refuse such tables, or ignore the columns.

    Examples
    --------
    >>> from mercer.kernels import Heat
    >>> from mercer.spaces import Categories, ProductSpace, Simplex, Sphere
    >>> space = ProductSpace(
    ...     Simplex(), Categories(), Sphere(coordinates="latlon"), columns=[slice(0, 3), [3], [4, 5]]
    ... )
    >>> rows = [[3, 0, 1, "red", 48.1, 11.6], [2, 1, 1, "red", 48.2, 16.4], [0, 4, 0, "blue", 1.3, 104]]
    >>> Heat(space, t=0.5)(rows).round(4)
    array([[1.    , 0.8892, 0.0622],
           [0.8892, 1.    , 0.1151],
           [0.0622, 0.1151, 1.    ]])
    """

    def __init__(
        self,
        *spaces: Space,
        columns: Sequence[Any],
        times: Any = None,
        remainder: Literal["error", "drop"] = "error",
    ) -> None:
        if not spaces or not all(isinstance(space, Space) for space in spaces):
            raise TypeError(f"the factors of a product must be spaces, got {spaces!r}")
        if isinstance(columns, str) or not isinstance(columns, Sequence):
            raise TypeError(f"columns must be a list with an entry for each space, got {columns!r}")
        if len(columns) != len(spaces):
            raise ValueError(
                f"columns must have an entry for each of {len(spaces)} spaces, got {len(columns)}"
            )
        if remainder not in ("error", "drop"):
            raise ValueError(f"remainder must be 'error' or 'drop', got {remainder!r}")
        self.spaces, self.remainder = spaces, remainder
        self.times = _check_times(times, spaces)
        self._columns = tuple(tables.check_columns(given) for given in columns)
        # Rows of numbers throughout, in columns without names.
        numbers = all(space.requires_vector_input for space in spaces)
        self.requires_vector_input = numbers and not any(map(tables.is_named, self._columns))
        self.computes_in_double = any(space.computes_in_double for space in spaces)
        self.takes_sparse = all(space.takes_sparse for space in spaces)

    def check(self, X: Any, name: str = "X") -> ProductPoints:
        """Rows of a table, data frame, sparse matrix or tensor as checked points of each factor."""
        split = self._split(X, name)
        return ProductPoints([self._ask(j, self.spaces[j].check, part, name) for j, part in split])

    def check_pair(self, X: Any, Y: Any) -> tuple[ProductPoints, ProductPoints | None]:
        if Y is None or Y is X:
            return self.check(X, "X"), None
        parts = zip(self._split(X, "X"), self._split(Y, "Y"), strict=True)
        pairs = [self._ask(j, self.spaces[j].check_pair, x, y) for (j, x), (_, y) in parts]
        left, right = zip(*pairs, strict=True)
        return ProductPoints(left), ProductPoints(right)

    def _split(self, X: Any, name: str) -> list[tuple[int, Any]]:
        """Columns of each factor."""
        if not hasattr(X, "shape"):
            X = tables.as_table(X, name)
        if len(X.shape) != 2:
            raise ValueError(f"Expected a 2D array, got {name} of shape {tuple(X.shape)}")
        X = X.tocsc() if sparse.issparse(X) else X
        names = list(X.columns) if hasattr(X, "columns") else None
        places = self._places(int(X.shape[1]), names, name)
        parts = []
        for j, space in enumerate(self.spaces):
            part = tables.take_columns(X, places[j])
            numbers = space.requires_vector_input
            parts.append((j, self._ask(j, tables.as_numbers, part, name) if numbers else part))
        return parts

    def _places(self, width: int, names: list[Any] | None, name: str) -> list[list[int]]:
        """Positions of the columns of each factor in a table."""
        places = [
            self._ask(j, tables.positions, columns, width, names, name)
            for j, columns in enumerate(self._columns)
        ]
        taken = {place % width for where in places for place in where}
        if self.remainder == "error" and len(taken) < width:
            left = [names[i] if names else i for i in range(width) if i not in taken]
            raise ValueError(
                f"{name} has columns that no factor takes: {listed(left)}; name them in columns, drop "
                "them, or use ProductSpace(..., remainder='drop')"
            )
        return places

    def _ask(self, j: int, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call a method of a factor, and name the factor in its errors."""
        try:
            return call(*arguments)
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            where = tables.shown(self._columns[j])
            raise kind(f"{error} (factor {j}, {self.spaces[j]!r} on columns {where})") from error

    def columns(self, P: Any) -> Any:
        """Columns of the checked points of each factor, as a tuple: see :meth:`Space.columns`."""
        parts = zip(self.spaces, P.parts, strict=True)
        return tuple(space.columns(part) for space, part in parts)

    def fixed_columns(self, given: int | None = None) -> Any:
        """Those of the factors, as a tuple: see :meth:`Space.fixed_columns`."""
        sizes = [None if given is None else tables.size(columns, given) for columns in self._columns]
        factors = zip(self.spaces, sizes, strict=True)
        return tuple(self._ask(j, space.fixed_columns, n) for j, (space, n) in enumerate(factors))

    def engine(self, P: ProductPoints) -> Engine:
        """See :meth:`Space.engine`; that of the first factor."""
        return self.spaces[0].engine(P.parts[0])

    def natural_time(self, n: Any) -> float | None:
        """One, or the largest unit where ``times`` are numbers: see :meth:`Space.natural_time`."""
        units = [space.natural_time(size) for space, size in self._each(n)]
        if None in units:
            return None
        if not isinstance(self.times, tuple):
            return 1.0
        return max(unit / time for unit, time in zip(units, self.times, strict=True) if unit is not None)

    def in_natural_units(self) -> ProductSpace:
        """The product with the natural unit of each factor, unless ``times`` are numbers."""
        if self.natural_time(2) is None:
            return self
        spaces = [space.in_natural_units() for space in self.spaces]
        times = "natural" if self.times is None else self.times
        return ProductSpace(*spaces, columns=self._columns, times=times, remainder=self.remainder)

    def factor_times(self, n: Any) -> tuple[float, ...]:
        """Factors by which a time of the product is multiplied in each space."""
        if self.times is None:
            return (1.0,) * len(self.spaces)
        if isinstance(self.times, tuple):
            return self.times
        return tuple(space.natural_time(size) or 1.0 for space, size in self._each(n))

    def dimension(self, n: Any) -> int:
        """The sum of the factors': see :meth:`Space.dimension`."""
        return sum(space.dimension(size) for space, size in self._each(n))

    def _each(self, n: Any) -> list[tuple[Space, Any]]:
        """Factors with their numbers of columns."""
        sizes = n if isinstance(n, tuple) else (n,) * len(self.spaces)
        return list(zip(self.spaces, sizes, strict=True))

    def check_time(self, t: float) -> None:
        """See :meth:`Space.check_time`; natural units depend on the number of columns."""
        if self.times != "natural":
            self._check_factor_times(t, self.factor_times(0))

    def _check_factor_times(self, t: float, times: Sequence[float]) -> None:
        for j, (space, time) in enumerate(zip(self.spaces, times, strict=True)):
            self._ask(j, space.check_time, t * time)

    def distances(self, X: Any, Y: Any = None) -> NDArray[np.float64]:
        """Distances ``sqrt(sum_j d_j^2 / time_j)`` with d_j those of the factors, and their times.

        The faster heat spreads in a factor, the smaller are its distances.

        Examples
        --------
        >>> from mercer.spaces import Categories, Euclidean, ProductSpace
        >>> space = ProductSpace(Euclidean(), Categories(), columns=[[0], [1]])
        >>> space.distances([[0.0, "a"]], [[2.0, "a"], [0.0, "b"]])
        array([[2., 1.]])
        """
        times = self.factor_times(self.columns(self.check(X)))
        left = self._split(X, "X")
        right = left if Y is None else self._split(Y, "Y")
        parts = zip(self.spaces, left, right, times, strict=True)
        squares = [
            on_cpu(self._ask(j, space.distances, x, y)) ** 2 / time
            for space, (j, x), (_, y), time in parts
        ]
        return np.sqrt(np.sum(squares, axis=0))

    def realise(self, law: Law, n: Any, normalized: bool = True) -> ProductRealisation:
        """A product over the factors: see :meth:`Space.realise`."""
        return ProductRealisation(self, law, n, normalized)

    def factor_heat(self, t: float, n: Any, normalized: bool) -> list[Realisation]:
        """Heat kernels of the factors at a time of the product."""
        times = self.factor_times(n)
        self._check_factor_times(t, times)
        return [
            self._ask(j, space.realise, Diffusion(t * time), size, normalized)
            for j, ((space, size), time) in enumerate(zip(self._each(n), times, strict=True))
        ]

    def eigenfunctions(self, n: Any, count: int | None, log_weights: LogWeights) -> ProductFunctions:
        """Products of those of the factors: see :meth:`Space.eigenfunctions`."""
        times, most = self.factor_times(n), USUAL if count is None else count
        factors = [
            self._ask(j, self._of_factor, *each, most, partial(_slowed, log_weights, time))
            for j, (each, time) in enumerate(zip(self._each(n), times, strict=True))
        ]
        return ProductFunctions.of(self, factors, times, most)

    @staticmethod
    def _of_factor(space: Space, n: Any, count: int, log_weights: LogWeights) -> Eigenfunctions:
        found = space.factor_eigenfunctions(n, count, log_weights)
        if found is None or found.n_points is not None:
            raise TypeError(
                "a product has eigenfunctions if all factors have them and are homogeneous: "
                "spheres of few columns, tori, rotations, and categories with stated labels"
            )
        return found

    def discrete_heat(self, t: float, n: Any) -> list[Realisation]:
        """Heat kernels of the factors of dimension 0, including those inside products."""
        found: list[Realisation] = []
        kernels = zip(self._each(n), self.factor_times(n), self.factor_heat(t, n, True), strict=True)
        for (space, size), time, kernel in kernels:
            if isinstance(space, ProductSpace):
                found += space.discrete_heat(t * time, size)
            elif space.dimension(size) == 0:
                found.append(kernel)
        return found

    def sample(self, size: int, rng: np.random.Generator, clusters: int | None = None) -> Any:
        """See :meth:`Space.sample`; each factor fills its columns."""
        if any(map(tables.is_named, self._columns)):
            raise TypeError(f"{self!r} names columns and cannot be sampled; give points")
        parts = [np.asarray(s.sample(size, rng, clusters)).reshape(size, -1) for s in self.spaces]
        places: list[Any] = []
        for j, (columns, part) in enumerate(zip(self._columns, parts, strict=True)):
            where: Any = columns
            if isinstance(columns, slice):
                where = range(*columns.indices((columns.start or 0) + part.shape[1]))
            if len(where) != part.shape[1]:
                raise TypeError(f"factor {j}, {self.spaces[j]!r}, samples {part.shape[1]} columns")
            places.append(list(where))
        width = 1 + max(max(where) for where in places)
        X = np.zeros((size, width), dtype=float if self.requires_vector_input else object)
        for where, part in zip(places, parts, strict=True):
            X[:, where] = part
        return X

    def isometry(self, rng: np.random.Generator) -> Callable[[Any], Any] | None:
        """See :meth:`Space.isometry`; that of each factor that has one."""
        moves = [space.isometry(rng) for space in self.spaces]
        if all(move is None for move in moves):
            return None

        def moved(X: Any) -> Any:
            Y = X.copy()
            places = self._places(X.shape[1], None, "X")
            for (j, part), move in zip(self._split(X, "X"), moves, strict=True):
                if move is not None:
                    Y[:, places[j]] = move(part)
            return Y

        return moved

    def _identity(self) -> tuple[Any, ...]:
        return self.spaces, tuple(map(tables.shown, self._columns)), self.times, self.remainder

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProductSpace) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        parts = [*map(repr, self.spaces), f"columns=[{', '.join(map(tables.shown, self._columns))}]"]
        if self.times is not None:
            parts.append(f"times={list(self.times) if isinstance(self.times, tuple) else self.times!r}")
        if self.remainder != "error":
            parts.append(f"remainder={self.remainder!r}")
        return f"ProductSpace({', '.join(parts)})"


def _slowed(log_weights: LogWeights, time: float, eigenvalues: Any) -> Any:
    return log_weights(time * eigenvalues)


def _check_times(times: Any, spaces: Sequence[Space]) -> tuple[float, ...] | Literal["natural"] | None:
    if times is None:
        return None
    if isinstance(times, str) and times == "natural":
        alone = [space for space in spaces if space.natural_time(2) is None]
        if alone:
            raise ValueError(f"{alone[0]!r} has no natural unit of time; give times as numbers")
        return "natural"
    each = tuple(times) if isinstance(times, Iterable) else ()
    if any(map(is_watched, each)):
        raise TypeError("a product of spaces is not differentiable in times; detach them")
    if len(each) != len(spaces) or not all(is_number(t) and 0 < float(t) < np.inf for t in each):
        raise ValueError(
            f"times must be 'natural', or {len(spaces)} positive numbers, one for each space, got "
            f"{times!r}"
        )
    return tuple(float(t) for t in each)
