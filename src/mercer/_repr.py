"""The repr of kernels and spaces: the call that constructs them."""

from __future__ import annotations

import inspect
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
            text = f"<{value.size} numbers>"
        text = getattr(value, "__name__", text) if callable(value) else text
        if parameter.default is inspect.Parameter.empty:
            shown.append(text)
        elif text != repr(parameter.default):
            shown.append(f"{parameter.name}={text}")
    return f"{type(thing).__name__}({', '.join(shown)})"
