"""Hyperbolic space and normal families, against integrals and geodesics."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.integrate import quad, solve_ivp
from scipy.optimize import root
from sklearn.svm import SVC

from mercer.kernels import Gaussian, Heat, Matern, Spectral
from mercer.spaces import Hyperbolic, NormalFamily, NormalProduct
from mercer.spaces.realisations.base import Operands


@pytest.mark.parametrize("d", range(1, 11))
@pytest.mark.parametrize("t", [0.02, 0.3, 1.5])
def test_total_mass(d: int, t: float) -> None:
    kernel = Heat(Hyperbolic(), t=t, normalized=False)
    profile = kernel.profile(d)
    area = 2 * math.pi ** (d / 2) / math.gamma(d / 2)

    def density(rho: float) -> float:
        value = np.array([[2 * math.sinh(rho / 2) ** 2]])
        profile.apply(value)
        return area * math.sinh(rho) ** (d - 1) * value[0, 0]

    reach = (d - 1) * t + 14 * math.sqrt(2 * t)
    cuts = np.linspace(0, reach, 9)
    mass = sum(quad(density, a, b, epsabs=1e-12)[0] for a, b in pairwise(cuts))
    assert mass == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("d", [2, 3, 10, 50])
@pytest.mark.parametrize("t", [0.01, 1.0])
def test_close_points_far_from_the_origin(d: int, t: float) -> None:
    # cosh(1e-8) - 1 = 5e-17: nothing is left of it in a product of coordinates near 1e4.
    points = np.full((2, d), 1e4)
    points[:, -1] = 1.0
    points[1, -1] = math.exp(1e-8)
    kernel = Heat(Hyperbolic(), t=t)
    drop = (kernel.log([points[0]], [points[1]]) / 5e-17)[0, 0]
    near = np.array([[1e-6]])
    kernel.profile(d).without_exponential.apply(near)
    assert drop == pytest.approx(near[0, 0] / 1e-6, rel=1e-3)
    assert abs(kernel(points)[0, 1] - 1) < 1e-12


def test_coordinates_agree() -> None:
    rng = np.random.default_rng(0)
    ball = rng.normal(size=(12, 4))
    ball *= (rng.uniform(0.1, 0.999, size=12) / np.linalg.norm(ball, axis=1))[:, None]
    squares = (ball**2).sum(axis=1, keepdims=True)
    hyperboloid = np.concatenate([1 + squares, 2 * ball], axis=1) / (1 - squares)
    # Inversion at (0, .., 0, -1) takes the ball to the half-space.
    moved = ball + np.eye(4)[-1]
    half = 2 * moved / (moved**2).sum(axis=1, keepdims=True) - np.eye(4)[-1]
    K = Heat(Hyperbolic("ball"), t=0.4)(ball)
    np.testing.assert_allclose(Heat(Hyperbolic("hyperboloid"), t=0.4)(hyperboloid), K, atol=1e-10)
    np.testing.assert_allclose(Heat(Hyperbolic(), t=0.4)(half), K, atol=1e-10)


@settings(deadline=None)  # the first call compiles
@given(st.sampled_from([1, 2, 5]), st.sampled_from([0.01, 1.0]), st.integers(0, 2**32 - 1))
def test_gram_matrices_of_clusters(d: int, t: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(3, d))
    points = centres[rng.integers(0, 3, size=25)] + 1e-5 * rng.normal(size=(25, d))
    points[:, -1] = np.exp(points[:, -1])
    K = Heat(Hyperbolic(), t=t)(points)
    np.testing.assert_array_equal(K, K.T)
    assert np.linalg.eigvalsh(K).min() > -1e-12


def test_fisher_distance_in_closed_form() -> None:
    rng = np.random.default_rng(0)
    mu, sigma = rng.normal(size=(2, 20)), rng.gamma(2.0, size=(2, 20))
    X, Y = np.column_stack([mu[0], sigma[0]]), np.column_stack([mu[1], sigma[1]])
    found = np.diag(NormalFamily().fisher_distances(X, Y))
    plus = (mu[0] - mu[1]) ** 2 + 2 * (sigma[0] + sigma[1]) ** 2
    minus = (mu[0] - mu[1]) ** 2 + 2 * (sigma[0] - sigma[1]) ** 2
    delta = np.sqrt(minus / plus)
    np.testing.assert_allclose(found, math.sqrt(2) * np.log((1 + delta) / (1 - delta)), rtol=1e-12)


def test_fisher_distance_by_geodesics() -> None:
    """Shooting geodesics of ``(|d mu|^2 + 4 d sigma^2) / sigma^2`` (k = 2) and measuring them."""
    start, end = np.array([0.0, 0.0, 1.0]), np.array([0.8, -0.5, 1.6])
    metric = np.array([1.0, 1.0, 4.0])

    def flow(_, state):
        x, v = state[:3], state[3:]
        speed = (metric * v * v).sum()
        turn = 2 * v * v[2] / x[2]
        turn[2] -= speed / (4 * x[2])
        return np.concatenate([v, turn])

    def miss(v):
        run = solve_ivp(flow, (0, 1), np.concatenate([start, v]), rtol=1e-11, atol=1e-12)
        return run.y[:3, -1] - end

    v = root(miss, end - start, tol=1e-12).x
    length = math.sqrt((metric * v * v).sum()) / start[2]
    found = NormalFamily().fisher_distances([start], [end])[0, 0]
    assert found == pytest.approx(length, rel=1e-8)


def test_invariance_of_the_sample_space() -> None:
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=(15, 3)), rng.gamma(2.0, size=15)])
    turned = X.copy()
    turned[:, :3] = X[:, :3] @ np.linalg.qr(rng.normal(size=(3, 3)))[0] + rng.normal(size=3)
    turned *= 7.0
    kernel = Heat(NormalFamily(), t=0.3)
    np.testing.assert_allclose(kernel(turned), kernel(X), atol=1e-11)


@pytest.mark.parametrize(
    ("space", "X", "message"),
    [
        (Hyperbolic(), [[0.0, 1.0], [0.0, 0.0]], "row 1 of X has no positive scale: sigma"),
        (Hyperbolic(), [[0.0, -1.0]], "row 0 of X has no positive scale"),
        (Hyperbolic(), [[0.0, np.nan]], "row 0 of X contains NaN"),
        (Hyperbolic("ball"), [[0.1, 0.2], [0.8, 0.8]], "row 1 of X is not inside the unit ball"),
        (Hyperbolic("hyperboloid"), [[1.0, 0.5]], "row 0 of X is not on the hyperboloid"),
        (NormalFamily(), [[0.0, 0.0]], "row 0 of X has no positive scale: the standard deviation"),
        (NormalFamily(), [[1.0]], "needs at least 2"),
        (Hyperbolic(), [[0.0, 1.0], [0.0, 1e60]], "row 1 of X is at a distance above"),
        (Hyperbolic(), [[0.0, 1.0], [1e300, 1.0]], "row 1 of X is at a distance above"),
    ],
)
def test_bad_rows(space, X, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Heat(space, t=1.0)(X)


def test_bad_options() -> None:
    with pytest.raises(ValueError, match="coordinates of Hyperbolic must be one of"):
        Hyperbolic("klein")
    with pytest.raises(ValueError, match="Heat has no default time"):
        Heat(Hyperbolic())([[0.0, 1.0]])
    with pytest.raises(TypeError, match="Spectral is not known on hyperbolic space"):
        Spectral(Hyperbolic(), weights=[1.0, 2.0])([[0.0, 1.0]])
    with pytest.raises(TypeError, match="dense rows"):
        Heat(Hyperbolic(), t=1.0)(sparse.csr_matrix([[0.0, 1.0]]))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Heat(Hyperbolic(), t=1e-9), "t of Heat on Hyperbolic.* must be at least 1e-08"),
        (Heat(NormalProduct(), t=1e-300), "t of Heat on NormalProduct.* must be at least 1e-08"),
        (Matern(Hyperbolic(), length_scale=1e-6), "length_scale .* must be at least 1e-05"),
        (Matern(NormalFamily(), length_scale=1e300), "length_scale of Matern is too large"),
        (
            Matern(Hyperbolic(), nu=1e5, length_scale=1.0),
            "nu of Matern on hyperbolic space must be at most 10000",
        ),
    ],
)
def test_parameters_out_of_range(kernel, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kernel([[0.0, 1.0]])


@pytest.mark.parametrize("d", [2, 3, 100])
def test_shortest_time(d: int) -> None:
    t = 1e-8
    rho = math.sqrt(t) * np.array([1e-3, 0.1, 1.0, 2.0, 5.0])
    Y = np.zeros((5, d))
    Y[:, 0], Y[:, -1] = 2 * np.sinh(rho / 2), 1.0
    # (rho / sinh rho)^((d-1)/2), what curvature changes first
    flat = np.exp(-(rho**2) / (4 * t) - (d - 1) * rho**2 / 12)
    found = Heat(Hyperbolic(), t=t)(np.eye(d)[-1:], Y)[0]
    np.testing.assert_allclose(found, flat, rtol=0, atol=1e-10)


@pytest.mark.parametrize("space", [Hyperbolic(), NormalFamily(), NormalProduct()])
def test_tensors_in_single_precision(space) -> None:
    import torch

    X = torch.tensor([[0.0, 1.0], [1.0, 2.0]], dtype=torch.float32, requires_grad=True)
    K = Heat(space, t=0.5)(X)
    assert K.dtype == torch.float32
    K.sum().backward()
    assert X.grad is not None
    assert X.grad.dtype == torch.float32
    assert bool(X.grad.isfinite().all())


def test_distances_of_what_is_no_table() -> None:
    with pytest.raises(ValueError, match="2D array"):
        NormalFamily().fisher_distances([0.0, 1.0])


def test_in_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=80), np.exp(rng.normal(size=80))])
    y = X[:, 0] / X[:, 1] > 0.5
    machine = SVC(kernel=Heat(NormalFamily(), t=0.3), C=10).fit(X[:60], y[:60])
    assert machine.score(X[60:], y[60:]) > 0.8
    flat = Gaussian()(X)
    assert not np.allclose(flat, Heat(NormalFamily(), t=0.5)(X))


def test_close_points_of_long_rows_keep_their_digits() -> None:
    """Far pairs come from a matrix product, close ones from coordinates, as do tiles of close ones."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 150)) / 30
    others = rng.normal(size=(260, 150)) / 30
    others[:9] = X[:9] * (1 + 1e-7)
    others[9] = X[0]
    space = Hyperbolic("ball")
    for Y in (others, X[:1] + rng.normal(size=(200, 150)) * 1e-6):
        found = Operands(space, X, Y).invariants()
        p, s = space.chart(X)
        q, r = space.chart(Y)
        exact = np.array(
            [np.sum((p - other) ** 2, axis=1) * s * t for other, t in zip(q, r, strict=True)]
        ).T
        np.testing.assert_allclose(found, exact, rtol=2e-14, atol=0)
    assert Operands(space, X, others).invariants()[0, 9] == 0.0


def test_the_longest_rows_are_outside_the_ball() -> None:
    with pytest.raises(ValueError, match="row 1 of X is not inside the unit ball"):
        Heat(Hyperbolic("ball"), t=0.1)(np.array([[0.1, 0.0], [1e200, 1.0]]))
