"""Ranges in the data's own unit: scaled_to on every kernel and on data of few and many columns."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import WhiteKernel

from mercer.kernels import (
    ArcCosine,
    AxialHeat,
    Cosine,
    Exponential,
    Gaussian,
    GaussianEmbedding,
    Heat,
    InverseGeneralizedVariance,
    KullbackLeibler,
    Linear,
    Matern,
    MixtureMoment,
    Parametrix,
    PosteriorHeat,
    Power,
    RegularizedMoment,
    Spectral,
    Spectrum,
    TraceKernel,
    VonNeumann,
)
from mercer.spaces import Graph, Hyperbolic, NormalFamily, NormalProduct, Simplex, Sphere

DIGITS = load_digits().data[:300]


def words(rows: int, columns: int) -> sparse.csr_matrix:
    """Counts of words with frequencies as in a text: a few frequent ones, many rare."""
    rng = np.random.default_rng(0)
    frequencies = 1 / np.arange(1, columns + 1)
    counts = [rng.multinomial(80, frequencies / frequencies.sum()) for _ in range(rows)]
    return sparse.csr_matrix(np.array(counts, dtype=float))


ROWS = {
    "3 columns": np.random.default_rng(1).dirichlet([1.0, 1.0, 1.0], size=200),
    "digits": DIGITS,
    "800 columns": np.random.default_rng(3).poisson(0.2, size=(200, 800)) + np.eye(200, 800),
    "20000 columns": words(200, 20_000),
}
ROW_KERNELS = [
    Heat(Simplex()),
    Heat(Sphere()),
    Heat(Simplex(), t=0.1),
    AxialHeat(Simplex()),
    AxialHeat(Sphere()),
    Matern(Simplex()),
    Matern(Sphere(), nu=1.5),
    Parametrix(Simplex()),
    Parametrix(Sphere()),
]
#: An absolute time suits few columns only: scaled_to is for the others.
UNITS = [kernel for kernel in ROW_KERNELS if getattr(kernel, "t", None) is None]


def similarities(kernel, X) -> np.ndarray:
    """Normalised values at pairs of different points."""
    K = np.asarray(kernel(X), dtype=float)
    lengths = np.sqrt(np.diagonal(K))
    return (K / lengths[:, None] / lengths)[np.triu_indices(len(K), 1)]


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("kernel", [*ROW_KERNELS, Gaussian()], ids=repr)
def test_the_median_is_hit(kernel, name) -> None:
    X = ROWS[name]
    for similarity in (0.1, 0.5, 0.9):
        scaled = kernel.scaled_to(X, similarity)
        assert np.median(similarities(scaled, X)) == pytest.approx(similarity, abs=1e-4)
        low, high = getattr(scaled, f"{scaled.range_parameter()}_bounds")
        assert 2 * low <= 1.1 * getattr(scaled, scaled.range_parameter()) <= 0.6 * high


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("kernel", [*UNITS, Cosine(Simplex()), ArcCosine()], ids=repr)
def test_defaults_are_useful(kernel, name) -> None:
    assert 0.02 < np.median(similarities(kernel, ROWS[name])) < 0.98


def test_natural_units_in_every_dimension() -> None:
    # The values of the Matern kernel at w = 0.3 in the design; Parametrix is 1/2 at right angles.
    for n, value in ((3, 0.24), (20, 0.13), (256, 0.38), (5000, 0.48)):
        x, y = np.eye(n)[0], np.sqrt(1 - 0.09) * np.eye(n)[1] + 0.3 * np.eye(n)[0]
        assert Matern(Sphere())([x], [y])[0, 0] == pytest.approx(value, abs=0.006)
        assert Parametrix(Sphere())([x], [np.eye(n)[1]])[0, 0] == pytest.approx(0.5, abs=1e-12)
    for n in (5, 500, 50_000):
        kernel = Matern(Sphere(), nu=1.5, t_star=0.7)
        mean = (1.5 + (n - 1) / 2) * kernel.scale(n) ** 2 / (2 * 1.5)  # of the Gamma distribution
        assert mean == pytest.approx(0.7 * np.log(n) / n, rel=1e-12)
        for name in ("t", "t_star"):
            low, high = getattr(Heat(Sphere()), f"{name}_bounds")
            window = [t * (np.log(n) / n if name == "t" else 1) for t in (0.5, 2.0)]
            assert low < window[0] < window[1] < high
        low, high = Matern(Sphere()).length_scale_bounds
        assert low < Matern(Sphere(), t_star=0.5).scale(n) < high


def test_gradients_in_natural_units() -> None:
    X = np.random.default_rng(0).normal(size=(8, 5))
    for nu in (0.4, 2.5):  # by the split series, and by levels
        kernel = Matern(Sphere(), nu=nu, t_star=0.6)
        _, gradient = kernel(X, eval_gradient=True)
        step = 1e-5
        up, down = (Matern(Sphere(), nu=nu, t_star=0.6 * np.exp(s))(X) for s in (step, -step))
        np.testing.assert_allclose(gradient[:, :, 0], (up - down) / (2 * step), atol=2e-7)
        same = Matern(Sphere(), nu=nu, length_scale=kernel.scale(5))
        np.testing.assert_allclose(same(X), kernel(X), atol=1e-13)
        np.testing.assert_allclose(same(X, eval_gradient=True)[1], 2 * gradient, atol=1e-10)


def test_either_length_or_time() -> None:
    with pytest.raises(ValueError, match="length_scale or t_star, not both"):
        Matern(Sphere(), length_scale=0.3, t_star=2.0)([[1.0, 0.0]])
    for space in (Hyperbolic(), NormalFamily(), Graph(nx.path_graph(3))):
        with pytest.raises(ValueError, match=r"Matern has no default length scale.*scaled_to\(X\)"):
            Matern(space)([[0.0, 1.0]])
    with pytest.raises(ValueError, match=r"Heat has no default time.*scaled_to\(X\)"):
        Heat(Hyperbolic())([[0.0, 1.0]])


def test_a_kernel_of_points_that_are_far_apart_is_not_recommended() -> None:
    points = np.random.default_rng(0).normal(size=(30, 8))
    points *= 0.95 / np.linalg.norm(points, axis=1, keepdims=True)
    with pytest.raises(ValueError, match="even neighbours look unlike at every value, so use another"):
        Heat(Hyperbolic("ball")).scaled_to(points)


def test_kernels_of_distributions() -> None:
    rng = np.random.default_rng(0)
    half = np.column_stack([0.5 * rng.normal(size=(100, 2)), np.exp(0.3 * rng.normal(size=100))])
    for kernel in (
        Heat(Hyperbolic()),
        Heat(NormalFamily()),
        Matern(Hyperbolic(), nu=1.5),
        KullbackLeibler(NormalFamily()),
    ):
        for similarity in (0.1, 0.5):
            scaled = kernel.scaled_to(half, similarity)
            assert np.median(similarities(scaled, half)) == pytest.approx(similarity, abs=1e-4)
    table = load_breast_cancer().data[:120]
    rows = np.empty((120, 6))
    rows[:, 0::2], rows[:, 1::2] = table[:, :3], 3 * table[:, 10:13] + table[:, :3].std(axis=0)
    for kernel in (Heat(NormalProduct()), KullbackLeibler(NormalProduct())):
        for similarity in (0.1, 0.5, 0.9):
            scaled = kernel.scaled_to(rows, similarity)
            assert np.median(similarities(scaled, rows)) == pytest.approx(similarity, abs=1e-4)


def test_counts_and_what_is_not_known_of_them() -> None:
    X = np.random.default_rng(0).poisson(3.0, size=(30, 8))
    scaled = PosteriorHeat().scaled_to(X, 0.5)
    assert np.median(similarities(scaled, X)) == pytest.approx(0.5, abs=1e-4)
    smooth = X + 0.5
    scaled = KullbackLeibler(Simplex()).scaled_to(smooth, 0.3)
    assert np.median(similarities(scaled, smooth)) == pytest.approx(0.3, abs=1e-4)


def test_nodes_of_one_component() -> None:
    two = nx.disjoint_union(nx.karate_club_graph(), nx.cycle_graph(20))
    nodes = list(two)
    graph = Graph(two, laplacian="normalized", similarity="normalized")
    part = graph.components[nodes]
    i, j = np.triu_indices(len(nodes), 1)
    together = part[i] == part[j]
    walks = Graph(two)
    for kernel in (
        Heat(graph), Matern(graph, nu=1.5), Exponential(walks, normalized=True), VonNeumann(graph)
    ):  # fmt: skip
        for similarity in (0.1, 0.5, 0.9):
            scaled = kernel.scaled_to(nodes, similarity)
            found = np.median(similarities(scaled, nodes)[together])
            assert found == pytest.approx(similarity, abs=1e-4)
    with pytest.raises(ValueError, match="no two of these nodes are in one component"):
        Heat(graph).scaled_to([0, 40])
    with pytest.raises(ValueError, match=r"VonNeumann on these points.* stays between"):
        VonNeumann(walks).scaled_to(nodes, 0.999)
    large = Graph(nx.cycle_graph(5000), similarity="laplacian")
    near = list(range(0, 60, 3))
    scaled = Heat(large).scaled_to(near, 0.5)
    assert np.median(similarities(scaled, near)) == pytest.approx(0.5, abs=1e-3)


def test_clouds() -> None:
    rng = np.random.default_rng(0)
    clouds = [rng.normal(size=(k % 7 + 3, 64)) + 0.3 * rng.normal(size=64) for k in range(40)]
    base = Gaussian().scaled_to(np.vstack(clouds))
    for kernel in (
        TraceKernel(base),
        GaussianEmbedding(base),
        InverseGeneralizedVariance(base),
        MixtureMoment(base),
    ):
        for similarity in (0.3, 0.9):
            scaled = kernel.scaled_to(clouds, similarity)
            assert np.median(similarities(scaled, clouds)) == pytest.approx(similarity, abs=1e-4)
            assert scaled.base == base
            low, high = getattr(scaled, f"{scaled.range_parameter()}_bounds")
            assert low < getattr(scaled, scaled.range_parameter()) < high
    with pytest.raises(ValueError, match=r"eps of RegularizedMoment.* stays between"):
        RegularizedMoment(eps=1.0).scaled_to([c[:, :2] for c in clouds], 1e-6)


def test_kernels_without_a_range_stay() -> None:
    for kernel in (Cosine(), ArcCosine(), Linear(), Spectral(Sphere(), [1, 2]), 2.0 * Cosine()):
        assert kernel.scaled_to(DIGITS, 0.2) == kernel
    assert Spectrum(2).scaled_to(["ab", "bc"]) == Spectrum(2)
    walks = Power(Graph(nx.path_graph(3)))
    assert walks.scaled_to([0, 1]) is walks
    with pytest.raises(ValueError, match="similarity must be a number between 0 and 1"):
        Cosine().scaled_to(DIGITS, 1.5)


def test_parts_of_combinations() -> None:
    heat, flat = Heat(Simplex()).scaled_to(DIGITS, 0.3), Gaussian().scaled_to(DIGITS, 0.3)
    combined = (2.0 * Heat(Simplex()) + Gaussian() * Cosine(Simplex()) + WhiteKernel(0.1)).scaled_to(
        DIGITS, 0.3
    )
    assert combined == 2.0 * heat + flat * Cosine(Simplex()) + WhiteKernel(0.1)
    power = (Heat(Simplex()) ** 3).scaled_to(DIGITS, 0.3)
    assert np.median(similarities(power, DIGITS)) == pytest.approx(0.3, abs=1e-4)


def test_few_rows_and_duplicates() -> None:
    X = DIGITS[:10]
    for rows in (X[:2], X[:3], X, np.vstack([X, X]), np.vstack([X[:1]] * 30 + [X[1:3]])):
        different = (rows[:, None] != rows).any(axis=2)[np.triu_indices(len(rows), 1)]
        for kernel in (Heat(Simplex()), Gaussian(), Matern(Sphere())):
            scaled = kernel.scaled_to(rows, 0.4)
            found = np.median(similarities(scaled, rows)[different])
            assert found == pytest.approx(0.4, abs=1e-3)
    # So many copies of one row that a sample may hold nothing else.
    many = np.vstack([np.repeat(X[:1], 4000, axis=0), X[1:2]])
    scaled = Heat(Simplex()).scaled_to(many, 0.4, max_rows=20)
    assert scaled(X[:1], X[1:2])[0, 0] == pytest.approx(0.4, abs=1e-4)
    for rows in (X[:1], np.vstack([X[:1]] * 5), np.vstack([X[:1], 2 * X[:1]])):
        with pytest.raises(ValueError, match="all points are equal, or there is only one"):
            Heat(Simplex()).scaled_to(rows)


def test_arrays_of_all_kinds() -> None:
    torch = pytest.importorskip("torch")
    kernel = Heat(Simplex())
    expected = kernel.scaled_to(DIGITS, 0.3)
    for X in (sparse.csr_array(DIGITS), sparse.coo_matrix(DIGITS), DIGITS.astype(int), DIGITS.tolist()):
        assert kernel.scaled_to(X, 0.3).t_star == pytest.approx(expected.t_star, rel=1e-9)
    assert kernel.scaled_to(torch.tensor(DIGITS), 0.3) == expected
    learnt = Heat(Simplex(), t_star=torch.tensor(2.0, requires_grad=True))
    assert learnt.scaled_to(DIGITS, 0.3).t_star == pytest.approx(expected.t_star, rel=1e-4)
    single = kernel.scaled_to(DIGITS.astype(np.float32), 0.3)
    assert single.t_star == pytest.approx(expected.t_star, rel=1e-4)


def test_samples_are_of_the_seed() -> None:
    X = load_digits().data
    kernel = Heat(Simplex())
    first, again = (kernel.scaled_to(X, max_rows=200, random_state=3) for _ in range(2))
    assert first == again
    assert first != kernel.scaled_to(X, max_rows=200, random_state=4)
    assert first.t_star == pytest.approx(kernel.scaled_to(X, max_rows=2000).t_star, rel=0.05)


def test_bounds_and_options_are_kept() -> None:
    fixed = Heat(Simplex(), t_star_bounds="fixed").scaled_to(DIGITS)
    assert fixed.t_star_bounds == "fixed"
    kernel = Heat(Simplex(), t=0.2, normalized=False)
    scaled = kernel.scaled_to(DIGITS, 0.5)
    assert (scaled.normalized, scaled.t_star, kernel.t) == (False, 1.0, 0.2)
    assert np.median(similarities(scaled, DIGITS)) == pytest.approx(0.5, abs=1e-4)
    assert clone(scaled) == scaled


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"similarity": 0.0}, "similarity must be a number between 0 and 1, got 0.0"),
        ({"similarity": "a"}, "similarity must be a number between 0 and 1, got 'a'"),
        ({"max_rows": 1}, "max_rows must be a whole number of at least 2, got 1"),
        ({"max_rows": 10.0}, "max_rows must be a whole number of at least 2, got 10.0"),
    ],
)
def test_bad_options(options, message) -> None:
    with pytest.raises(ValueError, match=message):
        Heat(Simplex()).scaled_to(DIGITS, **options)


def test_bad_rows_are_named() -> None:
    X = DIGITS.copy()
    X[17] = -1
    with pytest.raises(ValueError, match="row 17 of X has negative entries"):
        Heat(Simplex()).scaled_to(X, max_rows=5)


@settings(deadline=None, max_examples=25)
@given(
    n=st.integers(2, 3000),
    spread=st.floats(0.05, 20.0),
    similarity=st.floats(0.02, 0.98),
    seed=st.integers(0, 10**6),
)
def test_any_dimension_and_spread(n, spread, similarity, seed) -> None:
    rng = np.random.default_rng(seed)
    X = 1.0 + spread * rng.normal(size=(12, n))
    for kernel in (Heat(Sphere()), Gaussian(), Parametrix(Sphere())):
        scaled = kernel.scaled_to(X, similarity)
        assert np.median(similarities(scaled, X)) == pytest.approx(similarity, abs=2e-3)


@pytest.mark.filterwarnings("ignore:The optimal value found:sklearn.exceptions.ConvergenceWarning")
def test_a_gaussian_process_leaves_the_start() -> None:
    """Matern() was all ones from 100 columns on, and no optimiser left its length scale."""
    X, y = load_digits(return_X_y=True)
    X, y = np.hstack([X, np.roll(X, 3, axis=1), 16 - X]), (y == 3).astype(float)
    fits = {}
    for kernel in (Heat(Sphere()), Matern(Sphere()), Matern(Sphere()).scaled_to(X)):
        gp = GaussianProcessRegressor(1.0 * kernel + WhiteKernel(0.1), normalize_y=True)
        fits[repr(kernel)] = gp.fit(X[:200], y[:200]).score(X[200:500], y[200:500])
    heat, *others = fits.values()
    assert heat > 0.5
    assert min(others) > heat - 0.05


def test_scaling_again_changes_nothing() -> None:
    rows = np.array([[0.0], [1.0]])
    kernel = Gaussian()
    assert kernel.scaled_to(rows, float(kernel(rows)[0, 1])).length_scale == 1.0
    for first in (Gaussian(), Heat(Simplex()), Parametrix(Simplex())):
        again = first.scaled_to(ROWS["digits"], 0.5)
        for _ in range(3):
            again = again.scaled_to(ROWS["digits"], 0.5)
            assert np.median(similarities(again, ROWS["digits"])) == pytest.approx(0.5, abs=1e-4)


def test_bounds_are_where_the_kernel_goes() -> None:
    graph = Graph(nx.karate_club_graph())
    for kernel in (VonNeumann(graph), Exponential(graph)):
        scaled = kernel.scaled_to(list(range(34)), 0.1)
        for beta in scaled.beta_bounds:
            assert np.isfinite(type(kernel)(graph, beta=beta)(range(34))).all()


def test_points_that_differ_by_rounding_are_equal() -> None:
    for kernel, rows in (
        (Heat(Simplex()), [[0.1, 0.2, 0.3], [0.3, 0.6, 0.9]]),
        (AxialHeat(Sphere()), [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]),
    ):
        with pytest.raises(ValueError, match="all points are equal, or there is only one"):
            kernel.scaled_to(rows)


def test_any_size_of_numbers() -> None:
    X = np.random.default_rng(0).normal(size=(20, 4))
    for size in (1e-140, 1e-30, 1e30, 1e140):
        scaled = Gaussian().scaled_to(size * X, 0.3)
        assert np.median(similarities(scaled, size * X)) == pytest.approx(0.3, abs=1e-4)
    assert PosteriorHeat().scaled_to([[1, 2, 3], [4, 0, 1], [0, 3, 2]], 0.8).t_star > 0
