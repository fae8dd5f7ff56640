"""Kernels between strings and sequences."""
