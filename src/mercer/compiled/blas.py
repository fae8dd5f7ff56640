"""BLAS and LAPACK routines for compiled loops that numba has no function for.

SciPy offers the addresses of its Fortran routines.  They are declared by name, so that compiled loops
which call them can be kept on disk.
"""

from __future__ import annotations

import llvmlite.binding
from numba import types
from numba.extending import get_cython_function_address

from mercer.compiled.jit import jit

_POINTER = types.voidptr


def _declare(module: str, name: str, arguments: int):
    symbol = f"mercer_{name}"
    llvmlite.binding.add_symbol(symbol, get_cython_function_address(f"scipy.linalg.{module}", name))
    return types.ExternalFunction(symbol, types.void(*[_POINTER] * arguments))


_dsyrk = _declare("cython_blas", "dsyrk", 10)
_dpotrf = _declare("cython_lapack", "dpotrf", 5)


@jit()
def subtract_squares(W, S, letters, numbers, factors):
    """``S - W W'`` in place, the lower half; W the first r of l columns, S of shape (n, n).

    Fortran takes addresses: ``letters`` holds U and T, ``numbers`` n, r and l, ``factors`` -1 and 1.
    """
    # To Fortran the lower half is the upper, and W is its transpose.
    _dsyrk(
        letters.ctypes, letters[1:].ctypes, numbers.ctypes, numbers[1:].ctypes, factors.ctypes,
        W.ctypes, numbers[2:].ctypes, factors[1:].ctypes, S.ctypes, numbers.ctypes,
    )  # fmt: skip


@jit()
def factorize(S, letters, numbers):
    """Replace the lower half of S by its Cholesky factor; tells whether S is positive definite.

    Arguments as in :func:`subtract_squares`; the fourth of ``numbers`` takes LAPACK's answer.
    """
    _dpotrf(
        letters.ctypes, numbers.ctypes, S.ctypes, numbers.ctypes, numbers[3:].ctypes
    )  # fmt: skip
    return numbers[3] == 0
