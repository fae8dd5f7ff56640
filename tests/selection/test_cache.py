"""The cache of finished fits: shared, damaged, or not to be had."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from mercer.kernels import Linear
from mercer.selection import compare, journal
from mercer.selection.journal import Journal
from tests.selection.test_search import COUNTS, LABELS


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
