"""Spaces: where points live."""

from mercer.spaces.base import RadialSpace, Space
from mercer.spaces.euclidean import Euclidean
from mercer.spaces.spherical import Simplex, Sphere, SphericalSpace

__all__ = ["Euclidean", "RadialSpace", "Simplex", "Space", "Sphere", "SphericalSpace"]
