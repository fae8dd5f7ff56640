"""Laws on flat space: Matern and heat kernels, against Bessel functions in high precision."""

import mpmath as mp
import numpy as np
import pytest
import torch
from scipy import sparse

from mercer.kernels import Gaussian, Heat, Matern, Spectral
from mercer.spaces import Euclidean, ProductSpace, Torus

X = np.random.default_rng(0).normal(size=(25, 4))


def matern(nu, z):
    nu, z = mp.mpf(nu), mp.mpf(z)
    return 2 ** (1 - nu) / mp.gamma(nu) * z**nu * mp.besselk(nu, z)


@pytest.mark.parametrize("nu", [0.2, 0.5, 1.0, 2.5, 3.7, 20.5, 45.3])
def test_matern_against_bessel_functions(nu):
    length = 2.3
    r = length * np.array([1e-8, 1e-3, 0.1, 0.7, 2.0, 9.0, 60.0])
    kernel = Matern(Euclidean(), nu=nu, length_scale=length)
    K, gradient = (r**2)[None, :].copy(), (r**2)[None, :].copy()
    kernel.profile(1).apply(K)
    kernel.gradient_profile(1, "length_scale").apply(gradient)
    with mp.workdps(30):
        scale = mp.sqrt(2 * mp.mpf(nu)) / mp.mpf(length)
        true = [matern(nu, scale * mp.mpf(float(x))) for x in r]
        gaps = [
            abs(float(mp.mpf(float(a)) / b - 1)) for a, b in zip(K[0], true, strict=True) if b > 1e-300
        ]
        # d/dlog(length) of f(r / length) is z^(nu+1) K_(nu-1)(z), up to the factor of f.
        step = mp.mpf("1e-12")
        slopes = [
            (matern(nu, scale * mp.mpf(float(x)) / (1 + step)) - b) / step
            for x, b in zip(r, true, strict=True)
        ]
    # Small values carry the rounding of their logarithm.
    assert max(gaps) < 3e-12
    np.testing.assert_allclose(gradient[0], np.array(slopes, dtype=float), rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("n", [2, 150])
@pytest.mark.parametrize("nu", [0.1, 0.5, 1.5])
def test_close_rows_in_a_wide_set(nu, n):
    """Distances from 1e-8 to 1e-3 between rows up to 1e3 apart."""
    rng = np.random.default_rng(n)
    first, steps = rng.uniform(-500, 500, size=(6, n)), rng.normal(size=(6, n))
    second = first + 10.0 ** np.arange(-8, -2)[:, None] * steps / np.linalg.norm(steps, axis=1)[:, None]
    rows, length = np.concatenate([first, second]), 0.5
    kernel = Matern(Euclidean(), nu=nu, length_scale=length)
    K, slopes = kernel(rows, eval_gradient=True)
    with mp.workdps(40):
        gaps = [[mp.mpf(a) - mp.mpf(b) for a, b in zip(x, y, strict=True)]
                for x, y in zip(first.tolist(), second.tolist(), strict=True)]  # fmt: skip
        z = [mp.sqrt(2 * mp.mpf(nu) * mp.fsum(d * d for d in gap)) / length for gap in gaps]
        true = np.array([float(matern(nu, x)) for x in z])
        step = mp.mpf("1e-15")
        rises = np.array([float((matern(nu, x * (1 - step)) - matern(nu, x)) / step) for x in z])
    np.testing.assert_allclose(np.diag(K[:6, 6:]), true, atol=1e-13)
    np.testing.assert_allclose(np.diag(slopes[:6, 6:, 0]), rises, atol=1e-12)
    for kind in (sparse.csr_matrix(first), first):
        values = kernel(kind, sparse.csr_matrix(second))
        np.testing.assert_allclose(np.diag(values), true, atol=1e-13)
    np.testing.assert_allclose(kernel(sparse.csr_matrix(rows)), K, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_absolute_forms_are_inverse_transforms(n):
    # The kernel of (rate - Laplacian)^(-nu - n/2) at distance 0, by an integral over frequencies.
    nu, length = 1.3, 0.7
    rate = 2 * nu / length**2
    area = 2 * mp.pi ** (mp.mpf(n) / 2) / mp.gamma(mp.mpf(n) / 2)
    with mp.workdps(20):
        density = mp.quad(
            lambda w: w ** (n - 1) * (rate + w * w) ** (-nu - mp.mpf(n) / 2), [0, 1, 10, mp.inf]
        )
    kernel = Matern(Euclidean(), nu=nu, length_scale=length, normalized=False)
    value = kernel(np.zeros((1, n)))[0, 0]
    assert value == pytest.approx(float(density * area / (2 * mp.pi) ** n), rel=1e-9)
    assert kernel.log_self_similarity(n) == pytest.approx(np.log(value), rel=1e-12)
    heat = Heat(Euclidean(), t=0.3, normalized=False)
    assert heat(np.zeros((1, n)))[0, 0] == pytest.approx((4 * np.pi * 0.3) ** (-n / 2), rel=1e-12)


def test_heat_is_the_gaussian():
    heat = Heat(Euclidean(), t=0.5)
    assert heat.is_stationary()
    assert heat.is_isotropic()
    np.testing.assert_allclose(heat(X), Gaussian(length_scale=1.0)(X), rtol=1e-13)
    far = [[0.0], [1e4]]
    np.testing.assert_allclose(heat.log(far), [[0.0, -5e7], [-5e7, 0.0]])
    assert Matern(Euclidean(), nu=999.5, length_scale=1.0)(X) == pytest.approx(heat(X), abs=1e-3)


def test_matern_in_every_kind_of_array():
    for nu in (0.5, 1.2):
        kernel = Matern(Euclidean(), nu=nu, length_scale=1.5)
        K = kernel(X)
        np.testing.assert_allclose(kernel(sparse.csr_matrix(X)), K, atol=1e-13)
        np.testing.assert_allclose(kernel(torch.tensor(X)).numpy(), K, atol=1e-13)
        single = kernel(X.astype(np.float32))
        assert single.dtype == np.float32
        np.testing.assert_allclose(single, K, atol=2e-6)
    length = torch.tensor(1.5, dtype=torch.double, requires_grad=True)
    Matern(Euclidean(), nu=1.2, length_scale=length)(torch.tensor(X)).sum().backward()
    gradient = kernel(X, eval_gradient=True)[1].sum() / 1.5
    assert float(length.grad) == pytest.approx(gradient, rel=1e-10)


def test_range_from_the_data_and_refusals():
    kernel = Matern(Euclidean(), nu=1.5).scaled_to(X, 0.3)
    assert np.median(kernel(X)[np.triu_indices(25, 1)]) == pytest.approx(0.3, abs=1e-6)
    with pytest.raises(ValueError, match="length scale"):
        Matern(Euclidean())(X)
    with pytest.raises(ValueError, match="nu on Euclidean"):
        Matern(Euclidean(), nu=0.01, length_scale=1.0)(X)
    with pytest.raises(ValueError, match="rescale the rows"):
        Matern(Euclidean(), length_scale=1e-20)(X)
    with pytest.raises(TypeError, match="flat space"):
        Spectral(Euclidean(), [1.0])(X)


def test_flat_columns_beside_angles():
    space = ProductSpace(Euclidean(), Torus(n=1), columns=[[0, 1], [2]])
    flat, round_ = Heat(Euclidean(), t=0.3)(X[:, :2]), Heat(Torus(n=1), t=0.3)(X[:, 2:3])
    np.testing.assert_allclose(Heat(space, t=0.3)(X[:, :3]), flat * round_, atol=1e-13)
