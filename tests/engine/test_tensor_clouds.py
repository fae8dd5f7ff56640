"""Clouds of tensors against main memory, on a device if there is one."""

import numpy as np
import pytest
import torch

from mercer.kernels import (
    Cosine,
    FisherNormal,
    Gaussian,
    GaussianEmbedding,
    Heat,
    InverseGeneralizedVariance,
    Linear,
    Matern,
    MeanEmbedding,
    MixtureMoment,
    PosteriorNormal,
    RegularizedMoment,
    SphericalAverage,
    TraceKernel,
)
from mercer.machines import SVC, KernelRidge
from mercer.spaces import Euclidean, Graph, Sphere
from tests.helpers import device
from tests.helpers.clouds import random_clouds
from tests.helpers.far import DEVICE

BASE = Gaussian(length_scale=0.4)
KERNELS = [
    MeanEmbedding(BASE),
    MeanEmbedding(Heat(Sphere(), t=0.2), normalized=True),
    MeanEmbedding(Cosine()),
    GaussianEmbedding(Matern(Euclidean(), nu=1.5, length_scale=0.5), length_scale=0.5),
    GaussianEmbedding(Linear(), length_scale=0.7, normalized=True),
    TraceKernel(BASE, t=0.3),
    TraceKernel(BASE, t=0.3, decay="rational", beta=2.0, normalized=True),
    TraceKernel(Linear(), metric=np.diag([1.0, 0.0, 2.0]), normalized=True),
    InverseGeneralizedVariance(BASE, eta=0.05),
    InverseGeneralizedVariance(Heat(Sphere(), t=0.2), eta=0.05, normalized=True),
    InverseGeneralizedVariance(Linear(), eta=0.2),
    MixtureMoment(BASE, delta=2.0),
    RegularizedMoment(order=2, eps=0.2),
    SphericalAverage(t=0.5, normalized=True),
    FisherNormal(mean=np.full(3, 0.2), deviation=1.5),
    FisherNormal(mean=np.full(3, 0.2), deviation=1.5, information=False, normalized=True),
]
each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


def tensor(values, dtype=torch.float64, **options) -> torch.Tensor:
    return device.tensor(values, dtype, DEVICE, **options)


@pytest.fixture(params=["cpu", DEVICE])
def place(request, monkeypatch) -> None:
    """Tensors in main memory, and on a device."""
    monkeypatch.setattr(f"{__name__}.DEVICE", request.param)


def tensors(clouds, dtype=torch.float64, **options):
    """The same clouds, as tensors."""
    return [
        (tensor(c[0], dtype, **options), tensor(c[1]))
        if isinstance(c, tuple)
        else tensor(c, dtype, **options)
        for c in clouds
    ]


def clouds_of(kernel, sizes, seed=0):
    rng = np.random.default_rng(seed)
    return random_clouds(rng, sizes, d=3, weighted=not isinstance(kernel, FisherNormal))


@pytest.mark.usefixtures("place")
@each_kernel
@pytest.mark.parametrize(("sizes", "others"), [((3,), (1, 2)), ((1, 2, *(4,) * 40, 9, 130), (300, 3))])
def test_values(kernel, sizes, others) -> None:
    X, Y = clouds_of(kernel, sizes), clouds_of(kernel, others, 1)
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 2e-5)):
        A, B = tensors(X, dtype), tensors(Y, dtype)
        for here, there in ((kernel(X), kernel(A)), (kernel(X, Y), kernel(A, B))):
            assert (there.dtype, there.device.type, there.shape) == (dtype, DEVICE, here.shape)
            assert np.abs(there.cpu().numpy() - here).max() <= tolerance * np.abs(here).max()
        own = kernel.diag(A)
        assert own.dtype == dtype
        np.testing.assert_allclose(own.cpu(), kernel.diag(X), rtol=10 * tolerance)
        np.testing.assert_allclose(own.cpu(), kernel(A).diagonal().cpu(), rtol=tolerance)


def test_products_and_scales() -> None:
    X = clouds_of(KERNELS[0], (2, 4, 3, 8))
    v = np.arange(4.0)
    product = (KERNELS[0] + 2 * KERNELS[-3]).matvec(tensors(X), None, v)
    assert product.device.type == DEVICE
    np.testing.assert_allclose(product.cpu(), (KERNELS[0] + 2 * KERNELS[-3])(X) @ v)
    scaled = GaussianEmbedding(BASE).scaled_to(tensors(X))
    assert scaled.length_scale == GaussianEmbedding(BASE).scaled_to(X).length_scale
    assert MixtureMoment(BASE).safe_delta(tensors(X)) == MixtureMoment(BASE).safe_delta(X)


def test_one_tensor_of_clouds() -> None:
    X = np.random.default_rng(0).normal(size=(5, 4, 2))
    np.testing.assert_allclose(KERNELS[0](tensor(X)).cpu(), KERNELS[0](X), rtol=1e-13)
    with pytest.raises(ValueError, match=r"shape \(5, 4\).*list of clouds"):
        KERNELS[0](tensor(X[:, :, 0]))


MAKERS = {
    "mean": lambda p, q: MeanEmbedding(Gaussian(p), normalized=True),
    "gaussian": lambda p, q: GaussianEmbedding(Gaussian(p), q),
    "linear": lambda p, q: GaussianEmbedding(Linear(), q),
    "trace": lambda p, q: TraceKernel(Gaussian(p), t=q, decay="rational", normalized=True),
    "variance": lambda p, q: InverseGeneralizedVariance(Gaussian(p), eta=q, normalized=True),
    "moment": lambda p, q: MixtureMoment(Linear(), delta=q),
}


@pytest.mark.parametrize("name", MAKERS)
def test_derivatives(name) -> None:
    rng = np.random.default_rng(0)
    values = [0.6, 0.5, *(rng.normal(size=(k, 2)) / 2 for k in (1, 3, 2, 4))]

    def cross(p, q, *clouds):
        return MAKERS[name](p, q)(list(clouds[:2]), list(clouds[2:]))

    def own(p, q, *clouds):
        return MAKERS[name](p, q)(list(clouds))

    near = [device.tensor(part, torch.float64, "cpu", watched=True) for part in values]
    assert torch.autograd.gradcheck(cross, near, fast_mode=True)
    assert torch.autograd.gradcheck(own, near[:-1], fast_mode=True)
    far = [tensor(part, watched=True) for part in values]
    for function, here, there in ((cross, near, far), (own, near[:-1], far[:-1])):
        slopes, others = (
            torch.autograd.grad(function(*part).sum(), part, materialize_grads=True)
            for part in (here, there)
        )
        for one, other in zip(slopes, others, strict=True):
            np.testing.assert_allclose(other.cpu(), one, atol=1e-10)


def test_what_is_refused() -> None:
    X = clouds_of(KERNELS[0], (2, 3))
    A = tensors(X)
    with pytest.raises(TypeError, match="row 1 of X is in main memory, row 0 a tensor on"):
        KERNELS[0]([A[0], X[1]])
    with pytest.raises(TypeError, match=r"points of X are a tensor on .*, those of Y in main memory"):
        KERNELS[0](A, X)
    with pytest.raises(ValueError, match="row 1 of X contains NaN or infinity, in its point 2"):
        KERNELS[0]([A[0], tensor([[0.0, 1.0, 2.0], [1.0, 1.0, 1.0], [0.0, np.nan, 1.0]])])
    with pytest.raises(ValueError, match=r"row 0 of X is a cloud that .* point 1 of row 0 of X"):
        MeanEmbedding(Heat(Sphere()))([tensor([[1.0, 2.0], [0.0, 0.0]])])
    with pytest.raises(TypeError, match="row 0 of X is a sparse tensor"):
        KERNELS[0]([A[0].to_sparse()])
    with pytest.raises(ValueError, match="row 0 of X is not an array of real numbers"):
        KERNELS[0]([A[0].to(torch.complex128)])
    with pytest.raises(TypeError, match="weights that require a gradient"):
        KERNELS[0]([(tensor([[1.0]]), tensor([1.0], watched=True))])
    with pytest.raises(TypeError, match="tensors have autograd"):
        GaussianEmbedding(BASE)(A, eval_gradient=True)
    with pytest.raises(TypeError, match=r"length_scale is a tensor .* clouds are not tensors"):
        GaussianEmbedding(BASE, length_scale=tensor(1.0, watched=True))(X)
    with pytest.raises(TypeError, match="RegularizedMoment are computed in main memory"):
        RegularizedMoment()(tensors(X, watched=True))
    with pytest.raises(TypeError, match=r"PosteriorNormal is computed in main memory.*cpu\(\)"):
        PosteriorNormal()([A[0], A[0]])


def test_base_kernels_that_are_not_definite_are_refused() -> None:
    class Wrong(Gaussian):
        def __call__(self, X, Y=None, eval_gradient=False):
            return -super().__call__(X, Y)

    with pytest.raises(ValueError, match="not positive semidefinite on cloud 1"):
        InverseGeneralizedVariance(Wrong())(tensors(clouds_of(KERNELS[0], (1, 3))))


def test_clouds_of_nodes() -> None:
    kernel = MeanEmbedding(Heat(Graph(np.ones((5, 5))), t=0.1))
    np.testing.assert_array_equal(
        kernel([torch.tensor([0, 1]), torch.tensor([2])]), kernel([[0, 1], [2]])
    )


@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("kernel", [KERNELS[0], KERNELS[9]], ids=repr)
def test_fused(kernel) -> None:
    X = clouds_of(kernel, (1, 2, 5, 9))
    np.testing.assert_allclose(kernel(tensors(X)).cpu(), kernel(X), rtol=1e-12)


def test_by_definition() -> None:
    x, y = random_clouds(np.random.default_rng(0), (4, 7), d=3, weighted=False)
    K = np.exp(-((np.vstack([x, y])[:, None] - np.vstack([x, y])) ** 2).sum(axis=2) / 0.32)
    weights = np.repeat([1 / 8, 1 / 14], [4, 7])
    centring = np.eye(11) - weights
    roots = np.sqrt(weights / 0.05)
    _, log = np.linalg.slogdet(np.eye(11) + roots * (centring @ K @ centring.T) * roots[:, None])
    assert KERNELS[0](tensors([x]), tensors([y])).item() == pytest.approx(K[:4, 4:].mean(), rel=1e-13)
    assert KERNELS[8](tensors([x]), tensors([y])).item() == pytest.approx(np.exp(-log / 2), rel=1e-12)


def test_machines_keep_arrays_and_predict_either() -> None:
    rng, y = np.random.default_rng(5), np.arange(18) % 2
    clouds = [rng.normal(size=(4 + i % 3, 3)) + y[i] for i in range(18)]
    weighted = [(c, np.full(len(c), 1 / len(c))) for c in clouds]
    here = SVC(MeanEmbedding(BASE)).fit(clouds, y)
    expected = here.decision_function(clouds)
    for there in (tensors(clouds), tensors(weighted)):
        machine = SVC(MeanEmbedding(BASE)).fit(there, y)
        kept = machine.support_vectors_[0]
        assert type(kept[0] if isinstance(kept, tuple) else kept) is np.ndarray
        for new in (clouds, weighted, there):
            np.testing.assert_allclose(machine.decision_function(new), expected, atol=1e-9)
        np.testing.assert_allclose(here.decision_function(there), expected, atol=1e-9)
    ridge = KernelRidge(MeanEmbedding(BASE)).fit(tensors(clouds), y)
    np.testing.assert_allclose(ridge.predict(clouds), ridge.predict(tensors(clouds)), atol=1e-12)
