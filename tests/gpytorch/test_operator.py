"""Gram matrices as operators for GPyTorch, against the matrices."""

import pytest
import torch

from mercer.gpytorch import Heat, Matern
from mercer.gpytorch.kernels import gpytorch  # silences its import
from mercer.gpytorch.operator import EntrywiseProduct, GramOperator
from mercer.spaces import Sphere
from tests.gpytorch.test_kernels import EVERY, RNG, ExactGP, data, double


@pytest.fixture
def operators(monkeypatch) -> None:
    """Gram matrices of more than four rows are operators."""
    monkeypatch.setattr("mercer.gpytorch.kernels.DENSE", 4)


@EVERY
@pytest.mark.usefixtures("operators")
def test_operators_are_the_matrix(make, plain, rows) -> None:
    kernel = gpytorch.kernels.ScaleKernel(double(make)).double()
    kernel.outputscale = 2.5
    x, y = torch.tensor(rows), torch.tensor(rows[:3] + 0.5)
    for operator, expected in (
        (kernel(x).evaluate_kernel(), 2.5 * plain(rows, rows)),
        (kernel(x, y).evaluate_kernel(), 2.5 * plain(rows, rows[:3] + 0.5)),
    ):
        assert isinstance(operator, GramOperator)
        vectors = torch.tensor(RNG.normal(size=(2, operator.shape[1], 3)))
        expected = torch.tensor(expected)
        for found, wanted in (
            (operator @ vectors, expected @ vectors),
            (operator.mT @ expected[:, :2], expected.mT @ expected[:, :2]),
            (operator.to_dense(), expected),
            (operator[1:3, 1:3].to_dense(), expected[1:3, 1:3]),
            (operator[[1, 2], [0, 2]], expected[[1, 2], [0, 2]]),
        ):
            torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        kernel(x).evaluate_kernel().diagonal(), kernel(x).to_dense().diagonal(), rtol=1e-12, atol=0
    )


@pytest.mark.usefixtures("operators")
def test_operators_learn_as_matrices_do(monkeypatch) -> None:
    rows, y = map(torch.tensor, data(RNG.normal(size=(60, 3))))
    found, settings = [], gpytorch.settings
    for dense in (4, 1000):
        monkeypatch.setattr("mercer.gpytorch.kernels.DENSE", dense)
        kernel = gpytorch.kernels.ScaleKernel(double(lambda **o: Heat(Sphere(), t=0.2, **o))).double()
        model = ExactGP(rows, y, kernel).double()
        inputs = rows.clone().requires_grad_()
        K = model.likelihood(gpytorch.distributions.MultivariateNormal(y, kernel(inputs)))
        with settings.max_cholesky_size(dense), settings.min_preconditioning_size(1):
            loss = K.lazy_covariance_matrix.inv_quad(y)
            loss.backward()
            model.eval()
            mean = model(rows[:5] + 0.1).mean
        slopes = [parameter.grad.flatten() for parameter in kernel.parameters()]
        found.append([loss.reshape(1), inputs.grad.flatten(), mean, *slopes])
    for left, right in zip(*found, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("operators")
def test_products_of_kernels_are_made_some_rows_at_a_time(monkeypatch) -> None:
    monkeypatch.setattr("mercer.gpytorch.operator._PART", 100)
    rows, v = (torch.tensor(RNG.normal(size=(30, n))) for n in (3, 2))
    heat = double(lambda **o: Heat(Sphere(), t=0.2, **o))
    matern = double(lambda **o: Matern(Sphere(), nu=1.5, **o))
    kernel = gpytorch.kernels.ScaleKernel(heat * matern * heat).double()
    found = []
    for dense in (4, 1000):
        monkeypatch.setattr("mercer.gpytorch.kernels.DENSE", dense)
        inputs = rows.clone().requires_grad_()
        operator = kernel(inputs).evaluate_kernel()
        kernel.zero_grad()
        (operator @ v).square().sum().backward()
        slopes = [parameter.grad.flatten() for parameter in kernel.parameters()]
        parts = operator.diagonal(), operator[2:9, 3:9].to_dense(), operator[[1, 2], [0, 2]]
        found.append([operator @ v, operator.to_dense(), *parts, inputs.grad, *slopes])
        assert isinstance(operator.base_linear_op, EntrywiseProduct) == (dense == 4)
    for left, right in zip(*found, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-10)


@pytest.mark.usefixtures("operators")
def test_the_factor_of_all_rows_is_exact() -> None:
    rows = torch.tensor(RNG.normal(size=(50, 3)))
    operator = double(lambda **o: Matern(Sphere(), nu=0.5, **o))(rows).evaluate_kernel()
    factor, pivots = operator.pivoted_cholesky(50, return_pivots=True)
    assert sorted(pivots.tolist()) == list(range(50))
    torch.testing.assert_close(factor @ factor.mT, operator.to_dense(), rtol=0, atol=1e-8)


def test_large_matrices_are_not_made() -> None:
    rows = torch.tensor(RNG.normal(size=(20_000, 3)))
    operator = Heat(Sphere())(rows).evaluate_kernel()
    assert isinstance(operator, GramOperator)
    with pytest.raises(MemoryError, match=r"20000 x 20000 rows is not formed: .*max_cholesky_size"):
        operator.to_dense()


def test_botorch_finds_the_same_gains_and_their_slopes(monkeypatch) -> None:
    pytest.importorskip("botorch")
    from botorch.acquisition import LogExpectedImprovement
    from botorch.models import SingleTaskGP
    from botorch.settings import validate_input_scaling

    rows, y = map(torch.tensor, data(RNG.normal(size=(60, 3))))
    found, settings = [], gpytorch.settings
    for dense in (4, 1000):
        monkeypatch.setattr("mercer.gpytorch.kernels.DENSE", dense)
        kernel = gpytorch.kernels.ScaleKernel(double(lambda **o: Heat(Sphere(), t=0.2, **o))).double()
        with validate_input_scaling(False):
            model = SingleTaskGP(rows, y[:, None], covar_module=kernel)
        new = (rows[:7, None] + 0.3).requires_grad_()
        with settings.max_cholesky_size(dense), settings.min_preconditioning_size(1):
            gains = LogExpectedImprovement(model, best_f=y.mean())(new)
            gains.sum().backward()
        found.append((gains.detach(), new.grad))
    assert found[0][1].abs().max() > 0.01
    for left, right in zip(*found, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-3, atol=1e-5)
