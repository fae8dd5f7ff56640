"""Tables from files and from code."""

from mercer.datasets.tables import Table, digits, read_table

__all__ = ["Table", "digits", "read_table"]
