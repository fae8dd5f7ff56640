"""Torch tensors and the array API."""

import array_api_strict as strict
import numpy as np
import pytest
import torch

from mercer._arrays import constant_rows
from mercer.kernels import (
    ArcCosine,
    Constant,
    Cosine,
    Gaussian,
    Heat,
    Linear,
    Matern,
    Parametrix,
    Polynomial,
)
from mercer.spaces import Simplex, Sphere

KERNELS = [
    Heat(Sphere(), t=0.3),
    Heat(Sphere(), t_star=0.4, normalized=False),
    Heat(Simplex(), t_star=0.5),
    Matern(Sphere(), nu=2.5, length_scale=0.7),
    Cosine(),
    ArcCosine(),
    Parametrix(Sphere(), t=0.2),
    Parametrix(Sphere(), t=0.2, order=2),
    Linear(),
    Polynomial(),
    Gaussian(1.3),
    2.0 * Heat(Sphere(), t=0.3) + Gaussian(),
]
X = np.random.default_rng(0).gamma(1.0, size=(9, 4)) + 0.1
Y = np.random.default_rng(1).gamma(1.0, size=(5, 4)) + 0.1


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("library", [torch.as_tensor, strict.asarray], ids=["torch", "strict"])
def test_same_values(kernel, library) -> None:
    K = kernel(library(X))
    assert type(K) is type(library(X))
    np.testing.assert_allclose(np.asarray(K), kernel(X), atol=1e-12)
    np.testing.assert_allclose(np.asarray(kernel(library(X), library(Y))), kernel(X, Y), atol=1e-12)
    np.testing.assert_allclose(np.asarray(kernel.diag(library(X))), kernel.diag(X), atol=1e-12)
    v = np.arange(5.0)
    np.testing.assert_allclose(
        np.asarray(kernel.matvec(library(X), library(Y), library(v))), kernel(X, Y) @ v, atol=1e-12
    )


@pytest.mark.parametrize("library", [torch.as_tensor, strict.asarray], ids=["torch", "strict"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_constant_rows_are_rounded_as_numpy_rounds(library, dtype) -> None:
    rows = X.astype(dtype)
    largest = float(np.finfo(np.float32).max)
    for value in (0.1, -1 / 3, largest, largest * (1 + 1e-9), 1e300, -1e300):
        with np.errstate(over="ignore"):
            expected = np.full(len(X), value).astype(dtype)
        found = np.asarray(constant_rows(library(rows), value))
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, expected)


def test_tables_without_numba() -> None:
    # The road of devices without a compiled loop.
    w = torch.linspace(-1, 1, 301, dtype=torch.float64)
    for kernel in (Heat(Sphere(), t=0.1), Matern(Sphere(), nu=0.6), Parametrix(Sphere(), t=0.1)):
        tile = w[None].numpy().copy()
        kernel.profile(5).apply(tile)
        np.testing.assert_allclose(kernel.profile(5).evaluate(w).numpy(), tile[0], atol=1e-13)


def test_single_precision_tensors() -> None:
    K = Heat(Sphere())(torch.as_tensor(X, dtype=torch.float32))
    assert K.dtype == torch.float32
    np.testing.assert_allclose(K.numpy(), Heat(Sphere())(X), atol=1e-5)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_gradient_in_the_inputs(kernel) -> None:
    x, y = (torch.tensor(Z, requires_grad=True) for Z in (X[:4], Y[:3]))
    assert torch.autograd.gradcheck(kernel, (x, y))
    assert torch.autograd.gradcheck(lambda z: kernel(z), (x,))


@pytest.mark.parametrize(
    "make",
    [
        lambda p: Heat(Sphere(), t=p),
        lambda p: Heat(Simplex(), t_star=p),
        lambda p: Heat(Sphere(), t=p, normalized=False),
        lambda p: Matern(Sphere(), nu=1.5, length_scale=p),
        lambda p: Parametrix(Sphere(), t=p),
        lambda p: Parametrix(Sphere(), t=p, order=2, normalized=True),
        lambda p: Gaussian(length_scale=p),
        lambda p: Polynomial(coef0=p),
        lambda p: Constant(p) * Heat(Sphere(), t=0.2),
        lambda p: p * Heat(Sphere(), t=p),
    ],
)
def test_gradient_in_the_parameters(make) -> None:
    parameter = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    x, y = torch.as_tensor(X), torch.as_tensor(Y)
    assert torch.autograd.gradcheck(lambda p: make(p)(x, y), (parameter,))
    assert torch.autograd.gradcheck(lambda p: make(p)(x), (parameter,))


def test_second_derivatives() -> None:
    x = torch.tensor(X[:3], requires_grad=True)
    y = torch.as_tensor(Y[:2])
    assert torch.autograd.gradgradcheck(lambda z: Heat(Sphere(), t=0.3)(z, y), (x,))


def test_gradients_are_finite_at_equal_points() -> None:
    x = torch.tensor(np.vstack([X[:2], X[:1]]), requires_grad=True)
    for kernel in (
        Heat(Sphere()),
        ArcCosine(order=0),
        ArcCosine(),
        Matern(Sphere(), nu=0.3),
        Gaussian(),
    ):
        kernel(x).sum().backward()
        assert torch.isfinite(x.grad).all()
        x.grad = None


@pytest.mark.parametrize("n", [500, 100_000])
def test_high_dimension(n: int) -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(size=n)
    x = torch.tensor(np.stack([base, base + 0.5 * rng.normal(size=n)]), requires_grad=True)
    t_star = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    Heat(Sphere(), t_star=t_star)(x)[0, 1].backward()
    assert torch.isfinite(x.grad).all()
    assert float(x.grad.norm()) > 0
    step = 1e-5
    rows = x.detach().numpy()
    ahead, behind = (Heat(Sphere(), t_star=0.7 + s)(rows)[0, 1] for s in (step, -step))
    assert float(t_star.grad) == pytest.approx((ahead - behind) / (2 * step), rel=1e-5)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_bad_tensors(bad: float) -> None:
    spoilt = torch.as_tensor(X.copy())
    spoilt[2, 1] = bad
    with pytest.raises(ValueError, match="row 2"):
        Heat(Sphere())(spoilt)
    with pytest.raises(ValueError, match=r"row 1 .* negative"):
        Heat(Simplex())(torch.tensor([[1.0, 2.0], [-1.0, 2.0]]))
    with pytest.raises(ValueError, match="no rows"):
        Heat(Sphere())(torch.empty(0, 3))
    with pytest.raises(TypeError, match="one library"):
        Heat(Sphere())(torch.as_tensor(X), Y)


def test_arrays_of_two_devices() -> None:
    here, there = (strict.asarray(part, device=strict.Device(name)) for part, name in
                   ((X, "CPU_DEVICE"), (Y, "device1")))  # fmt: skip
    with pytest.raises(
        TypeError, match=r"X is on .*CPU_DEVICE.*, Y on .*device1.*; both must be on one"
    ):
        Heat(Sphere())(here, there)


@pytest.mark.parametrize("home", [np.asarray, torch.as_tensor, strict.asarray])
def test_complex_vectors_and_weights(home) -> None:
    """Imaginary parts would be dropped."""
    v, kernel = home(np.full(5, 1j)), Heat(Sphere())
    with pytest.raises(ValueError, match="Complex data not supported: v holds"):
        kernel.matvec(home(X), home(Y), v)
    with pytest.raises(ValueError, match="Complex data not supported: weights holds"):
        kernel.weighted_sum(home(X), home(Y), home(np.full((9, 5), 1j)))


@pytest.mark.filterwarnings("error")
def test_derivatives_by_vectors() -> None:
    """Also of kernels without an engine's product."""
    for kernel in (Heat(Sphere()), Heat(Sphere()) * Gaussian()):
        v = torch.ones(5, dtype=torch.float64, requires_grad=True)
        kernel.matvec(torch.as_tensor(X), torch.as_tensor(Y), v).sum().backward()
        np.testing.assert_allclose(v.grad, kernel(X, Y).sum(axis=0), atol=1e-12)


def test_vectors_that_are_views_in_reverse() -> None:
    """Tensors have no negative strides."""
    v, kernel = np.arange(5.0)[::-1], Heat(Sphere())
    found = kernel.matvec(torch.as_tensor(X), torch.as_tensor(Y), v)
    np.testing.assert_allclose(found.numpy(), kernel(X, Y) @ v, atol=1e-12)


def test_whole_number_tensors() -> None:
    counts = torch.tensor([[1, 2, 3], [3, 0, 1]])
    np.testing.assert_allclose(Heat(Simplex())(counts).numpy(), Heat(Simplex())(counts.numpy()))


def test_gradients_that_would_be_lost_are_refused() -> None:
    t = torch.tensor(0.3, requires_grad=True)
    with pytest.raises(TypeError, match="rows are not dense tensors"):
        Heat(Sphere(), t=t)(X)
    with pytest.raises(TypeError, match="nu"):
        Matern(Sphere(), nu=t)(torch.as_tensor(X))
    with pytest.raises(TypeError, match="time"):
        Heat(Sphere(), t=t).log(torch.as_tensor(X))
    with pytest.raises(TypeError, match="autograd"):
        Heat(Sphere())(torch.as_tensor(X), eval_gradient=True)
    with pytest.raises(TypeError, match="X is sparse and requires a gradient"):
        Heat(Sphere())(torch.as_tensor(X).to_sparse().requires_grad_())
    np.testing.assert_allclose(Heat(Sphere(), t=t.detach())(X), Heat(Sphere(), t=float(t.detach()))(X))


ROWS = np.random.default_rng(0).normal(size=(6, 4))


@pytest.mark.parametrize("make", [lambda t: Heat(Sphere(), t=t), lambda t: Gaussian(length_scale=t)])
def test_second_derivatives_by_hyperparameters(make) -> None:
    t = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    rows = torch.tensor(ROWS[:4], requires_grad=True)

    def slope(value):
        return torch.autograd.grad(make(value)(rows).sum(), value, create_graph=True)[0]

    (second,) = torch.autograd.grad(slope(t), t, retain_graph=True)
    ahead, behind = (
        float(slope(torch.tensor(0.7 + s, dtype=torch.float64, requires_grad=True)).detach())
        for s in (1e-5, -1e-5)
    )
    assert float(second) == pytest.approx((ahead - behind) / 2e-5, rel=1e-6)
    assert torch.autograd.gradgradcheck(lambda p, z: make(p)(z, torch.as_tensor(ROWS[4:6])), (t, rows))


def test_gradients_at_zero_counts_are_finite() -> None:
    counts = torch.tensor([[3.0, 0.0, 1.0], [0.0, 2.0, 2.0]], dtype=torch.float64, requires_grad=True)
    for kernel in (Heat(Simplex()), Cosine(Simplex()), ArcCosine()):
        (slope,) = torch.autograd.grad(kernel(counts).sum(), counts)
        assert torch.isfinite(slope).all()
    rows = torch.tensor([[0.0, 0.0], [1.0, 2.0]], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(ArcCosine()(rows).sum(), rows)
    assert torch.isfinite(slope).all()


def test_constants_at_whole_numbers_are_not_rounded() -> None:
    for rows in (torch.arange(4).reshape(2, 2), torch.ones(2, 2, dtype=torch.bool)):
        np.testing.assert_array_equal(Constant(2.5)(rows), 2.5)
        np.testing.assert_array_equal(Constant(2.5).diag(rows), 2.5)


def test_values_beyond_single_precision_are_refused() -> None:
    """They would be infinite, or the largest number of the precision."""
    X = np.random.default_rng(0).normal(size=(3, 200))  # of a high dimension
    kernel = Heat(Sphere(), t=0.3, normalized=False)
    assert kernel(X).max() > 1e100
    single = X.astype(np.float32)
    calls = [
        lambda A: kernel(A),
        lambda A: kernel(A, A + 1),
        kernel.diag,
        lambda A: kernel.matvec(A, A + 1, X[:, 0]),
    ]
    for call in calls:
        for rows in (single, torch.as_tensor(single)):
            with pytest.raises(
                ValueError, match=r"values of the kernel reach \d.*range of single precision"
            ):
                call(rows)
