"""Classification on landmarks: against exact machines, brute force, and every source of rows."""

import tracemalloc
import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.svm import LinearSVC

from mercer.gp import ParquetBlocks
from mercer.kernels import Gaussian, Spectrum
from mercer.machines import SVC, LandmarkClassifier
from mercer.machines.landmarks import base
from mercer.machines.landmarks.losses import MARGIN_LOSSES, LossSums
from mercer.machines.probability import fit_sigmoid

LOSSES = {
    "squared": lambda z: (1 - z) ** 2,
    "logistic": lambda z: np.logaddexp(0, -z),
    "squared_hinge": lambda z: np.maximum(0, 1 - z) ** 2,
    "hinge": lambda z: np.maximum(0, 1 - z),
}


def data(seed: int, m: int = 120, classes: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Classes that overlap, and weights of which some are zero."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, size=m)
    X = rng.normal(size=(m, 2)) + 1.2 * y[:, None] * [1, -1]
    return X, np.array(["ant", "bee", "cat"])[y], rng.choice([0.0, 1.0, 2.0], size=m)


def signs(model: LandmarkClassifier, y: np.ndarray) -> np.ndarray:
    classes = model.classes_[1:] if len(model.classes_) == 2 else model.classes_
    return np.where(y[:, None] == classes, 1.0, -1.0)


def reached(model: LandmarkClassifier, X, y, w) -> float:
    """The objective from decision values, and the norm from the kernel matrix of the landmarks."""
    values = model.decision_function(X).reshape(len(y), -1)
    c = model.dual_coef_.reshape(len(model.landmarks_), -1)
    norm = float((c * (model.kernel_(model.landmarks_) @ c)).sum())
    return float((w[:, None] * LOSSES[model.loss](signs(model, y) * values)).sum()) + model.alpha * norm


def exact_objective(model: LandmarkClassifier, X, y, w) -> float:
    """The least objective with all rows as landmarks, of each output by a general optimiser."""
    values, vectors = np.linalg.eigh(model.kernel_(X))
    phi = np.column_stack([vectors * np.sqrt(values.clip(0)), np.ones(len(y))])
    total = 0.0
    for own in signs(model, y).T:

        def smooth(b: np.ndarray, own: np.ndarray = own) -> tuple[float, np.ndarray]:
            z = own * (phi @ b)
            if model.loss.startswith("squared"):
                short = 1 - z if model.loss == "squared" else np.maximum(0, 1 - z)
                value, slope = short**2, 2 * short
            else:
                terms = MARGIN_LOSSES[model.loss](1e-4).terms(z)
                value, slope = terms.smooth, terms.slope
            penalty = np.append(b[:-1], 0.0)
            gradient = -phi.T @ (w * own * slope) + 2 * model.alpha * penalty
            return float(w @ value + model.alpha * penalty @ penalty), gradient

        options = {"maxiter": 5000, "maxfun": 10000, "ftol": 1e-14, "gtol": 1e-9}
        found = minimize(smooth, np.zeros(phi.shape[1]), jac=True, method="L-BFGS-B", options=options)
        total += found.fun
    return total


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(3))
def test_exact_objective_is_inside_the_brackets(loss: str, seed: int) -> None:
    X, y, w = data(seed, classes=2 + seed % 2)
    alpha = (0.1, 1.0)[seed % 2]
    for size in (6, 25, 120):
        model = LandmarkClassifier(Gaussian(), size, alpha, loss=loss, tol=1e-4, random_state=seed)
        model.fit(X, y, w)
        exact, safe = exact_objective(model, X, y, w), model.bounds_
        found = model.certify(X, y, w, grade="exact")
        for lower, upper in (safe, model.bounds_):
            assert lower * (1 - 1e-9) <= exact <= upper * (1 + 1e-4)
        assert safe[0] <= found.lower * (1 + 1e-9)
        assert found.upper == pytest.approx(reached(model, X, y, w), rel=1e-6)
        assert model.dual_gap_ <= 1e-4
    assert found.improvement < 2e-4


@pytest.mark.parametrize("alpha", [0.05, 1.0])
def test_hinge_loss_is_that_of_a_support_vector_machine(alpha: float) -> None:
    X, y, w = data(0)
    model = LandmarkClassifier(Gaussian(), alpha=alpha, loss="hinge", tol=1e-6, random_state=0)
    exact = SVC(Gaussian(), 1 / (2 * alpha), tol=1e-8).fit(X, y, w)
    assert model.fit(X, y, w).objective_ == pytest.approx(2 * alpha * exact.objective_, rel=1e-5)
    np.testing.assert_allclose(model.decision_function(X), exact.decision_function(X), atol=5e-3)


@pytest.mark.parametrize("size", [15, 120])
@pytest.mark.parametrize("alpha", [0.01, 1.0])
def test_squared_hinge_loss_is_that_of_linear_machines(size: int, alpha: float) -> None:
    """Against scikit-learn and a general optimiser, and the gap from dual coefficients of the rows."""
    X, y, w = data(0)
    model = LandmarkClassifier(
        Gaussian(), size, alpha, loss="squared_hinge", tol=1e-8, random_state=0
    ).fit(X, y, w)
    K = Gaussian()(model.landmarks_)
    L = np.linalg.cholesky(K + 1e-12 * np.eye(len(K)))
    phi, own = np.linalg.solve(L, Gaussian()(model.landmarks_, X)).T, signs(model, y)[:, 0]

    def objective(b: np.ndarray) -> tuple[float, np.ndarray]:
        short = np.maximum(0, 1 - own * (phi @ b[:-1] + b[-1]))
        slope = np.append(phi.T @ (-2 * w * own * short), -2 * (w * own) @ short)
        return w @ short**2 + alpha * b[:-1] @ b[:-1], slope + 2 * alpha * np.append(b[:-1], 0)

    options = {"maxiter": 10**5, "maxfun": 10**5, "ftol": 1e-16, "gtol": 1e-10}
    found = minimize(objective, np.zeros(len(K) + 1), jac=True, method="L-BFGS-B", options=options)
    assert model.objective_ == pytest.approx(found.fun, rel=1e-6)
    assert model.n_iter_ <= 25
    peer = LinearSVC(C=1 / (2 * alpha), intercept_scaling=100, dual=False, tol=1e-8, max_iter=10**5)
    peer.fit(phi, y, sample_weight=w)
    assert model.objective_ == pytest.approx(
        objective(np.append(peer.coef_, peer.intercept_))[0], rel=1e-4
    )
    # Slopes of the smoothed loss, balanced so that they add up to zero, are feasible dual coefficients.
    short = (1 - own * model.decision_function(X)) / model._width
    a = 2 * w * model._width * np.logaddexp(0, short) * expit(short)
    sums = a[own > 0].sum(), a[own < 0].sum()
    a *= np.where(own > 0, min(sums) / sums[0], min(sums) / sums[1])
    counts = w > 0
    dual = a.sum() - (a[counts] ** 2 / w[counts]).sum() / 4
    dual -= ((phi.T @ (own * a)) ** 2).sum() / (4 * alpha)
    assert dual <= found.fun * (1 + 1e-9)
    assert 1 - dual / model.objective_ <= max(2 * model.dual_gap_, 1e-9)


def test_weak_penalties_take_few_steps() -> None:
    # Classes need hinges of different sharpness, and full Newton steps overshoot.
    X, y, w = data(0, m=1000, classes=3)
    for alpha in (1e-4, 1e4):
        model = LandmarkClassifier(Gaussian(), 50, alpha, loss="hinge", random_state=0).fit(X, y, w)
        assert model.n_iter_ < 60
        assert model.dual_gap_ < 1e-3
        assert model.objective_ == pytest.approx(reached(model, X, y, w), rel=1e-6)


@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("loss", MARGIN_LOSSES)
def test_few_passes_over_rows_suffice(loss: str, classes: int, monkeypatch) -> None:
    # The sample can be separated where the rows cannot, and the steps from there overshoot.
    monkeypatch.setattr(base, "_LEAST", 500)
    X, y = load_digits(return_X_y=True)
    for alpha in (10.0, 1e-3, 1e-4):
        model = LandmarkClassifier(
            Gaussian(), 50, alpha, loss=loss, scale=0.3, class_weight={0: 20.0}, random_state=0
        ).fit(X, y % classes)
        assert model.n_iter_ <= 40
        assert model.dual_gap_ <= model.tol
        weights = np.where(y % classes == 0, 20.0, 1.0)
        assert model.objective_ == pytest.approx(reached(model, X, y % classes, weights), rel=1e-6)


@pytest.mark.parametrize("width", [1.0, 0.1, 1e-3])
@pytest.mark.parametrize("loss", MARGIN_LOSSES)
def test_terms_are_derivatives_and_bounds(loss: str, width: float) -> None:
    z, step = np.linspace(1 - 5 * width, 1 + 5 * width, 42), 1e-4 * width
    make = MARGIN_LOSSES[loss]
    found, right, left = (make(width).terms(z + shift) for shift in (0, step, -step))
    np.testing.assert_allclose(found.slope, (left.smooth - right.smooth) / (2 * step), rtol=1e-5)
    np.testing.assert_allclose(found.curvature, (left.slope - right.slope) / (2 * step), rtol=1e-5)
    np.testing.assert_allclose(make(width).slope(z), found.slope, rtol=1e-14)
    wide, narrow = (make(width * np.exp(t)).terms(z).slope for t in (1e-4, -1e-4))
    np.testing.assert_allclose(found.drift, (wide - narrow) / 2e-4, rtol=1e-5, atol=1e-9 * width)
    np.testing.assert_allclose(found.value, LOSSES[loss](z), rtol=1e-12, atol=1e-15)
    # The dual term is the least value of loss + slope * margin, here over many margins.
    margins = np.linspace(-20, 20, 400_001)
    least = [(LOSSES[loss](margins) + slope * margins).min() for slope in found.slope]
    np.testing.assert_allclose(found.dual, least, atol=1e-6)
    gap = found.value + found.slope * z - found.dual
    np.testing.assert_allclose(found.excess, gap, atol=1e-12)


def test_squares_are_solved_with_a_bias() -> None:
    X, y, w = data(1, classes=3)
    model = LandmarkClassifier(Gaussian(), 20, 0.3, random_state=0).fit(X, y, w)
    Z = model.landmarks_
    phi = np.column_stack([Gaussian()(X, Z), np.ones(len(y))])
    penalty = np.zeros((21, 21))
    penalty[:20, :20] = 0.3 * Gaussian()(Z)
    c = np.linalg.solve(phi.T @ (w[:, None] * phi) + penalty, phi.T @ (w[:, None] * signs(model, y)))
    np.testing.assert_allclose(model.decision_function(X), phi @ c, atol=1e-7)


def test_probabilities() -> None:
    X, y, w = data(2, m=2000, classes=3)
    new, labels, _ = data(3, m=2000, classes=3)
    for loss in LOSSES:
        model = LandmarkClassifier(Gaussian(), 60, loss=loss, random_state=0).fit(X, y, w)
        p = model.predict_proba(new)
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        if loss != "hinge":  # no margin is all around the class in the middle
            sure = p.max(axis=1) > 0.9
            assert 0.9 < np.mean((model.predict(new) == labels)[sure]) < 0.995
        two = labels != "cat"
        model.fit(X[y != "cat"], y[y != "cat"])
        own = model.predict_proba(new[two])[:, 1]
        for low, high in ((0.1, 0.4), (0.4, 0.7), (0.7, 0.95)):
            part = (own > low) & (own < high)
            difference = np.mean(labels[two][part] == "bee") - own[part].mean()
            assert abs(difference) < 2.5 * np.sqrt(0.25 / part.sum())


@pytest.mark.parametrize("loss", ["squared", "squared_hinge", "hinge"])
def test_probabilities_are_those_of_rows_left_out(loss: str) -> None:
    # Two hundred landmarks follow every row; what they say of rows they saw is far too sure.
    X, y, _ = data(7, m=250)
    new, labels, _ = data(8, m=2000)
    model = LandmarkClassifier(Gaussian(0.5), 200, 0.05, loss=loss, random_state=0).fit(X, y)
    seen = fit_sigmoid(model.decision_function(X), y == "bee", np.ones(250), 250)
    values = model.decision_function(new)
    p, sure = model.predict_proba(new)[:, 1], expit(values * seen[0] + seen[1])
    assert log_loss(labels == "bee", p) < log_loss(labels == "bee", sure) - 0.02
    assert log_loss(labels == "bee", p) < 0.6


def test_memory_does_not_grow_with_the_classes_times_the_sample() -> None:
    rng = np.random.default_rng(0)
    X, centres = rng.normal(size=(2000, 8)), rng.normal(size=(10, 8))
    model = LandmarkClassifier(Gaussian(3.0), 50, loss="squared_hinge", tol=0.01, random_state=0)
    features = 8 * 2000 * 50
    model.fit(X[:200], (X[:200] @ centres.T).argmax(axis=1))  # compiles
    tracemalloc.start()
    model.fit(X, (X @ centres.T).argmax(axis=1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(model.classes_) == 10
    assert peak < 10 * features


@pytest.mark.parametrize("loss", LOSSES)
def test_classes_have_weights(loss: str, monkeypatch) -> None:
    monkeypatch.setattr(base, "_LEAST", 100)
    X, y, w = data(4, m=300, classes=3)
    blocks = [(X[i : i + 90], y[i : i + 90], w[i : i + 90]) for i in range(0, 300, 90)]
    chunked = [da.from_array(part, chunks=(77, *part.shape[1:])) for part in (X, y, w)]
    model = LandmarkClassifier(Gaussian(), 10, 0.1, loss=loss, random_state=0)
    totals = np.array([w[y == label].sum() for label in ("ant", "bee", "cat")])
    for given, factors in (
        ("balanced", totals.sum() / (3 * totals)),
        ({"ant": 2.0, "cat": 0.5}, np.array([2.0, 1.0, 0.5])),
    ):
        own = w * factors[np.searchsorted(["ant", "bee", "cat"], y)]
        expected = model.set_params(class_weight=None).fit(X, y, own).decision_function(X)
        sampled = model.certify(X, y, own, n_rows=50).lower
        exact = model.certify(X, y, own, grade="exact").lower
        model.set_params(class_weight=given)
        for rows in ((X, y, w), (blocks,), chunked):
            np.testing.assert_allclose(model.fit(*rows).decision_function(X), expected, atol=1e-8)
            np.testing.assert_allclose(model.class_weight_, factors)
            assert model.certify(*rows, grade="exact").lower == pytest.approx(exact, rel=1e-6)
        found = model.fit(X, y, w).certify(X, y, w, n_rows=50)
        assert (found.grade, found.lower) == ("sampled", pytest.approx(sampled, rel=1e-6))
    for wrong, message in (
        ({"dog": 1.0}, "class_weight names 'dog', .* classes: 'ant', 'bee', 'cat'"),
        ({"ant": -1.0}, "class_weight of the class 'ant' must be a positive number, got -1.0"),
    ):
        with pytest.raises(ValueError, match=message):
            model.set_params(class_weight=wrong).fit(X, y)


@pytest.mark.parametrize("loss", LOSSES)
def test_sources_of_rows_give_one_answer(loss: str, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(base, "_LEAST", 100)  # the sample is not everything
    X, y, w = data(4, m=300, classes=3)
    blocks = [(X[i : i + 90], y[i : i + 90], w[i : i + 90]) for i in range(0, 300, 90)]
    table = pd.DataFrame(X, columns=["a", "b"]).assign(y=y, w=w)
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=100, write_page_checksum=True)
    files = ParquetBlocks(tmp_path, target="y", weight="w", rows=40)
    chunked = [da.from_array(part, chunks=(77, *part.shape[1:])) for part in (X, y, w)]
    model = LandmarkClassifier(Gaussian(), 10, 0.1, loss=loss, random_state=0)
    expected = model.fit(X, y, w).decision_function(X)
    exact = model.certify(X, y, w, grade="exact").lower
    assert loss == "squared" or model.n_iter_ > 1
    for rows in ((sparse.csr_array(X), y, w), (blocks,), (files,), chunked, (torch.as_tensor(X), y, w)):
        model.fit(*rows)
        given = table[["a", "b"]] if rows[0] is files else X
        np.testing.assert_allclose(model.decision_function(given), expected, atol=1e-8)
        sampled = model.certify(*rows, n_rows=50)
        assert model.certify(*rows, n_rows=50).lower == sampled.lower
        assert 0 <= sampled.lower < exact + 3 * sampled.standard_error
        assert model.certify(*rows, grade="exact").lower == pytest.approx(exact, rel=1e-6)
    assert (model.predict(chunked[0]).compute() == model.classes_[expected.argmax(axis=1)]).all()
    with pytest.raises(ValueError, match="an iterator can be read only once"):
        model.fit(iter(blocks))


@pytest.mark.parametrize("column", ["b", "y"])
def test_late_row_that_is_wrong_is_named(column: str, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(base, "_LEAST", 100)
    table = pd.DataFrame(data(4, m=300)[0], columns=["a", "b"])
    table["y"] = (table["a"] > 0).astype(float)
    table.loc[257, column] = np.nan
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=100, write_page_checksum=True)
    X, y = table[["a", "b"]].to_numpy(copy=True), table["y"].to_numpy(copy=True)
    model = LandmarkClassifier(Gaussian(), 10, loss="hinge", random_state=0)
    for rows, place in (
        ((X, y), "row 257"),
        ((torch.as_tensor(X), torch.as_tensor(y)), "row 257"),
        ((sparse.csr_array(X), y), "row 257"),
        (([(X[i : i + 100], y[i : i + 100]) for i in (0, 100, 200)],), "block 2 .* first in row 57"),
        ((ParquetBlocks(tmp_path, target="y"),), "row group 2, .* first in row 57"),
        ([da.from_array(X, chunks=(100, 2)), da.from_array(y, chunks=100)], "partition 2 .* in row 57"),
    ):
        with pytest.raises(ValueError, match=place):
            model.fit(*rows)


@pytest.mark.parametrize("loss", MARGIN_LOSSES)
def test_fit_that_was_stopped_goes_on(loss: str, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(base, "_LEAST", 100)
    X, y, w = data(5, m=300)
    blocks = [(X[i : i + 60], y[i : i + 60], w[i : i + 60]) for i in range(0, 300, 60)]
    model = LandmarkClassifier(Gaussian(), 10, 0.1, loss=loss, random_state=0)
    expected, passes = model.fit(blocks).decision_function(X), model.n_iter_
    add, seen = LossSums.__add__, []

    def interrupted(self: LossSums, other: LossSums) -> LossSums:
        seen.append(self)
        if len(seen) == 6:  # in the middle of the second pass
            raise KeyboardInterrupt
        return add(self, other)

    monkeypatch.setattr(LossSums, "__add__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(blocks, checkpoint=tmp_path / "fit")
    model.fit(blocks, checkpoint=tmp_path / "fit")
    assert model.n_iter_ == passes
    assert len(seen) == 4 * passes + 1
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-10)


def test_few_steps_end_in_a_warning_and_bad_input_is_named() -> None:
    X, y, _ = data(6)
    with pytest.warns(ConvergenceWarning, match=r"after 1 steps with a relative duality gap of 0\.\d+"):
        LandmarkClassifier(Gaussian(), 20, loss="hinge", max_iter=1, random_state=0).fit(X, y)
    for options, message in (
        ({"loss": "cubic"}, "loss of LandmarkClassifier must be one of 'squared', 'logistic'"),
        ({"tol": 0.0}, "tol of LandmarkClassifier must be a positive number"),
        ({"max_iter": 0}, "max_iter must be a whole number of at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            LandmarkClassifier(Gaussian(), **options).fit(X, y)
    with pytest.raises(ValueError, match="there is only one class"):
        LandmarkClassifier(Gaussian()).fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="all rows of the class 'bee' have weight zero"):
        LandmarkClassifier(Gaussian()).fit(X, y, (y == "ant").astype(float))


def test_words() -> None:
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abc"), size=rng.integers(5, 9))) for _ in range(80)]
    y = np.array(["ab" in word for word in words])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for loss in LOSSES:
            model = LandmarkClassifier(Spectrum(2), 80, 0.01, loss=loss, random_state=0)
            assert model.fit(words, y).score(words, y) > 0.95


def test_probabilities_of_classes_that_overlap() -> None:
    """Decision values that tell nothing must not turn the order of the classes round."""
    rng = np.random.default_rng(5)
    y = rng.integers(4, size=1500)
    X = rng.normal(size=(1500, 3)) + 0.25 * rng.normal(size=(4, 3))[y]
    for loss in ("squared", "squared_hinge", "hinge"):
        model = LandmarkClassifier(Gaussian(), 60, 1.0, loss=loss, scale=0.3, random_state=0)
        model.fit(X[:1000], y[:1000])
        assert model.sigmoids_[:, 0].min() >= 0
        own = model.predict_proba(X[1000:])[np.arange(500), y[1000:]]
        assert -np.log(own).mean() < np.log(4) + 0.02


@pytest.mark.parametrize("loss", MARGIN_LOSSES)
def test_uneven_weights_and_little_regularisation(loss: str) -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(80, 2))
    y, w = (X[:, 0] + 0.5 * rng.normal(size=80) > 0).astype(int), rng.choice([0, 1, 3.0, 100.0], 80)
    model = LandmarkClassifier(Gaussian(0.8), 80, 1e-4, loss=loss, random_state=0)
    assert model.fit(X, y, sample_weight=w).dual_gap_ <= model.tol  # a warning is an error


@pytest.mark.parametrize("apart", [0.0, 1e-12, 1e-9])
def test_rows_that_differ_by_rounding_have_no_scale_of_their_own(apart: float) -> None:
    rows = 1 + apart * np.random.default_rng(0).normal(size=(10, 2))
    model = LandmarkClassifier(Gaussian(), alpha="auto").fit(rows, list("abbab") * 2)
    assert np.abs(model.decision_function([[1.0, 1.0], [0.0, 0.0]])).max() < 1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_hessian_that_rounding_made_singular() -> None:
    X = np.random.default_rng(0).normal(size=(20, 3))
    model = LandmarkClassifier(Gaussian(), 20, 1e-30, loss="squared_hinge", random_state=0)
    assert np.isfinite(model.fit(X, X[:, 0] > 0).predict_proba(X)).all()
