"""BLAS and LAPACK routines that numba lacks, for compiled loops.

SciPy offers the addresses of its Fortran routines.  They are declared by name, so that compiled loops
which call them can be kept on disk.
"""

from __future__ import annotations

import llvmlite.binding
import numpy as np
from numba import types
from numba.extending import get_cython_function_address

from mercer.compiled.jit import jit

_POINTER = types.voidptr
#: Parts into which a triangle is split: more would save operations but lose more in small products.
_PARTS = 3
#: Largest matrix that LAPACK factorizes faster without blocks.
_SMALL = 80


def _declare(module: str, name: str, arguments: int):
    symbol = f"mercer_{name}"
    llvmlite.binding.add_symbol(symbol, get_cython_function_address(f"scipy.linalg.{module}", name))
    return types.ExternalFunction(symbol, types.void(*[_POINTER] * arguments))


_dgemm = _declare("cython_blas", "dgemm", 13)
_dsyrk = _declare("cython_blas", "dsyrk", 10)
_dpotf2 = _declare("cython_lapack", "dpotf2", 5)
_dpotrf = _declare("cython_lapack", "dpotrf", 5)
_dtrtri = _declare("cython_lapack", "dtrtri", 6)


@jit()
def multiply_triangle(L, C, W, letters, numbers, factors):
    """``W = L C`` with a lower triangle L of shape (k, k), by products of strips that leave out zeros.

    Fortran takes addresses: ``letters`` holds U and N, ``factors`` -1, 1 and 0, and ``numbers`` has room
    for four.  To Fortran all matrices are transposed.
    """
    k = L.shape[0]
    numbers[0], numbers[3] = C.shape[1], k
    for part in range(_PARTS):
        first, last = part * k // _PARTS, (part + 1) * k // _PARTS
        if first < last:
            numbers[1], numbers[2] = last - first, last
            _dgemm(
                letters[1:].ctypes, letters[1:].ctypes, numbers.ctypes, numbers[1:].ctypes,
                numbers[2:].ctypes, factors[1:].ctypes, C.ctypes, numbers.ctypes, L[first:].ctypes,
                numbers[3:].ctypes, factors[2:].ctypes, W[first:].ctypes, numbers.ctypes,
            )  # fmt: skip


@jit()
def subtract_squares(W, S, letters, numbers, factors):
    """``S - W'W`` in place, the lower half; other arguments as in :func:`multiply_triangle`."""
    numbers[0], numbers[1] = W.shape[1], W.shape[0]
    # To Fortran the lower half is the upper.
    _dsyrk(
        letters.ctypes, letters[1:].ctypes, numbers.ctypes, numbers[1:].ctypes, factors.ctypes,
        W.ctypes, numbers.ctypes, factors[1:].ctypes, S.ctypes, numbers.ctypes,
    )  # fmt: skip


@jit()
def factorize(S, letters, numbers):
    """Replace the lower half of S by its Cholesky factor; tells whether S is positive definite.

    Other arguments as in :func:`multiply_triangle`.
    """
    numbers[0] = S.shape[0]
    if S.shape[0] <= _SMALL:
        _dpotf2(letters.ctypes, numbers.ctypes, S.ctypes, numbers.ctypes, numbers[2:].ctypes)
    else:
        _dpotrf(letters.ctypes, numbers.ctypes, S.ctypes, numbers.ctypes, numbers[2:].ctypes)
    return numbers[2] == 0


@jit()
def invert_factor(S, letters, numbers):
    """Replace S by the inverse of its Cholesky factor; returns ``log |S|``, NaN if S is not positive.

    Unlike SciPy's routines it releases the GIL.  Other arguments as in :func:`multiply_triangle`.
    """
    if not factorize(S, letters, numbers):
        return np.nan
    log_det = 0.0
    for i in range(S.shape[0]):
        log_det += 2 * np.log(S[i, i])
        S[i, i + 1 :] = 0.0
    _dtrtri(
        letters.ctypes, letters[1:].ctypes, numbers.ctypes, S.ctypes, numbers.ctypes, numbers[2:].ctypes
    )
    return log_det
