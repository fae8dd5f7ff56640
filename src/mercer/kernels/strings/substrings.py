"""Kernels that count substrings of a fixed length: Spectrum and Mismatch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer._arrays import Array, squared_lengths
from mercer._validation import check_choice, check_whole, is_whole
from mercer.contributions import Contributions
from mercer.engine import GramOptions
from mercer.engine.numpy import Tiles
from mercer.engine.operands import invariants
from mercer.kernels.strings.base import StringKernel, mirror
from mercer.profiles import PowerProfile
from mercer.spaces.sequences import Sequences, encode, restrict

#: Largest number of a substring.
_LARGEST = 2**63 - 1
#: The usual alphabet.
_DNA = "ACGT"
#: Largest number of masks of a mismatch kernel.
_MASKS = 10**6
#: Rows of a Gram matrix that are added at a time.
_ROWS = 64


class Window(NamedTuple):
    """Substrings of one length, compared at some of their positions, with a weight."""

    length: int
    positions: tuple[int, ...]
    weight: int = 1


def windows(length: Any, longest: int) -> list[Window]:
    """Windows of one length, or of all lengths between those of a pair, up to ``longest``."""
    low, high = length if isinstance(length, tuple | list) else (length, length)
    return [Window(k, tuple(range(k))) for k in range(int(low), min(int(high), longest) + 1)]


def longest_shared(P: Sequences, Q: Sequences | None) -> int:
    """Length of the longest substrings that strings of both P and Q have."""
    longest = int(P.lengths.max())
    return longest if Q is None else min(longest, int(Q.lengths.max()))


def check_length(owner: Any) -> None:
    """Raise unless ``length`` is a positive whole number or an ascending pair of them."""
    length = owner.length
    pair = tuple(length) if isinstance(length, tuple | list) else (length, length)
    if len(pair) != 2 or not all(is_whole(k) and k >= 1 for k in pair) or pair[0] > pair[1]:
        raise ValueError(
            f"length of {type(owner).__name__} must be 1, 2, 3, ... "
            f"or a pair (shortest, longest), got {length!r}"
        )


def window_places(P: Sequences, length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the substrings of all strings begin, and which part of that list belongs to each string."""
    per_string = np.maximum(P.lengths - length + 1, 0)
    begins = np.concatenate([[0], np.cumsum(per_string)])
    return np.arange(begins[-1]) + np.repeat(P.offsets[:-1] - begins[:-1], per_string), begins


def number_windows(
    P: Sequences, places: NDArray[np.int64], window: Window
) -> tuple[NDArray[np.int64], int]:
    """Number the substrings at some places in the order of their symbols, equal ones alike.

    Returns the numbers and an upper bound on them.
    """
    numbers = np.zeros(len(places), dtype=np.int64)
    bound, symbols = 1, len(P.symbols)
    for position in window.positions:
        if bound > _LARGEST // symbols:
            numbers, bound = _ranks(numbers)
        numbers *= symbols
        numbers += P.codes[places + position]
        bound *= symbols
    if bound > 4 * len(numbers) + 2**16:
        numbers, bound = _ranks(numbers)
    return numbers, bound


def _ranks(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Ranks of numbers, and how many distinct ones there are."""
    distinct, ranks = np.unique(numbers, return_inverse=True)
    return ranks, max(len(distinct), 1)


def count_windows(P: Sequences, window: Window, dtype: Any = np.float64) -> sparse.csr_matrix:
    """Counts of substrings, one row per string."""
    places, begins = window_places(P, window.length)
    numbers, bound = number_windows(P, places, window)
    ones = np.ones(len(numbers), dtype=dtype)
    counts = sparse.csr_matrix((ones, numbers, begins), shape=(len(P), bound))
    counts.sum_duplicates()
    return counts


def as_frequencies(counts: sparse.csr_matrix, P: Sequences, length: int) -> sparse.csr_matrix:
    """Counts of substrings of one length, divided by the number of all substrings of that length."""
    numbers = np.maximum(P.lengths - length + 1, 1)
    counts.data /= np.repeat(numbers, np.diff(counts.indptr))
    return counts


def _gram(
    P: Sequences,
    Q: Sequences | None,
    parts: Sequence[Window],
    dtype: Any,
    what: str,
    frequencies: bool = False,
) -> Array:
    """Sum over windows of weighted inner products of counts, or of frequencies."""
    both = P if Q is None else P.join(Q)
    out = np.zeros((len(P), len(P) if Q is None else len(Q)), dtype=dtype)
    for part in parts:
        counts = count_windows(both, part, dtype)
        if frequencies:
            counts = as_frequencies(counts, both, part.length)
        # Many counts of few substrings are not sparse, and BLAS is fast, but not for integers.
        if dtype == np.float64 and 8 * counts.nnz > counts.shape[0] * counts.shape[1]:
            counts = counts.toarray()
        left, right = (counts, counts) if Q is None else (counts[: len(P)], counts[len(P) :])
        source, law = invariants(left, right, Q is None), PowerProfile(factor=part.weight)
        tiles = Tiles(source, law, GramOptions(symmetric=Q is None), height=_ROWS)
        tiles.fill(out, add=True, upper=True, what=what)
    if Q is None:
        mirror(out)
    return out.astype(np.float64, copy=False)


def _diagonal(P: Sequences, parts: Sequence[Window], dtype: Any, frequencies: bool = False) -> Array:
    """Sum over windows of weighted squared lengths of the rows of counts, or of frequencies."""
    total = np.zeros(len(P), dtype=dtype)
    for part in parts:
        counts = count_windows(P, part, dtype)
        if frequencies:
            counts = as_frequencies(counts, P, part.length)
        total += part.weight * squared_lengths(counts)
    return total.astype(np.float64, copy=False)


@dataclass(eq=False, repr=False)
class Spectrum(StringKernel):
    r"""The spectrum kernel: common substrings of a fixed length.

    .. math:: k(s, t) = \sum_{|w| = l} \#_w(s)\, \#_w(t)

    with :math:`\#_w(s)` the number of occurrences of the substring w in s, overlaps included.  With a
    pair of lengths the kernels of all lengths between them are added.  For strings shorter than l,
    k = 0.

    Exact for every alphabet: values are whole numbers, represented without error below 2**53.  Counting
    takes time and memory proportional to l times the length of the text, and the products time
    proportional to the substrings in common.  :class:`mercer.features.SubstringVectorizer` returns the
    counts.

    Parameters
    ----------
    length : int or pair of int
        Length l of the substrings, or the shortest and the longest.
    normalized : bool
        Divide by the square roots of k(s, s) and k(t, t).
    frequencies : bool
        Divide counts by the number of all substrings of that length: the probability that a random
        substring is w.

    References
    ----------
    .. [1] C. Leslie, E. Eskin, W. Noble, "The spectrum kernel: a string kernel for SVM protein
       classification", Pacific Symposium on Biocomputing 2002.

    Examples
    --------
    >>> from mercer.kernels import Spectrum
    >>> Spectrum(length=1)(["ACAGCAGTA"], ["A", "C", "G", "T"])
    array([[4., 2., 2., 1.]])
    >>> Spectrum(length=(1, 2))(["abab", "bab"])
    array([[13.,  9.],
           [ 9.,  7.]])
    >>> Spectrum(length=1, frequencies=True)(["ACAGCAGTA"], ["A", "C", "G", "T"]).round(2)
    array([[0.44, 0.22, 0.22, 0.11]])
    """

    length: Any = 3
    normalized: bool = False
    frequencies: bool = False

    def validate(self) -> None:
        super().validate()
        check_length(self)
        check_choice(self, "frequencies", (True, False))

    def _gram(self, P: Sequences, Q: Sequences | None) -> Array:
        parts = windows(self.length, longest_shared(P, Q))
        return _gram(P, Q, parts, np.float64, "substrings", bool(self.frequencies))

    def _diagonal(self, P: Sequences) -> Array:
        parts = windows(self.length, longest_shared(P, None))
        return _diagonal(P, parts, np.float64, bool(self.frequencies))

    def _contributions(self, P: Sequences, Q: Sequences, weights: Array) -> tuple[Contributions, ...]:
        names: list[Any] = []
        values = [np.empty((len(P), 0))]
        both = P.join(Q)
        for part in windows(self.length, longest_shared(P, Q)):
            counts = count_windows(both, part)
            if self.frequencies:
                counts = as_frequencies(counts, both, part.length)
            places, begins = window_places(both, part.length)
            own = slice(0, begins[len(P)])
            columns, first = np.unique(number_windows(both, places, part)[0][own], return_index=True)
            names += both.substrings(places[first], part.length)
            left, right = counts[: len(P)][:, columns].toarray(), counts[len(P) :][:, columns]
            values.append(left * (weights @ right))
        return (Contributions("substring", names, np.hstack(values), exact=True),)


@dataclass(eq=False, repr=False)
class Mismatch(StringKernel):
    r"""The mismatch kernel: common words of a fixed length, up to some substitutions.

    .. math:: k(s, t) = \sum_{w \in A^l} \phi_w(s)\, \phi_w(t)

    with :math:`\phi_w(s)` the number of substrings of s that differ from the word w in at most m of its
    l positions.  The words are over a fixed alphabet A, so that the kernel between two strings does not
    depend on other strings.

    The words are not enumerated.  The number of words within reach of two substrings that agree at a
    positions is a combination of binomials :math:`\binom{a}{q}`, each of which counts the choices of q
    positions at which the two agree.  The kernel is thus a sum of spectrum kernels of masked substrings,
    with :math:`\sum_{q \ge l - 2m} \binom{l}{q}` masks for every alphabet.  Values are exact whole
    numbers, represented without error below 2**53.

    Parameters
    ----------
    length : int
        Length l of the words.
    mismatches : int
        Largest number m of substitutions, less than l.
    alphabet : str, bytes or sequence of tokens, optional
        All symbols that may occur; None among them stands for all others together.  By default
        "ACGT", unless training strings have other symbols: then :meth:`scaled_to`, machines, searches
        and :class:`~mercer.features.GramTransformer` learn theirs, and None.
    normalized : bool
        Divide by the square roots of k(s, s) and k(t, t).

    References
    ----------
    .. [1] C. Leslie, E. Eskin, A. Cohen, J. Weston, W. Noble, "Mismatch string kernels for
       discriminative protein classification", Bioinformatics 20, 2004.

    Examples
    --------
    >>> from mercer.kernels import Mismatch
    >>> Mismatch(length=2, mismatches=1)(["AC", "AG", "TG"])
    array([[7., 4., 2.],
           [4., 7., 4.],
           [2., 4., 7.]])
    >>> kernel = Mismatch(length=2).learnt_from(["banana", "bandana"])
    >>> kernel.alphabet
    ['a', 'b', 'd', 'n', None]
    >>> kernel(["nana"], ["cabana"])
    array([[66.]])
    """

    length: int = 4
    mismatches: int = 1
    alphabet: Any = None
    normalized: bool = False

    def learnt_from(self, X: Any, y: Any = None) -> Mismatch:
        """See :class:`Kernel`; the alphabet, unless it is given or that of DNA is enough."""
        symbols = encode(X)[0].symbols if self.alphabet is None else _DNA
        return self if set(symbols) <= set(_DNA) else replace(self, alphabet=[*symbols, None])

    @property
    def _symbols(self) -> Any:
        return _DNA if self.alphabet is None else self.alphabet

    def validate(self) -> None:
        super().validate()
        check_whole("length of Mismatch", self.length, 1)
        if not is_whole(self.mismatches) or not 0 <= self.mismatches < self.length:
            raise ValueError(
                f"mismatches of Mismatch must be 0, 1, ... and less than length={self.length}, "
                f"got {self.mismatches!r}"
            )
        _check_alphabet(self._symbols)
        masks = 0
        for hidden in range(min(2 * self._substitutions(), int(self.length)) + 1):
            masks += math.comb(int(self.length), hidden)
            if masks > _MASKS:
                raise ValueError(
                    f"length={self.length} and mismatches={self.mismatches} of Mismatch need more than "
                    f"{_MASKS} masks; use fewer mismatches or a shorter length"
                )

    def _check(self, X: Any, Y: Any) -> tuple[Sequences, Sequences | None]:
        P, Q = super()._check(X, Y)
        P = restrict(P, self._symbols, "X")
        return P, None if Q is None else restrict(Q, self._symbols, "Y")

    def _gram(self, P: Sequences, Q: Sequences | None) -> Array:
        parts = self._masks(longest_shared(P, Q))
        return _gram(P, Q, parts, self._dtype(parts, P, P if Q is None else Q), "masked substrings")

    def _diagonal(self, P: Sequences) -> Array:
        parts = self._masks(longest_shared(P, None))
        return _diagonal(P, parts, self._dtype(parts, P, P))

    def _masks(self, longest: int) -> list[Window]:
        """Masks of the substrings and their weights; none if all strings are shorter."""
        length = int(self.length)
        if length > longest:
            return []
        weights = mask_weights(length, self._substitutions(), len(self._symbols))
        return [
            Window(length, mask, weight)
            for kept, weight in enumerate(weights)
            if weight
            for mask in combinations(range(length), kept)
        ]

    def _substitutions(self) -> int:
        """Largest number of substitutions; none in an alphabet of one symbol."""
        return int(self.mismatches) if len(self._symbols) > 1 else 0

    def _dtype(self, parts: list[Window], P: Sequences, Q: Sequences) -> Any:
        """Floats if they represent all intermediate sums exactly, otherwise integers.

        Intermediate sums of integers may wrap around; only the result has to fit.
        """
        pairs = int(P.lengths.max()) * int(Q.lengths.max())
        if not parts or pairs * sum(abs(part.weight) for part in parts) < 2**53:
            return np.float64
        shared = common_words(int(self.length), int(self.mismatches), len(self._symbols))
        if pairs * shared[-1] > _LARGEST:
            raise ValueError(
                "values of Mismatch may exceed 2**63; use shorter strings or fewer mismatches"
            )
        return np.int64


def common_words(length: int, mismatches: int, symbols: int) -> list[int]:
    """Number of words within the mismatches of two words that agree at a = 0, ..., length positions."""
    # Two words that differ in more than twice the mismatches have no neighbour in common.
    fewest = max(length - 2 * mismatches, 0)
    counts = [0] * fewest
    for agree in range(fewest, length + 1):
        differ = length - agree
        total = 0
        # Where the two differ, the common word agrees with the first at i positions, with the second at
        # j, and with neither elsewhere; where they agree, it may differ from both at r more positions.
        for i in range(differ + 1):
            for j in range(differ - i + 1):
                left = mismatches - (differ - min(i, j))
                ways = math.comb(differ, i) * math.comb(differ - i, j)
                ways *= (symbols - 2) ** (differ - i - j) if symbols > 1 else differ == 0
                total += ways * sum(
                    math.comb(agree, r) * (symbols - 1) ** r for r in range(min(left, agree) + 1)
                )
        counts.append(total)
    return counts


@lru_cache(maxsize=64)
def mask_weights(length: int, mismatches: int, symbols: int) -> tuple[int, ...]:
    """Coefficients of C(a, q), q = 0, ..., length, in the number of common words."""
    values = common_words(length, mismatches, symbols)
    fewest = max(length - 2 * mismatches, 0)  # all earlier values are zero
    weights = [
        # Newton's forward differences at zero
        sum((-1) ** (q - a) * math.comb(q, a) * values[a] for a in range(fewest, q + 1))
        for q in range(fewest, length + 1)
    ]
    return (*[0] * fewest, *weights)


def _check_alphabet(alphabet: Any) -> None:
    if not isinstance(alphabet, str | bytes | list | tuple) or not len(alphabet):
        raise ValueError(
            f"alphabet of Mismatch must be a str, bytes or list of symbols, got {alphabet!r}"
        )
    try:
        distinct = len(set(alphabet))
    except TypeError as error:
        raise TypeError(f"alphabet of Mismatch has a symbol that is not hashable: {error}") from error
    if distinct != len(alphabet):
        raise ValueError(f"alphabet of Mismatch has a symbol twice: {alphabet!r}")
