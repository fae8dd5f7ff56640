"""Counts of substrings as features."""

import subprocess
import sys
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from mercer.features import SubstringVectorizer
from mercer.kernels import Spectrum
from tests.helpers.strings import planted, random_strings, substrings


@pytest.mark.parametrize("length", [1, 3, (1, 4), 30])
@pytest.mark.parametrize("form", [str, str.encode, list])
def test_exact_features_give_the_kernel(length, form) -> None:
    X = [form(s) for s in random_strings(4, 30, 40)]
    vectorizer = SubstringVectorizer(length)
    F = vectorizer.fit_transform(X)
    assert F.format == "csr"
    assert F.dtype == np.float64
    np.testing.assert_array_equal((F @ F.T).toarray(), Spectrum(length)(X))
    # Strings that were not there: substrings of the training strings have the columns.
    G = vectorizer.transform([form(s) for s in random_strings(5, 10, 40, "ACGTX")])
    assert G.shape == (10, F.shape[1])
    np.testing.assert_array_equal(
        (G @ F.T).toarray(), Spectrum(length)([form(s) for s in random_strings(5, 10, 40, "ACGTX")], X)
    )
    names = vectorizer.get_feature_names_out()
    for i, s in enumerate(X[:5]):
        counts = sum((substrings(s, k) for k in range(1, 41)), Counter())
        for name, value in zip(names, F[i].toarray()[0], strict=True):
            assert value == counts[tuple(name)]


def test_vocabulary_is_sorted() -> None:
    vectorizer = SubstringVectorizer((1, 2)).fit(["baé", "ab"])
    assert vectorizer.get_feature_names_out().tolist() == ["a", "b", "é", "ab", "aé", "ba"]


@pytest.mark.parametrize("form", [str, str.encode, list])
def test_hashed_features(form) -> None:
    X = [form(s) for s in random_strings(6, 40, 60)]
    wide = SubstringVectorizer((2, 4), n_features=2**20).transform(X)
    np.testing.assert_array_equal((wide @ wide.T).toarray(), Spectrum((2, 4))(X))
    narrow = SubstringVectorizer((2, 4), n_features=50).fit(X).transform(X)
    assert narrow.shape == (40, 50)
    np.testing.assert_array_equal(narrow.sum(axis=1), wide.sum(axis=1))
    assert ((narrow @ narrow.T).toarray() >= Spectrum((2, 4))(X)).all()
    assert (np.asarray(narrow.sum(axis=0)) > 0).all()


def test_hashes_are_the_same_in_another_process() -> None:
    rows = ["naïve", b"abc", ["the", "cat", 7, b"x"]]
    code = (
        "from mercer.features import SubstringVectorizer as V\n"
        f"print([V(2, n_features=1000).transform([row]).indices.tolist() for row in {rows!r}])"
    )
    environment = {"PYTHONHASHSEED": "7", "PYTHONIOENCODING": "utf-8"}
    there = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    vectorizer = SubstringVectorizer(2, n_features=1000)
    here = [vectorizer.transform([row]).indices.tolist() for row in rows]
    assert there.stdout.strip() == str(here)


class Tag(str):
    """A str with a name of its own."""

    def __repr__(self) -> str:
        return f"Tag({str.__repr__(self)})"

    def __str__(self) -> str:
        return "tag"


@pytest.mark.parametrize(
    ("plain", "other"),
    [
        (["a", "b"], [np.str_("a"), np.str_("b")]),
        (["a", "b"], [Tag("a"), Tag("b")]),
        ([b"a", b"b"], [np.bytes_(b"a"), np.bytes_(b"b")]),
        ([1, 2], [np.int64(1), np.uint8(2)]),
        ([0, 1], [False, np.True_]),
    ],
)
def test_equal_tokens_have_one_column(plain, other) -> None:
    assert plain == other
    vectorizer = SubstringVectorizer((1, 2), n_features=2**20)
    np.testing.assert_array_equal(
        vectorizer.transform([plain]).indices, vectorizer.transform([other]).indices
    )


def test_features_feed_linear_models() -> None:
    X, y = planted(0)
    for vectorizer in (SubstringVectorizer(3), SubstringVectorizer(3, n_features=512)):
        model = make_pipeline(vectorizer, LinearSVC()).fit(X, y)
        assert model.score(*planted(1)) > 0.9
        assert len(model[:-1].get_feature_names_out()) == model[-1].coef_.shape[1]


def test_vectorizer_refuses() -> None:
    with pytest.raises(ValueError, match="length of SubstringVectorizer"):
        SubstringVectorizer(0).fit(["a"])
    with pytest.raises(ValueError, match="n_features of SubstringVectorizer"):
        SubstringVectorizer(n_features=0).fit(["a"])
    with pytest.raises(ValueError, match="all strings are shorter"):
        SubstringVectorizer(3).fit(["ab"])
    with pytest.raises(ValueError, match="row 1 of X is empty"):
        SubstringVectorizer(1).fit(["ab", ""])
    with pytest.raises(TypeError, match="hashed alike in all processes"):
        SubstringVectorizer(1, n_features=8).fit_transform([[(1, 2)]])
    with pytest.raises(TypeError, match="fitted to str"):
        SubstringVectorizer(1).fit(["ab"]).transform([b"ab"])


@pytest.mark.parametrize("length", [2, (1, 3), 9])
def test_frequencies_are_probabilities_of_substrings(length) -> None:
    texts = [*random_strings(8, 6, 12), "A"]
    low, high = length if isinstance(length, tuple) else (length, length)

    def probabilities(s: str, k: int) -> dict:
        return {w: Fraction(n, len(s) - k + 1) for w, n in substrings(s, k).items()}

    def exact(s: str, t: str) -> float:
        pairs = ((probabilities(s, k), probabilities(t, k)) for k in range(low, high + 1))
        return float(sum(p * b.get(w, 0) for a, b in pairs for w, p in a.items()))

    truth = [[exact(s, t) for t in texts] for s in texts]
    kernel = Spectrum(length, frequencies=True)
    np.testing.assert_allclose(kernel(texts), truth, rtol=1e-14)
    np.testing.assert_allclose(kernel(texts[:2], texts), truth[:2], rtol=1e-14)
    np.testing.assert_allclose(kernel.diag(texts), np.diag(truth), rtol=1e-14)
    if length != 9:
        rows = SubstringVectorizer(length, frequencies=True).fit_transform(texts)
        np.testing.assert_allclose((rows @ rows.T).toarray(), truth, rtol=1e-14)
        hashed = SubstringVectorizer(length, n_features=2**20, frequencies=True).transform(texts)
        np.testing.assert_allclose((hashed @ hashed.T).toarray(), truth, rtol=1e-14)
    with pytest.raises(ValueError, match="frequencies of Spectrum must be one of"):
        Spectrum(length, frequencies="yes")(texts)
