"""Times of calls, taken so that they can be compared."""

from __future__ import annotations

import time
from collections.abc import Callable

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
