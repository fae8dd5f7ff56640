"""Sums of products of terms: the tensors that they depend on, and the operands of the kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import torch

from mercer.engine.autograd import apply, with_parameter
from mercer.engine.base import FactorRows, Products, Term
from mercer.engine.fused.forms import Form, form_of
from mercer.engine.fused.launch import FactorPair, Joined, Pair
from mercer.engine.torch import TorchEngine
from mercer.profiles import Profile

#: Inputs of a term: operands, scales, its diagonal, and then hyperparameters.
LEFT, RIGHT, LEFT_SCALES, RIGHT_SCALES, DIAGONAL, PARAMETERS = range(6)
_PLAIN = TorchEngine()


def is_dense(term: Term) -> bool:
    """Tell whether the rows of a term are dense tensors."""
    rows = (term.L, term.R)
    return all(isinstance(part, FactorRows | torch.Tensor) for part in rows)


def inputs(products: Products) -> list[torch.Tensor | None]:
    """Tensors that a sum of products depends on: for each product its factor and the inputs of terms."""
    found: list[torch.Tensor | None] = []
    for factor, terms in products:
        found.append(factor if isinstance(factor, torch.Tensor) else None)
        for term in terms:
            found += term_inputs(term)
    return found


def term_inputs(term: Term) -> list[torch.Tensor | None]:
    """Tensors that a term depends on."""
    L, R, options = term.L, term.R, term.options
    if isinstance(L, FactorRows):
        own = [L.points, R.points, L.scales, R.scales]
    else:
        own = [L, R, *(options.scales or (None, None))]
    return [*own, options.diagonal, *(tensor for tensor, _ in options.parameters)]


def with_inputs(products: Products, tensors: Sequence[torch.Tensor | None]) -> Products:
    """The same sum of products of other tensors."""
    rest, found = iter(tensors), []
    for factor, terms in products:
        given = next(rest)
        changed = [_with_inputs(term, [next(rest) for _ in term_inputs(term)]) for term in terms]
        found.append((factor if given is None else given, changed))
    return found


def _with_inputs(term: Term, tensors: list[Any]) -> Term:
    left, right, left_scales, right_scales, diagonal, *values = tensors
    slopes = [slope for _, slope in term.options.parameters]
    options = replace(term.options, diagonal=diagonal, parameters=list(zip(values, slopes, strict=True)))
    if isinstance(term.L, FactorRows):
        rows = [(term.L, left, left_scales), (term.R, right, right_scales)]
        L, R = (old._replace(points=points, scales=scales) for old, points, scales in rows)
        return Term(L, R, term.profile, options)
    scales = None if left_scales is None else (left_scales, right_scales)
    return Term(left, right, term.profile, replace(options, scales=scales))


def precision(products: Products) -> tuple[torch.dtype, torch.device]:
    """The precision that all terms have in common, and their device."""
    tensors = [
        part for _, terms in products for term in terms for part in term_inputs(term)[:PARAMETERS]
        if part is not None
    ]  # fmt: skip
    return reduce(torch.promote_types, {part.dtype for part in tensors}), tensors[0].device


def form(profile: Profile, dtype: torch.dtype, device: torch.device) -> Form:
    """The form of a profile that is known to have one."""
    found = form_of(profile, dtype, device)
    if found is None:
        raise TypeError(f"{profile!r} has no fused form")
    return found


def prepared(products: Products) -> Joined:
    """Terms for the kernels, in the precision that all have in common."""
    dtype, device = precision(products)

    def of(term: Term) -> tuple[Pair | FactorPair, Form, torch.Tensor | None]:
        L, R, options = term.L, term.R, term.options
        how = form(term.profile, dtype, device)
        if isinstance(L, FactorRows):
            return FactorPair(_cast(L, dtype), _cast(R, dtype)), how, options.diagonal
        left = L.to(dtype)
        right = left if R is L else R.to(dtype)
        return Pair.of(left, right, term.profile, options.scales, options.equal), how, options.diagonal

    return [(factor, [of(term) for term in terms]) for factor, terms in products]


def _cast(rows: FactorRows, dtype: torch.dtype) -> FactorRows:
    return rows._replace(points=rows.points.to(dtype), scales=rows.scales.to(dtype))


def shape(products: Products) -> tuple[int, int]:
    """Shape of a sum of products."""
    L, R = next((term.L, term.R) for _, terms in products for term in terms)
    if isinstance(L, FactorRows):
        return L.points.shape[1], R.points.shape[1]
    return L.shape[0], R.shape[0]


def by_operations(products: Products, rows: slice) -> torch.Tensor:
    """Some rows of a sum of products by ordinary operations, which have derivatives of any order."""
    dtype, device = precision(products)
    ones = torch.ones((rows.stop - rows.start, shape(products)[1]), dtype=dtype, device=device)
    total: Any = 0.0
    for factor, terms in products:
        value = ones if not terms else math.prod(_term_by_operations(term, rows) for term in terms)
        weight = factor.to(device) if isinstance(factor, torch.Tensor) else factor
        total = total + weight * value
    return total


def _term_by_operations(term: Term, rows: slice) -> torch.Tensor:
    L, R, options = term.L, term.R, term.options
    if isinstance(L, FactorRows):
        some = L._replace(points=L.points[:, rows], scales=L.scales[:, rows])
        values = _over_factors(some, R, term)
    else:
        part = options.part(rows, slice(0, R.shape[0]))
        values = _PLAIN.gram(L[rows], R, term.profile, replace(part, symmetric=False, diagonal=None))
    if options.diagonal is None:
        return values
    columns = torch.arange(values.shape[1], device=values.device)
    return torch.where(
        columns[rows, None] == columns, options.diagonal[rows, None].to(values.dtype), values
    )


def _over_factors(L: FactorRows, R: FactorRows, term: Term) -> torch.Tensor:
    """The exponential of a sum over the factors of a product of spaces."""
    total: Any = 0.0
    for f, (s, t) in enumerate(zip(L.scales, R.scales, strict=True)):
        part = slice(f * L.width, (f + 1) * L.width)
        gaps = L.points[part, :, None] - R.points[part, None, :]
        if L.periodic:
            gaps = gaps - 2 * (gaps / 2).round()
        u = (gaps**2).sum(dim=0) * s[:, None] * t
        values = apply(u, term.profile)
        for tensor, slope in term.options.parameters:
            values = with_parameter(values, u, tensor, slope) if tensor.requires_grad else values
        total = total + values
    return total.exp()
