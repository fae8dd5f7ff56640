"""Machines on data frames: columns found by name, frames of pandas and polars, blocks of them."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone

from mercer.gp import SphericalGPRegressor
from mercer.kernels import Gaussian, Heat, On, PosteriorCosine, Spectrum, TfIdf
from mercer.machines import SVC, SVR, KernelRidge, LandmarkClassifier, LandmarkRegressor, OneClassSVM
from mercer.machines.certificate import Certificate
from mercer.selection import KernelSearchCV
from mercer.spaces import Categories, Euclidean, ProductSpace, Simplex

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({
    "a": RNG.normal(size=90), "b": RNG.normal(size=90), "site": RNG.choice(["x", "y", "z"], size=90),
})  # fmt: skip
Y = (TABLE.a * TABLE.b > 0).to_numpy()
BY_NAME = On(["a", "b"], Gaussian()) + On("site", Heat(Categories()))
BY_PLACE = Heat(ProductSpace(Euclidean(2), Categories(), columns=[[0, 1], [2]]), 0.3)
MACHINES = [SVC(), KernelRidge(), LandmarkClassifier(n_landmarks=20, random_state=0)]


@pytest.mark.parametrize(
    "kernel", [PosteriorCosine(), On(slice(None), Heat(Simplex()))], ids=["counts", "table"]
)
@pytest.mark.parametrize("form", [sparse.coo_matrix, sparse.bsr_array, sparse.dia_matrix])
def test_sparse_formats_whose_rows_cannot_be_selected(kernel, form) -> None:
    counts = (
        np.random.default_rng(0).poisson(1.0, size=(len(Y), 5)) + np.eye(5, dtype=int)[Y.astype(int)]
    )
    X, v = form(counts), np.ones(len(Y))
    np.testing.assert_allclose(kernel.matvec(X, None, v), kernel(counts) @ v, rtol=1e-12)
    for machine in (*MACHINES, KernelSearchCV(similarities=None, cv=2)):
        name = "kernels" if isinstance(machine, KernelSearchCV) else "kernel"
        machine = clone(machine).set_params(**{name: kernel})
        expected = clone(machine).fit(counts, Y).predict(counts)
        np.testing.assert_allclose(machine.fit(X, Y).predict(X), expected, atol=1e-9)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: type(machine).__name__)
@pytest.mark.parametrize("kernel", [BY_NAME, BY_PLACE], ids=["by name", "by place"])
def test_columns_are_found_by_name(machine, kernel) -> None:
    expected = machine.set_params(kernel=kernel).fit(TABLE, Y).predict(TABLE)
    others = TABLE.assign(c=1.0)[["site", "c", "b", "a"]]
    np.testing.assert_allclose(machine.predict(others), expected, atol=1e-12)
    with pytest.raises(ValueError, match=r"'b'|columns"):
        machine.predict(TABLE[["site", "a"]])
    machine.set_params(kernel=Gaussian()).fit(TABLE[["a", "b"]], Y)
    with pytest.raises(ValueError, match="in the same order"):
        machine.predict(TABLE[["b", "a"]])


def test_blocks_of_frames() -> None:
    polars = pl.from_pandas(TABLE)
    machine = LandmarkClassifier(BY_NAME, 20, 0.1, random_state=0)
    expected = machine.fit(TABLE, Y).decision_function(TABLE)
    whole = str(machine.certify([(TABLE, Y)], n_rows=40))
    halves = str(machine.certify([(TABLE[:50], Y[:50]), (TABLE[50:], Y[50:])], n_rows=40))
    reordered, wider = TABLE[["site", "b", "a"]], TABLE.assign(c=1.0)
    for parts in ([polars, polars], [TABLE, reordered], [TABLE, wider], [TABLE, polars]):
        blocks = [(parts[0][:50], Y[:50]), (parts[1][50:], Y[50:])]
        np.testing.assert_allclose(machine.fit(blocks).decision_function(polars), expected, atol=1e-12)
        assert str(machine.certify(blocks, n_rows=40)) == halves
    assert str(machine.certify([(reordered, Y)], n_rows=40)) == whole
    for frame in (polars, reordered):
        assert machine.certify(frame, Y).grade == "exact"  # the sample holds all rows
    with pytest.raises(
        ValueError, match="X of block 1 has the columns a, site, but the columns a, b, s"
    ):
        machine.fit([(TABLE[:50], Y[:50]), (TABLE[["a", "site"]][50:], Y[50:])])


@pytest.mark.parametrize("kernel", [Gaussian(), On([0], Gaussian())], ids=["rows", "tables"])
def test_blocks_of_different_widths_are_refused(kernel) -> None:
    X = TABLE[["a", "b"]].to_numpy()
    blocks = [(X[:50], Y[:50]), (np.hstack([X, X])[50:], Y[50:])]
    for source in (blocks, iter(blocks)):
        with pytest.raises(ValueError, match="X of block 1 has 4 columns, but 2 in the first block"):
            LandmarkRegressor(kernel, 10).fit(source)


@pytest.mark.parametrize(
    "machine", [SVC, SVR, OneClassSVM, KernelRidge, LandmarkClassifier, LandmarkRegressor]
)
def test_classes_of_kernels_are_refused(machine) -> None:
    with pytest.raises(TypeError, match=r"kernel is the class Heat; give an instance, Heat\(\.\.\.\)"):
        machine(Heat).fit(TABLE[["a", "b"]], Y)


def test_certificates_in_words() -> None:
    for grade, words in (
        ("safe", "by at most 3 %"),
        ("sampled", "by at most 3 %, with 95 % confidence from a sample (standard error 0.2 %)"),
        ("exact", "by at most 3 %, by a product with all rows"),
    ):
        assert words in str(Certificate(grade, 100.0, 97.5, 0.11))
    assert "certify(X, y) computes one" in str(Certificate("safe", 100.0, 1e-3))
    for grade in ("sampled", "exact"):
        assert "so few landmarks" in str(Certificate(grade, 100.0, 1e-3, 1e-9))


def test_dask_frames_of_every_kind_of_column() -> None:
    dd = pytest.importorskip("dask.dataframe")
    table = TABLE.assign(
        site=TABLE.site.astype("category"),
        note=[" ".join(RNG.choice(["red", "green", "old", "new"], 6)) for _ in range(90)],
        gene=["".join(RNG.choice(list("ACGT"), 12)) for _ in range(90)],
    )
    y, classes = pd.Series(TABLE.a * TABLE.b), pd.Series(np.where(Y, "yes", "no"))
    kernel = BY_NAME + On("note", TfIdf()) + On("gene", Spectrum(2))
    parts = dd.from_pandas(table, npartitions=3)
    for machine, targets, tol in (
        (LandmarkRegressor(kernel, n_landmarks=20, random_state=0), y, 1e-8),
        (LandmarkClassifier(kernel, n_landmarks=20, random_state=0), classes, 1e-8),
        (SphericalGPRegressor(kernel, max_features=20), y, 1e-6),
    ):
        whole = clone(machine).fit(table, targets)
        model = machine.fit(parts, dd.from_pandas(targets, npartitions=3))
        for method in ("predict", "decision_function"):
            if hasattr(model, method):
                lazily, expected = (getattr(m, method)(X) for m, X in ((model, parts), (whole, table)))
                if expected.dtype.kind == "f":
                    np.testing.assert_allclose(lazily.compute(), expected, atol=tol)
                else:
                    np.testing.assert_array_equal(lazily.compute(), expected)
    with pytest.raises(ValueError, match="column 'site' of X holds category, not numbers"):
        LandmarkRegressor(Gaussian()).fit(parts, dd.from_pandas(y, npartitions=3))
