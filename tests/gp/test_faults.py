"""Faults that a review of Gaussian processes, and of what came with them, has found."""

import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars
import pytest
from scipy import sparse

from mercer._files import atomic_write, seal
from mercer.gp import ParquetBlocks, SphericalGPClassifier, SphericalGPRegressor, Statistics
from mercer.gp.rows import ArrayRows, ParquetRows, StreamRows
from mercer.kernels import Heat
from mercer.spaces import Sphere

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)) * [1, 5, 0.2]
Y = np.sin(X[:, 0]) + X[:, 1]
FRAME = pd.DataFrame(X, columns=list("abc"))


def small(**options) -> SphericalGPRegressor:
    return SphericalGPRegressor(max_features=20, levels=3, optimize=False, **options)


@pytest.mark.parametrize("frame", [pd.DataFrame, polars.DataFrame])
@pytest.mark.parametrize("order", ["cba", "abd", "ab"])
def test_frames_with_other_columns_are_refused(frame, order: str) -> None:
    second = FRAME[30:].assign(d=1.0)[list(order)]
    blocks = [(frame(part.to_dict("list")), y) for part, y in ((FRAME[:30], Y[:30]), (second, Y[30:]))]
    message = rf"X of block 1 has the columns {', '.join(order)}, but the columns a, b, c in the first"
    for source in (blocks, iter(blocks)):
        with pytest.raises(ValueError, match=message):
            small().fit(source)


def test_frames_beside_arrays_and_numbered_columns() -> None:
    with pytest.raises(ValueError, match="X of block 1 has no names of columns, but the columns a, b"):
        small().fit([(FRAME[:30], Y[:30]), (X[30:], Y[30:])])
    numbered = pd.DataFrame(X)
    with pytest.raises(ValueError, match="X of block 1 has the columns 2, 1, 0, but no names"):
        small().fit([(numbered[:30], Y[:30]), (numbered[30:][[2, 1, 0]], Y[30:])])
    model = small().fit([(numbered[:30], Y[:30]), (X[30:], Y[30:])])
    assert not hasattr(model, "feature_names_in_")
    two = pd.DataFrame({"u": Y, "v": -Y})
    with pytest.raises(ValueError, match="y of block 1 has the columns v, u, but the columns u, v"):
        small().fit([(X[:30], two[:30]), (X[30:], two[30:][["v", "u"]])])


def test_blocks_know_their_names(tmp_path) -> None:
    FRAME.assign(y=Y).to_parquet(tmp_path / "0.parquet")
    files = ParquetBlocks(tmp_path, target="y")
    pairs = [(FRAME[:30], Y[:30]), (FRAME[30:], Y[30:])]
    for blocks in (ParquetRows(files), StreamRows(pairs), StreamRows(iter(pairs))):
        assert blocks.names == ["a", "b", "c"]
        assert sum(len(block.y) for block in blocks.blocks()) == 60  # nothing is used up
    for blocks in (ArrayRows(X, Y), StreamRows([(X, Y)]), StreamRows([(pd.DataFrame(X), Y)])):
        assert blocks.names is None
    for source in (files, pairs, iter(pairs)):
        model = small().fit(source)
        assert list(model.feature_names_in_) == ["a", "b", "c"]
        with pytest.raises(ValueError, match="feature names"):
            model.predict(FRAME[["c", "b", "a"]])
        with pytest.raises(ValueError, match="c, b, a"):
            model.partial_fit([(FRAME[["c", "b", "a"]], Y)])


class Again:
    """Blocks that can be read again but not counted."""

    def __init__(self, blocks) -> None:
        self.blocks = blocks

    def __iter__(self):
        return iter(self.blocks)


PAIRS = [(X[i : i + 10], Y[i : i + 10]) for i in range(0, 60, 10)]


def interrupt(*_, **__):
    raise KeyboardInterrupt


def kept(path) -> dict:
    """Results in a checkpoint, by name; tuples of numbers and of parts that are left as they are."""
    with np.load(path) as file:
        results = json.loads(file["tree"].tobytes())["results"]["dict"]
    return {name: one["tuple"] for name, one in results.items() if "tuple" in one}


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    """Makes the checkpoint of a fit that was stopped after all its passes."""
    path = tmp_path / "sums"

    def make(source, **options):
        with monkeypatch.context() as patch:
            patch.setattr("mercer.gp.checkpoint.PERIOD", 0.0)
            patch.setattr(SphericalGPRegressor, "_finish", interrupt)
            with pytest.raises(KeyboardInterrupt):
                small(**options).fit(source, checkpoint=path)
        assert kept(path)["statistics"][2]
        return path

    return make


@pytest.mark.parametrize("kernel", [None, Heat(Sphere())])
@pytest.mark.parametrize("kind", [list, iter, Again])
def test_other_blocks_than_those_of_the_sums_are_refused(stopped, kernel, kind) -> None:
    path = stopped(kind(PAIRS), kernel=kernel)
    before = path.read_bytes()
    for other, message in (
        (PAIRS[:4], "there are 4 blocks, not the 6 that the checkpoint was made with"),
        ([*PAIRS, PAIRS[0]], "are 7 blocks, not the 6 that|block 6 is not one of the 6 that"),
        ([*PAIRS[:5], PAIRS[0]], "block 5 is not the one that the checkpoint was made with"),
    ):
        with pytest.raises(ValueError, match=message):
            small(kernel=kernel).fit(kind(other), checkpoint=path)
        assert path.read_bytes() == before
    model = small(kernel=kernel).fit(kind(PAIRS), checkpoint=path)
    assert model.elbo_ == small(kernel=kernel).fit(kind(PAIRS)).elbo_
    assert not path.exists()


def broken(blocks):
    yield from blocks
    raise ConnectionError


def test_blocks_that_are_missing_before_the_end_was_seen(tmp_path) -> None:
    model = small(kernel=Heat(Sphere()))
    with pytest.raises(ConnectionError):
        model.fit(broken(PAIRS[:4]), checkpoint=tmp_path / "sums")
    with pytest.raises(ValueError, match="there are 3 blocks, not at least the 4 that the checkpoint"):
        model.fit(PAIRS[:3], checkpoint=tmp_path / "sums")
    model.fit(iter(PAIRS), checkpoint=tmp_path / "sums")  # more may come
    assert model.statistics_.rows == 60


def test_sums_of_an_iterator_are_not_those_of_a_list(stopped) -> None:
    # The columns of an iterator are scaled by its first block.
    with pytest.raises(ValueError, match="other features, of blocks given as an iterator or not"):
        small().fit(PAIRS, checkpoint=stopped(iter(PAIRS)))


def test_other_blocks_between_two_sweeps_are_refused(tmp_path, monkeypatch) -> None:
    labels = [(x, y > 0) for x, y in PAIRS]
    model = SphericalGPClassifier(max_features=10, levels=2)
    with monkeypatch.context() as patch:
        patch.setattr(SphericalGPClassifier, "_infer", interrupt)
        patch.setattr("mercer.gp.checkpoint.PERIOD", 0.0)
        with pytest.raises(KeyboardInterrupt):
            model.fit(Again(labels), checkpoint=tmp_path / "state")
    with pytest.raises(ValueError, match="there are 5 blocks, not the 6"):
        model.fit(Again(labels[:5]), checkpoint=tmp_path / "state")


def test_the_first_block_is_looked_at_without_a_pass_of_its_own() -> None:
    passes = []

    class Counted(Again):
        def __iter__(self):
            passes.append(0)
            for block in self.blocks:
                passes[-1] += 1
                yield block

    small().fit(Counted(PAIRS))
    assert [count for count in passes if count] == [6, 6]  # moments and statistics


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps({"a": 1}),
        pickle.dumps({"a": 1, "b": 2}),
        pickle.dumps((1, 2)),
        pickle.dumps(({}, [])),
        b"cmissing_module\nthing\n.",
        b"cmercer.gp\nMissing\n.",
        b"",
    ],
    ids=["one key", "two keys", "numbers", "list", "module", "class", "empty"],
)
def test_foreign_files_are_no_checkpoints(tmp_path, content: bytes) -> None:
    path = tmp_path / "sums"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"sums is no checkpoint of a fit.*give another path"):
        small().fit(X, Y, checkpoint=path)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ((X, sparse.csr_array(Y[:, None])), "y of block 1 is sparse"),
        ((X, 3.0), "y of block 1 is a single float"),
        ((X, None), "y of block 1 is a single NoneType"),
        ((X, [[1.0]] * 59 + [[1.0, 2.0]]), "y of block 1: .*inhomogeneous"),
        ((X, np.arange(60).astype("M8[D]")), r"y of block 1: datetime64\[D\] is no number"),
        ((X, Y, 2.0), "weight of block 1 is a single float"),
        ((X, Y, ["a"] * 60), "weight of block 1: could not convert"),
        ((X, Y, sparse.csr_array(Y[:, None])), "weight of block 1 is sparse"),
        ((None, Y), "X of block 1 is a single NoneType"),
        ((3.0, Y), "X of block 1 is a single float"),
        ((X[:, 0], Y), "X of block 1: Expected 2D array"),
        ((X.astype(str).astype(object) + "m", Y), "X of block 1: could not convert string"),
        ((np.zeros((60, 3), "M8[s]"), Y), r"X of block 1: datetime64\[s\] is no number"),
    ],
)
def test_bad_parts_of_blocks_are_named(block, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small().fit([(X, Y), block])


def test_bad_columns_of_frames_are_named() -> None:
    days = pd.date_range("2020-01-01", periods=60)
    for frame, message in (
        (FRAME.assign(d=days), r"X of block 0: column 'd' holds datetime64\[.*not numbers"),
        (
            FRAME.assign(a=np.nan, d="low"),
            "X of block 0: column 'd' holds .*not numbers: could not convert",
        ),
        (FRAME.set_axis(["a", "a", "b"], axis=1), "X of block 0: .*unique column names"),
        (FRAME.set_axis(["a", 1, "b"], axis=1), "X of block 0: .*all input features have string"),
    ):
        with pytest.raises(ValueError, match=message):
            small().fit([(frame, Y)])


def test_dates_are_no_targets() -> None:
    with pytest.raises(ValueError, match=r"datetime64\[D\] is no number"):
        small().fit(X, np.arange(60).astype("M8[D]"))


def test_columns_of_files_are_checked_before_the_work(tmp_path) -> None:
    path = tmp_path / "0.parquet"
    days = pd.date_range("2020-01-01", periods=60)
    FRAME.assign(y=Y, text="low", day=days, pair=[[1, 2]] * 60, w=1).to_parquet(path)
    for options, message in (
        ({"target": "y", "columns": []}, "columns is empty"),
        ({"target": "y", "columns": "abc"}, "columns must be a list of names, got 'abc'"),
        ({"target": []}, "target is empty"),
        ({"target": "y", "columns": ["a", "a"]}, "the column 'a' is named twice"),
        ({"target": "y", "columns": ["a", "y"]}, "the column 'y' is named twice"),
        ({"target": "y"}, "column 'text' of .*0.parquet holds .*string, not numbers"),
        ({"target": "y", "columns": ["a", "day"]}, "column 'day' of .*0.parquet holds timestamp"),
        ({"target": "y", "columns": ["a"], "weight": "text"}, "column 'text' of .*0.parquet holds"),
        ({"target": ["y", "text"], "columns": ["a"]}, "column 'text' of .*0.parquet holds"),
        ({"target": "pair", "columns": ["a"]}, "column 'pair' of .*0.parquet holds list"),
        ({"target": "day", "columns": ["a", "b"]}, r"y of .*0.parquet.*: datetime64\[.*is no number"),
        ({"target": "text", "columns": ["a"]}, "y of .*0.parquet.*: could not convert string"),
        ({"target": "y", "columns": ["a", "z"]}, "0.parquet has no column 'z'"),
    ):
        with pytest.raises(ValueError, match=message):
            small().fit(ParquetBlocks(path, **options))
    with pytest.raises(FileNotFoundError, match="no Parquet file"):
        small().fit(ParquetBlocks([], target="y"))
    model = small().fit(ParquetBlocks([path], target="y", columns=list("abc"), weight="w"))
    assert model.elbo_ == pytest.approx(small().fit(X, Y).elbo_, rel=1e-10)
    only = tmp_path / "1.parquet"
    FRAME[["a"]].to_parquet(only)
    with pytest.raises(ValueError, match="no column to predict from beside a"):
        small().fit(ParquetBlocks(only, target="a"))


def test_other_arrays_are_no_statistics(tmp_path) -> None:
    saved, path = small().fit(X, Y).statistics_, tmp_path / "s.npz"
    saved.save(path)
    np.testing.assert_array_equal(Statistics.load(path).gram, saved.gram)
    whole = path.read_bytes()
    with np.load(path) as file:
        stored = dict(file)

    def refused(reason: str) -> None:
        with pytest.raises(ValueError, match=rf"s.npz holds no statistics: .*{reason}.*Statistics.save"):
            Statistics.load(path)

    def write(**arrays) -> None:
        with atomic_write(path) as file:
            np.savez(file, **arrays)
            seal(file, "statistics", 1)

    write(a=X)
    refused("gram")
    write(**stored | {"linear": stored["linear"][1:]})
    refused("linear has shape")
    write(**stored | {"gram": stored["gram"].astype(str)})
    refused("gram has shape")
    write(**stored | {"rows": np.array("many")})
    refused("many")
    np.savez(path, **stored)
    refused("does not end like a statistics file")
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 1
    path.write_bytes(changed)
    refused("checksum")
    with open(path, "wb") as file:
        np.save(file, X)
    refused("")
    for content in (b"", b"text", whole[:-40]):
        path.write_bytes(content)
        refused("")
    with pytest.raises(FileNotFoundError):
        Statistics.load(tmp_path / "nowhere.npz")


_PAGES = """
from pathlib import Path
from mercer.reproduce import find, output
from mercer.reproduce.experiment import Result, Table
run = output.Run(find("sphere-heat"), "command", True, True, False, 1.0, 1.0)
for _ in range(2):
    output.write(Result([Table("\\u03b7 small", ("n",), [(1,)])], []), run, Path("."))
"""


def test_pages_are_written_in_any_locale(tmp_path) -> None:
    plain = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    run = subprocess.run(
        [sys.executable, "-c", _PAGES], cwd=tmp_path, env=plain, capture_output=True, check=False
    )
    assert run.returncode == 0, run.stderr.decode()
    for ending in ("md", "json"):
        assert "\u03b7 small" in (tmp_path / f"sphere-heat.{ending}").read_text(encoding="utf-8")


def test_a_refused_refit_leaves_the_model_as_it_was() -> None:
    model = small().fit(X, Y)
    before = model.predict(X)
    for change in ({"noise": -1.0}, {"kernel": Heat(Sphere()), "noise": 0.5}):
        with pytest.raises(ValueError, match=r"noise must be|needs other features"):
            model.refit(**change)
    assert model.noise == 0.1
    np.testing.assert_array_equal(model.refit().predict(X), before)


def test_kernels_and_priors_of_other_kinds_are_refused() -> None:
    with pytest.raises(TypeError, match=r"the kernel must be ArcCosine, or Heat, .*got 'rbf'"):
        SphericalGPRegressor("rbf").fit(X, Y)
    with pytest.raises(ValueError, match="class_prior must hold 2 probabilities"):
        SphericalGPClassifier(class_prior={0: 0.5, 1: 0.5}, max_features=10).fit(X, Y > 0)
