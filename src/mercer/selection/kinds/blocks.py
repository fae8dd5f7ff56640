"""Kernels of the columns of a table, kind by kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add, mul
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer.kernels import Gaussian, Heat, Kernel, Linear, On, Spectrum, WeightedDegree
from mercer.kernels.tables.frames import Block
from mercer.selection.kinds.columns import Column
from mercer.selection.scales import Template
from mercer.spaces import Categories, Simplex, Sphere, Torus

#: Median similarities at which kernels with a range are tried.
_SIMILARITIES = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class Variant:
    """A kernel of the columns of one kind: a sum of parts, or one part."""

    name: str
    parts: tuple[Kernel, ...]
    similarities: tuple[float, ...] = ()
    #: Whether it ignores the geometry of the points.
    plain: bool = False
    #: Whether it is compared only if there are no other kinds of columns.
    alone: bool = False

    @property
    def template(self) -> Template:
        """The kernel, and the similarities to try it at."""
        return Template(total(self.parts), self.similarities)


def total(parts: tuple[Kernel, ...]) -> Any:
    """The sum of kernels."""
    return reduce(add, parts)


def products(kinds: list[Any]) -> Any:
    """``prod_i (1 + k_i)``, the sum of all kernels, of all products of two, and so on.

    Examples
    --------
    >>> from mercer.selection.kinds.blocks import products
    >>> products([Gaussian(), Linear()])
    (1.0 + Gaussian()) * (1.0 + Linear())
    """
    return reduce(mul, (1 + kind for kind in kinds))


def blocks(frame: Any, columns: list[Column]) -> dict[str, list[Variant]]:
    """Kernels of each kind of columns; the first is the one that sums of kinds have."""
    found = {}
    for kind, (name, make) in _KERNELS.items():
        own = [column for column in columns if column.kind == kind]
        if own:
            found[name] = make(frame, own)
    return found


def names_of(own: Sequence[Column]) -> list[str]:
    """Names of columns."""
    return [column.name for column in own]


def median() -> SimpleImputer:
    """Fill in medians; zero if a training part has no value at all."""
    return SimpleImputer(strategy="median", keep_empty_features=True)


class ColumnMedians(TransformerMixin, BaseEstimator):
    """Medians of the training rows in place of missing numbers, in some columns; others keep them.

    Parameters
    ----------
    columns : list of int
    """

    def __init__(self, columns: list[int]) -> None:
        self.columns = columns

    def fit(self, X: Any, y: Any = None) -> ColumnMedians:
        """Find the medians."""
        self.medians_ = median().fit(X[:, self.columns]).statistics_
        return self

    def transform(self, X: Any) -> Any:
        """Fill them in."""
        filled = X.copy()
        own = filled[:, self.columns]
        filled[:, self.columns] = np.where(np.isnan(own), self.medians_, own)
        return filled


# Kernels are told how to prepare each kind: what whole columns hold is known, and in a training part a
# column may look like an identifier that repeats itself elsewhere.
def _numbers(frame: Any, own: list[Column]) -> list[Variant]:
    names = names_of(own)
    # A model refuses missing numbers in columns that had none.
    missing = [place for place, column in enumerate(own) if column.missing]
    scale = StandardScaler(with_mean=not Block.of(names, frame, "X").is_sparse)
    prepare = make_pipeline(ColumnMedians(missing), scale) if missing else scale
    return [
        Variant("Gaussian", (On(names, Gaussian(), prepare),), _SIMILARITIES, plain=True),
        Variant("linear", (On(names, Linear(), prepare),), plain=True),
    ]


def _counts(frame: Any, own: list[Column]) -> list[Variant]:
    names = names_of(own)
    return [
        Variant("heat of counts", (On(names, Heat(Simplex(empty="uniform")), None),), _SIMILARITIES),
        Variant("linear of counts", (On(names, Linear(), None),), plain=True),
    ]


def _labels(frame: Any, own: list[Column]) -> list[Variant]:
    return [Variant("labels", (On(names_of(own), Heat(Categories()), None),), (0.3, 0.6, 0.9))]


def _text(frame: Any, own: list[Column]) -> list[Variant]:
    """Counts and tf-idf of the same words, as alternatives."""

    def of(kernel: Kernel, vectoriser: type) -> tuple[Kernel, ...]:
        return tuple(On(c.name, kernel, vectoriser(**word_options(c, vectoriser))) for c in own)

    # A document without known words has no tf-idf: its similarity to all others is zero.
    return [
        Variant("linear of tf-idf", of(Linear(), TfidfVectorizer), plain=True),
        Variant("heat of counts", of(Heat(Simplex(empty="uniform")), CountVectorizer), _SIMILARITIES),
        Variant("linear of counts", of(Linear(), CountVectorizer), plain=True, alone=True),
        Variant("Gaussian of tf-idf", of(Gaussian(), TfidfVectorizer), _SIMILARITIES, alone=True),
    ]


def word_options(column: Column, vectoriser: type) -> dict[str, Any]:
    """Options of a vectoriser: those of the one that was given."""
    given = {} if column.words is None else column.words.get_params()
    given.pop("dtype", None)  # tf-idf is in floats
    return given | ({"sublinear_tf": True} if vectoriser is TfidfVectorizer else {})


def _strings(frame: Any, own: list[Column]) -> list[Variant]:
    lengths = [frame[column.name].str.len() for column in own]
    variants = []
    for longest in (3, 5):
        spectrum = Spectrum((1, longest), normalized=True)
        parts = tuple(On(column.name, spectrum) for column in own)
        variants.append(Variant(f"substrings of 1 to {longest}", parts))
    if all(each.min() == each.max() for each in lengths):
        places = tuple(On(column.name, WeightedDegree(8)) for column in own)
        variants.append(Variant("substrings at their places", places))
    return variants


def _dates(frame: Any, own: list[Column]) -> list[Variant]:
    parts: list[Kernel] = []
    for column in own:
        fill = median() if column.missing else None
        days = "auto" if fill is None else make_pipeline(fill, StandardScaler())
        parts.append(On([column.name], Gaussian(), days, dates="days"))
        moments = frame[column.name].dropna()
        if (moments.dt.normalize() != moments).any():
            circle = Heat(Torus(period=24))
            parts.append(On([column.name], circle, "auto" if fill is None else fill, dates="hours"))
    return [Variant("dates", tuple(parts), _SIMILARITIES)]


def latitude_and_longitude(own: Sequence[Column]) -> list[str]:
    """Names of the coordinates of a place, the latitude first."""
    names = sorted(names_of(own), key=lambda name: "lat" not in name.lower())
    if len(names) != 2:
        raise ValueError(f"places have a latitude and a longitude, got the coordinates {names}")
    return names


def _places(frame: Any, own: list[Column]) -> list[Variant]:
    names = latitude_and_longitude(own)
    return [Variant("places", (On(names, Heat(Sphere(coordinates="latlon")), None),), _SIMILARITIES)]


#: Kinds of columns with the names of their families and their kernels.
_KERNELS: dict[str, tuple[str, Callable[[Any, list[Column]], list[Variant]]]] = {
    "number": ("numbers", _numbers),
    "counts": ("counts", _counts),
    "category": ("labels", _labels),
    "text": ("text", _text),
    "string": ("strings", _strings),
    "date": ("dates", _dates),
    "coordinate": ("places", _places),
}
