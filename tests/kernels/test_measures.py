"""Kernels between clouds: against mpmath, brute force and each other."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import strategies as st
from mpmath import mp
from sklearn.base import clone

from mercer.engine import clouds as engine
from mercer.kernels import (
    Cosine,
    Gaussian,
    GaussianEmbedding,
    InverseGeneralizedVariance,
    Linear,
    MeanEmbedding,
    MixtureMoment,
    RegularizedMoment,
    TraceKernel,
)
from tests.helpers.clouds import BASE, MEASURES, random_clouds, split


def exact_mixture(x, y, kappa):
    """Centred Gram matrix of the mixture, weighted on both sides, in 50 digits."""
    (P, a), (Q, b) = split(x), split(y)
    points = [[mp.mpf(v) for v in p] for p in np.vstack([P, Q]).tolist()]
    # Floating weights sum to 1 up to rounding; the definition divides.
    w = [mp.mpf(v) / mp.fsum(a.tolist()) / 2 for v in a.tolist()]
    w += [mp.mpf(v) / mp.fsum(b.tolist()) / 2 for v in b.tolist()]
    n = len(points)
    K = mp.matrix(n, n)
    for i in range(n):
        for j in range(n):
            K[i, j] = kappa(points[i], points[j])
    C = mp.eye(n) - mp.matrix([w] * n)
    root = mp.diag([mp.sqrt(v) for v in w])
    return root * C * K * C.T * root


def gaussian(length_scale):
    def kappa(p, q):
        square = mp.fsum((a - b) ** 2 for a, b in zip(p, q, strict=True))
        return mp.exp(-square / 2 / mp.mpf(length_scale) ** 2)

    return kappa


def linear(p, q):
    return mp.fsum(a * b for a, b in zip(p, q, strict=True))


def trace(M, power=1):
    P = M**power
    return mp.fsum(P[i, i] for i in range(P.rows))


def exact_values(kernel, clouds, kappa):
    """The kernel's definition, for each pair."""
    out = np.empty((len(clouds), len(clouds)))
    with mp.workdps(50):
        for i, x in enumerate(clouds):
            for j, y in enumerate(clouds):
                Kt = exact_mixture(x, y, kappa)
                if isinstance(kernel, TraceKernel):
                    value = mp.exp(-trace(Kt) / mp.mpf(kernel.t))
                elif isinstance(kernel, MixtureMoment):
                    value = mp.det(mp.eye(Kt.rows) + mp.mpf(kernel.delta) * Kt) ** mp.mpf(-0.5)
                else:
                    value = mp.det(mp.eye(Kt.rows) + Kt / mp.mpf(kernel.eta)) ** mp.mpf(-0.5)
                out[i, j] = value
    return out


@pytest.mark.parametrize(
    "make",
    [
        lambda base: TraceKernel(base, t=0.1),
        lambda base: InverseGeneralizedVariance(base, eta=0.01),
        lambda base: MixtureMoment(base, delta=1.0),
        lambda base: InverseGeneralizedVariance(base, eta=1e4),
    ],
)
@pytest.mark.parametrize(
    ("base", "kappa"), [(BASE, gaussian(0.4)), (Linear(), linear)], ids=["Gaussian", "Linear"]
)
def test_measures_agree_with_their_definition_in_fifty_digits(make, base, kappa) -> None:
    kernel = make(base)
    clouds = random_clouds(np.random.default_rng(1), sizes=(1, 2, 7, 5))
    expected = exact_values(kernel, clouds, kappa)
    np.testing.assert_allclose(kernel(clouds), expected, rtol=1e-11, atol=0)
    np.testing.assert_allclose(kernel(clouds, clouds[::-1]), expected[:, ::-1], rtol=1e-11, atol=0)
    np.testing.assert_allclose(kernel.diag(clouds), np.diag(expected), rtol=1e-11, atol=0)


@pytest.mark.parametrize("eta", [1e-8, 1e-4])
def test_small_ridges(eta: float) -> None:
    kernel = InverseGeneralizedVariance(BASE, eta=eta)
    clouds = random_clouds(np.random.default_rng(2), sizes=(3, 6, 6))
    expected = exact_values(kernel, clouds, gaussian(0.4))
    np.testing.assert_allclose(kernel(clouds), expected, rtol=1e-14 / eta)


def test_ridges_below_the_rounding_are_refused() -> None:
    clouds = random_clouds(np.random.default_rng(3))
    with pytest.raises(ValueError, match="must be above 1e-12"):
        InverseGeneralizedVariance(BASE, eta=1e-13)(clouds)
    with pytest.raises(ValueError, match=r"delta of MixtureMoment must be below 1e\+12"):
        MixtureMoment(BASE, delta=1e13)(clouds)


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (RegularizedMoment(order=1, eps=1e-15), "eps of RegularizedMoment"),
        (RegularizedMoment(order=2, eps=1e-120), "eps of RegularizedMoment"),
        (InverseGeneralizedVariance(Linear(), eta=1e-15), "eta of Inverse"),
        (InverseGeneralizedVariance(Linear(), eta=1e-18), "eta of Inverse"),
        (GaussianEmbedding(Gaussian(), length_scale=1e-8), "length_scale of Gauss.* above 1e-06"),
        (GaussianEmbedding(Linear(), length_scale=1e-8), "length_scale of GaussianEmbedding"),
        (TraceKernel(Gaussian(), t=1e-15, normalized=True), "t of TraceKernel must be above 1e-12"),
        (TraceKernel(Linear(), t=1e-15), "t of TraceKernel"),
    ],
    ids=repr,
)
def test_scales_below_the_rounding_are_refused_on_both_roads(kernel, name: str) -> None:
    rng = np.random.default_rng(20)
    collinear = [np.outer(rng.normal(size=6), [1.0, 2.0, 3.0]) for _ in range(3)]
    with pytest.raises(ValueError, match=name + r".*is lost in rounding errors"):
        kernel(collinear)
    with pytest.raises(ValueError, match=name):
        kernel(collinear[:1], collinear[1:])


def test_large_values_of_the_base_need_large_scales() -> None:
    from mercer.kernels import FullSpectrum

    words = ["ab" * 20, "ba" * 17, "aab" * 9]
    with pytest.raises(ValueError, match="length_scale of GaussianEmbedding must be above 0"):
        GaussianEmbedding(FullSpectrum(), length_scale=1e-5)([words, words[::-1]])
    K = GaussianEmbedding(FullSpectrum(), length_scale=1.0)([words, words[::-1]])
    np.testing.assert_allclose(K, 1, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-5, 1e-4])
def test_small_scales_that_are_accepted_are_right(scale: float) -> None:
    """The same measures in another order: all distances are zero."""
    x = np.random.default_rng(21).normal(size=(20, 2))
    for base in (Gaussian(), Linear()):
        K = GaussianEmbedding(base, length_scale=scale)([x, x[::-1]])
        np.testing.assert_allclose(K, 1, atol=1e-15 * 20 / scale**2)
        T = TraceKernel(base, t=scale, normalized=True)([x, x[::-1]])
        np.testing.assert_allclose(T, 1, atol=1e-15 * 20 / scale)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_huge_ridges_of_moments(order: int) -> None:
    """The covariance vanishes beside eps: values of a sphere, in logarithms."""
    clouds = random_clouds(np.random.default_rng(22), sizes=(3, 4))
    kernel = RegularizedMoment(order=order, eps=1e150, normalized=True)
    np.testing.assert_allclose(kernel(clouds), 1, rtol=1e-13)
    K, slopes = RegularizedMoment(order=order, eps=1e60)(clouds, eval_gradient=True)
    d = 2
    moment = d * (d + 2) * (d + 4) if order == 3 else d * (d + 2) if order == 2 else d
    np.testing.assert_allclose(K, moment * 1e60 ** -(order + d / 2), rtol=1e-11)
    np.testing.assert_allclose(slopes[:, :, 0], -(order + d / 2) * K, rtol=1e-11)


def test_points_far_from_the_origin() -> None:
    """Rounding of the uncentred values is no fault of the base kernel."""
    near = [c / 8 for c in np.random.default_rng(23).integers(-16, 16, size=(3, 3, 9))]
    near[1] = near[1][:2]
    kernel = InverseGeneralizedVariance(Linear(), eta=200.0)
    np.testing.assert_allclose(kernel([c + 1e5 for c in near]), kernel(near), rtol=1e-11)
    shifted = Linear() * 1.0  # without explicit features
    far = InverseGeneralizedVariance(shifted, eta=200.0)([c + 1e5 for c in near])
    np.testing.assert_allclose(far, kernel(near), rtol=1e-5)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_regularized_moments_are_moments_of_a_gaussian(order: int) -> None:
    """``E (y'y)^order`` under a Gaussian with precision S, without its constant, by its definition."""
    clouds = random_clouds(np.random.default_rng(4), sizes=(3, 5))
    K = RegularizedMoment(order=order, eps=0.1)(clouds)
    for i, x in enumerate(clouds):
        for j, y in enumerate(clouds):
            (P, a), (Q, b) = split(x), split(y)
            points, w = np.vstack([P, Q]), np.concatenate([a, b]) / 2
            S = np.cov(points.T, aweights=w, ddof=0) + 0.1 * np.eye(2)
            nodes, masses = np.polynomial.hermite_e.hermegauss(12)
            grid = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)
            y_values = grid @ np.linalg.inv(np.linalg.cholesky(S))
            mass = np.outer(masses, masses).ravel() / (2 * np.pi)
            moment = mass @ (y_values**2).sum(axis=1) ** order
            np.testing.assert_allclose(K[i, j], moment / np.sqrt(np.linalg.det(S)), rtol=1e-11)


def test_embeddings_by_brute_force() -> None:
    rng = np.random.default_rng(5)
    X, Y = random_clouds(rng), random_clouds(rng, sizes=(3, 3, 8))

    def inner(x, y):
        (P, a), (Q, b) = split(x), split(y)
        return a @ BASE(P, Q) @ b

    products = np.array([[inner(x, y) for y in Y] for x in X])
    np.testing.assert_allclose(MeanEmbedding(BASE)(X, Y), products, rtol=1e-13)
    squares = [np.array([inner(x, x) for x in Z]) for Z in (X, Y)]
    distances = squares[0][:, None] + squares[1] - 2 * products
    expected = np.exp(-distances / 2 / 0.7**2)
    np.testing.assert_allclose(GaussianEmbedding(BASE, length_scale=0.7)(X, Y), expected, rtol=1e-13)
    cosines = products / np.sqrt(squares[0][:, None] * squares[1])
    np.testing.assert_allclose(MeanEmbedding(BASE, normalized=True)(X, Y), cosines, rtol=1e-13)


@pytest.mark.parametrize("delta", [0.05, 0.5, 1.0, 1.5])
def test_series_is_the_closed_form_within_its_error(delta: float) -> None:
    rng = np.random.default_rng(6)
    clouds, others = random_clouds(rng), random_clouds(rng, sizes=(2, 6, 3))
    kernel = MixtureMoment(BASE, delta=delta)
    for tolerance in (1e-3, 1e-12):
        for Y in (None, others):
            series = kernel.series(clouds, Y, tolerance=tolerance)
            gap = np.abs(series.values - kernel(clouds, Y))
            assert (gap <= series.error + 1e-15).all()
            assert (series.error <= tolerance + 1e-13).all()
            assert series.terms.min() >= 1
    assert kernel.series(clouds, tolerance=1e-3).terms.max() < series.terms.max()


def test_terms_of_the_series() -> None:
    """One eigenvalue l: the binomial series of (1 + delta l)^(-1/2)."""
    clouds = [[[0.0], [2.0]]]  # variance 1
    series = MixtureMoment(Linear(), delta=0.5).series(clouds, tolerance=1e-2)
    # terms 1, 1/4, 3/32, 5/128, 35/2048 = 0.017, then 63/8192 = 0.0077 below the tolerance
    assert series.terms[0, 0] == 5
    assert series.values[0, 0] == pytest.approx(1 - 1 / 4 + 3 / 32 - 5 / 128 + 35 / 2048, abs=1e-14)
    assert series.error[0, 0] == pytest.approx(63 / 8192, rel=1e-10)


def test_a_rising_series_is_not_stopped_early() -> None:
    """Many eigenvalues below 1 make terms grow at first; their sum stays right within the error."""
    rng = np.random.default_rng(7)
    clouds = [rng.normal(size=(30, 12)) for _ in range(3)]
    rho = max(np.linalg.eigvalsh(np.cov(np.vstack(clouds[i : i + 2]).T)).max() for i in range(2))
    kernel = MixtureMoment(Linear(), delta=0.5 / rho)
    series = kernel.series(clouds, tolerance=1e-9)
    assert (np.abs(series.values - kernel(clouds)) <= series.error).all()


def test_series_refuses_what_diverges() -> None:
    clouds = [[[0.0], [2.0]], [[0.0], [0.1]]]
    with pytest.raises(ValueError, match="row 0 of X and row 0 of X: delta must be below 1,"):
        MixtureMoment(Linear(), delta=1.0).series(clouds)
    with pytest.raises(ValueError, match="row 1 of X and row 0 of Y"):
        MixtureMoment(Linear(), delta=3.0).series(clouds[::-1], clouds[1:])
    with pytest.raises(ValueError, match="after 10 terms"):
        MixtureMoment(Linear(), delta=0.9).series(clouds, max_terms=10)
    with pytest.raises(ValueError, match="tolerance"):
        MixtureMoment(Linear(), delta=0.9).series(clouds, tolerance=0.0)
    with pytest.raises(ValueError, match="max_terms"):
        MixtureMoment(Linear(), delta=0.9).series(clouds, max_terms=1.5)


def test_both_roads_agree() -> None:
    """Explicit covariances against the base kernel's Gram matrices, for values, gradients and series."""
    rng = np.random.default_rng(8)
    clouds = random_clouds(rng, sizes=(6, 9, 12, 7), d=3)
    for base in (Linear(), Cosine()):
        no_features = base * 1.0
        assert base.explicit_features(clouds[0]) is not None
        assert no_features.explicit_features(clouds[0]) is None
        for kernel in MEASURES[:5]:
            explicit, implicit = clone(kernel).set_params(base=base), kernel.set_params(base=no_features)
            for got, expected in zip(
                explicit(clouds, eval_gradient=True), implicit(clouds, eval_gradient=True), strict=True
            ):
                np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-13)
    first = MixtureMoment(Cosine(), delta=0.8).series(clouds)
    second = MixtureMoment(Cosine() * 1.0, delta=0.8).series(clouds)
    np.testing.assert_allclose(first.values, second.values, rtol=1e-11)


@pytest.fixture(autouse=True)
def _fresh_bases():
    """Kernels of the list go back to their base after a test that changed it."""
    yield
    for kernel in MEASURES[:5]:
        kernel.set_params(base=BASE)


def test_more_features_than_points() -> None:
    clouds = random_clouds(np.random.default_rng(9), sizes=(2, 3, 4), d=30)
    kernel = InverseGeneralizedVariance(Linear(), eta=0.3)
    np.testing.assert_allclose(kernel(clouds), exact_values(kernel, clouds, linear), rtol=1e-11)


def test_gaussian_values_do_not_depend_on_the_road() -> None:
    """Few coordinates take a loop of their own, many the base kernel itself."""
    rng = np.random.default_rng(10)
    for d in (1, 8, 9):
        clouds = random_clouds(rng, d=d)
        expected = MeanEmbedding(BASE * 1.0)(clouds)
        np.testing.assert_allclose(MeanEmbedding(BASE)(clouds), expected, rtol=1e-12)


def test_exponentials_are_exact_and_vanish() -> None:
    from mercer.compiled.measures import gaussian_block

    x = np.concatenate([[0.0, 1e-300, 1e-9], np.linspace(0, 26.5, 999), [27.0, 1e3, 1e200]])
    out = np.empty((1, x.size))
    gaussian_block(np.zeros((1, 1)), x[None], 1.0, out)
    np.testing.assert_allclose(out[0, :-3], np.exp(-(x[:-3] ** 2)), rtol=2e-13)
    assert (out[0, -3:] == 0).all()
    small = x < 3
    np.testing.assert_allclose(out[0, small], np.exp(-(x[small] ** 2)), rtol=2e-15)


def test_tiles_do_not_show(monkeypatch) -> None:
    clouds = random_clouds(np.random.default_rng(11), sizes=(3, 1, 8, 2, 5, 5, 2, 9))
    whole = [kernel(clouds, eval_gradient=True) for kernel in MEASURES]
    monkeypatch.setattr(engine, "ROWS", 7)
    monkeypatch.setattr(engine, "COLUMNS", 11)
    monkeypatch.setattr(engine, "_OWN", 4)
    for kernel, (K, slopes) in zip(MEASURES, whole, strict=True):
        tiled, tiled_slopes = kernel(clouds, eval_gradient=True)
        np.testing.assert_array_equal(tiled, tiled.T)
        np.testing.assert_allclose(tiled, K, rtol=1e-12)
        np.testing.assert_allclose(tiled_slopes, slopes, rtol=1e-10, atol=1e-13)


def test_no_array_is_larger_than_a_tile() -> None:
    """One large cloud, and single points with many coordinates."""
    rng = np.random.default_rng(19)
    large = [rng.normal(size=(4000, 2)), rng.normal(size=(5, 2))]
    wide = rng.normal(size=(60, 1, 100))
    TraceKernel(BASE)(large[1:])  # compile
    tracemalloc.start()
    K = TraceKernel(BASE)(large, large)
    RegularizedMoment(eps=1.0)(wide)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6  # 128 MB for all pairs of points, 288 MB for all covariances
    products = np.array([[BASE(x, y).mean() for y in large] for x in large])
    np.testing.assert_allclose(MeanEmbedding(BASE)(large), products, rtol=1e-11)
    traces = 1 - np.diag(products)
    distances = np.diag(products)[:, None] + np.diag(products) - 2 * products
    expected = np.exp(-(traces[:, None] / 2 + traces / 2 + distances / 4) / 0.1)
    np.testing.assert_allclose(K, expected, rtol=1e-11)


seeds = st.integers(0, 2**32 - 1)
