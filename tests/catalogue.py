"""Every public kernel, one line each; the contracts run over all of them."""

import networkx as nx
import numpy as np

from mercer.kernels import (
    ArcCosine,
    Constant,
    Cosine,
    Exponential,
    FullSpectrum,
    GappySubsequence,
    Gaussian,
    GaussianEmbedding,
    Heat,
    InverseGeneralizedVariance,
    Linear,
    Matern,
    MeanEmbedding,
    Mismatch,
    MixtureMoment,
    Parametrix,
    Polynomial,
    Power,
    RegularizedMoment,
    Spectral,
    Spectrum,
    TraceKernel,
    VonNeumann,
    WeightedDegree,
)
from mercer.spaces import Graph, Simplex, Sphere

CLUB = Graph(nx.karate_club_graph(), laplacian="normalized")
#: Large enough not to be decomposed.
RING = Graph(nx.cycle_graph(5000), similarity="laplacian")


def fading(eigenvalues: np.ndarray) -> np.ndarray:
    """Weights for a spectral kernel."""
    return 1 / (1 + eigenvalues) ** 9


KERNELS = [
    Heat(Sphere()),
    Heat(Sphere(), t=0.05),
    Heat(Sphere(n=5), t=0.3, normalized=False),
    Heat(Sphere(unit=True), t_star=0.3),
    Heat(Simplex(), t_star=0.5),
    Heat(Simplex(), t=1e-6),
    Matern(Sphere(), nu=1.5, length_scale=0.7),
    Matern(Sphere(), nu=0.4),
    Matern(Simplex(), nu=2.5, length_scale=0.5, normalized=False),
    Spectral(Sphere(), weights=[1.0, 0.5, 0.0, 0.2]),
    Spectral(Simplex(), weights=fading),
    Cosine(),
    Cosine(Simplex()),
    ArcCosine(order=0),
    ArcCosine(order=1),
    ArcCosine(order=2),
    ArcCosine(order=1, depth=4, normalized=True),
    Parametrix(Sphere()),
    Parametrix(Sphere(), t=0.1, order=1),
    Parametrix(Simplex(), t=0.1, order=2, normalized=True),
    Parametrix(Sphere(), t=0.05, order=6, normalized=True),
    Linear(),
    Polynomial(degree=3, coef0=0.5),
    Polynomial(degree=2, coef0=0.0),
    Gaussian(length_scale=0.8),
    Heat(CLUB, t=0.3),
    Heat(CLUB, t=2.0, normalized=False),
    Matern(CLUB, nu=1.5, length_scale=3.0),
    Spectral(CLUB, weights=fading, normalized=False),
    Power(CLUB, exponent=4),
    Exponential(CLUB, beta=0.1),
    Exponential(CLUB, beta=2.0, normalized=True),
    VonNeumann(CLUB, beta=0.03),
    VonNeumann(RING, beta=3.0, normalized=True),
    Spectrum(),
    Spectrum(length=(1, 4), normalized=True),
    FullSpectrum(),
    FullSpectrum(decay=0.4, normalized=True),
    Mismatch(),
    Mismatch(length=4, mismatches=2, normalized=True),
    GappySubsequence(),
    GappySubsequence(length=2, decay=0.8, normalized=True),
    WeightedDegree(),
    WeightedDegree(degree=20, normalized=True),
    TraceKernel(Gaussian(), t=0.5),
    InverseGeneralizedVariance(Heat(Sphere(), t=0.2)),
    InverseGeneralizedVariance(FullSpectrum(normalized=True), eta=0.1, normalized=True),
    MixtureMoment(Gaussian()),
    MixtureMoment(Cosine(), delta=5.0),
    RegularizedMoment(order=1, eps=0.5),
    RegularizedMoment(order=3, base=Cosine(), normalized=True),
    MeanEmbedding(Gaussian(length_scale=2.0)),
    GaussianEmbedding(Linear(), length_scale=0.7),
    Constant(2.0),
    2.0 * Heat(Sphere()) + 0.5,
    (Heat(Sphere(), t=0.2) + Gaussian()) * Cosine(),
    Matern(Sphere()) ** 2,
]
