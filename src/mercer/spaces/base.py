"""What a space is: where points live, how rows are checked, and what one number says of a pair."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj, is_numpy_array
from scipy import sparse
from sklearn.utils.validation import check_array

from mercer.profiles import Separation
from mercer.spaces.eigenfunctions import Eigenfunctions, LogWeights

#: Longest array that is shown in full where a constructor's arguments are.
_SHOWN = 8
#: Sums of squares of so large numbers are still numbers.
LARGEST = 1e140
#: The first words are those that scikit-learn's checks of estimators look for.
_COMPLEX = "Complex data not supported: {} holds complex numbers; give real ones"


class Space(ABC):
    """A set of points with a geometry; frozen, hashable, and shared rather than copied."""

    def __repr__(self) -> str:
        return constructor_call(self)

    def __sklearn_clone__(self) -> Self:
        # Spaces are immutable and may hold large decompositions: clones of a kernel share them.
        return self

    @abstractmethod
    def check(self, X: Any, name: str = "X") -> Any:
        """Validate points and return them in the form that the space computes with.

        This is the one place where input is checked.  Errors name the row and say what to do.
        """

    def eigenfunctions(self, count: int | None, log_weights: LogWeights) -> Eigenfunctions | None:
        """Eigenfunctions of the Laplacian that are heaviest under a law; None if none are known here.

        Parameters
        ----------
        count : int or None
            How many, at most; None for all, or a usual number where there are too many.
        log_weights : callable
            From eigenvalues to the logarithms of the law's weights.
        """
        return None


class RowSpace(Space):
    """A space of rows of numbers; a subclass says which rows are points (:meth:`_check_rows`)."""

    #: Number of columns, or None to take it from the data.
    n: int | None
    #: Fewest columns that make sense.
    least_dimension = 1

    @abstractmethod
    def _check_rows(self, X: Any, name: str) -> None:
        """Raise for rows of finite numbers that are no points of the space."""

    def check(self, X: Any, name: str = "X") -> Any:
        """Validate rows and return them as a floating array (dense or CSR).

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or array-API array of shape (m, n)
            One row per point.
        name : str
            What to call it in messages.

        Returns
        -------
        array of shape (m, n), float32 or float64
        """
        if is_foreign(X):
            X = _check_foreign(X, name)
        else:
            _refuse_text_columns(X, name)
            refuse_complex(X, name)
            _refuse_broken_sparse(X, name)
            X = check_array(
                X,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                ensure_all_finite=False,
                input_name=name,
            )
            if sparse.issparse(X) and not X.has_canonical_format:
                X = X.copy()
                X.sum_duplicates()
        self._check_dimension(int(X.shape[1]), name)
        refuse_rows(~_finite_rows(X), name, "contains NaN or infinity; drop or impute such rows")
        self._check_rows(X, name)
        return X

    def _check_dimension(self, columns: int, name: str) -> None:
        space = type(self).__name__
        if self.n is not None and columns != self.n:
            raise ValueError(f"{name} has {columns} columns, but {self!r} has dimension {self.n}")
        if columns < self.least_dimension:
            raise ValueError(
                f"{name} has n_features = {columns}; {space} needs at least {self.least_dimension}"
            )


class RadialSpace(RowSpace):
    """A space of rows of numbers where one number says how far apart two points are.

    A subclass says how checked rows become matrices L and R whose product ``L @ R.T`` is the
    *invariant* of every pair, the one number that radial kernels are functions of (:meth:`embed`).
    """

    @property
    @abstractmethod
    def separation(self) -> Separation:
        """How profiles read the separation of two points off the invariant."""

    @abstractmethod
    def embed(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        """Map checked rows to (L, R) with ``invariant = L @ R.T``; R is L where that is possible."""

    @abstractmethod
    def self_invariant(self, X: Any) -> Any:
        """Invariant of each row with itself, exactly."""


@dataclass(frozen=True, eq=False)
class Differences:
    """Points p with factors s, for the invariant ``|p - q|^2 s(p) s(q)`` from differences."""

    points: np.ndarray
    scales: np.ndarray


def is_foreign(X: Any) -> bool:
    """Tell whether X is an array of another library than NumPy (torch, JAX, array-api-strict)."""
    return bool(is_array_api_obj(X)) and not is_numpy_array(X) and not sparse.issparse(X)


def _check_foreign(X: Any, name: str) -> Any:
    xp = array_namespace(X)
    if getattr(X, "layout", None) is not None and "strided" not in str(X.layout):
        raise ValueError(f"{name} is a sparse tensor; give a dense one, or a scipy.sparse matrix")
    if X.ndim != 2:
        raise ValueError(f"Expected a 2D array, got {name} of shape {tuple(X.shape)}")
    if 0 in X.shape:
        raise ValueError(f"{name} of shape {tuple(X.shape)} has no rows or no columns")
    if xp.isdtype(X.dtype, "complex floating"):
        raise ValueError(_COMPLEX.format(name))
    if X.dtype not in (xp.float32, xp.float64):
        X = xp.astype(X, xp.float64)
    return X


def _refuse_text_columns(X: Any, name: str) -> None:
    """Name the columns of a data frame that are not numbers, where scikit-learn would not."""
    if not hasattr(X, "select_dtypes"):
        return
    columns = list(X.select_dtypes(exclude=["number", "bool"]).columns)
    if columns:
        shown = ", ".join(repr(c) for c in columns[:5]) + (", ..." if len(columns) > 5 else "")
        raise ValueError(f"{name} has columns that are not numbers: {shown}; drop or encode them")


def refuse_complex(X: Any, name: str) -> None:
    """Raise for complex numbers, which scikit-learn would print in full, and NumPy cut to half."""
    of_columns = hasattr(X, "dtypes") and getattr(X, "ndim", 0) == 2
    kinds = X.dtypes if of_columns else [getattr(X, "dtype", None)]
    if any(getattr(kind, "kind", "") == "c" for kind in kinds):
        raise ValueError(_COMPLEX.format(name))


def _refuse_broken_sparse(X: Any, name: str) -> None:
    """Refuse indices that point outside: compiled loops would follow them."""
    if sparse.issparse(X) and hasattr(X, "check_format"):
        try:
            X.check_format(full_check=True)
        except ValueError as error:
            raise ValueError(f"{name} is a broken sparse matrix: {error}") from None


def _finite_rows(X: Any) -> Any:
    """Mask of rows without NaN or infinity, from one cheap pass when all is well."""
    if sparse.issparse(X):
        # A row's sum may overflow although its entries are finite: look again before judging.
        with np.errstate(over="ignore"):
            total = X.data.sum(dtype=float)
        if np.isfinite(total):
            return np.ones(X.shape[0], dtype=bool)
        return ~row_any(X, ~np.isfinite(X.data))
    xp = array_namespace(X)
    with np.errstate(over="ignore"):
        total = xp.sum(X)
    if bool(xp.isfinite(total)):
        return xp.ones(X.shape[0], dtype=xp.bool)
    return xp.all(xp.isfinite(X), axis=1)


def row_any(X: sparse.csr_matrix, flags: np.ndarray) -> np.ndarray:
    """Tell which rows of a CSR matrix hold a stored element that is flagged."""
    bad = np.zeros(X.shape[0], dtype=bool)
    bad[np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))[flags]] = True
    return bad


def refuse_rows(bad: Any, name: str, complaint: str) -> None:
    """Raise a ValueError that names the first of the bad rows, if there are any."""
    xp = array_namespace(bad)
    count = int(xp.sum(xp.astype(bad, xp.int64)))
    if count:
        first = int(xp.argmax(xp.astype(bad, xp.int64)))
        more = f" (and {count - 1} more)" if count > 1 else ""
        raise ValueError(f"row {first} of {name}{more} {complaint}")


def squared_lengths(X: Any) -> Any:
    """Squared Euclidean lengths of rows."""
    if sparse.issparse(X):
        # SciPy adds one after the other: in single precision that would show.
        squares = np.square(X.data, dtype=np.float64)
        sums = sparse.csr_matrix((squares, X.indices, X.indptr), shape=X.shape).sum(axis=1)
        return np.asarray(sums, dtype=X.dtype).ravel()
    return array_namespace(X).vecdot(X, X, axis=-1)


def constant_rows(X: Any, value: float) -> Any:
    """The same number for each row of X, in X's precision and place."""
    if not is_foreign(X):
        return np.full(X.shape[0], value, dtype=X.dtype)
    return array_namespace(X).full(X.shape[0], value, dtype=X.dtype, device=device(X))


def constructor_call(thing: Any) -> str:
    """The call that makes such a thing, without arguments left at their defaults."""
    shown = []
    for parameter in inspect.signature(type(thing)).parameters.values():
        value = getattr(thing, parameter.name)
        text = repr(float(value)) if isinstance(value, np.floating) else repr(value)
        stored = isinstance(value, np.ndarray) or sparse.issparse(value)
        if stored and (value.size > _SHOWN or sparse.issparse(value)):
            text = f"<{value.size} numbers>"
        text = getattr(value, "__name__", text) if callable(value) else text
        if parameter.default is inspect.Parameter.empty:
            shown.append(text)
        elif text != repr(parameter.default):
            shown.append(f"{parameter.name}={text}")
    return f"{type(thing).__name__}({', '.join(shown)})"
