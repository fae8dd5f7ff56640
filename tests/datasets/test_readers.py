"""Readers of files that are damaged, or claim what they do not hold."""

import io
import time
import zipfile
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from scipy import sparse

from mercer._arrow import lacks_checksums
from mercer._npz import Npz
from mercer.datasets import read_clouds, read_nodes, read_strings, read_table
from mercer.gp import ParquetBlocks, SphericalGPRegressor

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.poisson(3, (40, 3)), columns=list("abc")).assign(kind=["spam", "ham"] * 20)


def refusal(path: Path, read=read_table, **options) -> str:
    """What a reader says against a file; one line that names it."""
    with pytest.raises(ValueError) as told:  # noqa: PT011
        read(path, **options)
    text = str(told.value)
    assert path.name in text
    assert text.isprintable()
    return text


def feather(path: Path, table: pa.Table) -> bytearray:
    pyarrow.feather.write_feather(table, path, compression="uncompressed")
    return bytearray(path.read_bytes())


def with_offset(content: bytearray, marker: bytes, offset: int) -> bytes:
    """The offsets of a column of strings, with a wrong one in the middle."""
    place = content.index(marker)
    content[place + 8 : place + 12] = offset.to_bytes(4, "little", signed=True)
    return bytes(content)


@pytest.mark.parametrize("offset", [-1, 50, 100_000, 2**31 - 1])
def test_wrong_offsets_of_feather_files(tmp_path, offset: int) -> None:
    path = tmp_path / "a.feather"
    words = ["one", "three", "seventeen"]
    content = feather(path, pa.table({"text": words, "y": [1, 2, 3]}))
    marker = np.array([0, 3, 8, 17], dtype=np.int32).tobytes()
    path.write_bytes(with_offset(content, marker, offset))
    assert "Offset" in refusal(path, read_strings, target="y", text="text")


def test_more_rows_than_memory_are_refused_before_they_are_made(tmp_path) -> None:
    path = tmp_path / "a.feather"
    nulls = pa.NullArray.from_buffers(pa.null(), 10**13, [None])  # nothing but a number
    empty = pa.RecordBatch.from_arrays([nulls], names=["x"])
    options = pa.ipc.IpcWriteOptions(allow_64bit=True)
    with pa.ipc.new_file(path, empty.schema, options=options) as file:
        file.write_batch(empty)
    assert "10000000000000 rows" in refusal(path, target="x")


def test_old_feather_files_are_told(tmp_path) -> None:
    path = tmp_path / "a.feather"
    path.write_bytes(b"FEA1" + bytes(100) + b"FEA1")
    assert "Feather file of version 1" in refusal(path, target="x")


def test_odd_types_and_indices_of_arrow_files(tmp_path) -> None:
    odd = FRAME.assign(
        big=pd.array([1, None] * 20, dtype="Int64"), level=pd.Categorical(["a", "b"] * 20),
        pair=[[1, 2]] * 40, part=[{"u": 1}] * 40,
    ).set_index("big")  # fmt: skip
    for path in (tmp_path / "a.parquet", tmp_path / "a.feather"):
        table = pa.Table.from_pandas(odd)
        if path.suffix == ".parquet":
            pyarrow.parquet.write_table(table, path)
        else:
            pyarrow.feather.write_feather(table, path)
        assert read_table(path, "kind", ["level", "pair", "part"]).columns == ("a", "b", "c")
        assert "'level', 'pair', 'part'" in refusal(path, target="kind")
        for name in ("pair", "part"):
            complaint = f"column '{name}' of {path.name} holds lists, not labels"
            assert complaint in refusal(path, target=name, drop=["level"])
            assert complaint in refusal(path, target="kind", group=name, drop=["level"])
            assert complaint in refusal(path, read_clouds, target=name, cloud="a")


def test_metadata_of_pandas_that_is_no_json(tmp_path) -> None:
    path = tmp_path / "a.feather"
    for text in (b"{", b"[" * 10**5, b"[]", b'{"index_columns": 3}'):
        feather(path, pa.table({"x": [1.0], "y": [2.0]}).replace_schema_metadata({b"pandas": text}))
        assert "may be damaged" in refusal(path, target="y")


@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_other_errors_of_arrow(tmp_path, monkeypatch, ending: str) -> None:
    path = tmp_path / f"a.{ending}"
    FRAME.to_parquet(path) if ending == "parquet" else FRAME.to_feather(path)
    for kind in (pa.ArrowCapacityError, pa.ArrowSerializationError, pa.ArrowNotImplementedError):
        fail = Mock(side_effect=kind("first line\nsecond line"))
        monkeypatch.setattr(pyarrow.parquet.ParquetFile, "read", fail)
        monkeypatch.setattr(pyarrow.ipc, "open_file", fail)
        assert "first line second line" in refusal(path, target="kind")


def archive(path: Path, **arrays) -> bytearray:
    np.savez(path, **arrays)
    return bytearray(path.read_bytes())


X, Y = RNG.normal(size=(6, 3)), np.arange(6)


@pytest.mark.parametrize("method", [1, 9, 12, 14, 98, 999])
def test_damaged_compression_of_npz_files(tmp_path, method: int) -> None:
    path = tmp_path / "a.npz"
    content = archive(path, X=X, y=Y)
    entry = content.index(b"PK\x01\x02")
    content[entry + 10 : entry + 12] = content[8:10] = method.to_bytes(2, "little")
    path.write_bytes(content)
    assert "'X'" in refusal(path)


def with_header(path: Path, header: str, version: bytes = b"\x01\x00") -> None:
    """An NPZ file whose X has some header and 144 bytes of numbers."""
    length = len(header).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("X.npy", b"\x93NUMPY" + version + length + header.encode() + X.tobytes())
        y = io.BytesIO()
        np.save(y, Y)
        file.writestr("y.npy", y.getvalue())


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }", "8000000000000 bytes"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (6, 4), }", "192 bytes"),
        ("{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000,), }", "'<U0'"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (" + "9" * 5000 + ",), }", "limit"),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (18,), }", "Python objects"),
        ("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (18,), }", "not one of a plain"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (-6, -3), }", "not one of a plain"),
        ("{'descr': '<f7', 'fortran_order': False, 'shape': (6, 3), }", "data type"),
        ("(" * 5000, "not one of a plain"),
        ("-" * 5000 + "1", "not one of a plain"),
        ("{" + " " * 60_000, "claims a header of 60001 bytes"),
    ],
    ids=range(11),
)
def test_headers_of_npz_files_that_claim_too_much(tmp_path, header: str, reason: str) -> None:
    path = tmp_path / "a.npz"
    for version in (b"\x01\x00", b"\x02\x00"):
        with_header(path, header, version)
        assert reason in refusal(path)


def test_labels_that_are_objects_are_refused_with_a_remedy(tmp_path) -> None:
    path, labels = tmp_path / "a.npz", np.array([str(label) for label in Y], dtype=object)
    np.savez(path, X=X, y=labels)
    assert "'y' cannot be read: it holds Python objects" in refusal(path)
    assert "y.astype(str)" in refusal(path)
    np.savez(path, X=X, y=labels.astype(str))
    assert read_table(path).y.tolist() == labels.tolist()


def test_headers_of_npz_files_as_others_write_them(tmp_path) -> None:
    path = tmp_path / "a.npz"
    with_header(path, "{'descr': '<f8', 'fortran_order': True, 'shape': (6L, 3L), }   \n", b"\x02\x00")
    np.testing.assert_array_equal(read_table(path).X, X.ravel().reshape((6, 3), order="F"))
    np.savez_compressed(path, X=X.astype(">f4"), y=Y, other=np.zeros((0, 10**9)))
    np.testing.assert_array_equal(read_table(path).X, X.astype("f4"))
    with path.open("rb") as file:
        assert Npz(file)["other"].shape == (0, 10**9)


def test_sizes_of_npz_entries(tmp_path) -> None:
    path = tmp_path / "a.npz"
    for size in (10**6, 2**32 - 2):
        content = archive(path, X=X, y=Y)
        entry = content.index(b"PK\x01\x02")
        content[entry + 24 : entry + 28] = size.to_bytes(4, "little")
        path.write_bytes(content)
        assert f"claims {size} bytes" in refusal(path)


def test_text_that_is_none_and_numbers_that_are_none(tmp_path) -> None:
    path = tmp_path / "a.npz"
    codes = np.array([0x41, 0x7FFFFFFF, 0xD800, 0x42, 0x43, 0x44], dtype=np.uint32)
    archive(path, X=X, y=codes.view("<U1"))
    assert "characters that do not exist" in refusal(path)
    for odd, reason in ((X + 1j, "complex128"), (X.astype(str), "<U"), (np.array(3), "shape")):
        archive(path, X=odd, y=Y)
        assert reason in refusal(path)
    spoilt = X.copy()
    spoilt[4, 2] = np.nan
    for kind in (np.asarray, sparse.csr_matrix):
        found = kind(spoilt)
        parts = ("data", "indices", "indptr", "shape")
        whole = sparse.issparse(found)
        archive(path, y=Y, **({p: getattr(found, p) for p in parts} if whole else {"X": found}))
        assert "row 4 of a.npz has no value in column 2" in refusal(path)


def test_parts_of_sparse_matrices(tmp_path) -> None:
    path = tmp_path / "a.npz"
    csc = sparse.csc_matrix(np.eye(3))
    parts = {"data": csc.data, "indices": csc.indices, "indptr": csc.indptr, "shape": csc.shape}
    for change, reason in (
        ({"shape": (10**12, 3), "format": "csc"}, "has 1000000000000 rows, but only 3 numbers"),
        ({"shape": (10**12, 3)}, "index pointer"),
        ({"shape": (3,)}, "whole numbers"),
        ({"shape": (-3, 3)}, "negative"),
        ({"indices": csc.indices + 0.5}, "whole numbers"),
        ({"indices": csc.indices + 5}, "indices"),
        ({"indptr": np.array([0, 9, 2, 3])}, "indptr"),
        ({"format": "bsr"}, "format 'bsr'"),
    ):
        archive(path, y=np.arange(3), **(parts | change))
        assert reason in refusal(path)
    archive(path, y=np.arange(3), w=np.arange(4), **parts)
    assert "'w' in a.npz has shape (4,)" in refusal(path, group="w")


def test_a_large_index_of_svmlight_files_costs_nothing(tmp_path) -> None:
    path = tmp_path / "a.svmlight"
    lines = [f"{i % 2} {i + 1}:1 {i + 70}:2 {i + 700}:3" for i in range(60)]
    lines[7] = "1 3:1 9:2 2000000000:5"
    path.write_text("\n".join(lines))
    before = time.perf_counter()
    table = read_table(path)
    assert time.perf_counter() - before < 1
    assert table.X.shape == (60, 2_000_000_000)
    assert table.X.nnz == table.X.data.size == 180
    assert table.X[7, 1_999_999_999] == 5
    for index in (2**31, 2**63, 10**30):
        path.write_text(f"1 1:1 {index}:2\n")
        assert "an index above 2147483647; renumber its columns" in refusal(path)
    path.write_text("1 1:1\n2 1:2 3:1e999\n")
    assert "row 1 of a.svmlight has an infinite value in column 2" in refusal(path)


def test_a_stray_quote_asks_for_no_more_memory_than_the_file_has(tmp_path) -> None:
    """One long name must not make room for all names as long: 20 000 times 20 MB here."""
    path, edges = tmp_path / "a.csv", tmp_path / "edges.csv"
    names = [f"node {i}" for i in range(20_000)]
    rows = [f"{name},x" for name in names]
    path.write_text("node,kind\n" + "\n".join(rows) + '\n"' + "x" * 20_000_000 + '",y\n')
    edges.write_text("a,b\nnode 0,node 1\n")
    assert len(read_nodes(path, "kind", edges).ids) == 20_001


def pages(path: Path, checksums: bool, seed: int = 0) -> pd.DataFrame:
    frame = pd.DataFrame(np.random.default_rng(seed).normal(size=(400, 3)), columns=["a", "b", "y"])
    frame.to_parquet(path, write_page_checksum=checksums, compression=None)
    return frame


def damaged(content: bytes, seed: int) -> bytes:
    """Three random bytes of the pages."""
    rng = np.random.default_rng(seed)
    changed = bytearray(content)
    for place in rng.integers(200, 8000, size=3):
        changed[place] ^= int(rng.integers(1, 256))
    return bytes(changed)


def test_damaged_pages_are_seen_by_their_checksums(tmp_path) -> None:
    path = tmp_path / "a.parquet"
    pages(path, checksums=True)
    whole, model = path.read_bytes(), SphericalGPRegressor(max_features=5, optimize=False)
    for seed in range(60):
        path.write_bytes(damaged(whole, seed))
        with pytest.raises(ValueError, match=r"a\.parquet cannot be read, it may be damaged: .*CRC"):
            model.fit(ParquetBlocks(path, target="y"))
        assert "CRC" in refusal(path, target="y")


def test_files_without_checksums_are_told_once(tmp_path) -> None:
    model = SphericalGPRegressor(max_features=5, optimize=False)
    pages(tmp_path / "0.parquet", checksums=True)
    files = ParquetBlocks(tmp_path, target="y", rows=100)
    model.fit(files)  # without a warning
    pages(tmp_path / "1.parquet", checksums=False)
    pages(tmp_path / "2.parquet", checksums=False)
    with pytest.warns(UserWarning, match="no page checksums") as told:
        model.fit(files)
    (warning,) = told
    assert "1.parquet (and 1 more) has no page checksums" in str(warning.message)
    assert "write_page_checksum=True" in str(warning.message)
    list(files)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", [None, "snappy", "gzip", "zstd"])
def test_checksums_are_found_in_all_kinds_of_pages(tmp_path, version, compression) -> None:
    for dictionary in (True, False):
        for checksums in (True, False):
            path = tmp_path / "a.parquet"
            FRAME.to_parquet(
                path, write_page_checksum=checksums, use_dictionary=dictionary, compression=compression,
                data_page_version=version,
            )  # fmt: skip
            assert lacks_checksums(path) != checksums


def test_names_of_columns_may_be_longer_than_a_message(tmp_path) -> None:
    path = tmp_path / "long.csv"
    pd.DataFrame({"x" * 5000: ["spam", "eggs"], "y": [1, 2]}).to_csv(path, index=False)
    with pytest.raises(ValueError, match=r"long\.csv") as caught:
        read_table(path, "y")
    assert len(str(caught.value)) < 2100
