"""Engines: profiles applied to tiled matrix products, for arrays of any library or device."""

from mercer.engine.array_api import ArrayApiEngine, BorrowingEngine
from mercer.engine.base import Engine, Extent, GramOptions, engine_for, joins, register_engine
from mercer.engine.cuda import CudaEngine
from mercer.engine.numpy import NumpyEngine
from mercer.engine.sparse_tensors import SparseTensorEngine
from mercer.engine.torch import TorchEngine

__all__ = ["Engine", "Extent", "GramOptions", "engine_for", "joins", "register_engine"]

# Engines that were registered last are asked first: those of the most common arrays.
for _engine in (
    ArrayApiEngine(),
    BorrowingEngine(),
    SparseTensorEngine(),
    TorchEngine(),
    CudaEngine(),
    NumpyEngine(),
):
    register_engine(_engine)
