"""Profiles: a law compiled into a function of one number, fast and with a stated error.

A radial kernel is a function of one invariant of a pair of points.  The law is sampled by adaptive
Chebyshev interpolation on octaves of the *separation* u, which is 0 for equal points, and the pieces
are cut into a table of one low degree, regular enough that the engine finds the row of a number by
shifting its bits (:mod:`mercer.profiles.chebyshev`).
Where one polynomial, or its exponential, gives the function on the range that occurs, it is used
instead (:mod:`mercer.profiles.polynomial`): it costs a third or less.
"""

from mercer.profiles.polynomial import Separation
from mercer.profiles.profile import (
    PowerProfile,
    ProductProfile,
    Profile,
    TableProfile,
    WholeProfile,
    compile_profile,
)

__all__ = [
    "PowerProfile",
    "ProductProfile",
    "Profile",
    "Separation",
    "TableProfile",
    "WholeProfile",
    "compile_profile",
]
