"""String kernels against definitions, on strings made up at random."""

import itertools
import math
import time
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from mercer.features import GramTransformer, SubstringVectorizer
from mercer.kernels import FullSpectrum, GappySubsequence, Mismatch, Spectrum, WeightedDegree
from mercer.kernels.strings import base as strings
from mercer.kernels.strings.substrings import common_words, mask_weights
from tests.helpers.strings import planted, random_strings, substrings

ALL = [Spectrum(1), FullSpectrum(), Mismatch(1, 0), GappySubsequence(1), WeightedDegree()]


def spectrum(s, t, length: int) -> int:
    a, b = substrings(s, length), substrings(t, length)
    return sum(n * b[w] for w, n in a.items())


def full_spectrum(s, t, decay=1):
    return sum(decay**k * spectrum(s, t, k) for k in range(1, min(len(s), len(t)) + 1))


def mismatch(s: str, t: str, length: int, most: int, alphabet: str) -> int:
    def near(text: str, word: tuple) -> int:
        places = range(len(text) - length + 1)
        return sum(sum(a != b for a, b in zip(text[i:], word, strict=False)) <= most for i in places)

    return sum(near(s, word) * near(t, word) for word in itertools.product(alphabet, repeat=length))


def gappy(s: str, t: str, length: int, decay):
    total = 0 * decay
    for i in itertools.combinations(range(len(s)), length):
        for j in itertools.combinations(range(len(t)), length):
            if all(s[a] == t[b] for a, b in zip(i, j, strict=True)):
                total += decay ** (i[-1] - i[0] + j[-1] - j[0] + 2)
    return total


def weighted_degree(s: str, t: str, degree: int) -> Fraction:
    return sum(
        Fraction(2 * (degree - d + 1), degree * (degree + 1))
        * sum(s[i : i + d] == t[i : i + d] for i in range(len(s) - d + 1))
        for d in range(1, degree + 1)
    )


def table(value, X: list, Y: list) -> np.ndarray:
    return np.array([[float(value(s, t)) for t in Y] for s in X])


# The kernels against their definitions.


def test_frequencies_of_letters() -> None:
    counts = Spectrum(1)(["ACAGCAGTA"], list("ACGT"))[0] / 9
    np.testing.assert_array_equal(counts, [4 / 9, 2 / 9, 2 / 9, 1 / 9])


@pytest.mark.parametrize("length", [1, 2, 3, 5, 30, 90])
def test_spectrum(length: int) -> None:
    X, Y = random_strings(length, 40, 60, "ACGTXYZé"), random_strings(99, 30, 60)
    np.testing.assert_array_equal(Spectrum(length)(X), table(lambda s, t: spectrum(s, t, length), X, X))
    np.testing.assert_array_equal(
        Spectrum(length)(X, Y), table(lambda s, t: spectrum(s, t, length), X, Y)
    )


def test_spectrum_of_long_words_over_a_large_alphabet() -> None:
    # 40 symbols out of 5000 need 491 bits: numbers of substrings are ranked on the way.
    rng = np.random.default_rng(0)
    base = rng.integers(0, 5000, size=200)
    X = [base.tolist(), np.roll(base, 60).tolist(), np.tile(base[:50], 4).tolist()]
    expected = table(lambda s, t: spectrum(s, t, 40), X, X)
    assert expected[0, 1] > 0
    np.testing.assert_array_equal(Spectrum(40)(X), expected)


def test_spectrum_over_a_range_of_lengths() -> None:
    X = random_strings(3, 30, 20)
    expected = sum(Spectrum(k)(X) for k in (2, 3, 4, 5))
    np.testing.assert_array_equal(Spectrum((2, 5))(X), expected)
    np.testing.assert_array_equal(Spectrum([2, 5]).diag(X), np.diag(expected))


@pytest.mark.parametrize("transitions", [0, 2**21], ids=["hashed", "rows"])
def test_full_spectrum(transitions: int, monkeypatch) -> None:
    monkeypatch.setattr(strings, "_ROWS_OF_TRANSITIONS", transitions)
    for seed, alphabet in enumerate(
        ["a", "ab", "ACGT", "abcdefghijklmnopqrstuvwxyz", "äöü€\U0001d538xyz12"]
    ):
        X, Y = random_strings(seed, 28, 22, alphabet), random_strings(seed + 50, 20, 22, alphabet)
        expected = table(full_spectrum, X, X)
        np.testing.assert_array_equal(FullSpectrum()(X), expected)
        np.testing.assert_array_equal(FullSpectrum().diag(X), np.diag(expected))
        np.testing.assert_array_equal(FullSpectrum()(X, Y), table(full_spectrum, X, Y))


@pytest.mark.parametrize("decay", [1e-300, 1e-3, 0.5, 0.99, 1.7, 40.0])
def test_full_spectrum_with_decay(decay: float) -> None:
    X = random_strings(1, 15, 12, "ab")
    exact = table(lambda s, t: full_spectrum(s, t, Fraction(decay)), X, X)
    np.testing.assert_allclose(FullSpectrum(decay)(X), exact, rtol=1e-14)
    np.testing.assert_allclose(FullSpectrum(decay)(X, X[:6]), exact[:, :6], rtol=1e-14)


def test_full_spectrum_of_long_strings() -> None:
    n = 20_000
    (value,) = FullSpectrum()(["a" * n], ["a" * n])[0]
    assert value == sum((n - k + 1) ** 2 for k in range(1, n + 1))
    rng = np.random.default_rng(0)
    s, t = rng.choice(list("AC"), size=(2, 3000))
    s, t = "".join(s), "".join(t)
    assert FullSpectrum()([s], [t])[0, 0] == sum(spectrum(s, t, k) for k in range(1, 60))


@pytest.mark.parametrize(
    ("length", "most", "alphabet"),
    [
        (1, 0, "AC"),
        (2, 1, "ACGT"),
        (3, 1, "ACGT"),
        (3, 2, "ACG"),
        (4, 2, "AC"),
        (4, 3, "AC"),
        (3, 1, "A"),
    ],
)
def test_mismatch(length: int, most: int, alphabet: str) -> None:
    X = random_strings(length, 12, 14, alphabet)
    expected = table(lambda s, t: mismatch(s, t, length, most, alphabet), X, X)
    kernel = Mismatch(length, most, alphabet)
    np.testing.assert_array_equal(kernel(X), expected)
    np.testing.assert_array_equal(kernel(X[:5], X[3:]), expected[:5, 3:])
    np.testing.assert_array_equal(kernel.diag(X), np.diag(expected))


def test_mismatch_in_integers_where_floats_would_round() -> None:
    rng = np.random.default_rng(0)
    s = rng.integers(0, 1000, size=40)
    t = np.where(rng.uniform(size=40) < 0.7, s, 999 - s)
    weights = [abs(w) * math.comb(8, q) for q, w in enumerate(mask_weights(8, 4, 1000))]
    assert sum(weights) * 40**2 > 2**53
    shared = common_words(8, 4, 1000)
    places = itertools.product(range(33), repeat=2)
    exact = sum(shared[int((s[i : i + 8] == t[j : j + 8]).sum())] for i, j in places)
    kernel = Mismatch(8, 4, list(range(1000)))
    assert kernel([s], [t])[0, 0] == exact
    assert kernel.diag([s])[0] == kernel([s])[0, 0]


def test_words_in_common() -> None:
    words = list(itertools.product("ACGT", repeat=3))

    def near(u: str) -> set:
        return {w for w in words if sum(a != b for a, b in zip(w, u, strict=True)) <= 1}

    expected = [len(near("AAA") & near(u)) for u in ("CCC", "CCA", "CAA", "AAA")]
    assert common_words(3, 1, 4) == expected == [0, 2, 4, 10]


@pytest.mark.parametrize("length", [1, 2, 3, 4])
@pytest.mark.parametrize("decay", [1.0, 0.5, 0.03])
def test_gappy_subsequence(length: int, decay: float) -> None:
    X, Y = random_strings(length, 9, 8, "ACG"), random_strings(7, 5, 9, "ACG")
    exact = table(lambda s, t: gappy(s, t, length, Fraction(decay)), X, X)
    kernel = GappySubsequence(length, decay)
    np.testing.assert_allclose(kernel(X), exact, rtol=1e-13)
    np.testing.assert_allclose(kernel.diag(X), np.diag(exact), rtol=1e-13)
    between = table(lambda s, t: gappy(s, t, length, Fraction(decay)), X, Y)
    np.testing.assert_allclose(kernel(X, Y), between, rtol=1e-13)


def test_gappy_subsequence_over_several_packs() -> None:
    X = random_strings(5, 70, 40)
    kernel = GappySubsequence(3, 0.7)
    K = kernel(X)
    pairs = [(0, 69), (33, 34), (64, 2), (31, 32), (5, 5)]
    for i, j in pairs:
        np.testing.assert_allclose(K[i, j], kernel([X[i]], [X[j]])[0, 0], rtol=1e-13)
    np.testing.assert_allclose(K, kernel(X, list(X)), rtol=1e-13)


@pytest.mark.parametrize("degree", [1, 2, 3, 9, 15])
def test_weighted_degree(degree: int) -> None:
    rng = np.random.default_rng(degree)
    X = ["".join(row) for row in rng.choice(list("AC"), size=(70, 11))]
    exact = table(lambda s, t: weighted_degree(s, t, degree), X, X)
    kernel = WeightedDegree(degree)
    np.testing.assert_allclose(kernel(X), exact, rtol=4e-16)
    np.testing.assert_array_equal(kernel.diag(X), np.diag(kernel(X)))
    np.testing.assert_array_equal(kernel(X[:66], X[60:]), kernel(X)[:66, 60:])


def test_weighted_degree_beyond_small_integers() -> None:
    s = "A" * 4000
    value = WeightedDegree(4000)([s], [s])[0, 0]
    assert value == float(weighted_degree_of_equals(4000, 4000))


def weighted_degree_of_equals(length: int, degree: int) -> Fraction:
    return sum(
        Fraction(2 * (degree - d + 1) * (length - d + 1), degree * (degree + 1))
        for d in range(1, degree + 1)
    )


# Laws.

quick = settings(deadline=None, max_examples=30, derandomize=True)
texts = st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=7)


@quick
@given(texts, st.integers(1, 4), st.floats(0.1, 1.0))
def test_laws(X: list[str], length: int, decay: float) -> None:
    kernels = (
        Spectrum((1, length), normalized=True),
        FullSpectrum(decay, normalized=True),
        GappySubsequence(1, decay, normalized=True),
    )
    for kernel in kernels:
        K = kernel(X)
        np.testing.assert_array_equal(K, K.T)
        np.testing.assert_allclose(np.diag(K), 1)
        assert np.linalg.eigvalsh(K)[0] > -1e-12
        reverse = kernel([s[::-1] for s in X])
        np.testing.assert_allclose(reverse, K, atol=1e-13)


@quick
@given(texts, st.permutations(range(50)))
def test_symbols_may_be_renamed(X: list[str], names: list[int]) -> None:
    """Kernels see equality of symbols alone; str, tokens and numbers are one."""
    alphabet = sorted(set("".join(X)))
    renamed = [[names[alphabet.index(c) % 50] + 50 * (alphabet.index(c) // 50) for c in s] for s in X]
    for kernel in (Spectrum(2), FullSpectrum(), GappySubsequence(2)):
        np.testing.assert_allclose(kernel(renamed), kernel(X), rtol=1e-14)
        np.testing.assert_array_equal(kernel([list(s) for s in X]), kernel(X))


@quick
@given(st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=6))
def test_bytes_are_numbers(X: list[bytes]) -> None:
    for kernel in (Spectrum(2), FullSpectrum()):
        np.testing.assert_array_equal(kernel(X), kernel([list(s) for s in X]))


def test_full_spectrum_is_the_sum_of_spectra_and_exact_matches_are_spectra() -> None:
    X = random_strings(8, 25, 15)
    np.testing.assert_array_equal(FullSpectrum()(X), Spectrum((1, 15))(X))
    np.testing.assert_array_equal(Mismatch(3, 0)(X), Spectrum(3)(X))
    np.testing.assert_allclose(GappySubsequence(1, 0.5)(X), Spectrum(1)(X) / 4, rtol=1e-15)


def test_a_value_does_not_depend_on_other_strings() -> None:
    X = random_strings(11, 30, 20)
    for kernel in (Spectrum(3), FullSpectrum(), Mismatch(3, 1), GappySubsequence(2, 1.0)):
        K = kernel(X)
        for i, j in ((0, 29), (12, 13), (7, 7)):
            assert kernel([X[i]], [X[j]])[0, 0] == K[i, j]


@pytest.mark.parametrize("kernel", [FullSpectrum(0.6), GappySubsequence(3, 0.6)], ids=repr)
@pytest.mark.parametrize("normalized", [False, True])
def test_gradients(kernel, normalized: bool) -> None:
    X = [s + "ACGA" for s in random_strings(2, 10, 15)]
    kernel = clone(kernel).set_params(normalized=normalized)
    _, gradient = kernel(X, eval_gradient=True)
    ahead, behind = (kernel.clone_with_theta(kernel.theta + h)(X) for h in (1e-5, -1e-5))
    np.testing.assert_allclose(gradient[:, :, 0], (ahead - behind) / 2e-5, rtol=1e-7, atol=1e-9)


# Forms of input.


@pytest.mark.parametrize(
    "form",
    [
        tuple,
        np.array,
        lambda X: np.array(X, dtype=object)[:, None],
        pd.Series,
        lambda X: pd.Series(X, dtype="string"),
        lambda X: pd.DataFrame({"sequence": X}),
    ],
)
def test_forms_of_sets(form) -> None:
    X = random_strings(0, 12, 10)
    for kernel in (Spectrum(2), FullSpectrum()):
        np.testing.assert_array_equal(kernel(form(X)), kernel(X))
        np.testing.assert_array_equal(kernel(form(X), X[:3]), kernel(X)[:, :3])


def test_token_sequences() -> None:
    X = [["the", "cat", "sat"], ("the", "cat"), np.array(["cat", "sat", "the", "cat"])]
    np.testing.assert_array_equal(Spectrum(2)(X), [[2, 1, 2], [1, 1, 1], [2, 1, 3]])
    numbers = np.array([[1, 2, 3], [1, 2, 1]])
    np.testing.assert_array_equal(Spectrum(1)(numbers), [[3, 3], [3, 5]])
    np.testing.assert_array_equal(Spectrum(1)(numbers.tolist()), [[3, 3], [3, 5]])
    np.testing.assert_array_equal(Mismatch(1, 0, (1, 2, 3))(numbers), Spectrum(1)(numbers))
    np.testing.assert_array_equal(Mismatch(2, 1, b"ab")([b"aab"]), Mismatch(2, 1, "ab")(["aab"]))


def test_unicode_and_surrogates() -> None:
    X = ["naïve \U0001d4b3", "\U0001d4b3\ud83d", "\ud83d\ude00", "\x00a\x00"]
    np.testing.assert_array_equal(FullSpectrum()(X), table(full_spectrum, X, X))


@pytest.mark.parametrize("kernel", ALL, ids=repr)
@pytest.mark.parametrize(
    ("X", "Y", "error", "message"),
    [
        ("ACGT", None, TypeError, "give a list of strings"),
        (b"ACGT", None, TypeError, "give a list of strings"),
        ([], None, ValueError, "X has no rows"),
        (np.empty((0, 1), dtype=object), None, ValueError, "X has no rows"),
        (["A", "C", ""], None, ValueError, "row 2 of X is empty"),
        (["A"], ["C", ""], ValueError, "row 1 of Y is empty"),
        (["A", None], None, ValueError, "row 1 of X is missing"),
        (["A", float("nan")], None, ValueError, "row 1 of X is missing"),
        (pd.Series(["A", pd.NA], dtype="string"), None, ValueError, "row 1 of X is missing"),
        (["A", b"A"], None, TypeError, "row 1 of X is bytes but row 0 is str"),
        (["A"], [b"A"], TypeError, "rows of X are str and rows of Y are bytes"),
        (["A", 3], None, TypeError, "row 1 of X is of type int"),
        ([["A", []]], None, TypeError, "row 0 of X holds .*not hashable"),
        ([["A"], ["A", None]], None, ValueError, "row 1 of X holds None, a missing token"),
        ([["A"]], [["A"], ["A", np.nan]], ValueError, "row 1 of Y holds nan, a missing token"),
        (np.array([["A", "C"]]), None, ValueError, r"shape \(m,\)"),
        (np.zeros(3), None, TypeError, "row 0 of X is of type float"),
        ({"A", "C"}, None, TypeError, "X must be a list"),
        (iter(["A"]), None, TypeError, "X must be a list"),
    ],
)
def test_bad_strings_are_named(kernel, X, Y, error, message) -> None:
    with pytest.raises(error, match=message):
        kernel(X, Y)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Spectrum(0), "length of Spectrum must be"),
        (Spectrum(1.5), "length of Spectrum must be"),
        (Spectrum((3, 2)), "length of Spectrum must be"),
        (Spectrum((1, 2, 3)), "length of Spectrum must be"),
        (Spectrum(True), "length of Spectrum must be"),
        (Spectrum(normalized="yes"), "normalized of Spectrum"),
        (FullSpectrum(0.0), "decay of FullSpectrum must be a positive"),
        (FullSpectrum(np.inf), "decay of FullSpectrum must be a positive"),
        (FullSpectrum(1e200), "overflow with decay=1e"),
        (Mismatch(0), "length of Mismatch"),
        (Mismatch(2, 2), "mismatches of Mismatch must be .* less than length=2"),
        (Mismatch(2, -1), "mismatches of Mismatch"),
        (Mismatch(alphabet=""), "alphabet of Mismatch"),
        (Mismatch(alphabet="ACGTA"), "has a symbol twice"),
        (Mismatch(alphabet="AC"), "row 1 of X holds 'G', which is not in the alphabet 'AC'"),
        (Mismatch(30, 20), "need .* masks"),
        (GappySubsequence(0), "length of GappySubsequence"),
        (GappySubsequence(decay=1.1), "at most 1"),
        (GappySubsequence(decay=0), "decay of GappySubsequence"),
        (GappySubsequence(40, decay=1e-5), "underflows"),
        (WeightedDegree(0), "degree of WeightedDegree"),
        (WeightedDegree(), "row 1 of X has length 4, row 0 of X has 3"),
        (Spectrum(4, normalized=True), "row 0 of X .*normalised"),
    ],
)
def test_bad_parameters_are_named(kernel, message: str) -> None:
    X = ["AAA", "ACGT"]
    with pytest.raises(ValueError, match=message):
        kernel(X)


def test_more_refusals() -> None:
    with pytest.raises(ValueError, match="row 1 of Y has length 2"):
        WeightedDegree()(["ACG"], ["ACG", "AC"])
    with pytest.raises(ValueError, match=r"row 1 of Y holds 'N'"):
        Mismatch()(["ACG"], ["ACG", "ACN"])
    with pytest.raises(ValueError, match="alphabet of bytes"):
        Mismatch()([b"ACG"])
    with pytest.raises(TypeError, match="alphabet of Mismatch has"):
        Mismatch(alphabet=[["A"], "C"])(["ACG"])
    with pytest.raises(ValueError, match="may exceed 2"):
        Mismatch(6, 5, alphabet=[*range(10**4), "A", "C", "G", "T"])(["ACGTAC"])
    with pytest.raises(ValueError, match="overflow with length=150"):
        GappySubsequence(150, 1.0)(["A" * 720])
    with pytest.raises(ValueError, match="overflow"):
        FullSpectrum(2.0).diag(["A" * 2000])


def test_short_strings_have_nothing_in_common() -> None:
    for kernel in (Spectrum(3), Mismatch(3, 1), GappySubsequence(3)):
        np.testing.assert_array_equal(kernel(["A", "AC"]), np.zeros((2, 2)))
        assert kernel(["A", "ACGT"])[1, 1] > 0


@pytest.mark.parametrize(
    "kernel",
    [Spectrum(10**7), GappySubsequence(10**7, 1.0), Mismatch(10**7, 0), Mismatch(400, 1)],
    ids=repr,
)
def test_substrings_longer_than_all_strings_cost_nothing(kernel) -> None:
    X = ["GATTACA", "TACAGA", "CCC"]
    start = time.perf_counter()
    np.testing.assert_array_equal(kernel(X), np.zeros((3, 3)))
    np.testing.assert_array_equal(kernel(X, X[:2]), np.zeros((3, 2)))
    np.testing.assert_array_equal(kernel.diag(X), np.zeros(3))
    assert time.perf_counter() - start < 2


def test_ranges_of_lengths_end_at_the_longest_string() -> None:
    X = ["GATTACA", "TACAGA", "CCC"]
    np.testing.assert_array_equal(Spectrum((1, 10**7))(X), Spectrum((1, 7))(X))
    np.testing.assert_array_equal(Spectrum((1, 10**7))(X, ["CCC"]), Spectrum((1, 7))(X, ["CCC"]))
    exact = SubstringVectorizer((1, 10**7)).fit(X)
    assert exact.transform(["GATTACA" * 9]).shape == (1, len(exact.vocabulary_))
    hashed = SubstringVectorizer((8, 10**7), n_features=16).transform(X)
    assert hashed.shape == (3, 16)
    assert hashed.nnz == 0


def test_mismatches_in_long_words() -> None:
    start = time.perf_counter()
    X = ["GATTACA" * 40, "TACAGA" * 50]
    np.testing.assert_array_equal(Mismatch(200, 0)(X), Spectrum(200)(X))
    assert sum(mask_weights(200, 1, 4)[198:]) > 0
    assert mask_weights(30, 0, 4) == (*[0] * 30, 1)
    np.testing.assert_array_equal(Mismatch(30, 20, "A")(["A" * 40]), [[121]])
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize(
    ("alphabet", "X", "advice"),
    [
        ("ACGT", ["acgt"], "change strings to upper case, or name all symbols by alphabet="),
        ("acgt", ["ACGT"], "change strings to lower case"),
        (b"ACGT", [b"acgt"], "change strings to upper case"),
        ("ACGT", ["ACNN"], "name all symbols that may occur by alphabet="),
    ],
)
def test_advice_for_symbols_beyond_the_alphabet(alphabet, X, advice: str) -> None:
    with pytest.raises(ValueError, match=advice):
        Mismatch(alphabet=alphabet)(X)


def test_mismatch_learns_an_alphabet() -> None:
    words = ["banana", "bandana", "cabana"]
    kernel = Mismatch(2, 1).learnt_from(words)
    assert kernel.alphabet == ["a", "b", "c", "d", "n", None]
    np.testing.assert_array_equal(kernel(words), Mismatch(2, 1, "abcdn?")(words))
    # New letters count as one.
    np.testing.assert_array_equal(kernel(["zaxa"], words), Mismatch(2, 1, "abcdn?")(["?a?a"], words))
    assert Mismatch().learnt_from(["ACGT", "GATTACA"]) == Mismatch()
    assert Mismatch(alphabet="ban").learnt_from(words).alphabet == "ban"
    tokens = Mismatch(2, 1).learnt_from([[3, 1, 2], [2, 2]])
    np.testing.assert_array_equal(tokens([[3, 1]], [[3, 9]]), Mismatch(2, 1, "abcd")(["ca"], ["cd"]))
    machine = make_pipeline(GramTransformer(Mismatch(2, 1)), SVC(kernel="precomputed"))
    assert machine.fit(words, [0, 0, 1]).predict(["bandit"]) in (0, 1)


# With scikit-learn.


def test_support_vector_machine_takes_strings() -> None:
    X, y = planted(0)
    machine = SVC(kernel=Spectrum(normalized=True), C=10)
    search = GridSearchCV(machine, {"kernel__length": [2, 3, 4]}, cv=3).fit(X, y)
    assert search.score(*planted(1)) > 0.9
    model = make_pipeline(GramTransformer(WeightedDegree(4)), SVC(kernel="precomputed"))
    assert model.fit(X, y).score(*planted(1)) > 0.9


def test_gaussian_process_finds_the_decay() -> None:
    X, y = planted(0)
    process = GaussianProcessRegressor(FullSpectrum(0.9, normalized=True), alpha=0.1).fit(X, y)
    assert 1e-3 < process.kernel_.decay < 0.9
    assert process.log_marginal_likelihood_value_ > process.log_marginal_likelihood(np.log([0.9]))
