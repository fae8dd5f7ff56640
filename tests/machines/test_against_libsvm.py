"""Random problems, hard ones among them, against libsvm and against the definition of the gap."""

import warnings

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
    if seed % 10 == 3:
        K = np.full((m, m), 2.0)
    if seed % 10 == 7:
        K = X @ X.T
    classes = int(rng.integers(2, 5))
    labels = rng.integers(0, classes, size=m)
    labels[:2] = 0, 1
    if seed % 6 == 2:  # a class of one row
        labels = np.where(np.arange(m) == 1, 1, 0)
    weights = np.ones(m)
    if seed % 5 == 4:
        weights = rng.choice([0.0, 1e-3, 1.0, 1e3], size=m)
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
    """What the objectives may be off by: values are sums of large terms of both signs, times large C."""
    return 1e-14 * float((np.abs(K) @ np.abs(b)).max() * (boxes.sum() + np.abs(b).sum())) + 1e-300


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
    assert ours.objective_ == pytest.approx(dual, rel=1e-9, abs=1e-12)
    assert dual >= their_dual - TOL * abs(their_dual) - rounding
    if ours.converged_:
        assert (primal - dual) / size <= TOL + rounding / size
    assert ours.dual_gap_ == pytest.approx((primal - dual) / size, rel=1e-3, abs=rounding / size)


@pytest.mark.parametrize("seed", range(0, 200, 2))
def test_two_classes(seed: int) -> None:
    p = problem(seed)
    K, y = p["K"], (p["labels"] > 0).astype(int)
    ours = SVC("precomputed", p["C"], tol=TOL).fit(K, y, p["weights"])
    theirs = quiet(libsvm.SVC(C=p["C"], **LIBSVM), K, y, p["weights"])
    boxes, sign = p["C"] * p["weights"], np.where(y > 0, 1.0, -1.0)
    b, other = spread(ours, len(K)), spread(theirs, len(K))
    assert ((b * sign >= 0) & (b * sign <= boxes)).all()
    assert abs(b.sum()) <= 1e-12 * np.abs(b).sum() + 1e-300
    primal, dual = objectives("class", K, b, ours.intercept_[0], sign, boxes)
    _, their_dual = objectives("class", K, other, theirs.intercept_[0], sign, boxes)
    check_solution(ours, primal, dual, their_dual, rounding(K, b, boxes))
    # Both are near the optimum: values without bias are as near as the gaps say.
    theirs_primal, _ = objectives("class", K, other, theirs.intercept_[0], sign, boxes)
    gaps = np.sqrt(2 * max(primal - dual, 0)) + np.sqrt(2 * max(theirs_primal - their_dual, 0))
    reach = gaps * np.sqrt(np.diagonal(K)) + 1e-9 * (np.abs(K) @ (np.abs(b) + np.abs(other)))
    assert (np.abs(K @ (b - other)) <= reach).all()
    decision, their_decision = ours.decision_function(K), theirs.decision_function(K)
    clear = np.abs(their_decision) > reach + abs(ours.intercept_[0] - theirs.intercept_[0])
    np.testing.assert_array_equal(ours.predict(K)[clear], theirs.predict(K)[clear])
    np.testing.assert_array_equal(ours.predict(K), (decision > 0).astype(int))


@pytest.mark.parametrize("seed", range(1, 100, 2))
def test_regression(seed: int) -> None:
    p = problem(seed)
    K, y, boxes = p["K"], p["target"], p["C"] * p["weights"]
    ours = SVR("precomputed", p["C"], epsilon=p["epsilon"], tol=TOL).fit(K, y, p["weights"])
    theirs = quiet(libsvm.SVR(C=p["C"], epsilon=p["epsilon"], **LIBSVM), K, y, p["weights"])
    b = spread(ours, len(K))
    assert (np.abs(b) <= boxes).all()
    primal, dual = objectives("value", K, b, ours.intercept_[0], y, boxes, p["epsilon"])
    _, their_dual = objectives(
        "value", K, spread(theirs, len(K)), theirs.intercept_[0], y, boxes, p["epsilon"]
    )
    check_solution(ours, primal, dual, their_dual, rounding(K, b, boxes))


@pytest.mark.parametrize("seed", range(101, 200, 2))
def test_novelty(seed: int) -> None:
    p = problem(seed)
    K, weights, nu = p["K"], p["weights"], p["nu"]
    ours = OneClassSVM("precomputed", nu, tol=TOL).fit(K, sample_weight=weights)
    # Rows of weight zero are left out here: scikit-learn leaves them out too, but counts support_ wrong.
    kept = np.flatnonzero(weights)
    theirs = quiet(
        libsvm.OneClassSVM(nu=nu, **LIBSVM), K[np.ix_(kept, kept)], sample_weight=weights[kept]
    )
    b, rho = spread(ours, len(K)), ours.offset_[0]
    other = np.zeros(len(K))
    other[kept] = spread(theirs, len(kept))
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
