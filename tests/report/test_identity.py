"""Pages of points that have nothing in common: Gram matrices that are nearly the identity."""

import numpy as np
import pytest
from scipy import sparse

from mercer.report import write_report
from mercer.report.grammatrix import principal_components
from mercer.selection import compare

POINTS = {
    "one-hot rows": np.eye(60),
    "strings": [chr(ord("0") + i) * 5 for i in range(60)],
    "wide sparse rows": sparse.random(60, 100_000, density=1e-4, format="csr", random_state=0),
}


@pytest.mark.parametrize("kind", POINTS)
@pytest.mark.filterwarnings("ignore::mercer.exceptions.DegenerateKernelWarning")
def test_points_that_have_nothing_in_common(kind: str, tmp_path) -> None:
    result = compare(POINTS[kind], ["a", "b"] * 30, folds=3)
    write_report(result, kind, tmp_path / "page.html")
    assert kind in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("size", [1, 2, 3, 60, 600])
@pytest.mark.parametrize("noise", [0.0, 1e-300, 1e-16, 1e-10])
def test_components_of_nearly_equal_eigenvalues(size: int, noise: float) -> None:
    K = np.eye(size) + noise * np.random.default_rng(0).normal(size=(size, size))
    places, shares = principal_components((K + K.T) / 2)
    assert places.shape == (size, 2)
    expected = min(size - 1, 2)
    np.testing.assert_allclose(
        np.sum(places**2, axis=0), [1.0] * expected + [0.0] * (2 - expected), atol=1e-7
    )
    np.testing.assert_allclose(shares[:expected], 1 / max(size - 1, 1), rtol=1e-6)
