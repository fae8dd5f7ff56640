"""Kernels with user-defined weights on the spectrum."""

import numpy as np
import pytest

from mercer.kernels import Cosine, Matern, Spectral
from mercer.spaces import Simplex, Sphere

X = np.random.default_rng(0).normal(size=(30, 4))


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


@pytest.mark.parametrize("space", [Sphere(), Simplex()], ids=repr)
def test_smoothness_below_rounding_errors_is_refused(space) -> None:
    assert Matern(space, nu=1e-5)(abs(X)).max() == 1
    for nu in (1e-6, 1e-20, 1e-300):
        with pytest.raises(ValueError, match=f"nu of Matern on .* must be at least 1e-05, got {nu}"):
            Matern(space, nu=nu)(abs(X))


def test_cached_profiles_of_equal_bytes() -> None:
    np.testing.assert_array_equal(Spectral(Sphere(), [1.0])(X), np.ones((30, 30)))
    cosine = Spectral(Sphere(), np.float32([0, 1.875]))(X)
    np.testing.assert_allclose(cosine, Cosine()(X), atol=1e-14)
