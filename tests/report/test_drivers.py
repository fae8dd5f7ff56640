"""What drives the best kernel, in the report."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from mercer.explain import explain
from mercer.kernels import Gaussian, Heat, Linear, On, Spectrum
from mercer.report.drivers import drivers
from mercer.report.html import render
from mercer.selection import compare
from mercer.spaces import Simplex
from tests.helpers.comparisons import HOSTILE, comparison


def test_what_drives_it() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)) * [1.0, 3.0, 1.0]  # the second column is noise, and wide
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 2]
    result = compare(X, y, kernels={"Gaussian": [Gaussian(2.0)]}, folds=2, n_jobs=1)
    found = drivers(replace(result, columns=("ph", "depth", HOSTILE)))
    assert found is not None
    assert found.columns[0].name == "ph"
    assert found.columns[0].length == 100
    assert not found.charts
    assert "move predictions" not in render(result, "Gaussian")
    linear = compare(X, y, kernels={"linear": [Linear()]}, folds=2, n_jobs=1)
    exact = drivers(linear)
    assert exact is not None
    assert exact.exact
    means = explain(linear.scores[0].search.best_estimator_, X).typical()
    assert [bar.value for bar in exact.charts[0][1]] == [f"{value:.3g}" for value in means["size"]]
    assert "move predictions" in render(linear, "linear")
    page = render(replace(result, columns=(HOSTILE,) * 3), "Gaussian")
    assert '<section id="drivers"' in page
    assert HOSTILE not in page


def test_columns_that_cannot_be_shuffled_alone() -> None:
    """Counts of one word each have no composition if that word is moved to another row."""
    counts = np.tile(np.eye(3), (10, 1)) * 5
    y = np.where(counts[:, 0] > 0, "a", "b")
    found = drivers(compare(counts, y, kernels={"heat": [Heat(Simplex())]}, folds=2, n_jobs=1))
    assert found is not None
    assert not found.columns
    assert {title for title, _ in found.charts} == {"a", "b"}


def test_what_drives_wide_tables() -> None:
    rng = np.random.default_rng(0)
    X = rng.poisson(2.0, size=(30, 40)) + 1.0
    y = np.where(X[:, 0] > 3, "a", "b")
    result = compare(X, y, kernels={"heat": [Heat(Simplex())]}, folds=2, n_jobs=1)
    found = drivers(result)
    assert found is not None
    assert not found.columns
    assert not found.exact
    assert {title for title, _ in found.charts} == {"a", "b"}
    assert "to first order" in render(result, "heat")


@pytest.mark.parametrize(
    ("kind", "what"), [("strings", "substrings"), ("nodes", "neighbours"), ("clouds", None)]
)
def test_what_drives_other_kinds(kind: str, what: str | None) -> None:
    found = drivers(comparison(kind))
    assert (found and found.what) == what


def test_nodes_have_the_names_of_the_file() -> None:
    result = comparison("nodes")
    plain = drivers(result)
    named = drivers(result, tuple(f"paper {i}" for i in range(9999)))
    assert plain is not None
    assert named is not None
    for (_, numbers), (_, names) in zip(plain.charts, named.charts, strict=True):
        shown = [f"paper {bar.name}" if bar.name.isdecimal() else bar.name for bar in numbers]
        assert [bar.name for bar in names] == shown


def test_parts_of_a_table_that_drive_it() -> None:
    table = np.random.default_rng(0).normal(size=(40, 3))
    kernel = On([0, 1], Gaussian(1.0)) + On(2, Gaussian(1.0))
    y = np.where(table[:, 0] > 0, "p", "n")
    result = compare(table, y, kernels={"parts": [kernel]}, folds=2, n_jobs=1)
    found = drivers(result)
    assert found is not None
    assert [bar.name for bar in found.blocks] == ["0, 1", "2"]
    assert "which the model was fitted to" in render(result, "parts")


def test_parts_that_do_not_matter_have_no_features() -> None:
    rng = np.random.default_rng(0)
    words = [" ".join(rng.choice(["red", "old", "new", "big"], 3)) for _ in range(60)]
    table = pd.DataFrame({"note": words, "gene": ["".join(rng.choice(list("AC"), 9)) for _ in words]})
    y = np.where(table.note.str.contains("red"), "p", "n")
    kernel = On("note", Linear()) + 0.01 * On("gene", Spectrum(1))
    found = drivers(compare(table, y, kernels={"parts": [kernel]}, folds=2, n_jobs=1))
    assert found is not None
    assert [bar.name for bar in found.blocks] == ["note", "gene"]
    assert found.what == "words"
