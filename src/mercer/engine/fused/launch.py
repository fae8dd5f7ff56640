"""Launches of the fused kernels: padded operands, sizes of tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Self

import torch

from mercer.engine.base import FactorRows
from mercer.engine.equal import NumberedRows
from mercer.engine.fused.forms import Form, fixed
from mercer.engine.fused.kernels import (
    apply_kernel,
    gram_kernel,
    matvec_kernel,
    pull_factor_kernel,
    pull_kernel,
)
from mercer.engine.fused.rows import parts, plain, planes, power_of_two, run_on
from mercer.profiles import Profile, TableProfile

#: Rows and columns of the largest tile.
SIDE = 128
#: Vectors that one pass of a product takes, in single and in double precision.
_VECTORS = {torch.float32: 64, torch.float64: 16}
#: Columns up to which derivatives with respect to rows are summed in registers.
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
#: Rows and columns of a tile of derivatives with respect to a factor.
_PULLED = 64
#: Columns of a matrix that are multiplied with vectors before sums are in double precision.
_COLUMNS = 8192
#: Elements of a strip of a temporary matrix.
STRIP = 2**26
#: Programs that fill a device.
_PROGRAMS = 2048


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
        how = (*fixed(*sizes), form.constants)
        return (operands, self.scales, self.numbers, exact, form.arguments), how

    @property
    def device(self) -> torch.device:
        """Where the rows are."""
        return self.L.device

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
        sizes = _SMALL if self.is_short or form.is_product else _LARGE
        if self.dtype == torch.float64:
            sizes = _DOUBLE_SQUARE if symmetric or form.is_table or form.is_product else _DOUBLE
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


@dataclass(frozen=True, eq=False)
class FactorPair:
    """Two sets of rows of a product of spaces, as :class:`Pair` has them of one space."""

    left: FactorRows
    right: FactorRows

    #: Tiles are small.
    is_short = True

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the results."""
        return self.left.points.dtype

    @property
    def device(self) -> torch.device:
        """Where the rows are."""
        return self.left.points.device

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix."""
        return self.left.points.shape[1], self.right.points.shape[1]

    def part(self, rows: slice) -> FactorPair:
        """The same with some rows of the first set."""
        left = self.left
        some = left._replace(points=left.points[:, rows], scales=left.scales[:, rows])
        return FactorPair(some, self.right)

    def turned(self) -> FactorPair:
        """The same with both sets exchanged."""
        return FactorPair(self.right, self.left)

    def pulled(self, form: Form, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Derivatives of ``sum(V * K)`` with respect to points and scales of the first set.

        K are the term's values, weights are ``V * K``, and ``form`` is that of the profile's derivative.
        """
        sums, points = self._sums(form, weights, len(self.left.points))
        return points.sum(dim=0), sums

    def moved(self, form: Form, weights: torch.Tensor) -> torch.Tensor:
        """The same with respect to a hyperparameter; ``form`` is that of the profile's derivative."""
        return self._sums(form, weights, 0)[0].sum()

    def _sums(
        self, form: Form, weights: torch.Tensor, coordinates: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What :func:`~mercer.engine.fused.kernels.pull_factor_kernel` sums up, in double precision."""
        (m, p), width, factors = self.shape, self.left.width, self.left.scales.shape[0]
        strip, strips = _strips(p, _PULLED, parts(m, _PULLED) * factors)
        like = {"dtype": torch.float64, "device": weights.device}
        sums = torch.empty((strips, factors, m), **like)
        points = torch.empty((strips, coordinates, m), **like)
        term, how = self.term(form)
        if sums.numel():
            run_on(
                sums, pull_factor_kernel, (parts(m, _PULLED), strips, factors),
                term, weights, points if coordinates else None, sums, m, p, *weights.stride(), HOW=how,
                WIDE=power_of_two(width), STRIP=strip, HEIGHT=_PULLED, WIDTH=_PULLED, num_warps=4,
                num_stages=1,
            )  # fmt: skip
        return sums.sum(dim=0), points

    def term(
        self, form: Form, diagonal: torch.Tensor | None = None
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """See :class:`Pair`."""
        left, right = self.left, self.right
        operands = tuple(map(plain, (left.points, right.points, left.scales, right.scales)))
        exact = None if diagonal is None else plain(diagonal, left.points.dtype)
        sizes = (left.scales.shape[0], left.width, 2)
        how = (*fixed(*sizes), form.constants, *fixed(left.periodic))
        return (operands, None, None, exact, form.arguments), how


#: A term, with its diagonal.
JoinedTerm = tuple[Pair | FactorPair, Form, torch.Tensor | None]
#: A sum of products of terms, each with a factor, which is a number or a tensor.
Joined = Sequence[tuple[Any, Sequence[JoinedTerm]]]


def _first(products: Joined) -> Pair | FactorPair:
    return next(pair for _, each in products for pair, _, _ in each)


def _only_pair(products: Joined) -> tuple[Pair, Form, torch.Tensor | None] | None:
    """The only term, if it is a matrix product and its factor is one."""
    if len(products) == len(products[0][1]) == 1 and is_one(products[0][0]):
        pair, form, own = products[0][1][0]
        return (pair, form, own) if isinstance(pair, Pair) else None
    return None


def joined_gram(
    products: Joined,
    symmetric: bool = False,
    weights: torch.Tensor | None = None,
    total: bool = False,
) -> torch.Tensor:
    """Sum of products of terms in one pass, times weights where they are given.

    With ``total`` the sum of its elements in double precision, without the matrix.
    """
    if not total and (only := _only_pair(products)) is not None:
        pair, form, own = only
        return pair.gram(form, symmetric, own, weights)
    first = _first(products)
    terms = [[pair.term(form, own) for pair, form, own in each] for _, each in products]
    short = all(pair.is_short for _, each in products for pair, _, _ in each)
    long = first.dtype == torch.float32 and not short
    sizes = _LARGE if long and not total else _SMALL
    launched = partial(
        _launched, shape=first.shape, terms=terms, sizes=sizes, symmetric=symmetric,
        factors=_factors(products, first), weights=weights, total=total,
    )  # fmt: skip
    if total:
        # Tiles below the diagonal of a symmetric matrix are not visited.
        tiles = _tiles(first.shape, sizes)
        return launched(torch.zeros(tiles, dtype=torch.float64, device=first.device)).sum()
    return launched(torch.empty(first.shape, dtype=first.dtype, device=first.device))


def is_one(factor: Any) -> bool:
    """Whether a factor is the number one."""
    return not isinstance(factor, torch.Tensor) and factor == 1


def _factors(products: Joined, like: Pair | FactorPair) -> torch.Tensor | None:
    """The factors of products as an array on their device; None if all are one."""
    factors = [factor for factor, _ in products]
    if all(map(is_one, factors)):
        return None
    if any(isinstance(factor, torch.Tensor) for factor in factors):
        placed = [torch.as_tensor(factor).reshape(()).to(like.device) for factor in factors]
        return torch.stack([factor.to(like.dtype) for factor in placed])
    return torch.tensor(factors, dtype=like.dtype, device=like.device)


def joined_matvec(products: Joined, v: torch.Tensor) -> torch.Tensor:
    """The same times vectors; sums of parts in double precision.

    Where several terms are joined, by strips of rows, without exact diagonals.
    """
    if (only := _only_pair(products)) is not None:
        pair, form, own = only
        columns = v if v.ndim == 2 else v[:, None]
        return pair.matvec(form, columns, own).reshape(pair.shape[0], *v.shape[1:])
    m, p = _first(products).shape
    found = torch.zeros((m, *v.shape[1:]), dtype=torch.float64, device=v.device)
    v, length = _in_range(v, _first(products).dtype)
    for rows in strips((m, p)):
        part = [
            (factor, [(pair.part(rows), form, None) for pair, form, _ in each])
            for factor, each in products
        ]
        K = joined_gram(part)
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
