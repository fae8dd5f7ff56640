"""The evidence from products alone, against dense matrices."""

import importlib
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from mercer.kernels import Gaussian, Heat, MultipleKernel, On, Parametrix, Polynomial, Spectrum
from mercer.machines import evidence, log_evidence, predictive_std
from mercer.spaces import Sphere


def dense(kernel, X, y, alpha) -> tuple[float, np.ndarray]:
    K, gradient = kernel(X, eval_gradient=True)
    A = K + alpha * np.eye(len(y))
    a, inverse = np.linalg.solve(A, y), np.linalg.inv(A)
    value = -0.5 * (y @ a + np.linalg.slogdet(A)[1] + len(y) * np.log(2 * np.pi))
    slopes = [alpha * np.eye(len(y)), *np.moveaxis(gradient, 2, 0)]
    return value, np.array([0.5 * (a @ S @ a - np.sum(inverse * S)) for S in slopes])


@pytest.mark.parametrize("rank", [30, 500])
@pytest.mark.parametrize("kernel", [Gaussian(0.7), Heat(Sphere(), t=0.2)], ids=["flat", "sphere"])
def test_evidence_and_gradient_are_those_of_dense_matrices(kernel, rank, monkeypatch) -> None:
    monkeypatch.setattr(evidence, "_RANK", rank)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 3))
    y = np.sin(2 * X[:, 0]) + rng.normal(scale=0.3, size=800)
    value, gradient = dense(kernel, X, y, 0.1)
    found = log_evidence(kernel, X, y, 0.1)
    assert abs(found.value - value) <= 4 * found.standard_error + 1e-6 * abs(value)
    assert found.standard_error < 0.02 * abs(value)
    assert found.gradient.shape == gradient.shape == (2,)
    assert (
        np.abs(found.gradient - gradient) <= 4 * found.gradient_errors + 1e-5 * np.abs(gradient)
    ).all()
    if rank == 500:
        assert found.standard_error < 1e-3 * abs(value)


@pytest.mark.parametrize("alpha", [0.1, 1.0])
def test_deviations_are_those_of_dense_matrices(alpha: float, monkeypatch) -> None:
    monkeypatch.setattr(evidence, "_RANK", 50)
    rng = np.random.default_rng(1)
    X, new, kernel = rng.normal(size=(1000, 3)), rng.normal(size=(270, 3)), 2.0 * Gaussian(1.0)
    K = kernel(new, X)
    solved = np.linalg.solve(kernel(X) + alpha * np.eye(1000), K.T)
    exact = kernel.diag(new) - (K * solved.T).sum(axis=1)
    found = predictive_std(kernel, X, new, alpha, tol=1e-6) ** 2
    assert (found - exact > -1e-9).all()
    assert (found - exact < 2.1e-6).all()
    words = ["".join(rng.choice(list("ab"), size=5)) for _ in range(40)]
    assert predictive_std(Spectrum(2), words, words[:3], alpha).shape == (3,)


def test_bad_input_is_named() -> None:
    X, y = np.eye(3), np.ones(3)
    for arguments, message in (
        ((Gaussian(), X, y, 0.0), "alpha must be a positive number"),
        ((Gaussian(), X, np.ones((3, 2)), 1.0), "one target for each point"),
        ((Gaussian(), X, y[:2], 1.0), "X has 3 points"),
        ((Gaussian(), X, y, "auto"), "alpha must be a positive number, got 'auto'"),
        ((Gaussian(), X, y, np.ones(3)), "alpha must be a positive number"),
        ((Gaussian(), X[:0], y[:0], 1.0), "X holds no points"),
        ((Parametrix(Sphere(), t=1.0), X, y, 1.0), "not positive semidefinite, so no process has it"),
        ((Gaussian(), X, np.array([1.0, -1e160, 2.0]), 1.0), "row 1 of y is -1e\\+160; rescale y"),
    ):
        with pytest.raises(ValueError, match=message):
            log_evidence(*arguments)
    with pytest.raises(TypeError, match="kernel must be one of"):
        log_evidence("rbf", X, y, 1.0)
    with pytest.raises(ValueError, match="n_probes must be a whole number of at least 2"):
        log_evidence(Gaussian(), X, y, 1.0, n_probes=1)


def test_kernels_learn_as_in_machines() -> None:
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"ph": rng.normal(size=40), "depth": 100 * rng.normal(size=40)})
    y, kernel = X["ph"].to_numpy(), On(["ph", "depth"], Gaussian(2.0))
    learnt = kernel.learnt_from(X, y)
    K = learnt(X)
    assert np.ptp(kernel(X) - K) > 0.1
    A = K + 0.1 * np.eye(40)
    value = -0.5 * (y @ np.linalg.solve(A, y) + np.linalg.slogdet(A)[1] + 40 * np.log(2 * np.pi))
    assert log_evidence(kernel, X, y, 0.1).value == pytest.approx(value, rel=1e-6)
    variances = K.diagonal()[:5] - np.einsum("ij,ij->j", K[:, :5], np.linalg.solve(A, K[:, :5]))
    assert predictive_std(kernel, X, X[:5], 0.1) == pytest.approx(np.sqrt(variances), rel=1e-4)
    both = MultipleKernel([On("ph", Gaussian()), On("depth", Gaussian())])
    assert np.isfinite(log_evidence(both, X, y, 0.1).gradient).all()


def test_a_zero_gram_matrix_leaves_white_noise() -> None:
    y, zeros, kernel = np.array([1.0, 2.0, -1.0]), np.zeros((3, 3)), Polynomial(1, coef0=0.0)
    found = log_evidence(kernel, zeros, y, 0.1)
    assert found.value == pytest.approx(-0.5 * (y @ y / 0.1 + 3 * np.log(0.2 * np.pi)))
    assert found.gradient[0] == pytest.approx(0.5 * (y @ y / 0.1 - 3))
    assert (predictive_std(kernel, zeros, zeros, 0.1) == 0).all()
    large = log_evidence(kernel, zeros, 1e155 * y, 1e30)
    assert large.value == pytest.approx(-3e280)


def test_systems_that_are_not_solved_are_told(monkeypatch) -> None:
    monkeypatch.setattr(evidence, "_RANK", 2)
    monkeypatch.setattr(evidence, "_ITERATIONS", 3)
    X = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.warns(ConvergenceWarning, match="after 3 iterations with a relative residual of"):
        log_evidence(Gaussian(0.5), X, X[:, 0], 1e-6)
    with pytest.warns(ConvergenceWarning, match=r"after 3 iterations: .* too large by \S+ of") as told:
        found = predictive_std(Gaussian(0.5), X, X[:5] + 0.1, 1e-6)
    stated = float(re.search(r"by (\S+) of", str(told[0].message))[1])
    K = Gaussian(0.5)(X[:5] + 0.1, X)
    solved = np.linalg.solve(Gaussian(0.5)(X) + 1e-6 * np.eye(60), K.T)
    assert 1e-6 < (found**2 - 1 + (K * solved.T).sum(axis=1)).max() < 2 * stated


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_single_precision_is_that_of_the_rows_alone(library: str) -> None:
    kind, rng = importlib.import_module(library).asarray, np.random.default_rng(4)
    X, y = rng.normal(size=(150, 3)).astype(np.float32), rng.normal(size=150)
    rows, new = kind(X), kind(X[:5] + np.float32(0.1))
    expected = log_evidence(Gaussian(), X.astype(float), y, 0.1)
    found = log_evidence(Gaussian(), rows, y, 0.1)
    assert abs(found.value - expected.value) < 1e-8 * abs(expected.value)
    np.testing.assert_allclose(found.gradient, expected.gradient, rtol=1e-6)
    expected = predictive_std(Gaussian(), X.astype(float), np.asarray(new, dtype=float), 0.1)
    np.testing.assert_allclose(predictive_std(Gaussian(), rows, new, 0.1), expected, rtol=1e-8)
