"""How a search stays within the memory that it may use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer._memory import size_text


@dataclass(frozen=True)
class Plan:
    """What is kept in memory at a time."""

    #: Precision of Gram matrices.
    dtype: Any
    #: Spaces whose invariants are kept.
    invariants: int
    #: Gram matrices at a time.
    batch: int
    threads: int


def fit_bytes(estimator: Any, train: int, test: int) -> float:
    """Bytes of one fit: its slices, and what the solver takes beside them.

    libsvm reads the slices where they are and keeps a cache; others are taken to make two copies.
    """
    caches = [v for k, v in estimator.get_params().items() if k.endswith("cache_size")]
    copies = 16.0 * train * train
    solver = min(4.0 * train * train, caches[0] * 2**20) if caches else copies
    return 8.0 * train * (train + test) + solver


def plan(
    rows: int, fit: float, *, kernels: int, shared: bool, combined: bool, threads: int, max_memory: float
) -> Plan:
    """Choose precision, what is kept and the number of threads so that all fits into memory.

    Parameters
    ----------
    rows : int
        Number of points.
    fit : float
        Bytes of the largest fit.
    kernels : int
    shared : bool
        Some kernels have invariants to share.
    combined : bool
        Some kernels need a second matrix while they are computed.
    threads : int
        At most so many fits at a time.
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
        # Invariants, and what is combined or called, come in double precision.
        aside = 8.0 * rows * rows * (kept + combined)
        batch = int((max_memory - workers * fit - aside) // size)
        if batch >= 1:
            return Plan(dtype, kept, min(batch, kernels), workers)
    needed = fit + size + 8.0 * rows * rows * combined
    raise ValueError(
        f"a search on {rows} points needs at least {size_text(needed)}, and max_memory allows "
        f"{size_text(max_memory)}; raise it, or take fewer points (mercer.selection.representatives)"
    )
