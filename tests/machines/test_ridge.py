"""Kernel ridge regression against dense solves, refits without one row, and its own certificate."""

import warnings

import numpy as np
import pytest
from sklearn import kernel_ridge
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import check_estimator

from mercer.kernels import Gaussian, Heat
from mercer.machines import KernelRidge
from mercer.machines.pivots import pivoted_cholesky
from mercer.machines.points import Points
from mercer.spaces import Sphere


@pytest.mark.parametrize(
    "machine", [KernelRidge(), KernelRidge(Gaussian(), leave_one_out=True)], ids=repr
)
def test_scikit_learn(machine) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(machine, on_skip=None, on_fail=None)
    assert [result for result in results if result["status"] == "failed"] == []


def data(seed: int, outputs: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(int(rng.integers(20, 120)), int(rng.integers(1, 5))))
    Y = np.sin(X[:, :1] * np.arange(1, outputs + 1)) + rng.normal(scale=0.2, size=(len(X), outputs))
    return X, Y[:, 0] if outputs == 1 else Y


@pytest.mark.parametrize("seed", range(100))
def test_predictions_are_as_near_as_the_certificate_says(seed: int) -> None:
    """Half of the problems are solved directly, half by conjugate gradients."""
    X, Y = data(seed, outputs=1 + seed % 3)
    rng = np.random.default_rng(seed)
    alpha, length = 10 ** rng.uniform(-3, 2), 10 ** rng.uniform(-0.5, 0.5)
    weights = rng.uniform(0.5, 2, size=len(X)) if seed % 5 == 0 else None
    memory = 4.0 if seed % 2 else 1e-5
    model = KernelRidge(Gaussian(length), alpha, tol=1e-4, max_memory=memory).fit(X, Y, weights)
    assert model.converged_
    K = rbf_kernel(X, gamma=0.5 / length**2)
    w = np.ones(len(X)) if weights is None else weights
    exact = np.linalg.solve(K + alpha * np.diag(1 / w), Y)
    new = rng.normal(size=(50, X.shape[1]))
    errors = np.abs(model.predict(new) - rbf_kernel(new, X, gamma=0.5 / length**2) @ exact)
    assert errors.max() <= 0.5 * model.residual_ / np.sqrt(alpha) + 1e-9
    assert (
        errors.max() <= 1e-4 * (Y * np.sqrt(w)[:, None] if Y.ndim > 1 else Y * np.sqrt(w)).std() + 1e-9
    )


def test_scikit_learns_coefficients() -> None:
    X, Y = data(3, outputs=2)
    weights = np.random.default_rng(0).uniform(0, 3, size=len(X))
    ours = KernelRidge(Gaussian(), 0.3).fit(X, Y, weights)
    theirs = kernel_ridge.KernelRidge(alpha=0.3, kernel="rbf", gamma=0.5).fit(X, Y, weights)
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-7)
    given = KernelRidge("precomputed", 0.3).fit(rbf_kernel(X, gamma=0.5), Y, weights)
    np.testing.assert_allclose(
        given.predict(rbf_kernel(X[:5], X, gamma=0.5)), ours.predict(X[:5]), atol=1e-7
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_leaving_one_row_out(weighted: bool) -> None:
    X, y = data(7)
    weights = np.random.default_rng(1).uniform(0.5, 2, size=len(X)) if weighted else np.ones(len(X))
    model = KernelRidge(Gaussian(), 0.2, leave_one_out=True).fit(X, y, weights)
    for i in (0, 5, len(X) - 1):
        rest = np.arange(len(X)) != i
        refit = KernelRidge(Gaussian(), 0.2).fit(
            X[rest], y[rest], None if weights is None else weights[rest]
        )
        assert model.loo_residuals_[i] == pytest.approx(y[i] - refit.predict(X[i : i + 1])[0], abs=1e-9)


def test_intervals_are_those_of_refits() -> None:
    X, y = data(11)
    X, y = X[:30], y[:30]
    weights = np.random.default_rng(1).uniform(0.5, 2, size=30)
    model = KernelRidge(Gaussian(), 0.2, leave_one_out=True).fit(X, y, weights)
    new = np.random.default_rng(0).normal(size=(4, X.shape[1]))
    low, high = model.predict_interval(new, level=0.8)
    lows, highs = [], []
    for i in range(30):
        rest = np.arange(30) != i
        refit = KernelRidge(Gaussian(), 0.2).fit(X[rest], y[rest], weights[rest])
        width = abs(y[i] - refit.predict(X[i : i + 1])[0])
        lows.append(refit.predict(new) - width)
        highs.append(refit.predict(new) + width)
    # The 25th of 30, ceil(0.8 * 31), from above and from below.
    np.testing.assert_allclose(low, np.sort(lows, axis=0)[30 - 25], atol=1e-9)
    np.testing.assert_allclose(high, np.sort(highs, axis=0)[25 - 1], atol=1e-9)
    assert np.isinf(model.predict_interval(new, level=0.99)[0]).all()


def test_intervals_cover_what_they_promise() -> None:
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(40):
        X = rng.uniform(-2, 2, size=(140, 1))
        y = np.sin(2 * X[:, 0]) + rng.standard_t(3, size=140) * 0.2
        model = KernelRidge(Gaussian(0.5), 0.3, leave_one_out=True).fit(X[:40], y[:40])
        low, high = model.predict_interval(X[40:], level=0.9)
        covered.append(np.mean((low <= y[40:]) & (y[40:] <= high)))
    assert 0.87 <= np.mean(covered) <= 0.95


def test_path_is_one_fit_for_each_ridge() -> None:
    X, Y = data(13, outputs=2)
    alphas = [1e-2, 1.0, 30.0]
    path = KernelRidge(Gaussian()).path(X, Y, alphas)
    for k, alpha in enumerate(alphas):
        model = KernelRidge(Gaussian(), alpha, leave_one_out=True).fit(X, Y)
        np.testing.assert_allclose(path.dual_coef[k], model.dual_coef_, atol=1e-8)
        np.testing.assert_allclose(path.loo_residuals[k], model.loo_residuals_, atol=1e-8)
    means = (path.loo_residuals**2).mean(axis=(1, 2))
    assert path.best == alphas[int(np.argmin(means))]


def test_random_pivots_reproduce_a_matrix_of_low_rank() -> None:
    X = np.random.default_rng(0).normal(size=(300, 4))
    points = Points(lambda A, B: A @ B.T, X)
    F = pivoted_cholesky(points, (X**2).sum(axis=1), 50, np.random.default_rng(1))
    assert F.shape[1] == 4
    np.testing.assert_allclose(F @ F.T, X @ X.T, atol=1e-9)


def test_few_iterations_end_in_a_warning_with_the_certificate() -> None:
    X = np.random.default_rng(0).normal(size=(400, 3))
    with pytest.warns(
        ConvergenceWarning, match=r"after 1 iterations: predictions are within .* of the exact"
    ):
        model = KernelRidge(Gaussian(0.5), 1e-6, max_memory=1e-4, max_iter=1).fit(X, X[:, 0])
    assert not model.converged_


def test_points_of_other_spaces() -> None:
    X = np.random.default_rng(0).normal(size=(200, 3))
    model = KernelRidge(Heat(Sphere()), 1e-3, scale=0.5).fit(X, X[:, 0] / np.linalg.norm(X, axis=1))
    assert model.score(X, X[:, 0] / np.linalg.norm(X, axis=1)) > 0.99


def test_what_is_refused() -> None:
    X, y = data(1)
    with pytest.raises(ValueError, match="alpha of KernelRidge must be a positive number"):
        KernelRidge(alpha=0.0).fit(X, y)
    with pytest.raises(ValueError, match="needs leave_one_out=True"):
        KernelRidge().fit(X, y).predict_interval(X)
    with pytest.raises(ValueError, match="not positive definite"):
        KernelRidge("precomputed", 0.1).fit(-rbf_kernel(X), y)
    with pytest.raises(MemoryError, match="leave_one_out needs a factorisation"):
        KernelRidge(leave_one_out=True, max_memory=1e-6).fit(X, y)
    with pytest.raises(ValueError, match="alphas must be positive"):
        KernelRidge().path(X, y, [0.0, 1.0])
