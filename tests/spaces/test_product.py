"""Products of spaces, against products of kernels and quadrature."""

import math
import pickle
from itertools import pairwise

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from scipy.integrate import quad
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.svm import SVC

from mercer.kernels import Heat, Matern, Spectral
from mercer.spaces import Categories, Graph, Hyperbolic, ProductSpace, Simplex, Sphere, Torus

GLOBE = Sphere(coordinates="latlon")
CLUB = Graph(nx.karate_club_graph(), laplacian="normalized")
MIXED = ProductSpace(Simplex(), Categories(), GLOBE, columns=[slice(0, 5), [5, 6], [7, 8]])
NODES = ProductSpace(CLUB, Categories(levels=3), columns=[0, [1, 2]])


def mixed_rows(size: int = 20) -> np.ndarray:
    rng = np.random.default_rng(0)
    X = np.empty((size, 9), dtype=object)
    X[:, :5] = rng.poisson(2, size=(size, 5)) + np.eye(1, 5)
    X[:, 5:7] = rng.choice(list("abc"), size=(size, 2))
    X[:, 7] = rng.uniform(-80, 80, size)
    X[:, 8] = rng.uniform(-180, 180, size)
    return X


def mixed_frame(size: int = 20) -> pd.DataFrame:
    frame = pd.DataFrame(mixed_rows(size), columns=list("vwxyzabpq"))
    numbers = dict.fromkeys("vwxyzpq", float)
    return frame.astype(numbers | {"a": "category"})


def node_rows(size: int = 12) -> np.ndarray:
    rng = np.random.default_rng(1)
    X = rng.integers(0, 34, size=(size, 3)).astype(object)
    X[:, 1:] = rng.choice(list("abc"), size=(size, 2))
    return X


def mixed_product(X: np.ndarray, t: float, normalized: bool, times=(1.0, 1.0, 1.0)) -> np.ndarray:
    return (
        Heat(Simplex(), t=times[0] * t, normalized=normalized)(X[:, :5].astype(float))
        * Heat(Categories(), t=times[1] * t, normalized=normalized)(X[:, 5:7])
        * Heat(GLOBE, t=times[2] * t, normalized=normalized)(X[:, 7:].astype(float))
    )


def circle_heat(angle: float, t: float) -> float:
    """Heat kernel of the circle, by images or by its Fourier series."""
    if t < 1:
        k = np.arange(-20, 21)
        return float(np.exp(-((angle + 2 * np.pi * k) ** 2) / (4 * t)).sum() / np.sqrt(4 * np.pi * t))
    k = np.arange(1, 41)
    return float((0.5 + (np.exp(-(k**2) * t) * np.cos(k * angle)).sum()) / np.pi)


def mixture(nu: float, length_scale: float, angle: float, differ: bool) -> float:
    """Integral over times of the product of heat kernels on a circle and two labels."""
    s, rate = nu + 0.5, 2 * nu / length_scale**2

    def integrand(x: float) -> float:
        t = math.exp(x)
        labels = (1 + (-1) ** differ * math.exp(-2 * t)) / 2
        return math.exp(s * x - rate * t - math.lgamma(s)) * circle_heat(angle, t) * labels

    parts = pairwise([-50.0, -30.0, -20.0, -14.0, -9.0, -6.0, -4.0, -2.0, 0.0, 2.0, 4.5])
    return sum(quad(integrand, a, b, epsabs=1e-15, epsrel=1e-11, limit=200)[0] for a, b in parts)


@pytest.mark.parametrize("t", [0.05, 0.8])
@pytest.mark.parametrize("normalized", [True, False])
def test_heat_is_the_product(t: float, normalized: bool) -> None:
    X = mixed_rows()
    expected = mixed_product(X, t, normalized)
    found = Heat(MIXED, t=t, normalized=normalized)
    assert np.abs(found(X) - expected).max() <= 1e-12 * expected.max()
    assert np.abs(found(X, X[:4].copy()) - expected[:, :4]).max() <= 1e-12 * expected.max()
    assert np.abs(found.diag(X) - np.diag(expected)).max() <= 1e-12 * expected.max()
    parts = zip(MIXED.spaces, (X[:, :5].astype(float), X[:, 5:7], X[:, 7:].astype(float)), strict=True)
    logs = sum(Heat(space, t=t, normalized=normalized).log(rows) for space, rows in parts)
    assert np.abs(found.log(X) - logs).max() < 1e-12
    times = (0.5, 2.0, 1.5)
    space = ProductSpace(*MIXED.spaces, columns=[slice(0, 5), [5, 6], [7, 8]], times=times)
    expected = mixed_product(X, t, normalized, times)
    assert np.abs(Heat(space, t=t, normalized=normalized)(X) - expected).max() <= 1e-12 * expected.max()


def test_heat_with_a_graph_is_the_product() -> None:
    X = node_rows()
    for normalized in (True, False):
        nodes, labels = (Heat(s, t=0.6, normalized=normalized) for s in NODES.spaces)
        expected = nodes(X[:, :1]) * labels(X[:, 1:])
        assert np.abs(Heat(NODES, t=0.6, normalized=normalized)(X) - expected).max() < 1e-14


@pytest.mark.parametrize("nu", [0.7, 2.5])
def test_matern_is_a_mixture_over_times(nu: float) -> None:
    space = ProductSpace(Sphere(), Categories(), columns=[[0, 1], [2]])
    angles = np.array([0.0, 0.4, 2.0])
    X = np.empty((3, 3), dtype=object)
    X[:, 0], X[:, 1], X[:, 2] = np.cos(angles), np.sin(angles), ["a", "b", "a"]
    found = Matern(space, nu=nu, length_scale=0.8, normalized=False)(X)
    for i, j in ((0, 0), (0, 1), (0, 2), (1, 2)):
        expected = mixture(nu, 0.8, angles[j] - angles[i], X[i, 2] != X[j, 2])
        assert abs(found[i, j] - expected) < 1e-10 * found[0, 0]
    kernel = Matern(space, nu=nu, length_scale=0.8)
    assert np.abs(kernel(X) - found / found[0, 0]).max() < 1e-12


def test_matern_with_a_graph_is_a_power_of_the_sum_of_laplacians() -> None:
    X = node_rows()
    labels = np.kron(3 * np.eye(3) - 1, np.eye(3)) + np.kron(np.eye(3), 3 * np.eye(3) - 1)
    L = np.kron(CLUB.operator("laplacian").matrix.toarray(), np.eye(9)) + np.kron(np.eye(34), labels)
    eigenvalues, vectors = np.linalg.eigh(L)
    for nu in (0.7, 2.0):
        whole = (vectors * (2 * nu / 0.9**2 + eigenvalues) ** -nu) @ vectors.T
        codes = ["abc".index(a) * 3 + "abc".index(b) for a, b in X[:, 1:]]
        where = X[:, 0].astype(int) * 9 + codes
        K = whole[np.ix_(where, where)]
        lengths = np.sqrt(np.diag(K))
        kernel = Matern(NODES, nu=nu, length_scale=0.9)
        assert np.abs(kernel(X) - K / np.outer(lengths, lengths)).max() < 1e-11
        assert np.abs(kernel(X, X[:3].copy()) - kernel(X)[:, :3]).max() < 1e-14
        absolute = Matern(NODES, nu=nu, length_scale=0.9, normalized=False)
        assert np.abs(absolute(X) - K).max() < 1e-11 * K.max()


@pytest.mark.parametrize(("n", "nu"), [(4, 1.5), (20, 2.5), (3, 40.0), (800, 2.5)])
def test_matern_of_one_factor_is_its_own(n: int, nu: float) -> None:
    X = np.random.default_rng(2).normal(size=(15, n))
    product = Matern(ProductSpace(Sphere(), columns=[slice(None)]), nu=nu)
    assert np.abs(product(X) - Matern(Sphere(), nu=nu)(X)).max() < 1e-12


def test_kinds_of_tables() -> None:
    X, frame = mixed_rows(), mixed_frame()
    K = Heat(MIXED, t=0.3)(X)
    named = ProductSpace(*MIXED.spaces, columns=[list("vwxyz"), ["a", "b"], ["p", "q"]])
    for same in (frame, pd.DataFrame(X), X.tolist()):
        assert np.array_equal(Heat(MIXED, t=0.3)(same), K)
    spare = ProductSpace(*MIXED.spaces, columns=[slice(0, 5), [5, 6], [7, 8]], remainder="drop")
    assert np.array_equal(Heat(spare, t=0.3)(frame.assign(more=1)), K)
    for same in (frame, frame[frame.columns[::-1]]):
        assert np.array_equal(Heat(named, t=0.3)(same), K)
        assert np.abs(Heat(named, t=0.3)(frame, same) - K).max() < 1e-15
    v = np.arange(20.0)
    assert np.allclose(Heat(named, t=0.3).matvec(frame, None, v), K @ v, rtol=1e-12)


def test_sparse_rows() -> None:
    X = (
        np.random.default_rng(3).poisson(1.0, size=(15, 12))
        + np.eye(15, 12)
        + 1.0 * (np.arange(12) > 10)
    )
    space = ProductSpace(Simplex(), Simplex(), columns=[slice(0, 6), slice(6, None)])
    K = Heat(space)(X)
    for form in (sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix):
        assert np.abs(Heat(space)(form(X)) - K).max() < 1e-12


def test_tensors() -> None:
    rng = np.random.default_rng(4)
    X = np.hstack([rng.normal(size=(10, 5)), rng.integers(0, 3, size=(10, 2))])
    space = ProductSpace(Sphere(), Categories(), columns=[slice(0, 5), slice(5, None)], times=[1, 3])
    rough = Matern(space, nu=1.5, length_scale=0.4)
    for kernel in (Heat(space, t=0.2), Heat(space, t=0.2, normalized=False), rough):
        assert np.abs(kernel(torch.tensor(X)).numpy() - kernel(X)).max() < 1e-12 * kernel.diag(X).max()
        assert np.abs(kernel.diag(torch.tensor(X)).numpy() / kernel.diag(X) - 1).max() < 1e-12
        v = np.ones(10)
        product = kernel.matvec(torch.tensor(X), None, torch.tensor(v)).numpy()
        assert np.allclose(product, kernel(X) @ v, rtol=1e-10)
        with pytest.raises(TypeError, match="autograd"):
            kernel(torch.tensor(X), eval_gradient=True)
    for normalized in (True, False):
        t = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)
        rows = torch.tensor(X, requires_grad=True)
        Heat(space, t=t, normalized=normalized)(rows)[0, 1:].sum().backward()
        gradient = Heat(space, t=0.2, normalized=normalized)(X, eval_gradient=True)[1]
        assert float(t.grad) == pytest.approx(gradient[0, 1:, 0].sum() / 0.2, rel=1e-9)
        assert np.abs(rows.grad[0, :5].numpy()).max() > 0
        length = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
        mixture = Matern(space, nu=1.5, length_scale=length, normalized=normalized)
        mixture(torch.tensor(X))[0, 1:].sum().backward()
        kernel = Matern(space, nu=1.5, length_scale=0.4, normalized=normalized)
        gradient = kernel(X, eval_gradient=True)[1]
        assert float(length.grad) == pytest.approx(gradient[0, 1:, 0].sum() / 0.4, rel=1e-9)


@pytest.mark.parametrize(
    "kernel",
    [
        Heat(MIXED, t=0.3),
        Heat(MIXED, t=0.3, normalized=False),
        Matern(
            ProductSpace(GLOBE, Categories(), columns=[[7, 8], [5, 6]], times=[1, 2], remainder="drop")
        ),
        Matern(
            ProductSpace(Torus(360), Categories(), columns=[[7, 8], [5, 6]], remainder="drop"), nu=1.5
        ),
        Heat(MIXED, t_star=0.7, normalized=False),
        Matern(NODES, nu=1.5, length_scale=0.6, normalized=False),
        Matern(NODES, nu=1.5, length_scale=0.6),
    ],
    ids=repr,
)
def test_gradients(kernel) -> None:
    X = node_rows() if kernel.space is NODES else mixed_rows(12)
    K, gradient = kernel(X, eval_gradient=True)
    assert np.abs(K - kernel(X)).max() < 1e-13 * K.max()
    step = 1e-4
    ahead, behind = (kernel.clone_with_theta(kernel.theta + s)(X) for s in (step, -step))
    assert np.abs(gradient[:, :, 0] - (ahead - behind) / (2 * step)).max() < 1e-7 * K.max()
    assert np.linalg.eigvalsh(K)[0] > -1e-13 * K.max()


def test_invariance_under_the_factors_isometries() -> None:
    rng = np.random.default_rng(5)
    X = mixed_rows()
    moved = MIXED.isometry(rng)(X)
    assert not np.array_equal(moved, X)
    assert np.abs(Heat(MIXED, t=0.2)(moved) - Heat(MIXED, t=0.2)(X)).max() < 1e-9
    assert ProductSpace(CLUB, columns=[0]).isometry(rng) is None


def test_natural_units_are_those_of_the_factors() -> None:
    X = mixed_rows()
    n = MIXED.columns(MIXED.check(X))
    assert n == (5, 2, 3)
    units = [space.natural_time(size) for space, size in zip(MIXED.spaces, n, strict=True)]
    assert MIXED.natural_time(n) == 1.0
    for s in (0.6, 1.0):
        expected = (
            Heat(Simplex(), t_star=s)(X[:, :5].astype(float))
            * Heat(Categories(), t_star=s)(X[:, 5:7])
            * Heat(GLOBE, t_star=s)(X[:, 7:].astype(float))
        )
        assert np.abs(Heat(MIXED, t_star=s)(X) - expected).max() < 1e-14
        given = ProductSpace(*MIXED.spaces, columns=[slice(0, 5), [5, 6], [7, 8]], times="natural")
        assert np.array_equal(Heat(given, t=s)(X), Heat(MIXED, t_star=s)(X))
        inner = ProductSpace(Categories(), GLOBE, columns=[[0, 1], [2, 3]])
        outer = ProductSpace(Simplex(), inner, columns=[slice(0, 5), slice(5, 9)])
        assert np.abs(Heat(outer, t_star=s)(X) - expected).max() < 1e-14
    numbers = ProductSpace(*MIXED.spaces, columns=[slice(0, 5), [5, 6], [7, 8]], times=[2, 1, 2])
    assert numbers.natural_time(n) == max(units[0] / 2, units[1], units[2] / 2)
    assert np.array_equal(Heat(numbers)(X), Heat(numbers, t=numbers.natural_time(n))(X))
    assert NODES.natural_time(2) is None
    with pytest.raises(ValueError, match="Heat has no default time"):
        Heat(NODES)(node_rows())
    with pytest.raises(ValueError, match=r"Graph.* has no natural unit of time; give times as numbers"):
        ProductSpace(CLUB, Categories(), columns=[0, 1], times="natural")


def counts_and_places(width: int) -> tuple[np.ndarray, ProductSpace]:
    """Rows of counts in some columns, and places on the globe; with their space."""
    rng = np.random.default_rng(6)
    counts = rng.poisson(0.3, size=(12, width)) + 1.0 * (np.arange(width) == 0)
    places = np.column_stack([rng.uniform(-80, 80, 12), rng.uniform(-180, 180, 12)])
    columns = [slice(0, width), slice(width, None)]
    return np.hstack([counts, places]), ProductSpace(Simplex(), GLOBE, columns=columns)


@pytest.mark.parametrize(
    ("kernel", "width"), [(Heat, 3), (Heat, 64), (Heat, 800), (Heat, 20_000), (Matern, 24)]
)
def test_no_factor_drowns_the_others(kernel, width: int) -> None:
    # Rows that differ in the narrow factor alone, and in the wide one alone.
    X, space = counts_and_places(width)
    for fixed in (slice(0, width), slice(width, None)):
        Y = X.copy()
        Y[:, fixed] = Y[0, fixed]
        K = kernel(space)(Y)
        others = K[np.triu_indices(12, 1)]
        assert 0.02 < np.median(others) < 0.98
        assert np.ptp(others) > 0.01


@pytest.mark.parametrize("width", [3, 64, 800, 20_000])
def test_scaled_to_beside_a_wide_factor(width: int) -> None:
    X, space = counts_and_places(width)
    K = Heat(space).scaled_to(X, 0.3)(X)
    assert np.median(K[np.triu_indices(12, 1)]) == pytest.approx(0.3, abs=0.01)


def test_columns_without_a_factor_are_refused() -> None:
    frame = mixed_frame().assign(id=1, target=2.0)
    with pytest.raises(ValueError, match=r"X has columns that no factor takes: 'id', 'target'; name"):
        Heat(MIXED)(frame)
    with pytest.raises(ValueError, match=r"Y has columns that no factor takes: 9, 10; name"):
        Heat(MIXED)(mixed_rows(), np.hstack([mixed_rows(), mixed_rows()[:, :2]]))
    with pytest.raises(ValueError, match=r"no factor takes: 5, 6, 7, 8, 9, \.\.\.; name"):
        Heat(ProductSpace(Simplex(), columns=[slice(0, 5)]))(np.ones((3, 20)))


def test_scaled_to() -> None:
    K = Heat(MIXED).scaled_to(mixed_rows(40), 0.3)(mixed_rows(40))
    assert np.median(K[np.triu_indices(40, 1)]) == pytest.approx(0.3, abs=1e-3)
    for kernel in (Heat(NODES), Matern(NODES, nu=1.5)):
        K = kernel.scaled_to(node_rows(30), 0.4)(node_rows(30))
        assert np.median(K[np.triu_indices(30, 1)]) == pytest.approx(0.4, abs=0.02)


def test_a_product_of_products() -> None:
    X = mixed_rows()
    inner = ProductSpace(Categories(), GLOBE, columns=[[0, 1], [2, 3]])
    outer = ProductSpace(Simplex(), inner, columns=[slice(0, 5), slice(5, 9)])
    assert np.abs(Heat(outer, t=0.3)(X) - Heat(MIXED, t=0.3)(X)).max() < 1e-15
    K = Matern(outer, length_scale=0.5)(X)
    assert np.abs(K - Matern(MIXED, length_scale=0.5)(X)).max() < 1e-12


def test_messages_name_factor_and_row() -> None:
    kernel = Heat(MIXED, t=0.3)
    cases = [
        (3, -1.0, "row 2 of X has negative entries.*factor 0, Simplex"),
        (3, "much", "row 2 of X has 'much', not a number.*factor 0, Simplex"),
        (5, None, "row 2 of X has a missing label.*factor 1, Categories"),
        (7, 95.0, "row 2 of X.*factor 2, Sphere"),
        (8, float("nan"), "row 2 of X.*factor 2, Sphere"),
    ]
    for column, value, words in cases:
        X = mixed_rows()
        X[2, column] = value
        with pytest.raises(ValueError, match=words):
            kernel(X)
        with pytest.raises(ValueError, match=words.replace("of X", "of Y")):
            kernel(mixed_rows(), X)
    with pytest.raises(ValueError, match=r"X has 8 columns, too few.*factor 2"):
        kernel(mixed_rows()[:, :8])
    with pytest.raises(ValueError, match=r"X has 3 columns, too few.*factor 0"):
        kernel(mixed_rows()[:, :3])
    named = ProductSpace(Categories(), columns=["colour"])
    with pytest.raises(ValueError, match="give a data frame, or positions"):
        Heat(named)(mixed_rows())
    with pytest.raises(ValueError, match="no column 'colour'"):
        Heat(named)(mixed_frame())
    with pytest.raises(TypeError, match="Spectral is not known on products"):
        Spectral(MIXED, weights=lambda eigenvalues: 1 / (1 + eigenvalues) ** 9)(mixed_rows())
    short = ProductSpace(Hyperbolic(), Categories(), columns=[[0, 1], 2])
    with pytest.raises(ValueError, match=r"at least 1e-08.*factor 0, Hyperbolic"):
        Heat(short, t=1e-9)([[0.0, 1.0, "a"]])
    with pytest.raises(ValueError, match=r"at least 1e-08.*factor 0, Hyperbolic"):
        Matern(short, nu=0.5, length_scale=0.5)([[0.0, 1.0, "a"]])


@pytest.mark.parametrize(
    ("spaces", "options", "error", "words"),
    [
        ((), {"columns": []}, TypeError, "factors of a product must be spaces"),
        ((Sphere,), {"columns": [0]}, TypeError, "factors of a product must be spaces"),
        ((Sphere(),), {"columns": "ab"}, TypeError, "columns must be a list"),
        ((Sphere(),), {"columns": [[0, 1], [2]]}, ValueError, "an entry for each of 1 spaces, got 2"),
        ((Sphere(),), {"columns": [[]]}, ValueError, "different positions"),
        ((Sphere(),), {"columns": [[0, 0]]}, ValueError, "different positions"),
        ((Sphere(),), {"columns": [[0, "a"]]}, ValueError, "different positions"),
        ((Sphere(),), {"columns": [1.5]}, ValueError, "different positions"),
        ((Sphere(),), {"columns": [[0, 1]], "times": [0.0]}, ValueError, "or 1 positive numbers"),
        ((Sphere(),), {"columns": [[0, 1]], "times": 2.0}, ValueError, "or 1 positive numbers"),
        ((Sphere(),), {"columns": [[0, 1]], "times": "unit"}, ValueError, "or 1 positive numbers"),
        ((Sphere(),), {"columns": [[0, 1]], "remainder": "keep"}, ValueError, "'error' or 'drop'"),
    ],
)
def test_bad_products_are_refused(spaces, options, error, words: str) -> None:
    with pytest.raises(error, match=words):
        ProductSpace(*spaces, **options)


def test_a_value() -> None:
    same = eval(repr(MIXED))
    assert same == MIXED
    assert hash(same) == hash(MIXED) == hash(pickle.loads(pickle.dumps(MIXED)))
    assert pickle.loads(pickle.dumps(MIXED)) == MIXED != NODES
    timed = ProductSpace(*MIXED.spaces, columns=[slice(0, 5), [5, 6], [7, 8]], times=[1, 2, 3])
    assert timed != MIXED
    assert eval(repr(timed)) == timed
    natural = ProductSpace(
        *MIXED.spaces, columns=[slice(0, 5), [5, 6], [7, 8]], times="natural", remainder="drop"
    )
    assert eval(repr(natural)) == natural != MIXED.in_natural_units()
    assert clone(Heat(MIXED)).space is MIXED
    points = MIXED.check(mixed_rows())
    assert len(points) == 20
    assert len(points[3:7]) == 4
    assert not MIXED.requires_vector_input
    numbers = ProductSpace(Sphere(), Simplex(), columns=[slice(0, 3), slice(3, 6)])
    assert numbers.requires_vector_input
    assert not ProductSpace(Sphere(), columns=[["a", "b"]]).requires_vector_input


def test_products_of_products_of_tensors() -> None:
    inner = ProductSpace(Sphere(), Torus(), columns=[[0, 1], [2]])
    kernel = Heat(ProductSpace(inner, Sphere(), columns=[[0, 1, 2], [3, 4]]), t=0.5)
    X = torch.randn((6, 5), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    X.requires_grad_()
    v = torch.ones(6, dtype=torch.float64)
    found, expected = kernel.matvec(X, None, v), kernel(X) @ v
    assert torch.allclose(found, expected, rtol=1e-12)
    slopes = [torch.autograd.grad(part.sum(), X)[0] for part in (found, expected)]
    assert torch.allclose(*slopes, rtol=1e-10)


def test_times_have_no_derivatives() -> None:
    times = torch.tensor([1.0, 0.2], requires_grad=True)
    with pytest.raises(TypeError, match="not differentiable in times; detach them"):
        ProductSpace(Torus(), Sphere(), columns=[[0], [1, 2]], times=times)


def test_in_scikit_learn() -> None:
    X = mixed_rows(60)
    y = (X[:, 5] == "a").astype(float)
    assert SVC(kernel=Heat(MIXED), C=100).fit(X[:40], y[:40]).score(X[40:], y[40:]) > 0.6
    process = GaussianProcessRegressor(1.0 * Heat(MIXED, t=0.3), alpha=1e-3).fit(X[:30], y[:30])
    assert process.score(X[:30], y[:30]) > 0.9
