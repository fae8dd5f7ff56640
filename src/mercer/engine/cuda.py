"""The engine of tensors on CUDA devices: one fused kernel for product and profile."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

from array_api_compat import is_torch_array

from mercer._arrays import has_overflowed
from mercer.engine.base import PLAIN, Extent, GramOptions, Products, Term
from mercer.engine.devices import shared_gram, shared_matvec, sharing_gram, sharing_matvec
from mercer.engine.equal import NumberedRows, numbered_rows
from mercer.engine.torch import TorchEngine
from mercer.profiles import PowerProfile, Profile


class CudaEngine(TorchEngine):
    """Gram matrices of tensors on a CUDA device, with memory for the result and a strip of it.

    Products are computed with the accuracy of their precision: in single precision each number is
    split into two of a format of the tensor cores, and sums over tiles are in double precision.
    Profiles that have neither a polynomial nor a table, and machines without Triton, use
    :class:`TorchEngine`; second derivatives are computed by ordinary operations.

    Parameters
    ----------
    device : str
        Kind of device; tests run the kernels in Triton's interpreter on the "cpu".
    """

    #: Sums along rows are in an order that depends on the shape of the array.
    rounds_alike = False
    joins = True

    def __init__(self, device: str = "cuda") -> None:
        self._device = device

    def accepts(self, array: Any) -> bool:
        return is_torch_array(array) and array.device.type == self._device and _has_triton()

    def gram(self, L: Any, R: Any, profile: Profile, options: GramOptions = PLAIN) -> Any:
        if not _fused().serves(L, R, profile):
            return super().gram(L, R, profile, options)
        if devices := sharing_gram(L, R):
            return shared_gram(_gram_here, devices, L, R, profile, options)
        return _gram_here(L, R, profile, options)

    def weighted_sum(self, products: Products, weights: Any) -> Any:
        """See :class:`Engine`; summed in double precision, and None if the sum overflows."""
        if not _fused().joins(products):
            return None
        total = _fused().weighted_sum(products, weights)
        # Others are bounded: a look at them would keep the host waiting.
        return None if _is_unbounded(products) and has_overflowed(total) else total

    def joined(self, products: Products, v: Any = None) -> Any:
        if not _fused().joins(products):
            return None
        return _fused().gram(products) if v is None else _fused().matvec(products, v)

    def extent(self, X: Any) -> Extent | None:
        return _rows().extent(X) if X.is_contiguous() else None

    def unit_rows(self, X: Any) -> Any:
        rows = _rows()
        return super().unit_rows(X) if rows.is_watched(X) else rows.unit_rows(X, shares=False)

    def roots_of_shares(self, X: Any) -> Any:
        rows = _rows()
        return super().roots_of_shares(X) if rows.is_watched(X) else rows.unit_rows(X, shares=True)

    def equal_rows(self, X: Any, Y: Any, value: float) -> NumberedRows | None:
        return numbered_rows(_rows().row_numbers(X, Y), value)

    def apply(self, w: Any, profile: Profile, options: GramOptions = PLAIN) -> Any:
        """See :class:`Engine`; profiles of plain arrays, such as diagonals, by one kernel."""
        if options.scales is None and options.diagonal is None and options.dtype is None:
            found = _fused().applied_plainly(w, profile, options)
            if found is not None:
                return found
        return super().apply(w, profile, options)

    def matvec(self, L: Any, R: Any, profile: Profile, v: Any, options: GramOptions = PLAIN) -> Any:
        """See :class:`Engine`; sums over tiles are in double precision."""
        if not _fused().serves(L, R, profile):
            return super().matvec(L, R, profile, v, options)
        if devices := sharing_matvec(L, R, v):
            return shared_matvec(_matvec_here, devices, L, R, profile, v, options)
        return _matvec_here(L, R, profile, v, options)


def _is_unbounded(products: Products) -> bool:
    terms = [term for _, each in products for term in each]
    return len(terms) > 1 or isinstance(terms[0].profile, PowerProfile)


def _gram_here(L: Any, R: Any, profile: Profile, options: GramOptions) -> Any:
    """Gram matrix on one device, in the precision of the operands until it is stored."""
    K = _fused().gram([(1.0, [Term(L, R, profile, options)])])
    if isinstance(profile, PowerProfile):
        profile.checked(K)
    return K if options.dtype is None else K.to(options.dtype)


def _matvec_here(L: Any, R: Any, profile: Profile, v: Any, options: GramOptions) -> Any:
    """Product with vectors on one device."""
    return _fused().matvec([(1.0, [Term(L, R, profile, options)])], v)


def cuda_device() -> str:
    """Describe where tensors are computed, and how."""
    if find_spec("torch") is None:
        return "PyTorch is not installed"
    import torch

    if not torch.cuda.is_available():
        return "on the CPU; PyTorch sees no CUDA device"
    way = "fused kernels, single and double precision" if _has_triton() else "without Triton, unfused"
    return f"on the CPU and on {torch.cuda.get_device_name()} ({way})"


@cache
def _fused() -> Any:
    """Products by the fused kernels; looked up once, which is faster than an import in each call."""
    from mercer.engine.fused import autograd

    return autograd


@cache
def _rows() -> Any:
    """What they do to rows before."""
    from mercer.engine.fused import rows

    return rows


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
