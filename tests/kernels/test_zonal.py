"""Kernels that are a user's function of the angle."""

import importlib
import math
import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from typer.testing import CliRunner

from mercer.bounds import covering_bound
from mercer.cli import app
from mercer.features import SpectralFeatures
from mercer.gp import SphericalGPClassifier, SphericalGPRegressor
from mercer.harmonics import funk_hecke
from mercer.kernels import ArcCosine, Heat, Zonal
from mercer.selection import compare, load_model, save_model
from mercer.spaces import Euclidean, Projective, Simplex, Sphere

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
y = X[:, 0] / np.linalg.norm(X, axis=1) + 0.05 * RNG.normal(size=120)


def laplace(theta):
    return np.exp(-2 * theta)


def spherical(theta):
    """Support [0, 1.5]; positive definite on the 2-sphere."""
    r = np.minimum(theta / 1.5, 1.0)
    return 3 * (1 - 1.5 * r + 0.5 * r**3)


def heat(theta):
    levels = np.arange(40)
    return Sphere(3).series((2 * levels + 1) * np.exp(-0.2 * levels * (levels + 1)), np.cos(theta))


@pytest.mark.parametrize("shape", [laplace, spherical])
def test_gram_matrices_are_the_shape_itself(shape):
    angles = Sphere().distances(X)
    value = float(shape(np.zeros(1))[0])
    np.testing.assert_allclose(Zonal(Sphere(), shape)(X), shape(angles) / value, atol=1e-10)


def test_the_absolute_form_is_not_divided():
    kernel = Zonal(Sphere(), lambda theta: 3 * laplace(theta), normalized=False)
    np.testing.assert_allclose(kernel(X), 3 * laplace(Sphere().distances(X)), atol=1e-12)


def test_the_heat_kernel_as_a_shape_is_the_heat_kernel():
    mine, theirs = Zonal(Sphere(), heat, normalized=False), Heat(Sphere(), t=0.2)
    np.testing.assert_allclose(Zonal(Sphere(), heat)(X), theirs(X), atol=1e-13)
    weights, known = mine.level_weights(3, range(8)), theirs.level_weights(3, range(8))
    np.testing.assert_allclose(weights.weights / weights.total, known.weights, atol=1e-15)
    np.testing.assert_allclose(weights.rest / weights.total, known.rest, atol=1e-14)
    np.testing.assert_allclose(Zonal(Sphere(), heat).spectrum(3).p[:6], theirs.spectrum(3).p[:6])
    bounds = [covering_bound(k, 3, [1.0, 0.1]).entropy for k in (Zonal(Sphere(), heat), theirs)]
    np.testing.assert_allclose(*bounds, rtol=1e-9)


def test_covering_numbers_count_the_levels_that_are_not_known():
    bound = covering_bound(Zonal(Sphere(), laplace), 3, [2.0, 1.0])
    weights = Zonal(Sphere(), laplace).level_weights(3, range(int(np.sqrt(bound.rank[1]))))
    # The tail beyond j* alone is an accuracy of 6 sqrt(tail).
    assert 36 * weights.rest < 1.0 < 36 * 10 * weights.rest
    with pytest.raises(ValueError, match="levels"):
        covering_bound(Zonal(Sphere(), laplace), 3, 1e-3)


def test_sparse_processes_and_features_see_the_weights():
    kernel = Zonal(Sphere(), laplace)
    model = SphericalGPRegressor(kernel, inputs="points", max_features=100).fit(X, y)
    assert model.score(X, y) > 0.9
    assert pickle.loads(pickle.dumps(model)).score(X, y) == model.score(X, y)
    assert SphericalGPClassifier(kernel, inputs="points").fit(X, y > 0).score(X, y > 0) > 0.9
    features = SpectralFeatures(Zonal(Sphere(), laplace, normalized=False), 400).fit(X)
    F = features.transform(X)
    assert np.abs(F @ F.T - kernel(X)).max() <= features.error_ + 1e-14 < 0.12


def test_layers_have_the_weights_of_their_composition():
    # Against a double-exponential rule in the angle.
    t = np.linspace(-4.5, 4.5, 4001)
    s = np.pi / 2 * np.sinh(t)
    theta, rest = np.pi / (1 + np.exp(-2 * s)), np.pi / (1 + np.exp(2 * s))
    density = np.sin(np.minimum(theta, rest)) ** 3 * theta * rest * np.cosh(t)
    relu = (np.sin(theta) + (np.pi - theta) * np.cos(theta)) / np.pi
    inner = np.arccos(relu)
    shape = (np.sin(inner) + (np.pi - inner) * relu) / np.pi
    sums = [
        (density * shape * Sphere(5).series(np.eye(7)[k], np.cos(theta))).sum() / density.sum()
        for k in range(7)
    ]
    weights = ArcCosine(depth=2).level_weights(5, range(7)).weights
    np.testing.assert_allclose(weights, sums, atol=1e-12)


@pytest.mark.parametrize(
    ("shape", "n", "level"),
    [
        (lambda theta: np.cos(2 * theta) + 0.3, 3, "dimension 3: level 0"),
        (lambda theta: np.maximum(1 - theta / 2, 0.0), 3, "dimension 3: level 3"),
        (spherical, 5, "dimension 5: level"),
        # In 1000 dimensions no level of it is known; on great spheres some are.
        (spherical, 1000, "dimension 10: level"),
        (lambda theta: (theta < 1) * 1.0, 1000, "dimension 3: level 4"),
    ],
)
def test_shapes_that_are_not_positive_definite_are_refused_by_the_level(shape, n, level):
    with pytest.raises(ValueError, match=f"not positive definite in {level}"):
        Zonal(Sphere(), shape)(np.eye(3, n))


def test_rows_of_all_kinds():
    counts = RNG.poisson(1.0, size=(20, 30)) + np.eye(30, dtype=int)[:20]
    kernel = Zonal(Simplex(), lambda theta: np.exp(np.cos(theta)))
    K = kernel(counts)
    np.testing.assert_allclose(kernel(sparse.csr_matrix(counts)), K, atol=1e-14)
    single = kernel(counts.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, K, atol=2e-6)
    roots = np.sqrt(counts / counts.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(K, np.exp(roots @ roots.T - 1), atol=1e-13)


@pytest.mark.parametrize("space", [Euclidean(), Projective(), Simplex(boundary="reflecting")])
def test_other_spaces_are_refused(space):
    with pytest.raises(TypeError, match="Simplex"):
        Zonal(space, laplace)(np.abs(X))


@pytest.mark.parametrize("n", [60, 20_000])
def test_smooth_shapes_pass_in_every_dimension_and_size(n):
    for factor in (1e-300, 1e300):
        kernel = Zonal(Sphere(), lambda theta, factor=factor: factor * np.exp(2 * np.cos(theta) - 2))
        np.testing.assert_allclose(kernel(np.eye(2, n))[0, 1], np.exp(-2), rtol=1e-12)


def test_a_shape_must_be_a_function_that_is_positive_at_zero():
    with pytest.raises(TypeError, match="function of the angle"):
        Zonal(Sphere(), 3.0)(X)
    with pytest.raises(ValueError, match="positive at angle 0"):
        Zonal(Sphere(), np.sin)(X)
    with pytest.raises(TypeError, match=r"array of angles.*use np.exp and not math.exp.*np.vectorize"):
        funk_hecke(lambda theta: math.exp(-theta), 3, 4)
    with pytest.raises(ValueError, match=r"one value for each angle, got an array of shape \(\)"):
        funk_hecke(lambda theta: 1.0, 3, 4)
    with pytest.raises(TypeError, match="function of the angle, got 3"):
        funk_hecke(3, 3, 4)


def test_opposite_points_are_exactly_opposite():
    """A product of unit vectors is off by a rounding, which a shape with a slope at pi magnifies."""
    rows = np.random.default_rng(5).normal(size=(50, 3))
    both = np.concatenate([rows, -2 * rows])
    K = Zonal(Sphere(), laplace)(both)
    for values in (K[:50, 50:], K[50:, :50], Zonal(Sphere(), laplace)(sparse.csr_matrix(rows), -rows)):
        np.testing.assert_allclose(np.diag(values), laplace(np.pi), rtol=1e-14)
    np.testing.assert_array_equal(np.diag(ArcCosine(order=0)(rows, -rows)), 0.0)


def test_models_are_saved_with_the_name_of_the_function(tmp_path):
    labels = (y > 0).astype(int)
    result = compare(X, labels, kernels=Zonal(Sphere(), laplace), folds=3)
    save_model(tmp_path / "model.skops", result)
    again = load_model(tmp_path / "model.skops")
    assert again.model[0].kernel_.shape is laplace
    np.testing.assert_array_equal(again.predict(X), result.scores[0].search.best_estimator_.predict(X))
    model = result.scores[0].search.best_estimator_
    for shape in (lambda theta: np.exp(-theta), np.cos, np.sinc):  # np.sinc is a function of a package
        model[0].set_params(kernel__shape=shape)
        with pytest.raises(ValueError, match=r"top of a module|imported module"):
            save_model(tmp_path / "other.skops", result)
    assert not (tmp_path / "other.skops").exists()


def test_the_command_imports_the_module_of_a_shape(tmp_path, monkeypatch):
    source = "import numpy as np\n\ndef bump(theta):\n    return np.exp(np.cos(theta))\n"
    (tmp_path / "shapes_of_mine.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        shapes = importlib.import_module("shapes_of_mine")
    pd.DataFrame(X[:9], columns=list("abc")).to_csv("rows.csv", index=False)
    save_model("model.skops", compare(X, y > 0, kernels=Zonal(Sphere(), shapes.bump), folds=3))
    monkeypatch.delitem(sys.modules, "shapes_of_mine")
    lost = CliRunner().invoke(app, ["predict", "model.skops", "rows.csv"])
    assert lost.exit_code == 2
    assert "model.skops cannot be loaded: it holds shapes_of_mine.bump" in lost.output
    assert "--module shapes_of_mine" in lost.output
    done = CliRunner().invoke(app, ["predict", "model.skops", "rows.csv", "--module", "shapes_of_mine"])
    assert done.exit_code == 0
    assert len(done.stdout.splitlines()) == 10
    wrong = CliRunner().invoke(app, ["predict", "model.skops", "rows.csv", "--module", "shapes.py"])
    assert wrong.exit_code == 2
    assert "give the name, shapes" in wrong.output
