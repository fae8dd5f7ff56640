"""Machines that learn with kernels and state how exact they are."""

from mercer.machines.classifier import SVC
from mercer.machines.regressor import SVR, OneClassSVM

__all__ = ["SVC", "SVR", "OneClassSVM"]
