"""Sparse processes and features on rotations, labels and products, against dense computations."""

import numpy as np
import pytest

from mercer.features import SpectralFeatures
from mercer.gp import SphericalGPRegressor
from mercer.kernels import Heat, Matern, Spectral
from mercer.spaces import Categories, Graph, Hyperbolic, ProductSpace, Rotations, Simplex, Sphere, Torus

LABELS = Categories(levels=[["a", "b"], ["x", "y", "z"], ["u", "v", "w"]])
CLOCK = ProductSpace(Torus(n=1, period=24), LABELS, columns=[0, [1, 2, 3]])
PLACES = ProductSpace(Torus(n=1), Sphere(n=3), columns=[0, [1, 2, 3]])


def dense(K: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean, covariance and log evidence at the rows, with amplitude 1.3 and noise 0.3."""
    K = 1.3 * K
    C = K + 0.3 * np.eye(len(y))
    evidence = y @ np.linalg.solve(C, y) + np.linalg.slogdet(C)[1] + len(y) * np.log(2 * np.pi)
    return K @ np.linalg.solve(C, y), K - K @ np.linalg.solve(C, K), -evidence / 2


@pytest.mark.parametrize(
    ("kernel", "count"),
    [
        (Heat(Rotations()), 455),
        (Heat(Rotations(), t=0.8, normalized=False), 455),
        (Heat(LABELS, t=0.4), 18),
        (Heat(LABELS, t=0.4, normalized=False), 18),
        (Matern(LABELS, nu=1.5, length_scale=1.0), 18),
        (Spectral(Categories(levels=[["a", "b"]] * 4), lambda v: 1 / (1 + v) ** 2), 16),
        (Heat(CLOCK), 700),
        (Heat(CLOCK, t=0.4, normalized=False), 700),
        (Heat(PLACES), 700),
    ],
    ids=repr,
)
def test_enough_functions_are_the_dense_model(kernel, count: int) -> None:
    rng = np.random.default_rng(0)
    X = kernel.space.sample(40, rng)
    y = rng.normal(size=40)
    model = SphericalGPRegressor(
        kernel, max_features=count, optimize=False, normalize_y=False, amplitude=1.3, noise=0.3
    ).fit(X, y)
    assert count - 20 < model.features_.size <= count
    mean, covariance, evidence = dense(kernel(X), y)
    got, std = model.predict(X, return_std=True, include_noise=False)
    np.testing.assert_allclose(got, mean, atol=1e-8)
    np.testing.assert_allclose(std**2, np.diag(covariance), atol=1e-8)
    got = model.predict(X[:9], return_cov=True, include_noise=False)[1]
    np.testing.assert_allclose(got, covariance[:9, :9], atol=1e-8)
    assert model.elbo_ == pytest.approx(evidence, abs=1e-7)
    F = SpectralFeatures(kernel, n_components=count).fit_transform(X)
    np.testing.assert_allclose(F @ F.T, kernel(X), atol=1e-8)


@pytest.mark.parametrize(
    ("kernel", "count"),
    [
        (Matern(Rotations(), nu=1.5, length_scale=1.0), 84),
        (Heat(LABELS, t=0.2), 9),
        (Heat(CLOCK, t=0.1), 40),
        (Matern(PLACES, nu=1.5, length_scale=0.8), 60),
    ],
    ids=repr,
)
@pytest.mark.parametrize("normalized", [True, False])
def test_fewer_functions_bound_the_evidence(kernel, count: int, normalized: bool) -> None:
    rng = np.random.default_rng(1)
    kernel = kernel.__class__(**kernel.get_params() | {"normalized": normalized})
    X = kernel.space.sample(30, rng)
    y = rng.normal(size=30)
    model = SphericalGPRegressor(
        kernel, max_features=count, optimize=False, normalize_y=False, amplitude=1.3, noise=0.3
    ).fit(X, y)
    assert model.elbo_ < dense(kernel(X), y)[2]
    # What is left out comes back as variance.
    F = model.features_.write(model.features_.check(X), phi := np.empty((30, model.features_.size)))
    weights = model.features_.weights(kernel)
    whole = (phi**2 * weights.variances).sum(axis=1) + F @ weights.rest
    np.testing.assert_allclose(whole, kernel.diag(X), rtol=1e-6)
    theta = model.theta_ + 0.1
    gradient = model.log_marginal_likelihood(theta, eval_gradient=True)[1]
    for i, move in enumerate(1e-5 * np.eye(len(theta))):
        ends = [model.log_marginal_likelihood(theta + sign * move) for sign in (1, -1)]
        assert gradient[i] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-5)


def test_functions_are_orthonormal() -> None:
    # Over all rows of labels, and in the mean over many rotations.
    rows = [[a, b, c] for a in "ab" for b in "xyz" for c in "uvw"]
    basis = LABELS.eigenfunctions(3, None, lambda eigenvalues: -eigenvalues)
    values = basis.values(basis.check(rows))
    np.testing.assert_allclose(values.T @ values, np.eye(18), atol=1e-14)
    assert sorted(basis.eigenvalues) == sorted(
        2 * (i > 0) + 3 * (j > 0) + 3 * (k > 0) for i in range(2) for j in range(3) for k in range(3)
    )
    basis = Rotations().eigenfunctions(4, 35, lambda eigenvalues: -eigenvalues)
    np.testing.assert_array_equal(np.unique(basis.eigenvalues, return_counts=True)[1], [1, 9, 25])
    values = basis.values(basis.check(np.random.default_rng(0).normal(size=(200_000, 4))))
    np.testing.assert_allclose(values.T @ values / len(values), np.eye(35), atol=0.02)


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (Heat(Categories(levels=3), t=0.3), "need the labels of each column, such as Categories"),
        (Heat(ProductSpace(Torus(), Categories(), columns=[0, 1]), t=0.3), "need the labels.*factor 1"),
        (
            Heat(ProductSpace(Hyperbolic(n=2), columns=[[0, 1]]), t=0.3),
            "all factors have.*factor 0",
        ),
        (
            Heat(ProductSpace(Graph(np.ones((3, 3))), Torus(), columns=[0, 1]), t=0.3),
            "are homogeneous.*factor 0",
        ),
        (Heat(ProductSpace(Simplex(), columns=[slice(None)])), "spheres of few columns.*factor 0"),
    ],
    ids=repr,
)
def test_what_has_no_functions_says_so(kernel, words: str) -> None:
    X = np.ones((4, 60)) if "Simplex" in repr(kernel) else np.ones((4, 2))
    with pytest.raises(TypeError, match=words):
        SpectralFeatures(kernel).fit(X)


def test_labels_that_are_stated() -> None:
    X = [["a", "x", "w"], ["b", "x", "u"]]
    assert np.array_equal(Heat(LABELS, t=0.3)(X), Heat(Categories(levels=(2, 3, 3)), t=0.3)(X))
    with pytest.raises(ValueError, match=r"row 1 of X has the label 'v' in column 1, which is not"):
        Heat(LABELS, t=0.3)([["a", "x", "w"], ["a", "v", "w"]])
    with pytest.raises(ValueError, match="labels of a column must be different"):
        Categories(levels=[["a", "a"]])
    with pytest.raises(ValueError, match="at least 2"):
        Categories(levels=[["a"]])
    assert eval(repr(LABELS)) == LABELS
