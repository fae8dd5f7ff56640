"""Predictions split into contributions of training rows, parts of the kernel and columns."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mercer._arrays import count, on_cpu, taken
from mercer.contributions import Contributions, merged
from mercer.explain.expansion import Expansion, expansion_of, points_of
from mercer.kernels.base import BLOCK, Kernel

Array = NDArray[np.float64]
Index = NDArray[np.intp]
#: Largest number of rows whose columns are processed together.
_ROWS = 64
#: The kind of features that have a position in their cloud, but no name.
_POINT = "point"
#: Contributions below this share of the sum of all sizes are rounding.
_ROUNDING = 8 * float(np.finfo(float).eps)


def explain(model: Any, X: Any) -> Explanation:
    """Explain what a fitted model says about points.

    The model is a sum ``f(x) = b + sum_i a_i k(x, x_i)`` over training rows (or landmarks) x_i.  It is
    split exactly: by training rows, ``a_i k(x, x_i)``; and by the terms of a sum of kernels, such as the
    parts on different columns of a table, ``w_p sum_i a_i k_p(x, x_i)``.  Each term is split by columns,
    words, labels, substrings or neighbours in a graph.  This is exact if the kernel is a sum over them.
    Otherwise it is of first order: the slope of the kernel times the column's part of the inner product
    or squared distance, which is what changes if that part grows or shrinks by a small percentage.

    For a Gaussian process of :mod:`mercer.gp` the mean is explained: for a classifier the logarithm of
    the odds, for counts the logarithm of the rate.

    Parameters
    ----------
    model : fitted estimator
        A machine of :mod:`mercer.machines`, a Gaussian process of :mod:`mercer.gp` with a kernel of
        tables, strings or clouds, a :class:`~mercer.selection.KernelSearchCV`, a saved model, or a
        pipeline that ends in a machine or in a :class:`~mercer.features.GramTransformer` and an
        estimator such as scikit-learn's ``SVC(kernel="precomputed")``.
    X : points
        As the model takes them.

    Returns
    -------
    Explanation

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from mercer.explain import explain
    >>> from mercer.kernels import Gaussian, Linear, On
    >>> from mercer.machines import SVC
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> kernel = On(["alcohol", "malic_acid", "ash"], Linear()) + On(["hue", "proline"], Gaussian(2.0))
    >>> found = explain(SVC(kernel).fit(X, y), X[:1])
    >>> found.parts().round(3)
                           part  contribution  share
    0              hue, proline         5.004  0.769
    1  alcohol, malic_acid, ash         1.504  0.231
    >>> found.columns(top=2)[["name", "contribution", "exact"]].round(3)
          name  contribution  exact
    0  proline         2.034  False
    1  alcohol         1.534   True
    """
    check_is_fitted(model)
    predicted = model.predict(X)
    expansion = expansion_of(model)
    return Explanation(expansion, points_of(model, X), np.asarray(on_cpu(predicted)))


class Feature(NamedTuple):
    """Contribution of a feature to a value."""

    part: str
    kind: str
    name: str
    contribution: float
    share: float
    exact: bool


class Explanation:
    """Predictions as sums; made by :func:`explain`.

    Shares are absolute values divided by their sum: over all training rows, parts or columns.  Each
    method explains one output for a row: by default the predicted class, so that positive
    contributions are evidence for it, or the first output of a regression.  Contributions of rows and
    columns that are zero up to rounding are omitted.

    Attributes
    ----------
    outputs : tuple
        Names of the columns of ``values``.  For classifiers the classes: with two classes the values
        are the decision value and its negative; with more, the value of each class or, for an SVC, the
        sum of the decision values of its pairs in favour of the class.  With
        ``decision_function_shape="ovo"`` the pairs.  For regressions "prediction", or numbers.
    values : array of shape (m, q)
        Values of the outputs, ``intercept`` plus the sum of ``part_values``.
    intercept : array of shape (q,)
    part_names : list of str
        Terms of the kernel: columns of a part :class:`~mercer.kernels.On`, or the kernel itself.
    part_values : array of shape (m, n_parts, q)
        Contribution of each term to each output.
    predicted : array of shape (m,)
        What the model predicts.
    """

    def __init__(self, expansion: Expansion, X: Any, predicted: Any) -> None:
        self._expansion, self._X = expansion, X
        self.outputs, self.intercept = expansion.outputs, expansion.intercept
        self.part_names, self.predicted = expansion.part_names, predicted
        self.part_values = np.empty((count(X), len(self.part_names), len(self.outputs)))
        for rows in self._blocks():
            some = taken(X, rows)
            for k, (weight, term) in enumerate(expansion.terms):
                products = expansion.similarities(term, some) @ expansion.coefficients
                self.part_values[rows, k] = weight * products + 0.0  # no negative zeros
        self.values = self.part_values.sum(axis=1) + self.intercept
        self._chosen = self._outputs_of(predicted)
        self._row_names = expansion.row_names

    def __repr__(self) -> str:
        return f"<Explanation of {count(self._X)} points by {', '.join(self.part_names)}>"

    def rows(self, row: int = 0, *, output: Any = None, top: int = 10) -> pd.DataFrame:
        """The most influential training rows, or landmarks.

        Parameters
        ----------
        row : int
            Position of the point in X.
        output : one of ``outputs``, optional
        top : int
            Number of rows to show.

        Returns
        -------
        DataFrame
            ``row`` (the position among the training rows; ``landmark``, the position among the model's
            ``landmarks_``, if it has them), ``similarity`` k(x, x_i), ``coefficient`` a_i,
            ``contribution`` a_i k(x, x_i), and ``share``; the largest first.
        """
        K = self._similarities(self._at(row))[0]
        a = self._expansion.coefficients[:, self._output(row, output)]
        first, shares = _largest(a * K, top, _rounding(a * K)), _shares(a * K)
        return pd.DataFrame(
            {
                self._place: self._expansion.rows[first], "similarity": K[first],
                "coefficient": a[first], "contribution": (a * K)[first], "share": shares[first],
            }
        )  # fmt: skip

    def nearest(self, row: int = 0, *, top: int = 10) -> pd.DataFrame:
        """The most similar training rows, or landmarks, among those that the model keeps.

        Returns
        -------
        DataFrame
            ``row`` or ``landmark``, ``similarity``, and ``distance``,
            ``sqrt(k(x, x) + k(x_i, x_i) - 2 k(x, x_i))``, the nearest first.  If the kernel is
            precomputed or a function, there are no distances, and the most similar come first.
        """
        K = self._similarities(self._at(row))[0]
        distances = self._expansion.distances(taken(self._X, self._at(row)), K[None, :])
        order = np.argsort(-K if distances is None else distances[0], kind="stable")[:top]
        found = pd.DataFrame({self._place: self._expansion.rows[order], "similarity": K[order]})
        return found if distances is None else found.assign(distance=distances[0][order])

    def parts(self, row: int = 0, *, output: Any = None) -> pd.DataFrame:
        """Contributions of the terms of the kernel: ``part``, ``contribution`` and ``share``.

        With the intercept they add up to the value.
        """
        values = self.part_values[self._at(row)[0], :, self._output(row, output)]
        first = _largest(values, len(values))
        names = [self.part_names[k] for k in first]
        return pd.DataFrame(
            {"part": names, "contribution": values[first], "share": _shares(values)[first]}
        )

    def columns(self, row: int = 0, *, output: Any = None, top: int = 20) -> pd.DataFrame:
        """Contributions of columns, words, labels, substrings and neighbours.

        Returns
        -------
        DataFrame
            ``part``, ``kind`` ("column", "word", "label", "substring", "subsequence", "point", "axis"
            or "neighbour"), ``name``,
            ``contribution``, its ``share`` among all of them, and ``exact``, which tells terms of the
            sum from contributions of first order; the largest first.
        """
        at, outputs = self._at(row), np.array([self._output(row, output)])
        found = self._largest_features(at, outputs, self._products(at, outputs), top)[0]
        found.sort(key=lambda feature: -abs(feature.contribution))
        return self._told(pd.DataFrame(found[:top], columns=list(Feature._fields)))

    @property
    def tells_columns(self) -> bool:
        """Whether the kernel distinguishes features that points share, for :meth:`typical`."""
        return bool(self._kinds - {_POINT})

    @property
    def _kinds(self) -> set[str]:
        """Kinds of features that the kernel tells apart."""
        first = np.arange(min(1, count(self._X)))
        return {own.kind for _, own in self._features(first, self._chosen[first])}

    @property
    def blocks(self) -> dict[str, list[Any]]:
        """Columns of a table that the kernel takes together; empty if it takes all."""
        kernel = self._expansion.kernel
        return kernel.column_blocks() if isinstance(kernel, Kernel) else {}

    def typical(self, *, top: int = 10) -> pd.DataFrame:
        """Evidence for each class: mean contributions over the points that are predicted as it.

        For regressions, the mean size of the contributions to each output over all points.  Points of
        clouds are omitted: their positions in different clouds are unrelated.

        Returns
        -------
        DataFrame
            ``output``, ``part``, ``kind``, ``name``, ``exact``, ``contribution`` (the mean) and ``size``
            (the mean of its absolute value), the largest of each output first.
        """
        if self._kinds == {_POINT}:
            raise ValueError(
                "points of different clouds share only their positions, so that none is typical; "
                "columns(row) explains one cloud"
            )
        by, frames = "size" if self._expansion.classes is None else "contribution", []
        for output, name in enumerate(self.outputs):
            everywhere = self._expansion.classes is None
            rows = np.flatnonzero(everywhere | (self._chosen == output))
            if len(rows):
                means = self._means(rows, output).sort_values(by, ascending=False, kind="stable")
                means.insert(0, "output", [name] * len(means))
                frames.append(means.head(top))
        return self._told(pd.concat(frames, ignore_index=True))

    def table(self, *, top: int = 5) -> pd.DataFrame:
        """All points in one table, for a file: the largest contributions of each kind.

        Returns
        -------
        DataFrame
            ``row`` (the position in X), ``output``, ``kind`` ("value", "intercept", "part", the kinds
            of :meth:`columns`, and "training row" or "landmark"), ``name``, ``contribution``,
            ``share`` and ``exact``.  Values and intercepts have no share.  All parts are listed, so that
            they add up to the value with the intercept.  Training rows have their position as a name, or
            are nodes or short strings themselves.
        """
        records: list[tuple[Any, ...]] = []
        for block in self._blocks():
            outputs = self._chosen[block]
            products = self._products(block, outputs)
            features = self._largest_features(block, outputs, products, top)
            for row, output, own, terms in zip(block, outputs, features, products, strict=True):
                found = self._records(row, output, own, terms, top)
                records += [(int(row), self.outputs[output], *record) for record in found]
        names = ["row", "output", "kind", "name", "contribution", "share", "exact"]
        return pd.DataFrame(records, columns=names)

    def _records(
        self, row: int, output: int, features: list[Feature], products: Array, top: int
    ) -> Iterator[tuple[str, str, float, float, bool]]:
        """Kind, name, contribution, share and exactness; the largest of each kind first."""
        yield "value", "", float(self.values[row, output]), np.nan, True
        yield "intercept", "", float(self.intercept[output]), np.nan, True
        parts = self.part_values[row, :, output]
        for k, share in _first(parts, len(parts)):
            yield "part", self.part_names[k], float(parts[k]), share, True
        for kind in dict.fromkeys(feature.kind for feature in features):
            own = [feature for feature in features if feature.kind == kind]
            for f in sorted(own, key=lambda feature: -abs(feature.contribution))[:top]:
                yield kind, f.name, f.contribution, f.share, f.exact
        for k, share in _first(products, top, _rounding(products)):
            yield self._expansion.row_kind, self._row_names[k], float(products[k]), share, True

    def _blocks(self, rows: Index | None = None) -> Iterator[Index]:
        """Positions of points that are processed together."""
        rows = np.arange(count(self._X)) if rows is None else rows
        size = max(1, min(_ROWS, BLOCK // max(len(self._expansion.rows), 1)))
        return (rows[start : start + size] for start in range(0, len(rows), size))

    def _at(self, row: int) -> Index:
        """The position of a point, in an array."""
        if not -count(self._X) <= row < count(self._X):
            raise IndexError(f"{count(self._X)} points are explained, but none at position {row}")
        return np.array([int(row) % count(self._X)])

    def _output(self, row: int, output: Any) -> int:
        """The position of an output, by default of the one that is chosen for a row."""
        if output is None:
            return int(self._chosen[self._at(row)[0]])
        if output not in self.outputs:
            raise ValueError(f"output must be one of {self.outputs!r}, got {output!r}")
        return self.outputs.index(output)

    def _outputs_of(self, predicted: Any) -> Index:
        """The output that explains each prediction: the class, or its narrowest pair."""
        classes = self._expansion.classes
        if classes is None:
            return np.zeros(count(self._X), dtype=np.intp)
        place = {label: k for k, label in enumerate(classes)}
        own = np.array([place[label] for label in predicted.tolist()])
        if len(self.outputs) == len(classes) and self.outputs[0] == classes[0]:
            return own
        first, second = np.array([[place[a], place[b]] for a, b in self.outputs]).T
        margins = np.where(first == own[:, None], self.values, np.inf)
        return np.where(second == own[:, None], -self.values, margins).argmin(axis=1)

    def _similarities(self, rows: Index) -> Array:
        """Values of the kernel between some points and those of the expansion."""
        found, some = self._expansion, taken(self._X, rows)
        parts = (weight * found.similarities(term, some) for weight, term in found.terms)
        return sum(parts, np.zeros((len(rows), len(found.rows))))

    def _products(self, rows: Index, outputs: Index) -> Array:
        """Contributions of training rows to one output for each row."""
        return self._similarities(rows) * self._expansion.coefficients[:, outputs].T

    @property
    def _place(self) -> str:
        """The name of the column with the positions of training rows or landmarks."""
        return "landmark" if self._expansion.row_kind == "landmark" else "row"

    def _told(self, found: pd.DataFrame) -> pd.DataFrame:
        """Contributions of features, or an error that says why there are none."""
        if len(found) or not len(self._expansion.rows):
            return found
        if self._kinds:
            warnings.warn(
                "no column contributes: these points have nothing in common with the training rows",
                stacklevel=3,
            )
            return found
        if isinstance(self._expansion.kernel, Kernel):
            raise ValueError(
                f"{self._expansion.kernel!r} does not tell its columns apart; rows() and parts() explain"
            )
        raise ValueError(
            "columns cannot be named: the kernel is precomputed or a function of your own; rows() and "
            "nearest() explain by training rows, and kernels of mercer.kernels by columns"
        )

    def _features(self, rows: Index, outputs: Index) -> Iterator[tuple[str, Contributions]]:
        """Contributions of features to one output for each row, part by part."""
        found = self._expansion
        some = taken(self._X, rows)
        pairs = found.divided(some, found.coefficients[:, outputs].T)
        for part, (weight, term) in zip(self.part_names, found.terms, strict=True):
            if not isinstance(term, Kernel) or not len(found.rows):
                continue
            for own in merged(term.contributions(some, found.points, weight * pairs)):
                yield part, own if found.names is None else own.renamed(found.names)

    def _largest_features(
        self, rows: Index, outputs: Index, products: Array, top: int
    ) -> list[list[Feature]]:
        """The largest contributions of features of each row, in each part."""
        found = list(self._features(rows, outputs))
        totals = sum((np.abs(own.values).sum(axis=1) for _, own in found), np.zeros(len(rows)))
        features: list[list[Feature]] = [[] for _ in rows]
        for part, own in found:
            for mine, values, total, terms in zip(features, own.values, totals, products, strict=True):
                mine += [
                    Feature(part, own.kind, str(own.names[k]), v, abs(v) / total, own.exact)
                    for k, v in ((k, float(values[k])) for k in _largest(values, top, _rounding(terms)))
                ]
        return features

    def _means(self, rows: Index, output: int) -> pd.DataFrame:
        """Mean contributions of features over some rows, and means of their sizes."""
        totals: dict[tuple[str, str, str, bool], Array] = {}
        for block in self._blocks(rows):
            for part, own in self._features(block, np.full(len(block), output)):
                if own.kind == _POINT:
                    continue
                sums = np.stack([own.values.sum(axis=0), np.abs(own.values).sum(axis=0)], axis=1)
                for k in np.flatnonzero(sums[:, 1]):
                    key = (part, own.kind, str(own.names[k]), own.exact)
                    totals[key] = totals.get(key, 0.0) + sums[k]
        frame = pd.DataFrame(list(totals), columns=["part", "kind", "name", "exact"])
        means = np.array(list(totals.values())).reshape(-1, 2) / len(rows)
        return frame.assign(contribution=means[:, 0], size=means[:, 1])


def _largest(values: Array, top: int, rounding: float = -1.0) -> Index:
    """Positions of the largest absolute values above a bound, in their order."""
    first = np.argsort(-np.abs(values), kind="stable")[:top]
    return first[np.abs(values[first]) > rounding]


def _first(values: Array, top: int, rounding: float = -1.0) -> list[tuple[int, float]]:
    """Positions of the largest absolute values, and their shares."""
    shares = _shares(values)
    return [(int(k), float(shares[k])) for k in _largest(values, top, rounding)]


def _rounding(products: Array) -> float:
    """Rounding error of zero contributions, given those of the training rows."""
    return _ROUNDING * float(np.abs(products).sum())


def _shares(values: Array) -> Array:
    """Absolute values as shares of their sum; zeros if all are zero."""
    sizes = np.abs(values)
    return sizes / (sizes.sum() or 1.0)
