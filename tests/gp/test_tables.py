"""Sparse Gaussian processes with kernels of whole tables."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest

from mercer.gp import SphericalGPClassifier, SphericalGPPoissonRegressor, SphericalGPRegressor
from mercer.kernels import Gaussian, Heat, MultipleKernel, On, Spectrum, TfIdf
from mercer.spaces import Categories

rng = np.random.default_rng(0)
ROWS = 90
TABLE = pd.DataFrame(
    {
        "age": rng.normal(50, 10, size=ROWS),
        "income": rng.lognormal(3, 1, size=ROWS),
        "site": rng.choice(["lake", "sea"], size=ROWS),
        "gene": ["".join(rng.choice(list("ACGT"), size=8)) for _ in range(ROWS)],
        "note": [" ".join(rng.choice(["red", "green", "blue"], size=3)) for _ in range(ROWS)],
    }
)
Y = np.sin(TABLE.age / 5) + (TABLE.site == "sea") * TABLE.gene.str.count("A") / 2
Y = (Y + 0.1 * rng.normal(size=ROWS)).to_numpy()
KERNEL = (
    On(["age", "income"], Gaussian()) * On("site", Heat(Categories()))
    + 0.5 * On("gene", Spectrum(2))
    + On("note", TfIdf())
)
TRAIN, TEST = TABLE[:70], TABLE[70:]


def dense(model, X=TRAIN, y=Y[:70]):
    """Means, deviations of targets and log evidence of the exact process, by linear algebra."""
    scale, mean = y.std(), y.mean()
    K = model.amplitude_ * model.kernel_(X) + model.noise_ * np.eye(len(y))
    cross = model.amplitude_ * model.kernel_(TEST, X)
    own = model.amplitude_ * model.kernel_.diag(TEST) + model.noise_
    solved = np.linalg.solve(K, np.column_stack([(y - mean) / scale, cross.T]))
    variances = own - (cross * solved[:, 1:].T).sum(axis=1)
    evidence = -0.5 * ((y - mean) / scale @ solved[:, 0] + np.linalg.slogdet(2 * np.pi * K)[1])
    return mean + scale * cross @ solved[:, 0], scale * np.sqrt(variances), evidence - 70 * np.log(scale)


@pytest.fixture(scope="module")
def fitted():
    return SphericalGPRegressor(KERNEL).fit(TRAIN, Y[:70])


def test_with_all_rows_it_is_the_exact_process(fitted) -> None:
    mean, std, evidence = dense(fitted)
    found = fitted.predict(TEST, return_std=True)
    np.testing.assert_allclose(found[0], mean, atol=1e-5)
    np.testing.assert_allclose(found[1], std, atol=1e-5)
    assert fitted.elbo_ == pytest.approx(evidence, abs=1e-4)
    covariance = fitted.predict(TEST, return_cov=True)[1]
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), std, atol=1e-5)


def test_hyperparameters_maximise_the_evidence(fitted) -> None:
    best, kernel = dense(fitted)[2], fitted.kernel_
    assert KERNEL.learnt_from(TRAIN).theta.shape == (3,)
    for name in ("k1__k1__k1__kernel__length_scale", "k1__k2__k1__value"):
        value = kernel.get_params()[name]
        for factor in (0.8, 1.25):
            kernel.set_params(**{name: factor * value})
            assert dense(fitted)[2] < best + 1e-3
        kernel.set_params(**{name: value})


def test_what_it_learns_is_saved_and_columns_are_found_by_name(fitted) -> None:
    again = pickle.loads(pickle.dumps(fitted))
    expected = fitted.predict(TEST)
    np.testing.assert_array_equal(again.predict(TEST[TEST.columns[::-1]].assign(new=1.0)), expected)
    np.testing.assert_allclose(again.predict(pl.from_pandas(TEST)), expected, rtol=1e-12)
    with pytest.raises(ValueError, match="X has no column 'site'"):
        again.predict(TEST.drop(columns="site"))
    learnt = fitted.kernel_.get_params()["k1__k1__k1__prepare"].estimator
    np.testing.assert_allclose(learnt.mean_, TRAIN[["age", "income"]].mean())


def test_blocks_and_weights_count_as_rows_do() -> None:
    model = SphericalGPRegressor(KERNEL, optimize=False)
    whole = model.fit(TRAIN, Y[:70]).predict(TEST, return_std=True)
    blocks = model.fit([(TRAIN[:30], Y[:30]), (TRAIN[30:], Y[30:70])]).predict(TEST, return_std=True)
    np.testing.assert_allclose(blocks, whole, atol=1e-6)
    twice = pd.concat([TRAIN, TRAIN])
    learnt = model.set_params(kernel=KERNEL.learnt_from(TRAIN))
    weighted = learnt.fit(TRAIN, Y[:70], sample_weight=np.full(70, 2.0)).predict(TEST, return_std=True)
    repeated = learnt.fit(twice, np.tile(Y[:70], 2)).predict(TEST, return_std=True)
    np.testing.assert_allclose(weighted, repeated, atol=1e-5)


def test_fewer_inducing_points_bound_the_evidence(fitted) -> None:
    model = SphericalGPRegressor(KERNEL, max_features=20, n_restarts=0).fit(TRAIN, Y[:70])
    assert model.features_.size == 20
    assert model.elbo_ < fitted.elbo_
    assert (model.predict(TEST, return_std=True)[1] > 0).all()


@pytest.mark.filterwarnings(
    "ignore::UserWarning"
)  # noise that ends at its bound, nearly constant kernels
@pytest.mark.parametrize(
    "target", [lambda x: x, np.sin, lambda x: np.sin(3 * x)], ids=["line", "sine", "fast"]
)
def test_functions_without_noise_are_not_taken_for_noise(target) -> None:
    x = np.arange(100) / 3.7
    table = pd.DataFrame({"x": x})
    model = SphericalGPRegressor(On("x", Gaussian())).fit(table[::2], target(x[::2]))
    assert model.score(table[1:-1], target(x[1:-1])) > 0.99


def test_noise_is_taken_for_noise() -> None:
    table = pd.DataFrame({"x": np.arange(100) / 3.7})
    y = np.random.default_rng(3).normal(size=100)
    model = SphericalGPRegressor(On("x", Gaussian())).fit(table, y)
    assert model.score(table, y) < 0.2


def test_classes_and_counts() -> None:
    labels = np.where(Y.mean() < Y, "high", "low")
    several = MultipleKernel([On("age", Gaussian()), On("site", Heat(Categories()))])
    model = SphericalGPClassifier(several.scaled_to(TRAIN, 0.3)).fit(TRAIN, labels[:70])
    probabilities = model.predict_proba(TEST)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert model.score(TEST, labels[70:]) > 0.7
    phi = np.empty((70, model.features_.size))
    model.features_.write(TRAIN, phi)
    np.testing.assert_allclose(phi @ phi.T, model.kernel_(TRAIN), atol=1e-6)
    counts = np.random.default_rng(1).poisson(np.exp(1 + Y))
    rates = SphericalGPPoissonRegressor(KERNEL).fit(TRAIN, counts[:70]).predict(TEST)
    assert np.corrcoef(rates, np.exp(1 + Y[70:]))[0, 1] > 0.7


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"inputs": "table"}, "are for spheres; leave both out with On"),
        ({"levels": 3}, "are for spheres; leave both out with On"),
        ({"ard": True}, r"leave it out with On\(\.\.\.\)"),
        ({"kernel": On("note", Spectrum(9))}, r"no positive finite k\(x, x\)"),
    ],
)
def test_what_makes_no_sense_is_refused(params, words: str) -> None:
    short = TRAIN.assign(note="red")
    with pytest.raises(ValueError, match=words):
        SphericalGPRegressor(**{"kernel": KERNEL} | params).fit(short, Y[:70])


def test_missing_values_and_kernels_of_rows_are_named() -> None:
    with pytest.raises(ValueError, match="column 'age' of X has a missing value in row 4"):
        SphericalGPRegressor(KERNEL).fit(TRAIN.assign(age=TRAIN.age.where(TRAIN.index != 4)), Y[:70])
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        SphericalGPRegressor(KERNEL).fit(TRAIN[:0], Y[:0])
    numbers = TRAIN[["age", "income"]]
    with pytest.raises(TypeError, match=r"On\(slice\(None\), \.\.\.\)"):
        SphericalGPRegressor(Gaussian()).fit(numbers, Y[:70])
    assert SphericalGPRegressor(On(slice(None), Gaussian())).fit(numbers, Y[:70]).features_.size > 10
