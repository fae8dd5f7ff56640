"""Kernels of whole tables, whose columns are of several kinds."""
