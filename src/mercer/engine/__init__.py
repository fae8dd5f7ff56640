"""The engine: profiles applied to tiled matrix products, wherever the arrays live."""

from mercer.engine.array_api import ArrayApiEngine
from mercer.engine.base import Engine, GramOptions, engine_for, register_engine
from mercer.engine.cuda import CudaEngine
from mercer.engine.numpy import NumpyEngine
from mercer.engine.torch import TorchEngine

__all__ = ["Engine", "GramOptions", "engine_for", "register_engine"]

for _engine in (ArrayApiEngine(), TorchEngine(), CudaEngine(), NumpyEngine()):
    register_engine(_engine)
