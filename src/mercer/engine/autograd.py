"""Profiles as differentiable functions of torch tensors; imported only when a tensor arrives."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

from mercer.profiles import ProductProfile, Profile, TableProfile

_LINEAR_ALGEBRA = Lock()


def apply(w: torch.Tensor, profile: Profile) -> torch.Tensor:
    """Apply a profile to a tensor of invariants, differentiably and any number of times."""
    if isinstance(profile, ProductProfile):
        return apply(w, profile.first) * apply(w, profile.second)
    if not isinstance(profile, TableProfile):
        return profile.evaluate(w)
    values: torch.Tensor = _Table.apply(w, profile.without_exponential)
    return values.exp() if profile.logarithmic else values


def computed_again(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function whose intermediate results are recomputed when a derivative is taken."""
    if not torch.is_grad_enabled():
        return function(*arguments)
    return checkpoint(function, *arguments, use_reentrant=False, preserve_rng_state=False)


def inverse_factor(B: torch.Tensor) -> tuple[torch.Tensor, float]:
    """``L^-1`` and ``log |B|`` for ``B = L L'``; NaN where B is not positive definite."""
    # PyTorch loads its linear algebra at the first call, which two threads must not make at once.
    with _LINEAR_ALGEBRA:
        L, failed = torch.linalg.cholesky_ex(B)
        if int(failed):
            return B, float("nan")
        log_det = 2 * float(L.diagonal().log().sum())
        eye = torch.eye(len(B), dtype=B.dtype, device=B.device)
        return torch.linalg.solve_triangular(L, eye, upper=False), log_det


def row_numbers(X: torch.Tensor, Y: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Numbers that equal rows of X and of Y (by default X) have in common; None if no rows are equal."""
    both = _row_keys(X) if Y is None else torch.cat([_row_keys(X), _row_keys(Y)])
    found, numbers = torch.unique(both, return_inverse=True)
    if len(found) == len(both):
        return None
    return numbers[: len(X)], numbers[len(both) - len(X if Y is None else Y) :]


def _row_keys(X: torch.Tensor) -> torch.Tensor:
    """Keys of rows, equal for equal rows."""
    whole = torch.int32 if X.dtype == torch.float32 else torch.int64
    bits = (X.detach() + 0.0).contiguous().view(whole).to(torch.int64)  # no minus zero
    bits = (bits ^ (bits >> 32)) * 0x3F58476D1CE4E5B9
    bits ^= bits >> 32
    return (bits * key_weights(X.shape[1], X.device)).sum(dim=1)


@lru_cache(maxsize=32)
def key_weights(columns: int, device: torch.device) -> torch.Tensor:
    """Odd weights of the columns in the sums that are the keys of rows."""
    weights = np.random.default_rng(0).integers(2**62, size=columns) | 1
    return torch.as_tensor(weights, device=device)


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


def with_parameter(
    values: torch.Tensor, w: torch.Tensor, tensor: torch.Tensor, slope: Callable[[float], Profile]
) -> torch.Tensor:
    """Return values that also depend on a hyperparameter: ``slope(shift)`` is their derivative."""
    change = (tensor - tensor.detach()).to(values)  # zero, with derivative one
    # Taylor's formula about a change of zero; the second term costs nothing until it is differentiated.
    return values + change * apply(w, slope(0.0)) + _SecondOrder.apply(change, w.detach(), slope)


class _SecondOrder(torch.autograd.Function):
    """``change^2 / 2`` times the slope's own derivative, at a change of zero."""

    @staticmethod
    def forward(
        ctx: Any, change: torch.Tensor, w: torch.Tensor, slope: Callable[[float], Profile]
    ) -> torch.Tensor:
        ctx.save_for_backward(change, w)
        ctx.slope = slope
        return torch.zeros_like(w)

    @staticmethod
    def backward(ctx: Any, *outward: Any) -> Any:
        change, w = ctx.saved_tensors
        slope = _Curvature.apply(change, w, ctx.slope)
        return (outward[0] * slope).sum().reshape(change.shape), None, None


class _Curvature(torch.autograd.Function):
    """``change`` times the slope's own derivative: differences of tables, good to about 1e-9."""

    @staticmethod
    def forward(
        ctx: Any, change: torch.Tensor, w: torch.Tensor, slope: Callable[[float], Profile]
    ) -> torch.Tensor:
        ctx.save_for_backward(w)
        ctx.slope, ctx.shape = slope, change.shape
        return torch.zeros_like(w)

    @staticmethod
    def backward(ctx: Any, *outward: Any) -> Any:
        (w,) = ctx.saved_tensors
        step = 0.01
        ends = {k: apply(w, ctx.slope(k * step)) for k in (-2, -1, 1, 2)}
        curvature = (8 * (ends[1] - ends[-1]) - (ends[2] - ends[-2])) / (12 * step)
        return (outward[0] * curvature).sum().reshape(ctx.shape), None, None
