"""Does the exact kernel pay on text?  Nested scores beside the cosine and tf-idf, with a test.

``python -m benchmarks.experiments.text [--data FOLDER] [--repeats K]``: docstrings of the installed
libraries and, if FOLDER (or MERCER_DATA) is given, the web pages of WebKB with all 19188 words.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.experiments.grids import webkb
from mercer.datasets import load_docstrings
from mercer.kernels import Cosine, Heat, Linear, TfIdf
from mercer.selection import Comparison, compare
from mercer.spaces import Simplex

FAMILIES = {
    "linear": [Linear()],
    "tf-idf": [TfIdf(), TfIdf(sublinear=True)],
    "cosine": [Cosine(Simplex())],
    "exact heat": [Heat(Simplex())],
}


def show(name: str, result: Comparison) -> None:
    table = Table("kernel", "accuracy", "95 % interval", "choice", "seconds", title=name)
    for score in result.scores:
        low, high = map(result.text, score.interval)
        table.add_row(
            score.name, result.text(score.mean), f"{low} .. {high}", score.choice, f"{score.seconds:.0f}"
        )
    Console(width=140).print(table, result.verdict, *result.notes, sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("MERCER_DATA"), help="folder of data sets")
    parser.add_argument("--repeats", type=int, default=1, help="times that folds are drawn")
    options = parser.parse_args()
    docstrings = load_docstrings()
    sources = [("docstrings", docstrings.X, docstrings.y)]
    if options.data:
        sources.append(("WebKB, all words", *webkb(Path(options.data), "webkb4_counts.npz", 0)))
    for name, X, y in sources:
        families = {"kernels": FAMILIES, "similarities": "auto", "repeats": options.repeats}
        show(f"{name}, {X.shape[0]} x {X.shape[1]}", compare(X, y, **families))


if __name__ == "__main__":
    main()
