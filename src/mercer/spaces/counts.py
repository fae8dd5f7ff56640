"""Rows of counts before a prior is added to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mercer._validation import refuse_negative
from mercer.spaces.base import RowSpace


@dataclass(frozen=True, repr=False)
class Counts(RowSpace):
    """Rows of counts of any total, also zero, unlike those of :class:`Simplex`.

    For estimates with a prior: what is known of a row without counts is the prior.
    """

    n: int | None = None
    least_dimension = 2

    def _check_rows(self, X: Any, name: str) -> None:
        refuse_negative(X, name)
