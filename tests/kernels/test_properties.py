"""Laws that hold for all inputs, on inputs made up by hypothesis."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mercer.kernels import ArcCosine, Cosine, Gaussian, Heat, Matern
from mercer.spaces import Simplex, Sphere

settings.register_profile("mercer", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("mercer")

times = st.floats(1e-3, 50)
counts = arrays(
    np.int64, st.tuples(st.integers(1, 12), st.integers(2, 30)), elements=st.integers(0, 50)
).map(lambda X: X + (X.sum(axis=1, keepdims=True) == 0))
directions = arrays(
    float, st.tuples(st.integers(1, 12), st.integers(2, 30)), elements=st.floats(-1e6, 1e6, width=32)
).map(lambda X: X + (np.abs(X).max(axis=1, keepdims=True) < 1e-6))


def assert_kernel_matrix(K: np.ndarray) -> None:
    assert np.isfinite(K).all()
    np.testing.assert_array_equal(K, K.T)
    assert np.linalg.eigvalsh(K).min() > -1e-12 * len(K)
    assert K.max() <= 1 + 1e-14


@given(counts, times)
def test_heat_of_counts(X: np.ndarray, t_star: float) -> None:
    K = Heat(Simplex(), t_star=t_star)(X)
    assert_kernel_matrix(K)
    assert K.min() >= 0
    assert (np.diag(K) == 1).all()


@given(directions, times)
def test_heat_of_directions(X: np.ndarray, t_star: float) -> None:
    K = Heat(Sphere(), t_star=t_star)(X)
    assert_kernel_matrix(K)
    assert K.min() >= 0


@given(directions, st.floats(0.2, 8), st.floats(0.05, 10))
def test_matern(X: np.ndarray, nu: float, length_scale: float) -> None:
    K = (
        Matern(Sphere(), nu, length_scale)(X[:, :6])
        if np.abs(X[:, :6]).max(axis=1).min() > 0
        else np.eye(1)
    )
    assert_kernel_matrix(K)
    assert K.min() >= 0


@given(counts, st.integers(1, 1000))
def test_counts_may_be_scaled_and_columns_permuted(X: np.ndarray, factor: int) -> None:
    kernel = Heat(Simplex(), t_star=0.7)
    order = np.random.default_rng(factor).permutation(X.shape[1])
    np.testing.assert_allclose(kernel(factor * X[:, order]), kernel(X), atol=1e-12)


@given(directions)
def test_rows_may_be_scaled(X: np.ndarray) -> None:
    scales = np.exp2(np.arange(len(X)) % 7 - 3)[:, None]
    for kernel in (Heat(Sphere(), t=0.2), ArcCosine(normalized=True), Cosine()):
        np.testing.assert_allclose(kernel(X * scales), kernel(X), atol=1e-12)


@given(directions, times)
def test_longer_times_mix_more(X: np.ndarray, t_star: float) -> None:
    shorter, longer = (Heat(Sphere(), t_star=f * t_star)(X) for f in (1.0, 1.5))
    assert (longer >= shorter - 1e-13).all()


@pytest.mark.parametrize("n", [2, 3, 10, 1000])
@given(st.floats(-1, 1), st.floats(-1, 1), times)
def test_heat_falls_with_the_angle(n: int, first: float, second: float, t_star: float) -> None:
    tile = np.sort([[first, second]], axis=1)
    Heat(Sphere(), t_star=t_star).profile(n).apply(tile)
    assert tile[0, 0] <= tile[0, 1] + 1e-14


@given(directions, st.floats(1e-3, 1e6))
def test_gaussian_is_translation_invariant(X: np.ndarray, length_scale: float) -> None:
    K = Gaussian(length_scale)(X)
    assert_kernel_matrix(K)
    shift = np.round(np.abs(X).max())
    gap = 1e-13 * (1 + (np.abs(X).max() / length_scale) ** 2)
    np.testing.assert_allclose(Gaussian(length_scale)(X + shift), K, atol=max(1e-10, gap))
