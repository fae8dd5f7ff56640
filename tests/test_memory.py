"""Gram matrices that do not fit are refused before they are begun, with a way out."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.svm import SVC

from mercer import _memory, _validation
from mercer.features import GramTransformer
from mercer.kernels import Constant, Gaussian, Heat, PosteriorHeat, Spectrum, TraceKernel
from mercer.selection import KernelSearchCV
from mercer.selection.gram_cache import Grams
from mercer.spaces import Simplex, Sphere

X = np.random.default_rng(0).gamma(1.0, size=(300, 4)) + 0.1
SENTENCE = (
    r"^a Gram matrix of 300 x 300.* takes .* [kM]B and 300 kB are available: the machines of "
    r"mercer.machines .*max_memory, LandmarkClassifier .*matvec.*SphericalGPRegressor"
    r".*My Gram matrix does not fit"
)


@pytest.fixture
def little(monkeypatch) -> None:
    """A machine with 300 kB to give away, which is asked for every matrix."""
    monkeypatch.setattr(_validation, "_SMALL", 0)
    monkeypatch.setattr(_memory, "available", lambda: 3e5)


KERNELS = [
    (Heat(Sphere(), t=0.2), X),
    (Heat(Simplex(), t=0.2), sparse.csr_matrix(X)),
    (Gaussian(), torch.as_tensor(X)),
    (2.0 * Heat(Sphere()) + 0.5, X),
    (Gaussian() ** 2, X),
    (Constant(2.0), X),
    (PosteriorHeat(), X.round() + 1),
    (Spectrum(), ["abcabc"] * 300),
    (TraceKernel(Gaussian()), [X[:2]] * 300),
]


@pytest.mark.parametrize(("kernel", "points"), KERNELS, ids=lambda part: type(part).__name__)
def test_kernels(little, kernel, points) -> None:
    with pytest.raises(MemoryError, match=SENTENCE):
        kernel(points)
    with pytest.raises(MemoryError, match=SENTENCE):
        kernel(points, points[:300])
    assert len(kernel.diag(points)) == 300
    assert kernel(points[:9]).shape == (9, 9)


def test_what_is_built_on_them(little) -> None:
    y = (X[:, 0] > 1).astype(int)
    heat = Heat(Sphere(), t=0.2)
    for fit in (
        SVC(kernel=heat).fit,
        GaussianProcessRegressor(heat).fit,
        GramTransformer(heat).fit_transform,
        KernelSearchCV([heat], cv=3).fit,
    ):
        with pytest.raises(MemoryError, match=SENTENCE):
            fit(X, y)
    with pytest.raises(MemoryError, match=SENTENCE):
        Grams(X, kept=0)(heat)


def test_the_way_out_needs_no_matrix(little) -> None:
    assert Heat(Sphere(), t=0.2).matvec(X, None, np.ones(300)).shape == (300,)


def test_gradients_count(little) -> None:
    heat = Heat(Sphere(), t=0.2)
    assert heat(X[:150]).shape == (150, 150)
    with pytest.raises(MemoryError, match="150 x 150, 2 times"):
        heat(X[:150], eval_gradient=True)


def test_sixty_thousand_rows(monkeypatch) -> None:
    monkeypatch.setattr(_memory, "available", lambda: 24e9)
    rows = np.random.default_rng(0).normal(size=(60_000, 3))
    with pytest.raises(MemoryError, match=r"60000 x 60000 takes 28.8 GB and 24 GB are available: "):
        SVC(kernel=Heat(Sphere())).fit(rows, rows[:, 0] > 0)


def test_small_matrices_ask_nobody(monkeypatch) -> None:
    monkeypatch.setattr(_memory, "available", lambda: pytest.fail("asked"))
    Heat(Sphere())(X)


def machine(folder: Path, groups: str, files: dict[str, str]) -> None:
    for name, text in {
        "proc/meminfo": "MemTotal: 64000 kB\nMemAvailable:   32000 kB\n",
        "proc/self/cgroup": groups,
        "proc/self/statm": "1000 1 1 1 1 1 1\n",
        **files,
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("", {}, 32_768_000),
        (
            "0::/job/step\n",
            {
                "cgroup/job/memory.max": "9000000\n",
                "cgroup/job/memory.current": "5000000\n",
                "cgroup/job/memory.stat": "anon 1\ninactive_file 1000000\n",
                "cgroup/job/step/memory.max": "max\n",
                "cgroup/job/step/memory.current": "1\n",
                "cgroup/job/step/memory.stat": "inactive_file 0\n",
            },
            5_000_000,
        ),
        (
            "3:cpu:/\n7:memory:/box\n",
            {
                "cgroup/memory/memory.limit_in_bytes": "8000000\n",
                "cgroup/memory/memory.usage_in_bytes": "6000000\n",
                "cgroup/memory/memory.stat": "total_inactive_file 500000\n",
            },
            2_500_000,
        ),
    ],
)
def test_what_there_is(tmp_path, monkeypatch, groups: str, files: dict, expected: int) -> None:
    machine(tmp_path, groups, files)
    monkeypatch.setattr(_memory, "_PROCESS", tmp_path / "proc")
    monkeypatch.setattr(_memory, "_GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(_memory, "_of_process", lambda: np.inf)
    assert _memory.available() == expected


def test_limit_of_address_space(tmp_path, monkeypatch) -> None:
    resource = pytest.importorskip("resource")
    machine(tmp_path, "", {})
    monkeypatch.setattr(_memory, "_PROCESS", tmp_path / "proc")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (10_000_000, -1))
    assert _memory.available() == 10_000_000 - 1000 * resource.getpagesize()


def test_machines_without_files(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(_memory, "_PROCESS", tmp_path)
    assert 1e8 < _memory.available() < 1e15


@pytest.mark.parametrize(
    "kernel",
    [Gaussian() + Gaussian(2.0) + Gaussian(3.0), Gaussian() * Gaussian(2.0), Gaussian() ** 2],
    ids=repr,
)
def test_gradients_of_compositions_count(monkeypatch, kernel) -> None:
    X = np.random.default_rng(0).normal(size=(50, 3))
    K, G = kernel(X, eval_gradient=True)
    monkeypatch.setattr("mercer._validation._SMALL", 0)
    monkeypatch.setattr("mercer._memory.available", lambda: 0.8 * (K.nbytes + G.nbytes))
    with pytest.raises(MemoryError, match="Gram matrix"):
        kernel(X, eval_gradient=True)
