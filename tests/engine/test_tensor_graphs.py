"""Kernels on graphs of tensors against main memory, on a device if there is one."""

import copy
import pickle

import networkx as nx
import numpy as np
import pytest
import torch
from scipy import sparse

from mercer.features import SpectralFeatures
from mercer.kernels import (
    Diffused,
    Exponential,
    Gaussian,
    Heat,
    Linear,
    Matern,
    Power,
    VonNeumann,
)
from mercer.spaces import Graph
from mercer.spaces.realisations import operators
from tests.helpers import device
from tests.helpers.far import DEVICE

pytestmark = pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
_RNG = np.random.default_rng(0)
ADJACENCY = nx.to_scipy_sparse_array(nx.random_geometric_graph(90, 0.2, seed=1), dtype=float).tocsr()
ADJACENCY.data *= _RNG.uniform(0.5, 2.0)
ATTRIBUTES = _RNG.normal(size=(90, 4))
NODES, OTHERS = [3, 17, 3, 80, 41], [5, 17, 62]
MAKERS = {
    "heat": lambda graph, place: Heat(graph, t=0.7),
    "plain heat": lambda graph, place: Heat(graph, t=0.7, normalized=False),
    "matern": lambda graph, place: Matern(graph, nu=1.5, length_scale=0.8),
    "walks": lambda graph, place: Exponential(graph, beta=0.2),
    "resolvent": lambda graph, place: VonNeumann(graph, normalized=True),
    "even power": lambda graph, place: Power(graph, exponent=4),
    "linear": lambda graph, place: Diffused(graph, Linear(), 0.3, place(ATTRIBUTES)),
    "sparse": lambda graph, place: Diffused(graph, Linear(), 0.3, sparse.csr_matrix(ATTRIBUTES)),
    "gaussian": lambda graph, place: Diffused(graph, Gaussian(), 0.3, place(ATTRIBUTES), True),
    "elsewhere": lambda graph, place: Diffused(graph, Gaussian(), 0.3, ATTRIBUTES),
}


def tensor(values, dtype=torch.float64, **options) -> torch.Tensor:
    return device.tensor(values, dtype, DEVICE, **options)


@pytest.fixture(params=["cpu", DEVICE])
def place(request, monkeypatch) -> None:
    """Tensors in main memory, and on a device."""
    monkeypatch.setattr(f"{__name__}.DEVICE", request.param)


@pytest.fixture(params=["decomposed", "large"])
def size(request, monkeypatch) -> str:
    """Take the graph for a small or a large one."""
    if request.param == "large":
        monkeypatch.setattr(operators, "DECOMPOSED", 0)
    return request.param


def pair(name: str):
    """A kernel on a graph in main memory, and on the same graph of a tensor."""
    there = tensor(ADJACENCY.toarray()).to_sparse_csr()
    return MAKERS[name](Graph(ADJACENCY), np.asarray), MAKERS[name](Graph(there), tensor)


def close(there, here, tolerance=1e-12) -> None:
    assert (there.dtype, there.device.type) == (torch.float64, DEVICE)
    assert there.shape == here.shape
    assert np.abs(there.cpu().numpy() - here).max() <= tolerance * np.abs(here).max()


@pytest.mark.usefixtures("size", "place")
@pytest.mark.parametrize("name", MAKERS)
def test_values(name) -> None:
    rng = np.random.default_rng(0)
    here, there = pair(name)
    close(there(NODES), here(NODES))
    close(there(NODES, OTHERS), here(NODES, OTHERS))
    close(there(OTHERS, NODES), here(OTHERS, NODES))
    close(there.diag(NODES), here.diag(NODES))
    for v in (np.arange(3.0), rng.normal(size=(3, 2))):
        close(there.matvec(NODES, OTHERS, v), here.matvec(NODES, OTHERS, v))
        close(there.matvec(NODES, OTHERS, tensor(v)), here.matvec(NODES, OTHERS, v))
    weights = rng.normal(size=(len(NODES), len(OTHERS)))
    total = (weights * here(NODES, OTHERS)).sum()
    for given in (weights, tensor(weights)):
        close(there.weighted_sum(NODES, OTHERS, given), total)
    for combine in (lambda kernel: 2.0 * kernel + 0.5, lambda kernel: 0.5 + kernel):
        mine, theirs = combine(here), combine(there)
        close(theirs(NODES), mine(NODES))
        close(theirs.diag(NODES), mine.diag(NODES))
        close(theirs.matvec(NODES, OTHERS, np.arange(3.0)), mine.matvec(NODES, OTHERS, np.arange(3.0)))
    mine, theirs = (k.contributions(NODES, OTHERS, weights) for k in (here, there))
    for found, expected in zip(theirs, mine, strict=True):
        np.testing.assert_allclose(found.values, expected.values, atol=1e-12)
    if name in ("heat", "gaussian"):
        everywhere = list(range(90))
        assert there.scaled_to(everywhere).t == pytest.approx(here.scaled_to(everywhere).t, rel=1e-8)


@pytest.mark.usefixtures("size")
def test_slopes_and_features() -> None:
    there = Graph(tensor(ADJACENCY.toarray()))
    for make in (lambda g: Heat(g, t=0.7), lambda g: Matern(g, nu=1.5, length_scale=0.8)):
        here, far = (
            make(Graph(ADJACENCY))(NODES, eval_gradient=True),
            make(there)(NODES, eval_gradient=True),
        )
        for found, expected in zip(far, here, strict=True):
            close(found, expected)
    features = SpectralFeatures(Heat(there, t=3.0, normalized=False), n_components=20).fit()
    F = features.transform(NODES)
    assert F.device.type == DEVICE
    expected = Heat(Graph(ADJACENCY), t=3.0, normalized=False)(NODES)
    assert np.abs((F @ F.T).cpu().numpy() - expected).max() <= features.error_ + 1e-8


def test_layouts_and_precisions() -> None:
    expected = Heat(Graph(ADJACENCY), t=0.7)(NODES)
    dense = tensor(ADJACENCY.toarray())
    for given in (dense, dense.to_sparse()):
        close(Heat(Graph(given), t=0.7)(NODES), expected)
        close(Heat(Graph(given.float()), t=0.7)(NODES), expected, 1e-6)
    nodes = torch.tensor(NODES, device=DEVICE)
    close(Heat(Graph(dense), t=0.7)(nodes), expected)
    close(Heat(Graph(ADJACENCY), t=0.7)(nodes), expected)  # computed in main memory


def test_the_graph_remembers_its_device() -> None:
    graph = Graph(tensor(ADJACENCY.toarray()), laplacian="normalized")
    assert repr(graph).startswith(f"Graph(<90 nodes, {ADJACENCY.nnz // 2} edges on {DEVICE}")
    assert graph != Graph(ADJACENCY, laplacian="normalized")
    for same in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert same == graph
        assert Heat(same, t=0.7)(NODES).device.type == DEVICE
    assert Heat(graph.with_matrices(), t=0.7)(NODES).device.type == DEVICE


def test_what_is_refused() -> None:
    dense = tensor(ADJACENCY.toarray())
    with pytest.raises(TypeError, match="no derivatives: detach it"):
        Graph(dense.requires_grad_())
    with pytest.raises(ValueError, match=r"edge 0 - 1 has weight -1.* negative"):
        Graph(tensor([[0.0, -1.0], [-1.0, 0.0]]).to_sparse())
    with pytest.raises(ValueError, match="not symmetric"):
        Graph(tensor([[0.0, 1.0], [0.0, 0.0]]).to_sparse())
    with pytest.raises(ValueError, match=r"square; this one has shape \(2, 3\)"):
        Graph(tensor(np.ones((2, 3))).to_sparse())
    with pytest.raises(ValueError, match="row 1 of X is 99"):
        Heat(Graph(ADJACENCY), t=0.7)(torch.tensor([0, 99], device=DEVICE))
