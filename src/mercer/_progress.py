"""Progress of long computations: a bar on a terminal, occasional lines in a log."""

from __future__ import annotations

import contextvars
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as Waiting
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

#: Seconds of work before a bar appears.
PATIENCE = 2.0
#: Exit code of a command that Ctrl-C ended.
INTERRUPTED = 130
#: Seconds between two looks at work in another thread, and between two lines in a log.
_LOOK, _LINE = 0.25, 5.0

T = TypeVar("T")
Report = Callable[[int, int], None]
Say = Callable[[str], None]


@dataclass
class Work:
    """The state of some work, shared by the threads that do it and the one that reports it."""

    total: int = 0
    done: int = 0
    callback: Report | None = None
    #: A note beside the bar, such as the present accuracy.
    note: str = ""
    stop: threading.Event = field(default_factory=threading.Event)
    lock: Any = field(default_factory=threading.Lock)

    def advance(self, steps: int = 1) -> None:
        """Count finished steps."""
        with self.lock:
            self.done += steps
            if self.callback is not None and steps:
                self.callback(self.done, self.total)


@contextmanager
def progress(total: int, what: str | None) -> Iterator[Callable[..., None]]:
    """Show a bar for long work; yields a function to be called after one or more steps.

    The bar appears after :data:`PATIENCE` seconds, in the main thread and on a terminal only.
    """
    if what is None or not _on_main_thread() or not sys.stderr.isatty():
        yield lambda steps=1: None
        return
    with _LateBar(what) as bar:
        done = 0

        def advance(steps: int = 1) -> None:
            nonlocal done
            done += steps
            bar.report(done, total)

        yield advance


def watched(call: Callable[[], T], work: Work, what: str) -> T:
    """Make the call and show its progress on a terminal, unless a callback receives it.

    The call runs in a separate thread while this one waits and draws the bar.  So the bar moves during
    long steps too, and Ctrl-C takes effect at once: current steps finish, and no others begin.
    """
    if not _on_main_thread():
        return call()
    visible = sys.stderr.isatty() and work.callback is None
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as pool, _LateBar(what) as bar:
        try:
            future = pool.submit(context.run, call)
        except RuntimeError:  # while Python shuts down no thread can be started
            return call()
        try:
            while True:
                try:
                    return future.result(timeout=_LOOK)
                except Waiting:
                    if future.done():
                        raise  # the call's own
                if visible:
                    bar.report(work.done, work.total, work.note)
        except BaseException:
            work.stop.set()
            raise


@contextmanager
def shown(what: str) -> Iterator[tuple[Report, Say]]:
    """Show the progress of a command on standard error, apart from piped output.

    Yields a function that takes the number of steps done and the total, and one that shows a line.
    """
    from rich.console import Console
    from rich.text import Text

    if Console(stderr=True).is_terminal:
        with _bar(what) as (report, show):
            yield report, lambda line: show(Text(line))
        return
    log = _Log(what)
    try:
        yield log.report, log.say
    finally:
        log.end()


@contextmanager
def stoppable(say: Say) -> Iterator[None]:
    """Let Ctrl-C stop the work after the current fits, with a message, and a second Ctrl-C at once.

    A process that ignores Ctrl-C, such as a background job of a shell, continues to do so.
    """
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not usual or not _on_main_thread():
        yield
        return

    def first(*_: object) -> None:
        signal.signal(signal.SIGINT, second)
        say("stopping when the fits under way are done; Ctrl-C again stops at once")
        raise KeyboardInterrupt

    def second(*_: object) -> None:
        if sys.stderr.isatty():
            os.write(2, b"\x1b[?25h\n")  # the bar hides the cursor
        os._exit(INTERRUPTED)  # threads inside a solver cannot be told to end

    signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _on_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextmanager
def _bar(what: str) -> Iterator[tuple[Callable[..., None], Callable[[Any], None]]]:
    """Draw a bar on the error stream; yields functions to report steps and to print above it."""
    # Rarely needed, and slower to import than many Gram matrices are to compute.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.text import Text

    class Left(ProgressColumn):
        """Remaining time, from all steps so far; rich's own does not change during long steps."""

        max_refresh = 1.0

        def render(self, task: Any) -> Text:
            return Text(
                _left(task.completed, task.total, task.elapsed or 0.0), style="progress.remaining"
            )

    columns = (
        SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        TimeElapsedColumn(), Left(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as drawn:
        task = drawn.add_task(what, total=None)
        yield (
            lambda done, total, note="": drawn.update(
                task, completed=done, total=total or None, description=f"{what} {note}".rstrip()
            ),
            drawn.console.print,
        )


class _LateBar:
    """A bar that appears with the first report after :data:`PATIENCE` seconds."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._begun = time.monotonic()
        self._stack = ExitStack()
        self._show: Callable[..., None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def report(self, done: int, total: int, note: str = "") -> None:
        if self._show is None and time.monotonic() - self._begun >= PATIENCE:
            self._show, _ = self._stack.enter_context(_bar(self._what))
        if self._show is not None:
            self._show(done, total, note)


class _Log:
    """A line every few seconds, even during a long step."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._steps = (0, 0)
        self._start = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)
        self._thread.start()

    def report(self, done: int, total: int) -> None:
        self._steps = (done, total)

    def say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def _tick(self) -> None:
        while not self._over.wait(_LINE):
            done, total = self._steps
            seconds = time.monotonic() - self._start
            left = _left(done, total, seconds)
            left = f", {left}" if left else ""
            self.say(f"{self._what}: {done} of {total or '?'} steps after {seconds:.0f} s{left}")


def _left(done: float, total: float | None, seconds: float) -> str:
    """Remaining time if the other steps take as long as those so far; empty before the first."""
    return f"about {_duration(seconds * (total - done) / done)} left" if done and total else ""


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.0f} h"
