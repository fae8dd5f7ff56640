"""Numbers that estimators and kernels must refuse, in one line."""

from collections.abc import Callable

import numpy as np
import pytest

RNG = np.random.default_rng(0)
X = RNG.random((30, 4))
Z = X.astype(complex)
Y = RNG.normal(size=30)
LABELS = [0, 1] * 15


def assert_complex_refused(call: Callable[[], object]) -> None:
    """Complex numbers raise an error of one line."""
    with pytest.raises((ValueError, TypeError), match=r"omplex|real|number") as refusal:
        call()
    assert "\n" not in str(refusal.value)
