"""Compile the fused kernels without a device: ``python -m benchmarks.gpu_compile [--few]``.

Public calls on tensors of the CPU are recorded instead of launched.  Each distinct launch is compiled
for a Hopper device, and its registers, bytes on the stack (spilt registers) and shared memory printed.
Triton's interpreter, in which the tests run, knows none of this.  Exits with an error if a kernel does
not compile, or takes more shared memory than the device has.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from mercer.engine import engine_for, register_engine
from mercer.engine.cuda import CudaEngine
from mercer.engine.fused import launch, rows
from mercer.kernels import Gaussian, Heat, Kernel, Matern
from mercer.spaces import Sphere, Torus

TARGET = GPUTarget("cuda", 90, 32)
SHARED = 232_448
TYPES = {torch.float64: "*fp64", torch.float32: "*fp32", torch.float16: "*fp16", torch.int32: "*i32",
         torch.int64: "*i64"}  # fmt: skip
OPTIONS = ("num_warps", "num_stages")


class Recorder:
    """Stands in for a kernel: keeps the arguments of launches."""

    def __init__(self, kernel: Any, seen: dict[str, tuple[Any, ...]]) -> None:
        self.kernel, self._seen = kernel, seen

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def launched(*arguments: Any, **constants: Any) -> None:
            options = {name: constants.pop(name) for name in OPTIONS if name in constants}
            given = dict(zip(self.kernel.arg_names, arguments, strict=False)) | constants
            fixed = {self.kernel.arg_names[k] for k in self.kernel.constexprs}
            source = described(self.kernel, given, fixed)
            self._seen.setdefault(
                f"{self.kernel.__name__} {source[:2]} {options}", (*source[2:], options)
            )

        return launched


class UncheckedEngine(CudaEngine):
    """The engine without the pass that looks at rows first, whose result is not computed here."""

    def extent(self, X: Any) -> None:
        """See :class:`CudaEngine`."""
        return None


def described(kernel: Any, given: dict[str, Any], fixed: set[str]) -> tuple[Any, ...]:
    """Types and constants of a launch, and the source to compile."""
    constants: dict[tuple[int, ...], Any] = {}
    divisible: dict[tuple[int, ...], Any] = {}

    def type_of(value: Any, path: tuple[int, ...], constant: bool) -> Any:
        if isinstance(value, tuple):
            return tuple(type_of(part, (*path, k), constant) for k, part in enumerate(value))
        if constant or value is None or isinstance(value, tl.constexpr):
            constants[path] = value.value if isinstance(value, tl.constexpr) else value
            return "constexpr"
        if isinstance(value, torch.Tensor):
            divisible[path] = [["tt.divisibility", 16]]
            return TYPES[value.dtype]
        if value % 16 == 0:
            divisible[path] = [["tt.divisibility", 16]]
        return "i32" if abs(value) < 2**31 else "i64"

    types = {name: type_of(given[name], (k,), name in fixed) for k, name in enumerate(kernel.arg_names)}
    return types, constants, kernel, ASTSource(kernel, types, constants, divisible)


def resources(source: ASTSource, options: dict[str, int]) -> tuple[int, int, int]:
    """Registers, bytes on the stack and bytes of shared memory of a compiled kernel."""
    compiled = triton.compile(source, target=TARGET, options=options)
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        Path(file.name).write_bytes(compiled.asm["cubin"])
        found = subprocess.run(
            [tool, "-res-usage", file.name], capture_output=True, text=True, check=True
        )
    registers, stack = map(int, re.findall(r"(?:REG|STACK):(\d+)", found.stdout)[:2])
    return registers, stack, compiled.metadata.shared


def calls(few: bool) -> Iterator[tuple[Kernel, int, torch.dtype]]:
    """Kernels, columns and precisions: polynomials, tables, exponentials, sums, products, factors."""
    table = Heat(Sphere(), t=0.01, normalized=False)
    factors = Heat(Torus(), t=torch.tensor(0.3, requires_grad=True)) * Gaussian()
    if few:
        yield table, 3, torch.float32
        yield factors, 3, torch.float64
        return
    kernels = (Heat(Sphere()), table, Matern(Sphere(), nu=0.5), Gaussian(), Heat(Sphere()) + Gaussian(),
               factors)  # fmt: skip
    for kernel in kernels:
        for n in (3, 20, 64, 100, 393):
            for dtype in (torch.float32, torch.float64):
                yield kernel, n, dtype


def works(kernel: Kernel, X: torch.Tensor, Y: torch.Tensor) -> list[Callable[[], object]]:
    """Everything that the engine does with a kernel."""
    W = torch.zeros((len(X), len(Y)), dtype=X.dtype)
    return [
        lambda: kernel(X),
        lambda: kernel(X, Y),
        lambda: kernel.matvec(X, X, W[:, 0]),
        lambda: kernel.matvec(X, X, W[:, :3]),
        lambda: kernel.weighted_sum(X, None, W),
        lambda: kernel(X.clone().requires_grad_()).backward(W),
        lambda: kernel.matvec(X.clone().requires_grad_(), Y, W[:, :3]).sum().backward(),
        lambda: engine_for(X).apply(W, Heat(Sphere(), t=0.01).profile(X.shape[1])),
    ]


def recorded(few: bool) -> dict[str, tuple[Any, ...]]:
    """Distinct launches of Gram matrices, products with vectors, weighted sums and derivatives."""
    seen: dict[str, tuple[Any, ...]] = {}
    for module in (launch, rows):
        for name in [name for name in vars(module) if name.endswith("_kernel")]:
            setattr(module, name, Recorder(getattr(module, name), seen))
    register_engine(UncheckedEngine("cpu"))
    rng = np.random.default_rng(0)
    for kernel, n, dtype in calls(few):
        X, Y = (torch.tensor(rng.normal(size=(300, n)), dtype=dtype) for _ in range(2))
        for work in works(kernel, X, Y):
            try:
                work()
            except ValueError as error:
                # What was not computed may look like an overflow; some values are too large for single
                # precision.
                if "overflow" not in str(error) and "single precision" not in str(error):
                    raise
    return seen


def main() -> None:
    """Print the resources of every kernel."""
    failed = 0
    for name, (_, source, options) in recorded("--few" in sys.argv).items():
        try:
            registers, stack, shared = resources(source, options)
        except RuntimeError as error:
            registers, stack, shared = 0, 0, 0
            print(f"{name}: {error}")
            failed += 1
            continue
        failed += shared > SHARED
        short = re.sub(r"'constexpr'|\s", "", name)[:150]
        print(f"{registers:4} registers {stack:5} on the stack {shared:7} shared  {short}")
    sys.exit(f"{failed} kernels cannot run" if failed else 0)


if __name__ == "__main__":
    main()
