"""Node kernels on a graph of a million nodes: time, memory and the error that is stated.

``python -m benchmarks.graphs``: a random graph with 10^6 nodes and 5 x 10^6 edges, columns of 100 nodes.
"""

from __future__ import annotations

import resource
import time

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import sparse
from scipy.sparse.linalg import expm_multiply

from mercer._threads import threads_in_use
from mercer.features import SpectralFeatures
from mercer.kernels import Heat
from mercer.spaces import Graph

NODES, EDGES, COLUMNS, TIME = 10**6, 5 * 10**6, 100, 1.0


def random_graph() -> sparse.csr_array:
    ends = np.random.default_rng(0).integers(0, NODES, size=(2, EDGES))
    ends = ends[:, ends[0] != ends[1]]
    half = sparse.coo_array((np.ones(ends.shape[1]), ends), shape=(NODES, NODES)).tocsr()
    adjacency = half + half.T
    adjacency.data[:] = 1
    return adjacency


def timed(call) -> tuple[float, object]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def graphs() -> list[tuple[str, float, str]]:
    adjacency = random_graph()
    nodes = np.random.default_rng(1).choice(NODES, COLUMNS, replace=False)
    Heat(Graph(adjacency[:5000, :5000]), t=TIME)([0])  # compile
    rows = []
    for laplacian in ("unnormalized", "normalized"):
        graph = Graph(adjacency, laplacian=laplacian)
        heat = Heat(graph, t=TIME, normalized=False)
        seconds, columns = timed(lambda heat=heat: heat(np.arange(NODES), nodes))
        series = heat.expansion()
        name = f"Heat, {laplacian} Laplacian, t = {TIME:g}: {COLUMNS} columns of 10^6"
        note = f"{len(series.coefficients)} terms, error below {series.error:.0e}"
        rows.append((name, seconds, note))
        if laplacian == "unnormalized":
            L = graph.operator("laplacian").matrix
            start = np.zeros((NODES, 2))
            start[nodes[:2], [0, 1]] = 1
            peer, expected = timed(lambda L=L, start=start: expm_multiply(-TIME * L, start))
            scaled = peer * COLUMNS / 2
            far = np.abs(columns[:, :2] - expected).max()
            note = f"{scaled / seconds:.1f} x ours, from 2 columns; they differ by {far:.0e}"
            rows.append((f"SciPy expm_multiply, {COLUMNS} columns", scaled, note))
    del columns
    features = SpectralFeatures(heat, n_components=20)
    seconds, _ = timed(features.fit)
    rows.append(("SpectralFeatures, 20 eigenpairs", seconds, f"error below {features.error_:.2f}"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    rows.append(("peak memory of the process", peak, "GB, of which the columns are 0.8"))
    return rows


def main() -> None:
    table = Table("what", "seconds", "note", title=f"{threads_in_use()} threads")
    for what, seconds, note in graphs():
        table.add_row(what, f"{seconds:.2f}", note)
    Console().print(table)


if __name__ == "__main__":
    main()
