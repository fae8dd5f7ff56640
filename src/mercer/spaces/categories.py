"""Categories: rows of labels, on the Hamming graph."""

from __future__ import annotations

import hashlib
import math
import numbers
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import brentq

from mercer._arrays import constant_rows, finite_rows
from mercer._validation import as_rows, is_whole, refuse_rows
from mercer.engine import engine_for
from mercer.laws import Law, Times
from mercer.profiles import Profile
from mercer.spaces.base import Embedding, Space
from mercer.spaces.realisations.base import Radial, Slope
from mercer.spaces.realisations.eigenfunctions import USUAL, LogWeights
from mercer.spaces.realisations.eigenmaps import EigenMap, LabelFunctions
from mercer.spaces.realisations.mixtures import TimeMixture
from mercer.spaces.realisations.tables import label_columns
from mercer.spaces.realisations.zonal import absolute_factor

Array = NDArray[np.float64]
#: Numbers of labels q, and how many columns have each.
Groups = tuple[tuple[int, int], ...]

#: Bits of the number that stands for a label: floats hold whole numbers up to 53 bits.
_BITS = 52
#: Values of a kernel that are tabulated, at most.
_MOST_VALUES = 2**18
#: Columns up to which the spectrum is summed.
_MOST_COLUMNS = 256
_SAMPLED_COLUMNS, _SAMPLED_LABELS = 4, 5
_MISSING = "has a missing label; drop such rows, or give missing labels a name of their own"


@dataclass(frozen=True, repr=False)
class Categories(Space, Embedding):
    """Rows of labels, ``K(x, y) = tanh(t)^m`` for rows that differ in m columns.

    A column with q labels is the complete graph on q nodes, and a row of p columns is a node of their
    product, the Hamming graph.  Its heat kernel is a product over the columns: ``(1 + (q - 1) e^(-q t))
    / q`` for labels that agree, and ``(1 - e^(-q t)) / (1 + (q - 1) e^(-q t))`` times that for labels
    that differ.  Without ``levels`` every column has the ratio of q = 2, which is ``tanh(t)``, whatever
    the number of its labels, and labels that were never seen are no exception.

    Labels may be strings, numbers, booleans, dates and tuples of these, mixed as you like, in lists of
    rows, arrays or data frames.  Labels are the same where Python says that they are equal: 1, 1.0 and
    True are one label, 1 and "1" are two.  Missing values (None, NaN, ``pandas.NA``) are refused.

    :meth:`check` turns each label into a whole number of 52 bits, a hash, so that points are an
    ordinary array.  The probability that two of d labels of a column have the same number is at most
    ``d^2 / 2^53``: 1e-6 for 10^5 labels.  Tensors hold numbers, which are taken as they are.

    Parameters
    ----------
    levels : int, sequence of int or sequence of sequences of labels, optional
        Number q of possible labels, one for all columns or one for each; or the labels of each column
        themselves, which features and sparse Gaussian processes need.  A column with more labels, or
        with others, is refused.

    Examples
    --------
    >>> from mercer.kernels import Heat
    >>> from mercer.spaces import Categories
    >>> Heat(Categories(), t=1.0)([["red", "S"], ["red", "L"], ["blue", "XXL"]]).round(4)
    array([[1.    , 0.7616, 0.58  ],
           [0.7616, 1.    , 0.58  ],
           [0.58  , 0.58  , 1.    ]])
    """

    levels: Any = None
    requires_vector_input = False
    computes_in_double = True
    magnifies = False

    def __post_init__(self) -> None:
        if self.levels is None:
            return
        given = self.levels
        if isinstance(given, list | tuple) and all(isinstance(each, list | tuple) for each in given):
            given = tuple(tuple(each) for each in given)
            object.__setattr__(self, "levels", given)
            sizes = [len(np.unique(codes)) for codes in self._codes]
            if not given or any(len(labels) != q for labels, q in zip(given, sizes, strict=True)):
                raise ValueError(f"labels of a column must be different, got {self.levels!r}")
            given = sizes
        each = np.atleast_1d(np.asarray(given, dtype=object)).tolist()
        if not each or not all(is_whole(q) and q >= 2 for q in each):
            raise ValueError(
                f"levels must be a whole number from 2 on, or one for each column, got {self.levels!r}"
            )
        if given is self.levels:
            whole = tuple(int(q) for q in each)
            object.__setattr__(self, "levels", whole[0] if is_whole(given) else whole)

    @cached_property
    def _codes(self) -> tuple[Array, ...]:
        """Numbers of the labels of each column, sorted; none unless labels are stated."""
        if not isinstance(self.levels, tuple) or not isinstance(self.levels[0], tuple):
            return ()
        columns = (np.fromiter(labels, dtype=object, count=len(labels)) for labels in self.levels)
        return tuple(np.sort(_numbered(column, "levels")) for column in columns)

    @property
    def sizes(self) -> Any:
        """Number of labels of all columns, or of each, or None."""
        return tuple(map(len, self._codes)) or self.levels

    @property
    def embedding(self) -> Categories:
        """See :class:`Space`."""
        return self

    def check(self, X: Any, name: str = "X") -> Any:
        """Turn labels into numbers that are equal where the labels are.

        ``X`` is a list of rows, an array or a data frame of shape (m, p); so is the result, in float64.

        Examples
        --------
        >>> from mercer.spaces import Categories
        >>> points = Categories().check([["red", 1], ["red", "1"]])
        >>> points[0] == points[1]
        array([ True, False])
        """
        if not engine_for(X).takes_operands:
            if self._codes:
                raise TypeError(f"{name} is a tensor of numbers, but {self!r} states labels")
            P = as_rows(X, name)
            refuse_rows(~finite_rows(P), name, "contains NaN or infinity; drop such rows")
            return self._with_columns(P, name)
        labels = label_columns(X, name)
        P = np.empty((len(labels[0]), len(labels)))
        for j, column in enumerate(labels):
            P[:, j] = _numbered(column, name)
        self._with_columns(P, name)
        for j, codes in enumerate(self._codes):
            other = np.flatnonzero(~np.isin(P[:, j], codes))
            if other.size:
                raise ValueError(
                    f"row {other[0]} of {name} has the label {labels[j][other[0]]!r} in column {j}, "
                    f"which is not among its levels {self.levels[j]!r}"
                )
        return P

    def _with_columns(self, P: Any, name: str) -> Any:
        """The same, if there are as many columns as levels."""
        if isinstance(self.levels, tuple) and len(self.levels) != P.shape[1]:
            raise ValueError(f"{name} has {P.shape[1]} columns, but {self!r} has {len(self.levels)}")
        return P

    def check_pair(self, X: Any, Y: Any) -> tuple[Any, Any]:
        """See :meth:`Space.check_pair`; both sets must have the same columns."""
        P, Q = super().check_pair(X, Y)
        if Q is not None and engine_for(P) is not engine_for(Q):
            raise TypeError("X and Y must be arrays of one library")
        if Q is not None and P.shape[1] != Q.shape[1]:
            raise ValueError(f"X has {P.shape[1]} columns, Y has {Q.shape[1]}; they must agree")
        return P, Q

    def fixed_columns(self) -> int:
        """See :meth:`Space.fixed_columns`."""
        if not isinstance(self.levels, tuple):
            raise ValueError(f"{self!r} does not know the number of columns; give X, or levels for each")
        return len(self.levels)

    def dimension(self, n: int) -> int:
        """Zero, as on other graphs: see :meth:`Space.dimension`."""
        return 0

    def natural_time(self, n: int) -> float:
        """``log(2 p) / 2`` for p columns, at which ``tanh(t)`` is near ``1 - 1 / p``.

        With ``levels`` the time at which the sum of ``q e^(-q t)`` over the columns is 1.
        """
        groups = self._groups(n)
        columns = sum(p for _, p in groups)
        latest = max(math.log(q * columns) / q for q, _ in groups)
        if len(groups) == 1:
            return latest
        counts = np.array(groups)
        return float(brentq(lambda t: counts.prod(1) @ np.exp(-counts[:, 0] * t) - 1, 0.0, latest))

    def _groups(self, n: int) -> Groups:
        """Columns with as many labels each."""
        if isinstance(self.sizes, tuple):
            return tuple(sorted(Counter(self.sizes).items()))
        return ((self.sizes or 2, n),)

    def _steps(self, n: int) -> list[int]:
        """What agreement in each column counts, so that the sum tells how many of each group agree."""
        if not isinstance(self.sizes, tuple):
            return [1] * n
        steps, step = {}, 1
        for q, p in self._groups(n):
            steps[q] = step
            step *= p + 1
        return [steps[q] for q in self.sizes]

    def embed(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        """Indicators of the labels of each column: see :meth:`Embedding.embed`.

        The invariant is the number of columns that agree; with ``levels`` that differ it is one whole
        number that tells how many columns with q labels agree, for each q.
        """
        steps = self._steps(int(X.shape[1]))
        join = _indicators if engine_for(X).takes_operands else _dense_indicators
        limits = self.sizes if isinstance(self.sizes, tuple) else [self.sizes] * len(steps)
        return join(X, X if Y is None else Y, steps, limits)

    def self_invariant(self, X: Any) -> Any:
        """All columns agree: see :meth:`Embedding.self_invariant`."""
        return constant_rows(X, float(sum(self._steps(int(X.shape[1])))))

    def realise(self, law: Law, n: int, normalized: bool = True) -> CategoryTable:
        """A table over the number of columns that agree: see :meth:`Space.realise`."""
        if law.levels is not None:
            raise TypeError("weights on categories must be a function of the Laplacian's eigenvalues")
        return CategoryTable(self, law, n, normalized)

    def eigenfunctions(self, count: int | None, log_weights: LogWeights) -> LabelFunctions:
        """Products of contrasts of labels: see :meth:`Space.eigenfunctions`."""
        if not self._codes:
            raise TypeError(
                "features of categories need the labels of each column, such as "
                f"Categories(levels=[['a', 'b'], ['x', 'y', 'z']]), got {self!r}"
            )
        return LabelFunctions.of(self, self._codes, USUAL if count is None else count, log_weights)

    def sample(self, size: int, rng: np.random.Generator, clusters: int | None = None) -> Any:
        """See :meth:`Space.sample`; strings, and the same row many times in clusters."""
        levels = self.sizes if isinstance(self.sizes, tuple) else [self.sizes] * _SAMPLED_COLUMNS
        counts = [min(q or _SAMPLED_LABELS, _SAMPLED_LABELS) for q in levels]
        names = self.levels if self._codes else [[f"label {k}" for k in range(q)] for q in counts]
        columns = [[labels[k] for k in rng.integers(0, len(labels), size)] for labels in names]
        rows = np.array(columns, dtype=object).T.copy()
        return rows if clusters is None else rows[rng.integers(0, clusters, size=size)]

    def isometry(self, rng: np.random.Generator) -> Callable[[Any], Any]:
        """See :meth:`Space.isometry`; other names of the labels, and another order of the columns."""

        def renamed(X: Any) -> Any:
            Y = X.copy()
            for j, column in enumerate(Y.T):
                labels, codes = np.unique(column.astype(str), return_inverse=True)
                new = np.char.add("new ", rng.permutation(labels))
                column[:] = (rng.permutation(self.levels[j]) if self._codes else new)[codes]
            return Y if isinstance(self.sizes, tuple) else Y[:, rng.permutation(Y.shape[1])]

        return renamed


@dataclass(frozen=True, eq=False)
class WholeProfile:
    """A profile of whole numbers from 0 on, as the list of its values."""

    values: Array
    error: float = 0.0

    def apply(self, tile: NDArray[Any]) -> None:
        """See :class:`~mercer.profiles.Profile`."""
        tile[...] = self.values[np.rint(tile).astype(np.intp)]

    def evaluate(self, w: Any) -> Any:
        """See :class:`~mercer.profiles.Profile`."""
        xp = array_namespace(w)
        values = xp.asarray(self.values, dtype=w.dtype, device=device(w))
        places = xp.astype(xp.round(xp.reshape(w, (-1,))), xp.int64)
        return xp.reshape(xp.take(values, places), w.shape)


class CategoryTable(Radial):
    """A law on the Hamming graph, as the values at all numbers of columns that agree."""

    def __init__(self, space: Categories, law: Law, n: int, normalized: bool) -> None:
        self.embedding = space
        self._space, self._law, self._n, self._normalized = space, law, n, normalized
        self._groups = space._groups(n)
        count = math.prod(p + 1 for _, p in self._groups)
        if count > _MOST_VALUES:
            raise ValueError(
                f"{space!r} has {len(self._groups)} different numbers of levels, too many for a table "
                f"of {count} values; give a product of spaces, ProductSpace(Categories(2), ...)"
            )

    @cached_property
    def _table(self) -> _Diffusions | _Levels:
        try:
            times = self._law.times(0)
        except TypeError:  # the law mixes no diffusions
            return _Levels(self._space, self._law, self._n)
        return _Diffusions(self._groups, times)

    @property
    def log_self_similarity(self) -> float:
        """See :class:`Realisation`."""
        return self._table.log_total

    def profile(self) -> Profile:
        """See :class:`Radial`."""
        return self._scaled(self._table.values)

    def slope_profile(self, slope: Slope) -> Profile:
        """See :class:`Radial`."""
        return self._scaled(self._table.slopes(slope, self._normalized))

    def _scaled(self, values: Array) -> Profile:
        log_value = None if self._normalized else self.log_self_similarity
        return WholeProfile(absolute_factor(log_value, self._n) * values)

    def features(self, size: int, seed: int) -> EigenMap:
        """See :class:`Realisation`; products of contrasts."""

        def log_weights(eigenvalues: Array) -> Array:
            return np.asarray(self._law.log_weights(eigenvalues, 0), dtype=float)

        basis = self._space.eigenfunctions(size, log_weights)
        return EigenMap.of(basis, self._law, 0, self.log_self_similarity, self._normalized)

    def log_profile(self) -> Profile:
        """See :class:`Radial`."""
        logs = self._table.logs()
        if logs is None:
            return super().log_profile()
        return WholeProfile(logs + (0.0 if self._normalized else self.log_self_similarity))


class _Diffusions:
    """Heat kernels ``prod_j c_j r_j^(differs in column j)``, mixed over times."""

    def __init__(self, groups: Groups, times: Times) -> None:
        self._q, self._columns = np.array(groups, dtype=float).T
        self._single = len(times.times) == 1
        self._mixture = TimeMixture(times, 0, self._log_value, slack=np.log(self._q) @ self._columns)
        self.log_total = self._mixture.log_total
        # Columns of each group that differ, in the order of the invariant.
        places = np.arange(math.prod(p + 1 for _, p in groups))
        self._differ = np.empty((len(groups), len(places)))
        for g, (_, p) in enumerate(groups):
            places, agree = np.divmod(places, p + 1)
            self._differ[g] = p - agree

    def _log_value(self, t: float) -> float:
        """Logarithm of the value at equal points."""
        q = self._q
        return float((np.log1p((q - 1) * np.exp(-q * t)) - np.log(q)) @ self._columns)

    def _log_ratios(self, t: float) -> Array:
        """Logarithms of the normalised heat kernel."""
        x = self._q * t
        e = np.exp(-x)
        # log(1 - e^-x), with all digits at both ends.
        with np.errstate(divide="ignore"):  # of the end that is not taken
            falls = np.where(x > 0.7, np.log1p(-e), np.log(-np.expm1(-x)))
        return np.asarray((falls - np.log1p((self._q - 1) * e)) @ self._differ)

    def _mixed(self, weights: Array) -> Array:
        found = np.zeros(self._differ.shape[1])
        for weight, t in zip(weights, self._mixture.times, strict=True):
            found += weight * np.exp(self._log_ratios(t))
        return found

    @cached_property
    def values(self) -> Array:
        """The normalised kernel."""
        found = self._mixed(self._mixture.shares)
        found[-1] = 1.0
        return found

    def slopes(self, slope: Slope, normalized: bool) -> Array:
        """Derivatives of the kernel, divided by its value at equal points."""
        if self._single:
            found = self.values * self._rises(float(self._mixture.times[0]), normalized)
        else:
            found = self._mixed(self._mixture.share_slopes(normalized))
        if normalized:
            found[-1] = 0.0
        return slope.chain * found

    def _rises(self, t: float, normalized: bool) -> Array:
        """Derivatives of the logarithm of one diffusion by that of its time."""
        q, x = self._q, self._q * t
        e = np.exp(-x)
        whole = 1 + (q - 1) * e
        common = 0.0 if normalized else -(x * (q - 1) * e / whole) @ self._columns
        return np.asarray((x * e * q / (-np.expm1(-x) * whole)) @ self._differ + common)

    def logs(self) -> Array | None:
        """Logarithms of the normalised kernel, if there is one time."""
        return self._log_ratios(float(self._mixture.times[0])) if self._single else None


class _Levels:
    """Weights of a law on the levels of the Hamming graph, ``q^-p sum_j a(q j) K_j(m)``."""

    def __init__(self, space: Categories, law: Law, n: int) -> None:
        groups = space._groups(n)
        if space.sizes is None or len(groups) > 1:
            raise TypeError(
                f"{law.name} on categories needs one number of labels for all columns, such as "
                f"Categories(levels=3), got {space!r}; Heat and Matern do without"
            )
        ((q, p),) = groups
        if p > _MOST_COLUMNS:
            raise ValueError(f"{law.name} is for at most {_MOST_COLUMNS} columns of labels, got {p}")
        self._eigenvalues = q * np.arange(p + 1.0)
        self._functions, log_sizes = _krawtchouk(q, p)
        logs = np.asarray(law.log_weights(self._eigenvalues, 0), dtype=float) + log_sizes
        largest = logs.max()
        if not largest > -np.inf:
            raise ValueError("all weights are zero: the kernel is zero")
        weights = np.exp(logs - largest)
        self._shares = weights / weights.sum()
        self.log_total = float(largest + np.log(weights.sum()) - p * math.log(q))
        self.values = self._shares @ self._functions

    def slopes(self, slope: Slope, normalized: bool) -> Array:
        """Derivatives of the kernel, divided by its value at equal points."""
        scores = np.asarray(slope.scores(self._eigenvalues), dtype=float)
        if normalized:
            scores = scores - self._shares @ scores
        return (self._shares * scores) @ self._functions

    def logs(self) -> None:
        """Not known."""


@lru_cache(maxsize=32)
def _krawtchouk(q: int, p: int) -> tuple[Array, Array]:
    """Krawtchouk polynomials ``K_j(m) / K_j(0)`` at p - m = 0 .. p, and ``log K_j(0)``.

    By their recurrence in whole numbers: in floating point it is not stable.
    """
    rows = [[math.comb(p, j) * (q - 1) ** j for j in range(p + 1)]]
    for _ in range(p):
        before, row = rows[-1], [1]
        for j in range(1, p + 1):
            row.append(before[j] - before[j - 1] - (q - 1) * row[j - 1])
        rows.append(row)
    ratios = [[value / size for value, size in zip(row, rows[0], strict=True)] for row in rows]
    return np.array(ratios[::-1]).T, np.array([math.log(size) for size in rows[0]])


def _numbered(column: NDArray[Any], name: str) -> Array:
    """Numbers that stand for the labels of a column."""
    if column.dtype.kind == "O":
        codes: dict[Any, int] = {}
        try:
            places = np.fromiter((codes.setdefault(label, len(codes)) for label in column), np.intp)
        except TypeError:
            row = next(i for i, label in enumerate(column) if type(label).__hash__ is None)
            raise TypeError(
                f"row {row} of {name} has the label {column[row]!r}, which cannot be hashed; give "
                "strings, numbers, dates or tuples"
            ) from None
        labels: Any = list(codes)
    else:
        if column.dtype.kind in "fcmM":
            refuse_rows(column != column, name, _MISSING)
        labels, places = np.unique(column, return_inverse=True)
        labels = labels.tolist() if column.dtype.kind not in "mM" else list(labels)
    missing = np.array([_is_missing(label) for label in labels])
    refuse_rows(missing[places], name, _MISSING)
    digests = [hashlib.blake2b(_encoded(label), digest_size=8).digest() for label in labels]
    return np.array([int.from_bytes(d, "big") >> (64 - _BITS) for d in digests], dtype=float)[places]


def _is_missing(label: Any) -> bool:
    if label is None:
        return True
    try:
        return bool(label != label)
    except (TypeError, ValueError):  # pandas.NA is neither true nor false
        return type(label).__name__ == "NAType"


def _encoded(label: Any) -> bytes:
    """Bytes that equal labels have in common, and others do not."""
    if isinstance(label, str):
        return b"s" + label.encode("utf-8", "surrogatepass")
    if isinstance(label, bytes):
        return b"b" + label
    if isinstance(label, bool | np.bool_ | numbers.Integral):
        return b"n%d" % int(label)
    if isinstance(label, numbers.Number) and not isinstance(label, complex):
        value = float(label)  # type: ignore[arg-type]
        return b"n%d" % int(value) if value.is_integer() else b"n" + repr(value).encode()
    if isinstance(label, tuple):
        parts = [_encoded(part) for part in label]
        return b"t" + b"".join(b"%d " % len(part) + part for part in parts)
    if isinstance(label, date):
        return b"d" + label.isoformat().encode()
    if type(label).__repr__ is object.__repr__:  # type: ignore[comparison-overlap]
        raise TypeError(f"labels of {type(label)} are not known; give strings, numbers, dates or tuples")
    return f"o{type(label).__qualname__} {label!r}".encode("utf-8", "surrogatepass")


def _indicators(X: Array, Y: Array, steps: list[int], limits: Any) -> tuple[Any, Any]:
    """Sparse matrices L and R with a one for the label of each column, in L times its step."""
    same, width = Y is X, 0
    codes = np.empty((len(X) + (0 if same else len(Y)), len(steps)), dtype=np.int64)
    for j, most in enumerate(limits):
        both = X[:, j] if same else np.concatenate([X[:, j], Y[:, j]])
        labels, places = np.unique(both, return_inverse=True)
        _refuse_labels(len(labels), most, j)
        codes[:, j] = width + places
        width += len(labels)

    def matrix(rows: NDArray[np.int64], values: list[int]) -> sparse.csr_matrix:
        starts = np.arange(len(rows) + 1) * len(steps)
        data = np.tile(np.array(values, dtype=float), len(rows))
        return sparse.csr_matrix((data, rows.ravel(), starts), shape=(len(rows), width))

    left = matrix(codes[: len(X)], steps)
    if same and max(steps) == 1:
        return left, left
    return left, matrix(codes if same else codes[len(X) :], [1] * len(steps))


def _dense_indicators(X: Any, Y: Any, steps: list[int], limits: Any) -> tuple[Any, Any]:
    """The same for tensors."""
    xp = array_namespace(X, Y)
    left, right = [], []
    for j, (step, most) in enumerate(zip(steps, limits, strict=True)):
        labels = xp.unique_values(X[:, j] if Y is X else xp.concat([X[:, j], Y[:, j]]))
        _refuse_labels(int(labels.shape[0]), most, j)
        left.append(step * xp.astype(X[:, j][:, None] == labels[None, :], X.dtype))
        right.append(xp.astype(Y[:, j][:, None] == labels[None, :], Y.dtype))
    return xp.concat(left, axis=1), xp.concat(right, axis=1)


def _refuse_labels(found: int, most: int | None, column: int) -> None:
    """Raise for more labels than there are said to be."""
    if most is not None and found > most:
        raise ValueError(f"column {column} has {found} different labels, but levels is {most} for it")
