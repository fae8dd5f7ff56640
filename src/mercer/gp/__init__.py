"""Sparse Gaussian processes on the sphere: one pass over the rows, uncertainty included."""

from mercer.gp.blocks import ParquetBlocks
from mercer.gp.regressor import SphericalGPRegressor
from mercer.gp.statistics import Statistics

__all__ = ["ParquetBlocks", "SphericalGPRegressor", "Statistics"]
