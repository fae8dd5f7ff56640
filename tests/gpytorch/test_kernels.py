"""Kernels for GPyTorch: its own test case, Mercer's values, scikit-learn's exact GP."""

import copy
import pickle
import unittest

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import WhiteKernel

from mercer import kernels
from mercer.gpytorch import ArcCosine, Heat, Matern
from mercer.gpytorch.kernels import gpytorch  # silences its import
from mercer.spaces import Euclidean, Hyperbolic, Simplex, Sphere

from gpytorch.test.base_kernel_test_case import BaseKernelTestCase  # isort: skip

RNG = np.random.default_rng(0)
SIGNED = RNG.normal(size=(7, 4))
COUNTS = RNG.gamma(0.7, size=(7, 4))

#: A GPyTorch kernel, the same kernel of mercer.kernels, and rows for it.
PAIRS = {
    "heat-sphere": (lambda **o: Heat(Sphere(), t=0.3, **o), kernels.Heat(Sphere(), t=0.3), SIGNED),
    "heat-simplex": (
        lambda **o: Heat(Simplex(), t_star=0.5, **o), kernels.Heat(Simplex(), t_star=0.5), COUNTS
    ),
    "heat-absolute": (
        lambda **o: Heat(Sphere(), normalized=False, **o),
        kernels.Heat(Sphere(), normalized=False), SIGNED,
    ),
    "matern-sphere": (
        lambda **o: Matern(Sphere(), nu=1.5, length_scale=0.7, **o),
        kernels.Matern(Sphere(), nu=1.5, length_scale=0.7), SIGNED,
    ),
    "matern-simplex": (
        lambda **o: Matern(Simplex(), nu=2.5, **o), kernels.Matern(Simplex(), nu=2.5), COUNTS
    ),
    "arccosine": (lambda **o: ArcCosine(order=1, **o), kernels.ArcCosine(order=1), SIGNED),
    "arccosine-deep": (
        lambda **o: ArcCosine(order=2, depth=2, **o), kernels.ArcCosine(order=2, depth=2), SIGNED
    ),
    "arccosine-sphere": (
        lambda **o: ArcCosine(Sphere(), order=0, **o), kernels.ArcCosine(0, normalized=True), SIGNED
    ),
    "arccosine-simplex": (
        lambda **o: ArcCosine(Simplex(), **o),
        lambda *XY: kernels.ArcCosine(1)(*(np.sqrt(Z / Z.sum(1, keepdims=True)) for Z in XY)), COUNTS,
    ),
}  # fmt: skip
EVERY = pytest.mark.parametrize(("make", "plain", "rows"), PAIRS.values(), ids=PAIRS)


def double(make, **options):
    """The kernel with its hyperparameters in double precision from the start."""
    torch.set_default_dtype(torch.float64)
    try:
        return make(**options)
    finally:
        torch.set_default_dtype(torch.float32)


def exactly(value: float) -> torch.Tensor:
    """GPyTorch takes plain numbers in single precision."""
    return torch.tensor(value, dtype=torch.float64)


def dense(covariance):
    return covariance.to_dense().detach().numpy()


# GPyTorch's own tests --------------------------------------------------------------------------------


class OnSphere(BaseKernelTestCase):
    """GPyTorch's data are normal: directions."""

    seed = 0

    def create_kernel_no_ard(self, **options):
        return self.kind(self.space, **options)


class OnSimplex(OnSphere):
    space = Simplex()

    def create_data_no_batch(self):
        return torch.rand(50, 10)

    def create_data_single_batch(self):
        return torch.rand(2, 3, 2)

    def create_data_double_batch(self):
        return torch.rand(3, 2, 50, 2)


class TestHeatOnSphere(OnSphere, unittest.TestCase):
    kind, space = Heat, Sphere()


class TestMaternOnSphere(OnSphere, unittest.TestCase):
    kind, space = Matern, Sphere()


class TestArcCosineOnSphere(OnSphere, unittest.TestCase):
    kind, space = ArcCosine, Sphere()


class TestArcCosineOfRows(OnSphere, unittest.TestCase):
    kind, space = ArcCosine, Euclidean()


class TestHeatOnSimplex(OnSimplex, unittest.TestCase):
    kind = Heat


class TestMaternOnSimplex(OnSimplex, unittest.TestCase):
    kind = Matern


class TestArcCosineOnSimplex(OnSimplex, unittest.TestCase):
    kind = ArcCosine


# Values ----------------------------------------------------------------------------------------------


@EVERY
def test_values_are_those_of_the_plain_kernels(make, plain, rows) -> None:
    kernel = double(make)
    x, y = torch.as_tensor(rows), torch.as_tensor(rows[:3] + 0.5)
    np.testing.assert_allclose(dense(kernel(x)), plain(rows), atol=1e-10)
    np.testing.assert_allclose(dense(kernel(x, y)), plain(rows, y.numpy()), atol=1e-10)
    np.testing.assert_allclose(kernel(x, diag=True).detach(), np.diag(plain(rows)), atol=1e-10)
    paired = np.diag(plain(rows[:3], y.numpy()))
    np.testing.assert_allclose(kernel(x[:3], y, diag=True).detach(), paired, atol=1e-10)


@EVERY
def test_single_precision_batches_and_products(make, plain, rows) -> None:
    kernel = make()
    x = torch.as_tensor(rows[:6], dtype=torch.float32).reshape(2, 1, 3, 4)
    values = kernel(x, x.reshape(1, 2, 3, 4)).to_dense()
    assert values.shape == (2, 2, 3, 3)
    assert values.dtype == torch.float32
    whole = plain(rows[:6])
    for i, j in np.ndindex(2, 2):
        expected = whole[3 * i : 3 * i + 3, 3 * j : 3 * j + 3]
        np.testing.assert_allclose(values[i, j].detach(), expected, rtol=2e-4, atol=2e-4)


def test_hyperparameters_of_their_own_in_a_batch() -> None:
    times = torch.tensor([[0.1, 0.5], [1.0, 2.0], [3.0, 0.02]], dtype=torch.float64)
    kernel = double(lambda: Heat(Sphere(), batch_shape=torch.Size([3, 2])))
    kernel.t_star = times.reshape(3, 2, 1, 1)
    x = torch.as_tensor(RNG.normal(size=(5, 3, 1, 6, 4)))
    values, diagonals = kernel(x).to_dense(), kernel(x, diag=True)
    assert values.shape == (5, 3, 2, 6, 6)
    for i, j in np.ndindex(3, 2):
        plain = kernels.Heat(Sphere(), t_star=float(times[i, j]))
        for k in range(5):
            expected = plain(x[k, i, 0].numpy())
            np.testing.assert_allclose(values[k, i, j].detach(), expected, atol=1e-10)
    np.testing.assert_array_equal(diagonals.detach(), np.ones((5, 3, 2, 6)))
    one = double(lambda: Matern(Sphere(), batch_shape=torch.Size([1])))
    assert one(x[0, 0, 0]).to_dense().shape == (1, 6, 6)


@pytest.mark.parametrize("make", [lambda **o: Heat(Sphere(), **o), lambda **o: ArcCosine(**o)])
def test_columns_survive_indexing_a_batch(make) -> None:
    kernel = double(make, batch_shape=torch.Size([3, 2]), active_dims=[0, 2])
    if isinstance(kernel, Heat):
        kernel.t_star = torch.linspace(0.1, 2, 6).reshape(3, 2, 1, 1)
    x = torch.as_tensor(RNG.normal(size=(3, 2, 5, 3)))
    expected = dense(kernel(x))[0, 1]
    part = kernel[0, 1]
    assert part.batch_shape == torch.Size([])
    np.testing.assert_allclose(dense(part(x[0, 1])), expected, atol=1e-12)
    wide = kernel.expand_batch(torch.Size([4, 3, 2]))
    np.testing.assert_allclose(dense(wide(x))[3, 0, 1], expected, atol=1e-12)
    np.testing.assert_array_equal(kernel.active_dims, [0, 2])


def test_each_column_as_a_batch() -> None:
    rows = torch.as_tensor(SIGNED)
    with pytest.warns(DeprecationWarning, match="last_dim_is_batch"):
        values = double(ArcCosine)(rows, last_dim_is_batch=True).to_dense()
    for j in range(4):
        np.testing.assert_allclose(values[j], kernels.ArcCosine()(SIGNED[:, j : j + 1]), atol=1e-12)
    with pytest.raises(ValueError, match="at least 2"):
        Heat(Sphere()).forward(rows, rows, last_dim_is_batch=True)


@pytest.mark.parametrize("value", [1e-4 + 1e-9, 1e-2, 1e3, 1e12])
def test_tiny_and_huge_hyperparameters(value: float) -> None:
    x = torch.as_tensor(np.vstack([SIGNED, SIGNED[:1]]))  # one row twice
    for kernel, plain in (
        (double(lambda: Heat(Sphere(), t_star=value)), kernels.Heat(Sphere(), t_star=value)),
        (double(lambda: Matern(Sphere(), length_scale=value)), kernels.Matern(Sphere(), 2.5, value)),
    ):
        np.testing.assert_allclose(dense(kernel(x)), plain(x.numpy()), atol=1e-8)
        gradient = torch.autograd.grad(kernel(x).to_dense().sum(), list(kernel.parameters()))
        assert all(torch.isfinite(part).all() for part in gradient)


def test_one_row() -> None:
    assert dense(Heat(Sphere())(torch.tensor([[1.0, 2.0]]))) == pytest.approx(1.0, abs=0)


# Derivatives -----------------------------------------------------------------------------------------


@EVERY
def test_gradients_against_differences(make, plain, rows) -> None:
    kernel = double(make, batch_shape=torch.Size([2]))
    x, y = (torch.tensor(rows[part], requires_grad=True) for part in (slice(3), slice(3, 6)))
    raw = [p for p in kernel.parameters() if p.requires_grad]

    def values(x, y, *raw):
        return kernel(x, y).to_dense(), kernel(x).to_dense(), kernel(x, y, diag=True)

    assert torch.autograd.gradcheck(values, (x, y, *raw))


def test_derivatives_in_each_argument_at_equal_points() -> None:
    kernel = double(lambda: Heat(Sphere(), t=0.3))
    x, y = (torch.tensor(SIGNED[:2], requires_grad=True) for _ in range(2))
    assert torch.autograd.gradgradcheck(lambda x, y: kernel(x, y).to_dense(), (x, y))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_rows_of_two_tensors(dtype) -> None:
    # Each layer takes the square root of what rounding leaves of 1 - x.y.
    x = torch.tensor(RNG.normal(size=(2, 9, 7)), dtype=dtype)
    y = torch.cat([x.flip(1), torch.ones(2, 1, 7, dtype=dtype)], 1)
    kernel = ArcCosine(Sphere(), order=0, depth=4).to(dtype)
    pairs = (torch.arange(9), 8 - torch.arange(9))
    np.testing.assert_array_equal(kernel(x, y).to_dense()[:, *pairs], np.ones((2, 9)))
    np.testing.assert_array_equal(kernel(x, x.clone(), diag=True), np.ones((2, 9)))
    twice = torch.cat([x, x], 1)
    np.testing.assert_array_equal(kernel(twice).to_dense()[:, :9, 9:].diagonal(0, 1, 2), np.ones((2, 9)))
    x.requires_grad_()
    np.testing.assert_array_equal(kernel(x, y).to_dense()[:, *pairs].detach(), np.ones((2, 9)))


# Gaussian processes ----------------------------------------------------------------------------------


class ExactGP(gpytorch.models.ExactGP):
    def __init__(self, x, y, kernel) -> None:
        likelihood = gpytorch.likelihoods.GaussianLikelihood()
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = kernel

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def data(rows):
    shares = rows / np.abs(rows).sum(axis=1, keepdims=True)
    return rows, np.sin(3 * shares[:, 0]) + 0.1 * RNG.normal(size=len(rows))


@pytest.mark.parametrize(
    ("make", "plain", "rows"),
    [
        (lambda: Heat(Sphere(), t=0.4), kernels.Heat(Sphere(), t=0.4), RNG.normal(size=(40, 3))),
        (
            lambda: Matern(Simplex(), nu=1.5, length_scale=0.6),
            kernels.Matern(Simplex(), nu=1.5, length_scale=0.6),
            RNG.gamma(1.0, size=(40, 5)),
        ),
        (lambda: ArcCosine(order=1), kernels.ArcCosine(order=1), RNG.normal(size=(40, 3))),
    ],
    ids=["heat", "matern", "arccosine"],
)
def test_exact_process_is_scikit_learns(make, plain, rows) -> None:
    X, y = data(rows)
    theirs = 1.7 * plain + WhiteKernel(0.03)
    reference = GaussianProcessRegressor(theirs, optimizer=None, alpha=0).fit(X[:30], y[:30])
    evidence, slope = reference.log_marginal_likelihood(reference.kernel_.theta, eval_gradient=True)
    mean, covariance = reference.predict(X[30:], return_cov=True)

    inputs, targets = torch.as_tensor(X), torch.as_tensor(y)
    scaled = double(lambda: gpytorch.kernels.ScaleKernel(make()))
    scaled.outputscale = exactly(1.7)
    model = double(lambda: ExactGP(inputs[:30], targets[:30], scaled))
    model.likelihood.noise = exactly(0.03)
    score = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    loss = 30 * score(model(inputs[:30]), targets[:30])
    assert loss.item() == pytest.approx(evidence, abs=1e-8)
    if plain.continuous():
        raw = next(iter(scaled.base_kernel.parameters()))
        value = scaled.base_kernel._hyperparameter()
        by_raw = torch.autograd.grad(loss, raw, retain_graph=True)[0]
        by_log = by_raw / torch.autograd.grad(value.log().sum(), raw)[0]  # theta is a logarithm
        assert by_log.item() == pytest.approx(slope[1], abs=1e-8)

    model.eval()
    with torch.no_grad():
        posterior = model.likelihood(model(inputs[30:]))
    np.testing.assert_allclose(posterior.mean, mean, atol=1e-8)
    np.testing.assert_allclose(posterior.covariance_matrix, covariance, atol=1e-8)


def test_training_finds_the_maximum_that_scikit_learn_finds() -> None:
    X, y = data(RNG.normal(size=(60, 3)))
    ours = GaussianProcessRegressor(1.0 * kernels.Heat(Sphere()) + WhiteKernel(0.1)).fit(X, y)
    inputs, targets = torch.as_tensor(X), torch.as_tensor(y)
    model = double(lambda: ExactGP(inputs, targets, gpytorch.kernels.ScaleKernel(Heat(Sphere()))))
    score = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=100, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = -score(model(inputs), targets)
        loss.backward()
        return loss

    optimizer.step(closure)
    assert -60 * closure().item() == pytest.approx(ours.log_marginal_likelihood_value_, abs=1e-3)
    found = model.covar_module.base_kernel.t_star.item()
    assert found == pytest.approx(ours.kernel_.k1.k2.t_star, rel=0.05)


def test_sums_products_and_scales() -> None:
    heat, arc = double(lambda: Heat(Sphere(), t=0.3)), double(ArcCosine)
    x = torch.as_tensor(SIGNED)
    A, B = kernels.Heat(Sphere(), t=0.3)(SIGNED), kernels.ArcCosine()(SIGNED)
    np.testing.assert_allclose(dense((heat + arc)(x)), A + B, atol=1e-10)
    np.testing.assert_allclose(dense((heat * arc)(x)), A * B, atol=1e-10)
    scaled = double(lambda: gpytorch.kernels.ScaleKernel(heat))
    scaled.outputscale = exactly(2.7)
    np.testing.assert_allclose(dense(scaled(x)), 2.7 * A, atol=1e-10)


# Hyperparameters -------------------------------------------------------------------------------------


def test_constraints_and_priors() -> None:
    prior = gpytorch.priors.GammaPrior(2.0, 3.0)
    narrow = gpytorch.constraints.Interval(0.2, 0.9)
    expected = np.log(9 * 0.5) - 3 * 0.5  # rate^2 x exp(-rate x)
    for kernel, name in (
        (Heat(Sphere(), t_star=0.5, t_star_prior=prior, t_star_constraint=narrow), "t_star"),
        (Heat(Sphere(), t=0.5, t_prior=prior, t_constraint=narrow), "t"),
        (
            Matern(Sphere(), 1.5, 0.5, lengthscale_prior=prior, lengthscale_constraint=narrow),
            "lengthscale",
        ),
    ):
        assert getattr(kernel, name).shape == (1, 1)
        assert getattr(kernel, name).item() == pytest.approx(0.5)
        ((label, _, own, closure, setting),) = kernel.named_priors()
        assert label == f"{name}_prior"
        assert own.log_prob(closure(kernel)).item() == pytest.approx(expected, abs=1e-5)
        setting(kernel, torch.tensor(0.7))
        assert getattr(kernel, name).item() == pytest.approx(0.7)
        for raw, end in ((-1e3, 0.2), (1e3, 0.9)):
            kernel.initialize(**{f"raw_{name}": torch.tensor(raw)})
            assert getattr(kernel, name).item() == pytest.approx(end)
        with pytest.raises(ValueError, match=f"{name} = .* constraint"):
            setattr(kernel, name, 0.95)
        pickle.loads(pickle.dumps(kernel))
    kernel = Heat(Sphere())
    kernel.initialize(raw_t_star=torch.tensor(-1e3))  # an optimiser that went astray
    assert dense(kernel(torch.eye(3))).round(6).tolist() == np.eye(3).tolist()


def test_copies_and_saved_states() -> None:
    x = torch.as_tensor(SIGNED)
    kernel = Heat(Sphere()).double()
    kernel.t_star = 0.37
    assert kernel.t_star.item() == pytest.approx(0.37, abs=1e-15)
    expected = dense(kernel(x))
    fresh = double(lambda: Heat(Sphere()))
    fresh.load_state_dict(kernel.state_dict())
    for twin in (fresh, copy.deepcopy(kernel), pickle.loads(pickle.dumps(kernel))):
        np.testing.assert_array_equal(dense(twin(x)), expected)
    assert "Sphere()" in repr(kernel)
    assert "nu=1.5" in repr(Matern(Simplex(), nu=1.5))
    assert "order=2" in repr(ArcCosine(order=2))


# Bad input -------------------------------------------------------------------------------------------


def test_bad_rows_are_named() -> None:
    zero = torch.as_tensor(SIGNED.copy())
    zero[2] = 0
    with pytest.raises(ValueError, match="row 2 of x1 is all zeros"):
        Heat(Sphere())(zero).to_dense()
    with pytest.raises(ValueError, match="row 2 of x2 is all zeros"):
        Heat(Sphere())(torch.as_tensor(SIGNED), zero).to_dense()
    with pytest.raises(ValueError, match="row 2 of x1 is all zeros"):
        ArcCosine(normalized=True)(zero).to_dense()
    assert double(ArcCosine)(zero).to_dense()[2].abs().max() == 0
    with pytest.raises(ValueError, match="negative"):
        Matern(Simplex())(torch.as_tensor(SIGNED)).to_dense()
    zero[2] = float("nan")
    with pytest.raises(ValueError, match="row 2 of x1 contains NaN"):
        ArcCosine()(zero).to_dense()
    with pytest.raises(ValueError, match="no rows"):
        Heat(Sphere())(torch.empty(0, 3)).to_dense()
    with pytest.raises(ValueError, match="at least 2"):
        Heat(Sphere())(torch.ones(5)).to_dense()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Heat(Euclidean()), TypeError, "Sphere"),
        (lambda: Heat(Hyperbolic(), t=1.0), TypeError, "Sphere"),
        (lambda: Matern("sphere"), TypeError, "space"),
        (lambda: ArcCosine(Hyperbolic()), TypeError, "Euclidean"),
        (lambda: ArcCosine(order=3), ValueError, "order"),
        (lambda: Heat(Sphere(), t=-1.0), ValueError, "positive"),
        (lambda: Heat(Sphere(), t=0.5, t_star=2.0), ValueError, "not both"),
        (lambda: Heat(Sphere(), t_star=1e-5), ValueError, "constraint"),
        (lambda: Matern(Sphere(), nu=0.0), ValueError, "nu"),
        (lambda: Heat(Sphere(), t_star_prior="gamma"), TypeError, "t_star_prior"),
        (
            lambda: Heat(Sphere(), t_constraint=gpytorch.constraints.Positive()),
            ValueError,
            "given as t_star",
        ),
        (lambda: setattr(Heat(Sphere()), "t", 0.3), ValueError, "as t_star"),
        (lambda: Heat(Sphere(), ard_num_dims=3), TypeError, "ard_num_dims"),
    ],
)
def test_bad_parameters_are_refused(make, error, message: str) -> None:
    with pytest.raises(error, match=message):
        make()
