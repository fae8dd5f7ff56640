"""Rows of the sphere that are close or nearly opposite: products would round their angles away."""

import mpmath as mp
import numpy as np
import pytest
from scipy import sparse

from mercer.kernels import ArcCosine, Heat, Kernel, Matern
from mercer.spaces import Simplex, Sphere

ANGLES = (1e-7, 3e-6, 1e-4)


def neighbours(n: int, angle: float, dtype: type = np.float64) -> tuple[np.ndarray, np.ndarray, float]:
    """Two sets of rows, the first of both at an angle, and what it is after rounding."""
    rng = np.random.default_rng(n)
    X, Y = rng.normal(size=(40, n)), rng.normal(size=(1000, n))
    across = Y[0] - (Y[0] @ X[0]) / (X[0] @ X[0]) * X[0]
    across *= np.linalg.norm(X[0]) / np.linalg.norm(across)
    Y[0] = 7.0 * (np.cos(angle) * X[0] + np.sin(angle) * across)
    X, Y = X.astype(dtype), Y.astype(dtype)
    with mp.workdps(50):
        x, y = (mp.matrix(row[0].astype(float).tolist()) for row in (X, Y))
        x, y = x / mp.norm(x), y / mp.norm(y)
        return X, Y, float(2 * mp.asin(mp.norm(x - y) / 2))


def short_heat(angle: float) -> Heat:
    return Heat(Sphere(), t=angle**2)


@pytest.mark.parametrize("n", [3, 20, 200])
@pytest.mark.parametrize("angle", ANGLES)
def test_heat_after_a_short_time(n: int, angle: float) -> None:
    X, Y, true = neighbours(n, angle)
    kernel, expected = short_heat(angle), np.exp(-(true**2) / (4 * angle**2))
    # The kernel of flat space, but for the curvature.
    tolerance = n * angle**2 + 1e-15 / angle
    assert abs(kernel(X[:1], Y[:1])[0, 0] - expected) < tolerance
    K = kernel(X, Y)
    assert abs(K[0, 0] - expected) < tolerance
    assert np.delete(K.ravel(), 0).max() < 1e-100
    assert abs(kernel(np.concatenate([Y, X]))[1000, 0] - expected) < tolerance
    assert abs(kernel.matvec(X, Y, np.eye(1000, 1))[0, 0] - expected) < tolerance


@pytest.mark.parametrize("n", [3, 20, 200])
@pytest.mark.parametrize("angle", ANGLES)
def test_cusps_at_equal_and_at_opposite_rows(n: int, angle: float) -> None:
    X, Y, true = neighbours(n, angle)
    np.testing.assert_allclose(ArcCosine(0)(X, Y)[0, 0], 1.0 - true / np.pi, rtol=0, atol=4e-15)
    np.testing.assert_allclose(ArcCosine(0)(X, -Y)[0, 0], true / np.pi, rtol=0, atol=4e-15)


@pytest.mark.parametrize("rows", [sparse.csr_matrix, np.asarray])
@pytest.mark.parametrize("others", [sparse.csr_matrix, np.asarray])
@pytest.mark.parametrize("kernel", [ArcCosine(0), short_heat(1e-6)])
def test_sparse_rows_alike(rows, others, kernel: Kernel) -> None:
    X, Y, _ = neighbours(30, 1e-6)
    np.testing.assert_allclose(kernel(rows(X), others(Y)), kernel(X, Y), rtol=1e-9, atol=1e-13)


def test_single_precision() -> None:
    X, Y, true = neighbours(20, 3e-3, np.float32)
    assert abs(short_heat(3e-3)(X, Y)[0, 0] - np.exp(-(true**2) / (4 * 3e-3**2))) < 2e-4
    np.testing.assert_allclose(ArcCosine(0)(X, -Y)[0, 0], true / np.pi, rtol=1e-4)


def test_counts() -> None:
    counts = np.random.default_rng(0).integers(1, 100, (50, 30)).astype(float)
    near = counts * (1 + 1e-6 * np.random.default_rng(1).normal(size=counts.shape))
    roots, others = (np.sqrt(Z.astype(np.longdouble)) for Z in (counts, near))
    roots, others = (Z / np.sqrt((Z * Z).sum(axis=1, keepdims=True)) for Z in (roots, others))
    angles = 2 * np.arcsin(np.sqrt(((roots - others) ** 2).sum(axis=1)) / 2).astype(float)
    scale = angles.mean()
    assert scale < 1e-5
    kernel = Heat(Simplex(), t=scale**2)
    np.testing.assert_allclose(
        np.diag(kernel(counts, near)), np.exp(-(angles**2) / (4 * scale**2)), atol=1e-7
    )


@pytest.mark.parametrize("kernel", [ArcCosine(0), Matern(Sphere(), nu=0.5), Heat(Sphere(), t=1e-4)])
def test_equal_rows_stay_exact(kernel: Kernel) -> None:
    X = np.random.default_rng(0).normal(size=(300, 5))
    K = kernel(X, np.concatenate([X, 3.0 * X[:7]]))
    np.testing.assert_array_equal(np.diag(K), 1.0)
    np.testing.assert_allclose(np.diag(K[:, 300:]), 1.0, atol=1e-7)
    np.testing.assert_array_equal(kernel(X), kernel(X).T)


@pytest.mark.parametrize("kernel", [Heat(Sphere()), Matern(Sphere(), nu=2.5), Heat(Simplex())])
@pytest.mark.parametrize("dtype", [np.dtype(np.float32), np.dtype(np.float64)])
def test_smooth_laws_need_no_second_look(kernel: Kernel, dtype: np.dtype) -> None:
    assert kernel.profile(20).steep_ends(dtype) == []
