"""Sources of rows: arrays, iterables of blocks, Parquet files and Dask collections."""

from mercer.gp.rows.arrays import ArrayRows
from mercer.gp.rows.base import RowSource, open_rows, register, source_for, unregister
from mercer.gp.rows.blocks import Block
from mercer.gp.rows.columns import ColumnCheck
from mercer.gp.rows.dask import DaskRows
from mercer.gp.rows.parquet import ParquetBlocks, ParquetRows
from mercer.gp.rows.streams import StreamRows

__all__ = [
    "ArrayRows",
    "Block",
    "ColumnCheck",
    "DaskRows",
    "ParquetBlocks",
    "ParquetRows",
    "RowSource",
    "StreamRows",
    "open_rows",
    "register",
    "source_for",
    "unregister",
]

# The latest is asked first: Parquet files are iterables too, and arrays take whatever is left.
for _source in (ArrayRows, StreamRows, ParquetRows, DaskRows):
    register(_source)
