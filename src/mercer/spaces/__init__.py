"""Spaces: where points live."""

from mercer.spaces.base import RadialSpace, Space
from mercer.spaces.euclidean import Euclidean
from mercer.spaces.graph import Graph
from mercer.spaces.spherical import Simplex, Sphere, SphericalSpace

__all__ = ["Euclidean", "Graph", "RadialSpace", "Simplex", "Space", "Sphere", "SphericalSpace"]
