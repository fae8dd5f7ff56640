"""Kernels of subsequences with gaps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._arrays import Array, number
from mercer._threads import run
from mercer._validation import check_whole
from mercer.contributions import Contributions
from mercer.kernels.strings.base import StringKernel, check_finite, mirror
from mercer.spaces.sequences import Sequences

#: Numbers in memory for the words of some strings, at most.
_NUMBERS = 2**23
#: Strings that the dynamic programme processes together: enough to fill the vector units.
_LANES = 32


@dataclass(eq=False, repr=False)
class GappySubsequence(StringKernel):
    r"""The subsequence kernel: common subsequences of a fixed length, with a penalty for gaps.

    .. math:: k(s, t) = \sum_{|w| = n} \sum_{i: s[i] = w} \sum_{j: t[j] = w} \lambda^{|i| + |j|}

    over all increasing tuples i and j of n positions, with :math:`|i| = i_n - i_1 + 1` the length of the
    stretch that i covers.  For strings shorter than n, k = 0.  A pair takes time :math:`O(n |s| |t|)`
    and memory :math:`O(n |t|)`; many pairs are processed together.

    Parameters
    ----------
    length : int
        Length n of the subsequences.
    decay : float
        Weight :math:`\lambda` of each covered position, at most 1.
    normalized : bool
        Divide by the square roots of k(s, s) and k(t, t).
    decay_bounds : pair of floats or "fixed"
        Range for optimisers.

    References
    ----------
    .. [1] H. Lodhi, C. Saunders, J. Shawe-Taylor, N. Cristianini, C. Watkins, "Text classification using
       string kernels", JMLR 2, 2002.

    Examples
    --------
    >>> from mercer.kernels import GappySubsequence
    >>> GappySubsequence(length=2, decay=0.5)(["cat", "car"])
    array([[0.140625, 0.0625  ],
           [0.0625  , 0.140625]])
    """

    length: int = 3
    decay: float = 0.5
    normalized: bool = False
    decay_bounds: Any = (1e-2, 1.0)

    def validate(self) -> None:
        super().validate()
        check_whole("length of GappySubsequence", self.length, 1)
        if number(self.decay) > 1:
            raise ValueError(f"decay of GappySubsequence must be at most 1, got {self.decay!r}")
        if self._factor() < np.finfo(float).tiny:
            raise ValueError(
                f"decay={self.decay!r} of GappySubsequence underflows with length={self.length}; "
                "use a larger decay"
            )

    def _factor(self) -> float:
        """Weight of the matched positions, a common factor of the sums."""
        return number(self.decay) ** (2 * int(self.length))

    def _gram(self, P: Sequences, Q: Sequences | None) -> Array:
        return self._subsequences(P, Q, slope=False)

    def _slope(self, P: Sequences, name: str) -> Array:
        return self._subsequences(P, None, slope=True)

    def _diagonal(self, P: Sequences) -> Array:
        if self.length > P.lengths.max():
            return np.zeros(len(P))
        out = np.empty(len(P))

        def own(i: int) -> None:
            one = np.array([i])
            out[i] = self._sums(P, one, P, one, slope=False)[0, 0]

        run(own, [(i,) for i in range(len(P))], what="subsequences")
        return self._in_range(out)

    def _subsequences(self, P: Sequences, Q: Sequences | None, slope: bool) -> Array:
        """Gram matrix, or its derivative with respect to the logarithm of the decay."""
        symmetric = Q is None
        Q = P if Q is None else Q
        if self.length > min(P.lengths.max(), Q.lengths.max()):
            return np.zeros((len(P), len(Q)))
        out = np.empty((len(P), len(Q)))
        # Strings of similar length share the lanes, and are paired with strings that are not shorter.
        rows = np.argsort(P.lengths, kind="stable")
        columns = np.argsort(Q.lengths, kind="stable")

        def tile(i: int, j: int) -> None:
            texts, pack = rows[i : i + _LANES], columns[j : j + _LANES]
            values = self._sums(P, texts, Q, pack, slope)
            if symmetric and i == j:
                mirror(values)
            out[np.ix_(texts, pack)] = values
            if symmetric:
                out[np.ix_(pack, texts)] = values.T

        tiles = [
            (i, j)
            for j in range(0, len(Q), _LANES)
            for i in range(j if symmetric else 0, len(P), _LANES)
        ]
        run(tile, tiles, what="subsequences")
        return self._in_range(out)

    def _sums(
        self, P: Sequences, texts: NDArray[np.int64], Q: Sequences, pack: NDArray[np.int64], slope: bool
    ) -> Array:
        """Values, or their derivatives, of some strings of P with some of Q."""
        from mercer.compiled.strings import gappy_slopes, gappy_sums

        others = np.full((int(Q.lengths[pack].max()), len(pack)), -1, dtype=np.int32)
        for lane, j in enumerate(pack):
            others[: Q.lengths[j], lane] = Q[j]
        length, decay = int(self.length), number(self.decay)
        values = np.empty((len(texts), len(pack)))
        if not slope:
            gappy_sums(P.codes, P.offsets, texts, others, length, decay, values)
            return values * self._factor()
        slopes = np.empty_like(values)
        gappy_slopes(P.codes, P.offsets, texts, others, length, decay, values, slopes)
        return (slopes + 2 * length * values) * self._factor()

    def _contributions(self, P: Sequences, Q: Sequences, weights: Array) -> tuple[Contributions, ...]:
        size, n = len(P.symbols), int(self.length)
        words = size**n
        if words * len(P) > _NUMBERS:
            return ()
        sums = np.zeros((len(P), words))
        for some in np.array_split(np.arange(len(Q)), -(-len(Q) * words // _NUMBERS)):
            sums += weights[:, some] @ self._embedded(Q, some)
        found = self._embedded(P, np.arange(len(P)))
        occur = np.flatnonzero(found.any(axis=0))
        letters = np.stack(np.unravel_index(occur, (size,) * n), axis=1)
        names = replace(P, codes=letters.ravel().astype(np.int32)).substrings(
            n * np.arange(len(occur)), n
        )
        return (Contributions("subsequence", names, (found * sums)[:, occur], exact=True),)

    def _embedded(self, P: Sequences, rows: NDArray[np.int64]) -> Array:
        """``sum_(i: s[i] = w) decay^|i|`` of some strings s, for all words w over the alphabet."""
        size, n, decay = len(P.symbols), int(self.length), number(self.decay)
        # Sums over what ends before a position, for the first 0, 1, ..., n symbols of words.
        begun = [np.zeros((len(rows), size**k)) for k in range(n + 1)]
        begun[0][:] = 1.0
        for place in range(int(P.lengths[rows].max())):
            there = np.flatnonzero(P.lengths[rows] > place)
            symbols = P.codes[P.offsets[rows[there]] + place]
            for k in range(n, 0, -1):
                ended = begun[k].reshape(len(rows), -1, size)
                if k < n:
                    ended *= decay
                ended[there, :, symbols] += decay * begun[k - 1][there]
        return begun[n]

    def _in_range(self, K: Array) -> Array:
        return check_finite(
            K, f"values of GappySubsequence overflow with length={self.length}; use a smaller one"
        )
