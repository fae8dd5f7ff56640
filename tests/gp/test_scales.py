"""Input scales of Gaussian processes: gradients against differences, and columns that do not matter."""

import numpy as np
import pytest

from mercer.gp import SphericalGPRegressor
from mercer.kernels import ArcCosine, AxialHeat, Heat, Matern
from mercer.spaces import Sphere
from tests.helpers.processes import table


def test_input_scales_find_the_columns_that_matter(monkeypatch) -> None:
    monkeypatch.setattr("mercer.gp.regressor._ARD_STEPS", 10)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=500)
    plain = SphericalGPRegressor(max_features=45).fit(X[:300], y[:300])
    model = SphericalGPRegressor(max_features=45, ard=True).fit(X[:300], y[:300])
    assert model.input_scales_[0] > 2 * model.input_scales_[2:].max()
    assert model.elbo_ > plain.elbo_ + 50
    assert model.score(X[300:], y[300:]) > plain.score(X[300:], y[300:])
    blocks = SphericalGPRegressor(max_features=45, ard=True).fit(
        (X[i : i + 100], y[i : i + 100]) for i in range(0, 300, 100)
    )
    assert blocks.statistics_.rows == 300
    with pytest.raises(ValueError, match="ard scales the columns"):
        SphericalGPRegressor(Heat(Sphere()), ard=True).fit(X, y)


def test_input_scales_of_odd_tables() -> None:
    # One row, constant targets, a constant column, a column twice: scales stay finite.
    X, y = table(30)
    for rows, targets in (
        (X[:1], y[:1]),
        (X, np.ones(30)),
        (np.column_stack([X, np.full(30, 7.0), X[:, 0]]), y),
    ):
        model = SphericalGPRegressor(max_features=20, ard=True).fit(rows, targets)
        assert np.isfinite(model.input_scales_).all()
        assert np.isfinite(model.predict(rows, return_std=True)).all()


@pytest.mark.parametrize("kernel", [ArcCosine(), AxialHeat(Sphere()), Matern(Sphere(), 1.5)], ids=repr)
@pytest.mark.parametrize("budget", [30, 33, 110])  # full levels, a part of one, more than rows
def test_gradient_by_input_scales(kernel, budget: int) -> None:
    from mercer.gp.scales import ScaledEvidence

    X, y = table(50)
    targets = np.column_stack([y, y**2])
    model = SphericalGPRegressor(kernel, inputs="table", max_features=budget, optimize=False)
    model.fit(X, targets)
    task = ScaledEvidence(model.features_, kernel, X, targets)
    theta = np.concatenate([[0.3, -0.2, 0.1], model.theta_])
    value, gradient = task.value_and_gradient(theta)
    assert value == pytest.approx(task.evidence(theta[:3]).value(theta[3:]), abs=1e-9)
    for i, move in enumerate(1e-5 * np.eye(len(theta))):
        ends = [task.evidence(t[:3]).value(t[3:]) for t in (theta + move, theta - move)]
        assert gradient[i] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-5)
    unit = np.concatenate([np.zeros(3), model.theta_])
    plain = SphericalGPRegressor(
        kernel, inputs="table", max_features=budget, optimize=False, normalize_y=False
    ).fit(X, targets)
    assert task.value_and_gradient(unit)[0] == pytest.approx(plain.elbo_, abs=1e-8)


def test_scales_count_weights(monkeypatch) -> None:
    from mercer.gp.scales import ScaledEvidence

    rng = np.random.default_rng(1)
    rows = rng.normal(size=(200, 2))
    targets = np.where(np.arange(200) < 100, np.sin(2 * rows[:, 1]), np.sin(2 * rows[:, 0]))
    weight = (np.arange(200) >= 100).astype(float)
    monkeypatch.setattr("mercer.gp.regressor._ARD_STEPS", 6)
    kernel = AxialHeat(Sphere())
    model = SphericalGPRegressor(kernel, inputs="table", max_features=20, ard=True)
    model.fit(rows, targets, weight)
    assert model.input_scales_[0] > 3 * model.input_scales_[1]
    theta = np.array([0.3, -0.2, 0.1, -1.0, 0.2])
    columns = targets[:, None]
    weighted = ScaledEvidence(model.features_, kernel, rows, columns, weight)
    dropped = ScaledEvidence(model.features_, kernel, rows[100:], columns[100:])
    for ours, theirs in zip(
        weighted.value_and_gradient(theta), dropped.value_and_gradient(theta), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
