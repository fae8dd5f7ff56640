"""Kernels: a space and a law each."""

from mercer.kernels.algebra import Constant, Exponentiation, Product, Sum
from mercer.kernels.axial import AxialHeat
from mercer.kernels.base import Kernel
from mercer.kernels.clouds import CloudKernel
from mercer.kernels.divergence import KullbackLeibler
from mercer.kernels.embeddings import GaussianEmbedding, MeanEmbedding, TraceKernel
from mercer.kernels.euclidean import Gaussian, Linear, Polynomial
from mercer.kernels.heat import Heat
from mercer.kernels.matern import Matern
from mercer.kernels.measures import InverseGeneralizedVariance, MixtureMoment, RegularizedMoment
from mercer.kernels.multinomial import PosteriorHeat
from mercer.kernels.nodes import NodeKernel
from mercer.kernels.parametrix import Parametrix
from mercer.kernels.radial import RadialKernel
from mercer.kernels.realised import RealisedKernel
from mercer.kernels.spectral import LawKernel, Spectral, SpectralKernel
from mercer.kernels.sphere import ArcCosine, Cosine
from mercer.kernels.strings import FullSpectrum, StringKernel, WeightedDegree
from mercer.kernels.structured import StructuredKernel
from mercer.kernels.subsequences import GappySubsequence
from mercer.kernels.substrings import Mismatch, Spectrum
from mercer.kernels.walks import Exponential, Power, VonNeumann
from mercer.kernels.words import TfIdf

__all__ = [
    "ArcCosine",
    "AxialHeat",
    "CloudKernel",
    "Constant",
    "Cosine",
    "Exponential",
    "Exponentiation",
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
    "NodeKernel",
    "Parametrix",
    "Polynomial",
    "PosteriorHeat",
    "Power",
    "Product",
    "RadialKernel",
    "RealisedKernel",
    "RegularizedMoment",
    "Spectral",
    "SpectralKernel",
    "Spectrum",
    "StringKernel",
    "StructuredKernel",
    "Sum",
    "TfIdf",
    "TraceKernel",
    "VonNeumann",
    "WeightedDegree",
]
