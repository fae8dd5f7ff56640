"""Sparse Gaussian processes on spheres, graphs and tori, fitted by passes over blocks of rows."""

from mercer.gp.classifier import SphericalGPClassifier
from mercer.gp.counts import SphericalGPPoissonRegressor
from mercer.gp.regressor import SphericalGPRegressor
from mercer.rows import ParquetBlocks, RowSource
from mercer.rows.statistics import Statistics

__all__ = [
    "ParquetBlocks",
    "RowSource",
    "SphericalGPClassifier",
    "SphericalGPPoissonRegressor",
    "SphericalGPRegressor",
    "Statistics",
]
