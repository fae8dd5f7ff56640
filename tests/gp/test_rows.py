"""The contract of sources of rows: every one of them gives the same rows, sums and fits."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from mercer.gp import ParquetBlocks, RowSource, SphericalGPClassifier, SphericalGPRegressor
from mercer.rows import (
    ArrayRows,
    Block,
    ColumnCheck,
    ParquetRows,
    open_rows,
    register,
    source_for,
    unregister,
)
from mercer.rows.blocks import checked

NAMES = ["a", "b", "c"]


# A source of one's own, from here ...
class Archives:
    """A folder of ``.npz`` files that hold X, y and weight."""

    def __init__(self, folder: Path) -> None:
        self.files = sorted(folder.glob("*.npz"))


class ArchiveRows(RowSource):
    """Rows of :class:`Archives`, a file at a time."""

    @classmethod
    def accepts(cls, X: Any, complete: bool) -> bool:
        return complete and isinstance(X, Archives)

    @property
    def columns(self) -> int:
        with np.load(self.X.files[0]) as file:
            return file["X"].shape[1]

    def fingerprint(self) -> str:
        stats = [path.stat() for path in self.X.files]
        return str(
            [(path, s.st_size, s.st_mtime_ns) for path, s in zip(self.X.files, stats, strict=True)]
        )

    def blocks(self, start: int = 0) -> Iterator[Block]:
        done = 0
        for path in self.X.files:
            with np.load(path) as file:
                block = checked(file["X"], file["y"], file["weight"], path.name)
            if block is not None and done >= start:
                yield block
            done += 0 if block is None else len(block.y)


# ... to here.  One call makes it known: register(ArchiveRows).


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register(ArchiveRows)
    yield
    unregister(ArchiveRows)


def table(m: int = 230, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 3)) * [1, 10, 0.1] + 5
    y = np.sin(X[:, 0]) + X[:, 1] / 10 + 0.1 * rng.normal(size=m) + 100
    return X, y, np.arange(m) % 3 * 0.5  # a third of the rows does not count


def parts(m: int) -> list[np.ndarray]:
    return np.array_split(np.arange(m), 4)


def blocks(X, y, w) -> list:
    return [(X[i], y[i], w[i]) for i in parts(len(y))]


def files(folder: Path, X, y, w) -> ParquetBlocks:
    frame = pd.DataFrame(X, columns=NAMES).assign(y=y, w=w)
    for number, i in enumerate(parts(len(y))):
        path = folder / f"{number}.parquet"
        frame.iloc[i].to_parquet(path, row_group_size=37, write_page_checksum=True)
    return ParquetBlocks(folder, target="y", weight="w", rows=20)


def archives(folder: Path, X, y, w) -> Archives:
    for number, i in enumerate(parts(len(y))):
        np.savez(folder / f"{number}.npz", X=X[i], y=y[i], weight=w[i])
    return Archives(folder)


def collection(X, y, w) -> tuple:
    chunks = tuple(len(i) for i in parts(len(y)))
    return tuple(da.from_array(part, chunks={0: chunks}) for part in (X, y, w))


def frame(X, y, w) -> tuple:
    whole = dd.from_pandas(pd.DataFrame(X, columns=NAMES).assign(y=y, w=w), npartitions=4)
    return whole[NAMES], whole["y"], whole["w"]


#: What to give to ``fit`` for rows, targets and weights, of every source.
GIVEN = {
    "arrays": lambda folder, *rows: rows,
    "memory map": lambda folder, X, y, w: (mapped(folder, X), y, w),
    "list": lambda folder, *rows: (blocks(*rows), None, None),
    "iterator": lambda folder, *rows: (iter(blocks(*rows)), None, None),
    "parquet": lambda folder, *rows: (files(folder, *rows), None, None),
    "dask arrays": lambda folder, *rows: collection(*rows),
    "dask frames": lambda folder, *rows: frame(*rows),
    "archives": lambda folder, *rows: (archives(folder, *rows), None, None),
}
SEVERAL = [name for name in GIVEN if name != "iterator"]


def mapped(folder: Path, X: np.ndarray) -> np.ndarray:
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


def opened(name: str, folder: Path, *rows) -> RowSource:
    model = SphericalGPRegressor()
    check = ColumnCheck(model, True, {"multi_output": True, "y_numeric": True})
    return open_rows(*GIVEN[name](folder, *rows), check)


def together(blocks) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    found = list(blocks)
    return (
        np.concatenate([block.X for block in found]),
        np.concatenate([block.targets() for block in found]),
        np.concatenate([block.weight for block in found]),
    )


@pytest.mark.parametrize("name", GIVEN)
def test_blocks_hold_all_rows_in_order(name, tmp_path) -> None:
    X, y, w = table()
    source = opened(name, tmp_path, X, y, w)
    assert source.columns == 3
    assert source.names in (None, NAMES)
    assert source.length in (None, 4, 230)
    first = source.first()
    if first is not None:  # a look, which uses nothing up
        np.testing.assert_array_equal(first.X, X[: len(first.y)])
    for got, expected in zip(together(source.blocks()), (X, y[:, None], w), strict=True):
        np.testing.assert_array_equal(got, expected)
        assert got.dtype == float


@pytest.mark.parametrize("name", SEVERAL)
def test_sums_go_on_from_a_position(name, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("mercer.rows.arrays.ROWS", 50)
    monkeypatch.setattr("mercer.rows.dask.ROUND", 1)
    X, y, w = table()
    source = opened(name, tmp_path, X, y, w)
    every = list(source.sums(lambda block: block.weight @ block.targets(), 0, True))
    assert len(every) > 2
    assert sum(part for _, part in every) == pytest.approx(w @ y)
    rest = list(source.sums(lambda block: block.weight @ block.targets(), every[1][0], True))
    assert [position for position, _ in rest] == [position for position, _ in every[2:]]
    assert sum(part for _, part in rest) == pytest.approx(sum(part for _, part in every[2:]))


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("most", [70, 1000])
def test_samples_are_those_of_an_array_and_count(name, most: int, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("mercer.rows.blocks.SAMPLE", most)
    X, y, w = table()
    got = opened(name, tmp_path, X, y, w).sample(5)
    expected = ArrayRows(X, y, w).sample(5)
    assert len(got.y) == min(most, np.count_nonzero(w))
    assert got.weight.all()
    for part in ("X", "y", "weight"):
        np.testing.assert_array_equal(getattr(got, part), getattr(expected, part))
    nothing = np.where(np.arange(230) < 100, 0.0, w)  # whole blocks that do not count
    got = opened(name, tmp_path, X, y, nothing).sample(5)
    np.testing.assert_array_equal(got.X, ArrayRows(X, y, nothing).sample(5).X)


def test_the_sample_of_an_iterator_is_its_beginning(tmp_path) -> None:
    X, y, w = table()
    source = opened("iterator", tmp_path, X, y, w)
    np.testing.assert_array_equal(source.sample(5).X, X)
    np.testing.assert_array_equal(together(source.blocks())[0], X)  # nothing is used up


@pytest.mark.parametrize("name", GIVEN)
def test_moments(name, tmp_path) -> None:
    X, y, w = table()
    rows = slice(len(parts(230)[0]) if name == "iterator" else None)
    found = opened(name, tmp_path, X, y, w).moments()
    mean = np.average(X[rows], axis=0, weights=w[rows])
    spread = np.average((X[rows] - mean) ** 2, axis=0, weights=w[rows])
    np.testing.assert_allclose(found.mean, mean, rtol=1e-13)
    np.testing.assert_allclose(found.scale, np.sqrt(spread), rtol=1e-12)
    assert found.weight == w[rows].sum()


@pytest.mark.parametrize("name", SEVERAL)
def test_other_rows_are_told_apart(name, tmp_path) -> None:
    X, y, w = table()
    one = opened(name, tmp_path, X, y, w).fingerprint()
    if name in ("list", "iterator"):  # the journal tells blocks apart, as they come
        assert one == ""
        return
    if name in ("arrays", "dask arrays", "dask frames"):
        assert opened(name, tmp_path, X.copy(), y.copy(), w.copy()).fingerprint() == one
    others = [(X + 1e-9, y, w), (X, y + 1, w), (X, y, w + 1), (X[:-1], y[:-1], w[:-1])]
    assert len({one, *(opened(name, tmp_path, *other).fingerprint() for other in others)}) == 5


@pytest.mark.parametrize("name", GIVEN)
def test_a_fit_that_was_stopped_goes_on_with_the_same_rows_only(name, tmp_path, monkeypatch) -> None:
    X, y, w = table()
    path, folder = tmp_path / "sums", tmp_path / "rows"
    folder.mkdir()
    model = SphericalGPRegressor(max_features=20, optimize=False)

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("mercer.rows.checkpoint.PERIOD", 0.0)
        patch.setattr(SphericalGPRegressor, "_finish", stop)
        with pytest.raises(KeyboardInterrupt):
            model.fit(*GIVEN[name](folder, X, y, w), checkpoint=path)
    times = [(file, file.stat()) for file in folder.iterdir()]
    with pytest.raises(ValueError, match=r"other rows|is not the one"):
        model.fit(*GIVEN[name](folder, X + 1, y, w), checkpoint=path)
    given = GIVEN[name](folder, X, y, w)
    for file, stat in times:  # the files as they were
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    model.fit(*given, checkpoint=path)
    assert model.statistics_.rows == 230
    assert not path.exists()


@pytest.mark.parametrize("name", SEVERAL)
def test_fits_are_equal(name, tmp_path) -> None:
    X, y, w = table()
    w = w + 0.1
    rows = pd.DataFrame(X, columns=NAMES) if name in ("parquet", "dask frames") else X
    whole = SphericalGPRegressor(max_features=30).fit(X, y, w)
    model = SphericalGPRegressor(max_features=30).fit(*GIVEN[name](tmp_path, X, y, w))
    for got, expected in zip(
        model.predict(rows, return_std=True), whole.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(got, expected, atol=1e-10, rtol=0)
    assert model.n_features_in_ == 3
    labels = np.where(y > 100, "high", "low")
    options = {"max_features": 20, "tol": 1e-3}
    classes = SphericalGPClassifier(**options).fit(X, labels, w)
    got = SphericalGPClassifier(**options).fit(*GIVEN[name](tmp_path, X, labels, w))
    np.testing.assert_allclose(got.predict_proba(rows), classes.predict_proba(X), atol=1e-9, rtol=0)


def test_files_that_are_moved_have_blocks_of_the_same_names(tmp_path) -> None:
    """Draws for certificates depend on these."""
    names = []
    for folder in (tmp_path / "here", tmp_path / "there" / "below"):
        folder.mkdir(parents=True)
        names.append([block.name for block in ParquetRows(files(folder, *table())).blocks()])
    assert names[0] == names[1]
    assert len(set(names[0])) == len(names[0])


def test_the_latest_source_is_asked_first() -> None:
    assert source_for(Archives(Path("nowhere")), complete=True) is ArchiveRows
    unregister(ArchiveRows)
    with pytest.raises(ValueError, match="requires y to be passed"):
        source_for(Archives(Path("nowhere")), complete=True)
    register(ArchiveRows)
    lines = Path(__file__).read_text().splitlines()
    begin, end = (
        next(i for i, line in enumerate(lines) if word in line) for word in ("from here", "to here")
    )
    assert end - begin < 60
