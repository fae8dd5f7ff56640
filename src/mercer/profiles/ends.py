"""Ends of the range of an invariant where a profile is so steep that its rounding would show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from mercer.profiles.profile import TableProfile


class SteepEnd(NamedTuple):
    """Where the invariant w of two unit rows is near ``sign``: they are close, or nearly opposite."""

    sign: float
    #: The largest separation ``1 - sign * w`` at which the profile is steep.
    reach: float
    #: The profile as a function of the separation.
    profile: TableProfile

    def places(self, invariants: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows and columns of the invariants in a tile that are so near, or may be by their rounding."""
        from mercer.compiled.rows import places_above

        real = invariants.dtype.type
        least = 1.0 - self.reach - 8 * float(np.finfo(invariants.dtype).eps)
        return places_above(invariants, real(least), real(self.sign))
