"""One kernel object, all of scikit-learn."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import SpectralClustering
from sklearn.datasets import load_digits
from sklearn.decomposition import KernelPCA
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, SVR, OneClassSVM

from mercer.features import GramTransformer
from mercer.kernels import Gaussian, Heat, Matern
from mercer.spaces import Simplex, Sphere


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:400], y[:400]


@pytest.fixture(scope="module")
def field():
    """A smooth function on the 2-sphere, with a little noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.sin(3 * unit[:, 0]) + unit[:, 1] * unit[:, 2] + 0.05 * rng.normal(size=80)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, sparse.csc_matrix])
def test_svc_on_counts(digits, form) -> None:
    X, y = digits
    model = SVC(kernel=Heat(Simplex())).fit(form(X[:300]), y[:300])
    plain = SVC(kernel="precomputed").fit(Heat(Simplex())(X[:300]), y[:300])
    expected = plain.predict(Heat(Simplex())(X[300:], X[:300]))
    np.testing.assert_array_equal(model.predict(form(X[300:])), expected)
    assert (expected == y[300:]).mean() > 0.8


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_grid_search(digits, n_jobs: int) -> None:
    X, y = digits
    grid = {"kernel__t_star": [0.25, 1.0], "C": [1.0, 10.0]}
    search = GridSearchCV(SVC(kernel=Heat(Simplex())), grid, cv=3, n_jobs=n_jobs).fit(X, y)
    assert search.best_score_ > 0.9
    assert search.best_estimator_.kernel.t_star == search.best_params_["kernel__t_star"]


def test_gaussian_process_regressor_finds_the_time(field) -> None:
    X, y = field
    kernel = 1.0 * Heat(Sphere(), t=5.0) + WhiteKernel(0.1)
    model = GaussianProcessRegressor(kernel, random_state=0).fit(X[:60], y[:60])
    start = GaussianProcessRegressor(kernel, optimizer=None).fit(X[:60], y[:60])
    assert model.log_marginal_likelihood_value_ > start.log_marginal_likelihood_value_ + 10
    assert model.kernel_.get_params()["k1__k2__t"] < 1.0
    mean, std = model.predict(X[60:], return_std=True)
    assert np.sqrt(np.mean((mean - y[60:]) ** 2)) < 0.2
    assert (std > 0).all()
    assert "t=" in repr(model.kernel_)


def test_gaussian_process_classifier_optimises_t(field) -> None:
    X, y = field
    model = GaussianProcessClassifier(Heat(Sphere(), t=5.0)).fit(X[:60], y[:60] > 0)
    assert model.kernel_.t != 5.0
    assert model.score(X[60:], y[60:] > 0) > 0.7


def test_mixed_with_scikit_learn_kernels(field) -> None:
    X, _ = field
    expected = Heat(Sphere())(X) + RBF(0.7)(X)
    for combined in (Heat(Sphere()) + RBF(0.7), RBF(0.7) + Heat(Sphere())):
        np.testing.assert_allclose(combined(X), expected)
        K, gradient = combined(X, eval_gradient=True)
        assert gradient.shape == (*K.shape, 2)
    product = Heat(Sphere()) * RBF(0.7)
    v = np.ones(len(X))
    np.testing.assert_allclose(product.matvec(X, None, v), product(X) @ v)


def test_kernel_methods(digits) -> None:
    X, y = digits
    kernel = Heat(Simplex(), t_star=0.5)
    assert KernelPCA(3, kernel=kernel).fit_transform(X).shape == (400, 3)
    map_ = Nystroem(kernel, n_components=400, random_state=0).fit(X)
    features = map_.transform(X)
    np.testing.assert_allclose(features @ features.T, kernel(X), atol=1e-8)
    model = make_pipeline(
        Nystroem(kernel, n_components=150, random_state=0), LogisticRegression(C=100.0)
    )
    assert cross_val_score(model, X, y, cv=3).mean() > 0.9
    ridge = KernelRidge(alpha=0.1, kernel=kernel).fit(X, (y == 3).astype(float))
    assert ((ridge.predict(X) > 0.5) == (y == 3)).mean() > 0.98
    np.testing.assert_allclose(
        ridge.predict(X[:5]),
        KernelRidge(alpha=0.1, kernel="precomputed")
        .fit(kernel(X), (y == 3).astype(float))
        .predict(kernel(X[:5], X)),
    )
    labels = SpectralClustering(10, affinity=kernel, random_state=0).fit_predict(X)
    assert len(set(labels)) == 10
    assert SVR(kernel=kernel).fit(X, y).score(X, y) > 0.8
    assert set(OneClassSVM(kernel=kernel).fit_predict(X)) == {-1, 1}
    assert OneVsRestClassifier(SVC(kernel=kernel)).fit(X, y).score(X, y) > 0.95


def test_gram_transformer_in_a_pipeline_under_cross_validation(digits) -> None:
    X, y = digits
    counts = sparse.csr_matrix(X)
    model = make_pipeline(GramTransformer(Heat(Simplex())), SVC(kernel="precomputed"))
    direct = cross_val_score(SVC(kernel=Heat(Simplex())), counts, y, cv=4)
    np.testing.assert_allclose(cross_val_score(model, counts, y, cv=4), direct)
    grid = {"gramtransformer__kernel__t_star": [0.3, 1.5]}
    assert GridSearchCV(model, grid, cv=3).fit(counts, y).best_score_ > 0.9


def test_gram_transformer_normalises(field) -> None:
    X, _ = field
    kernel = Gaussian() * 4.0 + Heat(Sphere(), normalized=False)
    transformer = GramTransformer(kernel, normalize=True)
    np.testing.assert_allclose(np.diag(transformer.fit_transform(X)), 1)
    lengths = [np.sqrt(kernel.diag(Z)) for Z in (X[:5], X)]
    expected = kernel(X[:5], X) / lengths[0][:, None] / lengths[1]
    np.testing.assert_allclose(transformer.transform(X[:5].copy()), expected)
    assert transformer.get_feature_names_out()[-1] == "k79"


def test_clone_shares_the_space_and_keeps_the_parameters() -> None:
    kernel = 2.0 * Heat(Sphere(n=4), t=0.3, t_bounds="fixed") + Matern(Sphere())
    copy = clone(kernel)
    assert copy == kernel
    assert copy.k1.k2.space is kernel.k1.k2.space
    np.testing.assert_allclose(copy.theta, np.log([2.0, 1.0]))
    assert copy.bounds.shape == (2, 2)


def test_theta_round_trip() -> None:
    kernel = Heat(Sphere(), t=0.3)
    moved = kernel.clone_with_theta(np.log([0.7]))
    assert moved.t == pytest.approx(0.7)
    assert kernel.t == 0.3
    assert eval(repr(moved)) == moved
