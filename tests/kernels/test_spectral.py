"""Kernels with user-defined weights on the spectrum."""

import numpy as np
import pytest

from mercer.kernels import Cosine, Spectral
from mercer.spaces import Sphere

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


def test_cached_profiles_of_equal_bytes() -> None:
    np.testing.assert_array_equal(Spectral(Sphere(), [1.0])(X), np.ones((30, 30)))
    cosine = Spectral(Sphere(), np.float32([0, 1.875]))(X)
    np.testing.assert_allclose(cosine, Cosine()(X), atol=1e-14)
