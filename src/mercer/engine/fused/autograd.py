"""Fused Gram matrices and products with vectors as differentiable functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import torch

from mercer._arrays import placed
from mercer.engine.base import FactorRows, GramOptions, Products, Term
from mercer.engine.fused.launch import (
    FactorPair,
    Form,
    Pair,
    applied,
    form_of,
    joined_gram,
    joined_matvec,
    strips,
)
from mercer.profiles import PowerProfile, Profile, TableProfile

#: Most terms of a sum of products that are computed in one pass.
_MOST_TERMS = 8
#: Computes the result from operands and options by whole arrays, for second derivatives.
Fallback = Callable[..., torch.Tensor]


def serves(L: torch.Tensor, R: torch.Tensor, profile: Profile) -> bool:
    """Tell whether the fused kernels take these operands and this profile."""
    alike = L.dtype == R.dtype and L.dtype in (torch.float32, torch.float64)
    return alike and L.device == R.device and form_of(profile, L.dtype, L.device) is not None


def gram(
    L: torch.Tensor, R: torch.Tensor, profile: Profile, options: GramOptions, fallback: Fallback
) -> torch.Tensor:
    """Gram matrix; see :meth:`mercer.engine.Engine.gram`."""
    inputs = _inputs(L, R, options)
    if not _differentiated(inputs):
        pair = Pair.of(L, R, profile, options.scales, options.equal)
        return pair.gram(_form(profile, pair.dtype, pair.L.device), options.symmetric, options.diagonal)
    return _Gram.apply(profile, options, fallback, *inputs)


def joined(products: Products, v: Any) -> torch.Tensor | None:
    """See :meth:`mercer.engine.Engine.joined`; in double precision if a part is."""
    terms = [term for _, each in products for term in each]
    if not terms or len(terms) > _MOST_TERMS:
        return None
    tensors = [part for term in terms for part in _tensors(term)]
    dtype, device = reduce(torch.promote_types, (part.dtype for part in tensors)), tensors[0].device
    v = None if v is None else placed(v, tensors[0])
    if _differentiated([*tensors, v]):
        return None
    if any(form_of(term.profile, dtype, device) is None for term in terms):
        return None
    prepared = [(weight, [_prepared(term, dtype) for term in each]) for weight, each in products]
    if v is None:
        return joined_gram(prepared, terms[0].options.symmetric, dtype, device)
    return joined_matvec(prepared, v, dtype).to(torch.promote_types(dtype, v.dtype))


def _tensors(term: Term) -> list[torch.Tensor]:
    """Tensors that a term is computed from."""
    if isinstance(term.L, FactorRows):
        return [term.L.points, term.R.points]
    return [part for part in _inputs(term.L, term.R, term.options) if part is not None]


def _prepared(term: Term, dtype: torch.dtype) -> tuple[Pair | FactorPair, Form, torch.Tensor | None]:
    """A term for the kernels, in the precision that all have in common."""
    L, R, options = term.L, term.R, term.options
    if isinstance(L, FactorRows):
        return FactorPair(L, R), _form(term.profile, dtype, L.points.device), options.diagonal
    left = L.to(dtype)
    pair = Pair.of(left, left if R is L else R.to(dtype), term.profile, options.scales, options.equal)
    return pair, _form(term.profile, dtype, L.device), options.diagonal


def matvec(
    L: torch.Tensor,
    R: torch.Tensor,
    profile: Profile,
    v: Any,
    options: GramOptions,
    fallback: Fallback,
) -> torch.Tensor:
    """Product with vectors; see :meth:`mercer.engine.Engine.matvec`."""
    v = placed(v, L)
    dtype = torch.promote_types(L.dtype, v.dtype)
    inputs = (*_inputs(L, R, options), v)
    if _differentiated(inputs):
        return _Matvec.apply(profile, options, fallback, *inputs).to(dtype)
    return _product(L, R, profile, options, v).to(dtype)


def weighted_sum(
    L: torch.Tensor,
    R: torch.Tensor,
    profile: Profile,
    weights: Any,
    options: GramOptions,
    fallback: Fallback,
) -> torch.Tensor:
    """Sum of a Gram matrix times weights; see :meth:`mercer.engine.Engine.weighted_sum`."""
    weights = placed(weights, L).to(L.dtype).resolve_neg().contiguous()
    if _differentiated((weights,)):
        return fallback(L, R, profile, weights, options)
    inputs = (*_inputs(L, R, options), weights)
    if _differentiated(inputs):
        return _WeightedSum.apply(profile, options, fallback, *inputs)
    return _sum(L, R, profile, options, weights)


def _sum(
    L: torch.Tensor, R: torch.Tensor, profile: Profile, options: GramOptions, weights: torch.Tensor
) -> torch.Tensor:
    pair = Pair.of(L, R, profile, options.scales, options.equal)
    form = _form(profile, pair.dtype, pair.L.device)
    return pair.weighted_sum(form, options.symmetric, options.diagonal, weights).to(L.dtype)


def applied_plainly(w: torch.Tensor, profile: Profile, options: GramOptions) -> torch.Tensor | None:
    """Values of a profile where no derivative is wanted and it has a fused form; else None."""
    if w.dtype not in (torch.float32, torch.float64):
        return None
    if _differentiated((w, *(tensor for tensor, _ in options.parameters))):
        return None
    form = form_of(profile, w.dtype, w.device)
    return None if form is None else applied(form, w)


def _inputs(L: torch.Tensor, R: torch.Tensor, options: GramOptions) -> tuple[Any, ...]:
    """What a result depends on: operands, scales, diagonal, hyperparameters."""
    tensors = [tensor for tensor, _ in options.parameters]
    return L, R, *(options.scales or (None, None)), options.diagonal, *tensors


def _differentiated(inputs: Sequence[Any]) -> bool:
    return torch.is_grad_enabled() and any(part is not None and part.requires_grad for part in inputs)


def _form(profile: Profile, dtype: torch.dtype, device: torch.device) -> Form:
    form = form_of(profile, dtype, device)
    if form is None:
        raise TypeError(f"{profile!r} has no fused form")
    return form


def _product(
    L: torch.Tensor, R: torch.Tensor, profile: Profile, options: GramOptions, v: torch.Tensor
) -> torch.Tensor:
    """Product with vectors in double precision."""
    pair = Pair.of(L, R, profile, options.scales, options.equal)
    columns = v if v.ndim == 2 else v[:, None]
    found = pair.matvec(_form(profile, pair.dtype, pair.L.device), columns, options.diagonal)
    return found if v.ndim == 2 else found[:, 0]


def derivative(profile: Profile) -> Profile | None:
    """Derivative with respect to the invariant, if it is a profile too; else None."""
    if isinstance(profile, PowerProfile):
        if profile.degree == 0:
            return PowerProfile(0, factor=0.0)
        factor = profile.factor * profile.degree * profile.scale
        return PowerProfile(profile.degree - 1, profile.scale, profile.shift, factor)
    if isinstance(profile, TableProfile) and not profile.logarithmic:
        return profile.derivative
    return None


class _Differentiable(torch.autograd.Function):
    """What both functions share: their inputs, and derivatives of derivatives."""

    @staticmethod
    def keep(ctx: Any, profile: Profile, options: GramOptions, fallback: Fallback, inputs: Any) -> None:
        """Remember what derivatives need."""
        ctx.profile, ctx.options, ctx.fallback = profile, options, fallback
        ctx.present = [part is not None for part in inputs]
        ctx.save_for_backward(*(part for part in inputs if part is not None))

    @staticmethod
    def inputs(ctx: Any) -> list[Any]:
        """Return the inputs, with None for those that were not given."""
        saved = iter(ctx.saved_tensors)
        return [next(saved) if given else None for given in ctx.present]

    @staticmethod
    def by_whole_arrays(ctx: Any, inputs: list[Any], G: torch.Tensor, vectors: int) -> Any:
        """Derivatives by operations that can be differentiated again; the last inputs are vectors."""
        wanted = [k for k, part in enumerate(inputs) if part is not None and ctx.needs_input_grad[k + 3]]
        again = torch.is_grad_enabled()
        with torch.enable_grad():
            # The diagonal and the scales may depend on the operands: here they are separate inputs.
            own = [None if part is None else part.view_as(part) for part in inputs]
            others = own[len(own) - vectors :]
            result = ctx.fallback(own[0], own[1], ctx.profile, *others, _rebuilt(ctx, own))
            places = [own[k] for k in wanted]
            found = torch.autograd.grad(
                result, places, G.to(result.dtype), create_graph=again, allow_unused=True
            )
        gradients: list[Any] = [None] * len(inputs)
        for k, part in zip(wanted, found, strict=True):
            gradients[k] = part
        return None, None, None, *gradients


def _rebuilt(ctx: Any, inputs: list[Any]) -> GramOptions:
    """The same options with other tensors."""
    options = ctx.options
    slopes = [slope for _, slope in options.parameters]
    tensors = inputs[5 : 5 + len(slopes)]
    return replace(
        options,
        scales=None if options.scales is None else (inputs[2], inputs[3]),
        diagonal=inputs[4],
        parameters=list(zip(tensors, slopes, strict=True)),
    )


def _backward(vectors: int) -> Callable[[Callable[..., list[Any]]], Any]:
    """Make a backward pass from a function that computes derivatives by the inputs.

    The last inputs are vectors.  Whole arrays are used if derivatives are differentiated again or if the
    derivative of the profile is not a profile.
    """

    def made(gradients: Callable[..., list[Any]]) -> Any:
        def backward(ctx: Any, *outward: Any) -> Any:
            inputs, steep = _Differentiable.inputs(ctx), derivative(ctx.profile)
            if torch.is_grad_enabled() or steep is None:
                return _Differentiable.by_whole_arrays(ctx, inputs, outward[0], vectors)
            return None, None, None, *gradients(ctx, inputs, steep, outward[0])

        return backward

    return made


class _Gram(_Differentiable):
    """A Gram matrix."""

    @staticmethod
    def forward(ctx: Any, profile: Any, options: Any, fallback: Any, *inputs: Any) -> torch.Tensor:
        _Differentiable.keep(ctx, profile, options, fallback, inputs)
        pair = Pair.of(inputs[0], inputs[1], profile, options.scales, options.equal)
        return pair.gram(_form(profile, pair.dtype, pair.L.device), options.symmetric, options.diagonal)

    @staticmethod
    @_backward(vectors=0)
    def backward(ctx: Any, inputs: list[Any], steep: Profile, G: torch.Tensor) -> list[Any]:
        G = G.to(inputs[0].dtype)
        return _gradients(ctx, inputs, steep, lambda rows: G[rows], G)


class _WeightedSum(_Differentiable):
    """Sum of a Gram matrix times weights; the last input is the weights, which do not vary."""

    @staticmethod
    def forward(ctx: Any, profile: Any, options: Any, fallback: Any, *inputs: Any) -> torch.Tensor:
        _Differentiable.keep(ctx, profile, options, fallback, inputs)
        return _sum(inputs[0], inputs[1], profile, options, inputs[-1])

    @staticmethod
    @_backward(vectors=1)
    def backward(ctx: Any, inputs: list[Any], steep: Profile, g: torch.Tensor) -> list[Any]:
        G = inputs[-1]
        gradients = _gradients(ctx, inputs, steep, lambda rows: G[rows], G)
        return [None if part is None else part * g for part in gradients]


class _Matvec(_Differentiable):
    """A product with vectors; the last input is the vectors."""

    @staticmethod
    def forward(ctx: Any, profile: Any, options: Any, fallback: Any, *inputs: Any) -> torch.Tensor:
        _Differentiable.keep(ctx, profile, options, fallback, inputs)
        return _product(inputs[0], inputs[1], profile, options, inputs[-1])

    @staticmethod
    @_backward(vectors=1)
    def backward(ctx: Any, inputs: list[Any], steep: Profile, G: torch.Tensor) -> list[Any]:
        L, R, _, _, diagonal, *_, v = inputs
        dtype = L.dtype
        out, vectors = (part.to(dtype).reshape(len(part), -1) for part in (G, v))
        gradients = _gradients(ctx, inputs, steep, lambda rows: out[rows] @ vectors.T, None)
        if ctx.needs_input_grad[-1]:
            pair = Pair.of(L, R, ctx.profile, ctx.options.scales, ctx.options.equal).turned()
            found = pair.matvec(_form(ctx.profile, pair.dtype, pair.L.device), out, diagonal)
            gradients[-1] = found.to(v.dtype).reshape(v.shape)
        return gradients


def _gradients(
    ctx: Any,
    inputs: list[Any],
    steep: Profile,
    weights: Callable[[slice], torch.Tensor],
    G: torch.Tensor | None,
) -> list[Any]:
    """Derivatives of ``sum(weights * K)`` by all inputs but vectors, strip by strip.

    ``steep`` is the derivative of the profile; G is the whole matrix of weights, where there is one.
    """
    L, R, left, right, diagonal = inputs[:5]
    options, needs = ctx.options, ctx.needs_input_grad[3:]
    pair = Pair.of(L, R, ctx.profile, options.scales, options.equal)
    gradients: list[Any] = [None] * len(inputs)
    exact = diagonal is not None
    alike = options.symmetric and (needs[0] or needs[1])
    slope = _form(steep, pair.dtype, pair.L.device)
    if alike and G is not None and pair.is_narrow:
        pulled = pair.pulled(slope, G.resolve_neg(), both=True, off=exact)
        gradients[0] = pulled[:, : L.shape[1]]
        needs = (False, False, *needs[2:])
    if not any(needs):
        return gradients
    for k, part in enumerate(inputs[:4]):
        if part is not None and needs[k] and gradients[k] is None:
            gradients[k] = torch.zeros_like(part)
    if exact and needs[4]:
        gradients[4] = torch.zeros_like(diagonal)
    moved = [
        (5 + k, _form(at(0.0), pair.dtype, pair.L.device))
        for k, (_, at) in enumerate(options.parameters)
        if needs[5 + k]
    ]
    for k, _ in moved:
        gradients[k] = torch.zeros((), dtype=torch.float64, device=L.device)
    for rows in strips(pair.shape):
        W = weights(rows).clone(memory_format=torch.contiguous_format)
        if exact:
            own = W.diagonal(offset=rows.start)
            if gradients[4] is not None:
                gradients[4][rows] += own
            own.zero_()
        strip = pair.part(rows)
        if needs[0] or needs[1]:
            H = strip.gram(slope, weights=W)
            if needs[0]:
                gradients[0][rows] += H @ R
            if needs[1]:
                gradients[1] += H.T @ L[rows]
        for k, form in moved:
            gradients[k] += strip.gram(form, weights=W).sum(dtype=torch.float64)
        if needs[2] or needs[3]:
            H = replace(strip, scales=None).gram(
                _form(ctx.profile, pair.dtype, pair.L.device), weights=W
            )
            if needs[2]:
                gradients[2][rows] += H @ right
            if needs[3]:
                gradients[3] += H.T @ left[rows]
    for k, _ in moved:
        gradients[k] = gradients[k].to(inputs[k]).reshape(inputs[k].shape)
    return gradients
