"""Random problems, hard ones among them, against libsvm and against the definition of the gap."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from sklearn import svm as libsvm
from sklearn.exceptions import ConvergenceWarning

from mercer.machines import SVC, SVR, OneClassSVM

TOL = 1e-6
#: Where libsvm needs more steps than this, what it has then is still a point to compare with.
LIBSVM = {"kernel": "precomputed", "tol": TOL, "max_iter": 2_000_000, "cache_size": 50}


def problem(seed: int) -> dict:
    """A Gram matrix, labels, targets and weights; each kind of trouble comes up in some seeds."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(4, 60))
    X = rng.normal(size=(m, int(rng.integers(1, 6))))
    if seed % 4 == 1:  # duplicates, with labels that conflict
        X = X[rng.integers(0, max(2, m // 3), size=m)]
    K = np.exp(-rng.choice([0.05, 0.5, 5.0]) * ((X[:, None] - X) ** 2).sum(axis=2))
    if seed % 11 == 3:
        K = np.full((m, m), 2.0)
    if seed % 11 == 7:
        K = X @ X.T
    classes = int(rng.integers(2, 5))
    labels = rng.integers(0, classes, size=m)
    labels[:2] = 0, 1
    if seed % 6 == 2:  # a class of one row
        labels = np.where(np.arange(m) == 1, 1, 0)
    weights = np.ones(m)
    if seed % 5 == 4:
        weights = rng.choice([0.0, 1e-3, 1.0, 1e3, 1e6], size=m)
        weights[:2] = 1.0
    return {
        "K": K,
        "labels": labels,
        "target": X[:, 0] + rng.normal(size=m),
        "weights": weights,
        "C": float(10 ** rng.uniform(-6, 6)),
        "epsilon": float(rng.choice([0.0, 0.1, 1.0])),
        "nu": float(rng.uniform(0.05, 0.95)),
    }


def libsvm_on_rows_that_count(machine, K, weights, y=None) -> tuple:
    """libsvm's machine and its coefficients at all rows.

    scikit-learn leaves rows of weight zero out too, but then counts ``support_`` wrong.
    """
    kept = np.flatnonzero(weights)
    quiet(machine, K[np.ix_(kept, kept)], None if y is None else y[kept], sample_weight=weights[kept])
    coefficients = np.zeros(len(K))
    coefficients[kept] = spread(machine, len(kept))
    return machine, coefficients


def quiet(model, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*args, **kwargs)


def losses(kind: str, values, target, boxes, epsilon) -> float:
    """The primal objective's second part, from its definition."""
    if kind == "class":
        return float((boxes * np.maximum(0, 1 - target * values)).sum())
    return float((boxes * np.maximum(0, np.abs(target - values) - epsilon)).sum())


def objectives(kind: str, K, b, bias, target, boxes, epsilon=0.0) -> tuple[float, float]:
    """Primal and dual objective, from their definitions, in double precision."""
    norm = float(b @ K @ b) / 2
    primal = norm + losses(kind, K @ b + bias, target, boxes, epsilon)
    return primal, float(target @ b) - epsilon * float(np.abs(b).sum()) - norm


def rounding(K, b, boxes) -> float:
    """What the objectives may be off by: losses are sums of large terms of both signs, times large C."""
    largest = 1.0 + float((np.abs(K) @ np.abs(b)).max())
    return 1e-14 * largest * float(boxes.sum() + np.abs(b).sum())


def spread(model, m: int) -> np.ndarray:
    """Coefficients of a machine of one program, at all rows."""
    b = np.zeros(m)
    b[model.support_] = model.dual_coef_[0]
    return b


def check_solution(ours, primal: float, dual: float, their_dual: float, rounding: float) -> None:
    size = max(abs(primal), abs(dual), 1e-300)
    rounding += 1e-13 * size
    assert primal - dual >= -rounding
    assert ours.dual_gap_ >= 0
    assert ours.objective_ == pytest.approx(dual, rel=1e-9, abs=1e-12 + rounding)
    assert dual >= their_dual - TOL * abs(their_dual) - rounding
    if ours.converged_:
        assert (primal - dual) / size <= TOL + rounding / size
    else:
        assert rounding / size > TOL
    assert ours.dual_gap_ == pytest.approx((primal - dual) / size, rel=1e-3, abs=rounding / size)


def best_bias(slope, boxes, sign, b) -> float:
    """libsvm's bias: the mean slope inside the boxes, else the midpoint of the slopes at their ends."""
    movable = boxes > 0
    free = movable & (b != 0) & (np.abs(b) < boxes)
    if free.any():
        return float(slope[free].mean())
    can_rise = np.where(sign > 0, b == 0, b != 0) & movable
    can_fall = np.where(sign > 0, b != 0, b == 0) & movable
    return float(slope[can_rise].max() + slope[can_fall].min()) / 2


@pytest.mark.parametrize("seed", range(100))
def test_two_classes(seed: int) -> None:
    p = problem(seed)
    K, y = p["K"], (p["labels"] > 0).astype(int)
    ours = quiet(SVC("precomputed", p["C"], tol=TOL), K, y, p["weights"])
    boxes, sign = p["C"] * p["weights"], np.where(y > 0, 1.0, -1.0)
    b, bias = spread(ours, len(K)), float(ours.intercept_[0])
    assert ((b * sign >= 0) & (b * sign <= boxes)).all()
    assert abs(b.sum()) <= 1e-12 * np.abs(b).sum() + 1e-300
    slack = 1e-14 * float((np.abs(K) @ np.abs(b)).max())
    assert bias == pytest.approx(best_bias(sign - K @ b, boxes, sign, b), rel=1e-9, abs=1e-9 + slack)
    theirs, other = libsvm_on_rows_that_count(libsvm.SVC(C=p["C"], **LIBSVM), K, p["weights"], y)
    primal, dual = objectives("class", K, b, bias, sign, boxes)
    their_primal, their_dual = objectives("class", K, other, theirs.intercept_[0], sign, boxes)
    check_solution(ours, primal, dual, their_dual, rounding(K, b, boxes))
    # Both are near the optimum: values without bias are as near as the gaps say, and so is the bias.
    gaps = np.sqrt(2 * max(primal - dual, 0)) + np.sqrt(2 * max(their_primal - their_dual, 0))
    reach = gaps * np.sqrt(np.diagonal(K)) + 1e-9 * (np.abs(K) @ (np.abs(b) + np.abs(other)))
    assert (np.abs(K @ (b - other)) <= reach).all()
    reach_with_bias = reach + reach.max() + 10 * TOL
    their_decision = K @ other + theirs.intercept_[0]
    assert (np.abs(ours.decision_function(K) - their_decision) <= reach_with_bias).all()
    clear = np.abs(their_decision) > reach_with_bias
    np.testing.assert_array_equal(ours.predict(K)[clear], (their_decision > 0)[clear])
    np.testing.assert_array_equal(ours.predict(K), ours.decision_function(K) > 0)


def exact(numbers) -> list:
    return [Fraction(float(number)) for number in numbers]


def exact_gap(kind: str, K, b, bias: float, target, C: float, epsilon: float = 0.0) -> float:
    """The relative duality gap of coefficients in double precision, without any rounding.

    The objective of the nearest coefficients of sum zero is smaller by the sum times the bias, at most.
    """
    b, target, bias, epsilon = exact(b), exact(target), Fraction(bias), Fraction(epsilon)
    used = [j for j, own in enumerate(b) if own]
    values = [sum(entry * b[j] for j, entry in zip(used, exact(row[used]), strict=True)) for row in K]
    norm = sum(b[j] * values[j] for j in used) / 2
    off = [own - value - bias for own, value in zip(target, values, strict=True)]
    if kind == "class":
        off = [own * t for own, t in zip(off, target, strict=True)]
    losses = [max(0, (abs(own) if kind == "value" else own) - epsilon) for own in off]
    primal = norm + Fraction(C) * sum(losses)
    dual = sum(own * t for own, t in zip(b, target, strict=True)) - epsilon * sum(map(abs, b)) - norm
    return float((primal - dual + abs(bias * sum(b))) / max(abs(primal), abs(dual)))


@pytest.mark.parametrize("kind", ["class", "value"])
@pytest.mark.parametrize("size", [1.0, 1e3, 1e6, 1e9, 1e12, 1e14])
@pytest.mark.parametrize("by", ["C", "kernel", "both"])
def test_the_stated_gap_is_a_bound_in_exact_arithmetic(kind: str, size: float, by: str) -> None:
    """Also where C k(x, x) is so large that rounding hides the gap."""
    X = np.random.default_rng(0).normal(size=(40, 2))
    scale = {"C": 1.0, "kernel": size, "both": np.sqrt(size)}[by]
    K, C = scale * np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2)), size / scale
    target = (
        np.where(np.random.default_rng(1).normal(size=40) > 0, 1.0, -1.0) + (kind == "value") * X[:, 0]
    )
    epsilon = 0.1 if kind == "value" else 0.0
    machine = SVC("precomputed", C) if kind == "class" else SVR("precomputed", C, epsilon=epsilon)
    machine = quiet(machine, K, target)
    found = exact_gap(kind, K, spread(machine, 40), float(machine.intercept_[0]), target, C, epsilon)
    assert 0 <= found <= machine.dual_gap_
    assert machine.dual_gap_ <= 1e-13 * size or machine.dual_gap_ <= machine.tol
    assert machine.converged_ == (machine.dual_gap_ <= machine.tol)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("level", [1.0, 1e5, 1e9])
def test_the_stated_gap_of_targets_far_from_zero_is_a_bound(seed: int, level: float) -> None:
    random = np.random.default_rng(seed)
    X = random.normal(size=(60, 1))
    K, target = np.exp(-((X - X.T) ** 2)), level + X[:, 0] + random.normal(size=60)
    machine = quiet(SVR("precomputed", 10.0), K, target)
    found = exact_gap("value", K, spread(machine, 60), float(machine.intercept_[0]), target, 10.0, 0.1)
    assert 0 <= found <= machine.dual_gap_
    assert machine.converged_


def test_a_gap_that_rounding_hides_is_not_stated_as_zero() -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    K = 1e12 * np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    with pytest.warns(ConvergenceWarning, match=r"rounding hides smaller ones.*lower C"):
        machine = SVC("precomputed").fit(K, np.random.default_rng(1).normal(size=40) > 0)
    assert machine.dual_gap_ > machine.tol
    assert not machine.converged_


@pytest.mark.parametrize("seed", range(100, 150))
def test_regression(seed: int) -> None:
    p = problem(seed)
    K, y, boxes = p["K"], p["target"], p["C"] * p["weights"]
    ours = quiet(SVR("precomputed", p["C"], epsilon=p["epsilon"], tol=TOL), K, y, p["weights"])
    machine = libsvm.SVR(C=p["C"], epsilon=p["epsilon"], **LIBSVM)
    theirs, other = libsvm_on_rows_that_count(machine, K, p["weights"], y)
    b = spread(ours, len(K))
    assert (np.abs(b) <= boxes).all()
    primal, dual = objectives("value", K, b, ours.intercept_[0], y, boxes, p["epsilon"])
    _, their_dual = objectives("value", K, other, theirs.intercept_[0], y, boxes, p["epsilon"])
    check_solution(ours, primal, dual, their_dual, rounding(K, b, boxes))


@pytest.mark.parametrize("seed", range(150, 200))
def test_novelty(seed: int) -> None:
    p = problem(seed)
    K, weights, nu = p["K"], p["weights"], p["nu"]
    ours = quiet(OneClassSVM("precomputed", nu, tol=TOL), K, sample_weight=weights)
    _, other = libsvm_on_rows_that_count(libsvm.OneClassSVM(nu=nu, **LIBSVM), K, weights)
    b, rho = spread(ours, len(K)), ours.offset_[0]
    assert ((b >= 0) & (b <= weights)).all()
    assert b.sum() == pytest.approx(nu * weights.sum())
    norm = float(b @ K @ b) / 2
    primal = norm - rho * nu * weights.sum() + float((weights * np.maximum(0, rho - K @ b)).sum())
    their_dual = -float(other @ K @ other) / 2
    check_solution(ours, primal, -norm, their_dual, rounding(K, b, weights))


@pytest.mark.parametrize("seed", range(0, 60, 3))
def test_several_classes(seed: int) -> None:
    p = problem(seed)
    K, y = p["K"], p["labels"]
    C = min(p["C"], 1e3)
    ours = SVC("precomputed", C, tol=1e-9, decision_function_shape="ovo").fit(K, y)
    theirs = quiet(libsvm.SVC(C=C, decision_function_shape="ovo", **LIBSVM), K, y)
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    assert ours.dual_coef_.shape[0] == theirs.dual_coef_.shape[0]
    assert len(ours.dual_gaps_) == len(theirs.intercept_)
    assert ours.dual_gap_ == ours.dual_gaps_.max() <= 1e-9
    np.testing.assert_array_equal(np.repeat(ours.classes_, ours.n_support_), y[ours.support_])
