"""Regression by spherical harmonics against dense computations, exact bounds and simulations."""

import pickle
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from mercer.gp import ParquetBlocks, SphericalGPClassifier, SphericalGPRegressor
from mercer.harmonics import SphericalHarmonics, multiplicity
from mercer.kernels import ArcCosine, AxialHeat, Gaussian, Heat, Matern, Spectral
from mercer.spaces import Projective, Simplex, Sphere
from tests.helpers.processes import evidence, mapped, table

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(60, 3))
TARGETS = np.sin(ROWS[:, 0]) + 0.1 * RNG.normal(size=60)
KERNELS = [
    ArcCosine(),
    ArcCosine(order=2, normalized=True),
    ArcCosine(order=0),
    ArcCosine(order=1, depth=2),
    Heat(Sphere(), t_star=0.5),
    Heat(Sphere(), t=0.3, normalized=False),
    AxialHeat(Sphere(), t_star=0.7),
    Matern(Sphere(), nu=1.5, length_scale=0.7),
    Matern(Sphere(), nu=2.5, length_scale=0.7, normalized=False),
    Spectral(Sphere(), weights=[0.5, 0.2, 0.1, 0.05]),
]


def dense(model: SphericalGPRegressor, X: np.ndarray) -> np.ndarray:
    """The features of rows, by hand."""
    Z = mapped(model, X)
    lengths = np.linalg.norm(Z, axis=1, keepdims=True)
    return model.features_.harmonics(Z) * lengths**model.features_.power


@cache
def legendre(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss's quadrature, which take seconds."""
    return np.polynomial.legendre.leggauss(size)


def integrals(kernel, levels) -> np.ndarray:
    """Weights of a kernel on levels of the sphere in four dimensions, ``E[s P_l]``, by quadrature.

    The kernel is a function s of the angle, with the density ``2 sin(angle)^2 / pi``, and the zonal
    polynomials are ``P_l = sin((l + 1) angle) / ((l + 1) sin(angle))``.
    """
    nodes, measure = legendre(2000)
    angle, measure = np.pi * (nodes + 1) / 2, np.pi / 2 * measure
    circle = np.column_stack([np.cos(angle), np.sin(angle), 0 * angle, 0 * angle])
    s = kernel(np.eye(1, 4), circle)[0]
    times = np.asarray(levels)[:, None] + 1
    return (np.sin(times * angle) / times * np.sin(angle)) @ (s * measure) * 2 / np.pi


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("m", [12, 90])  # fewer rows than features, and more
def test_posterior_is_that_of_the_dense_model(kernel, m: int) -> None:
    X, y = table(m)
    model = SphericalGPRegressor(
        kernel, inputs="table", max_features=40, optimize=False, amplitude=1.7, noise=0.05
    ).fit(X, y)
    phi, new = dense(model, X), table(15, seed=1)[0]
    harmonics = model.features_.harmonics
    A = 1.7 * np.repeat(integrals(kernel, harmonics.level_numbers), harmonics.counts)
    Q = (phi * A) @ phi.T
    scale, mean = y.std(), y.mean()
    z = (y - mean) / scale
    S = np.linalg.inv(Q + 0.05 * np.eye(m))
    star = (dense(model, new) * A) @ phi.T
    K = 1.7 * kernel(mapped(model, new))
    covariance = K - star @ S @ star.T
    expected = mean + scale * star @ S @ z
    std = scale * np.sqrt(np.diag(covariance) + 0.05)
    got_mean, got_std = model.predict(new, return_std=True)
    np.testing.assert_allclose(model.predict(new), expected, atol=1e-8)
    np.testing.assert_allclose(got_mean, expected, atol=1e-8)
    np.testing.assert_allclose(got_std, std, atol=1e-8)
    got = model.predict(new, return_cov=True, include_noise=False)[1]
    np.testing.assert_allclose(got, scale**2 * covariance, atol=1e-8)
    trace = 1.7 * kernel.diag(mapped(model, X)).sum() - np.trace(Q)
    bound = evidence(Q, 0.05, z) - trace / 0.1 - m * np.log(scale)
    assert model.elbo_ == pytest.approx(bound, abs=1e-7)
    assert model.log_marginal_likelihood() == pytest.approx(bound, abs=1e-7)


@pytest.mark.parametrize("kernel", KERNELS[:1] + KERNELS[4:9], ids=repr)
def test_bound_rises_to_the_exact_evidence(kernel) -> None:
    X, y = table(60, d=2)
    exact, before = None, -np.inf
    for levels in (2, 4, 8, 16):
        model = SphericalGPRegressor(
            kernel, inputs="table", levels=levels, max_features=300, optimize=False, normalize_y=False
        ).fit(X, y)
        if exact is None:
            exact = evidence(kernel(mapped(model, X)), 0.1, y)
        assert before <= model.elbo_ + 1e-7
        assert model.elbo_ <= exact + 1e-7
        before = model.elbo_
    assert exact - before < (1e-6 if isinstance(kernel, Heat | AxialHeat) else 1.0)


def test_agrees_with_the_exact_gp_of_scikit_learn() -> None:
    X, y = table(100, d=2)
    model = SphericalGPRegressor(Heat(Sphere()), inputs="table", max_features=225).fit(X, y)
    full = ConstantKernel(1.0, (1e-6, 1e9)) * Heat(Sphere()) + WhiteKernel(0.1)
    Z = mapped(model, X)
    exact = GaussianProcessRegressor(full, normalize_y=True)
    exact.fit(Z, y)
    theirs = exact.log_marginal_likelihood_value_ - len(y) * np.log(y.std())
    assert model.elbo_ == pytest.approx(theirs, abs=0.05)
    new = table(40, d=2, seed=1)[0]
    mean, std = exact.predict(mapped(model, new), return_std=True)
    got = model.predict(new, return_std=True)
    assert np.abs(got[0] - mean).max() < 0.02
    assert np.abs(got[1] / std - 1).max() < 0.05


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("budget", [11, 17, 60])
def test_gradient(kernel, budget: int) -> None:
    X, y = table(50)
    targets = np.column_stack([y, y**2])
    model = SphericalGPRegressor(kernel, inputs="table", max_features=budget, optimize=False)
    model.fit(X, targets)
    theta = model.theta_ + 0.1
    value, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
    assert value == pytest.approx(model.log_marginal_likelihood(theta), abs=1e-9)
    step = 1e-5
    for i, direction in enumerate(np.eye(len(theta))):
        ends = [model.log_marginal_likelihood(theta + s * step * direction) for s in (1, -1)]
        assert gradient[i] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-4)


def test_optimum_is_one() -> None:
    X, y = table(300)
    for kernel in (ArcCosine(), Matern(Sphere(), 1.5), Heat(Sphere())):
        model = SphericalGPRegressor(kernel, inputs="table", max_features=100).fit(X, y)
        _, gradient = model.log_marginal_likelihood(eval_gradient=True)
        inside = (model.theta_ > model._evidence.bounds[:, 0] + 1e-6) & (
            model.theta_ < model._evidence.bounds[:, 1] - 1e-6
        )
        assert np.abs(gradient[inside]).max() < 1.0  # nats by a factor e, of 300 rows
        for seed in range(5):
            move = np.random.default_rng(seed).normal(size=len(model.theta_)) * 0.3
            assert model.log_marginal_likelihood(model.theta_ + move) <= model.elbo_ + 1e-3


def test_intervals_cover_what_they_say() -> None:
    # A draw of the model itself, with hyperparameters found from the data.
    rng = np.random.default_rng(3)
    harmonics = SphericalHarmonics(4, 5)
    weights = Heat(Sphere(), t=0.1).level_weights(4, range(5)).weights
    X = rng.normal(size=(4000, 4))
    f = harmonics(X) @ (
        rng.normal(size=harmonics.n_features) * np.sqrt(np.repeat(weights, harmonics.counts))
    )
    y = f + 0.3 * rng.normal(size=4000)
    model = SphericalGPRegressor(Heat(Sphere()), max_features=140).fit(X[:800], y[:800])
    mean, std = model.predict(X[800:], return_std=True)
    assert 0.92 < (np.abs(y[800:] - mean) < 1.96 * std).mean() < 0.97
    mean, std = model.predict(X[800:], return_std=True, include_noise=False)
    assert 0.90 < (np.abs(f[800:] - mean) < 1.96 * std).mean() < 0.98
    assert np.sqrt(model.noise_) * y[:800].std() == pytest.approx(0.3, rel=0.1)


@pytest.mark.parametrize("form", [np.asarray, pd.DataFrame, sparse.csr_matrix, lambda X: X.astype("f4")])
def test_forms_of_rows(form) -> None:
    X, y = table(80)
    plain = SphericalGPRegressor(max_features=30).fit(X.astype("f4"), y)
    model = SphericalGPRegressor(max_features=30).fit(form(X.astype("f4")), y)
    np.testing.assert_allclose(
        model.predict(form(X[:9].astype("f4"))), plain.predict(X[:9].astype("f4")), rtol=1e-6
    )


def test_blocks_files_and_memory_maps_give_the_same_answer(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("mercer.rows.arrays.ROWS", 64)
    X, y = table(300)
    y = y + 1e4
    whole = SphericalGPRegressor(max_features=50).fit(X, y)
    mapped = np.lib.format.open_memmap(tmp_path / "X.npy", mode="w+", dtype="f8", shape=X.shape)
    mapped[:] = X
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=y)
    for i, part in enumerate(np.array_split(np.arange(300), 3)):
        frame.iloc[part].to_parquet(tmp_path / f"{i}.parquet")
    pairs = [(X[i : i + 37], y[i : i + 37]) for i in range(0, 300, 37)]
    others = [
        SphericalGPRegressor(max_features=50).fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y),
        SphericalGPRegressor(max_features=50).fit(pairs),
        SphericalGPRegressor(max_features=50).fit(ParquetBlocks(tmp_path, target="y", rows=41)),
        SphericalGPRegressor(max_features=50).fit(
            ParquetBlocks(str(tmp_path / "0.parquet"), target="y", columns=["a", "b", "c"])
        ),
    ]
    expected = whole.predict(X[:20], return_std=True)
    named = pd.DataFrame(X[:20], columns=["a", "b", "c"])
    for model, rows in zip(others[:3], (X[:20], X[:20], named), strict=True):
        assert model.statistics_.rows == 300
        np.testing.assert_allclose(model.statistics_.gram, whole.statistics_.gram, atol=1e-9)
        # The optimum is flat: hyperparameters are the same to fewer digits than statistics.
        np.testing.assert_allclose(model.predict(rows, return_std=True), expected, rtol=1e-6)
    assert others[3].statistics_.rows == 100


def test_iterators_take_the_scaling_from_the_first_block() -> None:
    X, y = table(400)
    model = SphericalGPRegressor(max_features=50)
    model.fit((X[i : i + 100], y[i : i + 100]) for i in range(0, 400, 100))
    assert model.statistics_.rows == 400
    np.testing.assert_allclose(model.features_.inputs.mean, X[:100].mean(axis=0))
    again = SphericalGPRegressor(max_features=50).fit(X[:100], y[:100])
    for i in range(100, 400, 100):
        again.partial_fit(X[i : i + 100], y[i : i + 100])
    np.testing.assert_allclose(again.statistics_.gram, model.statistics_.gram, rtol=1e-10)
    np.testing.assert_allclose(again.predict(X), model.predict(X), atol=1e-3)


def test_weights_count_rows() -> None:
    X, y = table(60)
    often = np.random.default_rng(0).integers(0, 4, size=60)
    weighted = SphericalGPRegressor(max_features=30).fit(X, y, sample_weight=often)
    repeated = SphericalGPRegressor(max_features=30).fit(
        np.repeat(X, often, axis=0), np.repeat(y, often)
    )
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-5)
    assert weighted.elbo_ == pytest.approx(repeated.elbo_, abs=1e-5)


def test_several_outputs() -> None:
    X, y = table(120)
    Y = np.column_stack([y, -3 * y + 7])
    both = SphericalGPRegressor(max_features=50).fit(X, Y)
    one = SphericalGPRegressor(max_features=50).fit(X, y)
    mean, std = both.predict(X[:7], return_std=True)
    assert mean.shape == std.shape == (7, 2)
    np.testing.assert_allclose(mean[:, 1], -3 * mean[:, 0] + 7)
    np.testing.assert_allclose(mean[:, 0], one.predict(X[:7]), atol=1e-3)
    np.testing.assert_allclose(std[:, 1], 3 * std[:, 0])
    assert both.predict(X[:7], return_cov=True)[1].shape == (7, 7, 2)
    assert both.sample_y(X[:7], 3).shape == (7, 2, 3)


def test_samples_have_the_predicted_moments() -> None:
    X, y = table(60)
    model = SphericalGPRegressor(max_features=40).fit(X, y)
    new = table(6, seed=2)[0]
    mean, covariance = model.predict(new, return_cov=True, include_noise=False)
    draws = model.sample_y(new, 20_000)
    spread = np.sqrt(np.diag(covariance))
    assert np.abs((draws.mean(axis=1) - mean) / spread).max() < 0.03
    assert np.abs((np.cov(draws) - covariance) / np.outer(spread, spread)).max() < 0.05
    noisy = model.sample_y(new, 20_000, include_noise=True).std(axis=1)
    np.testing.assert_allclose(noisy, model.predict(new, return_std=True)[1], rtol=0.03)


def test_counts_on_the_simplex() -> None:
    rng = np.random.default_rng(0)
    counts = (
        rng.poisson(rng.gamma(1.0, size=(300, 6)) * 8) + np.eye(6, dtype=int)[rng.integers(6, size=300)]
    )
    y = np.sqrt(counts[:, 0] / counts.sum(axis=1)) + 0.05 * rng.normal(size=300)
    model = SphericalGPRegressor(Heat(Simplex()), max_features=100).fit(
        sparse.csr_matrix(counts[:200]), y[:200]
    )
    assert model.score(counts[200:], y[200:]) > 0.9
    np.testing.assert_allclose(model.predict(7 * counts[:5]), model.predict(counts[:5]))
    with pytest.raises(ValueError, match=r"row 1 of X .* is all zeros"):
        model.predict(np.zeros((3, 6)) + np.array([[1], [0], [0]]))


@pytest.mark.filterwarnings("ignore:the Gram matrix:mercer.exceptions.DegenerateKernelWarning")
@pytest.mark.filterwarnings(
    "ignore:the optimal value found for amplitude", "ignore:noise alone was found"
)
@pytest.mark.parametrize("kernel", [ArcCosine(), Heat(Sphere()), Matern(Sphere(), 2.5)], ids=repr)
def test_extreme_data(kernel) -> None:
    def fit(X, y):
        return SphericalGPRegressor(kernel, inputs="table", max_features=60).fit(X, y)

    X, y = table(40)
    for constant in (0.0, 3.0, 1e8):
        model = fit(X, np.full(40, constant))
        mean, std = model.predict(X, return_std=True)
        np.testing.assert_allclose(mean, constant, rtol=1e-9, atol=1e-9)
        assert np.isfinite(std).all()
    one = fit(X[:1], y[:1])
    np.testing.assert_allclose(one.predict(X[:2]), y[0])
    assert (one.predict(X, return_std=True)[1] > 0).all()
    duplicated = fit(np.repeat(X, 5, axis=0), np.repeat(y, 5))
    assert np.abs(duplicated.predict(X) - y).max() < 0.5
    collinear = fit(np.column_stack([X, X[:, :1] * 2 - X[:, 1:2], np.ones(40)]), y)
    assert (
        np.abs(collinear.predict(np.column_stack([X, X[:, :1] * 2 - X[:, 1:2], np.ones(40)])) - y).max()
        < 1
    )
    for scale in (1e-150, 1e150):
        scaled = fit(X * scale, y)
        np.testing.assert_allclose(scaled.predict(X * scale), fit(X, y).predict(X), rtol=1e-3, atol=1e-3)
    for scale in (1e-100, 1e100):
        scaled = fit(X, y * scale)
        np.testing.assert_allclose(scaled.predict(X) / scale, fit(X, y).predict(X), rtol=1e-3, atol=1e-3)
    with pytest.raises(ValueError, match="rescale it"):
        fit(X, y * 1e-200)


@pytest.mark.filterwarnings("ignore:noise alone was found")
def test_works_as_a_scikit_learn_estimator() -> None:
    check_estimator(SphericalGPRegressor(max_features=10, n_restarts=0), on_skip=None)
    X, y = table(200)
    assert cross_val_score(SphericalGPRegressor(max_features=60), X, y, cv=3).mean() > 0.9
    model = clone(SphericalGPRegressor(Heat(Sphere()), max_features=60)).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"kernel": Gaussian()}, TypeError, "kernel must be ArcCosine"),
        ({"kernel": "rbf"}, TypeError, r"the kernel must be ArcCosine, or Heat, .*got 'rbf'"),
        ({"kernel": Heat(Sphere(), t=-1.0)}, ValueError, "t of Heat"),
        ({"max_features": 0}, ValueError, "max_features must be"),
        ({"levels": 0}, ValueError, "levels must be"),
        ({"inputs": "rows"}, ValueError, "inputs must be"),
        ({"kernel": Heat(Simplex()), "inputs": "table"}, ValueError, "use Sphere"),
        ({"bias": 0.0}, ValueError, "bias must be"),
        ({"noise": -1.0}, ValueError, "noise must be"),
        ({"amplitude": "x"}, ValueError, "amplitude must be"),
        ({"n_restarts": 0.5}, ValueError, "n_restarts must be"),
        ({"random_state": None}, ValueError, "random_state must be"),
    ],
)
def test_bad_parameters(params: dict, error: type, message: str) -> None:
    X, y = table(20)
    with pytest.raises(error, match=message):
        SphericalGPRegressor(**params).fit(X, y)


def test_bad_rows(tmp_path) -> None:
    X, y = table(20)
    model = SphericalGPRegressor(max_features=10)
    with pytest.raises(ValueError, match="requires y to be passed"):
        model.fit(X)
    with pytest.raises(TypeError, match="block 0 is ndarray"):
        model.fit([X])
    with pytest.raises(ValueError, match="block 1 has 5 rows of X but 4 of y"):
        model.fit([(X, y), (X[:5], y[:4])])
    with pytest.raises(ValueError, match="y of block 0 contains NaN"):
        model.fit([(X, y * np.nan)])
    with pytest.raises(ValueError, match="there are no rows"):
        model.fit(iter([]))
    with pytest.raises(ValueError, match="X of block 1 has 2 columns, but 3"):
        model.fit(iter([(X, y), (X[:, :2], y)]))
    with pytest.raises(ValueError, match=r"at least one non-zero|all weights are zero"):
        model.fit(X, y, sample_weight=np.zeros(20))
    with pytest.raises(FileNotFoundError, match="no Parquet file"):
        model.fit(ParquetBlocks(tmp_path, target="y"))
    pd.DataFrame({"a": [1.0]}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="has no column 'y'"):
        model.fit(ParquetBlocks(tmp_path, target="y"))
    model.fit(X, y)
    with pytest.raises(ValueError, match="not both"):
        model.predict(X, return_std=True, return_cov=True)
    with pytest.raises(ValueError, match="theta has shape"):
        model.log_marginal_likelihood([0.0])
    with pytest.raises(ValueError, match="y has 2 column"):
        model.partial_fit(X, np.column_stack([y, y]))


@pytest.mark.parametrize("n", [2, 3, 9])
@pytest.mark.parametrize(
    "kernel", [*KERNELS, Matern(Sphere(), 0.3, 0.05), Heat(Sphere(), t=1e-3)], ids=repr
)
def test_weights_of_levels_add_up_to_the_kernel(kernel, n: int) -> None:
    X = np.random.default_rng(0).normal(size=(5, n))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    highest = 100 if getattr(kernel, "depth", 1) > 1 else 3000
    levels = kernel.level_weights(n, range(highest))
    counts = np.array([float(multiplicity(n, level)) for level in range(highest)])
    assert levels.total == pytest.approx(kernel.diag(X)[0], rel=1e-10)
    assert levels.rest + levels.weights @ counts == pytest.approx(levels.total, rel=1e-10)
    series = Sphere(n).series(levels.weights * counts, np.clip(X @ X.T, -1, 1))
    np.testing.assert_allclose(series, kernel(X), atol=1e-9 + 3 * levels.rest)


def test_axes_are_points_of_projective_space() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = (X[:, 0] / np.linalg.norm(X, axis=1)) ** 2
    options = {"max_features": 40, "optimize": False}
    model = SphericalGPRegressor(Heat(Projective(), t=0.2), **options).fit(X, y)
    axial = SphericalGPRegressor(AxialHeat(Sphere(), t=0.2), **options).fit(X, y)
    np.testing.assert_allclose(model.predict(-X), axial.predict(X), rtol=1e-9)
    assert not model.features_.inputs.is_table
    other = model.refit(Matern(Projective(), nu=1.5, t_star=0.3))
    np.testing.assert_allclose(other.predict(-X), other.predict(X), rtol=1e-9)


def test_rows_too_long_to_predict_at_are_refused() -> None:
    model = SphericalGPRegressor(max_features=20).fit(ROWS, TARGETS)
    with pytest.raises(ValueError, match="row 1 of X is too long"):
        model.predict([[0.0, 0, 0], [1e200, 0, 0]])


def test_a_fit_that_fails_leaves_no_model() -> None:
    model = SphericalGPRegressor(max_features=20)
    for _ in range(2):  # at first, and after a fit that did not fail
        with pytest.raises(ValueError, match="square is out of range"):
            model.fit(5 * ROWS + 3, 1e200 * np.sign(ROWS[:, 0]))
        for call in (lambda: model.predict(ROWS), lambda: model.refit()):
            with pytest.raises(NotFittedError):
                call()
        model.fit(ROWS, TARGETS)
    classifier = SphericalGPClassifier(max_features=20).fit(ROWS, TARGETS > 0)
    with pytest.raises(ValueError, match="only one class"):
        classifier.fit(ROWS, np.zeros(60))
    with pytest.raises(NotFittedError):
        classifier.predict_proba(ROWS)


def test_few_rows_at_a_time() -> None:
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(500, 3))
    targets = np.sin(2 * rows[:, 0]) + 0.1 * rng.normal(size=500)
    model = SphericalGPRegressor(max_features=60)
    for start in range(0, 500, 10):
        model.partial_fit(rows[start : start + 10], targets[start : start + 10])
    # A step back to noise alone would have a score of zero.
    assert model.score(rows, targets) > 0.8


def test_covariances_of_a_table_need_no_unit_rows() -> None:
    model = SphericalGPRegressor(Heat(Sphere(unit=True)), inputs="table", max_features=15).fit(
        ROWS, TARGETS
    )
    mean, covariance = model.predict(ROWS[:5], return_cov=True)
    np.testing.assert_allclose(mean, model.predict(ROWS[:5]))
    np.testing.assert_allclose(
        np.sqrt(np.diag(covariance)), model.predict(ROWS[:5], return_std=True)[1], rtol=1e-6
    )


def test_whole_numbers_of_numpy() -> None:
    assert SphericalHarmonics(3, levels=np.int64(3)) == SphericalHarmonics(3, levels=3)
    search = GridSearchCV(SphericalGPRegressor(max_features=20), {"levels": np.arange(2, 4)}, cv=2)
    assert search.fit(ROWS, TARGETS).best_params_["levels"] in (2, 3)
