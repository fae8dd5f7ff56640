"""Does geometry help?  ``compare`` on tables of several kinds, and what it says.

``python -m benchmarks.experiments.geometry [--data FOLDER]``: tables of scikit-learn and, if FOLDER (or
MERCER_DATA) is given, WebKB and the microbiomes of twins and of mice.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from scipy import sparse
from sklearn import datasets
from sklearn.preprocessing import scale

from mercer.selection import Comparison, compare

ROWS = 800


def bundled() -> Iterator[tuple[str, Any, Any, dict[str, Any]]]:
    """Tables that come with scikit-learn."""
    digits = datasets.load_digits()
    yield "digits, first 800", digits.data[:ROWS], digits.target[:ROWS], {}
    wine = datasets.load_wine()
    yield "wine, as it is", wine.data, wine.target, {}
    yield "wine, standardised", scale(wine.data), wine.target, {}
    cancer = datasets.load_breast_cancer()
    yield "breast cancer, standardised", scale(cancer.data), cancer.target, {}
    iris = datasets.load_iris()
    yield "iris", iris.data, iris.target, {}


def shared(folder: Path) -> Iterator[tuple[str, Any, Any, dict[str, Any]]]:
    """Counts from the folder of data sets."""
    with np.load(folder / "webkb" / "webkb4_paper_counts.npz", allow_pickle=True) as z:
        counts = sparse.csr_matrix((z["data"], z["indices"], z["indptr"]), shape=tuple(z["shape"]))
        some = np.random.default_rng(0).choice(len(z["y"]), ROWS, replace=False)
        yield f"WebKB, {ROWS} pages", counts[some].astype(float), z["y"][some], {}
    twins = pd.read_csv(folder / "microbiome" / "twins_genus_counts.csv.gz")
    twins = twins[twins["phenotype"] != "overweight"]
    X = twins.drop(columns=["sample", "phenotype"]).to_numpy(float)
    yield "twins' microbiomes, lean or obese", X, twins["phenotype"], {"repeats": 4}
    mice = pd.read_csv(folder / "microbiome" / "mouse_samples.csv")
    with np.load(folder / "microbiome" / "mouse_otu_counts.npz") as z:
        counts = sparse.csr_matrix((z["data"], z["indices"], z["indptr"]), shape=tuple(z["shape"]))
    yield "mice, diet, by mouse", counts.astype(float), mice["diet"], {"groups": mice["mouseID"]}


def row(name: str, result: Comparison) -> list[str]:
    """Best flat and best geometric kernel, their difference and its p-value."""
    flat, rich = result.best_plain, result.best_rich
    p = result.adjusted_p_values[rich.name]
    shape = f"{result.rows} x {result.data.columns}"
    return [
        name, shape, result.metric_title, f"{flat.name} {result.text(flat.mean)}",
        f"{rich.name} {result.text(rich.mean)}", f"{p:.3f}",
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("MERCER_DATA"), help="folder of data sets")
    folder = parser.parse_args().data
    table = Table("table", "rows x columns", "metric", "flat", "geometric", "p (Holm)")
    sources = [bundled(), shared(Path(folder))] if folder else [bundled()]
    for source in sources:
        for name, X, y, options in source:
            table.add_row(*row(name, compare(X, y, **options)))
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
