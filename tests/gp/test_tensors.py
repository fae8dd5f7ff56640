"""Gaussian processes on tensors: the same answers as on NumPy's arrays, where the tensors live."""

import numpy as np
import pytest
import torch

from mercer.engine.torch import TorchEngine
from mercer.gp import SphericalGPClassifier, SphericalGPPoissonRegressor, SphericalGPRegressor
from mercer.kernels import ArcCosine, Heat, Matern
from mercer.spaces import Simplex, Sphere, Torus
from tests.helpers.far import DEVICE

_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(700, 4)) * [1.0, 2.0, 0.5, 3.0] + 5.0
Y = np.sin(X[:, 0]) + 0.1 * X[:, 3] ** 2 + 0.1 * _RNG.normal(size=700)


def tensor(values, dtype=None) -> torch.Tensor:
    return torch.as_tensor(values, dtype=dtype, device=DEVICE)


@pytest.fixture(autouse=True)
def many_tiles(monkeypatch) -> None:
    """Blocks and tiles as on a device, but so small that there are several of them."""
    monkeypatch.setattr(TorchEngine, "rows_at_once", lambda self, X, least, width: least // 8)


def close(found, expected, tolerance: float = 1e-8) -> None:
    assert isinstance(found, torch.Tensor)
    assert found.device.type == DEVICE
    np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "kernel",
    [
        ArcCosine(),
        Matern(Sphere(), nu=1.5),
        Heat(Simplex()),
        Heat(Torus()),  # eigenfunctions, in main memory
    ],
    ids=repr,
)
@pytest.mark.parametrize("weighted", [False, True])
def test_regression(kernel, weighted: bool) -> None:
    rows = np.abs(X) % 6.0
    weight = np.random.default_rng(1).integers(0, 3, size=700).astype(float) if weighted else None
    expected = SphericalGPRegressor(kernel, max_features=120).fit(rows, Y, weight)
    weight = None if weight is None else tensor(weight)
    model = SphericalGPRegressor(kernel, max_features=120).fit(tensor(rows), tensor(Y), weight)
    for name in ("gram", "linear", "features", "squares", "rest", "weight"):
        one, other = (getattr(m.statistics_, name) for m in (model, expected))
        assert isinstance(one, np.ndarray | float)  # models on disk know nothing of devices
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10 * np.abs(other).max())
    np.testing.assert_allclose(model.theta_, expected.theta_, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(model.elbo_, expected.elbo_, rtol=1e-10)
    for one, other in zip(
        model.predict(tensor(rows), return_std=True),
        expected.predict(rows, return_std=True),
        strict=True,
    ):
        close(one, other)
    mean, covariance = model.predict(tensor(rows[:5]), return_cov=True)
    close(mean, expected.predict(rows[:5]))
    close(covariance, expected.predict(rows[:5], return_cov=True)[1])
    assert isinstance(model.predict(rows), np.ndarray)


def test_few_rows_and_several_outputs() -> None:
    both = np.column_stack([Y, X[:, 1]])[:40]
    expected = SphericalGPRegressor(max_features=100).fit(X[:40], both)
    model = SphericalGPRegressor(max_features=100).fit(tensor(X[:40]), tensor(both))
    close(model.predict(tensor(X)), expected.predict(X))


def test_blocks_and_single_precision() -> None:
    single = X.astype(np.float32)
    expected = SphericalGPRegressor(max_features=100).fit(single, Y)
    blocks = [(tensor(single[i : i + 300]), tensor(Y[i : i + 300])) for i in (0, 300, 600)]
    model = SphericalGPRegressor(max_features=100).fit(blocks)
    found = model.predict(tensor(single))
    assert found.dtype == torch.float64
    close(found, expected.predict(single))
    model.partial_fit(tensor(X), tensor(Y))
    expected.partial_fit(X, Y)
    close(model.predict(tensor(X)), expected.predict(X))


def test_learnt_features_of_tensors() -> None:
    for options in ({"ard": True}, {"features": "inducing"}):
        model = SphericalGPRegressor(max_features=20, **options)
        expected = model.fit(X[:200], Y[:200]).predict(X)
        close(model.fit(tensor(X[:200]), tensor(Y[:200])).predict(tensor(X)), expected)


def test_classes_and_counts() -> None:
    for labels in (Y.mean() < Y, np.digitize(Y, [-0.5, 2.0])):
        expected = SphericalGPClassifier(max_features=40).fit(X, labels)
        model = SphericalGPClassifier(max_features=40).fit(tensor(X), tensor(labels))
        close(model.predict_proba(tensor(X)), expected.predict_proba(X))
        close(model.predict(tensor(X)), expected.predict(X), 0)
    text = np.where(Y > 0, "high", "low")
    named = SphericalGPClassifier(max_features=30).fit(tensor(X), text).predict(tensor(X[:3]))
    assert isinstance(named, np.ndarray)
    assert set(named) <= {"high", "low"}
    counts = np.random.default_rng(1).poisson(np.exp(0.3 * Y))
    expected = SphericalGPPoissonRegressor(max_features=40).fit(X, counts)
    model = SphericalGPPoissonRegressor(max_features=40).fit(tensor(X), tensor(counts))
    close(model.predict(tensor(X)), expected.predict(X))


def test_checkpoints_of_tensors(tmp_path) -> None:
    path = tmp_path / "fit"
    blocks = [(tensor(X[:300]), tensor(Y[:300])), (tensor(X[300:]), tensor(Y[300:]))]

    def stopped():
        yield blocks[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        SphericalGPRegressor(max_features=30).fit(stopped(), checkpoint=path)
    assert path.exists()
    model = SphericalGPRegressor(max_features=30).fit(iter(blocks), checkpoint=path)
    close(model.predict(tensor(X)), SphericalGPRegressor(max_features=30).fit(iter(blocks)).predict(X))


def test_refused_tensors() -> None:
    model, bad = SphericalGPRegressor(max_features=20), X.copy()
    bad[7, 2] = np.nan
    with pytest.raises(ValueError, match="row 7 of X contains NaN"):
        model.fit(tensor(bad), tensor(Y))
    with pytest.raises(ValueError, match="X of block 1 contains NaN or infinity, first in row 7"):
        model.fit([(tensor(X), Y), (tensor(bad), Y)])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(tensor(X), tensor(Y[:-1]))
    with pytest.raises(ValueError, match="2D"):
        model.fit(tensor(Y), tensor(Y))
    with pytest.raises(ValueError, match="complex"):
        model.fit(tensor(X + 0j), tensor(Y))
    with pytest.raises(ValueError, match="Input y contains NaN"):
        model.fit(tensor(X), tensor(Y * np.nan))
    with pytest.raises(ValueError, match="row 3 of X is all zeros"):
        SphericalGPRegressor(Heat(Sphere()), max_features=20).fit(
            tensor(X * (np.arange(700) != 3)[:, None]), tensor(Y)
        )
    fitted = model.fit(tensor(X), tensor(Y))
    with pytest.raises(ValueError, match="3 features"):
        fitted.predict(tensor(X[:, :3]))
