"""Searches and comparisons on odd settings, folds and targets, and on bad input."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, LeaveOneOut, ShuffleSplit
from sklearn.preprocessing import StandardScaler

from mercer.kernels import Heat, Linear, Matern, Spectrum
from mercer.machines import SVC
from mercer.selection import KernelSearchCV, compare
from mercer.selection.kinds import kind_of
from mercer.spaces import Euclidean, Simplex
from tests.helpers import words

RNG = np.random.default_rng(0)
LABELS = np.repeat(["ham", "spam"], 15)
COUNTS = np.vstack([RNG.multinomial(20, p, size=15) for p in ([0.5, 0.3, 0.2], [0.2, 0.3, 0.5])])
HALVES = np.arange(30) % 2 == 0


def search(**options) -> KernelSearchCV:
    settings = {"param_grid": {"C": [1.0, 10.0]}, "cv": 3, "n_jobs": 1}
    return KernelSearchCV(Heat(Simplex()), **(settings | options))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_keep_their_names(frame) -> None:
    table = frame(dict(zip("abc", COUNTS.T, strict=True)))
    machine = search().fit(table, LABELS)
    assert machine.feature_names_in_.tolist() == ["a", "b", "c"]
    assert machine.best_score_ == search().fit(COUNTS, LABELS).best_score_
    assert set(machine.predict(table)) == {"ham", "spam"}
    assert compare(table, LABELS, kernels=[Heat(Simplex())], folds=3).rows == 30


MISSING = [*(["ham", "spam"] * 5), None]


@pytest.mark.parametrize(
    "y",
    [
        pd.Series(MISSING, dtype="string"),
        pd.array(MISSING, dtype="string"),
        pd.Series(MISSING, dtype="category"),
        pd.Series([*([0, 1] * 5), None], dtype="Int64"),
        pd.array([*([True, False] * 5), None], dtype="boolean"),
        pd.DataFrame({"y": [*([0, 1] * 5), None]}),
        pl.Series(MISSING),
        np.array([*([0, 1] * 5), np.nan]),
        [*MISSING[:-1], np.nan],
    ],
    ids=["text", "text array", "category", "Int64", "boolean", "frame", "polars", "NaN", "list"],
)
def test_points_without_a_label_are_named(y) -> None:
    with pytest.raises(ValueError, match="row 10 of y has no value; drop such rows"):
        search().fit(COUNTS[:11], y)


@pytest.mark.parametrize(
    "options", [{}, {"similarities": [0.5]}, {"max_rows": 25}, {"estimator": "regressor"}], ids=str
)
def test_points_that_are_wrong_are_named_as_they_were_given(options) -> None:
    """Although machines see them sorted by class, and scales are learnt in parts of them."""
    labels, wrong = np.arange(30) % 2, COUNTS.astype(float)
    wrong[17, 1] = -1.0
    grid = {"alpha": [1.0]} if "estimator" in options else {"C": [1.0]}
    machine = search(param_grid=grid, **options)
    for work in (machine.fit, machine.nested_scores):
        with pytest.raises(ValueError, match="row 17 of X has negative entries"):
            work(wrong, labels)
    with pytest.raises(ValueError, match="row 17 of X has negative entries"):
        compare(wrong, labels, kernels=[Heat(Simplex())], folds=3)


def test_folds_may_be_masks() -> None:
    masks = search(cv=[(HALVES, ~HALVES)]).fit(COUNTS, LABELS)
    numbers = search(cv=[(np.flatnonzero(HALVES), np.flatnonzero(~HALVES))]).fit(COUNTS, LABELS)
    assert masks.best_score_ == numbers.best_score_


def test_folds_beyond_the_points() -> None:
    with pytest.raises(ValueError, match="fold 0 of cv must hold numbers from 0 to 29"):
        search(cv=[(np.arange(29), [30])]).fit(COUNTS, LABELS)


def test_one_shot_folds() -> None:
    assert search(cv=KFold(3, shuffle=True).split(COUNTS)).fit(COUNTS, LABELS).n_splits_ == 3


class Never:
    """A splitter that must not be reached."""

    def split(self, X, y=None, groups=None):
        raise AssertionError

    def get_n_splits(self, X=None, y=None, groups=None):
        return 3


@pytest.mark.parametrize("refit", [True, "recall"])
def test_what_decides_is_checked_before_the_work(refit) -> None:
    machine = search(scoring=["accuracy", "f1_macro"], refit=refit, cv=Never())
    with pytest.raises(ValueError, match="refit must name one of 'accuracy', 'f1_macro'"):
        machine.fit(COUNTS, LABELS)
    with pytest.raises(ValueError, match="refit must name one of"):
        machine.nested_scores(COUNTS, LABELS)


def test_refit_names_a_single_metric_too() -> None:
    named = search(scoring="accuracy", refit="accuracy").fit(COUNTS, LABELS)
    assert named.best_score_ == search().fit(COUNTS, LABELS).best_score_
    assert named.score(COUNTS, LABELS) > 0.5
    assert named.nested_scores(COUNTS, LABELS, outer_cv=3).mean > 0.5


@pytest.mark.parametrize(
    ("options", "y", "message"),
    [
        ({"refit": len}, LABELS, "refit must be True, False or the name of a metric"),
        ({"max_memory": "4 GB"}, LABELS, "max_memory must be a positive number"),
        ({"param_grid": []}, LABELS, "param_grid is empty"),
        ({"scoring": "neg_log_loss"}, LABELS, r"does not work .*SVC\(probability=True\)"),
        ({}, ["ham"] * 30, "only one class: 'ham'"),
        ({}, [None, *LABELS[1:].tolist()], "row 0 of y has no value; drop"),
        ({}, np.array(["ham", 1] * 15, dtype=object), "of one type, but y holds int and str"),
    ],
)
def test_bad_settings(options, y, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        search(**options).fit(COUNTS, np.asarray(y, dtype=object) if None in y else y)


def test_the_machine_that_the_hint_names_has_probabilities() -> None:
    machine = search(estimator=SVC(probability=True), scoring="neg_log_loss").fit(COUNTS, LABELS)
    assert -log_loss(LABELS, machine.predict_proba(COUNTS)) > machine.best_score_ > -np.log(2)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (pa.table({"a": [1.0, 2.0] * 15}), "X is a Table; give a data frame, such as X.to_pandas()"),
        (pl.LazyFrame({"a": [1.0, 2.0] * 15}), "X is a LazyFrame; give .* X.collect()"),
        ("table.csv", "X is a str; give a data frame"),
        (pd.DataFrame([[1.0, "u"]] * 30, columns=["a", "a"]), "X has several columns 'a'"),
    ],
)
@pytest.mark.filterwarnings("ignore::polars.exceptions.PerformanceWarning")
def test_tables_of_other_kinds_are_named(X, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compare(X, LABELS)


def test_objects_that_are_signed_numbers_are_directions() -> None:
    rows = COUNTS - COUNTS.mean(axis=0)
    found, known = (kind_of(X).candidates(X) for X in (rows.astype(object), rows))
    assert found.taken_as == known.taken_as == "directions"
    np.testing.assert_array_equal(found.X, known.X)


def test_dates_are_no_target() -> None:
    dates = pd.date_range("2020-01-01", periods=30)
    with pytest.raises(ValueError, match="the target holds dates or durations"):
        compare(COUNTS, dates)


def test_a_rare_class_is_counted_in_words() -> None:
    with pytest.raises(ValueError, match=r"class 'odd' has 1 row; 5 folds .* another number of folds"):
        compare(COUNTS, ["odd", *LABELS[1:]])


BAD = [
    ({}, words.COUNTS, np.zeros(90), "only one class"),
    ({}, words.COUNTS, words.LABELS[:80], "X has 90 points, y has 80"),
    ({"kernels": Spectrum(2)}, ["ab"] * 5, [0, 1], "X has 5 points, y has 2"),
    ({"kernels": Spectrum(2)}, ["ab"] * 5, None, "y"),
    ({"cv": 100}, words.COUNTS, words.LABELS, "n_splits=100"),
    ({"cv": 100, "estimator": KernelRidge()}, words.COUNTS, words.TARGET, "n_splits=100"),
    (
        {"cv": [(np.arange(5), np.array([], int))]},
        words.COUNTS,
        words.LABELS,
        "fold 0 has no test points",
    ),
    (
        {"cv": ShuffleSplit(2, train_size=1)},
        words.COUNTS,
        words.LABELS,
        "training part of fold 0 has only one class",
    ),
    ({}, np.where(np.eye(90, 12) > 0, np.nan, words.COUNTS), words.LABELS, "row 0 of X .*NaN"),
    ({"kernels": Heat(Simplex())}, -words.COUNTS - 1, words.LABELS, "row 0 of X .* negative"),
    ({"kernels": []}, words.COUNTS, words.LABELS, "kernels is empty"),
    ({"param_grid": {"kernel": [Linear()]}}, words.COUNTS, words.LABELS, "kernels=\\["),
    ({"param_grid": {"kernel__t_star": [1]}, "kernels": Linear()}, words.COUNTS, words.LABELS, "t_star"),
    ({"param_grid": {"gamme": [1]}}, words.COUNTS, words.LABELS, "gamme"),
    (
        {"max_memory": 1e-6, "param_grid": {"C": [1.0]}},
        words.COUNTS,
        words.LABELS,
        "max_memory allows 1 kB",
    ),
]


@pytest.mark.parametrize(("options", "X", "y", "message"), BAD, ids=[case[3] for case in BAD])
def test_bad_input(options, X, y, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        KernelSearchCV(**options).fit(X, y)
    assert "\n" not in str(caught.value) or "sklearn" in str(caught.traceback[-1].path)


def test_bad_types() -> None:
    with pytest.raises(TypeError, match="not a kernel of mercer"):
        KernelSearchCV(["rbf"]).fit(words.COUNTS, words.LABELS)
    with pytest.raises(TypeError, match="must be a kernel, a list or a dict"):
        KernelSearchCV("rbf").fit(words.COUNTS, words.LABELS)
    with pytest.raises(TypeError, match='must take kernel="precomputed"'):
        KernelSearchCV(words.HEATS, GaussianProcessClassifier()).fit(words.COUNTS, words.LABELS)
    with pytest.raises(TypeError, match='must take kernel="precomputed"'):
        KernelSearchCV(words.HEATS, StandardScaler()).fit(words.COUNTS, words.LABELS)


def test_errors_of_fits_say_where() -> None:
    with pytest.raises(ValueError, match="C") as caught:
        KernelSearchCV(words.HEATS, param_grid={"C": [1.0, -1.0]}).fit(words.COUNTS, words.LABELS)
    # Folds run side by side: the first to fail is named.
    assert re.match(r"in fold \d with Heat\(Simplex\(\), t_star=\S+\), ", caught.value.__notes__[0])
    assert "{'C': -1.0}" in caught.value.__notes__[0]


def test_leave_one_out() -> None:
    search = KernelSearchCV(words.HEATS[:1], param_grid={"C": [1.0]}, cv=LeaveOneOut())
    assert search.fit(words.COUNTS[:20], words.LABELS[:20]).n_splits_ == 20


def test_kernels_without_a_scale_say_so() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="Matern has no default length scale"):
        KernelSearchCV([Matern(Euclidean(), nu=1.5)]).fit(rng.normal(size=(20, 3)), np.arange(20) % 2)
