"""Kernels on columns of data frames against the same kernels on arrays: ``python -m benchmarks.tables``.

Ratios of best times; 1.1 is the goal.  Arrays hold what the kernel sees in the columns, so that the
ratio counts everything that a table costs: finding and preparing columns, and the learnt factor.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import polars as pl
from rich.console import Console
from rich.table import Table

from benchmarks.timing import best
from mercer.kernels import Gaussian, Heat, Kernel, Linear, On, Spectrum
from mercer.spaces import Categories

NUMBERS, LABELS = [f"x{i}" for i in range(10)], [f"c{i}" for i in range(4)]


def table(rows: int) -> pd.DataFrame:
    """Numbers, labels and strings."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(rows, len(NUMBERS))), columns=NUMBERS)
    labels = pd.DataFrame(rng.choice(list("abcde"), size=(rows, len(LABELS))), columns=LABELS)
    strings = ["".join(row) for row in rng.choice(list("ACGT"), size=(rows, 40)).tolist()]
    return frame.join(labels).assign(dna=strings)


def kernels() -> Iterator[tuple[str, Kernel]]:
    """A kernel for each kind of columns."""
    yield "Gaussian", On(NUMBERS, Gaussian(3.0))
    yield "Linear", On(NUMBERS, Linear())
    yield "Categories", On(LABELS, Heat(Categories(levels=[list("abcde")] * len(LABELS)), t=0.3))
    yield "Spectrum", On("dna", Spectrum(3))


def main() -> None:
    shown = Table("rows", "kernel", "on an array, ms", "pandas", "polars")
    for rows in (1000, 3000, 5000):
        frame = table(rows)
        other = pl.from_pandas(frame)
        for name, kernel in kernels():
            learnt = kernel.learnt_from(frame)
            points = learnt.points(frame)
            own, *others = best(
                lambda k=learnt.kernel, P=points: k(P),
                *(lambda k=learnt, X=X: k(X) for X in (frame, other)),
                repeats=9,
            )
            ratios = (f"{time / own:.2f}" for time in others)
            shown.add_row(str(rows), name, f"{1e3 * own:.1f}", *ratios)
    Console().print(shown)


if __name__ == "__main__":
    main()
