"""Distances of spaces, against formulas in high precision and brute force."""

import mpmath as mp
import networkx as nx
import numpy as np
import pytest
import torch
from scipy import sparse

from mercer.spaces import (
    Categories,
    Euclidean,
    Graph,
    ProductSpace,
    Projective,
    Simplex,
    Sphere,
    Torus,
)
from mercer.spaces.simplex import Counts

RNG = np.random.default_rng(0)
#: Rows of counts, of which some are nearly equal and some have nothing in common.
COUNTS = RNG.poisson(0.6, size=(12, 40)) + np.eye(40, dtype=int)[:12]
CLOSE = np.concatenate([COUNTS, 10**9 * COUNTS + np.eye(40, dtype=int)[:12]]).astype(float)


def angle(x, y):
    with mp.workdps(50):
        x, y = ([mp.sqrt(mp.mpf(float(v))) for v in z] for z in (x, y))
        w = mp.fdot(x, y) / mp.sqrt(mp.fdot(x, x) * mp.fdot(y, y))
        return float(mp.acos(min(w, mp.mpf(1))))


def test_angles_of_counts_dense_and_sparse():
    true = np.array([[angle(x, y) for y in CLOSE[::3]] for x in CLOSE[::3]])
    for rows in (CLOSE, sparse.csr_matrix(CLOSE)):
        found = Simplex().distances(rows[::3])
        # A rounding of a unit vector turns it by about 1e-16.
        np.testing.assert_allclose(found, true, rtol=1e-13, atol=3e-16)
    assert 0 < Simplex().distances(CLOSE)[0, 12] < 1e-4


def test_sparse_directions():
    X = RNG.normal(size=(10, 6))
    X = np.concatenate([X, -X * (1 + 1e-9 * RNG.normal(size=X.shape)), X + 1e-8])
    dense = Sphere().distances(X)
    np.testing.assert_allclose(Sphere().distances(sparse.csr_matrix(X)), dense, atol=1e-15)
    axes = Projective().distances(X)
    np.testing.assert_allclose(axes, np.minimum(dense, np.pi - dense))
    assert axes[0, 10] < 1e-8


def test_lengths_far_from_the_origin():
    X = 1e6 + RNG.normal(size=(8, 3))
    X[1] = X[0] + 1e-9
    true = [
        [float(mp.norm([mp.mpf(a) - mp.mpf(b) for a, b in zip(x, y, strict=True)])) for y in X]
        for x in X
    ]
    for rows in (X, sparse.csr_matrix(X), torch.tensor(X)):
        np.testing.assert_allclose(np.asarray(Euclidean().distances(rows)), true, rtol=1e-14)


def test_nodes_and_labels():
    graph = nx.path_graph(4)
    graph.add_edge(0, 3, weight=0.25)  # a long one
    graph.add_node("alone")
    D = Graph(graph).distances([0, 3, "alone"], [0, 1, 3, "alone"])
    np.testing.assert_array_equal(D, [[0, 1, 3, np.inf], [3, 2, 0, np.inf], [np.inf] * 3 + [0]])
    rows = RNG.integers(0, 3, size=(20, 5)).astype(str)
    brute = [[sum(a != b for a, b in zip(x, y, strict=True)) for y in rows] for x in rows]
    np.testing.assert_array_equal(Categories().distances(rows), brute)


def test_products_add_squares_in_units_of_their_times():
    X = np.column_stack([RNG.normal(size=(9, 2)), RNG.uniform(size=9)])
    parts = Euclidean().distances(X[:, :2]), Torus(n=1).distances(X[:, 2:])
    space = ProductSpace(Euclidean(), Torus(n=1), columns=[[0, 1], [2]], times=[4.0, 1.0])
    np.testing.assert_allclose(space.distances(X), np.hypot(parts[0] / 2, parts[1]))
    with pytest.raises(ValueError, match="row 0 of Y"):
        space.distances(X, X * np.nan)


def test_spaces_without_distances_say_so():
    with pytest.raises(TypeError, match="feature space"):
        Counts().distances(COUNTS)
