"""Kernels on columns of data frames against the same kernels on arrays: ``python -m benchmarks.tables``.

Medians of ratios of times; 1.1 is the goal.  Arrays hold what the kernel sees in the columns, so that
the ratio counts everything that a table costs: finding and preparing columns, and the learnt factor.
The last kernel is the sum of the others, against its parts one after the other.  A second table has the
ratios to the same preparation and factor written by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from rich.console import Console
from rich.table import Table

from benchmarks.timing import ratios
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


def by_hand(learnt: On, frame: pd.DataFrame) -> Callable[[Any], Any]:
    """What a kernel of numbers does with a frame, written with NumPy."""
    numbers, points = frame[NUMBERS].to_numpy(), learnt.points(frame)
    mean, deviation = numbers.mean(axis=0), numbers.std(axis=0)
    factor = float(learnt(frame)[0, 1] / learnt.kernel(points)[0, 1])

    def gram(X: Any) -> Any:
        K = learnt.kernel((X[NUMBERS].to_numpy() - mean) / deviation)
        K *= factor
        return K

    return gram


def main() -> None:
    hand = Table("rows", "kernel", "by hand, ms", "pandas", "polars")
    shown = Table("rows", "kernel", "on arrays, ms", "pandas", "polars")
    for rows in (1000, 3000, 5000):
        frame = table(rows)
        other = pl.from_pandas(frame)
        learnt = {name: kernel.learnt_from(frame) for name, kernel in kernels()}
        arrays = {name: [(kernel.kernel, kernel.points(frame))] for name, kernel in learnt.items()}
        learnt["sum of all"] = sum(learnt.values())
        arrays["sum of all"] = [pair for (pair,) in arrays.values()]
        for name, kernel in learnt.items():
            own, *others = ratios(
                lambda own=arrays[name]: [k(P) for k, P in own],
                *(lambda k=kernel, X=X: k(X) for X in (frame, other)),
            )
            shown.add_row(str(rows), name, f"{1e3 * own:.1f}", *(f"{ratio:.2f}" for ratio in others))
        for name in ("Gaussian", "Linear"):
            calls = by_hand(learnt[name], frame), learnt[name]
            found = [ratios(*(partial(call, X) for call in calls)) for X in (frame, other)]
            hand.add_row(str(rows), name, f"{1e3 * found[0][0]:.1f}", *(f"{r:.2f}" for _, r in found))
    Console().print(shown, hand)


if __name__ == "__main__":
    main()
