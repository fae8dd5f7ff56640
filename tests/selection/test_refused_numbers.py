"""Complex numbers, and targets whose squares overflow or vanish, are refused by searches."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from mercer.kernels import Gaussian
from mercer.selection import KernelSearchCV, compare, representatives
from mercer.selection.gram_cache import Grams
from tests.helpers.refusals import LABELS, X, Y, Z, assert_complex_refused

COMPLEX = {
    "comparison": lambda: compare(Z, LABELS, folds=2),
    "target of a comparison": lambda: compare(X, Y + 0j, folds=2),
    "numbers of a comparison": lambda: compare(X, Y + 1j, folds=2, task="regression"),
    "search": lambda: KernelSearchCV(Gaussian()).fit(Z, LABELS),
    "target of a search": lambda: KernelSearchCV(Gaussian(), KernelRidge()).fit(X, Y + 0j),
    "new points of a search": lambda: KernelSearchCV(Gaussian()).fit(X, LABELS).predict(Z),
    "typical rows": lambda: representatives(Z, LABELS, 5),
}


@pytest.mark.parametrize("what", COMPLEX)
@pytest.mark.filterwarnings("ignore::mercer.exceptions.DegenerateKernelWarning")
def test_complex_numbers_are_refused(what: str) -> None:
    assert_complex_refused(COMPLEX[what])


LARGE = {
    "comparison": lambda y: compare(X, y, folds=2),
    "search": lambda y: KernelSearchCV(Gaussian(), KernelRidge()).fit(X, y),
}


@pytest.mark.parametrize("what", LARGE)
@pytest.mark.parametrize("size", [1e145, 1e160, 1e300, 1e307])
def test_targets_whose_squares_overflow_are_named(what: str, size: float) -> None:
    with pytest.raises(ValueError, match=r"y .*whose square is out of range; rescale (y|it)$"):
        LARGE[what](size * Y)


@pytest.mark.parametrize("what", LARGE)
def test_targets_whose_squares_vanish_are_named(what: str) -> None:
    with pytest.raises(ValueError, match="whose square is out of range"):
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


@pytest.mark.parametrize("kept", [0, 1])
def test_length_scales_too_small_for_single_precision_are_named(kept: int) -> None:
    grams = Grams(X.astype(np.float32), kept=kept)
    np.testing.assert_allclose(grams(Gaussian(1.0)), Gaussian(1.0)(X), atol=1e-6)
    with pytest.raises(ValueError, match="must be at least 1e-18 for rows in single precision"):
        grams(Gaussian(1e-19))  # although the rows have been embedded for another length scale
