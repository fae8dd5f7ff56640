"""Explicit features of the polynomial kernel."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import SVC

from mercer.bounds import vc_bound
from mercer.kernels import (
    Gaussian,
    InverseGeneralizedVariance,
    Linear,
    Polynomial,
    RegularizedMoment,
)
from tests.helpers.clouds import random_clouds


@pytest.mark.parametrize(("degree", "coef0", "n"), [(1, 0.0, 4), (2, 0.0, 3), (3, 0.5, 4), (7, 2.0, 2)])
def test_features_are_those_of_the_kernel(degree: int, coef0: float, n: int) -> None:
    import torch

    X = np.random.default_rng(0).normal(size=(6, n))
    kernel = Polynomial(degree=degree, coef0=coef0)
    F = kernel.explicit_features(X)
    np.testing.assert_allclose(F @ F.T, kernel(X), rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(kernel.explicit_features(sparse.csr_matrix(X)), F, rtol=1e-14)
    np.testing.assert_allclose(kernel.explicit_features(torch.as_tensor(X)).numpy(), F, rtol=1e-14)
    assert kernel.explicit_features(X.astype(np.float32)).dtype == np.float32


def test_many_features_are_not_written_out() -> None:
    X = np.ones((2, 44))
    assert Polynomial(degree=2, coef0=0.0).explicit_features(X).shape == (2, 990)
    assert Polynomial(degree=2).explicit_features(X) is None
    assert Polynomial(degree=3).explicit_features(sparse.csr_matrix((2, 20_000))) is None


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_overflow_is_refused(dtype: type) -> None:
    large = 1e17 if dtype is np.float64 else 1e3  # squares to the power of ten do not fit
    rows = np.array([[large, 1.0], [1.0, 2.0]], dtype=dtype)
    kernel = Polynomial(degree=10)
    for X in (rows, sparse.csr_matrix(rows)):
        for compute in (kernel, kernel.diag, lambda X: kernel.matvec(X, X, np.ones(2))):
            with pytest.raises(ValueError, match=f"degree 10 overflow in {np.dtype(dtype)}; take"):
                compute(X)
    with pytest.raises(ValueError, match="row 0 of X has numbers whose power 20 overflows"):
        Polynomial(degree=20).explicit_features(rows)
    for combined in (Linear() ** 20, Polynomial(degree=5) * Polynomial(degree=5), 1e300 * Linear()):
        with pytest.raises(ValueError, match="overflow"):
            combined(rows if dtype is np.float32 else 1e3 * rows)
    scaled = Gaussian(column_scales=[1e-200, 1.0])
    with pytest.raises(ValueError, match="row 0 of X / column_scales"):
        scaled(rows)
    narrow, slope = Gaussian(length_scale=1e-18)(rows, eval_gradient=True)
    assert np.array_equal(narrow, np.eye(2))
    assert not slope.any()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_overflow_of_tensors_is_refused(dtype: str) -> None:
    import torch

    power = 36 if dtype == "float64" else 4  # squares and their products fit, and cubes do not
    X = torch.tensor([[10.0**power, 1.0], [1.0, 2.0]], dtype=getattr(torch, dtype))
    square = Polynomial(degree=2)
    assert torch.isfinite((square * square)(X)).all()
    for kernel in (square**3, square * square * square, 1e200 * square, 1e200 * square + square):
        with pytest.raises(ValueError, match="overflow; rescale the rows"):
            kernel(X)
        with pytest.raises(ValueError, match="overflow; rescale the rows"):
            kernel.diag(X)
        with pytest.raises(ValueError, match="overflow; rescale the rows"):
            kernel.matvec(X, None, X[:, 0])


def test_clouds_and_bounds_use_the_features() -> None:
    clouds = random_clouds(np.random.default_rng(1), sizes=(6, 9, 12))
    base = Polynomial(degree=2)
    explicit, implicit = (InverseGeneralizedVariance(b, eta=0.3) for b in (base, base * 1.0))
    np.testing.assert_allclose(explicit(clouds), implicit(clouds), rtol=1e-10)
    assert np.isfinite(RegularizedMoment(order=2, eps=0.3, base=base)(clouds)).all()
    X = np.random.default_rng(2).normal(size=(40, 2))
    y = X[:, 0] ** 2 + X[:, 1] > 0.5
    model = SVC(kernel=base, C=10.0).fit(X, y)
    assert vc_bound(model, X).dimension == 6
