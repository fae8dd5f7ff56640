"""Bad input is refused by name; odd but valid input is not."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from mercer.gp import SphericalGPRegressor
from mercer.kernels import (
    ArcCosine,
    Cosine,
    Gaussian,
    Heat,
    Linear,
    Matern,
    On,
    Parametrix,
    Polynomial,
    Spectral,
)
from mercer.machines import SVC, KernelRidge
from mercer.spaces import Simplex, Sphere

COUNTS = np.array([[3, 0, 1], [2, 1, 1], [0, 5, 0]])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix])
@pytest.mark.parametrize(
    ("bad", "space", "complaint"),
    [
        (np.nan, Simplex(), "row 1 of X contains NaN"),
        (-np.inf, Sphere(), "row 1 of X contains NaN or infinity"),
        (-1.0, Simplex(), "row 1 of X has negative entries"),
    ],
)
def test_bad_entries(form, bad: float, space, complaint: str) -> None:
    X = COUNTS.astype(float)
    X[1, 2] = bad
    with pytest.raises(ValueError, match=complaint):
        Heat(space)(form(X))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("space", [Simplex(), Sphere()])
def test_zero_rows(form, space) -> None:
    X = COUNTS.copy()
    X[1:] = 0
    with pytest.raises(ValueError, match=r"row 1 of Y \(and 1 more\) is all zeros"):
        Heat(space)(form(COUNTS), form(X))


def test_wrong_dimension() -> None:
    with pytest.raises(ValueError, match=r"3 columns, but .* dimension 4"):
        Heat(Sphere(n=4))(COUNTS)
    with pytest.raises(ValueError, match="X has 3 columns, Y has 2"):
        Heat(Sphere())(COUNTS, COUNTS[:, 1:])
    with pytest.raises(ValueError, match="at least 2"):
        Heat(Sphere())([[1.0], [2.0]])


def test_not_unit() -> None:
    with pytest.raises(ValueError, match=r"row 0 .* not of length one"):
        Heat(Sphere(unit=True))([[1.0, 1.0], [1.0, 0.0]])


def test_text_columns_are_named() -> None:
    frame = pd.DataFrame({"a": [1, 2], "name": ["x", "y"]})
    for call in (Heat(Simplex()), lambda X: SVC(Heat(Simplex())).fit(X, [0, 1])):
        with pytest.raises(ValueError, match=r"not numbers: 'name'; .*with On"):
            call(frame)
    with pytest.raises(ValueError, match="could not convert"):
        Heat(Simplex())([["a", "b"]])


@pytest.mark.parametrize("form", [list, tuple, np.array, pd.Series])
def test_texts_are_no_rows_of_numbers(form) -> None:
    for kernel in (Heat(Simplex()), Gaussian()):
        with pytest.raises(ValueError, match=r"X holds texts.*CountVectorizer.*Spectrum"):
            kernel(form(["a first text", "a second one"]))
        with pytest.raises(ValueError, match="X holds texts"):
            SVC(kernel).fit(form(["a first text", "a second one"]), [0, 1])


@pytest.mark.parametrize("X", [np.empty((0, 3)), np.empty((3, 0)), [], [1.0, 2.0]])
def test_empty_and_flat(X) -> None:
    for kernel in (Heat(Sphere()), Gaussian(), Linear(), ArcCosine()):
        with pytest.raises(ValueError, match=r"(?i)array|column|row"):
            kernel(X)


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (Heat(Sphere(), t=0.0), "t of Heat"),
        (Heat(Sphere(), t=-1.0), "t of Heat"),
        (Heat(Sphere(), t=np.nan), "t of Heat"),
        (Heat(Sphere(), t="long"), "t of Heat"),
        (Heat(Sphere(), t_star=np.inf), "t_star of Heat"),
        (Heat(Sphere(), t=1.0, t_star=2.0), "not both"),
        (Heat(Sphere(), normalized="yes"), "normalized of Heat"),
        (Matern(Sphere(), nu=0), "nu of Matern"),
        (Matern(Sphere(), length_scale=-1), "length_scale of Matern"),
        (Spectral(Sphere(), [1.0, -0.1]), "level 1"),
        (Spectral(Sphere(), [0.0, 0.0]), "positive weight"),
        (Spectral(Sphere(), []), "weights"),
        (Spectral(Sphere(), lambda lam: np.ones_like(lam)), "level"),
        (Spectral(Sphere(), lambda lam: 1.0), "shape"),
        (ArcCosine(order=3), "order of ArcCosine"),
        (ArcCosine(order=True), "order of ArcCosine"),
        (ArcCosine(depth=0), "depth"),
        (Parametrix(Sphere(), order=-1), "order of Parametrix"),
        (Parametrix(Sphere(), t=-0.1), "t of Parametrix"),
        (Polynomial(degree=1.5), "degree"),
        (Polynomial(coef0=-1.0), "coef0"),
        (Gaussian(length_scale=0), "length_scale of Gaussian"),
    ],
    ids=repr,
)
def test_bad_parameters(kernel, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        kernel(COUNTS)


@pytest.mark.parametrize("make", [Heat, Matern, Parametrix, Cosine])
def test_space_must_be_a_space(make) -> None:
    with pytest.raises(TypeError, match="space must be"):
        make("sphere")(COUNTS)
    with pytest.raises(TypeError, match=r"space must be .*Sphere\(\)"):
        make(Sphere)(COUNTS)


def test_algebra_refuses_what_is_no_kernel() -> None:
    kernel = Heat(Sphere())
    for operation in (lambda: kernel * 0, lambda: -2 * kernel, lambda: kernel + "x", lambda: kernel**0):
        with pytest.raises((TypeError, ValueError)):
            operation()


def test_gradient_needs_one_argument() -> None:
    with pytest.raises(ValueError, match="Y must be None"):
        Heat(Sphere())(COUNTS, COUNTS, eval_gradient=True)


def test_matvec_checks_the_vector() -> None:
    with pytest.raises(ValueError, match="v has shape"):
        Heat(Sphere()).matvec(COUNTS, None, np.ones(2))


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e307])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_rows_of_any_size(scale: float, form) -> None:
    X = COUNTS * np.array([[1.0], [scale], [1.0]])
    for space in (Simplex(), Sphere()):
        np.testing.assert_allclose(Heat(space)(form(X)), Heat(space)(COUNTS), rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, bool, np.float32])
def test_any_numbers(dtype) -> None:
    X = COUNTS.astype(dtype)
    K = Heat(Simplex())(X)
    assert K.dtype == (np.float32 if dtype == np.float32 else np.float64)
    np.testing.assert_allclose(K, Heat(Simplex())(X.astype(float)), atol=1e-6)


def test_frames_lists_and_one_row() -> None:
    expected = Heat(Simplex())(COUNTS)
    np.testing.assert_array_equal(Heat(Simplex())(pd.DataFrame(COUNTS)), expected)
    np.testing.assert_array_equal(Heat(Simplex())(COUNTS.tolist()), expected)
    np.testing.assert_array_equal(Heat(Simplex())(COUNTS[:1]), [[1.0]])


def test_sparse_with_duplicates_and_zeros() -> None:
    # (0, 0) is stored twice and (1, 1) as an explicit zero: counts add up before the square root.
    data, indices, indptr = [1.0, 2.0, 1.0, 2.0, 0.0, 1.0, 5.0], [0, 0, 2, 0, 1, 2, 1], [0, 3, 6, 7]
    X = sparse.csr_matrix((data, indices, indptr), shape=(3, 3))
    same = np.array([[3.0, 0, 1], [2, 0, 1], [0, 5, 0]])
    before = X.copy()
    np.testing.assert_allclose(Heat(Simplex())(X), Heat(Simplex())(same), rtol=1e-14)
    assert (X.data == before.data).all()


def test_input_is_left_alone() -> None:
    for form in (np.asarray, sparse.csr_matrix):
        X = form(COUNTS.astype(float))
        for kernel in (Heat(Simplex()), Gaussian(), ArcCosine(), Linear(), Polynomial()):
            kernel(X)
            kernel.matvec(X, None, np.ones(3))
        assert (X - form(COUNTS)).sum() == 0


def test_zero_rows_of_arc_cosine() -> None:
    X = np.array([[0.0, 0.0], [1.0, 2.0]])
    np.testing.assert_array_equal(ArcCosine(order=1)(X)[0], [0, 0])
    with pytest.raises(ValueError, match="row 0"):
        ArcCosine(order=0)(X)


@pytest.mark.parametrize("t", [1e-300, 1e-12, 1e-7, 1e3, 1e300])
@pytest.mark.parametrize("n", [2, 3, 10, 393])
def test_extreme_times(t: float, n: int) -> None:
    if n == 393 and t == 1e-7:
        t = 1e-6
    X = np.random.default_rng(0).normal(size=(8, n))
    K, gradient = Heat(Sphere(), t=t)(X, eval_gradient=True)
    assert np.isfinite(K).all()
    assert np.isfinite(gradient).all()
    assert (np.diag(K) == 1).all()
    if t <= 1e-6 and n > 3:
        np.testing.assert_array_equal(K, np.eye(8))
    if t >= 1e3:
        np.testing.assert_array_equal(K, np.ones((8, 8)))


@pytest.mark.parametrize("length_scale", [1e-148, 1e-60, 1e-18, 1e-8, 1e8, 1e18, 1e148])
def test_extreme_length_scales(length_scale: float) -> None:
    X = np.random.default_rng(0).normal(size=(8, 4))
    K = Gaussian(length_scale)(X)
    np.testing.assert_allclose(K, np.eye(8) if length_scale < 1 else np.ones((8, 8)))
    for form in (np.asarray, sparse.csr_matrix):
        K, slopes = Gaussian(length_scale)(form(length_scale * X), eval_gradient=True)
        expected, own = Gaussian()(X, eval_gradient=True)
        np.testing.assert_allclose(K, expected, rtol=1e-12)
        np.testing.assert_allclose(slopes, own, rtol=1e-12, atol=1e-15)
        if 1e-18 <= length_scale <= 1e18:
            K = Gaussian(length_scale)(form((length_scale * X).astype(np.float32)))
            np.testing.assert_allclose(K, expected, atol=3e-6)


def test_length_scales_whose_squares_are_no_numbers_are_refused() -> None:
    X = np.random.default_rng(0).normal(size=(8, 4))
    for length_scale in (1e-160, 9e-149, 2e148):
        with pytest.raises(ValueError, match="length_scale of Gaussian must be from 1e-148 to 1e"):
            Gaussian(length_scale)(X)
    for form in (np.asarray, sparse.csr_matrix):
        with pytest.raises(ValueError, match="must be at least 1e-18 for rows in single precision"):
            Gaussian(1e-20)(form(X.astype(np.float32)))


def test_weights_that_underflow_are_not_cut_off_silently() -> None:
    X = np.random.default_rng(0).normal(size=(3, 10_000))
    t = 0.1 * np.log(10_000) / 10_000
    with pytest.raises(ValueError, match="underflow"):
        Spectral(Sphere(), lambda lam: np.exp(-lam * t))(X)
    steps = Spectral(Sphere(), lambda lam: np.where(lam < 50, 1.0, 0.0))(X[:, :4])
    assert np.isfinite(steps).all()


def test_a_million_columns() -> None:
    X = sparse.random(50, 1_000_000, density=2e-5, random_state=0, format="csr")
    K = Heat(Simplex(), t_star=0.5)(X)
    assert K.shape == (50, 50)
    assert (np.diag(K) == 1).all()
    assert K.min() >= 0


def test_sparse_gaussian_with_empty_rows() -> None:
    Z = np.array([[0, 0, 0], [1, 0, 2.0], [0, 0, 0], [0, 3, 1.0]])
    for kernel in (Gaussian(), Linear(), Polynomial(), ArcCosine()):
        np.testing.assert_allclose(kernel(sparse.csr_matrix(Z)), kernel(Z), atol=1e-14)
        product = kernel.matvec(sparse.csr_matrix(Z), None, np.ones(4))
        np.testing.assert_allclose(product, kernel(Z).sum(axis=1), atol=1e-12)


@pytest.mark.parametrize("index", [900_000_000, -1])
def test_indices_out_of_range(index: int) -> None:
    broken = sparse.csr_matrix((np.ones(4), [0, 1, 0, 1], [0, 2, 4]), shape=(2, 3))
    broken.indices[2] = index
    with pytest.raises(ValueError, match="broken sparse"):
        Heat(Simplex())(broken)


@pytest.mark.parametrize("size", [1.7e308, 5e-324])
def test_rows_at_the_end_of_the_range(size: float) -> None:
    K = Cosine()([[size, size], [1, 1]])
    np.testing.assert_allclose(K, np.ones((2, 2)), rtol=1e-14)


def test_overflow_is_refused() -> None:
    with pytest.raises(ValueError, match=r"row 0 .* overflows"):
        Gaussian()([[1e200, 0], [2e200, 0], [0, 0]])
    with pytest.raises(ValueError, match="normalized=True"):
        ArcCosine(2, depth=11)([[2.0, 0], [0.1, 0], [0, 0]])
    with pytest.raises(ValueError, match="rows to the power 4 overflow; use normalized=True"):
        ArcCosine(2)([[1e100, 0], [1, 0]])
    with pytest.raises(ValueError, match="length_scale"):
        Matern(Sphere(), length_scale=5e-324)(COUNTS)


@pytest.mark.parametrize(
    "kernel",
    [
        ArcCosine(order=1.0),
        ArcCosine(depth=2.0),
        Parametrix(Sphere(), order=1.0),
        Heat(Sphere(), t_star="0.5"),
        Matern(Sphere(), nu="2.5"),
        Polynomial(coef0=None),
        Polynomial(coef0="abc"),
    ],
)
def test_parameters_of_the_wrong_type(kernel) -> None:
    with pytest.raises(ValueError, match=r"order|depth|t_star|nu|coef0"):
        kernel(COUNTS)


@pytest.mark.parametrize("kernel", [Heat(Simplex()), Linear(), On([0, 2], Linear())], ids=repr)
def test_masked_rows_are_named(kernel) -> None:
    """What lies under a mask is no data."""
    masked = np.ma.masked_array(COUNTS, COUNTS == 5)
    with pytest.raises(ValueError, match="row 2 of X has masked values"):
        kernel(masked)
    with pytest.raises(ValueError, match="row 2 of X has masked values"):
        SVC(kernel).fit(masked, [0, 1, 1])
    np.testing.assert_array_equal(kernel(np.ma.masked_array(COUNTS)), kernel(COUNTS))


@pytest.mark.parametrize("model", [KernelRidge(Linear()), SphericalGPRegressor()], ids=repr)
def test_masked_targets_are_named(model) -> None:
    y = np.ma.masked_array([1.0, 2.0, 1e20], [False, False, True])
    with pytest.raises(ValueError, match="row 2 of y has masked values"):
        model.fit(COUNTS, y)
