"""The contract of likelihoods: derivatives, tallies, and a bound below the evidence."""

from dataclasses import dataclass, replace
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, gammaln
from scipy.stats import bernoulli, nbinom, norm, poisson
from sklearn.base import RegressorMixin, clone

from mercer.gp import SphericalGPClassifier, SphericalGPPoissonRegressor
from mercer.gp.base import VariationalGP
from mercer.gp.likelihoods import Bernoulli, Likelihood, Poisson, TargetTotals
from mercer.kernels import Heat, Spectral
from mercer.rows import Block
from mercer.spaces import Sphere


# A likelihood of one's own, and its estimator, from here ...
@dataclass(frozen=True, eq=False)
class NegativeBinomial(Likelihood):
    """Counts with the mean ``exp(f)`` and the variance ``exp(f) + exp(2 f) / r``."""

    average: float = 1.0
    r: float = 3.0
    kinds = (TargetTotals,)

    def tally(self, block):
        return TargetTotals.of(block, self.encode(block)[:, 0])

    def fitted(self, tally):
        return replace(self, average=float(tally.means[0]))

    @property
    def offset(self):
        return np.log([self.average])

    def encode(self, block):
        return block.targets()

    def terms(self, y, f):
        p = expit(f - np.log(self.r))
        constant = gammaln(y + self.r) - gammaln(self.r) - gammaln(y + 1)
        value = constant + y * np.log(p) + self.r * np.log1p(-p)
        return value, y - (y + self.r) * p, (y + self.r) * p * (1 - p)

    def start(self, y, offset):
        return np.log1p(y / np.exp(offset)) - np.log(2)

    def predict(self, mean, variance):
        rate = np.exp(mean + variance / 2)
        return rate, rate + rate**2 * (np.exp(variance) * (1 + 1 / self.r) - 1)


class NegativeBinomialGP(RegressorMixin, VariationalGP):
    likelihood = NegativeBinomial()


# ... to here.


#: Likelihood, its estimator, the density of an encoded target, and targets.
RNG = np.random.default_rng(0)
CASES = {
    "Bernoulli": (
        Bernoulli(),
        SphericalGPClassifier,
        lambda y, f: bernoulli.logpmf(y, expit(f)),
        RNG.integers(2, size=40),
    ),
    "Poisson": (
        Poisson(),
        SphericalGPPoissonRegressor,
        lambda y, f: poisson.logpmf(y, np.exp(f)),
        RNG.poisson(3.0, size=40),
    ),
    "NegativeBinomial": (
        NegativeBinomial(),
        NegativeBinomialGP,
        lambda y, f: nbinom.logpmf(y, 3.0, 3.0 / (3.0 + np.exp(f))),
        RNG.negative_binomial(3, 0.5, size=40),
    ),
}
contract = pytest.mark.parametrize(("likelihood", "kind", "density", "y"), CASES.values(), ids=CASES)


def normal(mean: float, variance: float) -> tuple[np.ndarray, np.ndarray]:
    """Points of a normal distribution, and their weights."""
    z = np.linspace(-9, 9, 2001)
    return mean + np.sqrt(variance) * z, norm.pdf(z) * (z[1] - z[0])


@contract
def test_expected_densities_and_their_derivatives(likelihood, kind, density, y) -> None:
    for target, mean, variance in [(1.0, 0.3, 0.5), (0.0, -2.0, 2.0), (1.0, 2.0, 1e-4), (0.0, 1.0, 1.0)]:

        def value(m, v, target=target) -> float:
            return float(likelihood.expectations(*(np.array([x]) for x in (target, m, v))).value[0])

        got = likelihood.expectations(*(np.array([x]) for x in (target, mean, variance)))
        z, weight = normal(mean, variance)
        exact = weight @ density(target, z)
        assert value(mean, variance) == pytest.approx(exact, abs=2e-6)
        step = 1e-5
        by_mean = (value(mean + step, variance) - value(mean - step, variance)) / (2 * step)
        assert got.slope[0] == pytest.approx(by_mean, abs=1e-6)
        # Price: the derivative by the variance is half the mean of the second derivative.
        step *= variance
        by_variance = (value(mean, variance + step) - value(mean, variance - step)) / (2 * step)
        assert got.curvature[0] == pytest.approx(-2 * by_variance, abs=1e-4, rel=1e-4)
        assert got.curvature[0] >= 0


@contract
def test_tallies_add_up_over_blocks(likelihood, kind, density, y) -> None:
    X, w = np.zeros((40, 2)), RNG.uniform(size=40)
    parts = [slice(0, 7), slice(7, 20), slice(20, 40)]
    blocks = [Block(X[p], y[p], w[p]) for p in parts]
    whole = likelihood.tally(Block(X, y, w))
    first, second, third = (likelihood.tally(block) for block in blocks)
    total = (first + second) + third
    assert total.rows == whole.rows == 40
    assert total.weight == pytest.approx(whole.weight) == pytest.approx(w.sum())
    one, other = likelihood.fitted(whole), likelihood.fitted(first + (second + third))
    np.testing.assert_allclose(one.offset, other.offset, rtol=1e-12)
    encoded = one.encode(Block(X, y, w))
    assert encoded.shape == (40, len(one.offset))
    np.testing.assert_array_equal(np.concatenate([other.encode(block) for block in blocks]), encoded)
    # The offset is the process that fits the average target.
    mean = one.predict(one.offset[None, :], np.zeros((1, len(one.offset))))[0]
    np.testing.assert_allclose(mean[0], np.average(encoded, axis=0, weights=w), rtol=1e-10)


@contract
def test_predictions_are_moments_of_targets(likelihood, kind, density, y) -> None:
    for mean, variance in ((0.2, 0.5), (-1.0, 0.1), (1.0, 0.8)):
        got = likelihood.predict(np.array([[mean]]), np.array([[variance]]))
        z, weight = normal(mean, variance)
        values = np.arange(2 if isinstance(likelihood, Bernoulli) else 2000)
        p = np.array([weight @ np.exp(density(value, z)) for value in values])
        expected = p @ values
        assert got[0][0, 0] == pytest.approx(expected, rel=1e-5)
        assert got[1][0, 0] == pytest.approx(p @ (values - expected) ** 2, rel=1e-4)


@pytest.mark.filterwarnings("ignore:the Gram matrix:mercer.exceptions.DegenerateKernelWarning")
@contract
def test_bound_is_close_below_the_evidence(likelihood, kind, density, y) -> None:
    # One feature, the constant: the evidence is an integral over one number.
    X = RNG.normal(size=(40, 2))
    model = kind(
        Spectral(Sphere(), weights=[1.0]), inputs="table", levels=1, amplitude=2.0, optimize=False
    )
    model.fit(X, y)
    offset, peak = model.likelihood_.offset[0], density(y, np.log(y.mean())).sum()

    def joint(f: float) -> float:
        return norm.pdf(f, scale=np.sqrt(2.0)) * np.exp(density(y, f + offset).sum() - peak)

    evidence = np.log(quad(joint, -6, 6, limit=400, points=[-0.5, 0, 0.5])[0]) + peak
    assert evidence - 0.05 < model.elbo_ < evidence + 1e-6


def test_a_likelihood_of_ones_own_takes_part_in_everything(tmp_path, monkeypatch) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 3))
    rate = np.exp(1 + X[:, 0] / np.linalg.norm(X, axis=1))
    y = rng.negative_binomial(3, 3 / (3 + rate))
    model = NegativeBinomialGP(Heat(Sphere()), max_features=30, tol=1e-3).fit(X, y)
    got, std = model.predict(X, return_std=True)
    assert np.abs(np.log(got / rate)).mean() < 0.25
    assert (((y - got) / std) ** 2).mean() == pytest.approx(1.0, abs=0.15)
    assert clone(model).get_params() == model.get_params()
    blocks = [(X[:150], y[:150]), (X[150:], y[150:])]
    expected = model.predict(X)
    lazy = clone(model).fit(da.from_array(X, chunks=(90, 3)), da.from_array(y, chunks=90))
    np.testing.assert_allclose(lazy.predict(X), expected, rtol=1e-6)
    # A fit that is stopped after each pass goes on.
    monkeypatch.setattr("mercer.rows.checkpoint.PERIOD", 0.0)

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(NegativeBinomialGP, "_few_rows", stop)
        patch.setattr("mercer.rows.checkpoint.Checkpoint.remove", lambda self: None)
        with pytest.raises(KeyboardInterrupt):
            clone(model).fit(blocks, checkpoint=tmp_path / "state")
    again = clone(model).fit(blocks, checkpoint=tmp_path / "state")
    np.testing.assert_allclose(again.predict(X), expected, rtol=1e-6)
    assert model.score(X, y) > 0.1


def test_it_is_short() -> None:
    lines = Path(__file__).read_text().splitlines()
    begin, end = (next(i for i, x in enumerate(lines) if word in x) for word in ("from here", "to here"))
    assert end - begin < 60


def test_the_likelihood_in_the_guide_for_contributors() -> None:
    guide = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    code = guide.split("## Add a likelihood")[1].split("```python\n")[1].split("```")[0]
    names = {"__name__": __name__}
    exec(code, names)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    y = rng.exponential(np.exp(X[:, 0]))
    mean, std = names["WaitingGP"](max_features=50).fit(X, y).predict(X, return_std=True)
    assert np.corrcoef(np.log(mean), X[:, 0])[0, 1] > 0.99
    assert mean.mean() == pytest.approx(y.mean(), rel=0.05)
    assert std.mean() == pytest.approx(mean.mean(), rel=0.1)  # as for exponential distributions
