"""Complex numbers are refused by spaces."""

import numpy as np
import pytest

from mercer.spaces import Graph, great_circle_km
from tests.helpers.refusals import Z, assert_complex_refused

COMPLEX = {
    "graph": lambda: Graph(np.ones((3, 3)) + 0j),
    "places": lambda: great_circle_km(Z[:, :2], Z[:, :2]),
}


@pytest.mark.parametrize("what", COMPLEX)
def test_complex_numbers_are_refused(what: str) -> None:
    assert_complex_refused(COMPLEX[what])
