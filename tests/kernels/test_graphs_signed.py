"""Node kernels of any symmetric similarity, with negative weights where the kernel stays defined."""

import networkx as nx
import numpy as np
import pytest
from scipy import linalg, sparse
from sklearn.base import clone

from mercer.kernels import Exponential, Heat, Matern, Power, VonNeumann
from mercer.spaces import Graph
from mercer.spaces.realisations import operators
from mercer.testing import check_kernel


@pytest.fixture(params=["decomposed", "series"])
def road(request, monkeypatch) -> None:
    """Both ways to compute, on matrices small enough to compare."""
    if request.param == "series":
        monkeypatch.setattr(operators, "DECOMPOSED", 0)


def signed(n: int = 12) -> np.ndarray:
    """A symmetric matrix with weights of both signs, on the diagonal too."""
    S = np.random.default_rng(3).normal(size=(n, n)) * (np.random.default_rng(4).random((n, n)) < 0.5)
    return S + S.T


def test_kernels_of_a_signed_matrix(road) -> None:
    S = signed()
    graph, nodes = Graph(sparse.csr_matrix(S), similarity="matrix"), range(len(S))
    np.testing.assert_allclose(Exponential(graph, beta=0.3)(nodes), linalg.expm(0.3 * S), atol=1e-12)
    np.testing.assert_allclose(Power(graph, exponent=4)(nodes), np.linalg.matrix_power(S, 4), rtol=1e-12)
    beta = 0.9 / np.linalg.eigvalsh(S)[-1]
    resolvent = np.linalg.inv(np.eye(len(S)) - beta * S)
    np.testing.assert_allclose(VonNeumann(graph, beta=beta)(nodes), resolvent, atol=1e-10)


def test_negative_definite_similarities_allow_every_beta(road) -> None:
    S = -(signed() @ signed()) - np.eye(12)
    graph = Graph(S, similarity="matrix")
    truth = np.linalg.inv(np.eye(12) - 0.5 * S)
    np.testing.assert_allclose(VonNeumann(graph, beta=0.5)(range(12)), truth, atol=1e-11)


def test_where_the_kernel_is_not_defined() -> None:
    S = signed()
    graph = Graph(S, similarity="matrix")
    values = np.linalg.eigvalsh(S)
    with pytest.raises(ValueError, match=f"must be below {1 / values[-1]:.6g}, the inverse"):
        VonNeumann(graph, beta=1.01 / values[-1])([0])
    with pytest.raises(ValueError, match=r"even.*negative eigenvalue"):
        Power(graph, exponent=3)([0])
    for kernel in (Heat(graph, t=1.0), Matern(graph, nu=1.5, length_scale=1.0)):
        with pytest.raises(ValueError, match=r"edge .* but a Laplacian needs weights that are not neg"):
            kernel([0])
    with pytest.raises(ValueError, match=r"must not be negative; similarity='matrix' allows them"):
        Graph(S)
    with pytest.raises(ValueError, match="not symmetric"):
        Graph([[0, -1], [1, 0]], similarity="matrix")


def test_a_non_negative_matrix_is_the_adjacency() -> None:
    club = nx.karate_club_graph()
    nodes, given = list(club), Graph(club, similarity="matrix")
    expected = Exponential(Graph(club), beta=0.1)(nodes)
    np.testing.assert_allclose(Exponential(given, beta=0.1)(nodes), expected, rtol=1e-10)
    np.testing.assert_array_equal(Heat(given, t=0.3)(nodes), Heat(Graph(club), t=0.3)(nodes))


def test_contracts() -> None:
    graph = Graph(signed(), similarity="matrix")
    for kernel in (Exponential(graph, beta=0.2), VonNeumann(graph, beta=0.05, normalized=True)):
        check_kernel(kernel)


@pytest.mark.parametrize("similarity", ["adjacency", "laplacian", "normalized"])
def test_von_neumann_has_a_default_for_every_graph(similarity: str) -> None:
    graphs = [nx.karate_club_graph(), nx.star_graph(300), nx.path_graph(3), nx.empty_graph(4)]
    for graph in graphs:
        kernel = VonNeumann(Graph(graph, similarity=similarity))
        K = kernel(list(graph))
        S = Graph(graph, similarity=similarity).operator("similarity").matrix.toarray()
        top = np.linalg.eigvalsh(S)[-1]
        assert kernel.beta == pytest.approx(0.9 / top if top > 1e-9 else 1.0)
        np.testing.assert_allclose(K, np.linalg.inv(np.eye(len(S)) - kernel.beta * S), atol=1e-9)
        ends = kernel.clone_with_theta(kernel.bounds[:, 1])
        assert np.isfinite(ends(list(graph)[:2])).all()
        assert clone(kernel) == kernel
        assert kernel.theta == np.log(kernel.beta)
