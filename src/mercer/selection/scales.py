"""Ranges of kernels and strengths of machines in units of the data, learnt from training parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.gaussian_process import kernels as sk
from sklearn.utils import _safe_indexing

from mercer.kernels import Kernel
from mercer.kernels.base import has_range
from mercer.kernels.scale import Survey, Unreachable
from mercer.spaces.realisations.sampling import NoPairs

Index = NDArray[np.intp]
#: Median similarities at which kernels with a range are tried, and more if the best is at an end.
SIMILARITIES = (0.02, 0.1, 0.3, 0.6, 0.9, 0.98)
_BEYOND = (1e-9, 1e-6, 1e-3, 0.996)
#: C times the total variance of the training Gram matrix, and the ridge over it, likewise.
C_GRID, _MORE_C = (0.1, 1.0, 10.0, 100.0, 1000.0), (0.001, 0.01, 1e4, 1e5)
ALPHA_GRID, _MORE_ALPHA = (1e-4, 1e-3, 1e-2, 1e-1, 1.0), (1e-6, 1e-5, 10.0, 100.0)
#: Number of points from which a range is learnt: the values tried need not be exact.
_SAMPLE = 300
#: A total variance below this share of the mean k(x, x) is a rounding error.
_LEAST_VARIANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Template:
    """A kernel, and the similarities at which it is tried.

    Attributes
    ----------
    kernel : Kernel
    similarities : tuple of floats
        Empty for a kernel that is taken as it is.
    base : float, optional
        Median similarity of points under the base kernel of a kernel of clouds.
    """

    kernel: sk.Kernel
    similarities: tuple[float, ...] = ()
    base: float | None = None
    #: Whether no further similarities are tried if the best is at an end.
    final: bool = False

    @property
    def ladder(self) -> tuple[float, ...]:
        """All similarities that may be tried."""
        if not self.similarities or self.final:
            return self.similarities
        return tuple(sorted({*self.similarities, *_BEYOND}))


@dataclass(frozen=True)
class Relative:
    """C or a ridge in units of a training Gram matrix: ``C = value / v``, ``alpha = value v``.

    v is the total variance: the mean of the diagonal minus the mean of all entries.  The smaller it is,
    the larger the C that a machine with a bias needs.  The width ``epsilon`` of the tube of a support
    vector regression is in units of the target's standard deviation.
    """

    value: float
    kind: Literal["C", "alpha", "epsilon"]
    #: Whether C is also in units of the target's standard deviation.
    of_target: bool = False

    @property
    def ladder(self) -> tuple[float, ...]:
        """All values that may be tried."""
        grids = {"C": (*C_GRID, *_MORE_C), "alpha": (*ALPHA_GRID, *_MORE_ALPHA)}
        return tuple(sorted(grids.get(self.kind, (self.value,))))

    def resolve(self, variance: float, spread: float) -> float:
        """The absolute value, to three digits."""
        if self.kind == "alpha":
            found = self.value * variance
        elif self.kind == "epsilon":
            found = self.value * spread
        else:
            found = self.value / variance * (spread if self.of_target else 1.0)
        return float(f"{found:.2e}")


def resolved(params: dict[str, Any], variance: float, spread: float) -> dict[str, Any]:
    """Parameters of an estimator for a training part."""
    return {
        name: value.resolve(variance, spread) if isinstance(value, Relative) else value
        for name, value in params.items()
    }


def variance_unit(K: Any, rows: Index | None = None) -> float:
    """Total variance of a Gram matrix, no less than a rounding error; 1 for a matrix of zeros.

    Of all rows, or of some of them without copying their part of the matrix.
    """
    if rows is None:
        diagonal, mean = np.diagonal(K).mean(dtype=float), K.mean(dtype=float)
    else:
        sums = sum((K[i] for i in rows), start=np.zeros(len(K)))
        diagonal, mean = np.diagonal(K)[rows].mean(dtype=float), sums[rows].sum() / len(rows) ** 2
    variance = max(float(diagonal - mean), _LEAST_VARIANCE * float(diagonal))
    return variance if 0 < variance < np.inf else 1.0


def spread(y: Any) -> float:
    """Standard deviation of a numeric target; 1 for other targets."""
    found = float(np.std(y)) if np.asarray(y).dtype.kind == "f" else 1.0
    return found if 0 < found < np.inf else 1.0


@contextmanager
def naming_rows(kernels: Iterable[Any], X: Any, y: Any) -> Iterator[None]:
    """Make errors name the invalid row of X; parts of X have it at another position."""
    try:
        yield
    except ValueError:
        for kernel in kernels:
            if isinstance(kernel, Kernel):
                kernel.learnt_from(X, y).diag(X)  # which raises in turn
        raise


class Scales:
    """Kernels of templates at similarities, scaled to training parts; equal kernels are stored once.

    Parameters are rounded to the fewest digits that come near the similarity, so that similar training
    parts share Gram matrices.

    Attributes
    ----------
    kernels : list
        All kernels so far.
    """

    def __init__(self, X: Any, y: Any, templates: list[Template], random_state: int) -> None:
        self.X, self.y, self.templates, self.seed = X, y, templates, random_state
        self.kernels: list[Any] = []
        self._numbers: dict[Any, int] = {}
        self._surveys: dict[Any, tuple[Any, Survey | None, Any]] = {}

    def number(self, template: int, similarity: float | None, rows: Index | None = None) -> int:
        """Index of the kernel for a training part, or for all points."""
        part = None if rows is None else hash(rows.tobytes())
        asked = (template, similarity, part)
        if asked not in self._numbers:
            with naming_rows([self.templates[template].kernel], self.X, self.y):
                kernel, known = self._kernel(template, similarity, rows, part)
            if known not in self._numbers:
                self._numbers[known] = len(self.kernels)
                self.kernels.append(kernel)
            self._numbers[asked] = self._numbers[known]
        return self._numbers[asked]

    def _kernel(
        self, template: int, similarity: float | None, rows: Index | None, part: Any
    ) -> tuple[Any, Any]:
        """The kernel, and a key that identifies it."""
        kernel = self.templates[template].kernel
        if not isinstance(kernel, Kernel):
            return kernel, (template,)
        start, survey, own = self._survey(template, similarity, rows, part)
        if similarity is None or not has_range(start):
            return start, (template, "as it is", own)
        if survey is None:  # a sum or product, or points without a pair
            scaled = self._parts_scaled(start, similarity, rows)
            if scaled is None:
                return start, (template, "as it is", own)
            scaled = scaled.learnt_from(self._part(rows), self._targets(rows))
            return scaled, (template, repr(scaled), own)
        try:
            value = survey.find_short(similarity)
        except Unreachable:
            value = survey.nearest(similarity)
        return survey.kernel(value), (template, value, own)

    def _parts_scaled(self, kernel: Any, similarity: float, rows: Index | None) -> Any:
        """A sum or product whose parts have a similarity, or the nearest that all of them can have.

        None if there is none, or no pair of different points.
        """
        others = sorted((*SIMILARITIES, *_BEYOND), key=lambda other: abs(other - similarity))
        for near in (similarity, *others):
            try:
                return kernel.scaled_to(self._part(rows), near, max_rows=_SAMPLE, random_state=self.seed)
            except Unreachable:
                continue
            except NoPairs:
                break
        return None

    def _survey(
        self, template: int, similarity: float | None, rows: Index | None, part: Any
    ) -> tuple[Any, Survey | None, Any]:
        """The kernel with what it learns from a part, its survey of ranges there, and a key."""
        place = (template, similarity is None, part)
        if place not in self._surveys and similarity is None and self._learns_nothing(template):
            kernel = self.templates[template].kernel
            self._surveys[place] = kernel, None, (repr(getattr(kernel, "base", None)), None)
        if place not in self._surveys:
            X = self._part(rows)
            based = self._based(self.templates[template], X)
            kernel = based.learnt_from(X, self._targets(rows))
            own = (repr(getattr(based, "base", None)), None if kernel is based else part)
            survey = None
            if similarity is not None and kernel.range_parameter() is not None:
                try:
                    survey = Survey(kernel, X, _SAMPLE, self.seed)
                except NoPairs:
                    survey = None
            self._surveys[place] = kernel, survey, own
        return self._surveys[place]

    def _learns_nothing(self, template: int) -> bool:
        """Whether the kernel is the same for all training parts."""
        kernel, base = self.templates[template].kernel, self.templates[template].base
        return base is None and type(kernel).learnt_from is Kernel.learnt_from

    def _based(self, template: Template, X: Any) -> Any:
        """The kernel of the template, with its base kernel scaled to the points."""
        kernel = template.kernel
        if template.base is None:
            return kernel
        points = kernel.all_points(X)
        based = copy(kernel)
        try:
            survey = Survey(kernel.base, points, _SAMPLE, self.seed)
            based.base = survey.kernel(survey.find_short(template.base))
        except (NoPairs, Unreachable):
            return kernel
        return based

    def _targets(self, rows: Index | None) -> Any:
        return self.y if rows is None or self.y is None else self.y[rows]

    def _part(self, rows: Index | None) -> Any:
        return self.X if rows is None else _safe_indexing(self.X, rows)
