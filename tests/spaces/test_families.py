"""Exponential families by their log-partition function, against families with closed forms."""

import numpy as np
import pytest
import torch

from mercer.kernels import Parametrix
from mercer.spaces import ExponentialFamily, NormalFamily, Simplex
from mercer.special import geodesics
from tests.helpers.catalogue import trinomial


def normal(theta):
    """Natural parameters ``(mu / s^2, -1 / 2 s^2)``."""
    return -(theta[0] ** 2) / (4 * theta[1]) - torch.log(-2 * theta[1]) / 2


def poisson(theta):
    return theta.exp().sum()


def shares(categories: int, size: int) -> np.ndarray:
    rows = np.random.default_rng(categories).dirichlet(np.full(categories, 0.7), size=size) + 1e-4
    return rows / rows.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("categories", [2, 3, 4])
def test_multinomial_is_a_sphere_of_radius_two(categories: int) -> None:
    rows = shares(categories, 4)
    theta, roots = np.log(rows[:, :-1] / rows[:, -1:]), np.sqrt(rows)
    chords = np.linalg.norm(roots[:, None] - roots, axis=2)
    found = ExponentialFamily(trinomial).distances(theta)
    assert np.abs(found - 4 * np.arcsin(chords / 2)).max() < 1e-10
    assert not np.diag(found).any()
    metric = ExponentialFamily(trinomial).metric(theta)
    # The covariance of labels.
    truth = rows[:, :-1, None] * (np.eye(categories - 1) - rows[:, None, :-1])
    assert np.abs(metric - truth).max() < 1e-14


def test_normal_family_is_hyperbolic() -> None:
    rng = np.random.default_rng(0)
    mean, deviation = rng.normal(scale=2, size=5), np.exp(rng.normal(size=5))
    theta = np.column_stack([mean / deviation**2, -0.5 / deviation**2])
    truth = NormalFamily().fisher_distances(np.column_stack([mean, deviation]))
    assert np.abs(ExponentialFamily(normal).distances(theta[:2], theta) - truth[:2]).max() < 1e-10


def test_poisson_family_is_flat() -> None:
    rates = np.array([[0.01], [1.0], [4.0], [100.0]])
    found = ExponentialFamily(poisson, n=1).distances(np.log(rates))
    assert np.abs(found - 2 * np.abs(np.sqrt(rates) - np.sqrt(rates.T))).max() < 1e-10


@pytest.mark.parametrize(
    ("low", "high"), [(0, 50), (0, 500), (-300, -200), (-700, 700), (0, 709.7), (3, 3 + 1e-13)]
)
def test_one_parameter_over_any_range(low: float, high: float) -> None:
    found = ExponentialFamily(poisson).distances([[low]], [[high]]).item()
    assert found == pytest.approx(2 * np.exp(low / 2) * np.expm1((high - low) / 2), rel=1e-12)


def test_flat_regions_and_roundings() -> None:
    """A logistic family is flat far out, and loses its second derivative to rounding on one side."""

    def logistic(theta):
        return torch.nn.functional.softplus(theta, threshold=100).sum()

    family = ExponentialFamily(logistic)
    # d = 2 (arctan(exp(b / 2)) - arctan(exp(a / 2))), and arctan(x) = pi / 2 - arctan(1 / x).
    found = family.distances([[-700.0], [-700.0], [10.0]], [[-600.0], [0.0], [11.0]])
    truth = [2 * np.exp(-300), np.pi / 2, 2 * (np.arctan(np.exp(-5)) - np.arctan(np.exp(-5.5)))]
    assert np.allclose(np.diag(found), truth, rtol=1e-10, atol=0)
    with pytest.raises(ValueError, match=r"between \[30.\] and \[31.\]: the metric changes"):
        family.distances([[30.0]], [[31.0]])
    with pytest.raises(ValueError, match="positive definite there in double precision"):
        family.distances([[40.0]])


@pytest.mark.parametrize(
    ("first", "second"),
    [([0, 0], [50, 50]), ([0, 0], [12, -12]), ([600, -600], [601, -601]), ([0, 0, 0], [20, 10, 5])],
)
def test_mixed_scales(first: list[float], second: list[float]) -> None:
    x, y = np.exp(np.array([first, second]) / 2)
    found = ExponentialFamily(poisson).distances([first], [second]).item()
    assert found == pytest.approx(2 * np.linalg.norm(x - y), rel=1e-7)


@pytest.mark.parametrize(("first", "second"), [([0.0, -1.0], [10.0, -0.1]), ([0.0, -1.0], [0.0, -1e4])])
def test_distant_normals(first: list[float], second: list[float]) -> None:
    """Newton's method alone stops at saddles of the energy here."""
    theta = np.array([first, second])
    normals = np.column_stack([-theta[:, 0] / (2 * theta[:, 1]), (-2 * theta[:, 1]) ** -0.5])
    truth = NormalFamily().fisher_distances(normals)[0, 1]
    found = ExponentialFamily(normal).distances([first], [second]).item()
    assert found == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize("width", [1e-2, 1e-4, 1e-7])
def test_narrow_bumps_are_not_missed(width: float) -> None:
    """``A'' = 1 + h / cosh(x)^2``, x = (theta - 0.37) / width: the bump has a seventh of the length."""
    height = (0.05 / width) ** 2

    def bumpy(theta):
        x = (theta - 0.37) / width
        bump = torch.nn.functional.softplus(2 * x, threshold=700)
        return (theta**2 / 2 + height * width**2 * bump).sum()

    x, dx = np.linspace(-40, 40, 400_001, retstep=True)
    excess = np.sqrt(1 + height / np.cosh(x) ** 2) - 1
    truth = 1 + width * dx * excess[abs(width * x) < 0.37].sum()
    found = ExponentialFamily(bumpy).distances([[0.0]], [[1.0]]).item()
    assert found == pytest.approx(truth, rel=1e-7)


def test_paths_along_the_edge_are_refused() -> None:
    """The energy hardly changes near the straight path, which is longer by two fifths."""
    with pytest.raises(ValueError, match="use rows that are closer together"):
        ExponentialFamily(poisson).distances([[0.0, 30.0]], [[30.0, 0.0]])


def test_parametrix_is_equation_7() -> None:
    """``exp(-arccos(w)^2 / t)`` on the trinomial: the sphere has radius 2 in the Fisher metric."""
    rows = shares(3, 4)
    theta = np.log(rows[:, :-1] / rows[:, -1:])
    kernel = Parametrix(ExponentialFamily(trinomial), t=0.4)
    K, slope = kernel(theta, eval_gradient=True)
    expected, expected_slope = Parametrix(Simplex(), t=0.1)(rows, eval_gradient=True)
    assert np.abs(K - expected).max() < 1e-12
    assert np.abs(slope - expected_slope).max() < 1e-12
    assert np.abs(kernel(theta[:2], theta) - K[:2]).max() < 1e-13
    assert np.array_equal(kernel.diag(theta), np.ones(4))
    halved = kernel.scaled_to(theta)(theta)
    assert abs(np.median(halved[np.triu_indices(4, 1)]) - 0.5) < 1e-3
    assert not kernel.positive_semidefinite


def test_refusals() -> None:
    family = ExponentialFamily(normal, n=2)
    with pytest.raises(ValueError, match=r"row 1 of X is not among the natural parameters"):
        family.check([[0.0, -1.0], [0.0, 0.5]])
    with pytest.raises(ValueError, match="3 parameters at most"):
        ExponentialFamily(poisson).distances(np.ones((2, 4)))
    with pytest.raises(TypeError, match=r"NumPy rows; give X.cpu"):
        family.check(torch.tensor([[0.0, -1.0]]))
    with pytest.raises(ValueError, match="order must be 0"):
        Parametrix(family, t=1.0, order=1)(np.array([[0.0, -1.0]]))
    with pytest.raises(ValueError, match="Parametrix has no default time"):
        Parametrix(family)(np.array([[0.0, -1.0]]))

    with pytest.raises(TypeError, match="log_partition must be a function from a torch tensor"):
        ExponentialFamily(3)
    with pytest.raises(ValueError, match="n must be a whole number from 1 to 3, got 4"):
        ExponentialFamily(poisson, n=4)
    with pytest.raises(TypeError, match=r"written with functions of torch, such as torch\.exp"):
        ExponentialFamily(lambda theta: np.exp(theta).sum()).check([[0.0]])
    with pytest.raises(TypeError, match=r"one real number, got a tensor of shape \(2,\) at \[0. 1.\]"):
        ExponentialFamily(torch.exp).check([[0.0, 1.0]])

    def ring(theta):  # convex where theta is far from zero only
        return (theta**2).sum() ** 2 / 4 - (theta**2).sum() / 2

    with pytest.raises(ValueError, match="no shortest path was found between"):
        ExponentialFamily(ring).distances([[-2.0, 0.0]], [[2.0, 0.0]])
    with pytest.raises(ValueError, match="second derivative of its log-partition function is not"):
        ExponentialFamily(lambda theta: theta.abs().sum()).check([[0.5, 1.0]])


def test_pairs_that_are_lost_are_found_before_the_others_are_tried(monkeypatch) -> None:
    """All pairs were tried first, for up to a minute."""
    tried = []
    energies = geodesics._energies

    def watched(metric, a, b, even):
        tried.append(len(a))
        return energies(metric, a, b, even)

    monkeypatch.setattr(geodesics, "_energies", watched)
    theta = np.random.default_rng(0).normal(scale=100.0, size=(20, 2))
    with pytest.raises(ValueError, match="no shortest path was found between"):
        ExponentialFamily(poisson).distances(theta)
    assert sum(tried) <= 2 * 16
