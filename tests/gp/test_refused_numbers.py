"""Complex numbers, and targets whose squares overflow or vanish, are refused by Gaussian processes."""

import numpy as np
import pytest
from scipy import sparse

from mercer.gp import SphericalGPClassifier, SphericalGPPoissonRegressor, SphericalGPRegressor
from tests.helpers.refusals import LABELS, X, Y, Z, assert_complex_refused

COMPLEX = {
    "regression": lambda: SphericalGPRegressor().fit(Z, Y),
    "target": lambda: SphericalGPRegressor().fit(X, Y + 0j),
    "weight": lambda: SphericalGPRegressor().fit(X, Y, sample_weight=np.ones(30) + 0j),
    "new rows": lambda: SphericalGPRegressor().fit(X, Y).predict(Z),
    "blocks": lambda: SphericalGPRegressor().fit([(Z, Y)]),
    "targets of blocks": lambda: SphericalGPRegressor().fit([(X, Y + 0j)]),
    "classification": lambda: SphericalGPClassifier().fit(Z, LABELS),
    "counts": lambda: SphericalGPPoissonRegressor().fit(X, np.ones(30) + 0j),
}


@pytest.mark.parametrize("what", COMPLEX)
def test_complex_numbers_are_refused(what: str) -> None:
    assert_complex_refused(COMPLEX[what])


LARGE = {
    "regression": lambda y: SphericalGPRegressor().fit(X, y),
    "counts": lambda y: SphericalGPPoissonRegressor().fit(X, np.abs(y)),
}


@pytest.mark.parametrize("what", LARGE)
@pytest.mark.parametrize("size", [1e145, 1e160, 1e300, 1e307])
def test_targets_whose_squares_overflow_are_named(what: str, size: float) -> None:
    with pytest.raises(ValueError, match=r"y .*whose square is out of range; rescale (y|it)$"):
        LARGE[what](size * Y)


def test_targets_whose_squares_vanish_are_named() -> None:
    with pytest.raises(ValueError, match="whose square is out of range"):
        LARGE["regression"](1e-300 * Y)


@pytest.mark.parametrize("rows", [X, [(X, sparse.csr_array(Y[:, None]))]], ids=["array", "blocks"])
def test_sparse_targets_are_named(rows) -> None:
    with pytest.raises(ValueError, match=r"^y .*is sparse; give an array: toarray\(\)"):
        SphericalGPRegressor().fit(rows, sparse.csr_array(Y[:, None]) if rows is X else None)
