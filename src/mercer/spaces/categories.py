"""Categories: rows of labels, on the Hamming graph."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import brentq

from mercer._arrays import Array, constant_rows, finite_rows
from mercer._validation import as_rows, is_whole, refuse_rows
from mercer.contributions import Contributions, of_labels
from mercer.engine import engine_for
from mercer.laws import Law
from mercer.spaces.base import Embedding, Space
from mercer.spaces.realisations.eigenfunctions import USUAL, LogWeights
from mercer.spaces.realisations.labels import CategoryTable, Groups, LabelFunctions
from mercer.spaces.realisations.tables import label_columns, numbered

_SAMPLED_COLUMNS, _SAMPLED_LABELS = 4, 5


@dataclass(frozen=True, repr=False)
class Categories(Space, Embedding):
    """Rows of labels, ``K(x, y) = tanh(t)^m`` for rows that differ in m columns.

    A column with q labels is the complete graph on q nodes, and a row of p columns is a node of their
    product, the Hamming graph.  Its heat kernel is a product over the columns: ``(1 + (q - 1) e^(-q
    t)) / q`` for labels that agree, and ``(1 - e^(-q t)) / (1 + (q - 1) e^(-q t))`` times that for
    labels that differ.  Without ``levels`` every column has the ratio of q = 2, which is ``tanh(t)``,
    whatever the number of its labels; unseen labels are allowed.

    Labels may be strings, numbers, booleans, dates and tuples of these, in any mixture, in lists of
    rows, arrays or data frames.  Labels are the same if they are equal in Python: 1, 1.0 and True are
    one label, 1 and "1" are two.  Missing values (None, NaN, ``pandas.NA``) are refused.

    :meth:`check` turns each label into a whole number of 52 bits, a hash, so that points are an
    ordinary array.  The probability that two of d labels of a column have the same number is at most
    ``d^2 / 2^53``: 1e-6 for 10^5 labels.  Tensors hold numbers, which are used as they are.

    Parameters
    ----------
    levels : int, sequence of int or sequence of sequences of labels, optional
        Number q of possible labels, one for all columns or one for each; or the labels of each column,
        which features and sparse Gaussian processes need.  A column with more or other labels is
        refused.

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
        if isinstance(given, list | tuple) and given and all(isinstance(q, list | tuple) for q in given):
            object.__setattr__(self, "levels", tuple(tuple(labels) for labels in given))
            each = [len(codes) for codes in self._codes]
            if each != [len(np.unique(codes)) for codes in self._codes]:
                raise ValueError(f"labels of a column must be different, got {given!r}")
        else:
            each = np.atleast_1d(np.asarray(given, dtype=object)).tolist()
        if not each or not all(is_whole(q) and q >= 2 for q in each):
            raise ValueError(
                f"levels must be a whole number of at least 2, or one for each column, got {given!r}"
            )
        if not self._codes:
            whole = tuple(int(q) for q in each)
            object.__setattr__(self, "levels", whole[0] if is_whole(given) else whole)

    @cached_property
    def _codes(self) -> tuple[Array, ...]:
        """Numbers of the labels of each column, sorted; none unless labels are stated."""
        stated = isinstance(self.levels, tuple) and all(isinstance(q, tuple) for q in self.levels)
        if not stated:
            return ()
        columns = (np.fromiter(labels, dtype=object, count=len(labels)) for labels in self.levels)
        return tuple(np.sort(numbered(column, "levels")) for column in columns)

    @property
    def sizes(self) -> Any:
        """Number of labels of all columns, or of each, or None."""
        return tuple(map(len, self._codes)) or self.levels

    @property
    def embedding(self) -> Categories:
        return self

    def check(self, X: Any, name: str = "X") -> Any:
        """Turn labels into numbers that are equal if and only if the labels are.

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
            P[:, j] = numbered(column, name)
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
        """The same points, if there are as many columns as levels."""
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

    def distances(self, X: Any, Y: Any = None) -> Array:
        """Number of columns that differ: the length of the shortest path on the Hamming graph.

        Examples
        --------
        >>> from mercer.spaces import Categories
        >>> Categories().distances([["red", "S"]], [["red", "L"], ["blue", "L"]])
        array([[1., 2.]])
        """
        P, Q = self.check_pair(X, Y)
        P, Q = np.asarray(P), np.asarray(P if Q is None else Q)
        return np.sum([p[:, None] != q for p, q in zip(P.T, Q.T, strict=True)], axis=0, dtype=float)

    def fixed_columns(self, given: int | None = None) -> int:
        if isinstance(self.levels, tuple):
            return len(self.levels)
        if given is None:
            raise ValueError(f"{self!r} does not know the number of columns; give X, or levels for each")
        return given

    def dimension(self, n: int) -> int:
        """Zero, as on other graphs: see :meth:`Space.dimension`."""
        return 0

    def natural_time(self, n: int) -> float:
        """``log(2 p) / 2`` for p columns, at which ``tanh(t)`` is near ``1 - 1 / p``.

        With ``levels`` the time at which the sum of ``q e^(-q t)`` over the columns is 1.
        """
        groups = self.groups(n)
        columns = sum(p for _, p in groups)
        latest = max(math.log(q * columns) / q for q, _ in groups)
        if len(groups) == 1:
            return latest
        counts = np.array(groups)
        return float(brentq(lambda t: counts.prod(1) @ np.exp(-counts[:, 0] * t) - 1, 0.0, latest))

    def groups(self, n: int) -> Groups:
        """Groups of columns with the same number of labels."""
        if isinstance(self.sizes, tuple):
            return tuple(sorted(Counter(self.sizes).items()))
        return ((self.sizes or 2, n),)

    def embed(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        """Indicators of the labels of each column: see :meth:`Embedding.embed`.

        The invariant is the number of columns that agree; with different ``levels`` it is a whole
        number that encodes how many columns with q labels agree, for each q.
        """
        steps = self.steps(int(X.shape[1]))
        join = _indicators if engine_for(X).takes_operands else _dense_indicators
        limits = self.sizes if isinstance(self.sizes, tuple) else [self.sizes] * len(steps)
        return join(X, X if Y is None else Y, steps, limits)

    def self_invariant(self, X: Any) -> Any:
        """All columns agree: see :meth:`Embedding.self_invariant`."""
        return constant_rows(X, float(sum(self.steps(int(X.shape[1])))))

    def column_sums(self, X: Any, Y: Any, weights: Any) -> Any:
        """See :meth:`Embedding.column_sums`; labels that agree."""
        columns = zip(X.T, Y.T, strict=True)
        return np.stack([(weights * (x[:, None] == y)).sum(axis=1) for x, y in columns], axis=1)

    def steps(self, n: int) -> list[int]:
        """What agreement in each of n columns adds to the invariant."""
        if not isinstance(self.sizes, tuple):
            return [1] * n
        steps, step = {}, 1
        for q, p in self.groups(n):
            steps[q] = step
            step *= p + 1
        return [steps[q] for q in self.sizes]

    def named_contributions(self, X: Any, found: tuple[Contributions, ...]) -> tuple[Contributions, ...]:
        """See :meth:`Space.named_contributions`; contributions of labels, not of columns."""
        return tuple(of_labels(label_columns(X, "X"), own) for own in found)

    def realise(self, law: Law, n: int, normalized: bool = True) -> CategoryTable:
        """A table over the number of columns that agree: see :meth:`Space.realise`."""
        if law.levels is not None:
            raise TypeError("weights on categories must be a function of the Laplacian's eigenvalues")
        return CategoryTable(self, law, n, normalized)

    def eigenfunctions(self, n: int, count: int | None, log_weights: LogWeights) -> LabelFunctions:
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
    """Raise for more labels than were stated."""
    if most is not None and found > most:
        raise ValueError(f"column {column} has {found} different labels, but levels is {most} for it")
