"""Small synthetic data in the format of the real data, for runs without a data folder."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[np.float64]


def pages(seed: int, per_class: int = 60, words: int = 120) -> tuple[Any, NDArray[np.int64]]:
    """Word counts of pages of four classes and very different lengths."""
    rng = np.random.default_rng([seed, 1])
    common = rng.dirichlet(np.full(words, 0.5))
    models = 0.75 * common + 0.25 * rng.dirichlet(np.full(words, 0.2), size=4)
    y = np.repeat(np.arange(4), per_class)
    lengths = np.maximum(5, rng.lognormal(4.0, 1.0, size=len(y)).astype(int))
    rows = [rng.multinomial(length, models[c]) for length, c in zip(lengths, y, strict=True)]
    return sparse.csr_matrix(np.array(rows, dtype=float)), y


def returns(seed: int, stocks: int = 40, days: int = 60) -> tuple[Array, NDArray[np.int64]]:
    """Daily returns of two sectors: a market factor, a sector factor, and noise."""
    rng = np.random.default_rng([seed, 2])
    y = np.repeat([0, 1], stocks // 2)
    factors = rng.normal(size=(2, days))
    market = rng.normal(size=days)
    noise = rng.normal(scale=1.5, size=(stocks, days))
    return 0.01 * (market + 0.8 * factors[y] + noise), y


def mutations(seed: int, samples: int = 80, genes: int = 30) -> Any:
    """One row per mutation, with sample and gene, for two kinds of tumour."""
    rng = np.random.default_rng([seed, 3])
    names = ["COL1A2", *(f"G{i}" for i in range(1, genes))]
    kinds = 0.05 + 0.4 * rng.dirichlet(np.full(genes, 0.3), size=2) * 3
    loads = rng.lognormal(0.0, 0.5, size=samples)
    counts = rng.poisson(loads[:, None] * kinds[rng.integers(0, 2, size=samples)])
    rows, columns = np.nonzero(counts)
    times = counts[rows, columns]
    return pd.DataFrame(
        {
            "sample": np.repeat([f"S{i}" for i in rows], times),
            "gene": np.repeat([names[j] for j in columns], times),
        }
    )


def digits(seed: int, per_digit: int = 8) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images of 28 by 28 pixels: thick strokes of three kinds."""
    rng = np.random.default_rng([seed, 4])
    y = np.repeat(np.arange(3, dtype=np.uint8), per_digit)
    grid = np.stack(np.meshgrid(np.arange(28), np.arange(28), indexing="ij"), axis=-1)
    images = np.zeros((len(y), 28, 28), dtype=np.uint8)
    for image, kind in zip(images, y, strict=True):
        along = np.linspace(0, 1, 40)[:, None]
        ends = np.array([[[4, 14], [24, 14]], [[14, 4], [14, 24]], [[4, 4], [24, 24]]])[kind]
        line = ends[0] + along * (ends[1] - ends[0]) + rng.normal(scale=1.0, size=2)
        near = np.min(np.linalg.norm(grid[:, :, None] - line, axis=-1), axis=-1)
        image[near < 1.2 + rng.random()] = 255
    return images, y
