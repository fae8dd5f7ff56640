"""Profiles as the engine uses them, and their compiler."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from mercer.profiles.chebyshev import OCTAVES, Law, Pieces, resolve
from mercer.profiles.polynomial import Polynomial, Separation, Smooth

#: Laws that cannot be resolved to this are refused.
MAX_ERROR = 1e-10


class Profile(Protocol):
    """What the engine needs: a function of the invariant, applied in place; hashable."""

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
        if self.scale != 1.0:
            tile *= self.scale
        if self.shift != 0.0:
            tile += self.shift
        if self.degree != 1:
            np.power(tile, self.degree, out=tile)
        if self.factor != 1.0:
            tile *= self.factor

    def evaluate(self, w: Any) -> Any:
        """See :class:`Profile`."""
        value = w if self.scale == 1.0 else w * self.scale
        value = value if self.shift == 0.0 else value + self.shift
        value = value if self.degree == 1 else value**self.degree
        return value if self.factor == 1.0 else value * self.factor


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
        with np.errstate(over="ignore"):  # infinity is the value there
            tile *= other

    def evaluate(self, w: Any) -> Any:
        """See :class:`Profile`."""
        return self.first.evaluate(w) * self.second.evaluate(w)


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

    def apply(self, tile: NDArray[Any]) -> None:
        """See :class:`Profile`; in single precision by one polynomial where there is one.

        In double precision the table is kept: it gives small values to more digits.
        """
        found = self._single_polynomial if tile.dtype == np.float32 else None
        if found is None:
            self.look_up(tile)
        else:
            found.apply(tile)

    def polynomial(self, dtype: Any) -> Polynomial | None:
        """One polynomial that gives the profile to the precision of a type, if there is one.

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
        return self._smooth.polynomial(np.dtype(np.float64))

    @cached_property
    def _single_polynomial(self) -> Polynomial | None:
        return self._smooth.polynomial(np.dtype(np.float32))

    @property
    def _smooth(self) -> Smooth:
        width = 2.0**self.pieces.top
        low, high = {"invariant": (0.0, width), "one-sided": (1.0 - width, 1.0), "folded": (-1.0, 1.0)}[
            self.separation
        ]
        bounded = self.pieces.beyond is None
        logarithms = self.without_exponential._looked_up if self.logarithmic else None
        checks, sizes = self._checks(low, high)
        return Smooth(
            self._looked_up, logarithms, low, high, bounded, checks, sizes, self.separation, self.floor
        )

    def _checks(self, low: float, high: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Invariants in all pieces and on a grid of the range; sizes that errors are relative to."""
        pieces, within = self.pieces, np.linspace(0.0, 1.0, 8)
        start = np.ldexp(1.0, pieces.octave.astype(int)) + pieces.part * pieces.widths
        u = start[:, None] + pieces.widths[:, None] * within
        w = (
            u
            if self.separation == "invariant"
            else np.where(pieces.side[:, None] == 0, 1.0 - u, u - 1.0)
        )
        sizes = np.repeat(pieces.scale, len(within))
        core = np.ldexp(within, pieces.low)
        ends = [core] if self.separation == "invariant" else [1.0 - core, core - 1.0][: self.sides]
        grid = np.concatenate([np.linspace(low, high, 401), *ends])
        largest = sizes.max(initial=np.abs(self._looked_up(grid)).max())
        return np.concatenate([w.ravel(), grid]), np.append(sizes, np.full(len(grid), largest))

    def _looked_up(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        tile = w[None, :].copy()
        self.look_up(tile)
        return tile[0]

    def look_up(self, tile: NDArray[Any]) -> None:
        """Replace the invariants in a tile by values of the table, in place."""
        from mercer.compiled.radial import table_loop

        single = tile.dtype == np.float32
        rows = self.pieces.single_rows if single else self.pieces.rows
        loop = table_loop(self.separation, self.logarithmic, single)
        whole, real = (np.int32, np.float32) if single else (np.int64, np.float64)
        mantissa, bias = (23, 127) if single else (52, 1023)
        origin = (rows.low + bias) * 2**rows.bits - 1
        shift = mantissa - rows.bits
        loop(tile, rows.table, whole(shift), whole(origin), whole(rows.count), real(self.floor))

    def evaluate(self, w: Any) -> Any:
        """See :class:`Profile`."""
        xp = array_namespace(w)
        found = self._single_polynomial if w.dtype == xp.float32 else None
        if found is not None:
            return found.evaluate(w)
        rows = self.pieces.single_rows if w.dtype == xp.float32 else self.pieces.rows
        u = w if self.separation == "invariant" else 1.0 - (xp.abs(w) if self.sides == 2 else w)
        u = xp.where(u < 0.0, xp.zeros_like(u), u)

        def column(values: NDArray[Any]) -> Any:
            return xp.asarray(values, dtype=w.dtype, device=device(w))

        flat = xp.reshape(u, (-1,))
        row = xp.searchsorted(column(rows.edges), flat, side="right") - 1
        if self.sides == 2:
            row = row + rows.count * xp.astype(xp.reshape(w, (-1,)) < 0.0, row.dtype)
        x = flat - xp.take(column(rows.table[:, 0]), row)
        value = xp.zeros_like(flat)
        for k in range(rows.table.shape[1] - 2, -1, -1):
            value = value * x + xp.take(column(rows.table[:, k + 1]), row)
        if self.logarithmic:
            value = xp.exp(value)
        value = xp.where(value < self.floor, xp.full_like(value, self.floor), value)
        return xp.reshape(value, w.shape)

    @property
    def error(self) -> float:
        """Bound of the difference to the law, in double precision.

        Relative to the largest value, or to each value if the profile was compiled so.
        """
        return self.law_error + self.pieces.error + 2 * self.pieces.rows.error

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
    if pieces.error > MAX_ERROR:
        raise ValueError(
            f"the law varies too fast to be tabulated: an error of {pieces.error:.1g} would be left"
        )
    return TableProfile(separation, pieces, law_error, logarithmic, floor)
