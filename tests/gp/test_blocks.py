"""Blocks of arrays and data frames: their columns, their names, and parts that are refused."""

import numpy as np
import pandas as pd
import polars
import pytest
from scipy import sparse

from mercer.gp import ParquetBlocks, SphericalGPRegressor
from mercer.rows import ArrayRows, ParquetRows, StreamRows

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


def test_names_of_columns_do_not_outlive_a_fit() -> None:
    model = SphericalGPRegressor(max_features=20).fit(pd.DataFrame(X, columns=list("abc")), Y)
    model.fit([(X[:, :2], Y)])
    assert not hasattr(model, "feature_names_in_")
    assert model.predict(X[:, :2]).shape == (60,)


def test_the_first_block_is_looked_at_without_a_pass_of_its_own() -> None:
    passes, blocks = [], [(X[i : i + 10], Y[i : i + 10]) for i in range(0, 60, 10)]

    class Counted:
        def __iter__(self):
            passes.append(0)
            for block in blocks:
                passes[-1] += 1
                yield block

    small().fit(Counted())
    assert [count for count in passes if count] == [6, 6]  # moments and statistics


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ((X, sparse.csr_array(Y[:, None])), "y of block 1 is sparse"),
        ((X, 3.0), "y of block 1 is a single float"),
        ((X, None), "y of block 1 is a single NoneType"),
        ((X, [[1.0]] * 59 + [[1.0, 2.0]]), "y of block 1: .*inhomogeneous"),
        ((X, np.arange(60).astype("M8[D]")), r"y of block 1: datetime64\[D\] is not a number"),
        ((X, Y, 2.0), "weight of block 1 is a single float"),
        ((X, Y, ["a"] * 60), "weight of block 1: could not convert"),
        ((X, Y, sparse.csr_array(Y[:, None])), "weight of block 1 is sparse"),
        ((None, Y), "X of block 1 is a single NoneType"),
        ((3.0, Y), "X of block 1 is a single float"),
        ((X[:, 0], Y), "X of block 1: Expected 2D array"),
        ((X.astype(str).astype(object) + "m", Y), "X of block 1: could not convert string"),
        ((np.zeros((60, 3), "M8[s]"), Y), r"X of block 1: datetime64\[s\] is not a number"),
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
    with pytest.raises(ValueError, match=r"datetime64\[D\] is not a number"):
        small().fit(X, np.arange(60).astype("M8[D]"))
