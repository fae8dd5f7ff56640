"""Complex numbers, and targets whose squares are no numbers: refused in one line of words."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.kernel_ridge import KernelRidge

from mercer.features import (
    GramTransformer,
    GroupNormals,
    MeasuredNormals,
    Multinomials,
    SpectralFeatures,
)
from mercer.gp import SphericalGPClassifier, SphericalGPPoissonRegressor, SphericalGPRegressor
from mercer.kernels import Gaussian, Heat, MeanEmbedding, Spectral, TfIdf
from mercer.selection import KernelSearchCV, compare, representatives
from mercer.spaces import Graph, Simplex, Sphere, great_circle_km

RNG = np.random.default_rng(0)
X = RNG.random((30, 4))
Z = X.astype(complex)
Y = RNG.normal(size=30)
LABELS = [0, 1] * 15

COMPLEX = {
    "kernel": lambda: Heat(Simplex())(Z),
    "second argument": lambda: Gaussian()(X, Z),
    "diagonal": lambda: Gaussian().diag(Z),
    "single precision": lambda: Gaussian()(Z.astype(np.complex64)),
    "sparse": lambda: Heat(Simplex())(sparse.csr_matrix(Z)),
    "data frame": lambda: Gaussian()(pd.DataFrame(Z)),
    "tensor": lambda: Heat(Simplex())(torch.tensor(Z)),
    "cloud": lambda: MeanEmbedding(Gaussian())([Z[:5], Z[5:9]]),
    "weights of a cloud": lambda: MeanEmbedding(Gaussian())([(X[:5], np.full(5, 0.2 + 0j))]),
    "graph": lambda: Graph(np.ones((3, 3)) + 0j),
    "Gram matrix": lambda: GramTransformer(Gaussian()).fit(Z),
    "features": lambda: SpectralFeatures(Heat(Sphere())).fit(Z),
    "comparison": lambda: compare(Z, LABELS, folds=2),
    "target of a comparison": lambda: compare(X, Y + 0j, folds=2),
    "numbers of a comparison": lambda: compare(X, Y + 1j, folds=2, task="regression"),
    "search": lambda: KernelSearchCV(Gaussian()).fit(Z, LABELS),
    "target of a search": lambda: KernelSearchCV(Gaussian(), KernelRidge()).fit(X, Y + 0j),
    "new points of a search": lambda: KernelSearchCV(Gaussian()).fit(X, LABELS).predict(Z),
    "typical rows": lambda: representatives(Z, LABELS, 5),
    "regression": lambda: SphericalGPRegressor().fit(Z, Y),
    "target": lambda: SphericalGPRegressor().fit(X, Y + 0j),
    "weight": lambda: SphericalGPRegressor().fit(X, Y, sample_weight=np.ones(30) + 0j),
    "new rows": lambda: SphericalGPRegressor().fit(X, Y).predict(Z),
    "blocks": lambda: SphericalGPRegressor().fit([(Z, Y)]),
    "targets of blocks": lambda: SphericalGPRegressor().fit([(X, Y + 0j)]),
    "classification": lambda: SphericalGPClassifier().fit(Z, LABELS),
    "counts": lambda: SphericalGPPoissonRegressor().fit(X, np.ones(30) + 0j),
    "places": lambda: great_circle_km(Z[:, :2], Z[:, :2]),
    "groups": lambda: GroupNormals().fit([Z[:5], Z[5:]]),
    "measurements": lambda: MeasuredNormals().fit(Z),
    "scales of columns": lambda: Gaussian(column_scales=np.array([1j, 2, 3, 4]))(X),
    "weights of words": lambda: TfIdf(weights=[1j, 2, 3, 4])(X),
    "weights of levels": lambda: Spectral(Sphere(), weights=[1, 1j])(X),
    "function of levels": lambda: Spectral(Sphere(), weights=lambda lam: np.exp(-lam) + 0j)(X),
    "compositions": lambda: Multinomials().fit(Z),
}


@pytest.mark.parametrize("what", COMPLEX)
@pytest.mark.filterwarnings("ignore::mercer.exceptions.DegenerateKernelWarning")
def test_complex_numbers_are_refused_in_one_line(what: str) -> None:
    with pytest.raises((ValueError, TypeError), match=r"omplex|real|number") as refusal:
        COMPLEX[what]()
    assert "\n" not in str(refusal.value)


LARGE = {
    "comparison": lambda y: compare(X, y, folds=2),
    "search": lambda y: KernelSearchCV(Gaussian(), KernelRidge()).fit(X, y),
    "regression": lambda y: SphericalGPRegressor().fit(X, y),
    "counts": lambda y: SphericalGPPoissonRegressor().fit(X, np.abs(y)),
}


@pytest.mark.parametrize("what", LARGE)
@pytest.mark.parametrize("size", [1e145, 1e160, 1e300, 1e307])
def test_targets_whose_squares_are_no_numbers_are_named(what: str, size: float) -> None:
    with pytest.raises(ValueError, match=r"y .*whose square is no number; rescale (y|it)$"):
        LARGE[what](size * Y)


@pytest.mark.parametrize("what", ["comparison", "search", "regression"])
def test_small_ones_too(what: str) -> None:
    with pytest.raises(ValueError, match="whose square is no number"):
        LARGE[what](1e-300 * Y)


def test_the_row_is_that_of_the_table() -> None:
    y = Y.copy()
    y[3], y[7] = np.nan, 1e300
    with pytest.raises(ValueError, match=r"row 7 of y is of size 1e\+300"):
        compare(X, y, folds=2)
    pairs = np.column_stack([Y, Y])
    pairs[2, 1] = -1e200
    with pytest.raises(ValueError, match=r"row 2 of y is of size 1e\+200"):
        KernelSearchCV(Gaussian(), KernelRidge()).fit(X, pairs)
