"""Sums and products of kernels, and weighted sums of Gram matrices, in one pass of the fused kernels."""

import math

import numpy as np
import pytest
import torch

from mercer.engine.base import joins
from mercer.engine.cuda import CudaEngine
from mercer.engine.fused import launch
from mercer.engine.torch import TorchEngine
from mercer.kernels import ArcCosine, Gaussian, Heat, Linear, Matern, Polynomial
from mercer.spaces import Hyperbolic, Simplex, Sphere, Torus
from tests.helpers.device import MIXED, NORMAL, forbid, mixed_rows, points, tensor

pytestmark = pytest.mark.usefixtures("fused")
COMBINED = [
    Heat(Sphere()) + Gaussian(),
    0.5 * Heat(Sphere(), t_star=0.3) * Matern(Sphere(), nu=1.5) + Linear() + 2.0,
    (Gaussian(2.0) + ArcCosine()) * (Linear() + 1.0),
    Heat(MIXED, t=0.4),
    Heat(MIXED, t=0.4) * 3.0 + Gaussian(),
    Heat(Torus(), t=0.3),
    Heat(Torus(period=2.0), t=1.5, normalized=False) * Gaussian(),
    Heat(NORMAL, t=0.5),
]


@pytest.fixture
def only_joined(monkeypatch) -> None:
    forbid(monkeypatch, (TorchEngine, "gram"), (CudaEngine, "gram"))  # parts on their own


@pytest.mark.usefixtures("only_joined")
@pytest.mark.parametrize("kernel", COMBINED, ids=repr)
def test_in_one_pass(kernel) -> None:
    X, Y = mixed_rows(70, 0), mixed_rows(130, 1)
    Y[0] = X[0]
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 3e-6)):
        A, B = tensor(X, dtype), tensor(Y, dtype)
        exact = [np.asarray(part.cpu(), dtype=float) for part in (A, B)]
        for found, expected in ((kernel(A, B), kernel(*exact)), (kernel(A), kernel(exact[0]))):
            assert found.dtype == dtype
            error = np.abs(np.asarray(found.cpu(), dtype=float) - expected).max()
            assert error <= tolerance * np.abs(expected).max()
        assert torch.equal(kernel(A), kernel(A).T)


@pytest.mark.usefixtures("only_joined")
@pytest.mark.parametrize("kernel", [COMBINED[2], COMBINED[6]], ids=repr)
def test_products_with_vectors(kernel, monkeypatch) -> None:
    monkeypatch.setattr(launch, "STRIP", 2**14)
    X, v = mixed_rows(150, 0), np.random.default_rng(2).normal(size=(150, 2))
    found = kernel.matvec(tensor(X), None, tensor(v))
    np.testing.assert_allclose(found.cpu(), kernel(X) @ v, rtol=1e-11, atol=1e-10)
    single = kernel.matvec(*(tensor(part, torch.float32) for part in (X, X, v[:, 0])))
    assert single.dtype == torch.float32
    expected = kernel(X) @ v[:, 0]
    assert np.abs(np.asarray(single.cpu(), dtype=float) - expected).max() < 1e-5 * np.abs(expected).max()


@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered")  # by Triton's interpreter
def test_overflow_is_refused() -> None:
    huge = tensor(np.full((3, 9), 1e30), torch.float32)
    with pytest.raises(ValueError, match="overflow"):
        (Linear() * Linear() * Linear() + 1.0)(huge)
    with pytest.raises(ValueError, match="overflow"):
        (Linear() * Linear() * Linear() + 1.0).weighted_sum(huge, None, np.ones((3, 3)))
    large = tensor(np.full((3, 9), 1e10), torch.float32)
    for Y in (None, -large):
        with pytest.raises(ValueError, match="powers of degree 5 overflow"):
            Polynomial(5)(large, Y)
        with pytest.raises(ValueError, match="powers of degree 5 overflow"):
            Polynomial(5).weighted_sum(large, Y, np.ones((3, 3)))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["double", "single"])
@pytest.mark.parametrize("other", [False, True])
def test_weighted_sums(dtype, other: bool) -> None:
    kernel, rng = Heat(Sphere()), np.random.default_rng(3)
    X, Y = points(kernel, 70, 5), points(kernel, 130, 5, 1) if other else None
    G = rng.normal(size=(70, 130 if other else 70))
    A, B = tensor(X, dtype, grad=True), None if Y is None else tensor(Y, dtype)
    total = kernel.weighted_sum(A, B, tensor(G, dtype))
    total.backward()
    C = tensor(X, dtype, grad=True)
    expected = (kernel(C, B) * tensor(G, dtype)).sum()
    expected.backward()
    tolerance = 1e-11 if dtype == torch.float64 else 1e-4
    assert abs(float(total.detach()) - (kernel(X, Y) * G).sum()) < tolerance
    assert abs(float(kernel.weighted_sum(A.detach(), B, G) - total.detach())) < tolerance  # of NumPy
    assert float((A.grad - C.grad).abs().max()) < tolerance


def test_weighted_sums_by_hyperparameters() -> None:
    X, G = tensor(points(None, 40, 5)), tensor(points(None, 40, 40, 4))
    t = torch.tensor([0.4], dtype=torch.float64, requires_grad=True)  # in main memory
    total = Heat(Sphere(), t=t).weighted_sum(X, None, G)
    (slope,) = torch.autograd.grad(total, t, create_graph=True)
    ends = [float(Heat(Sphere(), t=0.4 + d).weighted_sum(X, None, G)) for d in (1e-5, -1e-5)]
    assert abs(float(slope.detach()) - (ends[0] - ends[1]) / 2e-5) < 1e-7 * abs(float(slope.detach()))


def test_products_below_single_precision_are_zero_as_on_the_cpu() -> None:
    kernel = Gaussian(0.3) * Gaussian(0.4) * Gaussian(0.5) * Gaussian(0.6)
    X, Y = (points(None, m, 5, seed) for seed, m in enumerate((20, 30)))
    exact = kernel(X, Y)
    assert (exact < 1e-50).any()
    found = kernel(tensor(X, torch.float32), tensor(Y, torch.float32)).cpu().numpy()
    assert not found[exact < 1e-50].any()
    np.testing.assert_allclose(found, exact, rtol=1e-3, atol=1e-38)
    double = kernel(tensor(X), tensor(Y)).cpu().numpy()
    np.testing.assert_allclose(double, exact, rtol=1e-9)


def test_sparse_rows_are_not_joined() -> None:
    X = np.abs(points(None, 12, 5)) * (np.random.default_rng(0).random((12, 5)) < 0.6) + np.eye(12, 5)
    S, D, G = tensor(X).to_sparse(), tensor(X), np.ones((12, 12))
    for kernel in (2.0 * Heat(Simplex()), Heat(Simplex()) + Gaussian(), Heat(Simplex()) * Linear()):
        for pair in ((S, None), (S, D), (D, S)):
            exact = kernel(X)
            np.testing.assert_allclose(kernel(*pair).cpu(), exact, rtol=1e-11)
            sums = kernel.matvec(*pair, G[:, 0]).cpu()
            np.testing.assert_allclose(sums, exact.sum(axis=1), rtol=1e-11)
            assert float(kernel.weighted_sum(*pair, G)) == pytest.approx(exact.sum(), rel=1e-11)


@pytest.mark.parametrize("first", [torch.float32, torch.float64])
@pytest.mark.parametrize("second", [torch.float32, torch.float64])
def test_precisions_are_those_of_ordinary_operations(first, second) -> None:
    X, Y, wide = mixed_rows(9, 0), mixed_rows(7, 1), torch.promote_types(first, second)
    A, B, C = tensor(X, first), tensor(Y, second), tensor(Y, first)
    for kernel in (Gaussian() * Linear(), Gaussian() + Linear()):
        assert kernel(A, B).dtype == wide
        assert kernel.matvec(A, B, B[:, 0]).dtype == wide
    for kernel in (Gaussian(), Heat(Torus()), Heat(Hyperbolic(), t=0.5), Gaussian() * Linear()):
        assert kernel.matvec(A, C, B[:, 0]).dtype == wide
        assert kernel.weighted_sum(A, C, tensor(np.ones((9, 7)), second)).dtype == wide


def test_weights_beyond_single_precision() -> None:
    X, G = points(None, 4, 3), np.full((4, 4), 1e39)
    found = Heat(Sphere()).weighted_sum(tensor(X, torch.float32), None, tensor(G))
    assert float(found) == pytest.approx(Heat(Sphere())(X).sum() * 1e39, rel=1e-6)
    G[1, 2] = np.inf
    assert float(Heat(Sphere()).weighted_sum(tensor(X, torch.float32), None, tensor(G))) == np.inf


@pytest.mark.parametrize("kernel", [Gaussian(), Gaussian() * Linear(), Heat(Torus())], ids=repr)
def test_no_vectors(kernel) -> None:
    X = tensor(points(None, 5, 3))
    assert kernel.matvec(X, X, tensor(np.ones((5, 0)))).shape == (5, 0)


def test_long_sums_and_products_of_sums_are_not_written_out() -> None:
    X, parts = points(None, 6, 3), [Gaussian(1.0 + k) for k in range(20)]
    sums = [part + 1.0 for part in parts]
    for kernel in (sum(parts[1:], parts[0]), math.prod(sums[1:], start=sums[0])):
        np.testing.assert_allclose(kernel(tensor(X)).cpu(), kernel(X), rtol=1e-11)
        assert not joins(tensor(X), kernel.product_sizes())
