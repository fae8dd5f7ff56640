"""Atomic writing of files, checksums, and readers that survive damaged files."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO

#: What readers raise on damaged files; a RecursionError is a RuntimeError.
DAMAGE = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, LookupError, TypeError, AttributeError,
    ValueError, ArithmeticError, RuntimeError, MemoryError, SyntaxError, AssertionError, OSError,
)  # fmt: skip
#: Longest text of another library that is passed on, and longest message of ours.
_LONGEST, _LONGEST_OWN = 300, 2000
#: Last line of a sealed file, and more than its longest form.
_SEAL = re.compile(rb"\nmercer ([a-z]+) (\d{1,9}) ([0-9a-f]{64})\n\Z")
_TAIL = 256
_CHUNK = 1 << 20


class DamagedFile(ValueError, OSError):
    """A file that cannot be read as what it should be; both a bad value and a failed read."""


def one_line(error: object, longest: int = _LONGEST) -> str:
    """What an error says, in one short line of printable characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= longest else f"{text[:longest]} ..."


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn errors of a file's reader into one-line errors that name the file."""
    try:
        yield
    except DAMAGE as error:
        text = str(error)
        if isinstance(error, ValueError) and path.name in text:
            if text.isprintable() and len(text) <= _LONGEST_OWN:
                raise
            line = one_line(error, _LONGEST_OWN)
            raise ValueError(line if path.name in line else f"{path.name}: {line}") from None
        raise DamagedFile(f"{path.name} cannot be read, it may be damaged: {one_line(error)}") from None


@contextmanager
def atomic_write(path: str | Path, mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a file to write; an existing file is replaced at the end, and only if nothing failed.

    The new content goes to a temporary file in the same folder, ``NAME.XXXXXXXX.part``, is flushed to
    the disk, and is renamed in one step.  Other processes see either the old file or the new one, even
    after a full disk or a crash.  Devices and pipes are written directly.

    Parameters
    ----------
    path : path
        A link is followed: the file that it leads to is replaced.
    mode : "wb" or "w"
        Text is UTF-8.  The file can also be read.

    Raises
    ------
    OSError
        With the name of the file, not of the temporary one.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(f"{folder}/a.txt", "w") as file:
    ...         _ = file.write("whole")
    ...     Path(folder, "a.txt").read_text()
    'whole'
    """
    given, path = path, Path(os.path.realpath(path))
    try:
        special = path.exists() and not path.is_file()
        with (_opened if special else _replaced)(path, mode) as file:
            yield file
    except OSError as error:
        # Errors of writing name no file, and those of opening the temporary one.
        nameless = error.filename is None or Path(error.filename).parent == path.parent
        if error.errno is not None and nameless:
            raise OSError(error.errno, error.strerror, str(given)) from None
        raise


@contextmanager
def _replaced(path: Path, mode: str) -> Iterator[IO[Any]]:
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    part = path.with_name(f"{path.name[:40]}.{secrets.token_hex(4)}.part")
    try:
        # Not by tempfile: a new file has the usual permissions, a replaced one keeps its own.
        with _opened(part, mode.replace("w", "x+")) as file:
            if path.exists():
                os.chmod(part, stat.S_IMODE(path.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    _flush_folder(path.parent)


def _opened(path: Path, mode: str) -> IO[Any]:
    return open(path, mode) if "b" in mode else open(path, mode, encoding="utf-8", newline="")


def _flush_folder(folder: Path) -> None:
    """Flush a new name to the disk, on systems that can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def seal(file: IO[bytes], kind: str, version: int) -> None:
    """End a file with a line that states what it is, the version of its format, and its checksum.

    Parameters
    ----------
    file : binary file
        As :func:`atomic_write` opens it, with its content written.
    kind : str
        In small letters.
    version : int

    Notes
    -----
    Zip files, and so NPZ files, can still be read by other programs, which ignore what follows the
    end.
    """
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
    file.seek(0, os.SEEK_END)
    file.write(f"\nmercer {kind} {version} {digest}\n".encode())


@contextmanager
def unsealed(path: str | Path, kind: str, version: int) -> Iterator[BinaryIO]:
    """Open a file that was ended by :func:`seal` and not changed since.

    Raises
    ------
    ValueError
        If it is of another kind or version, or was changed.  The message says why; the caller adds the
        name of the file.
    """
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _TAIL, 0))
        found = _SEAL.search(file.read())
        if found is None or found[1] != kind.encode():
            raise ValueError(f"it does not end like a {kind} file written by Mercer")
        if int(found[2]) != version:
            raise ValueError(
                f"it has format {int(found[2])} of a {kind} file, but this Mercer reads format {version}"
            )
        file.seek(0)
        digest, left = hashlib.sha256(), size - len(found[0])
        while left > 0 and (chunk := file.read(min(_CHUNK, left))):
            digest.update(chunk)
            left -= len(chunk)
        if digest.hexdigest().encode() != found[3]:
            raise ValueError("it is damaged: its checksum does not match its content")
        file.seek(0)
        yield file
