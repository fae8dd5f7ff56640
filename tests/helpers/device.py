"""Tensors for tests of the fused kernels: on a device, or else in Triton's interpreter."""

import numpy as np
import torch

from mercer.spaces import Hyperbolic, Simplex

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def tensor(values, dtype=torch.float64, device: str = DEVICE, **options) -> torch.Tensor:
    return torch.as_tensor(values, dtype=dtype, device=device).clone().requires_grad_(bool(options))


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
