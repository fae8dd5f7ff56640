"""The short run of damaged files, and what hypothesis thinks of; `make fuzz` is the long one."""

import io
import string
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mercer.datasets import read_table
from mercer.rows.checkpoint import Codec
from mercer.selection.journal import Journal
from tests.fuzz import campaign, readers
from tests.fuzz.__main__ import main
from tests.fuzz.seeds import SEEDS, Seed

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is filled by glibc")
#: Files of each kind; the long run begins elsewhere.
COUNT, FIRST = 100, 10**9

quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def test_no_damaged_file_is_believed() -> None:
    outcomes, failures = campaign.run(SEEDS, range(FIRST, FIRST + COUNT))
    assert not failures, "\n".join(f"--kind {f.kind} --case {f.case}: {f.what}" for f in failures[:5])
    assert all(counts.total() == COUNT for counts in outcomes.values())
    for kind in SEEDS:
        assert kind == "cache" or outcomes[kind]["refused"] > COUNT / 3


def test_every_kind_has_ten_files() -> None:
    for make in SEEDS.values():
        assert len({seed.content for seed in make()}) >= 10


@pytest.mark.parametrize("kind", SEEDS)
def test_whole_files_are_read(kind: str, tmp_path) -> None:
    for seed in SEEDS[kind]():
        path = tmp_path / seed.name
        path.write_bytes(seed.content)
        found = {readers._read(seed, path, filling) for filling in (0x55, 0xAA)}
        assert len(found) == 1
        if seed.name != "dates5.npz":  # dates are no target, and are refused later
            assert found.pop().startswith("read")


def test_a_process_that_ends_is_seen() -> None:
    worker = campaign.Worker()
    try:
        outcome, what = worker.run("no such kind", 0)
        assert (outcome, what) == ("failed", "the process ended with 1")
        assert worker.run("csv", 0)[0] in ("read", "refused")
    finally:
        worker.close()


def refuse(text: str) -> None:
    raise ValueError(text)


@pytest.mark.parametrize(
    ("read", "complaint"),
    [
        (lambda path: {}["a"], "KeyError"),
        (lambda path: refuse(f"{path.name}\nis bad"), "no line that names the file"),
        (lambda path: refuse("x is bad"), "no line that names the file"),
        (lambda path: (), None),
    ],
)
def test_faults_of_readers_are_seen(read, complaint, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(readers.READERS, "table", read)
    if complaint is None:
        assert readers._read(Seed("a.csv", b""), tmp_path / "a.csv", 0).startswith("read ")
    else:
        with pytest.raises(readers.Fault, match=complaint):
            readers._read(Seed("a.csv", b""), tmp_path / "a.csv", 0)


def test_memory_that_is_not_the_files_is_seen(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(readers, "damaged", lambda kind, rng, content: content)
    monkeypatch.setitem(readers.READERS, "table", lambda path, **_: np.empty(10**6, np.uint8))
    monkeypatch.setitem(readers.SEEDS, "csv", lambda: [Seed("a.csv", b"x")])
    with pytest.raises(readers.Fault, match="read twice"):
        readers.attempt("csv", 0, tmp_path / "files")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(readers.READERS, "table", lambda path: Path("executed").mkdir(exist_ok=True))
    with pytest.raises(readers.Fault, match="code of the file was run"):
        readers.attempt("csv", 0, tmp_path / "files")


_STARTS = {
    "a.csv": b"a,b,kind\n",
    "a.csv.gz": b"\x1f\x8b\x08\x00",
    "a.svmlight": b"1 1:",
    "a.npz": b"PK\x03\x04",
    "a.parquet": b"PAR1",
    "a.feather": b"ARROW1\0\0",
}


@quick
@given(name=st.sampled_from(list(_STARTS)), content=st.binary(max_size=400), whole=st.booleans())
def test_any_bytes(tmp_path, name: str, content: bytes, whole: bool) -> None:
    path = tmp_path / name
    path.write_bytes(_STARTS[name] * whole + content)
    options = {"target": "kind"} if "csv" in name or "par" in name or "fea" in name else {}
    readers._read(Seed(name, b"", "table", options), path, 0)


numbers = st.one_of(st.integers(-(2**40), 2**40), st.floats(allow_nan=False, allow_infinity=False))


@quick
@given(
    rows=st.lists(
        st.tuples(numbers, numbers, st.sampled_from(["u", "v w", 'x"y'])), min_size=1, max_size=9
    ),
    names=st.lists(
        st.text(string.ascii_letters, min_size=1, max_size=5), min_size=3, max_size=3, unique=True
    ),
)
def test_good_tables_are_read_as_they_were(tmp_path, rows, names) -> None:
    frame = pd.DataFrame(rows, columns=names)
    expected = frame[names[:2]].to_numpy(float)
    for ending in ("csv", "csv.gz", "parquet", "feather"):
        path = tmp_path / f"a.{ending}"
        if "csv" in ending:
            frame.to_csv(path, index=False)
        else:
            getattr(frame, f"to_{ending}")(path)
        table = read_table(path, names[2])
        # Before version 3, pandas may miss the last bit of a number that is written as text.
        np.testing.assert_allclose(table.X, expected, rtol=2.3e-16 if "csv" in ending else 0, atol=0)
        assert table.y.tolist() == frame[names[2]].tolist()
    file = io.BytesIO()
    np.savez_compressed(file, X=expected, y=frame[names[2]].to_numpy(str))
    (tmp_path / "a.npz").write_bytes(file.getvalue())
    np.testing.assert_array_equal(read_table(tmp_path / "a.npz").X, expected)


@quick
@given(lines=st.lists(st.one_of(st.text(max_size=50), st.binary(max_size=50)), max_size=5))
def test_any_lines_of_a_cache(tmp_path_factory, lines) -> None:
    folder = tmp_path_factory.mktemp("cache")
    journal = Journal(folder, "x")
    journal.put("first", {"score": 0.25}, (1.0, 2.0))
    raw = [line if isinstance(line, bytes) else line.encode("utf-8", "surrogatepass") for line in lines]
    with journal.path.open("ab") as file:
        file.write(b"\n" + b"\n".join(raw))
    again = Journal(folder, "x")
    assert again.get("first") == ({"score": 0.25}, (1.0, 2.0))
    again.put("second", {"score": 0.5}, (1.0, 2.0))
    assert Journal(folder, "x").get("second") == ({"score": 0.5}, (1.0, 2.0))


leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text())
trees = st.recursive(
    leaves,
    lambda below: st.one_of(
        st.lists(below, max_size=3),
        st.tuples(below, below),
        st.dictionaries(st.text(), below, max_size=3),
    ),
    max_leaves=10,
)


@quick
@given(tree=trees)
def test_any_results_of_a_checkpoint(tree) -> None:
    file = io.BytesIO()
    Codec().write(file, part=tree)
    assert Codec().read(file)("part") == tree


def test_the_long_run_tells_how_to_repeat_a_case(tmp_path, monkeypatch, capsys) -> None:
    counts, failure = Counter(read=2, failed=1), campaign.Failure("cache", 1, "Traceback ...")

    def run(kinds, cases, jobs, progress):
        progress(counts, "cache", failure)
        return {"cache": counts}, [failure]

    monkeypatch.setattr(campaign, "run", run)
    monkeypatch.setattr(sys, "argv", ["fuzz", "--kind", "cache"])
    assert main() == 1
    assert "3 files:       2 read,       0 refused,       1 failed" in (told := capsys.readouterr().out)
    assert "--kind cache --case 1\nTraceback ..." in told
    monkeypatch.setattr(sys, "argv", ["fuzz", "--kind", "cache", "--case", "1"])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert main() == 0
    where, outcome = capsys.readouterr().out.splitlines()
    assert outcome == "read"
    assert len(list(Path(where.removeprefix("files in "), "files").iterdir())) == 1
