"""Machines on landmarks: sparse documents on the CPU beside scikit-learn, many rows on a device.

``python -m benchmarks.landmarks [--rows 50000 100000] [--landmarks 1000] [--peers]``: documents of 60 to
140 words out of 20 000 in four classes, as blocks that are made when they are read, so that no run holds
them all.  The machine is ``LandmarkClassifier(Heat(Simplex()))``, scaled to similarity 0.3.  With
``--peers`` the same documents are kept in memory, and scikit-learn's ``Nystroem`` runs with
``RidgeClassifier`` and ``LinearSVC`` at the same number of landmarks, on square roots of proportions,
whose Gaussian kernel has the same similarity.  Each is fitted with three strengths of regularisation, of
which the best accuracy counts, and the time of all.

``python -m benchmarks.landmarks --device [--rows 10000000] [--landmarks 2000]``: 50 columns, ridge
regression on the device, where the rows are or in blocks that are sent there; errors and residuals on
rows that were not seen.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import sparse
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from mercer._arrays import roots_of_shares
from mercer.kernels import Gaussian, Heat
from mercer.machines import LandmarkClassifier, LandmarkRegressor
from mercer.spaces import Simplex, Sphere

WORDS, CLASSES, BLOCK, UNSEEN = 20_000, 4, 10_000, 10_000
#: Ridges, or C, of which the best counts where machines stand side by side.
STRENGTHS = [1e-2, 1.0, 1e2]


def documents(number: int, rows: int) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Block of some number: words by Zipf's law, of which each class prefers some at other ranks."""
    rng = np.random.default_rng([20, number])
    y = rng.integers(0, CLASSES, size=rows)
    lengths = rng.integers(60, 141, size=rows)
    ranks = np.minimum(rng.zipf(1.3, size=lengths.sum()) - 1, WORDS - 1)
    owner = np.repeat(np.arange(rows), lengths)
    topical = rng.random(len(ranks)) < 0.06
    words = np.where(topical, (ranks + 300 + 200 * y[owner]) % WORDS, ranks)
    counts = sparse.coo_matrix((np.ones(len(words)), (owner, words)), shape=(rows, WORDS))
    return counts.tocsr(), y


@dataclass(frozen=True)
class Documents:
    """Blocks of documents that are made when they are read."""

    rows: int

    def __iter__(self) -> Iterator[tuple[sparse.csr_matrix, np.ndarray]]:
        for number in range(-(-self.rows // BLOCK)):
            yield documents(number, min(BLOCK, self.rows - number * BLOCK))


def timed(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """What the call returns, seconds, and seconds of processors."""
    clock, processor = time.perf_counter(), time.process_time()
    result = call()
    return result, time.perf_counter() - clock, time.process_time() - processor


def peak() -> float:
    """Largest memory of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def on_documents(sizes: list[int], landmarks: int, loss: str, peers: bool) -> None:
    table = Table("rows", "machine", "seconds (of processors)", "accuracy", "peak GB", "certificate")
    unseen, labels = documents(10**6, UNSEEN)
    for rows in sizes:
        machine = LandmarkClassifier(Heat(Simplex()), landmarks, loss=loss, scale=0.3, random_state=0)
        strengths = STRENGTHS if peers else [1e-6 * rows]
        models, clock, processor = timed(
            lambda m=machine, r=rows, s=strengths: m.path(Documents(r), None, s)
        )
        accuracy, certificate = max((m.score(unseen, labels), m.certificate_) for m in models)
        times = f"{clock:.1f} ({processor:.1f})"
        name = f"LandmarkClassifier, {loss}"
        table.add_row(f"{rows}", name, times, f"{accuracy:.4f}", f"{peak():.2f}", certificate)
        if peers:
            beside(table, rows, landmarks, unseen, labels)
    Console(width=160).print(table)


def beside(table: Table, rows: int, landmarks: int, unseen: Any, labels: np.ndarray) -> None:
    """scikit-learn's machines on the same documents: the best of three, and the time of all."""
    parts = list(Documents(rows))
    X = roots_of_shares(sparse.vstack([X for X, _ in parts], format="csr"))
    y = np.concatenate([y for _, y in parts])
    gamma = 0.5 / Gaussian(1.0).scaled_to(X[:1000].toarray(), 0.3).length_scale ** 2
    new = roots_of_shares(unseen)
    for name, machines in (
        ("Nystroem, RidgeClassifier", [RidgeClassifier(alpha) for alpha in STRENGTHS]),
        ("Nystroem, LinearSVC", [LinearSVC(C=C) for C in STRENGTHS]),
    ):
        runs = []
        for machine in machines:
            pipeline = make_pipeline(
                Nystroem(gamma=gamma, n_components=landmarks, random_state=0), machine
            )
            _, clock, processor = timed(lambda pipeline=pipeline: pipeline.fit(X, y))
            runs.append((pipeline.score(new, labels), clock, processor))
        accuracy = max(accuracy for accuracy, *_ in runs)
        clock, processor = (sum(run[k] for run in runs) for k in (1, 2))
        table.add_row(
            f"{rows}", name, f"{clock:.1f} ({processor:.1f})", f"{accuracy:.4f}", f"{peak():.2f}", ""
        )


@dataclass(frozen=True)
class Sent:
    """Rows in main memory, sent to the device block by block."""

    X: np.ndarray
    y: np.ndarray
    rows: int = 500_000

    def __iter__(self) -> Iterator[tuple[Any, np.ndarray]]:
        import torch

        for start in range(0, len(self.y), self.rows):
            part = slice(start, start + self.rows)
            yield torch.as_tensor(self.X[part], device="cuda"), self.y[part]


def on_device(rows: int, columns: int, landmarks: int) -> None:
    import torch

    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows + UNSEEN, columns), dtype=np.float32)
    directions = rng.standard_normal((columns, 20), dtype=np.float32) / np.sqrt(columns)
    y = np.concatenate(
        [np.sin(2 * X[i : i + 10**6] @ directions).sum(axis=1) for i in range(0, len(X), 10**6)]
    )
    noisy = y + 0.2 * y.std() * rng.standard_normal(len(y), dtype=np.float32)
    seen, unseen = slice(rows), slice(rows, None)
    there = torch.as_tensor(X[seen], device="cuda")
    model = LandmarkRegressor(Heat(Sphere()), landmarks, 1e-6 * rows, scale=0.3, random_state=0)
    model.fit(there[: 10 * landmarks], noisy[: 10 * landmarks])  # compiled
    table = Table("rows", "seconds", "GB on the device", "R^2 on unseen rows", "certificate")
    for name, data in (("on the device", (there, noisy[seen])), ("sent", (Sent(X[seen], noisy[seen]),))):
        torch.cuda.reset_peak_memory_stats()
        _, clock, _ = timed(lambda data=data: model.fit(*data))
        memory = torch.cuda.max_memory_allocated() / 1e9
        score = model.score(X[unseen], y[unseen])
        table.add_row(
            f"{rows}, {name}", f"{clock:.1f}", f"{memory:.1f}", f"{score:.4f}", model.certificate_
        )
    _, clock, _ = timed(lambda: model.certify(there, noisy[seen]))
    table.add_row("sampled certificate", f"{clock:.1f}", "", "", model.certificate_)
    Console(width=160).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[50_000, 100_000])
    parser.add_argument("--landmarks", type=int, default=1000)
    parser.add_argument("--loss", default="squared")
    parser.add_argument("--peers", action="store_true", help="beside scikit-learn")
    parser.add_argument("--device", action="store_true", help="rows of 50 columns on a device")
    options = parser.parse_args()
    if options.device:
        for rows in options.rows:
            on_device(rows, 50, options.landmarks)
    else:
        on_documents(options.rows, options.landmarks, options.loss, options.peers)


if __name__ == "__main__":
    main()
