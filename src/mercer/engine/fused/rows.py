"""Preparation of rows before a product: checks, normalisation, planes, equal rows."""

from __future__ import annotations

from functools import lru_cache
from struct import pack, unpack
from typing import Any

import torch

from mercer.engine.autograd import key_weights
from mercer.engine.base import Extent
from mercer.engine.fused.row_kernels import extent_kernel, keys_kernel, planes_kernel, unit_kernel

#: Elements of a block of rows, and the most blocks of one launch.
_ELEMENTS, _PROGRAMS = 4096, 1024
#: Whole numbers of the size of a float, the largest of them, and codes of both.
_BITS = {
    torch.float32: (torch.int32, 2**31 - 1, "2i", "2f"),
    torch.float64: (torch.int64, 2**63 - 1, "2q", "2d"),
}
#: Pairs of rows from which on a product takes longer than waiting for an answer of the device.
_MANY = 2**31


def power_of_two(n: int) -> int:
    """The least that is not below n; Triton's own function is slow outside kernels."""
    return 1 << (n - 1).bit_length()


def parts(n: int, size: int) -> int:
    """Number of parts of a size that n things fill."""
    return -(-n // size)


def run_on(
    X: torch.Tensor, kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any
) -> None:
    """Launch a kernel on the device of X and its stream; Triton itself takes the current device."""
    with torch.cuda.device_of(X):
        kernel[grid](*arguments, **constants)


@lru_cache(maxsize=64)
def _blocks(n: int) -> dict[str, int]:
    """Sizes of blocks of rows with n columns."""
    block = min(power_of_two(n), 1024)
    return {"N": n, "BLOCK": block, "ROWS": max(1, _ELEMENTS // block)}


@lru_cache(maxsize=64)
def _padded_blocks(n: int, k: int) -> dict[str, int]:
    """The same with zeros added up to k columns."""
    return _blocks(k) | {"N": n, "K": k}


def plain(X: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Numbers as a kernel reads them, one after the other, perhaps in another precision.

    Most are that already.  What a kernel reads is not recorded for derivatives.
    """
    if X.is_contiguous() and not X.is_neg() and (dtype is None or X.dtype == dtype):
        return X
    return X.detach().to(dtype or X.dtype).resolve_neg().contiguous()


def extent(X: torch.Tensor) -> Extent:
    """See :meth:`mercer.engine.Engine.extent`; one pass and one wait for the device."""
    whole, mask, bits, floats = _BITS[X.dtype]
    out = torch.zeros(3, dtype=whole, device=X.device)
    sizes = _blocks(X.shape[1])
    programs = min(_PROGRAMS, parts(X.shape[0], sizes["ROWS"]))
    run_on(X, extent_kernel, (programs,), X, out, X.shape[0], MASK=mask, **sizes)
    top, bottom, negative = out.tolist()
    largest, flattest = unpack(floats, pack(bits, top, mask - bottom))
    return Extent(bool(negative), flattest, largest)


def unit_rows(X: torch.Tensor, shares: bool) -> torch.Tensor:
    """See :meth:`mercer.engine.Engine.unit_rows`."""
    X = plain(X)
    out = torch.empty_like(X)
    sizes = _blocks(X.shape[1])
    grid = (parts(X.shape[0], sizes["ROWS"]),)
    run_on(X, unit_kernel, grid, X, out, X.shape[0], SHARES=shares, **sizes)
    return out


def is_watched(X: torch.Tensor) -> bool:
    """Tell whether derivatives with respect to the rows may be needed."""
    return torch.is_grad_enabled() and X.requires_grad


def planes(X: torch.Tensor, side: int, step: int, small: bool) -> torch.Tensor:
    """Rows with zeros added up to whole tiles; in single precision as two planes, shape (2, m, k).

    Their sum is X.  The first plane has the leading 11 bits of each number.  Where no number exceeds one
    (``small``), half precision is enough for each, if the second is 2048 times what it stands for: the
    tensor cores are then twice as fast.
    """
    split = X.dtype == torch.float32
    m, k = parts(X.shape[0], side) * side, parts(X.shape[1], step) * step
    if not split and X.shape == (m, k) and X.is_contiguous():
        return X.detach()[None]
    dtype = torch.float16 if split and small else X.dtype
    out = torch.empty((1 + split, m, k), dtype=dtype, device=X.device)
    sizes = _padded_blocks(X.shape[1], k)
    grid = parts(m, sizes["ROWS"]), parts(k, sizes["BLOCK"])
    shape = X.shape[0], *X.stride(), out.stride(0)
    run_on(X, planes_kernel, grid, X, out, *shape, SPLIT=split, **sizes)
    return out


def row_numbers(X: torch.Tensor, Y: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Numbers that equal rows of X and of Y (by default X) have in common.

    None if no rows are equal, where it pays to wait for that answer: in double precision, and if pairs
    are many.
    """
    m, n = X.shape
    p = 0 if Y is None else Y.shape[0]
    numbers = torch.empty(m + p, dtype=torch.int32, device=X.device)
    size = 4 * power_of_two(p or m)
    table = torch.zeros(size + 1, dtype=torch.int64, device=X.device)
    weights, sizes = key_weights(n, X.device), _blocks(n)

    def launch(part: torch.Tensor, out: torch.Tensor, **constants: bool) -> None:
        grid = (parts(part.shape[0], sizes["ROWS"]),)
        arguments = plain(part), weights, out, table, part.shape[0], size
        run_on(X, keys_kernel, grid, *arguments, **constants, **sizes)

    if Y is not None:
        launch(Y, numbers[m:], INSERT=True, NOTE=False)
    launch(X, numbers, INSERT=Y is None, NOTE=True)
    waits = X.dtype == torch.float64 or m * (p or m) >= _MANY
    if waits and not table[size].item():
        return None
    return (numbers[:m], numbers[m:]) if p else (numbers, numbers)
