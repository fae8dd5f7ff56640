"""The harmonics of the textbooks: where they hold, and where sums of powers do not."""

import math

import numpy as np
import pytest

from mercer.harmonics import SphericalHarmonics, multiplicity
from mercer.spaces import Sphere
from mercer.special.dai_xu import dai_xu


def points(n):
    X = np.random.default_rng(0).normal(size=(40, n))
    X[0], X[1] = np.eye(n)[-1], np.eye(n)[0]
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def addition_error(values, X, level):
    """Largest error of the addition theorem, in units of the root mean square of P_l."""
    n, size = X.shape[1], values.shape[1]
    zonal = Sphere(n).series(np.eye(level + 1)[level], np.clip(X @ X.T, -1, 1))
    return np.abs(values @ values.T / size - zonal).max() * math.sqrt(size)


@pytest.mark.parametrize(("n", "level"), [(2, 9), (3, 20), (5, 8), (10, 5), (12, 4), (30, 3), (60, 2)])
def test_the_textbook_holds_in_every_dimension(n, level):
    X = points(n)
    values = dai_xu(X, level)
    assert values.shape == (40, multiplicity(n, level))
    assert addition_error(values, X, level) < 5e-12
    assert addition_error(dai_xu(X, level, powers=True), X, level) < 1e-8
    assert addition_error(SphericalHarmonics(n, [level])(X), X, level) < 5e-12


def test_powers_fail_at_high_degrees_in_low_dimension():
    X = points(3)
    assert addition_error(dai_xu(X, 40, powers=True), X, 40) > 0.01
    assert addition_error(dai_xu(X, 40), X, 40) < 1e-11
    # Single precision has lost everything at level 20.
    single = X.astype(np.float32)
    assert addition_error(dai_xu(single, 20, powers=True).astype(float), X, 20) > 0.1
    assert addition_error(dai_xu(single, 20).astype(float), X, 20) < 1e-3
