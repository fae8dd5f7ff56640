"""Nested cross-validation: scores of a choice on points that played no part in it."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit, StratifiedKFold
from sklearn.svm import SVC

from mercer.kernels import Gaussian, Heat, Linear
from mercer.selection import KernelSearchCV, NestedScores
from mercer.selection.significance import corrected_interval
from mercer.spaces import Sphere
from tests.helpers.words import COUNTS, HEATS, LABELS


def search(**options) -> KernelSearchCV:
    return KernelSearchCV(
        HEATS[-1], **({"param_grid": {"C": [1.0, 10.0]}, "cv": 3, "n_jobs": 1} | options)
    )


class _SeenPairs(SVC):
    """A machine that notes the sizes of what it is given."""

    seen: list = []  # noqa: RUF012 - shared on purpose

    def fit(self, X, y, sample_weight=None):
        self.seen.append(np.shape(X))
        return super().fit(X, y, sample_weight)


def test_nested_scores_are_those_of_a_loop() -> None:
    """The same as scikit-learn's search inside its own outer loop."""
    kernels = {"heat": HEATS, "flat": [Linear(), Gaussian(3.0)]}
    search = KernelSearchCV(kernels, param_grid={"C": [0.1, 1.0]}, cv=3)
    outer = StratifiedKFold(4, shuffle=True, random_state=0)
    nested = search.nested_scores(COUNTS, LABELS, outer_cv=outer)
    assert isinstance(nested, NestedScores)
    assert not hasattr(search, "cv_results_")
    for names, result in ((kernels, nested), *(([n], nested.families[n]) for n in kernels)):
        members = [kernel for name in names for kernel in kernels[name]]
        grid = GridSearchCV(SVC(), {"C": [0.1, 1.0], "kernel": members}, cv=3)
        for fold, (train, test) in enumerate(outer.split(COUNTS, LABELS)):
            grid.fit(COUNTS[train], LABELS[train])
            assert result.scores[fold] == grid.score(COUNTS[test], LABELS[test])
            assert result.chosen[fold]["kernel"] == grid.best_params_["kernel"]
            assert result.chosen[fold]["C"] == grid.best_params_["C"]
            assert result.inner_scores[fold] == pytest.approx(grid.best_score_)
            np.testing.assert_array_equal(result.predictions[fold], grid.predict(COUNTS[test]))
            np.testing.assert_array_equal(result.tests[fold], test)
        low, high = result.interval()
        assert low < result.mean < high
        assert repr(result) == f"<NestedScores of 4 folds: {result.mean:.4g} ({low:.4g} to {high:.4g})>"
    assert nested.overlap == pytest.approx(1 / 3, rel=0.05)


def test_nested_fits_see_no_test_rows() -> None:
    _SeenPairs.seen.clear()
    KernelSearchCV(HEATS[:1], _SeenPairs(), param_grid={"C": [1.0]}, cv=2).nested_scores(
        COUNTS, LABELS, outer_cv=3
    )
    assert sorted(_SeenPairs.seen) == [(30, 30)] * 6 + [(60, 60)] * 3


def test_nested_scores_of_noise_are_at_chance() -> None:
    """Over 30 sets of random labels; the score of the choice on the folds it was chosen by is not."""
    means, chosen = [], []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(60, 4)), rng.permutation(np.repeat([0, 1], 30))
        search = KernelSearchCV(
            [Gaussian(s) for s in (0.5, 2.0)] + [Heat(Sphere(), t=0.3)],
            param_grid={"C": [0.3, 3.0]},
            cv=3,
        )
        nested = search.nested_scores(X, y, outer_cv=StratifiedKFold(3, shuffle=True, random_state=seed))
        means.append(nested.mean)
        chosen.append(nested.inner_scores.mean())
    error = np.std(means, ddof=1) / np.sqrt(30)
    assert abs(np.mean(means) - 0.5) < 2 * error
    assert np.mean(chosen) - 0.5 > 3 * np.std(chosen, ddof=1) / np.sqrt(30)


@pytest.mark.parametrize("folds", [list, iter])
def test_fixed_folds_cannot_be_inner_folds(folds) -> None:
    """Their indices mean other points in each training part."""
    cv = folds(list(KFold(3).split(COUNTS)))
    with pytest.raises(ValueError, match="give a number or a splitter"):
        search(cv=cv).nested_scores(COUNTS, LABELS)


def test_one_outer_fold_has_no_interval() -> None:
    nested = search().nested_scores(COUNTS, LABELS, outer_cv=ShuffleSplit(1, random_state=0))
    with pytest.raises(ValueError, match="one fold tells nothing"):
        nested.interval()


def test_intervals_agree() -> None:
    nested = search().nested_scores(COUNTS, LABELS, outer_cv=3)
    assert nested.interval(0.9) == corrected_interval(nested.scores, nested.overlap, 0.9)


@pytest.mark.parametrize(
    ("scoring", "refit", "ends"),
    [
        (None, True, (0, 1)),
        ("f1_macro", True, (0, 1)),
        (["accuracy", "matthews_corrcoef"], "matthews_corrcoef", (-np.inf, 1)),
        ({"mine": "neg_mean_absolute_error"}, "mine", (-np.inf, 0)),
        (lambda model, K, y: 1 + model.score(K, y), True, (-np.inf, np.inf)),
    ],
)
def test_intervals_end_where_the_metric_does(scoring, refit, ends) -> None:
    own = search(scoring=scoring, refit=refit, solver="libsvm")
    nested = own.nested_scores(COUNTS, np.unique(LABELS, return_inverse=True)[1], outer_cv=2)
    nested = replace(nested, scores=nested.scores + np.array([-1, 1]))  # far apart
    low, high = corrected_interval(nested.scores, nested.overlap)
    assert nested.interval() == (max(low, ends[0]), min(high, ends[1]))
    assert low < -1 < 2 < high
