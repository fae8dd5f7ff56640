"""Kernels on some columns of a table."""

import pickle
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import polars.selectors as cs
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_selector
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from mercer.exceptions import DegenerateKernelWarning
from mercer.features import GramTransformer
from mercer.gp import SphericalGPRegressor
from mercer.kernels import Cosine, Gaussian, Heat, Linear, MeanEmbedding, On, Spectrum, TfIdf
from mercer.machines import SVC, KernelRidge
from mercer.selection import KernelSearchCV
from mercer.spaces import Categories, Graph, Simplex, Torus
from mercer.testing import check_kernel

RNG = np.random.default_rng(0)
ROWS = 40
TABLE = pd.DataFrame({
    "age": RNG.normal(50, 10, size=ROWS),
    "income": RNG.lognormal(10, 1, size=ROWS),
    "site": RNG.choice(["lake", "river", "sea"], ROWS),
    "note": [" ".join(RNG.choice(["red", "green", "old", "new"], 6)) for _ in range(ROWS)],
    "gene": ["".join(RNG.choice(list("ACGT"), 12)) for _ in range(ROWS)],
    "when": pd.date_range("2024-01-01 05:30", periods=ROWS, freq="7h"),
    "number": range(100, 100 + ROWS),
})  # fmt: skip
TARGET = np.where(TABLE.age + 10 * (TABLE.site == "sea") > 52, "yes", "no")
MIXED = (
    On(["age", "income"], Gaussian())
    + 0.5 * On("site", Heat(Categories()))
    + On("note", TfIdf()) * On("gene", Spectrum(2))
    + On("when", Heat(Torus(period=24)), dates="hours")
)


def sized(K: np.ndarray) -> np.ndarray:
    """A Gram matrix over its total variance."""
    off = K[~np.eye(len(K), dtype=bool)]
    return K / (np.diag(K).mean() - off.mean())


def by_hand(table: pd.DataFrame) -> np.ndarray:
    """The mixed kernel, from parts that are prepared one by one."""
    numbers = StandardScaler().fit_transform(table[["age", "income"]])
    words = CountVectorizer().fit_transform(table.note)
    hours = (table.when.dt.hour + table.when.dt.minute / 60).to_numpy()[:, None]
    return (
        sized(Gaussian()(numbers))
        + 0.5 * sized(Heat(Categories())(table[["site"]]))
        + sized(TfIdf().scaled_to(words)(words)) * sized(Spectrum(2)(table.gene.tolist()))
        + sized(Heat(Torus(period=24))(hours))
    )


FRAMES = {"pandas": TABLE, "polars": pl.from_pandas(TABLE)}
either = pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)


@either
def test_a_mixed_table_against_parts_by_hand(frame) -> None:
    kernel = MIXED.learnt_from(frame)
    np.testing.assert_allclose(kernel(frame), by_hand(TABLE), atol=1e-12)
    np.testing.assert_allclose(kernel(frame[:5], TABLE), by_hand(TABLE)[:5], atol=1e-12)


@either
def test_check_kernel_on_frames(frame) -> None:
    check_kernel(MIXED, frame)


def test_nothing_is_prepared_before_it_is_learnt() -> None:
    numbers = TABLE[["age", "income"]]
    np.testing.assert_array_equal(On(["age", "income"], Gaussian(9.0))(TABLE), Gaussian(9.0)(numbers))


@pytest.mark.parametrize(
    "columns",
    [
        ["age", "income"],
        [0, 1],
        [-7, -6],
        slice(0, 2),
        slice("age", "income"),
        slice(None, "income"),
        [True, True, False, False, False, False, False],
        make_column_selector(dtype_include="float"),
    ],
    ids=["names", "positions", "from the end", "slice", "names to", "up to", "mask", "selector"],
)
@either
def test_columns_as_column_transformers_take_them(columns, frame) -> None:
    if callable(columns) and frame is not TABLE:
        columns = lambda X: X.select(pl.col(pl.Float64)).columns  # noqa: E731
    kernel = On(columns, Gaussian()).learnt_from(frame)
    assert kernel.columns == ["age", "income"]
    backwards = list(TABLE.columns)[::-1]
    np.testing.assert_array_equal(kernel(frame[backwards]), kernel(frame))


def test_arrays_have_positions() -> None:
    numbers = TABLE[["age", "income", "site"]].to_numpy()
    kernel = (On([0, 1], Gaussian()) + On(2, Heat(Categories()))).learnt_from(numbers)
    named = (On(["age", "income"], Gaussian()) + On("site", Heat(Categories()))).learnt_from(TABLE)
    np.testing.assert_allclose(kernel(numbers), named(TABLE), atol=1e-13)
    process = GaussianProcessRegressor(kernel, alpha=0.1).fit(
        TABLE[["age", "income", "site"]], TABLE.age
    )
    assert process.score(TABLE[["age", "income", "site"]], TABLE.age) > 0.9
    with pytest.raises(ValueError, match=r"'age' is asked for by name, .* X is a bare array"):
        GaussianProcessRegressor(named).fit(TABLE[["age", "income", "site"]], TABLE.age)
    sparse = SphericalGPRegressor(kernel, noise=0.1, optimize=False).fit(numbers, TABLE.age)
    again = SphericalGPRegressor(named, noise=0.1, optimize=False).fit(TABLE, TABLE.age)
    np.testing.assert_allclose(again.predict(TABLE), sparse.predict(numbers), rtol=1e-6)


def test_preparation_is_learnt_from_training_rows_alone() -> None:
    machine = SVC(MIXED).fit(TABLE[:25], TARGET[:25])
    kernel = machine.kernel_
    np.testing.assert_allclose(kernel(TABLE[:25]), by_hand(TABLE[:25]), atol=1e-12)
    gram = GramTransformer(MIXED).fit(TABLE[:25])
    np.testing.assert_array_equal(gram.transform(TABLE), kernel(TABLE, TABLE[:25]))
    search = KernelSearchCV(MIXED, param_grid={"C": [1.0]}, cv=[(np.arange(25), np.arange(25, 40))])
    alone = machine.set_params(C=1.0).fit(TABLE[:25], TARGET[:25]).score(TABLE[25:], TARGET[25:])
    assert search.fit(TABLE, TARGET).best_score_ == pytest.approx(alone)


def test_ranges_of_parts_are_scaled_and_searched() -> None:
    kernel = (On(["age", "income"], Gaussian()) + On("site", Heat(Categories()))).scaled_to(TABLE, 0.3)
    part = On(["age", "income"], kernel.k1.kernel, kernel.k1.prepare)(TABLE)
    assert np.median(part[np.triu_indices(ROWS, 1)]) == pytest.approx(0.3, abs=1e-3)
    search = KernelSearchCV(kernel, similarities=[0.1, 0.6], cv=3).fit(TABLE, TARGET)
    assert search.score(TABLE, TARGET) > 0.7
    grid = {"kernel__k1__kernel__length_scale": [0.5, 5.0], "C": [1.0]}
    unlearnt = On(["age", "income"], Gaussian()) + On("site", Heat(Categories()))
    assert KernelSearchCV(unlearnt, param_grid=grid, cv=3).fit(TABLE, TARGET).best_score_ > 0.5


def test_copies_keep_what_was_learnt() -> None:
    kernel = MIXED.learnt_from(TABLE)
    for copy in (clone(kernel), pickle.loads(pickle.dumps(kernel)), kernel.learnt_from(TABLE[:9])):
        np.testing.assert_array_equal(copy(TABLE), kernel(TABLE))
    theta = kernel.theta + 0.1
    np.testing.assert_allclose(kernel.clone_with_theta(theta).theta, theta)


def test_one_column_of_nodes_or_clouds() -> None:
    graph = Graph(nx.path_graph(["lake", "river", "sea"]))
    clouds = [RNG.normal(size=(k, 2)) for k in RNG.integers(1, 5, size=ROWS)]
    table = TABLE.assign(cloud=clouds)
    heat, embedding = Heat(graph, t=0.3), MeanEmbedding(Gaussian())
    np.testing.assert_array_equal(On("site", heat)(table), heat(TABLE.site.tolist()))
    np.testing.assert_array_equal(On("cloud", embedding)(table), embedding(clouds))
    np.testing.assert_array_equal(On(["gene"], Spectrum(2))(table), Spectrum(2)(TABLE.gene.tolist()))


def test_transformers_of_ones_own() -> None:
    holes = TABLE.assign(age=TABLE.age.where(TABLE.age > 45), site=TABLE.site.where(TABLE.site != "sea"))
    filled = On(["age"], Gaussian(), make_pipeline(SimpleImputer(), StandardScaler()))
    labels = SimpleImputer(strategy="constant", fill_value="unknown")
    kernel = filled + On("site", Heat(Categories()), labels) + On(["site"], Linear(), OneHotEncoder())
    machine = KernelRidge(kernel).fit(holes[:30], TABLE.income[:30])
    assert np.isfinite(machine.predict(holes[30:])).all()
    expected = Gaussian()(StandardScaler().fit_transform(holes[["age"]].fillna(holes.age.mean())))
    np.testing.assert_allclose(filled.learnt_from(holes)(holes), sized(expected), atol=1e-12)


def test_parts_of_dates_say_what_they_are_taken_as() -> None:
    days, hours = On("when", Gaussian(), dates="days"), On("when", Heat(Torus(period=24)), dates="hours")
    assert (days + hours).label == "when (days) + when (hours)"
    assert (days + hours).column_blocks() == {"when": ["when"]}


def test_dates_as_numbers() -> None:
    days = (TABLE.when - pd.Timestamp(0)).dt.total_seconds().to_numpy()[:, None] / 86400
    expected = sized(Gaussian()(StandardScaler().fit_transform(days)))
    zoned = TABLE.assign(when=TABLE.when.dt.tz_localize("Asia/Tokyo"))
    written = TABLE.assign(when=TABLE.when.astype(str))  # as in a CSV file
    for table in (TABLE, zoned, written, FRAMES["polars"]):
        kernel = On("when", Gaussian(), dates="days").learnt_from(table)
        np.testing.assert_allclose(kernel(table), expected, atol=1e-8)


def test_counts_that_are_stored_sparse() -> None:
    counts = RNG.poisson(0.7, size=(ROWS, 6)) + np.array([0, 0, 0, 1, 0, 0])
    frame = pd.DataFrame(counts, columns=list("abcdef")).astype(pd.SparseDtype(int, 0))
    heat = Heat(Simplex())
    np.testing.assert_allclose(On(slice("b", "f"), heat)(frame), heat(counts[:, 1:] + 0.0), atol=1e-12)


@pytest.mark.parametrize(
    ("kernel", "table", "message"),
    [
        (On("height", Linear()), TABLE, "X has no column 'height'; its columns are 'age', 'income'"),
        (On([9], Linear()), TABLE, "X has 7 columns, .* none at position 9"),
        (On([], Linear()), TABLE, "at least one"),
        (On(["age", "age"], Linear()), TABLE, "name a column twice"),
        (On([True], Linear()), TABLE, "a mask of 1 columns does not fit X, which has 7"),
        (On(3.5, Linear()), TABLE, "columns must be names, positions"),
        (On("when", Gaussian()), TABLE, "column 'when' of X holds dates; choose what they mean"),
        (On("number", Gaussian()), TABLE, "column 'number' of X looks like an identifier"),
        (On("gene", Heat(Categories())), TABLE, "column 'gene' of X looks like an identifier"),
        (On(["age", "site"], Gaussian()), TABLE, "column 'site' of X holds text"),
        (
            On("age", Gaussian()),
            TABLE.assign(age=TABLE.age.where(TABLE.index != 7)),
            "'age' .* in row 7",
        ),
        (On("site", Heat(Categories())), TABLE.replace("sea", None), "'site' of X has a missing value"),
        (On("note", TfIdf()), TABLE.assign(note=[None, *TABLE.note[1:]]), "'note' .* in row 0"),
        (On("age", Linear()), TABLE[:0], "holds no rows"),
        (On("age", Linear()), TABLE.age, "has no columns; give a data frame"),
        (On("age", Linear(), prepare="log"), TABLE, "prepare of On must be one of 'auto'"),
        (On("when", Linear(), dates="years"), TABLE, "dates of On must be one of 'days', 'hours'"),
        (On("age", "rbf"), TABLE, "kernel of On must be one of mercer.kernels"),
        (
            On(make_column_selector(dtype_include="timedelta"), Gaussian()),
            TABLE,
            r"the selector make_column_selector\(dtype_include='timedelta'\) chooses no column of X",
        ),
        (On(lambda X: [], Gaussian()), TABLE, r"the selector <lambda>\(\) chooses no column of X"),
        (On(cs.temporal(), Gaussian()), FRAMES["polars"].drop("when"), "the selector .*temporal"),
        (
            On("site", TfIdf()),
            TABLE.assign(site=TABLE.site.str[0]),
            r"column site: empty vocabulary.* use Heat\(Categories\(\)\)",
        ),
        (On("gene", Spectrum(3)), TABLE.assign(gene=["", *TABLE.gene[1:]]), "gene: row 0 of X is empty"),
    ],
    ids=range(23),
)
def test_refusals(kernel, table, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        kernel.learnt_from(table)


def test_rows_of_large_tables_are_named_by_their_numbers() -> None:
    many = pd.DataFrame({"gene": ["ACGT"] * 900})
    many.loc[700:, "gene"] = ""
    with pytest.raises(ValueError, match="column gene: row 700 of X is empty"):
        On("gene", Spectrum(3)).learnt_from(many)


def test_refusals_after_learning() -> None:
    kernel = On(["age", "income"], Gaussian()).learnt_from(TABLE)
    with pytest.raises(ValueError, match="column 'income' of Y has a missing value in row 3"):
        kernel(TABLE, TABLE.assign(income=TABLE.income.where(TABLE.index != 3)))
    genes = On("gene", Spectrum(3)).learnt_from(TABLE)
    with pytest.raises(ValueError, match="column gene: row 2 of Y is empty"):
        genes(TABLE, TABLE.assign(gene=["AC", "GT", "", *TABLE.gene[3:]]))
    with pytest.raises(ValueError, match="words of column 'note' have not been counted yet"):
        On("note", TfIdf())(TABLE)
    with pytest.raises(ValueError, match="has not been fitted to training rows"):
        On("age", Gaussian(), StandardScaler())(TABLE)


@pytest.mark.parametrize(
    ("kernel", "same"),
    [
        (TfIdf(), TfIdf(empty="uniform")),
        (Heat(Simplex()), Heat(Simplex(empty="uniform"))),
        (Cosine(), None),
        (Heat(Simplex()) * TfIdf(), None),
    ],
    ids=repr,
)
def test_documents_without_a_known_word_are_named_and_taken_as_uniform(kernel, same) -> None:
    texts = ["red wine", "white wine", "red rose", "white rose"]
    table = pd.DataFrame({"notes": [*texts, ""], "x": np.arange(5.0)})
    new = pd.DataFrame({"notes": ["white wine", "zebra", "gnu gnat"], "x": 0.0})
    model = On("notes", kernel, size=None).scaled_to(table)
    with pytest.warns(UserWarning, match=r"row 1 of column 'notes' of X \(and 1 more\) have no "):
        K = model(new)
    words = model.prepare.estimator.transform(new.notes).toarray()
    words[1:] = 1.0
    np.testing.assert_allclose(K, model.kernel(words), rtol=1e-12)
    if same is not None:  # weights of words are those of documents that have some
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".* taken as uniform")
            expected = same.scaled_to(model.prepare.estimator.transform(table.notes))(words)
        np.testing.assert_allclose(K, expected, rtol=1e-12)
    machine = SVC(On("notes", kernel) + On("x", Gaussian())).fit(table[:4], [0, 1, 0, 1])
    with pytest.warns(UserWarning, match="row 1 of column 'notes' of X has no known word and is taken"):
        assert np.isfinite(machine.decision_function(new[:2])).all()


def test_rows_of_zeros_stay_errors_where_no_words_are_counted() -> None:
    table = pd.DataFrame({"a": [1, 0, 2], "b": [3, 0, 1]})
    with pytest.raises(ValueError, match="row 1 of X is all zeros"):
        On(["a", "b"], Heat(Simplex())).learnt_from(table)
    with pytest.raises(ValueError, match="row 0 of X is all zeros"):
        On(["a", "b"], TfIdf()).learnt_from(table[::2])(table[1:])


@pytest.mark.parametrize(
    "kernel", [On("same", Gaussian()), On("label", Heat(Categories())), On("text", TfIdf())], ids=repr
)
def test_columns_from_which_nothing_can_be_learnt_are_named(kernel) -> None:
    y, x = np.arange(6) % 2, np.arange(6.0)
    table = pd.DataFrame({"same": 3.0, "label": "red", "text": "red wine", "x": x})
    with pytest.warns(DegenerateKernelWarning, match=f"the training rows of {kernel.columns} apart"):
        machine = SVC(kernel + On("x", Gaussian())).fit(table, y)
    assert machine.kernel_.k1.factor == pytest.approx(1.0)
    # A constant part changes no decision.
    alone = SVC(On("x", Gaussian())).fit(table, y)
    np.testing.assert_allclose(
        machine.decision_function(table), alone.decision_function(table), atol=1e-2
    )
