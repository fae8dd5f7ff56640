"""String kernels beside CountVectorizer and, where R has it, kernlab; growth with the length.

``python -m benchmarks.strings [--data FOLDER]``; FOLDER (or MERCER_DATA) holds
``protein_strings/protr_localization.csv.gz``.  Without it random proteins of the same shape are used.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from sklearn.feature_extraction.text import CountVectorizer

from benchmarks.timing import best
from mercer._threads import threads_in_use
from mercer.features import SubstringVectorizer
from mercer.kernels import FullSpectrum, GappySubsequence, Mismatch, Spectrum, WeightedDegree

Rows = list[tuple[str, float, str]]

KERNLAB = """
suppressMessages(library(kernlab))
x <- as.list(readLines(commandArgs(TRUE)[1]))
for (k in list(stringdot(type="spectrum", length=3, normalized=FALSE),
               stringdot(type="spectrum", length=5, normalized=FALSE),
               stringdot(type="constant", normalized=FALSE)))
  cat(system.time(kernelMatrix(k, x))[["elapsed"]], "\\n")
"""


def proteins(folder: str | None, size: int = 500) -> tuple[str, list[str]]:
    path = Path(folder or "") / "protein_strings" / "protr_localization.csv.gz"
    if folder and path.exists():
        return "proteins", pd.read_csv(path)["sequence"].tolist()[:size]
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(5.6, 0.8, size=size).astype(int), 50, 5000)
    letters = np.array(list("ACDEFGHIKLMNPQRSTVWY"))
    return "random proteins", ["".join(rng.choice(letters, size=n)) for n in lengths]


def dna(count: int, length: int) -> list[str]:
    letters = np.random.default_rng(0).choice(list("ACGT"), size=(count, length))
    return ["".join(row) for row in letters.tolist()]


def kernlab(X: list[str]) -> list[float] | None:
    """Seconds inside R for the spectra of lengths 3 and 5 and for all substrings, or None."""
    if shutil.which("Rscript") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        script, data = Path(folder) / "time.R", Path(folder) / "strings.txt"
        script.write_text(KERNLAB)
        data.write_text("\n".join(X) + "\n")
        run = subprocess.run(["Rscript", str(script), str(data)], capture_output=True, text=True)
    return [float(line) for line in run.stdout.split()] if run.returncode == 0 else None


def counted(X: list[str], length: int) -> np.ndarray:
    """The spectrum kernel by scikit-learn and SciPy."""
    counter = CountVectorizer(analyzer="char", ngram_range=(length, length), lowercase=False)
    F = counter.fit_transform(X)
    return (F @ F.T).toarray()


def spectra(folder: str | None) -> Rows:
    name, X = proteins(folder)
    others = kernlab(X)
    rows: Rows = []
    for i, length in enumerate((3, 5)):
        kernel = Spectrum(length)
        theirs, ours = best(lambda n=length: counted(X, n), lambda k=kernel: k(X))
        assert np.array_equal(counted(X, length), kernel(X))
        rows.append((f"CountVectorizer and F @ F.T, {len(X)} {name}, length {length}", theirs, "1"))
        ratio = f"{theirs / ours:.1f} x faster"
        if others:
            rows.append((f"kernlab spectrum, length {length}", others[i], f"{others[i] / theirs:.0f} x"))
            ratio += f", {others[i] / ours:.0f} x faster than kernlab"
        rows.append((f"Spectrum({length})", ours, ratio))
    (ours,) = best(lambda: FullSpectrum()(X))
    if others:
        rows.append(("kernlab constant (all substrings)", others[2], ""))
    rows.append(
        ("FullSpectrum()", ours, f"{others[2] / ours:.0f} x faster than kernlab" if others else "")
    )
    exact, hashed = best(
        lambda: SubstringVectorizer(5).fit_transform(X),
        lambda: SubstringVectorizer(5, n_features=2**18).transform(X),
    )
    rows.append(("SubstringVectorizer(5), exact", exact, ""))
    rows.append(("SubstringVectorizer(5, n_features=2**18)", hashed, ""))
    return rows


def pairwise() -> Rows:
    X = dna(2000, 60)
    kernels = (WeightedDegree(20), Mismatch(6, 1), GappySubsequence(3, 0.5))
    times = best(*(lambda k=kernel: k(X) for kernel in kernels), repeats=2)
    return [
        (f"{kernel!r}, 2000 strings of length 60", seconds, f"{2e9 * seconds / 2000**2:.0f} ns per pair")
        for kernel, seconds in zip(kernels, times, strict=True)
    ]


def lengths() -> Rows:
    """Two strings of growing length, random and of one letter."""
    rows: Rows = []
    for n in (62_500, 125_000, 250_000, 500_000, 1_000_000):
        pairs = {"random ACGT": dna(2, n), "one letter": ["a" * n, "a" * n]}
        for name, pair in pairs.items():
            (seconds,) = best(lambda p=pair: FullSpectrum()(p[:1], p[1:]), repeats=3)
            rows.append(
                (
                    f"FullSpectrum(), a pair of length {n}, {name}",
                    seconds,
                    f"{1e9 * seconds / n:.0f} ns per symbol",
                )
            )
    return rows


def strings(folder: str | None) -> Rows:
    return [*spectra(folder), *pairwise(), *lengths()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("MERCER_DATA"), help="folder of data sets")
    folder = parser.parse_args().data
    table = Table("what", "seconds", "ratio", title=f"best of several, {threads_in_use()} threads")
    for what, seconds, ratio in strings(folder):
        table.add_row(what, f"{seconds:.4f}", ratio)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
