"""Representatives against scikit-learn's k-means and against all ways there are."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.cluster import KMeans, kmeans_plusplus
from threadpoolctl import threadpool_limits

from mercer.compiled.kmeans import cluster, nearest_rows, seed_centres
from mercer.kernels import Gaussian, Linear, Spectrum
from mercer.rkhs import center
from mercer.selection import representatives

RNG = np.random.default_rng(0)
BLOBS = RNG.normal(size=(120, 3)) + 6 * RNG.normal(size=(8, 3))[RNG.integers(0, 8, size=120)]
LABELS = np.repeat(["a", "b", "c"], [30, 40, 50])[RNG.permutation(120)]


def gram(X: np.ndarray) -> np.ndarray:
    return np.asarray(center(Linear()(X)))


def inertia(X: np.ndarray, labels: np.ndarray) -> float:
    parts = [X[labels == label] for label in np.unique(labels)]
    return sum(float(((part - part.mean(axis=0)) ** 2).sum()) for part in parts)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("k", [1, 2, 8, 25])
def test_clusters_are_those_of_scikit_learn(k: int, seed: int) -> None:
    """From the same start, Lloyd's iteration on the Gram matrix and on the rows are the same."""
    starts = np.sort(np.random.default_rng(seed).choice(120, k, replace=False))
    labels, sums, sizes = cluster(gram(BLOBS), starts, 300)
    theirs = KMeans(k, init=BLOBS[starts], n_init=1, tol=0, algorithm="lloyd").fit(BLOBS)
    np.testing.assert_array_equal(labels, theirs.labels_)
    np.testing.assert_array_equal(sizes, np.bincount(labels, minlength=k))
    distances = ((BLOBS[None] - theirs.cluster_centers_[:, None]) ** 2).sum(axis=2).round(9)
    for order in (np.arange(120), np.arange(120)[::-1]):
        expected = order[distances[:, order].argmin(axis=1)]  # of level rows the first
        np.testing.assert_array_equal(nearest_rows(gram(BLOBS), sums, sizes, order), expected)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(2, 9),
    k=st.integers(1, 5),
    distinct=st.integers(1, 9),
    seed=st.integers(0, 2**32 - 1),
)
@example(rows=9, k=2, distinct=1, seed=5405)  # what centring leaves is rounding
def test_no_single_move_is_better(rows: int, k: int, distinct: int, seed: int) -> None:
    """Every row ends at its nearest centre, and no cluster is empty while rows differ; brute force."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(min(distinct, rows), 2))[rng.integers(0, min(distinct, rows), size=rows)]
    k = min(k, rows)
    centres = seed_centres(gram(X), rng.random((k, 2)), 1e-14 * (X**2).sum(axis=1).max())
    assert len(centres) == min(k, len(np.unique(X, axis=0)))
    assert len(np.unique(X[centres], axis=0)) == len(centres)
    labels, _, sizes = cluster(gram(X), centres, 300)
    assert (sizes > 0).all()
    means = np.array([X[labels == c].mean(axis=0) for c in range(len(centres))])
    gaps = ((X[:, None] - means) ** 2).sum(axis=2)
    np.testing.assert_allclose(gaps[np.arange(rows), labels], gaps.min(axis=1), atol=1e-9)


def test_best_of_many_runs_is_the_best_there_is() -> None:
    X = np.random.default_rng(1).normal(size=(9, 2))
    rng = np.random.default_rng(0)
    found = min(
        inertia(X, cluster(gram(X), seed_centres(gram(X), rng.random((3, 3)), 1e-14), 300)[0])
        for _ in range(40)
    )
    every = min(inertia(X, np.array(labels)) for labels in itertools.product(range(3), repeat=9))
    assert found == pytest.approx(every, rel=1e-9)


def test_starts_are_as_good_as_those_of_scikit_learn() -> None:
    """Mean sum of squared distances to the nearest start, over many draws."""
    K = gram(BLOBS)

    def potential(centres: np.ndarray) -> float:
        return float(((BLOBS[:, None] - BLOBS[centres]) ** 2).sum(axis=2).min(axis=1).sum())

    rng = np.random.default_rng(0)
    ours = [potential(seed_centres(K, rng.random((8, 4)), 1e-14)) for _ in range(100)]
    theirs = [potential(kmeans_plusplus(BLOBS, 8, random_state=seed)[1]) for seed in range(100)]
    error = np.hypot(np.std(ours), np.std(theirs)) / 10
    assert abs(np.mean(ours) - np.mean(theirs)) < 4 * error


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, sparse.coo_matrix, np.float32])
def test_balanced_and_deterministic(form) -> None:
    X = form(BLOBS)
    chosen = representatives(X, LABELS, 12, n_init=10)
    assert chosen.shape == (36,)
    assert np.all(np.diff(chosen) > 0)
    labels, counts = np.unique(LABELS[chosen], return_counts=True)
    assert labels.tolist() == ["a", "b", "c"]
    assert counts.tolist() == [12, 12, 12]
    np.testing.assert_array_equal(chosen, representatives(X, LABELS, 12, n_init=10))
    with threadpool_limits(1, user_api="blas"):
        np.testing.assert_array_equal(chosen, representatives(X, LABELS, 12, n_init=10))
    np.testing.assert_array_equal(chosen, representatives(BLOBS, LABELS, 12, n_init=10))
    assert not np.array_equal(chosen, representatives(X, LABELS, 12, n_init=10, random_state=1))


def test_most_frequent_are_taken() -> None:
    """Points on a line in tight groups of three: the middle one of each is nearest to its centre."""
    groups = np.arange(6)[:, None] * 100.0 + np.array([-1.0, 0.0, 1.5])
    order = np.random.default_rng(0).permutation(18)
    X = groups.ravel()[order][:, None]
    chosen = representatives(X, np.zeros(18, dtype=int), 6)
    assert sorted(X[chosen, 0]) == [0.0, 100.0, 200.0, 300.0, 400.0, 500.0]


def test_shift_and_rotation_do_not_matter() -> None:
    turned = BLOBS @ np.linalg.qr(RNG.normal(size=(3, 3)))[0] + 1e4
    np.testing.assert_array_equal(
        representatives(BLOBS, LABELS, 7, n_init=5), representatives(turned, LABELS, 7, n_init=5)
    )


def test_whole_classes_and_duplicates() -> None:
    chosen = representatives(BLOBS, LABELS, 30, n_init=3)
    assert set(np.flatnonzero(LABELS == "a")) <= set(chosen)
    same = np.ones((10, 2))
    assert len(representatives(same, np.repeat([0, 1], 5), 3)) == 6
    np.testing.assert_array_equal(representatives(np.ones((1, 2)), [7], 1), [0])


def test_feature_space() -> None:
    strings = ["aaaa", "aaab", "bbbb", "bbba", "abab", "cccc"]
    assert len(representatives(strings, [0, 0, 0, 0, 1, 1], 2, kernel=Spectrum(2))) == 4
    flat = representatives(BLOBS, LABELS, 5, n_init=5)
    wide = representatives(BLOBS, LABELS, 5, n_init=5, kernel=Gaussian(1e4))
    assert len(np.intersect1d(flat, wide)) > 12  # a wide Gaussian is nearly flat
    assert len(representatives(BLOBS, LABELS, 5, n_init=5, kernel=Gaussian(0.01))) == 15


BAD = [
    (
        (BLOBS, LABELS, 31),
        "class 'a' has 30 points, fewer than per_class=31; take at most 30",
    ),
    ((BLOBS, LABELS[:7], 3), "X has 120 points, y has shape"),
    ((BLOBS, LABELS, 0), "per_class must be a whole number"),
    ((BLOBS, LABELS, 2.0), "per_class must be a whole number"),
    ((BLOBS, LABELS, 2, 0), "n_init must be a whole number"),
    ((BLOBS, RNG.normal(size=120), 2), "continuous"),
    ((np.where(np.eye(120, 3) > 0, np.nan, BLOBS), np.zeros(120, int), 2), "row 0 of X .*NaN"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[case[1] for case in BAD])
def test_bad_input(arguments, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        representatives(*arguments)


def test_classes_too_large_for_a_gram_matrix() -> None:
    with pytest.raises(ValueError, match="class 0 has 20001 points"):
        representatives(np.zeros((20_001, 1)), np.zeros(20_001, dtype=int), 3)
