"""Fixtures of the fused kernels."""

import numpy as np
import pytest

from mercer.engine import base, engine_for, register_engine


@pytest.fixture
def fused(monkeypatch) -> None:
    """Put the engine of CUDA devices to use for tensors on this machine."""
    from mercer.engine.cuda import CudaEngine
    from tests.helpers.device import DEVICE, tensor

    monkeypatch.setattr(base, "_ENGINES", list(base._ENGINES))
    register_engine(CudaEngine(DEVICE))
    assert type(engine_for(tensor(np.eye(2)))) is CudaEngine
