"""Kernels: a space and a law each."""

from mercer.kernels.algebra import Constant, Exponentiation, Product, Sum
from mercer.kernels.base import Kernel
from mercer.kernels.euclidean import Gaussian, Linear, Polynomial
from mercer.kernels.radial import RadialKernel
from mercer.kernels.spectral import Heat, Matern, Spectral, SpectralKernel
from mercer.kernels.sphere import ArcCosine, Cosine, Parametrix

__all__ = [
    "ArcCosine",
    "Constant",
    "Cosine",
    "Exponentiation",
    "Gaussian",
    "Heat",
    "Kernel",
    "Linear",
    "Matern",
    "Parametrix",
    "Polynomial",
    "Product",
    "RadialKernel",
    "Spectral",
    "SpectralKernel",
    "Sum",
]
