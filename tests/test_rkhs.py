"""Feature space against explicit coordinates."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import KernelCenterer

from mercer import rkhs
from mercer.exceptions import DegenerateKernelWarning
from mercer.harmonics import SphericalHarmonics, sphere_quadrature
from mercer.kernels import ArcCosine, Gaussian, Heat, Linear, On, Parametrix, Polynomial, Zonal
from mercer.spaces import Sphere

IRISES = np.array([[5.9, 3.0], [6.9, 3.1], [6.6, 2.9], [4.6, 3.2], [6.0, 2.2]])
RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(30, 4))
NEW = RNG.normal(size=(7, 4))
K = Linear()(POINTS)


def test_worked_numbers() -> None:
    gram = Linear()(IRISES)
    assert gram[0, 1] == pytest.approx(50.01, abs=5e-3)
    assert np.diag(gram)[:2] == pytest.approx([43.81, 57.22], abs=5e-3)
    lifted = np.column_stack([IRISES**2, np.sqrt(2) * IRISES.prod(axis=1)])
    assert lifted[0] == pytest.approx([34.81, 9, 25.03], abs=5e-3)
    np.testing.assert_allclose(Polynomial(2, 0.0)(IRISES), lifted @ lifted.T)


def test_against_coordinates() -> None:
    mean = POINTS.mean(axis=0)
    centred = POINTS - mean
    np.testing.assert_allclose(rkhs.norms(K), np.linalg.norm(POINTS, axis=1))
    gaps = np.linalg.norm(POINTS[:, None] - POINTS, axis=2)
    np.testing.assert_allclose(rkhs.distances(K), gaps, atol=1e-7)
    assert rkhs.mean_norm(K) == pytest.approx(np.linalg.norm(mean))
    assert rkhs.total_variance(K) == pytest.approx((centred**2).sum(axis=1).mean())
    np.testing.assert_allclose(rkhs.center(K), centred @ centred.T, atol=1e-12)
    unit = POINTS / np.linalg.norm(POINTS, axis=1, keepdims=True)
    np.testing.assert_allclose(rkhs.normalize(K), unit @ unit.T, atol=1e-12)
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    np.testing.assert_allclose(rkhs.correlation(K), unit @ unit.T, atol=1e-12)


def test_blocks_of_new_points() -> None:
    block = Linear()(NEW, POINTS)
    _, centred = rkhs.center(K, block)
    mean = POINTS.mean(axis=0)
    np.testing.assert_allclose(centred, (NEW - mean) @ (POINTS - mean).T, atol=1e-12)
    np.testing.assert_allclose(centred, KernelCenterer().fit(K).transform(block), atol=1e-12)
    _, unit = rkhs.normalize(K, block, Linear().diag(NEW))
    lengths = [np.linalg.norm(Z, axis=1) for Z in (NEW, POINTS)]
    np.testing.assert_allclose(unit, NEW @ POINTS.T / lengths[0][:, None] / lengths[1])
    with pytest.raises(ValueError, match="test_diagonal"):
        rkhs.normalize(K, block)


@pytest.mark.parametrize("kernel", [Linear(), Gaussian(), Heat(Sphere())])
def test_maps_reproduce_the_gram_matrix(kernel) -> None:
    doubled = np.vstack([POINTS, POINTS[:5]])  # singular on purpose
    gram = kernel(doubled)
    for coordinates in (rkhs.mercer_map(gram), rkhs.empirical_map(gram)):
        np.testing.assert_allclose(coordinates @ coordinates.T, gram, atol=1e-10)
    inside = rkhs.empirical_map(gram, gram[:4])
    np.testing.assert_allclose(inside, rkhs.empirical_map(gram)[:4], atol=1e-6)


def test_rank_of_the_mercer_map() -> None:
    assert rkhs.mercer_map(K).shape == (30, 4)
    assert rkhs.mercer_map(K, rank=2).shape == (30, 2)
    values = (rkhs.mercer_map(K) ** 2).sum(axis=0)
    assert (np.diff(values) <= 0).all()


def test_diagnose() -> None:
    labels = np.repeat(["a", "b", "c"], 10)
    perfect = (labels[:, None] == labels).astype(float)
    diagnosis = rkhs.diagnose(perfect, labels)
    assert diagnosis.alignment == pytest.approx(1)
    assert diagnosis.effective_rank == pytest.approx(3)
    assert rkhs.diagnose(np.eye(10)).effective_rank == pytest.approx(10)
    assert rkhs.diagnose(np.ones((10, 10))).mean_similarity == pytest.approx(1)
    assert rkhs.diagnose(np.outer(NEW[:, 0], NEW[:, 0]), NEW[:, 0]).alignment == pytest.approx(1)
    assert abs(rkhs.diagnose(K, RNG.normal(size=30)).alignment) < 0.5
    assert "least" not in str(diagnosis)


def test_the_parametrix_is_no_kernel() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 3))
    diagnosis = rkhs.diagnose(Parametrix(Sphere(), t=2.0)(X))
    assert not diagnosis.positive_semidefinite
    assert -8 < diagnosis.least_eigenvalue < -5  # -6.7 was seen on other points
    assert "NOT positive" in str(diagnosis)
    assert rkhs.diagnose(Heat(Sphere(), t=2.0)(X)).positive_semidefinite
    simplex_like = rkhs.diagnose(Parametrix(Sphere(), t=2.0)(np.abs(rng.normal(size=(400, 20)))))
    assert not simplex_like.positive_semidefinite


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.ones((2, 3)), "square"),
        (np.empty((0, 0)), "square"),
        ([[1.0, np.nan], [0, 1]], "row 0"),
        ([[1.0, 2.0], [0, 1]], "symmetric"),
    ],
)
def test_bad_matrices(bad, message: str) -> None:
    for function in (
        rkhs.norms,
        rkhs.distances,
        rkhs.center,
        rkhs.normalize,
        rkhs.diagnose,
        rkhs.degeneracy,
        rkhs.mercer_map,
    ):
        with pytest.raises(ValueError, match=message):
            function(bad)


def test_points_without_length() -> None:
    with pytest.raises(ValueError, match="row 1 of K has norm zero"):
        rkhs.normalize([[1.0, 0.0], [0.0, 0.0]])
    with pytest.raises(ValueError, match="negative"):
        rkhs.norms([[1.0, 0.0], [0.0, -1.0]])
    assert rkhs.diagnose(np.zeros((3, 3))).mean_similarity == 0


@pytest.mark.parametrize("amplitude", [0.0, -1.0, np.inf, np.nan, "one"])
def test_bad_amplitudes(amplitude) -> None:
    with pytest.raises(ValueError, match="amplitude must be a positive number"):
        rkhs.degeneracy(np.eye(5), amplitude)
    assert rkhs.mercer_map(np.zeros((3, 3))).shape == (3, 0)


def cauchy(theta):
    return 1 / (1.3 - np.cos(theta))


@pytest.mark.parametrize(
    ("kernel", "n", "levels"),
    [(Heat(Sphere(), t=0.2), 3, 12), (Heat(Sphere(), t=0.4), 5, 9), (Zonal(Sphere(), cauchy), 3, 45)],
)
def test_inner_products_of_functions_given_by_values(kernel, n, levels) -> None:
    harmonics = SphericalHarmonics(n, levels)
    X, weights = sphere_quadrature(n, 2 * levels)
    anchors, here = RNG.normal(size=(6, n)), RNG.normal(size=(3, n))
    factors = RNG.normal(size=(6, 2))
    F = harmonics.project(X, kernel(X, anchors) @ factors, weights)
    # Functions sum_i c_i k(x_i, .) have the inner product c' K c, and k(x, .) reproduces them.
    inner = rkhs.rkhs_inner_product(kernel, harmonics, F, F)
    np.testing.assert_allclose(inner, factors.T @ kernel(anchors) @ factors, rtol=1e-7)
    np.testing.assert_allclose(rkhs.rkhs_norm(kernel, harmonics, F), np.sqrt(np.diag(inner)))
    sections = harmonics.project(X, kernel(X, here), weights)
    values = rkhs.rkhs_inner_product(kernel, harmonics, sections, F)
    np.testing.assert_allclose(values, kernel(here, anchors) @ factors, atol=1e-7)


def test_projections_by_quadrature_and_by_least_squares_agree() -> None:
    harmonics = SphericalHarmonics(4, 5)
    X, weights = sphere_quadrature(4, 8)
    assert weights.sum() == pytest.approx(1)
    phi = harmonics(X)
    np.testing.assert_allclose(
        phi.T @ (weights[:, None] * phi), np.eye(harmonics.n_features), atol=1e-13
    )
    f = RNG.normal(size=harmonics.n_features)
    np.testing.assert_allclose(harmonics.project(X, phi @ f, weights), f, atol=1e-13)
    some = RNG.normal(size=(200, 4))
    np.testing.assert_allclose(harmonics.project(some, harmonics(some) @ f), f, atol=1e-10)
    with pytest.raises(ValueError, match="more points"):
        harmonics.project(some[:20], np.ones(20))
    with pytest.raises(ValueError, match="20 rows"):
        harmonics.project(some[:20], np.ones(19))
    with pytest.raises(ValueError, match="points"):
        sphere_quadrature(30, 10)


def test_functions_outside_the_space_are_refused_by_the_level() -> None:
    harmonics = SphericalHarmonics(3, 5)
    f = np.ones(25)
    with pytest.raises(ValueError, match="level 3"):
        rkhs.rkhs_norm(ArcCosine(), harmonics, f)
    f[harmonics.feature_levels == 3] = 1e-15
    assert np.isfinite(rkhs.rkhs_norm(ArcCosine(), harmonics, f))
    with pytest.raises(ValueError, match="25 harmonics"):
        rkhs.rkhs_norm(ArcCosine(), harmonics, f[1:])
    with pytest.raises(TypeError, match="Sphere"):
        rkhs.rkhs_norm(Gaussian(), harmonics, f)


def test_functions_on_other_spheres_and_rounding_are_refused() -> None:
    harmonics = SphericalHarmonics(3, levels=31)
    X, weights = sphere_quadrature(3, degree=60)
    kernel = Heat(Sphere(), t=0.2)
    section = harmonics.project(X, kernel(X, [[0.0, 0.0, 1.0]])[:, 0], weights)
    with pytest.raises(ValueError, match=r"rounding errors, on levels where .* take fewer levels"):
        rkhs.rkhs_norm(kernel, harmonics, section)
    with pytest.raises(ValueError, match=r"3 columns"):
        rkhs.rkhs_norm(Heat(Sphere(4), t=1.0), SphericalHarmonics(3, levels=4), np.ones(16))
    with pytest.raises(ValueError, match=r"weights must sum to 1, but their sum is 5"):
        harmonics.project(X, X[:, 0], 5 * weights)
    with pytest.raises(ValueError, match=r"weights must sum to 1, but their sum is nan"):
        harmonics.project(X, X[:, 0], np.nan * weights)


def test_matrices_that_are_none() -> None:
    """Nothing is dropped or clipped without a word."""
    M = np.array([[2.0, 1.0], [1.0, 2.0]])
    gram = [rkhs.norms, rkhs.distances, rkhs.mean_norm, rkhs.total_variance]
    for function in (*gram, rkhs.normalize, rkhs.mercer_map, rkhs.degeneracy):
        with pytest.raises(ValueError, match="the Gram matrix holds complex numbers"):
            function(M + 1j * np.eye(2))
        with pytest.raises(TypeError, match="the Gram matrix is sparse; make it dense"):
            function(sparse.csr_array(M))
    with pytest.raises(ValueError, match="K_test holds complex numbers"):
        rkhs.center(M, M + 0j)
    for function, matrix in (
        (rkhs.mean_norm, -M),
        (rkhs.total_variance, -M),
        (rkhs.mean_norm, [[1, -2], [-2, 1]]),
    ):
        with pytest.raises(ValueError, match="not positive semidefinite"):
            function(matrix)
    with pytest.raises(
        ValueError, match=r"row 0 of the Gram matrix \(and 1 more\) has a negative k\(x, x\)"
    ):
        rkhs.normalize(-M)
    assert 0 <= rkhs.total_variance(np.full((3, 3), 0.1)) < 1e-15


def test_labels_that_many_points_share_are_no_identity() -> None:
    labels = np.arange(60) % 4
    assert rkhs.degeneracy((labels[:, None] == labels).astype(float)) is None
    pairs = np.arange(60) // 2  # each point twice, as in a table that was doubled
    assert "nearly the identity" in str(rkhs.degeneracy((pairs[:, None] == pairs).astype(float)))


def test_warnings_about_wide_tables_are_short() -> None:
    wide = On(list(range(2000)), Heat(Sphere(), t=9.0))
    with pytest.warns(DegenerateKernelWarning) as told:
        rkhs.warn_if_degenerate(np.ones((10, 10)), wide)
    assert str(told[0].message) == (
        "the Gram matrix of Heat of 2000 columns on the training points is nearly constant: all points "
        "look alike to the kernel; choose its range by kernel.scaled_to(X), or use another kernel"
    )
