"""Landmarks in place of support vectors, against the sums that they replace."""

import numpy as np
import pytest
from sklearn.datasets import make_classification

from mercer.exceptions import IndefiniteKernelWarning
from mercer.kernels import Gaussian, Heat, Parametrix, Spectrum
from mercer.machines import SVC, SVR, KernelRidge, OneClassSVM
from mercer.spaces import Sphere

X, y = make_classification(400, 5, n_informative=4, n_redundant=0, flip_y=0.1, random_state=0)
NEW = np.random.default_rng(1).normal(size=(200, 5))
KERNEL = Heat(Sphere(), t_star=1.5)
CASES = {
    "two classes": (SVC(KERNEL), y),
    "three classes": (SVC(KERNEL), y + (X[:, 0] > 1)),
    "regression": (SVR(KERNEL), X[:, 0]),
    "novelty": (OneClassSVM(Gaussian(3.0), nu=0.3), None),
    "ridge": (KernelRidge(KERNEL), X[:, 0]),
    "ridge, two columns": (KernelRidge(Gaussian(3.0)), X[:, :2]),
}


def values(machine, points) -> np.ndarray:
    """What a machine says of points, before it decides."""
    if isinstance(machine, SVC):
        machine.set_params(decision_function_shape="ovo")
    return getattr(machine, "decision_function", machine.predict)(points)


@pytest.mark.filterwarnings("ignore:compress")  # few landmarks, on purpose
@pytest.mark.parametrize(("machine", "target"), CASES.values(), ids=CASES)
def test_values_are_as_near_as_stated(machine, target) -> None:
    expected, errors = values(machine.fit(X, target), NEW), []
    for size in (5, 20, 60):
        machine.set_params(compress=size).fit(X, target)
        assert len(machine.landmarks_) <= size
        found = np.abs(values(machine, NEW) - expected).max()
        assert found <= machine.compression_error_
        errors.append(machine.compression_error_)
    assert errors[0] > errors[1] > 2 * errors[2]
    machine.set_params(compress=None).fit(X, target)
    assert not hasattr(machine, "landmarks_")


@pytest.mark.parametrize("machine", [SVC(KERNEL), SVR(KERNEL), KernelRidge(KERNEL)], ids=repr)
def test_errors_far_larger_than_the_values_are_told(machine) -> None:
    expected = machine.set_params(compress=None).fit(X, y)
    typical = np.sqrt(np.mean((values(expected, X) - getattr(expected, "intercept_", 0)) ** 2))
    with pytest.warns(UserWarning, match=r"compress: 2 landmarks .* up to .*; raise compress") as told:
        machine.set_params(compress=2).fit(X, y)
    assert len(told) == 1
    assert machine.compression_error_ > 2 * typical
    machine.set_params(compress=200).fit(X, y)  # a warning is an error
    assert machine.compression_error_ < typical


@pytest.mark.filterwarnings("ignore:compress")
def test_the_error_is_the_distance_of_functions() -> None:
    machine = SVR(KERNEL, compress=10).fit(X, X[:, 0])
    both = np.vstack([machine.support_vectors_, machine.landmarks_])
    b = np.concatenate([machine.dual_coef_[0], -machine.landmark_coef_])
    assert machine.compression_error_ == pytest.approx(np.sqrt(b @ KERNEL(both) @ b), rel=1e-6)


def test_points_of_other_kinds() -> None:
    words = ["".join(np.random.default_rng(k).choice(list("abc"), 8)) for k in range(60)]
    labels = [word.count("ab") > 1 for word in words]
    plain = SVC(Spectrum(2)).fit(words, labels)
    short = SVC(Spectrum(2), compress=60).fit(words, labels)
    np.testing.assert_allclose(short.decision_function(words), plain.decision_function(words), atol=1e-6)


@pytest.mark.parametrize("machine", [SVC, KernelRidge])
def test_faults_are_named(machine) -> None:
    with pytest.raises(ValueError, match=r"a whole number of at least 1, or None, got 0"):
        machine(KERNEL, compress=0).fit(X, y)
    with pytest.raises(ValueError, match=r"compress needs points, but the matrix is precomputed"):
        machine("precomputed", compress=5).fit(KERNEL(X), y)
    with pytest.raises(ValueError, match=r"compress needs a positive semidefinite kernel, which Param"):
        machine(Parametrix(Sphere(), t=1.0), compress=5).fit(X, y)


def test_indefinite_functions_are_refused() -> None:
    """Nothing would bound the change: landmarks were stated to be exact, and were off by hundreds."""
    parametrix = Parametrix(Sphere(), t=1.0)
    with (
        pytest.warns(IndefiniteKernelWarning),
        pytest.raises(ValueError, match="compress needs a positive semidefinite kernel"),
    ):
        SVC(lambda A, B: parametrix(A, B), compress=5).fit(X, y)
