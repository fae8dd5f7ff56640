"""Rows drawn with unequal chances, in one pass over blocks."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mercer.rows.blocks import Block, joined

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Draws:
    """Rows drawn with replacement, with chances in proportion to sizes; sums are draws from both.

    Each draw is a race: a row of size s arrives after a time that is exponentially distributed with rate
    s, and the first is drawn.  So the earlier arrival of two blocks is kept, whatever their order.

    Attributes
    ----------
    times : array of shape (n,)
        When the row of each draw arrives.
    sizes : array of shape (n,)
        Its size.
    rows : Block
        Rows that were drawn at least once.
    place : array of shape (n,)
        Where the row of each draw is among them.
    total : float
        Sum of the sizes of all rows.
    count : int
        Number of rows whose size is positive.
    """

    times: Array
    sizes: Array
    rows: Block
    place: NDArray[np.int64]
    total: float
    count: int

    @classmethod
    def of(cls, block: Block, sizes: Array, n: int, seed: int) -> Draws:
        """Draws from a block, which blocks of other names do not share."""
        rng = np.random.default_rng([seed, zlib.crc32(block.name.encode())])
        total = float(sizes.sum())
        if total > 0:  # the first of all rows arrives at the rate of their sum
            times, drawn = rng.exponential(size=n) / total, rng.choice(len(sizes), n, p=sizes / total)
        else:
            times, drawn = np.full(n, np.inf), np.zeros(n, dtype=np.int64)
        distinct, place = np.unique(drawn, return_inverse=True)
        count = int(np.count_nonzero(sizes))
        return cls(times, sizes[drawn], joined([block.take(distinct)]), place, total, count)

    def __add__(self, other: Draws) -> Draws:
        earlier = self.times <= other.times
        place = np.where(earlier, self.place, len(self.rows.y) + other.place)
        distinct, place = np.unique(place, return_inverse=True)
        return Draws(
            np.minimum(self.times, other.times),
            np.where(earlier, self.sizes, other.sizes),
            joined([self.rows, other.rows]).take(distinct),
            place,
            self.total + other.total,
            self.count + other.count,
        )
