"""Natural-gradient variational inference over streamed blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer._arrays import on_cpu, placed
from mercer._threads import run
from mercer.gp.elbo import Bound, Posterior, Prior, Solution
from mercer.gp.features import Features
from mercer.gp.hyperparameters import Evidence
from mercer.gp.likelihoods import Likelihood, Tally
from mercer.rows import Block, RowSource
from mercer.rows.checkpoint import Checkpoint
from mercer.rows.statistics import add_rows, weights_of

Array = NDArray[np.float64]

#: Shortest step along the natural gradient, after halving because the bound fell.
_SHORTEST = 1 / 64
#: Steps of the hyperparameters between two passes; few, because the sites will change.
_FEW = 8
_NO_ROWS = Bound(np.zeros((0, 0)), np.zeros((0, 1)), np.zeros(1), 0.0, 0)


@dataclass(frozen=True, eq=False)
class Sites:
    """A normal distribution in place of each target's likelihood, summed over rows.

    Site i is ``exp(h_i f_i - w_i f_i^2 / 2)``: ``gram`` is the sum of ``w phi phi'``, ``linear`` of
    ``h phi``, ``rest`` of ``w psi``.  They are the natural parameters of the posterior minus those of
    the prior, and mixing them is a step along the natural gradient.
    """

    gram: Array
    linear: Array
    rest: Array

    def towards(self, other: Sites, step: float) -> Sites:
        """Move part of the way to other sites."""
        return Sites(
            (1 - step) * self.gram + step * other.gram,
            (1 - step) * self.linear + step * other.linear,
            (1 - step) * self.rest + step * other.rest,
        )

    def evidence(self, features: Features, kernel: Any, tally: Tally, alone: bool = False) -> Evidence:
        """The bound of the sites, as a function of the hyperparameters of a process."""
        bound = Bound(self.gram, self.linear[:, None], np.zeros(1), tally.weight, tally.rows)
        return Evidence(bound, features, self.rest, kernel, fixed_noise=True, alone=alone)


@dataclass(frozen=True, eq=False)
class AscentState:
    """State of an :class:`Ascent`, without what follows from it."""

    theta: Array
    sites: Sites
    accepted_theta: Array
    accepted_sites: Sites
    target: Sites | None
    step: float
    moving: bool
    bound: float
    alone: bool


@dataclass(frozen=True, eq=False)
class Latent:
    """One process: its hyperparameters, its sites, and the posterior of both."""

    theta: Array
    sites: Sites
    posterior: Solution
    prior: Prior
    kernel: Any


class Ascent:
    """The iteration of one process towards its best posterior.

    Each pass proposes sites.  Hyperparameters follow without a pass.  The bound at the new posterior
    is known after the next pass; if it fell, the step is halved.
    """

    def __init__(
        self, features: Features, kernel: Any, optimize: bool, tally: Tally, tol: float
    ) -> None:
        self._features, self._kernel, self._optimize = features, kernel, optimize
        self._tally, self._tol = tally, tol * max(tally.weight, 100.0)
        self._step = 1.0
        self._target: Sites | None = None
        self.moving = True
        self.bound = -math.inf
        #: Whether the process is that of its features alone; see :meth:`Evidence.search`.
        self.alone = False

    def start(self, sites: Sites, theta: Array, restarts: int, rng: np.random.Generator) -> None:
        """Begin with sites of a first guess."""
        if self._optimize:
            found, theta = self._evidence(sites).search(theta, restarts, rng)
            self.alone = found.alone
        self.latent = self.accepted = self._latent(sites, theta)

    def advance(self, sites: Sites, value: float) -> None:
        """Judge the present posterior by its bound, and continue from it or from the previous one.

        ``sites`` and ``value`` come from a pass at the present posterior: the next sites, and the mean
        log likelihood.
        """
        bound = value - self.latent.posterior.divergence()
        gain = bound - self.bound
        if self.bound == -math.inf and not math.isfinite(bound):
            raise ValueError("the targets are too extreme to start from; rescale them")
        if gain >= -self._tol:
            self.moving = not gain < self._tol
            self.accepted, self._target, self.bound, self._step = self.latent, sites, bound, 1.0
            if self.moving:
                self.latent = self._improved(sites, self.latent.theta)
        else:
            self._step /= 2
            self.moving = self._step >= _SHORTEST
            assert self._target is not None  # there was a bound to fall below
            between = self.accepted.sites.towards(self._target, self._step)
            self.latent = self._latent(between, self.accepted.theta)

    @property
    def state(self) -> AscentState:
        """What is needed to resume."""
        now, before = self.latent, self.accepted
        return AscentState(
            now.theta, now.sites, before.theta, before.sites, self._target, self._step, self.moving,
            self.bound, self.alone,
        )  # fmt: skip

    def resume(self, state: AscentState) -> None:
        """Continue from the state of another ascent."""
        self._target, self._step = state.target, state.step
        self.moving, self.bound, self.alone = state.moving, state.bound, state.alone
        self.latent = self._latent(state.sites, state.theta)
        self.accepted = self._latent(state.accepted_sites, state.accepted_theta)

    def _improved(self, sites: Sites, theta: Array) -> Latent:
        if self._optimize:
            # A first guess can lead to noise alone, whose sites may know better.
            rng = np.random.default_rng(0)  # no restarts, no random numbers
            found, theta = self._evidence(sites).search(theta, 0, rng, _FEW)
            self.alone = found.alone
        return self._latent(sites, theta)

    def _evidence(self, sites: Sites) -> Evidence:
        return sites.evidence(self._features, self._kernel, self._tally, self.alone)

    def _latent(self, sites: Sites, theta: Array) -> Latent:
        evidence = self._evidence(sites)
        posterior, prior, _ = evidence.solve(theta)
        return Latent(theta, sites, posterior, prior, evidence.split(theta)[2])


@dataclass(frozen=True, eq=False)
class SiteSums:
    """Sites of some processes and their mean log likelihoods, over rows; those of two parts add up."""

    grams: Array
    linear: Array
    rest: Array
    values: Array

    def __add__(self, other: SiteSums) -> SiteSums:
        return SiteSums(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def sites(self, position: int) -> tuple[Sites, float]:
        """Sites of one of the processes, and its mean log likelihood."""
        sites = Sites(self.grams[position], self.linear[position], self.rest[position])
        return sites, float(self.values[position])


class Sweep:
    """The job of a pass: sites for processes, at their posteriors.

    Parameters
    ----------
    likelihood : Likelihood
    features : Features
    latents : dict of Latent or None
        Processes by number; where there is no posterior yet, sites are those of the likelihood's first
        guess.
    """

    def __init__(
        self, likelihood: Likelihood, features: Features, latents: Mapping[int, Latent | None]
    ) -> None:
        self.likelihood, self.features = likelihood, features
        # The statistics behind a posterior are not sent to workers.
        self.beliefs = {
            number: None if latent is None else (replace(latent.posterior, bound=_NO_ROWS), latent.prior)
            for number, latent in latents.items()
        }

    def __call__(self, block: Block) -> SiteSums:
        """Sums of a block."""
        rows = self.features.check(block.X, block.called("X"))
        y = self.likelihood.encode(block)
        accumulators = [_SiteAccumulator(self, rows) for _ in range(self.features.lanes(rows))]
        add_rows(accumulators, rows, y, weights_of(block))
        sums = [part.sums() for part in accumulators]
        return sum(sums[1:], sums[0])


@dataclass(frozen=True, eq=False)
class Passes:
    """Passes over the rows, by which processes ascend."""

    likelihood: Likelihood
    features: Features
    rows: RowSource
    checkpoint: Checkpoint

    def run(self, ascents: list[Ascent], begin: Callable[[int, Sites], None], max_iter: int) -> int:
        """Pass over the rows until all processes have converged; returns the number of passes.

        ``begin`` starts an ascent, given by its number, from sites of a first guess.
        """
        done = 0
        if "ascents" in self.checkpoint.results:
            done, states = self.checkpoint.results["ascents"]
            for ascent, state in zip(ascents, states, strict=True):
                ascent.resume(state)
        else:
            first = self._sites(0, dict.fromkeys(range(len(ascents))))
            run(begin, [(i, sites) for i, (sites, _) in first.items()], what="hyperparameters")
            self._keep(0, ascents)
        for number in range(done + 1, max_iter + 1):
            moving = {i: ascent.latent for i, ascent in enumerate(ascents) if ascent.moving}
            if not moving:
                return number - 1
            found = self._sites(number, moving)
            run(Ascent.advance, [(ascents[i], *found[i]) for i in moving], what="hyperparameters")
            self._keep(number, ascents)
        return max_iter

    def _sites(
        self, number: int, latents: Mapping[int, Latent | None]
    ) -> dict[int, tuple[Sites, float]]:
        """Sites of some processes and their mean log likelihoods, after one pass."""
        job = Sweep(self.likelihood, self.features, latents)
        sums = self.rows.total(job, f"rows, pass {number}", self.checkpoint, f"pass {number}")
        return {i: sums.sites(position) for position, i in enumerate(latents)}

    def _keep(self, number: int, ascents: list[Ascent]) -> None:
        self.checkpoint.results.pop(f"pass {number}")
        self.checkpoint.keep("ascents", (number, [ascent.state for ascent in ascents]))


class _SiteAccumulator:
    """Sums of one thread for :class:`Sites`."""

    def __init__(self, sweep: Sweep, rows: Any) -> None:
        self._sweep, features = sweep, sweep.features
        self._buffer = features.buffer(rows)
        first = features.sums(rows, 1)
        self._parts = [first, *(features.sums(rows, 1, first) for _ in range(len(sweep.beliefs) - 1))]
        self._beliefs = {
            number: None if belief is None else (belief[0].placed(self._buffer), belief[1])
            for number, belief in sweep.beliefs.items()
        }
        self._values = np.zeros(len(sweep.beliefs))
        self.height = features.height(rows)

    def add(self, rows: Any, y: Array, weight: Array) -> None:
        features, likelihood = self._sweep.features, self._sweep.likelihood
        phi = self._buffer[: len(y)]
        values = phi, features.write(rows, phi)
        for position, (number, belief) in enumerate(self._beliefs.items()):
            offset = float(likelihood.offset[number])
            if belief is None:
                mean, variance = likelihood.start(y[:, number], offset), np.zeros(len(y))
            else:
                mean, variance = _moments(*belief, rows, values, features)
            terms = likelihood.expectations(y[:, number], mean + offset, variance)
            self._values[position] += weight @ terms.value
            if not np.isfinite(self._values[position]):
                continue  # out of range: the step that led here is taken back
            precision = weight * terms.curvature
            linear = weight * terms.slope + precision * mean
            targets = placed(precision, phi), placed(linear[:, None], phi)
            self._parts[position].add(rows, *targets, values)

    def sums(self) -> SiteSums:
        grams, linear, rest = (
            np.stack([on_cpu(getattr(part, name)) for part in self._parts])
            for name in ("gram", "linear", "rest")
        )
        return SiteSums(grams, linear[:, :, 0], rest, self._values)


def _moments(
    posterior: Posterior, prior: Prior, rows: Any, values: tuple[Any, Any], features: Features
) -> tuple[Array, Array]:
    """Means and variances of a process at rows; ``values`` are those of the pass's features."""
    phi, psi = values
    if prior.features is not features:  # functions of the process's own kernel
        phi = np.empty_like(phi)
        psi = prior.features.write(rows, phi)
    return posterior.mean(phi)[:, 0], on_cpu(prior.left(psi)) + posterior.variance(phi)
