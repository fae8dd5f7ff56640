"""Bounds on the error of a kernel machine, from its margin or from the spectrum of its kernel.

The smallest ball that encloses the data in feature space and the margin of a fitted machine bound the
VC dimension, and thereby the effective sample size and the error on new data (:func:`vc_bound`,
:func:`effective_sample_size`, :func:`generalization_bound`).  The eigenvalues of a kernel on the sphere
bound the covering numbers of the functions that it can represent (:func:`covering_bound`,
:func:`entropy_number`).
"""

from mercer.bounds.ball import EnclosingBall, enclosing_ball
from mercer.bounds.covering import CoveringBound, covering_bound, entropy_number, log_covering_rate
from mercer.bounds.vc import (
    VCBound,
    critical_sample_size,
    effective_sample_size,
    generalization_bound,
    pairwise_vc_bounds,
    vc_bound,
)

__all__ = [
    "CoveringBound",
    "EnclosingBall",
    "VCBound",
    "covering_bound",
    "critical_sample_size",
    "effective_sample_size",
    "enclosing_ball",
    "entropy_number",
    "generalization_bound",
    "log_covering_rate",
    "pairwise_vc_bounds",
    "vc_bound",
]
