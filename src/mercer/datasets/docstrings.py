"""Text that comes with every installation: docstrings of four libraries."""

from __future__ import annotations

import inspect
import pkgutil
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

from mercer.datasets.tables import Table

#: Package of each library, and its public modules that define ``__all__``.
_LIBRARIES = {
    "NumPy": ("numpy", ". .char .fft .linalg .ma .polynomial .random .rec .strings"),
    "SciPy": (
        "scipy",
        ".cluster.hierarchy .cluster.vq .fft .integrate .interpolate .io .linalg .ndimage .optimize "
        ".signal .sparse .sparse.csgraph .sparse.linalg .spatial .spatial.distance .special .stats",
    ),
    "scikit-learn": (
        "sklearn",
        ".cluster .compose .covariance .cross_decomposition .datasets .decomposition "
        ".discriminant_analysis .ensemble .feature_extraction .feature_selection .gaussian_process "
        ".impute .inspection .isotonic .linear_model .manifold .metrics .mixture .model_selection "
        ".multiclass .multioutput .naive_bayes .neighbors .neural_network .pipeline .preprocessing "
        ".random_projection .semi_supervised .svm .tree .utils",
    ),
    "pandas": (
        "pandas",
        ". .api.extensions .api.indexers .api.types .api.typing .errors .plotting .tseries.frequencies "
        ".tseries.offsets",
    ),
}

#: Largest number of documents of a library, and smallest number of characters of a document.
_DOCUMENTS, _LENGTH = 250, 300

#: Scikit-learn has these only after importing sklearn.experimental, which other code may have done.
_EXPERIMENTAL = {"HalvingGridSearchCV", "HalvingRandomSearchCV", "IterativeImputer"}

#: Blocks indented below a directive of code or formulas, or below a line that ends in two colons.
_LITERAL = re.compile(
    r"^( *)(?=\S)(?:\.\. (?:code|code-block|math|plot)::.*|((?!\.\. ).*)::)\n(?: *\n|\1 +\S.*\n?)*",
    re.MULTILINE,
)

#: Other text that is not prose.
_NO_PROSE = re.compile(
    r"""
    ^[ ]*>>>.*(?:\n[ ]*\S.*)*             # doctests, up to the blank line that ends their output
    | \A[\w.]+\([^)]*\).*                 # the signature that compiled functions start with
    | (?: :[\w:+-]+: )? `+[^`\n]+\n?[^`\n]*`+    # names and code in backticks, with their role
    | ^[ ]*\.\.[ ][\w-]+::                # directives
    | \w+://\S+                           # addresses
    | (?: \b[^\W\d]\w*\. )+ [^\W\d]\w*    # dotted names
    """,
    re.MULTILINE | re.VERBOSE,
)

_NAME, _WORD = re.compile(r"\w+"), re.compile(r"[^\W\d_]{3,}")

#: Words that contain the name of a library, such as to_numpy.
_TELLTALE = re.compile("numpy|scipy|scikit|sklearn|pandas")


def load_docstrings(*, as_text: bool = False) -> Table:
    """Docstrings of the installed NumPy, SciPy, scikit-learn and pandas; the class is the library.

    The documents are docstrings of functions, classes and methods of public modules, up to 250 per
    library, evenly spread over the sorted names.  They depend on the installed versions only.

    A document consists of the words of a docstring: runs of at least three letters, in lower case.
    Everything that would reveal the library is removed: code, doctests and formulas, names in
    backticks and dotted names, names of packages and modules (even plain words such as random),
    directives, addresses and numbers, and lines that occur in another docstring of the library.
    Docstrings with at most 300 remaining characters are ignored.

    Parameters
    ----------
    as_text : bool
        Return X as a list of strings, for other vectorisers or for string kernels.

    Returns
    -------
    Table
        X is a sparse matrix of counts of the words that occur in at least two documents, as
        ``CountVectorizer(min_df=2)`` counts them; ``y`` are the libraries, ``columns`` the words, and
        ``ids`` the names of the documented objects.

    Examples
    --------
    >>> from mercer.datasets import load_docstrings
    >>> table = load_docstrings()
    >>> sorted(set(table.y.tolist()))
    ['NumPy', 'SciPy', 'pandas', 'scikit-learn']
    >>> table.X.shape == (len(table.ids), len(table.columns))
    True
    """
    if sys.flags.optimize > 1:
        raise ValueError("docstrings are not available if Python runs with -OO; run it without")
    labels, names, texts = map(list, zip(*_all_documents(), strict=True))
    title, y, ids = f"docstrings of {', '.join(_LIBRARIES)}", np.array(labels), tuple(names)
    if as_text:
        return Table(title, texts, y, ids=ids)
    vectorizer = CountVectorizer(min_df=2)
    counts = vectorizer.fit_transform(texts)
    return Table(title, counts, y, columns=tuple(vectorizer.get_feature_names_out().tolist()), ids=ids)


@cache
def _all_documents() -> tuple[tuple[str, str, str], ...]:
    """Library, name and text of each document."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some names are deprecated
        removed = _names_of_modules()
        return tuple((library, *item) for library in _LIBRARIES for item in _documents(library, removed))


def _names_of_modules() -> set[str]:
    names = {"learn"}  # the rest of "scikit-learn"
    for package, modules in _LIBRARIES.values():
        names.update(module.name for module in pkgutil.iter_modules(import_module(package).__path__))
        names.update(re.findall(r"\w+", modules))
    return names


def _documents(library: str, removed: set[str]) -> list[tuple[str, str]]:
    """Names and texts of the documents of a library, sorted by name."""
    lines = {name: _lines(text, removed) for name, text in _docstrings(library).items()}
    docstrings_with = Counter(line for own in lines.values() for line in set(own))
    texts = {
        name: " ".join(line for line in own if docstrings_with[line] == 1) for name, own in lines.items()
    }
    long = sorted((name, text) for name, text in texts.items() if len(text) > _LENGTH)
    kept = min(len(long), _DOCUMENTS)
    return [long[i * len(long) // kept] for i in range(kept)]


def _lines(docstring: str, removed: set[str]) -> list[str]:
    """Lines of prose, as words separated by spaces."""
    prose = _NO_PROSE.sub(" ", _LITERAL.sub(r"\2\n", docstring)).lower()
    # Whole names first: linear_model is removed, linear and model are not.
    prose = _NAME.sub(lambda name: "" if name[0] in removed else name[0], prose)
    return [
        " ".join(w for w in _WORD.findall(line) if w not in removed and not _TELLTALE.search(w))
        for line in prose.splitlines()
    ]


def _docstrings(library: str) -> dict[str, str]:
    """Docstrings by qualified name; the first of those that are equal or have the same last name.

    Methods of related classes and functions of related modules have similar docstrings.
    """
    package, modules = _LIBRARIES[library]
    found: dict[str, str] = {}
    seen: set[str] = set()
    for name, value, owner in _public(package, modules):
        origin = getattr(value, "__module__", None) or owner
        own = origin.partition(".")[0] == package  # not from Python or another package
        text, last = inspect.getdoc(value) or "", name.rpartition(".")[2]
        if own and len(text) > _LENGTH and not {last, text} & seen:
            found[name] = text
            seen |= {last, text}
    return found


def _public(package: str, modules: str) -> Iterator[tuple[str, Any, str]]:
    """Functions, classes and methods, each with its name and the module of its owner."""
    for path in modules.split():
        module = import_module(package + path.rstrip("."))
        for name in sorted(set(module.__all__) - _EXPERIMENTAL):
            if name.startswith("_"):
                continue
            value, qualified = getattr(module, name), f"{module.__name__}.{name}"
            if inspect.isclass(value) or inspect.isroutine(value) or isinstance(value, np.ufunc):
                yield qualified, value, package
            if inspect.isclass(value):
                for member in inspect.classify_class_attrs(value):
                    if member.kind.endswith("method") and not member.name.startswith("_"):
                        owner = member.defining_class.__module__
                        yield f"{qualified}.{member.name}", member.object, owner
