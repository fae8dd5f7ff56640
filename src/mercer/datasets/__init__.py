"""Data sets: points and labels from files and from installed libraries."""

from mercer.datasets.docstrings import load_docstrings
from mercer.datasets.structured import read_clouds, read_known_nodes, read_nodes, read_strings
from mercer.datasets.tables import Table, digits, read_mixed, read_table

__all__ = [
    "Table",
    "digits",
    "load_docstrings",
    "read_clouds",
    "read_known_nodes",
    "read_mixed",
    "read_nodes",
    "read_strings",
    "read_table",
]
