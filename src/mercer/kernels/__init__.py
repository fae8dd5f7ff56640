"""Kernels: a space and a law each."""

from mercer.kernels.algebra import Exponentiation, Product, Sum
from mercer.kernels.base import Kernel
from mercer.kernels.clouds.base import CloudKernel
from mercer.kernels.clouds.embeddings import GaussianEmbedding, MeanEmbedding, TraceKernel
from mercer.kernels.clouds.mixtures import InverseGeneralizedVariance, MixtureMoment
from mercer.kernels.clouds.moments import RegularizedMoment, SphericalAverage
from mercer.kernels.clouds.normals import FisherNormal, PosteriorNormal
from mercer.kernels.constant import Constant
from mercer.kernels.counts.fisher import FisherMultinomial
from mercer.kernels.counts.posterior import PosteriorCosine, PosteriorHeat, PosteriorParametrix
from mercer.kernels.counts.words import TfIdf
from mercer.kernels.divergence import KullbackLeibler
from mercer.kernels.euclidean import Gaussian, Linear, Polynomial
from mercer.kernels.graphs.attributed import Attributed
from mercer.kernels.graphs.base import NodeKernel
from mercer.kernels.graphs.diffused import Diffused
from mercer.kernels.graphs.walks import Exponential, Power, VonNeumann
from mercer.kernels.heat import AxialHeat, Heat
from mercer.kernels.matern import Matern
from mercer.kernels.parametrix import Parametrix
from mercer.kernels.radial import RadialKernel
from mercer.kernels.realised import LawKernel, RealisedKernel
from mercer.kernels.spectral import Spectral, SpectralKernel
from mercer.kernels.sphere import ArcCosine, Cosine, Zonal
from mercer.kernels.strings.base import FullSpectrum, StringKernel, WeightedDegree
from mercer.kernels.strings.subsequences import GappySubsequence
from mercer.kernels.strings.substrings import Mismatch, Spectrum
from mercer.kernels.structured import StructuredKernel
from mercer.kernels.tables.multiple import MultipleKernel
from mercer.kernels.tables.on import On

__all__ = [
    "ArcCosine",
    "Attributed",
    "AxialHeat",
    "CloudKernel",
    "Constant",
    "Cosine",
    "Diffused",
    "Exponential",
    "Exponentiation",
    "FisherMultinomial",
    "FisherNormal",
    "FullSpectrum",
    "GappySubsequence",
    "Gaussian",
    "GaussianEmbedding",
    "Heat",
    "InverseGeneralizedVariance",
    "Kernel",
    "KullbackLeibler",
    "LawKernel",
    "Linear",
    "Matern",
    "MeanEmbedding",
    "Mismatch",
    "MixtureMoment",
    "MultipleKernel",
    "NodeKernel",
    "On",
    "Parametrix",
    "Polynomial",
    "PosteriorCosine",
    "PosteriorHeat",
    "PosteriorNormal",
    "PosteriorParametrix",
    "Power",
    "Product",
    "RadialKernel",
    "RealisedKernel",
    "RegularizedMoment",
    "Spectral",
    "SpectralKernel",
    "Spectrum",
    "SphericalAverage",
    "StringKernel",
    "StructuredKernel",
    "Sum",
    "TfIdf",
    "TraceKernel",
    "VonNeumann",
    "WeightedDegree",
    "Zonal",
]
