"""Scales of input columns, learnt by gradients through the harmonics; imported only when asked for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mercer.engine.threads import progress
from mercer.gp.inputs import HarmonicFeatures
from mercer.gp.prior import Prior

Array = NDArray[np.float64]

#: Rows of a batch, and the rate of Adam's steps in the logarithms of scales.
_BATCH = 1024
_RATE = 0.05


def learn_scales(
    features: HarmonicFeatures, prior: Prior, noise: float, X: Array, y: Array, steps: int, seed: int
) -> Array:
    """Factors for standardised columns that raise the bound of batches of rows.

    Each step takes a batch of rows and moves the logarithms of the factors, of the amplitude and of
    the noise along the gradient of its collapsed bound (Adam).  The kernel's own hyperparameters stay.

    Parameters
    ----------
    features : HarmonicFeatures
        Of a table.
    prior : Prior
    noise : float
    X, y : arrays of shape (m, d) and (m, q)
        Raw rows, and standardised targets.
    steps : int
    seed : int

    Returns
    -------
    array of shape (d,)
    """
    rng = np.random.default_rng(seed)
    rows = torch.as_tensor(features.inputs.rows(X))
    targets = torch.as_tensor(y)
    variances = torch.as_tensor(prior.variances)
    scales = torch.zeros(X.shape[1], dtype=torch.float64, requires_grad=True)
    others = torch.tensor([0.0, math.log(noise)], dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([scales, others], lr=_RATE)
    average = torch.zeros_like(scales)
    kept = max(steps // 4, 1)
    with progress(steps, "input scales") as advance:
        for step in range(steps):
            batch = torch.as_tensor(rng.choice(len(rows), min(_BATCH, len(rows)), replace=False))
            optimiser.zero_grad()
            factors = torch.cat([scales.exp(), torch.ones(1, dtype=torch.float64)])
            loss = -_bound(
                features,
                prior,
                variances * others[0].exp(),
                others,
                rows[batch] * factors,
                targets[batch],
            )
            loss.backward()
            optimiser.step()
            with torch.no_grad():
                # Scales that do not matter drift; columns then leave the table, within reason.
                scales.clamp_(-6.0, 6.0)
                if step >= steps - kept:
                    average += scales / kept
            advance()
    return np.exp(average.detach().numpy())


def _bound(
    features: HarmonicFeatures,
    prior: Prior,
    variances: torch.Tensor,
    others: torch.Tensor,
    rows: torch.Tensor,
    y: torch.Tensor,
) -> torch.Tensor:
    """The collapsed bound of a batch, for each row; see :class:`mercer.gp.bound.Bound`."""
    lengths = torch.linalg.vector_norm(rows, dim=1)
    phi: Any = features.harmonics.evaluate(rows / lengths[:, None])
    weight = lengths**features.power
    phi = phi * weight[:, None]
    noise = others[1].exp()
    scaled = phi * variances.sqrt()
    B = torch.eye(len(variances), dtype=torch.float64) + scaled.T @ scaled / noise
    L = torch.linalg.cholesky(B)
    c = torch.linalg.solve_triangular(L, scaled.T @ y / noise, upper=False)
    count, outputs = y.shape
    last = (phi[:, -features.harmonics.counts[-1] :] ** 2).sum()
    left = prior.left(1.0, 0.0) / prior.amplitude * (weight**2).sum()
    if features.harmonics.shares[-1] < 1:
        left = left - float(prior.levels.weights[-1]) * last
    left = left * others[0].exp() * prior.amplitude
    log_det = 2 * torch.log(torch.diagonal(L)).sum()
    value = outputs * (count * torch.log(2 * math.pi * noise) + log_det + left / noise)
    return -0.5 * (value + (y**2).sum() / noise - (c**2).sum()) / count
