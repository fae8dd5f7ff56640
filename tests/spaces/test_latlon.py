"""Places on the globe: latitude and longitude against vectors, and distances against mpmath."""

import pickle

import mpmath as mp
import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import haversine_distances
from sklearn.model_selection import GridSearchCV

from mercer import gpytorch as ours
from mercer.features import GramTransformer, SpectralFeatures
from mercer.gp import ParquetBlocks, SphericalGPClassifier, SphericalGPRegressor
from mercer.kernels import (
    ArcCosine,
    AxialHeat,
    Cosine,
    Heat,
    Matern,
    MeanEmbedding,
    Parametrix,
    Spectral,
)
from mercer.report import write_report
from mercer.selection import KernelSearchCV, compare
from mercer.spaces import EARTH_RADIUS_KM, Simplex, Sphere, great_circle_km

GLOBE = Sphere(coordinates="latlon")
RNG = np.random.default_rng(0)
KERNELS = [
    Heat(GLOBE, t=0.1),
    Heat(GLOBE, t_star=0.2, normalized=False),
    AxialHeat(GLOBE, t=0.1),
    Matern(GLOBE, nu=1.5, length_scale=0.3),
    Spectral(GLOBE, weights=[1.0, 0.5, 0.2]),
    Cosine(GLOBE),
    Parametrix(GLOBE, t=0.1, order=1),
]


def places(m: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    latitude = np.degrees(np.arcsin(rng.uniform(-1, 1, size=m)))
    return np.column_stack([latitude, rng.uniform(-180, 360, size=m)])


def vectors(X: np.ndarray) -> np.ndarray:
    """Unit vectors, to all digits of a double."""
    with mp.workdps(40):
        rows = [[mp.radians(mp.mpf(float(value))) for value in row] for row in X]
        return np.array(
            [[mp.cos(a) * mp.cos(b), mp.cos(a) * mp.sin(b), mp.sin(a)] for a, b in rows], dtype=float
        )


def on_vectors(kernel):
    return clone(kernel).set_params(space=Sphere())


def field(X: np.ndarray) -> np.ndarray:
    U = vectors(X)
    return np.sin(3 * U[:, 0]) + U[:, 1] * U[:, 2]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_kernels_are_those_of_vectors(kernel) -> None:
    X, Y = places(30), places(11, seed=1)
    truth = on_vectors(kernel)
    np.testing.assert_allclose(kernel(X, Y), truth(vectors(X), vectors(Y)), rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(kernel.diag(X), truth.diag(vectors(X)))
    v = RNG.normal(size=(11, 2))
    np.testing.assert_allclose(kernel.matvec(X, Y, v), kernel(X, Y) @ v, atol=1e-12)
    if kernel.continuous():
        for ours_, theirs in zip(
            kernel(X, eval_gradient=True), truth(vectors(X), eval_gradient=True), strict=True
        ):
            np.testing.assert_allclose(ours_, theirs, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("make", [Heat, Matern, lambda space: Heat(space) + Cosine(space)])
def test_range_from_places(make) -> None:
    X = places(40)
    found, truth = make(GLOBE).scaled_to(X, 0.3), make(Sphere()).scaled_to(vectors(X), 0.3)
    np.testing.assert_allclose(found(X), truth(vectors(X)), atol=1e-6)


def test_embedding_is_exact() -> None:
    X = places(200)
    assert np.abs(GLOBE.check(X) - vectors(X)).max() < 4e-16
    assert np.abs(GLOBE.check(X.astype(np.float32)) - vectors(X.astype(np.float32))).max() < 3e-7
    assert GLOBE.check(X.astype(np.float32)).dtype == np.float32


def test_poles_and_date_line() -> None:
    north = np.column_stack([np.full(50, 90.0), np.linspace(-180, 360, 50)])
    np.testing.assert_array_equal(np.abs(GLOBE.check(north)), np.tile([0.0, 0.0, 1.0], (50, 1)))
    for pole in (north, north * [-1, 1]):
        assert np.all(Matern(GLOBE, nu=0.5, length_scale=0.01)(pole) == 1.0)
        assert np.all(GLOBE.distances(pole) == 0.0)
    same = [[10.0, 180.0], [10.0, -180.0]], [[-33.0, 0.0], [-33.0, 360.0]], [[5.0, -90.0], [5.0, 270.0]]
    for pair in same:
        assert np.all(GLOBE.distances(pair) == 0.0)
    across = GLOBE.distances([[0.0, 179.5]], [[0.0, -179.5]])
    np.testing.assert_allclose(across, np.radians(1.0), rtol=1e-13)
    np.testing.assert_allclose(GLOBE.distances([[90, 0]], [[-90, 123]]), np.pi, rtol=1e-15)


def haversine(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Great-circle distances with 60 digits."""

    def one(x, y) -> float:
        (a, b), (c, d) = ([mp.radians(mp.mpf(float(v))) for v in row] for row in (x, y))
        root = mp.sin((c - a) / 2) ** 2 + mp.cos(a) * mp.cos(c) * mp.sin((d - b) / 2) ** 2
        return float(2 * mp.asin(mp.sqrt(root)))

    with mp.workdps(60):
        return np.array([[one(x, y) for y in Y] for x in X])


def test_distances_against_the_haversine_formula() -> None:
    X, Y = places(25), places(8, seed=1)
    np.testing.assert_allclose(GLOBE.distances(X, Y), haversine(X, Y), atol=1e-15, rtol=1e-15)
    theirs = haversine_distances(np.radians(X), np.radians(Y))
    np.testing.assert_allclose(GLOBE.distances(X, Y), theirs, atol=1e-12)
    np.testing.assert_allclose(great_circle_km(X, Y), EARTH_RADIUS_KM * haversine(X, Y), rtol=1e-13)


@pytest.mark.parametrize("step", [1e-3, 1e-6, 1e-9, 1e-12])
def test_tiny_and_antipodal_distances(step: float) -> None:
    X = places(20) * [0.9, 1.0]
    # As far as the degrees themselves are known: a rounding of theirs is 5e-16 radians.
    near, far = X + step, np.column_stack([-X[:, 0] + step, (X[:, 1] + 180) % 360])
    for Y in (near, far):
        got, truth = GLOBE.distances(X, Y), haversine(X, Y)
        np.testing.assert_allclose(got, truth, atol=1e-15)
    # Vectors have all their digits, where the cosine has half of them.
    e, f = np.array([[1.0, 0.0, 0.0]]), np.array([[3.0, 3 * step, 0.0]])
    np.testing.assert_allclose(Sphere().distances(e, f), step, rtol=1e-6 if step > 1e-5 else 1e-12)
    np.testing.assert_allclose(np.pi - Sphere().distances(e, -f), step, rtol=1e-6, atol=1e-15)


def test_distances_of_vectors() -> None:
    X = RNG.normal(size=(12, 6)) * np.geomspace(1e-200, 1e200, 12)[:, None]
    D = Sphere().distances(X)
    np.testing.assert_array_equal(D, D.T)
    np.testing.assert_array_equal(np.diag(D), 0.0)
    np.testing.assert_allclose(np.cos(D), Cosine()(X), atol=1e-14)
    assert Sphere().distances(X[:1]).shape == (1, 1)
    X = places(9)[[0, 1, 2, 2, 1]]
    D = GLOBE.distances(X)
    np.testing.assert_array_equal(D, D.T)
    assert D[1, 4] == D[2, 3] == 0 < D[0, 1]
    x = torch.tensor(places(4), requires_grad=True)
    y = torch.as_tensor(places(3, seed=1))
    assert torch.autograd.gradcheck(lambda x: GLOBE.distances(x, y), (x,))
    assert torch.autograd.grad(GLOBE.distances(x).sum(), x)[0].isfinite().all()
    mixed = Sphere().distances(np.eye(3), sparse.eye(3, format="csr"))
    np.testing.assert_allclose(mixed, np.pi / 2 * (1 - np.eye(3)))
    with pytest.raises(ValueError, match="X has 3 columns, Y has 2"):
        Sphere().distances(np.eye(3), np.eye(2))


@pytest.mark.parametrize(("dtype", "metres", "error"), [(float, 0.1, 1e-12), (np.float32, 10.0, 0.1)])
def test_close_places_are_resolved(dtype: type, metres: float, error: float) -> None:
    """The guide to maps states these distances; tensors, whose cosines are rounded, resolve less."""
    step = metres / 1000 / EARTH_RADIUS_KM
    X = places(200).astype(dtype)
    Y = (X + np.degrees([step, 0.0])).astype(dtype)
    angle = np.diag(GLOBE.distances(X.astype(float), Y.astype(float)))
    values = np.diag(Heat(GLOBE, t=step**2 / 2)(X, Y))
    assert np.abs(values - np.exp(-(angle**2) / (2 * step**2))).max() < error


def test_kilometres() -> None:
    assert great_circle_km([[0.0, 0.0]], [[0.0, 90.0]])[0, 0] == pytest.approx(10007.557)
    # Radii of curvature of the ellipsoid are within 0.6 % of the mean radius.
    equatorial, polar = 6378.137, 6356.752314245
    for radius in (polar**2 / equatorial, equatorial**2 / polar, equatorial, polar):
        assert abs(radius / EARTH_RADIUS_KM - 1) < 0.006
    kernel = Matern(GLOBE, nu=2.5, length_scale=500 / EARTH_RADIUS_KM)
    degrees = np.degrees(np.array([100.0, 500.0, 2000.0]) / EARTH_RADIUS_KM)
    values = kernel([[0.0, 0.0]], np.column_stack([np.zeros(3), degrees]))[0]
    assert values[0] > 0.95
    assert 0.4 < values[1] < 0.7
    assert values[2] < 0.05


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[10.0, 5.0], [90.5, 5.0]], r"row 1 of X has a latitude .*latitude first, in degrees"),
        ([[139.7, 35.7]], r"row 0 of X has a latitude outside"),
        ([[10.0, 400.0], [0.0, -181.0]], r"row 0 of X \(and 1 more\) has a longitude outside -180..360"),
        ([[10.0, 5.0], [np.nan, 5.0]], r"row 1 of X contains NaN"),
        (np.eye(3), r"X has 3 columns, but Sphere\(coordinates='latlon'\) takes 2: latitude first"),
        ([[10.0]], "X has 1 columns"),
        (np.empty((0, 2)), "0 sample|no rows"),
    ],
)
def test_bad_rows(X, message: str) -> None:
    for call in (GLOBE.check, GLOBE.distances, Heat(GLOBE), Heat(GLOBE).diag):
        with pytest.raises(ValueError, match=message):
            call(X)
    with pytest.raises(ValueError, match=message):
        GLOBE.check(torch.as_tensor(np.asarray(X)))


def test_bad_rows_elsewhere() -> None:
    with pytest.raises(TypeError, match="X is sparse"):
        Heat(GLOBE)(sparse.csr_matrix(places(3)))
    with pytest.raises(ValueError, match="row 2 of Y has a latitude"):
        great_circle_km(places(3), [[0, 0], [1, 1], [91, 0]])
    with pytest.raises(ValueError, match="row 0 of X is all zeros"):
        Heat(Sphere())([[0.0, 0.0]])  # a place, but no direction
    assert Heat(GLOBE)([[0.0, 0.0]]) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"coordinates": "lonlat"}, "coordinates of Sphere must be one of"),
        ({"coordinates": "latlon", "n": 2}, "n = 3, got 2"),
        ({"coordinates": "latlon", "unit": True}, "unit"),
    ],
)
def test_bad_options(options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sphere(**options)
    with pytest.raises(TypeError):
        Simplex(coordinates="latlon")


def test_space_is_a_value() -> None:
    assert repr(GLOBE) == "Sphere(coordinates='latlon')"
    assert Sphere(3, coordinates="latlon") == GLOBE != Sphere(3)
    assert Sphere() == Sphere(coordinates="cartesian")
    assert len({GLOBE, Sphere(), Sphere(coordinates="cartesian")}) == 2
    assert pickle.loads(pickle.dumps(GLOBE)) == GLOBE
    assert GLOBE.n == 3
    assert clone(Heat(GLOBE)).space is GLOBE
    assert repr(Heat(GLOBE, t=0.1)) == "Heat(Sphere(coordinates='latlon'), t=0.1)"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_tensors(dtype) -> None:
    X = places(12)
    for kernel in (Heat(GLOBE, t=0.1), 2.0 * Matern(GLOBE, 1.5, length_scale=0.5) + 1.0):
        x, v = torch.as_tensor(X, dtype=dtype), torch.ones(12, dtype=dtype)
        K = kernel(x)
        assert K.dtype == dtype
        np.testing.assert_allclose(K.numpy(), kernel(X), atol=1e-9 if dtype is torch.float64 else 1e-4)
        np.testing.assert_allclose(kernel.matvec(x, None, v), K @ v, rtol=1e-5)
        np.testing.assert_allclose(kernel.matvec(x, x[:5], v[:5]), kernel(x, x[:5]) @ v[:5], rtol=1e-5)


def test_gradients_through_places() -> None:
    x = torch.tensor(np.vstack([places(4), [[0.0, 0.0], [89.0, 300.0]]]), requires_grad=True)
    y = torch.as_tensor(places(3, seed=1))
    for kernel in (Heat(GLOBE, t=0.1), Matern(GLOBE, nu=2.5, length_scale=0.5)):
        assert torch.autograd.gradcheck(lambda x, k=kernel: k(x, y), (x,), atol=1e-7)
    pole = torch.tensor([[90.0, 10.0]], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(Heat(GLOBE, t=0.1)(pole, y).sum(), pole)
    assert slope.isfinite().all()
    assert slope[0, 1] == 0


def test_exact_gaussian_process_and_searches() -> None:
    X = places(60)
    y = field(X) + 0.1 * np.random.default_rng(1).normal(size=60)
    gp = GaussianProcessRegressor(1.0 * Matern(GLOBE, nu=2.5, length_scale=0.5) + WhiteKernel(0.01))
    twin = GaussianProcessRegressor(1.0 * Matern(Sphere(), nu=2.5, length_scale=0.5) + WhiteKernel(0.01))
    new = places(10, seed=1)
    np.testing.assert_allclose(
        gp.fit(X, y).predict(new), twin.fit(vectors(X), y).predict(vectors(new)), atol=1e-4
    )
    grid = GridSearchCV(KernelRidge(kernel=Heat(GLOBE), alpha=1e-3), {"kernel__t": [0.01, 0.1]}, cv=3)
    assert grid.fit(X, y).best_score_ > 0.7
    kernels = [Heat(GLOBE, t=t) for t in (0.01, 0.1)] + [Cosine(GLOBE) + Matern(GLOBE, length_scale=0.5)]
    search = KernelSearchCV(kernels, estimator=KernelRidge(alpha=1e-3), cv=3).fit(X, y)
    assert search.score(X, y) > 0.9
    assert len(search.predict(new)) == 10


def test_comparison_and_report(tmp_path) -> None:
    X = places(60)
    families = {"heat": [Heat(GLOBE, t=t) for t in (0.03, 0.1)], "cosine": [Cosine(GLOBE)]}
    found = compare(X, field(X), kernels=families, folds=3)
    assert found.scores[0].name == "heat"
    assert found.scores[0].mean > 0.5
    write_report(found, "Places", tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_features_and_clouds() -> None:
    X = places(20)
    kernel = Heat(GLOBE, t=0.5)
    for fitted in (None, X):
        F = SpectralFeatures(kernel, n_components=64).fit(fitted).transform(X)
        np.testing.assert_allclose(F @ F.T, kernel(X), atol=1e-8)
    transformer = GramTransformer(kernel, normalize=True).fit(X)
    np.testing.assert_allclose(transformer.transform(X[:3]), kernel(X[:3], X), atol=1e-12)
    clouds = [X[:4], X[4:5], X[5:]]
    for base in (kernel, Cosine(GLOBE)):
        found = MeanEmbedding(base)(clouds)
        truth = [[base(a, b).mean() for b in clouds] for a in clouds]
        np.testing.assert_allclose(found, truth, atol=1e-12)


@pytest.mark.parametrize("kernel", [ours.Heat, ours.Matern, ours.ArcCosine])
def test_gpytorch(kernel) -> None:
    X = torch.as_tensor(places(6))
    U = torch.as_tensor(vectors(places(6)))
    options = {"length_scale": 0.5} if kernel is ours.Matern else {}
    got, truth = kernel(GLOBE, **options).double(), kernel(Sphere(), **options).double()
    with torch.no_grad():
        np.testing.assert_allclose(got(X).to_dense(), truth(U).to_dense(), atol=1e-7)
        np.testing.assert_allclose(got(X, diag=True), truth(U, diag=True), atol=1e-7)
        batch = X.reshape(2, 3, 2)
        np.testing.assert_allclose(got(batch, X).to_dense()[1], got(X).to_dense()[3:], atol=1e-7)


@pytest.mark.parametrize(("features", "optimize"), [("harmonics", True), ("inducing", False)])
def test_sparse_gaussian_process(features: str, optimize: bool) -> None:
    X, new = places(300), places(20, seed=1)
    y = field(X) + 0.05 * RNG.normal(size=300)
    options = {"max_features": 40, "features": features, "optimize": optimize}
    kernel = Matern(GLOBE, nu=2.5, length_scale=0.6)
    model = SphericalGPRegressor(kernel, **options).fit(X, y)
    twin = SphericalGPRegressor(on_vectors(kernel), **options).fit(vectors(X), y)
    assert model.n_features_in_ == 2
    assert model.elbo_ == pytest.approx(twin.elbo_, rel=1e-3, abs=0.1)
    # Places are found by a search, which roundings may lead another way.
    tolerance = 1e-6 if features == "harmonics" else 0.02
    for ask in ({"return_std": True}, {"return_cov": True}):
        for a, b in zip(model.predict(new, **ask), twin.predict(vectors(new), **ask), strict=True):
            np.testing.assert_allclose(a, b, atol=tolerance)
    assert model.sample_y(new, 3).shape == (20, 3)
    assert np.abs(model.predict(new) - field(new)).max() < 0.5
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(new), model.predict(new))
    with pytest.raises(ValueError, match="row 1 of X has a latitude"):
        model.predict([[0.0, 0.0], [100.0, 0.0]])


def test_sparse_gaussian_process_of_blocks(tmp_path) -> None:
    X = places(120)
    y = field(X)
    model = SphericalGPRegressor(Heat(GLOBE, t=0.1), max_features=40)
    whole = clone(model).fit(pd.DataFrame(X, columns=["lat", "lon"]), y)
    blocks = [(X[:50], y[:50]), (X[50:], y[50:])]
    for source in (blocks, iter(blocks)):
        assert clone(model).fit(source).elbo_ == pytest.approx(whole.elbo_, rel=1e-6)
    pd.DataFrame({"lat": X[:, 0], "lon": X[:, 1], "y": y}).to_parquet(
        tmp_path / "0.parquet", write_page_checksum=True
    )
    assert clone(model).fit(ParquetBlocks(tmp_path, "y")).elbo_ == pytest.approx(whole.elbo_, rel=1e-6)
    grown = clone(model).partial_fit(X[:50], y[:50]).partial_fit(X[50:], y[50:])
    assert grown.elbo_ == pytest.approx(whole.elbo_, rel=1e-3)
    whole.refit(Matern(GLOBE, nu=1.5, length_scale=0.5))
    with pytest.raises(ValueError, match="needs features other"):
        whole.refit(Heat(Sphere(), t=0.1))
    with pytest.raises(ValueError, match="row 1 of X of block 1 has a longitude outside"):
        clone(model).fit([blocks[0], ([[0.0, 0.0], [0.0, 999.0]], [0.0, 1.0])])
    for bad in (X[:, :1], np.column_stack([X, X[:, 0]])):
        with pytest.raises(ValueError, match="takes 2: latitude first"):
            clone(model).fit(bad, y)
    with pytest.raises(ValueError, match=r"use Sphere\(\) in place of Sphere\(coordinates='latlon'\)"):
        clone(model).set_params(inputs="table").fit(X, y)


def test_classifier() -> None:
    X = places(200)
    labels = np.where(X[:, 0] > 0, "north", "south")
    model = SphericalGPClassifier(Heat(GLOBE, t=0.1), max_features=36).fit(X, labels)
    assert (
        model.score(places(100, seed=1), np.where(places(100, seed=1)[:, 0] > 0, "north", "south")) > 0.9
    )
    flat = SphericalGPClassifier(ArcCosine(), max_features=36).fit(X, labels)  # two columns of a table
    assert flat.features_.inputs.is_table
