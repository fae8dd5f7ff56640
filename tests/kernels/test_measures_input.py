"""Kernels between clouds: bad clouds, weights and parameters."""

import numpy as np
import pandas as pd
import pytest

from mercer.kernels import (
    Gaussian,
    GaussianEmbedding,
    Heat,
    InverseGeneralizedVariance,
    Linear,
    MeanEmbedding,
    MixtureMoment,
    Parametrix,
    RegularizedMoment,
    TraceKernel,
)
from mercer.spaces import Sphere
from tests.helpers.clouds import BASE, MEASURES, random_clouds

GOOD = [[0.0, 1.0], [2.0, 3.0]]


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([], "X holds no clouds"),
        ([GOOD, np.empty((0, 2))], "row 1 of X is an empty cloud"),
        ([GOOD, np.empty((3, 0))], "row 1 of X has points without coordinates"),
        ([GOOD, [[1.0], [2.0]]], "row 1 of X has points of dimension 1, row 0 of 2"),
        ([GOOD, [[1.0, np.nan]]], "row 1 of X contains NaN or infinity, in its point 0"),
        ([GOOD, [["a", "b"]]], "row 1 of X is not an array of real numbers"),
        ([GOOD, [[1j, 2.0]]], "row 1 of X is not an array of real numbers"),
        ([GOOD, [[1.0], [2.0, 3.0]]], "row 1 of X is not an array of real numbers"),
        ([GOOD, [1.0, 2.0]], r"row 1 of X has points of shape \(2,\)"),
        (np.array(GOOD), r"X is an array of shape \(2, 2\); give a list of clouds"),
        ([(GOOD, [0.5, 0.6])], "row 0 of X has weights that sum to 1.1, not to 1"),
        ([(GOOD, [1.5, -0.5])], "row 0 of X has weights that are negative"),
        ([(GOOD, [np.nan, 1.0])], "row 0 of X has weights that are negative, infinite or NaN"),
        ([(GOOD, [1.0])], r"row 0 of X has 2 points and weights of shape \(1,\)"),
        ([(GOOD, ["a", "b"])], "row 0 of X has weights that are not numbers"),
        ([(GOOD, [0.0, 0.0])], "row 0 of X has weights that sum to 0"),
    ],
)
@pytest.mark.parametrize("kernel", [MEASURES[1], MEASURES[3], MEASURES[5]], ids=repr)
def test_bad_clouds_are_named(kernel, X, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kernel(X)
    with pytest.raises(ValueError, match=message.replace("X", "Y")):
        kernel([GOOD], X)
    with pytest.raises(ValueError, match=message):
        kernel.diag(X)


def test_bad_input_of_other_kinds() -> None:
    from scipy import sparse

    from mercer.kernels import FullSpectrum

    kernel = TraceKernel(BASE)
    for X in ("abc", 3, {0: GOOD}, sparse.csr_matrix(GOOD)):
        with pytest.raises(TypeError, match="X"):
            kernel(X)
    with pytest.raises(TypeError, match="row 0 of X is a sparse matrix"):
        kernel([sparse.csr_matrix(GOOD)])
    with pytest.raises(TypeError, match="row 1 of X is a str; a cloud is a list of points"):
        TraceKernel(FullSpectrum())([["ab"], "ab"])
    with pytest.raises(ValueError, match="points of dimension 2, those of Y have dimension 1"):
        kernel([GOOD], [[[1.0]]])
    with pytest.raises(
        ValueError, match="row 1 of X is a cloud that its base kernel refuses: point 1 of"
    ):
        TraceKernel(Heat(Sphere()))([GOOD, [[1.0, 0.0], [0.0, 0.0]]])
    with pytest.raises(ValueError, match="eval_gradient is for"):
        kernel([GOOD], [GOOD], eval_gradient=True)


def test_errors_across_clouds_name_the_cloud_and_its_point() -> None:
    from mercer.kernels import WeightedDegree

    kernel = MeanEmbedding(WeightedDegree(1))
    with pytest.raises(ValueError, match=r"^row 1 of X is .*: point 0 of row 1 of X has length 1"):
        kernel([["ab", "ba"], ["a"]])
    with pytest.raises(ValueError, match=r"^row 1 of Y is .*: point 1 of row 1 of Y has length 3"):
        kernel([["ab"]], [["ab"], ["ba", "abc"]])
    with pytest.raises(
        ValueError, match=r"^row 0 of Y is .*: point 0 of row 0 of Y has length 3, point 0"
    ):
        kernel([["ab"], ["ba"]], [["abc"]])


def test_clouds_in_tables() -> None:
    """A column of strings is a cloud of them, not its heading; several columns are refused."""
    from mercer.kernels import Spectrum

    kernel = TraceKernel(Spectrum(1))
    table = pd.DataFrame({"words": ["ab", "b"]})
    expected = kernel([["ab", "b"], ["a"]])
    np.testing.assert_array_equal(kernel([table, pd.Series(["a"])]), expected)
    with pytest.raises(ValueError, match="row 0 of X is a table of 2 columns"):
        kernel([table.assign(more="a")])
    numbers = pd.DataFrame(GOOD)
    np.testing.assert_array_equal(TraceKernel(BASE)([numbers, GOOD]), TraceKernel(BASE)([GOOD, GOOD]))


def test_masked_values_are_refused() -> None:
    kernel = TraceKernel(BASE)
    with pytest.raises(ValueError, match="row 1 of X has masked values"):
        kernel([GOOD, np.ma.masked_equal(GOOD, 3.0)])
    with pytest.raises(ValueError, match="row 0 of X has masked values"):
        kernel([(GOOD, np.ma.masked_equal([0.0, 1.0], 0.0))])
    np.testing.assert_array_equal(kernel([np.ma.masked_equal(GOOD, 9.0)]), kernel([GOOD]))


def test_points_and_weights_go_in_a_tuple() -> None:
    from mercer.kernels import Spectrum

    words, numbers = TraceKernel(Spectrum(2)), TraceKernel(BASE)
    for kernel, cloud in (
        (words, [["ACG", "CCG"], [0.5, 0.5]]),
        (words, [["ACG", "CCG"], np.array([0.5, 0.5])]),
        (numbers, [GOOD, [0.5, 0.5]]),
        (numbers, [np.array(GOOD), np.array([0.5, 0.5])]),
    ):
        with pytest.raises(ValueError, match=r"row 0 of X .* weights\? use a tuple \(points, weights\)"):
            kernel([cloud])
    for kernel, cloud in (
        (words, ("ACG", "CCG")),
        (words, (33, 32)),
        (words, (["AC"], ["CC"])),
        (numbers, ([0.0, 1.0], [2.0, 3.0])),
    ):
        with pytest.raises((TypeError, ValueError), match=r"row 0 of X .* a tuple of two means"):
            kernel([cloud])
    # Two points that look like weights are points.
    np.testing.assert_array_equal(numbers([[[0.0, 1.0], [0.5, 0.5]]]), numbers([([[0, 1], [0.5, 0.5]])]))


def test_weights_sum_to_one_in_their_own_precision() -> None:
    kernel = TraceKernel(BASE)
    points = [[0.0], [1.0], [3.0]]
    single = kernel([(points, np.full(3, 1 / 3, np.float32))])
    np.testing.assert_allclose(single, kernel([points]), rtol=1e-6)
    with pytest.raises(ValueError, match="rescale_weights=True"):
        kernel([(points, [0.3333, 0.3333, 0.3333])])
    with pytest.raises(ValueError, match="rescale_weights=True"):
        kernel([(points, np.full(3, 0.3333, np.float32))])


def test_weights_are_rescaled_on_request() -> None:
    kernel = InverseGeneralizedVariance(BASE, rescale_weights=True)
    expected = InverseGeneralizedVariance(BASE)([(GOOD, [0.25, 0.75]), GOOD])
    np.testing.assert_allclose(kernel([(GOOD, [1, 3]), GOOD]), expected, rtol=1e-13)


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (TraceKernel(BASE, t=0.0), ValueError, "t of TraceKernel must be a positive number"),
        (InverseGeneralizedVariance(BASE, eta=-1), ValueError, "eta of Inverse"),
        (MixtureMoment(BASE, delta=np.nan), ValueError, "delta of MixtureMoment"),
        (GaussianEmbedding(BASE, length_scale=None), ValueError, "length_scale of Gaussian"),
        (RegularizedMoment(eps=0), ValueError, "eps of RegularizedMoment"),
        (RegularizedMoment(order=-4), ValueError, "order of RegularizedMoment must be a whole number"),
        (RegularizedMoment(base=BASE), ValueError, "must have explicit features"),
        (TraceKernel(BASE, normalized="yes"), ValueError, "normalized of TraceKernel"),
        (TraceKernel(BASE, rescale_weights=1), ValueError, "rescale_weights of TraceKernel"),
        (TraceKernel(Gaussian(length_scale=-1)), ValueError, "^length_scale of Gaussian must be"),
        (TraceKernel("rbf"), TypeError, "base of TraceKernel must be a kernel"),
        (TraceKernel(Parametrix(Sphere(), order=0)), ValueError, "must be positive semidefinite"),
        (RegularizedMoment(eps=1e-5), ValueError, "overflow; use normalized=True"),
    ],
)
def test_bad_parameters(kernel, error, message: str) -> None:
    X = [np.ones((2, 200))] if "overflow" in message else [GOOD]
    with pytest.raises(error, match=message):
        kernel(X)


class Wrong(Linear):
    """A base kernel that lies about being positive semidefinite."""

    def explicit_features(self, X):
        return None

    def __call__(self, X, Y=None, eval_gradient=False):
        return -super().__call__(X, Y)


def test_a_base_that_is_no_kernel_is_found_out() -> None:
    with pytest.raises(ValueError, match="not positive semidefinite on cloud 0"):
        InverseGeneralizedVariance(Wrong())([GOOD])


def test_results_repeat_to_the_last_bit() -> None:
    clouds = random_clouds(np.random.default_rng(18), sizes=(5,) * 30)
    for kernel in MEASURES:
        np.testing.assert_array_equal(kernel(clouds), kernel(clouds))
