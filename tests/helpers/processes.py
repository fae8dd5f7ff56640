"""Rows, dense models and files that tests of Gaussian processes share."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import multivariate_normal


def table(m: int, d: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Columns of different scales, and targets that depend on the first two."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d)) * np.arange(1, d + 1) + 5
    Z = X / np.arange(1, d + 1)
    return X, np.sin(Z[:, 0]) + 0.3 * Z[:, 1] + 0.1 * rng.normal(size=m)


def uneven_table(m: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three columns whose scales differ by a hundred, and targets far from zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 3)) * [1, 10, 0.1] + 5
    return X, np.sin(X[:, 0]) + X[:, 1] / 10 + 0.1 * rng.normal(size=m) + 100


def mapped(model: Any, X: np.ndarray) -> np.ndarray:
    """Rows as the kernel sees them, by hand."""
    inputs = model.features_.inputs
    if not inputs.is_table:
        return X
    return np.column_stack([(X - inputs.mean) / inputs.scale, np.full(len(X), model.bias)])


def evidence(K: np.ndarray, noise: float, y: np.ndarray) -> float:
    """The logarithm of the evidence of the dense model."""
    return float(multivariate_normal(np.zeros(len(y)), K + noise * np.eye(len(y))).logpdf(y))


def kept(path: Path) -> dict[str, Any]:
    """Results in a checkpoint, by name; tuples of numbers and of parts that are left as they are."""
    with np.load(path) as file:
        results = json.loads(file["tree"].tobytes())["results"]["dict"]
    return {name: one["tuple"] for name, one in results.items() if "tuple" in one}


def write(folder: Path, X: np.ndarray, y: np.ndarray, files: int = 3, group: int = 50) -> None:
    """Parquet files with the columns a, b, c and y."""
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)
    for i, part in enumerate(np.array_split(np.arange(len(frame)), files)):
        frame.iloc[part].to_parquet(folder / f"{i}.parquet", row_group_size=group)
