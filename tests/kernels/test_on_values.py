"""What columns of data frames may hold, and how the values that they may not hold are named."""

from datetime import time, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from mercer.kernels import Gaussian, Heat, Linear, On, Spectrum, TfIdf
from mercer.kernels.tables import frames as frames_module
from mercer.kernels.tables.frames import identifies as identifies_rows
from mercer.spaces import Categories, Simplex, Torus

ROWS = 30
X = np.random.default_rng(5).normal(size=(ROWS, 3)).round(3)
LABELS = np.random.default_rng(6).choice(list("abc"), ROWS).tolist()


def frames() -> dict[str, object]:
    """The same numbers in columns of many types."""
    plain = pd.DataFrame(X, columns=["a", "b", "c"])
    return {
        "pandas": plain,
        "polars": pl.DataFrame(plain),
        "nullable": plain.astype("Float64"),
        "arrow": plain.astype("double[pyarrow]"),
        "objects": plain.astype(object),
        "decimals": plain.map(lambda v: Decimal(str(v))),
        "polars decimals": pl.DataFrame({c: [Decimal(str(v)) for v in plain[c]] for c in plain}),
        "sparse, but few zeros": plain.astype(pd.SparseDtype(float)),
        "some sparse": plain.astype({"a": pd.SparseDtype(float, 0.0)}),
    }


@pytest.mark.parametrize("kind", frames())
def test_numbers_of_every_type(kind: str) -> None:
    frame = frames()[kind]
    learnt = On(["a", "b", "c"], Gaussian(), size=None).learnt_from(frame)
    np.testing.assert_allclose(learnt(frame), Gaussian()(StandardScaler().fit_transform(X)), rtol=1e-12)


def test_sparse_columns_are_scaled_and_stay_sparse() -> None:
    counts = sparse.random_array((ROWS, 6), density=0.3, rng=np.random.default_rng(0), format="csr")
    frame = pd.DataFrame.sparse.from_spmatrix(counts, columns=list("abcdef"))
    learnt = On(list("abcdef"), Linear(), size=None).learnt_from(frame)
    assert sparse.issparse(learnt.points(frame))
    scaled = StandardScaler(with_mean=False).fit_transform(counts).toarray()
    np.testing.assert_allclose(learnt(frame), scaled @ scaled.T, atol=1e-12)
    np.testing.assert_allclose(learnt(frame.sparse.to_dense()), learnt(frame), atol=1e-12)


LABELLED = [
    pd.DataFrame({"a": pd.Categorical(LABELS)}),
    pd.DataFrame({"a": pd.array(LABELS, dtype="string[pyarrow]")}),
    pl.DataFrame({"a": pl.Series(LABELS, dtype=pl.Categorical)}),
    pl.DataFrame({"a": pl.Series(LABELS, dtype=pl.Enum(["c", "b", "a"]))}),
]


@pytest.mark.parametrize("frame", LABELLED)
def test_labels_of_every_type(frame) -> None:
    kernel = Heat(Categories(levels=[["a", "b", "c"]]), t=0.4)
    found = On("a", kernel)(frame)
    np.testing.assert_array_equal(found, kernel([[label] for label in LABELS]))


@pytest.mark.parametrize("library", [pd, pl])
def test_times_of_day_and_durations(library) -> None:
    moments = [time(i % 24, 30) for i in range(ROWS)]
    spans = [timedelta(days=i, hours=6) for i in range(ROWS)]
    frame = library.DataFrame({"at": moments, "for": spans})
    hours = On("at", Heat(Torus(period=24)), dates="hours").points(frame)
    np.testing.assert_allclose(hours[:, 0], np.arange(ROWS) % 24 + 0.5)
    days = On("for", Gaussian(), dates="days", prepare=None).points(frame)
    np.testing.assert_allclose(days[:, 0], np.arange(ROWS) + 0.25)


def test_names_that_are_not_unique_or_not_strings() -> None:
    double = pd.DataFrame(X, columns=["a", "b", "a"])
    np.testing.assert_array_equal(On("b", Linear())(double), np.outer(X[:, 1], X[:, 1]))
    with pytest.raises(ValueError, match="several columns 'a'"):
        On("a", Linear())(double)
    numbered = pd.DataFrame(X, columns=[10, 20, 30])
    np.testing.assert_array_equal(On([0, 2], Linear())(numbered), Linear()(X[:, [0, 2]]))
    with pytest.raises(ValueError, match=r"none at position 10 \(whole numbers are positions\)"):
        On(10, Linear())(numbered)
    levels = pd.DataFrame(X, columns=pd.MultiIndex.from_tuples([("a", "x"), ("a", "y"), ("b", "x")]))
    np.testing.assert_array_equal(On([0, 1], Linear())(levels), Linear()(X[:, :2]))
    with pytest.raises(ValueError, match="no column 'a'"):
        On("a", Linear())(levels)
    mixed = pd.DataFrame(X, columns=["a", 5, "b"])
    assert On(["b", "a"], Linear()).learnt_from(mixed).columns == ["b", "a"]


@pytest.mark.parametrize(
    ("kernel", "values", "message"),
    [
        (Gaussian(), pd.array([None] + [1] * 9, dtype="Int64"), "row 0.*a kernel of numbers with"),
        (Gaussian(), [1.0] * 9 + [np.inf], "column 'a' of X has an infinite value in row 9"),
        (Gaussian(), [1e200, -1e200] * 5, "column a: numbers are so large that their"),
        (Gaussian(), pd.Series([1.5] * 9 + ["u"], dtype=object), "'a' of X has 'u' in row 9, which"),
        (Gaussian(), [1.0, 2.0 + 1j] * 5, "column 'a' of X has .* in row 0, which is not a real number"),
        (TfIdf(), pd.Series(["a red one"] * 9 + [3.5], dtype=object), "column a: row 9 holds 3.5"),
        (Spectrum(2), pd.Series(["AC"] * 9 + [None], dtype=object), "missing value in row 9"),
    ],
)  # fmt: skip
def test_values_that_are_refused(kernel, values, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        On("a", kernel).learnt_from(pd.DataFrame({"a": values}))


def test_what_is_no_date_is_named() -> None:
    table = pd.DataFrame({"when": ["2024-01-01", "31.12.2024"]})
    with pytest.raises(ValueError, match=r"'when' of X has '31\.12\.2024' in row 1, which is not"):
        On("when", Gaussian(), dates="days")(table)
    late = pd.DataFrame({"when": pd.to_datetime(["2024-01-01", None])})
    with pytest.raises(ValueError, match=r"missing value in row 1.*SimpleImputer"):
        On("when", Gaussian(), dates="days")(late)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_wide_tables_are_not_searched_for_identifiers_column_by_column(kind, monkeypatch) -> None:
    looked_at = []

    def identifies(column, name, labels):
        looked_at.append(name)
        return identifies_rows(column, name, labels)

    monkeypatch.setattr(frames_module, "identifies", identifies)
    counts = np.random.default_rng(0).poisson(1.0, size=(60, 300)) + 1
    table = kind({f"word {j}": column for j, column in enumerate(counts.T)} | {"sample": range(60)})
    words = table.columns[:300]
    On(list(words), Heat(Simplex())).learnt_from(table)
    assert not looked_at
    with pytest.raises(ValueError, match="column 'sample' of X looks like an identifier"):
        On([*words, "sample"], Heat(Simplex())).learnt_from(table)
    assert looked_at == ["sample"]
