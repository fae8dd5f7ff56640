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
from mercer.machines.program import certify
from mercer.machines.rows import ComputedBlocks, MatrixRows
from mercer.machines.solver import solve


@pytest.fixture(scope="module")
def noisy():
    return make_classification(700, 10, n_informative=6, flip_y=0.1, random_state=0)


def computed(K: np.ndarray, rows: int, calls: list) -> ComputedBlocks:
    """Blocks of a matrix as if each had to be computed, and a list of their sizes."""

    def block(index):
        calls.append(len(index))
        return K[np.ix_(index, index)]

    return ComputedBlocks(
        block, lambda used, b: K[:, used] @ b, np.diagonal(K).copy(), room=8.0 * rows * rows
    )


@pytest.mark.parametrize(("C", "rows"), [(0.1, 40), (1.0, 40), (10.0, 300), (1000.0, 300)])
def test_blocks_reach_the_same_optimum(noisy, C, rows) -> None:
    X, y = noisy
    K = Gaussian(3.0)(X)
    program = separation(y > 0, np.full(len(y), C))
    whole = solve(program, MatrixRows(K), 1e-8)
    calls: list[int] = []
    source = computed(K, rows, calls)
    parts = solve_by_blocks(program, source, 1e-4)
    assert parts.reached
    assert parts.objective >= whole.objective * (1 - 1e-4)
    again = certify(program, parts.b, K @ parts.b, np.diagonal(K).copy())
    assert again.relative_gap == pytest.approx(parts.relative_gap, rel=1e-6)
    assert max(calls) <= rows


def test_few_blocks_if_the_support_vectors_fit(noisy) -> None:
    X, y = noisy
    K = Gaussian(3.0)(X)
    calls: list[int] = []
    found = solve_by_blocks(separation(y > 0, np.ones(len(y))), computed(K, 500, calls), 1e-3)
    assert np.count_nonzero(found.b) < 500
    assert len(calls) <= 6


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
