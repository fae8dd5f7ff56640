"""Files that are written whole or not at all, and that tell whether they were changed."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mercer._files import DamagedFile, atomic_write, one_line, readable, seal, unsealed


def test_a_file_is_replaced_in_the_end(tmp_path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(0o640)
    with atomic_write(path, "w") as file:
        file.write("n\u00e9w")
        assert path.read_text() == "old"
    assert path.read_bytes() == "n\u00e9w".encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    (tmp_path / "plain").touch()
    with atomic_write(tmp_path / "b") as file:
        file.write(b"new")
    assert (tmp_path / "b").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b", "plain"]


def half(path: Path, error: BaseException) -> None:
    with atomic_write(path) as file:
        file.write(b"half")
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError(), OSError(28, "No space left")])
def test_what_fails_leaves_the_old_file(tmp_path, error) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(type(error)) as told:
        half(path, error)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    if isinstance(error, OSError):
        assert (told.value.errno, told.value.filename) == (28, str(path))


_FULL = """
import resource, sys
from mercer._files import atomic_write
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
with atomic_write(sys.argv[1]) as file:
    file.write(bytes(10_000))
"""
_KILLED = """
import os, signal, sys
from mercer._files import atomic_write
with atomic_write(sys.argv[1]) as file:
    file.write(bytes(100_000))
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("code", [_FULL, _KILLED], ids=["full", "killed"])
def test_a_full_disk_and_a_killed_process_leave_the_old_file(tmp_path, code: str) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    run = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
    assert run.returncode != 0
    assert path.read_text() == "old"
    if code == _FULL:
        assert f"File too large: '{path}'" in run.stderr
        assert list(tmp_path.iterdir()) == [path]


def test_folders_that_take_no_files_are_told_by_the_name_that_was_given(tmp_path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "no" / "a", tmp_path / "file" / "a", Path("/proc/a")):
        with pytest.raises(OSError, match=f"'{path}'$"), atomic_write(path):
            pass
    if os.getuid() != 0:  # root may write everywhere
        (tmp_path / "file").chmod(0o444)
        with pytest.raises(PermissionError), atomic_write(tmp_path / "file"):
            pass


def test_devices_are_written_and_links_followed(tmp_path) -> None:
    with atomic_write("/dev/null") as file:
        file.write(b"x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with (
        pytest.raises(OSError, match=r"No space left on device: '/dev/full'"),
        atomic_write("/dev/full") as file,
    ):
        file.write(b"x")
    real, link = tmp_path / "real", tmp_path / "link"
    link.symlink_to(real)
    with atomic_write(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"


def sealed(path: Path, kind: str = "sums", version: int = 3) -> bytes:
    with atomic_write(path) as file:
        np.savez(file, a=np.arange(3))
        seal(file, kind, version)
    return path.read_bytes()


def refused(path: Path, kind: str = "sums", version: int = 3) -> str:
    """Why a file is refused."""
    with pytest.raises(ValueError) as told, unsealed(path, kind, version):  # noqa: PT011
        pass
    return str(told.value)


def test_every_change_of_a_sealed_file_is_seen(tmp_path) -> None:
    path = tmp_path / "a.npz"
    whole = sealed(path)
    with unsealed(path, "sums", 3) as file:
        assert whole.startswith(file.read(10))
    np.testing.assert_array_equal(np.load(path)["a"], [0, 1, 2])  # as by others
    reasons = ("it is damaged", "it does not end", "it has format")
    for i in range(len(whole)):
        path.write_bytes(whole[:i] + bytes([whole[i] ^ (1 << i % 8)]) + whole[i + 1 :])
        assert refused(path).startswith(reasons)
    for content in (b"", b"x", whole[:-1], whole + b"\n", whole[1:]):
        path.write_bytes(content)
        assert refused(path).startswith(reasons)


def test_other_kinds_and_versions_are_named(tmp_path) -> None:
    path = tmp_path / "a"
    sealed(path)
    assert refused(path, kind="model") == "it does not end like a model file written by Mercer"
    assert refused(path, version=4) == "it has format 3 of a sums file, but this Mercer reads format 4"


def told(error: Exception) -> str:
    """What is said of an error of a reader."""
    with pytest.raises(ValueError) as found, readable(Path("folder/table.csv")):  # noqa: PT011
        raise error
    return str(found.value)


def test_errors_become_one_line_with_the_name() -> None:
    for error in (RecursionError("deep\nand deeper"), MemoryError(), KeyError("x"), OSError(5, "bad")):
        text = told(error)
        assert text.startswith("table.csv cannot be read, it may be damaged: ")
        assert text.isprintable()
    assert told(ValueError("table.csv has no column 'a'")) == "table.csv has no column 'a'"
    assert told(ValueError("table.csv holds a\x00b\nc")) == "table.csv holds a?b c"
    assert len(one_line("x" * 10_000)) < 400
    assert issubclass(DamagedFile, ValueError)
    assert issubclass(DamagedFile, OSError)
