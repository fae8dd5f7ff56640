"""Sums of products of Gram matrices by the fused kernels, as differentiable functions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from mercer._arrays import placed
from mercer.engine.autograd import computed_again
from mercer.engine.base import MOST_TERMS, GramOptions, Products
from mercer.engine.fused.derivatives import gradients, is_known
from mercer.engine.fused.forms import form_of
from mercer.engine.fused.launch import applied, joined_gram, joined_matvec, strips
from mercer.engine.fused.terms import (
    by_operations,
    inputs,
    is_dense,
    precision,
    prepared,
    shape,
    with_inputs,
)
from mercer.profiles import Profile


def serves(L: torch.Tensor, R: torch.Tensor, profile: Profile) -> bool:
    """Tell whether the fused kernels take these operands and this profile."""
    alike = L.dtype == R.dtype and L.dtype in (torch.float32, torch.float64)
    return alike and L.device == R.device and form_of(profile, L.dtype, L.device) is not None


def joins(products: Products) -> bool:
    """Tell whether the fused kernels compute a sum of products in one pass."""
    terms = [term for _, each in products for term in each]
    if not 0 < len(terms) <= MOST_TERMS or not all(map(is_dense, terms)):
        return False
    dtype, device = precision(products)
    if dtype not in (torch.float32, torch.float64):
        return False
    return all(form_of(term.profile, dtype, device) is not None for term in terms)


def gram(products: Products) -> torch.Tensor:
    """Gram matrix; see :meth:`mercer.engine.Engine.joined`."""
    return _computed(_Gram, products)


def matvec(products: Products, v: Any) -> torch.Tensor:
    """Product with vectors, in the wider of both precisions."""
    dtype, device = precision(products)
    v = placed(v, torch.empty(0, device=device))
    return _computed(_Matvec, products, v).to(torch.promote_types(dtype, v.dtype))


def weighted_sum(products: Products, weights: Any) -> torch.Tensor:
    """Sum of a Gram matrix times weights, in the wider of both precisions."""
    dtype, device = precision(products)
    weights = placed(weights, torch.empty(0, device=device)).resolve_neg()
    wider, length = torch.promote_types(dtype, weights.dtype), None
    if wider != dtype and weights.numel():  # which may be out of the range of the other
        limits = torch.finfo(wider)
        length = weights.detach().abs().amax().clamp(limits.tiny, limits.max)
        weights = weights / length
    total = _computed(_WeightedSum, products, weights.to(dtype).contiguous()).to(wider)
    return total if length is None else total * length


def applied_plainly(w: torch.Tensor, profile: Profile, options: GramOptions) -> torch.Tensor | None:
    """Values of a profile where no derivative is wanted and it has a fused form; else None."""
    if w.dtype not in (torch.float32, torch.float64):
        return None
    if _differentiated((w, *(tensor for tensor, _ in options.parameters))):
        return None
    form = form_of(profile, w.dtype, w.device)
    return None if form is None else applied(form, w)


def _differentiated(tensors: Sequence[Any]) -> bool:
    return torch.is_grad_enabled() and any(part is not None and part.requires_grad for part in tensors)


def _computed(result: type[_Result], products: Products, given: torch.Tensor | None = None) -> Any:
    """A result, recorded for derivatives if they are wanted."""
    tensors = inputs(products)
    if _differentiated((given, *tensors)):
        return _Function.apply(result, products, given, *tensors)
    return result.value(products, given)


class _Result(ABC):
    """What is computed from a sum of products K and, except for K itself, from a given array."""

    @staticmethod
    @abstractmethod
    def value(products: Products, given: Any) -> torch.Tensor:
        """The result."""

    @staticmethod
    @abstractmethod
    def by_operations(strip: Callable[[slice], torch.Tensor], rows: list[slice], given: Any) -> Any:
        """The same by ordinary operations, from a function that computes some rows of K."""

    @staticmethod
    @abstractmethod
    def weights(G: torch.Tensor, given: Any, rows: slice) -> torch.Tensor:
        """Some rows of the derivative with respect to K, up to a factor; G is that of the result."""

    @staticmethod
    def whole(G: torch.Tensor, given: Any) -> torch.Tensor | None:
        """All rows of it, if they are in memory."""
        return None

    @staticmethod
    def multiple(G: torch.Tensor) -> Any:
        """The factor."""
        return 1.0

    @staticmethod
    def by_given(products: Products, G: torch.Tensor, given: Any) -> Any:
        """Derivative with respect to the given array; None if there is none."""
        return None


class _Gram(_Result):
    """K itself."""

    @staticmethod
    def value(products: Products, given: Any) -> torch.Tensor:
        return joined_gram(prepared(products), _is_symmetric(products))

    @staticmethod
    def by_operations(strip: Callable[[slice], torch.Tensor], rows: list[slice], given: Any) -> Any:
        return torch.cat([strip(part) for part in rows])

    @staticmethod
    def weights(G: torch.Tensor, given: Any, rows: slice) -> torch.Tensor:
        return G[rows]

    @staticmethod
    def whole(G: torch.Tensor, given: Any) -> torch.Tensor | None:
        return G


class _Matvec(_Result):
    """K times vectors, in double precision."""

    @staticmethod
    def value(products: Products, given: Any) -> torch.Tensor:
        return joined_matvec(prepared(products), given)

    @staticmethod
    def by_operations(strip: Callable[[slice], torch.Tensor], rows: list[slice], given: Any) -> Any:
        def product(part: slice) -> torch.Tensor:
            K = strip(part)
            dtype = torch.promote_types(K.dtype, given.dtype)
            return K.to(dtype) @ given.to(dtype)

        return torch.cat([computed_again(product, part) for part in rows])

    @staticmethod
    def weights(G: torch.Tensor, given: Any, rows: slice) -> torch.Tensor:
        out, vectors = (part.reshape(len(part), -1) for part in (G[rows], given))
        return out @ vectors.to(out.dtype).T

    @staticmethod
    def by_given(products: Products, G: torch.Tensor, given: Any) -> Any:
        turned = [
            (factor, [(pair.turned(), how, own) for pair, how, own in each])
            for factor, each in prepared(products)
        ]
        return joined_matvec(turned, G)


class _WeightedSum(_Result):
    """The sum of K times weights, in double precision."""

    @staticmethod
    def value(products: Products, given: Any) -> torch.Tensor:
        return joined_gram(prepared(products), _is_symmetric(products), weights=given, total=True)

    @staticmethod
    def by_operations(strip: Callable[[slice], torch.Tensor], rows: list[slice], given: Any) -> Any:
        def total(part: slice) -> torch.Tensor:
            return (strip(part) * given[part]).sum(dtype=torch.float64)

        return torch.stack([computed_again(total, part) for part in rows]).sum()

    @staticmethod
    def weights(G: torch.Tensor, given: Any, rows: slice) -> torch.Tensor:
        return given[rows]

    @staticmethod
    def whole(G: torch.Tensor, given: Any) -> torch.Tensor | None:
        return given

    @staticmethod
    def multiple(G: torch.Tensor) -> Any:
        return G

    @staticmethod
    def by_given(products: Products, G: torch.Tensor, given: Any) -> Any:
        return _Gram.value(products, None) * G


def _is_symmetric(products: Products) -> bool:
    return next(term for _, terms in products for term in terms).options.symmetric


class _Function(torch.autograd.Function):
    """A result as a function of the given array and of the tensors that K depends on."""

    @staticmethod
    def forward(
        ctx: Any, result: type[_Result], products: Products, given: Any, *tensors: Any
    ) -> torch.Tensor:
        ctx.save_for_backward(given, *tensors)
        # Without the tensors: they are saved, and given back when derivatives have been taken.
        ctx.result, ctx.products = result, with_inputs(products, [None] * len(tensors))
        return result.value(products, given)

    @staticmethod
    def backward(ctx: Any, *outward: Any) -> Any:
        (G,), (given, *tensors), needs = outward, ctx.saved_tensors, ctx.needs_input_grad[2:]
        result, products = ctx.result, with_inputs(ctx.products, tensors)
        if torch.is_grad_enabled() or not is_known(products, needs[1:]):
            return None, None, *_by_operations(result, products, needs, G, (given, *tensors))
        dtype, _ = precision(products)
        by_given = result.by_given(products, G, given).to(given.dtype) if needs[0] else None
        weights = G.to(dtype).resolve_neg()
        found = gradients(
            products, needs[1:], partial(result.weights, weights, given), result.whole(weights, given)
        )
        scale = result.multiple(G)
        return None, None, by_given, *(None if part is None else part * scale for part in found)


def _by_operations(
    result: type[_Result], products: Products, needs: Sequence[bool], G: torch.Tensor, tensors: Any
) -> list[Any]:
    """Derivatives by operations that can be differentiated again."""
    again, rows = torch.is_grad_enabled(), list(strips(shape(products)))
    with torch.enable_grad():
        # Diagonals and scales may depend on operands: here they are inputs of their own.
        given, *own = (None if part is None else part.view_as(part) for part in tensors)
        value = result.by_operations(partial(by_operations, with_inputs(products, own)), rows, given)
        wanted = [part for part, needed in zip((given, *own), needs, strict=True) if needed]
        found = iter(
            torch.autograd.grad(value, wanted, G.to(value.dtype), create_graph=again, allow_unused=True)
        )
    return [next(found) if needed else None for needed in needs]
