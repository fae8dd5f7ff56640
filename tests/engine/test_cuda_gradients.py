"""Derivatives of sums and products of kernels, and of products of spaces, by the fused kernels."""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from mercer.engine.cuda import CudaEngine
from mercer.engine.fused import autograd, launch, terms
from mercer.engine.torch import TorchEngine
from mercer.kernels import Cosine, Gaussian, Heat, Linear, Matern, Polynomial
from mercer.spaces import Categories, Hyperbolic, NormalProduct, ProductSpace, Sphere, Torus
from tests.helpers.device import MIXED, NORMAL, forbid, mixed_rows, tensor

pytestmark = pytest.mark.usefixtures("fused")
NORMALS = ProductSpace(NormalProduct(), columns=[[5, 6, 7, 8]], remainder="drop")
LABELS = ProductSpace(Categories(3), columns=[[3, 4]], remainder="drop")
#: Kernels with a hyperparameter.
KERNELS = {
    "Gaussian": lambda t: Gaussian(5 * t),
    "hyperbolic": lambda t: Heat(Hyperbolic(), t=t),
    "torus": lambda t: Heat(Torus(), t=t),
    "torus, absolute": lambda t: Heat(Torus(period=3.0), t=t, normalized=False),
    "normals": lambda t: Heat(NORMALS, t=t),
    "categories": lambda t: Heat(LABELS, t=t),
    "three spaces": lambda t: Heat(MIXED, t=t),
    "two products of spaces": lambda t: Heat(NORMAL, t=t),
    "sum": lambda t: Heat(Sphere(), t=t) + t * Gaussian(4.0) + t,
    "product": lambda t: Matern(Sphere(), length_scale=t) * Linear() * Gaussian(5 * t) * 0.3,
    "sum of products": lambda t: Heat(NORMAL, t=t) * (Cosine(Sphere()) + t) + Polynomial(3, 0.5),
    "of a torus and a plane": lambda t: t * Heat(Torus(), t=t) * Gaussian(6.0),
}


def gram(kernel, A, B, weights, v):
    return (kernel(A, B) * weights).sum()


def weighted_sum(kernel, A, B, weights, v):
    return kernel.weighted_sum(A, B, weights)


def matvec(kernel, A, B, weights, v):
    return (kernel.matvec(A, B, v) * weights[:, :1]).sum()


def inputs(m: int, p: int, dtype=torch.float64) -> list[torch.Tensor]:
    """Two sets of rows, one of which they have in common, weights, vectors and a hyperparameter."""
    X, Y, rng = mixed_rows(m, 0), mixed_rows(p, 1), np.random.default_rng(2)
    Y[1] = X[2]
    G, v = rng.normal(size=(m, p)), rng.normal(size=(p, 2))
    return [tensor(part, dtype, grad=True) for part in (X, Y, G, v, np.array(0.7))]


def by_operations(function, *tensors):
    """Value and derivatives by ordinary operations, on tensors of the CPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CudaEngine, "accepts", lambda self, array: False)
        copies = [part.detach().cpu().double().requires_grad_() for part in tensors]
        value = function(*copies)
        return value, torch.autograd.grad(value, copies, allow_unused=True)


def by_fused_kernels(function, *tensors):
    """The same by the fused kernels alone."""
    with pytest.MonkeyPatch.context() as patch:
        forbid(patch, (TorchEngine, "gram"), (TorchEngine, "matvec"), (autograd, "by_operations"))
        value = function(*tensors)
        return value, torch.autograd.grad(value, tensors, allow_unused=True)


def assert_close(found, expected, tolerance: float) -> None:
    for one, slope in zip(found, expected, strict=True):
        if slope is None or not slope.abs().max():
            assert one is None or one.abs().max() < tolerance
        else:
            assert float((one.cpu() - slope).abs().max()) <= tolerance * float(slope.abs().max())


def assert_derivatives(name: str, result, other: bool, m: int, dtype=torch.float64) -> None:
    """Compare derivatives by rows, weights, vectors and a hyperparameter."""

    def function(A, B, G, v, t):
        return result(KERNELS[name](t), A, B if other else None, G, v)

    tensors = inputs(m, 15 if other else m, dtype)
    value, found = by_fused_kernels(function, *tensors)
    exact, expected = by_operations(function, *tensors)
    double = dtype == torch.float64
    assert float(value.detach()) == pytest.approx(float(exact.detach()), rel=1e-11 if double else 1e-4)
    assert_close(found, expected, 1e-9 if double else 1e-4)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("result", [weighted_sum, matvec])
@pytest.mark.parametrize("other", [True, False], ids=["cross", "symmetric"])
def test_derivatives(name: str, result, other: bool) -> None:
    assert_derivatives(name, result, other, m=20)


@pytest.mark.parametrize(
    ("name", "other"), [("hyperbolic", False), ("torus", True), ("sum of products", False)]
)
def test_derivatives_of_gram_matrices_in_strips(name: str, other: bool, monkeypatch) -> None:
    monkeypatch.setattr(launch, "STRIP", 2**8)
    assert_derivatives(name, gram, other, m=130)


@pytest.mark.parametrize("name", ["Gaussian", "normals", "sum of products"])
def test_single_precision(name: str) -> None:
    assert_derivatives(name, weighted_sum, other=True, m=40, dtype=torch.float32)


class _Largest(TorchDispatchMode):
    """Size of the largest matrix that operations make."""

    size = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        found = function(*arguments, **(options or {}))
        if isinstance(found, torch.Tensor) and found.ndim > 1:
            self.size = max(self.size, found.numel())
        return found


def test_derivatives_make_no_square_array(monkeypatch) -> None:
    monkeypatch.setattr(launch, "STRIP", 2**8)
    A, _, _, _, t = inputs(140, 2)
    v = tensor(np.ones(140), grad=True)
    with _Largest() as largest:
        KERNELS["of a torus and a plane"](t).matvec(A, A, v).sum().backward()
    assert all(part.grad is not None for part in (A, t, v))
    assert 128 * 140 <= largest.size < 140 * 140


@pytest.mark.parametrize("result", [gram, weighted_sum, matvec])
def test_second_derivatives(result) -> None:
    kernel = KERNELS["sum of products"]

    def function(A, B, G, v, t):
        slopes = torch.autograd.grad(result(kernel(t), A, B, G, v) ** 2, (A, G, t), create_graph=True)
        return sum((slope**2).sum() for slope in slopes)

    tensors = inputs(5, 3)
    found = torch.autograd.grad(function(*tensors), tensors, allow_unused=True)
    _, expected = by_operations(function, *tensors)
    assert_close(found, expected, 1e-7)


def test_what_changes_after_a_result_does_not_change_its_derivatives() -> None:
    A, B, _, _, t = inputs(6, 3)
    kernel = Gaussian(5 * t)
    total = kernel(A, B).sum()
    (expected,) = torch.autograd.grad(total, t, retain_graph=True)
    kernel.length_scale = 0.1
    assert torch.equal(torch.autograd.grad(total, t)[0], expected)


def test_operands_are_given_back_after_derivatives() -> None:
    A, B, _, _, _ = inputs(6, 3)
    total = KERNELS["sum of products"](0.7)(A, B).sum()
    node = total.grad_fn.next_functions[0][0]
    total.backward()
    with pytest.raises(RuntimeError, match="already been freed"):
        _ = node.saved_tensors
    assert not any(isinstance(part, torch.Tensor) for part in terms.inputs(node.products))
