"""Machines that learn with kernels and state how exact they are."""

from mercer.machines.certificate import Certificate
from mercer.machines.classifier import SVC
from mercer.machines.evidence import Evidence, log_evidence, predictive_std
from mercer.machines.landmarks import LandmarkClassifier, LandmarkRegressor
from mercer.machines.regressor import SVR, OneClassSVM
from mercer.machines.ridge import KernelRidge, RidgePath

__all__ = [
    "SVC",
    "SVR",
    "Certificate",
    "Evidence",
    "KernelRidge",
    "LandmarkClassifier",
    "LandmarkRegressor",
    "OneClassSVM",
    "RidgePath",
    "log_evidence",
    "predictive_std",
]
