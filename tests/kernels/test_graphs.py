"""Kernels between graph nodes, against dense linear algebra and the textbook."""

import pickle

import mpmath
import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg, sparse
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from mercer.features import GramTransformer, SpectralFeatures
from mercer.kernels import Exponential, Heat, Matern, Power, Spectral, VonNeumann
from mercer.spaces import Graph, Hyperbolic
from mercer.spaces.realisations import operators

CLUB = nx.karate_club_graph()
A = nx.to_numpy_array(CLUB)
NODES = list(CLUB)


@pytest.fixture(params=["decomposed", "series"])
def road(request, monkeypatch) -> None:
    """Both ways to compute, on graphs small enough to compare."""
    if request.param == "series":
        monkeypatch.setattr(operators, "DECOMPOSED", 0)


def laplacian(adjacency: np.ndarray, kind: str) -> np.ndarray:
    degrees = adjacency.sum(axis=1)
    plain = np.diag(degrees) - adjacency
    if kind == "unnormalized":
        return plain
    roots = np.array([d**-0.5 if d > 0 else 0.0 for d in degrees])
    return roots[:, None] * plain * roots


def test_worked_example_of_the_textbook(road) -> None:
    edges = [(1, 3), (1, 4), (2, 3), (2, 5), (3, 4), (4, 5)]
    graph = Graph(nx.Graph(edges), similarity="laplacian")
    nodes = [1, 2, 3, 4, 5]
    eigenvalues = np.linalg.eigvalsh(graph.operator("similarity").matrix.toarray())
    np.testing.assert_array_equal(eigenvalues[::-1].round(2) + 0.0, [0, -1.38, -2.38, -3.62, -4.62])
    K = Exponential(graph, beta=0.2)(nodes).round(2)
    np.testing.assert_array_equal(K[0], [0.70, 0.01, 0.14, 0.14, 0.01])
    np.testing.assert_array_equal(K[1], [0.01, 0.70, 0.13, 0.03, 0.14])
    np.testing.assert_array_equal(np.diag(K), [0.70, 0.70, 0.59, 0.59, 0.70])
    K = VonNeumann(graph, beta=0.2)(nodes).round(2)
    np.testing.assert_array_equal(K[0], [0.75, 0.02, 0.11, 0.11, 0.02])
    np.testing.assert_array_equal(np.diag(K), [0.75, 0.74, 0.66, 0.66, 0.74])


@pytest.mark.parametrize("kind", ["unnormalized", "normalized"])
@pytest.mark.parametrize("t", [1e-6, 1e-3, 0.1, 1.0, 10.0, 1e3])
def test_functions_of_the_laplacian(road, kind: str, t: float) -> None:
    similarity = "laplacian" if kind == "unnormalized" else "normalized"
    graph = Graph(CLUB, laplacian=kind, similarity=similarity)
    L = laplacian(A, kind)
    heat = linalg.expm(-t * L)
    np.testing.assert_allclose(Heat(graph, t=t, normalized=False)(NODES), heat, rtol=0, atol=1e-11)
    np.testing.assert_allclose(Exponential(graph, beta=t)(NODES), heat, rtol=0, atol=1e-11)
    lengths = np.sqrt(np.diag(heat))
    unit = heat / lengths[:, None] / lengths
    np.testing.assert_allclose(Heat(graph, t=t)(NODES), unit, rtol=0, atol=1e-11)
    inverse = np.linalg.inv(np.eye(34) + t * L)
    np.testing.assert_allclose(VonNeumann(graph, beta=t)(NODES), inverse, rtol=0, atol=1e-11)


@pytest.mark.parametrize(("nu", "length_scale"), [(0.5, 1.0), (1.5, 3.0), (2.0, 0.1), (3.0, 20.0)])
def test_matern(road, nu: float, length_scale: float) -> None:
    graph = Graph(CLUB, laplacian="normalized")
    values, vectors = np.linalg.eigh(laplacian(A, "normalized"))
    expected = (vectors * (2 * nu / length_scale**2 + values.clip(0)) ** -nu) @ vectors.T
    K = Matern(graph, nu=nu, length_scale=length_scale, normalized=False)(NODES)
    np.testing.assert_allclose(K, expected, rtol=0, atol=1e-11 * expected.max())


def test_functions_of_the_adjacency(road) -> None:
    graph = Graph(A)
    nodes = np.arange(34)
    radius = np.linalg.eigvalsh(A)[-1]
    expected = linalg.expm(0.2 * A)
    K = Exponential(graph, beta=0.2)(nodes)
    np.testing.assert_allclose(K, expected, rtol=0, atol=1e-12 * expected.max())
    inverse = np.linalg.inv(np.eye(34) - 0.9 / radius * A)
    K = VonNeumann(graph, beta=0.9 / radius)(nodes)
    np.testing.assert_allclose(K, inverse, rtol=0, atol=1e-11)
    for exponent in (2, 4, 6):
        K = Power(graph, exponent)(nodes)
        np.testing.assert_array_equal(K, np.linalg.matrix_power(A, exponent))
        np.testing.assert_array_equal(Power(graph, exponent).diag(nodes), np.diag(K))


def test_odd_powers(road) -> None:
    heavy = A + 60 * np.eye(34)  # self-loops make it positive definite
    for exponent in (1, 3):
        K = Power(Graph(heavy), exponent)([3, 5], [5, 7, 9])
        power = np.linalg.matrix_power(heavy, exponent)
        np.testing.assert_allclose(K, power[np.ix_([3, 5], [5, 7, 9])], rtol=1e-14)
        np.testing.assert_allclose(Power(Graph(heavy), exponent).diag([2]), power[2, 2], rtol=1e-14)
    with pytest.raises(ValueError, match=r"even.*negative eigenvalue -13\.3"):
        Power(Graph(A), 3)(NODES)
    with pytest.raises(ValueError, match="even"):
        Power(Graph(A, similarity="laplacian"), 1)(NODES)
    with pytest.raises(ValueError, match="exponent of Power"):
        Power(Graph(A), 0)(NODES)


def test_von_neumann_names_its_bound(road) -> None:
    bound = 1 / np.linalg.eigvalsh(A)[-1]
    with pytest.raises(ValueError, match=rf"must be below {bound:.6g}, the inverse"):
        VonNeumann(Graph(A), beta=1.001 * bound)(NODES)
    VonNeumann(Graph(A), beta=0.999 * bound)(NODES)
    VonNeumann(Graph(A, similarity="laplacian"), beta=1e6)(NODES)
    VonNeumann(Graph(np.zeros((3, 3))), beta=1e6)([0, 1, 2])


def test_gradients_on_the_series_road(monkeypatch) -> None:
    matern = Matern(Graph(A), length_scale=1.0, normalized=False)
    kernels = [Heat(Graph(A), t=0.3), matern, Exponential(Graph(A), 0.05)]
    expected = [kernel([1, 5, 7], eval_gradient=True)[1] for kernel in kernels]
    monkeypatch.setattr(operators, "DECOMPOSED", 0)
    for kernel, gradient in zip(kernels, expected, strict=True):
        again = clone(kernel)([1, 5, 7], eval_gradient=True)[1]
        np.testing.assert_allclose(again, gradient, rtol=0, atol=1e-10)


def test_ring_in_closed_form() -> None:
    # Eigenvalues 2 - 2 cos(2 pi j / n); a truncated spectrum gives 0.836 instead of 0.196 for the peer.
    n, t = 6000, 0.2
    angles = 2 * np.pi * np.arange(n) / n
    expected = [np.mean(np.exp(-t * (2 - 2 * np.cos(angles))) * np.cos(d * angles)) for d in range(4)]
    K = Heat(Graph(nx.cycle_graph(n)), t=t, normalized=False)([0], [0, 1, 2, 3, n - 1])
    np.testing.assert_allclose(K[0], [*expected, expected[1]], rtol=0, atol=1e-13)


def test_large_graph_never_needs_all_pairs() -> None:
    n = 200_000
    rng = np.random.default_rng(0)
    ends = rng.integers(0, n, size=(2, 3 * n))
    weights = rng.uniform(0.5, 2, size=ends.shape[1])
    half = sparse.coo_array((weights, ends), shape=(n, n)).tocsr()
    graph = Graph(half + half.T, laplacian="normalized")
    heat = Heat(graph, t=2.0, normalized=False)
    some = rng.integers(0, n, size=5)
    columns = heat(np.arange(n), some)
    assert columns.min() > -1e-13
    # L has the null vector sqrt(degrees).
    roots = np.sqrt(graph.degrees)
    np.testing.assert_allclose(roots @ columns, roots[some], rtol=1e-10)
    np.testing.assert_allclose(heat(some), columns[some], atol=1e-13)
    np.testing.assert_allclose(heat(some[:2], some), columns[some][:2], atol=1e-13)
    np.testing.assert_allclose(heat.diag(some), np.diag(columns[some]), atol=1e-13)
    v = rng.normal(size=5)
    np.testing.assert_allclose(heat.matvec(np.arange(n), some, v), columns @ v, atol=1e-12)
    assert heat.expansion().error < 1e-12


def test_nodes_may_repeat_and_be_few(road) -> None:
    K = Heat(Graph(A), t=0.5)([3])
    np.testing.assert_array_equal(K, [[1.0]])
    K = Heat(Graph(A), t=0.5)([3, 4, 3, 4])
    np.testing.assert_allclose(K[:2, 2:], K[:2, :2], rtol=1e-13)


@pytest.mark.parametrize(
    "form",
    [
        [2, 0],
        (2, 0),
        np.array([2, 0]),
        np.array([[2], [0]]),
        np.array([2.0, 0.0]),
        [[2], [0]],
        np.array([2, 0], dtype=np.uint8),
    ],
    ids=repr,
)
def test_indices_in_many_forms(form) -> None:
    np.testing.assert_array_equal(Graph(A).check(form), [2, 0])


def test_labels() -> None:
    grid = nx.grid_2d_graph(3, 3)
    graph = Graph(grid)
    np.testing.assert_array_equal(graph.check([(0, 1), (2, 2)]), [1, 8])
    np.testing.assert_array_equal(graph.check(np.array([[0, 1], [2, 2]])), [1, 8])
    words = Graph(nx.path_graph(["b", "a"]))
    np.testing.assert_array_equal(words.check(np.array([["a"], ["b"]])), [1, 0])
    shifted = Graph(nx.path_graph([5, 6, 7]))
    np.testing.assert_array_equal(shifted.check([7]), [2])
    with pytest.raises(ValueError, match=r"row 1 of X is 2, which is not a node.*5, 6, 7"):
        shifted.check([5, 2])
    with pytest.raises(ValueError, match="row 0 of Y is 'z'"):
        Heat(words, t=1.0)(["a"], ["z"])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([0, 34], "row 1 of X is 34, which is not a node.*0 to 33"),
        ([-1], "row 0 of X is -1"),
        ([0.5], "row 0 of X is 0.5"),
        ([np.nan], "row 0 of X is nan"),
        ([], "holds no nodes"),
        (["a"], "must hold indices.*row 0 is"),
        ([0, [1]], "several lengths"),
        (np.array(3), "give a list of nodes"),
        ([[0, 1]], "one node per row"),
        ([True], "must hold indices"),
        (3, "give a list of nodes"),
        ("ab", "one string"),
    ],
)
def test_nodes_not_in_the_graph(X, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        Heat(Graph(A), t=1.0)(X)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (nx.DiGraph([(0, 1)]), "directed"),
        ([(0, 1), (1, 2)], r"list of tuples, not a matrix; make a graph .* networkx\.Graph"),
        (np.array([[0, 1], [1, 2], [2, 3]]), r"shape \(3, 2\); make a graph of an edge list"),
        ("edges.csv", "networkx"),
        (nx.Graph(), "no nodes"),
        (np.zeros((0, 0)), "no nodes"),
        (np.zeros((2, 3)), "square"),
        (np.zeros(3), "square"),
        (
            [[0, 1], [0, 0]],
            "edge 0 - 1 has weights that differ by 1 between its two directions.*not symmetric",
        ),
        ([[0, -1], [-1, 0]], "edge 0 - 1 has weight -1, but weights must not be negative"),
        ([[0, np.nan], [np.nan, 0]], "edge 0 - 1 has weight nan, which is not finite"),
        ([[0, np.inf], [np.inf, 0]], "not finite"),
        ([[0, 1j], [1j, 0]], "real numbers"),
        (sparse.csr_matrix([[0, 2], [1, 0]]), "not symmetric"),
        (nx.Graph([("a", "b", {"weight": -2})]), "edge 'a' - 'b' has weight -2"),
        (nx.Graph([("a", "b", {"weight": "heavy"})]), "edge weights must be numbers"),
    ],
)
def test_bad_graphs(graph, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Graph(graph)


def test_bad_options() -> None:
    with pytest.raises(ValueError, match="laplacian must be one of"):
        Graph(A, laplacian="random-walk")
    with pytest.raises(ValueError, match="similarity must be one of"):
        Graph(A, similarity="cosine")
    with pytest.raises(ValueError, match="Heat has no default time"):
        Heat(Graph(A))([0])
    with pytest.raises(ValueError, match="beta of Exponential must be a positive number"):
        Exponential(Graph(A), beta=-1.0)([0])
    with pytest.raises(TypeError, match="space must be a Graph"):
        Exponential(A)([0])
    with pytest.raises(TypeError, match="function of the Laplacian's eigenvalues"):
        Spectral(Graph(A), weights=[1.0, 2.0])([0])
    for normalized in (False, True):
        with pytest.raises(ValueError, match=r"beta of Exponential is too large"):
            Exponential(Graph(A), beta=100.0, normalized=normalized)([0])
    with pytest.raises(TypeError, match="on a graph take"):
        Heat(Graph(A), t=1.0).log([0])
    with pytest.raises(TypeError, match=r"wrap it: Graph\(graph\)"):
        Heat(CLUB, t=1.0)([0])
    with pytest.raises(TypeError, match="not a function of an angle"):
        Heat(Graph(A), t=1.0).profile(3)


def test_isolated_nodes_loops_and_components(road) -> None:
    adjacency = np.zeros((5, 5))
    adjacency[0, 1] = adjacency[1, 0] = 2.0
    adjacency[2, 2] = 3.0  # a self-loop alone; nodes 3 and 4 are isolated
    for kind in ("unnormalized", "normalized"):
        graph = Graph(adjacency, laplacian=kind)
        K = Heat(graph, t=1.0, normalized=False)(range(5))
        np.testing.assert_allclose(K[2:, 2:], np.eye(3), atol=1e-13)
        np.testing.assert_allclose(K[:2, 2:], 0, atol=1e-13)
        np.testing.assert_allclose(K, linalg.expm(-laplacian(adjacency, kind)), atol=1e-12)
    np.testing.assert_array_equal(Graph(adjacency).components, [0, 0, 1, 2, 3])
    with pytest.raises(ValueError, match=r"row 1 of X .*k\(x, x\) = 0"):
        Power(Graph(adjacency), 2, normalized=True)([0, 3])
    lonely = Graph(np.zeros((3, 3)))
    np.testing.assert_allclose(Heat(lonely, t=1.0)([0, 1, 2]), np.eye(3), atol=1e-15)
    np.testing.assert_array_equal(Power(lonely, 2)([0, 1, 2]), np.zeros((3, 3)))


def test_multigraphs_add_up() -> None:
    multi = nx.MultiGraph([(0, 1), (0, 1), (1, 2)])
    np.testing.assert_array_equal(Graph(multi).adjacency.toarray(), [[0, 2, 0], [2, 0, 1], [0, 1, 0]])


def test_graphs_are_values() -> None:
    graph = Graph(CLUB, laplacian="normalized")
    assert graph == Graph(CLUB, laplacian="normalized")
    assert graph != Graph(CLUB)
    assert pickle.loads(pickle.dumps(graph)) == graph
    assert hash(pickle.loads(pickle.dumps(graph))) == hash(graph)
    assert clone(Heat(graph, t=1.0)).space is graph
    assert repr(Heat(graph, t=1.0)) == (
        "Heat(Graph(<34 nodes, 78 edges>, laplacian='normalized'), t=1.0)"
    )
    heavier = nx.Graph([(0, 1, {"weight": 2.0})])
    assert Graph(heavier) != Graph(nx.Graph([(0, 1)]))


def test_input_is_not_changed() -> None:
    given_matrix = sparse.csr_array(A)
    before = given_matrix.copy()
    Heat(Graph(given_matrix), t=1.0)(NODES)
    assert (given_matrix != before).nnz == 0


graphs = st.integers(1, 12).flatmap(
    lambda n: st.lists(
        st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), st.floats(1e-6, 10)), max_size=30
    ).map(lambda edges: symmetric(n, edges))
)


def symmetric(n: int, edges: list[tuple[int, int, float]]) -> np.ndarray:
    adjacency = np.zeros((n, n))
    for i, j, weight in edges:
        adjacency[i, j] = adjacency[j, i] = weight
    return adjacency


@given(graphs, st.floats(1e-4, 1e3), st.sampled_from(["unnormalized", "normalized"]))
def test_heat_of_any_graph(adjacency: np.ndarray, t: float, kind: str) -> None:
    nodes = np.arange(len(adjacency))
    K = Heat(Graph(adjacency, laplacian=kind), t=t, normalized=False)(nodes)
    np.testing.assert_allclose(K, linalg.expm(-t * laplacian(adjacency, kind)), atol=1e-10)
    assert np.linalg.eigvalsh(K).min() > -1e-12
    unit = Heat(Graph(adjacency, laplacian=kind), t=t)(nodes)
    assert unit.max() <= 1 + 1e-12
    # Renaming nodes renames rows and columns.
    order = np.random.default_rng(0).permutation(len(nodes))
    renamed = Graph(adjacency[np.ix_(order, order)], laplacian=kind)
    np.testing.assert_allclose(Heat(renamed, t=t)(nodes), unit[np.ix_(order, order)], atol=1e-10)


@pytest.mark.parametrize(
    "kernel",
    [Heat(Graph(A), t=0.2), Matern(Graph(A), 2.5, 1.0), Exponential(Graph(A), 0.1), Power(Graph(A), 4)],
    ids=repr,
)
def test_features_keep_their_promise(road, kernel) -> None:
    kernel = clone(kernel).set_params(normalized=False)
    features = SpectralFeatures(kernel, n_components=12).fit()
    F = features.transform(NODES)
    K = kernel(NODES)
    assert F.shape == (34, 12)
    assert 0 < np.abs(F @ F.T - K).max() <= features.error_ * (1 + 1e-9)
    np.testing.assert_allclose(F.T @ F, np.diag(np.diag(F.T @ F)), atol=1e-8 * K.max())
    assert (np.diff(np.diag(F.T @ F)) <= 1e-9 * K.max()).all()


def test_features_of_a_normalised_kernel() -> None:
    F = SpectralFeatures(Heat(Graph(A), t=0.2), n_components=34).fit_transform(NODES)
    np.testing.assert_allclose(F @ F.T, Heat(Graph(A), t=0.2)(NODES), atol=1e-12)


def test_features_where_the_spectrum_is_crowded() -> None:
    n = 4200
    kernel = Heat(Graph(nx.cycle_graph(n)), t=5e4, normalized=False)
    features = SpectralFeatures(kernel, n_components=30).fit()
    expected = 2 - 2 * np.cos(2 * np.pi * np.repeat(np.arange(15), 2)[1:] / n)
    np.testing.assert_allclose(features.eigenvalues_[:29], expected, atol=1e-12)


def test_bad_features() -> None:
    with pytest.raises(TypeError, match="eigenfunctions of the space are not known"):
        SpectralFeatures(Heat(Hyperbolic(n=2), t=1.0)).fit()
    with pytest.raises(ValueError, match="n_components must be a whole number"):
        SpectralFeatures(Heat(Graph(A), t=1.0), n_components=0).fit()
    assert SpectralFeatures(Heat(Graph(A), t=1.0)).fit_transform(NODES).shape == (34, 34)
    with pytest.raises(ValueError, match="not a node"):
        SpectralFeatures(Heat(Graph(A), t=1.0), n_components=3).fit().transform([99])


def test_in_scikit_learn() -> None:
    clubs = np.array([CLUB.nodes[i]["club"] == "Officer" for i in NODES])
    train, test = np.arange(0, 34, 2), np.arange(1, 34, 2)
    graph = Graph(CLUB, laplacian="normalized")
    model = make_pipeline(GramTransformer(Heat(graph, t=3.0)), SVC(kernel="precomputed"))
    assert model.fit(train, clubs[train]).score(test, clubs[test]) > 0.85
    search = GridSearchCV(model, {"gramtransformer__kernel__t": [0.2, 3.0]}, cv=3)
    assert search.fit(train, clubs[train]).best_params_["gramtransformer__kernel__t"] == 3.0
    linear = make_pipeline(SpectralFeatures(Heat(graph, t=3.0), n_components=8), LogisticRegression())
    assert linear.fit(train, clubs[train]).score(test, clubs[test]) > 0.85
    process = GaussianProcessRegressor(1.0 * Heat(graph, t=3.0), alpha=0.1)
    process.fit(train[:, None], clubs[train].astype(float))
    assert np.corrcoef(process.predict(test[:, None]), clubs[test])[0, 1] > 0.7
    ridge = KernelRidge(kernel=Exponential(graph, beta=0.1))
    ridge.fit(train[:, None], clubs[train].astype(float))
    assert ridge.predict(test[:, None]).shape == (17,)


def test_small_entries_of_a_growing_exponential(road) -> None:
    # Path nodes are e^59 below the clique; relative to the largest entry they would be rounding errors.
    lollipop = nx.lollipop_graph(30, 12)
    with mpmath.workdps(60):
        exact = mpmath.expm(mpmath.matrix(nx.to_numpy_array(lollipop).tolist()))
        expected = np.array([[float(exact[i, j]) for j in (40, 41)] for i in (39, 41)])
    K = Exponential(Graph(lollipop))([39, 41], [40, 41])
    np.testing.assert_allclose(K, expected, rtol=1e-12)
    alone = nx.disjoint_union(nx.complete_graph(40), nx.empty_graph(1))
    np.testing.assert_allclose(Exponential(Graph(alone))([40]), 1.0, rtol=1e-14)
    kernel = Exponential(Graph(lollipop), normalized=True)
    K, gradient = kernel([3, 35, 41], eval_gradient=True)
    ahead, behind = (
        Exponential(kernel.space, b, normalized=True)([3, 35, 41]) for b in (1.0001, 0.9999)
    )
    np.testing.assert_allclose(gradient[:, :, 0], (ahead - behind) / 2e-4, atol=1e-6)


def test_eigenvalue_zero_is_exact(road) -> None:
    # Weights of 1e6 leave a rounding of 1e-10 in the eigenvalues; t = 1e12 would magnify it.
    heavy = 1e6 * nx.to_numpy_array(nx.complete_graph(4))
    if operators.DECOMPOSED:
        K = Heat(Graph(heavy), t=1e12, normalized=False)([0, 1])
        np.testing.assert_allclose(K, 0.25, rtol=1e-12)
    uneven = np.array([[0, 1e12, 0], [1e12, 0, 1e-3], [0, 1e-3, 0]])
    with pytest.raises(ValueError, match="span too many orders of magnitude"):
        Heat(Graph(uneven), t=1e3)([0, 1, 2])


def test_asymmetry_is_seen_beside_large_weights() -> None:
    adjacency = np.zeros((4, 4))
    adjacency[0, 1] = adjacency[1, 0] = 1e12
    adjacency[2, 3] = 0.9
    with pytest.raises(ValueError, match=r"edge 2 - 3 has weights that differ by .* not symmetric"):
        Graph(adjacency)
    rounded = np.array([[0, 1 + 1e-15], [1, 0]])
    assert (Graph(rounded).adjacency != Graph(rounded).adjacency.T).nnz == 0


def test_small_integers_do_not_wrap() -> None:
    for dtype, value in ((np.uint8, 200), (np.int8, 100), (bool, 1)):
        pairs = ([0, 0, 1, 1], [1, 1, 0, 0])
        matrix = sparse.coo_matrix((np.full(4, value, dtype), pairs), shape=(2, 2))
        assert Graph(matrix).adjacency[0, 1] == 2 * value


def test_graphs_do_not_share_memory() -> None:
    matrix = sparse.csr_array(A)
    graph = Graph(matrix)
    matrix.data[:] = 7
    np.testing.assert_array_equal(graph.adjacency.toarray(), A)
    frozen = sparse.csr_array(A)
    frozen.data.flags.writeable = False
    assert Graph(frozen) == graph


def test_tiny_and_huge_weights(road) -> None:
    pair = np.array([[0.0, 1.0], [1.0, 0.0]])
    K = Exponential(Graph(1e-170 * pair), beta=1e170)([0, 1])
    np.testing.assert_allclose(K, linalg.expm(pair), rtol=1e-12)
    K = VonNeumann(Graph(1e160 * pair), beta=0.5e-160)([0, 1])
    np.testing.assert_allclose(K, np.linalg.inv(np.eye(2) - 0.5 * pair), rtol=1e-12)
    with pytest.raises(ValueError, match="overflows; rescale"):
        Graph(1e308 * np.ones((3, 3)))
    with pytest.raises(ValueError, match="out of the floating-point range"):
        Power(Graph(1e-12 * A), 40)(NODES)
    with pytest.raises(ValueError, match="out of the floating-point range"):
        Power(Graph(1e12 * np.ones((9, 9))), 40)([0, 1])


def test_products_of_powers_with_vectors(road) -> None:
    graph = Graph(np.ones((6, 6)))
    v = np.arange(6.0)
    np.testing.assert_allclose(Power(graph, 3).matvec(range(6), None, v), 36 * 15 * np.ones(6))


def test_features_of_many_components() -> None:
    graph = Graph(nx.gnm_random_graph(6000, 5000, seed=2), laplacian="normalized")
    features = SpectralFeatures(Heat(graph, t=5.0, normalized=False), n_components=20).fit()
    np.testing.assert_array_equal(features.eigenvalues_, 0)
    assert features.error_ == 1
    two = Graph(
        nx.disjoint_union(nx.random_regular_graph(6, 3000, 1), nx.random_regular_graph(6, 2000, 1))
    )
    kernel = Heat(two, t=2.0, normalized=False)
    features = SpectralFeatures(kernel, n_components=12).fit()
    assert (features.eigenvalues_[:2] == 0).all()
    assert (features.eigenvalues_[2:] > 0.1).all()
    F = features.transform(range(0, 5000, 100))
    assert np.abs(F @ F.T - kernel(range(0, 5000, 100))).max() <= features.error_
    empty = SpectralFeatures(Heat(Graph(sparse.csr_array((5000, 5000))), t=1.0), n_components=5).fit()
    assert empty.error_ == 1
    assert list(empty.get_feature_names_out()) == ["u0", "u1", "u2", "u3", "u4"]
