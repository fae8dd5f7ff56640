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


def with_parameter(values: torch.Tensor, tensor: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
    """Return values that also depend on a hyperparameter, with the given slope."""
    change = (tensor - tensor.detach()).to(values.dtype)  # zero, with derivative one
    return values + _Slope.apply(change, slope)


class _Slope(torch.autograd.Function):
    """``change * slope`` for a change of zero; the slope's own dependence on it is not known."""

    @staticmethod
    def forward(ctx: Any, change: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(change, slope)
        return change * slope

    @staticmethod
    def backward(ctx: Any, *outward: Any) -> Any:
        change, slope = ctx.saved_tensors
        return (outward[0] * _Once.apply(slope, change)).sum().reshape(change.shape), None


class _Once(torch.autograd.Function):
    """The slope, with a complaint when a second derivative by the hyperparameter is asked for."""

    @staticmethod
    def forward(ctx: Any, slope: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
        return slope.clone()

    @staticmethod
    def backward(ctx: Any, *outward: Any) -> Any:
        if ctx.needs_input_grad[1]:
            raise RuntimeError("kernels have no second derivatives by their hyperparameters")
        return outward[0], None
