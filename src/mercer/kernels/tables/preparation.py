"""Transformers from columns of a table to points of a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import StandardScaler

from mercer.kernels.tables import frames


def scaler(kernel: Any, with_mean: bool) -> StandardScaler | None:
    """The transformer that brings columns of numbers to a common scale, for kernels of flat space."""
    if kernel.parts:
        return next((s for s in (scaler(part, with_mean) for part in kernel.parts) if s), None)
    space = kernel.point_space
    return None if space is None else space.column_scaler(with_mean)


def takes_missing(transformer: Any) -> bool:
    """Tell whether missing values may be left to a transformer; documents cannot be missing."""
    return not isinstance(transformer, CountVectorizer)


def fitted(transformer: Any, raw: Any, y: Any) -> FrozenEstimator:
    """A copy of a transformer that has learnt from columns."""
    try:
        return FrozenEstimator(clone(transformer).fit(raw, y))
    except ValueError as error:
        if not isinstance(transformer, CountVectorizer):
            raise
        raise ValueError(f"{error}; use Heat(Categories()) if values are labels, not texts") from error


def transformed(transformer: Any, raw: Any) -> Any:
    """Columns transformed by a fitted transformer."""
    if type(transformer) is StandardScaler and isinstance(raw, np.ndarray) and raw.dtype.kind == "f":
        # What it does, without checks that take half the time of a small Gram matrix.
        if transformer.with_mean:
            raw = np.subtract(raw, transformer.mean_, dtype=raw.dtype)
        return np.divide(raw, transformer.scale_, dtype=raw.dtype) if transformer.with_std else raw
    points = transformer.transform(raw)
    return points.to_numpy() if frames.is_frame(points) else points
