"""Products of spaces: mixed tables, each space on its own columns."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial, reduce
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray
from scipy import sparse

from mercer._arrays import count
from mercer._validation import is_number, is_whole
from mercer.engine import Engine
from mercer.engine.equal import row_keys
from mercer.laws import Diffusion, Law, mixture_shares
from mercer.spaces.base import Space
from mercer.spaces.categories import as_table
from mercer.spaces.realisations import sampling
from mercer.spaces.realisations.base import Moving, Realisation, Similarities, Slope
from mercer.spaces.realisations.normalisation import normalised, normalised_slope, positive
from mercer.spaces.realisations.zonal import absolute_factor

Array = NDArray[np.float64]
#: Columns of a factor: positions, names, or a slice.
Columns = tuple[Any, ...] | slice

#: Points from which the range of a mixture is learnt, and pairs of rows of a block of a product.
_MIXTURE_SAMPLE, _BLOCK = 200, 2_000_000
_product_of = partial(reduce, operator.mul)
#: Step of the logarithm of a time, for derivatives of the value at equal points.
_STEP = 4e-3


class ProductSpace(Space):
    """A product of spaces, ``K_t(x, y) = prod_j K_t(x_j, y_j)`` for the heat kernel.

    Heat flows in each factor on its own.  ``Matern`` is the mixture of these products over times of a
    Gamma distribution with the shape ``nu + d / 2``, d the sum of the factors' dimensions; it takes
    about a hundred times as long.  Laws that are not mixtures of diffusions are refused.

    The natural unit of time is the largest of the factors', where all have one.

    Parameters
    ----------
    *spaces : Space
        The factors.
    columns : sequence, one for each factor
        Its columns: a list of positions, a slice, or, for data frames, a list of names; one position or
        name stands for a list of it.  Other columns are not looked at.
    times : sequence of float, optional
        Factors of the time, one for each space: the heat kernel at time t is that of ``times[j] * t`` in
        factor j.  By default 1 for all.

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

    def __init__(self, *spaces: Space, columns: Sequence[Any], times: Any = None) -> None:
        if not spaces or not all(isinstance(space, Space) for space in spaces):
            raise TypeError(f"give the spaces that the product is of, got {spaces!r}")
        if isinstance(columns, str) or not isinstance(columns, Sequence):
            raise TypeError(f"columns must be a list with an entry for each space, got {columns!r}")
        if len(columns) != len(spaces):
            raise ValueError(f"{len(spaces)} spaces need columns each, got {len(columns)} of them")
        self.spaces = spaces
        self.times = _check_times([1.0] * len(spaces) if times is None else times, len(spaces))
        self._columns = tuple(_check_columns(given) for given in columns)
        # Rows of numbers throughout, in columns without names.
        numbers = all(space.requires_vector_input for space in spaces)
        self.requires_vector_input = numbers and not any(map(_is_named, self._columns))
        self.computes_in_double = any(space.computes_in_double for space in spaces)
        self.takes_sparse = all(getattr(space, "takes_sparse", False) for space in spaces)

    def check(self, X: Any, name: str = "X") -> ProductPoints:
        """Rows of a table, data frame, sparse matrix or tensor as checked points of each factor."""
        split = self._split(X, name)
        return ProductPoints([self._ask(j, self.spaces[j].check, part, name) for j, part in split])

    def check_pair(self, X: Any, Y: Any) -> tuple[ProductPoints, ProductPoints | None]:
        """See :meth:`Space.check_pair`."""
        if Y is None or Y is X:
            return self.check(X, "X"), None
        parts = zip(self._split(X, "X"), self._split(Y, "Y"), strict=True)
        pairs = [self._ask(j, self.spaces[j].check_pair, x, y) for (j, x), (_, y) in parts]
        left, right = zip(*pairs, strict=True)
        return ProductPoints(left), ProductPoints(right)

    def _split(self, X: Any, name: str) -> list[tuple[int, Any]]:
        """Columns of each factor."""
        if not hasattr(X, "shape"):
            X = as_table(X, name)
        if len(X.shape) != 2:
            raise ValueError(f"Expected a 2D array, got {name} of shape {tuple(X.shape)}")
        X = X.tocsc() if sparse.issparse(X) else X
        names = list(X.columns) if hasattr(X, "columns") else None
        parts = []
        for j, space in enumerate(self.spaces):
            where = self._ask(j, _positions, self._columns[j], int(X.shape[1]), names, name)
            part = _take(X, where)
            numbers = space.requires_vector_input
            parts.append((j, self._ask(j, _as_numbers, part, name) if numbers else part))
        return parts

    def _ask(self, j: int, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call something of a factor, and name the factor in its complaints."""
        try:
            return call(*arguments)
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            where = _shown(self._columns[j])
            raise kind(f"{error} (factor {j}, {self.spaces[j]!r} on columns {where})") from error

    def columns(self, P: Any) -> Any:
        """Columns of the checked points of each factor, as a tuple: see :meth:`Space.columns`."""
        parts = zip(self.spaces, P.parts, strict=True)
        return tuple(space.columns(part) for space, part in parts)

    def engine(self, P: ProductPoints) -> Engine:
        """See :meth:`Space.engine`; that of the first factor."""
        return self.spaces[0].engine(P.parts[0])

    def natural_time(self, n: Any) -> float | None:
        """The largest of the factors', if all have one: see :meth:`Space.natural_time`."""
        units = [space.natural_time(size) for space, size in self._each(n)]
        known = [unit / time for unit, time in zip(units, self.times, strict=True) if unit is not None]
        return max(known) if len(known) == len(units) else None

    def dimension(self, n: Any) -> int:
        """The sum of the factors': see :meth:`Space.dimension`."""
        return sum(space.dimension(size) for space, size in self._each(n))

    def _each(self, n: Any) -> list[tuple[Space, Any]]:
        """Factors with their numbers of columns."""
        sizes = n if isinstance(n, tuple) else (n,) * len(self.spaces)
        return list(zip(self.spaces, sizes, strict=True))

    def check_time(self, t: float) -> None:
        """See :meth:`Space.check_time`."""
        for j, (space, time) in enumerate(zip(self.spaces, self.times, strict=True)):
            self._ask(j, space.check_time, t * time)

    def realise(self, law: Law, n: Any, normalized: bool = True) -> ProductRealisation:
        """A product over the factors: see :meth:`Space.realise`."""
        return ProductRealisation(self, law, n, normalized)

    def factor_heat(self, t: float, n: Any, normalized: bool) -> list[Realisation]:
        """Heat kernels of the factors at a time of the product."""
        self.check_time(t)
        return [
            self._ask(j, space.realise, Diffusion(t * time), size, normalized)
            for j, ((space, size), time) in enumerate(zip(self._each(n), self.times, strict=True))
        ]

    def sample(self, size: int, rng: np.random.Generator, clusters: int | None = None) -> Any:
        """See :meth:`Space.sample`; factors without columns of a number of their own have any."""
        if any(map(_is_named, self._columns)):
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
            for (j, part), move in zip(self._split(X, "X"), moves, strict=True):
                if move is not None:
                    Y[:, _positions(self._columns[j], X.shape[1], None, "X")] = move(part)
            return Y

        return moved

    def _identity(self) -> tuple[Any, ...]:
        return self.spaces, tuple(map(_shown, self._columns)), self.times

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProductSpace) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        spaces = ", ".join(map(repr, self.spaces))
        columns = ", ".join(map(_shown, self._columns))
        times = "" if set(self.times) == {1.0} else f", times={list(self.times)}"
        return f"ProductSpace({spaces}, columns=[{columns}]{times})"


class ProductPoints:
    """Checked points of a product: those of each factor, which are cut and counted together."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = tuple(parts)

    def __len__(self) -> int:
        return count(self.parts[0])

    def __getitem__(self, rows: Any) -> ProductPoints:
        return ProductPoints([part[rows] for part in self.parts])


class ProductRealisation(Realisation):
    """``K = sum_k omega_k prod_j K_jk(x_j, y_j)``, K_jk the heat kernel of factor j at time t_k.

    A diffusion has one time.  In a mixture, factors whose kernel is constant on the diagonal are
    normalised, and their values there are parts of the weights, so that nothing overflows.
    """

    def __init__(self, space: ProductSpace, law: Law, n: Any, normalized: bool) -> None:
        self._space, self._n, self._normalized = space, n, normalized
        self._times, self._logs, self._growth = law.times(space.dimension(n))
        self._single = len(self._times) == 1

    @cached_property
    def heat(self) -> list[Realisation]:
        """Kernels of the factors of a diffusion."""
        return self._space.factor_heat(float(self._times[0]), self._n, self._normalized)

    def _at(self, t: float) -> tuple[list[Realisation], list[float | None]]:
        """Kernels at a time, normalised where the diagonal is constant, and its logarithm there."""
        even, plain = (self._space.factor_heat(t, self._n, normalized) for normalized in (True, False))
        logs = [_log_value(kernel) for kernel in even]
        kernels = [p if log is None else e for e, p, log in zip(even, plain, logs, strict=True)]
        return kernels, logs

    @cached_property
    def _mixture(self) -> tuple[float, list[tuple[float, float, list[Realisation]]]]:
        """Logarithm of the sum of weights; time, share and kernels of the diffusions that matter."""
        times = self._times.tolist()
        logs = self._logs + np.array([self._log_value(t) for t in times])
        total, shares, heavy = mixture_shares(logs)
        return total, [(times[k], float(shares[k]), self._at(times[k])[0]) for k in heavy]

    def _log_value(self, t: float) -> float:
        """Logarithm of the values at equal points, of factors where these are constant."""
        return sum(value or 0.0 for value in self._at(t)[1])

    @cached_property
    def _divides(self) -> bool:
        """Whether values have to be divided by lengths of points."""
        return not self._single and self._normalized and None in self._at(float(self._times[-1]))[1]

    @property
    def _factor(self) -> float:
        log_value = None if self._normalized else self._mixture[0]
        return absolute_factor(log_value, self._space.dimension(self._n))

    @property
    def log_self_similarity(self) -> float:
        """See :class:`Realisation`."""
        logs = self._at(float(self._times[-1]))[1]
        if None in logs:
            return super().log_self_similarity
        return self._log_value(float(self._times[0])) if self._single else self._mixture[0]

    def gram(self, P: Any, Q: Any = None, moving: Sequence[Moving] = ()) -> Any:
        """See :class:`Realisation`."""
        if self._single:
            return self._product(self.heat, P, Q, moving)
        K = self._factor * self._mixed(lambda kernels: self._product(kernels, P, Q, moving), moving)
        return normalised(K, P, Q, self._plain_diagonal)[0] if self._divides else K

    def diagonal(self, P: Any, moving: Sequence[Moving] = ()) -> Any:
        """See :class:`Realisation`."""
        values = self._plain_diagonal(P, moving)
        return values / positive(values, "X") if self._divides else values

    def _plain_diagonal(self, P: Any, moving: Sequence[Moving] = ()) -> Any:
        def diagonals(kernels: list[Realisation]) -> Any:
            parts = enumerate(zip(kernels, P.parts, strict=True))
            return _product_of(k.diagonal(x, self._factor_moving(moving, j)) for j, (k, x) in parts)

        return diagonals(self.heat) if self._single else self._factor * self._mixed(diagonals, moving)

    def matvec(self, P: Any, Q: Any, v: Any, moving: Sequence[Moving] = ()) -> Any:
        """See :class:`Realisation`; block by block of rows."""
        if not self._space.engine(P).takes_operands:
            return None
        others = P if Q is None else Q
        size = max(1, _BLOCK // len(others))
        blocks = (P[start : start + size] for start in range(0, len(P), size))
        return np.concatenate([self.gram(block, others) @ v for block in blocks])

    def log(self, P: Any, Q: Any = None) -> Any:
        """See :class:`Realisation`; the sum of those of the factors."""
        if not self._single:
            raise TypeError("logarithms are known of heat kernels only")
        logs = [kernel.log(x, y) for kernel, x, y in zip(self.heat, *_both(P, Q), strict=True)]
        return reduce(operator.add, logs)

    def slopes(self, P: Any, slopes: Sequence[Slope]) -> tuple[Any, list[Any]]:
        """See :class:`Realisation`; all are multiples of the derivative by the time."""
        if not self._space.engine(P).takes_operands:
            raise TypeError("eval_gradient is for NumPy and SciPy rows; tensors have autograd")
        if self._single:
            K, rise = self._with_rise(self.heat, float(self._times[0]), P)
        else:
            K, rise = self._mixed_rise(P)
        return K, [slope.chain * rise for slope in slopes]

    def _mixed_rise(self, P: Any) -> tuple[Array, Array]:
        K = np.zeros((len(P), len(P)))
        rise = np.zeros_like(K)
        common = 0.0
        for t, share, kernels in self._mixture[1]:
            values, slope = self._with_rise(kernels, t, P)
            ends = [self._log_value(t * math.exp(k * _STEP)) for k in (-2, -1, 1, 2)]
            own = self._growth + float(np.dot([1, -8, 8, -1], ends)) / (12 * _STEP)
            K += share * values
            rise += share * (slope + own * values)
            common += share * own
        if self._divides:
            K, squares = normalised(K, P, None, self._plain_diagonal)
            return K, normalised_slope(rise, K, squares)
        factor = self._factor
        if self._normalized:
            rise -= common * K
            np.fill_diagonal(rise, 0.0)
        return factor * K, factor * rise

    def _with_rise(self, kernels: list[Realisation], t: float, P: Any) -> tuple[Array, Array]:
        """Product of the factors' Gram matrices, and its derivative by the logarithm of the time."""
        pairs = []
        for kernel, part, time in zip(kernels, P.parts, self._space.times, strict=True):
            K, (slope,) = kernel.slopes(part, [_time_slope("t", 1.0, t * time)])
            pairs.append((K, slope))
        grams = [K for K, _ in pairs]
        terms = (_product_of([*grams[:j], s, *grams[j + 1 :]]) for j, (_, s) in enumerate(pairs))
        return _product_of(grams), reduce(operator.add, terms)

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

    def _mixed(self, call: Callable[[list[Realisation]], Any], moving: Sequence[Moving]) -> Any:
        if moving:
            raise TypeError("a mixture over times is not differentiable in its range; detach it")
        return reduce(operator.add, (share * call(kernels) for _, share, kernels in self._mixture[1]))

    def _product(self, kernels: Any, P: Any, Q: Any, moving: Sequence[Moving]) -> Any:
        parts = enumerate(zip(kernels, *_both(P, Q), strict=True))
        return _product_of(k.gram(x, y, self._factor_moving(moving, j)) for j, (k, x, y) in parts)

    def _factor_moving(self, moving: Sequence[Moving], j: int) -> list[Moving]:
        """Hyperparameters as tensors, for one factor of a diffusion."""

        def moved(move: Any, shift: float) -> tuple[Realisation, Slope]:
            whole, slope = move(shift)
            time = float(whole._times[0]) * self._space.times[j]
            return whole.heat[j], _time_slope(slope.name, slope.chain, time)

        return [(tensor, partial(moved, move)) for tensor, move in moving]


def _time_slope(name: str, chain: float, t: float) -> Slope:
    """How a diffusion changes with the logarithm of a hyperparameter of its time."""
    return Slope(name, chain, lambda eigenvalues: -chain * t * eigenvalues)


def _log_value(kernel: Realisation) -> float | None:
    """Logarithm of the value at equal points, if it is the same for all."""
    try:
        return kernel.log_self_similarity
    except TypeError:
        return None


def _both(P: Any, Q: Any) -> tuple[Any, Any]:
    return P.parts, [None] * len(P.parts) if Q is None else Q.parts


def _keys(part: Any) -> NDArray[Any]:
    """Numbers that equal points have in common."""
    if not isinstance(part, ProductPoints):
        return row_keys(part if len(part.shape) == 2 else part[:, None])
    found = np.stack([_keys(each) for each in part.parts], axis=1)
    return np.unique(found, axis=0, return_inverse=True)[1].ravel().astype(np.uint64)


def _check_columns(given: Any) -> Columns:
    if isinstance(given, slice):
        return given
    if isinstance(given, str) or is_whole(given):
        return (given,)
    if isinstance(given, Sequence | np.ndarray) and len(given):
        columns = tuple(int(c) if is_whole(c) else c for c in given)
        if len({isinstance(c, int) for c in columns}) == 1 and len(set(columns)) == len(columns):
            return columns
    raise ValueError(f"columns of a factor are different positions, names or a slice, got {given!r}")


def _check_times(times: Any, number: int) -> tuple[float, ...]:
    each = tuple(times) if isinstance(times, Iterable) else ()
    if len(each) != number or not all(is_number(t) and 0 < float(t) < np.inf for t in each):
        raise ValueError(f"times must be {number} positive numbers, one for each space, got {times!r}")
    return tuple(float(t) for t in each)


def _is_named(columns: Columns) -> bool:
    return not isinstance(columns, slice) and not isinstance(columns[0], int)


def _shown(columns: Columns) -> str:
    return repr(columns if isinstance(columns, slice) else list(columns))


def _positions(columns: Columns, width: int, names: list[Any] | None, name: str) -> list[int]:
    """Positions of a factor's columns among those of a table."""
    if _is_named(columns):
        if names is None:
            raise ValueError(
                f"columns have names, but {name} has none: give a data frame, or positions (estimators "
                "of scikit-learn hand arrays on)"
            )
        named: Any = columns
        if not set(named) <= set(names):
            raise ValueError(f"{name} has no column {next(c for c in named if c not in names)!r}")
        return [names.index(column) for column in named]
    where = list(range(*columns.indices(width))) if isinstance(columns, slice) else list(columns)
    ends = (
        [columns.stop or 0] if isinstance(columns, slice) else [p + 1 if p >= 0 else -p for p in where]
    )
    if not where or max(ends) > width:
        raise ValueError(f"{name} has {width} columns, too few")
    return where


def _take(X: Any, where: list[int]) -> Any:
    """Columns of an array, sparse matrix, tensor or data frame."""
    if hasattr(X, "iloc"):
        return X.iloc[:, where]
    if isinstance(X, np.ndarray) or sparse.issparse(X):
        return X[:, where]
    if hasattr(X, "columns"):
        return X[:, where].to_numpy()
    xp = array_namespace(X)
    return xp.take(X, xp.asarray([w % X.shape[1] for w in where], device=device(X)), axis=1)


def _as_numbers(part: Any, name: str) -> Any:
    """Objects of a mixed table that are to be numbers; other arrays and data frames as they are."""
    kinds = getattr(part, "dtypes", [getattr(part, "dtype", None)])
    if not any(isinstance(kind, np.dtype) and kind.kind == "O" for kind in kinds):
        return part
    part = np.asarray(part, dtype=object)
    try:
        return part.astype(float)
    except (TypeError, ValueError):
        for (row, _), value in np.ndenumerate(part):
            try:
                float(value)
            except (TypeError, ValueError):
                raise ValueError(f"row {row} of {name} has {value!r}, not a number") from None
        raise
