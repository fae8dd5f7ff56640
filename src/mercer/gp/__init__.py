"""Sparse Gaussian processes on the sphere: passes over blocks of rows, uncertainty included."""

from mercer.gp.classifier import SphericalGPClassifier, SphericalGPPoissonRegressor
from mercer.gp.parquet import ParquetBlocks
from mercer.gp.regressor import SphericalGPRegressor
from mercer.gp.statistics import Statistics

__all__ = [
    "ParquetBlocks",
    "SphericalGPClassifier",
    "SphericalGPPoissonRegressor",
    "SphericalGPRegressor",
    "Statistics",
]
