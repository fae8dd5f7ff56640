"""Geometry in feature space, from Gram matrices.

Norms, distances, means, variances, angles and coordinates of points in feature space are functions of
the Gram matrix, computed stably here even for singular matrices.
"""

from mercer.rkhs.diagnosis import Diagnosis, degeneracy, diagnose, warn_if_degenerate
from mercer.rkhs.functions import rkhs_inner_product, rkhs_norm
from mercer.rkhs.geometry import (
    center,
    correlation,
    distances,
    empirical_map,
    mean_norm,
    mercer_map,
    normalize,
    norms,
    total_variance,
)

__all__ = [
    "Diagnosis",
    "center",
    "correlation",
    "degeneracy",
    "diagnose",
    "distances",
    "empirical_map",
    "mean_norm",
    "mercer_map",
    "normalize",
    "norms",
    "rkhs_inner_product",
    "rkhs_norm",
    "total_variance",
    "warn_if_degenerate",
]
