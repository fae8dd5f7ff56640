"""Kernels of tensors on a device; nothing is brought from there, or to it, by accident."""

import threading

import numpy as np
import pytest
import torch

from mercer import rkhs
from mercer.features import GramTransformer, SpectralFeatures
from mercer.kernels import (
    ArcCosine,
    Constant,
    Gaussian,
    Heat,
    Linear,
    Matern,
    MultipleKernel,
    Parametrix,
    Polynomial,
)
from mercer.spaces import Hyperbolic, NormalProduct, ProductSpace, Rotations, Simplex, Sphere, Torus
from tests.helpers.catalogue import KERNELS
from tests.helpers.far import DEVICE

HERE = torch.tensor([1.0, 2.0, 3.0])
PLACES = torch.tensor([2, 0])
NUMBER = torch.tensor(2.0)


def there(values) -> torch.Tensor:
    return torch.as_tensor(values, device=DEVICE)


def refused_by_a_device():
    """What no program may do with tensors of a device."""
    x, rows, places = there(HERE), there(torch.eye(3)), there(PLACES)
    return {
        "array": (lambda: np.asarray(x), TypeError),
        "numpy": (lambda: x.numpy(), TypeError),
        "function of NumPy": (lambda: np.sqrt(x), TypeError),
        "list of numbers": (lambda: np.array([x[0], x[1]]), TypeError),
        "sum": (lambda: x + HERE, RuntimeError),
        "sum here": (lambda: HERE + x, RuntimeError),
        "number there": (lambda: HERE * x[0], RuntimeError),
        "product": (lambda: rows @ HERE, RuntimeError),
        "choice": (lambda: torch.where(HERE > 1, x, x), RuntimeError),
        "row numbers": (lambda: x.index_select(0, PLACES), RuntimeError),
        "gathered": (lambda: x.gather(0, PLACES), RuntimeError),
        "indices there": (lambda: HERE[places], RuntimeError),
        "mask there": (lambda: HERE[x > 1], RuntimeError),
        "values here": (lambda: x.index_put_((places,), HERE[:2]), RuntimeError),
        "joined": (lambda: torch.cat([x, HERE]), RuntimeError),
        "changed here": (lambda: HERE.clone().add_(x), RuntimeError),
        "number changed here": (lambda: NUMBER.clone().add_(x[0]), RuntimeError),
    }


@pytest.mark.parametrize("name", refused_by_a_device())
def test_what_is_refused(name: str) -> None:
    action, error = refused_by_a_device()[name]
    with pytest.raises(error):
        action()


def test_what_is_allowed() -> None:
    x, rows = there(HERE), there(torch.eye(3))
    for found, expected in (
        (x * NUMBER + 1, [3.0, 5.0, 7.0]),
        (x[PLACES], [3.0, 1.0]),
        (x[HERE > 1], [2.0, 3.0]),
        (x[np.array([1, 0])], [2.0, 1.0]),
        (torch.cat([x, torch.zeros(1, device=x.device)]), [1.0, 2.0, 3.0, 0.0]),
        (torch.tensor([4, 5], device=DEVICE), [4, 5]),
        (x.new_ones(2).to(torch.float64), [1.0, 1.0]),
        (torch.arange(2, device=x.device), [0, 1]),
        (rows @ x, [1.0, 2.0, 3.0]),
        (torch.unique(there(PLACES)), [0, 2]),
    ):
        assert found.device.type == DEVICE
        assert found.tolist() == found.cpu().numpy().tolist() == expected
    assert (x[0].item(), float(x[1]), bool(x[0] > 0), int(x.argmax())) == (1.0, 2.0, True, 2)
    assert x.device != torch.device(DEVICE)  # which has no number
    assert (x.to("cpu") + HERE).sum() == 12.0
    rows[0] = x
    rows[1:, 0] = HERE[:2]  # copied
    rows[:2] += x[0]
    rows.view(-1)[-1] = NUMBER
    here = torch.zeros(3, 3)
    here[:] = rows
    assert here.tolist() == rows.tolist() == [[2.0, 3.0, 4.0], [2.0, 2.0, 1.0], [2.0, 0.0, 2.0]]


def test_derivatives_and_threads() -> None:
    x, here = there(HERE).requires_grad_(), HERE.clone().requires_grad_()
    again = torch.utils.checkpoint.checkpoint(torch.exp, x, use_reentrant=False)
    (again.sum() + (here.to(DEVICE) * x**2).sum()).backward()
    assert (x.grad.device.type, here.grad.device.type) == (DEVICE, "cpu")
    np.testing.assert_allclose(x.grad.cpu(), HERE.exp() + 2 * HERE**2)
    np.testing.assert_allclose(here.grad, HERE**2)
    found: list[torch.Tensor] = []
    thread = threading.Thread(target=lambda: found.append(torch.ones(2, device=DEVICE)))
    thread.start()
    thread.join()
    assert found[0].device.type == DEVICE


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
def test_sparse_tensors() -> None:
    for sparse in (there(torch.eye(3)).to_sparse_csr(), torch.eye(3).to_sparse_csr().to(DEVICE)):
        assert (sparse.layout, sparse.device.type) == (torch.sparse_csr, DEVICE)
        assert sparse.values().tolist() == [1.0, 1.0, 1.0]
        assert (sparse @ there(torch.eye(3))).tolist() == torch.eye(3).tolist()
        with pytest.raises(RuntimeError):
            sparse @ torch.eye(3)


def moved(points, device: str):
    """Points as tensors on a device."""
    if isinstance(points, np.ndarray):
        return torch.as_tensor(points, device=device)
    return [
        tuple(moved(part, device) for part in cloud)
        if isinstance(cloud, tuple)
        else moved(cloud, device)
        for cloud in points
    ]


def close(found, expected, tolerance: float = 1e-9) -> None:
    assert isinstance(found, torch.Tensor)
    assert found.device.type == DEVICE
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(found.detach().cpu(), expected, rtol=0, atol=tolerance * scale)


def takes_tensors(kernel) -> bool:
    """Whether Gram matrices of points in tensors are tensors."""
    X = kernel.sample(12, np.random.default_rng(0))
    if isinstance(X[0], str | int | list) or getattr(getattr(X, "dtype", None), "kind", "") == "O":
        return False  # texts, nodes, labels
    try:
        K = kernel.learnt_from(X)(moved(X, "cpu"))
    except TypeError:
        return False
    return isinstance(K, torch.Tensor)


#: Those on graphs of tensors have tests of their own.
OF_TENSORS = [kernel for kernel in KERNELS if takes_tensors(kernel)]
each_kernel = pytest.mark.parametrize("kernel", OF_TENSORS, ids=repr)


def points(kernel):
    """A kernel that has learnt what it needs, points, others, and both as tensors on the device."""
    X = kernel.sample(12, np.random.default_rng(0))
    kernel = kernel.learnt_from(X)
    X[7] = X[2]
    Y = X[3:9]
    return kernel, X, Y, moved(X, DEVICE), moved(Y, DEVICE)


@each_kernel
def test_gram_matrices(kernel) -> None:
    kernel, X, Y, A, B = points(kernel)
    close(kernel(A), kernel(X))
    close(kernel(A, B), kernel(X, Y))
    close(kernel.diag(A), kernel.diag(X))


@each_kernel
def test_sums_over_gram_matrices(kernel) -> None:
    kernel, X, Y, A, B = points(kernel)
    K, rng = kernel(X, Y), np.random.default_rng(1)
    v, weights, square = (rng.normal(size=shape) for shape in ((6, 2), (12, 6), (12, 12)))
    for place in (np.asarray, torch.as_tensor, there):
        close(kernel.matvec(A, B, place(v)), K @ v)
        close(kernel.matvec(A, None, place(weights[:, 0])), kernel(X) @ weights[:, 0])
        close(kernel.weighted_sum(A, B, place(weights)), (weights * K).sum())
        close(kernel.weighted_sum(A, None, place(square)), (square * kernel(X)).sum())


@each_kernel
def test_combined_kernels(kernel) -> None:
    kernel, X, Y, A, B = points(kernel)
    K, v = kernel(X, Y), np.arange(6.0)
    both = 2.0 * kernel + 0.5
    close(both(A), 2 * kernel(X) + 0.5)
    close((0.5 + kernel)(A, B), K + 0.5)
    close(both.diag(A), both.diag(X))
    close(both.matvec(A, B, v), (2 * K + 0.5) @ v)
    close((kernel * kernel)(A, B), K**2)
    close((kernel**2 * 3.0).matvec(A, B, v), 3 * K**2 @ v)


@pytest.mark.parametrize("kernel", [k for k in OF_TENSORS if not isinstance(k, Constant)], ids=repr)
def test_derivatives_by_points(kernel) -> None:
    X = kernel.sample(6, np.random.default_rng(0))
    kernel = kernel.learnt_from(X)

    def derivative(device: str):
        watched = moved(X, device)[0] if isinstance(X, list) else moved(X[:1], device)
        others = moved(X[1:], device)
        parts = watched if isinstance(watched, tuple) else (watched,)
        point = parts[0].requires_grad_()
        values = kernel([watched] if isinstance(X, list) else watched, others)
        return torch.autograd.grad(values.sum(), point)[0]

    close(derivative(DEVICE), derivative("cpu").numpy())


MAKERS = [
    lambda p: Heat(Sphere(), t=p),
    lambda p: Heat(Simplex(), t_star=p, normalized=False),
    lambda p: Heat(Torus(), t=p),
    lambda p: Matern(Sphere(), nu=1.5, length_scale=p),
    lambda p: Parametrix(Sphere(), t=p, order=2, normalized=True),
    lambda p: Heat(Hyperbolic("ball"), t=p),
    lambda p: Gaussian(length_scale=p),
    lambda p: Polynomial(coef0=p),
    lambda p: p * Heat(Sphere(), t=p) + Constant(p),
]


@pytest.mark.parametrize("make", MAKERS)
def test_derivatives_by_hyperparameters(make) -> None:
    X = make(0.4).sample(8, np.random.default_rng(0)) if make is not MAKERS[-1] else np.eye(8, 3) + 0.1
    v = np.linspace(-1, 1, 8)

    def derivatives(device: str):
        p = torch.tensor(0.4, dtype=torch.float64, device=device, requires_grad=True)
        rows = moved(X, device)
        kernel = make(p)
        totals = kernel(rows).sum(), kernel.matvec(rows, None, v).sum(), kernel.diag(rows).sum()
        (first,) = torch.autograd.grad(sum(totals), p, create_graph=True)
        return torch.stack([first, *torch.autograd.grad(first, p, allow_unused=True)])

    close(derivatives(DEVICE).detach(), derivatives("cpu").detach().numpy())


@pytest.mark.parametrize(
    "kernel",
    [Heat(Sphere(), t=0.3), Heat(Simplex()), Heat(Torus()), Heat(Rotations()), ArcCosine(), Linear()],
    ids=repr,
)
def test_features_and_what_is_learnt(kernel) -> None:
    X, y = kernel.sample(30, np.random.default_rng(0)), np.arange(30) % 2
    A = there(X)
    for features in (SpectralFeatures(kernel, n_components=10), GramTransformer(kernel)):
        if isinstance(kernel, Linear) and isinstance(features, SpectralFeatures):
            continue  # it has none
        expected = features.fit(X).transform(X)
        close(features.fit(A).transform(A), expected)
    assert kernel.scaled_to(A) == kernel.scaled_to(X)
    both = MultipleKernel([kernel, Gaussian(), Constant(2.0)])
    close(both.learnt_from(A, there(y))(A), both.learnt_from(X, y)(X))
    np.testing.assert_allclose(rkhs.distances(kernel(A)), rkhs.distances(kernel(X)), atol=1e-7)
    assert rkhs.diagnose(kernel(A), there(y)).alignment == pytest.approx(
        rkhs.diagnose(kernel(X), y).alignment
    )


@pytest.mark.parametrize(
    "space",
    [Sphere(), Simplex(), Torus(), Rotations(), Hyperbolic("ball"), NormalProduct()],
    ids=repr,
)
def test_distances(space) -> None:
    X = space.sample(7, np.random.default_rng(0))
    A = there(X)
    close(space.distances(A), space.distances(X), 1e-7)
    close(space.distances(A, A[:3]), space.distances(X, X[:3]), 1e-7)


def test_distances_in_products() -> None:
    space = ProductSpace(Torus(), Sphere(), columns=[slice(2), slice(2, 5)])
    X = np.random.default_rng(0).normal(size=(5, 5))
    np.testing.assert_allclose(space.distances(there(X)), space.distances(X), atol=1e-7)
