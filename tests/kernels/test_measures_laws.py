"""Kernels between clouds: laws that hold for all of them, and scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from mercer.features import GramTransformer
from mercer.kernels import (
    Gaussian,
    GaussianEmbedding,
    Heat,
    InverseGeneralizedVariance,
    Linear,
    MeanEmbedding,
    MixtureMoment,
    Polynomial,
    TraceKernel,
)
from mercer.spaces import Sphere
from mercer.testing import check_kernel
from tests.helpers.clouds import BASE, MEASURES, random_clouds, split

seeds = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("kernel", MEASURES, ids=repr)
@settings(max_examples=15, deadline=None, derandomize=True)
@given(seeds, st.integers(1, 9), st.integers(1, 4))
def test_symmetric_and_positive_semidefinite(kernel, seed: int, m: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    clouds = random_clouds(rng, sizes=rng.integers(1, 8, size=m), d=d)
    clouds += clouds[:1]  # one of them twice
    K = kernel(clouds)
    np.testing.assert_array_equal(K, K.T)
    values = np.linalg.eigvalsh(K)
    assert values[0] >= -1e-12 * len(K) * values[-1]
    if isinstance(kernel, TraceKernel | InverseGeneralizedVariance | MixtureMoment | GaussianEmbedding):
        assert K.min() > 0
        assert K.max() <= 1 + 1e-12


@pytest.mark.parametrize("kernel", MEASURES, ids=repr)
@settings(max_examples=10, deadline=None, derandomize=True)
@given(seeds)
def test_a_cloud_is_a_measure(kernel, seed: int) -> None:
    """Order, doubled points with split weights and points without weight make no difference."""
    rng = np.random.default_rng(seed)
    clouds = random_clouds(rng)
    changed = []
    for cloud in clouds:
        points, weights = split(cloud)
        order = rng.permutation(len(points))
        parts = rng.random(len(points))
        double = np.concatenate([points[order], points[order], rng.normal(size=(2, 2))])
        shares = np.concatenate([(parts * weights)[order], ((1 - parts) * weights)[order], [0, 0]])
        changed.append((double, shares))
    np.testing.assert_allclose(kernel(changed), kernel(clouds), rtol=1e-11)
    np.testing.assert_allclose(kernel(changed, clouds), kernel(clouds), rtol=1e-11)


@pytest.mark.parametrize("kernel", MEASURES, ids=repr)
def test_normalized(kernel) -> None:
    clouds = random_clouds(np.random.default_rng(12))
    K = kernel(clouds)
    lengths = np.sqrt(kernel.diag(clouds))
    cosine = clone(kernel).set_params(normalized=True)
    np.testing.assert_allclose(cosine(clouds), K / lengths[:, None] / lengths, rtol=1e-12)
    np.testing.assert_allclose(
        cosine(clouds[:2], clouds[1:]), (K / lengths[:, None] / lengths)[:2, 1:], rtol=1e-12
    )
    assert (cosine.diag(clouds) == 1).all()


def test_normalized_values_survive_underflow() -> None:
    clouds = random_clouds(np.random.default_rng(13), sizes=(4, 4, 4), d=2)
    kernel = TraceKernel(BASE, t=1e-4)
    assert kernel.diag(clouds).max() == 0
    np.testing.assert_array_equal(np.diag(TraceKernel(BASE, t=1e-4, normalized=True)(clouds)), 1)


@pytest.mark.parametrize("kernel", MEASURES, ids=repr)
def test_contracts_on_arrays_of_clouds(kernel) -> None:
    """An array of shape (m, k, d), in double and in single precision."""
    check_kernel(kernel, np.random.default_rng(14).normal(size=(20, 4, 3)))


def test_single_precision_needs_all_clouds() -> None:
    rng = np.random.default_rng(15)
    single = [rng.normal(size=(3, 2)).astype(np.float32) for _ in range(4)]
    for kernel in MEASURES:
        assert kernel(single).dtype == kernel.diag(single).dtype == np.float32
        if kernel.theta.size:
            assert kernel(single, eval_gradient=True)[1].dtype == np.float32
        assert kernel(single, [c.astype(float) for c in single]).dtype == np.float64


def test_parameters_of_the_base_are_within_reach() -> None:
    kernel = InverseGeneralizedVariance(Gaussian(length_scale=0.3), eta=0.1)
    assert kernel.get_params()["base__length_scale"] == 0.3
    assert "base__length_scale" not in kernel.get_params(deep=False)
    kernel.set_params(base__length_scale=0.7, eta=0.2)
    assert kernel.base.length_scale == 0.7
    np.testing.assert_allclose(kernel.theta, np.log([0.2]))
    copy = clone(kernel)
    assert copy.base is not kernel.base
    assert copy == kernel
    assert repr(copy) == "InverseGeneralizedVariance(Gaussian(length_scale=0.7), eta=0.2)"
    assert TraceKernel(BASE, t_bounds="fixed").theta.size == 0


def test_grid_search_over_clouds() -> None:
    rng = np.random.default_rng(16)
    scales = np.repeat([0.3, 1.0], 15)
    clouds = [rng.normal(scale=s, size=(rng.integers(5, 12), 2)) for s in scales]
    model = make_pipeline(
        GramTransformer(InverseGeneralizedVariance(Gaussian())), SVC(kernel="precomputed", C=10)
    )
    grid = {"gramtransformer__kernel__base__length_scale": [0.3, 1.0]}
    assert GridSearchCV(model, grid, cv=3).fit(clouds, scales > 0.5).best_score_ > 0.9


def test_bases_of_every_kind() -> None:
    rng = np.random.default_rng(17)
    directions = [rng.normal(size=(k, 4)) for k in (2, 5, 3)]
    words = [["ab", "abc"], ["abc", "b", "ba"], (["ab", "c"], [0.25, 0.75])]
    from mercer.kernels import FullSpectrum

    nested = [[c, c + 1] for c in directions]
    for kernel in (TraceKernel, InverseGeneralizedVariance, MixtureMoment, MeanEmbedding):
        for base, clouds in (
            (Heat(Sphere(), t=0.3), directions),
            (Polynomial(degree=2), directions),
            (Gaussian() + Linear(), directions),
            (FullSpectrum(normalized=True), words),
            (TraceKernel(Gaussian()), nested),
        ):
            K = kernel(base)(clouds)
            assert np.linalg.eigvalsh(K).min() > -1e-12
            np.testing.assert_allclose(kernel(base)(clouds[1:], clouds), K[1:], rtol=1e-11)
    np.testing.assert_allclose(
        MeanEmbedding(FullSpectrum())(words[:1]), FullSpectrum()(words[0]).mean(), rtol=1e-14
    )
