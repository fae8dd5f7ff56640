"""Outputs of the command: whole or not at all, each on its own, and each failure named."""

import errno
import json
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from mercer import _files, reproduce
from mercer.cli import app
from mercer.outputs import plain_cell
from mercer.reproduce import output
from mercer.selection import load_model

RNG = np.random.default_rng(0)
COUNTS = np.vstack(
    [RNG.multinomial(30, p, size=20) for p in ([0.5, 0.3, 0.1, 0.1], [0.1, 0.2, 0.3, 0.4])]
)
LABELS = np.repeat(["spam", "ham"], 20)
MERCER = [sys.executable, "-m", "mercer.cli"]
#: Processes that begin with everything imported.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.test_outputs"])
FULL = Path("/dev/full")
full_disk = pytest.mark.skipif(not FULL.exists(), reason="the system has no /dev/full")


def run(*arguments: object):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture
def table(tmp_path) -> Path:
    path = tmp_path / "mail.csv"
    pd.DataFrame(COUNTS, columns=list("abcd")).assign(kind=LABELS).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    """Finished fits, which all comparisons of the same table share."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def options(table, cache) -> list[object]:
    return [table, "--target", "kind", "--folds", 2, "--cache", cache]


@pytest.fixture(scope="module")
def model(tmp_path_factory, cache) -> Path:
    folder = tmp_path_factory.mktemp("model")
    frame = pd.DataFrame(COUNTS, columns=list("abcd")).assign(kind=LABELS)
    frame.to_csv(folder / "mail.csv", index=False)
    path, table = folder / "model.skops", folder / "mail.csv"
    options = ["--target", "kind", "--folds", 2, "--cache", cache]
    done = run("compare", table, *options, "--save-model", path)
    assert done.exit_code == 0, done.stderr
    return path


def no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def read_only(*_: object) -> None:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


@pytest.mark.parametrize("fault", [no_room, read_only])
@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_old_files_stay_where_new_ones_cannot_be_written(
    function, fault, options, tmp_path, monkeypatch
) -> None:
    page, model = tmp_path / "page.html", tmp_path / "model.skops"
    page.write_text("old page")
    model.write_text("old model")
    monkeypatch.setattr(os, function, fault)
    result = run("compare", *options, "--report", page, "--save-model", model)
    assert result.exit_code == 3
    assert "accuracy" in result.stdout
    assert "Report:" not in result.stdout
    for path in (page, model):
        assert path.read_text() == f"old {path.stem}"
        assert f"{path} cannot be written" in " ".join(result.stderr.split())
    assert not list(tmp_path.glob("*.part"))
    assert "Traceback" not in result.output


@pytest.mark.parametrize("broken", ["report", "save-model"])
def test_one_failure_does_not_lose_the_others(broken, options, tmp_path, monkeypatch) -> None:
    def fault(*_: object, **__: object) -> None:
        raise RuntimeError("a fault of ours")

    name = "mercer.report.write_report" if broken == "report" else "mercer.selection.save_model"
    monkeypatch.setattr(name, fault)
    paths = {"report": tmp_path / "page.html", "save-model": tmp_path / "model.skops"}
    result = run("compare", *options, *(x for k, path in paths.items() for x in (f"--{k}", path)))
    assert result.exit_code == 3
    assert "accuracy" in result.stdout
    assert f"{paths[broken]} cannot be written: a fault of ours" in " ".join(result.stderr.split())
    assert [path.exists() for path in paths.values()] == [broken != "report", broken != "save-model"]


def test_ctrl_c_while_files_are_written(options, tmp_path, monkeypatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    page = tmp_path / "page.html"
    page.write_text("old page")
    monkeypatch.setattr(os, "fsync", stop)
    result = run("compare", *options, "--report", page)
    assert result.exit_code == 130
    assert "accuracy" in result.stdout
    assert page.read_text() == "old page"


def started(*arguments: object, **kwargs) -> subprocess.CompletedProcess[str]:
    command = [*MERCER, *map(str, arguments)]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, **kwargs)


@full_disk
def test_standard_output_on_a_full_disk(options, tmp_path) -> None:
    model = tmp_path / "model.skops"
    with FULL.open("w") as nowhere:
        done = started("compare", *options, "--json", "--save-model", model, stdout=nowhere)
    lines = [line for line in done.stderr.splitlines() if "error" in line.lower()]
    assert lines == ["error: standard output cannot be written: No space left on device"]
    assert "Traceback" not in done.stderr
    assert done.returncode == 3
    assert load_model(model).predict(COUNTS).shape == (40,)


@full_disk
@pytest.mark.parametrize("arguments", [["info"], ["reproduce", "list"]])
def test_short_commands_on_a_full_disk(arguments) -> None:
    with FULL.open("w") as nowhere:
        done = started(*arguments, stdout=nowhere)
    assert done.stderr == "error: standard output cannot be written: No space left on device\n"
    assert done.returncode == 3


@full_disk
def test_files_on_a_full_disk(options, tmp_path) -> None:
    model = tmp_path / "model.skops"
    result = run("compare", *options, "--report", FULL, "--save-model", model)
    assert result.exit_code == 3
    assert "/dev/full cannot be written: No space left on device" in " ".join(result.stderr.split())
    assert model.exists()
    predicted = run("predict", model, options[0], "--output", FULL)
    assert predicted.exit_code == 3
    assert "on the 40 rows with a target" in predicted.stderr
    assert "/dev/full cannot be written: No space left on device" in " ".join(predicted.stderr.split())


def test_who_reads_standard_output_may_have_enough(options, tmp_path) -> None:
    page = tmp_path / "page.html"
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        done = started("compare", *options, "--json", "--report", page, stdout=pipe)
    assert done.returncode == 1
    assert "rror" not in done.stderr
    assert page.exists()


def run_until(place: str, here: Path, told: Path, arguments: list[object]) -> None:
    """Run a command in this process, and wait at a place to be killed there."""

    def wait(*_: object) -> None:
        here.touch()
        time.sleep(600)

    def half(path: Path, mode: str) -> None:
        file = open(path, mode)  # noqa: SIM115 (it stays open)
        file.write(b"half" if "b" in mode else "half")
        file.flush()
        wait()

    if place == "write":
        _files._opened = half
    else:
        setattr(os, place, wait)
    os.dup2(os.open(told, os.O_WRONLY | os.O_CREAT), sys.stdout.fileno())
    app(list(map(str, arguments)))


@pytest.mark.parametrize("place", ["write", "fsync", "replace"])
@pytest.mark.parametrize("kind", ["report", "model", "predictions", "results"])
def test_killed_while_it_writes(kind, place, options, model, tmp_path) -> None:
    name = {
        "report": "page.html",
        "model": "m.skops",
        "predictions": "p.csv",
        "results": "textbook.json",
    }
    target = tmp_path / name[kind]
    target.write_text("old")
    arguments = {
        "report": ["compare", *options, "--report", target],
        "model": ["compare", *options, "--save-model", target],
        "predictions": ["predict", model, options[0], "--output", target],
        "results": ["reproduce", "textbook", "--results", tmp_path],
    }[kind]
    here, told = tmp_path / "here", tmp_path / "told"
    process = FORKS.Process(target=run_until, args=(place, here, told, arguments))
    process.start()
    try:
        for _ in range(1200):
            if here.exists() or not process.is_alive():
                break
            time.sleep(0.1)
        assert here.exists()
        assert target.read_text() == "old"
    finally:
        process.kill()
        process.join()
    assert target.read_text() == "old"
    if kind in ("report", "model"):
        assert "accuracy" in told.read_text()  # the scores came first


def test_results_are_written_one_by_one(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "sphere-heat.json").write_text("old")
    usual = output.atomic_write

    def choosy(path, *mode):
        if Path(path).suffix == ".json":
            no_room()
        return usual(path, *mode)

    monkeypatch.setattr(output, "atomic_write", choosy)
    result = run("reproduce", "sphere-heat", "--quick", "--results", folder)
    assert result.exit_code == 3
    told = " ".join(result.stderr.split())
    assert "sphere-heat.json cannot be written: No space left on device" in told
    assert (folder / "sphere-heat.json").read_text() == "old"
    assert (folder / "sphere-heat.md").exists()
    assert list(folder.glob("*.svg"))
    assert "QUICK RUN" in result.stdout
    with pytest.raises(OSError, match="No space left"):
        reproduce.run("textbook", results=folder)


def test_labels_that_look_like_formulas(tmp_path) -> None:
    labels = np.repeat(["=cmd|' /C calc'!A0", "-1", "@sum"], 12)
    X = np.vstack([RNG.multinomial(40, p, size=12) for p in RNG.dirichlet(np.ones(4), size=3)])
    table, model = tmp_path / "t.csv", tmp_path / "m.skops"
    pd.DataFrame(X, columns=list("abcd")).assign(kind=labels).to_csv(table, index=False)
    assert run("compare", table, "--target", "kind", "--folds", 2, "--save-model", model).exit_code == 0
    done = run("predict", model, table, "--output", tmp_path / "p.csv", "--proba")
    assert done.exit_code == 0, done.stderr
    found = pd.read_csv(tmp_path / "p.csv")
    assert set(found["prediction"]) <= {"'=cmd|' /C calc'!A0", "-1", "'@sum"}
    assert "accuracy" in done.stderr  # of the labels as they are
    classes = load_model(model).classes_
    columns = [f"probability of {label}" for label in classes]
    assert list(found.columns) == ["row", "prediction", *columns]
    expected = load_model(model).predict_proba(X)
    np.testing.assert_allclose(found[columns].to_numpy(), expected, rtol=1e-12)


def test_cells() -> None:
    assert [plain_cell(text) for text in ("\t=1", "\r1", "+x", "-", "@", "=")] == [
        "'\t=1", "'\r1", "'+x", "'-", "'@", "'="
    ]  # fmt: skip
    for text in ("-1", "-1.5e3", "+7", "-.5", "1=1", "", "a@b"):
        assert plain_cell(text) == text


def test_probabilities_of_a_regression_are_refused(tmp_path) -> None:
    table, model = tmp_path / "t.csv", tmp_path / "m.skops"
    frame = pd.DataFrame(COUNTS, columns=list("abcd"))
    frame.assign(y=COUNTS @ np.arange(4.0) + RNG.normal(size=40)).to_csv(table, index=False)
    assert run("compare", table, "--target", "y", "--folds", 2, "--save-model", model).exit_code == 0
    result = run("predict", model, table, "--proba")
    assert result.exit_code == 2
    assert "m.skops has no probabilities; leave out --proba" in result.stderr


def test_the_p_value_is_the_same_everywhere(options, tmp_path) -> None:
    page = tmp_path / "page.html"
    data = json.loads(run("compare", *options, "--json", "--report", page).stdout)
    shown = run("compare", *options).stdout
    for kernel in data["kernels"]:
        if kernel["p_value"] is not None:
            text = "< 0.001" if kernel["p_value"] < 0.001 else f"{kernel['p_value']:.3f}"
            row = next(line for line in shown.splitlines() if f" {kernel['name']} " in line)
            assert text in row
            assert f"<td>{text.replace('<', '&lt;')}</td>" in page.read_text()


def test_exit_codes_are_documented() -> None:
    for command in ([], ["compare"], ["predict"], ["reproduce"]):
        told = " ".join(run(*command, "--help").stdout.split())
        assert "Exit codes: 0 done; 2 bad input" in told


def test_a_closed_pipe_is_an_exit_code() -> None:
    assert "1 the reader of the output closed it" in " ".join(run("compare", "--help").stdout.split())


def test_users_without_a_home(table, tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", home)
    assert run("compare", table, "--target", "kind", "--folds", 2).exit_code == 0


def test_too_little_memory_is_told_in_one_line(table, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("mercer._validation._SMALL", 0)
    monkeypatch.setattr("mercer._memory.available", lambda: 100.0)
    result = run("compare", table, "--target", "kind", "--folds", 2, "--cache", tmp_path / "cache")
    assert result.exit_code == 2
    assert "100 B are available" in " ".join(result.stderr.split())


def test_warnings_are_one_line(options) -> None:
    command = [*MERCER, "compare", *map(str, options[:-1]), "/dev/null/cache"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told = [line for line in done.stderr.splitlines() if "cannot be written" in line]
    assert len(told) == 1
    assert told[0].startswith(
        "warning: the cache folder /dev/null/cache cannot be written (Not a directory)"
    )
    assert ".py" not in done.stderr
    assert "warnings.warn" not in done.stderr


def test_predictions_need_the_columns_of_the_model(model, tmp_path) -> None:
    frame = pd.DataFrame(COUNTS, columns=list("abcd")).assign(note="x")
    frame.to_csv(tmp_path / "new.csv", index=False)
    result = run("predict", model, tmp_path / "new.csv")
    assert result.exit_code == 2
    told = " ".join(result.stderr.split())
    assert "'note'; remove or encode them (mercer compare: --drop COLUMN)" in told


def test_names_of_files_do_not_reach_the_terminal_as_they_are(tmp_path) -> None:
    path = tmp_path / "a\x1b[31mred.csv"
    path.write_bytes(b"a,b\n\xff,1\n")
    result = run("compare", path, "--target", "b")
    assert result.exit_code == 2
    assert "\x1b[31mred" not in result.stderr
