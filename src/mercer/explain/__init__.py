"""Explanations of predictions: by training rows, by parts of a kernel, and by columns."""

from mercer.explain.explanation import Explanation, explain
from mercer.explain.importance import importance

__all__ = ["Explanation", "explain", "importance"]
