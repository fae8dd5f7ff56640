"""Estimators against scikit-learn's checks; the search and Gaussian processes have theirs elsewhere."""

import warnings

import pytest
from sklearn.utils.estimator_checks import check_estimator

from mercer.features import (
    GramTransformer,
    GroupNormals,
    MeasuredNormals,
    Multinomials,
    SpectralFeatures,
    SubstringVectorizer,
)
from mercer.kernels import Gaussian, Heat, Linear
from mercer.spaces import Sphere

#: The checks make tables of any width with any entries.  Measurements come with errors above zero, and
#: a row of zeros is no direction.
REFUSED = {
    MeasuredNormals: ("need an even number", "an error that is not positive"),
    SpectralFeatures: ("is all zeros and has no direction",),
}


def failures(estimator) -> list[dict]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_skip=None, on_fail=None)
    return [result for result in results if result["status"] == "failed"]


@pytest.mark.parametrize(
    "estimator",
    [
        GramTransformer(Gaussian()),
        GramTransformer(Linear(), normalize=False),
        Multinomials(alpha=1.0),
        GroupNormals(),
        SubstringVectorizer(),
    ],
    ids=repr,
)
def test_estimator(estimator) -> None:
    assert failures(estimator) == []


@pytest.mark.parametrize(
    "estimator", [MeasuredNormals(), SpectralFeatures(Heat(Sphere(), t=0.5), n_components=12)], ids=repr
)
def test_estimator_of_certain_rows(estimator) -> None:
    for result in failures(estimator):
        error = result["exception"]
        texts = [str(error), str(error.__cause__), str(error.__context__)]
        assert any(reason in text for reason in REFUSED[type(estimator)] for text in texts), result
