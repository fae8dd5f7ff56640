"""Figures of the CUDA engine beside cuBLAS, in one run: ``python -m benchmarks.gpu``.

Medians of at least ten runs, after a warm-up; calls are the public ones, with the checks of their input.
Figures are worth something only from a run on the device that the table names.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table

from mercer.kernels import Heat, Kernel
from mercer.spaces import Simplex, Sphere

ROWS = 32_768
KERNEL = Heat(Sphere())


def milliseconds(call: Callable[[], object], repeats: int = 15) -> float:
    for _ in range(3):
        call()
    times = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def directions(m: int, n: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator("cuda").manual_seed(seed)
    X = torch.randn((m, n), generator=generator, device="cuda", dtype=dtype)
    return X / X.norm(dim=1, keepdim=True)


def counts(m: int, n: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator("cuda").manual_seed(seed + 10)
    rate = torch.rand((1, n), generator=generator, device="cuda") * 2
    return torch.poisson(rate.expand(m, n) + 0.05, generator=generator).to(dtype) + (
        torch.arange(n, device="cuda") == 0
    )


def above(call: Callable[[], object]) -> int:
    """Memory in bytes at the peak of a call, above what was there before and its result."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = call()
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before
    size = result.numel() * result.element_size() if isinstance(result, torch.Tensor) else 0
    del result
    return peak - size


def error(K: torch.Tensor, X: torch.Tensor, Y: torch.Tensor, kernel: Kernel) -> float:
    """Largest difference to main memory in double precision, over a sample of rows."""
    rows = torch.arange(0, len(X), max(1, len(X) // 64))
    expected = kernel(X[rows].double().cpu().numpy(), Y.double().cpu().numpy())
    return float(abs(K[rows].double().cpu().numpy() - expected).max())


def grams() -> list[tuple[str, str, str]]:
    rows = []
    for name, make, kernel in (("directions", directions, KERNEL), ("counts", counts, Heat(Simplex()))):
        for n in (400, 393, 64, 16):
            X, Y = make(ROWS, n), make(ROWS, n, seed=1)
            bare = milliseconds(lambda X=X: X @ X.T)
            own = milliseconds(lambda X=X, k=kernel: k(X))
            cross = milliseconds(lambda X=X, Y=Y, k=kernel: k(X, Y))
            memory = above(lambda X=X, k=kernel: k(X))
            wrong = error(kernel(X), X, X, kernel)
            rows.append((
                f"Gram, {name}, {ROWS} x {n}, float32", f"{own:.2f} ms, cross {cross:.2f}",
                f"{own / bare:.2f} and {cross / bare:.2f} x bare ({bare:.2f} ms), error {wrong:.1e}, "
                f"memory {memory / (X.numel() * 4):.1f} x input",
            ))  # fmt: skip
            del X, Y
    X = directions(ROWS, 400, torch.float64)
    Y = directions(ROWS, 400, torch.float64, 1)
    bare = milliseconds(lambda: X @ X.T)
    own, cross = milliseconds(lambda: KERNEL(X)), milliseconds(lambda: KERNEL(X, Y))
    rows.append((
        f"Gram, {ROWS} x 400, float64", f"{own:.1f} ms, cross {cross:.1f}",
        f"{own / bare:.2f} and {cross / bare:.2f} x bare ({bare:.1f} ms), "
        f"error {error(KERNEL(X), X, X, KERNEL):.1e}",
    ))  # fmt: skip
    return rows


def products() -> list[tuple[str, str, str]]:
    rows = []
    for n in (64, 384):
        X = directions(131_072, n)
        v = torch.randn(131_072, 64, device="cuda")
        one = milliseconds(lambda X=X, v=v: KERNEL.matvec(X, X, v[:, 0]), 10)
        many = milliseconds(lambda X=X, v=v: KERNEL.matvec(X, X, v), 10)
        sample = torch.arange(0, len(X), 2048, device="cuda")
        exact = KERNEL(X[sample].double(), X.double()) @ v.double()
        off = (KERNEL.matvec(X, X, v)[sample].double() - exact).norm() / exact.norm()
        rows.append((
            f"matvec, 131072 x {n}, float32", f"{one / 1e3:.3f} s, 64 vectors {many / 1e3:.3f} s",
            f"{many / one:.2f} x one vector, relative error {float(off):.1e}",
        ))  # fmt: skip
    X = directions(1_000_000, 64)
    v = torch.randn(1_000_000, device="cuda")
    start = time.perf_counter()
    memory = above(lambda: KERNEL.matvec(X, X, v))
    rows.append((
        "matvec, 10^6 x 64, float32", f"{time.perf_counter() - start:.2f} s",
        f"{memory / 1e9:.2f} GB above the input",
    ))  # fmt: skip
    return rows


def derivatives() -> list[tuple[str, str, str]]:
    X = directions(16_384, 64).requires_grad_()
    G = torch.randn(16_384, 16_384, device="cuda")
    with torch.no_grad():
        forward = milliseconds(lambda: KERNEL(X))

    def both() -> None:
        X.grad = None
        (KERNEL(X) * G).sum().backward()

    def backward_alone() -> None:
        X.grad = None
        KERNEL(X).backward(G)

    total, fused = milliseconds(both), milliseconds(backward_alone)
    memory = above(backward_alone)
    return [(
        "forward and backward of sum(k(X) * G), 16384 x 64", f"{total:.2f} ms",
        f"{total / forward:.2f} x forward ({forward:.2f} ms), backward(G) {fused / forward:.2f}; "
        f"{memory / (4 * 16_384**2):.2f} square arrays at the peak",
    )]  # fmt: skip


def main() -> None:
    if not torch.cuda.is_available():
        sys.exit("benchmarks.gpu needs a CUDA device")
    torch.backends.cuda.matmul.allow_tf32 = False
    start = time.perf_counter()
    KERNEL(directions(100, 8))
    first = time.perf_counter() - start
    table = Table("what", "time", "ratio", title=torch.cuda.get_device_name())
    table.add_row("first call of a kernel", f"{first:.1f} s", "compilation included")
    for part in (grams, products, derivatives):
        for row in part():
            table.add_row(*row)
        torch.cuda.empty_cache()
    Console(width=170).print(table)


if __name__ == "__main__":
    main()
