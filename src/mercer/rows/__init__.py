"""Sources of rows: arrays, iterables of blocks, Parquet files and Dask collections."""

from mercer.rows.arrays import ArrayRows
from mercer.rows.base import RowSource, checkpoint_for, open_rows, register, source_for, unregister
from mercer.rows.blocks import Block
from mercer.rows.columns import ColumnCheck
from mercer.rows.dask import DaskRows
from mercer.rows.parquet import ParquetBlocks, ParquetRows
from mercer.rows.streams import StreamRows

__all__ = [
    "ArrayRows",
    "Block",
    "ColumnCheck",
    "DaskRows",
    "ParquetBlocks",
    "ParquetRows",
    "RowSource",
    "StreamRows",
    "checkpoint_for",
    "open_rows",
    "register",
    "source_for",
    "unregister",
]

# The latest is asked first: Parquet files are iterables too, and arrays take whatever is left.
for _source in (ArrayRows, StreamRows, ParquetRows, DaskRows):
    register(_source)
