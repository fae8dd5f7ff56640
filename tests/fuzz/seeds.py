"""Good files of every kind, made by code: what damage begins with."""

from __future__ import annotations

import gzip
import io
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import dump_svmlight_file
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer.features import GramTransformer
from mercer.gp.features import HarmonicFeatures
from mercer.gp.inducing.features import InducingFeatures
from mercer.gp.input_map import InputMap
from mercer.gp.likelihoods import TargetTotals
from mercer.gp.variational import AscentState, Sites, SiteSums
from mercer.harmonics import SphericalHarmonics
from mercer.kernels import (
    FullSpectrum,
    GappySubsequence,
    Gaussian,
    Heat,
    Matern,
    MeanEmbedding,
    Spectral,
    Spectrum,
    TfIdf,
    TraceKernel,
    VonNeumann,
)
from mercer.machines import SVC, KernelRidge
from mercer.rows.checkpoint import Checkpoint
from mercer.rows.labels import LabelTally
from mercer.rows.moments import Moments
from mercer.rows.statistics import Statistics
from mercer.selection import SavedModel
from mercer.selection.journal import Journal
from mercer.spaces import Graph, Hyperbolic, Simplex, Sphere


@dataclass(frozen=True)
class Seed:
    """A good file: its name, its content, and how it is read."""

    name: str
    content: bytes
    #: Name of the reader in tests.fuzz.readers, and its options.
    reader: str = "table"
    options: dict[str, Any] = field(default_factory=dict)


KERNEL = Heat(Sphere(), t=0.1)
KEPT = (
    AscentState, HarmonicFeatures, InputMap, LabelTally, Moments, SiteSums, Sites, Sphere,
    SphericalHarmonics, Statistics, TargetTotals, InducingFeatures,
)  # fmt: skip
DESCRIPTION = {"estimator": "one", "rows": "these"}


def frames() -> dict[str, tuple[pd.DataFrame, str, dict[str, Any]]]:
    """Tables that every format can hold, each with its reader and options."""
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(40) < 0.5, "spam", "ham")
    counts = pd.DataFrame(rng.poisson(3, (40, 4)), columns=list("abcd"))
    points = pd.DataFrame(rng.normal(size=(40, 3)), columns=["x", "y", "z"])
    text = ["ACGT" * (1 + i % 5) + "\u00e4\u4e2d"[: i % 3] for i in range(40)]
    names = [f"node {i}" for i in range(40)]
    kind = {"target": "kind"}
    wide = pd.DataFrame(rng.integers(0, 9, (8, 60))).add_prefix("c").assign(kind=labels[:8])
    cloud = {**kind, "cloud": "who", "weight": "w"}
    return {
        "counts": (counts.assign(kind=labels), "table", kind),
        "floats": (points.assign(kind=rng.normal(size=40)), "table", kind),
        "groups": (
            counts.assign(kind=labels, who=np.arange(40) // 4), "table", {**kind, "group": "who"}
        ),
        "drop": (counts.assign(kind=labels, note=text), "table", {**kind, "drop": ("note",)}),
        "holes": (
            points.assign(kind=[*labels[:20], *[None] * 20]), "table", {**kind, "labelled": False}
        ),
        "wide": (wide, "table", kind),
        "one": (counts[:1].assign(kind="x"), "table", kind),
        "long": (pd.concat([counts] * 12).assign(kind=np.tile(labels, 12)), "table", kind),
        "truth": (counts.astype(bool).assign(kind=labels == "ham"), "table", kind),
        "strings": (pd.DataFrame({"text": text, "kind": labels}), "strings", {**kind, "text": "text"}),
        "clouds": (points.assign(w=1.0, kind="u", who=np.arange(40) // 8), "clouds", cloud),
        "nodes": (pd.DataFrame({"node": names, "kind": labels}), "nodes", kind),
        "edges": (pd.DataFrame({"a": names, "b": names[1:] + names[:1], "weight": 1.5}), "edges", {}),
    }  # fmt: skip


def _text(name: str, frame: pd.DataFrame, number: int) -> bytes:
    """A table as text, each a little differently."""
    content = frame.to_csv(
        index=False, sep="\t" if name.endswith("tsv") else ",", quoting=number % 3,
        lineterminator=("\n", "\r\n")[number % 2],
    ).encode()  # fmt: skip
    return b"\xef\xbb\xbf" + content if number % 5 == 0 else content


@cache
def csv() -> list[Seed]:
    """CSV and TSV."""
    found = []
    for number, (name, (frame, reader, options)) in enumerate(frames().items()):
        file = f"{name}.{'tsv' if number % 4 == 3 else 'csv'}"
        found.append(Seed(file, _text(file, frame, number), reader, options))
    return found


@cache
def gz() -> list[Seed]:
    """The same gzipped, and svmlight."""
    return [
        Seed(f"{seed.name}.gz", gzip.compress(seed.content, n % 10, mtime=0), seed.reader, seed.options)
        for n, seed in enumerate([*csv()[:9], *svmlight()[:3]])
    ]


@cache
def svmlight() -> list[Seed]:
    """Sparse rows with labels."""
    rng = np.random.default_rng(1)
    found = []
    for number in range(12):
        X = sparse.random(20 + number, 5 + 40 * number, density=0.1, random_state=number, format="csr")
        y = rng.integers(0, 3, X.shape[0]) if number % 2 else rng.normal(size=X.shape[0])
        query = np.arange(X.shape[0]) // 3 if number % 4 == 2 else None
        file = io.BytesIO()
        comment = "made by code" if number % 3 == 0 else None
        dump_svmlight_file(X, y, file, zero_based=number % 2 == 0, comment=comment, query_id=query)
        content = file.getvalue()
        if number == 5:
            content += b"1 3:1 2000000000:7\n"
        found.append(Seed(f"rows{number}.svmlight", content))
    return found


@cache
def npz() -> list[Seed]:
    """Dense and sparse arrays."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(30, 4)), rng.integers(0, 2, 30)
    words = np.where(y, "spam", "h\u00e4m")
    csr = sparse.random(30, 50, density=0.1, random_state=0, format="csr")
    arrays: dict[str, dict[str, Any]] = {
        "dense": {"X": X, "y": y},
        "columns": {"X": np.asfortranarray(X), "y": words},
        "small": {"X": rng.integers(0, 9, (30, 4)).astype(np.int8), "y": y.astype(bool)},
        "swapped": {"X": X.astype(">f4"), "y": y.astype(">i2")},
        "groups": {"X": X, "y": y, "who": np.arange(30) // 3, "note": np.array("text")},
        "dates": {"X": X, "y": np.arange(30).astype("M8[D]")},
        "bytes": {"X": X, "y": np.array([b"u", b"v"] * 15)},
        "csr": {**_parts(csr), "y": y},
        "csc": {**_parts(csr.tocsc()), "format": b"csc", "y": words},
        "large": {"X": rng.normal(size=(300, 20)), "y": rng.normal(size=300)},
        "halves": {"X": X.astype(np.float16), "y": y},
    }  # fmt: skip
    found = []
    for number, (name, content) in enumerate(arrays.items()):
        for save in (np.savez, np.savez_compressed):
            file = io.BytesIO()
            save(file, **content)
            options = {"group": "who"} if name == "groups" else {}
            found.append(Seed(f"{name}{number}.npz", file.getvalue(), "table", options))
    return found


def _parts(X: Any) -> dict[str, Any]:
    return {name: getattr(X, name) for name in ("data", "indices", "indptr", "shape")}


def _arrow_tables() -> list[tuple[pa.Table, str, dict[str, Any]]]:
    found = [(pa.Table.from_pandas(f), reader, options) for f, reader, options in frames().values()]
    rng = np.random.default_rng(3)
    odd = pa.table(
        {
            "a": pa.array(rng.random(40), pa.float32()),
            "b": pa.array(rng.integers(0, 99, 40), pa.uint8()),
            "s": pa.array([f"text {i}" for i in range(40)], pa.large_string()),
            "d": pa.array(["u", "v"] * 20).dictionary_encode(),
            "t": pa.array(np.arange(40), pa.timestamp("ms", tz="Europe/Paris")),
            "l": pa.array([[i, i + 1][: i % 3] for i in range(40)], pa.list_(pa.int16())),
            "r": pa.array([{"u": i, "v": str(i)} for i in range(40)]),
            "e": pa.array([None] * 40, pa.decimal128(10, 2)),
            "n": pa.nulls(40),
            "kind": pa.array(["x", None] * 20),
        }
    )
    drop = ("s", "d", "t", "l", "r", "e", "n")
    found.append((odd, "table", {"target": "kind", "drop": drop}))
    found.append((odd, "strings", {"target": "d", "text": "s"}))
    return found


@cache
def parquet() -> list[Seed]:
    """All ways of compression and encoding."""
    ways: list[dict[str, Any]] = [
        {"compression": "none", "use_dictionary": False},
        {"compression": "snappy"},
        {"compression": "zstd", "data_page_version": "2.0", "write_page_checksum": True},
        {"compression": "gzip", "row_group_size": 15},
        {"compression": "lz4", "use_dictionary": False, "data_page_size": 64},
        {"compression": "none", "data_page_version": "2.0", "write_page_index": True},
        {"compression": "brotli", "write_page_checksum": True},
    ]
    found = []
    for number, (table, reader, options) in enumerate(_arrow_tables()):
        for step in range(2):
            file = io.BytesIO()
            pyarrow.parquet.write_table(table, file, **ways[(number + 3 * step) % len(ways)])
            found.append(Seed(f"table{number}.parquet", file.getvalue(), reader, options))
    for number in range(6):
        file, table = io.BytesIO(), _arrow_tables()[number % 2][0]
        pyarrow.parquet.write_table(table, file, **ways[number])
        found.append(Seed(f"blocks{number}.parquet", file.getvalue(), "blocks", {"target": "kind"}))
    return found


@cache
def feather() -> list[Seed]:
    """Compressed or not, in one piece or several."""
    found = []
    for number, (table, reader, options) in enumerate(_arrow_tables()):
        for compression in ("uncompressed", "lz4", "zstd"):
            file = io.BytesIO()
            size = 15 if number % 2 else None
            pyarrow.feather.write_feather(table, file, compression=compression, chunksize=size)
            found.append(Seed(f"table{number}.feather", file.getvalue(), reader, options))
    return found


def fits(number: int) -> dict[str, tuple[dict[str, float], tuple[float, float]]]:
    """What a cache holds."""
    rng = np.random.default_rng(number)
    names = ["score"] if number % 2 else ["accuracy", "log_loss", "f\u00fcnf"]
    return {
        f"{number:04x}{i:060x}": (
            dict(zip(names, rng.normal(size=3).tolist(), strict=False)),
            (float(rng.random()), 0.25),
        )
        for i in range(1 + 4 * number)
    }


@cache
def journal() -> list[Seed]:
    """Caches of finished fits."""
    found = []
    for number in range(10):
        with tempfile.TemporaryDirectory() as folder:
            book = Journal(folder, number)
            for fit, (scores, seconds) in fits(number).items():
                book.put(fit, scores, seconds)
            found.append(Seed(book.path.name, book.path.read_bytes(), "journal", {"number": number}))
    return found


def results(number: int) -> dict[str, Any]:
    """What a checkpoint holds."""
    rng = np.random.default_rng(number)
    M = 2 + number
    sites = Sites(rng.normal(size=(M, M)), rng.normal(size=M), np.array([1.5]))
    table = InputMap(Sphere(), 1.0, rng.normal(size=3), rng.random(3) + 1)
    statistics = Statistics(
        rng.normal(size=(M, M)), rng.normal(size=(M, 1)), rng.normal(size=M), rng.normal(size=1),
        rng.random(1), rng.random(2), 40.0, 40, np.zeros(1), "features",
    )  # fmt: skip
    choices = [
        ("journal", ["a" * 32] * number),
        ("moments", (40, Moments(40.0, rng.normal(size=3), rng.random(3)), number % 2 == 0)),
        ("statistics", (10 * number, statistics, False)),
        ("labels", (40, LabelTally(np.array(["u", "v"], dtype=object), np.ones(2), 40), True)),
        ("counts", (40, TargetTotals(np.array([3.0]), 40.0, 40), True)),
        (
            "pass 1",
            (7, SiteSums(np.ones((1, M, M)), np.ones((1, M)), np.ones((1, 1)), np.ones(1)), False),
        ),
        (
            "ascents",
            (2, [AscentState(np.ones(2), sites, np.ones(2), sites, None, 0.5, True, -3.0, False)]),
        ),
        ("features", (np.ones(3), HarmonicFeatures(table, SphericalHarmonics(4, max_features=9), 0))),
        ("places", (np.ones(3), InducingFeatures(table, 0, KERNEL, np.eye(4)[:2]))),
    ]
    return dict(choices[number % 4 :: 1 + number % 3])


@cache
def checkpoint() -> list[Seed]:
    """Checkpoints, and statistics."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(12):
            path = Path(folder) / f"sums{number}"
            kept = Checkpoint(path, DESCRIPTION, KEPT, KERNEL)
            kept.results = results(number)
            kept.save()
            found.append(Seed(path.name, path.read_bytes(), "checkpoint", {"number": number}))
            results(2)["statistics"][1].save(path)
            if number < 3:
                found.append(Seed(f"s{number}.npz", path.read_bytes(), "statistics"))
    return found


def models() -> dict[str, tuple[Any, Any]]:
    """Kernels, and points for them."""
    rng = np.random.default_rng(4)
    rows, counts = rng.normal(size=(24, 3)), rng.poisson(3, (24, 5)) + 0.0
    words = ["ACGT"[i % 4] * (3 + i % 3) + "TGCA"[i % 2 :] for i in range(24)]
    clouds = [rng.normal(size=(2 + i % 3, 2)) for i in range(24)]
    club = Graph(sparse.csr_matrix(np.roll(np.eye(24), 1, axis=0) + np.roll(np.eye(24), -1, axis=0)))
    return {
        "heat": (Heat(Simplex(), t_star=0.5), counts),
        "latlon": (Heat(Sphere(coordinates="latlon"), t=0.1), rows[:, :2]),
        "gaussian": (Gaussian(column_scales=np.array([1.0, 2.0, 3.0])), rows),
        "sparse": (Gaussian(3.0), sparse.csr_matrix(counts)),
        "tfidf": (TfIdf(weights=np.arange(1.0, 6.0)), counts),
        "levels": (Spectral(Simplex(), np.array([1.0, 0.5])), counts),
        "matern": (Matern(Hyperbolic(), nu=1.5, length_scale=0.7), np.abs(rows)),
        "strings": (Spectrum(2, normalized=True), words),
        "bytes": (FullSpectrum(), [word.encode() for word in words]),
        "gaps": (GappySubsequence(2), words),
        "clouds": (MeanEmbedding(Gaussian()), clouds),
        "weights": (TraceKernel(Gaussian()), [(c, np.full(len(c), 1 / len(c))) for c in clouds]),
        "nodes": (Heat(club, t=0.5), list(range(24))),
        "walks": (VonNeumann(club, beta=0.1), list(range(24))),
        "sum": (Heat(Sphere(), t=0.2) + 0.5 * Gaussian(), rows),
    }  # fmt: skip


@cache
def model() -> list[Seed]:
    """Saved models: two and three classes, with probabilities or not, and numbers."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, (kernel, points)) in enumerate(models().items()):
            path, machine = Path(folder, f"{name}.skops"), SVC(kernel="precomputed")
            y = np.array(["u", "v", "w"])[np.arange(24) % (2 + number % 2)]
            calibration = None
            gram = GramTransformer(kernel)
            if number % 3 == 2:
                ridge = KernelRidge(kernel="precomputed")
                machine, y = (
                    TransformedTargetRegressor(ridge, transformer=StandardScaler()),
                    np.arange(24.0),
                )
            elif number % 3 == 1:
                K = gram.fit(points).transform(points)
                calibration = CalibratedClassifierCV(machine, cv=2, ensemble=False).fit(K, y)
            pipeline = make_pipeline(gram, machine).fit(points, y)
            SavedModel(pipeline, columns=tuple("abc"), calibration=calibration).save(path)
            found.append(Seed(path.name, path.read_bytes(), "model", {"name": name}))
    return found


SEEDS = {
    "csv": csv,
    "gz": gz,
    "svmlight": svmlight,
    "npz": npz,
    "parquet": parquet,
    "feather": feather,
    "cache": journal,
    "checkpoint": checkpoint,
    "model": model,
}
