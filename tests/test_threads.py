"""The one pool of threads, and the limit of BLAS while it works."""

import threading
from collections.abc import Callable

from threadpoolctl import threadpool_info

from mercer._threads import _controller, blas_in_one_thread, blas_limited_to, threads_in_use


def blas_threads() -> set[int]:
    return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}


def in_a_thread(call: Callable[[], None]) -> None:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join(10)


def test_any_thread_may_limit_blas() -> None:
    seen = []

    def look() -> None:
        with blas_in_one_thread() as threads:
            seen.append((threads, blas_threads()))
        seen.append((threads_in_use(), blas_threads()))

    _controller.cache_clear()  # libraries that other tests have loaded meanwhile
    with blas_limited_to(2):
        look()
    for _ in range(2):
        in_a_thread(look)
    look()
    assert seen[0] == (2, {1})
    assert all(found == {1} for _, found in seen[::2])
    assert all(found == {before} for (before, _), (_, found) in zip(seen[::2], seen[1::2], strict=True))
