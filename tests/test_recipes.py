"""The recipes of the guides on text, pixels and directions of 3 to 20 000 columns."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from mercer.datasets import load_docstrings
from mercer.features import GramTransformer
from mercer.kernels import (
    ArcCosine,
    AxialHeat,
    Cosine,
    Gaussian,
    GaussianEmbedding,
    Heat,
    InverseGeneralizedVariance,
    Matern,
    Parametrix,
    TraceKernel,
    VonNeumann,
)
from mercer.rkhs import degeneracy
from mercer.selection import KernelSearchCV
from mercer.spaces import Graph, NormalProduct, Simplex, Sphere

#: Data sets that are not part of the project: beside it, or where the variable says.
SHARED = Path(os.environ.get("MERCER_DATA") or Path(__file__).parents[2] / "shared" / "data")
ROWS = 500


def some(X, y, rows=ROWS):
    chosen = np.random.default_rng(0).permutation(X.shape[0])[:rows]
    return X[chosen], np.asarray(y)[chosen]


def docstrings():
    table = load_docstrings()
    return Simplex(), *some(table.X, table.y)


def words():
    """A made-up corpus of 20 000 words: frequent ones that say nothing, rarer ones that do."""
    rng = np.random.default_rng(0)
    usual = 1 / np.arange(1, 20_001)
    topics = [usual * np.exp(rng.normal(size=20_000)) for _ in range(3)]
    y = rng.integers(3, size=400)
    rows = [rng.multinomial(80, topics[label] / topics[label].sum()) for label in y]
    return Simplex(), sparse.csr_matrix(np.array(rows, dtype=float)), y


def pixels():
    """Digits drawn larger: 784 pixels, blurred, with some noise."""
    X, y = some(*load_digits(return_X_y=True))
    images = np.kron(X.reshape(-1, 8, 8), np.ones((4, 4)))[:, 2:30, 2:30]
    noise = np.random.default_rng(0).poisson(1.0, size=images.shape)
    return Simplex(), (images + noise).reshape(len(X), -1), y


def shares():
    X = np.random.default_rng(0).dirichlet([2.0, 2.0, 2.0], size=ROWS)
    return Simplex(), X, (X[:, 0] > np.sort(X)[:, 1]).astype(int)


def directions(n):
    """Vectors of four topics, as close together as makes some of them hard to tell."""
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=ROWS)
    topics = rng.normal(size=(4, n)) / n**0.5
    return Sphere(), topics[y] + rng.normal(size=(ROWS, n)) * 1.6 / n**0.75, y


def webkb():
    with np.load(SHARED / "webkb" / "webkb4_counts.npz") as z:
        X = sparse.csr_matrix((z["data"], z["indices"], z["indptr"]), shape=tuple(z["shape"]))
        return Simplex(), *some(X.astype(float), z["y"], 900)


def mnist():
    images, labels = (
        np.frombuffer(gzip.decompress((SHARED / "mnist" / f"t10k-{name}.gz").read_bytes()), np.uint8)
        for name in ("images-idx3-ubyte", "labels-idx1-ubyte")
    )
    return Simplex(), *some(images[16:].reshape(-1, 784).astype(float), labels[8:], 900)


DATA = {
    "shares, 3 columns": shares,
    "directions, 3 columns": lambda: directions(3),
    "digits, 64 columns": lambda: (Simplex(), *some(*load_digits(return_X_y=True))),
    "directions, 64 columns": lambda: directions(64),
    "pixels, 784 columns": pixels,
    "directions, 784 columns": lambda: directions(784),
    "docstrings, 4000 columns": docstrings,
    "words, 20000 columns": words,
}
if SHARED.is_dir():
    DATA |= {"WebKB, 19188 columns": webkb, "MNIST, 784 columns": mnist}


@pytest.mark.parametrize("name", DATA)
def test_recipes_are_near_a_search(name) -> None:
    space, X, y = DATA[name]()
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    search = KernelSearchCV(Heat(space), similarities="auto", cv=3)
    searched = search.nested_scores(X, y, outer_cv=folds).mean
    majority = max(np.unique(y, return_counts=True)[1]) / len(y)
    scaled = Heat(space).scaled_to(X)  # as the guides do, on all rows: no label is seen
    recipes = {
        "SVC": SVC(kernel=scaled, C=10),
        "GramTransformer": make_pipeline(
            GramTransformer(Heat(space), similarity=0.5), SVC(kernel="precomputed", C=10)
        ),
    }
    for label, recipe in recipes.items():
        score = cross_val_score(recipe, X, y, cv=folds).mean()
        assert score > majority + 0.05, label
        assert score > searched - 0.02, label


@pytest.mark.parametrize("name", DATA)
def test_no_default_is_degenerate(name) -> None:
    space, X, _ = DATA[name]()
    few = X[:200]
    for kernel in (Heat(space), AxialHeat(space), Matern(space), Parametrix(space), ArcCosine()):
        K = kernel(few)
        lengths = np.sqrt(np.diagonal(K))
        similarities = (K / lengths[:, None] / lengths)[np.triu_indices(len(K), 1)]
        assert 0.02 < np.median(similarities) < 0.98, kernel
        assert degeneracy(K) is None, kernel
    assert degeneracy(Cosine(space)(few)) is None


def cora():
    with np.load(SHARED / "citation_graphs" / "cora.npz") as z:
        edges = z["edges"]
    ones = np.ones(len(edges))
    A = sparse.csr_matrix((ones, (edges[:, 0], edges[:, 1])), shape=(2708, 2708))
    return (A + A.T)[:900, :900]


def clouds():
    """Places of the ink in some of the digits of MNIST."""
    _, images, _ = mnist()
    return [np.argwhere(image.reshape(28, 28) > 128)[::3].astype(float) for image in images[:20]]


def median(kernel, points, keep=None) -> float:
    K = np.asarray(kernel(points))
    lengths = np.sqrt(np.diagonal(K))
    similarities = K / lengths[:, None] / lengths
    pairs = np.triu(np.ones_like(K, dtype=bool) if keep is None else keep, 1)
    return float(np.median(similarities[pairs]))


@pytest.mark.skipif(not SHARED.is_dir(), reason="data sets that are not part of the project")
def test_scales_of_nodes_and_clouds() -> None:
    graph = Graph(cora(), laplacian="normalized", similarity="normalized")
    nodes = np.arange(0, 900, 5)
    together = graph.components[nodes][:, None] == graph.components[nodes]
    for kernel in (Heat(graph), Matern(graph), VonNeumann(graph)):
        for similarity in (0.1, 0.5, 0.9):
            scaled = kernel.scaled_to(nodes, similarity)
            assert median(scaled, nodes, together) == pytest.approx(similarity, abs=0.01)
    points = clouds()
    base = Gaussian().scaled_to(np.vstack(points))
    for kernel in (TraceKernel(base), GaussianEmbedding(base), InverseGeneralizedVariance(base)):
        for similarity in (0.1, 0.5, 0.9):
            assert median(kernel.scaled_to(points, similarity), points) == pytest.approx(
                similarity, abs=0.01
            )


def test_measurements_with_errors_have_a_ceiling() -> None:
    """On products of hyperbolic planes no time is long enough for some similarities: it is said."""
    table = load_breast_cancer().data
    errors = np.hypot(table[:, 10:20], 0.1 * table[:, :10].std(axis=0))
    rows = np.stack([table[:, :10], errors], axis=2).reshape(len(table), 20)
    reached = Heat(NormalProduct()).scaled_to(rows, 0.05, max_rows=len(rows))
    assert median(reached, rows) == pytest.approx(0.05, abs=0.005)
    with pytest.raises(ValueError, match=r"similarity 0.5 cannot be reached by t of Heat.*and 0\.0"):
        Heat(NormalProduct()).scaled_to(rows, 0.5)
