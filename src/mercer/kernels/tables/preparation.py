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


def fills_in(transformer: Any) -> bool:
    """Tell whether a transformer may do something about missing values; scaling and counting do not."""
    return not isinstance(transformer, CountVectorizer | StandardScaler)


def fitted(transformer: Any, raw: Any, y: Any) -> FrozenEstimator:
    """A copy of a transformer that has learnt from columns."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            learnt = clone(transformer).fit(raw, y)
    except ValueError as error:
        if "vocabulary" not in str(error):
            raise
        raise ValueError(f"{error}; use Heat(Categories()) if values are labels, not texts") from error
    except AttributeError:
        _refuse_other_than_texts(transformer, raw)
        raise
    variances = getattr(learnt, "var_", None)
    if variances is not None and not np.isfinite(variances).all():
        raise ValueError("numbers are so large that their variance overflows; rescale them")
    return FrozenEstimator(learnt)


def transformed(transformer: Any, raw: Any) -> Any:
    """Columns transformed by a fitted transformer."""
    if type(transformer) is StandardScaler and isinstance(raw, np.ndarray) and raw.dtype.kind == "f":
        # What it does, without checks that take half the time of a small Gram matrix.
        if transformer.with_mean:
            raw = np.subtract(raw, transformer.mean_, dtype=raw.dtype)
        return np.divide(raw, transformer.scale_, dtype=raw.dtype) if transformer.with_std else raw
    try:
        points = transformer.transform(raw)
    except AttributeError:
        _refuse_other_than_texts(transformer, raw)
        raise
    return points.to_numpy() if frames.is_frame(points) else points


def _refuse_other_than_texts(transformer: Any, raw: Any) -> None:
    """Raise for documents that words cannot be counted in, which scikit-learn does not name."""
    for row, value in enumerate(raw if isinstance(transformer, CountVectorizer) else ()):
        if not isinstance(value, str | bytes):
            raise ValueError(f"row {row} holds {value!r}, which is not a text") from None
