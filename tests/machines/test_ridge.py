"""Kernel ridge regression against dense solves, refits without one row, and its own certificate."""

import re
import warnings

import numpy as np
import pytest
from sklearn import kernel_ridge
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import check_estimator

from mercer.exceptions import IndefiniteKernelWarning
from mercer.kernels import Gaussian, Heat
from mercer.machines import KernelRidge, ridge
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


def hard_problem(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Duplicates, weights of zero and huge ones, targets of any size, one to three outputs."""
    X, Y = data(seed, outputs=1 + seed % 3)
    rng = np.random.default_rng(seed)
    if seed % 4 == 0:
        X = X[rng.integers(0, len(X) // 3, size=len(X))]
    weights = rng.choice([0.0, 1e-3, 1.0, 1e3], size=len(X)) if seed % 5 == 0 else np.ones(len(X))
    return X, Y * 10 ** rng.uniform(-3, 3), weights


def exact_solution(K: np.ndarray, Y: np.ndarray, weights: np.ndarray, alpha: float) -> np.ndarray:
    """Coefficients, refined in extended precision."""
    roots = np.sqrt(weights).astype(np.longdouble)
    A = roots[:, None] * K.astype(np.longdouble) * roots + alpha * np.eye(len(K))
    right = roots[:, None] * Y.reshape(len(Y), -1)
    c = np.zeros_like(right)
    for _ in range(6):
        c += np.linalg.solve(A.astype(float), (right - A @ c).astype(float))
    return (roots[:, None] * c).reshape(Y.shape)


@pytest.mark.parametrize("seed", range(100))
def test_predictions_are_as_near_as_the_certificate_says(seed: int) -> None:
    """Half of the problems are solved directly, half by conjugate gradients."""
    X, Y, weights = hard_problem(seed)
    rng = np.random.default_rng(seed)
    alpha, length = 10 ** rng.uniform(-6, 3), 10 ** rng.uniform(-0.5, 0.5)
    memory = 4.0 if seed % 2 else 1e-5
    model = KernelRidge(Gaussian(length), alpha, tol=1e-4, max_memory=memory).fit(X, Y, weights)
    assert model.converged_
    K = rbf_kernel(X, gamma=0.5 / length**2)
    exact = exact_solution(K, Y, weights, alpha)
    stated = float(re.fullmatch("predictions are within (.*) of the exact ones", model.certificate_)[1])
    new = np.vstack([X, rng.normal(size=(50, X.shape[1]))])
    errors = np.abs(model.predict(new) - rbf_kernel(new, X, gamma=0.5 / length**2) @ exact)
    assert errors.max() <= stated
    assert 0.5 * model.residual_ / np.sqrt(alpha) <= stated
    allowed = 1e-4 * (Y * np.sqrt(weights.reshape(-1, *[1] * (Y.ndim - 1)))).std(axis=0)
    assert (errors.max(axis=0) <= allowed * (1 + 1e-6)).all()


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
    weights[5] = 0.0 if weighted else 1.0
    model = KernelRidge(Gaussian(), 0.2, leave_one_out=True).fit(X, y, weights)
    path = KernelRidge(Gaussian()).path(X, y, [0.2], weights)
    for i in (0, 5, len(X) - 1):
        rest = np.arange(len(X)) != i
        refit = KernelRidge(Gaussian(), 0.2).fit(X[rest], y[rest], weights[rest])
        without = refit.predict(X[i : i + 1])[0]
        assert model.loo_predictions_[i] == pytest.approx(without, abs=1e-9)
        assert model.loo_residuals_[i] == pytest.approx(y[i] - without, abs=1e-9)
        assert path.loo_residuals[0, i] == pytest.approx(y[i] - without, abs=1e-9)


def test_intervals_are_those_of_refits(monkeypatch) -> None:
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
    monkeypatch.setattr(ridge, "BLOCK", 60)  # two points at a time
    np.testing.assert_allclose(model.predict_interval(new, level=0.8), (low, high))


def test_levels_that_are_whole_numbers_of_rows() -> None:
    """0.7 times 10 is 7 but for rounding: the 7th of 9 rows, not the 8th."""
    X = np.arange(9.0)[:, None]
    model = KernelRidge(Gaussian(), 0.2, leave_one_out=True).fit(X, np.sin(5 * X[:, 0]))
    assert 0.7 * 10 > 6.999
    low, _ = model.predict_interval(X[:1], level=0.7)
    assert low == model.predict_interval(X[:1], level=0.7 - 1e-12)[0]
    assert low > model.predict_interval(X[:1], level=0.7 + 1e-6)[0]


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


def test_the_best_ridge_counts_rows_by_their_weights() -> None:
    X, y = data(17)
    repeats = np.random.default_rng(0).integers(0, 3, size=len(X))
    y = np.where(repeats > 0, y, 1e3)
    path = KernelRidge(Gaussian()).path(X, y, [1e-3, 1e-1, 1e1], repeats)
    squares = repeats @ path.loo_residuals.T**2
    assert path.best == path.alphas[np.argmin(squares)]


def test_random_pivots_reproduce_a_matrix_of_low_rank() -> None:
    X = np.random.default_rng(0).normal(size=(300, 4))
    points = Points(lambda A, B: A @ B.T, X)
    F, pivots = pivoted_cholesky(points, (X**2).sum(axis=1), 50, np.random.default_rng(1))
    assert F.shape[1] == 4
    np.testing.assert_allclose(np.triu(F[pivots], 1), 0.0, atol=1e-12)
    np.testing.assert_allclose(F @ F.T, X @ X.T, atol=1e-9)
    np.testing.assert_allclose(F[pivots], np.tril(F[pivots]), atol=1e-12)


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
    with pytest.raises(ValueError, match="needs a fit with leave_one_out=True"):
        KernelRidge().fit(X, y).predict_interval(X)
    with pytest.raises(ValueError, match="not positive definite"):
        KernelRidge("precomputed", 0.1).fit(-rbf_kernel(X), y)
    with pytest.raises(MemoryError, match="leave_one_out needs a factorisation"):
        KernelRidge(leave_one_out=True, max_memory=1e-6).fit(X, y)
    with pytest.raises(ValueError, match="alphas must be positive"):
        KernelRidge().path(X, y, [0.0, 1.0])
    with pytest.raises(ValueError, match="alphas must be positive"):
        KernelRidge().path(X, y, [])
    with pytest.raises(ValueError, match=r"plus alpha=0\.1 is not positive definite"):
        KernelRidge("precomputed").path(-rbf_kernel(X), y, [100.0, 0.1])
    with pytest.raises(MemoryError, match="path needs a factorisation"):
        KernelRidge(max_memory=1e-6).path(X, y, [1.0])


def test_an_indefinite_matrix_has_no_certificate() -> None:
    X, y = data(1)

    def kernel(A, B=None):
        return np.tanh(A @ (A if B is None else B).T - 0.5)

    for memory in (4.0, 1e-5):
        with pytest.raises(ValueError, match="not positive definite"):
            KernelRidge(kernel, 1e-3, max_memory=memory).fit(X, y)
        with pytest.warns(IndefiniteKernelWarning, match="no residual certifies predictions"):
            model = KernelRidge(kernel, 100.0, max_memory=memory).fit(X, y)
        assert model.certificate_.startswith("none")
        np.testing.assert_allclose(
            model.dual_coef_, np.linalg.solve(kernel(X) + 100 * np.eye(len(X)), y), atol=1e-5
        )


def test_nothing_of_an_earlier_fit_is_left() -> None:
    X, y = data(1)
    model = KernelRidge(leave_one_out=True).fit(X, y).set_params(leave_one_out=False).fit(X, y)
    assert not hasattr(model, "loo_residuals_")
    with pytest.raises(ValueError, match="needs a fit with leave_one_out=True"):
        model.set_params(leave_one_out=True).predict_interval(X)


def test_the_matrix_of_the_caller_is_left_alone() -> None:
    X, y = data(1)
    K = rbf_kernel(X)
    before = K.copy()
    KernelRidge("precomputed", leave_one_out=True).fit(K, y)
    KernelRidge(lambda A, B=None: K if B is None else rbf_kernel(A, B), leave_one_out=True).fit(X, y)
    np.testing.assert_array_equal(K, before)
