"""Forms of profiles for the fused kernels: one polynomial, a table, or a product of two of these."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import triton.language as tl

from mercer.profiles import PowerProfile, ProductProfile, Profile, TableProfile, WholeProfile

#: Largest degree of a power that is computed by Horner's scheme.
_MOST_POWER = 32
_SEPARATIONS = {"invariant": 0, "one-sided": 1, "folded": 2}
#: Constants of one profile.
_CONSTANTS = 6
#: Stands for the number of a value in a list, in place of a separation.
_WHOLE_NUMBERS = 3


@dataclass(frozen=True, eq=False)
class Form:
    """How the kernels evaluate a profile: arguments, and constants.

    ``largest`` is the largest magnitude of the values, infinite where it is not known.
    """

    arguments: tuple[Any, ...]
    constants: tuple[Any, ...]
    largest: float = math.inf

    @property
    def is_table(self) -> bool:
        """Whether values are looked up."""
        tables = [self.constants[0], *(other[0] for other in self.constants[_CONSTANTS:])]
        return any(table.value for table in tables)

    @property
    def is_product(self) -> bool:
        """Whether two profiles are multiplied, which takes the registers of both."""
        return len(self.constants) > _CONSTANTS

    def times(self, other: Form) -> Form:
        """The product with another profile of the same invariant."""
        arguments = (*self.arguments, other.arguments)
        return Form(arguments, (*self.constants, other.constants))


@lru_cache(maxsize=256)
def form_of(profile: Profile, dtype: torch.dtype, device: torch.device) -> Form | None:
    """Return the form of a profile: one polynomial where it resolves, else its table, else None."""
    if isinstance(profile, ProductProfile):
        factors = (profile.first, profile.second)
        if any(isinstance(factor, ProductProfile) for factor in factors):
            return None
        first, second = (form_of(factor, dtype, device) for factor in factors)
        return None if first is None or second is None else first.times(second)
    kind = np.dtype(np.float32 if dtype == torch.float32 else np.float64)
    found = _evaluation(profile, kind)
    if found is None:
        return None
    head = [found.scale, found.shift, found.least, found.floor, _at_equal_points(profile)]
    numbers = torch.as_tensor(np.concatenate([head, found.values.ravel()]))
    # In their precision before they are copied: that is complete then, whichever stream reads them.
    return Form((numbers.to(dtype).to(device), *found.places), found.constants, found.largest)


@dataclass(frozen=True)
class _Evaluation:
    """Coefficients or rows of a table, how the argument is made from the invariant, and constants."""

    values: np.ndarray
    constants: tuple[Any, ...]
    scale: float = 1.0
    shift: float = 0.0
    least: float = -math.inf
    floor: float = -math.inf
    #: Where bits of the separation are the number of a row, that of the first, and how many there are.
    places: tuple[int, int, int] = (0, 0, 1)
    largest: float = math.inf


def _evaluation(profile: Profile, kind: np.dtype[Any]) -> _Evaluation | None:
    """The cheapest way to evaluate a profile in a precision; None if there is none."""
    if isinstance(profile, PowerProfile):
        if not 0 <= profile.degree <= _MOST_POWER:
            return None
        powers = np.append(np.zeros(profile.degree), profile.factor)
        constants = _constants(profile.degree, clamped=False)
        return _Evaluation(powers, constants, profile.scale, profile.shift)
    if isinstance(profile, WholeProfile):
        constants = _constants(0, separation=_WHOLE_NUMBERS, table=True)
        return _Evaluation(profile.values, constants, places=(0, 0, len(profile.values)))
    if not isinstance(profile, TableProfile):
        return None
    return _polynomial(profile, kind) or _table(profile, kind)


def _polynomial(profile: TableProfile, kind: np.dtype[Any]) -> _Evaluation | None:
    """One polynomial, if it resolves the profile."""
    found = profile.polynomial(kind)
    if found is None:
        return None
    # Products of unit vectors leave the range only by rounding, and the polynomial extends beyond it.
    everywhere = found.separation == "folded" and found.scale == 1.0 and not found.root
    separation = _SEPARATIONS[found.separation]
    return _Evaluation(
        found.coefficients,
        _constants(found.degree, found.root, found.exponential, separation, clamped=not everywhere),
        found.scale, found.shift, found.least, found.floor, largest=found.largest,
    )  # fmt: skip


def _table(profile: TableProfile, kind: np.dtype[Any]) -> _Evaluation | None:
    """The table, if it is good in the precision."""
    single = kind == np.float32
    if single and not profile.fits_single:
        return None
    rows = profile.pieces.single_rows if single else profile.pieces.rows
    mantissa, bias = (23, 127) if single else (52, 1023)
    degree, separation = rows.table.shape[1] - 2, _SEPARATIONS[profile.separation]
    return _Evaluation(
        rows.table,
        _constants(degree, False, profile.logarithmic, separation, True),
        floor=profile.floor,
        places=(mantissa - rows.bits, (rows.low + bias) * 2**rows.bits - 1, rows.count),
    )


def _at_equal_points(profile: Profile) -> float:
    """Exact value at equal points; NaN where the form has it by itself."""
    if not isinstance(profile, TableProfile):
        return math.nan
    value = np.full((1, 1), 0.0 if profile.separation == "invariant" else 1.0)
    profile.apply(value)
    return float(value[0, 0])


def _constants(
    degree: int,
    root: bool = False,
    exponential: bool = False,
    separation: int = 0,
    table: bool = False,
    clamped: bool = True,
) -> tuple[Any, ...]:
    return fixed(table, root, exponential, separation, clamped, degree)


@lru_cache(maxsize=None, typed=True)
def fixed(*constants: Any) -> tuple[tl.constexpr, ...]:
    """Constants of the kernels: the same objects each time, which Triton compares at once."""
    return tuple(map(tl.constexpr, constants))
