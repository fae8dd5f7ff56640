"""Tables of Parquet and Feather files that may be damaged: fully validated before any value is used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mercer._files import readable
from mercer._memory import available

#: What Parquet files, and Feather files of the first version, begin with.
_MAGIC, _OLD = b"PAR1", b"FEA1"
#: Type of a 32-bit number in Thrift's compact protocol, and number of the checksum in a page's header.
_INT32, _CHECKSUM = 5, 4


def read_arrow(path: Path, ending: str) -> Any:
    """Read a Parquet or Feather file as a data frame without the index that pandas may have written.

    Raises
    ------
    ValueError
        In one line that names the file, if anything in it is invalid.
    """
    with _refusals(path):
        if ending == ".parquet":
            with open_parquet(path) as file:
                _check_memory(sum(check_footer(file.metadata)), file.metadata.num_columns)
                table = file.read()
        else:
            table = _read_feather(path)
        # Wrong offsets would make pandas read memory that is not the file's, or end the process.
        table.validate(full=True)
        _check_memory(table.num_rows, table.num_columns)
        index = _index_columns(table.schema.metadata)
        return table.drop_columns([c for c in set(table.column_names) if c in index]).to_pandas(
            ignore_metadata=True
        )


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """Open a Parquet file; checksums of its pages, if any, are compared, and errors name the file."""
    with _refusals(path):
        from pyarrow.parquet import ParquetFile

        with ParquetFile(path, page_checksum_verification=True) as file:
            yield file


def check_footer(metadata: Any) -> list[int]:
    """Rows of each part of a Parquet file; refuses a footer whose numbers are inconsistent.

    Arrow compares offsets and sizes of columns with the file when it reads them.  They are not read
    here: where they are damaged, asking for them would end the process.
    """
    counts = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]
    if min(counts, default=0) < 0 or metadata.num_rows != sum(counts):
        raise ValueError(f"its footer claims {metadata.num_rows} rows, in parts of {counts[:8]} rows")
    return counts


def lacks_checksums(path: Path) -> bool:
    """Whether the first page of a Parquet file has no checksum; writers give one to all or to none."""
    with open(path, "rb") as file:
        start = iter(file.read(64)[len(_MAGIC) :])
    # The header of a page begins with three numbers: its kind, its size and its compressed size.
    field = 0
    for byte in start:
        field += byte >> 4
        if field >= _CHECKSUM or byte & 15 != _INT32:
            return field > _CHECKSUM
        while next(start, 0) & 128:
            pass
    return False


@contextmanager
def _refusals(path: Path) -> Iterator[None]:
    """Name the file in all errors that Arrow raises."""
    with readable(path):
        try:
            from pyarrow import ArrowException
        except ImportError:
            raise ValueError(f"{path.name} needs pyarrow: pip install 'mercer[parquet]'") from None
        try:
            yield
        except ArrowException as error:  # some are of unusual types
            raise ValueError(str(error)) from None


def _read_feather(path: Path) -> Any:
    from pyarrow import OSFile, ipc

    with OSFile(str(path)) as file:
        if file.read(len(_OLD)) == _OLD:
            raise ValueError("it is a Feather file of version 1; write it again, in version 2")
        file.seek(0)
        return ipc.open_file(file).read_all()


def _check_memory(rows: int, columns: int) -> None:
    """Refuse a table that cannot be in memory: equal or missing values take no room in a file."""
    there = available()
    if 8 * rows * columns > there:
        raise ValueError(
            f"its {rows} rows and {columns} columns take {8e-9 * rows * columns:.3g} GB, but only "
            f"{1e-9 * there:.3g} GB of memory are available"
        )


def _index_columns(metadata: dict[bytes, bytes] | None) -> set[str]:
    """Columns that hold the index of a data frame that was written."""
    described = json.loads((metadata or {}).get(b"pandas", b"{}"))
    return {name for name in described.get("index_columns", []) if isinstance(name, str)}
