"""Times of calls, taken so that they can be compared."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from mercer._threads import threads_in_use

REPEATS = 5


def best(*calls: Callable[[], object], repeats: int = REPEATS) -> list[float]:
    """Best time of each call.

    The calls take turns, so that noise hits all of them alike, with a pause before each: idle BLAS
    threads spin for a while and would slow down whatever comes next.  Of one thread it is the time of
    the processor: with ``OPENBLAS_NUM_THREADS=1`` calls can be compared although there is other work.
    """
    clock = time.process_time if threads_in_use() == 1 else time.perf_counter
    times = [[] for _ in calls]
    for call in calls:
        call()
    for _ in range(repeats):
        for call, record in zip(calls, times, strict=True):
            time.sleep(0.1)
            start = clock()
            call()
            record.append(clock() - start)
    return [min(record) for record in times]


def ratios(*calls: Callable[[], object], rounds: int = 25) -> list[float]:
    """Median time of the first call, and medians of the others' times in units of it, round by round.

    For calls that differ by little: where results are large, a few calls are much faster than others
    because of the memory that they happen to get, and the best of each is a matter of luck.
    """
    times = np.empty((rounds, len(calls)))
    for call in calls:
        call()
    for row in times:
        for i, call in enumerate(calls):
            time.sleep(0.02)
            start = time.perf_counter()
            call()
            row[i] = time.perf_counter() - start
    own = times[:, 0]
    return [float(np.median(own)), *np.median(times[:, 1:] / own[:, None], axis=0).tolist()]
