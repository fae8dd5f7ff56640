"""Counts of substrings as sparse features."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mercer._validation import check_choice, is_whole
from mercer.kernels.strings.substrings import (
    Window,
    as_frequencies,
    check_length,
    count_windows,
    longest_shared,
    number_windows,
    window_places,
    windows,
)
from mercer.spaces.sequences import Sequences, encode, symbol_keys


class SubstringVectorizer(TransformerMixin, BaseEstimator):
    """Counts of substrings: the features of :class:`mercer.kernels.Spectrum`, for linear models.

    Each column counts one substring.  With ``n_features=None`` the columns are the substrings of the
    training strings, sorted (tokens: in order of appearance), and inner products of rows equal the
    spectrum kernel between training strings; substrings that do not occur in training are ignored.
    With a number of features nothing is learnt: the column of a substring is its hash, which does not
    depend on the process.  Substrings with the same hash are counted together, so that inner products
    of rows are never below the kernel.

    Time and memory are linear in the length of the text.

    Parameters
    ----------
    length : int or pair of int
        Length of the substrings, or the shortest and the longest.
    n_features : int, optional
        Number of columns of the hash; by default columns are not hashed.
    frequencies : bool
        Divide counts by the number of all substrings of that length: the probability that a random
        substring of the string is the one of the column.

    Attributes
    ----------
    vocabulary_ : list
        Substrings (tuples for tokens) of the columns; only if they are not hashed.

    Examples
    --------
    >>> from mercer.features import SubstringVectorizer
    >>> vectorizer = SubstringVectorizer(length=1)
    >>> counts = vectorizer.fit_transform(["ACAGCAGTA"])
    >>> vectorizer.get_feature_names_out()
    array(['A', 'C', 'G', 'T'], dtype=object)
    >>> counts.toarray()
    array([[4., 2., 2., 1.]])
    >>> vectorizer.set_params(frequencies=True).transform(["ACAGCAGTA"]).toarray().round(2)
    array([[0.44, 0.22, 0.22, 0.11]])
    """

    def __init__(
        self, length: Any = 3, n_features: int | None = None, frequencies: bool = False
    ) -> None:
        self.length = length
        self.n_features = n_features
        self.frequencies = frequencies

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the vocabulary, unless the columns are hashed."""
        self._validate()
        P, _ = encode(X)
        if self.n_features is None:
            self._kind = P.kind
            parts = windows(self.length, longest_shared(P, None))
            self.vocabulary_ = [w for window in parts for w in _distinct(P, window)]
            if not self.vocabulary_:
                raise ValueError(
                    f"all strings are shorter than length={self.length}; there is nothing to count"
                )
        return self

    def transform(self, X: Any) -> sparse.csr_matrix:
        """Sparse matrix of counts, one row per string."""
        check_is_fitted(self)
        self._validate()
        P, _ = encode(X)
        if self.n_features is not None:
            counts = sparse.csr_matrix((len(P), int(self.n_features)))
            for window in windows(self.length, longest_shared(P, None)):
                own = _hashed_counts(P, window, int(self.n_features))
                counts = counts + (as_frequencies(own, P, window.length) if self.frequencies else own)
            return counts
        if P.kind != self._kind:
            raise TypeError(f"rows of X are {P.kind}, but the vectorizer was fitted to {self._kind}")
        longest = max(map(len, self.vocabulary_))
        return sparse.hstack(
            [self._counts(X, window.length) for window in windows(self.length, longest)], format="csr"
        )

    def _counts(self, X: Any, length: int) -> sparse.csr_matrix:
        """Counts of the substrings of one length in the vocabulary."""
        known = [w for w in self.vocabulary_ if len(w) == length]
        if not known:
            return sparse.csr_matrix((len(encode(X)[0]), 0))
        P, V = encode(X, known)
        assert V is not None
        counts = count_windows(P.join(V), Window(length, tuple(range(length))))
        # A row of the vocabulary has one element, in the column of its substring.
        own = counts[: len(P)][:, counts[len(P) :].indices]
        return as_frequencies(own, P, length) if self.frequencies else own

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Substrings of the columns; numbered names if the columns are hashed."""
        check_is_fitted(self)
        if self.n_features is not None:
            return np.array([f"substringvectorizer{i}" for i in range(self.n_features)], dtype=object)
        return np.fromiter(self.vocabulary_, dtype=object, count=len(self.vocabulary_))

    def _validate(self) -> None:
        check_length(self)
        check_choice(self, "frequencies", (True, False))
        n = self.n_features
        if n is not None and not (is_whole(n) and 1 <= n < 2**31):
            raise ValueError(
                "n_features of SubstringVectorizer must be None or a whole number from 1 to 2**31 - 1, "
                f"got {n!r}"
            )

    def __sklearn_is_fitted__(self) -> bool:
        return self.n_features is not None or hasattr(self, "vocabulary_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.requires_fit = self.n_features is None
        return tags


def _distinct(P: Sequences, window: Window) -> list[Any]:
    """Distinct substrings, in order."""
    places, _ = window_places(P, window.length)
    numbers, _ = number_windows(P, places, window)
    _, first = np.unique(numbers, return_index=True)
    return P.substrings(places[first], window.length)


def _hashed_counts(P: Sequences, window: Window, n_features: int) -> sparse.csr_matrix:
    places, begins = window_places(P, window.length)
    keys = _mixed(symbol_keys(P))[P.codes]
    hashes = np.full(len(places), window.length, dtype=np.uint64)
    for position in window.positions:
        hashes = _mixed(hashes ^ keys[places + position])
    columns = (hashes % np.uint64(n_features)).astype(np.int64)
    counts = sparse.csr_matrix((np.ones(len(columns)), columns, begins), shape=(len(P), n_features))
    counts.sum_duplicates()
    return counts


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64: a bijection of 64 bits that mixes all of them."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
