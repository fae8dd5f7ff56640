"""Attributes of nodes: columns of a table, of every kind, as features with names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from mercer.selection.kinds.blocks import latitude_and_longitude, median, names_of, word_options
from mercer.selection.kinds.columns import Column

#: Share of entries other than zero from which features are stored as a dense array.
_DENSE = 0.3
#: Share of the total variance below which features are alike for all nodes.
_ALIKE = 1e-9


@dataclass(frozen=True, eq=False)
class Features:
    """A row of numbers for each node, of total variance 1 over the nodes of the table, and names."""

    values: Any
    names: Any

    @classmethod
    def of(cls, F: Any, names: Sequence[Any]) -> Features | None:
        """Features brought to total variance 1; None if all rows are alike."""
        F = sparse.csr_array(F, dtype=float)
        size = float(F.multiply(F).sum()) / F.shape[0]
        variance = size - float(np.square(F.mean(axis=0)).sum())
        if not variance > _ALIKE * size:
            return None
        return cls(F / np.sqrt(variance), np.array(list(map(str, names))))

    def at(self, positions: Any, size: int) -> Features:
        """Features of all nodes of a graph; rows of zeros for those that are not in the table."""
        rows = len(positions)
        places = sparse.csr_array((np.ones(rows), (positions, np.arange(rows))), shape=(size, rows))
        values = places @ self.values
        full = values.nnz > _DENSE * np.prod(values.shape)
        return Features(values.toarray() if full else values, self.names)


def together(found: Sequence[Features]) -> Features:
    """Features side by side."""
    values = [sparse.csr_array(own.values) for own in found]
    return Features(sparse.hstack(values, format="csr"), np.concatenate([own.names for own in found]))


def features(frame: Any, columns: Sequence[Column]) -> dict[str, Features]:
    """Features of each kind of columns of a typed table, by the name of its family.

    Numbers and dates are standardised, labels and hours of the day become indicators and points of a
    circle, places points of a sphere; counts, texts and strings are weighted and normalised.
    """
    found = {}
    for kind, (name, make) in _FEATURES.items():
        own = [column for column in columns if column.kind == kind]
        made = Features.of(*make(frame, own)) if own else None
        if made is not None:
            found[name] = made
    return found


def _filled(frame: Any, names: Sequence[str]) -> Any:
    """Numbers in columns, medians where they are missing."""
    return median().fit_transform(frame[list(names)].to_numpy(dtype=float, na_value=np.nan))


def _numbers(frame: Any, own: Sequence[Column]) -> tuple[Any, Any]:
    return StandardScaler().fit_transform(_filled(frame, names_of(own))), names_of(own)


def _counts(frame: Any, own: Sequence[Column]) -> tuple[Any, Any]:
    counts = sparse.csr_array(_filled(frame, names_of(own)))
    return TfidfTransformer(sublinear_tf=True).fit_transform(counts), names_of(own)


def _labels(frame: Any, own: Sequence[Column]) -> tuple[Any, Any]:
    encoder = OneHotEncoder(feature_name_combiner=lambda column, label: f"{column} = {label}")
    F = encoder.fit_transform(frame[names_of(own)].astype(str))
    return F, encoder.get_feature_names_out()


def _words(frame: Any, own: Sequence[Column]) -> tuple[Any, Any]:
    return _counted(frame, own, lambda column: TfidfVectorizer(**word_options(column, TfidfVectorizer)))


def _substrings(frame: Any, own: Sequence[Column]) -> tuple[Any, Any]:
    options: dict[str, Any] = {"analyzer": "char", "ngram_range": (1, 3), "lowercase": False}
    return _counted(frame, own, lambda column: TfidfVectorizer(use_idf=False, **options))


def _counted(
    frame: Any, own: Sequence[Column], vectoriser: Callable[[Column], TfidfVectorizer]
) -> tuple[Any, Any]:
    """What is counted in each column, named after the column too if there are several."""
    parts: list[Any] = []
    names: list[str] = []
    for column in own:
        counter = vectoriser(column)
        try:
            parts.append(counter.fit_transform(frame[column.name]))
        except ValueError as error:  # no words at all
            raise ValueError(f"column {column.name!r} holds nothing to count; leave it out") from error
        found = counter.get_feature_names_out()
        names += [f"{column.name}: {name}" for name in found] if len(own) > 1 else found.tolist()
    return sparse.hstack(parts), names


def _dates(frame: Any, own: Sequence[Column]) -> tuple[Any, Any]:
    parts, names = [], []
    for column in own:
        moments = frame[column.name]
        moments = moments.fillna(moments.median())
        days = moments.to_numpy().astype("datetime64[us]").astype(float)[:, None]
        parts.append(StandardScaler().fit_transform(days))
        names.append(column.name)
        angle = 2 * np.pi * ((moments - moments.dt.normalize()) / np.timedelta64(1, "D")).to_numpy()
        if angle.any():
            parts.append(np.column_stack([np.cos(angle), np.sin(angle)]))
            names += [f"hour of {column.name}, {side}" for side in ("noon to midnight", "6 to 18")]
    return np.hstack(parts), names


def _places(frame: Any, own: Sequence[Column]) -> tuple[Any, Any]:
    lat, lon = np.deg2rad(_filled(frame, latitude_and_longitude(own))).T
    points = np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    return points, ["place, towards 0° N 0° E", "place, towards 0° N 90° E", "place, towards 90° N"]


#: Kinds of columns with the names of their families and their features.
_FEATURES: dict[str, tuple[str, Callable[[Any, Sequence[Column]], tuple[Any, Any]]]] = {
    "number": ("numbers", _numbers),
    "counts": ("counts", _counts),
    "category": ("labels", _labels),
    "text": ("text", _words),
    "string": ("strings", _substrings),
    "date": ("dates", _dates),
    "coordinate": ("places", _places),
}
