"""Sparse Gaussian processes on spheres and graphs: passes over blocks of rows, uncertainty included."""

from mercer.gp.classifier import SphericalGPClassifier
from mercer.gp.counts import SphericalGPPoissonRegressor
from mercer.gp.regressor import SphericalGPRegressor
from mercer.gp.rows import ParquetBlocks, RowSource
from mercer.gp.statistics import Statistics

__all__ = [
    "ParquetBlocks",
    "RowSource",
    "SphericalGPClassifier",
    "SphericalGPPoissonRegressor",
    "SphericalGPRegressor",
    "Statistics",
]
