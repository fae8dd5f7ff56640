"""Progress of a command: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
from rich.text import Text

#: Seconds between two lines in a log.
_PERIOD = 5.0

Report = Callable[[int, int], None]
Say = Callable[[str], None]


@contextmanager
def shown(what: str) -> Iterator[tuple[Report, Say]]:
    """Show progress on the error stream, out of the way of piped output.

    Yields a function to be told the steps done and the steps in all, and one that shows a line.
    """
    console = Console(stderr=True)
    if console.is_terminal:
        columns = (
            SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            TimeElapsedColumn(), TimeRemainingColumn(),
        )  # fmt: skip
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(what, total=None)
            yield (
                lambda done, total: bar.update(task, completed=done, total=total),
                lambda line: bar.console.print(Text(line)),
            )
        return
    log = _Log(what)
    try:
        yield log.report, log.say
    finally:
        log.end()


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
            self.say(f"{self._what}: {done} of {total or '?'} steps after {seconds:.0f} s")
