"""Progress of a command: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from mercer.engine.threads import bar

#: Exit code of a command that Ctrl-C ended.
INTERRUPTED = 130
#: Seconds between two lines in a log.
_PERIOD = 5.0

Report = Callable[[int, int], None]
Say = Callable[[str], None]


@contextmanager
def shown(what: str) -> Iterator[tuple[Report, Say]]:
    """Show progress on the error stream, out of the way of piped output.

    Yields a function to be told the steps done and the steps in all, and one that shows a line.
    """
    if Console(stderr=True).is_terminal:
        with bar(what) as (report, show):
            yield report, lambda line: show(Text(line))
        return
    log = _Log(what)
    try:
        yield log.report, log.say
    finally:
        log.end()


@contextmanager
def stoppable(say: Say) -> Iterator[None]:
    """Ctrl-C stops the work when the fits under way are done, and says so; a second one at once.

    A process that was told to ignore it, as those in the background of a shell, goes on ignoring it.
    """
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not usual or threading.current_thread() is not threading.main_thread():
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


class _Log:
    """A line every few seconds, also while a long step is under way."""

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
        while not self._over.wait(_PERIOD):
            done, total = self._steps
            seconds = time.monotonic() - self._start
            left = f", about {_duration(seconds * (total - done) / done)} left" if done else ""
            self.say(f"{self._what}: {done} of {total or '?'} steps after {seconds:.0f} s{left}")


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.0f} h"
