"""Kernels are compared by their parameters, and can be keys."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.gaussian_process import kernels as sk

from mercer.kernels import (
    ArcCosine,
    Gaussian,
    Heat,
    Linear,
    MeanEmbedding,
    Spectral,
    Spectrum,
    TfIdf,
)
from mercer.spaces import Simplex, Sphere
from tests.helpers.catalogue import KERNELS, fading


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_a_clone_is_equal(kernel) -> None:
    again = clone(kernel)
    assert kernel == again
    assert hash(kernel) == hash(again)
    assert len({kernel, again}) == 1
    assert kernel != object()


def test_all_kernels_differ() -> None:
    assert len(set(KERNELS)) == len(KERNELS)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Spectral(Sphere(), [1.0, 0.5]), Spectral(Sphere(), [1.0, 0.5, 0.0])),
        (Spectral(Sphere(), np.ones(3)), Spectral(Sphere(), fading)),
        (TfIdf(weights=np.ones(3)), TfIdf(weights=np.ones(4))),
        (TfIdf(), TfIdf(weights=np.ones(4))),
        (Gaussian(column_scales=np.ones(2)), Gaussian(column_scales="std")),
        (Heat(Sphere()), Heat(Simplex())),
        (Heat(Sphere(), t=0.1), Heat(Sphere(), t=0.2)),
        (Heat(Sphere()), Heat(Sphere(), t_star_bounds="fixed")),
        (Linear(), ArcCosine()),
        (Linear() + 1.0, Linear() * 1.0),
        (MeanEmbedding(Gaussian(1.0)), MeanEmbedding(Gaussian(2.0))),
        (Heat(Sphere()) + sk.RBF(1.0), Heat(Sphere()) + sk.RBF(2.0)),
    ],
)
def test_different(first, second) -> None:
    assert first != second
    assert len({first, second}) == 2


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Spectral(Sphere(), [1, 0.5]), Spectral(Sphere(), np.array([1, 0.5]))),
        (Heat(Sphere(), t=1), Heat(Sphere(), t=1.0)),
        (Heat(Sphere(), t=0.5), Heat(Sphere(), t=np.float32(0.5))),
        (Heat(Sphere(), t=0.5), Heat(Sphere(), t=torch.tensor(0.5, requires_grad=True))),
        (Spectrum(length=(1, 3)), Spectrum(length=[1, 3])),
        (Linear() + Gaussian(), Gaussian() + Linear()),
        (Heat(Sphere()) * sk.RBF(2.0), Heat(Sphere()) * sk.RBF(2.0)),
    ],
)
def test_the_same(first, second) -> None:
    assert first == second
    assert hash(first) == hash(second)
