"""The repr of kernels and spaces: the call that constructs them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from scipy import sparse

#: Longest array that is shown in full.
_SHOWN = 8


def constructor_call(thing: Any) -> str:
    """The constructor call of an object, without arguments left at their defaults."""
    shown = []
    for parameter in inspect.signature(type(thing)).parameters.values():
        value = getattr(thing, parameter.name)
        text = repr(float(value)) if isinstance(value, np.floating) else repr(value)
        stored = isinstance(value, np.ndarray) or sparse.issparse(value)
        if stored and (value.size > _SHOWN or sparse.issparse(value)):
            text = f"<{value.size} {'names' if value.dtype.kind in 'OU' else 'numbers'}>"
        text = getattr(value, "__name__", text) if callable(value) else text
        if parameter.default is inspect.Parameter.empty:
            shown.append(text)
        elif text != repr(parameter.default):
            shown.append(f"{parameter.name}={text}")
    return f"{type(thing).__name__}({', '.join(shown)})"


def import_lines(thing: Any, code: str) -> str:
    """Lines that import what the constructor call of an object names.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> print(import_lines(make_pipeline(StandardScaler()), "make_pipeline(StandardScaler())"))
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    """
    used = set(re.findall(r"\w+", code))
    names: dict[str, set[str]] = {}
    if "make_pipeline" in used:
        names["sklearn.pipeline"] = {"make_pipeline"}
    for kind in _arguments(thing):
        if kind.__name__ in used:
            names.setdefault(_public_module(kind), set()).add(kind.__name__)
    return "\n".join(
        f"from {module} import {', '.join(sorted(names[module]))}" for module in sorted(names)
    )


def listed(things: Sequence[Any], most: int = 5) -> str:
    """The first of some things as they are written, and dots if there are more."""
    return ", ".join(map(repr, things[:most])) + ", ..." * (len(things) > most)


def _arguments(thing: Any) -> Iterator[Any]:
    """Classes of an object and of all that it was made of, and functions among these."""
    if isinstance(thing, list | tuple):
        for part in thing:
            yield from _arguments(part)
        return
    kind = thing if inspect.isfunction(thing) else type(thing)
    if (
        kind.__module__ == "builtins"
        or isinstance(thing, np.ndarray | np.generic)
        or sparse.issparse(thing)
    ):
        return
    yield kind
    if thing is not kind:
        for name in inspect.signature(kind).parameters:
            yield from _arguments(getattr(thing, name, None))


def _public_module(kind: Any) -> str:
    """The package that a class is meant to be imported from."""
    package = ".".join(kind.__module__.split(".")[:2])
    return package if getattr(import_module(package), kind.__name__, None) is kind else kind.__module__
