"""Kernels on some columns of a table."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import kernels as sk

from mercer._arrays import count, evenly_spread, on_cpu, row_maxima, taken
from mercer._validation import check_choice, check_positive, check_vector, named_rows
from mercer.contributions import Contributions
from mercer.exceptions import DegenerateKernelWarning
from mercer.kernels.base import Kernel, nested_params
from mercer.kernels.tables import frames, preparation
from mercer.kernels.tables.frames import Block, is_selector
from mercer.spaces.simplex import with_uniform_rows

#: Rows from which the size of a kernel is learnt, and the smallest share of it that is not rounding.
_ROWS, _LEAST = 500, 1e-9
#: Largest number of columns in the name of a part of a sum.
_NAMED = 3


@dataclass(eq=False, repr=False)
class On(Kernel):
    """A kernel on some columns of a table.

    ``k(x, y) = factor * kernel(x[columns], y[columns])``.  Sums and products of such kernels are kernels
    of whole tables, whose columns may hold numbers, labels, text, strings of letters, nodes of a graph
    or clouds, in data frames of pandas or polars or in arrays.

    Machines, searches, :class:`~mercer.features.GramTransformer` and :meth:`scaled_to` learn from their
    training rows (:meth:`learnt_from`):

    - which columns a selector chooses, by name;
    - the preparation: numbers are standardised for kernels of flat space (:class:`Gaussian`,
      :class:`Linear`, ...), and words of a text are counted for kernels of counts and other rows of
      numbers; everything else is taken as it is;
    - what the kernel itself learns, such as weights of words;
    - the factor, one over the total variance of the kernel (the mean of k(x, x) minus the mean of
      k(x, y)), so that parts of a sum are of comparable size, and weights in front of them are shares.
      If all rows are the same to the kernel, as in a constant column, a warning says so.

    Before that it is the kernel on the columns as they are, and the factor is 1.

    Kernels such as :class:`TfIdf` and those on :class:`~mercer.spaces.Simplex` refuse a document
    without a known word.  Here it is treated as uniform, with a warning.

    Dates are refused unless ``dates`` says what they mean.  Missing values are refused by column and
    row, unless ``prepare`` fills them in.  Identifiers, whole numbers or labels that are different in
    every row, are refused as numbers and labels, unless ``prepare`` is None or a transformer.

    Parameters
    ----------
    columns : str, int, list of these, slice, mask or callable
        As in scikit-learn's ``ColumnTransformer``: names of a data frame, positions, slices (slices of
        names include both ends), or a selector such as ``make_column_selector`` or polars'
        ``cs.numeric()``.  Names need a data frame.
    kernel : Kernel
        A kernel on rows of numbers or labels or, if ``columns`` is a single column, on strings, nodes or
        clouds.
    prepare : "auto", None or transformer
        How to prepare the columns: as above, not at all, or by a transformer of scikit-learn, which is
        fitted to the training rows.
    dates : {"days", "hours"}, optional
        Take dates as days since 1970, or as the time of day in hours, for ``Heat(Torus(period=24))``.
    size : {"variance", None}
        Whether the factor is learnt.
    factor : float, optional
        Factor of the kernel; learnt by default.

    Examples
    --------
    >>> import pandas as pd
    >>> from mercer.kernels import Gaussian, Heat, On, Spectrum
    >>> from mercer.machines import SVC
    >>> from mercer.spaces import Categories
    >>> table = pd.DataFrame({
    ...     "length": [1.2, 3.4, 1.0, 3.1], "site": ["lake", "river", "lake", "lake"],
    ...     "gene": ["ACGT", "GGGA", "ACGA", "TGGG"]})
    >>> kernel = On("length", Gaussian()) + 2 * On("site", Heat(Categories())) + On("gene", Spectrum(2))
    >>> SVC(kernel).fit(table, ["a", "b", "a", "b"]).predict(table).tolist()
    ['a', 'b', 'a', 'b']
    >>> On("gene", Spectrum(2))(table[:2])
    array([[3., 0.],
           [0., 5.]])
    """

    columns: Any
    kernel: Kernel
    prepare: Any = "auto"
    dates: str | None = None
    size: str | None = "variance"
    factor: Any = None

    @property
    def requires_vector_input(self) -> bool:
        """False: rows are those of a table."""
        return False

    @property
    def parts(self) -> tuple[sk.Kernel, ...]:
        return (self.kernel,)

    @property
    def positive_semidefinite(self) -> bool:  # type: ignore[override]
        """See :class:`Kernel`."""
        return self.kernel.positive_semidefinite

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters and, if deep, those of the kernel."""
        return nested_params(super().get_params(deep=False), "kernel", deep)

    @property
    def hyperparameters(self) -> list[sk.Hyperparameter]:
        """Hyperparameters of the kernel."""
        return [
            sk.Hyperparameter(f"kernel__{h.name}", h.value_type, h.bounds, h.n_elements, h.fixed)
            for h in self.kernel.hyperparameters
        ]

    @property
    def theta(self) -> Any:
        """Logarithms of the kernel's free hyperparameters."""
        return self.kernel.theta

    @theta.setter
    def theta(self, theta: Any) -> None:
        self.kernel.theta = theta

    @property
    def bounds(self) -> Any:
        """Logarithms of their bounds."""
        return self.kernel.bounds

    def validate(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise TypeError(f"kernel of On must be one of mercer.kernels, got {self.kernel!r}")
        if not (self.prepare is None or self._transforms):
            check_choice(self, "prepare", ("auto",))
        if self.dates is not None:
            check_choice(self, "dates", frames.DATES)
        if self.size is not None:
            check_choice(self, "size", ("variance",))
        if self.factor is not None:
            check_positive(self, "factor")

    @property
    def _transforms(self) -> bool:
        return hasattr(self.prepare, "fit") and hasattr(self.prepare, "transform")

    def learnt_from(self, X: Any, y: Any = None) -> On:
        """See :class:`Kernel`; columns, preparation and factor, and what the kernel learns."""
        learnt, block, points = self._prepared_by(X, y)
        with learnt._named_in_errors():
            learnt.kernel = learnt.kernel.learnt_from(points, y)
        return learnt if self.factor is not None else learnt._sized_by(learnt._filled(block, points)[0])

    def scaled_to(
        self, X: Any, similarity: float = 0.5, *, max_rows: int = 1000, random_state: int = 0
    ) -> On:
        """See :class:`Kernel`; the kernel is scaled on its columns."""
        learnt, block, points = self._prepared_by(X, None)
        with learnt._named_in_errors():
            learnt.kernel = learnt.kernel.learnt_from(points)
            points, _ = learnt._filled(block, points)
            learnt.kernel = learnt.kernel.scaled_to(
                points, similarity, max_rows=max_rows, random_state=random_state
            )
        return learnt._sized_by(points)

    def points(self, X: Any, name: str = "X") -> Any:
        """The points of the kernel in rows of a table: its columns, prepared."""
        block = Block.of(self.columns, X, name)
        points, empty = self._filled(block, self._points(block))
        named, number = named_rows(empty, f"column {block.keys[0]!r} of {name}")
        if number:
            has, is_ = ("has", "is") if number == 1 else ("have", "are")
            warnings.warn(
                f"{named} {has} no known word and {is_} taken as uniform: all words alike", stacklevel=4
            )
        return points

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        if not eval_gradient:
            return self.multiple(1.0, X, Y)
        self.validate()
        P, Q = self._pair(X, Y)
        with self._named_in_errors():
            K, gradient = self.kernel(P, Q, eval_gradient=True)
        return self._sized(K), self._sized(gradient)

    def multiple(self, factor: float, X: Any, Y: Any = None, plus: Any = None) -> Any:
        self.validate()
        P, Q = self._pair(X, Y)
        factor *= self._factor
        with self._named_in_errors():
            return self.kernel.multiple(factor, P, Q, plus)

    def diag(self, X: Any) -> Any:
        self.validate()
        points = self.points(X)
        with self._named_in_errors():
            return self._sized(self.kernel.diag(points))

    def matvec(self, X: Any, Y: Any, v: Any) -> Any:
        self.validate()
        P, Q = self._pair(X, Y)
        v = check_vector(v, count(P if Q is None else Q))
        with self._named_in_errors():
            return self._sized(self.kernel.matvec(P, Q, v))

    def explicit_features(self, X: Any) -> Any:
        found = self.kernel.explicit_features(self.points(X))
        return found if found is None else found * self._factor**0.5

    def contributions(self, X: Any, Y: Any, weights: Any) -> tuple[Contributions, ...]:
        """See :class:`Kernel`; those of the kernel, with the names of columns, words or labels.

        Columns that the kernel does not distinguish are one contribution together; so is a single
        column, which needs no first-order contribution.
        """
        self.validate()
        P, Q = self.points(X, "X"), self.points(Y, "Y")
        weights = self._factor * weights
        found = self.kernel.contributions(P, Q, weights)
        transformer: Any = getattr(self.prepare, "estimator", None)
        has_words = hasattr(transformer, "vocabulary_")
        rough = (
            len(self._keys) == 1
            and not has_words
            and any(own.kind == "column" and not own.exact for own in found)
        )
        if rough or not found:
            whole = np.einsum("xy,xy->x", weights, np.asarray(on_cpu(self.kernel(P, Q))))
            return (Contributions("column", [self.label], whole[:, None], exact=True),)
        names, kind = self._keys, None
        if has_words:
            names, kind = transformer.get_feature_names_out(), "word"
        elif transformer is not None and P.shape[1] != len(names):
            named = hasattr(transformer, "get_feature_names_out")
            names = (
                range(P.shape[1])
                if not named
                else transformer.get_feature_names_out([str(key) for key in names])
            )
        return tuple(own.renamed(names, kind) for own in found)

    @property
    def _keys(self) -> Any:
        """Names or positions of the columns."""
        return self.columns if isinstance(self.columns, list) else [self.columns]

    def column_blocks(self) -> dict[str, list[Any]]:
        """See :class:`Kernel`; the columns."""
        return {self._names: self._keys}

    @property
    def label(self) -> str:
        """See :class:`Kernel`; the names of the columns, and what dates are taken as."""
        return self._names if self.dates is None else f"{self._names} ({self.dates})"

    @property
    def _names(self) -> str:
        keys = self._keys
        if len(keys) <= _NAMED:
            return ", ".join(map(str, keys))
        return f"{keys[0]} .. {keys[-1]} ({len(keys)} columns)"

    def sample(self, size: int, rng: np.random.Generator, clusters: int | None = None) -> Any:
        """See :class:`Kernel`; an array, for columns that are positions."""
        return self.kernel.sample(size, rng, clusters)

    def _pair(self, X: Any, Y: Any) -> tuple[Any, Any]:
        return self.points(X, "X"), None if Y is None or Y is X else self.points(Y, "Y")

    @property
    def _factor(self) -> float:
        return 1.0 if self.factor is None else float(self.factor)

    def _sized(self, K: Any) -> Any:
        return K if self._factor == 1 else K * self._factor

    def _sized_by(self, points: Any) -> On:
        """The kernel, already a copy, with the factor learnt from the points."""
        if self.size is None:
            return self
        with self._named_in_errors():
            size, variance = _size_and_variance(self.kernel, points)
        if size > 0 and variance <= _LEAST * size:
            warnings.warn(
                f"{self.kernel!r} does not tell the training rows of {self.label} apart; nothing can be "
                "learnt from these columns: leave them out, or use another kernel",
                DegenerateKernelWarning,
                stacklevel=5,
            )
            variance = size
        self.factor = 1 / variance if 0 < variance < np.inf else 1.0
        return self

    def _prepared_by(self, X: Any, y: Any) -> tuple[On, Block, Any]:
        """A copy that has learnt columns and preparation, the columns, and the points."""
        self.validate()
        block = Block.of(self.columns, X, "X")
        if count(block.rows) == 0:
            raise ValueError("X holds no rows; at least one is needed")
        if self.prepare == "auto":  # otherwise the columns have been examined
            self._refuse_identifiers(block)
        learnt = copy.copy(self)
        learnt.columns = block.keys[0] if block.single else block.keys
        transformer = self._transformer(block)
        if transformer is not None and not isinstance(transformer, FrozenEstimator):
            raw = self._raw(block, lenient=preparation.fills_in(transformer))
            with learnt._named_in_errors():
                transformer = preparation.fitted(transformer, raw, y)
        learnt.prepare = transformer
        return learnt, block, learnt._points(block)

    @contextmanager
    def _named_in_errors(self) -> Iterator[None]:
        """Add the columns to errors of the kernel, which knows only rows."""
        try:
            yield
        except (ValueError, TypeError) as error:
            if type(error) not in (ValueError, TypeError):
                raise
            noun = "column" if len(self._keys) == 1 else "columns"
            raise type(error)(f"{noun} {self.label}: {error}") from error

    def _transformer(self, block: Block) -> Any:
        """The preparation of columns; "auto" asks what they hold and what the kernel takes."""
        if not isinstance(self.prepare, str):
            return self.prepare
        if not self.kernel.requires_vector_input:
            return None
        if self.dates is None and not block.numeric and "text" in block.kinds.values():
            return CountVectorizer()
        return preparation.scaler(self.kernel, with_mean=not block.is_sparse)

    def _refuse_identifiers(self, block: Block) -> None:
        """Refuse identifiers as numbers and labels; texts, nodes and strings may all differ."""
        space = self.kernel.point_space
        if space is None and not self.kernel.requires_vector_input:
            return
        if space is None or space.adjacency is None:
            text = self.kernel.requires_vector_input  # words of a text are counted
            block.refuse_identifiers(labels=not text)

    def _points(self, block: Block) -> Any:
        """Points of the kernel in some columns."""
        if self.prepare is None or isinstance(self.prepare, str):
            points = self._raw(block)
            if self.kernel.requires_vector_input and (
                isinstance(points, list) or points.dtype == object
            ):
                raise ValueError(
                    f"words of column {block.keys[0]!r} have not been counted yet; call learnt_from(X) "
                    f"or scaled_to(X) first, or fit a machine with {self!r}"
                )
            return points
        if not isinstance(self.prepare, FrozenEstimator):
            raise ValueError(
                f"{self.prepare!r} has not been fitted to training rows; call learnt_from(X) or "
                f"scaled_to(X) first, or fit a machine with {self!r}"
            )
        fitted = self.prepare.estimator
        lenient = preparation.fills_in(fitted)
        points = preparation.transformed(fitted, self._raw(block, lenient=lenient))
        is_float = getattr(getattr(points, "dtype", None), "kind", "") == "f"
        if lenient and is_float and np.isnan(points.sum()):
            left = np.isnan(points).any(axis=0)
            block.refuse_missing(left if len(left) == len(block.keys) else None)
        return points

    def _filled(self, block: Block, points: Any) -> tuple[Any, Any]:
        """Points with ones in place of documents without a word that the kernel refuses; and which."""
        none = np.zeros(1, dtype=bool)
        if block.numeric or not (self.kernel.requires_vector_input and block.single):
            return points, none
        empty = row_maxima(points) == 0
        if not empty.any() or _takes_zeros(self.kernel, points[[empty.argmax()]]):
            return points, none
        return with_uniform_rows(points, empty, int(empty.sum()), block.name), empty

    def _raw(self, block: Block, *, lenient: bool = False) -> Any:
        """Columns for a kernel or transformer; missing values are refused unless lenient."""
        if block.numeric and (self.kernel.requires_vector_input or lenient):
            values = block.numbers()
            with np.errstate(over="ignore"):
                finite = abs(values.sum()) < np.inf
            if not finite:
                if not lenient:
                    block.refuse_missing()
                block.refuse_infinite(values)
            return values
        if not lenient:
            block.refuse_missing()
        kinds = set(block.kinds.values())
        if "dates" in kinds or self.dates is not None:
            return block.times(self._unit_of(block))
        if self.kernel.requires_vector_input and not (self._transforms or block.single):
            for key, kind in block.kinds.items():
                if kind != "numbers":
                    raise ValueError(
                        f"column {key!r} of {block.name} holds {kind}, but {self.kernel!r} takes "
                        f"numbers; for words of a text write On({key!r}, ...), for labels use "
                        "Heat(Categories())"
                    )
        if kinds == {"numbers"} and self.kernel.requires_vector_input:
            return block.numbers()
        values, single = block.objects(), block.single
        if single:  # words of a text; a string, node or cloud; else a row of one label
            single = self.kernel.requires_vector_input or self.kernel.point_space is None
        return values[:, 0].tolist() if single else values

    def _unit_of(self, block: Block) -> str:
        """What dates are taken as, or an error that says what to choose."""
        if self.dates is None:
            key = next(key for key, kind in block.kinds.items() if kind == "dates")
            raise ValueError(
                f"column {key!r} of {block.name} holds dates; choose what they mean: dates='days' takes "
                "them as numbers, dates='hours' as the time of day, on a circle with "
                "Heat(Torus(period=24)); or convert them"
            )
        for key, kind in block.kinds.items():
            if kind not in ("dates", "text"):  # files hold dates as text
                raise ValueError(
                    f"column {key!r} of {block.name} holds {kind}, not dates; give it an On of its own"
                )
        return self.dates


def with_names(kernel: Any, learnt: Any) -> Any:
    """A kernel with the names of the columns that selectors have chosen, in place of the selectors."""
    if not isinstance(kernel, Kernel):
        return kernel
    params = kernel.get_params()
    chosen = [key for key in params if key.split("__")[-1] == "columns" and is_selector(params[key])]
    found = learnt.get_params()
    return clone(kernel).set_params(**{key: found[key] for key in chosen}) if chosen else kernel


def _takes_zeros(kernel: Any, row: Any) -> bool:
    """Tell whether a kernel has a value for a row of zeros."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            kernel.diag(row)
    except (ValueError, UserWarning):
        return False
    return True


def _size_and_variance(kernel: Any, points: Any) -> tuple[float, float]:
    """The mean of k(x, x), and its excess over the mean of k(x, y), for pairs of some of the points."""
    some = evenly_spread(count(points), _ROWS)
    with warnings.catch_warnings():  # about empty rows, named by their positions among these
        warnings.filterwarnings("ignore", message=".* taken as uniform")
        try:
            K = np.asarray(on_cpu(kernel(taken(points, some))), dtype=float)
        except ValueError:
            kernel.diag(points)  # names the row by its position among all
            raise
    diagonal, pairs = float(np.trace(K)), max(len(some) * (len(some) - 1), 1)
    mean = diagonal / len(some)
    return mean, mean - (float(K.sum()) - diagonal) / pairs
