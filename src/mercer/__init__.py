"""Kernel methods on data that is not flat."""

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
