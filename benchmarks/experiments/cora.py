"""Classes of papers from citations alone: Cora with the Planetoid split.

``python -m benchmarks.experiments.cora --data FOLDER``, where FOLDER (or MERCER_DATA) holds
``citation_graphs/cora.npz``: 140 training nodes (20 per class), 500 validation nodes on which the
kernel's parameters and C are chosen, 1000 test nodes that are looked at once.  No features of the
papers are used.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy import sparse
from sklearn.svm import SVC

from mercer.kernels import Exponential, Heat, Kernel, Matern, VonNeumann
from mercer.spaces import Graph

C_GRID = (0.1, 1.0, 10.0, 100.0, 1000.0)
SCALES = (1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 50.0, 100.0)


def families(adjacency: sparse.csr_array) -> Iterator[tuple[str, list[Kernel]]]:
    """Kernels with their grids; all normalised."""
    unit = {"normalized": True}
    for name in ("normalized", "unnormalized"):
        graph = Graph(adjacency, laplacian=name)
        grid = product((1.0, 1.5, 2.0, 3.0, 5.0), SCALES)
        yield f"Matern, {name} Laplacian", [Matern(graph, nu=nu, length_scale=s) for nu, s in grid]
        yield f"heat, {name} Laplacian", [Heat(graph, t=s**2 / 2) for s in SCALES]
    graph = Graph(adjacency, similarity="normalized")
    yield "von Neumann, normalised", [VonNeumann(graph, beta=s**2, **unit) for s in SCALES]
    graph = Graph(adjacency)
    yield "exponential, adjacency", [Exponential(graph, beta=s / 10, **unit) for s in SCALES]


def best_on_validation(kernels: list[Kernel], y: np.ndarray, split: np.ndarray) -> tuple:
    """Validation and test accuracy of the choice that is best on the validation nodes."""
    train, check, test = (np.flatnonzero(split == part) for part in (1, 2, 3))
    best: tuple = (-1.0,)
    for kernel in kernels:
        gram, against = kernel(train), kernel(np.concatenate([check, test]), train)
        for c in C_GRID:
            machine = SVC(kernel="precomputed", C=c).fit(gram, y[train])
            validation = machine.score(against[: len(check)], y[check])
            if validation > best[0]:
                best = (validation, machine.score(against[len(check) :], y[test]), kernel, c)
    return best


def parameters(kernel: Kernel) -> str:
    names = ("nu", "length_scale", "t", "beta")
    return ", ".join(
        f"{n}={getattr(kernel, n):g}" for n in names if getattr(kernel, n, None) is not None
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("MERCER_DATA"), help="folder of data sets")
    folder = parser.parse_args().data
    path = Path(folder or "") / "citation_graphs" / "cora.npz"
    if not path.exists():
        parser.error(f"there is no {path}; name the folder with citation_graphs/cora.npz (--data)")
    with np.load(path) as archive:
        edges, y, split = archive["edges"], archive["labels"], archive["split"]
    half = sparse.coo_array((np.ones(len(edges)), edges.T), shape=(len(y), len(y))).tocsr()
    table = Table(
        "kernel", "validation", "test", "chosen", title="Cora, 20 labels per class, no features"
    )
    for name, kernels in track(list(families(half + half.T)), description="kernels"):
        validation, test, kernel, c = best_on_validation(kernels, y, split)
        table.add_row(name, f"{validation:.1%}", f"{test:.1%}", f"{parameters(kernel)}, C={c:g}")
    Console().print(table)


if __name__ == "__main__":
    main()
