"""Kernels of tensors on a device: nothing is brought to main memory, or taken from there, by accident."""

import threading

import numpy as np
import pytest
import torch

from mercer.features import SpectralFeatures
from mercer.kernels import ArcCosine, Gaussian, Heat, Linear, Matern, Polynomial
from mercer.spaces import Euclidean, Hyperbolic, Rotations, Simplex, Sphere, Torus
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
    if isinstance(X[0], str | int | list) or getattr(X, "dtype", None) == object:
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
    v, weights = rng.normal(size=(6, 2)), rng.normal(size=(12, 6))
    for place in (np.asarray, torch.as_tensor, there):
        close(kernel.matvec(A, B, place(v)), K @ v)
        close(kernel.matvec(A, None, place(weights[:, 0])), kernel(X) @ weights[:, 0])
        close(kernel.weighted_sum(A, B, place(weights)), (weights * K).sum())
        close(
            kernel.weighted_sum(A, None, place(weights @ weights.T)),
            (weights @ weights.T * kernel(X)).sum(),
        )


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
