"""Outputs of a command: each is written separately, and failures are reported by name."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from mercer._files import one_line

#: Exit codes for bad input, and for a command that is done except for an output.
REFUSED, UNWRITTEN = 2, 3
#: Longest error line that is printed.
_LONGEST = 4000
#: Characters that begin a formula in spreadsheets.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def tell(message: object, word: str = "error", style: str = "bold red") -> None:
    """Print an error or a warning in one line."""
    line = Text(f"{word}: ", style=style) + Text(one_line(message, _LONGEST))
    with suppress(OSError):  # there is nowhere left to print it
        Console(stderr=True, soft_wrap=True).print(line)


def tell_warning(message: object, *_: Any, **__: Any) -> None:
    """Print a warning like an error; replaces ``warnings.showwarning``."""
    tell(message, "warning", "bold yellow")


class Outputs:
    """Outputs of a command, written one after the other: a failure does not affect the others."""

    def __init__(self) -> None:
        self._failed = False
        self._closed = False

    @contextmanager
    def attempt(self, path: Path) -> Iterator[None]:
        """Write a file; report any error and continue."""
        try:
            yield
        except Exception as error:  # whatever it is, the other outputs are still written
            self._tell(path, error)

    @contextmanager
    def printing(self) -> Iterator[None]:
        """Print to standard output, which may be a full disk or a closed pipe."""
        try:
            yield
            sys.stdout.flush()
        except BrokenPipeError:  # the reader has seen enough
            self._closed = True
            _silence()
        except OSError as error:
            self._tell("standard output", error)
            _silence()

    def end(self) -> None:
        """Exit with a code that says whether everything was written."""
        if self._failed:
            raise typer.Exit(UNWRITTEN)
        if self._closed:
            raise typer.Exit(1)

    def _tell(self, what: Any, error: Exception) -> None:
        self._failed = True
        reason = getattr(error, "strerror", None) or one_line(error)
        tell(reason if str(what) in reason else f"{what} cannot be written: {reason}")


def _silence() -> None:
    """Discard further standard output: Python would try to write it again at exit."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def plain_cell(value: Any) -> Any:
    """A value for a CSV file: text that a spreadsheet would read as a formula gets a leading '.

    Examples
    --------
    >>> [plain_cell(value) for value in ("=1+1", "@sum", "-1", "-1.5e3", "-x", "spam", -1)]
    ["'=1+1", "'@sum", '-1', '-1.5e3', "'-x", 'spam', -1]
    """
    if not isinstance(value, str) or not value.startswith(_FORMULA):
        return value
    if value[0] in "+-":
        with suppress(ValueError):
            float(value)
            return value
    return f"'{value}"
