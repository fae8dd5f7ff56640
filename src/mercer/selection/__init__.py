"""Choosing kernels by honest cross-validation."""

from mercer.selection.compare import compare
from mercer.selection.comparison import Comparison, KernelScore
from mercer.selection.models import SavedModel, load_model, save_model
from mercer.selection.nested import NestedScores
from mercer.selection.representatives import representatives
from mercer.selection.search import KernelSearchCV

__all__ = [
    "Comparison",
    "KernelScore",
    "KernelSearchCV",
    "NestedScores",
    "SavedModel",
    "compare",
    "load_model",
    "representatives",
    "save_model",
]
