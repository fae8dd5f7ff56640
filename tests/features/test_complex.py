"""Complex numbers are refused by transformers."""

import pytest

from mercer.features import (
    GramTransformer,
    GroupNormals,
    MeasuredNormals,
    Multinomials,
    SpectralFeatures,
)
from mercer.kernels import Gaussian, Heat
from mercer.spaces import Sphere
from tests.helpers.refusals import Z, assert_complex_refused

COMPLEX = {
    "Gram matrix": lambda: GramTransformer(Gaussian()).fit(Z),
    "features": lambda: SpectralFeatures(Heat(Sphere())).fit(Z),
    "groups": lambda: GroupNormals().fit([Z[:5], Z[5:]]),
    "measurements": lambda: MeasuredNormals().fit(Z),
    "compositions": lambda: Multinomials().fit(Z),
}


@pytest.mark.parametrize("what", COMPLEX)
def test_complex_numbers_are_refused(what: str) -> None:
    assert_complex_refused(COMPLEX[what])
