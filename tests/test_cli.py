"""The command line and the tables it reads."""

import json
import re
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file
from typer.testing import CliRunner

from mercer.cli import app
from mercer.datasets import digits, load_docstrings, read_table
from mercer.report import write_report
from mercer.selection import compare

RNG = np.random.default_rng(0)
COUNTS = np.vstack(
    [RNG.multinomial(30, p, size=25) for p in ([0.5, 0.3, 0.1, 0.1], [0.1, 0.2, 0.3, 0.4])]
)
LABELS = np.repeat(["spam", "ham"], 25)


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(COUNTS, columns=list("abcd")).assign(kind=LABELS)


def run(*arguments: object):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_json(tmp_path, frame) -> None:
    path = tmp_path / "mail.csv"
    frame.to_csv(path, index=False)
    page = tmp_path / "page.html"
    result = run("compare", path, "--target", "kind", "--json", "--report", page, "--folds", 3)
    assert result.exit_code == 0, result.stderr
    data = json.loads(result.stdout)
    assert data["rows"] == 50
    assert data["columns"] == 4
    assert data["classes"] == {"ham": 25, "spam": 25}
    assert data["kind"] == "counts"
    assert (data["chance"], data["baseline"]) == (0.5, "accuracy of the majority class")
    assert (data["task"], data["metric"]) == ("classification", "accuracy")
    assert "kernel" in data["verdict"]
    names = {k["name"] for k in data["kernels"]}
    flat = {"linear", "Gaussian", "standardised Gaussian", "tf-idf"}
    assert names == flat | {"cosine", "parametrix", "exact heat"}
    for kernel in data["kernels"]:
        low, high = kernel["interval_95"]
        assert low <= kernel["score"] <= high
        assert len(kernel["fold_scores"]) == 3
        assert kernel["score"] == kernel["metrics"]["accuracy"] > 0.7
        assert kernel["metrics"]["roc_auc"] > 0.8
        assert 0 < kernel["metrics"]["log_loss"] < 0.6
        plain = kernel["name"] not in ("cosine", "parametrix", "exact heat")
        assert (kernel["p_value"] is None) == (kernel["p_value_unadjusted"] is None) == plain
        assert plain or kernel["p_value"] >= kernel["p_value_unadjusted"]
        assert (kernel["error_reduction"] is None) == (kernel["error_change"] is None)
    text = page.read_text()
    assert "accuracy of the majority class 50.00%" in text
    assert "exact heat" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    again = json.loads(run("compare", path, "--target", "kind", "--json", "--folds", 3).stdout)
    strip = [{k: v for k, v in x.items() if k != "seconds"} for x in data["kernels"]]
    assert [{k: v for k, v in x.items() if k != "seconds"} for x in again["kernels"]] == strip


def test_table(tmp_path, frame) -> None:
    path = tmp_path / "mail.csv"
    frame.to_csv(path, index=False)
    result = run("compare", path, "--target", "kind", "--folds", 2)
    assert result.exit_code == 0
    assert "accuracy" in result.stdout
    assert "rows taken as counts" in result.stdout
    assert "accuracy of the majority class 50.00%" in result.stdout
    assert re.search(r"^exact heat: .*C=[0-9.]+$", result.stdout, re.MULTILINE)


def test_without_a_table_docstrings_are_compared(monkeypatch) -> None:
    table = load_docstrings()
    some = replace(table, X=table.X[::10], y=table.y[::10], ids=table.ids[::10])
    monkeypatch.setattr("mercer.datasets.load_docstrings", lambda: some)
    result = run("compare", "--json", "--folds", 2)
    assert result.exit_code == 0, result.stderr
    data = json.loads(result.stdout)
    assert data["table"] == "docstrings of NumPy, SciPy, scikit-learn, pandas"
    assert set(data["classes"]) == {"NumPy", "SciPy", "scikit-learn", "pandas"}
    assert (data["kind"], data["columns"]) == ("counts", len(table.columns))


def test_drop(tmp_path, frame) -> None:
    path = tmp_path / "mail.csv"
    frame.assign(sender="x", note="y").to_csv(path, index=False)
    table = read_table(path, "kind", ["sender", "note"])
    assert table.X.shape == (50, 4)
    result = run("compare", path, "--target", "kind", "--drop", "sender", "--drop", "note", "--folds", 2)
    assert result.exit_code == 0


def test_info() -> None:
    result = run("info")
    assert result.exit_code == 0
    assert "numba" in result.stdout
    assert "threads" in result.stdout


def write(kind: str, frame: pd.DataFrame, folder):
    path = folder / f"table.{kind}"
    X, y = frame.drop(columns="kind").to_numpy(float), frame["kind"].to_numpy(str)
    if kind in ("csv", "csv.gz"):
        frame.to_csv(path, index=False)
    elif kind == "tsv":
        frame.to_csv(path, index=False, sep="\t")
    elif kind == "parquet":
        frame.to_parquet(path)
    elif kind == "npz":
        np.savez(path, X=X, kind=y)
    elif kind == "sparse.npz":
        csr = sparse.csr_matrix(X)
        parts = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr, "shape": csr.shape}
        np.savez(path, **parts, kind=y)
    else:
        dump_svmlight_file(X, (y == "spam").astype(int), str(path))
    return path


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "tsv", "parquet", "npz", "sparse.npz", "svmlight"])
def test_every_kind_of_table(kind: str, frame, tmp_path) -> None:
    table = read_table(write(kind, frame, tmp_path), "kind")
    X = table.X.toarray() if sparse.issparse(table.X) else table.X
    np.testing.assert_array_equal(X, COUNTS)
    assert len(set(table.y)) == 2
    assert sparse.issparse(table.X) == (kind in ("sparse.npz", "svmlight"))


def bad_tables(folder) -> dict[str, tuple]:
    frame = pd.DataFrame(COUNTS, columns=list("abcd")).assign(kind=LABELS)
    zero = frame.copy()
    twice, targets = frame.rename(columns={"b": "a"}), frame.rename(columns={"d": "kind"})
    zero.loc[3, list("abcd")] = 0
    tables = {
        "zero": (zero, "kind", "row 3 of X is all zeros"),
        "target": (frame, "class", "no column 'class'"),
        "close": (frame, "kinds", "did you mean 'kind'?"),
        "index": (frame.rename(columns={"a": ""}), "kind", "without a name"),
        "none": (frame, None, "which column of none.csv is the target"),
        "single": (frame.assign(kind="spam"), "kind", "only one class"),
        "rare": (frame.assign(kind=["odd"] * 2 + ["even"] * 48), "kind", "class 'odd' has 2 rows"),
        "constant": (frame.assign(kind=0.5), "kind", "the target is constant"),
        "empty": (frame.assign(kind=None), "kind", "no point has a target"),
        "alone": (frame[["kind"]], "kind", "no columns other than the target"),
        "twice": (twice, "kind", "two columns named 'a'"),
        "targets": (targets, "kind", "two columns named 'kind'"),
    }
    for name, (table, _, _) in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    return tables


def test_bad_tables_end_in_one_line(tmp_path) -> None:
    for name, (_, target, complaint) in bad_tables(tmp_path).items():
        option = () if target is None else ("--target", target)
        result = run("compare", tmp_path / f"{name}.csv", *option)
        assert result.exit_code == 2, name
        assert complaint in result.stderr, (name, result.stderr)
        assert "Traceback" not in result.output
        assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.csv", "", "cannot be read"),
        ("a.xyz", "1", "unknown format"),
        ("missing.csv", None, "no file"),
        ("a.csv", "a;b;y\n1;2;u\n", "seems to separate its columns by ';'"),
        ("a.csv", "a;b;y\n1,5;2,0;u\n", "seems to separate its columns by ';'"),
        ("a.tsv", "a,b,y\n1,2,u\n", "seems to separate its columns by ','"),
        ("a.csv", "a,b,y\nfirst,1,2,u\nlast,3,4,v\n", "more cells than its header"),
        ("a.csv", "a,b,y\n1,2,u\n3,4,5,v\n", "cannot be read as a table"),
        ("a.csv", "a,b,gr\xf6\xdfe\n1,2,u\n", "not encoded in UTF-8"),
    ],
)
def test_bad_files(tmp_path, name: str, content: str | None, complaint: str) -> None:
    if content is not None:
        (tmp_path / name).write_text(content, encoding="latin-1")
    result = run("compare", tmp_path / name, "--target", "y")
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_folder_is_no_table(tmp_path) -> None:
    result = run("compare", tmp_path, "--target", "y")
    assert result.exit_code == 2
    assert "is a folder" in result.stderr


def test_columns_are_named_as_they_are_written(tmp_path) -> None:
    """A name that looks like pandas' own for a second column is no second column."""
    path = tmp_path / "names.csv"
    path.write_bytes("\ufeffa,a.1,a.2,y\n1,2,3,u\n3,4,5,v\n".encode())
    assert read_table(path, "y").columns == ("a", "a.1", "a.2")


@pytest.mark.parametrize("option", ["--report", "--save-model"])
def test_a_command_does_not_write_over_its_table(tmp_path, frame, option: str) -> None:
    path = write("csv", frame, tmp_path)
    before = path.read_bytes()
    result = run("compare", path, "--target", "kind", option, path)
    assert result.exit_code == 2
    assert "name another file" in result.stderr
    assert path.read_bytes() == before
    both = run(
        "compare", path, "--target", "kind", "--report", tmp_path / "x", "--save-model", tmp_path / "x"
    )
    assert both.exit_code == 2
    assert not (tmp_path / "x").exists()


def test_damaged_files(tmp_path, frame) -> None:
    good = write("npz", frame, tmp_path).read_bytes()
    files = {
        "cut.npz": good[: len(good) // 2],
        "noise.npz": b"not a zip file",
        "empty.npz": b"",
        "empty.svm": b"",
        "bad.svm": b"spam 1:2\n",
        "bad.parquet": b"PAR1 no",
        "cut.csv.gz": b"\x1f\x8b\x08\x00",
        "header.csv": b"a,b,kind\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        result = run("compare", tmp_path / name, "--target", "kind")
        assert result.exit_code == 2, (name, result.output)
        assert name in result.stderr, (name, result.stderr)
        assert "Traceback" not in result.output


def test_names_with_brackets(tmp_path, frame) -> None:
    path = tmp_path / "na[red]me.csv"
    frame.to_csv(path, index=False)
    result = run("compare", path, "--target", "[/b]")
    assert result.exit_code == 2
    assert "na[red]me.csv has no column '[/b]'" in result.stderr


def test_sparse_npz_by_columns(tmp_path) -> None:
    path = tmp_path / "columns.npz"
    csc = sparse.csc_matrix(COUNTS.astype(float))
    parts = {"data": csc.data, "indices": csc.indices, "indptr": csc.indptr, "shape": csc.shape}
    np.savez(path, **parts, format=b"csc", y=LABELS)
    np.testing.assert_array_equal(read_table(path).X.toarray(), COUNTS)


def test_bad_options(tmp_path, frame) -> None:
    path = write("csv", frame, tmp_path)
    for options in (
        ["--space", "cube"],
        ["--report", tmp_path / "no" / "folder.html"],
        ["--folds", "1"],
    ):
        result = run("compare", path, "--target", "kind", *options)
        assert result.exit_code == 2
        assert "Traceback" not in result.output


def test_signed_rows_go_to_the_sphere() -> None:
    X = np.vstack([RNG.normal(loc=c, size=(20, 3)) for c in (1.0, -1.0)])
    steps = []
    result = compare(
        X, np.repeat([0, 1], 20), folds=2, progress=lambda done, total: steps.append((done, total))
    )
    assert result.kind == "directions"
    assert steps[-1][0] == steps[-1][1]
    assert sorted(set(steps)) == steps
    assert compare(np.abs(X), np.repeat([0, 1], 20), folds=2, space="sphere").kind == "directions"
    with pytest.raises(ValueError, match="rows"):
        compare(X, [0, 1] * 4, folds=2)


def test_a_forgotten_table_is_not_replaced_by_the_demonstration() -> None:
    for option in ("--target", "--drop", "--groups", "--text"):
        result = run("compare", option, "label")
        assert result.exit_code == 2
        assert f"{option} needs a table" in result.stderr


@pytest.mark.filterwarnings("ignore:the Gram matrix:mercer.exceptions.DegenerateKernelWarning")
def test_nested_scores_are_honest() -> None:
    # Labels without any relation to the rows: a score that leaks would be above chance.
    rng = np.random.default_rng(1)
    X, y = rng.poisson(3, size=(120, 40)) + 1, rng.permutation([0, 1] * 60)
    for score in compare(X, y, folds=3).scores:
        assert score.mean < 0.65


def test_report_of_digits(tmp_path) -> None:
    table = digits()
    result = compare(table.X[:100], table.y[:100], folds=2)
    write_report(result, "<digits>", tmp_path / "r.html")
    assert "&lt;digits&gt;" in (tmp_path / "r.html").read_text()
    assert "kernel" in result.verdict


def test_device_that_is_not_there(tmp_path, frame) -> None:
    path = tmp_path / "mail.csv"
    frame.to_csv(path, index=False)
    result = run("compare", path, "--target", "kind", "--device", "cuda:99")
    assert result.exit_code == 2
    missing = "is not available" if find_spec("torch") else "needs PyTorch"
    assert f"device 'cuda:99' {missing}" in result.stderr
