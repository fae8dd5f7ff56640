"""Progress of searches and comparisons, and how Ctrl-C stops them."""

import signal
import sys
import threading

import pytest
from sklearn.svm import SVC

from mercer._progress import _bar, _left, stoppable
from mercer.kernels import Linear
from mercer.selection import KernelSearchCV, compare
from tests.helpers.words import COUNTS, HEATS, LABELS


def search(**options) -> KernelSearchCV:
    return KernelSearchCV(
        HEATS[-1], **({"param_grid": {"C": [1.0, 10.0]}, "cv": 3, "n_jobs": 1} | options)
    )


def test_progress() -> None:
    steps = []
    search = KernelSearchCV(HEATS, param_grid={"C": [1.0, 2.0]}, cv=3)
    search.set_params(progress=lambda done, total: steps.append((done, total))).fit(COUNTS, LABELS)
    assert steps == [(i, 18) for i in range(1, 19)]
    steps.clear()
    search.nested_scores(COUNTS, LABELS, outer_cv=2)
    assert steps[-1] == (38, 38)


def test_bar_on_a_terminal(monkeypatch) -> None:
    """The work is done in another thread; errors and results come through."""
    monkeypatch.setattr("mercer._progress.PATIENCE", 0.0)
    monkeypatch.setattr("mercer._progress._LOOK", 0.001)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    main, seen = threading.current_thread(), []

    class Noted(SVC):
        def fit(self, X, y, sample_weight=None):
            seen.append(threading.current_thread())
            return super().fit(X, y, sample_weight)

    search = KernelSearchCV(HEATS, Noted(), param_grid={"C": [1.0]}, n_jobs=1, refit=False)
    search.fit(COUNTS, LABELS)
    assert len(seen) == 15
    assert main not in seen
    plain = KernelSearchCV(HEATS, param_grid={"C": [1.0]}, refit=False).fit(COUNTS, LABELS)
    assert plain.best_score_ == search.best_score_
    with pytest.raises(ValueError, match="C"):
        KernelSearchCV(HEATS, param_grid={"C": [-1.0]}).fit(COUNTS, LABELS)


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


def test_the_time_left_moves_during_a_long_step() -> None:
    assert _left(0, 10, 5.0) == _left(3, None, 5.0) == ""
    assert [_left(2, 10, seconds) for seconds in (10.0, 20.0, 60.0)] == [
        "about 40 s left", "about 80 s left", "about 4 min left",
    ]  # fmt: skip


def test_the_bar_shows_the_time_left(monkeypatch) -> None:
    """Rich would keep its first estimate until the next step is done."""
    with _bar("work") as (report, _):
        report(1, 2)
        bar = report.__closure__[0].cell_contents
        assert "about 0 s left" in str(bar.columns[-1](bar.tasks[0]))
        monkeypatch.setattr(bar, "get_time", lambda: bar.tasks[0].start_time + 90)
        monkeypatch.setattr(bar.tasks[0], "_get_time", bar.get_time)
        bar.columns[-1]._renderable_cache.clear()
        assert "about 90 s left" in str(bar.columns[-1](bar.tasks[0]))
