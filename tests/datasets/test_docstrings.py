"""The docstrings of four libraries as a data set."""

import hashlib
import os
import pkgutil
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer

from mercer.datasets import Table, load_docstrings
from mercer.datasets.docstrings import _lines
from mercer.kernels import Heat
from mercer.spaces import Simplex

PACKAGES = ("numpy", "scipy", "sklearn", "pandas")
ALIASES = {"np", "sp", "pd", "plt", "scikit", "learn"}


@pytest.fixture(scope="module")
def table() -> Table:
    return load_docstrings()


@pytest.fixture(scope="module")
def texts() -> Table:
    return load_docstrings(as_text=True)


def digest(table: Table) -> str:
    parts = (table.ids, table.columns, table.y.tolist(), table.X.toarray().tolist())
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def test_sizes(table) -> None:
    assert table.X.format == "csr"
    assert table.X.shape == (len(table.y), len(table.columns)) == (len(table.ids), len(table.columns))
    libraries, documents = np.unique(table.y, return_counts=True)
    assert libraries.tolist() == ["NumPy", "SciPy", "pandas", "scikit-learn"]
    assert (documents >= 150).all()
    assert (documents <= 250).all()
    assert len(set(table.ids)) == len(table.ids)
    assert len(table.columns) > 2000


def test_rows_are_documents(table, texts) -> None:
    assert (texts.ids, texts.y.tolist()) == (table.ids, table.y.tolist())
    assert min(map(len, texts.X)) > 300
    vectorizer = CountVectorizer(min_df=2)
    np.testing.assert_array_equal(vectorizer.fit_transform(texts.X).toarray(), table.X.toarray())
    assert tuple(vectorizer.get_feature_names_out()) == table.columns
    assert table.X.sum(axis=1).min() > 10
    assert (table.X > 0).sum(axis=0).min() >= 2
    assert len(set(texts.X)) == len(texts.X)


def test_kernels_take_them(table) -> None:
    K = Heat(Simplex())(table.X[:20])
    np.testing.assert_allclose(np.diag(K), 1.0)


def test_no_name_gives_the_library_away(table, texts) -> None:
    modules = {m.name for p in PACKAGES for m in pkgutil.iter_modules(import_module(p).__path__)}
    paths = {name.rpartition(".")[0] for name in table.ids}
    modules |= {part for path in paths if path in sys.modules for part in path.split(".")}
    spoken = {word for text in texts.X for word in text.split()}
    assert not spoken & (modules | ALIASES)
    assert not [w for w in spoken if re.search("numpy|scipy|scikit|sklearn|pandas", w)]
    assert all(re.fullmatch(r"[^\W\d_]{3,}", word) and word.islower() for word in spoken)


def test_templates_are_left_out(texts) -> None:
    """Neither sections that all have nor notices that one library puts everywhere."""
    for library in np.unique(texts.y):
        own = [text for text, y in zip(texts.X, texts.y, strict=True) if y == library]
        for notice in (
            "array api standard support",
            "freshly allocated array returned",
            "read more the",
        ):
            assert sum(notice in text for text in own) <= 2


def test_words_of_a_docstring() -> None:
    docstring = """\
area(x, y, *, where=None)

Area of the `x` by :func:`~scipy.special.y` plane of SciPy arrays, see
numpy.linalg.norm or https://scipy.org/area and to_numpy, linear_model.

.. versionadded:: 1.2
    Option ``where``.

It is computed as::

    product = length * breadth

where both are n_samples long.

.. math::

    hidden = formula

>>> import numpy as np
>>> area(2, 3)
array output

Last line.
"""
    found = " ".join(filter(None, _lines(docstring, {"linear_model", "arrays"})))
    assert found == ("area the plane see and option computed where both are samples long last line")


#: What other packages do: enable what is experimental, add methods.
OTHERS = """
import pandas
from sklearn.experimental import enable_halving_search_cv, enable_iterative_imputer
def added(): pass
added.__doc__ = " ".join(f"word{i} of a method that is not of the library" for i in range(50))
pandas.DataFrame.added = added
"""


def test_the_same_in_every_process(table) -> None:
    """Whatever other packages have done there, and without a warning."""
    code = f"{OTHERS}\nfrom tests.datasets.test_docstrings import *; print(digest(load_docstrings()))"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True,
        env={**os.environ, "PYTHONHASHSEED": "2"}, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert run.stdout.strip() == digest(table), run.stderr


def test_without_docstrings(monkeypatch) -> None:
    flags = SimpleNamespace(optimize=2)
    monkeypatch.setattr("mercer.datasets.docstrings.sys", SimpleNamespace(flags=flags))
    with pytest.raises(ValueError, match="Python runs with -OO; run it without"):
        load_docstrings()
