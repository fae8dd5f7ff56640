"""The usual kernel for documents: the cosine of weighted word counts."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer

from mercer._arrays import on_cpu, unit_rows
from mercer._validation import check_choice
from mercer.kernels import columns
from mercer.kernels.radial import RadialKernel
from mercer.profiles import PowerProfile, Profile
from mercer.spaces import Simplex
from mercer.spaces.base import product_sums
from mercer.spaces.simplex import EMPTY, Counts, Empty


@dataclass(eq=False, repr=False)
class TfIdf(RadialKernel):
    """The cosine of word counts, weighted by the inverse document frequency.

    ``k(x, y) = cos(f(x) w, f(y) w)`` with ``w_j = 1 + log((1 + m) / (1 + m_j))`` for a word in m_j of m
    documents, and ``f(x) = x``, or ``1 + log(x)`` for counts from 1 if sublinear.  Equivalent to a
    linear kernel on the output of scikit-learn's ``TfidfVectorizer``: the baseline for text.

    Parameters
    ----------
    sublinear : bool
        Reduce the weight of repeated words.
    weights : array of shape (n,) or sparse array of shape (1, n), optional
        Weights of the words; 1 for words that a sparse array does not store.  By default
        :meth:`scaled_to`, searches and :class:`~mercer.features.GramTransformer` learn them from the
        training rows.
    empty : {"error", "uniform"}
        Refuse a document without words, or take it as uniform; see :class:`mercer.spaces.Simplex`.

    Examples
    --------
    >>> from mercer.kernels import TfIdf
    >>> counts = [[2, 1, 0], [1, 0, 1], [0, 0, 3]]
    >>> TfIdf().scaled_to(counts)(counts).round(4)
    array([[1.    , 0.5909, 0.    ],
           [0.5909, 1.    , 0.7071],
           [0.    , 0.7071, 1.    ]])
    """

    sublinear: bool = False
    weights: Any = None
    empty: Empty = "error"

    magnifies = False
    _embedding_parameters = ("sublinear", "weights", "empty")

    @property
    def space(self) -> Simplex:  # type: ignore[override]
        """The space of the counts."""
        return Simplex(empty=self.empty)

    def learnt_from(self, X: Any, y: Any = None) -> TfIdf:
        """See :class:`Kernel`; the weights of the words, unless they are given."""
        if self.weights is not None:
            return self
        learnt = copy.copy(self)
        rows = sparse.csr_matrix(Counts().check(on_cpu(X)), copy=True)  # empty documents have no words
        rows.eliminate_zeros()
        unseen = 1 + math.log(1 + rows.shape[0])
        learnt.weights = columns.learn(rows, lambda X: TfidfTransformer().fit(X).idf_, unseen)
        return learnt

    def explicit_features(self, X: Any) -> Any:
        """See :class:`Kernel`; the weighted counts as unit vectors."""
        self.validate()
        return self._unit_rows(self.space.check(X))

    def validate(self) -> None:
        check_choice(self, "sublinear", (True, False))
        check_choice(self, "empty", EMPTY)
        if self.weights is None:
            raise ValueError(
                "weights of TfIdf have not been learnt from training rows; call scaled_to(X) first, or "
                "give weights"
            )
        columns.check(self, "weights")

    def embed(self, X: Any, Y: Any = None) -> tuple[Any, Any]:
        left = self._unit_rows(X)
        return left, left if Y is None else self._unit_rows(Y)

    def column_sums(self, X: Any, Y: Any, weights: Any) -> Any:
        return product_sums(*self.embed(X, Y), weights)

    def _unit_rows(self, X: Any) -> Any:
        weights = columns.of_elements(self, "weights", X)
        if not sparse.issparse(X):
            return unit_rows(self._counted(X) * weights)
        weighted = X.copy()
        weighted.data = self._counted(X.data) * weights.astype(X.dtype)
        return unit_rows(weighted)

    def _counted(self, counts: Any) -> Any:
        if not self.sublinear:
            return counts
        xp = array_namespace(counts)
        several = counts >= 1
        return xp.where(several, 1 + xp.log(xp.where(several, counts, xp.ones_like(counts))), counts)

    def _compile(self, n: int) -> Profile:
        return PowerProfile()
