"""Bounds against geometry that is known, brute force, and the rate of the theorem."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, SVR, NuSVC, OneClassSVM

from mercer.bounds import (
    critical_sample_size,
    effective_sample_size,
    enclosing_ball,
    generalization_bound,
    pairwise_vc_bounds,
    vc_bound,
)
from mercer.kernels import Cosine, Gaussian, Heat, Linear
from mercer.spaces import Simplex

RNG = np.random.default_rng(0)
X2 = np.concatenate([RNG.normal(size=(20, 3)) - 2, RNG.normal(size=(25, 3)) + 2])
Y2 = np.repeat(["no", "yes"], [20, 25])
IRIS, SPECIES = load_iris(return_X_y=True)


# The ball


def test_ball_of_points_on_a_circle() -> None:
    angle = 2 * np.pi * np.arange(12) / 12
    X = np.column_stack([3 + 2 * np.cos(angle), 5 + 2 * np.sin(angle)])
    ball = enclosing_ball(X @ X.T)
    assert ball.radius == pytest.approx(2, rel=1e-6)
    assert ball.weights @ X == pytest.approx([3, 5], abs=1e-4)


@pytest.mark.parametrize("size", [2, 3, 10, 300])
def test_ball_of_simplex_corners(size: int) -> None:
    ball = enclosing_ball(np.eye(size))
    assert ball.lower <= 1 - 1 / size + 1e-12
    assert ball.upper == pytest.approx(1 - 1 / size, rel=1e-6)


def test_ball_with_points_inside_and_duplicates() -> None:
    X = np.array([[-1.0, 0], [1, 0], [1, 0], [0, 0.5], [0.2, -0.9], [-1, 0]]) + 100
    assert enclosing_ball(X @ X.T).radius == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("size", [1, 4])
def test_ball_of_one_point(size: int) -> None:
    ball = enclosing_ball(np.full((size, size), 2.5))
    assert (ball.lower, ball.upper) == (0, 0)
    assert ball.weights.sum() == pytest.approx(1)


def test_ball_of_an_obtuse_triangle_needs_two_points() -> None:
    X = np.array([[0.0, 0], [10, 0], [5, 1e-3]])
    assert enclosing_ball(X @ X.T).radius == pytest.approx(5, rel=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 9), st.integers(1, 4), st.integers(0, 10**6), st.sampled_from([1e-6, 1.0, 1e6]))
def test_ball_against_a_general_solver(size: int, columns: int, seed: int, scale: float) -> None:
    X = np.random.default_rng(seed).normal(size=(size, columns))

    def farthest(center):
        return ((X - center[:-1]) ** 2).sum(axis=1)

    start = np.append(X.mean(axis=0), farthest(np.append(X.mean(axis=0), 0)).max())
    best = minimize(
        lambda c: c[-1],
        start,
        constraints={"type": "ineq", "fun": lambda c: c[-1] - farthest(c)},
        options={"maxiter": 500, "ftol": 1e-12},
    )
    ball = enclosing_ball(scale**2 * X @ X.T)
    assert ball.upper / scale**2 == pytest.approx(best.fun, rel=1e-5)
    assert ball.lower <= ball.upper <= ball.lower * (1 + 2e-6)
    center = ball.weights @ X
    assert ((X - center) ** 2).sum(axis=1).max() <= ball.upper / scale**2 * (1 + 1e-6)


def test_ball_does_not_move_with_the_points() -> None:
    X = RNG.normal(size=(40, 5))
    turn, _ = np.linalg.qr(RNG.normal(size=(5, 5)))
    moved = X @ turn + 3
    order = RNG.permutation(40)
    assert enclosing_ball(moved @ moved.T).upper == pytest.approx(
        enclosing_ball((X @ X.T)[np.ix_(order, order)]).upper, rel=3e-6
    )


def test_ball_of_many_points_is_certified() -> None:
    ball = enclosing_ball(Gaussian(length_scale=0.3)(RNG.normal(size=(500, 6))))
    assert 0 <= ball.upper - ball.lower <= 1e-6 * ball.upper
    assert ball.upper < 1  # unit vectors with some similarity


def test_ball_refuses_what_is_no_gram_matrix() -> None:
    with pytest.raises(ValueError, match="positive semidefinite"):
        enclosing_ball([[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(ValueError, match="symmetric"):
        enclosing_ball([[1.0, 0.5], [0.1, 1.0]])
    with pytest.raises(ValueError, match=r"row 1 .* NaN"):
        enclosing_ball([[1.0, 0.0], [np.nan, 1.0]])
    with pytest.raises(ValueError, match="not empty"):
        enclosing_ball(np.empty((0, 0)))
    K = Gaussian()(RNG.normal(size=(50, 2)))
    assert enclosing_ball(K.astype(np.float32)).upper == pytest.approx(enclosing_ball(K).upper, rel=1e-4)


# VC bounds


@pytest.mark.parametrize("mu", [3.0, 40.0, 500.0])
@pytest.mark.parametrize("eta", [1e-3, 0.3])
def test_the_bound_is_stationary_at_the_critical_size(mu: float, eta: float) -> None:
    def squared(share: float) -> float:
        return (math.log(2 * share) + 1 - math.log(eta / 4) / mu) / share

    critical = critical_sample_size(mu, eta)
    assert 0 < critical < 0.5
    assert squared(critical) > max(squared(0.98 * critical), squared(1.02 * critical))
    # Wherever the bound holds it falls.
    shares = np.linspace(0.5, 3, 20)
    assert np.all(np.diff(generalization_bound(shares * mu, mu, eta)) < 0)
    with pytest.raises(ValueError, match="eta"):
        critical_sample_size(mu, 1.0)


def test_numbers() -> None:
    assert effective_sample_size(120, 30) == 4
    m, mu, eta = 1000, 40.0, 0.1
    expected = math.sqrt((math.log(2 * m / mu) + 1 - math.log(eta / 4) / mu) / (m / mu))
    assert generalization_bound(m, mu, eta) == pytest.approx(expected, rel=1e-14)
    table = generalization_bound([[100], [10_000]], [5, 50], eta)
    assert table.shape == (2, 2)
    assert table[1, 1] == generalization_bound(10_000, 50, eta)


@given(st.floats(1, 1e4), st.floats(1e-6, 0.99), st.floats(0.5, 1e6))
def test_bound_falls_with_rows_and_rises_with_confidence(mu: float, eta: float, share: float) -> None:
    value = generalization_bound(share * mu, mu, eta)
    assert value >= generalization_bound(2 * share * mu, mu, eta)
    assert value <= generalization_bound(share * mu, mu, eta / 2)
    assert generalization_bound(0.49 * mu, mu, eta) == np.inf


@pytest.mark.parametrize("eta", [0, 1, -0.1, 2, np.nan, [0.1, 0.2]])
def test_confidence_is_a_probability(eta) -> None:
    with pytest.raises(ValueError, match="eta must lie between 0 and 1"):
        generalization_bound(100, 3, eta)


@pytest.mark.parametrize(
    ("m", "mu", "name"), [(0, 1, "m"), (np.nan, 1, "m"), (5, 0, "mu"), (5, np.inf, "mu")]
)
def test_sizes_are_positive(m, mu, name: str) -> None:
    for function in (generalization_bound, effective_sample_size):
        with pytest.raises(ValueError, match=f"^{name} must be positive"):
            function(m, mu)


def test_hard_margin_against_coordinates() -> None:
    model = SVC(kernel="linear", C=1e6).fit(X2, Y2)
    bound = vc_bound(model, X2)
    assert bound.margin == pytest.approx(1 / np.linalg.norm(model.coef_))
    reach = np.abs(model.decision_function(X2)).min()
    assert reach == pytest.approx(1, abs=2e-3)  # the nearest point is one margin away
    assert bound.inside == 0
    assert (bound.size, bound.dimension) == (45, 3)
    assert bound.ball == enclosing_ball(X2 @ X2.T)
    assert bound.mu == min(3, bound.ball.upper / bound.margin**2) + 1
    assert bound.effective_sample_size == 45 / bound.mu
    assert bound.generalization_bound(0.1) == generalization_bound(45, bound.mu, 0.1)
    assert "hard margin" in str(bound)


def test_soft_margin_counts_rows_inside() -> None:
    X = np.concatenate([RNG.normal(size=(60, 2)) - 0.7, RNG.normal(size=(60, 2)) + 0.7])
    y = np.repeat([1, -1], 60)
    model = SVC(kernel="linear", C=1.0, tol=1e-6).fit(X, y)
    bound = vc_bound(model, X, dimension=100)
    assert bound.inside == (y * model.decision_function(X) < 1 - 1e-4).sum() > 0
    assert f"{bound.inside} rows inside" in str(bound)
    assert bound.mu == min(100, bound.ratio) + 1


def test_ways_to_give_the_kernel_agree() -> None:
    kernel = Gaussian(length_scale=2.0)
    K = kernel(X2)
    by_kernel = vc_bound(SVC(kernel=kernel).fit(X2, Y2), X2)
    by_matrix = SVC(kernel="precomputed").fit(K, Y2)
    by_name = vc_bound(SVC(kernel="rbf", gamma=1 / 8).fit(X2, Y2), X2)
    for other in (vc_bound(by_matrix, K), vc_bound(by_matrix, X2, kernel=kernel), by_name):
        assert other.margin == pytest.approx(by_kernel.margin, rel=1e-8)
        assert other.ball.upper == pytest.approx(by_kernel.ball.upper, rel=1e-8)
        assert other.dimension == np.inf
        assert other.mu == other.ratio + 1


@pytest.mark.parametrize("options", [{"kernel": "poly", "degree": 2, "coef0": 1.0}, {"gamma": "scale"}])
def test_built_in_kernels(options) -> None:
    model = SVC(tol=1e-8, **options).fit(X2, Y2)
    bound = vc_bound(model, X2)
    # At the optimum |w|^2 = sum a - sum a * slack.
    a = np.abs(model.dual_coef_[0])
    slack = 1 - np.sign(model.dual_coef_[0]) * model.decision_function(X2)[model.support_]
    assert bound.margin**-2 == pytest.approx((a * (1 - slack)).sum(), rel=1e-5)


def test_dimension_of_known_features() -> None:
    counts = RNG.multinomial(50, [0.1, 0.2, 0.3, 0.4], size=30)
    y = counts[:, 0] > 5
    for X in (counts, sparse.csr_matrix(counts)):
        assert vc_bound(SVC(kernel=Cosine(Simplex())).fit(X, y), X).dimension == 4
        assert vc_bound(SVC(kernel=Linear()).fit(X, y), X).dimension == 4
        assert vc_bound(SVC(kernel="linear").fit(X, y), X).dimension == 4
        assert vc_bound(SVC(kernel=Heat(Simplex())).fit(X, y), X).dimension == np.inf


def test_scale_of_the_kernel_does_not_matter() -> None:
    K = Gaussian()(X2)
    small = vc_bound(SVC(kernel="precomputed", C=1e6, tol=1e-9).fit(K, Y2), K)
    large = vc_bound(SVC(kernel="precomputed", C=1e6, tol=1e-9).fit(1000 * K, Y2), 1000 * K)
    assert small.ratio == pytest.approx(large.ratio, rel=1e-5)


def test_nu_machines() -> None:
    model = NuSVC(kernel="linear", nu=0.2).fit(X2, Y2)
    bound = vc_bound(model, X2)
    assert bound.margin == pytest.approx(1 / np.linalg.norm(model.coef_))
    assert bound.inside <= 0.2 * len(X2) + 1


def test_equal_points_leave_nothing_to_choose() -> None:
    bound = vc_bound(SVC(kernel="linear").fit(np.ones((6, 2)), [0, 1] * 3), np.ones((6, 2)))
    assert bound.mu == pytest.approx(1, abs=1e-6)
    assert np.isfinite(bound.generalization_bound())


@pytest.mark.parametrize("names", [np.array([0, 1, 2]), np.array(["x", "y", "z"])])
def test_pairs_against_machines_of_two_classes(names) -> None:
    y = names[SPECIES]
    kernel = Gaussian(length_scale=1.5)
    found = pairwise_vc_bounds(SVC(kernel=kernel, tol=1e-8).fit(IRIS, y), IRIS, y)
    assert list(found) == [(names[0], names[1]), (names[0], names[2]), (names[1], names[2])]
    by_name = SVC(gamma=1 / 4.5, tol=1e-8).fit(sparse.csr_matrix(IRIS), y)
    for pair, bound in pairwise_vc_bounds(by_name, sparse.csr_matrix(IRIS), y).items():
        assert bound.margin == pytest.approx(found[pair].margin, rel=1e-5)
    for (a, b), bound in found.items():
        rows = (y == a) | (y == b)
        alone = vc_bound(SVC(kernel=kernel, tol=1e-8).fit(IRIS[rows], y[rows]), IRIS[rows])
        assert bound.margin == pytest.approx(alone.margin, rel=1e-5)
        assert bound.ball.upper == pytest.approx(alone.ball.upper, rel=3e-6)
        assert (bound.size, bound.inside) == (100, alone.inside)


def test_pairs_of_two_classes() -> None:
    model = SVC(kernel="linear").fit(X2, Y2)
    assert pairwise_vc_bounds(model, X2, Y2) == {("no", "yes"): vc_bound(model, X2)}


def test_what_is_no_classifier() -> None:
    for model in (SVR().fit(X2, X2[:, 0]), OneClassSVM().fit(X2), LogisticRegression().fit(X2, Y2)):
        with pytest.raises(TypeError, match=type(model).__name__):
            vc_bound(model, X2)
    with pytest.raises(NotFittedError):
        vc_bound(SVC(), X2)
    with pytest.raises(ValueError, match=r"3 classes.*pairwise_vc_bounds"):
        vc_bound(SVC().fit(IRIS, SPECIES), IRIS)


def test_other_rows_than_the_training_rows() -> None:
    model = SVC(kernel=Linear()).fit(X2, Y2)
    with pytest.raises(ValueError, match="X has 44 rows, but the model was fitted on 45"):
        vc_bound(model, X2[1:])
    with pytest.raises(ValueError, match="not optimal for these rows"):
        vc_bound(model, X2[::-1])
    with pytest.raises(ValueError, match=r"shape \(45, 3\), expected \(45, 45\)"):
        vc_bound(SVC(kernel="precomputed").fit(Linear()(X2), Y2), X2)
    with pytest.raises(ValueError, match="dimension must be"):
        vc_bound(model, X2, dimension=0)


def test_other_labels_than_the_training_labels() -> None:
    model = SVC().fit(IRIS, SPECIES)
    with pytest.raises(ValueError, match="y has shape"):
        pairwise_vc_bounds(model, IRIS, SPECIES[1:])
    with pytest.raises(ValueError, match=r"row 3 of y is .*7"):
        pairwise_vc_bounds(model, IRIS, np.where(np.arange(150) == 3, 7, SPECIES))
    with pytest.raises(ValueError, match="of y is not the class"):
        pairwise_vc_bounds(model, IRIS, SPECIES[::-1])


def test_margin_below_the_tolerance_of_the_fit() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.poisson(3, size=(30, 5)) + 1, np.arange(30) % 2
    X[:, 0] += 5 * y
    options = {"kernel": Heat(Simplex()), "nu": 0.3}
    with pytest.raises(ValueError, match="smaller tol"):
        vc_bound(NuSVC(**options, tol=0.1).fit(X, y), X)
    assert vc_bound(NuSVC(**options, tol=1e-8).fit(X, y), X).inside > 0


def test_kernel_that_is_none() -> None:
    K = np.ones((45, 45)) - 2 * np.eye(45)
    model = SVC(kernel="precomputed", max_iter=10_000).fit(K + 2.1 * np.eye(45), Y2)
    with pytest.raises(ValueError, match=r"positive semidefinite|not optimal"):
        vc_bound(model, K)


# Covering numbers
