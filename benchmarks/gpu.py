"""Figures of the CUDA engine beside cuBLAS, in one run: ``python -m benchmarks.gpu [FOLDER]``.

Medians of at least ten runs, after a warm-up; calls are the public ones, with the checks of their input.
FOLDER holds the images of MNIST's test set (``t10k-images-idx3-ubyte.gz``), tiled to size.
``python -m benchmarks.gpu --accuracy [NAME ...]`` compares every kernel with main memory instead, or
those with a name in their repr.
Figures are worth something only from a run on the device that the table names.
"""

from __future__ import annotations

import gzip
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.gpu_more import table_of
from mercer.gp import SphericalGPRegressor
from mercer.kernels import (
    ArcCosine,
    AxialHeat,
    Cosine,
    Gaussian,
    Heat,
    Kernel,
    Linear,
    Matern,
    Parametrix,
    Polynomial,
)  # fmt: skip
from mercer.spaces import Hyperbolic, Rotations, Simplex, Sphere, Torus

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


def pixels(m: int, folder: str) -> torch.Tensor:
    data = gzip.decompress((Path(folder) / "t10k-images-idx3-ubyte.gz").read_bytes())
    images = torch.frombuffer(bytearray(data[16:]), dtype=torch.uint8).reshape(-1, 784)
    return images[torch.arange(m) % len(images)].to("cuda", torch.float32)


def gram_row(name: str, X: torch.Tensor, Y: torch.Tensor, kernel: Kernel) -> tuple[str, str, str]:
    bare = milliseconds(lambda: X @ X.T)
    own, cross = milliseconds(lambda: kernel(X)), milliseconds(lambda: kernel(X, Y))
    memory, wrong = above(lambda: kernel(X)), error(kernel(X), X, X, kernel)
    precision = str(X.dtype).removeprefix("torch.")
    return (
        f"Gram, {name}, {ROWS} x {X.shape[1]}, {precision}", f"{own:.2f} ms, cross {cross:.2f}",
        f"{own / bare:.2f} and {cross / bare:.2f} x bare ({bare:.2f} ms), error {wrong:.1e}, "
        f"memory {memory / (X.numel() * X.element_size()):.1f} x input",
    )  # fmt: skip


def grams() -> list[tuple[str, str, str]]:
    rows = []
    for name, make, kernel in (("directions", directions, KERNEL), ("counts", counts, Heat(Simplex()))):
        for n in (400, 393, 64, 16):
            rows.append(gram_row(name, make(ROWS, n), make(ROWS, n, seed=1), kernel))
    if len(sys.argv) > 1:
        X = pixels(ROWS, sys.argv[1])
        rows.append(gram_row("pixels", X, X.flip(0).contiguous(), KERNEL))
    X, Y = (directions(ROWS, 400, torch.float64, seed) for seed in (0, 1))
    rows.append(gram_row("directions", X, Y, KERNEL))
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
    angles = (3 * directions(16_384, 8, seed=1)).requires_grad_()
    G = torch.randn(16_384, 16_384, device="cuda")
    several = 0.5 * Heat(Sphere()) * Gaussian() + Linear()
    totals: dict[str, tuple[Kernel, torch.Tensor, Callable[[], torch.Tensor]]] = {
        "(k(X) * G).sum()": (KERNEL, X, lambda: (KERNEL(X) * G).sum()),
    }
    for kernel, rows in ((KERNEL, X), (Gaussian(), X), (several, X), (Heat(Torus(), t=0.5), angles)):

        def weighted(kernel: Kernel = kernel, rows: torch.Tensor = rows) -> torch.Tensor:
            total: torch.Tensor = kernel.weighted_sum(rows, None, G)
            return total

        totals[f"weighted_sum(X, None, G) of {kernel}"] = (kernel, rows, weighted)
    found = []
    for name, (kernel, rows, total) in totals.items():

        def both(rows: torch.Tensor = rows, total: Callable[[], torch.Tensor] = total) -> None:
            rows.grad = None
            total().backward()

        with torch.no_grad():
            gram, alone = milliseconds(lambda k=kernel, X=rows: k(X)), milliseconds(total)
        time, memory = milliseconds(both), above(both) / (4 * 16_384**2)
        found.append((
            f"{name} and its derivative, 16384 x {rows.shape[1]}", f"{time:.2f} ms",
            f"{time / alone:.2f} x the sum ({alone:.2f} ms), {time / gram:.2f} x k(X) ({gram:.2f} ms); "
            f"{memory:.2f} square arrays at the peak",
        ))  # fmt: skip
    return found


def processes() -> list[tuple[str, str, str]]:
    model = SphericalGPRegressor(max_features=1000, inputs="table")
    model.fit(*table_of(20_000))
    X, y = table_of(6_000_000)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    model.fit(X, y)
    spent, peak = time.perf_counter() - start, torch.cuda.max_memory_allocated()
    name = f"Gaussian process, {len(X)} x 8, {model.features_.size} harmonics, hyperparameters included"
    return [(name, f"{spent:.2f} s", f"{peak / 1e9:.2f} GB at the peak")]


KERNELS = [
    Heat(Sphere()), Heat(Sphere(), t_star=0.1), Heat(Simplex()), Heat(Hyperbolic(), t=0.5),
    AxialHeat(Sphere()), Matern(Sphere(), nu=0.5), Matern(Sphere(), nu=2.5), Parametrix(Sphere()),
    ArcCosine(), Cosine(Sphere()), Gaussian(), Linear(), Polynomial(3, 0.5), Heat(Rotations(), t=0.3),
]  # fmt: skip


def points(kernel: Kernel, m: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Rows for a kernel, some of them equal, some opposite."""
    space = getattr(kernel, "space", None)
    if isinstance(space, Rotations):
        return space.sample(m, rng)
    X = rng.normal(size=(m, n))
    if isinstance(space, Hyperbolic):
        X[:, -1] = np.exp(X[:, -1] / 2)
    X = np.abs(X) if isinstance(space, Simplex) else X
    X[m // 2] = X[0]
    if isinstance(space, Sphere) and m > 2:
        X[m // 3] = -X[0]
    return X


def unavoidable(kernel: Kernel, X: np.ndarray, Y: np.ndarray, eps: float) -> np.ndarray:
    """Change of the kernel when invariants move by a few units of rounding of the product."""
    A, B = torch.as_tensor(X), torch.as_tensor(Y)
    L, R = (part.numpy() for part in kernel.embedding.embed(A, B))
    w, profile = L @ R.T, kernel.profile(X.shape[1])
    step = 4 * eps * np.linalg.norm(L, axis=1)[:, None] * np.linalg.norm(R, axis=1)
    ends = []
    for moved in (w, w + step, w - step):
        values = moved if kernel.embedding.common_invariant is None else np.clip(moved, -1, 1)
        profile.apply(values)
        ends.append(values)
    change = np.maximum(abs(ends[1] - ends[0]), abs(ends[2] - ends[0]))
    if kernel.embedding.row_scale(A) is None:
        return change
    left, right = (kernel.embedding.row_scale(part).numpy() for part in (A, B))
    return change * left[:, None] * right


def sizes(kernel: Kernel, dtype: torch.dtype) -> Iterator[tuple[int, int, int]]:
    """Numbers of rows, of other rows and of columns at which a kernel is compared."""
    space = getattr(kernel, "space", None)
    if isinstance(space, Rotations):
        columns = [3]
    else:
        columns = [1, 2, 3, 17, 393, 5000] if dtype == torch.float32 else [3, 17]
        columns = [n for n in columns if n >= getattr(space, "least_dimension", 1)]
    if isinstance(space, Hyperbolic):  # its profile takes minutes in 5000 dimensions
        columns = [n for n in columns if n < 1000]
    yield from ((129, 127, n) for n in columns)
    middle = columns[len(columns) // 2]
    yield from ((m, p, middle) for m, p in ((1, 128), (128, 129), (127, 1)))


def accuracy(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Largest errors relative to the largest value, beyond what rounding of the invariant does."""
    rng = np.random.default_rng(0)
    for kernel in KERNELS:
        if names and not any(name in repr(kernel) for name in names):
            continue
        found = []
        for dtype in (torch.float32, torch.float64):
            worst = 0.0
            for m, p, n in sizes(kernel, dtype):
                A, B = (
                    torch.as_tensor(points(kernel, size, n, rng), device="cuda").to(dtype)
                    for size in (m, p)
                )
                B[0] = A[0]
                X, Y = A.double().cpu().numpy(), B.double().cpu().numpy()
                off = abs(kernel(A, B).double().cpu().numpy() - (K := kernel(X, Y)))
                off -= unavoidable(kernel, X, Y, torch.finfo(dtype).eps)
                worst = max(worst, float(off.max() / abs(K).max()))
            found.append(f"{worst:.1e}")
        yield repr(kernel), *found


def main() -> None:
    if not torch.cuda.is_available():
        sys.exit("benchmarks.gpu needs a CUDA device")
    if "--accuracy" in sys.argv:
        for row in accuracy([name for name in sys.argv[1:] if name != "--accuracy"]):
            print(*row, flush=True)
        return
    torch.backends.cuda.matmul.allow_tf32 = False
    start = time.perf_counter()
    KERNEL(directions(100, 8))
    first = time.perf_counter() - start
    table = Table("what", "time", "ratio", title=torch.cuda.get_device_name())
    table.add_row("first call of a kernel", f"{first:.1f} s", "compilation included")
    for part in (grams, products, derivatives, processes):
        for row in part():
            table.add_row(*row)
        torch.cuda.empty_cache()
    Console(width=170).print(table)


if __name__ == "__main__":
    main()
