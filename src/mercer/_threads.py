"""The only thread pool, and the number of threads that BLAS may use at the same time."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from itertools import islice
from queue import SimpleQueue
from typing import Any, ClassVar

from threadpoolctl import ThreadpoolController

from mercer._progress import progress

#: Seconds after which the system knows which processors are busy.
_SETTLED = 0.005


def run(
    job: Callable[..., None],
    tasks: list[Any],
    stop: threading.Event | None = None,
    *,
    what: str | None = None,
    blas: bool = True,
) -> None:
    """Run the job over all tasks, in threads if there are several.

    An error or an interruption cancels tasks that have not begun, and sets ``stop`` for those that
    have.  Within a thread of another run, tasks are run one after the other.

    Parameters
    ----------
    job : callable
    tasks : list of tuples of arguments
    stop : threading.Event, optional
    what : str, optional
        Label of a progress bar.
    blas : bool
        Whether tasks call BLAS, or :func:`run`: it takes time to keep these to one thread.
    """
    if len(tasks) < 2:
        for task in tasks:
            job(*task)
        return
    limit = blas_in_one_thread() if blas else nullcontext(threads_in_use())
    with limit as threads, _spared(None), progress(len(tasks), what) as advance:
        if threads == 1:
            for task in tasks:
                job(*task)
                advance()
            return
        left, results = iter(tasks), SimpleQueue[BaseException | None]()

        def work(settle: Callable[[], None]) -> None:
            try:
                for task in left:  # an iterator that all threads share
                    settle()
                    job(*task)
                    results.put(None)
            except BaseException as error:
                results.put(error)

        number = min(threads, len(tasks)) - 1
        # A task that has a thread to itself may be long: helpers are then free to be moved from the
        # start.
        helpers = _pool(threads).helpers(work, number, _SETTLED if len(tasks) > threads else 0.0)
        try:
            for _ in tasks:
                for task in islice(left, 1):  # this thread works too while tasks are left
                    job(*task)
                    results.put(None)
                error = results.get()
                if error is not None:
                    raise error
                advance()
        except BaseException:
            deque(left, maxlen=0)  # nothing is left to begin
            if stop is not None:
                stop.set()
            wait([helper for helper in helpers if not helper.cancel()])
            raise


class _Pool(ThreadPoolExecutor):
    """Threads that help the one that runs tasks; starting them takes longer than a small run."""

    def __init__(self, helpers: int) -> None:
        #: Native identifiers of the threads that have started.
        self.numbers: list[int] = []
        super().__init__(helpers, initializer=lambda: self.numbers.append(threading.get_native_id()))

    def helpers(
        self, work: Callable[[Callable[[], None]], None], number: int, seconds: float
    ) -> list[Future[None]]:
        """Let up to ``number`` threads work; ``work`` calls its argument before each task.

        An idle processor of a virtual machine often looks busy: the system then wakes a helper beside
        the thread that calls it, and the two take turns for some milliseconds.  So for some seconds
        helpers are kept on other processors; then they may be moved to any.
        """
        processors = _processors()
        for helper in self.numbers:
            _allow(helper, processors - _here() or processors)

        def begin() -> None:
            begun = time.monotonic()

            def settle() -> None:
                if time.monotonic() - begun >= seconds:
                    _allow(0, processors)

            work(settle)
            _allow(0, processors)

        started: list[Future[None]] = []
        with suppress(RuntimeError):  # while Python shuts down no thread can be started
            started.extend(self.submit(begin) for _ in range(number))
        return started


def _processors() -> set[int]:
    """Processors that this thread may use, where the system tells."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def _here() -> set[int]:
    """The processor that this thread runs on, where the system tells."""
    tell = getattr(ctypes.pythonapi, "sched_getcpu", None)
    return set() if tell is None else {tell()}


def _allow(thread: int, processors: set[int]) -> None:
    """Let a thread, this one if its number is 0, use some processors, where that is possible."""
    with suppress(OSError):
        if processors:
            os.sched_setaffinity(thread, processors)


@cache
def _pool(threads: int) -> _Pool:
    return _Pool(threads - 1)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # slow: it looks through all libraries that are loaded


@cache
def _blas() -> list[Any]:
    """The BLAS libraries that are loaded."""
    return _controller().select(user_api="blas").lib_controllers


class _BlasLimit:
    """Limit of BLAS to one thread while there are users; the first sets it, the last lifts it."""

    lock = threading.Lock()
    users = 0
    #: Threads of each library before.
    before: ClassVar[list[int]] = []


def _forget_threads() -> None:
    """Reset the state after a fork: the new process has only the thread that forked it."""
    _pool.cache_clear()
    _BlasLimit.lock = threading.Lock()
    if _BlasLimit.users:
        _BlasLimit.users = 0
        _set_blas_threads(_BlasLimit.before)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


class _Spared(threading.local):
    """Number of threads that runs of this thread may use although BLAS is limited, if set."""

    threads: int | None = None


_SPARED = _Spared()


@contextmanager
def blas_in_one_thread() -> Iterator[int]:
    """Limit BLAS to one thread; yields the number of threads it would have used."""
    with _BlasLimit.lock:
        _BlasLimit.users += 1
        threads = threads_in_use()
        if _BlasLimit.users == 1:
            _BlasLimit.before = [library.num_threads for library in _blas()]
            _set_blas_threads([1] * len(_BlasLimit.before))
    try:
        yield threads
    finally:
        with _BlasLimit.lock:
            # A forked process has forgotten the users there were.
            _BlasLimit.users = max(_BlasLimit.users - 1, 0)
            if _BlasLimit.users == 0:
                _set_blas_threads(_BlasLimit.before)


def _set_blas_threads(numbers: list[int]) -> None:
    """Set the threads of each library, from any thread.

    OpenBLAS obeys only the thread that limited it first, as long as that thread lives: whoever limited
    it gives it up at once, so that another thread may lift the limit.
    """
    for library, number in zip(_blas(), numbers, strict=True):
        give_up = getattr(library, "clear_controlling_thread", lambda force: None)
        give_up(force=True)
        library.set_num_threads(number)
        give_up(force=True)


def blas_limited_to(threads: int) -> AbstractContextManager[Any]:
    """Let BLAS, and each :func:`run` inside, use at most this many threads."""
    return _controller().limit(limits=threads, user_api="blas")


@contextmanager
def threads_for_runs() -> Iterator[None]:
    """Limit BLAS to one thread, and let each :func:`run` inside use its threads.

    For runs with small products in between: the threads of BLAS keep spinning for a while after each.
    """
    with blas_in_one_thread() as threads, _spared(threads):
        yield


@contextmanager
def _spared(threads: int | None) -> Iterator[None]:
    before, _SPARED.threads = _SPARED.threads, threads
    try:
        yield
    finally:
        _SPARED.threads = before


def threads_in_use() -> int:
    """Number of threads to use: that of BLAS, which the environment and joblib set."""
    if _SPARED.threads is not None:
        return _SPARED.threads
    return max((library.num_threads for library in _blas()), default=1)
