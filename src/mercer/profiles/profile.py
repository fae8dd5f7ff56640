"""Profiles as the engine uses them, and their compiler."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from mercer._arrays import Array, asarray_like, in_lines
from mercer.profiles.chebyshev import OCTAVES, Law, Pieces, Rows, resolve
from mercer.profiles.ends import SteepEnd
from mercer.profiles.polynomial import Polynomial, Separation, Smooth

#: Laws that cannot be resolved to this are refused.
MAX_ERROR = 1e-10
#: Elements of a tile that is worth a polynomial of its own.
_WORTH = 2**15
#: Errors of polynomials relative to the largest value, and to each value where that is asked for.
_ALLOWED = {np.dtype(np.float32): 6e-8, np.dtype(np.float64): 1e-14}
_LOCAL = {np.dtype(np.float32): 1e-7, np.dtype(np.float64): 4e-14}
#: Slopes relative to the largest value from which on the rounding of an invariant is too much.
_STEEP = {np.dtype(np.float32): 1e2, np.dtype(np.float64): 2e3}
#: Noise of tables, relative to their largest value.
_NOISE = 1e-17
#: Smaller values are as good as zero.
_LEAST = 1e-290


class Profile(Protocol):
    """A function of the invariant for the engine, applied in place; hashable."""

    def __hash__(self) -> int: ...

    @property
    def error(self) -> float:
        """Bound of the difference to the law."""

    def apply(self, tile: NDArray[Any]) -> None:
        """Replace the invariants in a NumPy tile by values, in place."""

    def evaluate(self, w: Any) -> Any:
        """Return the values at an array of invariants, for any array-API library."""


@dataclass(frozen=True)
class PowerProfile:
    """The profile ``factor (scale w + shift) ** degree``, exact."""

    degree: int = 1
    scale: float = 1.0
    shift: float = 0.0
    factor: float = 1.0
    error: float = 0.0

    def apply(self, tile: NDArray[Any]) -> None:
        """See :class:`Profile`."""
        try:
            with np.errstate(over="ignore" if self.degree == 1 else "raise"):
                if self.scale != 1.0:
                    tile *= min(self.scale, float(np.finfo(tile.dtype).max))  # zeros stay zero
                if self.shift != 0.0:
                    tile += self.shift
                if self.degree != 1:
                    np.power(tile, self.degree, out=tile)
                if self.factor != 1.0:
                    tile *= self.factor
        except FloatingPointError:
            raise ValueError(self._overflow(tile.dtype)) from None

    def evaluate(self, w: Any) -> Any:
        """See :class:`Profile`."""
        value = w if self.scale == 1.0 else w * self.scale
        value = value if self.shift == 0.0 else value + self.shift
        value = value if self.degree == 1 else value**self.degree
        return self.checked(value if self.factor == 1.0 else value * self.factor)

    def checked(self, values: Any) -> Any:
        """The values; raise where a power has overflowed."""
        if self.degree != 1:
            xp = array_namespace(values)
            with np.errstate(over="ignore", invalid="ignore"):
                total = xp.sum(values)  # which needs no memory; it may overflow by itself
            if not bool(xp.isfinite(total)) and not bool(xp.all(xp.isfinite(values))):
                raise ValueError(self._overflow(values.dtype))
        return values

    def _overflow(self, dtype: Any) -> str:
        return (
            f"powers of degree {self.degree} overflow in {dtype}; take a lower degree, or rows of "
            "smaller numbers, such as standardised columns"
        )

    @property
    def linear(self) -> bool:
        """Whether the profile is a linear function of the invariant."""
        return self.degree == 1

    def slope(self, w: Array) -> Array:
        """Derivative with respect to the invariant."""
        rate = self.factor * self.degree * self.scale
        return rate * (self.scale * w + self.shift) ** (self.degree - 1)


@dataclass(frozen=True, eq=False)
class WholeProfile:
    """A profile of whole numbers from 0 on, as the list of its values."""

    values: Array
    error: float = 0.0

    def apply(self, tile: NDArray[Any]) -> None:
        """See :class:`Profile`."""
        tile[...] = self.values[np.rint(tile).astype(np.intp)]

    def evaluate(self, w: Any) -> Any:
        """See :class:`Profile`."""
        xp = array_namespace(w)
        places = xp.astype(xp.round(xp.reshape(w, (-1,))), xp.int64)
        return xp.reshape(xp.take(asarray_like(self.values, w), places), w.shape)


@dataclass(frozen=True)
class ProductProfile:
    """The product of two profiles of the same invariant."""

    first: Profile
    second: Profile

    @property
    def error(self) -> float:
        """Sum of the factors' errors, relative to their product."""
        return self.first.error + self.second.error

    def apply(self, tile: NDArray[Any]) -> None:
        """See :class:`Profile`."""
        other = tile.copy()
        self.first.apply(tile)
        self.second.apply(other)
        other[tile == 0] = 0.0  # what has underflowed is zero, whatever the other factor
        with np.errstate(over="ignore"):  # infinity is the value there
            tile *= other

    #: Whether the profile is a linear function of the invariant.
    linear = False

    def evaluate(self, w: Any) -> Any:
        """See :class:`Profile`."""
        return self.first.evaluate(w) * self.second.evaluate(w)

    def slope(self, w: Array) -> Array:
        """Derivative with respect to the invariant."""
        first: Any = self.first
        second: Any = self.second
        return first.slope(w) * second.evaluate(w) + first.evaluate(w) * second.slope(w)


@dataclass(frozen=True, eq=False)
class TableProfile:
    """A function of the separation as a piecewise polynomial; made by :func:`compile_profile`.

    Attributes
    ----------
    separation : {"invariant", "one-sided", "folded"}
        How the separation u comes from the invariant w: ``u = w``; ``u = 1 - w``; or
        ``u = 1 - |w|`` with pieces of their own for negative w.
    law_error : float
        Error of the law that was compiled, such as a truncated tail.
    logarithmic : bool
        The table holds the logarithm; values are its exponential.
    """

    separation: Separation
    pieces: Pieces
    law_error: float = 0.0
    logarithmic: bool = False
    floor: float = -np.inf

    #: Whether the profile is a linear function of the invariant.
    linear = False

    def apply(self, tile: NDArray[Any], out: NDArray[Any] | None = None) -> None:
        """See :class:`Profile`; by the cheapest form that has the precision of the tile's type.

        That is one polynomial of the whole profile, or else one on the range of the tile, or else the
        table.  Small tiles are not worth a fit.  Values may go to another array.
        """
        found = self._form(tile)
        if found is None:
            self.look_up(tile, out)
        else:
            found.apply(tile, out)

    def whole(self, size: int, dtype: np.dtype) -> Polynomial | None:
        """One polynomial of the whole profile, if there is one and tiles of this size are worth it."""
        return None if size < _WORTH else self._on(*self._domain, dtype)

    def steep_ends(self, dtype: np.dtype) -> list[SteepEnd]:
        """Ends of the range of the invariant where its rounding would show in the values."""
        if dtype not in self._ends:
            signs = {"invariant": [], "one-sided": [1.0], "folded": [1.0, -1.0]}[self.separation]
            reaches = self.pieces.steep_until(_STEEP[dtype], self.logarithmic).tolist()
            self._ends[dtype] = [
                SteepEnd(sign, reach, self._of_side(side))
                for side, (sign, reach) in enumerate(zip(signs, reaches, strict=False))
                if reach > 0.0
            ]
        return self._ends[dtype]

    @cached_property
    def _ends(self) -> dict[np.dtype, list[SteepEnd]]:
        """Steep ends in precisions that occurred."""
        return {}

    def _of_side(self, side: int) -> TableProfile:
        """The profile as a function of the separation, on one hemisphere."""
        return replace(self, separation="invariant", pieces=self.pieces.of_side(side))

    def polynomial(self, dtype: Any) -> Polynomial | None:
        """One polynomial that gives the profile to the precision of a type, if there is one.

        Errors are relative to the largest value.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer.kernels import Heat, Matern
        >>> from mercer.spaces import Sphere
        >>> Heat(Sphere()).profile(50).polynomial(np.float32).degree
        8
        >>> Matern(Sphere(), nu=0.5).profile(3).polynomial(np.float32).root
        True
        """
        return self._single_polynomial if dtype == np.float32 else self._double_polynomial

    @cached_property
    def _double_polynomial(self) -> Polynomial | None:
        return self._fitted(*self._domain, np.dtype(np.float64), local=False)

    @cached_property
    def _single_polynomial(self) -> Polynomial | None:
        return self._fitted(*self._domain, np.dtype(np.float32), local=False)

    @cached_property
    def _forms(self) -> dict[tuple[float, float, np.dtype], Polynomial | None]:
        """Polynomials on ranges that occurred."""
        return {}

    def _form(self, tile: NDArray[Any]) -> Polynomial | None:
        """The polynomial for a tile, if there is one."""
        whole = self.whole(tile.size, tile.dtype)
        if whole is not None or tile.size < _WORTH:
            return whole
        low, high = self._range(tile)
        return self._on(low, high, tile.dtype) if math.isfinite(high - low) else None

    def _on(self, low: float, high: float, dtype: np.dtype) -> Polynomial | None:
        """The polynomial on a range, fitted once; in double precision good for small values too."""
        key = low, high, dtype
        if key not in self._forms:
            self._forms[key] = self._fitted(low, high, dtype, local=True)
        return self._forms[key]

    @property
    def _domain(self) -> tuple[float, float]:
        """Range of the invariants that the table covers."""
        width = 2.0**self.pieces.top
        return {"invariant": (0.0, width), "one-sided": (1.0 - width, 1.0), "folded": (-1.0, 1.0)}[
            self.separation
        ]

    def _range(self, tile: NDArray[Any]) -> tuple[float, float]:
        """A range of few digits that holds the invariants of a tile: other tiles will have the same."""
        low, high = float(tile.min()), float(tile.max())
        if not math.isfinite(high - low):
            return low, high
        width = max(high - low, abs(high) * 2.0**-10, 2.0**-1000)
        unit = 2.0 ** (math.floor(math.log2(width)) - 1)
        low, high = math.floor(low / unit) * unit, math.ceil(high / unit) * unit
        least, most = self._domain
        return max(low, least), high if self.separation == "invariant" else min(high, most)

    def _fitted(self, low: float, high: float, dtype: np.dtype, local: bool) -> Polynomial | None:
        """The polynomial on a range, with errors relative to the largest value or to local ones."""
        least, most = self._domain
        bounded = self.pieces.beyond is None or high < most
        high = min(high, most)
        if not low < high:
            return None
        checks, sizes = self._checks(low, high)
        own = self.looked_up(np.array([least if self.separation == "invariant" else most]))[0]
        values = self.looked_up(checks)
        return Smooth(
            self.looked_up, self.without_exponential.looked_up if self.logarithmic else None,
            low, high, bounded, checks, self._allowed(checks, values, sizes, dtype, local),
            self.separation, float(own), self.floor, step=2 if local else 4,
        ).polynomial(dtype)  # fmt: skip

    def _allowed(self, w: Array, values: Array, sizes: Array, dtype: np.dtype, local: bool) -> Array:
        """Errors that are allowed at invariants."""
        eps = np.finfo(dtype).eps
        if self.logarithmic:
            # An error of the logarithm, which is rounded itself.
            logs = np.abs(np.log(np.maximum(np.abs(values), _LEAST)))
            return np.maximum(np.abs(values), _LEAST) * (_LOCAL[dtype] + 4 * eps * logs)
        if not local or dtype == np.float32:
            return _ALLOWED[dtype] * sizes
        # Tables have some noise, and invariants are rounded: errors below that are not looked at.
        noise = _NOISE * self.pieces.scale.min(initial=sizes.min())
        noise = np.maximum(noise, self._rounding(w, values))
        return np.minimum(_ALLOWED[dtype] * sizes, np.maximum(_LOCAL[dtype] * np.abs(values), noise))

    def _rounding(self, w: Array, values: Array) -> Array:
        """Slopes times some units in the last place of the invariants."""
        size = w if self.separation == "invariant" else 1.0
        with np.errstate(invalid="ignore"):  # between infinite values
            return 2 * np.finfo(float).eps * size * np.abs(np.gradient(values, w))

    def _checks(self, low: float, high: float) -> tuple[Array, Array]:
        """Invariants on a grid and in all pieces of a range; sizes that errors are relative to."""
        w, sizes = self._places
        inside = (low <= w) & (w <= high)
        grid = np.linspace(low, high, 401)
        largest = sizes.max(initial=self._largest(grid))
        w, first = np.unique(np.append(w[inside], grid), return_index=True)
        return w, np.append(sizes[inside], np.full(len(grid), largest))[first]

    @cached_property
    def _places(self) -> tuple[Array, Array]:
        """Invariants in all pieces and in the core, and the sizes that errors there are relative to."""
        pieces, within = self.pieces, np.linspace(0.0, 1.0, 8)
        start = np.ldexp(1.0, pieces.octave.astype(int)) + pieces.part * pieces.widths
        u = start[:, None] + pieces.widths[:, None] * within
        core = np.ldexp(within, pieces.low)
        if self.separation != "invariant":
            u, core = np.where(pieces.side[:, None] == 0, 1.0 - u, u - 1.0), 1.0 - core
        sizes = np.repeat(pieces.scale, len(within))
        largest = sizes.max(initial=self._largest(core))
        return np.append(u.ravel(), core), np.append(sizes, np.full(len(core), largest))

    def _largest(self, w: Array) -> float:
        """Largest finite magnitude at some invariants."""
        values = np.abs(self.looked_up(w))
        return float(values[np.isfinite(values)].max(initial=0.0))

    def looked_up(self, w: Array) -> Array:
        """Values of the table at an array of invariants, which is kept."""
        tile = np.array(w, ndmin=2)
        self.look_up(tile)
        return tile.reshape(w.shape)

    def look_up(self, tile: NDArray[Any], out: NDArray[Any] | None = None) -> None:
        """Replace the invariants in a tile by values of the table, in place or in another array."""
        loop, arguments = self._single_table if tile.dtype == np.float32 else self._double_table
        in_lines(loop, tile, out, arguments)

    @cached_property
    def _single_table(self) -> tuple[Any, tuple[Any, ...]]:
        """The compiled loop for single precision, and its arguments."""
        single = self._loop(self.pieces.single_rows, np.int32, np.float32, 23, 127)
        return single if self.fits_single else self._double_table

    @cached_property
    def fits_single(self) -> bool:
        """Whether the table in single precision is good where that has separations."""
        return self.pieces.fits_single(-126 if self.separation == "invariant" else -24)

    @cached_property
    def _double_table(self) -> tuple[Any, tuple[Any, ...]]:
        """The compiled loop in double precision, and its arguments."""
        return self._loop(self.pieces.rows, np.int64, np.float64, 52, 1023)

    def _loop(
        self, rows: Rows, whole: type, real: type, mantissa: int, bias: int
    ) -> tuple[Any, tuple[Any, ...]]:
        from mercer.compiled.profiles import table_loop

        origin = (rows.low + bias) * 2**rows.bits - 1
        places = whole(mantissa - rows.bits), whole(origin), whole(rows.count)
        loop = table_loop(self.separation, self.logarithmic, real is np.float32)
        return loop, (rows.table, *places, real(self.floor))

    def evaluate(self, w: Any) -> Any:
        """See :class:`Profile`."""
        xp = array_namespace(w)
        found = self._single_polynomial if w.dtype == xp.float32 else None
        if found is not None:
            return found.evaluate(w)
        if w.dtype == xp.float32 and not self.fits_single:
            return xp.astype(self.evaluate(xp.astype(w, xp.float64)), xp.float32)
        rows = self.pieces.single_rows if w.dtype == xp.float32 else self.pieces.rows
        u = w if self.separation == "invariant" else 1.0 - (xp.abs(w) if self.sides == 2 else w)
        u = xp.where(u < 0.0, xp.zeros_like(u), u)
        flat = xp.reshape(u, (-1,))
        row = xp.searchsorted(asarray_like(rows.edges, w), flat, side="right") - 1
        if self.sides == 2:
            row = row + rows.count * xp.astype(xp.reshape(w, (-1,)) < 0.0, row.dtype)
        x = flat - xp.take(asarray_like(rows.table[:, 0], w), row)
        value = xp.zeros_like(flat)
        for k in range(rows.table.shape[1] - 2, -1, -1):
            value = value * x + xp.take(asarray_like(rows.table[:, k + 1], w), row)
        if self.logarithmic:
            value = xp.exp(value)
        value = xp.where(value < self.floor, xp.full_like(value, self.floor), value)
        return xp.reshape(value, w.shape)

    @property
    def error(self) -> float:
        """Bound of the difference to the law, in double precision.

        Relative to the largest value, or to each value if the profile was compiled so.
        """
        fit = (_LOCAL if self.logarithmic else _ALLOWED)[np.dtype(float)]
        return self.law_error + self.pieces.error + 2 * self.pieces.rows.error + fit

    @property
    def sides(self) -> int:
        """Hemispheres with pieces of their own."""
        return 2 if self.separation == "folded" else 1

    @cached_property
    def derivative(self) -> TableProfile:
        """Profile of the derivative of the table's function with respect to the invariant."""
        sign = {"invariant": [1.0], "one-sided": [-1.0], "folded": [-1.0, 1.0]}[self.separation]
        pieces = self.pieces.derivative(np.array(sign))
        return TableProfile(self.separation, pieces, self.law_error)

    def slope(self, w: Array) -> Array:
        """Derivative with respect to the invariant, at an array of invariants.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer.kernels import Gaussian
        >>> Gaussian(length_scale=1.0).profile(3).slope(np.array([2.0])) / np.exp(-1.0)
        array([-0.5])
        """
        rise = self.derivative.looked_up(w)
        if not self.logarithmic:
            return rise
        values = self.looked_up(w)
        return np.multiply(values, rise, out=np.zeros_like(values), where=values > 0)

    @cached_property
    def without_exponential(self) -> TableProfile:
        """The table itself, for a logarithmic profile."""
        return replace(self, logarithmic=False, floor=-np.inf) if self.logarithmic else self


def compile_profile(
    law: Law,
    separation: Separation,
    *,
    top: int = 0,
    unit: float = 0.0,
    least: float | None = None,
    logarithmic: bool = False,
    beyond: float | None = None,
    floor: float = -np.inf,
    law_error: float = 0.0,
    octaves: int = OCTAVES,
) -> TableProfile:
    """Compile a function of the separation.

    Parameters
    ----------
    law : callable
        Values at separations u of shape (k,), returned with shape (sides, k): one row, or for a
        folded profile one for w = 1 - u and one for w = u - 1.
    separation : {"invariant", "one-sided", "folded"}
        How u comes from the invariant, see :class:`TableProfile`.
    top : int
        The table covers 0 <= u <= 2**top.
    unit : float
        Errors are relative to the largest value of the law, or to this if it is larger.
    least : float, optional
        Errors are relative to the local size of the law instead, but to no less than this.
    logarithmic : bool
        ``law`` returns logarithms, and so does the table; the profile is its exponential, with an
        error relative to its value.
    beyond : float, optional
        Value (or logarithm) for u >= 2**top where the invariant is not bounded.
    floor : float
        No value is below it (0 for laws known to be positive).
    law_error : float
        Error of ``law`` itself, such as a truncated tail; part of the stated error.
    octaves : int
        Separations below ``2**(top - octaves)`` count as zero for a law that is singular there.
    """
    # An error of a logarithm is a relative error of the value: 1 is the size to measure it by.
    pieces = resolve(law, top, 1.0 if logarithmic else least, unit, beyond, octaves)
    if not pieces.error <= MAX_ERROR:  # NaN is refused too
        raise ValueError(
            f"the law varies too fast to be tabulated: an error of {pieces.error:.1g} would remain"
        )
    return TableProfile(separation, pieces, law_error, logarithmic, floor)
