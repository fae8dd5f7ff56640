"""Choosing kernels by honest cross-validation."""

from mercer.selection.compare import compare
from mercer.selection.comparison import Comparison, KernelScore
from mercer.selection.nested import NestedScores
from mercer.selection.search import KernelSearchCV

__all__ = ["Comparison", "KernelScore", "KernelSearchCV", "NestedScores", "compare"]
