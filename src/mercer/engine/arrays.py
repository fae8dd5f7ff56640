"""Gram matrices on torch tensors and other array-API arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from array_api_compat import array_namespace, device, is_torch_array

from mercer._arrays import in_main_memory
from mercer._memory import check_gram
from mercer.engine.equal import Equal
from mercer.profiles import Profile

#: A hyperparameter that is a tensor, and the profile of the kernel's derivative with respect to it
#: after the hyperparameter has moved by so much.
Parameter = tuple[Any, Callable[[float], Profile]]


def gram(
    L: Any,
    R: Any,
    profile: Profile,
    *,
    scales: tuple[Any, Any] | None = None,
    diagonal: Any = None,
    equal: Equal | None = None,
    parameters: Sequence[Parameter] = (),
) -> Any:
    """Gram matrix ``profile(L @ R.T)`` where the arrays live; see :func:`mercer.engine.cpu.gram`.

    On torch it is differentiable in L, R, the scales and the ``parameters``.
    """
    xp = array_namespace(L, R)
    if in_main_memory(L):
        check_gram(L.shape[0], R.shape[0], 4 if L.dtype == xp.float32 else 8, 2)
    w = L @ R.T
    if equal is not None:
        # The value is exact, and derivatives are those of the product.
        known = w.detach() if hasattr(w, "detach") else w
        same = xp.asarray(equal.mask(), device=device(w)) > 0
        w = w + xp.where(same, equal.value - known, xp.zeros_like(known))
    values = apply(w, profile, parameters)
    if scales is not None:
        values = values * scales[0][:, None] * scales[1][None, :]
    if diagonal is not None:
        same = xp.eye(values.shape[0], dtype=xp.int8, device=device(values)) > 0
        values = xp.where(same, diagonal[:, None], values)
    return values


def apply(w: Any, profile: Profile, parameters: Sequence[Parameter] = ()) -> Any:
    """Apply a profile to an array of invariants; differentiable on torch."""
    if not is_torch_array(w):
        return profile.evaluate(w)
    from mercer.engine import torch as backend

    values = backend.apply(w, profile)
    for tensor, slope in parameters:
        if tensor.requires_grad:
            values = backend.with_parameter(values, w, tensor, slope)
    return values
