"""Rows without counts: refused, or taken as uniform with a warning."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse

from mercer.kernels import Cosine, Heat, On, PosteriorHeat, TfIdf
from mercer.machines import SVC
from mercer.selection import compare, load_model, save_model
from mercer.spaces import ProductSpace, Simplex, Sphere
from tests.helpers.catalogue import KERNELS

COUNTS = np.array([[3, 0, 1, 0, 2], [0, 0, 0, 0, 0], [2, 1, 1, 5, 0], [0, 0, 0, 0, 0.0]])
POSITIVE = np.where(COUNTS.any(axis=1, keepdims=True), COUNTS + 1, 0)
WARNING = r"row 1 of X \(and 1 more\) are all zeros and taken as uniform"


def on_simplex(kernel) -> bool:
    """Tell whether a kernel is given its simplex."""
    return isinstance(kernel.__dict__.get("space"), Simplex)


@pytest.mark.parametrize("kernel", [k for k in KERNELS if on_simplex(k)], ids=repr)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_empty_rows_are_uniform(kernel, form, dtype) -> None:
    needs_positive = kernel.space.boundary == "absorbing" or type(kernel).__name__ == "KullbackLeibler"
    counts = (POSITIVE if needs_positive else COUNTS).astype(dtype)
    filled = np.where(counts.any(axis=1, keepdims=True), counts, 1).astype(dtype)
    other = dataclasses.replace(kernel, space=dataclasses.replace(kernel.space, empty="uniform"))
    with pytest.warns(UserWarning, match=WARNING):
        K = other(form(counts))
    assert K.dtype == dtype
    np.testing.assert_allclose(K, kernel(form(filled)), rtol=0, atol=0)
    with pytest.warns(UserWarning, match="row 0 of Y is all zeros and taken"):
        np.testing.assert_array_equal(
            other(form(filled), form(counts[1:3])), kernel(form(filled), form(filled[1:3]))
        )
    with pytest.warns(UserWarning, match=WARNING):
        np.testing.assert_array_equal(other.diag(form(counts)), kernel.diag(form(filled)))
    if other.free():
        with pytest.warns(UserWarning, match=WARNING):
            gradient = other(form(counts), eval_gradient=True)[1]
        np.testing.assert_array_equal(gradient, kernel(form(filled), eval_gradient=True)[1])


def test_default_is_an_error_that_names_the_remedy() -> None:
    for rows in (COUNTS, sparse.csr_matrix(COUNTS), torch.tensor(COUNTS)):
        with pytest.raises(ValueError, match=r"row 1 of X \(and 1 more\) is all zeros.*empty='uniform'"):
            Heat(Simplex())(rows)
    with pytest.raises(ValueError, match="empty of Simplex must be one of"):
        Simplex(empty="zero")
    with pytest.raises(ValueError, match="empty of TfIdf must be one of"):
        TfIdf(empty="zero", weights=[1.0, 2.0])([[1, 2]])


def test_value_is_that_of_the_uniform_distribution() -> None:
    """By the definition: the Bhattacharyya coefficient with 1/n in every category."""
    with pytest.warns(UserWarning, match=WARNING):
        w = Cosine(Simplex(empty="uniform"))(COUNTS)
    p = COUNTS[0] / COUNTS[0].sum()
    np.testing.assert_allclose(w[0, [1, 3]], np.sqrt(p / 5).sum(), rtol=1e-14)
    assert abs(w[1, 3] - 1) < 1e-15


def test_tensors_have_gradients_of_zero_in_empty_rows() -> None:
    rows = torch.tensor(POSITIVE, requires_grad=True)
    with pytest.warns(UserWarning, match=WARNING):
        K = Heat(Simplex(empty="uniform"))(rows)
    K[0].sum().backward()
    filled = torch.tensor(
        np.maximum(POSITIVE, 1.0 * ~POSITIVE.any(axis=1, keepdims=True)), requires_grad=True
    )
    Heat(Simplex())(filled)[0].sum().backward()
    others = [0, 2]
    np.testing.assert_allclose(rows.grad[others], filled.grad[others], rtol=1e-12)
    assert not rows.grad[[1, 3]].any()


def test_explicit_zeros_and_many_columns() -> None:
    stored = sparse.csr_matrix(([0.0, 2.0, 1.0], [3, 70, 9999], [0, 1, 3]), shape=(2, 10_000))
    with pytest.warns(UserWarning, match="row 0 of X is"):
        P = Simplex(empty="uniform").check(stored)
    assert P.has_canonical_format
    expected = stored.toarray()
    expected[0] = 1
    np.testing.assert_array_equal(P.toarray(), expected)


def test_uniform_rows_that_do_not_fit_into_memory() -> None:
    rows = sparse.csr_matrix(([1.0], [5], [0] * 1000 + [1]), shape=(1000, 2_000_000_000))
    with (
        pytest.warns(UserWarning, match="998 more"),
        pytest.raises(MemoryError, match="999 uniform rows of"),
    ):
        Simplex(empty="uniform").check(rows)


def test_tfidf_learns_nothing_from_empty_documents() -> None:
    kernel = TfIdf(empty="uniform").scaled_to(COUNTS)
    np.testing.assert_allclose(kernel.weights, 1 + np.log(5 / (1 + (COUNTS > 0).sum(axis=0))))
    with pytest.warns(UserWarning, match=WARNING):
        K = kernel(sparse.csr_matrix(COUNTS))
    w = kernel.weights
    expected = (COUNTS[2] * w) @ w / np.linalg.norm(COUNTS[2] * w) / np.linalg.norm(w)
    np.testing.assert_allclose(K[2, [1, 3]], expected, rtol=1e-14)


def test_posterior_of_an_empty_row_is_the_prior() -> None:
    """Two symmetric Dirichlet priors, by samples of them."""
    K = PosteriorHeat(alpha=0.5, t_star=0.5)(COUNTS)
    roots = np.sqrt(np.random.default_rng(0).dirichlet(np.full(5, 0.5), size=(2, 200_000)))
    values = np.einsum("ij,ij->i", *roots)[None, :]
    Heat(Simplex(), t_star=0.5).profile(5).apply(values)
    assert abs(K[1, 3] - values.mean()) < 4 * values.std() / np.sqrt(200_000)


def test_in_products_and_tables() -> None:
    both = np.hstack([COUNTS, COUNTS + 1])
    filled = np.hstack([np.where(COUNTS.any(axis=1, keepdims=True), COUNTS, 1), COUNTS + 1])

    def product(**options):
        return ProductSpace(Simplex(**options), Sphere(), columns=[slice(5), slice(5, 10)])

    expected = Heat(product())(filled)
    with pytest.warns(UserWarning, match="taken as uniform"):
        np.testing.assert_array_equal(Heat(product(empty="uniform"))(both), expected)
    with pytest.warns(UserWarning, match="taken as uniform"):
        K = On(slice(5), Heat(Simplex(empty="uniform")))(both)
    np.testing.assert_array_equal(K, On(slice(5), Heat(Simplex()))(filled))


def test_saved_models_keep_the_option(tmp_path) -> None:
    counts = np.random.default_rng(0).poisson(2.0, size=(40, 4))
    result = compare(counts, counts[:, 0] > 1, kernels=Heat(Simplex(empty="uniform")), folds=2)
    save_model(tmp_path / "model.skops", result)
    again = load_model(tmp_path / "model.skops")
    assert "Simplex(empty='uniform')" in repr(again.model)
    with pytest.warns(UserWarning, match="row 1 of"):
        again.predict([[1, 2, 3, 4], [0, 0, 0, 0]])


def test_documents_without_words_in_a_machine() -> None:
    notes = pd.DataFrame({"note": ["red wine", "white wine", "red grape", "white grape", ""]})
    labels = [0, 1, 0, 1, 0]
    for kernel in (TfIdf(), TfIdf(empty="uniform")):
        with pytest.warns(UserWarning, match="row 4 of column 'note' of X has no known word") as caught:
            SVC(On("note", kernel)).fit(notes, labels)
        assert len(caught) == 1
