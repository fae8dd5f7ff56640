"""Attributes of nodes, smoothed by the graph."""

import networkx as nx
import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import expm
from scipy.sparse.linalg import expm_multiply, spsolve
from sklearn.base import clone

from mercer.kernels import Attributed, Diffused, Gaussian, Heat, Linear, Parametrix, TfIdf
from mercer.spaces import Graph, Simplex

CLUB = nx.karate_club_graph()
WORDS = np.random.default_rng(0).poisson(0.8, size=(34, 6)) + np.eye(34, 6, dtype=int)


@pytest.mark.parametrize("laplacian", ["unnormalized", "normalized"])
@pytest.mark.parametrize("base", [Linear(), Gaussian(2.0), TfIdf(), Heat(Simplex())], ids=repr)
def test_against_the_matrix_exponential(laplacian: str, base) -> None:
    graph = Graph(CLUB, laplacian=laplacian)
    E = expm(-0.3 * graph.operator("laplacian").matrix.toarray())
    expected = E @ base.learnt_from(WORDS)(WORDS) @ E
    for attributes in (WORDS, sparse.csr_array(WORDS)):
        kernel = Diffused(graph, base, 0.3, attributes=attributes)
        np.testing.assert_allclose(kernel(range(34)), expected, atol=1e-12)
        np.testing.assert_allclose(kernel([3, 3, 0], [5]), expected[[3, 3, 0]][:, [5]], atol=1e-12)
    root = np.sqrt(np.diag(expected))
    normalised = Diffused(graph, base, 0.3, attributes=WORDS, normalized=True)
    np.testing.assert_allclose(normalised(range(34)), expected / np.outer(root, root), atol=1e-12)


@pytest.mark.parametrize("nu", [1.0, 2.5])
def test_random_times_against_matrix_powers(nu: float) -> None:
    graph = Graph(CLUB, laplacian="normalized")
    values, U = np.linalg.eigh(graph.operator("laplacian").matrix.toarray())
    for base in (Linear(), Gaussian(2.0)):
        E = (U * (1 + 3.0 * values / nu) ** -nu) @ U.T
        kernel = Diffused(graph, base, 3.0, attributes=WORDS, nu=nu)
        K, gradient = kernel(range(34), eval_gradient=True)
        np.testing.assert_allclose(K, E @ base(WORDS) @ E, atol=1e-12)
        step = 1e-5
        ends = [clone(kernel).set_params(t=3.0 * np.exp(s))(range(34)) for s in (step, -step)]
        np.testing.assert_allclose(gradient[:, :, 0], (ends[0] - ends[1]) / (2 * step), atol=1e-8)
    often = Diffused(graph, Linear(), 3.0, attributes=WORDS, nu=1e7)
    heat = Diffused(graph, Linear(), 3.0, attributes=WORDS)
    np.testing.assert_allclose(often(range(34)), heat(range(34)), atol=1e-5)
    with pytest.raises(ValueError, match="nu"):
        Diffused(graph, Linear(), 3.0, attributes=WORDS, nu=-1.0)(range(34))


def test_random_times_on_a_graph_that_is_never_decomposed() -> None:
    lattice = nx.convert_node_labels_to_integers(nx.grid_2d_graph(50, 90))
    graph, X = Graph(lattice), np.random.default_rng(1).normal(size=(4500, 3))
    some = [0, 44, 2000, 4499]
    system = sparse.eye_array(4500) + 0.8 * graph.operator("laplacian").matrix
    flow = spsolve(system.tocsc(), np.eye(4500)[:, some])
    kernel = Diffused(graph, Gaussian(2.0), 0.8, attributes=X, nu=1.0)
    np.testing.assert_allclose(kernel(some), flow.T @ Gaussian(2.0)(X) @ flow, atol=1e-11)


@pytest.mark.parametrize("base", [Linear(), Gaussian(2.0)], ids=repr)
def test_columns_of_a_graph_that_is_never_decomposed(base) -> None:
    lattice = nx.convert_node_labels_to_integers(nx.grid_2d_graph(50, 90))
    graph, X = Graph(lattice), np.random.default_rng(1).normal(size=(4500, 3))
    some = [0, 44, 2000, 4499]
    flow = expm_multiply(-0.8 * graph.operator("laplacian").matrix, np.eye(4500)[:, some])
    expected = flow.T @ base(X) @ flow
    kernel = Diffused(graph, base, 0.8, attributes=X)
    np.testing.assert_allclose(kernel(some), expected, atol=1e-11)
    np.testing.assert_allclose(kernel(some, some[:2]), expected[:, :2], atol=1e-11)
    np.testing.assert_allclose(
        kernel.matvec(some, None, [1, 2, 0, -1]), expected @ [1, 2, 0, -1], atol=1e-10
    )
    np.testing.assert_allclose(kernel.diag(some), np.diag(expected), atol=1e-11)
    assert graph.operator("laplacian").__dict__.get("decomposition") is None


def test_more_words_than_can_be_smoothed(monkeypatch) -> None:
    graph = Graph(CLUB)
    kernel = Diffused(graph, TfIdf(), 0.3, attributes=WORDS)
    K, gradient = kernel(range(34), eval_gradient=True)
    monkeypatch.setattr("mercer.kernels.graphs.diffused._FEW_FEATURES", 5)
    again, other = kernel(range(34), eval_gradient=True)
    np.testing.assert_allclose(again, K, atol=1e-12)
    np.testing.assert_allclose(other, gradient, atol=1e-12)


def test_ends_of_time() -> None:
    """No time is the base kernel; a long one gives all nodes the mean attributes."""
    graph = Graph(CLUB)
    short, long = (Diffused(graph, Linear(), t, attributes=WORDS)(range(34)) for t in (1e-9, 1e4))
    np.testing.assert_allclose(short, WORDS @ WORDS.T, rtol=1e-6, atol=1e-6)
    mean = WORDS.mean(axis=0)
    np.testing.assert_allclose(long, np.full((34, 34), mean @ mean), rtol=1e-9)


def test_a_kernel_of_nodes_needs_no_attributes() -> None:
    graph = Graph(CLUB)
    heat = Heat(graph, t=0.4, normalized=False)
    smoothed = Diffused(graph, heat, 0.1)(list(CLUB))
    np.testing.assert_allclose(smoothed, Heat(graph, t=0.6, normalized=False)(list(CLUB)), atol=1e-12)


def test_scaled_to_a_similarity() -> None:
    graph = Graph(CLUB, laplacian="normalized")
    kernel = Diffused(graph, TfIdf(), attributes=WORDS).scaled_to(list(CLUB), 0.8)
    K, roots = kernel(list(CLUB)), np.sqrt(kernel.diag(list(CLUB)))
    assert np.median((K / np.outer(roots, roots))[np.triu_indices(34, 1)]) == pytest.approx(
        0.8, abs=1e-3
    )
    assert kernel.t_bounds[0] < kernel.t < kernel.t_bounds[1]


def test_parameters_of_the_base() -> None:
    kernel = Diffused(Graph(CLUB), Gaussian(), 0.5, attributes=WORDS)
    assert clone(kernel).set_params(base__length_scale=3.0).base == Gaussian(3.0)
    assert (
        repr(kernel)
        == "Diffused(Graph(<34 nodes, 78 edges>), Gaussian(), t=0.5, attributes=<204 numbers>)"
    )
    assert not Diffused(Graph(CLUB), Parametrix(Simplex()), attributes=WORDS).positive_semidefinite


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Diffused(Graph(CLUB), Linear()), "give the attributes of all nodes"),
        (Diffused(Graph(CLUB), Linear(), attributes=WORDS[:30]), "30 rows, and the graph 34 nodes"),
        (Diffused(Graph(CLUB), Linear(), -1.0, attributes=WORDS), "t of Diffused must be a positive"),
        (Diffused(Graph(CLUB), "linear", attributes=WORDS), "base of Diffused must be a kernel"),
        (Diffused(Simplex(), Linear(), attributes=WORDS), "space must be a Graph"),
    ],
    ids=["no attributes", "too few", "time", "base", "space"],
)
def test_refusals(kernel, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        kernel([0, 1])


@pytest.mark.parametrize("base", [Linear(), Gaussian(2.0), TfIdf()], ids=repr)
def test_attributed_is_the_base_kernel_of_attributes(base) -> None:
    graph, some = Graph(CLUB), [5, 3, 3, 20]
    kernel = Attributed(graph, base, WORDS, names=[f"word {i}" for i in range(6)])
    expected = base.learnt_from(WORDS)
    np.testing.assert_allclose(kernel(some), expected(WORDS[some]), atol=1e-14)
    np.testing.assert_allclose(kernel(some, [1, 2]), expected(WORDS[some], WORDS[[1, 2]]), atol=1e-14)
    np.testing.assert_allclose(kernel.diag(some), expected.diag(WORDS[some]), atol=1e-14)
    smoothed = Diffused(graph, base, 0.3, attributes=WORDS)
    np.testing.assert_allclose(Diffused(graph, kernel, 0.3)(some), smoothed(some), atol=1e-12)


def test_attributed_scales_its_base_and_names_columns() -> None:
    graph, names = Graph(CLUB), np.array([f"word {i}" for i in range(6)])
    scaled = Attributed(graph, Gaussian(), WORDS).scaled_to(range(34), 0.3)
    values = scaled(range(34))[np.triu_indices(34, 1)]
    assert np.median(values[values < 1]) == pytest.approx(0.3, abs=1e-3)
    kernel, weights = Attributed(graph, Linear(), WORDS, names), np.ones((2, 3))
    (own,) = kernel.contributions([0, 1], [2, 3, 4], weights)
    assert own.names == names.tolist()
    np.testing.assert_allclose(own.values.sum(axis=1), kernel([0, 1], [2, 3, 4]).sum(axis=1))
    found = Diffused(graph, kernel, 0.3).contributions([0, 1], [2, 3, 4], weights)
    assert [(part.kind, part.names[-1]) for part in found] == [("neighbour", 33), ("column", "word 5")]
    with pytest.raises(ValueError, match="attributes has 33 rows, and the graph 34 nodes"):
        Attributed(graph, Linear(), WORDS[:33])(range(3))
    with pytest.raises(TypeError, match="base must be a kernel"):
        Attributed(graph, "linear", WORDS)(range(3))


def test_few_features_are_smoothed_at_all_nodes() -> None:
    """Six features of 34 nodes take another way than six features of two."""
    kernel = Diffused(Graph(CLUB), Linear(), 0.4, attributes=WORDS, nu=1.0)
    K = kernel(range(34))
    np.testing.assert_allclose(K[np.ix_([4, 9], [4, 9])], kernel([4, 9]), atol=1e-12)


def test_loops_of_the_mean_weight() -> None:
    A = np.array([[0, 3, 0], [3, 0, 1], [0, 1, 0]])
    looped = Graph(A, laplacian="normalized").with_loops()
    np.testing.assert_allclose(looped.adjacency.toarray(), A + 2 * np.eye(3))
    assert looped.laplacian == "normalized"
    assert Graph(CLUB).with_loops().nodes == list(CLUB)
    np.testing.assert_array_equal(Graph(np.zeros((2, 2))).with_loops().adjacency.toarray(), np.eye(2))


def test_matrices_that_a_base_keeps_are_not_overwritten() -> None:
    class Kept(Linear):
        kept = WORDS @ WORDS.T * 1.0

        def __call__(self, X, Y=None, eval_gradient=False):
            return self.kept

    before = Kept.kept.copy()
    kernel = Attributed(Graph(CLUB), Kept(), WORDS)
    for _ in range(2):
        np.testing.assert_array_equal((kernel + kernel)(list(CLUB)), 2 * before)
        np.testing.assert_array_equal((0.5 * kernel)(list(CLUB)), before / 2)
    np.testing.assert_array_equal(Kept.kept, before)


@pytest.mark.parametrize(
    "form", [sparse.coo_matrix, sparse.bsr_array, sparse.dia_array, sparse.csc_array]
)
def test_sparse_attributes_of_every_format(form) -> None:
    dense = Diffused(Graph(CLUB), Linear(), 0.4, attributes=WORDS)(list(CLUB))
    found = Diffused(Graph(CLUB), Linear(), 0.4, attributes=form(WORDS))(list(CLUB))
    np.testing.assert_allclose(found, dense, rtol=1e-12)
