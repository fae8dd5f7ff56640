"""Kernels of several kinds in one table: each alone, their sum, and sums with learnt weights.

``python -m benchmarks.experiments.combined --data FOLDER``, where FOLDER (or MERCER_DATA) holds the
public data sets.  Accuracy in five-fold cross-validation, repeated twice; ranges and C are chosen in
inner folds, and in the column "chosen" also the kernel: a kind alone, or one of the sums.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import RepeatedStratifiedKFold

from mercer.kernels import (
    Gaussian,
    Heat,
    Kernel,
    Linear,
    MultipleKernel,
    On,
    Spectrum,
    TfIdf,
    WeightedDegree,
)
from mercer.selection import KernelSearchCV
from mercer.spaces import Simplex

#: Rows of a table that are used, and similarities at which kernels with a range are tried.
ROWS, SIMILARITIES = 200, (0.2, 0.6)
Task = tuple[str, pd.DataFrame, np.ndarray, dict[str, Kernel]]


def tasks(folder: Path) -> Iterator[Task]:
    """Tables with a kernel for each kind of their columns."""
    wine = load_wine(as_frame=True)
    acids = list(wine.data.columns[5:9])
    rest = [name for name in wine.data.columns if name not in acids]
    yield "wine", wine.data, wine.target.to_numpy(), {
        "phenols": On(acids, Gaussian()), "others": On(rest, Gaussian()), "linear": On(rest, Linear())
    }  # fmt: skip
    cancer = load_breast_cancer(as_frame=True)
    names = cancer.data.columns
    yield "breast cancer", cancer.data, cancer.target.to_numpy(), {
        kind: On([n for n in names if n.startswith(kind) or n.endswith(kind)], Gaussian())
        for kind in ("mean", "error", "worst")
    }  # fmt: skip
    digits = load_digits(as_frame=True)
    yield "digits", digits.data, digits.target.to_numpy(), {
        "ink as counts": On(slice(None), Heat(Simplex())),
        "pixels": On(slice(None), Gaussian(), prepare=None),
        "upper half": On(slice(0, 32), Gaussian(), prepare=None),
    }  # fmt: skip
    for name in ("promoters.csv", "splice.csv.gz"):
        frame = pd.read_csv(folder / "dna_strings" / name)
        yield name.split(".")[0], frame, frame.label.astype(str).to_numpy(), {
            "3-mers": On("sequence", Spectrum(3, normalized=True)),
            "places": On("sequence", WeightedDegree(4)),
        }  # fmt: skip
    frame = pd.read_csv(folder / "protein_strings" / "protr_localization.csv.gz")
    letters = list("ACDEFGHIKLMNPQRSTVWY")
    counts = pd.DataFrame({letter: frame.sequence.str.count(letter) for letter in letters})
    frame = frame.join(counts).assign(length=frame.sequence.str.len().astype(float))
    yield "proteins", frame, frame.label.to_numpy(), {
        "3-mers": On("sequence", Spectrum(3, normalized=True)),
        "amino acids": On(letters, Heat(Simplex())),
        "length": On("length", Gaussian()),
    }  # fmt: skip
    frame = pd.read_csv(
        folder / "reuters_strings" / "reuters_kernlab40.tsv.gz", sep="\t", quoting=3, na_filter=False
    )
    yield "reuters", frame, frame.label.to_numpy(), {
        "words": On("text", TfIdf()),
        "5-mers": On("text", Spectrum(5, normalized=True)),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("MERCER_DATA"), help="folder of data sets")
    parser.add_argument("--table", help="one of the tables")
    arguments = parser.parse_args()
    folder = arguments.data
    if folder is None or not Path(folder).is_dir():
        parser.error("name the folder of data sets (--data)")
    console = Console(width=120)
    names = (
        "table",
        "best kind alone",
        "sum",
        "alignment",
        "ridge",
        "left out",
        "chosen",
        "standard error",
    )
    console.print(" | ".join(names))
    for name, frame, y, parts in tasks(Path(folder)):
        if arguments.table not in (None, name):
            continue
        some = np.random.default_rng(0).permutation(len(y))[:ROWS]
        kernels = list(parts.values())
        families = {
            **{kind: [kernel] for kind, kernel in parts.items()},
            "sum": [sum(kernels[1:], start=kernels[0])],
            "alignment": [MultipleKernel(kernels)],
            "ridge": [MultipleKernel(kernels, "ridge")],
            "loo": [MultipleKernel(kernels, "loo")],
        }
        search = KernelSearchCV(families, similarities=SIMILARITIES, cv=3)
        folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=2, random_state=0)
        nested = search.nested_scores(frame.iloc[some], y[some], outer_cv=folds)
        found = nested.families
        best = max(parts, key=lambda kind: found[kind].mean)
        scores = found["sum"].scores
        error = np.std(scores, ddof=1) / np.sqrt(len(scores))
        means = [
            *(found[family].mean for family in ("sum", "alignment", "ridge", "loo")),
            nested.mean,
            error,
        ]
        cells = [name, f"{found[best].mean:.1%} ({best})", *(f"{mean:.1%}" for mean in means)]
        console.print(" | ".join(cells))


if __name__ == "__main__":
    main()
