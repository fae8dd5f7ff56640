"""Models of tables whose columns are of several kinds, on disk and on the command line."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from typer.testing import CliRunner

from mercer.cli import app
from mercer.features import GramTransformer
from mercer.kernels import Gaussian, Heat, On
from mercer.machines import SVC, KernelRidge
from mercer.selection import KernelSearchCV, SavedModel, compare, load_model, save_model
from mercer.selection.kinds import candidates, kind_by_options
from mercer.selection.kinds.blocks import blocks, total
from mercer.selection.kinds.columns import recognised
from mercer.spaces import Categories, Simplex
from tests.kernels.test_on import FRAMES, MIXED, TABLE, TARGET


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_saved_and_loaded(frame, tmp_path) -> None:
    search = KernelSearchCV(MIXED, similarities=[0.3], cv=3).fit(frame, TARGET)
    model = SavedModel(search.best_estimator_, kind="mixed", roles={"target": "label"})
    model.save(tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    expected = search.decision_function(TABLE)
    np.testing.assert_allclose(loaded.decision_function(TABLE), expected, atol=1e-12)
    assert isinstance(search.best_estimator_[0], GramTransformer)
    assert search.best_estimator_[0].X_fit_ is frame  # saving leaves the model as it was

    TABLE.assign(label=TARGET).iloc[:, ::-1].to_csv(tmp_path / "new.csv", index=False)
    command = ["predict", str(tmp_path / "model.skops"), str(tmp_path / "new.csv")]
    printed = CliRunner().invoke(app, command)
    assert printed.exit_code == 0, printed.output
    labels = [line.split(",")[1] for line in printed.stdout.splitlines()[1 : len(TABLE) + 1]]
    assert labels == search.predict(TABLE).tolist()


def test_a_missing_column_is_named(tmp_path) -> None:
    search = KernelSearchCV(MIXED, param_grid={"C": [1.0]}, cv=3).fit(TABLE, TARGET)
    SavedModel(search.best_estimator_, kind="mixed").save(tmp_path / "model.skops")
    TABLE.drop(columns="note").to_csv(tmp_path / "new.csv", index=False)
    printed = CliRunner().invoke(
        app, ["predict", str(tmp_path / "model.skops"), str(tmp_path / "new.csv")]
    )
    assert printed.exit_code != 0
    assert "no column 'note'" in " ".join(printed.output.split())


def test_missing_numbers_are_filled_in_where_some_were_missing(tmp_path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(30, 2)), columns=["whole", "partly"])
    y, table.loc[3, "partly"] = table["whole"] > 0, np.nan
    (variants,) = blocks(table, recognised(table)).values()
    model = SavedModel(SVC(total(variants[0].parts)).fit(table, y), kind="mixed")
    model.save(tmp_path / "model.skops")
    model = load_model(tmp_path / "model.skops")
    median = table["partly"].fillna(table["partly"].median())
    np.testing.assert_array_equal(
        model.decision_function(table), model.decision_function(table.assign(partly=median))
    )
    table.loc[[3, 5], "whole"] = np.nan
    with pytest.raises(ValueError, match=r"column 'whole' of X has a missing value in row 3 \(and 1 "):
        model.predict(table)


def test_labels_are_the_same_in_tables_where_all_are_numbers(tmp_path) -> None:
    table = pd.DataFrame({"code": ["1", "2", "X"] * 10, "size": np.arange(30) / 4})
    y = table["code"].isin(["1", "X"])
    result = compare(table, y, kernels=On("code", Heat(Categories()), None), folds=2)
    save_model(tmp_path / "model.skops", result)
    model = load_model(tmp_path / "model.skops")
    table[:2].to_csv(tmp_path / "new.csv", index=False)
    for labels in ([1, 2], [1.0, 2.0], ["1", "2"]):
        assert model.predict(table[:2].assign(code=labels)).tolist() == [True, False]
    assert model.predict(model.read(tmp_path / "new.csv").X).tolist() == [True, False]


def test_tables_of_numbers_with_gaps_are_compared_column_by_column(tmp_path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(40, 2)), columns=["whole", "partly"])
    y, table.loc[3, "partly"] = table["whole"] > 0, np.nan
    table.assign(sign=y).to_csv(tmp_path / "table.csv", index=False)
    read = kind_by_options({}).read(tmp_path / "table.csv", {"target": "sign"})
    for X in (table, pl.from_pandas(table), read.X):
        found = candidates(X)
        assert list(found.families) == ["Gaussian", "linear"]
        assert found.notes[0].startswith("missing values (1 in 'partly') are taken as the median")
    assert candidates(table.fillna(0.0)).taken_as == "directions"


@pytest.mark.parametrize(
    ("labels", "accuracy"),
    [
        ([0, 1, 1], "100.00%"),
        (["0", "1", "?"], "66.67%"),  # the label is none of the model's
        ([0.5, 1.0, 1.0], "66.67%"),
        ([None, 1.0, 0.0], "50.00%"),
    ],
)
def test_predictions_are_scored_by_labels(labels, accuracy: str, tmp_path) -> None:
    table = pd.DataFrame({"size": [1.0, 4.0, 5.0]})
    model = SVC(Gaussian()).fit(table, [0, 1, 1])
    SavedModel(model, roles={"target": "kind"}).save(tmp_path / "model.skops")
    table.assign(kind=labels).to_csv(tmp_path / "new.csv", index=False)
    printed = CliRunner().invoke(app, ["predict", f"{tmp_path}/model.skops", f"{tmp_path}/new.csv"])
    assert printed.exit_code == 0, printed.output
    assert f"accuracy {accuracy}" in printed.stderr
    assert printed.stdout.split() == ["row,prediction", "0,0", "1,1", "2,1"]


def test_words_do_not_score_predicted_numbers(tmp_path) -> None:
    table = pd.DataFrame({"size": [1.0, 4.0, 5.0]})
    model = KernelRidge(Gaussian()).fit(table, [0.5, 1.0, 1.5])
    SavedModel(model, roles={"target": "kind"}).save(tmp_path / "model.skops")
    table.assign(kind=[0.5, "?", 1.0]).to_csv(tmp_path / "new.csv", index=False)
    printed = CliRunner().invoke(app, ["predict", f"{tmp_path}/model.skops", f"{tmp_path}/new.csv"])
    assert printed.exit_code == 2
    assert "the target in new.csv must hold numbers or nothing: could not convert" in printed.stderr


def test_an_empty_document_is_told_once(tmp_path) -> None:
    table = pd.DataFrame({"text": ["a lake", "a river", "the lake", "the river"] * 3})
    y = ["a", "b"] * 6
    kernel = On("text", Heat(Simplex(empty="uniform")), CountVectorizer())
    SavedModel(SVC(kernel).fit(table, y), kind="mixed").save(tmp_path / "model.skops")
    pd.DataFrame({"text": ["no such words", "lake"]}).to_csv(tmp_path / "new.csv", index=False)
    files = [str(tmp_path / name) for name in ("model.skops", "new.csv", "reasons.csv")]
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        printed = CliRunner().invoke(app, ["predict", *files[:2], "--explain", files[2]])
    assert printed.exit_code == 0, printed.output
    assert " ".join(printed.output.split()).count("taken as uniform") == 1


def test_a_single_column_of_numbers() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=60).round(3)})
    result = compare(table, np.where(table.x.abs() > 0.7, "far", "near"), folds=2)
    assert {score.name for score in result.scores} == {"Gaussian", "linear"}
    assert "Gaussian kernel is the best" in result.verdict
    assert result.scores[0].name == "Gaussian"
    assert result.scores[0].mean > 0.8
