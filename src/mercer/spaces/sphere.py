"""The sphere: directions, and places on the globe."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from array_api_compat import array_namespace

from mercer._arrays import (
    row_lengths,
    row_maxima,
    squared_lengths,
    unit_rows,
)
from mercer._validation import check_choice, refuse_rows
from mercer.engine import Extent, engine_for
from mercer.spaces.base import random_rotation
from mercer.spaces.metrics import angles
from mercer.spaces.spherical import SphericalSpace

#: Mean radius of the Earth: the kilometres in an angle of one radian.
EARTH_RADIUS_KM = 6371.0088
Coordinates = Literal["cartesian", "latlon"]
COORDINATES = ("cartesian", "latlon")


@dataclass(frozen=True, repr=False)
class Sphere(SphericalSpace):
    """Directions: rows of any non-zero length, as points of the unit sphere S^(n-1).

    ``x -> x / |x|``, invariant ``w = x.y`` in [-1, 1].  Places on the globe, rows of latitude a and
    longitude b in degrees, are the points ``(cos a cos b, cos a sin b, sin a)`` of S^2.

    Parameters
    ----------
    n : int, optional
        Ambient dimension; by default the number of columns, and 3 for places on the globe.
    unit : bool
        Require rows of length one, up to half the digits of their precision.
    coordinates : {"cartesian", "latlon"}
        Rows are vectors; or two columns, latitude first, in degrees: latitudes in -90..90 and longitudes
        in -180..360, dense.

    Examples
    --------
    >>> from mercer.spaces import Sphere
    >>> L, R = Sphere().embed(Sphere().check([[3.0, 4.0], [0.0, -2.0]]))
    >>> L @ R.T
    array([[ 1. , -0.8],
           [-0.8,  1. ]])
    >>> from mercer.kernels import Heat
    >>> quito, singapore, pole = [-0.2, -78.5], [1.3, 103.8], [90.0, 0.0]
    >>> Heat(Sphere(coordinates="latlon"), t=0.5)([quito, singapore, pole]).round(4)
    array([[1.    , 0.0543, 0.3679],
           [0.0543, 1.    , 0.3798],
           [0.3679, 0.3798, 1.    ]])
    """

    n: int | None = None
    unit: bool = False
    coordinates: Coordinates = "cartesian"
    has_opposites = True
    separation = "folded"

    def __post_init__(self) -> None:
        check_choice(self, "coordinates", COORDINATES)
        if self.coordinates == "latlon":
            if self.n not in (None, 3):
                raise ValueError(f"the globe has n = 3, got {self.n!r}; leave n out with 'latlon'")
            if self.unit:
                raise ValueError("unit is about the lengths of vectors; leave it out with 'latlon'")
            object.__setattr__(self, "n", 3)

    def __repr__(self) -> str:
        if self.coordinates == "latlon":  # which goes without a dimension
            return f"{type(self).__name__}(coordinates='latlon')"
        return super().__repr__()

    def of_table(self) -> Sphere | None:
        """See :meth:`Space.of_table`; latitude and longitude are not columns to standardise."""
        return Sphere() if self.coordinates == "cartesian" else None

    @property
    def takes_sparse(self) -> bool:  # type: ignore[override]
        """Whether rows may come as a sparse matrix."""
        return self.coordinates == "cartesian"

    def _onto(self, rows: np.ndarray) -> np.ndarray:
        if self.coordinates == "latlon":
            return _degrees(rows)
        return unit_rows(rows) if self.unit else rows

    def isometry(self, rng: np.random.Generator) -> Callable[[Any], Any]:
        """See :meth:`Space.isometry`; a rotation."""
        if self.coordinates == "cartesian":
            return lambda X: X @ random_rotation(X.shape[1], rng)
        turn = random_rotation(3, rng)
        return lambda X: _degrees(self.check(X) @ turn)

    def check(self, X: Any, name: str = "X") -> Any:
        """Validate rows; places on the globe are returned as unit vectors with three columns.

        See :meth:`RowSpace.check`.
        """
        X = super().check(X, name)
        return X if self.coordinates == "cartesian" else _from_degrees(X)

    def distances(self, X: Any, Y: Any = None) -> Any:
        """Angles between rows, the lengths of great circles on the unit sphere.

        ``2 atan2(|x - y|, |x + y|)`` of unit vectors, which is accurate for the smallest and largest
        angles, where ``arccos(x.y)`` loses half of the digits.

        Parameters
        ----------
        X, Y : rows of m and p points; by default Y is X

        Returns
        -------
        array of shape (m, p)
            In radians.

        Examples
        --------
        >>> from mercer.spaces import Sphere
        >>> Sphere().distances([[1.0, 0.0]], [[2.0, 2e-9], [-3.0, 0.0]])
        array([[1.00000000e-09, 3.14159265e+00]])
        >>> globe = Sphere(coordinates="latlon")
        >>> globe.distances([[0.0, 179.0]], [[0.0, -179.0]]).round(6)    # two degrees
        array([[0.034907]])
        """
        return angles(*self.embed(*self.check_pair(X, Y)))

    def _check_dimension(self, columns: int, name: str) -> None:
        if self.coordinates == "cartesian":
            super()._check_dimension(columns, name)
        elif columns != 2:
            raise ValueError(
                f"{name} has {columns} columns, but {self!r} takes 2: latitude first, in degrees, then "
                "longitude; for vectors use Sphere()"
            )

    def _may_refuse(self, extent: Extent) -> bool:
        return self.coordinates == "latlon" or self.unit or extent.flattest == 0

    def _check_rows(self, X: Any, name: str) -> None:
        if self.coordinates == "latlon":
            _check_degrees(X, name)
            return
        with np.errstate(over="ignore", under="ignore"):
            squares = squared_lengths(X)
        if bool(array_namespace(squares).any(squares == 0)):  # zeros, or squares that underflow
            refuse_rows(
                row_maxima(X) == 0,
                name,
                "is all zeros and has no direction; drop it or use another space",
            )
        if self.unit:
            lengths = row_lengths(X)
            xp = array_namespace(lengths)
            off = xp.abs(lengths - 1.0) > xp.finfo(lengths.dtype).eps ** 0.5
            refuse_rows(off, name, "is not of length one; normalise it or use Sphere(unit=False)")

    def _unit_rows(self, X: Any) -> Any:
        return engine_for(X).unit_rows(X)


def great_circle_km(X: Any, Y: Any = None) -> Any:
    """Distances in kilometres between places on the globe: ``EARTH_RADIUS_KM`` times the angle.

    The Earth is treated as a sphere of its mean radius, 6371.0088 km; along the ellipsoid distances
    differ by up to 0.6 %.  A length scale in kilometres is ``km / EARTH_RADIUS_KM``.

    Parameters
    ----------
    X, Y : rows of latitude and longitude in degrees; by default Y is X

    Returns
    -------
    array of shape (m, p)

    Examples
    --------
    >>> from mercer.spaces import great_circle_km
    >>> berlin, tokyo = [52.52, 13.40], [35.68, 139.69]
    >>> great_circle_km([berlin], [tokyo]).round()
    array([[8917.]])
    """
    return EARTH_RADIUS_KM * Sphere(coordinates="latlon").distances(X, Y)


def _degrees(rows: np.ndarray) -> np.ndarray:
    """Latitude and longitude of vectors, in degrees."""
    across = np.hypot(rows[:, 0], rows[:, 1])
    latitude, longitude = np.arctan2(rows[:, 2], across), np.arctan2(rows[:, 1], rows[:, 0])
    return np.degrees(np.column_stack([latitude, longitude]))


def _check_degrees(X: Any, name: str) -> None:
    """Refuse rows that are not a latitude and a longitude in degrees."""
    latitude, longitude = X[:, 0], X[:, 1]
    order = "give latitude first, in degrees, then longitude"
    refuse_rows((latitude < -90.0) | (latitude > 90.0), name, f"has a latitude outside -90..90; {order}")
    refuse_rows(
        (longitude < -180.0) | (longitude > 360.0), name,
        f"has a longitude outside -180..360; {order}",
    )  # fmt: skip


def _from_degrees(X: Any) -> Any:
    """Unit vectors of places on the globe."""
    xp = array_namespace(X)
    latitude, longitude = X[:, 0], X[:, 1]
    # Equal meridians become equal numbers, and the cosine of the latitude is taken from the distance to
    # the pole, where it is then zero: equal places are equal to the last digit.
    longitude = xp.where(longitude < 180.0, longitude, longitude - 360.0) * (math.pi / 180)
    across = xp.sin((90.0 - xp.abs(latitude)) * (math.pi / 180))
    up = xp.sin(latitude * (math.pi / 180))
    return xp.stack([across * xp.cos(longitude), across * xp.sin(longitude), up], axis=1)
