"""Where the data of a report comes from, and how to repeat it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mercer.selection import Comparison
    from mercer.selection.kinds import ColumnRoles

#: Digits of a fingerprint that are shown, and bytes that are read at a time.
_DIGITS, _BLOCK = 16, 2**20


@dataclass(frozen=True)
class Source:
    """The command that made a comparison, the files it read, and the roles of their columns.

    ``nodes`` are the names of the nodes of a graph, which the comparison knows by their positions.
    """

    command: str = ""
    files: tuple[Path, ...] = ()
    roles: ColumnRoles | None = None
    nodes: tuple[str, ...] = ()

    def facts(self) -> list[tuple[str, str]]:
        """Names and values for the table of settings."""
        found = [("command", self.command)] if self.command else []
        return [*found, *((f"SHA-256 of {path.name}", _fingerprint(path)) for path in self.files)]

    def script(self, comparison: Comparison) -> str:
        """Python code that repeats the comparison, from the file where there is one."""
        kind = comparison.data.kind
        lines = ["from mercer.selection import compare"]
        if not self.command:
            if kind.space_class:
                lines.append(f"from mercer.spaces import {kind.space_class}")
            call = comparison.call
        else:
            read = kind.reading(self.files[0], self.roles or {}) if self.files else "load_docstrings()"
            lines.insert(0, f"from mercer.datasets import {read.split('(')[0]}")
            lines.append(f"data = {read}")
            words = (self.roles or {}).get("words")
            points = "data.X" if words is None else f"data.X[[{words!r}]]"
            call = comparison.call_on(points, "data.y", "data.groups", "data.graph")
        if "CountVectorizer(" in call:
            lines.insert(0, "from sklearn.feature_extraction.text import CountVectorizer")
        return "\n".join([*lines, f"result = {call}", "print(result)"])


def _fingerprint(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return f"{digest.hexdigest()[:_DIGITS]}, {path.stat().st_size} bytes"
