"""Does the boundary of the simplex matter?  Heat kernels with and without it, on counts of many kinds.

``python -m benchmarks.experiments.boundaries [--data FOLDER]``: compositions that are drawn here and, if
FOLDER (or MERCER_DATA) is given, WebKB, the microbiomes of twins and mutations of tumours.  Each kernel
chooses its time (median similarities of 0.1 to 0.98) and C within the training part of each of ten
splits.
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
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit
from sklearn.svm import SVC

from mercer.kernels import Heat
from mercer.kernels.scale import Unreachable
from mercer.rkhs import total_variance
from mercer.spaces import Simplex

SIMILARITIES = (0.1, 0.3, 0.6, 0.9, 0.98)
PENALTIES = tuple(10.0 ** np.arange(-1, 4))
SPLITS, ROWS, PRIOR = 10, 400, 0.5
KERNELS = {name: Heat(Simplex(boundary=name)) for name in (None, "reflecting", "absorbing")}


def drawn(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Compositions whose class is decided at the boundary, or far from it."""
    for n in (3, 5, 10, 20):
        shares = rng.dirichlet(np.full(n, 0.5), size=ROWS)
        yield f"rarest of {n} is common", shares, shares.min(axis=1) > np.median(shares.min(axis=1))
        centre = np.log(shares + 0.05) @ rng.normal(size=n)
        yield f"half space, n = {n}", shares, centre > np.median(centre)


def shared(folder: Path, rng: np.random.Generator) -> Iterator[tuple[str, Any, np.ndarray]]:
    """Counts from the folder of data sets."""
    with np.load(folder / "webkb" / "webkb4_paper_counts.npz", allow_pickle=True) as z:
        counts = sparse.csr_matrix((z["data"], z["indices"], z["indptr"]), shape=tuple(z["shape"]))
        some = rng.choice(len(z["y"]), ROWS, replace=False)
        X, y = counts[some].astype(float), z["y"][some]
        keep = X.getnnz(axis=1) > 0
        yield "WebKB", X[keep], y[keep]
    twins = pd.read_csv(folder / "microbiome" / "twins_genus_counts.csv.gz")
    twins = twins[twins["phenotype"] != "overweight"]
    X = twins.drop(columns=["sample", "phenotype"]).to_numpy(float)
    yield "twins' microbiomes", X, twins["phenotype"].to_numpy()
    common = np.argsort(-X.sum(axis=0))[:12]
    yield "the same, 12 genera", X[:, common] + PRIOR, twins["phenotype"].to_numpy()
    yield from _mutations(folder)


def _mutations(folder: Path) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Tumours by their mutated genes, and whether TP53 is among them."""
    long = pd.read_csv(folder / "tcga_gbm" / "gbm_mc3_mutations.csv.gz")
    sample, gene = long.columns[:2]
    table = (pd.crosstab(long[sample], long[gene]) > 0).astype(float)
    y = table.pop("TP53").to_numpy() > 0
    X = table.loc[:, table.sum() >= 5].to_numpy()
    keep = X.sum(axis=1) > 0
    yield "mutations, TP53", X[keep], y[keep]


def similarity_grid(kernel: Heat, X: Any) -> list[Heat]:
    """The kernel at each median similarity that it reaches."""
    found = []
    for similarity in SIMILARITIES:
        try:
            found.append(kernel.scaled_to(X, similarity))
        except Unreachable:
            continue
    return found


def errors(kernel: Heat, X: Any, y: np.ndarray) -> tuple[np.ndarray, list[float]]:
    """Test errors of ten splits, and the similarities that were chosen."""
    kernels = similarity_grid(kernel, X)
    grams = [k(X) for k in kernels]
    rates, chosen = [], []
    splits = StratifiedShuffleSplit(SPLITS, test_size=0.3, random_state=0)
    for train, test in splits.split(np.zeros(len(y)), y):
        searches = []
        for K in grams:
            inner = K[np.ix_(train, train)]
            scales = np.array(PENALTIES) / total_variance(inner)
            search = GridSearchCV(SVC(kernel="precomputed"), {"C": scales}, cv=4)
            searches.append(search.fit(inner, y[train]))
        best = int(np.argmax([search.best_score_ for search in searches]))
        rates.append(1 - searches[best].score(grams[best][np.ix_(test, train)], y[test]))
        chosen.append(float(np.median(grams[best][np.triu_indices(len(y), 1)])))
    return np.array(rates), chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("MERCER_DATA"), help="folder of data sets")
    folder = parser.parse_args().data
    rng = np.random.default_rng(0)
    sources = [drawn(rng), shared(Path(folder), rng)] if folder else [drawn(rng)]
    table = Table(
        "data", "rows x columns", *(f"{name or 'no boundary'} (similarity)" for name in KERNELS)
    )
    for source in sources:
        for name, X, y in source:
            cells = []
            for boundary, kernel in KERNELS.items():
                if boundary == "absorbing" and X.shape[1] > 20:
                    cells.append("")
                    continue
                rates, chosen = errors(kernel, X, y)
                spread = rates.std(ddof=1) / np.sqrt(SPLITS)
                cells.append(f"{100 * rates.mean():.1f} +- {100 * spread:.1f} ({np.median(chosen):.2f})")
            table.add_row(name, f"{X.shape[0]} x {X.shape[1]}", *cells)
            print(name, *cells, flush=True)
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
