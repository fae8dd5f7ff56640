"""Launches of the fused kernels: forms of profiles, padded operands, sizes of tiles."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
import torch
import triton.language as tl

from mercer.engine.base import FactorRows
from mercer.engine.equal import NumberedRows
from mercer.engine.fused.kernels import apply_kernel, gram_kernel, matvec_kernel, pull_kernel
from mercer.engine.fused.rows import parts, plain, planes, power_of_two, run_on
from mercer.profiles import PowerProfile, Profile, TableProfile, WholeProfile

#: Largest degree of a power that is computed by Horner's scheme.
_MOST_POWER = 32
#: Rows and columns of the largest tile.
SIDE = 128
#: Vectors that one pass of a product takes, in single and in double precision.
_VECTORS = {torch.float32: 64, torch.float64: 16}
#: Columns up to which derivatives by rows are summed in registers.
_NARROW = 128
#: Columns up to which small tiles are faster.
_SHORT = 64
#: Largest values for half precision, with a margin for those between the sampled points.
_HALF = 1e3
#: Columns that are multiplied in one step; rows, columns and warps of a tile times several vectors then.
_WHOLE, _HALVES = (16, 32, 64), (128, 128, 8)
#: The same where values are looked up.
_TABLE = (64, 64, 4)
#: Rows, columns and warps of a tile of derivatives: small, so that programs share a processor.
_PULL = (128, 32, 4)
#: The same of long rows, or where values are looked up.
_WIDE_PULL = (64, 32, 4)
#: Sizes of tiles that were fast on an H200.
_LARGE = {"HEIGHT": 128, "WIDTH": 128, "num_warps": 8, "num_stages": 3}
_SMALL = {"HEIGHT": 64, "WIDTH": 64, "num_warps": 4, "num_stages": 3}
_DOUBLE = {"HEIGHT": 64, "WIDTH": 128, "num_warps": 4, "num_stages": 3}
_DOUBLE_SQUARE = {"HEIGHT": 64, "WIDTH": 64, "num_warps": 4, "num_stages": 4}
#: Columns of a matrix that are multiplied with vectors before sums are in double precision.
_COLUMNS = 8192
#: Elements of a strip of a temporary matrix.
STRIP = 2**26
#: Programs that fill a device.
_PROGRAMS = 2048
_SEPARATIONS = {"invariant": 0, "one-sided": 1, "folded": 2}
#: Stands for the number of a value in a list, in place of a separation.
_WHOLE_NUMBERS = 3


@dataclass(frozen=True, eq=False)
class Form:
    """How the kernels evaluate a profile: arguments, and constants.

    ``largest`` is the largest magnitude of the values, infinite where it is not known.
    """

    arguments: tuple[Any, ...]
    constants: tuple[Any, ...]
    largest: float = math.inf

    @property
    def is_table(self) -> bool:
        """Whether values are looked up."""
        return bool(self.constants[0].value)


@lru_cache(maxsize=256)
def form_of(profile: Profile, dtype: torch.dtype, device: torch.device) -> Form | None:
    """Return the form of a profile: one polynomial where it resolves, else its table, else None."""
    kind = np.dtype(np.float32 if dtype == torch.float32 else np.float64)

    def tensor(head: list[float], values: np.ndarray) -> torch.Tensor:
        numbers = np.concatenate([head, values.ravel()])
        # In their precision before they are copied: that is complete then, whichever stream reads them.
        return torch.as_tensor(numbers).to(dtype).to(device)

    if isinstance(profile, PowerProfile):
        if not 0 <= profile.degree <= _MOST_POWER:
            return None
        head = [profile.scale, profile.shift, -np.inf, -np.inf]
        powers = np.append(np.zeros(profile.degree), profile.factor)
        return Form((tensor(head, powers), 0, 0, 1), _constants(profile.degree, clamped=False))
    if isinstance(profile, WholeProfile):
        head = [1.0, 0.0, -np.inf, -np.inf]
        constants = _constants(0, separation=_WHOLE_NUMBERS, table=True)
        return Form((tensor(head, profile.values), 0, 0, len(profile.values)), constants)
    if not isinstance(profile, TableProfile):
        return None
    found = profile.polynomial(kind)
    if found is not None:
        head = [found.scale, found.shift, found.least, found.floor]
        # Products of unit vectors leave the range only by rounding, and the polynomial extends beyond
        # it.
        everywhere = found.separation == "folded" and found.scale == 1.0 and not found.root
        constants = _constants(
            found.degree, found.root, found.exponential, _SEPARATIONS[found.separation],
            clamped=not everywhere,
        )  # fmt: skip
        return Form((tensor(head, found.coefficients), 0, 0, 1), constants, found.largest)
    rows = profile.pieces.single_rows if kind == np.float32 else profile.pieces.rows
    mantissa, bias = (23, 127) if kind == np.float32 else (52, 1023)
    origin = (rows.low + bias) * 2**rows.bits - 1
    head = [1.0, 0.0, -np.inf, profile.floor]
    constants = _constants(
        rows.table.shape[1] - 2, False, profile.logarithmic, _SEPARATIONS[profile.separation], True
    )
    return Form((tensor(head, rows.table), mantissa - rows.bits, origin, rows.count), constants)


def _constants(
    degree: int,
    root: bool = False,
    exponential: bool = False,
    separation: int = 0,
    table: bool = False,
    clamped: bool = True,
) -> tuple[Any, ...]:
    return _fixed(table, root, exponential, separation, clamped, degree)


@lru_cache(maxsize=None, typed=True)
def _fixed(*constants: Any) -> tuple[tl.constexpr, ...]:
    """Constants of the kernels: the same objects each time, which Triton compares at once."""
    return tuple(map(tl.constexpr, constants))


@lru_cache(maxsize=64)
def _number(value: float, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A number on a device, copied there once; the copy is complete, whichever stream reads it."""
    return torch.tensor([value], dtype=dtype, device=device)


def _step(X: torch.Tensor) -> int:
    """Columns of the operands that the kernels multiply at a time."""
    return 16 if X.dtype == torch.float64 or X.shape[-1] <= 16 else 32


def _strips(p: int, width: int, programs: int) -> tuple[int, int]:
    """Length and number of strips of p columns that so many programs each sum over.

    There are enough of them to fill the device; their sums are added in a fixed order.
    """
    strips = max(1, min(parts(p, 8 * width), _PROGRAMS // programs))
    strip = max(width, power_of_two(parts(p, strips)))
    return strip, parts(p, strip)


def strips(shape: tuple[int, int]) -> Iterator[slice]:
    """Rows of strips of a matrix, whole tiles each, that are small beside the device's memory."""
    m, p = shape
    height = max(1, STRIP // (SIDE * max(p, 1))) * SIDE
    return (slice(start, min(start + height, m)) for start in range(0, m, height))


def _in_range(
    v: torch.Tensor, dtype: torch.dtype, always: bool = False
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Vectors in a precision, and their largest magnitudes, which they are divided by.

    Unless always, only where the precision has a smaller range than they have.
    """
    v = v.detach().to(torch.promote_types(dtype, v.dtype))
    if v.dtype == dtype and not always:
        return v, None
    length = v.abs().amax(dim=0).clamp_min(torch.finfo(v.dtype).tiny)
    return (v / length).to(dtype), length


def applied(form: Form, w: torch.Tensor) -> torch.Tensor:
    """Values of a profile at an array of invariants."""
    w = plain(w)
    out = torch.empty_like(w)
    if w.numel():
        grid = (parts(w.numel(), 1024),)
        run_on(w, apply_kernel, grid, w, out, w.numel(), form.arguments, HOW=form.constants, BLOCK=1024)
    return out


@dataclass(frozen=True, eq=False)
class Pair:
    """Two padded sets of rows, from which the kernels compute tiles; made by :meth:`of`.

    ``shape`` is that of the matrix, without the padding.  ``numbers`` are the same for equal rows; the
    last of the three is their invariant.
    """

    L: torch.Tensor
    R: torch.Tensor
    shape: tuple[int, int]
    scales: tuple[torch.Tensor, torch.Tensor] | None = None
    numbers: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None

    @classmethod
    def of(
        cls,
        L: torch.Tensor,
        R: torch.Tensor,
        profile: Profile,
        scales: tuple[torch.Tensor, torch.Tensor] | None = None,
        equal: NumberedRows | None = None,
    ) -> Self:
        """Prepare operands, scales and equal rows for a profile and its derivatives."""
        # A profile that reads the separation off 1 - w is one of unit vectors.
        small = isinstance(profile, TableProfile) and profile.separation != "invariant"
        left = planes(L, SIDE, _step(L), small)
        if scales is not None:
            scales = (plain(scales[0], L.dtype), plain(scales[1], L.dtype))
        numbers = None
        if equal is not None:
            numbers = (equal.left, equal.right, _number(equal.value, L.dtype, L.device))
        right = left if R is L else planes(R, SIDE, _step(R), small)
        return cls(left, right, (L.shape[0], R.shape[0]), scales, numbers)

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the results."""
        return torch.float64 if self.L.shape[0] == 1 else torch.float32

    def part(self, rows: slice) -> Pair:
        """The same with some rows of L, which begin with a whole tile."""
        scales, numbers = self.scales, self.numbers
        return Pair(
            self.L[:, rows.start :],
            self.R,
            (rows.stop - rows.start, self.shape[1]),
            None if scales is None else (scales[0][rows], scales[1]),
            None if numbers is None else (numbers[0][rows], *numbers[1:]),
        )

    def turned(self) -> Pair:
        """The same with both sets exchanged."""
        scales, numbers = self.scales, self.numbers
        return Pair(
            self.R,
            self.L,
            self.shape[::-1],
            None if scales is None else (scales[1], scales[0]),
            None if numbers is None else (numbers[1], numbers[0], numbers[2]),
        )

    def term(
        self, form: Form, diagonal: torch.Tensor | None = None, step: int | None = None
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Arguments and constants of the kernels; see :mod:`~mercer.engine.fused.kernels`."""
        operands = (self.L, self.R, self.L.stride(0), self.R.stride(0))
        exact = None if diagonal is None else plain(diagonal, self.dtype)
        sizes = (self.L.shape[2], step or _step(self.L), self.L.shape[0] == 2)
        how = (*_fixed(*sizes), form.constants)
        return (operands, self.scales, self.numbers, exact, form.arguments), how

    @property
    def is_short(self) -> bool:
        """Whether rows are so short that small tiles are faster."""
        return self.L.shape[2] <= _SHORT and self.dtype == torch.float32

    def gram(
        self,
        form: Form,
        symmetric: bool = False,
        diagonal: torch.Tensor | None = None,
        weights: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """``profile(L @ R.T)``, times ``weights`` where they are given."""
        step = self.L.shape[2] if self.L.dtype == torch.float16 else 16
        one = self.term(form, diagonal, step if self.is_short else None)
        out = torch.empty(self.shape, dtype=self.dtype, device=self.L.device)
        sizes = _SMALL if self.is_short else _LARGE
        if self.dtype == torch.float64:
            sizes = _DOUBLE_SQUARE if symmetric or form.is_table else _DOUBLE
        return _launched(out, self.shape, [[one]], sizes, symmetric, weights=weights)

    def matvec(self, form: Form, v: torch.Tensor, diagonal: torch.Tensor | None = None) -> torch.Tensor:
        """``profile(L @ R.T) @ v`` for v of shape (p, q), in double precision."""
        if 0 in self.shape:
            return v.new_zeros((self.shape[0], v.shape[1]), dtype=torch.float64)
        return torch.cat(
            [self._few(form, part, diagonal) for part in v.split(_VECTORS[self.dtype], dim=1)], dim=1
        )

    def _few(self, form: Form, v: torch.Tensor, diagonal: torch.Tensor | None) -> torch.Tensor:
        (m, p), count = self.shape, v.shape[1]
        q = 1 if count == 1 else max(16, power_of_two(count))
        # Values of unit vectors' profiles are known to be bounded, so that half precision holds them.
        halves = (
            q > 1 and self.L.dtype == torch.float16 and self.scales is None and form.largest <= _HALF
        )
        v, length = _in_range(v, self.dtype, halves)
        v = torch.nn.functional.pad(v, (0, q - count)).contiguous()
        v = planes(v, 1, 1, small=True) if halves else v
        height, width = (128, 128) if self.dtype == torch.float32 else (64, 64)
        warps = 8 if self.dtype == torch.float32 else 4
        k = self.L.shape[2]
        short = (q == 1 or halves) and k in _WHOLE  # one step, of rows that are loaded once
        if short and halves:
            height, width, warps = _HALVES
        if form.is_table:
            # No prefetching: Triton cannot pipeline rows of a table.
            height, width, warps = _TABLE
        # With few columns, shared memory does not hold the operands of three steps beside the vectors.
        stages = 1 if form.is_table else 2 if short or k <= 32 or self.dtype == torch.float64 else 3
        strip, strips = _strips(p, width, parts(m, height))
        out = torch.empty((strips, m, q), dtype=torch.float64, device=self.L.device)
        term, how = self.term(form, diagonal, k if short else None)
        run_on(
            out, matvec_kernel, (parts(m, height), strips),
            term, v, out, m, p, HOW=how, Q=q, STRIP=strip, HALVES=halves, HEIGHT=height, WIDTH=width,
            num_warps=warps, num_stages=stages,
        )  # fmt: skip
        found = out.sum(dim=0)[:, :count]
        return found if length is None else found * length

    @property
    def is_narrow(self) -> bool:
        """Whether :meth:`pulled` is for such operands: sums over rows must stay in registers."""
        return self.L.shape[2] <= _NARROW and self.dtype == torch.float32

    def pulled(self, form: Form, weights: torch.Tensor, both: bool, off: bool) -> torch.Tensor:
        """``(weights * profile(L @ R.T)) @ R``; see :func:`~mercer.engine.fused.kernels.pull_kernel`."""
        (m, p), k = self.shape, self.L.shape[2]
        height, width, warps = _PULL if k <= _SHORT and not form.is_table else _WIDE_PULL
        strip, strips = _strips(p, width, parts(m, height))
        out = torch.empty((strips, m, k), dtype=self.dtype, device=self.L.device)
        term, how = self.term(form)
        run_on(
            out, pull_kernel, (parts(m, height), strips),
            term, weights, out, m, p, *weights.stride(), HOW=how, WIDE=power_of_two(k), BOTH=both,
            STRIP=strip, OFF=off, HEIGHT=height, WIDTH=width, num_warps=warps,
            num_stages=1 if form.is_table else 2,
        )  # fmt: skip
        return out.sum(dim=0)

    def weighted_sum(
        self, form: Form, symmetric: bool, diagonal: torch.Tensor | None, weights: torch.Tensor
    ) -> torch.Tensor:
        """``sum(weights * profile(L @ R.T))`` in double precision, without the matrix."""
        # Tiles below the diagonal of a symmetric matrix are not visited.
        out = torch.zeros(_tiles(self.shape, _SMALL), dtype=torch.float64, device=self.L.device)
        one = self.term(form, diagonal)
        _launched(out, self.shape, [[one]], _SMALL, symmetric, weights=weights, total=True)
        return out.sum()


@dataclass(frozen=True, eq=False)
class FactorPair:
    """Two sets of rows of a product of spaces, as :class:`Pair` has them of one space."""

    left: FactorRows
    right: FactorRows

    #: Tiles are small.
    is_short = True

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix."""
        return self.left.points.shape[1], self.right.points.shape[1]

    def part(self, rows: slice) -> FactorPair:
        """The same with some rows of the first set."""
        left = self.left
        some = left._replace(points=left.points[:, rows], scales=left.scales[:, rows])
        return FactorPair(some, self.right)

    def term(
        self, form: Form, diagonal: torch.Tensor | None = None
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """See :class:`Pair`."""
        left, right = self.left, self.right
        operands = tuple(map(plain, (left.points, right.points, left.scales, right.scales)))
        exact = None if diagonal is None else plain(diagonal, left.points.dtype)
        sizes = (left.scales.shape[0], left.width, 2)
        how = (*_fixed(*sizes), form.constants, *_fixed(left.periodic))
        return (operands, None, None, exact, form.arguments), how


#: A sum of products of terms, each with its diagonal.
Joined = Sequence[tuple[float, Sequence[tuple[Pair | FactorPair, Form, torch.Tensor | None]]]]


def _shape(products: Joined) -> tuple[int, int]:
    return next(pair.shape for _, each in products for pair, _, _ in each)


def joined_gram(
    products: Joined, symmetric: bool, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """Sum of products of terms in one pass."""
    terms = [[pair.term(form, own) for pair, form, own in each] for _, each in products]
    shape = _shape(products)
    factors = [factor for factor, _ in products]
    plain = all(factor == 1 for factor in factors)
    weights = None if plain else torch.tensor(factors, dtype=dtype, device=device)
    out = torch.empty(shape, dtype=dtype, device=device)
    long = dtype == torch.float32 and any(
        not pair.is_short for _, each in products for pair, _, _ in each
    )
    return _launched(out, shape, terms, _LARGE if long else _SMALL, symmetric, factors=weights)


def joined_matvec(products: Joined, v: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The same, not symmetric, times vectors, by strips of rows; sums of parts in double precision."""
    m, p = _shape(products)
    found = torch.zeros((m, *v.shape[1:]), dtype=torch.float64, device=v.device)
    v, length = _in_range(v, dtype)
    for rows in strips((m, p)):
        part = [
            (factor, [(pair.part(rows), form, None) for pair, form, _ in each])
            for factor, each in products
        ]
        K = joined_gram(part, False, dtype, v.device)
        for columns in (slice(start, start + _COLUMNS) for start in range(0, p, _COLUMNS)):
            found[rows] += K[:, columns] @ v[columns]
    return found if length is None else found * length


def _launched(
    out: torch.Tensor,
    shape: tuple[int, int],
    terms: Sequence[Sequence[tuple[Any, Any]]],
    sizes: dict[str, int],
    symmetric: bool,
    factors: torch.Tensor | None = None,
    weights: torch.Tensor | None = None,
    total: bool = False,
) -> torch.Tensor:
    """Launch ``gram_kernel``, which writes a matrix, or a number for each tile."""
    if tiles := _tiles(shape, sizes):
        arguments = tuple(tuple(term for term, _ in each) for each in terms)
        run_on(
            out, gram_kernel, (tiles,),
            arguments, factors, out, weights, *shape, shape[1],
            HOW=tuple(tuple(how for _, how in each) for each in terms),
            SYMMETRIC=symmetric, TOTAL=total, GROUP=8, **sizes,
        )  # fmt: skip
    return out


def _tiles(shape: tuple[int, int], sizes: dict[str, int]) -> int:
    return parts(shape[0], sizes["HEIGHT"]) * parts(shape[1], sizes["WIDTH"])
