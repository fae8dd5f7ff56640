"""Derivatives of sums of products of terms, strip by strip of rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch

from mercer.engine.base import FactorRows, Products, Term
from mercer.engine.fused.forms import Form, form_of
from mercer.engine.fused.launch import (
    FactorPair,
    Joined,
    JoinedTerm,
    Pair,
    is_one,
    joined_gram,
    strips,
)
from mercer.engine.fused.terms import (
    DIAGONAL,
    LEFT,
    LEFT_SCALES,
    PARAMETERS,
    RIGHT,
    RIGHT_SCALES,
    form,
    precision,
    prepared,
    shape,
    term_inputs,
)
from mercer.profiles import PowerProfile, ProductProfile, Profile, TableProfile

Tensors = list[torch.Tensor | None]


def derivative(profile: Profile) -> Profile | None:
    """Derivative with respect to the invariant, if it is a profile too; else None."""
    if isinstance(profile, PowerProfile):
        if profile.degree == 0:
            return PowerProfile(0, factor=0.0)
        factor = profile.factor * profile.degree * profile.scale
        return PowerProfile(profile.degree - 1, profile.scale, profile.shift, factor)
    if isinstance(profile, TableProfile):
        steep = profile.derivative
        return ProductProfile(profile, steep) if profile.logarithmic else steep
    return None


def is_known(products: Products, needs: Sequence[bool]) -> bool:
    """Tell whether the derivatives that are needed are those of profiles."""
    rest, profiles = iter(needs), []
    for _, terms in products:
        next(rest)
        for term in terms:
            wanted = [next(rest) for _ in term_inputs(term)]
            if wanted[LEFT] or wanted[RIGHT]:
                profiles.append(derivative(term.profile))
            moved = zip(term.options.parameters, wanted[PARAMETERS:], strict=True)
            profiles += [slope(0.0) for (_, slope), needed in moved if needed]
    at = precision(products)
    return all(profile is not None and form_of(profile, *at) is not None for profile in profiles)


def gradients(
    products: Products,
    needs: Sequence[bool],
    weights: Callable[[slice], torch.Tensor],
    whole: torch.Tensor | None,
) -> Tensors:
    """Derivatives of ``sum(weights * K)`` with respect to the inputs of a sum of products K.

    Parameters
    ----------
    products : Products
        If they are symmetric, each term has its exact diagonal.
    needs : sequence of bool
        For each of the inputs, whether its derivative is wanted.
    weights : callable
        Rows of the matrix of weights.
    whole : array, optional
        The whole matrix of weights, if there is one.
    """
    joined, wanted = prepared(products), iter(needs)
    parts: list[_Part] = []
    for (factor, terms), (_, ready) in zip(products, joined, strict=True):
        parts.append(_Factor([factor], [next(wanted)], factor, ready))
        for k, term in enumerate(terms):
            own = term_inputs(term)
            kind = _OverFactors if isinstance(term.L, FactorRows) else _Radial
            parts.append(kind(own, [next(wanted) for _ in own], factor, ready, k, term))
    if whole is not None and len(parts) == 2 and isinstance(parts[1], _Radial):
        parts[1].pull(whole)
    _add_strips([part for part in parts if any(part.needs)], joined, shape(products), weights)
    return [value for part in parts for value in part.found()]


def _add_strips(
    parts: Sequence[_Part],
    joined: Joined,
    size: tuple[int, int],
    weights: Callable[[slice], torch.Tensor],
) -> None:
    """Add what each strip of rows contributes."""
    if not parts:
        return
    symmetric = next(own for _, terms in joined for _, _, own in terms) is not None
    for rows in strips(size):
        W, own = weights(rows).clone(memory_format=torch.contiguous_format), None
        if symmetric:
            diagonal = W.diagonal(offset=rows.start)
            own = diagonal.clone()
            diagonal.zero_()  # whose values are not computed from products
        for part in parts:
            part.add(rows, W, own)


class _Part(ABC):
    """Derivatives with respect to some of the inputs, all of the same product of terms.

    Parameters
    ----------
    tensors : sequence of tensors
        The inputs.
    needs : list of bool
        Which of their derivatives are still wanted.
    factor : float or tensor
        The factor of the product.
    ready : sequence
        The product's terms for the kernels, with their diagonals if the matrix is symmetric.
    """

    def __init__(
        self, tensors: Sequence[Any], needs: list[bool], factor: Any, ready: Sequence[JoinedTerm]
    ) -> None:
        self.needs = needs
        self._tensors, self._factor, self._ready = tensors, factor, ready
        self._sums: Tensors = [None] * len(tensors)

    @abstractmethod
    def add(self, rows: slice, W: torch.Tensor, own: torch.Tensor | None) -> None:
        """Add what some rows contribute, and the weights of the diagonal, which are zero in W."""

    def found(self) -> Tensors:
        """The derivatives, each like its input; None for others."""
        found: Tensors = []
        for tensor, value, needed in zip(self._tensors, self._sums, self.needs, strict=True):
            if value is not None:
                found.append(value.to(tensor).reshape(tensor.shape))
            else:
                found.append(torch.zeros_like(tensor) if needed else None)
        return found

    def _sum(self, k: int, value: torch.Tensor, at: Any = ...) -> None:
        """Add to a part of a derivative."""
        total = self._sums[k]
        if total is None:
            shape = self._tensors[k].shape
            total = self._sums[k] = torch.zeros(shape, dtype=value.dtype, device=value.device)
        total[at] += value

    def _strip(self, rows: slice) -> list[JoinedTerm]:
        """Some rows of the terms."""
        return [(pair.part(rows), how, None) for pair, how, _ in self._ready]

    def _on_diagonal(self, rows: slice, but: int | None = None) -> Any:
        """Product of the terms' diagonals, perhaps of all but one."""
        diagonals = [own for k, (_, _, own) in enumerate(self._ready) if k != but]
        return math.prod(own[rows] for own in diagonals if own is not None)


class _Factor(_Part):
    """The derivative with respect to the factor of a product, if it is a tensor."""

    def add(self, rows: slice, W: torch.Tensor, own: torch.Tensor | None) -> None:
        strip = self._strip(rows)
        value = joined_gram([(1.0, strip)], weights=W, total=True) if strip else W.sum()
        if own is not None:
            value = value + (own * self._on_diagonal(rows)).sum()
        self._sum(0, value.reshape(self._tensors[0].shape))


class _Term(_Part):
    """Derivatives with respect to the inputs of one term."""

    def __init__(
        self, tensors: Sequence[Any], needs: list[bool], factor: Any, ready: Sequence[JoinedTerm],
        place: int, term: Term,
    ) -> None:  # fmt: skip
        super().__init__(tensors, needs, factor, ready)
        self._place, self._term = place, term
        self._at = (ready[place][0].dtype, ready[place][0].device)
        self._moved = [
            (PARAMETERS + k, form(slope(0.0), *self._at))
            for k, (_, slope) in enumerate(term.options.parameters)
            if needs[PARAMETERS + k]
        ]

    @cached_property
    def _slope(self) -> Form:
        """Form of the profile's derivative."""
        steep = derivative(self._term.profile)
        assert steep is not None
        return form(steep, *self._at)

    def _with(self, rows: slice, form: Form, pair: Pair | None = None) -> Joined:
        """Some rows of the product, where the term has another profile, and perhaps other operands."""
        strip = self._strip(rows)
        strip[self._place] = (pair or strip[self._place][0], form, None)
        return [(self._factor, strip)]

    def _add_diagonal(self, rows: slice, own: torch.Tensor | None) -> None:
        if own is not None and self.needs[DIAGONAL]:
            others = self._on_diagonal(rows, but=self._place)
            self._sum(DIAGONAL, own * self._factor * others, rows)


class _Radial(_Term):
    """Those of a function of one invariant."""

    def pull(self, G: torch.Tensor) -> None:
        """Derivatives with respect to rows of a symmetric matrix in one pass, where sums fit."""
        alike = self._ready[self._place][2] is not None and (self.needs[LEFT] or self.needs[RIGHT])
        if alike and is_one(self._factor) and self._pair.is_narrow:
            pulled = self._pair.pulled(self._slope, G.resolve_neg(), both=True, off=True)
            self._sum(LEFT, pulled[:, : self._term.L.shape[1]])
            self.needs[LEFT] = self.needs[RIGHT] = False

    @property
    def _pair(self) -> Pair:
        pair = self._ready[self._place][0]
        assert isinstance(pair, Pair)
        return pair

    def add(self, rows: slice, W: torch.Tensor, own: torch.Tensor | None) -> None:
        self._add_diagonal(rows, own)
        needs, (L, R), scales = self.needs, self._term[:2], self._term.options.scales
        if needs[LEFT] or needs[RIGHT]:
            H = joined_gram(self._with(rows, self._slope), weights=W)
            if needs[LEFT]:
                self._sum(LEFT, H @ R.to(H.dtype), rows)
            if needs[RIGHT]:
                self._sum(RIGHT, H.T @ L[rows].to(H.dtype))
        for k, how in self._moved:
            moved = joined_gram(self._with(rows, how), weights=W, total=True)
            self._sum(k, moved.reshape(self._tensors[k].shape))
        if scales is not None and (needs[LEFT_SCALES] or needs[RIGHT_SCALES]):
            bare = replace(self._pair.part(rows), scales=None)
            H = joined_gram(self._with(rows, self._ready[self._place][1], bare), weights=W)
            left, right = (part.to(H.dtype) for part in scales)
            if needs[LEFT_SCALES]:
                self._sum(LEFT_SCALES, H @ right, rows)
            if needs[RIGHT_SCALES]:
                self._sum(RIGHT_SCALES, H.T @ left[rows])


class _OverFactors(_Term):
    """Those of the exponential of a sum over the factors of a product of spaces."""

    def add(self, rows: slice, W: torch.Tensor, own: torch.Tensor | None) -> None:
        self._add_diagonal(rows, own)
        needs, pair = self.needs, self._ready[self._place][0].part(rows)
        assert isinstance(pair, FactorPair)
        # Each of the derivatives is a multiple of the whole.
        H = joined_gram([(self._factor, self._strip(rows))], weights=W)
        sides = (
            (LEFT, LEFT_SCALES, pair, H, rows),
            (RIGHT, RIGHT_SCALES, pair.turned(), H.T, slice(None)),
        )
        for points, scales, sided, weights, at in sides:
            if needs[points] or needs[scales]:
                pulls, totals = sided.pulled(self._slope, weights)
                self._sum(points, pulls, (slice(None), at))
                self._sum(scales, totals, (slice(None), at))
        for k, how in self._moved:
            self._sum(k, pair.moved(how, H).reshape(self._tensors[k].shape))
