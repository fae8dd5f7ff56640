"""Kernel methods on data that is not flat.

A kernel is a space, which says what a row is, plus a law, which says how similarity falls with
distance: ``mercer.kernels.Heat(mercer.spaces.Simplex())``.

- ``spaces``, ``kernels``: the two halves of a kernel.
- ``machines``, ``gp``, ``gpytorch``: support vector machines, ridge regression, Gaussian processes.
- ``selection``, ``explain``, ``report``: comparisons and searches of kernels, and their results.
- ``features``, ``harmonics``, ``rkhs``, ``bounds``: features, geometry and capacity of a kernel.
- ``datasets``, ``plotting``, ``reproduce``, ``testing``: data, figures, published experiments, checks.
"""

from importlib import import_module
from types import ModuleType

__version__ = "0.1.0"
__all__ = [
    "bounds",
    "datasets",
    "explain",
    "features",
    "gp",
    "harmonics",
    "kernels",
    "machines",
    "plotting",
    "report",
    "reproduce",
    "rkhs",
    "selection",
    "spaces",
    "testing",
]


def __getattr__(name: str) -> ModuleType:
    # Submodules are imported on first access, so that importing the package costs nothing.
    if name in __all__:
        return import_module(f"mercer.{name}")
    raise AttributeError(f"module 'mercer' has no attribute {name!r}")
