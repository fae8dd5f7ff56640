"""The fused kernels compile for a device, which Triton's interpreter does not tell."""

import os
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")


def run(*command: str) -> str:
    """Output of a benchmark outside of Triton's interpreter."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    found = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, check=False, env=environment
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def test_kernels_compile_for_a_device() -> None:
    output = run("benchmarks.gpu_compile", "--few")
    for name in ("gram", "matvec", "pull", "apply", "unit", "planes", "keys"):
        assert f"{name}_kernel" in output


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_launches_operations_and_waits_of_a_call() -> None:
    """What the host does before the fused kernel starts; more of it must have a reason."""
    output = run("benchmarks.gpu_host", "--repeats", "20")
    for space in ("Simplex", "Sphere"):
        for rows, counts in (("X", ["5", "7", "1"]), ("X, Y", ["9", "12", "2"])):
            (line,) = [line for line in output.splitlines() if f"Heat({space}())({rows})" in line]
            assert [cell.strip() for cell in line.split("│")[-4:-1]] == counts
