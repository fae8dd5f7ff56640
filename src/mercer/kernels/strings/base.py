"""The base class of string kernels, and kernels that compare strings pair by pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._arrays import Array, number
from mercer._threads import run
from mercer._validation import check_whole
from mercer.kernels.structured import StructuredKernel
from mercer.spaces.sequences import Sequences, encode

#: Rows of a Gram matrix of aligned strings that are computed together.
_ROWS = 64
#: Largest number of transitions of a suffix automaton kept as rows; larger ones use a hash table.
_ROWS_OF_TRANSITIONS = 2**21


class StringKernel(StructuredKernel):
    """Base class of kernels on str, bytes or sequences of tokens.

    Points are a list, tuple, Series or array (of shape (m,) or (m, 1)) of str, of bytes, or of lists,
    tuples or one-dimensional arrays of hashable tokens; all of the same kind.  In a matrix of whole
    numbers each row is a sequence.  Characters of str are Unicode code points.
    """

    def _check(self, X: Any, Y: Any) -> tuple[Any, Any]:
        return encode(X, Y)

    def sample(self, size: int, rng: np.random.Generator, clusters: int | None = None) -> list[str]:
        """See :class:`Kernel`; strings of twelve letters, or a few that are repeated."""
        strings = ["".join(row) for row in rng.choice(list("ACGT"), size=(size, 12)).tolist()]
        return strings if clusters is None else [strings[i % clusters] for i in range(size)]


def mirror(K: NDArray[Any]) -> None:
    """Copy the part above the diagonal below it."""
    for i in range(len(K) - 1):
        K[i + 1 :, i] = K[i, i + 1 :]


def check_finite(K: Array, complaint: str) -> Array:
    """Raise for values beyond the floating-point range."""
    if not np.isfinite(K).all():
        raise ValueError(complaint)
    return K


@dataclass(eq=False, repr=False)
class FullSpectrum(StringKernel):
    r"""The full spectrum kernel: common substrings of every length.

    .. math:: k(s, t) = \sum_{w \ne \epsilon} \lambda^{|w|}\, \#_w(s)\, \#_w(t)

    with :math:`\#_w(s)` the number of occurrences of the substring w in s.  Time and memory are linear
    for every alphabet: building the suffix automaton of the longer string takes :math:`O(|s|)`, and
    running the shorter one through it :math:`O(|t|)`.  With :math:`\lambda = 1` values are whole
    numbers, exact below 2**53.

    Parameters
    ----------
    decay : float
        Positive weight :math:`\lambda` of each symbol.
    normalized : bool
        Divide by the square roots of k(s, s) and k(t, t).
    decay_bounds : pair of floats or "fixed"
        Range for optimisers.

    References
    ----------
    .. [1] S. Vishwanathan, A. Smola, "Fast kernels for string and tree matching", NIPS 15, 2003.

    Examples
    --------
    >>> from mercer.kernels import FullSpectrum
    >>> FullSpectrum()(["abab", "bab"])
    array([[16., 10.],
           [10.,  8.]])
    """

    decay: float = 1.0
    normalized: bool = False
    decay_bounds: Any = (1e-3, 1.0)

    def _gram(self, P: Sequences, Q: Sequences | None) -> Array:
        return self._substrings(P, Q, slope=False)

    def _slope(self, P: Sequences, name: str) -> Array:
        return self._substrings(P, None, slope=True)

    def _diagonal(self, P: Sequences) -> Array:
        weights = self._weights(int(P.lengths.max()), slope=False)
        out = np.empty(len(P))

        def own(i: int) -> None:
            out[i] = _matches(P, i, weights, P, np.empty(0, dtype=np.int64))[1]

        run(own, [(i,) for i in range(len(P))], what="suffix automata")
        return self._in_range(out)

    def _weights(self, longest: int, slope: bool) -> Array:
        """Sums of the weights of the lengths up to 0, 1, 2, ..."""
        lengths = np.arange(longest + 1)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            weights = number(self.decay) ** lengths.astype(float)
            weights *= lengths if slope else 1.0
            weights[0] = 0.0
            return np.cumsum(weights)

    def _substrings(self, P: Sequences, Q: Sequences | None, slope: bool) -> Array:
        """Gram matrix with the weights of the kernel, or with their derivatives."""
        symmetric = Q is None
        Q = P if Q is None else Q
        weights = self._weights(int(max(P.lengths.max(), Q.lengths.max())), slope)
        out = np.empty((len(P), len(Q)))
        # The longer string of a pair gets the automaton; ranks by length say which one it is.
        ranks = np.empty(len(P) + len(Q), dtype=np.int64)
        order = np.argsort(-np.concatenate([P.lengths, Q.lengths]), kind="stable")
        ranks[order] = np.arange(len(order))
        mine, theirs = ranks[: len(P)], ranks[len(P) :]

        def rows(i: int) -> None:
            shorter = np.flatnonzero((mine if symmetric else theirs) > mine[i])
            if symmetric or shorter.size:
                out[i, shorter], own = _matches(P, i, weights, Q, shorter)
            if symmetric:
                out[shorter, i] = out[i, shorter]
                out[i, i] = own

        def columns(j: int) -> None:
            shorter = np.flatnonzero(mine > theirs[j])
            if shorter.size:
                out[shorter, j] = _matches(Q, j, weights, P, shorter)[0]

        # The longest first, so that no thread is left with a long one at the end.
        run(rows, [(i,) for i in np.argsort(mine).tolist()], what="suffix automata")
        if not symmetric:
            run(columns, [(j,) for j in np.argsort(theirs).tolist()], what="suffix automata")
        return self._in_range(out)

    def _in_range(self, K: Array) -> Array:
        return check_finite(
            K, f"values of FullSpectrum overflow with decay={self.decay!r}; use a smaller decay"
        )


def _matches(
    P: Sequences, i: int, weights: Array, Q: Sequences, others: NDArray[np.int64]
) -> tuple[Array, float]:
    """Weighted common substrings of string i of P with some of Q, and with itself."""
    from mercer.compiled.strings import common_substrings

    text, symbols = P[i], len(P.symbols)
    hashed = symbols > 8 and 2 * len(text) * symbols > _ROWS_OF_TRANSITIONS
    out = np.empty(len(others))
    own = common_substrings(text, symbols, hashed, weights, Q.codes, Q.offsets, others, out)
    return out, own


@dataclass(eq=False, repr=False)
class WeightedDegree(StringKernel):
    r"""The weighted degree kernel: substrings that two aligned strings share in place.

    .. math:: k(s, t) = \sum_{d=1}^{D} \beta_d \sum_i [s_{i..i+d-1} = t_{i..i+d-1}],
              \qquad \beta_d = \frac{2 (D - d + 1)}{D (D + 1)}

    All strings must have the same length L.  A pair takes time O(L) for every degree, because the
    lengths of matching runs determine the value.  Sums are of whole numbers, rounded once.

    Parameters
    ----------
    degree : int
        Length D of the longest substrings that are counted.
    normalized : bool
        Divide by the square roots of k(s, s) and k(t, t), which are the same for all strings.

    References
    ----------
    .. [1] G. Raetsch, S. Sonnenburg, "Accurate splice site detection for Caenorhabditis elegans", in
       "Kernel methods in computational biology", MIT Press, 2004.

    Examples
    --------
    >>> from mercer.kernels import WeightedDegree
    >>> WeightedDegree(degree=2)(["ACGT", "ACTT"]).round(4)
    array([[3.6667, 2.3333],
           [2.3333, 3.6667]])
    """

    degree: int = 3
    normalized: bool = False

    def validate(self) -> None:
        super().validate()
        check_whole("degree of WeightedDegree", self.degree, 1)

    def _check(self, X: Any, Y: Any) -> tuple[Any, Any]:
        P, Q = super()._check(X, Y)
        _check_aligned(P, int(P.lengths[0]), "X")
        if Q is not None:
            _check_aligned(Q, int(P.lengths[0]), "Y")
        return P, Q

    def _gram(self, P: Sequences, Q: Sequences | None) -> Array:
        from mercer.compiled.strings import aligned_substrings

        symmetric = Q is None
        texts = P.codes.reshape(len(P), -1)
        others = np.ascontiguousarray((P if Q is None else Q).codes.reshape(-1, texts.shape[1]).T)
        out = np.empty((len(P), others.shape[1]))
        dtype = np.int32 if self._doubled(texts.shape[1]) < 2**31 else np.float64

        def rows(start: int) -> None:
            tile = np.zeros((min(_ROWS, len(P) - start), others.shape[1]), dtype=dtype)
            matches = np.empty(others.shape[1], dtype=dtype)
            aligned_substrings(texts, others, dtype(self.degree), symmetric, start, matches, tile)
            np.divide(tile, self._unit(), out=out[start : start + _ROWS])

        run(rows, [(start,) for start in range(0, len(P), _ROWS)], what="aligned substrings")
        if symmetric:
            mirror(out)
        return out

    def _diagonal(self, P: Sequences) -> Array:
        return np.full(len(P), self._doubled(int(P.lengths[0])) / self._unit())

    def _unit(self) -> float:
        return float(self.degree) * (float(self.degree) + 1)

    def _doubled(self, length: int) -> int:
        """Value of a string with itself, times D (D + 1)."""
        degree = int(self.degree)
        rise = min(length, degree)
        # The run of matches grows by one at each position: sum r (2 D + 1 - r) up to the degree.
        rising = (2 * degree + 1) * rise * (rise + 1) // 2 - rise * (rise + 1) * (2 * rise + 1) // 6
        return rising + (length - rise) * rise * (2 * degree + 1 - rise)


def _check_aligned(P: Sequences, length: int, name: str) -> None:
    other = np.flatnonzero(P.lengths != length)
    if other.size:
        raise ValueError(
            f"row {other[0]} of {name} has length {P.lengths[other[0]]}, row 0 of X has {length}; "
            "WeightedDegree compares aligned strings of equal length"
        )
