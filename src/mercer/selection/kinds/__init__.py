"""Kinds of data, and the one place that decides of which kind data is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mercer.selection.kinds.base import Candidates, ColumnRoles, Kind
from mercer.selection.kinds.clouds import Clouds
from mercer.selection.kinds.mixed import Mixed, column_kinds, empty_documents
from mercer.selection.kinds.nodes import Nodes
from mercer.selection.kinds.strings import Strings
from mercer.selection.kinds.table import Rows
from mercer.spaces import Space

__all__ = [
    "Candidates",
    "ColumnRoles",
    "Kind",
    "candidates",
    "column_kinds",
    "empty_documents",
    "kind_by_options",
    "kind_called",
    "kind_of",
    "register",
]

#: All kinds, in the order in which they are asked: tables take what no other kind recognises.
_KINDS: list[Kind] = [Nodes(), Mixed(), Strings(), Clouds(), Rows()]


def register(kind: Kind) -> None:
    """Register a kind; it replaces one of the same name, or else is asked before all others."""
    names = [other.name for other in _KINDS]
    place = names.index(kind.name) if kind.name in names else 0
    _KINDS[place : place + (kind.name in names)] = [kind]


def kind_of(X: Any, space: Any = "auto") -> Kind:
    """The kind of points X: that of a given space, else the first that recognises them."""
    names = [name for kind in _KINDS for name in kind.spaces]
    found = None
    if isinstance(space, Space):
        found = next((kind for kind in _KINDS if kind.owns(space)), None)
    elif isinstance(space, str) and space in ("auto", *names):
        found = next(kind for kind in _KINDS if kind.recognises(X))
    if found is None:
        known = ", ".join(map(repr, ("auto", *names)))
        classes = " or a ".join(kind.space_class for kind in _KINDS if kind.space_class)
        raise ValueError(f"space must be {known} or a {classes}, got {space!r}")
    return found


def candidates(X: Any, space: Any = "auto", columns: Mapping[str, Any] | None = None) -> Candidates:
    """Recognise the kind of points X, check them and choose kernels.

    Kinds of columns that are given make X a table of several kinds, or one of nodes if there is a graph.
    """
    if columns is None:
        return kind_of(X, space).candidates(X, space)
    nodes = Nodes()
    if isinstance(space, Space) and nodes.owns(space):
        return nodes.candidates(X, space, columns)
    return Mixed().candidates(X, space, columns)


def kind_called(name: str) -> Kind:
    """The kind with this name, as model files have it."""
    found = next((kind for kind in _KINDS if kind.name == name), None)
    if found is None:
        known = ", ".join(kind.name for kind in reversed(_KINDS))
        raise ValueError(f"its points are {name!r}, not of a known kind of data: {known}")
    return found


def kind_by_options(given: Mapping[str, Any]) -> Kind:
    """The kind that the options of the command select; raise if they contradict each other."""
    named = [kind for kind in _KINDS if kind.option in given]
    if len(named) > 1:
        options = " and ".join(f"--{option}" for option in given if option in {k.option for k in named})
        raise ValueError(f"{options} name different kinds of data; give one of them")
    numbers = set(given) & set(kind_called("table").own_options)
    chosen = named[0] if named else kind_called("table" if numbers else "mixed")
    for option in given:
        owners = [kind for kind in _KINDS if option in kind.own_options]
        if owners and chosen not in owners:
            tables = "tables of numbers" if owners[-1].vectors else "tables"
            other = f"--{chosen.option}" if chosen.option else "--space"
            partners = [f"--{owner.option}" if owner.option else tables for owner in owners]
            against = "" if owners[-1].option else f", not with {other}"
            raise ValueError(f"--{option} goes with {' and '.join(partners[::-1])}{against}")
        takers = [kind.noun for kind in reversed(_KINDS) if option in kind.shared_options]
        if takers and option not in chosen.shared_options:
            raise ValueError(
                f"--{option} does not go with --{chosen.option}, only with {' and '.join(takers)}"
            )
    return chosen
