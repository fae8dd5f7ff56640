"""Identity of kernels: their parameters in a form that can be compared and hashed."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.gaussian_process import kernels as sk

from mercer._arrays import on_cpu


@cache
def law_parameters(kind: type, others: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the parameters that determine the values of a kernel, without bounds and ``others``."""
    names = inspect.signature(kind).parameters
    return tuple(name for name in names if not name.endswith("_bounds") and name not in others)


def identity(kernel: sk.Kernel) -> tuple[Any, ...]:
    """Parameters of a kernel in a form that can be compared and hashed."""
    return tuple((name, hashable(v)) for name, v in sorted(kernel.get_params(deep=False).items()))


def hashable(value: Any) -> Any:
    """A hashable stand-in for a parameter's value."""
    value = on_cpu(value)
    if isinstance(value, np.ndarray | np.generic | list | tuple):
        return _array_identity(value)
    if sparse.issparse(value):
        rows = value.tocsr()
        return rows.shape, *(part.tobytes() for part in (rows.indptr, rows.indices, rows.data))
    if isinstance(value, slice):  # not hashable before Python 3.12
        return slice, value.start, value.stop, value.step
    if isinstance(value, dict):
        return frozenset((key, hashable(part)) for key, part in value.items())
    if isinstance(value, sk.Kernel) and type(value).__hash__ is None:  # those of scikit-learn
        return type(value), identity(value)
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value


def _array_identity(value: Any) -> Any:
    """Numbers by their bytes, whatever the container; other sequences by their elements."""
    try:
        array = np.asarray(value)
    except ValueError:  # ragged
        array = np.empty(0, dtype=object)
    if array.dtype.kind in "biuf":
        floats = array.astype(float) + 0.0  # turns -0.0 into 0.0
        return floats.item() if array.ndim == 0 else (array.shape, floats.tobytes())
    return value if isinstance(value, np.generic) else tuple(map(hashable, value))
