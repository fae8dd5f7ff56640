"""Tables and figures of the five documents, and where each is repeated."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Document:
    """A document, and for each of its tables, figures and worked examples the experiment or a reason."""

    title: str
    #: Names of experiments; a value that is none says why the item is not repeated.
    items: dict[str, str]


DOCUMENTS = (
    Document(
        "Exact heat kernel on a hypersphere and its applications in kernel SVM (2018)",
        {
            "Section 2.1, equations 4 to 6": "parametrix",
            "Figure 1": "sphere-heat",
            "Table 1": "webkb",
            "Table 2": "webkb",
            "Table 3": "gbm",
            "Figure 2": "gbm",
            "Figure 3": "gbm",
            "Table 4": "sp500",
        },
    ),
    Document(
        "Information diffusion kernels (2003)",
        {
            "Figure 1": "decision-boundaries",
            "Figure 2": "webkb-pairs",
            "Theorem 4": "not an experiment: a rate; mercer.bounds.covering_bound computes the bound",
        },
    ),
    Document(
        "Sparse Gaussian processes with spherical harmonic features, supplement (2020)",
        {
            "tables and figures": "none: the supplement has neither",
            "spectra, harmonics from d = 10 on": "harmonics",
        },
    ),
    Document(
        "Data mining and analysis, chapter 5",
        {
            "worked numbers": "textbook",
            "drawings of maps and of a graph": "not repeated: they illustrate and show no results",
        },
    ),
    Document(
        "Kernels for measures defined on the Gram matrix of their support (2009)",
        {"Table 1": "mnist-clouds"},
    ),
)
