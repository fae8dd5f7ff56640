"""Faults that were found once and must not come back."""

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

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
    Spectral,
)
from mercer.spaces import Simplex, Sphere

X = np.random.default_rng(0).normal(size=(30, 4))
HEAT = Heat(Sphere(), t=0.3)


def test_sparse_gaussian_with_empty_rows() -> None:
    Z = np.array([[0, 0, 0], [1, 0, 2.0], [0, 0, 0], [0, 3, 1.0]])
    for kernel in (Gaussian(), Linear(), Polynomial(), ArcCosine()):
        np.testing.assert_allclose(kernel(sparse.csr_matrix(Z)), kernel(Z), atol=1e-14)
        product = kernel.matvec(sparse.csr_matrix(Z), None, np.ones(4))
        np.testing.assert_allclose(product, kernel(Z).sum(axis=1), atol=1e-12)


@pytest.mark.parametrize("index", [900_000_000, -1])
def test_indices_out_of_range(index: int) -> None:
    broken = sparse.csr_matrix((np.ones(4), [0, 1, 0, 1], [0, 2, 4]), shape=(2, 3))
    broken.indices[2] = index
    with pytest.raises(ValueError, match="broken sparse"):
        Heat(Simplex())(broken)


@pytest.mark.parametrize(
    "kernel",
    [
        HEAT + WhiteKernel(1.0),
        HEAT * Matern(Sphere(), nu=0.5),
        Matern(Sphere(), nu=0.5) ** 2,
        HEAT * RBF(2.0),
    ],
    ids=repr,
)
def test_matvec_knows_the_diagonal(kernel) -> None:
    v = np.arange(30.0)
    np.testing.assert_allclose(kernel.matvec(X, None, v), kernel(X) @ v, rtol=1e-13)


@pytest.mark.parametrize("make", [lambda t: Heat(Sphere(), t=t), lambda t: Gaussian(length_scale=t)])
def test_second_derivatives_by_hyperparameters(make) -> None:
    t = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    rows = torch.tensor(X[:4], requires_grad=True)

    def slope(value):
        return torch.autograd.grad(make(value)(rows).sum(), value, create_graph=True)[0]

    (second,) = torch.autograd.grad(slope(t), t, retain_graph=True)
    ahead, behind = (
        float(slope(torch.tensor(0.7 + s, dtype=torch.float64, requires_grad=True)).detach())
        for s in (1e-5, -1e-5)
    )
    assert float(second) == pytest.approx((ahead - behind) / 2e-5, rel=1e-6)
    assert torch.autograd.gradgradcheck(lambda p, z: make(p)(z, torch.as_tensor(X[4:6])), (t, rows))


@pytest.mark.parametrize(
    "kernel",
    [
        (HEAT**2) ** 3,
        HEAT * (WhiteKernel(1) + RBF(1.0)),
        Constant(2.0, "fixed") * HEAT,
        Constant(2.0) * Constant(3.0),
        Constant(2.0) + Constant(3.0),
        (HEAT + 1.0) ** 2 * 3.0,
    ],
)
def test_repr_is_the_kernel(kernel) -> None:
    again = eval(repr(kernel))
    np.testing.assert_array_equal(again(X), kernel(X))
    np.testing.assert_array_equal(again.theta, kernel.theta)


def test_gradient_of_a_constant_is_no_view() -> None:
    K, gradient = Constant(2.0)(X, eval_gradient=True)
    K += 1
    assert (gradient == 2).all()


def test_spectral_weights_with_gaps() -> None:
    w = np.array([[0.3, -0.8, 1.0]])
    sparse_weights = np.zeros(101)
    sparse_weights[[0, 100]] = 1
    by_list, by_function = w.copy(), w.copy()
    Spectral(Sphere(), sparse_weights).profile(3).apply(by_list)
    Spectral(Sphere(), lambda lam: np.where((lam == 0) | (lam == 10100), 1.0, 0.0)).profile(3).apply(
        by_function
    )
    np.testing.assert_allclose(by_list, by_function, atol=1e-12)
    band = Spectral(Sphere(), lambda lam: ((lam > 1e4) & (lam < 2e4)) * 1.0)
    assert band.spectrum(3).first == 100


def test_laws_too_fast_for_a_table_are_refused() -> None:
    weights = np.zeros(30_001)
    weights[-1] = 1
    with pytest.raises(ValueError, match="too fast"):
        Spectral(Sphere(), weights)(X[:, :3])


def test_cached_profiles_of_equal_bytes() -> None:
    np.testing.assert_array_equal(Spectral(Sphere(), [1.0])(X), np.ones((30, 30)))
    cosine = Spectral(Sphere(), np.float32([0, 1.875]))(X)
    np.testing.assert_allclose(cosine, Cosine()(X), atol=1e-14)


@pytest.mark.parametrize("size", [1.7e308, 5e-324])
def test_rows_at_the_end_of_the_range(size: float) -> None:
    K = Cosine()([[size, size], [1, 1]])
    np.testing.assert_allclose(K, np.ones((2, 2)), rtol=1e-14)


def test_overflow_is_refused() -> None:
    with pytest.raises(ValueError, match=r"row 0 .* overflows"):
        Gaussian()([[1e200, 0], [2e200, 0], [0, 0]])
    with pytest.raises(ValueError, match="normalized=True"):
        ArcCosine(2, depth=11)([[2.0, 0], [0.1, 0], [0, 0]])
    with pytest.raises(ValueError, match="length_scale"):
        Matern(Sphere(), length_scale=5e-324)(X)


def test_gradients_at_zero_counts_are_finite() -> None:
    counts = torch.tensor([[3.0, 0.0, 1.0], [0.0, 2.0, 2.0]], dtype=torch.float64, requires_grad=True)
    for kernel in (Heat(Simplex()), Cosine(Simplex()), ArcCosine()):
        (slope,) = torch.autograd.grad(kernel(counts).sum(), counts)
        assert torch.isfinite(slope).all()
    rows = torch.tensor([[0.0, 0.0], [1.0, 2.0]], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(ArcCosine()(rows).sum(), rows)
    assert torch.isfinite(slope).all()


def test_deep_arc_cosine_of_order_two() -> None:
    import mpmath as mp

    from tests.helpers import oracles

    w = np.array([[1 - 1e-13, 1 - 2.0**-53, 0.5]])
    tile = w.copy()
    ArcCosine(2, depth=30).profile(3).apply(tile)
    for x, got in zip(w[0], tile[0], strict=True):
        value = mp.mpf(float(x))
        for _ in range(30):
            value = oracles.arc_cosine(2, value)
        assert abs(float(value) - got) < 1e-12


def test_log_heat_on_the_circle_at_short_times() -> None:
    log = Heat(Sphere(), t=0.001).log([[1.0, 0]], [[0, 1], [-1, 0], [1, 0]])[0]
    expected = [-((np.pi / 2) ** 2) / 0.004, np.log(2) - np.pi**2 / 0.004, 0]
    np.testing.assert_allclose(log, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    "kernel",
    [
        ArcCosine(order=1.0),
        ArcCosine(depth=2.0),
        Parametrix(Sphere(), order=1.0),
        Heat(Sphere(), t_star="0.5"),
        Matern(Sphere(), nu="2.5"),
        Polynomial(coef0=None),
        Polynomial(coef0="abc"),
    ],
)
def test_parameters_of_the_wrong_type(kernel) -> None:
    with pytest.raises(ValueError, match=r"order|depth|t_star|nu|coef0"):
        kernel(X)


def test_matvec_of_frames_and_sparse_formats() -> None:
    import pandas as pd

    kernel, v = HEAT * Matern(Sphere(), nu=0.5), np.arange(30.0)
    for rows in (pd.DataFrame(X), sparse.coo_matrix(X)):
        for other in (None, rows):
            np.testing.assert_allclose(kernel.matvec(rows, other, v), kernel(X) @ v, rtol=1e-12)
