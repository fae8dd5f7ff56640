"""Complex numbers are refused by kernels."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse

from mercer.kernels import Gaussian, Heat, MeanEmbedding, Spectral, TfIdf
from mercer.spaces import Simplex, Sphere
from tests.helpers.refusals import X, Z, assert_complex_refused

COMPLEX = {
    "kernel": lambda: Heat(Simplex())(Z),
    "second argument": lambda: Gaussian()(X, Z),
    "diagonal": lambda: Gaussian().diag(Z),
    "single precision": lambda: Gaussian()(Z.astype(np.complex64)),
    "sparse": lambda: Heat(Simplex())(sparse.csr_matrix(Z)),
    "data frame": lambda: Gaussian()(pd.DataFrame(Z)),
    "tensor": lambda: Heat(Simplex())(torch.tensor(Z)),
    "cloud": lambda: MeanEmbedding(Gaussian())([Z[:5], Z[5:9]]),
    "weights of a cloud": lambda: MeanEmbedding(Gaussian())([(X[:5], np.full(5, 0.2 + 0j))]),
    "scales of columns": lambda: Gaussian(column_scales=np.array([1j, 2, 3, 4]))(X),
    "weights of words": lambda: TfIdf(weights=[1j, 2, 3, 4])(X),
    "weights of levels": lambda: Spectral(Sphere(), weights=[1, 1j])(X),
    "function of levels": lambda: Spectral(Sphere(), weights=lambda lam: np.exp(-lam) + 0j)(X),
}


@pytest.mark.parametrize("what", COMPLEX)
def test_complex_numbers_are_refused(what: str) -> None:
    assert_complex_refused(COMPLEX[what])
