"""MNIST: digits as clouds of black pixels."""

from __future__ import annotations

import gzip
import math
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold

from mercer.kernels import (
    Gaussian,
    GaussianEmbedding,
    InverseGeneralizedVariance,
    Kernel,
    MixtureMoment,
    TraceKernel,
)
from mercer.reproduce import standin
from mercer.reproduce.drawing import published_beside
from mercer.reproduce.experiment import Claim, Context, Experiment, Measured, Result, Table
from mercer.reproduce.protocol import percent_interval
from mercer.selection import KernelSearchCV

Array = NDArray[np.float64]
IMAGES, LABELS = "mnist/t10k-images-idx3-ubyte.gz", "mnist/t10k-labels-idx1-ubyte.gz"
BASE = Gaussian(length_scale=0.1)


def plain_kernels(base: Kernel) -> dict[str, Kernel]:
    """The kernels of the paper, which it does not normalise."""
    return {
        "η = 0.01": InverseGeneralizedVariance(base, eta=0.01, normalized=False),
        "trace, t = 0.1": TraceKernel(base, t=0.1, normalized=False),
        "δ = 1": MixtureMoment(base, delta=1.0, normalized=False),
    }


PLAIN = plain_kernels(BASE)
KERNELS: dict[str, Kernel] = {
    **PLAIN,
    **{f"{name}, normalised": replace(kernel, normalized=True) for name, kernel in PLAIN.items()},
    "Gaussian embedding": GaussianEmbedding(BASE, length_scale=0.2),
}
#: Table 1: misclassification in % by number of pixels, in the order of the kernels of the paper.
PUBLISHED = {
    40: (16.2, 28.6, 20.62),
    50: (14.7, 16.47, 15.84),
    60: (14.5, 14.97, 13.52),
    70: (13.1, 11.3, 13.0),
    80: (12.8, 10.8, 12.4),
}
#: Values of C, in units of the mean of k(x, x): without normalisation it is as small as 1e-5.
STRENGTHS = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5)
#: Intensity above which a pixel is black.
BLACK = 127
#: Readings of the paper: the base kernel of width w at the distance r, and what is black.
READINGS = {
    "exp(-r²/2w²)": (BASE, BLACK),
    "exp(-r²/w²)": (Gaussian(length_scale=0.1 / math.sqrt(2)), BLACK),
    "any ink is black": (BASE, 0),
}
#: The readings are compared at this number of pixels and values of C, as they are.
FEWEST, C_VALUES = 40, (1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8)
FOLDS, REPEATS, PER_DIGIT = 3, 5, 100


def load(context: Context) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images and their digits."""
    if context.invented:
        return standin.digits(context.seed)
    with gzip.open(context.file(IMAGES)) as file:
        pixels = np.frombuffer(file.read(), dtype=np.uint8, offset=16).reshape(-1, 28, 28)
    with gzip.open(context.file(LABELS)) as file:
        return pixels, np.frombuffer(file.read(), dtype=np.uint8, offset=8)


def choose(labels: NDArray[np.uint8], per_digit: int, seed: int) -> NDArray[np.intp]:
    """The same number of images of each digit, in random order."""
    rng = np.random.default_rng(seed)
    digits = [np.flatnonzero(labels == digit) for digit in np.unique(labels)]
    return rng.permutation(
        np.concatenate([rng.choice(rows, size=per_digit, replace=False) for rows in digits])
    )


def clouds(pixels: NDArray[np.uint8], size: int, seed: int, black: int = BLACK) -> list[Array]:
    """Up to ``size`` black pixels of each image, in the unit square."""
    rng = np.random.default_rng([seed, size])
    return [rng.permutation(np.argwhere(image > black) / 27)[:size] for image in pixels]


def folds(context: Context) -> RepeatedStratifiedKFold:
    """Three folds, repeated five times as in the paper."""
    repeats = 1 if context.quick else REPEATS
    return RepeatedStratifiedKFold(n_splits=FOLDS, n_repeats=repeats, random_state=context.seed)


def errors(kernel: Kernel, X: list[Array], y: Any, context: Context, progress: Any) -> Array:
    """Misclassification in % on each fold, with C chosen inside each training part."""
    inner = StratifiedKFold(FOLDS, shuffle=True, random_state=context.seed)
    size = float(np.mean(kernel.diag(X)))
    search = KernelSearchCV(
        kernel, param_grid={"C": [c / size for c in STRENGTHS]}, cv=inner, cache=context.cache,
        progress=progress,
    )  # fmt: skip
    return 100 * (1 - search.nested_scores(X, y, outer_cv=folds(context)).scores)


def errors_by_c(kernel: Kernel, X: list[Array], y: Any, context: Context, progress: Any) -> Array:
    """Mean misclassification in % at each value of C."""
    search = KernelSearchCV(
        kernel, param_grid={"C": C_VALUES}, cv=folds(context), refit=False, cache=context.cache,
        progress=progress,
    )  # fmt: skip
    return 100 * (1 - search.fit(X, y).cv_results_["mean_test_score"])


def run(context: Context) -> Result:
    """Table 1 of the paper."""
    pixels, labels = load(context)
    sample = choose(labels, 8 if context.quick else PER_DIGIT, context.seed)
    images, y = pixels[sample], labels[sample]
    sizes = (FEWEST,) if context.quick else tuple(PUBLISHED)
    found: dict[int, list[Array]] = {}
    fewer = {}
    steps = len(KERNELS) * len(sizes) + len(PLAIN) * len(READINGS)
    parts = (context.part(step, steps) for step in range(steps))
    for size in sizes:
        X = clouds(images, size, context.seed)
        fewer[size] = sum(len(cloud) < size for cloud in X)
        found[size] = [errors(kernel, X, y, context, next(parts)) for kernel in KERNELS.values()]
    by_c = {}
    for reading, (base, black) in READINGS.items():
        X = clouds(images, FEWEST, context.seed, black)
        for name, kernel in plain_kernels(base).items():
            by_c[name, reading] = errors_by_c(kernel, X, y, context, next(parts))
    return report(found, fewer, by_c)


def report(
    found: dict[int, list[Array]], fewer: dict[int, int], by_c: dict[tuple[str, str], Array]
) -> Result:
    """The tables, claims and the figure."""
    cells = {
        size: [
            Measured(float(rate.mean()), percent_interval(rate, 1 / (FOLDS - 1)), known)
            for rate, known in zip_longest(rates, PUBLISHED[size])
        ]
        for size, rates in found.items()
    }
    repeats = next(iter(found.values()))[0].size // FOLDS
    over = f"mean over {FOLDS} folds{f' and {repeats} repeats' if repeats > 1 else ''}"
    table = Table(
        "Table 1: misclassification", ["pixels", "fewer in", *KERNELS],
        [[size, fewer[size], *row] for size, row in cells.items()],
        f"In %: ours [95 % interval, cut at 0 and 100] (published), {over}.  "
        '"Fewer in" counts the images that have fewer black pixels than wanted; they keep all they '
        "have.  C is chosen inside each training part, so these are nested scores.",
    )  # fmt: skip
    known = dict(zip(PLAIN, PUBLISHED[FEWEST], strict=True))
    readings = Table(
        f"Readings of the protocol, {FEWEST} pixels",
        ["kernel", "reading", *(f"C = {c:g}" for c in C_VALUES), "published"],
        [
            [name, reading, *(Measured(float(rate)) for rate in rates), known[name]]
            for (name, reading), rates in by_c.items()
        ],
        f"Misclassification in % of kernels that are not normalised, at a fixed C; {over}.",
    )
    figure = Figure(figsize=(9, 4), layout="constrained")
    ax = figure.subplots()
    shown = {size: row[: len(PLAIN)] for size, row in cells.items()}
    published_beside(ax, shown, list(PLAIN), "pixels")
    ax.set_ylabel("misclassification in %")
    return Result([table, readings], claims(cells, by_c), {"table": figure})


def claims(cells: dict[int, list[Measured]], by_c: dict[tuple[str, str], Array]) -> list[Claim]:
    """Claims of the paper about its table, whose kernels are not normalised."""
    gaps = [cell.gap for row in cells.values() for cell in row if cell.published is not None]
    near = max(abs(row[2].value - row[1].value) for row in cells.values())
    behind = [row[2].value - row[0].value for row in cells.values()]
    return [
        Claim(
            "Every rate is at most 3 points above the published one (largest excess "
            f"{max(gaps):+.2f} points).", max(gaps) <= 3,
        ),
        Claim(
            "Every rate is at most 3 points below the published one (largest gap "
            f"{min(gaps):+.2f} points).", min(gaps) >= -3,
        ),
        Claim(
            "The mixture moment (δ = 1) is competitive with the trace kernel (largest difference "
            f"{near:.1f} points).", near < 3,
        ),
        Claim(
            "It is competitive with the inverse generalised variance (η = 0.01): its error is "
            f"{min(behind):.1f} to {max(behind):.1f} points higher.", max(behind) < 3,
        ),
        *(explained(name, by_c) for name in PLAIN),
    ]  # fmt: skip


def explained(name: str, by_c: dict[tuple[str, str], Array]) -> Claim:
    """Whether a reading of the protocol has the published error with the fewest pixels, within a point.

    The largest value of C makes the margin hard, and is a choice that papers made without saying so.
    """
    published = dict(zip(PLAIN, PUBLISHED[FEWEST], strict=True))[name]
    hard = {reading: float(rates[-1]) for (kernel, reading), rates in by_c.items() if kernel == name}
    reading = min(hard, key=lambda reading: abs(hard[reading] - published))
    return Claim(
        f"The published {published:g} % of {name} at {FEWEST} pixels is that of a hard margin in some "
        f"reading: the nearest is {hard[reading]:.1f} % ({reading}).",
        abs(hard[reading] - published) <= 1,
    )


EXPERIMENT = Experiment(
    name="mnist-clouds",
    title="MNIST digits as clouds of pixels",
    source=(
        'M. Cuturi, "Kernels for measures defined on the Gram matrix of their support", 2009, Table 1.'
    ),
    differs=(
        "The paper does not say which pixels are black, how images with fewer black pixels are treated, "
        "how C was chosen, which images were drawn, or whether its width w is in exp(-r²/2w²) or in "
        "exp(-r²/w²).  Here it is the first, a pixel is black above half of the full intensity, "
        "images with fewer keep all they have, C is chosen from 1 to 10⁵ (divided by the mean of "
        "k(x, x)) inside each training part, and 100 images of each digit are drawn from MNIST's test "
        "part.  The paper does not normalise its kernels; normalised ones are shown beside them.  The "
        "trace kernel has the centred matrix, which the paper's formula omits and its theory needs.  "
        "The mixture moment is computed in closed form, not as a series.  The Gaussian embedding and "
        "the table of readings are additions."
    ),
    run=run,
    files=(IMAGES, LABELS),
)
