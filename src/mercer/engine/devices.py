"""Rows of NumPy and SciPy on a device, and work shared by several devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

from scipy import sparse

from mercer._arrays import is_foreign, placed, sparse_rows_at
from mercer.engine.base import GramOptions, places
from mercer.profiles import Profile

#: Fewest pairs of rows, times columns, whose product with a vector is shared; and fewest pairs, and
#: columns, of a Gram matrix: below these, copying costs more than another device saves.
_PRODUCT, _GRAM, _COLUMNS = 2**37, 2**26, 8192


def check_device(name: str) -> None:
    """Raise unless PyTorch computes on a device of this name."""
    if find_spec("torch") is None:
        raise ValueError(f"device {name!r} needs PyTorch: pip install 'mercer[torch]', or leave it out")
    import torch

    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:  # the latter of PyTorch without CUDA
        reason = str(error).splitlines()[0]
        raise ValueError(f"device {name!r} is not available: {reason}; omit it to use the CPU") from None


def on_device(rows: Any, name: str) -> Any:
    """Checked NumPy or SciPy rows as a tensor on a device."""
    import torch

    if sparse.issparse(rows):
        return sparse_rows_at(torch.empty(0, device=name).device, rows)
    return rows if is_foreign(rows) else torch.as_tensor(rows, device=name)


def sharing_gram(L: Any, R: Any) -> list[Any]:
    """Devices that share a Gram matrix; none if it is small or recorded for derivatives."""
    pairs = L.shape[0] * R.shape[0]
    return _visible(L) if pairs >= _GRAM and L.shape[1] >= _COLUMNS and not _recorded(L, R) else []


def sharing_matvec(L: Any, R: Any, v: Any) -> list[Any]:
    """Devices that share a product with vectors; none if it is small or recorded for derivatives."""
    work = L.shape[0] * R.shape[0] * max(L.shape[1], 64)
    return _visible(L) if work >= _PRODUCT and not _recorded(L, R, v) else []


def _visible(X: Any) -> list[Any]:
    import torch

    count = torch.cuda.device_count() if X.device.type == "cuda" else 1
    first = X.device.index or 0
    return [torch.device("cuda", (first + i) % count) for i in range(count)] if count > 1 else []


def _recorded(*tensors: Any) -> bool:
    return any(getattr(tensor, "requires_grad", False) for tensor in tensors)


def shared_gram(
    gram: Callable[..., Any],
    devices: Sequence[Any],
    L: Any,
    R: Any,
    profile: Profile,
    options: GramOptions,
) -> Any:
    """A Gram matrix whose blocks are computed by several devices in turn, on the device of L."""
    # Twice as many strips as devices: blocks on and above a diagonal are then shared almost evenly.
    side = -(-L.shape[0] // (2 * len(devices)))
    shape = L.shape[0], R.shape[0]
    out = L.new_empty(shape) if options.dtype is None else L.new_empty(shape, dtype=options.dtype)
    width = side if options.symmetric else max(R.shape[0], 1)
    blocks = places(shape, (side, width), options.symmetric)
    for number, (rows, columns) in enumerate(blocks):
        device = devices[number % len(devices)]
        part = _moved(options.part(rows, columns), device)
        tile = gram(L[rows].to(device), R[columns].to(device), profile, part)
        out[rows, columns] = tile.to(out.device)
        if options.symmetric and rows != columns:
            out[columns, rows] = out[rows, columns].T
    return out


def shared_matvec(
    matvec: Callable[..., Any],
    devices: Sequence[Any],
    L: Any,
    R: Any,
    profile: Profile,
    v: Any,
    options: GramOptions,
) -> Any:
    """A product with vectors whose strips of rows are computed by several devices, joined on L's."""
    import torch

    v = placed(v, L)
    there = [(device, R.to(device), v.to(device)) for device in devices]
    side, end = -(-L.shape[0] // len(devices)), R.shape[0]
    strips = []
    for start, (device, others, vectors) in zip(range(0, L.shape[0], side), there, strict=False):
        rows = slice(start, min(start + side, L.shape[0]))
        mine = L[rows].to(device)
        # The exact diagonal belongs to a block of its own.
        cuts = [0, rows.start, rows.stop, end] if options.symmetric else [0, end]
        columns = [slice(a, b) for a, b in pairwise(cuts) if a < b]
        parts = [
            matvec(mine, others[c], profile, vectors[c], _moved(options.part(rows, c), device))
            for c in columns
        ]
        strips.append(sum(parts[1:], parts[0]))
    return torch.cat([strip.to(L.device) for strip in strips])


def _moved(options: GramOptions, device: Any) -> GramOptions:
    """Options with their tensors on a device."""
    scales, own, equal = options.scales, options.diagonal, options.equal
    return replace(
        options,
        equal=None if equal is None else equal.to(device),
        scales=None if scales is None else (scales[0].to(device), scales[1].to(device)),
        diagonal=None if own is None else own.to(device),
    )
