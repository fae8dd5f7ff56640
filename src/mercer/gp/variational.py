"""Natural-gradient variational inference over streamed blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.engine.threads import run, threads_in_use
from mercer.gp.blocks import Block
from mercer.gp.bound import Bound, Solution
from mercer.gp.evidence import Evidence
from mercer.gp.inputs import HarmonicFeatures
from mercer.gp.likelihoods import Likelihood
from mercer.gp.prior import Prior, last_level
from mercer.gp.statistics import ROWS, add_rows

Array = NDArray[np.float64]

#: Shortest step along the natural gradient, after halving it where the bound fell.
_SHORTEST = 1 / 64
#: Steps of the hyperparameters between two passes: the sites they are found with are about to change.
_FEW = 8


@dataclass(frozen=True, eq=False)
class Sites:
    """A normal distribution in place of each target's likelihood, summed over rows.

    Site i is ``exp(h_i f_i - w_i f_i^2 / 2)``: ``gram`` is the sum of ``w phi phi'``, ``linear`` of
    ``h phi``, ``diagonal`` of ``w |x|^(2p)``.  They are the natural parameters of the posterior, less
    the prior's, and mixing them is a step along the natural gradient.
    """

    gram: Array
    linear: Array
    diagonal: float

    def towards(self, other: Sites, step: float) -> Sites:
        """Move part of the way to other sites."""
        return Sites(
            (1 - step) * self.gram + step * other.gram,
            (1 - step) * self.linear + step * other.linear,
            (1 - step) * self.diagonal + step * other.diagonal,
        )


@dataclass(frozen=True, eq=False)
class Latent:
    """One process: its hyperparameters, its sites, and the posterior of both."""

    theta: Array
    sites: Sites
    posterior: Solution
    prior: Prior
    kernel: Any


class Climb:
    """The way of one process to its best posterior.

    Each pass proposes sites.  Hyperparameters follow without a pass; the bound at the new posterior
    is known after the next pass, and where it fell the step is halved.
    """

    def __init__(
        self, features: HarmonicFeatures, kernel: Any, optimize: bool, rows: int, tol: float
    ) -> None:
        self._features, self._kernel, self._optimize = features, kernel, optimize
        self._rows, self._tol = rows, tol
        self._step = 1.0
        self.moving = True
        self.bound = -math.inf

    def start(self, sites: Sites, theta: Array, restarts: int, rng: np.random.Generator) -> None:
        """Begin with sites of a first guess."""
        if self._optimize:
            theta, _ = self._evidence(sites).maximise(theta, restarts, rng)
        self.latent = self.accepted = self._latent(sites, theta)

    def advance(self, sites: Sites, value: float) -> None:
        """Judge the present posterior by its bound, and go on from it or from the one before.

        ``sites`` and ``value`` are what a pass found at the present posterior: where to go next, and
        the mean log likelihood.
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
            between = self.accepted.sites.towards(self._target, self._step)
            self.latent = self._latent(between, self.accepted.theta)

    def _improved(self, sites: Sites, theta: Array) -> Latent:
        if self._optimize:
            rng = np.random.default_rng(0)  # no restarts, no random numbers
            theta, _ = self._evidence(sites).maximise(theta, 0, rng, max_iter=_FEW)
        return self._latent(sites, theta)

    def _evidence(self, sites: Sites) -> Evidence:
        bound = Bound(sites.gram, sites.linear[:, None], np.zeros(1), 0.0, self._rows)
        harmonics = self._features.harmonics
        return Evidence(bound, harmonics, sites.diagonal, self._kernel, fixed_noise=True)

    def _latent(self, sites: Sites, theta: Array) -> Latent:
        evidence = self._evidence(sites)
        posterior, prior, _ = evidence.solve(theta)
        return Latent(theta, sites, posterior, prior, evidence.split(theta)[2])


@dataclass(frozen=True, eq=False)
class Sweep:
    """A pass over the rows that finds sites for processes.

    Parameters
    ----------
    features : HarmonicFeatures
    likelihood : Likelihood
    offset : array of shape (q,)
        Added to the processes, one for each column of targets.
    encode : callable
        From the targets of a block to a matrix of q columns.
    """

    features: HarmonicFeatures
    likelihood: Likelihood
    offset: Array
    encode: Callable[[Array], Array]

    def __call__(
        self, blocks: Iterable[Block], latents: dict[int, Latent | None]
    ) -> dict[int, tuple[Sites, float]]:
        """Sites at the posteriors of processes, by number, and their mean log likelihoods.

        Where there is no posterior yet, at the likelihood's first guess.
        """
        lanes = [_Lane(self, latents) for _ in range(threads_in_use())]
        for X, y, weight in blocks:
            add_rows(lanes, self.features.check(X), self.encode(y), weight)
        found = {}
        for place, number in enumerate(latents):
            sites = Sites(
                np.sum([lane.grams[place] for lane in lanes], axis=0),
                np.sum([lane.linear[place] for lane in lanes], axis=0),
                float(sum(lane.diagonal[place] for lane in lanes)),
            )
            found[number] = sites, float(sum(lane.values[place] for lane in lanes))
        return found


def infer(
    sweep: Sweep,
    blocks: Iterable[Block],
    climbs: list[Climb],
    theta: Array,
    restarts: int,
    max_iter: int,
    rng: np.random.Generator,
) -> int:
    """Sweep until no process moves; returns the number of passes."""
    first = sweep(blocks, dict.fromkeys(range(len(climbs))))
    seeds = rng.spawn(len(climbs))
    run(
        lambda i: climbs[i].start(first[i][0], theta, restarts, seeds[i]),
        [(i,) for i in range(len(climbs))],
        what="hyperparameters",
    )
    for passes in range(1, max_iter + 1):
        moving = {i: climb.latent for i, climb in enumerate(climbs) if climb.moving}
        if not moving:
            return passes - 1
        found = sweep(blocks, dict(moving))
        tasks = [(climbs[i], *found[i]) for i in moving]
        run(Climb.advance, tasks, what="hyperparameters")
    return max_iter


class _Lane:
    """Sums of one thread for :class:`Sites`."""

    def __init__(self, sweep: Sweep, latents: dict[int, Latent | None]) -> None:
        size, outputs = sweep.features.size, len(latents)
        self._sweep, self._latents = sweep, latents
        self._buffer, self._scaled = np.empty((ROWS, size)), np.empty((ROWS, size))
        self._product = np.empty((size, size))
        self.grams = np.zeros((outputs, size, size))
        self.linear = np.zeros((outputs, size))
        self.diagonal, self.values = np.zeros(outputs), np.zeros(outputs)

    def add(self, rows: Any, y: Array, weight: Array | None) -> None:
        sweep = self._sweep
        weight = np.ones(len(y)) if weight is None else weight
        phi, scaled = self._buffer[: len(y)], self._scaled[: len(y)]
        squared_lengths = sweep.features.write(rows, phi)
        captured = last_level(phi, sweep.features.harmonics)
        for place, (number, latent) in enumerate(self._latents.items()):
            offset = float(sweep.offset[number])
            if latent is None:
                mean, variance = sweep.likelihood.start(y[:, number], offset), np.zeros(len(y))
            else:
                mean = (phi @ latent.posterior.mean)[:, 0]
                variance = latent.prior.left(squared_lengths, captured) + latent.posterior.variance(phi)
            terms = sweep.likelihood.expectations(y[:, number], mean + offset, variance)
            self.values[place] += weight @ terms.value
            if not np.isfinite(self.values[place]):
                continue  # out of range: the step that led here is taken back
            precision = weight * terms.curvature
            self.linear[place] += phi.T @ (weight * terms.slope + precision * mean)
            np.multiply(phi, np.sqrt(precision)[:, None], out=scaled)
            self.grams[place] += np.matmul(scaled.T, scaled, out=self._product)
            self.diagonal[place] += float(precision @ squared_lengths)
