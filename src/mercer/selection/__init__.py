"""Choosing kernels by honest cross-validation."""

from mercer.selection.compare import Comparison, KernelScore, compare

__all__ = ["Comparison", "KernelScore", "compare"]
