"""The fused kernels compile for a device, which Triton's interpreter does not tell."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")


def test_kernels_compile_for_a_device() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    found = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu_compile", "--few"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    for name in ("gram", "matvec", "pull", "apply", "unit", "planes", "keys"):
        assert f"{name}_kernel" in found.stdout
