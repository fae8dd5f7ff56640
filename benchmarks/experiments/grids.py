"""What does the default grid lose?  Nested accuracy of its cells beside those of an exhaustive grid.

``python -m benchmarks.experiments.grids FOLDER [--folds K] [--only NAME] [--results FILE]``: the exact
heat kernel on WebKB with 396, 1313 and 19188 words, digits, MNIST pixels and the twins' microbiomes.
The default grid has 30 cells (and what lies beyond a best one at its edge), the exhaustive one 40 times
by 9 values of C.  Outer and inner folds are the same for both.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold

from mercer.kernels import Heat
from mercer.selection import KernelSearchCV
from mercer.spaces import Simplex

TIMES = np.geomspace(0.1, 2.5, 40)
C = np.geomspace(0.1, 1e7, 9)
INNER = 3


def webkb(folder: Path, name: str, least: float) -> tuple[Any, Any]:
    """Counts of words whose total is above a part of the number of pages."""
    with np.load(folder / "webkb" / name) as z:
        X = sparse.csr_matrix((z["data"], z["indices"], z["indptr"]), shape=tuple(z["shape"]))
        y = z["y"]
    X = X[:, np.asarray(X.sum(axis=0)).ravel() > least * len(y)].astype(float)
    kept = np.asarray(X.sum(axis=1)).ravel() > 0
    return X[kept], y[kept]


def mnist(folder: Path) -> tuple[Any, Any]:
    """Pixels of 2000 digits."""
    images, labels = (
        np.frombuffer(gzip.decompress((folder / "mnist" / file).read_bytes()), np.uint8)
        for file in ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")
    )
    some = np.random.default_rng(0).permutation(10_000)[:2000]
    return images[16:].reshape(-1, 784)[some].astype(float), labels[8:][some]


def twins(folder: Path) -> tuple[Any, Any]:
    """Genera in the guts of lean and obese twins."""
    table = pd.read_csv(folder / "microbiome" / "twins_genus_counts.csv.gz")
    table = table[table["phenotype"] != "overweight"]
    return table.drop(columns=["sample", "phenotype"]).to_numpy(float), table["phenotype"].to_numpy()


TABLES: dict[str, Callable[[Path], tuple[Any, Any]]] = {
    "twins' microbiomes": twins,
    "digits": lambda _: load_digits(return_X_y=True),
    "MNIST pixels, 2000 rows": mnist,
    "WebKB, 396 words": lambda folder: webkb(folder, "webkb4_paper_counts.npz", 1 / 10),
    "WebKB, 1313 words": lambda folder: webkb(folder, "webkb4_paper_counts.npz", 1 / 40),
    "WebKB, 19188 words": lambda folder: webkb(folder, "webkb4_counts.npz", 0),
}


def measure(X: Any, y: Any, folds: int) -> dict[str, Any]:
    """Nested scores of both grids on the same folds."""
    searches = {
        "default": KernelSearchCV(Heat(Simplex()), similarities="auto"),
        "exhaustive": KernelSearchCV([Heat(Simplex(), t_star=t) for t in TIMES], param_grid={"C": C}),
    }
    found: dict[str, Any] = {"rows": X.shape[0], "columns": X.shape[1]}
    for name, search in searches.items():
        start = time.perf_counter()
        search.set_params(cv=StratifiedKFold(INNER, shuffle=True, random_state=0))
        outer = StratifiedKFold(folds, shuffle=True, random_state=0)
        nested = search.nested_scores(X, y, outer_cv=outer)
        found[name] = nested.mean
        found[f"{name} seconds"] = time.perf_counter() - start
        found[f"{name} chosen"] = [
            [c["kernel"].t_star, c.get("similarity"), c["C"]] for c in nested.chosen
        ]
    found["standard error"] = (found["exhaustive"] * (1 - found["exhaustive"]) / len(y)) ** 0.5
    return found


def show(results: dict[str, Any]) -> None:
    table = Table(
        "table", "rows x columns", "default", "exhaustive", "lost", "standard error", "seconds"
    )
    for name, found in results.items():
        table.add_row(
            name, f"{found['rows']} x {found['columns']}", f"{found['default']:.2%}",
            f"{found['exhaustive']:.2%}", f"{found['exhaustive'] - found['default']:+.2%}",
            f"{found['standard error']:.2%}",
            f"{found['default seconds']:.0f} / {found['exhaustive seconds']:.0f}",
        )  # fmt: skip
    Console(width=140).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder of data sets")
    parser.add_argument("--folds", type=int, default=3, help="outer folds")
    parser.add_argument("--only", action="append", help="name of a table; may be repeated")
    parser.add_argument("--results", type=Path, help="JSON file to add to, and to go on from")
    options = parser.parse_args()
    path = options.results
    results = json.loads(path.read_text()) if path is not None and path.exists() else {}
    for name in options.only or TABLES:
        if name not in results:
            results[name] = measure(*TABLES[name](options.data), options.folds)
            if path is not None:
                path.write_text(json.dumps(results, indent=1))
    show(results)


if __name__ == "__main__":
    main()
