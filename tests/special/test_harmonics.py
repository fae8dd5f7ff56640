"""Spherical harmonics against quadrature, the addition theorem and each other."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.linalg import lstsq
from scipy.special import roots_gegenbauer, sph_harm_y

from mercer.features import SpectralFeatures
from mercer.harmonics import SphericalHarmonics, multiplicity
from mercer.kernels import ArcCosine, Gaussian, Heat, Matern, Spectrum
from mercer.spaces import Simplex, Sphere

#: dimension, number of levels: at least 1000 functions each, and level 60 in dimension 3
SIZES = [(2, 12), (3, 61), (4, 15), (5, 10), (8, 6), (10, 6), (15, 5), (30, 4), (50, 3)]


def points(n: int, m: int = 150, seed: int = 0) -> np.ndarray:
    """Unit vectors, among them poles, equal coordinates, zeros and repeated rows."""
    X = np.random.default_rng(seed).normal(size=(m, n))
    X[: min(n, 6)] = np.eye(n)[: min(n, 6)]
    X[6] = -np.eye(n)[-1]
    X[7], X[8] = 1.0, X[9]
    X[10, : n // 2] = 0.0
    X[11] = np.eye(n)[-1] + 1e-9 * X[12]
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def zonal(n: int, level: int, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """``N_l P_l(x.y)`` by its own recurrence."""
    w = np.clip(X @ Y.T, -1, 1)
    return multiplicity(n, level) * Sphere(n).series(np.eye(level + 1)[level], w)


@pytest.mark.parametrize(("n", "levels"), SIZES)
def test_addition_theorem(n: int, levels: int) -> None:
    harmonics = SphericalHarmonics(n, levels)
    assert n == 2 or harmonics.n_features >= 1000
    X, Y = points(n), points(n, 60, seed=1)
    F, G = harmonics(X), harmonics(Y)
    assert F.shape == (150, sum(multiplicity(n, level) for level in range(levels)))
    for level in range(levels):
        columns = harmonics.feature_levels == level
        assert columns.sum() == multiplicity(n, level)
        np.testing.assert_allclose(F[:, columns] @ G[:, columns].T, zonal(n, level, X, Y), atol=1e-10)


def product_rule(n: int, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights that integrate polynomials of a degree over the sphere exactly."""
    angles = 2 * np.pi * (np.arange(degree + 1) + 0.3) / (degree + 1)
    X, weights = np.column_stack([np.cos(angles), np.sin(angles)]), np.full(angles.size, 1 / angles.size)
    for k in range(3, n + 1):
        t, w = roots_gegenbauer(degree // 2 + 1, (k - 2) / 2)
        lower = np.sqrt(1 - t**2)
        X = np.concatenate(
            [np.column_stack([s * X, np.full(len(X), c)]) for s, c in zip(lower, t, strict=True)]
        )
        weights = np.concatenate([weights * p for p in w / w.sum()])
    return X, weights


@pytest.mark.parametrize(("n", "levels"), [(2, 30), (3, 33), (4, 15), (5, 8), (6, 5), (8, 3)])
def test_orthonormal_by_exact_quadrature(n: int, levels: int) -> None:
    X, weights = product_rule(n, 2 * (levels - 1))
    F = SphericalHarmonics(n, levels)(X)
    np.testing.assert_allclose((F * weights[:, None]).T @ F, np.eye(F.shape[1]), atol=1e-10)


def test_orthonormal_at_high_levels() -> None:
    X, weights = product_rule(3, 120)
    F = SphericalHarmonics(3, (30, 59, 60))(X)
    np.testing.assert_allclose((F * weights[:, None]).T @ F, np.eye(F.shape[1]), atol=1e-10)


@pytest.mark.parametrize(("n", "level"), [(8, 3), (15, 2), (30, 2), (50, 1)])
def test_orthonormal_in_high_dimension(n: int, level: int) -> None:
    # N_l functions whose products add up to the reproducing kernel of the N_l-dimensional space of the
    # level are an orthonormal basis of it if they lie in it.  They do: their values elsewhere are those
    # that the space's own kernel interpolates from enough points.
    count = multiplicity(n, level)
    X, Y = points(n, count + count // 4 + 30), points(n, 30, seed=1)
    harmonics = SphericalHarmonics(n, (level,))
    F, G = harmonics(X), harmonics(Y)
    assert F.shape[1] == count
    interpolated = (
        zonal(n, level, Y, X) @ lstsq(zonal(n, level, X, X), F, cond=1e-12, lapack_driver="gelsy")[0]
    )
    np.testing.assert_allclose(interpolated, G, atol=1e-10 * np.sqrt(count))
    np.testing.assert_allclose(F @ F.T, zonal(n, level, X, X), atol=1e-10)


def test_dimension_three_spans_what_scipy_has() -> None:
    X = points(3)
    theta, phi = np.arctan2(np.hypot(X[:, 0], X[:, 1]), X[:, 2]), np.arctan2(X[:, 1], X[:, 0])
    ours = SphericalHarmonics(3, (7,))(X)
    m = np.arange(-7, 8)
    theirs = sph_harm_y(7, m[:, None], theta, phi) * np.sqrt(4 * np.pi)
    np.testing.assert_allclose(ours @ ours.T, (theirs.T @ theirs.conj()).real, atol=1e-11)


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 12), st.integers(0, 5), st.integers(0, 2**31), st.floats(1e-9, 1e9))
def test_rotations_reflections_and_lengths(n: int, level: int, seed: int, length: float) -> None:
    rng = np.random.default_rng(seed)
    harmonics = SphericalHarmonics(n, (level,), max_features=300)
    X = rng.normal(size=(4, n))
    rotation = np.linalg.qr(rng.normal(size=(n, n)))[0]
    F, R = harmonics(X), harmonics(X @ rotation)
    if harmonics.counts[0] == multiplicity(n, level):
        scale = multiplicity(n, level)
        np.testing.assert_allclose(F @ F.T, R @ R.T, atol=1e-12 * scale)
        np.testing.assert_allclose((F**2).sum(axis=1), scale, rtol=1e-12)
    np.testing.assert_allclose(harmonics(-X), (-1) ** level * F, atol=1e-12)
    np.testing.assert_allclose(harmonics(length * X), F, atol=1e-9)


def test_levels_may_have_gaps() -> None:
    X = points(6)
    some, all_of_them = SphericalHarmonics(6, (0, 2, 3, 5)), SphericalHarmonics(6, 6)
    keep = np.isin(all_of_them.feature_levels, [0, 2, 3, 5])
    np.testing.assert_array_equal(some(X), all_of_them(X)[:, keep])


@pytest.mark.parametrize(("n", "budget"), [(3, 7), (9, 500), (50, 500), (400, 150), (12, 90), (2, 4)])
def test_budget_is_kept_and_functions_stay_orthonormal(n: int, budget: int) -> None:
    harmonics = SphericalHarmonics(n, max_features=budget)
    assert harmonics.n_features == budget == sum(harmonics.counts)
    level, share = harmonics.level_numbers[-1], harmonics.shares[-1]
    assert 0 < share <= 1
    assert (harmonics.shares[:-1] == 1).all()
    part = harmonics._zonal
    if part is not None:
        # Inner products of zonal functions are zonal functions: <P_l(v.), P_l(w.)> = P_l(v.w) / N_l.
        gram = zonal(n, level, part.directions, part.directions) / multiplicity(n, level) ** 2
        np.testing.assert_allclose(
            part.mix @ gram @ part.mix.T, np.eye(harmonics.counts[-1]), atol=1e-10
        )
        X = points(n)
        expected = part.polynomial(X @ part.directions.T) @ part.mix.T
        np.testing.assert_allclose(
            harmonics(X)[:, harmonics.feature_levels == level], expected, atol=1e-10
        )


def test_part_of_a_level_stays_below_it_and_is_unbiased() -> None:
    n, level, B = 6, 3, 12
    X = points(n, 20)
    whole = zonal(n, level, X, X)
    total = np.zeros_like(whole)
    repeats = 100
    for seed in range(repeats):
        harmonics = SphericalHarmonics(n, (level,), max_features=B, random_state=seed)
        F = harmonics(X)
        if seed < 5:
            assert np.linalg.eigvalsh(whole - F @ F.T).min() > -1e-9
        total += F @ F.T / harmonics.shares[0]
    # The mean of 100 draws has a standard error of about 4 % of N_l.
    assert np.abs(total / repeats - whole).max() < 0.18 * multiplicity(n, level)
    assert np.abs(total / repeats - whole).mean() < 0.05 * multiplicity(n, level)


def test_arrays_of_other_kinds() -> None:
    X = points(7)
    for harmonics in (SphericalHarmonics(7, 4), SphericalHarmonics(7, max_features=60)):
        F = harmonics(X)
        single = harmonics(X.astype(np.float32))
        assert single.dtype == np.float32
        np.testing.assert_allclose(single, F, atol=3e-5)
        np.testing.assert_allclose(harmonics(sparse.csr_matrix(X)), F, atol=1e-12)
        tensor = harmonics(torch.tensor(X))
        np.testing.assert_allclose(tensor.numpy(), F, atol=1e-12)
        assert harmonics(torch.tensor(X, dtype=torch.float32)).dtype == torch.float32
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(harmonics))(X), F)
        assert eval(repr(harmonics)) == harmonics


@pytest.mark.parametrize("options", [{"levels": 4}, {"max_features": 17}, {"levels": (0, 1, 2, 4)}])
def test_torch_gradients(options: dict) -> None:
    X = torch.tensor(points(4, 13)[[0, 3, 6, 7, 11]], requires_grad=True)
    assert torch.autograd.gradcheck(SphericalHarmonics(4, **options), X)


def test_one_row_and_many_threads() -> None:
    X = points(5, 3000)
    harmonics = SphericalHarmonics(5, 4)
    F = harmonics(X)
    np.testing.assert_array_equal(harmonics(X[:1]), F[:1])
    np.testing.assert_array_equal(harmonics(X[1500:]), F[1500:])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, 3), "n must be"),
        ((3, 0), "levels must be"),
        ((3, (0, 0)), "levels must be"),
        ((3, "ab"), "levels must be"),
        ((3, 2.5), "levels must be"),
        ((3, True), "levels must be"),
        ((3, None), "give levels"),
        ((3, 2, 0), "max_features"),
        ((50, 8), "give fewer levels"),
    ],
)
def test_bad_arguments(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SphericalHarmonics(*arguments)


def test_bad_rows() -> None:
    with pytest.raises(ValueError, match="row 1 of X is all zeros"):
        SphericalHarmonics(3, 2)([[1, 0, 0], [0, 0, 0]])
    with pytest.raises(ValueError, match="4 columns"):
        SphericalHarmonics(3, 2)(np.ones((2, 4)))
    with pytest.raises(ValueError, match="row 0 of X contains NaN"):
        SphericalHarmonics(3, 2)([[1, np.nan, 0]])


FEATURE_KERNELS = [
    Heat(Sphere(), t=0.4),
    Heat(Simplex(), t=0.4, normalized=False),
    Matern(Sphere(), nu=4.0, length_scale=1.0),
    ArcCosine(),
    ArcCosine(order=2, normalized=True),
]


@pytest.mark.parametrize("kernel", FEATURE_KERNELS, ids=repr)
def test_features_against_the_gram_matrix(kernel) -> None:
    X = np.abs(np.random.default_rng(0).normal(size=(30, 4)))
    features = SpectralFeatures(kernel, n_components=285).fit(X)  # levels 0 to 8, all in full
    F = features.transform(X)
    scale = np.sqrt(kernel.diag(X))
    error = np.abs(F @ F.T - kernel(X)) / np.outer(scale, scale)
    assert error.max() <= 2.1 * features.error_ / kernel.diag(np.eye(4)[:1])[0] + 1e-12
    assert features.eigenvalues_.shape == (F.shape[1],)
    assert features.get_feature_names_out().shape == (F.shape[1],)
    tensor = features.transform(torch.tensor(X))
    np.testing.assert_allclose(tensor.numpy(), F, atol=1e-12)
    np.testing.assert_allclose(features.transform(sparse.csr_matrix(X)), F, atol=1e-12)


def test_incomplete_features_are_right_in_the_mean() -> None:
    kernel = Heat(Sphere(), t=0.2, normalized=False)
    X = points(6, 20)
    K = sum(
        (F := SpectralFeatures(kernel, 40, random_state=seed).fit_transform(X)) @ F.T
        for seed in range(60)
    )
    truncated = kernel.level_weights(6, range(4)).weights
    expected = sum(a * zonal(6, level, X, X) for level, a in enumerate(truncated))
    assert np.abs(K / 60 - expected).max() < 0.1 * kernel.diag(X)[0]
    one = SpectralFeatures(kernel, 40).fit(X)
    F = one.transform(X)
    assert F.shape == (20, 40)
    assert np.abs(F @ F.T - kernel(X)).max() <= one.error_


def test_features_of_spheres_refuse() -> None:
    with pytest.raises(ValueError, match="give it the number of columns, n, or give X"):
        SpectralFeatures(Heat(Sphere())).fit()
    assert SpectralFeatures(Heat(Sphere(4)), 10).fit().transform(np.eye(4)).shape == (4, 10)
    fitted = SpectralFeatures(ArcCosine(), 10).fit(np.eye(4))
    with pytest.raises(ValueError, match="5 features, but SpectralFeatures is expecting 4"):
        fitted.transform(np.eye(5))
    with pytest.raises(TypeError, match="eigenfunctions of the space are not known"):
        SpectralFeatures(Gaussian()).fit(np.eye(4))
    with pytest.raises(TypeError, match="needs a kernel on a space"):
        SpectralFeatures(Spectrum() + 1).fit(["ab", "ba"])
