"""Arrays of NPZ files that may be damaged: headers are checked against the file."""

from __future__ import annotations

import math
import os
import re
import zipfile
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from mercer._files import DAMAGE, one_line

#: Magic, version and length of the header of an array.
_START = re.compile(rb"\x93NUMPY([\x01-\x03])\x00", re.DOTALL)
#: Headers of plain arrays as NumPy writes them; Python 2 wrote long numbers as 10L.
_HEADER = re.compile(
    r"\{'descr': '([^']+)', 'fortran_order': (True|False), 'shape': \(([\dL, ]*)\), \} *\n?"
)
#: Numbers, text, bytes, dates and times.
_KIND = re.compile(r"[<>|=]([biufcSUmM])[1-9]\d{0,8}(\[\w+\])?")
_LONGEST_HEADER = 10_000
#: Largest number of bytes that one byte of a deflated stream can become, and a few for its ends.
_DEFLATE, _ENDS = 1032, 1 << 12
#: Bytes that are read at a time.
_CHUNK = 1 << 24


class Npz:
    """The arrays of an NPZ file by name.

    Sizes claimed by headers are compared with the file before memory is allocated.  Pickled objects and
    compression methods that NumPy does not use are refused.

    Parameters
    ----------
    file : binary file
        It stays open.

    Raises
    ------
    ValueError
        On any damage; the message does not name the file.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._size = file.seek(0, os.SEEK_END)
        file.seek(0)
        try:
            self._archive = zipfile.ZipFile(file)
        except DAMAGE as error:
            raise ValueError(f"it is not an NPZ file: {one_line(error)}") from None
        self.names = [name.removesuffix(".npy") for name in self._archive.namelist()]

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def get(self, name: str | None) -> NDArray[Any] | None:
        """The array of a name, or None if there is none."""
        return self[name] if name is not None and name in self else None

    def raw(self, name: str) -> bytes:
        """The bytes of an entry that is not an array."""
        try:
            entry = self._archive.getinfo(name)
            self._check(entry)
            return self._archive.read(entry)
        except DAMAGE as error:
            raise ValueError(f"its part {name!r} cannot be read: {one_line(error)}") from None

    def __getitem__(self, name: str) -> NDArray[Any]:
        try:
            return self._read(name)
        except DAMAGE as error:
            raise ValueError(f"its array {name!r} cannot be read: {one_line(error)}") from None

    def _read(self, name: str) -> NDArray[Any]:
        known = self._archive.namelist()
        entry = self._archive.getinfo(f"{name}.npy" if f"{name}.npy" in known else name)
        self._check(entry)
        with self._archive.open(entry) as member:
            dtype, by_columns, shape = _header(member)
            size = math.prod(shape) * dtype.itemsize
            if size != entry.file_size - member.tell():
                raise ValueError(
                    f"its header claims shape {shape} of {dtype}, {size} bytes, but it holds "
                    f"{entry.file_size - member.tell()}"
                )
            content, done = np.empty(size, dtype=np.uint8), 0
            while done < size and (chunk := member.read(min(_CHUNK, size - done))):
                content[done : done + len(chunk)] = np.frombuffer(chunk, dtype=np.uint8)
                done += len(chunk)
            if done < size or member.read(1):  # the end is where the checksum is compared
                raise EOFError("it does not end where it should")
        values = content.view(dtype).astype(dtype.newbyteorder("="), copy=False)
        _check_text(values)
        return values.reshape(shape, order="F" if by_columns else "C")

    def _check(self, entry: zipfile.ZipInfo) -> None:
        """Refuse an entry that cannot be as large as it says."""
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"it is compressed by method {entry.compress_type}, which NumPy never uses")
        growth = _DEFLATE if entry.compress_type == zipfile.ZIP_DEFLATED else 1
        if entry.compress_size > self._size or entry.file_size > growth * entry.compress_size + _ENDS:
            raise ValueError(
                f"it claims {entry.file_size} bytes out of {entry.compress_size}, in a file of "
                f"{self._size}"
            )


def _header(member: Any) -> tuple[np.dtype[Any], bool, tuple[int, ...]]:
    """Kind of numbers, whether columns come first, and shape."""
    start = _START.fullmatch(member.read(8))
    if start is None:
        raise ValueError("it is not a NumPy array")
    length = int.from_bytes(member.read(2 if start[1] == b"\x01" else 4), "little")
    if length > _LONGEST_HEADER:
        raise ValueError(f"it claims a header of {length} bytes")
    found = _HEADER.fullmatch(member.read(length).decode("latin-1"))
    if found is None:
        raise ValueError("its header is not one of a plain array of numbers or text")
    if found[1] == "|O":
        raise ValueError(
            "it holds Python objects, which are not read, since they could run code; save numbers or "
            "text, such as y.astype(str)"
        )
    if _KIND.fullmatch(found[1]) is None:
        raise ValueError(f"it holds {found[1]!r}, which is neither a plain number nor text")
    shape = [int(part.strip().removesuffix("L")) for part in found[3].split(",") if part.strip()]
    return np.dtype(found[1]), found[2] == "True", tuple(shape)


def _check_text(values: NDArray[Any]) -> None:
    """Refuse text with invalid code points, which Python could not print."""
    if values.dtype.kind == "U" and values.size:
        codes = values.view(np.uint32)
        if ((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))).any():
            raise ValueError("it holds text with characters that do not exist")
