"""Derivatives by the fused kernels against those by whole arrays."""

import numpy as np
import pytest
import torch

from mercer.engine.cuda import CudaEngine
from mercer.engine.fused import launch
from mercer.kernels import Gaussian, Heat, Matern
from mercer.spaces import Sphere
from tests.helpers.device import DEVICE, points, tensor

pytestmark = pytest.mark.usefixtures("fused")


def by_whole_arrays(function, *inputs):
    """Values and derivatives by the engine that keeps whole arrays, on tensors of the CPU."""
    inputs = [part.detach().cpu().clone().requires_grad_() for part in inputs]
    value = function(*inputs)
    return value, torch.autograd.grad(value, inputs)


@pytest.mark.parametrize("kernel", [Heat(Sphere()), Matern(Sphere(), nu=2.5), Gaussian(4.0)], ids=repr)
@pytest.mark.parametrize("n", [9, 150])
def test_derivatives_by_points(kernel, n: int, monkeypatch) -> None:
    monkeypatch.setattr(launch, "STRIP", 400)  # several strips
    rng = np.random.default_rng(2)
    X, Y, G = points(kernel, 150, n), points(kernel, 30, n, 1), tensor(rng.normal(size=(150, 150)))
    for dtype, tolerance in ((torch.float64, 1e-11), (torch.float32, 2e-5)):

        def whole(A, dtype=dtype):
            return (kernel(A) * G.to(A.device, dtype)).sum()

        def cross(A, B, dtype=dtype):
            return (kernel(A, B) * G[:, :30].to(A.device, dtype)).sum()

        A, B = tensor(X, dtype, grad=True), tensor(Y, dtype, grad=True)
        for function, inputs in ((whole, (A,)), (cross, (A, B))):
            found = torch.autograd.grad(function(*inputs), inputs)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(CudaEngine, "accepts", lambda self, array: False)
                _, expected = by_whole_arrays(function, *inputs)
            for one, other in zip(found, expected, strict=True):
                assert (one.cpu() - other).abs().max() <= tolerance * other.abs().max()


def test_derivatives_of_products_by_points_and_vectors(monkeypatch) -> None:
    monkeypatch.setattr(launch, "STRIP", 300)
    kernel, rng = Heat(Sphere()), np.random.default_rng(3)
    X, Y = points(kernel, 140, 6), points(kernel, 25, 6, 1)
    Y[4] = X[2]
    v, g = tensor(rng.normal(size=(25, 2)), grad=True), tensor(rng.normal(size=(140, 2)))
    A, B = tensor(X, grad=True), tensor(Y, grad=True)

    def function(A, B, v):
        return (kernel.matvec(A, B, v) * g.to(A.device)).sum()

    found = torch.autograd.grad(function(A, B, v), (A, B, v))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CudaEngine, "accepts", lambda self, array: False)
        _, expected = by_whole_arrays(function, A, B, v)
    for one, other in zip(found, expected, strict=True):
        assert (one.cpu() - other).abs().max() <= 1e-11 * other.abs().max()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("n", [4, 150])
def test_outer_derivatives_in_any_layout(dtype, n: int) -> None:
    """That of a transposed matrix is a transposed one; others stand for the negatives of numbers."""
    kernel, rng = Matern(Sphere(), nu=1.5), np.random.default_rng(5)
    A, B = (tensor(points(kernel, m, n, m), dtype, grad=True) for m in (20, 15))
    for K, inputs in ((kernel(A, B), (A, B)), (kernel(A), (A,))):
        whole = tensor(rng.normal(size=K.shape), dtype)
        turned = whole.T.contiguous().T
        assert not turned.is_contiguous()
        expected = torch.autograd.grad(K, inputs, whole, retain_graph=True)
        for G, sign in ((turned, 1), (torch._neg_view(turned), -1)):
            found = torch.autograd.grad(K, inputs, G, retain_graph=True)
            assert all(
                torch.equal(sign * one, other) for one, other in zip(found, expected, strict=True)
            )


def test_hyperparameters_and_second_derivatives() -> None:
    X = points(None, 5, 3)
    t = torch.tensor(0.3, dtype=torch.float64, device=DEVICE, requires_grad=True)
    A = tensor(X, grad=True)

    def bound(A, t):
        return (Heat(Sphere(), t=t)(A) ** 2).sum()

    assert torch.autograd.gradcheck(bound, (A, t), atol=1e-6)
    assert torch.autograd.gradgradcheck(lambda A: bound(A, t.detach()), (A,), atol=1e-5)
    kernel = Heat(Sphere(), t=t, normalized=False)
    (found,) = torch.autograd.grad(kernel(A).sum(), t)
    step = 1e-5
    ends = [Heat(Sphere(), t=0.3 + s, normalized=False)(X).sum() for s in (step, -step)]
    assert abs(float(found) - (ends[0] - ends[1]) / (2 * step)) < 1e-5 * abs(float(found))
