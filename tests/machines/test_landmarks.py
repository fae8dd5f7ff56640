"""Machines on landmarks against dense solves, their own certificates, and every source of rows."""

import warnings
from pathlib import Path

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.utils.estimator_checks import check_estimator

from mercer.gp import ParquetBlocks
from mercer.kernels import Gaussian, Heat, Linear, MultipleKernel, On, Spectrum
from mercer.machines import KernelRidge, LandmarkClassifier, LandmarkRegressor
from mercer.machines.certificate import SampledSum
from mercer.machines.landmarks import base
from mercer.machines.landmarks import features as landmark_features
from mercer.rows import Block, arrays
from mercer.rows.draws import Draws
from mercer.rows.statistics import Statistics
from mercer.spaces import Categories, Hyperbolic, ProductSpace, Simplex, Sphere, Torus
from tests.helpers.catalogue import KERNELS


@pytest.mark.parametrize(
    "machine",
    [LandmarkRegressor(random_state=0), LandmarkClassifier(loss="logistic", random_state=0)],
    ids=repr,
)
def test_scikit_learn(machine) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(machine, on_skip=None, on_fail=None)
    assert [result for result in results if result["status"] == "failed"] == []


def data(seed: int, m: int = 0, outputs: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Some rows twice, weights of which some are zero, and targets of any size."""
    rng = np.random.default_rng(seed)
    m = m or int(rng.integers(30, 120))
    X = rng.normal(size=(m, int(rng.integers(1, 4))))
    X[m // 2 : m // 2 + m // 8] = X[: m // 8]
    Y = np.sin(X[:, :1] * np.arange(1, outputs + 1)) + rng.normal(scale=0.2, size=(m, outputs))
    w = rng.choice([0.0, 0.5, 1.0, 4.0], size=m) if seed % 2 else np.ones(m)
    return X, Y * 10 ** rng.uniform(-3, 3) + seed % 3, w


def exact_objective(
    K: np.ndarray, Y: np.ndarray, w: np.ndarray, alpha: float, bias: bool = False
) -> float:
    used = w > 0
    A, Y = K[np.ix_(used, used)] + alpha * np.diag(1 / w[used]), Y[used]
    if bias:
        ones = np.linalg.solve(A, np.ones(len(A)))
        Y = Y - ones @ Y / ones.sum()
    return alpha * float((Y * np.linalg.solve(A, Y)).sum())


@pytest.mark.parametrize("seed", range(10))
def test_all_rows_as_landmarks_give_the_exact_solution(seed: int) -> None:
    X, Y, w = data(seed)
    alpha = 10.0 ** (seed % 5 - 3)
    model = LandmarkRegressor(Gaussian(), len(X), alpha, random_state=seed).fit(X, Y, w)
    exact = KernelRidge(Gaussian(), alpha).fit(X, Y, w).predict(X)
    np.testing.assert_allclose(model.predict(X), exact, atol=1e-8 * np.abs(Y).max())


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_every_kernel(kernel) -> None:
    rng = np.random.default_rng(0)
    X = kernel.sample(6, rng)
    y = rng.normal(size=6)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*nothing certifies")
        model = LandmarkRegressor(kernel, random_state=0).fit(X, y)
    if kernel.positive_semidefinite:
        K = model.kernel_(X)
        np.testing.assert_allclose(model.predict(X), K @ np.linalg.solve(K + np.eye(6), y), atol=1e-7)


@pytest.mark.parametrize("seed", range(100))
def test_exact_objective_is_inside_the_brackets(seed: int) -> None:
    X, Y, w = data(seed)
    alpha, kernel = 10.0 ** (seed % 4 - 2), Gaussian(0.5 + seed % 3)
    bias = seed % 5 == 0
    exact = exact_objective(kernel(X), Y, w, alpha, bias)
    rounding = 1e-9 * float((w[:, None] * Y**2).sum())
    improvements = []
    for size in (5, 20, 120):
        model = LandmarkRegressor(kernel, size, alpha, bias=bias, random_state=seed).fit(X, Y, w)
        safe = model.bounds_
        found = model.certify(X, Y, w, grade="exact")
        for lower, upper in (safe, model.bounds_):
            assert lower - rounding <= exact <= upper + rounding
        assert safe[0] <= found.lower + rounding
        assert safe[1] == found.upper == pytest.approx(_objective(model, X, Y, w), rel=1e-7)
        improvements.append(found.improvement)
    assert improvements[-1] < min(1e-6, improvements[0])


@pytest.mark.parametrize("seed", range(20))
def test_exact_bracket_is_narrow_once_landmarks_suffice(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m, size, columns = (2000, 300, 3) if seed == 0 else (500, 100, 1 + seed % 2)
    X, w = rng.normal(size=(m, columns)), rng.choice([0.5, 1.0, 4.0], size=m)
    Y = np.sin(2 * X[:, :1]) + X[:, -1:] * [0.0, 1.0] + rng.normal(scale=0.3, size=(m, 2))
    kernel, alpha = Gaussian(rng.uniform(1, 3)), 10.0 ** rng.uniform(-2, 1)
    model = LandmarkRegressor(kernel, size, alpha, random_state=seed).fit(X, Y, w)
    found = model.certify(X, Y, w, grade="exact")
    exact = exact_objective(kernel(X), Y, w, alpha)
    assert len(model.landmarks_) <= size < m / 4
    assert found.lower * (1 - 1e-9) <= exact <= found.upper * (1 + 1e-9)
    assert found.improvement < 1e-3


def _objective(model, X, Y, w) -> float:
    """The objective from predictions, and the norm from the kernel matrix of the landmarks."""
    c = model.dual_coef_
    norm = float((c * (model.kernel_(model.landmarks_) @ c)).sum())
    return float((w[:, None] * (Y - model.predict(X)) ** 2).sum()) + model.alpha * norm


def test_certificates_are_those_of_brute_force() -> None:
    X, Y, w = data(1, m=90)
    model = LandmarkRegressor(Gaussian(), 12, 0.1, random_state=0).fit(X, Y, w)
    K, Z = Gaussian()(X), model.landmarks_
    left = K - Gaussian()(X, Z) @ np.linalg.solve(Gaussian()(Z), Gaussian()(Z, X))
    a = w[:, None] * (Y - model.predict(X)) / 0.1
    reached = model.objective_
    per_output = (w[:, None] * Y * (Y - model.predict(X))).sum(axis=0)
    assert reached == pytest.approx(per_output.sum())
    squares = (w[:, None] * (Y - model.predict(X)) ** 2).sum(axis=0)
    safe = np.sum(per_output**2 / (per_output + (w @ np.diag(left)) * squares / 0.1))
    exact = np.sum(per_output**2 / (per_output + 0.1 * np.einsum("ik,ij,jk->k", a, left, a)))
    assert model.bounds_[0] == pytest.approx(safe, rel=1e-6)
    assert model.certify(X, Y, w, grade="exact").lower == pytest.approx(exact, rel=1e-6)
    assert model.certificate_ == str(model.certify(X, Y, w, grade="exact"))
    assert "would improve the objective by at most" in model.certificate_


@pytest.mark.parametrize("n_rows", [30, 150])
def test_sampled_certificates_hold_at_their_rate(n_rows: int, monkeypatch) -> None:
    """The tails of weights and noise make uniform samples of these sizes miss the rate."""
    monkeypatch.setattr(arrays, "ROWS", 300)
    held, certain = [], 0.0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, w = rng.normal(size=(800, 2)), rng.choice([0.5, 1.0, 20.0], size=800)
        y = np.sin(3 * X[:, 0]) + 0.3 * rng.standard_t(3, size=800)
        kernel, alpha = (Gaussian(0.5), Heat(Sphere(), 0.1))[seed % 2], 10.0 ** (seed % 4 - 2)
        if seed % 3:
            model = LandmarkRegressor(kernel, 30, alpha, random_state=0)
        else:
            y, model = y > 0, LandmarkClassifier(kernel, 30, alpha, loss="hinge", random_state=0)
        model.fit(X, y, w)
        certain = max(certain, model.bounds_[0] / model.objective_)
        exact = model.certify(X, y, w, grade="exact").lower
        for again in range(10):
            found = model.set_params(random_state=again).certify(X, y, w, n_rows=n_rows)
            assert found.standard_error > 0
            held.append(found.lower <= exact)
        assert found.lower > 0
    assert 0.5 < certain < 1  # some of the safe bounds say something
    # Two standard deviations of a share of 200 below 95 %, and not always: the bounds would be loose.
    assert 0.92 <= np.mean(held) < 1


def test_a_sample_of_all_rows_gives_the_exact_certificate() -> None:
    X, Y, w = data(3, m=600)
    model = LandmarkRegressor(Gaussian(0.5), 30, 0.1, random_state=0).fit(X, Y, w)
    exact = model.certify(X, Y, w, grade="exact").lower
    every = model.certify(X, Y, w, n_rows=600)
    assert (every.grade, every.lower, every.standard_error) == ("exact", pytest.approx(exact), 0)


def test_a_sample_of_all_support_vectors_gives_the_exact_certificate(monkeypatch) -> None:
    monkeypatch.setattr(arrays, "ROWS", 300)
    rng = np.random.default_rng(0)
    y = np.arange(1000) % 2
    X = rng.normal(scale=0.3, size=(1000, 2)) + 3 * y[:, None]
    model = LandmarkClassifier(Gaussian(2.0), 10, 1e-3, loss="hinge", random_state=0).fit(X, y)
    found = model.certify(X, y, n_rows=100)
    assert (found.grade, found.standard_error) == ("exact", 0)
    assert found.lower == pytest.approx(model.certify(X, y, grade="exact").lower, rel=1e-12)
    K, Z = Gaussian(2.0)(X), model.landmarks_
    left = K - Gaussian(2.0)(X, Z) @ np.linalg.solve(Gaussian(2.0)(Z), Gaussian(2.0)(Z, X))
    a = model._dual(Block(X, y, None))[:, 0]
    assert np.count_nonzero(a) <= 100
    norm = float(a @ (K - left) @ a) + float(a @ left @ a)
    sign = np.where(y == 1, 1, -1)
    step = min(1.0, 0.5 * float(sign @ a) / (norm / (4 * 1e-3)))
    assert found.lower == pytest.approx(step * sign @ a - step**2 * norm / (4 * 1e-3), rel=1e-6)


def test_sampled_sums_are_unbiased_with_their_standard_error() -> None:
    rng = np.random.default_rng(0)
    terms, sizes = rng.lognormal(size=(500, 2)), rng.uniform(0.5, 2, size=500)
    found = []
    number = np.arange(500)
    for seed in range(2000):
        parts = {"first": number[:100], "second": number[100:101], "third": number[101:]}
        draws = [Draws.of(Block(i, i, None, name), sizes[i], 40, seed) for name, i in parts.items()]
        merged = draws[2] + (draws[0] + draws[1])
        drawn = merged.rows.X[merged.place]
        np.testing.assert_array_equal(sizes[drawn], merged.sizes)
        sums = SampledSum(terms[drawn], merged.sizes / merged.total)
        found.append([sums.estimate, sums.standard_error])
    assert merged.total == pytest.approx(sizes.sum())
    assert merged.count == 500
    estimates, errors = np.array(found).transpose(1, 0, 2)
    np.testing.assert_allclose(estimates.mean(axis=0), terms.sum(axis=0), rtol=0.02)
    np.testing.assert_allclose(np.sqrt((errors**2).mean(axis=0)), estimates.std(axis=0), rtol=0.06)


def test_indefinite_kernels_are_not_certified() -> None:
    X, y, _ = data(0, outputs=1)
    with pytest.warns(UserWarning, match="negative eigenvalues: nothing certifies"):
        model = LandmarkRegressor(lambda A, B: np.tanh(3 * A @ B.T), 20, random_state=0).fit(X, y)
    for grade in ("sampled", "exact"):
        assert model.certificate_ == "none: the Gram matrix has negative eigenvalues"
        assert np.isnan(model.bounds_[0])
        with pytest.warns(UserWarning, match="negative eigenvalues: nothing certifies"):
            found = model.certify(X, y, grade=grade, n_rows=20)
        assert np.isnan([found.lower, found.improvement]).all()
        assert str(found) == model.certificate_


def test_one_row_has_its_own_target() -> None:
    model = LandmarkRegressor(Gaussian(), alpha="auto", bias=True).fit([[1.0, 2.0]], [3.0])
    assert model.predict([[1.0, 2.0], [5.0, 5.0]]) == pytest.approx([3.0, 3.0])


def test_every_ridge_from_the_same_sums() -> None:
    X, Y, w = data(5, m=80)
    model = LandmarkRegressor(Gaussian(), 20, random_state=0).fit(X, Y, w)
    for alpha in (1e-3, 10.0):
        again = LandmarkRegressor(Gaussian(), 20, alpha, random_state=0).fit(X, Y, w)
        np.testing.assert_allclose(model.refit(alpha).predict(X), again.predict(X), rtol=1e-12)
        assert model.certificate_ == again.certificate_


def test_sources_of_rows_give_one_answer(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(landmark_features, "_NUMBERS", 30 * 16)  # several tiles in each block
    monkeypatch.setattr(landmark_features, "_LEAST", 16)
    monkeypatch.setattr(arrays, "ROWS", 70)
    X, y, w = data(1, m=300, outputs=1)
    y = y[:, 0]
    blocks = [(X[i : i + 90], y[i : i + 90], w[i : i + 90]) for i in range(0, 300, 90)]
    table = pd.DataFrame(X).add_prefix("c").assign(y=y, w=w)
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=100, write_page_checksum=True)
    files = ParquetBlocks(tmp_path, target="y", weight="w", rows=40)
    names = list(table.columns[:-2])
    chunked = [da.from_array(part, chunks=(77, *part.shape[1:])) for part in (X, y, w)]
    model = LandmarkRegressor(Gaussian(), 30, 0.1, random_state=0)
    expected = model.fit(X, y, w).predict(X)
    exact = model.certify(X, y, w, grade="exact").lower
    for rows in (
        (table[names], y, w), (sparse.csr_array(X), y, w), (blocks,), (iter(blocks),), (files,),
        chunked, (torch.as_tensor(X), torch.as_tensor(y), w),
    ):  # fmt: skip
        model.fit(*rows)
        given = torch.as_tensor(X) if isinstance(rows[0], torch.Tensor) else X
        if hasattr(model, "feature_names_in_"):
            given = table[names]
        found = model.predict(given)
        np.testing.assert_allclose(np.asarray(found), expected, atol=1e-8 * np.abs(y).max())
        if not hasattr(rows[0], "__next__"):
            sampled = model.certify(*rows, n_rows=50)
            assert model.certify(*rows, n_rows=50).lower == sampled.lower
            assert -5 * sampled.standard_error < sampled.lower - exact < 3 * sampled.standard_error
            assert model.certify(*rows, grade="exact").lower == pytest.approx(exact, rel=1e-9)
    assert isinstance(model.predict(torch.as_tensor(X)), torch.Tensor)
    lazy = model.predict(chunked[0])
    np.testing.assert_allclose(lazy.compute(), expected, atol=1e-8 * np.abs(y).max())


def test_blocks_are_halved_where_a_device_has_no_memory_left(monkeypatch) -> None:
    monkeypatch.setattr(base, "_LEAST", 100)  # the sample is not everything
    X, Y, w = data(2, m=200)
    model = LandmarkRegressor(Gaussian(), 20, random_state=0)
    expected, sizes, gram = model.fit(X, Y, w).predict(X), [], Gaussian.__call__

    def limited(self: Gaussian, A, B=None, **options):
        sizes.append(len(A))
        if isinstance(A, torch.Tensor) and len(A) > 60:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return gram(self, A, B, **options)

    monkeypatch.setattr(Gaussian, "__call__", limited)
    monkeypatch.setattr("mercer._arrays.in_main_memory", lambda A: not isinstance(A, torch.Tensor))
    model.fit(torch.as_tensor(X), torch.as_tensor(Y), w)
    assert sizes[-7:] == [200, 100, 50, 50, 100, 50, 50]
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-8 * np.abs(Y).max())


def test_points_of_many_kinds(tmp_path) -> None:
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abc"), size=rng.integers(5, 9))) for _ in range(60)]
    y = np.array([word.count("ab") for word in words], dtype=float)
    expected = KernelRidge(Spectrum(2)).fit(words, y).predict(words)
    halves = [(words[:30], y[:30]), (words[30:], y[30:])]
    file = tmp_path / "words.parquet"
    pd.DataFrame({"word": words, "y": y}).to_parquet(file, row_group_size=25, write_page_checksum=True)
    files = ParquetBlocks(file, target="y")
    for rows in ((words, y), (halves,), (np.array(words, dtype=object), y), (files,)):
        model = LandmarkRegressor(Spectrum(2), 60, random_state=0).fit(*rows)
        np.testing.assert_allclose(model.predict(words), expected, atol=1e-8)
    table = pd.DataFrame({"kind": [word[0] for word in words], "hour": rng.uniform(0, 24, size=60)})
    space = ProductSpace(Categories(), Torus(period=24, n=1), columns=[["kind"], ["hour"]])
    kernel = Heat(space, 0.3) + 0.5
    expected = KernelRidge(kernel).fit(table, y).predict(table)
    table.assign(y=y).to_parquet(file, row_group_size=25, write_page_checksum=True)
    for rows in ((table, y), (ParquetBlocks(file, target="y"),)):
        model = LandmarkRegressor(kernel, random_state=0).fit(*rows)
        np.testing.assert_allclose(model.predict(table), expected, atol=1e-8)
    assert model.certify(table, y, grade="exact").improvement < 1e-8


@pytest.mark.parametrize("bias", [False, True])
def test_alpha_of_least_generalised_cross_validation(bias: bool) -> None:
    X, Y, w = data(3, m=200)
    once = np.unique(X, axis=0, return_index=True)[1]
    X, Y, w = X[once], Y[once], w[once]
    model = LandmarkRegressor(Gaussian(), 20, "auto", bias=bias, random_state=0).fit(X, Y, w)
    others = ~(X[:, None] == model.landmarks_).all(axis=2).any(axis=1)
    assert 0.5 * w.sum() < w[others].sum() < w.sum()

    def criterion(alpha: float) -> float:
        phi = Gaussian()(X, model.landmarks_) @ model._whitening.T
        roots = np.sqrt(w)[:, None]
        A, targets = roots * phi, roots * Y
        if bias:
            unit = roots / np.linalg.norm(roots)
            A, targets = A - unit @ (unit.T @ A), targets - unit @ (unit.T @ targets)
        hat = A @ np.linalg.solve(A.T @ A + alpha * np.eye(20), A.T)
        left = 1 - np.diagonal(hat)[others].sum() / (w[others].sum() - bias)
        return float(((targets - hat @ targets)[others] ** 2).sum()) / left**2

    assert criterion(model.alpha_) <= min(criterion(a) for a in np.logspace(-6, 4, 101)) * (1 + 1e-3)
    fixed = LandmarkRegressor(Gaussian(), 20, model.alpha_, bias=bias, random_state=0).fit(X, Y, w)
    np.testing.assert_allclose(model.predict(X), fixed.predict(X), rtol=1e-12)
    assert model.certify(X, Y, w).lower == fixed.certify(X, Y, w).lower
    classes = LandmarkClassifier(Gaussian(), 20, "auto", random_state=0).fit(X, Y[:, 0] > 0)
    assert classes.alpha_ > 0
    every = LandmarkRegressor(Gaussian(), len(X), "auto", random_state=0).fit(X, Y)
    assert 0 < every.alpha_ < np.inf  # no row is left that is not a landmark
    for wrong in ({"alpha": "best"}, {"alpha": "auto", "loss": "hinge"}):
        with pytest.raises(ValueError, match="alpha"):
            LandmarkClassifier(Gaussian(), **wrong).fit(X, Y[:, 0] > 0)


def test_landmarks_grow_until_more_do_not_pay(monkeypatch) -> None:
    monkeypatch.setattr(base, "_FIRST", 10)
    monkeypatch.setattr(base, "_LAST", 100)
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(400, 1))
    easy, hard = X[:, 0] + rng.normal(size=400), np.sign(np.sin(60 * X[:, 0]))
    few = LandmarkRegressor(Gaussian(0.1), "auto", 0.1, random_state=0).fit(X, easy)
    many = LandmarkRegressor(Gaussian(0.01), "auto", 0.1, random_state=0).fit(X, hard)
    assert len(few.landmarks_) <= 20 < 80 <= len(many.landmarks_)
    fixed = LandmarkRegressor(Gaussian(0.01), 80, 0.1, random_state=0).fit(X, hard)
    np.testing.assert_allclose(many.predict(X), fixed.predict(X), atol=1e-9)
    with pytest.raises(ValueError, match="an iterator can be read only once"):
        few.fit(iter([(X, easy)]))


def test_fit_that_was_stopped_goes_on(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(base, "_LEAST", 100)
    monkeypatch.setattr(base, "_PER_LANDMARK", 4)
    X, Y, w = data(1, m=300)
    blocks = [(X[i : i + 60], Y[i : i + 60], w[i : i + 60]) for i in range(0, 300, 60)]
    path: Path = tmp_path / "fit"
    model = LandmarkRegressor(Gaussian(), 25, 0.1)  # without a seed: the landmarks must be kept
    seen = []

    def interrupted(self: Statistics, other: Statistics) -> Statistics:
        seen.append(other.rows)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return add(self, other)

    add = Statistics.__add__
    monkeypatch.setattr(Statistics, "__add__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(blocks, checkpoint=path)
    with pytest.raises(ValueError, match="other alpha"):
        LandmarkRegressor(Gaussian(), 25, 0.2).fit(blocks, checkpoint=path)
    model.fit(blocks, checkpoint=path)
    assert seen[3:] == [60, 60]  # two of five blocks were left
    assert not path.exists()
    Z = model.landmarks_
    A = Gaussian()(Z, X) @ (w[:, None] * Gaussian()(X, Z)) + 0.1 * Gaussian()(Z)
    expected = Gaussian()(X, Z) @ np.linalg.lstsq(A, Gaussian()(Z, X) @ (w[:, None] * Y), rcond=None)[0]
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-6 * np.abs(Y).max())


def test_bad_input_is_named() -> None:
    X, Y, _ = data(0, m=200)
    spoilt = np.abs(X)
    spoilt[157, 0] = np.nan
    model = LandmarkRegressor(Gaussian(), 10)
    with pytest.raises(ValueError, match="row 157 of X contains NaN"):
        model.fit(spoilt, Y)
    with pytest.raises(ValueError, match="X of block 1 contains NaN or infinity, first in row 57"):
        model.fit([(X[:100], Y[:100]), (spoilt[100:], Y[100:])])
    spoilt[157, 0] = -1.0
    counts = LandmarkRegressor(Heat(Simplex()), 10, random_state=0)
    blocks = [(np.abs(X[:100]), Y[:100]), (spoilt[100:], Y[100:])]
    with pytest.raises(ValueError, match="row 57 of X of block 1 has negative entries"):
        counts.fit(iter(blocks))
    for options, message in (
        ({"n_landmarks": 0}, "n_landmarks must be a whole number of at least 1"),
        ({"alpha": -1.0}, "alpha of LandmarkRegressor must be a positive number"),
        ({"alpha": 1e-200}, "alpha must be at least 1e-100, got 1e-200"),
        ({"kernel": "precomputed"}, "landmarks need a kernel that can be evaluated"),
    ):
        with pytest.raises(ValueError, match=message):
            LandmarkRegressor(**{"kernel": Gaussian()} | options).fit(X, Y)
    with pytest.raises(ValueError, match="no rows of positive weight"):
        model.fit([(X, Y, np.zeros(200))])
    with pytest.raises(ValueError, match="grade must be"):
        model.fit(X, Y).certify(X, Y, grade="safe")


def test_similarities_that_cannot_be_reached_are_named() -> None:
    P = np.random.default_rng(0).normal(size=(60, 5)) + 1e-3
    P *= 0.9 / np.linalg.norm(P, axis=1, keepdims=True)
    kernel = Heat(Hyperbolic("ball"))  # which has no time before it is scaled
    with pytest.raises(ValueError, match=r"similarity 0\.5 cannot be reached.*in between, such as 0"):
        LandmarkRegressor(kernel, n_landmarks=20, scale=0.5).fit(P, P[:, 0])


def test_kernels_that_learn_from_targets() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    labels = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    kernel = MultipleKernel([Gaussian(), Linear()])
    for loss in ("squared", "logistic"):
        model = LandmarkClassifier(kernel, 50, 0.1, loss=loss, random_state=0).fit(X, labels)
        assert model.score(X, labels) > 0.9
    with pytest.raises(ValueError, match="nothing"):
        LandmarkClassifier(On("nothing", Gaussian()), 10).fit(
            pd.DataFrame(X, columns=list("abc")), labels
        )


@pytest.mark.parametrize("alpha", [1e-20, 1e300])
@pytest.mark.parametrize("machine", [LandmarkRegressor, LandmarkClassifier])
def test_objectives_below_rounding_certify_nothing(machine, alpha: float) -> None:
    X = np.random.default_rng(0).normal(size=(20, 3))
    model = machine(Gaussian(), 20, alpha, random_state=0).fit(X, X[:, 0] > 0)
    assert model.certificate_.startswith("no bound" if alpha < 1 else "more landmarks would improve")
