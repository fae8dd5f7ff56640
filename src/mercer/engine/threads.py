"""Threads of our own, with BLAS held to one each, and a bar where the work is long."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

#: Seconds of work before a progress bar appears.
PATIENCE = 2.0


def run(
    job: Callable[..., None],
    tasks: list[Any],
    stop: threading.Event | None = None,
    *,
    what: str | None = None,
) -> None:
    """Run the job over all tasks, in threads if there are several.

    An error or an interruption cancels what has not begun, and sets ``stop`` for what has.  Inside a
    thread of another run the tasks are done one after the other.

    Parameters
    ----------
    job : callable
    tasks : list of tuples of arguments
    stop : threading.Event, optional
    what : str, optional
        What is being done, for a progress bar.
    """
    if len(tasks) == 1:
        return job(*tasks[0])
    with blas_in_one_thread() as threads, _spared(None), progress(len(tasks), what) as advance:
        if threads == 1:
            for task in tasks:
                job(*task)
                advance()
            return
        pool = ThreadPoolExecutor(min(threads, len(tasks)))
        try:
            for future in [pool.submit(job, *task) for task in tasks]:
                future.result()
                advance()
        except BaseException:
            if stop is not None:
                stop.set()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def progress(total: int, what: str | None) -> Iterator[Callable[..., None]]:
    """A bar on the error stream for work that takes long; yields what to call after a step, or some.

    It appears after :data:`PATIENCE` seconds, in the main thread and on a terminal only.
    """
    watched = threading.current_thread() is threading.main_thread() and sys.stderr.isatty()
    if what is None or not watched:
        yield lambda steps=1: None
        return
    begun = time.monotonic()
    with ExitStack() as stack:
        done = 0
        show: Callable[[int, int], None] | None = None

        def advance(steps: int = 1) -> None:
            nonlocal done, show
            done += steps
            if show is None and time.monotonic() - begun > PATIENCE:
                show, _ = stack.enter_context(bar(what))
            if show is not None:
                show(done, total)

        yield advance


@contextmanager
def bar(what: str) -> Iterator[tuple[Callable[[int, int], None], Callable[[Any], None]]]:
    """A bar on the error stream; yields what to tell steps done and in all, and what prints above it."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(what, total=None)
        yield (
            lambda done, total: shown.update(task, completed=done, total=total or None),
            shown.console.print,
        )


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


class _BlasLimit:
    """BLAS limited to one thread while anyone needs it so; the first sets it, the last lifts it."""

    lock = threading.Lock()
    users = 0
    limiter: Any = None


class _Spared(threading.local):
    """Threads that runs of this thread may use although BLAS is limited, if anyone has said so."""

    threads: int | None = None


_SPARED = _Spared()


@contextmanager
def blas_in_one_thread() -> Iterator[int]:
    """Hold BLAS to one thread; yields the number of threads it would have used."""
    with _BlasLimit.lock:
        _BlasLimit.users += 1
        threads = threads_in_use()
        if _BlasLimit.users == 1:
            _BlasLimit.limiter = _controller().limit(limits=1, user_api="blas")
    try:
        yield threads
    finally:
        with _BlasLimit.lock:
            _BlasLimit.users -= 1
            if _BlasLimit.users == 0:
                _BlasLimit.limiter.restore_original_limits()


@contextmanager
def threads_for_runs() -> Iterator[None]:
    """Hold BLAS to one thread, and leave its threads to each :func:`run` inside.

    For runs with small products between them: BLAS's own threads stay busy for a while after each.
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
    """Threads to use now: the number that environment and joblib have agreed on for BLAS."""
    if _SPARED.threads is not None:
        return _SPARED.threads
    blas = [lib.num_threads for lib in _controller().select(user_api="blas").lib_controllers]
    return max(blas, default=1)
