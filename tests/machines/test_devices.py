"""Machines whose points are tensors on a device."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_classification

from mercer.bounds import enclosing_ball
from mercer.kernels import Gaussian, Heat, MeanEmbedding
from mercer.machines import SVC, SVR, KernelRidge, LandmarkClassifier, OneClassSVM
from mercer.machines.rows import ComputedBlocks
from mercer.selection import representatives
from mercer.spaces import Sphere
from tests.helpers.far import DEVICE

X, y = make_classification(
    300, 6, n_informative=5, n_redundant=0, n_clusters_per_class=3, flip_y=0.1, random_state=0
)
T = torch.as_tensor(X, device=DEVICE)
KERNEL = Heat(Sphere(), t_star=0.5)
#: So little that no Gram matrix is kept.
LITTLE = 1e-4


@pytest.fixture
def blocks(monkeypatch) -> list[int]:
    """Sizes of the blocks of coefficients, of which there are several."""
    sizes, block = [], ComputedBlocks.block

    def noted(self, rows):
        sizes.append(len(rows))
        return block(self, rows)

    monkeypatch.setattr(ComputedBlocks, "block", noted)
    monkeypatch.setattr("mercer.machines.svm._DEVICE_ROOM", 8.0 * 64**2)
    return sizes


def values(machine, points) -> np.ndarray:
    """What a machine says of points, before it decides."""
    return getattr(machine, "decision_function", machine.predict)(points)


@pytest.mark.parametrize(
    ("machine", "target"),
    [
        (SVC(KERNEL, C=5.0), y),
        (SVC(KERNEL, class_weight="balanced"), y + (X[:, 0] > 1)),
        (SVC("rbf"), y),
        (SVR(KERNEL, C=2.0, epsilon=0.05), X[:, 0]),
        (OneClassSVM(KERNEL, nu=0.2), None),
        (KernelRidge(KERNEL, alpha=0.3), X[:, :2]),
    ],
    ids=["two classes", "three classes", "rbf", "regression", "novelty", "ridge"],
)
def test_machines_are_the_same(machine, target, blocks) -> None:
    machine.set_params(tol=1e-8)
    expected = values(machine.fit(X, target), X)
    machine.set_params(max_memory=LITTLE).fit(T, target)
    found = values(machine, T)
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())
    np.testing.assert_allclose(values(machine, X), found, atol=1e-10)
    if isinstance(machine, KernelRidge):
        assert machine.n_iter_ > 1
        assert isinstance(machine.X_fit_, np.ndarray)
    else:
        assert max(blocks) <= 64
        assert len(blocks) > 4
        assert isinstance(machine.support_vectors_, np.ndarray)
        assert machine.dual_gap_ <= 1e-8


def test_weights_and_several_columns_of_ridge() -> None:
    weights = np.random.default_rng(0).uniform(0, 2, size=300)
    weights[:5] = 0.0
    exact = KernelRidge(KERNEL, alpha=0.3).fit(X, X[:, :2], weights)
    iterated = KernelRidge(KERNEL, alpha=0.3, tol=1e-9, max_memory=LITTLE).fit(T, X[:, :2], weights)
    np.testing.assert_allclose(iterated.predict(T), exact.predict(X), atol=1e-7)
    assert float(iterated.certificate_.split()[3]) < 1e-6


def test_single_precision_has_an_exact_residual() -> None:
    model = KernelRidge(KERNEL, alpha=0.1, max_memory=LITTLE).fit(T.float(), X[:, 0])
    rounded = T.float().double().cpu().numpy()
    residual = X[:, 0] - KERNEL(rounded) @ model.dual_coef_ - 0.1 * model.dual_coef_
    assert model.residual_ == pytest.approx(np.linalg.norm(residual), rel=1e-6)


@pytest.mark.parametrize(
    ("machine", "target"), [(SVC(KERNEL, C=5.0), y), (KernelRidge(KERNEL, alpha=0.3), X[:, 0])]
)
def test_blocks_are_halved_where_there_is_no_memory_left(machine, target, blocks, monkeypatch) -> None:
    expected = values(machine.set_params(tol=1e-9).fit(X, target), X)
    gram, matvec, refused = Heat.__call__, Heat.matvec, []

    def check(A, most: int) -> None:
        if isinstance(A, torch.Tensor) and len(A) > most:
            refused.append(len(A))
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    def little(self, A, B=None, **options):
        check(A, 40 if B is None else 300)  # columns of a factor are few
        return gram(self, A, B, **options)

    def short(self, A, B, v):
        check(A, 100)
        return matvec(self, A, B, v)

    monkeypatch.setattr(Heat, "__call__", little)
    monkeypatch.setattr(Heat, "matvec", short)
    found = clone(machine).set_params(max_memory=LITTLE).fit(T, target)
    np.testing.assert_allclose(values(found, T), expected, atol=1e-6)
    assert 300 in refused
    assert 150 in refused
    assert blocks[:1] in ([], [64])
    assert max(blocks[1:], default=32) == 32


def test_errors_for_want_of_other_things_are_raised(monkeypatch) -> None:
    def broken(*arguments):
        raise RuntimeError("a broken kernel")

    monkeypatch.setattr(Heat, "matvec", broken)
    with pytest.raises(RuntimeError, match="a broken kernel"):
        SVC(KERNEL, max_memory=LITTLE).fit(T, y)


def test_faults_are_named() -> None:
    bad = T.clone()
    bad[7, 2] = torch.nan
    with pytest.raises(ValueError, match="row 7"):
        SVC(KERNEL).fit(bad, y)
    with pytest.raises(ValueError, match=r"300 points|inconsistent"):
        SVC(KERNEL).fit(T, y[:-1])
    model = SVC(KERNEL).fit(T, y)
    with pytest.raises(ValueError, match="6 features"):
        model.predict(T[:, :4])


def test_callables_and_matrices_come_to_main_memory() -> None:
    def kernel(A, B):
        return Gaussian()(A, B)

    np.testing.assert_array_equal(SVC(kernel).fit(T, y).predict(T), SVC(kernel).fit(X, y).predict(X))
    K = torch.as_tensor(Gaussian()(X), device=DEVICE)
    assert SVC("precomputed").fit(K, y).score(K, y) > 0.8


def there(values) -> torch.Tensor:
    return torch.as_tensor(values, device=DEVICE)


@pytest.mark.parametrize(
    "machine", [SVC, SVR, KernelRidge, LandmarkClassifier], ids=lambda m: m.__name__
)
def test_targets_weights_and_clouds_may_be_there_too(machine) -> None:
    few, weights = y[:60], np.linspace(0.5, 2, 60)
    clouds = list(X[:60].reshape(60, 2, 3))
    far = [there(cloud) for cloud in clouds]
    for kernel, here, rows in (
        (KERNEL, X[:60], there(X[:60])),
        (MeanEmbedding(Gaussian()), clouds, far),
    ):
        expected = machine(kernel).fit(here, few, sample_weight=weights).predict(here)
        found = machine(kernel).fit(rows, there(few), sample_weight=there(weights)).predict(rows)
        np.testing.assert_allclose(torch.as_tensor(found).cpu(), expected, atol=1e-3)


def test_gram_matrices_may_be_there_too() -> None:
    K = Gaussian()(X[:60])
    expected = SVC("precomputed").fit(K, y[:60]).predict(K)
    np.testing.assert_array_equal(
        SVC("precomputed").fit(there(K), there(y[:60])).predict(there(K)), expected
    )
    assert enclosing_ball(there(K)).radius == pytest.approx(enclosing_ball(K).radius)
    np.testing.assert_array_equal(
        representatives(there(X), there(y), per_class=2), representatives(X, y, per_class=2)
    )
