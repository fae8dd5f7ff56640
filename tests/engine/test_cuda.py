"""Gram matrices and products by the fused kernels against main memory."""

import math

import numpy as np
import pytest
import torch

from mercer.engine import engine_for
from mercer.engine.fused import launch, rows
from mercer.engine.fused.forms import form_of
from mercer.engine.torch import TorchEngine
from mercer.kernels import (
    ArcCosine,
    Cosine,
    Gaussian,
    Heat,
    Linear,
    Matern,
    Parametrix,
    Polynomial,
)
from mercer.spaces import Hyperbolic, Simplex, Sphere
from tests.helpers.device import forbid, points, tensor

pytestmark = pytest.mark.usefixtures("fused")
KERNELS = [
    Heat(Sphere()),
    Heat(Sphere(), t_star=0.1),
    Heat(Simplex()),
    Heat(Hyperbolic(), t=0.5),
    Matern(Sphere(), nu=0.5),
    Matern(Sphere(), nu=2.5),
    Parametrix(Sphere()),
    ArcCosine(),
    Cosine(Sphere()),
    Gaussian(),
    Linear(),
    Polynomial(3, 0.5),
]


@pytest.fixture
def only_fused(monkeypatch) -> None:
    forbid(monkeypatch, (TorchEngine, "gram"), (TorchEngine, "matvec"))  # whole arrays


@pytest.mark.usefixtures("only_fused")
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize(("m", "p", "n"), [(1, 3, 3), (70, 129, 17), (129, 1, 40)])
def test_values(kernel, m: int, p: int, n: int) -> None:
    X, Y = points(kernel, m, n), points(kernel, p, n, 1)
    Y[0] = X[0]
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 2e-6)):
        A, B = tensor(X, dtype), tensor(Y, dtype)
        # In single precision, rough laws feel the rounding of the points themselves.
        reference = [np.asarray(part.cpu(), dtype=float) for part in (A, B)]
        expected, own = kernel(*reference), kernel(reference[0])
        rough = 50 * tolerance if dtype == torch.float32 and m > 1 else tolerance
        found = np.asarray(kernel(A, B).cpu(), dtype=float)
        assert np.abs(found - expected).max() <= rough * np.abs(expected).max()
        found = np.asarray(kernel(A).cpu(), dtype=float)
        assert np.abs(found - own).max() <= rough * np.abs(own).max()
        np.testing.assert_array_equal(found, found.T)


@pytest.mark.usefixtures("only_fused")
@pytest.mark.parametrize("columns", [None, 1, 3, 70])
def test_products_with_vectors(columns: int | None) -> None:
    kernel, rng = Heat(Sphere()), np.random.default_rng(0)
    X, Y = points(kernel, 90, 20), points(kernel, 150, 20, 1)
    Y[:3] = X[5]
    v = rng.normal(size=(150,) if columns is None else (150, columns))
    expected = kernel(X, Y) @ v
    assert (
        np.abs(np.asarray(kernel.matvec(tensor(X), tensor(Y), tensor(v)).cpu()) - expected).max() < 1e-12
    )
    single = kernel.matvec(*(tensor(part, torch.float32) for part in (X, Y, v)))
    assert single.dtype == torch.float32
    assert np.abs(np.asarray(single.cpu()) - expected).max() < 3e-6 * np.abs(expected).max()


def test_vectors_of_any_scale() -> None:
    """Several vectors are split into numbers of half precision, which know few scales."""
    kernel, rng = Heat(Sphere(), t=0.01, normalized=False), np.random.default_rng(6)
    X, v = points(kernel, 140, 4), rng.normal(size=(140, 3)) * [1e-30, 1.0, 1e30]
    v[:, 1] *= 10.0 ** rng.uniform(-6, 0, size=140)
    A, w = tensor(X, torch.float32), tensor(v, torch.float32)
    exact = [np.asarray(part.cpu(), dtype=float) for part in (A, w)]
    expected = kernel(exact[0]) @ exact[1]
    found = np.asarray(kernel.matvec(A, None, w).cpu(), dtype=float)
    assert np.all(np.abs(found - expected).max(axis=0) < 2e-5 * np.abs(expected).max(axis=0))
    assert np.all(np.isfinite(found))


def test_vectors_beyond_the_range_of_the_rows() -> None:
    """Their precision is that of the result, which keeps their scale."""
    X, w = tensor(points(None, 20, 4), torch.float32), points(None, 20, 3, 1)
    for kernel in (Heat(Sphere()), Heat(Sphere()) * Gaussian()):
        expected = kernel(np.asarray(X.cpu(), dtype=float)) @ w
        for v, size in ((w, 1e300), (w, 1e-300), (w[:, 0], 1e300)):
            found = kernel.matvec(X, None, tensor(v * size)).cpu().numpy() / size
            np.testing.assert_allclose(found, expected if v is w else expected[:, 0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_views_of_negative_numbers(dtype) -> None:
    """Memory holds other numbers than such views."""
    X, Y, v = (tensor(points(None, 20, 4, seed), dtype) for seed in range(3))
    minus, W = torch._neg_view(X), tensor(points(None, 20, 20, 4), dtype)
    kernel, engine = Heat(Sphere()), engine_for(X)
    assert torch.equal(kernel(minus, Y), kernel(-X, Y))
    assert torch.equal(kernel(Y, minus), kernel(Y, -X))
    assert torch.equal(Linear()(minus), Linear()(-X))
    assert torch.equal(kernel.matvec(X, Y, torch._neg_view(v)), kernel.matvec(X, Y, -v))
    assert torch.equal(kernel.weighted_sum(X, Y, torch._neg_view(W)), kernel.weighted_sum(X, Y, -W))
    profile = kernel.profile(4)
    assert torch.equal(engine.apply(torch._neg_view(X), profile), engine.apply(-X, profile))


def test_views_and_empty_arrays() -> None:
    kernel, X = Heat(Sphere()), points(None, 30, 8)
    wide = tensor(np.concatenate([X, X], axis=1))
    expected = kernel(X[::2])
    for view in (wide[::2, :8], tensor(X.T).T[::2], tensor(X)[::2]):
        assert np.abs(np.asarray(kernel(view).cpu()) - expected).max() < 1e-13
    engine = engine_for(tensor(X))
    for dtype in (torch.float32, torch.float64):
        A, empty = tensor(X, dtype), tensor(X[:0], dtype)
        assert engine.gram(A, empty, kernel.profile(8)).shape == (30, 0)
        for L, R in ((A, empty), (empty, A), (empty, empty)):
            found = engine.matvec(L, R, kernel.profile(8), R[:, :3])
            assert found.shape == (len(L), 3)
            assert not found.any()


def test_kernels_run_on_the_device_of_their_tensors(monkeypatch) -> None:
    """Triton launches on the current device, whatever tensors it is given."""
    guarded, launched = [], []

    class Guard:
        """Stands for the context in which another device is the current one."""

        def __init__(self, X: torch.Tensor) -> None:
            self.device = X.device

        def __enter__(self) -> None:
            guarded.append(self.device)

        def __exit__(self, *error: object) -> None:
            guarded.pop()

    class Watched:
        """Stands for a kernel."""

        def __init__(self, kernel) -> None:
            self.kernel = kernel

        def __getitem__(self, grid):
            assert guarded[-1] == X.device
            launched.append(self.kernel)
            return self.kernel[grid]

    kernel, X = Heat(Sphere()), tensor(points(None, 20, 4), torch.float32, grad=True)
    monkeypatch.setattr(torch.cuda, "device_of", Guard)
    for module in (launch, rows):
        for name in [name for name in vars(module) if name.endswith("_kernel")]:
            monkeypatch.setattr(module, name, Watched(getattr(module, name)))
    kernel(X).sum().backward()
    kernel.matvec(X.detach(), None, X.detach())
    engine_for(X).apply(X.detach(), kernel.profile(4))
    assert len(set(launched)) == 8
    assert not guarded


def test_the_same_from_run_to_run() -> None:
    X = tensor(points(None, 200, 11), torch.float32)
    v = tensor(points(None, 200, 20, 5), torch.float32)
    kernel = Matern(Sphere(), nu=1.5)
    assert torch.equal(kernel(X), kernel(X))
    assert torch.equal(kernel.matvec(X, X, v), kernel.matvec(X, X, v))


def test_forms_are_made_once() -> None:
    profile = Heat(Sphere()).profile(7)
    X = tensor(np.eye(7))
    assert form_of(profile, X.dtype, X.device) is form_of(profile, X.dtype, X.device)


def test_diagonals_are_those_of_the_precision_and_the_kernel() -> None:
    """Values at equal points are computed once for each."""
    X = points(None, 6, 5)
    for kernel in (Heat(Sphere(), t=0.2, normalized=False), Heat(Sphere(), t=0.3, normalized=False)):
        for dtype, kind in ((torch.float32, np.float32), (torch.float64, np.float64)):
            found = kernel(tensor(X, dtype)).diagonal().cpu().numpy()
            np.testing.assert_array_equal(found, kernel.diag(X.astype(kind)))
            exact = math.exp(kernel.log_self_similarity(5))
            np.testing.assert_allclose(found, exact, rtol=2 * np.finfo(kind).eps, atol=0)
