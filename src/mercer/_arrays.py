"""Arrays of NumPy, SciPy and other libraries: kind, place, precision, sums over rows, tiles."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj, is_numpy_array, is_torch_array
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[np.float64]

#: Largest number of bytes copied from a device through pinned memory, which is four times faster but
#: scarce.
_PINNED = 2**26
#: Elements of a tile that are copied at a time.
_COPIED = 2**16
#: The largest number in single precision.
LARGEST_SINGLE = float(np.finfo(np.float32).max)
#: Bytes of a cache line.
_LINE = 64
#: What DLPack calls memory of CUDA devices, their own and shared with the CPU.
_CUDA = (2, 13)


class SparseTensorRows(sparse.csr_matrix):
    """Rows of a sparse tensor as a matrix in main memory that remembers the tensor's device."""

    home: ClassVar[Any]


@cache
def _rows_from(home: Any) -> type[SparseTensorRows]:
    return type("SparseTensorRows", (SparseTensorRows,), {"home": home})


def sparse_rows_at(home: Any, rows: sparse.csr_matrix) -> SparseTensorRows:
    """A sparse matrix as rows of a sparse tensor on a device."""
    return _rows_from(home)(rows)


def is_sparse_tensor(X: Any) -> bool:
    """Tell whether X is a tensor that is stored sparse."""
    return str(getattr(X, "layout", "")).startswith("torch.sparse")


def sparse_rows(X: Any) -> SparseTensorRows:
    """Rows of a sparse tensor; SciPy raises for indices that do not fit together."""
    X, shape = X.detach(), tuple(X.shape)
    X = X if X.dtype.itemsize >= 4 else X.double()
    if "csr" in str(X.layout):
        parts = [part.cpu().numpy() for part in (X.values(), X.col_indices(), X.crow_indices())]
        return _rows_from(X.device)(tuple(parts), shape=shape)
    X = X.to_sparse_coo().coalesce()
    return _rows_from(X.device)((X.values().cpu().numpy(), X.indices().cpu().numpy()), shape=shape)


def as_sparse_as(other: Any, X: Any) -> Any:
    """Return a dense tensor as sparse rows if the other rows are those of a sparse one."""
    if not isinstance(other, SparseTensorRows) or not is_foreign(X):
        return X
    if is_watched(X):
        raise TypeError("there are no derivatives with sparse tensors: detach the dense one")
    return sparse_rows(X)


def is_foreign(X: Any) -> bool:
    """Tell whether X is an array of a library other than NumPy (torch, JAX, array-api-strict)."""
    if isinstance(X, np.ndarray) or not hasattr(X, "shape"):
        return False  # the most common answers first, for the sake of small Gram matrices
    if is_torch_array(X):
        return True
    return bool(is_array_api_obj(X)) and not is_numpy_array(X) and not sparse.issparse(X)


def is_borrowed(X: Any) -> bool:
    """Tell whether X is on a CUDA device and offers DLPack, but is not a tensor (CuPy, JAX)."""
    if isinstance(X, np.ndarray) or not hasattr(X, "__dlpack_device__"):
        return False
    if is_torch_array(X) or find_spec("torch") is None:
        return False
    try:
        return X.__dlpack_device__()[0] in _CUDA
    except (BufferError, TypeError, ValueError):  # JAX, where it traces a function
        return False


def in_main_memory(X: Any) -> bool:
    """Tell whether data are in main memory; true for everything that is not an array."""
    if isinstance(X, np.ndarray):
        return True
    if isinstance(X, SparseTensorRows):
        return str(X.home) == "cpu"
    if is_torch_array(X):
        return bool(X.device.type == "cpu")
    return not is_array_api_obj(X) or str(device(X)) == "cpu"


def is_on_device(X: Any) -> bool:
    """Tell whether X is a dense array outside main memory, where its kernels are computed too."""
    return is_foreign(X) and not is_sparse_tensor(X) and not in_main_memory(X)


def is_single(X: Any) -> bool:
    """Tell whether X is an array or sparse matrix in single precision."""
    if isinstance(X, np.ndarray) or sparse.issparse(X):
        return bool(X.dtype == np.float32)
    return bool(is_array_api_obj(X)) and X.dtype == array_namespace(X).float32


def to_single(values: Any) -> Any:
    """Return an array, or each of a tuple of arrays, in single precision."""
    if isinstance(values, tuple):
        return tuple(to_single(part) for part in values)
    xp = array_namespace(values)
    return xp.astype(values, xp.float32, copy=False)


def to_double(X: Any) -> Any:
    """Return an array or sparse matrix in double precision."""
    if not is_foreign(X):
        return X.astype(np.float64, copy=False)
    xp = array_namespace(X)
    return xp.astype(X, xp.float64, copy=False)


def in_one_precision(X: Any, Y: Any) -> tuple[Any, Any]:
    """Return two arrays, both in double precision unless both are in single: equal rows stay so."""
    return (X, Y) if X.dtype == Y.dtype else (to_double(X), to_double(Y))


def detached(X: Any) -> Any:
    """Return an array detached from automatic differentiation."""
    return X.detach() if hasattr(X, "detach") else X


def on_cpu(X: Any) -> Any:
    """Return an array, or a list of clouds of points, as NumPy arrays or SciPy matrices."""
    if first_tensor(X) is not None:
        return _with_points(on_cpu, X)
    if not is_foreign(X):
        return X
    if is_sparse_tensor(X):
        return sparse.csr_matrix(sparse_rows(X))
    X = detached(X)
    if getattr(X, "is_cuda", False) and X.nbytes <= _PINNED:
        X = X.new_empty(X.shape, device="cpu", pin_memory=True).copy_(X)
    elif hasattr(X, "cpu"):
        X = X.cpu()
    return np.asarray(X.get() if hasattr(X, "get") else X)  # CuPy does not copy unless it is told to


def placed(values: Any, like: Any) -> Any:
    """Return an array converted to the library and the device of another, with its derivatives."""
    if not is_foreign(like):
        return values
    if is_torch_array(values) and is_torch_array(like):
        return values.to(like.device)  # asarray would detach it, depending on the version
    if isinstance(values, np.ndarray) and (
        min(values.strides, default=0) < 0 or not values.dtype.isnative
    ):  # tensors know neither such strides nor such bytes
        values = values.astype(values.dtype.newbyteorder("="), order="C")
    return array_namespace(like).asarray(values, device=device(like))


def floating_beside(values: Any, like: Any) -> Any:
    """Return whole numbers of another library than NumPy as floating ones, in the precision of an array.

    The array API does not say what a product of both is.
    """
    if not is_foreign(values):
        return values
    xp = array_namespace(values)
    return values if xp.isdtype(values.dtype, "real floating") else xp.astype(values, like.dtype)


def together(first: Any, second: Any) -> tuple[Any, Any]:
    """Return two arrays, one of which may be NumPy's, as arrays of the other's library and device."""
    return placed(first, second), placed(second, first)


def asarray_like(values: Any, like: Any) -> Any:
    """Return numbers as an array with the library, precision and device of another."""
    return array_namespace(like).asarray(values, dtype=like.dtype, device=device(like))


def first_tensor(X: Any) -> Any:
    """Return the points of the first of a list of clouds, if they are an array of another library."""
    if not isinstance(X, list | tuple) or len(X) == 0:
        return None
    points = X[0][0] if isinstance(X[0], tuple) and X[0] else X[0]
    return points if is_foreign(points) else None


def place_of(X: Any) -> Any:
    """Return an array where points are: the points, or those of the first of a list of clouds."""
    tensor = first_tensor(X)
    return X if tensor is None else tensor


def _with_points(change: Callable[[Any], Any], X: Any) -> list[Any]:
    """Clouds with their points changed; weights are in main memory."""
    return [
        (change(cloud[0]), *map(on_cpu, cloud[1:])) if isinstance(cloud, tuple) else change(cloud)
        for cloud in X
    ]


def beside(Y: Any, X: Any) -> Any:
    """Return arrays or clouds in main memory on the device of X, if X is on one."""
    like = X if is_on_device(X) else first_tensor(X)
    if like is None or is_on_device(Y):
        return Y
    if like is X:
        return placed(on_cpu(Y), X)
    return _with_points(lambda points: placed(on_cpu(points), like), Y)


def taken(X: Any, index: Any) -> Any:
    """Return some points, by slice or numbers, of a list, a frame or an array of any library."""
    if hasattr(X, "iloc"):
        return X.iloc[index]
    if is_sparse_tensor(X):
        numbers = np.arange(*index.indices(X.shape[0])) if isinstance(index, slice) else index
        return X.index_select(0, placed(numbers, X))
    if is_foreign(X):
        if isinstance(index, slice):
            return X[index, ...]  # the array API requires an index for every axis
        return array_namespace(X).take(X, placed(index, X), axis=0)
    if hasattr(X, "shape") or isinstance(index, slice):
        return X[index]
    return [X[i] for i in index]


def is_watched(value: Any) -> bool:
    """Tell whether a hyperparameter is a tensor that is being differentiated."""
    return bool(getattr(value, "requires_grad", False))


def number(value: Any) -> float:
    """Return the number in a hyperparameter: a tensor, or complex for a derivative by a complex step."""
    return value if isinstance(value, complex) else float(detached(value))  # type: ignore[return-value]


def count(X: Any) -> int:
    """Return the number of points."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def evenly_spread(size: int, most: int) -> NDArray[np.intp]:
    """Return numbers of at most ``most`` of the points, evenly spread over all of them."""
    return np.unique(np.linspace(0, size - 1, min(size, most)).astype(np.intp))


def sliceable(X: Any) -> Any:
    """Return rows in a form that can be sliced, which frames and most sparse formats cannot."""
    if hasattr(X, "to_numpy"):
        return X.to_numpy()
    if is_sparse_tensor(X):
        return X.to_sparse_coo()
    return selectable(X)


def selectable(X: Any) -> Any:
    """Return points whose rows can be selected: sparse matrices as CSR, others unchanged."""
    return X.tocsr() if sparse.issparse(X) else X


def filled(shape: tuple[int, ...], value: Any, like: Any) -> Any:
    """Return an array of one number, perhaps a tensor, with the precision and device of another."""
    if not is_foreign(like):
        if is_watched(value):
            raise TypeError(
                "a factor is a tensor that requires a gradient, but the rows are not dense tensors; "
                "give such tensors for both, or detach it"
            )
        single = getattr(like, "dtype", None) == np.float32
        return np.full(shape, value, dtype=np.float32 if single else np.float64)
    xp = array_namespace(like)
    single = like.dtype == xp.float32
    dtype = xp.float32 if single else xp.float64
    if hasattr(value, "detach"):
        return xp.ones(shape, dtype=dtype, device=device(like)) * value
    value = float(value)
    if single and abs(value) > LARGEST_SINGLE:
        with np.errstate(over="ignore"):  # infinity is refused where it is used
            value = float(np.float32(value))
    return xp.full(shape, value, dtype=dtype, device=device(like))


def with_diagonal(K: Any, values: Any) -> Any:
    """Return a matrix of any library with another diagonal, in place."""
    i = np.arange(K.shape[0])
    K[i, i] = values
    return K


def has_overflowed(values: Any) -> bool:
    """Tell whether an array of a library other than NumPy (which raises by itself) is not finite."""
    if not is_foreign(values):
        return False
    xp = array_namespace(values)
    # The sum is finite unless a value is not, or the sum overflows: single values are rarely tested.
    return not bool(xp.isfinite(xp.sum(values))) and not bool(xp.all(xp.isfinite(values)))


def constant_rows(X: Any, value: float) -> Any:
    """Return the same number for each row of X, in X's precision and on its device."""
    return filled((X.shape[0],), value, X)


def row_any(X: sparse.csr_matrix, flags: np.ndarray) -> np.ndarray:
    """Tell which rows of a CSR matrix hold a stored element that is flagged."""
    found = np.zeros(X.shape[0], dtype=bool)
    found[np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))[flags]] = True
    return found


def finite_rows(X: Any) -> Any:
    """Tell which rows are finite, in one cheap pass if all are."""
    if sparse.issparse(X):
        # The sum may overflow although all entries are finite: then test each entry.
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


def squared_lengths(X: Any) -> Any:
    """Squared Euclidean lengths of rows."""
    if sparse.issparse(X):
        # SciPy adds one by one, which is inaccurate in single precision.
        squares = np.square(X.data, dtype=np.float64)
        sums = sparse.csr_matrix((squares, X.indices, X.indptr), shape=X.shape).sum(axis=1)
        return np.asarray(sums, dtype=X.dtype).ravel()
    return array_namespace(X).vecdot(X, X, axis=-1)


def row_lengths(X: Any) -> Any:
    """Euclidean lengths of rows, whatever their scale; zero only for rows of zeros."""
    largest = row_maxima(X)
    if not is_extreme(largest):
        return plain_lengths(X)
    xp = array_namespace(largest)
    safe = xp.where(largest > 0, largest, xp.ones_like(largest))
    with np.errstate(over="ignore"):  # infinity is the length then
        return safe * plain_lengths(scale_rows(X, safe))


def row_maxima(X: Any) -> Any:
    """Largest magnitude in each row."""
    if sparse.issparse(X):
        return np.abs(X).max(axis=1).toarray().ravel()
    xp = array_namespace(X)
    return xp.max(xp.abs(X), axis=1)


def unit_rows(X: Any) -> Any:
    """Rows divided by their lengths, whatever their scale; rows of zeros stay as they are."""
    with np.errstate(over="ignore"):
        lengths = plain_lengths(X)
    xp = array_namespace(lengths)
    tiny = float(xp.finfo(lengths.dtype).smallest_normal) ** 0.5
    if not bool(xp.all((lengths > 2 * tiny) & xp.isfinite(lengths))):
        # Squares may have left the floating-point range, or rows are zero: rescale.
        largest = row_maxima(X)
        X = scale_rows(X, xp.where(largest > 0, largest, xp.ones_like(largest)))
        lengths = plain_lengths(X)
        lengths = xp.where(lengths > 0, lengths, xp.ones_like(lengths))
    return scale_rows(X, lengths)


def roots_of_shares(X: Any) -> Any:
    """Square roots of non-negative rows divided by their sums, whatever their scale."""
    # Dividing by the largest entry first keeps totals in range whatever the scale of the rows.
    largest = row_maxima(X)
    if is_extreme(largest):
        X = scale_rows(X, largest)
    if sparse.issparse(X):
        shares = scale_rows(X, np.asarray(X.sum(axis=1)).ravel())
        np.sqrt(shares.data, out=shares.data)
        return shares
    return square_root(X / array_namespace(X).sum(X, axis=1, keepdims=True))


def scale_rows(X: Any, by: Any) -> Any:
    """Divide rows by numbers, keeping sparse matrices sparse."""
    if sparse.issparse(X):
        scaled = X.copy()
        scaled.data /= np.repeat(by, np.diff(X.indptr)).astype(X.dtype)
        return scaled
    return X / by[:, None]


def square_root(x: Any) -> Any:
    """Square root; for libraries other than NumPy with the derivative 0 at 0 instead of a NaN."""
    if is_numpy_array(x):
        return np.sqrt(x)
    xp = array_namespace(x)
    positive = x > 0
    return xp.where(positive, xp.sqrt(xp.where(positive, x, xp.ones_like(x))), xp.zeros_like(x))


def plain_lengths(X: Any) -> Any:
    """Euclidean lengths of rows whose squares stay in the floating-point range."""
    return square_root(squared_lengths(X))


def is_extreme(largest: Any) -> bool:
    """Tell whether squares or sums of such numbers may leave the floating-point range."""
    xp = array_namespace(largest)
    edge = float(xp.finfo(largest.dtype).max) ** 0.4
    inside = (largest < edge) & ((largest > 1 / edge) | (largest == 0))
    return not bool(xp.all(inside))


def in_lines(
    loop: Callable[..., None],
    tile: NDArray[Any],
    out: NDArray[Any] | None,
    arguments: tuple[Any, ...],
) -> None:
    """Run a compiled loop over the rows of a tile; values go to another array, or replace the tile."""
    if out is None:
        # Copies of a few rows: arrays that overlap would not be computed side by side.
        height = max(1, _COPIED // max(1, tile.shape[1]))
        for start in range(0, len(tile), height):
            part = tile[start : start + height]
            in_lines(loop, part.copy(), part, arguments)
        return
    source, target = contiguous_rows(tile), contiguous_rows(out)
    loop(*line_of(source), *line_of(target), *tile.shape, *arguments)
    if target is not out:
        out[:] = target


def contiguous_rows(tile: NDArray[Any]) -> NDArray[Any]:
    """A tile whose rows are contiguous: itself, if they are."""
    step, rest = divmod(tile.strides[0], tile.itemsize)
    if tile.flags.c_contiguous or (
        tile.strides[1] == tile.itemsize and step >= tile.shape[1] and not rest
    ):
        return tile
    return np.ascontiguousarray(tile)


def line_of(tile: NDArray[Any]) -> tuple[NDArray[Any], int]:
    """A tile of contiguous rows as one line of memory, and the distance between its rows."""
    rows, columns = tile.shape
    if tile.flags.c_contiguous:
        return tile.reshape(-1), columns
    step = tile.strides[0] // tile.itemsize
    return as_strided(tile, ((rows - 1) * step + columns,), (tile.itemsize,)), step


def aligned(rows: int, columns: int, dtype: Any) -> NDArray[Any]:
    """Zeros whose rows begin at cache lines, with at least the given number of columns.

    Where rows begin elsewhere, every load of eight numbers crosses two lines and takes twice as long.
    """
    few = _LINE // np.dtype(dtype).itemsize
    columns += -columns % few
    room = np.zeros(rows * columns + few, dtype)
    address = room.__array_interface__["data"][0]  # room.ctypes takes longer
    start = -address % _LINE // room.itemsize
    return room[start : start + rows * columns].reshape(rows, columns)
