"""Kinds of columns, and comparisons of tables whose columns are of several kinds."""

import json
import warnings
from decimal import Decimal
from html import unescape

import numpy as np
import pandas as pd
import polars as pl
import polars.selectors as cs
import pytest
from sklearn.compose import make_column_selector
from sklearn.datasets import load_wine
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GroupKFold
from typer.testing import CliRunner

from mercer.cli import app
from mercer.kernels import Gaussian, Heat, MultipleKernel, On
from mercer.machines import SVC
from mercer.selection import KernelSearchCV, SavedModel, compare, load_model
from mercer.selection.kinds import candidates
from mercer.selection.kinds.columns import recognised
from mercer.selection.kinds.mixed import as_pandas, typed
from mercer.selection.target import sample_rows
from mercer.spaces import Categories

ROWS = 45
TASTES = [
    "apple", "bitter", "butter", "cherry", "citrus", "crisp", "dark", "dry", "earthy", "floral", "fresh",
    "honey", "leather", "lemon", "light", "mellow", "oak", "peach", "pepper", "plum", "ripe", "rose",
    "smoke", "spicy", "sweet", "tannic", "tobacco", "toast", "vanilla", "woody",
]  # fmt: skip


def tasting_notes(rng: np.random.Generator, code: int, count: int) -> list[str]:
    """Notes of 25 words; ten of the thirty words are three times as frequent in a class as elsewhere."""
    weights = np.where(np.arange(len(TASTES)) % 3 == code, 3.0, 1.0)
    words = rng.choice(TASTES, size=(count, 25), p=weights / weights.sum())
    return ["A wine of " + " ".join(row) for row in words]


@pytest.fixture(scope="module")
def wines() -> pd.DataFrame:
    """Numbers of wines, and notes, strings and labels drawn for each class."""
    rng = np.random.default_rng(0)
    wine = load_wine()
    frames = []
    for code in range(3):
        rows = np.flatnonzero(wine.target == code)[: ROWS // 3]
        letters = rng.choice(list("ACGT"), size=(len(rows), 24), p=np.roll([0.4, 0.2, 0.2, 0.2], code))
        frames.append(
            pd.DataFrame(
                {
                    "code": rng.integers(10_000, 99_999, size=len(rows)),
                    "alcohol": wine.data[rows, 0],
                    "hue": wine.data[rows, 10],
                    "soil": rng.choice(["clay", "chalk", "sand"], size=len(rows)),
                    "notes": tasting_notes(rng, code, len(rows)),
                    "gene": ["".join(row) for row in letters],
                    "bottled": pd.Timestamp("1990-05-01")
                    + pd.to_timedelta(rng.integers(0, 9000, size=len(rows)), "D"),
                    "lat": rng.uniform(40, 50, size=len(rows)).round(3),
                    "lon": rng.uniform(5, 15, size=len(rows)).round(3),
                    "cellar": "north",
                    "kind": wine.target_names[code],
                }
            )
        )
    table = pd.concat(frames, ignore_index=True)
    table["bottle_id"] = range(len(table))
    return table


KINDS = {
    "alcohol": "number", "hue": "number", "soil": "category", "notes": "text", "gene": "string",
    "bottled": "date", "lat": "coordinate", "lon": "coordinate", "cellar": "constant",
    "bottle_id": "identifier", "code": "number", "kind": "category",
}  # fmt: skip


def test_columns_are_recognised(wines, tmp_path) -> None:
    path = tmp_path / "wines.csv"
    wines.to_csv(path, index=False)
    for table in (wines, pd.read_csv(path)):
        assert {c.name: c.kind for c in recognised(table)} == KINDS
    counts = pd.DataFrame(np.random.default_rng(0).poisson(0.3, size=(30, 9))).add_prefix("word")
    assert {c.kind for c in recognised(counts.assign(age=np.linspace(1, 2, 30)))} == {"counts", "number"}


def test_frequent_species_are_counts_like_the_others() -> None:
    rng = np.random.default_rng(0)
    reads = rng.poisson(0.3, size=(60, 40))
    reads[:, 20] = rng.permutation(60) + 900  # never zero, and another number in every row
    table = pd.DataFrame(reads).add_prefix("species")
    table.insert(0, "sample", [f"s{row}" for row in range(60)])
    table.insert(1, "age", rng.integers(20, 90, size=60))
    kinds = {c.name: c.kind for c in recognised(table)}
    assert kinds.pop("sample") == "identifier"
    assert kinds.pop("age") == "number"
    assert set(kinds.values()) == {"counts"}


def test_columns_whose_values_repeat_only_outside_a_training_part() -> None:
    """What a column holds is decided once, on all rows: none of these is an identifier."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.poisson(0.3, size=(60, 40))).add_prefix("species")
    table["species20"] = np.arange(60) + 900
    table["age"] = np.r_[20:60, 20:40]
    table["town"] = [f"town {row % 40}" for row in range(60)]
    found = candidates(table)
    assert [c.kind for c in found.used] == ["counts"] * 40 + ["number", "category"]
    for members in (found.families[f"{kind} alone"] for kind in ("numbers", "labels", "counts")):
        for template in members:
            K = template.kernel.learnt_from(found.X[:30])(found.X[:30])
            assert np.isfinite(K).all()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([f"{k:08x}-1f" for k in range(60)], "identifier"),
        (["yes", "no", None] * 20, "category"),
        ([True, False] * 30, "category"),
        ([f"Ann {'B' * k}" for k in range(60)], "identifier"),
        (["2024-01-31T10:00", "2023-02-01T07:30"] * 30, "date"),
        (["a very nice place", "not quite so nice a place", "it rains here", ""] * 15, "category"),
        ([None] * 60, "constant"),
        ([Decimal(k) / 4 for k in (*range(40), *range(20))], "number"),
        ([Decimal(1), Decimal(2), None] * 20, "number"),
        (pd.Series([0.5, 1.5, None] * 20, dtype=object), "number"),
        (pd.to_timedelta([1, 2, 3] * 20, "h"), "other"),
        ([*map(str, range(22)), "X", "Y"] * 3, "category"),
        ([(1, 2)] * 60, "other"),
        (range(60), "identifier"),
        (np.arange(60) * 0.5, "number"),
        ([1, 2, 3] * 20, "number"),
    ],
    ids=[
        "uuid", "labels", "bools", "names", "dates", "phrases", "none", "decimals", "few decimals",
        "objects", "durations", "chromosomes", "pairs", "rows", "halves", "few",
    ],
)  # fmt: skip
def test_what_a_column_is_taken_for(values, kind: str) -> None:
    column = values if isinstance(values, pd.Series) else pd.Series(list(values), dtype=None)
    assert recognised(as_pandas(pd.DataFrame({"it": column})))[0].kind == kind


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ({7: "?"}, "holds numbers, but '[?]' in row 7; leave such cells empty"),
        (dict.fromkeys(range(3, 30), "unknown"), "holds numbers, but 'unknown' in row 3; leave such"),
        ({k: f"{k},5" for k in range(60)}, "but '0,5' in row 0; write decimal points"),
        ({5: "1,024.5"}, "but '1,024.5' in row 5; .*, or give the kind of the column"),
    ],
)
def test_numbers_that_were_read_as_text(odd, message: str) -> None:
    table = pd.DataFrame({"size": [str(odd.get(k, k / 4)) for k in range(60)]})
    with pytest.raises(ValueError, match=message):
        recognised(table)
    assert recognised(table, {"size": "identifier"})[0].why == "given"


def test_kinds_of_columns_with_numbers_as_names() -> None:
    found = candidates(pd.DataFrame({0: [1.5, 2.5] * 9, 7: [1, 2] * 9}), columns={7: "category"})
    assert [(c.name, c.kind) for c in found.used] == [("0", "number"), ("7", "category")]


def test_kinds_are_overruled(wines) -> None:
    found = recognised(wines, {"code": "category", "notes": CountVectorizer(min_df=2)})
    assert {c.name: c.kind for c in found}["code"] == "category"
    assert next(c for c in found if c.name == "notes").words.min_df == 2
    for given, message in (
        ({"hue": "colour"}, "column 'hue' cannot be a 'colour'; kinds are number"),
        ({"hues": "number"}, "no column 'hues'"),
        ({"gene": "number"}, "column 'gene' holds no numbers"),
        ({"bottled": "category"}, "'bottled' cannot be taken as category: nearly every row has a value"),
    ):
        with pytest.raises(ValueError, match=message):
            recognised(wines, given)


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_numbers_beside_an_identifier_may_be_a_table_of_numbers() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(40, 3))).add_prefix("x")
    named = table.assign(sample=[f"s{i}" for i in range(40)])
    note = "a table of numbers has more kernels to compare: for one, drop 'sample' (--drop)"
    assert note in candidates(named).notes
    assert candidates(table).notes == ()
    assert note not in candidates(named.assign(colour=rng.choice(["red", "blue"], size=40))).notes


def test_a_mixed_table_from_file_to_prediction(wines, tmp_path) -> None:
    table = wines.drop(columns=["lat", "lon", "code"])
    table.loc[3, "hue"], table.loc[4, "soil"], table.loc[5, "notes"] = np.nan, None, None
    path, model = tmp_path / "wines.csv", tmp_path / "model.skops"
    table.to_csv(path, index=False)
    options = ("--target", "kind", "--folds", 2, "--as", "bottled=identifier", "--cache", tmp_path / "c")
    found = run("compare", path, *options, "--json", "--save-model", model)
    assert found.exit_code == 0, found.output
    result = json.loads(found.stdout)
    names = {row["name"] for row in result["kernels"]}
    alone = {f"{kind} alone" for kind in ("numbers", "labels", "text", "strings")}
    assert names == {*alone, "sum of all", "weighted sum of all", "sums and products"}
    assert result["kind"] == "2 numbers, 1 label, 1 text, 1 string"
    notes = " ".join(result["notes"])
    for part in (
        "left out as identifier: 'bottled', 'bottle_id'",
        "constant: 'cellar'",
        "1 in 'hue') are",
    ):
        assert part in notes
    best = result["kernels"][0]["score"]
    assert best > 0.85 > next(row["score"] for row in result["kernels"] if row["name"] == "labels alone")

    saved = load_model(model)
    new = table.drop(columns=["kind", "cellar", "bottle_id", "bottled"])[:4].copy()
    expected = saved.predict(new)
    new.loc[0, "soil"], new.loc[1, "notes"], new.loc[2, "hue"] = "peat", "zzz", np.nan
    new.to_csv(tmp_path / "new.csv", index=False)
    printed = run("predict", model, tmp_path / "new.csv")
    assert printed.exit_code == 0, printed.output
    assert printed.stdout.splitlines()[4].split(",")[1] == expected[3]
    new.loc[2, "gene"] = None
    new.to_csv(tmp_path / "new.csv", index=False)
    refused = run("predict", model, tmp_path / "new.csv")
    assert refused.exit_code == 2
    assert "column 'gene' has no string in row 2" in refused.output
    new["gene"], new["hue"] = table.gene[:4], ["1", "2.5", "abc", "4"]
    new.to_csv(tmp_path / "new.csv", index=False)
    refused = run("predict", model, tmp_path / "new.csv")
    assert refused.exit_code == 2
    assert "column 'hue' has 'abc' in row 2, which is not a number" in " ".join(refused.output.split())


def test_what_is_not_a_date_is_named() -> None:
    frame = pd.DataFrame({"when": ["2024-03-01", None, "soon"]})
    with pytest.raises(ValueError, match="'when' has 'soon' in row 2, which is not a date such as"):
        typed(frame, {"when": "date"})
    days = pd.DataFrame({"when": pd.to_datetime(["2024-03-01", None, "2024-03-01"])})
    labels = typed(days, {"when": "category"}).when.tolist()
    assert labels == ["2024-03-01", "(missing)", "2024-03-01"]


def test_words(wines, tmp_path) -> None:
    path, model = tmp_path / "reviews.csv", tmp_path / "words.skops"
    table = wines[["notes", "kind"]].assign(stars=range(len(wines)))
    table.loc[7, "notes"] = None
    table.to_csv(path, index=False)
    options = ("--target", "kind", "--words", "notes", "--ngrams", 2, "--min-documents", 2, "--folds", 2)
    page = tmp_path / "page.html"
    found = run("compare", path, *options, "--json", "--save-model", model, "--report", page)
    assert found.exit_code == 0, found.output
    result = json.loads(found.stdout)
    scores = {row["name"]: row["score"] for row in result["kernels"]}
    assert set(scores) == {
        "linear of tf-idf",
        "Gaussian of tf-idf",
        "linear of counts",
        "heat of counts",
    }
    assert min(scores.values()) > result["chance"] + 0.2
    assert result["taken"] == {"notes": "text"}
    assert result["yardstick"] is None
    assert "Combining" not in result["verdict"]
    assert "1 in 'notes') are taken as documents without words" in " ".join(result["notes"])
    # Pairs of words, each in two documents or more.
    saved = load_model(model)
    learnt = saved.model[0].kernel_
    vocabulary = learnt.prepare.estimator.vocabulary_
    assert any(" " in word for word in vocabulary)
    text = unescape(page.read_text())
    assert f"mercer compare {path} --target kind --words notes --ngrams 2 --min-documents 2" in text
    assert "'notes': CountVectorizer(min_df=2, ngram_range=(1, 2))" in text
    assert "compare(data.X[['notes']], data.y, " in text
    new = pd.DataFrame({"notes": ["zzz qqq", None, wines.notes[0]], "other": 1})
    new.to_csv(tmp_path / "new.csv", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that documents have no known words
        printed = run("predict", model, tmp_path / "new.csv")
        expected = saved.predict(wines[["notes"]][:1])
    assert printed.exit_code == 0, printed.output
    assert printed.stdout.splitlines()[3].endswith(expected[0])
    refused = run("compare", path, "--target", "kind", "--words", "note")
    assert refused.exit_code == 2
    assert "no column 'note'" in refused.output


def test_what_is_refused() -> None:
    rows = 30
    labels = ["a", "b", "c"] * 10
    table = pd.DataFrame({"id": range(rows), "code": [f"k{k}x" for k in range(rows)]})
    with pytest.raises(ValueError, match="no column is left to compare"):
        compare(table, labels)
    table = table.assign(x=np.where(np.arange(rows) == 3, np.inf, 1.0), code=labels)
    with pytest.raises(ValueError, match="column 'x' has an infinite value in row 3"):
        compare(table, labels)
    with pytest.raises(ValueError, match=r"column 'x' has the value -1e\+200 in row 4; rescale"):
        compare(table.assign(x=np.where(np.arange(rows) == 4, -1e200, 1.0)), labels)
    with pytest.raises(ValueError, match="columns have kinds only in a data frame"):
        compare(np.ones((rows, 2)), labels, columns={"x": "number"})


def test_groups_are_kept_apart_in_mixed_tables() -> None:
    # Each patient has a label of its own, which tells the class of rows that were seen.
    rng = np.random.default_rng(0)
    patients = np.repeat(np.arange(40), 4)
    table = pd.DataFrame({"ward": [f"ward {p}" for p in patients], "x": rng.normal(size=160)})
    y = patients % 2
    kernels = {"labels": On(["ward"], Heat(Categories(), t=0.5))}
    leaking = compare(table, y, kernels=kernels, folds=3)
    honest = compare(table, y, kernels=kernels, folds=3, groups=patients)
    assert leaking.scores[0].mean > 0.9 > 0.7 > honest.scores[0].mean
    for test in honest.scores[0].nested.tests:
        assert not set(patients[test]) & set(np.delete(patients, test))


def test_numbers_with_an_identifier_and_groups_in_80_columns(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(scale=50, size=(40, 2)), columns=["length", "width"])
    table = table.assign(sample_id=range(1, 41), farm=np.arange(40) % 8, y=table.length > 0)
    table.to_csv(tmp_path / "t.csv", index=False)
    options = ("--target", "y", "--groups", "farm", "--metric", "balanced_accuracy", "--folds", 2)
    printed = run("compare", tmp_path / "t.csv", *options)
    assert printed.exit_code == 0, printed.output
    text = " ".join(printed.stdout.split())
    assert "leave it out (--drop sample_id)" in text
    assert "'length' has a whole" not in text
    assert "folds keep each of 8 groups together" in text
    rows = [line for line in printed.stdout.splitlines() if line.startswith("│")]
    assert rows
    assert all(line.endswith("│") and len(line) <= 80 for line in rows)


def test_candidates_are_tried_on_some_rows() -> None:
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    kernels = [Gaussian(s) for s in (0.01, 5.0)]
    few = KernelSearchCV(kernels, max_rows=60, cv=3).fit(X, y)
    assert few.best_kernel_.length_scale == 5.0
    assert few.best_estimator_[0].X_fit_.shape[0] == len(y)  # the choice is fitted to all
    nested = few.nested_scores(X, y, outer_cv=3)
    assert nested.mean > 0.9
    assert sorted(np.concatenate(nested.tests)) == list(range(len(y)))
    everything = KernelSearchCV(kernels, max_rows=len(y), cv=3).fit(X, y)
    assert everything.best_score_ == KernelSearchCV(kernels, cv=3).fit(X, y).best_score_
    some = sample_rows(np.repeat([0, 1], [990, 10]), 100, True, 0)
    assert (some >= 990).sum() == 10  # a rare class is not lost
    assert 100 <= len(some) <= 110
    with pytest.raises(ValueError, match="max_rows must be a whole number of at least 2"):
        KernelSearchCV(kernels, max_rows=1).fit(X, y)


@pytest.mark.parametrize("sizes", [[5] * 200, [900, *[2] * 50], [400, 300, 300]], ids=str)
def test_samples_hold_whole_groups(sizes) -> None:
    groups = np.repeat([f"g{k}" for k in range(len(sizes))], sizes)
    y = np.where(groups == "g7", "rare", "usual") if len(sizes) > 7 else np.arange(len(groups)) % 2
    some = sample_rows(y, 100, True, 0, groups)
    drawn = set(groups[some])
    assert sorted(some) == np.flatnonzero(np.isin(groups, list(drawn))).tolist()
    assert len(drawn) >= min(10, len(sizes))
    assert set(y[some]) == set(y)
    if len(sizes) == 200:
        assert 100 <= len(some) <= 105
        assert drawn != set(groups[sample_rows(y, 100, True, 1, groups)])
    if sizes[0] == 900:
        assert "g0" not in drawn


def test_a_search_on_some_rows_keeps_groups_together() -> None:
    rng = np.random.default_rng(0)
    patients = rng.permutation(np.repeat(np.arange(60), 4))
    X, y = rng.normal(size=(240, 3)), rng.integers(0, 2, 240)
    seen: list[np.ndarray] = []

    class Watched(GroupKFold):
        def split(self, X, y=None, groups=None):
            seen.append(np.asarray(groups))
            return super().split(X, y, groups)

    search = KernelSearchCV([Gaussian()], max_rows=100, cv=Watched(3)).fit(X, y, patients)
    search.nested_scores(X, y, outer_cv=GroupKFold(2), groups=patients)
    assert len(seen[0]) == 100
    assert len(seen) == 3
    for groups in seen:
        assert set(np.unique(groups, return_counts=True)[1]) == {4}


@pytest.mark.parametrize(
    "chosen",
    [cs.numeric(), make_column_selector(dtype_include="number"), lambda X: ["a", "b"]],
    ids=["polars", "scikit-learn", "function"],
)
def test_models_with_selectors_are_saved_by_names(chosen, tmp_path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=30), "b": rng.normal(size=30), "c": ["x", "y", "z"] * 10})
    y = np.where(table.a > 0, "high", "low")
    frames = {"pandas": table, "polars": pl.from_pandas(table)}
    fitted_to = frames["polars" if hasattr(chosen, "meta") else "pandas"]
    numbers = On(chosen, Gaussian())
    for kernel in (numbers + On("c", Heat(Categories())), MultipleKernel([numbers])):
        model = SVC(kernel).fit(fitted_to, y)
        SavedModel(model, kind="mixed").save(tmp_path / "model.skops")
        loaded = load_model(tmp_path / "model.skops")
        for frame in frames.values():
            np.testing.assert_array_equal(loaded.predict(frame), model.predict(fitted_to))
        assert "['a', 'b']" in repr(loaded.model.kernel)
    if hasattr(chosen, "meta"):
        with pytest.raises(ValueError, match="selects columns of polars, but X is not"):
            SVC(kernel).fit(table, y)
