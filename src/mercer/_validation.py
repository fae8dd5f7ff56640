"""Validation of input and options, with messages that say what to do."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
import pandas as pd
from array_api_compat import array_namespace, device
from pandas.api.extensions import ExtensionArray
from scipy import sparse
from sklearn.utils.validation import check_array, validate_data

from mercer import _memory
from mercer._arrays import (
    count,
    in_main_memory,
    is_foreign,
    is_sparse_tensor,
    number,
    on_cpu,
    place_of,
    placed,
    row_any,
    sparse_rows,
)
from mercer._memory import size_text
from mercer._repr import listed

#: Smaller Gram matrices are not checked: the check would take longer than the matrix.
_SMALL = 2**27
#: Sums of squares of numbers up to this size are finite.
LARGEST = 1e140
#: Types of rows as the library computes with them.
_REAL = (np.dtype(np.float64), np.dtype(np.float32))
#: The first words are those that scikit-learn's checks of estimators look for.
_COMPLEX = "Complex data not supported: {} holds complex numbers; give real ones"


def is_whole(value: Any) -> bool:
    """Tell whether an option is a whole number, which True and 1.0 are not."""
    return isinstance(value, int | numbers.Integral) and not isinstance(value, bool)


def check_whole(name: str, value: Any, least: int) -> None:
    """Raise unless an option is a whole number of at least ``least``."""
    if not is_whole(value) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")


def is_number(value: Any) -> bool:
    """Tell whether a hyperparameter holds one real number, perhaps as a tensor."""
    return isinstance(value, float | numbers.Real) or getattr(value, "shape", None) in ((), (1,))


def check_positive(owner: Any, *names: str) -> None:
    """Raise unless the named hyperparameters are positive finite numbers."""
    for name in names:
        value = getattr(owner, name)
        if not (is_number(value) and 0 < number(value) < np.inf):
            raise ValueError(
                f"{name} of {type(owner).__name__} must be a positive number, got {value!r}"
            )


def check_choice(owner: Any, name: str, choices: tuple[Any, ...]) -> None:
    """Raise unless the named option is one of the choices: all flags, all words or all whole numbers."""
    value = getattr(owner, name)
    kinds = {bool: isinstance(value, bool | np.bool_), str: isinstance(value, str)}
    if not kinds.get(type(choices[0]), is_whole(value)) or value not in choices:
        shown = ", ".join(map(repr, choices))
        raise ValueError(f"{name} of {type(owner).__name__} must be one of {shown}, got {value!r}")


def check_vector(v: Any, length: int) -> Any:
    """Check the vector or matrix that a Gram matrix is multiplied with."""
    if not hasattr(v, "ndim"):
        v = np.asarray(v)
    refuse_complex(v, "v")
    if v.ndim not in (1, 2) or v.shape[0] != length:
        raise ValueError(f"v has shape {tuple(v.shape)}; one row per row of Y is needed: {length}")
    return v


def check_weights(weights: Any, X: Any, p: int) -> Any:
    """Check the matrix that a Gram matrix of X and p points is multiplied with element by element.

    The result is on the device of X.
    """
    if sparse.issparse(weights):
        raise TypeError("weights are a sparse matrix; give weights.toarray()")
    if not hasattr(weights, "ndim"):
        weights = np.asarray(weights)
    refuse_complex(weights, "weights")
    shape = (count(X), p)
    if tuple(weights.shape) != shape:
        raise ValueError(f"weights have shape {tuple(weights.shape)}; one per pair is needed: {shape}")
    like = place_of(X)
    if not is_foreign(like):
        return np.asarray(on_cpu(weights))  # products of np.matrix are np.matrix
    return weights if is_foreign(weights) else placed(weights, like)


def check_one_device(X: Any, Y: Any) -> None:
    """Raise for arrays on different devices."""
    if is_foreign(X) and is_foreign(Y) and device(X) != device(Y):
        raise TypeError(f"X is on {device(X)}, Y on {device(Y)}; both must be on one device")


def check_gram(rows: int, columns: int, itemsize: int = 8, matrices: int = 1) -> None:
    """Raise a MemoryError that says what to do instead unless a Gram matrix fits into memory.

    Parameters
    ----------
    rows, columns : int
    itemsize : int
        Bytes of an entry.
    matrices : int
        Number of such matrices that are held at the same time.
    """
    needed = rows * columns * itemsize * matrices
    if needed < _SMALL:
        return
    there = _memory.available()
    if needed > there:
        with_parts = "" if matrices == 1 else f", {matrices} times while it is put together,"
        raise MemoryError(
            f"a Gram matrix of {rows} x {columns}{with_parts} takes {size_text(needed)} and "
            f"{size_text(there)} are available: the machines of mercer.machines do without it (SVC and "
            "KernelRidge by max_memory, LandmarkClassifier and LandmarkRegressor for the most rows), "
            "and so do products (kernel.matvec) and mercer.gp.SphericalGPRegressor; see 'My Gram matrix "
            "does not fit' in the guide"
        )


def check_room(X: Any, Y: Any, matrices: int = 1) -> None:
    """Raise a MemoryError unless this many Gram matrices of X and Y fit into memory together."""
    if in_main_memory(X):
        dtype = getattr(X, "dtype", None)
        known = isinstance(dtype, np.dtype)  # whose names take long to write
        single = dtype == np.float32 if known else str(dtype).endswith("float32")
        check_gram(count(X), count(X if Y is None else Y), 4 if single else 8, matrices)


def as_rows(X: Any, name: str) -> Any:
    """Return rows of numbers as a floating array or CSR matrix, or raise if X is something else.

    Parameters
    ----------
    X : array-like, sparse matrix, data frame or array-API array of shape (m, n)
    name : str
        Name of X in messages.

    Returns
    -------
    array of shape (m, n), float32 or float64
        Its numbers may be NaN or infinite.
    """
    if type(X) is np.ndarray and X.dtype in _REAL and X.ndim == 2 and X.size and X.flags.c_contiguous:
        return X  # nothing to convert: the checks below take longer than a small Gram matrix
    if is_sparse_tensor(X):
        X = _sparse_tensor(X, name)
    elif is_foreign(X):
        return _foreign_rows(X, name)
    refuse_no_numbers(X, name)
    _refuse_broken_sparse(X, name)
    X = check_array(
        X,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        order="C",  # sums of equal rows are then equal
        ensure_all_finite=False,
        input_name=name,
    )
    if sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def estimator_rows(estimator: Any, X: Any, reset: bool) -> Any:
    """Return rows of numbers as an array, with columns counted and named by scikit-learn."""
    if is_foreign(X):
        return X
    refuse_no_numbers(X, "X")
    return validate_data(
        estimator, X, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32],
        ensure_all_finite=False,
    )  # fmt: skip


def refuse_foreign(X: Any, complaint: str) -> None:
    """Raise for arrays of libraries other than NumPy and SciPy."""
    if is_foreign(X):
        raise TypeError(complaint)


def refuse_rows(bad: Any, name: str, complaint: str) -> None:
    """Raise a ValueError that names the first of the bad rows, if there are any."""
    named, count = named_rows(bad, name)
    if count:
        raise ValueError(f"{named} {complaint}")


def named_rows(chosen: Any, name: str) -> tuple[str, int]:
    """Text that names the first chosen row and counts the others; and the number of all."""
    xp = array_namespace(chosen)
    count = int(xp.sum(xp.astype(chosen, xp.int64)))
    if not count:
        return "", 0
    first = int(xp.argmax(xp.astype(chosen, xp.int64)))
    more = f" (and {count - 1} more)" if count > 1 else ""
    return f"row {first} of {name}{more}", count


def refuse_negative(X: Any, name: str) -> None:
    """Raise for rows with negative entries."""
    dense = not sparse.issparse(X)
    negative = array_namespace(X).min(X, axis=1) < 0 if dense else row_any(X, X.data < 0)
    refuse_rows(negative, name, "has negative entries; counts and compositions have none")


def refuse_no_numbers(X: Any, name: str) -> None:
    """Raise for texts, columns of text, masked and complex numbers in place of real numbers."""
    refuse_masked(X, name)
    _refuse_text_columns(X, name)
    _refuse_texts(X, name)
    refuse_complex(X, name)


def refuse_masked(X: Any, name: str) -> None:
    """Raise for rows with masked numbers, for which NumPy would take the numbers under the mask."""
    if isinstance(X, np.ma.MaskedArray) and X.ndim:
        masked = np.ma.getmaskarray(X).reshape(len(X), -1).any(axis=1)
        refuse_rows(masked, name, "has masked values; drop or impute such rows")


def refuse_complex(X: Any, name: str) -> None:
    """Raise for complex numbers, whose imaginary parts NumPy would drop."""
    of_columns = hasattr(X, "dtypes") and getattr(X, "ndim", 0) == 2
    kinds = X.dtypes if of_columns else [getattr(X, "dtype", None)]
    # Other libraries than NumPy have names of types alone.
    if any(getattr(kind, "kind", "c") == "c" and "complex" in str(kind) for kind in kinds):
        raise ValueError(_COMPLEX.format(name))


def _foreign_rows(X: Any, name: str) -> Any:
    xp = array_namespace(X)
    if X.ndim != 2:
        raise ValueError(f"Expected a 2D array, got {name} of shape {tuple(X.shape)}")
    if 0 in X.shape:
        raise ValueError(f"{name} of shape {tuple(X.shape)} has no rows or no columns")
    if X.dtype not in (xp.float32, xp.float64):
        if xp.isdtype(X.dtype, "complex floating"):
            raise ValueError(_COMPLEX.format(name))
        X = xp.astype(X, xp.float64)
    # Of tensors, numbers as they are in memory: a view may stand for their negatives.
    return X.resolve_neg().contiguous() if hasattr(X, "resolve_neg") else X


def check_labels(y: Any) -> None:
    """Raise for missing labels, and for text mixed with other labels, which NumPy would convert."""
    labels = refuse_missing(y)
    if labels.dtype.kind == "O" and len({isinstance(label, str) for label in labels.flat}) > 1:
        types = " and ".join(sorted({type(label).__name__ for label in labels.flat}))
        raise ValueError(
            f"labels must be of one type, but y holds {types}; convert all of them to text or to numbers"
        )


def refuse_missing(y: Any) -> np.ndarray:
    """Raise for rows of a target without a finite value; return the values as an array.

    Targets that may not be in memory are not checked here.
    """
    if not isinstance(y, list | tuple | np.ndarray) and not hasattr(y, "to_numpy"):
        return np.empty(0)
    refuse_masked(y, "y")
    values = np.asarray(y, dtype=object if isinstance(y, list | tuple | ExtensionArray) else None)
    if values.ndim and values.size and values.dtype.kind not in "biuSU":
        table = values.reshape(len(values), -1)
        refuse_rows(np.asarray(pd.isna(table)).any(axis=1), "y", "has no value; drop such rows")
        if table.dtype.kind in "fO":
            infinite = (table == np.inf) | (table == -np.inf)
            refuse_rows(infinite.any(axis=1), "y", "is infinite; drop such rows")
    return values


def _sparse_tensor(X: Any, name: str) -> Any:
    if X.ndim != 2:
        raise ValueError(f"Expected a 2D array, got {name} of shape {tuple(X.shape)}")
    if X.requires_grad:
        raise TypeError(f"{name} is sparse and requires a gradient; detach it, or give a dense tensor")
    try:
        return sparse_rows(X)
    except ValueError as error:
        raise ValueError(f"{name} is a broken sparse matrix: {error}") from None


def _refuse_text_columns(X: Any, name: str) -> None:
    """Raise for columns of a data frame that are not numbers, and name them."""
    if not hasattr(X, "select_dtypes"):
        return
    columns = list(X.select_dtypes(exclude=["number", "bool"]).columns)
    if columns:
        raise ValueError(
            f"{name} has columns that are not numbers: {listed(columns)}; drop or encode them, or "
            "give each kind of column a kernel of its own with On"
        )


def _refuse_texts(X: Any, name: str) -> None:
    """Raise for a list or column of texts in place of rows of numbers."""
    flat = isinstance(X, list | tuple) or getattr(X, "ndim", 0) == 1
    if flat and isinstance(next(iter(X), None), str):
        raise ValueError(
            f"{name} holds texts, not rows of numbers; count their words first, with scikit-learn's "
            "CountVectorizer, or use a kernel of strings such as Spectrum"
        )


def _refuse_broken_sparse(X: Any, name: str) -> None:
    """Refuse indices out of range, which compiled loops would follow."""
    if sparse.issparse(X) and hasattr(X, "check_format"):
        try:
            X.check_format(full_check=True)
        except ValueError as error:
            raise ValueError(f"{name} is a broken sparse matrix: {error}") from None
