"""Time of the host before the fused kernel starts, without a device: ``python -m benchmarks.gpu_host``.

Tensors of the CPU stand in for those of a device, and a library of empty functions for CUDA's driver.
Everything else is what a device is served by: Python, PyTorch, Triton's choice of a compiled kernel and
its launcher.  Kernels are compiled, for a Hopper device, but nothing runs them.  Rows are few, because
the CPU fills their arrays in the time of the host; what a device adds to an allocation, a launch or a
wait is not seen, so that they are counted as well.  "Cold" are calls after other work has emptied the
caches of the processor.  A C compiler is needed.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton
from rich.console import Console
from rich.table import Table
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from triton.backends.nvidia.driver import CudaDriver, CudaLauncher

from benchmarks.gpu_compile import SHARED, TARGET
from mercer.engine import base
from mercer.engine.cuda import CudaEngine
from mercer.engine.fused import launch
from mercer.kernels import Heat, Kernel
from mercer.spaces import Simplex, Sphere
from mercer.spaces.base import RowSpace
from mercer.spaces.realisations.base import Operands
from mercer.spaces.spherical import SphericalSpace

ROWS, COLUMNS = 1024, 16
#: More than the caches hold.
OTHER = np.zeros(2**23)
#: What Triton's launcher calls, and the number of launches.
STUB = """
int launches = 0;
int cuLaunchKernelEx(void *config, void *function, void **parameters, void **extra)
{ launches += 1; return 0; }
int cuPointerGetAttribute(void *data, int attribute, unsigned long long pointer)
{ *(unsigned long long *)data = pointer; return 0; }
int cuCtxGetCurrent(void **context) { *context = &launches; return 0; }
int cuCtxSetCurrent(void *context) { return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = 0; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &launches; return 0; }
int cuFuncSetAttribute(void *function, int attribute, int value) { return 0; }
int cuGetErrorString(int error, const char **text) { *text = "stub"; return 0; }
"""
#: Parts of a call, none of them within another.
PARTS = {
    "checks": (RowSpace, "check_pair"),
    "unit rows": (SphericalSpace, "embed"),
    "equal rows": (CudaEngine, "equal_rows"),
    "diagonal": (Operands, "options"),
    "planes": (launch.Pair, "of"),
    "fused kernel": (launch.Pair, "gram"),
}
WAITS = ("cpu", "item", "tolist", "__bool__", "__int__", "__float__")


class Driver(CudaDriver):
    """The driver of a device that is not there."""

    def __init__(self) -> None:
        self.utils = self
        self.launcher_cls = CudaLauncher
        self.get_current_device = lambda: 0
        self.get_current_stream = lambda device: 0

    def get_current_target(self) -> Any:
        """The device that kernels are compiled for."""
        return TARGET

    def get_device_properties(self, device: int) -> dict[str, int]:
        """What Triton compares kernels with."""
        return {"max_shared_mem": SHARED}

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[int, ...]:
        """Handles of a kernel, its registers and threads."""
        return 1, 1, 0, 0, 1024


def stub(folder: str) -> ctypes.CDLL:
    """Compile CUDA's driver without a device, and put it where Triton looks."""
    source, library = Path(folder) / "stub.c", Path(folder) / "libcuda.so.1"
    source.write_text(STUB)
    flags = ["-shared", "-fPIC", "-O2", "-Wl,-soname,libcuda.so.1"]
    subprocess.run(["cc", *flags, str(source), "-o", str(library)], check=True)
    triton.knobs.nvidia.libcuda_path = folder
    return ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


class Operations(TorchDispatchMode):
    """Counts operations of PyTorch; most of them allocate, and some launch."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


class Waits(TorchFunctionMode):
    """Counts calls that wait for a device."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += getattr(func, "__name__", "") in WAITS
        return func(*args, **(kwargs or {}))


def take_tensors_of_the_cpu() -> None:
    """Let the engine of devices accept them, in its place among the engines that are asked."""
    place = next(k for k, engine in enumerate(base._ENGINES) if isinstance(engine, CudaEngine))
    base._ENGINES[place] = CudaEngine("cpu")


def seconds(
    call: Callable[[], object], repeats: int, before: Callable[[], object] = lambda: None
) -> list[float]:
    """Times of single calls, each after something else."""
    times = []
    for _ in range(repeats):
        before()
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


@contextmanager
def timed(parts: dict[str, tuple[Any, str]]) -> Iterator[dict[str, list[float]]]:
    """Record how long each call of some functions takes."""
    found: dict[str, list[float]] = {name: [] for name in parts}
    kept = []
    for name, (owner, attribute) in parts.items():
        original = owner.__dict__[attribute]
        kept.append((owner, attribute, original))
        setattr(owner, attribute, watched(original, found[name]))
    try:
        yield found
    finally:
        for owner, attribute, original in kept:
            setattr(owner, attribute, original)


def watched(function: Any, times: list[float]) -> Any:
    """A function, or a method of a class, that records its time."""
    if isinstance(function, classmethod):
        return classmethod(watched(function.__func__, times))

    def call(*arguments: Any, **options: Any) -> Any:
        start = time.perf_counter()
        try:
            return function(*arguments, **options)
        finally:
            times.append(time.perf_counter() - start)

    return call


def measured(kernel: Kernel, *rows: torch.Tensor, repeats: int, library: ctypes.CDLL) -> list[str]:
    """Microseconds of a call and of its parts, launches, operations and waits."""

    def call() -> object:
        return kernel(*rows)

    seconds(call, 50)
    gc.collect()
    warm = seconds(call, repeats)
    cold = seconds(call, repeats // 20, lambda: np.add(OTHER, 1.0, out=OTHER))
    with timed(PARTS) as found:
        seconds(call, repeats)
    launches = ctypes.c_int.in_dll(library, "launches")
    before = launches.value
    with Waits() as waits, Operations() as operations:
        call()
    micro = [f"{1e6 * sum(times) / repeats:.0f}" for times in found.values()]
    return [
        *(f"{1e6 * statistics.median(times):.0f}" for times in (warm, cold)), *micro,
        str(launches.value - before), str(operations.count), str(waits.count),
    ]  # fmt: skip


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=2000)
    repeats = parser.parse_args().repeats
    table = Table("call, µs", "warm", "cold", *PARTS, "launches", "operations", "waits")
    with tempfile.TemporaryDirectory() as folder:
        library = stub(folder)
        triton.runtime.driver.set_active(Driver())
        take_tensors_of_the_cpu()
        X, Y = (torch.rand(ROWS, COLUMNS) + 0.1 for _ in range(2))
        for kernel in (Heat(Simplex()), Heat(Sphere())):
            for name, rows in (("X", (X,)), ("X, Y", (X, Y))):
                figures = measured(kernel, *rows, repeats=repeats, library=library)
                table.add_row(f"{kernel!r}({name})", *figures)
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
