"""Machines whose Gram matrix does not fit, and machines that are interrupted."""

import os
import signal
import time

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

from mercer.kernels import Gaussian
from mercer.machines import SVC, SVR, OneClassSVM, solver, svm
from mercer.machines.blocks import solve_by_blocks
from mercer.machines.classifier import separation
from mercer.machines.points import Points
from mercer.machines.program import certify
from mercer.machines.rows import ComputedBlocks, MatrixRows
from mercer.machines.solver import solve


@pytest.fixture(scope="module")
def noisy():
    return make_classification(700, 10, n_informative=6, flip_y=0.1, random_state=0)


class Blocks(ComputedBlocks):
    """Blocks of a matrix as if each had to be computed, with a list of their sizes."""

    def __init__(self, K: np.ndarray, rows: int, **options) -> None:
        points = Points(lambda A, B: K[np.ix_(A[:, 0], B[:, 0])], np.arange(len(K))[:, None])
        super().__init__(points, room=8.0 * rows * rows, **options)
        self.sizes: list[int] = []

    def block(self, rows):
        self.sizes.append(len(rows))
        return super().block(rows)


@pytest.mark.parametrize(("C", "rows"), [(0.1, 40), (1.0, 40), (10.0, 300), (1000.0, 300)])
def test_blocks_reach_the_same_optimum(noisy, C, rows) -> None:
    X, y = noisy
    K = Gaussian(3.0)(X)
    program = separation(y > 0, np.full(len(y), C))
    whole = solve(program, MatrixRows(K), 1e-8)
    source = Blocks(K, rows)
    parts = solve_by_blocks(program, source, 1e-4)
    assert parts.reached
    assert parts.objective >= whole.objective * (1 - 1e-4)
    again = certify(program, parts.b, K @ parts.b, np.diagonal(K).copy())
    assert again.gap == pytest.approx(parts.gap, rel=1e-6)
    assert again.relative_gap <= parts.relative_gap  # which values in parts round more often
    assert max(source.sizes) <= rows


@pytest.mark.parametrize("rows", [20, 120])
@pytest.mark.parametrize(
    ("kernel", "shift", "max_iter"),
    [
        (lambda A, B: A @ B.T, 1000.0, 10_000),  # single precision does not tell such rows apart
        (lambda A, B: (1 + A @ B.T / 5) ** 3, 0.0, 3000),
    ],
    ids=["far from the origin", "few steps"],
)
def test_callables_by_blocks_converge_where_matrices_do(kernel, shift, max_iter, rows) -> None:
    X, y = make_classification(600, 5, n_informative=4, n_redundant=0, flip_y=0.1, random_state=0)
    whole = SVC(kernel, max_iter=max_iter).fit(X + shift, y)
    room = 1e-9 * 8 * rows**2 / svm._KEPT
    parts = SVC(kernel, max_iter=max_iter, max_memory=room).fit(X + shift, y)  # a warning is an error
    assert parts.n_iter_.max() <= max_iter
    assert parts.objective_ == pytest.approx(whole.objective_, rel=2e-3)


@pytest.mark.parametrize("columns", [3, 20, 60])
def test_linear_callables_of_large_numbers_converge_by_blocks(columns: int) -> None:
    """Of low rank, and with negative eigenvalues once they are rounded to single precision."""
    rng = np.random.default_rng(0)
    X = 100 * rng.normal(size=(600, columns))
    y = X @ rng.normal(size=columns) + 100 * rng.normal(size=600) > 0
    source = ComputedBlocks(Points(lambda A, B: A @ B.T, X), 8 * 200**2)
    program = separation(y, np.ones(600))
    found = solve_by_blocks(program, source, 1e-3, max_steps=100_000)
    assert found.reached
    whole = solve(program, MatrixRows(X @ X.T), 1e-4)
    assert found.objective == pytest.approx(whole.objective, rel=2e-3)


def test_newton_steps_between_blocks_take_matrices_of_low_rank() -> None:
    rng = np.random.default_rng(0)
    X = 100 * rng.normal(size=(600, 5))
    y = X @ rng.normal(size=5) + 100 * rng.normal(size=600) > 0
    source = ComputedBlocks(Points(lambda A, B: A @ B.T, X), 8 * 100**2, rank=50, worth=20.0)
    assert solve_by_blocks(separation(y, np.ones(600)), source, 1e-3, max_steps=100_000).reached


def test_few_blocks_if_the_support_vectors_fit(noisy) -> None:
    X, y = noisy
    K = Gaussian(3.0)(X)
    source = Blocks(K, 500)
    found = solve_by_blocks(separation(y > 0, np.ones(len(y))), source, 1e-3)
    assert np.count_nonzero(found.b) < 500
    assert len(source.sizes) <= 6


def test_newton_steps_spare_blocks() -> None:
    # Nearly all coefficients are inside their boxes, and a block has few of them.
    X, y = make_classification(900, 40, n_informative=20, n_clusters_per_class=8, random_state=0)
    K = Gaussian(1.0).scaled_to(X, 0.3)(X)
    program = separation(y > 0, np.full(len(y), 100.0))
    whole = solve(program, MatrixRows(K), 1e-8)
    sizes = []
    for worth in (0.0, 8.0):
        source = Blocks(K, 64, rank=50, worth=worth)
        found = solve_by_blocks(program, source, 1e-4)
        assert found.reached
        assert found.objective == pytest.approx(whole.objective, rel=1e-4)
        assert abs(found.b.sum()) < 1e-9 * np.abs(found.b).sum()
        np.testing.assert_allclose(found.values, K @ found.b, atol=1e-8 * np.abs(found.b).sum())
        sizes.append(len(source.sizes))
    assert sizes[1] < 0.5 * sizes[0]


@pytest.mark.parametrize(
    ("machine", "memory", "rows"),
    [
        (SVC(C=5), 1e-3, 700),
        (SVC(C=5, tol=1e-7), 1e-3, 700),
        (SVR(C=5), 1e-3, 700),
        (OneClassSVM(nu=0.2), 1e-3, 700),
        (SVC(C=5), 1e-9, 60),
    ],
    ids=["SVC", "exact", "SVR", "one", "none"],
)
def test_little_memory_changes_nothing_but_the_time(noisy, machine, memory, rows) -> None:
    X, y = noisy[0][:rows], noisy[1][:rows]
    whole = machine.fit(X, y)
    expected = whole.predict(X)
    gap, objective = whole.dual_gap_, whole.objective_
    machine.set_params(max_memory=memory).fit(X, y)
    assert machine.converged_
    assert machine.objective_ == pytest.approx(objective, rel=2 * machine.tol)
    assert gap <= machine.tol
    if isinstance(machine, SVR):
        assert np.abs(machine.predict(X) - expected).max() < 0.2
    else:
        assert np.mean(machine.predict(X) == expected) > 0.98


def test_each_pair_of_classes_has_its_own_matrix(noisy) -> None:
    X, _ = noisy
    y = np.digitize(X[:, 0], [-1, 0, 1])
    whole = SVC(tol=1e-8).fit(X, y)
    # All rows take 3.9 MB, those of the largest pair of classes less than 3 MB.
    limited = SVC(tol=1e-8, max_memory=3e-3).fit(X, y)
    np.testing.assert_allclose(limited.dual_coef_, whole.dual_coef_, atol=1e-4)


@pytest.fixture
def ctrl_c():
    """Ctrl-C as in a terminal: shells start background jobs with it switched off."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("memory", [4.0, 2e-3])
def test_an_interrupted_machine_is_a_machine(memory, monkeypatch, noisy) -> None:
    """Ctrl-C while the solver is at work: the model is what it is by then, with its gap."""
    report = svm._Share.report

    def pressed(share, gap):
        if not share._work.stop.is_set():
            time.sleep(0.5)  # nobody is as fast as the solver
            os.kill(os.getpid(), signal.SIGINT)
            share._work.stop.wait(10)
        return report(share, gap)

    monkeypatch.setattr(svm._Share, "report", pressed)
    monkeypatch.setattr(solver, "_PAUSE", 0)
    with pytest.warns(ConvergenceWarning, match="was interrupted with a relative duality gap of"):
        machine = SVC(Gaussian(1.5), C=1e4, tol=1e-12, max_memory=memory).fit(*noisy)
    assert not machine.converged_
    assert 1e-12 < machine.dual_gap_ <= 1
    assert machine.predict(noisy[0][:3]).shape == (3,)
