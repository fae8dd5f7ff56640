"""The engine of sparse tensors: rows in main memory, products on their device, tile by tile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy import sparse

from mercer._arrays import SparseTensorRows, on_cpu, placed
from mercer.engine.base import PLAIN, Engine, GramOptions, Place, engine_for, places
from mercer.engine.equal import Equal, NumberedRows, row_keys
from mercer.engine.operands import columns_in_use
from mercer.profiles import Profile

#: Numbers of a dense tile of rows, and its fewest and most rows.
_NUMBERS, _FEWEST, _MOST = 2**26, 16, 2048


class SparseTensorEngine(Engine):
    """Gram matrices of sparse tensors, as tensors on their device.

    Rows are checked, scaled and compared in main memory, in time linear in the number of non-zeros.  On
    a device tiles of rows are then made dense, two at a time, and multiplied by the engine of dense
    tensors; for tensors in main memory everything is left to the engine of sparse matrices.

    Parameters
    ----------
    home : tensor, optional
        An empty tensor on the device of the rows.
    """

    def __init__(self, home: Any = None) -> None:
        self._home = home

    def accepts(self, array: Any) -> bool:
        return isinstance(array, SparseTensorRows)

    def serving(self, array: Any) -> Engine:
        return _engine_at(array.home)

    def like_rows(self, values: Any, X: Any) -> Any:
        return placed(values, self._home)

    def equal_rows(self, X: Any, Y: Any, value: float) -> Equal | NumberedRows | None:
        if not is_far(self._home):
            return super().equal_rows(X, Y, value)
        keys = row_keys(X) if Y is None else np.concatenate([row_keys(X), row_keys(Y)])
        found, numbers = np.unique(keys, return_inverse=True)
        if len(found) == len(keys):
            return None
        left, right = numbers[: X.shape[0]], numbers if Y is None else numbers[X.shape[0] :]
        return NumberedRows(placed(left, self._home), placed(right, self._home), value)

    def gram(self, L: Any, R: Any, profile: Profile, options: GramOptions = PLAIN) -> Any:
        if not is_far(self._home):
            return placed(engine_for(L.data).gram(L, R, profile, options), self._home)
        dtype = np.result_type(L.dtype, R.dtype) if options.dtype is None else options.dtype
        out = placed(np.empty(0, dtype), self._home).new_empty((L.shape[0], R.shape[0]))
        for (rows, columns), tile in self._tiles(L, R, profile, options):
            out[rows, columns] = tile
            if options.symmetric:
                out[columns, rows] = tile.T
        return out

    def apply(self, w: Any, profile: Profile, options: GramOptions = PLAIN) -> Any:
        """See :class:`Engine`; invariants are in main memory, where the values stay."""
        return engine_for(w).apply(w, profile, options)

    def matvec(self, L: Any, R: Any, profile: Profile, v: Any, options: GramOptions = PLAIN) -> Any:
        """See :class:`Engine`; sums over tiles are in double precision."""
        if not is_far(self._home):
            return placed(engine_for(L.data).matvec(L, R, profile, on_cpu(v), options), self._home)
        v = placed(v, self._home)
        sums = placed(np.zeros((L.shape[0], *v.shape[1:])), self._home)
        kind = placed(np.empty(0, np.result_type(L.dtype, R.dtype)), self._home).dtype
        for (rows, columns), tile in self._tiles(L, R, profile, options):
            sums[rows] += tile @ v[columns].to(tile.dtype)
            if options.symmetric and rows != columns:
                sums[columns] += tile.T @ v[rows].to(tile.dtype)
        return sums.to(array_namespace(v).result_type(kind, v.dtype))

    def _tiles(
        self, L: Any, R: Any, profile: Profile, options: GramOptions
    ) -> Iterator[tuple[Place, Any]]:
        """Tiles of the Gram matrix and their places; on and above the diagonal if it is symmetric."""
        L, R = columns_in_use(L, R)
        options = self._placed(options)
        left = _Rows.of(L, self._home)
        right = left if L is R else _Rows.of(R, self._home)
        dense = engine_for(left.values)
        side = max(_FEWEST, min(_MOST, _NUMBERS // max(L.shape[1], 1)))
        strip, part = slice(0, 0), left.values
        for rows, columns in places((L.shape[0], R.shape[0]), (side, side), options.symmetric):
            if rows != strip:
                strip, part = rows, left.dense(rows)
            others = part if left is right and rows == columns else right.dense(columns)
            tile = dense.gram(part, others, profile, options.part(rows, columns))
            if options.symmetric and rows == columns:
                tile = tile.triu() + tile.triu(1).T  # products with itself may not be symmetric
            yield (rows, columns), tile

    def _placed(self, options: GramOptions) -> GramOptions:
        """Options with their arrays on the device."""
        left, right = options.scales or (None, None)
        scales = None if left is None else (placed(left, self._home), placed(right, self._home))
        own = None if options.diagonal is None else placed(options.diagonal, self._home)
        return replace(options, scales=scales, diagonal=own, dtype=None)


@cache
def _engine_at(home: Any) -> SparseTensorEngine:
    import torch

    return SparseTensorEngine(torch.empty(0, device=home))


def is_far(home: Any) -> bool:
    """Tell whether a tensor is outside main memory."""
    return bool(home.device.type != "cpu")


@dataclass(frozen=True, eq=False)
class _Rows:
    """A sparse matrix on a device: where each row begins, rows and columns of its values, and these."""

    starts: Any
    rows: Any
    columns: Any
    values: Any
    width: int

    @classmethod
    def of(cls, X: sparse.csr_matrix, home: Any) -> _Rows:
        rows = placed(np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), home)
        columns = placed(X.indices.astype(np.int64), home)
        return cls(X.indptr, rows, columns, placed(X.data, home), X.shape[1])

    def dense(self, rows: slice) -> Any:
        """Some of the rows."""
        part = slice(int(self.starts[rows.start]), int(self.starts[rows.stop]))
        out = self.values.new_zeros((rows.stop - rows.start, self.width))
        out[self.rows[part] - rows.start, self.columns[part]] = self.values[part]
        return out
