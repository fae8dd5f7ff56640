"""Training points and their kernel: Gram matrices, blocks of them, and products with vectors."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy import sparse
from sklearn import get_config
from sklearn.base import BaseEstimator, clone
from sklearn.gaussian_process import kernels as sk
from sklearn.utils.validation import _check_n_features, _check_sample_weight, _check_y, validate_data

from mercer._arrays import (
    beside,
    count,
    first_tensor,
    in_main_memory,
    is_on_device,
    on_cpu,
    placed,
    taken,
    to_double,
)
from mercer._validation import refuse_no_numbers
from mercer.engine import engine_for
from mercer.kernels import Gaussian, Linear
from mercer.kernels.base import BLOCK, Kernel, has_range
from mercer.kernels.scale import check_similarity
from mercer.machines.program import Array, Index
from mercer.rows.columns import columns_by_name

#: Number of rows of a Gram matrix that are tested, and what counts there as a negative eigenvalue or a
#: difference.
_LOOKED_AT, _NEGATIVE = 64, 1e-5
#: Largest entries of Gram matrices and weights: their squares must not overflow.
MOST_WEIGHT = 1e150
_OVERFLOW = (
    f"row {{}} of the Gram matrix holds NaN, infinity or a number above {MOST_WEIGHT:g}; check the "
    "point or the kernel, or rescale it"
)


@dataclass(frozen=True)
class Points:
    """Points and a kernel; if it is "precomputed", the points are their Gram matrix."""

    kernel: Any
    X: Any

    def __len__(self) -> int:
        return count(self.X)

    @property
    def precomputed(self) -> bool:
        """Whether the points are their Gram matrix."""
        return isinstance(self.kernel, str)

    def take(self, index: Index) -> Points:
        """Some of the points."""
        rows = taken(self.X, index)
        return Points(self.kernel, rows[:, index] if self.precomputed else rows)

    def gram(self) -> Any:
        """Gram matrix, with rows that are contiguous."""
        if self.precomputed:
            return np.ascontiguousarray(_check_symmetric(self.X))
        # Kernels have exact diagonals, and perhaps white noise, without Y; callables take two arguments.
        Y = None if isinstance(self.kernel, sk.Kernel) else self.X
        K = np.ascontiguousarray(as_floats(on_cpu(self.kernel(self.X, Y))))
        if K.shape != (len(self), len(self)):
            raise ValueError(f"the kernel of {len(self)} points returned an array of shape {K.shape}")
        return check_finite(K)

    def diagonal(self) -> Array:
        """Diagonal of the Gram matrix."""
        if self.precomputed:
            return np.diagonal(self.X).astype(float)
        if isinstance(self.kernel, sk.Kernel):
            return np.asarray(on_cpu(self.kernel.diag(self.X)), dtype=float)
        parts = np.split(np.arange(len(self)), range(_LOOKED_AT, len(self), _LOOKED_AT))
        return np.concatenate([np.diagonal(self.between(part, part)).astype(float) for part in parts])

    def between(self, rows: Index, columns: Index) -> Any:
        """A block of the Gram matrix."""
        if self.precomputed:
            return self.X[np.ix_(rows, columns)]
        parts = taken(self.X, rows), taken(self.X, columns)
        return as_floats(on_cpu(self.kernel(*parts)))

    def columns(self, index: Index) -> Any:
        """Some columns of the Gram matrix."""
        return self.X[:, index] if self.precomputed else self.with_others(taken(self.X, index))

    def gram_of(self, index: Index, dtype: Any) -> Any:
        """Gram matrix of some of the points, in single or double precision."""
        if isinstance(self.kernel, Kernel):
            return self.take(index).gram().astype(dtype, copy=False)
        K = np.empty((len(index), len(index)), dtype=dtype)
        for start in range(0, len(index), _LOOKED_AT):
            part = slice(start, start + _LOOKED_AT)
            K[part] = self.between(index[part], index)
        return check_finite(K)

    def times(self, v: Any) -> Any:
        """Product of the Gram matrix with columns, in double precision where the points are."""
        if not is_on_device(self.X):
            return products(self.kernel, self.X, None, v)
        return to_double(_times(self.kernel, self.X, None, v))

    def with_others(self, Y: Any) -> Any:
        """Gram matrix with other points."""
        return as_floats(on_cpu(self.kernel(self.X, beside(Y, self.X))))

    @cached_property
    def indefinite(self) -> bool:
        """Whether the Gram matrix of some of the points has a clearly negative eigenvalue."""
        known = getattr(self.kernel, "positive_semidefinite", None)
        if known:
            return False
        some = _some(len(self))
        K = self.between(some, some).astype(float)
        try:  # much faster than eigenvalues
            np.linalg.cholesky(K + _NEGATIVE * np.diagonal(K).max() * np.eye(len(K)))
        except np.linalg.LinAlgError:
            eigenvalues = np.linalg.eigvalsh(K)
        else:
            return False
        return bool(eigenvalues[0] < -_NEGATIVE * max(abs(eigenvalues[-1]), 1e-300))


def products(kernel: Any, X: Any, Y: Any, v: Array) -> Array:
    """Product ``k(X, Y) @ v``, some rows at a time, on the device of X; Y is X if it is None."""
    if isinstance(kernel, Kernel):
        Y, v = None if Y is None else beside(Y, X), placed(v, X)
        return np.asarray(on_cpu(_times(kernel, X, Y, v)), dtype=float)
    Y = X if Y is None else Y
    size = max(1, BLOCK // max(count(Y), 1))
    parts = [np.arange(start, min(start + size, count(X))) for start in range(0, count(X), size)]
    return np.concatenate([as_floats(kernel(taken(X, part), Y)) @ v for part in parts])


def _times(kernel: Kernel, X: Any, Y: Any, v: Any) -> Any:
    """``k(X, Y) @ v``; if a device runs out of memory, X is split in halves."""
    try:
        return kernel.matvec(X, Y, v)
    except RuntimeError as error:
        half = count(X) // 2
        if not half or not is_exhausted(X, error):
            raise
    Y = X if Y is None else Y
    parts = [_times(kernel, X[part], Y, v) for part in (slice(half), slice(half, None))]
    return array_namespace(v).concat(parts)


def is_exhausted(X: Any, error: BaseException) -> bool:
    """Tell whether an error says that the device of X is out of memory for a computation."""
    return is_on_device(X) and engine_for(X).exhausted(error)


def in_single(X: Any) -> Any:
    """Rows of numbers in single precision; other points as they are."""
    return X.astype(np.float32) if getattr(X, "dtype", None) == np.float64 else X


def as_floats(K: Any) -> Any:
    """An array in single or double precision."""
    K = np.asarray(K)
    return K if K.dtype in (np.float32, np.float64) else K.astype(float)


def check_finite(K: Any) -> Any:
    """Return a Gram matrix without NaN, infinity or entries whose squares overflow, or raise."""
    entries = K.reshape(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = entries @ entries  # much faster than a sum or a look at each
    if not np.isfinite(squares):
        wrong = ~(np.abs(K.astype(float)) <= MOST_WEIGHT).all(axis=1)
        if wrong.any():
            raise ValueError(_OVERFLOW.format(int(wrong.argmax())))
    return check_diagonal(K)


def check_diagonal(K: Any) -> Any:
    """Return a Gram matrix of finite numbers whose squares do not overflow, or raise."""
    # No entry of a Gram matrix is larger than those of the diagonal.
    large = ~(np.abs(np.diagonal(K)) <= np.float64(MOST_WEIGHT))
    if large.any():
        raise ValueError(_OVERFLOW.format(int(large.argmax())))
    return K


def _check_symmetric(K: Any) -> Any:
    """Return a Gram matrix if some of its rows and columns agree, or raise."""
    some = _some(len(K))
    part = K[np.ix_(some, some)]
    differences = np.abs(part - part.T)
    if differences.max() > _NEGATIVE * np.abs(part).max():
        i, j = (int(some[k]) for k in np.unravel_index(differences.argmax(), differences.shape))
        raise ValueError(
            f"a Gram matrix must be symmetric, but its entries ({i}, {j}) and ({j}, {i}) are "
            f"{K[i, j]:g} and {K[j, i]:g}"
        )
    return K


def _some(rows: int) -> Index:
    """Some rows, evenly spread."""
    size = min(rows, _LOOKED_AT)
    return np.arange(size) * (rows - 1) // max(size - 1, 1)


def open_points(
    machine: BaseEstimator, X: Any, y: Any = "no_validation", weights: Any = None
) -> tuple[Points, Any]:
    """Check training points and target, and let the kernel learn from them.

    The machine has the parameters ``kernel`` and ``scale``.
    """
    X, y = check_points(machine, X, y, reset=True)
    if not count(X):
        raise ValueError("X holds no points; at least one is needed")
    kernel = machine.kernel
    if isinstance(kernel, str) and kernel == "precomputed":
        if machine.scale is not None:
            raise ValueError(f"scale={machine.scale} needs a kernel, but the matrix is precomputed")
        if X.shape[0] != X.shape[1]:
            raise ValueError(f"a precomputed Gram matrix must be square, got X of shape {X.shape}")
        return Points(kernel, check_diagonal(X)), y
    return Points(learnt_kernel(kernel, machine.scale, X, y, weights), X), y


def learnt_kernel(kernel: Any, scale: float | None, X: Any, y: Any, weights: Any = None) -> Any:
    """The requested kernel, with what it learns from training points and targets."""
    if isinstance(kernel, type):
        raise TypeError(
            f"kernel is the class {kernel.__name__}; give an instance, {kernel.__name__}(...)"
        )
    if isinstance(kernel, str):
        if kernel == "linear":
            kernel = Linear()
        elif kernel == "rbf":
            kernel = Gaussian(length_scale=_usual_length(X, weights))
        else:
            raise ValueError(
                f"kernel must be a kernel, a callable, 'rbf', 'linear' or 'precomputed', got {kernel!r}"
            )
    elif isinstance(kernel, sk.Kernel):
        kernel = clone(kernel)
    elif not callable(kernel):
        raise TypeError(
            f"kernel must be a kernel, a callable, 'rbf', 'linear' or 'precomputed', got {kernel!r}"
        )
    return _learnt(kernel, X, y, scale)


def check_points(
    machine: BaseEstimator, X: Any, y: Any = "no_validation", *, reset: bool = False
) -> tuple[Any, Any]:
    """Points as an array if they are rows of numbers, with counted and named columns.

    Dense arrays and clouds outside main memory stay there, for kernels of :mod:`mercer.kernels`.
    """
    kernel, y = machine.kernel, y if isinstance(y, str) else on_cpu(y)
    if is_on_device(X) and (kernel in ("rbf", "linear") or isinstance(kernel, Kernel)):
        _check_n_features(machine, X, reset=reset)
        return X, y if isinstance(y, str) else _check_y(y, multi_output=True, estimator=machine)
    tensor = first_tensor(X)
    X = X if tensor is not None and not in_main_memory(tensor) else on_cpu(X)
    if not isinstance(kernel, str) and not getattr(kernel, "requires_vector_input", False):
        return columns_by_name(machine, X, reset), y
    if not reset and get_config()["assume_finite"] and _is_plain(X, machine.n_features_in_):
        return X, y
    refuse_no_numbers(X, "X")
    options: dict[str, Any] = {} if isinstance(y, str) else {"y_numeric": False, "multi_output": True}
    checked = validate_data(
        machine, X, y, reset=reset, accept_sparse=False if kernel == "precomputed" else "csr",
        dtype=[np.float64, np.float32], ensure_all_finite=isinstance(kernel, str), **options,
    )  # fmt: skip
    return (checked, y) if isinstance(y, str) else checked


def _is_plain(X: Any, columns: int) -> bool:
    """Whether X is an array of this many columns that scikit-learn's checks would not change."""
    if type(X) is not np.ndarray or X.ndim != 2:
        return False
    return len(X) > 0 and X.shape[1] == columns and X.dtype in (np.float32, np.float64)


def check_targets(y: Any, rows: int) -> Array:
    """Targets as numbers; raise for the first invalid row."""
    try:
        targets = np.asarray(y)
        targets = targets.astype(float, casting="safe" if targets.dtype.kind in "mM" else "unsafe")
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must hold numbers: {error}") from None
    if targets.ndim not in (1, 2) or len(targets) != rows:
        raise ValueError(f"X has {rows} points, but y has shape {targets.shape}")
    wrong = np.flatnonzero(~np.isfinite(targets.reshape(rows, -1)).all(axis=1))
    if len(wrong):
        raise ValueError(f"row {wrong[0]} of y contains NaN or infinity; drop or impute such rows")
    return targets


def check_weights(rows: int, weights: Any) -> Array:
    """Weights of rows, ones by default; raise for the first invalid row."""
    if weights is None:
        return np.ones(rows)
    checked = _check_sample_weight(on_cpu(weights), np.empty((rows, 1)), dtype=np.float64)
    wrong = np.flatnonzero((checked < 0) | (checked > MOST_WEIGHT))
    if len(wrong):
        raise ValueError(
            f"weights must be between 0 and {MOST_WEIGHT:g}, but row {wrong[0]} has weight "
            f"{checked[wrong[0]]:g}"
        )
    return np.asarray(checked)


def _usual_length(X: Any, weights: Any) -> float:
    """scikit-learn's ``gamma="scale"``, ``1 / (columns times variance)``, as a length scale.

    Rows are weighted: a row of weight two counts as two rows.
    """
    X, weights = on_cpu(X), check_weights(X.shape[0], weights)
    if not weights.any():
        return 1.0  # refused later, with what is wrong about them
    size = float(abs(X).max()) or 1.0  # squares must neither overflow nor vanish
    X = X / size
    shares = weights / weights.max()
    shares /= shares.sum() * X.shape[1]
    mean = float((shares @ X).sum())
    squares = X.multiply(X) if sparse.issparse(X) else X * X
    variance = float((shares @ squares).sum()) - mean**2
    return size * float(np.sqrt(0.5 * X.shape[1] * variance)) if variance > 0 else float(np.sqrt(0.5))


def _learnt(kernel: Any, X: Any, y: Any, scale: float | None) -> Any:
    """The kernel with what it learns from the points and, if there are any, from the targets."""
    if not isinstance(kernel, Kernel):
        if scale is not None:
            raise ValueError(f"scale={scale} needs a kernel of mercer.kernels, got {kernel!r}")
        return kernel
    y = None if isinstance(y, str) else y
    if scale is None:
        return kernel.learnt_from(X, y)
    if not has_range(kernel):
        warnings.warn(
            f"{kernel!r} has no range, so scale={scale} has no effect; leave it out, or scale a part "
            "of the kernel (its base) by scaled_to",
            stacklevel=5,
        )
    return kernel.scaled_to(X, check_similarity(scale, "scale")).learnt_from(X, y)
