"""Features at learnt inducing points: gradients, the dense model, sources of rows, odd tables."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import make_friedman1
from sklearn.utils.estimator_checks import check_estimator

from mercer.gp import ParquetBlocks, SphericalGPRegressor
from mercer.gp.inducing.features import JITTER, InducingFeatures, ZonalFunction
from mercer.gp.inducing.search import InducingEvidence, congruent
from mercer.gp.input_map import InputMap
from mercer.kernels import ArcCosine, AxialHeat, Heat, Matern
from mercer.rows import ArrayRows
from mercer.rows.blocks import Block, drawn
from mercer.rows.moments import Moments
from mercer.spaces import Simplex, Sphere
from tests.helpers.processes import evidence, mapped, table, write

RNG = np.random.default_rng(0)
KERNELS = [
    Heat(Sphere(), t=0.1),
    Heat(Sphere(), t=0.1, normalized=False),
    AxialHeat(Sphere()),
    Matern(Sphere(), nu=2.5, length_scale=0.4),
    Matern(Sphere(), nu=0.5, length_scale=0.4, normalized=False),
    ArcCosine(),
    ArcCosine(order=2, depth=2),
    ArcCosine(normalized=True),
]


def task_of(kernel, table_rows: bool, scaled: bool, weight=None, rows: int = 60) -> InducingEvidence:
    """The bound of a few rows with two targets."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(rows, 3))
    y = np.column_stack([np.sin(X[:, 0]), X[:, 1] ** 2]) + 0.1 * rng.normal(size=(rows, 2))
    block = Block(np.abs(X) if kernel.space == Simplex() else X, y, weight)
    moments = Moments.of(block)
    of_table = InputMap(Sphere(), 1.3, moments.mean, moments.scale)
    inputs = of_table if table_rows else InputMap(kernel.space)
    return InducingEvidence(inputs, kernel, block, scaled, np.array([1.0, 2.0, 0.5]))


def start(task: InducingEvidence, points: int = 9):
    own = np.concatenate([[0.2, -2.0], task.kernel.theta])
    return task.theta(np.array([0.7, 0.5, 1.4]), own, task.ambient[:points, :3] + 0.1)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("kernel", "table_rows", "scaled"),
    [(kernel, True, i % 2 == 0) for i, kernel in enumerate(KERNELS)]
    + [(ArcCosine(), True, False), (Heat(Sphere(), t=0.1), False, False)]
    + [(Heat(Simplex(), t=0.1), False, False), (Matern(Simplex(), 1.5), False, False)],
    ids=repr,
)
def test_gradient_against_differences(kernel, table_rows, scaled, weighted: bool) -> None:
    task = task_of(kernel, table_rows, scaled, RNG.uniform(size=60) if weighted else None)
    theta = start(task)
    gradient = task.value_and_gradient(theta)[1]
    for i, move in enumerate(1e-5 * np.eye(len(theta))):
        ends = [task.value_and_gradient(t)[0] for t in (theta + move, theta - move)]
        assert gradient[i] == pytest.approx(
            (ends[0] - ends[1]) / 2e-5, abs=1e-5 * np.abs(gradient).max()
        )


def test_more_rows_than_a_tile_and_more_points_than_a_strip() -> None:
    task = task_of(Heat(Sphere(), t=0.05), True, True, rows=1500)
    theta = start(task, 150)
    gradient = task.value_and_gradient(theta)[1]
    for i in (0, 2, 3, 4, 5, 200, len(theta) - 1):
        move = np.zeros_like(theta)
        move[i] = 1e-5
        ends = [task.value_and_gradient(t)[0] for t in (theta + move, theta - move)]
        assert gradient[i] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-2)


def test_weights_count_rows() -> None:
    once = task_of(Heat(Sphere(), t=0.1), True, True)
    rows = once.rows
    counts = np.arange(60) % 3
    weighted = InducingEvidence(
        once.inputs, once.kernel, Block(rows.X, rows.y, counts.astype(float)), True, once.units
    )
    repeated = InducingEvidence(
        once.inputs, once.kernel, rows.take(np.repeat(np.arange(60), counts)), True, once.units
    )
    theta = start(once)
    for a, b in zip(weighted.value_and_gradient(theta), repeated.value_and_gradient(theta), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", [1, 5, 128, 300])
def test_congruent_matrices(size: int) -> None:
    lower, matrix = np.tril(RNG.normal(size=(size, size))), RNG.normal(size=(size, size))
    matrix = matrix + matrix.T
    np.testing.assert_allclose(congruent(lower, matrix), lower.T @ matrix @ lower, atol=1e-9 * size)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("m", [12, 90])  # all rows are inducing points, and few are
def test_posterior_is_that_of_the_dense_model(kernel, m: int) -> None:
    X, y = table(m)
    model = SphericalGPRegressor(
        kernel, inputs="table", features="inducing", max_features=20, optimize=False, amplitude=1.7,
        noise=0.05,
    ).fit(X, y)  # fmt: skip
    points, new = model.features_.points, table(15, seed=1)[0]
    assert model.kernel_.space == kernel.space
    rows, fresh = mapped(model, X), mapped(model, new)
    total = kernel.diag(points[:1])[0]
    inner = np.linalg.inv(kernel(points) + JITTER * total * np.eye(len(points)))
    Q = 1.7 * kernel(rows, points) @ inner @ kernel(points, rows)
    star = 1.7 * kernel(fresh, points) @ inner @ kernel(points, rows)
    scale, mean = y.std(), y.mean()
    z = (y - mean) / scale
    S = np.linalg.inv(Q + 0.05 * np.eye(m))
    covariance = 1.7 * kernel(fresh) - star @ S @ star.T
    got_mean, got_std = model.predict(new, return_std=True)
    np.testing.assert_allclose(got_mean, mean + scale * star @ S @ z, atol=1e-8)
    np.testing.assert_allclose(got_std, scale * np.sqrt(np.diag(covariance) + 0.05), atol=1e-8)
    got = model.predict(new, return_cov=True, include_noise=False)[1]
    np.testing.assert_allclose(got, scale**2 * covariance, atol=1e-8)
    trace = 1.7 * kernel.diag(rows).sum() - np.trace(Q)
    bound = evidence(Q, 0.05, z) - trace / 0.1 - m * np.log(scale)
    # A kernel with a cusp magnifies the rounding of the cosine where a row is an inducing point.
    rough = kernel.get_params().get("nu") == 0.5
    assert model.elbo_ == pytest.approx(bound, abs=1e-5 if rough else 1e-7)
    exact = evidence(1.7 * kernel(rows), 0.05, z) - m * np.log(scale)
    assert model.elbo_ <= exact + 1e-7
    if m == 12:  # what is left is the jitter, times high powers of |x| for one of the kernels
        assert model.elbo_ > exact - (1.0 if kernel.get_params().get("depth") == 2 else 0.01)


def bump(m: int, seed: int = 0):
    """A narrow bump where most rows are, and columns that do not matter."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 4))
    return X, np.exp(-4 * (X[:, 0] ** 2 + X[:, 1] ** 2)) + 0.02 * rng.normal(size=m)


def test_inducing_points_reach_further_than_harmonics() -> None:
    X, y = bump(1000)
    new, truth = bump(500, seed=1)
    kernel = Matern(Sphere(), nu=2.5, length_scale=0.2)
    options = {"inputs": "table", "max_features": 60, "ard": True}
    inducing = SphericalGPRegressor(kernel, features="inducing", **options).fit(X, y)
    harmonic = SphericalGPRegressor(AxialHeat(Sphere()), **options).fit(X, y)
    assert inducing.elbo_ > harmonic.elbo_ + 100
    assert inducing.score(new, truth) > max(0.95, harmonic.score(new, truth))
    assert inducing.input_scales_[:2].min() > 2 * inducing.input_scales_[2:].max()
    assert inducing.features_.size == 60
    again = SphericalGPRegressor(kernel, features="inducing", **options).fit(X, y)
    np.testing.assert_array_equal(again.predict(new), inducing.predict(new))


@pytest.mark.parametrize("length", [0.02, 1.0, 50.0])
def test_the_search_begins_anywhere(length: float) -> None:
    # From a long or a short range alone the way would lead to noise.
    X, y = make_friedman1(400, noise=1.0, random_state=0)
    options = {"inputs": "table", "features": "inducing", "max_features": 50}
    model = SphericalGPRegressor(Matern(Sphere(), nu=2.5, length_scale=length), **options)
    assert model.fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.75


def test_scales_make_up_for_the_bias_and_for_wide_kernels() -> None:
    X, y = bump(400)
    bounds = []
    for bias, length in ((1.0, 0.2), (1e-3, 0.2), (1e4, 0.2), (1.0, 1.0), (1.0, 30.0)):
        options = {"inputs": "table", "features": "inducing", "max_features": 40, "bias": bias}
        kernel = Matern(Sphere(), nu=2.5, length_scale=length)
        bounds.append(SphericalGPRegressor(kernel, ard=True, **options).fit(X, y).elbo_)
    np.testing.assert_allclose(bounds[1:3], bounds[0], rtol=1e-3)
    np.testing.assert_allclose(bounds[3:], bounds[0], rtol=0.1)
    assert bounds[3] == bounds[4]


def test_widths_and_the_floor_of_scales() -> None:
    # exp(-angle^2 / 4 t) falls to half at sqrt(4 t log 2), where the sphere is nearly flat.
    width = ZonalFunction.of(Heat(Sphere(), t=1e-3), 5).width
    assert width == pytest.approx(np.sqrt(4e-3 * np.log(2)), rel=0.03)
    X, y = bump(800)
    options = {"inputs": "table", "features": "inducing", "max_features": 40, "bias": 2.0, "ard": True}
    model = SphericalGPRegressor(Heat(Sphere(), t=1e-3), **options).fit(X, y)
    np.testing.assert_allclose(model.input_scales_[2:], 0.3 * 2.0 * width / np.sqrt(4), rtol=1e-6)


def test_samples_are_of_rows_that_count() -> None:
    rng = np.random.default_rng(0)
    X, y = bump(5000)
    weight = np.zeros(5000)
    weight[rng.choice(5000, 300, replace=False)] = 2.0
    sample = ArrayRows(X, y, weight).sample(0)
    np.testing.assert_array_equal(sample.X, X[weight > 0])
    parts = [Block(X[i : i + 700], y[i : i + 700], weight[i : i + 700]) for i in range(0, 5000, 700)]
    np.testing.assert_array_equal(drawn(parts, 400, 0).X, X[weight > 0])
    few, keys = drawn(parts, 60, 0), np.random.default_rng(0).random(300)
    assert few.X.shape == (60, 4)
    assert (few.weight == 2.0).all()
    # Rows of all parts are as likely, in their order.
    positions = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in few.X]
    assert positions == sorted(positions)
    assert 1800 < np.mean(positions) < 3200
    np.testing.assert_array_equal(few.X, X[weight > 0][np.sort(np.argsort(keys)[:60])])


def test_hyperparameters_without_scales() -> None:
    X, y = bump(600)
    model = SphericalGPRegressor(
        Heat(Sphere(), t=3.0), inputs="table", features="inducing", max_features=80
    )
    model.fit(X[:, :2], y)
    assert model.kernel_.t < 0.3  # far from where it began
    assert not hasattr(model, "input_scales_")
    assert model.kernel_.theta.size == 0  # features are made of it
    assert model.score(X[:, :2], y) > 0.9


def test_directions_and_counts() -> None:
    X = RNG.normal(size=(400, 4))
    U = X / np.linalg.norm(X, axis=1, keepdims=True)
    y = np.exp(4 * U[:, 0]) / 10 + 0.05 * RNG.normal(size=400)
    model = SphericalGPRegressor(Heat(Sphere()), features="inducing", max_features=30)
    model.fit(X[:300], y[:300])
    assert model.score(X[300:], y[300:]) > 0.95
    np.testing.assert_allclose(model.predict(5 * X[:9]), model.predict(X[:9]))
    counts = RNG.poisson(3, size=(300, 6)) + np.eye(6, dtype=int)[RNG.integers(6, size=300)]
    shares = counts / counts.sum(axis=1, keepdims=True)
    z = np.sqrt(shares[:, 0]) + shares[:, 1]
    options = {"features": "inducing", "max_features": 40}
    dense = SphericalGPRegressor(Heat(Simplex()), **options).fit(counts, z)
    thin = SphericalGPRegressor(Heat(Simplex()), **options).fit(
        sparse.csr_array(counts.astype(float)), z
    )
    np.testing.assert_allclose(thin.predict(counts), dense.predict(counts), rtol=1e-9)
    assert dense.score(counts, z) > 0.98
    _, std = dense.predict(counts[:20], return_std=True)
    covariance = dense.predict(counts[:20], return_cov=True)[1]
    np.testing.assert_allclose(np.diag(covariance), std**2, rtol=1e-8)


def test_other_sources_of_rows(tmp_path) -> None:
    X, y = bump(700)
    X = X[:, :3]
    options = {"inputs": "table", "features": "inducing", "max_features": 30, "ard": True}
    kernel = Heat(Sphere(), t=0.05)
    whole = SphericalGPRegressor(kernel, **options).fit(X, y)
    write(tmp_path, X, y)
    blocks = [(X[i : i + 100], y[i : i + 100]) for i in range(0, 700, 100)]
    for source in (ParquetBlocks(tmp_path, target="y", rows=90), blocks):
        model = SphericalGPRegressor(kernel, **options).fit(source)
        rows = pd.DataFrame(X, columns=list("abc")) if isinstance(source, ParquetBlocks) else X
        np.testing.assert_allclose(model.predict(rows), whole.predict(X), atol=1e-6)
    with pytest.warns(
        UserWarning, match="only 20 inducing points for max_features=30; begin with more rows"
    ):
        SphericalGPRegressor(kernel, **options).partial_fit(X[:20], y[:20])
    part = SphericalGPRegressor(kernel, **options).partial_fit(X[:400], y[:400])
    points = part.features_.points
    part.partial_fit(X[400:], y[400:])
    assert part.features_.points is points
    assert part.statistics_.rows == 700
    assert part.score(X, y) > whole.score(X, y) - 0.05


def test_dask_and_checkpoints(tmp_path, monkeypatch) -> None:
    da = pytest.importorskip("dask.array")
    X, y = bump(600)
    model = SphericalGPRegressor(
        Heat(Sphere(), t=0.05), inputs="table", features="inducing", max_features=30
    )
    whole = model.fit(X, y).predict(X)
    model.fit(da.from_array(X, chunks=(150, 4)), da.from_array(y, chunks=150))
    np.testing.assert_allclose(model.predict(X), whole, atol=1e-6)
    usual, calls = InducingFeatures.write, []

    def stops(self, rows, out):
        if len(self.points) == 30 and self.kernel.theta.size == 0 and len(calls) < 1:
            calls.append(1)
            raise KeyboardInterrupt
        return usual(self, rows, out)

    monkeypatch.setattr("mercer.rows.checkpoint.PERIOD", 0.0)
    monkeypatch.setattr(InducingFeatures, "write", stops)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y, checkpoint=tmp_path / "sums")
    # Inducing points were found before the pass that was stopped, and are not looked for again.
    monkeypatch.setattr("mercer.gp.inducing.search.learn_inducing_points", None)
    np.testing.assert_allclose(
        model.fit(X, y, checkpoint=tmp_path / "sums").predict(X), whole, atol=1e-9
    )


# Some versions of the checks begin with few rows.
@pytest.mark.filterwarnings(
    "ignore:the first rows have only:UserWarning", "ignore:noise alone was found"
)
def test_works_as_a_scikit_learn_estimator() -> None:
    check_estimator(SphericalGPRegressor(features="inducing", max_features=15), on_skip=None)


@pytest.mark.parametrize("ard", [False, True])
def test_odd_tables(ard: bool) -> None:
    X, y = table(30)
    for rows, targets in (
        (X[:1], y[:1]),
        (X[[0, 0, 0]], y[:3]),
        (X, np.ones(30)),
        (np.column_stack([X, np.full(30, 7.0), X[:, 0]]), y),
        (np.repeat(X, 5, axis=0), np.repeat(y, 5)),
        (X[:, :1], np.column_stack([y, -y, y**2])),
    ):
        model = SphericalGPRegressor(features="inducing", max_features=20, ard=ard).fit(rows, targets)
        assert model.features_.size <= 20
        for found in model.predict(rows, return_std=True):
            assert found.shape == targets.shape
            assert np.isfinite(found).all()
        assert np.isfinite(model.sample_y(rows, 2)).all()


def test_bad_input_is_refused() -> None:
    X, y = table(30)
    with pytest.raises(ValueError, match="features must be 'harmonics' or 'inducing', got 'random'"):
        SphericalGPRegressor(features="random").fit(X, y)
    with pytest.raises(ValueError, match="levels is for harmonics"):
        SphericalGPRegressor(features="inducing", levels=3).fit(X, y)
    with pytest.raises(ValueError, match="ard scales the columns"):
        SphericalGPRegressor(Heat(Sphere()), features="inducing", ard=True).fit(X, y)
    for kernel in (Heat(Sphere()), ArcCosine()):
        broken = SphericalGPRegressor(kernel, inputs="points", features="inducing")
        with pytest.raises(ValueError, match="row 7 of X is all zeros"):
            broken.fit(np.where(np.arange(30)[:, None] == 7, 0.0, X), y)
        with pytest.raises(ValueError, match="are zero; give some rows a positive weight"):
            broken.fit([(X, y, np.zeros(30))])
    model = SphericalGPRegressor(features="inducing", max_features=10).fit(X, y)
    with pytest.raises(ValueError, match="inducing points belong to their kernel; call fit"):
        model.refit(ArcCosine(order=2))
    before = model.elbo_
    assert model.refit(noise=0.5, optimize=False).elbo_ < before
    assert model.noise_ == 0.5
