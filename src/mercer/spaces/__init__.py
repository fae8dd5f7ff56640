"""Spaces: where points live."""

from mercer.spaces.base import RadialSpace, Space
from mercer.spaces.euclidean import Euclidean
from mercer.spaces.graph import Graph
from mercer.spaces.hyperbolic import Hyperbolic, HyperbolicSpace, NormalFamily
from mercer.spaces.spherical import Simplex, Sphere, SphericalSpace

__all__ = [
    "Euclidean",
    "Graph",
    "Hyperbolic",
    "HyperbolicSpace",
    "NormalFamily",
    "RadialSpace",
    "Simplex",
    "Space",
    "Sphere",
    "SphericalSpace",
]
