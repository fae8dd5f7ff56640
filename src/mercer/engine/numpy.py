"""The engine of NumPy arrays and SciPy matrices: tile by tile, in threads.

Each thread computes a tile of the invariants, applies the profile to it while it is in cache, and
writes it to its place.  BLAS is limited to one thread: the tiles are computed in parallel instead.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._arrays import SparseTensorRows, is_borrowed, is_foreign, line_of, unit_rows
from mercer._threads import run, threads_in_use
from mercer._validation import check_gram
from mercer.engine.base import (
    PLAIN,
    Engine,
    Extent,
    Functions,
    GramOptions,
    Place,
    places,
    threads_for,
)
from mercer.engine.operands import Invariants, Write, coordinates, invariants, stored
from mercer.profiles import Profile, TableProfile
from mercer.profiles.ends import SteepEnd

#: Rows of one task where functions of points are evaluated.
_ROWS = 1024
#: Numbers of one task where rows are divided by their lengths.
_NUMBERS = 2**18
#: Entries of a matrix that a thread multiplies or adds at a time.
_ENTRIES = 2**20
#: Whole numbers as wide as floating ones, and what leaves out the sign.
_BITS = {
    np.dtype(np.float32): (np.int32, np.int32(2**31 - 1)),
    np.dtype(np.float64): (np.int64, np.int64(2**63 - 1)),
}
#: Between these no square of a length has lost digits or is infinite, nor is the length.
_SQUARES = {np.dtype(np.float32): (1e-70, 1e70), np.dtype(np.float64): (1e-290, 1e300)}


class NumpyEngine(Engine):
    """Gram matrices in main memory; nothing larger than the result and a tile per thread is allocated.

    Results are reproducible to the last bit for a given number of threads.
    """

    takes_operands = True

    def accepts(self, array: Any) -> bool:
        """See :class:`Engine`; everything but arrays of other libraries."""
        if isinstance(array, np.ndarray):
            return True  # the most common answer first
        return not (is_foreign(array) or is_borrowed(array) or isinstance(array, SparseTensorRows))

    def gram(self, L: Any, R: Any, profile: Profile, options: GramOptions = PLAIN) -> NDArray[Any]:
        source = invariants(L, R, options.symmetric, options.equal)
        return Tiles(source, profile, options).matrix()

    def apply(self, w: Any, profile: Profile, options: GramOptions = PLAIN) -> NDArray[Any]:
        if w.ndim == 1 and options.dtype is None:  # a diagonal, too short for tiles
            values = np.array(w, ndmin=2)
            profile.apply(values)
            return values[0]
        return Tiles(stored(np.atleast_2d(w)), profile, options).matrix().reshape(w.shape)

    def matvec(
        self, L: Any, R: Any, profile: Profile, v: Any, options: GramOptions = PLAIN
    ) -> NDArray[Any]:
        """See :class:`Engine`; each thread adds up tiles of its own, in a fixed order."""
        source = invariants(L, R, options.symmetric, options.equal)
        tiles = Tiles(source, profile, options)
        places = tiles.places
        lanes = min(threads_in_use(), len(places))
        sums = np.zeros((lanes, source.shape[0], *v.shape[1:]), dtype=np.result_type(source.dtype, v))
        stop = threading.Event()

        def accumulate(lane: int) -> None:
            buffer = np.empty(math.prod(tiles.largest), dtype=source.dtype)
            for rows, columns in places[lane::lanes]:
                if stop.is_set():
                    return
                shape = rows.stop - rows.start, columns.stop - columns.start
                tile = buffer[: math.prod(shape)].reshape(shape)
                tiles.write(rows, columns, tile)
                sums[lane, rows] += tile @ v[columns]
                if options.symmetric:
                    # What lies right of the diagonal block is mirrored below it.
                    beyond = slice(max(rows.stop, columns.start), columns.stop)
                    right = tile[:, beyond.start - columns.start :]
                    sums[lane, beyond] += right.T @ v[rows]

        run(accumulate, [(lane,) for lane in range(lanes)], stop)
        return sums.sum(axis=0)

    def multiplied(self, K: Any, factor: float) -> Any:
        """See :class:`Engine`; in place, in threads."""

        def multiply(rows: slice) -> None:
            with np.errstate(over="ignore"):  # infinity is the value there
                K[rows] *= factor

        run(multiply, _bands(K))
        return K

    def added(self, K: Any, other: Any, factor: float = 1.0) -> Any:
        """See :class:`Engine`; in place, in threads; raises where sums overflow."""

        def add(rows: slice) -> None:
            with np.errstate(over="raise"):
                K[rows] += other[rows] if factor == 1 else other[rows] * factor

        K = K.astype(np.result_type(K, other), copy=False)
        run(add, _bands(K))
        return K

    def added_gram(self, K: Any, L: Any, R: Any, profile: Profile, options: GramOptions = PLAIN) -> Any:
        """See :class:`Engine`; tile by tile; raises where sums overflow."""
        source = invariants(L, R, options.symmetric, options.equal)
        K = np.ascontiguousarray(K, dtype=np.result_type(K, source.dtype))
        Tiles(source, profile, options).fill(K, add=True)
        return K

    def extent(self, X: Any) -> Extent | None:
        """See :class:`Engine`; minus zero counts as negative."""
        from mercer.compiled.rows import extent

        if not isinstance(X, np.ndarray) or X.dtype not in _BITS:
            return None
        whole, mask = _BITS[X.dtype]
        negative, *ends = extent(X.view(whole), mask)
        flattest, largest = np.array(ends, dtype=whole).view(X.dtype).tolist()
        return Extent(negative, flattest, largest)

    def unit_rows(self, X: Any) -> Any:
        """See :class:`Engine`; dense rows by a compiled loop, in threads.

        The result for a row does not depend on the rows around it.
        """
        from mercer.compiled.rows import divide_by_lengths

        if sparse.issparse(X):
            return unit_rows(X)
        out, usual = np.empty_like(X), np.empty(len(X), dtype=bool)

        def divide(start: int) -> None:
            rows = slice(start, start + height)
            divide_by_lengths(X[rows], *_SQUARES[X.dtype], out[rows], usual[rows])

        height = max(1, _NUMBERS // max(1, X.shape[1]))
        run(divide, [(start,) for start in range(0, len(X), height)])
        if not usual.all():
            out[~usual] = unit_rows(X[~usual])
        return out

    def evaluate(self, functions: Functions, points: Any) -> NDArray[Any]:
        """See :class:`Engine`; block by block of rows."""
        out = np.empty((points.shape[0], functions.n_features), dtype=points.dtype)

        def write(start: int) -> None:
            rows = slice(start, start + _ROWS)
            self.write(functions, points[rows], out[rows])

        run(write, [(start,) for start in range(0, len(out), _ROWS)], what="features")
        return out

    def write(self, functions: Functions, points: Any, out: NDArray[Any]) -> None:
        dense = points.toarray() if sparse.issparse(points) else points
        functions.write(np.ascontiguousarray(dense, dtype=float), out)

    def lanes(self, X: Any) -> int:
        return threads_for(X.shape[0])

    def inverse_factor(self, B: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        from mercer.compiled.blas import invert_factor

        B = np.ascontiguousarray(B)
        return B, invert_factor(B, np.frombuffer(b"UN", np.uint8), np.zeros(4, np.int32))


def _bands(K: NDArray[Any]) -> list[tuple[slice]]:
    """Rows of a matrix that a thread takes at a time."""
    height = max(1, _ENTRIES // max(K[:1].size, 1))
    return [(slice(start, start + height),) for start in range(0, len(K), height)]


@dataclass(frozen=True, eq=False)
class Tiles:
    """Tiles of a Gram matrix ``profile(invariants)``: the one loop over matrices in main memory.

    A tile has ``height`` rows and all columns, or else the shape that suits the source.
    """

    source: Invariants
    profile: Profile
    options: GramOptions = PLAIN
    height: int | None = None
    #: Writes values at once, without invariants, if there is such a way.
    in_one_pass: Write | None = field(init=False)

    def __post_init__(self) -> None:
        # Once, and not in threads that would wait for one another.
        object.__setattr__(self, "in_one_pass", self._in_one_pass())

    @property
    def places(self) -> list[Place]:
        """Rows and columns of the tiles."""
        return places(self.source.shape, self.largest, self.options.symmetric)

    @property
    def largest(self) -> tuple[int, int]:
        """Shape that holds every tile."""
        rows, columns = self.source.shape
        height, width = (self.height, columns) if self.height else self.source.tile
        return max(1, min(height, rows)), max(1, min(width, columns))

    def write(self, rows: slice, columns: slice, tile: NDArray[Any], upper: bool = False) -> None:
        """Compute one tile; below the diagonal too, unless ``upper`` is enough."""
        from mercer.compiled.profiles import mirror, scale

        options = self.options
        on_diagonal = options.symmetric and rows.start == columns.start
        self._evaluate(rows, columns, tile, on_diagonal and options.diagonal is not None)
        if options.scales is not None:
            left, right = options.scales
            scale(*line_of(tile), *tile.shape, left[rows], right[columns])
        if on_diagonal:
            square = tile[:, : len(tile)]
            if not upper:
                mirror(square, 0, len(square), 0, len(square))
            if options.diagonal is not None:
                np.fill_diagonal(square, options.diagonal[rows])

    def _evaluate(self, rows: slice, columns: slice, tile: NDArray[Any], spared: bool) -> None:
        """Write values of the profile, of short rows in one pass; a diagonal may be spared."""
        source, profile = self.source, self.profile
        if self.in_one_pass is not None:
            self.in_one_pass(rows, columns, tile)
            return
        tabulated = isinstance(profile, TableProfile)
        # Invariants of their own stay in cache, unlike the result.
        invariants = np.empty(tile.shape, dtype=tile.dtype) if tabulated else tile
        source.write(rows, columns, invariants)
        if spared:
            # Exact values come later: the invariant of another pair keeps the range narrow until then.
            np.fill_diagonal(invariants[:, : len(tile)], invariants[0, -1])
        if isinstance(profile, TableProfile):
            profile.apply(invariants, tile)
        else:
            profile.apply(tile)
        for end in self._steep_ends:
            i, j = end.places(invariants)
            separations = source.separations(rows.start + i, columns.start + j, end.sign)
            tile[i, j] = end.profile.looked_up(separations)

    def _in_one_pass(self) -> Write | None:
        """Products and one polynomial of them at a time, if rows are short and there is one."""
        source, profile = self.source, self.profile
        if not isinstance(profile, TableProfile) or not source.short or self._steep_ends:
            return None
        found = profile.whole(math.prod(self.largest), source.dtype)
        if found is None:
            return None
        assert source.operands is not None
        left, right = coordinates(*source.operands)

        def write(rows: slice, columns: slice, out: NDArray[Any]) -> None:
            found.apply_to_products(left[rows], right, columns.start, out)

        return write

    @property
    def _steep_ends(self) -> list[SteepEnd]:
        """Ends of the profile where invariants are too coarse, if there are rows to compare."""
        if not isinstance(self.profile, TableProfile) or self.source.operands is None:
            return []
        return self.profile.steep_ends(self.source.dtype)

    def matrix(self) -> NDArray[Any]:
        """The whole matrix."""
        dtype = np.dtype(self.source.dtype if self.options.dtype is None else self.options.dtype)
        check_gram(*self.source.shape, dtype.itemsize)
        out = np.empty(self.source.shape, dtype=dtype)
        self.fill(out)
        return out

    def fill(
        self, out: NDArray[Any], *, add: bool = False, upper: bool = False, what: str | None = None
    ) -> None:
        """Write all tiles into a matrix, whatever its precision.

        Parameters
        ----------
        out : array
        add : bool
            Add to the values of ``out`` instead of replacing them.
        upper : bool
            Leave the part below the diagonal of a symmetric matrix undefined.
        what : str, optional
            Label of a progress bar.
        """
        from mercer.compiled.profiles import mirror

        direct = not add and out.dtype == self.source.dtype

        def fill(rows: slice, columns: slice) -> None:
            place = out[rows, columns]
            tile = place if direct else np.empty(place.shape, dtype=self.source.dtype)
            self.write(rows, columns, tile, upper)
            if add:
                with np.errstate(over="raise"):
                    place += tile
            elif not direct:
                place[:] = tile
            if self.options.symmetric and not upper:
                mirror(out, rows.start, rows.stop, max(rows.stop, columns.start), columns.stop)

        run(fill, self.places, what=what, blas=self.in_one_pass is None)
