"""Choosing kernels by honest cross-validation."""

from mercer.selection.compare import Comparison, KernelScore, compare
from mercer.selection.nested import NestedScores
from mercer.selection.search import KernelSearchCV

__all__ = ["Comparison", "KernelScore", "KernelSearchCV", "NestedScores", "compare"]
