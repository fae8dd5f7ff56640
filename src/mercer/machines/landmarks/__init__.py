"""Machines for many rows: functions spanned by the kernel at landmarks, fitted by passes over rows."""

from mercer.machines.landmarks.classifier import LandmarkClassifier
from mercer.machines.landmarks.regressor import LandmarkRegressor

__all__ = ["LandmarkClassifier", "LandmarkRegressor"]
