"""Spaces: where points live."""

from mercer.spaces.base import RadialSpace, RowSpace, Space
from mercer.spaces.categories import Categories
from mercer.spaces.euclidean import Euclidean
from mercer.spaces.families import ExponentialFamily
from mercer.spaces.graph import Graph
from mercer.spaces.hyperbolic import Hyperbolic, HyperbolicSpace
from mercer.spaces.normals import NormalFamily, NormalProduct
from mercer.spaces.product import ProductSpace
from mercer.spaces.projective import Projective
from mercer.spaces.rotations import Rotations
from mercer.spaces.simplex import Simplex
from mercer.spaces.sphere import EARTH_RADIUS_KM, Sphere, great_circle_km
from mercer.spaces.spherical import SphericalSpace
from mercer.spaces.torus import Torus

__all__ = [
    "EARTH_RADIUS_KM",
    "Categories",
    "Euclidean",
    "ExponentialFamily",
    "Graph",
    "Hyperbolic",
    "HyperbolicSpace",
    "NormalFamily",
    "NormalProduct",
    "ProductSpace",
    "Projective",
    "RadialSpace",
    "Rotations",
    "RowSpace",
    "Simplex",
    "Space",
    "Sphere",
    "SphericalSpace",
    "Torus",
    "great_circle_km",
]
