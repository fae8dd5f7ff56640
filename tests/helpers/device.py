"""Tensors for tests of the fused kernels: on a device, or else in Triton's interpreter."""

import numpy as np
import torch

from mercer.spaces import Categories, Hyperbolic, NormalProduct, ProductSpace, Simplex, Sphere, Torus

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
#: Products of spaces for :func:`mixed_rows`.
MIXED = ProductSpace(
    Sphere(), Categories(3), Hyperbolic(), columns=[[0, 1, 2], [3, 4], [5, 6]], remainder="drop"
)
NORMAL = ProductSpace(NormalProduct(), Torus(), columns=[[5, 6, 7, 8], [0, 1, 2]], remainder="drop")


def tensor(values, dtype=torch.float64, **options) -> torch.Tensor:
    return torch.as_tensor(values, dtype=dtype, device=DEVICE).clone().requires_grad_(bool(options))


def forbid(monkeypatch, *methods) -> None:
    """Let a test fail that takes one of these ways, pairs of a class and a method's name."""

    def refuse(*arguments):
        raise AssertionError("a way was taken that should not be")

    for owner, name in methods:
        monkeypatch.setattr(owner, name, refuse)


def points(kernel, m: int, n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n))
    space = getattr(kernel, "space", None)
    if isinstance(space, Hyperbolic):
        X[:, -1] = np.exp(X[:, -1] / 2)
    return np.abs(X) if isinstance(space, Simplex) else X


def mixed_rows(m: int, seed: int) -> np.ndarray:
    """Directions, categories and two points of the half-plane, side by side."""
    X = points(None, m, 9, seed)
    X[:, 3:5] = np.random.default_rng(seed).integers(3, size=(m, 2))
    X[:, [6, 8]] = np.exp(X[:, [6, 8]] / 2)
    return X
