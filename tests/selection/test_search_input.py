"""Searches and comparisons on odd settings, folds, targets and caches; Ctrl-C."""

import signal
import threading

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.model_selection import KFold, ShuffleSplit

from mercer._progress import stoppable
from mercer.kernels import Heat, Linear
from mercer.selection import KernelSearchCV, compare
from mercer.selection.significance import corrected_interval
from mercer.spaces import Simplex

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


def test_folds_may_be_masks() -> None:
    masks = search(cv=[(HALVES, ~HALVES)]).fit(COUNTS, LABELS)
    numbers = search(cv=[(np.flatnonzero(HALVES), np.flatnonzero(~HALVES))]).fit(COUNTS, LABELS)
    assert masks.best_score_ == numbers.best_score_


def test_folds_beyond_the_points() -> None:
    with pytest.raises(ValueError, match="fold 0 of cv must hold numbers from 0 to 29"):
        search(cv=[(np.arange(29), [30])]).fit(COUNTS, LABELS)


def test_one_shot_folds() -> None:
    assert search(cv=KFold(3, shuffle=True).split(COUNTS)).fit(COUNTS, LABELS).n_splits_ == 3


@pytest.mark.parametrize("folds", [list, iter])
def test_fixed_folds_cannot_be_inner_folds(folds) -> None:
    """Their indices mean other points in each training part."""
    cv = folds(list(KFold(3).split(COUNTS)))
    with pytest.raises(ValueError, match="give a number or a splitter"):
        search(cv=cv).nested_scores(COUNTS, LABELS)


def test_one_outer_fold_has_no_interval() -> None:
    nested = search().nested_scores(COUNTS, LABELS, outer_cv=ShuffleSplit(1, random_state=0))
    with pytest.raises(ValueError, match="one fold tells nothing"):
        nested.interval()


def test_intervals_agree() -> None:
    nested = search().nested_scores(COUNTS, LABELS, outer_cv=3)
    assert nested.interval(0.9) == corrected_interval(nested.scores, nested.overlap, 0.9)


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
        ({"scoring": "neg_log_loss"}, LABELS, "does not go with the estimator.*Calibrated"),
        ({}, ["ham"] * 30, "one class only: 'ham'"),
        ({}, [None, *LABELS[1:].tolist()], "the target mixes types: None and 'spam'"),
        ({}, np.array(["ham", 1] * 15, dtype=object), "the target mixes types: 'ham' and 1"),
    ],
)
def test_bad_settings(options, y, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        search(**options).fit(COUNTS, np.asarray(y, dtype=object) if None in y else y)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2].encode(),
        lambda text: bytes(range(256)) * 9,
        lambda text: text.replace('"scores": {', '"scores": null, "was": {').encode(),
        lambda text: text.replace('"seconds": [', '"seconds": [1, ').encode(),
        lambda text: b'[1]\nnull\n3\n{"fit": 3}\n',
    ],
    ids=["cut", "noise", "scores", "seconds", "other"],
)
def test_damaged_caches_are_passed_over(damage, tmp_path) -> None:
    first = search(cache=tmp_path).fit(COUNTS, LABELS)
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage(file.read_text()))
    again = search(cache=tmp_path).fit(COUNTS, LABELS)
    assert again.best_score_ == first.best_score_
    assert search(cache=tmp_path).fit(COUNTS, LABELS).timings_["fits"] == 0


def test_a_cache_that_is_no_folder(tmp_path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match=r"the cache folder .*file cannot be written"):
        search(cache=tmp_path / "file").fit(COUNTS, LABELS)
    assert (tmp_path / "file").read_text() == "mine"


def test_dates_are_no_target() -> None:
    dates = pd.date_range("2020-01-01", periods=30)
    with pytest.raises(ValueError, match="the target holds dates or durations"):
        compare(COUNTS, dates)


def test_a_rare_class_is_counted_in_words() -> None:
    with pytest.raises(ValueError, match=r"class 'odd' has 1 row; 5 folds .* another number of folds"):
        compare(COUNTS, ["odd", *LABELS[1:]])


@pytest.mark.filterwarnings("ignore:the Gram matrix:mercer.exceptions.DegenerateKernelWarning")
def test_noise_is_called_noise() -> None:
    """A verdict on kernels of which none is better than no kernel would mislead."""
    labels = np.tile(["a", "b"], 15)
    kernels = {"linear": [Linear()], "exact heat": [Heat(Simplex())]}
    result = compare(np.tile([[1, 2, 3], [1, 2, 3]], (15, 1)), labels, kernels=kernels, folds=3)
    assert result.verdict.startswith(
        "No kernel does better than the majority class (50.00%): the best flat"
    )


def test_calibrations_are_kept_too(tmp_path) -> None:
    """A comparison that goes on repeats no calibrated fit."""
    options = {"kernels": {"linear": [Linear()]}, "folds": 3, "cache": tmp_path}
    first = compare(COUNTS, LABELS, **options)
    sizes = {path: path.stat().st_size for path in tmp_path.iterdir()}
    assert len(sizes) == 2
    again = compare(COUNTS, LABELS, **options)
    assert {path: path.stat().st_size for path in tmp_path.iterdir()} == sizes
    np.testing.assert_array_equal(
        first.scores[0].metrics["log_loss"], again.scores[0].metrics["log_loss"]
    )


def test_progress_tells_at_once_what_is_ahead() -> None:
    steps = []
    compare(
        COUNTS, LABELS, kernels={"linear": [Linear()]}, folds=3,
        progress=lambda done, total: steps.append((done, total)),
    )  # fmt: skip
    assert steps[0] == (0, steps[-1][1])
    assert steps[-1][0] == steps[-1][1]


def test_fits_leave_the_main_thread_to_hear_ctrl_c() -> None:
    threads = []
    machine = search(progress=lambda *_: threads.append(threading.current_thread()))
    machine.fit(COUNTS, LABELS)
    assert len(threads) == 6
    assert threading.main_thread() not in threads


def test_ctrl_c_is_answered() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    said = []
    try:
        with pytest.raises(KeyboardInterrupt), stoppable(said.append):
            signal.raise_signal(signal.SIGINT)
        assert "Ctrl-C again stops at once" in said[0]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with stoppable(said.append):
            signal.raise_signal(signal.SIGINT)
        assert len(said) == 1
    finally:
        signal.signal(signal.SIGINT, before)
