"""Comparing kernels: targets of every kind, tests, interruption, and models on disk."""

import json
import threading
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from sklearn.metrics import balanced_accuracy_score
from typer.testing import CliRunner

from mercer.cli import app
from mercer.kernels import Gaussian, Heat, Linear, Parametrix
from mercer.selection import KernelSearchCV, compare, load_model
from mercer.selection.significance import corrected_interval, corrected_test, holm
from mercer.selection.target import read_target
from mercer.spaces import Simplex

RNG = np.random.default_rng(0)
MODELS = RNG.dirichlet(np.ones(12), size=3)
CLASSES = np.repeat([0, 1, 2], 20)
COUNTS = np.array([RNG.multinomial(25, MODELS[c]) for c in CLASSES])
NAMES = np.array(["red", "green", "blue"])[CLASSES]
FEW = {"linear": [Linear()], "exact heat": [Heat(Simplex(), t_star=t) for t in (0.5, 1.0)]}


def run(*arguments: object):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_scores_are_those_of_the_nested_search() -> None:
    result = compare(COUNTS, NAMES, kernels=FEW, folds=3)
    score = next(s for s in result.scores if s.name == "exact heat")
    search = KernelSearchCV(FEW["exact heat"], cv=result.target.splitter(3, 0))
    nested = search.nested_scores(COUNTS, NAMES, outer_cv=result.target.splitter(3, 0))
    np.testing.assert_array_equal(score.scores, nested.scores)
    assert score.search.best_estimator_.predict(COUNTS[:2]).tolist() == ["red", "red"]
    assert score.params.keys() == {"t_star", "C"}
    assert 0 <= score.stability <= 1
    assert result.metric == "accuracy"


def test_metrics_by_hand() -> None:
    result = compare(COUNTS, NAMES, kernels=FEW, folds=3)
    for score in result.scores:
        pairs = list(zip(score.nested.tests, score.nested.predictions, strict=True))
        expected = [balanced_accuracy_score(NAMES[test], guess) for test, guess in pairs]
        np.testing.assert_allclose(score.metrics["balanced_accuracy"], expected)
        assert (score.metrics["roc_auc"] > 0.8).all()
        assert (score.metrics["log_loss"] < np.log(3)).all()


def test_points_without_a_target_are_left_out_and_told() -> None:
    labels = NAMES.astype(object)
    labels[[3, 30]] = None
    labels[40] = np.nan
    result = compare(COUNTS, labels, kernels=FEW, folds=3)
    assert result.rows == 57
    assert "3 rows without a target left out" in result.notes[0]
    kept = np.delete(np.arange(60), [3, 30, 40])
    again = compare(COUNTS[kept], NAMES[kept], kernels=FEW, folds=3)
    assert [s.mean for s in again.scores] == [s.mean for s in result.scores]
    sparse_result = compare(sparse.csr_matrix(COUNTS), labels, kernels=FEW, folds=3)
    assert [s.mean for s in sparse_result.scores] == pytest.approx([s.mean for s in result.scores])


def test_regression() -> None:
    y = 100 + 10 * np.log((COUNTS[:, 0] + 1) / (COUNTS[:, 1] + 1)) + RNG.normal(size=60)
    result = compare(COUNTS, y, folds=2)
    assert result.target.task == "regression"
    assert (result.metric, result.chance, result.classes) == ("r2", 0.0, {})
    assert result.baseline == "R² of the mean"
    assert result.scores[0].mean > 0.3
    assert set(result.scores[0].metrics) == {"r2", "rmse", "mae"}
    model = result.scores[0].search.best_estimator_
    assert np.corrcoef(model.predict(COUNTS), y)[0, 1] > 0.8
    json.dumps(result.to_dict())
    assert compare(COUNTS, CLASSES, task="regression", kernels=FEW, folds=3).metric == "r2"


def test_regression_needs_a_positive_semidefinite_kernel() -> None:
    with pytest.raises(ValueError, match="none of Parametrix is"):
        compare(COUNTS, COUNTS[:, 0] + 0.5, kernels=[Parametrix(Simplex())], folds=3)


def test_unbalanced_classes_are_scored_by_balanced_accuracy() -> None:
    y = np.where(np.arange(60) < 8, "rare", "common")
    result = compare(COUNTS, y, kernels=FEW, folds=2)
    assert (result.metric, result.chance) == ("balanced_accuracy", 0.5)
    forced = compare(COUNTS, y, kernels=FEW, folds=2, scoring="accuracy")
    assert forced.metric == "accuracy"
    assert "scoring='accuracy'" in forced.call


@pytest.mark.parametrize(
    ("values", "task"),
    [
        ([0, 1] * 30, "classification"),
        ([0.0, 1.0] * 30, "classification"),
        ([True, False] * 30, "classification"),
        (["1.5", "2.5"] * 30, "classification"),
        ([0.5, 1.5] * 30, "regression"),
        (list(range(60)), "regression"),
        ([Decimal(k) / 4 for k in range(60)], "regression"),
    ],
)
def test_classes_are_told_from_numbers(values, task: str) -> None:
    assert read_target(values, 60, "rows", "auto", 5, 3).task == task


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        (["a", 1] * 30, {}, "the target mixes types: 'a' and 1"),
        ([None] * 60, {}, "no point has a target"),
        (["a"] * 60, {}, "only one class: 'a'"),
        ([[0, 1]] * 60, {}, r"one value per point, got an array of shape \(60, 2\)"),
        ([0.5] * 60, {}, "the target is constant"),
        ([np.inf, *range(59)], {"task": "regression"}, "row 0 of y is infinite"),
        (["a", "b"] * 30, {"task": "regression"}, "must hold numbers for a regression, got 'a'"),
        ([0, 1] * 30, {"task": "clustering"}, "task must be one of"),
        ([0, 1] * 30, {"scoring": "niceness"}, "niceness"),
        ([0, 1] * 29, {}, "X has 60 rows, y has 58"),
        ("label", {}, r"got an array of shape \(\); give the column itself, such as table\['label'\]"),
        ([0, 1] * 30, {"folds": 1}, "folds must be a whole number of at least 2, got 1"),
        ([0, 1] * 30, {"repeats": 0}, "repeats must be a whole number of at least 1, got 0"),
        ([0, 1] * 30, {"random_state": None}, "random_state must be a whole number .*, got None"),
        (["a", "b"] * 30, {"scoring": "r2"}, "the metric does not go with the target: could not"),
        (np.arange(60) + 0.5, {"scoring": "accuracy"}, "the metric does not go with the target"),
        (["a", "b"] * 30, {"scoring": "f1"}, "does not go with .*; choose another, such as f1_macro"),
    ],
)
def test_bad_targets(y, options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compare(COUNTS, y, kernels=FEW, **options)


def test_groups_are_not_split(tmp_path) -> None:
    # Each patient has rows of its own kind, and a class that has nothing to do with it.
    rng = np.random.default_rng(3)
    patients = np.repeat(np.arange(24), 4)
    X = np.array([rng.multinomial(40, p) for p in rng.dirichlet(np.ones(8), size=24)[patients]])
    y = np.arange(24)[patients] % 2
    kernels = {"exact heat": FEW["exact heat"]}
    leaking = compare(X, y, kernels=kernels, folds=3)
    honest = compare(X, y, kernels=kernels, folds=3, groups=patients)
    assert leaking.scores[0].mean > 0.75 > 0.65 > honest.scores[0].mean
    assert honest.groups == 24
    for test in honest.scores[0].nested.tests:
        assert not set(patients[test]) & set(np.delete(patients, test))
    path = tmp_path / "patients.csv"
    pd.DataFrame(X, columns=list("abcdefgh")).assign(y=y, who=patients).to_csv(path, index=False)
    result = run("compare", path, "--target", "y", "--groups", "who", "--folds", 2, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["groups"] == 24
    with pytest.raises(ValueError, match="3 groups are too few for 3 folds"):
        compare(X, y, groups=np.arange(96) % 3, folds=3)
    with pytest.raises(ValueError, match="at least 3 different values, got 2"):
        compare(X, y, groups=y, folds=3)
    with pytest.raises(ValueError, match="row 5 of groups is missing"):
        compare(X, y, groups=[None if i == 5 else i for i in range(96)], folds=3)


def test_two_folds_are_sure_of_nothing() -> None:
    result = compare(COUNTS, NAMES, kernels=FEW, folds=2)
    best, other = result.scores[:2]
    scores = [
        replace(score, nested=replace(score.nested, scores=np.full(2, value)))
        for score, value in ((best, 0.9), (other, 0.85))
    ]
    result = replace(result, scores=scores)
    assert f"{other.name}, is 5.0 points; 2 folds are too few to tell" in result.advice
    assert "(the same on every fold)" in result.advice
    assert "certain" not in result.advice
    assert "2 folds cannot tell" in result.verdict
    assert all(row["p_value"] is None for row in result.to_dict()["kernels"])


def test_a_kernel_that_is_surer_than_the_best_is_named() -> None:
    result = compare(COUNTS, NAMES, kernels=FEW, folds=3)
    chance, (best, other) = result.chance, result.scores[:2]

    def advice(spread: float) -> str:
        wide, narrow = np.array([-0.3, 0.1, 0.6]), np.array([-spread, 0.0, spread])
        scores = [
            replace(score, nested=replace(score.nested, scores=chance + 0.1 + values))
            for score, values in ((best, wide), (other, narrow))
        ]
        return replace(result, scores=scores).advice

    assert advice(0.3).startswith(f"Use none of these yet: the best, {best.name}, reaches")
    assert advice(0.01).startswith("Look again with more repeats")
    assert f"{other.name} is more certain" in advice(0.01)


def test_repeated_folds() -> None:
    result = compare(COUNTS, NAMES, kernels=FEW, folds=2, repeats=3)
    assert len(result.scores[0].scores) == 6
    assert "repeats=3" in result.call


def test_interval_and_test_against_definitions() -> None:
    scores = np.array([0.8, 0.85, 0.7, 0.9])
    error = np.sqrt((1 / 4 + 1 / 3) * scores.var(ddof=1))
    low, high = corrected_interval(scores, 1 / 3)
    assert (high - low) / 2 == pytest.approx(stats.t.ppf(0.975, 3) * error)
    p = corrected_test(scores - 0.7, 1 / 3)
    assert p == pytest.approx(2 * stats.t.sf((scores.mean() - 0.7) / error, 3))
    # Without overlap it is Student's test.
    assert corrected_test(scores - 0.7, 0.0) == pytest.approx(stats.ttest_1samp(scores, 0.7).pvalue)
    assert corrected_test(np.zeros(5), 0.25) == 1.0
    assert np.isnan(corrected_test(np.array([0.1, 0.2]), 1.0))
    assert np.isnan(corrected_test(np.array([0.3 - 0.2, 0.1, 0.4 - 0.3]), 0.5))  # equal but for rounding
    np.testing.assert_allclose(holm(np.array([0.01, 0.04, 0.03])), [0.03, 0.06, 0.06])


def test_scores_of_noise_are_unbiased() -> None:
    means, rejected = [], 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, y = rng.poisson(3, size=(60, 8)) + 1, rng.permutation([0, 1] * 30)
        kernels = {"Gaussian": [Gaussian(s) for s in (2.0, 8.0)], "heat": FEW["exact heat"]}
        result = compare(X, y, kernels=kernels, folds=3, random_state=seed)
        means.append(np.mean([s.mean for s in result.scores]))
        rejected += result.p_values["heat"] < 0.05
    error = np.std(means, ddof=1) / np.sqrt(20)
    assert abs(np.mean(means) - 0.5) < 2 * error
    assert rejected <= 2


class _Stop:
    """Presses Ctrl-C, so to speak, once a family is finished."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, done: int, total: int) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def test_interruption_leaves_what_is_finished(tmp_path) -> None:
    options = {"kernels": FEW, "folds": 3, "cache": tmp_path, "n_jobs": 1}
    whole = compare(COUNTS, NAMES, kernels=FEW, folds=3)
    with pytest.raises(KeyboardInterrupt):
        compare(COUNTS, NAMES, **options, progress=_Stop(3))
    fits = sum(len(path.read_text().splitlines()) for path in tmp_path.iterdir())
    assert fits > 0
    finished = []

    def stop_later(done: int, total: int) -> None:
        if finished and done > 0.6 * total:
            raise KeyboardInterrupt

    part = compare(COUNTS, NAMES, **options, progress=stop_later, finished=finished.append)
    assert [s.name for s in part.scores] == ["linear"]
    assert part.unfinished == ("exact heat",)
    assert "interrupted before exact heat" in part.notes[0]
    assert "kernel is the best of these" in part.verdict
    again = compare(COUNTS, NAMES, **options)
    assert [s.mean for s in again.scores] == [s.mean for s in whole.scores]
    assert threading.active_count() < 20


@pytest.fixture
def table(tmp_path):
    frame = pd.DataFrame(COUNTS, columns=[f"w{i}" for i in range(12)]).assign(colour=NAMES)
    frame.loc[5, "colour"] = None
    path = tmp_path / "words.csv"
    frame.to_csv(path, index=False)
    return path


def test_models_predict(table, tmp_path) -> None:
    model = tmp_path / "model.joblib"
    result = run("compare", table, "--target", "colour", "--folds", 2, "--save-model", model)
    assert result.exit_code == 0, result.stderr
    assert "1 row without a target" in " ".join(result.stdout.split())
    saved = load_model(model)
    assert saved.columns[:2] == ("w0", "w1")
    frame = pd.read_csv(table)
    frame[frame.columns[::-1]].drop(columns="colour").to_csv(tmp_path / "new.csv", index=False)
    output = run("predict", model, tmp_path / "new.csv")
    assert output.exit_code == 0, output.stderr
    lines = output.stdout.splitlines()
    assert lines[0] == "row,prediction"
    assert len(lines) == 61
    expected = saved.model.predict(COUNTS)
    assert [line.split(",")[1] for line in lines[1:]] == expected.tolist()
    known = run("predict", model, table, "--output", tmp_path / "out.csv")
    assert "on the 59 rows with a target" in known.stderr
    assert len(pd.read_csv(tmp_path / "out.csv")) == 60
    explained = run("predict", model, tmp_path / "new.csv", "--explain", tmp_path / "why.csv")
    assert explained.stdout == output.stdout
    why = pd.read_csv(tmp_path / "why.csv")
    numbers = ["contribution", "share", "exact"]
    assert why.columns.tolist() == ["row", "output", "kind", "name", *numbers]
    assert why[why["kind"].isin(["value", "intercept", "part", "training row"])]["exact"].all()
    assert set(why["row"]) == set(range(60))
    assert set(why[why["kind"] == "column"]["name"]) <= set(saved.columns)
    assert why.groupby("row")["output"].first().tolist() == expected.tolist()


def test_models_of_other_kinds_predict(tmp_path) -> None:
    model = tmp_path / "m.joblib"
    strings = tmp_path / "s.feather"
    words = ["ACGT"[:2] * (3 + i % 4) + "ACGT"[i % 2] * 4 for i in range(20)]
    pd.DataFrame({"s": words, "y": [0, 1] * 10}).to_feather(strings)
    done = run("compare", strings, "--target", "y", "--text", "s", "--folds", 2, "--save-model", model)
    assert done.exit_code == 0, done.stderr
    assert "accuracy 100.00%" in run("predict", model, strings).stderr
    clouds = tmp_path / "c.csv"
    rows = [(f"c{i}", i % 2, *RNG.normal(3 * (i % 2), 1, size=2)) for i in range(20) for _ in range(5)]
    pd.DataFrame(rows, columns=["c", "y", "a", "b"]).to_csv(clouds, index=False)
    done = run("compare", clouds, "--target", "y", "--cloud", "c", "--folds", 2, "--save-model", model)
    assert done.exit_code == 0, done.stderr
    output = run("predict", model, clouds)
    assert output.stdout.splitlines()[0] == "c,prediction"
    assert len(output.stdout.splitlines()) == 21
    edges, nodes = tmp_path / "e.csv", tmp_path / "n.csv"
    pairs = [(f"n{i}", f"n{j}") for i in range(20) for j in range(i) if (i - j) % 2 == 0]
    pd.DataFrame([*pairs, ("n0", "n1")], columns=["a", "b"]).to_csv(edges, index=False)
    frame = pd.DataFrame({"node": [f"n{i}" for i in range(20)], "y": [0, 1] * 10})
    frame[:16].to_csv(nodes, index=False)
    done = run("compare", nodes, "--target", "y", "--edges", edges, "--folds", 2, "--save-model", model)
    assert done.exit_code == 0, done.stderr
    frame[16:].to_csv(nodes, index=False)
    output = run("predict", model, nodes, "--explain", tmp_path / "why.csv")
    assert output.stdout.splitlines()[1] == "n16,0"
    why = pd.read_csv(tmp_path / "why.csv")
    assert why["node"].unique().tolist() == ["n16", "n17", "n18", "n19"]
    named = why[why["kind"].isin(["neighbour", "training row"])]["name"]
    assert set(named) <= set(frame["node"])
    assert "accuracy 100.00%" in output.stderr
    pd.DataFrame({"node": ["n99"]}).to_csv(nodes, index=False)
    assert "names 'n99', which is not in the graph" in run("predict", model, nodes).stderr


def test_bad_models_and_tables(table, tmp_path) -> None:
    model, other = tmp_path / "model.joblib", tmp_path / "other.csv"
    run("compare", table, "--target", "colour", "--folds", 2, "--save-model", model)
    frame = pd.read_csv(table)
    for bad, message in (
        (frame.drop(columns="w3"), "has no column 'w3', which the model needs"),
        (frame.assign(w99=1), "has a column 'w99' that the model does not know"),
    ):
        bad.to_csv(other, index=False)
        result = run("predict", model, other)
        assert result.exit_code == 2
        assert message in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1
    (tmp_path / "noise").write_text("noise")
    assert "cannot be read as a model" in run("predict", tmp_path / "noise", table).stderr
    assert "there is no file" in run("predict", tmp_path / "nothing", table).stderr
    taken = run("compare", table, "--target", "colour", "--save-model", tmp_path)
    assert taken.exit_code == 2
    assert "cannot be written" in taken.stderr


@pytest.mark.filterwarnings("ignore:the Gram matrix:mercer.exceptions.DegenerateKernelWarning")
def test_noise_is_called_noise() -> None:
    """A verdict on kernels of which none is better than no kernel would mislead."""
    labels = np.tile(["a", "b"], 15)
    kernels = {"linear": [Linear()], "exact heat": [Heat(Simplex())]}
    result = compare(np.tile([[1, 2, 3], [1, 2, 3]], (15, 1)), labels, kernels=kernels, folds=3)
    assert result.verdict.startswith(
        "No kernel does better than the majority class (50.00%): the best flat"
    )
