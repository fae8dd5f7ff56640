"""Checkpoints of Gaussian processes: what they hold, and what they refuse."""

import json
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from mercer._files import atomic_write, seal
from mercer.gp import SphericalGPClassifier, SphericalGPRegressor
from mercer.gp.features import HarmonicFeatures
from mercer.gp.inducing.features import InducingFeatures
from mercer.gp.input_map import InputMap
from mercer.gp.variational import Sites
from mercer.harmonics import SphericalHarmonics
from mercer.kernels import Heat, Matern
from mercer.rows.checkpoint import Checkpoint
from mercer.rows.labels import LabelTally
from mercer.spaces import Simplex, Sphere
from tests.helpers.processes import kept

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X[:, 0] + X[:, 1] ** 2
KINDS = (
    HarmonicFeatures,
    InputMap,
    LabelTally,
    Simplex,
    Sites,
    Sphere,
    SphericalHarmonics,
    InducingFeatures,
)
KERNEL = Heat(Sphere(), t=0.1)
PAIRS = [(X[i : i + 10], Y[i : i + 10]) for i in range(0, 60, 10)]


def written(path, **results) -> Checkpoint:
    checkpoint = Checkpoint(path, {"rows": "these"}, KINDS, KERNEL)
    for name, value in results.items():
        checkpoint.keep(name, value)
    checkpoint.save()
    return checkpoint


def again(path) -> dict:
    return Checkpoint(path, {"rows": "these"}, KINDS, KERNEL).results


def test_everything_comes_back_as_it_was(tmp_path) -> None:
    path = tmp_path / "sums"
    values = {
        "plain": (3, None, True, "text", -np.inf, [1.5, "a"]),
        "scalars": (np.float64(0.1), np.int64(3)),
        "marks": ["a", "b"],
        "arrays": [
            np.arange(6).reshape(2, 3),
            np.array(["x", "yz"]),
            np.zeros((0, 2)),
            np.array([True]),
        ],
        "nested": {"a": {"b": np.array([np.nan, np.inf])}},
    }
    written(path, **values)
    found = again(path)
    assert found["plain"] == values["plain"]
    assert found["scalars"] == values["scalars"]
    assert repr(found["scalars"]) == repr(values["scalars"])  # features are told apart by it
    assert found["marks"] == ["a", "b"]
    for one, other in zip(found["arrays"], values["arrays"], strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
    np.testing.assert_array_equal(found["nested"]["a"]["b"], [np.nan, np.inf])


def test_labels_of_all_kinds(tmp_path) -> None:
    path = tmp_path / "sums"
    for labels in (np.array(["a", "b"], dtype=object), np.array([b"a", b"b"]), np.array([0.5, 2])):
        written(path, labels=(2, LabelTally(labels, np.ones(2), 2), False))
        found = again(path)["labels"][1]
        np.testing.assert_array_equal(found.labels, labels)
        assert found.labels.dtype == labels.dtype
        path.unlink()


def test_features_have_the_same_fingerprint(tmp_path) -> None:
    path = tmp_path / "sums"
    table = InputMap(Sphere(), 1.0, np.arange(3.0), np.array([1.0, np.inf, 2.0]))
    found = KERNEL.clone_with_theta(KERNEL.theta + 0.3)
    features = [
        HarmonicFeatures.of(KERNEL, table, 4, None, 30, 0),
        HarmonicFeatures(InputMap(Simplex()), SphericalHarmonics(3, (0, 2), 5, 7), 0),
        InducingFeatures.of(found.set_params(t_bounds="fixed"), table, np.eye(4)[:2]),
    ]
    written(path, features=features)
    for one, other in zip(features, again(path)["features"], strict=True):
        assert one.fingerprint == other.fingerprint
        assert one.size == other.size


class Attack:
    """A pickle of it makes a file."""

    def __reduce__(self):
        return os.mkdir, ("executed",)


def test_no_code_is_run(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("sums")
    attack = np.array([Attack()], dtype=object)
    pickled = pickle.dumps(({"rows": "these"}, {"a": Attack()}))
    path.write_bytes(pickled)
    assert "is not a checkpoint of a fit" in refusal(path)
    for arrays in ({"tree": attack}, {"tree": np.frombuffer(b'{"a": 1}', np.uint8), "0": attack}):
        resealed(path, **arrays)
        assert "is not a checkpoint of a fit" in refusal(path)
    tree = {"description": {"dict": {"rows": "these"}}, "results": {"dict": {"a": {"array": 0}}}}
    resealed(path, tree=np.frombuffer(json.dumps(tree).encode(), np.uint8), **{"0": attack})
    assert "Python objects" in refusal(path)
    assert not Path("executed").exists()


def resealed(path: Path, **arrays) -> None:
    """A file with a right checksum that no fit has written."""
    with atomic_write(path) as file:
        np.savez(file, **arrays)
        seal(file, "checkpoint", 1)


def refusal(path) -> str:
    before = Path(path).read_bytes()
    with pytest.raises(ValueError) as told:  # noqa: PT011
        again(path)
    assert Path(path).read_bytes() == before
    assert str(told.value).isprintable()
    assert str(path) in str(told.value)
    return str(told.value)


@pytest.mark.parametrize(
    "results",
    [
        3,
        {"list": []},
        {"dict": {"a": {"Popen": {"dict": {"args": "ls"}}}}},
        {"dict": {"a": {"Statistics": {"dict": {}}}}},
        {"dict": {"a": {"Sites": {"dict": {"gram": 1, "linear": 2, "diagonal": 3.0}}}}},
        {"dict": {"a": {"LabelTally": {"dict": {}}}}},
        {"dict": {"a": {"array": 99}}},
        {"dict": {"a": {"array": "../../etc/passwd"}}},
        {"dict": {"a": {}}},
        {"dict": {"a": {"tuple": 3}}},
        {"dict": {"a": {"kernel": {"dict": {"space": "x", "t": "x", "nothing": 1}}}}},
        {"dict": {"a": {"SphericalHarmonics": {"dict": {"n": 1, "levels": 2}}}}},
    ],
    ids=str,
)
def test_trees_of_other_kinds_are_refused(tmp_path, results) -> None:
    tree = json.dumps({"description": {"dict": {"rows": "these"}}, "results": results})
    resealed(tmp_path / "sums", tree=np.frombuffer(tree.encode(), np.uint8))
    assert "is not a checkpoint of a fit" in refusal(tmp_path / "sums")


def test_deep_trees_are_refused(tmp_path) -> None:
    deep = '{"list": [' * 5000 + "]}" * 5000
    tree = '{"description": {"dict": {"rows": "these"}}, "results": ' + deep + "}"
    resealed(tmp_path / "sums", tree=np.frombuffer(tree.encode(), np.uint8))
    assert "is not a checkpoint of a fit" in refusal(tmp_path / "sums")


def test_every_damage_is_refused(tmp_path) -> None:
    path = tmp_path / "sums"
    written(path, a=np.arange(50.0), b=(1, "x"))
    whole = path.read_bytes()
    for i in range(0, len(whole), 3):
        path.write_bytes(whole[:i] + bytes([whole[i] ^ 1 << i % 8]) + whole[i + 1 :])
        refusal(path)
    path.write_bytes(whole.replace(b"mercer checkpoint 1 ", b"mercer checkpoint 2 "))
    assert "format 2 of a checkpoint file, but this Mercer reads format 1" in refusal(path)
    with zipfile.ZipFile(path, "w"):
        pass
    assert "does not end like a checkpoint file" in refusal(path)


def small(**options) -> SphericalGPRegressor:
    return SphericalGPRegressor(max_features=20, levels=3, optimize=False, **options)


def test_a_full_disk_does_not_end_a_fit(tmp_path, monkeypatch) -> None:
    path, expected = tmp_path / "sums", small().fit(X, Y).predict(X)
    monkeypatch.setattr("mercer.rows.checkpoint.PERIOD", 0.0)
    usual, contents = Checkpoint._write, []

    def full(self) -> None:
        if not contents:
            usual(self)
            contents.append(path.read_bytes())
        else:
            assert path.read_bytes() == contents[0]
            raise OSError(28, "No space left on device", str(self.path))

    monkeypatch.setattr(Checkpoint, "_write", full)
    with pytest.warns(
        UserWarning, match="checkpoint .*sums cannot be written and stays .*No space"
    ) as told:
        model = small().fit(X, Y, checkpoint=path)
    assert len(told) == 1
    np.testing.assert_array_equal(model.predict(X), expected)
    assert not path.exists()


def test_a_checkpoint_that_cannot_be_deleted_does_not_end_a_fit(tmp_path, monkeypatch) -> None:
    path = tmp_path / "sums"

    def unlink(self, missing_ok=False) -> None:
        if self == path:
            raise PermissionError(13, "Permission denied", str(self))
        os.unlink(self) if self.exists() else None

    monkeypatch.setattr(Path, "unlink", unlink)
    with pytest.warns(
        UserWarning, match="the fit is done, and its checkpoint cannot be deleted: .*sums"
    ):
        model = small().fit(X, Y, checkpoint=path)
    assert model.statistics_.rows == 60


_KILLED = """
import os, signal, sys
import numpy as np
from mercer.gp import SphericalGPRegressor
from mercer.rows import checkpoint, statistics
checkpoint.PERIOD = 0.0
X = np.random.default_rng(0).normal(size=(60, 3))
saves, usual = [], np.savez
def savez(file, *args, **kwargs):
    saves.append(1)
    if len(saves) == int(sys.argv[2]):
        file.write(b"half")
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    usual(file, *args, **kwargs)
np.savez = savez
blocks = [(X[i : i + 10], X[i : i + 10, 0]) for i in range(0, 60, 10)]
SphericalGPRegressor(max_features=20, levels=3).fit(blocks, checkpoint=sys.argv[1])
"""


@pytest.mark.parametrize("save", [1, 5, 11])
def test_a_fit_that_is_killed_while_it_writes_goes_on(tmp_path, save: int) -> None:
    path = tmp_path / "sums"
    run = subprocess.run([sys.executable, "-c", _KILLED, path, str(save)], check=False)
    assert run.returncode == -9
    assert path.exists() == (save > 1)
    rows = np.random.default_rng(0).normal(size=(60, 3))
    blocks = [(rows[i : i + 10], rows[i : i + 10, 0]) for i in range(0, 60, 10)]
    model = SphericalGPRegressor(max_features=20, levels=3)
    whole = model.fit(blocks).predict(rows)
    np.testing.assert_array_equal(model.fit(blocks, checkpoint=path).predict(rows), whole)
    assert not path.exists()


def test_two_fits_on_one_checkpoint(tmp_path, monkeypatch) -> None:
    """Whoever is done first deletes the file; the other goes on."""
    monkeypatch.setattr("mercer.rows.checkpoint.PERIOD", 0.0)
    path = tmp_path / "sums"
    whole, inner = small().fit(PAIRS).predict(X), []

    class Meanwhile:
        def __iter__(self):
            for number, block in enumerate(PAIRS):
                if number == 3 and not inner:
                    inner.append(None)
                    inner[0] = small().fit(Meanwhile(), checkpoint=path).predict(X)
                yield block

    np.testing.assert_array_equal(small().fit(Meanwhile(), checkpoint=path).predict(X), whole)
    np.testing.assert_array_equal(inner[0], whole)
    assert list(tmp_path.iterdir()) == []


def test_labels_that_cannot_be_kept_do_not_end_a_fit(tmp_path, monkeypatch) -> None:
    from datetime import date

    monkeypatch.setattr("mercer.rows.checkpoint.PERIOD", 0.0)
    labels = np.array([date(2020, 1, 1 + int(y > 0)) for y in Y], dtype=object)
    blocks = [(X[:30], labels[:30]), (X[30:], labels[30:])]
    model = SphericalGPClassifier(max_features=10, levels=2, tol=1e-1)
    with pytest.warns(UserWarning, match="date is neither number nor text, and cannot be kept"):
        model.fit(blocks, checkpoint=tmp_path / "sums")
    assert len(model.classes_) == 2


def test_kernels_of_ones_own_are_kept(tmp_path) -> None:
    """A kernel is stored as its parameters: its class need not be known by name."""

    class Mine(Matern):
        pass

    kernel = Mine(Sphere(), nu=1.5)
    other = kernel.clone_with_theta(kernel.theta + 0.1)
    checkpoint = Checkpoint(tmp_path / "sums", {}, KINDS, kernel)
    checkpoint.keep("kernel", other)
    checkpoint.save()
    found = Checkpoint(tmp_path / "sums", {}, KINDS, kernel).results["kernel"]
    assert type(found) is Mine
    assert repr(found) == repr(other)


class Again:
    """Blocks that can be read again but not counted."""

    def __init__(self, blocks) -> None:
        self.blocks = blocks

    def __iter__(self):
        return iter(self.blocks)


def interrupt(*_, **__):
    raise KeyboardInterrupt


@pytest.fixture
def stopped(tmp_path, monkeypatch):
    """Makes the checkpoint of a fit that was stopped after all its passes."""
    path = tmp_path / "sums"

    def make(source, **options):
        with monkeypatch.context() as patch:
            patch.setattr("mercer.rows.checkpoint.PERIOD", 0.0)
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
    with pytest.raises(ValueError, match="blocks were given as an iterator in one run only"):
        small().fit(PAIRS, checkpoint=stopped(iter(PAIRS)))


def test_other_blocks_between_two_sweeps_are_refused(tmp_path, monkeypatch) -> None:
    labels = [(x, y > 0) for x, y in PAIRS]
    model = SphericalGPClassifier(max_features=10, levels=2)
    with monkeypatch.context() as patch:
        patch.setattr(SphericalGPClassifier, "_infer", interrupt)
        patch.setattr("mercer.rows.checkpoint.PERIOD", 0.0)
        with pytest.raises(KeyboardInterrupt):
            model.fit(Again(labels), checkpoint=tmp_path / "state")
    with pytest.raises(ValueError, match="there are 5 blocks, not the 6"):
        model.fit(Again(labels[:5]), checkpoint=tmp_path / "state")


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
    with pytest.raises(ValueError, match=r"sums is not a checkpoint of a fit.*give another path"):
        small().fit(X, Y, checkpoint=path)
    assert path.read_bytes() == content
