"""The heat kernel of axes."""

import numpy as np
import pytest

from mercer.harmonics import SphericalHarmonics
from mercer.kernels import AxialHeat, Heat
from mercer.spaces import Graph, Simplex, Sphere


@pytest.mark.parametrize("n", [2, 3, 9, 200])
@pytest.mark.parametrize("t_star", [0.2, 1.0])
def test_is_the_even_part_of_the_heat_kernel(n: int, t_star: float) -> None:
    X = np.random.default_rng(0).normal(size=(8, n))
    heat = Heat(Sphere(), t_star=t_star)
    both = heat(X) + heat(X, -X)
    axial = AxialHeat(Sphere(), t_star=t_star)(X)
    np.testing.assert_allclose(axial, both / both[0, 0], atol=1e-13)
    np.testing.assert_allclose(AxialHeat(Sphere(), t_star=t_star)(X, -X), axial, atol=1e-14)


@pytest.mark.parametrize("n", [2, 3, 30, 200])
@pytest.mark.parametrize("t_star", [0.5, 1.0])
def test_absolute_form_is_the_even_part_too(n: int, t_star: float) -> None:
    X = np.random.default_rng(0).normal(size=(8, n))
    heat = Heat(Sphere(), t_star=t_star, normalized=False)
    both = (heat(X) + heat(X, -X)) / 2
    axial = AxialHeat(Sphere(), t_star=t_star, normalized=False)
    np.testing.assert_allclose(axial(X), both, rtol=1e-11, atol=1e-12 * both[0, 0])
    np.testing.assert_allclose(axial.diag(X), np.diag(both), rtol=1e-11)
    levels = axial.nonzero_levels(n)[:3]
    ours, theirs = axial.level_weights(n, levels), heat.level_weights(n, levels)
    np.testing.assert_allclose(ours.weights, theirs.weights, rtol=1e-11)
    assert ours.total == pytest.approx(both[0, 0], rel=1e-11)
    assert axial.log_self_similarity(n) == pytest.approx(np.log(both[0, 0]), abs=1e-11)


def test_even_levels_only() -> None:
    assert AxialHeat(Sphere()).nonzero_levels(6)[:4] == (0, 2, 4, 6)
    weights = AxialHeat(Sphere(), t=0.2).level_weights(6, (0, 2))
    heat = Heat(Sphere(), t=0.2).level_weights(6, (0, 2))
    assert weights.weights[1] / weights.weights[0] == pytest.approx(heat.weights[1] / heat.weights[0])
    levels = SphericalHarmonics(6, AxialHeat(Sphere()).nonzero_levels(6), 462)
    assert levels.level_numbers == (0, 2, 4, 6)


def test_counts() -> None:
    counts = np.random.default_rng(0).poisson(3.0, size=(5, 4)) + 1
    roots = np.sqrt(counts / counts.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(
        AxialHeat(Simplex(), t=0.2)(counts), AxialHeat(Sphere(), t=0.2)(roots), atol=1e-14
    )


def test_bad_parameters() -> None:
    X = np.eye(3)
    with pytest.raises(TypeError, match=r"space must be Sphere\(\) or Simplex\(\)"):
        AxialHeat(Graph(np.ones((3, 3)) - np.eye(3)), t=1.0)(np.arange(3))
    with pytest.raises(ValueError, match="t of AxialHeat must be"):
        AxialHeat(Sphere(), t=0.0)(X)
    with pytest.raises(ValueError, match="give t or t_star, not both"):
        AxialHeat(Sphere(), t=1.0, t_star=2.0)(X)
