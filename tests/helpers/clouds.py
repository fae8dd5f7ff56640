"""Kernels between clouds and random clouds, for several test files."""

import numpy as np

from mercer.kernels import (
    Gaussian,
    GaussianEmbedding,
    InverseGeneralizedVariance,
    MeanEmbedding,
    MixtureMoment,
    RegularizedMoment,
    TraceKernel,
)

BASE = Gaussian(length_scale=0.4)
MEASURES = [
    TraceKernel(BASE, t=0.3),
    InverseGeneralizedVariance(BASE, eta=0.05),
    MixtureMoment(BASE, delta=2.0),
    MeanEmbedding(BASE),
    GaussianEmbedding(BASE, length_scale=0.5),
    RegularizedMoment(order=1, eps=0.2),
    RegularizedMoment(order=2, eps=0.2),
    RegularizedMoment(order=3, eps=0.2),
]


def random_clouds(rng, sizes=(1, 2, 5, 9, 4), d=2, weighted=True):
    """Clouds of several sizes, every second one with weights, some of which are zero."""
    clouds = []
    for i, k in enumerate(sizes):
        points = rng.normal(size=(k, d)) / 2
        if weighted and i % 2:
            weights = rng.gamma(1.0, size=k) * (rng.random(k) < 0.8)
            weights[0] += 0.1
            clouds.append((points, weights / weights.sum()))
        else:
            clouds.append(points)
    return clouds


def split(cloud):
    if isinstance(cloud, tuple):
        return cloud
    return cloud, np.full(len(cloud), 1 / len(cloud))
