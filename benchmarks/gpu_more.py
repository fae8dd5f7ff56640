"""More than rows of numbers on a device: ``python -m benchmarks.gpu_more``.

Processes, sparse counts, searches, borrowed arrays, clouds and graphs; a name prints its figures alone.

Each figure has the difference from main memory beside it.  Without a device everything is a hundredth of
the size, on the CPU, to see that it runs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from scipy import sparse

from mercer.engine import devices, engine_for
from mercer.engine.devices import shared_gram, shared_matvec
from mercer.gp import SphericalGPClassifier, SphericalGPRegressor
from mercer.kernels import (
    Gaussian,
    GaussianEmbedding,
    Heat,
    InverseGeneralizedVariance,
    Matern,
    MeanEmbedding,
)
from mercer.selection.gram_cache import Grams
from mercer.spaces import Graph, Simplex, Sphere
from mercer.spaces.realisations.base import Operands

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
PART = 1 if DEVICE == "cuda" else 100
Row = tuple[str, str, str]


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """Of one call, device included."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    found = call()
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start, found


def peak() -> str:
    """Most memory of the device in use during the last timed call."""
    return f"{torch.cuda.max_memory_allocated() / 1e9:.2f} GB" if DEVICE == "cuda" else "-"


def table_of(rows: int, columns: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """A table whose target is a smooth function of it, and noise."""
    generator = torch.Generator(DEVICE).manual_seed(0)
    X = torch.randn((rows, columns), generator=generator, device=DEVICE, dtype=torch.float64)
    noise = torch.randn(rows, generator=generator, device=DEVICE, dtype=torch.float64)
    return X, torch.sin(2 * X[:, 0]) + 0.3 * X[:, 1] * X[:, 2] + 0.2 * noise


def processes() -> list[Row]:
    """Gaussian processes with 1000 harmonics."""
    found = []
    few, y_few = table_of(20_000 // PART)
    for kernel in (None, Matern(Sphere(), nu=2.5)):
        model = SphericalGPRegressor(kernel, max_features=max(1000 // PART, 100), inputs="table")
        expected = model.fit(few.cpu().numpy(), y_few.cpu().numpy())
        mean, gram = expected.predict(few.cpu().numpy()[:2000]), expected.statistics_.gram
        model.fit(few, y_few)  # also warms up
        off = np.abs(model.predict(few[:2000]).cpu().numpy() - mean).max()
        sums = np.abs(model.statistics_.gram - gram).max() / np.abs(gram).max()
        X, y = table_of(6_000_000 // PART)
        name = f"GP {kernel or 'ArcCosine()'}, {len(X)} rows x 8, {model.features_.size} harmonics"
        model.set_params(optimize=False)
        spent, _ = seconds(lambda m=model, X=X, y=y: m.fit(X, y))
        found.append((f"{name}, sums", f"{spent:.2f} s", f"{sums:.1e} (sums), {peak()}"))
        model.set_params(optimize=True)
        spent, _ = seconds(lambda m=model, X=X, y=y: m.fit(X, y))
        found.append((f"{name}, hyperparameters included", f"{spent:.2f} s", f"{off:.1e} (means)"))
        spent, _ = seconds(lambda m=model, X=X: m.predict(X, return_std=True))
        found.append((f"{name}, means and deviations", f"{spent:.2f} s", peak()))
    X, y = table_of(500_000 // PART)
    labels = (y > 0).to(torch.int64)
    spent, model = seconds(lambda: SphericalGPClassifier(max_features=300).fit(X, labels))
    other = SphericalGPClassifier(max_features=300).fit(few.cpu().numpy(), (y_few > 0).cpu().numpy())
    here = SphericalGPClassifier(max_features=300).fit(few, (y_few > 0).to(torch.int64))
    off = np.abs(here.predict_proba(few).cpu().numpy() - other.predict_proba(few.cpu().numpy())).max()
    name = f"GP classes, {len(X)} rows, 300 harmonics, {model.n_iter_} passes"
    return [*found, (name, f"{spent:.2f} s", f"{off:.1e} (probabilities)")]


def corpus(rows: int, columns: int, words: int = 80) -> sparse.csr_matrix:
    """Counts of words, whose frequencies fall like 1 / rank; a few rows twice."""
    rng = np.random.default_rng(0)
    ranks = np.minimum(np.exp(rng.uniform(0, np.log(columns), size=(rows, words))), columns) - 1
    indptr = np.arange(0, rows * words + 1, words)
    parts = np.ones(rows * words), ranks.astype(np.int32).ravel(), indptr
    X = sparse.csr_matrix(parts, (rows, columns))
    X.sum_duplicates()
    return sparse.vstack([X[:-5], X[:5]]).tocsr()


def as_tensor(X: sparse.csr_matrix, dtype: torch.dtype) -> torch.Tensor:
    parts = (torch.as_tensor(part.astype(np.int64)) for part in (X.indptr, X.indices))
    return torch.sparse_csr_tensor(*parts, torch.as_tensor(X.data, dtype=dtype), X.shape).to(DEVICE)


def sparse_counts() -> list[Row]:
    """WebKB-like counts: products with a vector, and a Gram matrix."""
    kernel, found = Heat(Simplex()), []
    X = corpus(100_000 // PART, 20_000)
    some = np.arange(0, X.shape[0], X.shape[0] // 50)
    v = np.random.default_rng(1).normal(size=X.shape[0])
    expected = kernel(X[some], X) @ v
    for dtype in (torch.float32, torch.float64):
        A, w = as_tensor(X, dtype), torch.as_tensor(v, device=DEVICE, dtype=dtype)
        kernel.matvec(A, as_tensor(X[:300], dtype), w[:300])  # warms up
        spent, product = seconds(lambda A=A, w=w: kernel.matvec(A, None, w))
        off = np.abs(product.double().cpu().numpy()[some] - expected).max() / np.abs(expected).max()
        name = f"sparse counts {X.shape[0]} x {X.shape[1]}, {dtype}, matvec"
        found.append((name, f"{spent:.2f} s", f"{off:.1e}, {peak()}"))
    half = X[: X.shape[0] // 5]
    A = as_tensor(half, torch.float32)
    spent, K = seconds(lambda: kernel(A))
    off = np.abs(K[some[:10]].double().cpu().numpy() - kernel(half[some[:10]], half)).max()
    name = f"sparse counts, {half.shape[0]} rows, Gram"
    return [*found, (name, f"{spent:.2f} s", f"{off:.1e}, {peak()}")]


def searches() -> list[Row]:
    """Gram matrices of a search: twenty times of the heat kernel on 10 000 rows."""
    X = np.random.default_rng(0).normal(size=(10_000 // PART, 100))
    kernels = [Heat(Sphere(), t_star=t) for t in np.geomspace(0.1, 3, 20)]
    there, here = Grams(X, device=DEVICE), Grams(X)
    for kernel in kernels:  # compiled by the first call
        there(kernel)
    far, _ = seconds(lambda: [there(kernel).shape for kernel in kernels])
    near, _ = seconds(lambda: [here(kernel).shape for kernel in kernels])
    off = max(float(np.abs(there(kernel) - here(kernel)).max()) for kernel in kernels[::5])
    name = f"20 Gram matrices of {len(X)} rows for a search"
    return [(name, f"{far:.2f} s", f"{off:.1e}; CPU {near:.2f} s")]


def shared() -> list[Row]:
    """Work in three parts or more, shared by all visible devices."""
    count = torch.cuda.device_count() if DEVICE == "cuda" else 1
    several = [torch.device(DEVICE, i % count) for i in range(max(count, 3))]
    kernel = Heat(Sphere())
    X = table_of(65_536 // PART, 64)[0].float()
    v = torch.randn(len(X), device=DEVICE)
    operands = Operands(kernel.embedding, X, None)
    profile = kernel.profile(64)
    options = operands.options(profile)
    engine = engine_for(operands.L)
    kernel.matvec(X, None, v)  # warms up
    alone, expected = seconds(lambda: kernel.matvec(X, None, v))
    split, product = seconds(
        lambda: shared_matvec(engine.matvec, several, operands.L, operands.R, profile, v, options)
    )
    off = float((product - expected).abs().max() / expected.abs().max())
    name = f"matvec of {len(X)} rows, {count} device(s), in {len(several)} parts"
    rows = [(name, f"{split:.3f} s", f"{off:.1e}; alone {alone:.3f} s")]
    few = slice(8192 // PART)
    K = kernel(X[few])
    operands = Operands(kernel.embedding, X[few], None)
    parts = operands.L, operands.R, profile, operands.options(profile)
    off = float((shared_gram(engine.gram, several, *parts) - K).abs().max())
    large = devices.sharing_matvec(X, X, v)
    return [*rows, (f"Gram matrix in parts; shared by itself: {len(large)}", "", f"{off:.1e}")]


def borrowed() -> list[Row]:
    """CuPy's arrays, if it is installed; else an array that offers DLPack alone."""
    X = table_of(8192 // PART, 64)[0]
    try:
        import cupy

        rows, name = cupy.from_dlpack(X), "CuPy"
    except ImportError:
        if DEVICE == "cpu":
            return []  # nothing is borrowed in main memory
        rows, name = Lent(X), "DLPack"
    spent, K = seconds(lambda: Heat(Sphere())(rows))
    back = torch.from_dlpack(K)
    off = float((back - Heat(Sphere())(X)).abs().max()) if type(K) is type(rows) else np.nan
    return [(f"{name} in and out, {len(X)} rows", f"{spent:.3f} s", f"{off:.1e}")]


def clouds() -> list[Row]:
    """Gram matrices of clouds of 30 to 60 points in R^16, beside the CPU on some of them."""
    rng, found = np.random.default_rng(0), []
    sizes = rng.integers(30, 61, size=2000 // PART)
    X = [rng.normal(size=(k, 16)) + rng.normal(size=16) / 2 for k in sizes]
    base = Gaussian(length_scale=4.0)
    plans = (
        (MeanEmbedding(base), 1, 10),
        (GaussianEmbedding(base), 1, 10),
        (InverseGeneralizedVariance(base, eta=0.1), 4, 10),
    )
    for kernel, share, fewer in plans:
        some = X[:: share if PART == 1 else 1]
        few = some[:: fewer if PART == 1 else 1]
        near, expected = seconds(lambda k=kernel, Z=few: k(Z))
        for dtype in (torch.float64, torch.float32):
            A = [torch.as_tensor(cloud, dtype=dtype, device=DEVICE) for cloud in some]
            B = [torch.as_tensor(cloud, dtype=dtype, device=DEVICE) for cloud in few]
            off = np.abs(kernel(B).double().cpu().numpy() - expected).max() / expected.max()  # warms up
            spent, _ = seconds(lambda k=kernel, A=A: k(A))
            name = f"{len(some)} clouds of 30 to 60 points, {kernel}, {dtype}"
            beside = f"CPU {near:.2f} s for {len(few)} clouds"
            found.append((name, f"{spent:.2f} s", f"{off:.1e}, {peak()}; {beside}"))
    return found


def graphs() -> list[Row]:
    """Columns and products of the heat kernel of a large graph, and of a small one, decomposed."""
    rng, found = np.random.default_rng(0), []
    for size, degree in ((500_000 // PART, 16), (1500, 16)):
        ends = rng.integers(size, size=(2, size * degree // 2))
        half = sparse.coo_array((np.ones(ends.shape[1]), ends), shape=(size, size))
        A = sparse.csr_array(half + half.T)
        nodes = rng.choice(size, 64, replace=False)
        kernels = [
            Heat(Graph(matrix, laplacian="normalized"), t=5.0, normalized=False)
            for matrix in (A, as_tensor(A, torch.float64))
        ]
        v = rng.normal(size=len(nodes))
        for what, call in (
            ("64 nodes, first call", lambda k, n=nodes: k(n)),
            ("64 nodes", lambda k, n=nodes: k(n)),
            ("matvec", lambda k, n=nodes, v=v: k.matvec(n, None, v)),
        ):
            near, expected = seconds(lambda call=call, k=kernels[0]: call(k))
            spent, values = seconds(lambda call=call, k=kernels[1]: call(k))
            off = np.abs(values.cpu().numpy() - expected).max() / np.abs(expected).max()
            name = f"Heat on a graph of {size} nodes, {A.nnz // 2} edges, {what}"
            found.append((name, f"{spent:.3f} s", f"{off:.1e}, {peak()}; CPU {near:.3f} s"))
    return found


class Lent:
    """An array that offers its memory, and no arithmetic."""

    def __init__(self, values: torch.Tensor) -> None:
        self.values, self.shape, self.ndim = values, tuple(values.shape), values.ndim
        self.dtype = values.dtype

    def __dlpack__(self, **options: Any) -> Any:
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()


def from_dlpack(values: Any) -> Lent:
    return Lent(torch.from_dlpack(values))


def main() -> None:
    """Print all figures, or those of the named functions."""
    parts = {
        f.__name__: f for f in (processes, sparse_counts, searches, shared, borrowed, clouds, graphs)
    }
    chosen = sys.argv[1:] or list(parts)
    name = torch.cuda.get_device_name() if DEVICE == "cuda" else "CPU, a hundredth of the size"
    table = Table("work", "time", "difference", title=f"{time.strftime('%Y-%m-%d')}, {name}")
    start, failed = time.perf_counter(), 0
    for part in chosen:
        try:
            for row in parts[part]():
                table.add_row(*row)
        except Exception as error:  # the other figures are wanted all the same
            failed += 1
            table.add_row(part, "failed", f"{type(error).__name__}: {error}")
    Console(width=150).print(table)
    print(f"{time.perf_counter() - start:.0f} s in all")
    sys.exit(failed)


if __name__ == "__main__":
    main()
