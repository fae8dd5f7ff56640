"""The engine of torch tensors: differentiable, on the CPU with compiled loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from array_api_compat import is_torch_array

from mercer._arrays import is_sparse_tensor, placed
from mercer.engine.array_api import ArrayEngine
from mercer.engine.base import Parameter, threads_for
from mercer.profiles import Profile

#: Numbers that a device computes with at a time, and how many more rows than the CPU.
_NUMBERS, _TIMES = 2**26, 64


class TorchEngine(ArrayEngine):
    """Gram matrices of tensors, with derivatives in operands, scales and parameters of any order.

    Torch itself is imported when the first tensor arrives.
    """

    differentiable = True

    def accepts(self, array: Any) -> bool:
        return is_torch_array(array)

    def _values(self, w: Any, profile: Profile, parameters: Sequence[Parameter]) -> Any:
        from mercer.engine.autograd import apply, with_parameter

        values = apply(w, profile)
        for tensor, slope in parameters:
            if tensor.requires_grad:
                values = with_parameter(values, w, tensor, slope)
        return values

    def resident(self, X: Any) -> Any:
        """See :class:`Engine`; derivatives of what is learnt from rows are not recorded."""
        return None if is_sparse_tensor(X) else X.detach()

    def like_rows(self, values: Any, X: Any) -> Any:
        """See :class:`Engine`; text stays in NumPy's arrays."""
        kind = getattr(values.dtype, "kind", None)  # tensors have none
        return placed(values, X) if kind is not None and kind in "biuf" else values

    def rows_at_once(self, X: Any, least: int, width: int) -> int:
        """See :class:`Engine`; a device is fastest with many."""
        if X.device.type == "cpu":
            return least
        return max(least, min(_TIMES * least, _NUMBERS // max(width, 1)))

    def lanes(self, X: Any) -> int:
        """See :class:`Engine`; a device queues its work."""
        return threads_for(X.shape[0]) if X.device.type == "cpu" else 1

    def exhausted(self, error: BaseException) -> bool:
        """See :class:`Engine`; what is kept for later computations is given back."""
        import torch

        found = isinstance(error, torch.cuda.OutOfMemoryError)
        if found:
            torch.cuda.empty_cache()
        return found

    def inverse_factor(self, B: Any) -> tuple[Any, float]:
        from mercer.engine.autograd import inverse_factor

        return inverse_factor(B)

    def _forget(self, function: Callable[..., Any], *arguments: Any) -> Any:
        from mercer.engine.autograd import computed_again

        return computed_again(function, *arguments)
