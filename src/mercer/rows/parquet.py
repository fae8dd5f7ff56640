"""Rows of Parquet files, in blocks."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import joblib
import numpy as np
from numpy.typing import NDArray

from mercer._arrow import check_footer, lacks_checksums, open_parquet
from mercer._validation import check_whole
from mercer.rows.base import RowSource
from mercer.rows.blocks import Block, checked
from mercer.rows.columns import ColumnCheck, Roles

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ParquetBlocks:
    """Rows of Parquet files, a batch at a time.

    Files are read in the order of their names, and never as a whole.  A model that is fitted to them
    knows the names of its columns, as with a data frame.  Checksums of pages are verified where files
    have them (``write_page_checksum=True``); if they are missing, a warning says so, because a damaged
    page may go unnoticed.

    Parameters
    ----------
    path : path of a file or of a folder of ``*.parquet`` files, or a sequence of files
    target : str or list of str
        Column or columns to predict.
    columns : sequence of str, optional
        Columns to predict from; by default all others.
    weight : str, optional
        Column of sample weights.
    rows : int
        Rows of a batch, at most; a batch ends where a row group of a file ends.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from mercer.gp import ParquetBlocks
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     frame = pd.DataFrame({"a": [1.0, 2.0], "b": [0.0, 1.0], "y": [3.0, 5.0]})
    ...     frame.to_parquet(f"{folder}/0.parquet", write_page_checksum=True)
    ...     [(X.shape, y.ravel()) for X, y, weight in ParquetBlocks(folder, target="y")]
    [((2, 2), array([3., 5.]))]
    """

    path: Any
    target: str | Sequence[str]
    columns: Sequence[str] | None = None
    weight: str | None = None
    rows: int = 65_536

    def __iter__(self) -> Iterator[tuple[Array, NDArray[Any], Array | None]]:
        for block in ParquetRows(self).blocks():
            yield block.X, block.y, block.weight

    def files(self) -> list[Path]:
        """The files, in order."""
        if isinstance(self.path, str | Path):
            path = Path(self.path)
            found = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        else:
            found = [Path(p) for p in self.path]
        if not found or not all(p.exists() for p in found):
            raise FileNotFoundError(f"no Parquet file at {self.path}")
        return found


class ParquetRows(RowSource):
    """Rows of :class:`ParquetBlocks`."""

    X: ParquetBlocks

    @classmethod
    def accepts(cls, X: Any, complete: bool) -> bool:
        return isinstance(X, ParquetBlocks)

    @classmethod
    def open(cls, X: Any, y: Any, weight: Any, check: ColumnCheck) -> Self:
        """See :class:`RowSource`; targets are in the files."""
        if y is not None:
            raise ValueError(f"the targets of X are its column {X.target!r}; leave y out")
        return super().open(X, y, weight, check)

    @classmethod
    def apply(cls, check: ColumnCheck, method: str, X: Any, *outputs: Any, **options: Any) -> Any:
        """Refuse; see :class:`RowSource`."""
        raise ValueError(
            "ParquetBlocks are for fit alone; predict the X of one block after another: for X, y,"
            " weight in blocks"
        )

    @cached_property
    def _groups(self) -> list[tuple[Path, int, int]]:
        """File, index in the file and number of rows of each row group that is not empty."""
        check_whole("rows", self.X.rows, 1)
        found, bare = [], []
        for path in self.X.files():
            with open_parquet(path) as file:
                self._roles.check(path, file.schema_arrow, self.opaque)
                counts = check_footer(file.metadata)
            found += [(path, g, count) for g, count in enumerate(counts) if count]
            bare += [path] if any(counts) and lacks_checksums(path) else []
        if bare:
            others = f" (and {len(bare) - 1} more)" if len(bare) > 1 else ""
            warnings.warn(
                f"{bare[0]}{others} has no page checksums, so damage may go unnoticed; write such files "
                "with write_page_checksum=True",
                stacklevel=2,
            )
        return found

    @cached_property
    def _roles(self) -> Roles:
        given = self.X
        first = given.files()[0]
        with open_parquet(first) as file:
            present = file.schema_arrow.names
        return Roles.of(first, present, given.target, given.columns, given.weight)

    @property
    def names(self) -> list[str]:  # type: ignore[override]
        """Names of the columns of X."""
        return self._roles.points

    @property
    def length(self) -> int:  # type: ignore[override]
        """Number of rows."""
        return sum(count for _, _, count in self._groups)

    @property
    def columns(self) -> int:
        """Number of columns of X."""
        return len(self.names)

    def fingerprint(self) -> str:
        """Detects changed files and other columns; see :class:`RowSource`."""
        stats = [(str(p.resolve()), p.stat().st_size, p.stat().st_mtime_ns) for p in self.X.files()]
        return str(joblib.hash((stats, self._roles, self.X.rows)))

    def blocks(self, start: int = 0) -> Iterator[Block]:
        """See :class:`RowSource`; row groups that end before the start are not read.

        Blocks are named by where files are beside one another: draws depend on names, and must not
        change when all files are moved.
        """
        folder = os.path.commonpath([path.resolve().parent for path in self.X.files()])
        for path, group, count in self._groups:
            if start >= count:
                start -= count
                continue
            first = 0
            with open_parquet(path) as file:
                for batch in file.iter_batches(self.X.rows, row_groups=[group], columns=self._roles.all):
                    batch.validate(full=True)
                    if first >= start:
                        file_name = path.resolve().relative_to(folder)
                        name = f"{file_name}, row group {group}, rows from {first} on"
                        parts = _batch(batch, self._roles, self.opaque)
                        block = checked(*parts, name, self.opaque)
                        assert block is not None
                        yield block
                    first += batch.num_rows
                if first != count:
                    raise ValueError(f"row group {group} has {first} rows, but {count} in the footer")
            start = 0

    def first(self) -> Block:
        for block in self.blocks():
            return block
        raise ValueError(f"there are no rows in {self.X.path}")


def _batch(batch: Any, roles: Roles, opaque: bool) -> tuple[Any, NDArray[Any], NDArray[Any] | None]:
    """Columns of a record batch as arrays; opaque points as a list, or as a data frame."""

    def stack(wanted: list[str]) -> NDArray[Any]:
        return np.column_stack([batch.column(c).to_numpy(zero_copy_only=False) for c in wanted])

    weight = stack(roles.weights).ravel() if roles.weights else None
    if not opaque:
        return stack(roles.points), stack(roles.targets), weight
    table = batch.select(roles.points)
    points = table.column(0).to_pylist() if len(roles.points) == 1 else table.to_pandas()
    return points, stack(roles.targets), weight
