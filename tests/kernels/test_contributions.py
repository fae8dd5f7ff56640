"""What features contribute to weighted sums of kernels."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.preprocessing import OneHotEncoder

from mercer.kernels import (
    ArcCosine,
    Cosine,
    Diffused,
    Exponential,
    Gaussian,
    Heat,
    Linear,
    Matern,
    MultipleKernel,
    On,
    Parametrix,
    Polynomial,
    PosteriorHeat,
    Power,
    Spectrum,
    TfIdf,
)
from mercer.spaces import Categories, Euclidean, Graph, Simplex, Sphere

RNG = np.random.default_rng(0)
X, Y = RNG.poisson(2.0, (4, 6)) + 1.0, RNG.poisson(2.0, (7, 6)) + 1.0
WEIGHTS = RNG.normal(size=(4, 7))
RING = Graph(nx.karate_club_graph())
NODES, OTHERS = [0, 5, 33], [1, 2, 3, 30]


def summed(kernel, X, Y, weights):
    return (weights * kernel(X, Y)).sum(axis=1)


EXACT = {
    "linear": (Linear(), X, Y),
    "tf-idf": (TfIdf().learnt_from(Y), X, Y),
    "sublinear": (3 * TfIdf(sublinear=True).learnt_from(Y), X, Y),
    "cosine": (Cosine(Sphere()), X - 3.5, Y - 3.5),
    "spectrum": (Spectrum((1, 3), normalized=True), ["ACGTAC", "GGTTAC", "TTT"], ["ACGT", "TTTT", "AC"]),
    "frequencies": (Spectrum(2, frequencies=True), [b"abab", b"cab"], [b"ab", b"ba", b"bb"]),
    "heat": (Heat(RING, t=0.3), NODES, OTHERS),
    "matern": (Matern(RING, nu=2.0, length_scale=1.0), NODES, OTHERS),
    "walks": (Exponential(RING, beta=0.1), NODES, OTHERS),
    "some walks": (Exponential(RING, beta=0.7, normalized=True), NODES, OTHERS),
    "many walks": (Exponential(RING, beta=2.0, normalized=True), NODES, OTHERS),
    "power": (Power(RING, 2), NODES, OTHERS),
    "diffused": (Diffused(RING, Gaussian(), 0.5, RNG.normal(size=(34, 2)), True), NODES, OTHERS),
    "attributes": (Diffused(RING, Linear(), 0.5, RNG.normal(size=(34, 2))), NODES, OTHERS),
}


@pytest.mark.parametrize("case", EXACT)
def test_terms_of_a_sum(case):
    kernel, points, others = EXACT[case]
    weights = WEIGHTS[: len(points), : len(others)]
    found = kernel.contributions(points, others, weights)
    assert [own.kind for own in found] == {
        "attributes": ["neighbour", "column"], "spectrum": ["substring"], "frequencies": ["substring"],
    }.get(case, ["neighbour" if points is NODES else "column"])  # fmt: skip
    for own in found:
        assert own.exact
        np.testing.assert_allclose(
            own.values.sum(axis=1), summed(kernel, points, others, weights), rtol=1e-12
        )


def test_a_column_taken_away():
    found = Linear().contributions(X, Y, WEIGHTS)[0].values
    for j in range(6):
        without = summed(Linear(), np.delete(X, j, axis=1), np.delete(Y, j, axis=1), WEIGHTS)
        np.testing.assert_allclose(summed(Linear(), X, Y, WEIGHTS) - without, found[:, j], atol=1e-12)


def test_a_substring_of_each_kind():
    found = Spectrum(2).contributions(["ACA"], ["CACA", "GG"], np.array([[1.0, 5.0]]))[0]
    assert dict(zip(found.names, found.values[0], strict=True)) == {"AC": 1.0, "CA": 2.0}
    tokens = Spectrum(1).contributions([["a", "b"]], [["b"]], np.ones((1, 1)))[0]
    assert dict(zip(tokens.names, tokens.values[0], strict=True)) == {("a",): 0.0, ("b",): 1.0}


@pytest.mark.parametrize("power", [1, 3])
def test_first_order_of_distances(power):
    """The derivative by the scale of a column, by a difference quotient."""
    kernel = (Gaussian(3.0, column_scales=np.ones(6)) ** power) * 2.0
    found = kernel.contributions(X, Y, WEIGHTS)[0]
    assert not found.exact
    step = 1e-5
    for j in range(6):
        moved = []
        for sign in (1, -1):
            scales = np.ones(6)
            scales[j] = (1 + sign * step) ** -0.5
            moved.append(summed(2.0 * Gaussian(3.0, column_scales=scales) ** power, X, Y, WEIGHTS))
        np.testing.assert_allclose(found.values[:, j], (moved[0] - moved[1]) / (2 * step), rtol=1e-6)


@pytest.mark.parametrize("sparsely", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("kernel", [Heat(Simplex()), Matern(Simplex(), nu=0.5)], ids=["heat", "matern"])
def test_first_order_of_angles(kernel, sparsely):
    roots, others = (np.sqrt(Z / Z.sum(axis=1, keepdims=True)) for Z in (X, Y))
    w, step = roots @ others.T, 1e-6
    profile = kernel.profile(6)
    slopes = (profile.evaluate(w + step) - profile.evaluate(w - step)) / (2 * step)
    expected = np.einsum("xy,xj,yj->xj", WEIGHTS * slopes, roots, others)
    rows = sparse.csr_matrix if sparsely else np.array
    found = kernel.contributions(rows(X), rows(Y), WEIGHTS)[0].values
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_first_order_of_products_of_profiles():
    kernel, step = Parametrix(Simplex(), t=0.1, order=2), 1e-6
    profile, w = kernel.profile(6), np.linspace(0.1, 0.9, 5)
    slopes = (profile.evaluate(w + step) - profile.evaluate(w - step)) / (2 * step)
    np.testing.assert_allclose(profile.slope(w), slopes, rtol=1e-6)


def test_first_order_of_polynomials_and_layers():
    found = Polynomial(3, 1.0).contributions(X, Y, WEIGHTS)[0].values
    slopes = WEIGHTS * 3 * (X @ Y.T + 1) ** 2
    np.testing.assert_allclose(found, X * (slopes @ Y), rtol=1e-12)
    # Euler: the square of an inner product is homogeneous of degree two.
    square = (Linear() * Linear()).contributions(X, Y, WEIGHTS)
    np.testing.assert_allclose(
        sum(own.values.sum(axis=1) for own in square), 2 * summed(Linear() ** 2, X, Y, WEIGHTS)
    )
    assert ArcCosine().contributions(X, Y, WEIGHTS)[0].values.shape == X.shape


def test_labels_that_agree():
    """What another label would change, one by one."""
    rows, others = (
        [["a", "x", "u"], ["b", "x", "v"]],
        [["a", "x", "v"], ["b", "y", "u"], ["a", "y", "u"]],
    )
    weights = WEIGHTS[:2, :3]
    for kernel in (Heat(Categories()), Heat(Categories(levels=[3, 5, 3]))):
        found = kernel.contributions(rows, others, weights)[0]
        assert found.names[0].column == 0
        assert [str(name) for name in found.names] == ["0 = a", "0 = b", "1 = x", "2 = u", "2 = v"]
        for j in range(3):
            moved = [[*row[:j], "new", *row[j + 1 :]] for row in rows]
            lost = summed(kernel, rows, others, weights) - summed(kernel, moved, others, weights)
            own = [k for k, name in enumerate(found.names) if name.column == j]
            np.testing.assert_allclose(found.values[:, own].sum(axis=1), lost, atol=1e-14)


@pytest.mark.parametrize(
    "kernel",
    [Matern(Sphere(), nu=0.5), Matern(Euclidean(), nu=0.5, length_scale=1.0), ArcCosine(0)],
    ids=["sphere", "flat", "step"],
)
def test_equal_points_with_a_kink(kernel):
    """A slope that is infinite at equal points leaves them out."""
    apart = kernel.contributions(X, Y, WEIGHTS)[0].values
    both = kernel.contributions(X, np.vstack([Y, X * (1 + 1e-16)]), np.hstack([WEIGHTS, np.eye(4)]))
    np.testing.assert_allclose(both[0].values, apart, atol=1e-12)


def test_names_in_a_table():
    table = pd.DataFrame(
        {"text": ["good old film", "bad film", "good day"], "site": ["a", "b", "a"], "size": [1.0, 2, 4]}
    )
    kernel = (
        On("text", TfIdf())
        + MultipleKernel([On(["site"], Heat(Categories())), On("size", Gaussian())], weights=[2.0, 1.0])
        + On(["site"], Linear(), prepare=OneHotEncoder(sparse_output=False))
    ).learnt_from(table)
    weights = RNG.normal(size=(3, 3))
    found = kernel.contributions(table, table, weights)
    assert [own.kind for own in found] == ["word", "label", "column", "column"]
    assert found[0].names == ["bad", "day", "film", "good", "old"]
    assert [str(name) for name in found[1].names] == ["site = a", "site = b"]
    assert [list(own.names) for own in found[2:]] == [["size"], ["site_a", "site_b"]]
    single = kernel.k1.k2.kernels[1]  # one column is a term of the value, and no slope is needed
    assert found[2].exact
    np.testing.assert_allclose(found[2].values[:, 0], (weights * single(table, table)).sum(axis=1))
    weighted = [weight for weight, _ in kernel.terms()]
    assert weighted == [1.0, 2.0, 1.0, 1.0]
    total = sum(w * term(table, table) for w, term in kernel.terms())
    np.testing.assert_allclose(total, kernel(table, table), rtol=1e-13)
    assert kernel.column_blocks() == {"text": ["text"], "site": ["site"], "size": ["size"]}


def test_features_that_cannot_be_told_apart():
    assert PosteriorHeat().contributions(X, Y, WEIGHTS) == ()
    globe = Heat(Sphere(coordinates="latlon"), t=0.1)
    assert globe.contributions([[10.0, 20.0]], [[30.0, 40.0]], np.ones((1, 1))) == ()


@pytest.mark.parametrize("rows", [np.array, sparse.csr_matrix], ids=["dense", "sparse"])
def test_coordinates_that_are_close_and_far_from_zero(rows):
    x, others = np.array([[1e8, 0.0]]), np.array([[1e8, 1.0], [0.0, 0.0], [0.0, 1.0]])
    found = Gaussian(1.0).contributions(rows(x), rows(others), np.ones((1, 3)))[0].values
    np.testing.assert_allclose(found, [[0.0, -0.5 * np.exp(-0.5)]], rtol=1e-12, atol=0)
