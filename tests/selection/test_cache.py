"""The cache of finished fits: resumed from, shared, damaged, or unusable."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from sklearn.metrics import make_scorer
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

from mercer.kernels import Gaussian, Heat, Linear, Spectral
from mercer.selection import KernelSearchCV, compare, journal
from mercer.selection.fits import Evaluation
from mercer.selection.journal import Journal, fingerprint
from mercer.spaces import Graph, Simplex, Sphere
from tests.helpers.words import COUNTS, HEATS, LABELS, hits


def search(**options) -> KernelSearchCV:
    return KernelSearchCV(
        HEATS[-1], **({"param_grid": {"C": [1.0, 10.0]}, "cv": 3, "n_jobs": 1} | options)
    )


def filled(folder) -> Journal:
    journal = Journal(folder, "common")
    for i in range(5):
        journal.put(f"fit {i}", {"score": i / 7}, (0.1 * i, 0.2))
    return journal


def test_a_changed_line_is_not_believed(tmp_path) -> None:
    path = filled(tmp_path).path
    path.write_text(path.read_text().replace("0.42857142857142855", "0.92857142857142855"))
    again = Journal(tmp_path, "common")
    assert again.get("fit 3") is None
    assert again.get("fit 4") == ({"score": 4 / 7}, (0.4, 0.2))


@pytest.mark.parametrize("line", ["[" * 100_000, '{"a":' * 100_000, "9" * 5000, "\x00" * 99, "\ud800"])
def test_odd_lines_are_passed_over(tmp_path, line: str) -> None:
    path = filled(tmp_path).path
    with path.open("a", errors="surrogatepass") as file:
        file.write(f"\n{line}")
    journal = Journal(tmp_path, "common")
    assert journal.get("fit 2") == ({"score": 2 / 7}, (0.2, 0.2))
    journal.put("new", {"score": 1}, (1, 2))
    assert Journal(tmp_path, "common").get("new") == ({"score": 1.0}, (1.0, 2.0))


def test_another_format_is_passed_over(tmp_path) -> None:
    path = filled(tmp_path).path
    path.write_text(path.read_text().replace('"format": 1', '"format": 2'))
    journal = Journal(tmp_path, "common")
    assert journal.get("fit 2") is None
    journal.put("new", {"score": 0.5}, (0.0, 0.0))
    again = Journal(tmp_path, "common")
    assert again.get("new") == ({"score": 0.5}, (0.0, 0.0))
    assert again.get("fit 2") is None


_WRITER = """
import sys
from mercer.selection.journal import Journal
journal = Journal(sys.argv[1], "common")
for i in range(300):
    journal.put(f"{sys.argv[2]} {i}", {"score": i / 7, "other": -i}, (0.5, 0.25))
"""


def test_two_processes_share_a_file(tmp_path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", _WRITER, tmp_path, name]) for name in "ab"]
    assert [writer.wait() for writer in writers] == [0, 0]
    journal = Journal(tmp_path, "common")
    for name in "ab":
        for i in range(300):
            assert journal.get(f"{name} {i}") == ({"score": i / 7, "other": -i}, (0.5, 0.25))


def full(monkeypatch) -> None:
    """A disk without room."""
    usual = journal._append
    monkeypatch.setattr(journal, "_append", lambda _, content: usual(Path("/dev/full"), content))


def test_work_goes_on_without_a_cache(tmp_path, monkeypatch) -> None:
    options = {"kernels": {"linear": [Linear()]}, "folds": 3}
    expected = compare(COUNTS, LABELS, **options)
    nowhere = Path("/dev/null/.cache/mercer")
    for folder in (nowhere, tmp_path):
        if folder == tmp_path:
            full(monkeypatch)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = compare(COUNTS, LABELS, cache=folder, **options)
        (text,) = [str(w.message) for w in told]
        assert f"the cache folder {folder} cannot be written" in text
        assert "--cache, or cache=" in text
        np.testing.assert_array_equal(
            found.scores[0].metrics["accuracy"], expected.scores[0].metrics["accuracy"]
        )


def test_a_disk_that_fills_up_leaves_what_was_there(tmp_path, monkeypatch) -> None:
    journal = filled(tmp_path)
    before = journal.path.read_bytes()
    with monkeypatch.context() as patch:
        full(patch)
        with pytest.warns(UserWarning, match="No space left on device.*--cache"):
            journal.put("lost", {"score": 1.0}, (0.0, 0.0))
    assert journal.get("lost") == ({"score": 1.0}, (0.0, 0.0))
    assert journal.path.read_bytes() == before
    # A line that was cut off is ended by the next one.
    journal.path.write_bytes(before[:-20])
    Journal(tmp_path, "common").put("next", {"score": 2.0}, (0.0, 0.0))
    again = Journal(tmp_path, "common")
    assert again.get("fit 4") is None
    assert again.get("fit 3") is not None
    assert again.get("next") == ({"score": 2.0}, (0.0, 0.0))


def test_lines_are_json(tmp_path) -> None:
    header, *entries = [json.loads(line) for line in filled(tmp_path).path.read_text().split("\n")[1:]]
    assert header == {"mercer": "cache", "format": 1}
    assert [entry["fit"] for entry in entries] == [f"fit {i}" for i in range(5)]


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
        known(scoring=make_scorer(hits))
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
