"""Times of calls, taken so that they can be compared."""

from __future__ import annotations

import time
from collections.abc import Callable

REPEATS = 5


def best(*calls: Callable[[], object], repeats: int = REPEATS) -> list[float]:
    """Best time of each call.

    The calls take turns, so that noise hits all of them alike, with a pause before each: idle BLAS
    threads spin for a while and would slow down whatever comes next.
    """
    times = [[] for _ in calls]
    for call in calls:
        call()
    for _ in range(repeats):
        for call, record in zip(calls, times, strict=True):
            time.sleep(0.1)
            start = time.perf_counter()
            call()
            record.append(time.perf_counter() - start)
    return [min(record) for record in times]
