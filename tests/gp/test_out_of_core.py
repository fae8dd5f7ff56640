"""Passes over files and streams: bounded memory, and fits that go on where they were stopped."""

import os
import pickle
import subprocess
import sys

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from mercer.gp import (
    ParquetBlocks,
    SphericalGPClassifier,
    SphericalGPPoissonRegressor,
    SphericalGPRegressor,
)
from mercer.gp.features import HarmonicFeatures
from mercer.kernels import Heat
from mercer.rows import DaskRows
from mercer.spaces import Sphere
from tests.helpers.processes import kept, uneven_table, write


@pytest.fixture
def written(monkeypatch):
    """Counts the rows whose features are computed, and stops the work after so many of them."""

    class Counter:
        rows, most, error = 0, float("inf"), KeyboardInterrupt

        def allow(self, most: float, error: type = KeyboardInterrupt) -> None:
            self.rows, self.most, self.error = 0, most, error

    counter, usual = Counter(), HarmonicFeatures.write

    def write(self, rows, out):
        if counter.rows + len(out) > counter.most:
            raise counter.error
        counter.rows += len(out)
        return usual(self, rows, out)

    monkeypatch.setattr(HarmonicFeatures, "write", write)
    return counter


def same(model, other) -> None:
    """Equal in every bit."""
    for name in ("gram", "linear", "squares"):
        np.testing.assert_array_equal(getattr(model.statistics_, name), getattr(other.statistics_, name))
    np.testing.assert_array_equal(model.theta_, other.theta_)
    assert model.statistics_.rows == other.statistics_.rows
    assert model.elbo_ == other.elbo_


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_stopped_pass_over_files_goes_on(tmp_path, written, error) -> None:
    X, y = uneven_table(600)
    write(tmp_path, X, y)
    source, path = ParquetBlocks(tmp_path, target="y", rows=20), tmp_path / "sums"
    whole = SphericalGPRegressor(max_features=40).fit(source)
    model = SphericalGPRegressor(max_features=40)
    written.allow(330, error)
    with pytest.raises(error):
        model.fit(source, checkpoint=path)
    assert written.rows == 320  # blocks of 20, 20 and 10 rows
    assert path.exists()
    # What was read before is not touched again: a file that is done can be spoilt in its place.
    first = tmp_path / "0.parquet"
    stat, content = first.stat(), bytearray(first.read_bytes())
    content[4:1000] = bytes(996)
    first.write_bytes(content)
    os.utime(first, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(OSError, match=r"Parquet|[Ss]nappy|page"):
        next(iter(ParquetBlocks(first, target="y", rows=20)))
    written.allow(float("inf"))
    again = SphericalGPRegressor(max_features=40).fit(source, checkpoint=str(path))
    assert written.rows == 280
    assert not path.exists()
    same(again, whole)


def test_stopped_pass_over_an_array_goes_on(tmp_path, written, monkeypatch) -> None:
    monkeypatch.setattr("mercer.rows.arrays.ROWS", 50)
    X, y = uneven_table(400)
    w, path = 1.0 + np.arange(400) % 3, tmp_path / "sums"
    whole = SphericalGPRegressor(max_features=40).fit(X, y, w)
    for _ in range(3):  # stopped more than once
        written.allow(100)
        with pytest.raises(KeyboardInterrupt):
            SphericalGPRegressor(max_features=40).fit(X, y, w, checkpoint=path)
    written.allow(float("inf"))
    again = SphericalGPRegressor(max_features=40).fit(X, y, w, checkpoint=path)
    assert written.rows == 100
    same(again, whole)


@pytest.mark.parametrize("once", [True, False])
def test_stopped_stream_goes_on(tmp_path, written, once: bool) -> None:
    X, y = uneven_table(400)
    pairs = [(X[i : i + 40], y[i : i + 40]) for i in range(0, 400, 40)]

    def stream(stop: int):
        yield from pairs[:stop]
        raise ConnectionError("lost")

    class Blocks:
        """Blocks that can be read again, and fail in the second pass."""

        passes = 0

        def __iter__(self):
            Blocks.passes += 1
            yield from stream(6) if Blocks.passes > 1 else pairs

    path, model = tmp_path / "sums", SphericalGPRegressor(max_features=40)
    whole = SphericalGPRegressor(max_features=40).fit(iter(pairs) if once else pairs)
    written.allow(float("inf"))
    with pytest.raises(ConnectionError, match="lost"):
        model.fit(stream(6) if once else Blocks(), checkpoint=path)
    assert written.rows == 240
    with pytest.raises(ValueError, match="there are 80 rows, but the checkpoint was made after 240"):
        model.fit(iter(pairs[:2]), checkpoint=path)
    other = [*pairs[:3], (X[:40], y[:40]), *pairs[4:]]
    with pytest.raises(ValueError, match="block 3 is not the one"):
        model.fit(iter(other), checkpoint=path)
    written.allow(float("inf"))
    model.fit(iter(pairs) if once else pairs, checkpoint=path)
    assert written.rows == 160
    same(model, whole)


def test_checkpoint_of_another_fit_is_refused(tmp_path, written) -> None:
    X, y = uneven_table(200)
    path = tmp_path / "sums"
    written.allow(0)
    with pytest.raises(KeyboardInterrupt):
        SphericalGPRegressor(max_features=40).fit(X, y, checkpoint=path)
    written.allow(float("inf"))
    for model, message in (
        (SphericalGPRegressor(max_features=41), r"other max_features \(a parameter\)"),
        (SphericalGPRegressor(Heat(Sphere()), max_features=40), r"other kernel \(a parameter\)"),
        (SphericalGPPoissonRegressor(max_features=40), "other estimator"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(X, y, checkpoint=path)
    model = SphericalGPRegressor(max_features=40)
    for rows, targets in ((X + 1e-12, y), (X, y + 1), (X[1:], y[1:])):
        with pytest.raises(ValueError, match="other rows"):
            model.fit(rows, targets, checkpoint=path)
    write(tmp_path, X, y)
    source = ParquetBlocks(tmp_path, target="y")
    with pytest.raises(ValueError, match="other rows"):
        model.fit(source, checkpoint=path)
    path.write_bytes(b"something else")
    with pytest.raises(ValueError, match="is not a checkpoint"):
        model.fit(X, y, checkpoint=path)
    path.write_bytes(pickle.dumps([1]))
    with pytest.raises(ValueError, match="is not a checkpoint"):
        model.fit(X, y, checkpoint=path)
    with pytest.raises(FileNotFoundError):
        model.fit(X, y, checkpoint=tmp_path / "nowhere" / "sums")
    written.allow(0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(source, checkpoint=tmp_path / "files")
    (tmp_path / "1.parquet").touch()  # might have changed
    with pytest.raises(ValueError, match="other rows"):
        model.fit(source, checkpoint=tmp_path / "files")


@pytest.mark.parametrize("kind", [SphericalGPClassifier, SphericalGPPoissonRegressor])
def test_stopped_sweeps_go_on(tmp_path, written, kind) -> None:
    X, y = uneven_table(300)
    y = (y > 100).astype(int) * (1 if kind is SphericalGPClassifier else 5)
    write(tmp_path, X, y)
    source, path = ParquetBlocks(tmp_path, target="y", rows=25), tmp_path / "state"
    written.allow(float("inf"))
    whole = kind(max_features=30).fit(source)
    needed = written.rows
    assert needed > 900
    done = 0
    while True:
        written.allow(700)
        try:
            model = kind(max_features=30).fit(source, checkpoint=path)
        except KeyboardInterrupt:
            done += written.rows
        else:
            break
    assert done + written.rows == needed  # no row twice in any pass
    written.allow(float("inf"))
    assert model.n_iter_ == whole.n_iter_
    assert model.elbo_ == whole.elbo_
    named = pd.DataFrame(X, columns=["a", "b", "c"])
    np.testing.assert_array_equal(model._latent_moments(named), whole._latent_moments(named))
    assert not path.exists()


def test_stopped_dask_goes_on(tmp_path, written, monkeypatch) -> None:
    monkeypatch.setattr("mercer.rows.dask.ROUND", 2)
    X, y = uneven_table(400)
    blocks, targets = da.from_array(X, chunks=(50, 3)), da.from_array(y, chunks=50)
    path, model = tmp_path / "sums", SphericalGPRegressor(max_features=40)
    expected = model.fit(X, y).predict(X)
    written.allow(250, MemoryError)
    with pytest.raises(MemoryError):
        model.fit(blocks, targets, checkpoint=path)
    with pytest.raises(ValueError, match="other rows"):
        model.fit(blocks + 1, targets, checkpoint=path)
    written.allow(200)
    model.fit(blocks, targets, checkpoint=path)
    assert written.rows == 200
    written.allow(float("inf"))
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-10)


def test_dask_frames_are_told_apart() -> None:
    def identity(X: np.ndarray, y: np.ndarray) -> str:
        # Columns that are called like attributes of Dask's.
        data = dd.from_pandas(
            pd.DataFrame(X, columns=["name", "chunks", "c"]).assign(y=y), npartitions=2
        )
        return DaskRows(data[["name", "chunks", "c"]], data["y"], None).fingerprint()

    X, y = uneven_table(30)
    assert identity(X, y) == identity(X, y)
    assert len({identity(X, y), identity(2 * X, y), identity(X, 2 * y)}) == 3


def test_sums_are_written_now_and_then(tmp_path, monkeypatch) -> None:
    X, y = uneven_table(200)
    path, sizes = tmp_path / "sums", []

    def stream():
        for i in range(0, 200, 40):
            yield X[i : i + 40], y[i : i + 40]
            sizes.append(kept(path).get("statistics", (0,))[0])

    monkeypatch.setattr("mercer.rows.checkpoint.PERIOD", 0.0)
    SphericalGPRegressor(max_features=20).fit(stream(), checkpoint=path)
    assert sizes == [40, 80, 120, 160, 200]
    assert os.listdir(tmp_path) == []


def test_sample_of_files_is_that_of_an_array(tmp_path, monkeypatch) -> None:
    from mercer.rows import ArrayRows, ParquetRows

    monkeypatch.setattr("mercer.rows.blocks.SAMPLE", 70)
    X, y = uneven_table(300)
    write(tmp_path, X, y)
    for path in tmp_path.iterdir():  # an index that pandas writes as a column is none
        frame = pd.read_parquet(path)
        frame.set_axis(np.random.default_rng(0).permutation(len(frame))).to_parquet(path)
    got = ParquetRows(ParquetBlocks(tmp_path, target="y", rows=33)).sample(5)
    expected = ArrayRows(X, y).sample(5)
    assert got.X.shape == (70, 3)
    np.testing.assert_array_equal(got.X, expected.X)
    np.testing.assert_array_equal(got.y, expected.y)


def test_text_labels_and_bad_rows_of_files(tmp_path) -> None:
    X, y = uneven_table(200)
    labels = np.where(y > 100, "high", "low")
    write(tmp_path, X, labels)
    source = ParquetBlocks(tmp_path, target="y", rows=30)
    model = SphericalGPClassifier(max_features=20, tol=1e-2)
    named = pd.DataFrame(X, columns=["a", "b", "c"])
    np.testing.assert_allclose(
        model.fit(source).predict_proba(named), model.fit(X, labels).predict_proba(X), atol=1e-10
    )
    assert list(model.classes_) == ["high", "low"]
    with pytest.raises(ValueError, match="rows must be a whole number of at least 1, got 0"):
        model.fit(ParquetBlocks(tmp_path, target="y", rows=0))
    with pytest.raises(ValueError, match="all weights are zero"):
        SphericalGPRegressor(Heat(Sphere())).fit([(X, y, np.zeros(200))])
    with pytest.raises(ValueError, match=r"y of .*parquet, .*could not convert string"):
        SphericalGPRegressor().fit(source)
    with pytest.raises(ValueError, match="some labels are numbers"):
        model.fit([(X, labels), (X, y > 0)])
    labels[3] = None
    with pytest.raises(ValueError, match="y of block 0 contains NaN or infinity, first in row 3"):
        model.fit([(X, pd.Series(labels).replace("None", None))])
    X[110, 2] = np.nan
    write(tmp_path, X, y)
    with pytest.raises(
        ValueError, match=r"X of .*1.parquet, row group 0, rows from 30 on contains NaN .* in row 13"
    ):
        SphericalGPRegressor().fit(source)


_PEAKS = """
import resource, sys
from mercer.gp import ParquetBlocks, SphericalGPRegressor
for folder in sys.argv[1:]:
    model = SphericalGPRegressor(max_features=10, levels=2, optimize=False)
    model.fit(ParquetBlocks(folder, target="y", rows=8192))
    print(model.statistics_.rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_files(tmp_path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100_000, 8))
    frame = pd.DataFrame(X, columns=list("abcdefgh")).assign(y=X[:, 0])
    few, many = tmp_path / "few", tmp_path / "many"
    few.mkdir()
    many.mkdir()
    frame.to_parquet(few / "0.parquet", row_group_size=20_000)
    for i in range(8):
        (many / f"{i}.parquet").symlink_to(few / "0.parquet")
    run = subprocess.run(
        [sys.executable, "-c", _PEAKS, few, many], capture_output=True, text=True, check=True
    )
    rows, peaks = zip(*[map(int, line.split()) for line in run.stdout.splitlines()], strict=True)
    assert rows == (100_000, 800_000)
    assert peaks[1] - peaks[0] < 20_000  # kilobytes; the rows take 58 MB


def test_columns_of_files_are_checked_before_the_work(tmp_path) -> None:
    def small() -> SphericalGPRegressor:
        return SphericalGPRegressor(max_features=20, levels=3, optimize=False)

    X, Y = uneven_table(60)
    frame, path = pd.DataFrame(X, columns=list("abc")), tmp_path / "0.parquet"
    days = pd.date_range("2020-01-01", periods=60)
    frame.assign(y=Y, text="low", day=days, pair=[[1, 2]] * 60, w=1).to_parquet(path)
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
        ({"target": "day", "columns": ["a", "b"]}, r"y of .*0.parquet.*: datetime64\[.*is not a number"),
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
    frame[["a"]].to_parquet(only)
    with pytest.raises(ValueError, match="no column to predict from besides a"):
        small().fit(ParquetBlocks(only, target="a"))


def test_files_beside_targets_and_for_prediction_are_refused(tmp_path) -> None:
    X, Y = uneven_table(60)
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=Y)
    frame.to_parquet(tmp_path / "0.parquet", write_page_checksum=True)
    blocks = ParquetBlocks(tmp_path, target="y")
    model = SphericalGPRegressor(max_features=20, levels=3, optimize=False).fit(blocks)
    with pytest.raises(ValueError, match="predict the X of one block after another"):
        model.predict(blocks)
    with pytest.raises(ValueError, match="the targets of X are its column 'y'; leave y out"):
        model.fit(blocks, Y)
