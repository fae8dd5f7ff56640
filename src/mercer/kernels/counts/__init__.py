"""Kernels of rows of counts."""
