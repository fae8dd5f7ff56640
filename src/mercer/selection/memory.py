"""How a search stays within its memory limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._memory import size_text


@dataclass(frozen=True)
class Plan:
    """What is held in memory at once."""

    #: Precision of Gram matrices.
    dtype: Any
    #: Number of spaces whose invariants are kept.
    invariants: int
    #: Number of Gram matrices held at once.
    batch: int
    threads: int


def fit_bytes(estimator: Any, train: int, test: int) -> float:
    """Bytes of one fit: its slices, and the solver's own memory.

    libsvm reads the slices in place and keeps a cache; other solvers are assumed to make two copies.
    """
    caches = [v for k, v in estimator.get_params().items() if k.endswith("cache_size")]
    copies = 16.0 * train * train
    solver = min(4.0 * train * train, caches[0] * 2**20) if caches else copies
    return 8.0 * train * (train + test) + solver


def plan(
    rows: int, fit: float, *, kernels: int, shared: bool, combined: bool, threads: int, max_memory: float
) -> Plan:
    """Choose the precision, batch size and number of threads that fit into memory.

    Parameters
    ----------
    rows : int
        Number of points.
    fit : float
        Bytes of the largest fit.
    kernels : int
        Number of kernels.
    shared : bool
        Whether some kernels share invariants.
    combined : bool
        Whether some kernels need a second matrix while they are computed.
    threads : int
        Largest number of simultaneous fits.
    max_memory : float
        Bytes.
    """
    options = [
        *((np.float64, kept, threads) for kept in ([1, 0] if shared else [0])),
        *((np.float32, kept, threads) for kept in ([1, 0] if shared else [0])),
        *((np.float32, 0, fewer) for fewer in range(threads - 1, 0, -1)),
    ]
    for dtype, kept, workers in options:
        size = float(np.dtype(dtype).itemsize) * rows * rows
        # Invariants and the parts of combined kernels are in double precision.
        aside = 8.0 * rows * rows * (kept + combined)
        batch = int((max_memory - workers * fit - aside) // size)
        if batch >= 1:
            return Plan(dtype, kept, min(batch, kernels), workers)
    needed = fit + size + 8.0 * rows * rows * combined
    raise ValueError(
        f"a search on {rows} points needs at least {size_text(needed)}, and max_memory allows "
        f"{size_text(max_memory)}; raise it, or take fewer points (mercer.selection.representatives)"
    )
