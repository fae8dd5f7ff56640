"""Spaces: where points live."""

from mercer.spaces.base import Space
from mercer.spaces.euclidean import Euclidean
from mercer.spaces.spherical import Simplex, Sphere, SphericalSpace

__all__ = ["Euclidean", "Simplex", "Space", "Sphere", "SphericalSpace"]
