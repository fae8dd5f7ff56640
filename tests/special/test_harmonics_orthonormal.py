"""Orthonormality of spherical harmonics where a product grid would be too large, and parts of a level.

Harmonics are products of functions of the angle of the first two coordinates and of ``t_k = x_k / r_k``,
``r_k^2 = x_1^2 + ... + x_k^2``, for the others.  So one line of points per coordinate, through one base
point, has all their values on the whole product grid of an exact quadrature rule; that they are such
products is tested at points off the lines.
"""

import numpy as np
import pytest
from scipy.special import roots_gegenbauer

from mercer.harmonics import SphericalHarmonics, multiplicity
from mercer.spaces import Sphere


def directions(angles: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """Unit vectors with given angles of (x_1, x_2), and with t_3, ..., t_n in the rows of heights."""
    radii = np.sqrt(1 - heights**2)
    above = np.ones((len(angles), heights.shape[1] + 1))  # products of the radii of later coordinates
    above[:, :-1] = np.cumprod(radii[:, ::-1], axis=1)[:, ::-1]
    first = above[:, :1] * np.column_stack([np.cos(angles), np.sin(angles)])
    return np.column_stack([first, heights * above[:, 1:]])


class Lines:
    """Values of harmonics on lines through a base point where none of them is close to zero."""

    def __init__(self, harmonics: SphericalHarmonics, columns: np.ndarray, degree: int) -> None:
        n, rng = harmonics.n, np.random.default_rng(0)
        angles, heights = rng.uniform(0, 2 * np.pi, 300), rng.uniform(-0.7, 0.7, (300, n - 2))
        candidates = np.abs(harmonics(directions(angles, heights))[:, columns])
        best = int(np.argmax(candidates.min(axis=1)))
        self.angle, self.heights = angles[best], heights[best]
        self.harmonics, self.columns = harmonics, columns
        self.base = self.at(np.array([self.angle]), self.heights[None])[0]
        self.rules = [self.circle_rule(degree)]
        self.rules += [roots_gegenbauer(degree // 2 + 1, (k - 2) / 2) for k in range(3, n + 1)]

    @staticmethod
    def circle_rule(degree: int) -> tuple[np.ndarray, np.ndarray]:
        return 2 * np.pi * (np.arange(degree + 1) + 0.3) / (degree + 1), np.ones(degree + 1)

    def at(self, angles: np.ndarray, heights: np.ndarray) -> np.ndarray:
        return self.harmonics(directions(angles, heights))[:, self.columns]

    def along(self, axis: int, places: np.ndarray) -> np.ndarray:
        """Values on a line, relative to those at the base point; axis 0 is the angle."""
        angles, heights = np.full(len(places), self.angle), np.tile(self.heights, (len(places), 1))
        if axis == 0:
            angles = places
        else:
            heights[:, axis - 1] = places
        return self.at(angles, heights) / self.base

    def gram(self) -> np.ndarray:
        """Inner products by the product of the rules."""
        total = np.outer(self.base, self.base)
        for axis, (places, weights) in enumerate(self.rules):
            values = self.along(axis, places)
            total *= (values * (weights / weights.sum())[:, None]).T @ values
        return total


#: At least 1000 functions each; level 60 in dimension 3.
@pytest.mark.parametrize(
    ("n", "levels"), [(3, 61), (4, 15), (5, 10), (8, 6), (10, 6), (15, 5), (30, 4), (50, 3)]
)
def test_orthonormal(n: int, levels: int) -> None:
    harmonics = SphericalHarmonics(n, levels)
    rng = np.random.default_rng(n)
    columns = np.arange(harmonics.n_features)
    if len(columns) > 1500:  # pairs are too many: all of the first levels, some of every other
        columns = np.sort(
            np.concatenate([columns[:300], 300 + rng.permutation(columns[300:] - 300)[:900]])
        )
    assert len(columns) >= 1000
    lines = Lines(harmonics, columns, 2 * (levels - 1))
    angles, heights = rng.uniform(0, 2 * np.pi, 20), rng.uniform(-0.95, 0.95, (20, n - 2))
    product = lines.base * lines.along(0, angles)
    for axis in range(1, n - 1):
        product *= lines.along(axis, heights[:, axis - 1])
    scale = np.sqrt([multiplicity(n, level) for level in harmonics.feature_levels[columns]])
    np.testing.assert_allclose(product / scale, lines.at(angles, heights) / scale, atol=1e-10)
    np.testing.assert_allclose(lines.gram(), np.eye(len(columns)), atol=1e-10)


@pytest.mark.parametrize(("n", "level", "size"), [(3, 4, 3), (6, 3, 12)])
def test_part_of_a_level_is_unbiased(n: int, level: int, size: int) -> None:
    X = np.random.default_rng(1).normal(size=(8, n))
    X[:2] = np.eye(n)[[0, -1]]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    pairs = np.triu_indices(8)
    whole = multiplicity(n, level) * Sphere(n).series(np.eye(level + 1)[level], np.clip(X @ X.T, -1, 1))
    draws = []
    for seed in range(250):
        part = SphericalHarmonics(n, (level,), max_features=size, random_state=seed)
        F = np.empty((8, size))
        part.write(X, F)
        draws.append((F @ F.T / part.shares[0])[pairs])
    error = np.mean(draws, axis=0) - whole[pairs]
    standard = np.std(draws, axis=0) / np.sqrt(len(draws))
    assert standard.max() < 0.15 * multiplicity(n, level)  # enough draws to see anything
    assert np.abs(error / standard).max() < 4
    assert np.mean((error / standard) ** 2) < 2
