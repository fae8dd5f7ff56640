"""Kernel methods on data that is not flat."""

__version__ = "0.1.0"
