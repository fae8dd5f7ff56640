"""Outputs of a command: each is tried on its own, and each that fails is named."""

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

#: Exit codes of a command that had bad input, and of one that is done but for an output.
REFUSED, UNWRITTEN = 2, 3
#: Longest error line that is printed.
_LONGEST = 4000
#: What spreadsheets take for the beginning of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def tell(message: object, word: str = "error", style: str = "bold red") -> None:
    """Print an error or a warning in one line."""
    line = Text(f"{word}: ", style=style) + Text(one_line(message, _LONGEST))
    with suppress(OSError):  # there is nowhere left to tell it
        Console(stderr=True, soft_wrap=True).print(line)


def tell_warning(message: object, *_: Any, **__: Any) -> None:
    """Print a warning as an error is printed; takes the place of ``warnings.showwarning``."""
    tell(message, "warning", "bold yellow")


class Outputs:
    """Outputs of a command, tried one after the other: one that fails does not lose the others."""

    def __init__(self) -> None:
        self._failed = False
        self._closed = False

    @contextmanager
    def attempt(self, path: Path) -> Iterator[None]:
        """Write a file; report whatever goes wrong, and go on."""
        try:
            yield
        except Exception as error:  # work that is done is not lost to a fault of what comes after it
            self._tell(path, error)

    @contextmanager
    def printing(self) -> Iterator[None]:
        """Print to standard output, which may be a full disk or a closed pipe."""
        try:
            yield
            sys.stdout.flush()
        except BrokenPipeError:  # who reads it has read enough
            self._closed = True
            _silence()
        except OSError as error:
            self._tell("standard output", error)
            _silence()

    def end(self) -> None:
        """End the command with a code that says whether all was written."""
        if self._failed:
            raise typer.Exit(UNWRITTEN)
        if self._closed:
            raise typer.Exit(1)

    def _tell(self, what: Any, error: Exception) -> None:
        self._failed = True
        reason = getattr(error, "strerror", None) or one_line(error)
        tell(reason if str(what) in reason else f"{what} cannot be written: {reason}")


def _silence() -> None:
    """Let nothing be written to standard output any more: Python would try again at the end."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def plain_cell(value: Any) -> Any:
    """A value as it can be put into a CSV file: text that a spreadsheet would run begins with '.

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
