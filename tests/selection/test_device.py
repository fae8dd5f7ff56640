"""Comparisons with a device, of points that are not rows of numbers."""

import numpy as np
import pytest
import torch

from mercer.kernels import GaussianEmbedding, Linear, Spectrum
from mercer.selection import KernelSearchCV, compare
from mercer.selection.gram_cache import Grams


def test_strings_say_that_they_stay_in_main_memory() -> None:
    strings, y = ["aab", "aba", "abb", "bbb", "bab", "bba"] * 3, [0, 0, 0, 1, 1, 1] * 3
    result = compare(strings, y, kernels={"spectrum": Spectrum(length=2)}, device="cpu", folds=2)
    assert "kernels of strings are computed in main memory, not on cpu" in result.notes
    plain = compare(strings, y, kernels={"spectrum": Spectrum(length=2)}, folds=2)
    assert result.scores[0].mean == pytest.approx(plain.scores[0].mean)
    assert not any("main memory" in note for note in plain.notes)


def test_gram_matrices_of_tensors_come_to_main_memory() -> None:
    clouds = list(np.random.default_rng(0).normal(size=(4, 3, 2)))
    K = Grams([torch.as_tensor(cloud) for cloud in clouds])(GaussianEmbedding(Linear()))
    np.testing.assert_allclose(K, GaussianEmbedding(Linear())(clouds), rtol=1e-13)


def test_tensors_are_compared_and_searched_like_arrays() -> None:
    X = np.random.default_rng(0).normal(size=(48, 3))
    y = (X[:, 0] > 0).astype(int)
    rows, labels = torch.tensor(X, requires_grad=True), torch.tensor(y)
    kernels = {"linear": Linear()}
    of_tensors = compare(rows, labels, kernels=kernels, folds=2).scores[0]
    of_arrays = compare(X, y, kernels=kernels, folds=2).scores[0]
    assert of_tensors.mean == of_arrays.mean
    assert of_tensors.metrics.keys() == of_arrays.metrics.keys()
    search = KernelSearchCV(Linear(), cv=2).fit(rows, labels)
    assert (search.predict(rows) == KernelSearchCV(Linear(), cv=2).fit(X, y).predict(X)).all()
