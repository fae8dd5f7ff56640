"""The contracts, over the whole catalogue."""

import inspect

import numpy as np
import pytest

from mercer import kernels, spaces
from mercer.contributions import of_columns
from mercer.spaces import Sphere
from mercer.testing import check_kernel, check_space
from tests.helpers.catalogue import KERNELS, SPACES


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_kernel(kernel) -> None:
    check_kernel(kernel)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_matrices_belong_to_the_caller(kernel) -> None:
    # Sums write into the matrix of their first part.
    X = kernel.sample(6, np.random.default_rng(0))
    for given in ((X,), (X, X[:4])):
        K = np.asarray(kernel(*given))
        first = K.copy()
        K[...] = np.nan
        np.testing.assert_array_equal(kernel(*given), first)


def test_every_public_kernel_is_in_the_catalogue() -> None:
    public = {getattr(kernels, name) for name in kernels.__all__}
    concrete = {c for c in public if not inspect.isabstract(c)}
    assert concrete == {type(k) for k in KERNELS}


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_space(space) -> None:
    # Geodesics of a family are solved for one by one.
    few = isinstance(space, spaces.ExponentialFamily)
    check_space(space, space.sample(8, np.random.default_rng(0)) if few else None)


def test_every_public_space_is_in_the_catalogue() -> None:
    public = {thing for name in spaces.__all__ if inspect.isclass(thing := getattr(spaces, name))}
    assert {c for c in public if not inspect.isabstract(c)} == set(map(type, SPACES))


class Broken(kernels.Kernel):
    """A "kernel" of one's own with a fault of choice."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def __call__(self, X, Y=None, eval_gradient=False):
        Y = X if Y is None else Y
        K = X @ Y.T
        if self.fault == "asymmetric" and len(X) > 1:
            K[0, -1] += 1
        if self.fault == "indefinite":
            K = K - 3 * np.linalg.norm(X, axis=1)[:, None] * np.linalg.norm(Y, axis=1)
        if self.fault == "subset":
            K = K / len(X)
        return (K, np.empty((*K.shape, 0))) if eval_gradient else K

    def diag(self, X):
        return (X * X).sum(axis=1) * (2 if self.fault == "diagonal" else 1)

    def contributions(self, X, Y, weights):
        return of_columns(X * (weights @ Y) + (self.fault == "contributions"), True)


@pytest.mark.parametrize("fault", ["asymmetric", "indefinite", "subset", "diagonal", "contributions"])
def test_check_kernel_finds_faults(fault: str) -> None:
    with pytest.raises(AssertionError, match="add up" if fault == "contributions" else None):
        check_kernel(Broken(fault), np.random.default_rng(0).normal(size=(30, 4)))


def test_check_kernel_turns_errors_into_findings() -> None:
    with pytest.raises(TypeError, match="give a kernel"):
        check_kernel(kernels.Heat)
    with pytest.raises(AssertionError, match="symmetry: ValueError"):
        check_kernel(kernels.Heat(Sphere(), t=-1.0))


class OtherDiagonal(kernels.Heat):
    """A heat kernel whose features are those of another: what it says of its diagonal is its own."""

    def realise(self, n):
        found = super().realise(n)
        if not self.normalized:
            features = found.features
            found.features = lambda size, seed: _Doubled(features(size, seed))
        return found


class _Doubled:
    def __init__(self, features) -> None:
        self.features, self.error = features, features.error

    def __call__(self, P):
        return np.sqrt(2.0) * self.features(P)


def test_features_of_another_kernel_are_found_out() -> None:
    with pytest.raises(AssertionError, match="inner products of features are not k"):
        check_kernel(OtherDiagonal(Sphere(), t=0.3, normalized=False))
