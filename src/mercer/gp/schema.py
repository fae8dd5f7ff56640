"""Which columns of Parquet files are rows, targets and weights, and what they may hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Roles:
    """Names of columns by what they are for."""

    points: list[str]
    targets: list[str]
    weights: list[str]

    @classmethod
    def of(
        cls,
        file: Path,
        names: list[str],
        target: str | Sequence[str],
        columns: Sequence[str] | None,
        weight: str | None,
    ) -> Roles:
        """The columns that were asked for; points are by default all that are left in the file."""
        targets = [target] if isinstance(target, str) else list(target)
        weights = [] if weight is None else [weight]
        if not targets:
            raise ValueError("target is empty; name a column to predict")
        if isinstance(columns, str):
            raise ValueError(f"columns must be a list of names, got {columns!r}; give [{columns!r}]")
        if columns is not None:
            points = list(columns)
            if not points:
                raise ValueError(
                    "columns is empty; name the columns to predict from, or None for all that are left"
                )
        else:
            # pandas writes the index of rows as a column, and takes it for no column when it reads.
            present = [c for c in names if not c.startswith("__index_level_")]
            points = [c for c in present if c not in (*targets, *weights)]
            if not points:
                raise ValueError(f"{file} has no column to predict from beside {', '.join(present)}")
        named = [*points, *targets]
        twice = [name for name in named if named.count(name) > 1]
        if twice:
            raise ValueError(
                f"the column {twice[0]!r} is named twice in columns and target; name it once"
            )
        return cls(points, targets, weights)

    @property
    def all(self) -> list[str]:
        """All of them."""
        return [*self.points, *self.targets, *self.weights]

    def check(self, file: Path, schema: Any) -> None:
        """Refuse a file that lacks a column, or has text or dates where numbers are needed."""
        from pyarrow import types

        for name in self.all:
            count = schema.names.count(name)
            if count != 1:
                raise ValueError(f"{file} has {count or 'no'} column{'s' * (count > 1)} {name!r}")
        # One target may also be labels.
        labels = self.targets if len(self.targets) == 1 else []
        for name in self.all:
            kind = schema.field(name).type
            if not (_is_number(kind) or (name in labels and not types.is_nested(kind))):
                raise ValueError(
                    f"column {name!r} of {file} holds {kind}, not numbers; encode it, or name the "
                    "columns to use without it"
                )


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    # A column of nothing but nulls has a type of its own; its rows are refused as missing.
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(kind) for test in tests)
