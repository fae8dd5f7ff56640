"""Profiles as differentiable functions of torch tensors; imported only when a tensor arrives."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from mercer.profiles import ProductProfile, Profile, TableProfile


def apply(w: torch.Tensor, profile: Profile) -> torch.Tensor:
    """Apply a profile to a tensor of invariants, differentiably and any number of times."""
    if isinstance(profile, ProductProfile):
        return apply(w, profile.first) * apply(w, profile.second)
    if not isinstance(profile, TableProfile):
        return profile.evaluate(w)
    values: torch.Tensor = _Table.apply(w, profile.without_exponential)
    return values.exp() if profile.logarithmic else values


class _Table(torch.autograd.Function):
    """A table's function; its derivative is another table's."""

    @staticmethod
    def forward(ctx: Any, w: torch.Tensor, profile: TableProfile) -> torch.Tensor:
        ctx.save_for_backward(w)
        ctx.profile = profile
        if w.device.type != "cpu":
            return profile.evaluate(w.detach())
        values = w.detach().clone(memory_format=torch.contiguous_format)
        profile.apply(np.atleast_2d(values.numpy()))
        return values

    @staticmethod
    def backward(ctx: Any, *outward: Any) -> Any:
        (w,) = ctx.saved_tensors
        return outward[0] * _Table.apply(w, ctx.profile.derivative), None
