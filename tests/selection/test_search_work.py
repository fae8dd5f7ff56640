"""Interruption, caches, progress and bad input of the kernel search."""

import json
import sys
import threading

import networkx as nx
import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import make_scorer
from sklearn.model_selection import (
    LeaveOneOut,
    ShuffleSplit,
    StratifiedKFold,
)
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from mercer.kernels import (
    Gaussian,
    Heat,
    Linear,
    Spectral,
    Spectrum,
)
from mercer.selection import KernelSearchCV
from mercer.selection.fits import Evaluation
from mercer.selection.journal import Journal, fingerprint
from mercer.spaces import Graph, Simplex, Sphere
from tests.selection.test_search import COUNTS, HEATS, LABELS, TARGET, _hits


class _Interrupted(SVC):
    """A machine that stops after some fits, as Ctrl-C would."""

    left = 10**9

    def fit(self, X, y, sample_weight=None):
        cls = type(self)
        cls.left -= 1
        if cls.left < 0:
            raise KeyboardInterrupt
        return super().fit(X, y, sample_weight)


def test_interrupted_search_goes_on(tmp_path, monkeypatch) -> None:
    search = KernelSearchCV(
        HEATS, _Interrupted(), param_grid={"C": [1.0, 10.0]}, cache=tmp_path / "new", cv=5, n_jobs=1
    )
    monkeypatch.setattr(_Interrupted, "left", 13)
    with pytest.raises(KeyboardInterrupt):
        search.fit(COUNTS, LABELS)
    (path,) = (tmp_path / "new").iterdir()
    assert path.read_text().count('"fit"') == 13
    with path.open("a") as file:
        file.write('\n{"fit": "torn')
    monkeypatch.setattr(_Interrupted, "left", 30 - 13 + 1)  # and the final fit
    search.fit(COUNTS, LABELS)
    plain = KernelSearchCV(HEATS, param_grid={"C": [1.0, 10.0]}, cv=5).fit(COUNTS, LABELS)
    for fold in range(5):
        key = f"split{fold}_test_score"
        np.testing.assert_array_equal(search.cv_results_[key], plain.cv_results_[key])
    monkeypatch.setattr(_Interrupted, "left", 1)  # nothing but the final fit
    search.fit(COUNTS, LABELS)
    assert search.timings_["products"] == 0


def test_cache_is_never_stale(tmp_path) -> None:
    base = {
        "kernels": HEATS,
        "param_grid": {"C": [1.0]},
        "cache": tmp_path,
        "cv": StratifiedKFold(3),
    }

    def known(X=COUNTS, y=LABELS, **changes) -> int:
        """Fits that the cache knows of."""
        seen = []
        real = Evaluation._recall

        def recall(self, tasks, splits, outcomes):
            keys = real(self, tasks, splits, outcomes)
            seen.append(sum(outcome is not None for outcome in outcomes))
            return keys

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Evaluation, "_recall", recall)
            KernelSearchCV(**{**base, **changes}).fit(X, y)
        return seen[0]

    assert known() == 0
    assert known() == 9
    changed = COUNTS.copy()
    changed[0, 0] += 1
    assert known(X=changed) == 0
    assert known(y=np.roll(LABELS, 1)) == 0
    assert known(X=COUNTS.astype(np.float32)) == 0
    assert known(cv=StratifiedKFold(3, shuffle=True, random_state=0)) == 0
    assert known(estimator=SVC(tol=1e-4)) == 0
    assert known(scoring="balanced_accuracy") == 0
    assert known(param_grid={"C": [1.0, 2.0]}) == 9
    assert known(kernels=[*HEATS, Gaussian()]) == 9
    assert known(kernels=[Heat(Simplex(), t_star=0.2, normalized=True)]) == 3
    assert known(kernels=[Heat(Simplex(), t=0.2)]) == 0
    with pytest.raises(ValueError, match="use cache=None, or a scorer by name"):
        known(scoring=make_scorer(_hits))
    with pytest.raises(ValueError, match="could change unseen"):
        known(kernels=[Spectral(Sphere(), weights=lambda lam: np.exp(-lam))])


def test_fingerprints_tell_graphs_apart(tmp_path) -> None:
    ring, path = (Heat(Graph(g), t=1.0) for g in (nx.cycle_graph(30), nx.path_graph(30)))
    assert fingerprint(ring) != fingerprint(path)
    before = fingerprint(ring)
    ring([0, 1])
    assert fingerprint(ring) == before  # what the graph computed meanwhile does not count
    assert fingerprint({"a": 1, "b": 2.0}) == fingerprint({"b": 2.0, "a": 1})
    assert fingerprint(1) != fingerprint(1.0)
    journal = Journal(tmp_path, "x")
    journal.put("fit", {"score": np.nan}, (0.1, 0.2))
    assert np.isnan(Journal(tmp_path, "x").get("fit")[0]["score"])
    assert Journal(tmp_path, "y").get("fit") is None
    header, entry = map(json.loads, journal.path.read_text().split("\n")[1:])
    assert header == {"mercer": "cache", "format": 1}
    assert entry["fit"] == "fit"


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


BAD = [
    ({}, COUNTS, np.zeros(90), "one class only"),
    ({}, COUNTS, LABELS[:80], "inconsistent numbers of samples"),
    ({"kernels": Spectrum(2)}, ["ab"] * 5, [0, 1], "X has 5 points, y has 2"),
    ({"kernels": Spectrum(2)}, ["ab"] * 5, None, "y"),
    ({"cv": 100}, COUNTS, LABELS, "n_splits=100"),
    ({"cv": 100, "estimator": KernelRidge()}, COUNTS, TARGET, "n_splits=100"),
    ({"cv": [(np.arange(5), np.array([], int))]}, COUNTS, LABELS, "fold 0 has no test points"),
    ({"cv": ShuffleSplit(2, train_size=1)}, COUNTS, LABELS, "training part of fold 0 has one class"),
    ({}, np.where(np.eye(90, 12) > 0, np.nan, COUNTS), LABELS, "row 0 of X .*NaN"),
    ({"kernels": Heat(Simplex())}, -COUNTS - 1, LABELS, "row 0 of X .* negative"),
    ({"kernels": []}, COUNTS, LABELS, "kernels is empty"),
    ({"param_grid": {"kernel": [Linear()]}}, COUNTS, LABELS, "kernels=\\["),
    ({"param_grid": {"kernel__t_star": [1]}, "kernels": Linear()}, COUNTS, LABELS, "t_star"),
    ({"param_grid": {"gamme": [1]}}, COUNTS, LABELS, "gamme"),
    ({"max_memory": 1e-6}, COUNTS, LABELS, "max_memory allows 1 kB"),
]


@pytest.mark.parametrize(("options", "X", "y", "message"), BAD, ids=[case[3] for case in BAD])
def test_bad_input(options, X, y, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        KernelSearchCV(**options).fit(X, y)
    assert "\n" not in str(caught.value) or "sklearn" in str(caught.traceback[-1].path)


def test_bad_types() -> None:
    with pytest.raises(TypeError, match="not a kernel of mercer"):
        KernelSearchCV(["rbf"]).fit(COUNTS, LABELS)
    with pytest.raises(TypeError, match="must be a kernel, a list or a dict"):
        KernelSearchCV("rbf").fit(COUNTS, LABELS)
    with pytest.raises(TypeError, match='must take kernel="precomputed"'):
        KernelSearchCV(HEATS, GaussianProcessClassifier()).fit(COUNTS, LABELS)
    with pytest.raises(TypeError, match='must take kernel="precomputed"'):
        KernelSearchCV(HEATS, StandardScaler()).fit(COUNTS, LABELS)


def test_errors_of_fits_say_where() -> None:
    with pytest.raises(ValueError, match="C") as caught:
        KernelSearchCV(HEATS, param_grid={"C": [1.0, -1.0]}).fit(COUNTS, LABELS)
    assert "in fold 0 with Heat(Simplex(), t_star=0.2), {'C': -1.0}" in caught.value.__notes__[0]


def test_leave_one_out() -> None:
    search = KernelSearchCV(HEATS[:1], param_grid={"C": [1.0]}, cv=LeaveOneOut())
    assert search.fit(COUNTS[:20], LABELS[:20]).n_splits_ == 20
