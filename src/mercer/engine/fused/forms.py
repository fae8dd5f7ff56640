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
        tables = [self.constants[0], *(other[0] for other in self.constants[6:])]
        return any(table.value for table in tables)

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

    def tensor(head: list[float], values: np.ndarray) -> torch.Tensor:
        numbers = np.concatenate([head, values.ravel()])
        # In their precision before they are copied: that is complete then, whichever stream reads them.
        return torch.as_tensor(numbers).to(dtype).to(device)

    if isinstance(profile, PowerProfile):
        if not 0 <= profile.degree <= _MOST_POWER:
            return None
        head = [profile.scale, profile.shift, -np.inf, -np.inf]
        powers = np.append(np.zeros(profile.degree), profile.factor)
        return Form((tensor(head, powers), 0, 0, 1), _constants(profile.degree, clamped=False))
    if isinstance(profile, WholeProfile):
        head = [1.0, 0.0, -np.inf, -np.inf]
        constants = _constants(0, separation=_WHOLE_NUMBERS, table=True)
        return Form((tensor(head, profile.values), 0, 0, len(profile.values)), constants)
    if not isinstance(profile, TableProfile):
        return None
    found = profile.polynomial(kind)
    if found is not None:
        head = [found.scale, found.shift, found.least, found.floor]
        # Products of unit vectors leave the range only by rounding, and the polynomial extends beyond
        # it.
        everywhere = found.separation == "folded" and found.scale == 1.0 and not found.root
        constants = _constants(
            found.degree, found.root, found.exponential, _SEPARATIONS[found.separation],
            clamped=not everywhere,
        )  # fmt: skip
        return Form((tensor(head, found.coefficients), 0, 0, 1), constants, found.largest)
    rows = profile.pieces.single_rows if kind == np.float32 else profile.pieces.rows
    mantissa, bias = (23, 127) if kind == np.float32 else (52, 1023)
    origin = (rows.low + bias) * 2**rows.bits - 1
    head = [1.0, 0.0, -np.inf, profile.floor]
    constants = _constants(
        rows.table.shape[1] - 2, False, profile.logarithmic, _SEPARATIONS[profile.separation], True
    )
    return Form((tensor(head, rows.table), mantissa - rows.bits, origin, rows.count), constants)


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
