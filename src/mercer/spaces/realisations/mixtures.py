"""Laws that mix heat kernels over diffusion times, by quadrature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from mercer._arrays import Array, asarray_like, number
from mercer.laws import Times, heavy_terms
from mercer.spaces.realisations.base import Moving


class TimeMixture:
    """A kernel ``sum_k w_k K(t_k)`` of heat kernels K that are normalised, by its times and weights.

    Parameters
    ----------
    given : Times
        What the law mixes.
    dimension : int
    log_value : callable
        Logarithm of the heat kernel's value at equal points at a time.
    slack : float
        See :func:`mercer.laws.heavy_terms`.

    Attributes
    ----------
    times, shares : arrays
        Times that are not negligible, rising, and weights that add up to one.
    log_total : float
        Logarithm of the mixture's value at equal points.
    """

    def __init__(
        self, given: Times, dimension: int, log_value: Callable[[float], float], slack: float = 0.0
    ) -> None:
        heavy, logs = heavy_terms(given, dimension, log_value, slack)
        self.times = given.times[heavy]
        self.log_total = float(np.logaddexp.reduce(logs))
        self.shares = np.exp(logs - self.log_total)
        self._slopes = np.zeros(len(logs)) if given.slopes is None else given.slopes[heavy]

    def share_slopes(self, normalized: bool) -> Array:
        """Derivatives of the shares, or of all but their sum, with respect to the law's log time."""
        common = self.shares @ self._slopes if normalized else 0.0
        return self.shares * (self._slopes - common)

    def moving_shares(self, P: Any, moving: Sequence[Moving], normalized: bool) -> Any:
        """Shares as an array like P, which depends on hyperparameters that are tensors."""
        xp = array_namespace(P)
        shares, slopes = asarray_like(self.shares, P), asarray_like(self._slopes, P)
        if not moving:
            return shares
        # Times are held, and the rate of the Gamma distribution moves.
        shift = sum(move(0.0)[1].chain * (tensor - number(tensor)) for tensor, move in moving)
        weights = shares * xp.exp(slopes * (1.0 - xp.exp(-shift)))
        return weights / xp.sum(weights) if normalized else weights
