"""The recipes of the guides on text, pixels and directions of 3 to 20 000 columns."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from mercer.datasets import load_docstrings
from mercer.features import GramTransformer
from mercer.kernels import ArcCosine, AxialHeat, Cosine, Heat, Matern, Parametrix
from mercer.rkhs import degeneracy
from mercer.selection import KernelSearchCV
from mercer.spaces import Simplex, Sphere

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
