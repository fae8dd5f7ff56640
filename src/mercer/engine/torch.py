"""The engine of torch tensors: differentiable, on the CPU with compiled loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from array_api_compat import is_torch_array

from mercer.engine.array_api import ArrayEngine
from mercer.engine.base import Parameter
from mercer.profiles import Profile


class TorchEngine(ArrayEngine):
    """Gram matrices of tensors, with derivatives in operands, scales and parameters of any order.

    Torch itself is imported when the first tensor arrives.
    """

    differentiable = True

    def accepts(self, array: Any) -> bool:
        """See :class:`Engine`."""
        return is_torch_array(array)

    def _values(self, w: Any, profile: Profile, parameters: Sequence[Parameter]) -> Any:
        from mercer.engine.autograd import apply, with_parameter

        values = apply(w, profile)
        for tensor, slope in parameters:
            if tensor.requires_grad:
                values = with_parameter(values, w, tensor, slope)
        return values

    def _forget(self, function: Callable[..., Any], *arguments: Any) -> Any:
        from mercer.engine.autograd import computed_again

        return computed_again(function, *arguments)
