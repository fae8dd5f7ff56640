"""Statistics: they add up, and are saved and read with care."""

import pickle

import numpy as np
import pytest

from mercer._files import atomic_write, seal
from mercer.gp import SphericalGPRegressor, Statistics
from mercer.rows import ArrayRows
from mercer.rows.statistics import collect
from tests.helpers.processes import table

X, Y = table(60)


def small(**options) -> SphericalGPRegressor:
    return SphericalGPRegressor(max_features=20, levels=3, optimize=False, **options)


def test_statistics_add_up_are_saved_and_pickled(tmp_path) -> None:
    X, y = table(200)
    whole = SphericalGPRegressor(max_features=40, optimize=False).fit(X, y)
    parts = [
        collect(whole.features_, ArrayRows(X[i : i + 50], y[i : i + 50])) for i in (0, 50, 100, 150)
    ]
    parts[1].save(tmp_path / "part.npz")
    parts[1] = Statistics.load(tmp_path / "part.npz")
    parts[2] = pickle.loads(pickle.dumps(parts[2]))
    total = sum(parts).shifted(whole.statistics_.shift)
    for name in ("gram", "linear", "features", "targets", "squares", "rest", "weight", "rows"):
        np.testing.assert_allclose(
            getattr(total, name), getattr(whole.statistics_, name), rtol=1e-10, atol=1e-10
        )
    other = SphericalGPRegressor(max_features=41).fit(X, y)
    with pytest.raises(ValueError, match="different features"):
        whole.statistics_ + other.statistics_


def test_statistics_are_written_whole(tmp_path, monkeypatch) -> None:
    path, saved = tmp_path / "s.npz", small().fit(X, Y).statistics_
    saved.save(path)
    before = path.read_bytes()

    def full(file, **_):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*s.npz'"):
        saved.save(path)
    assert path.read_bytes() == before
    np.testing.assert_array_equal(Statistics.load(path).gram, saved.gram)
    assert list(tmp_path.iterdir()) == [path]


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
